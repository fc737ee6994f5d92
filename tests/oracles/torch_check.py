#!/usr/bin/env python3
"""Compares kvshift.torch with the library.

usage: torch_check.py KVSHIFT [--only TEXT]

numbers: logits and gradients of every form, target and window, with both bodies, against the
    package's Trainer, and the module Shift against both.
state: packed = separate, cached = uncached, padding on either side = none, for the module.
generation: beams, a static cache, assisted decoding and prompt lookup give the ids of a search
    without a cache.
interchange: the command's folder, a step in PyTorch, the command; and back.  One file and shards.
retrofit: Llama, Mistral, Qwen2 and Qwen3 get a shift; the command computes the same.
attention: sdpa, eager and flex agree; the arguments of flash attention, checked with a stub;
    torch.compile in one graph; what is refused.
plans: tensor parallelism and FSDP2 in two processes, with gloo.
Exits 77 where a module is missing.
"""
import argparse
import itertools
import os
import subprocess
import sys
import tempfile

try:
    import numpy
    import torch
    import torch.nn.functional as F
    import transformers
    from transformers import AutoModelForCausalLM, DynamicCache, GenerationConfig, StaticCache

    import kvshift
    import kvshift.torch
    from kvshift.torch import Shift, modeling_kvshift, param_groups, retrofit
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

LIMIT = 3e-6  # of a difference, relative to the largest value: float32 sums in another order
# The gradient of a tap is a sum over all tokens and channels whose terms largely cancel, so that it is
# less exact relative to itself.
CANCELLED = 1e-5
VOCAB, TOKENS, CONTEXT = 61, 23, 48
SHAPE = {"vocab": VOCAB, "dim": 32, "layers": 2, "heads": 4, "context": CONTEXT, "init-std": 0.2}
BODIES = {"llama": {"kv-heads": 2, "ffn": 48}, "gpt2": {}}

failed, worst = [], {}


def check(name, condition, detail=""):
    print(f"{'ok   ' if condition else 'WRONG'} {name} {detail}", flush=True)
    if not condition:
        failed.append(name)


def close(name, found, expected, limit=LIMIT, group=None, quiet=False):
    size = ((found - expected).abs().max() / expected.abs().max().clamp(min=1e-30)).item()
    worst[group or name] = max(worst.get(group or name, 0.0), size)
    if not quiet or not size <= limit:
        check(name, size <= limit, f"{size:.1e}")


def refuses(name, call, words):
    try:
        call()
    except (ValueError, TypeError, RuntimeError) as problem:
        check(name, words in str(problem) and "\n" not in str(problem), f"({problem})")
    else:
        check(name, False, "(accepted)")


def tokens(*shape, seed=0, vocab=VOCAB):
    return torch.randint(1, vocab, shape, generator=torch.manual_seed(seed))


def shifts(bodies=tuple(BODIES)):
    """Every form, target and window."""
    for body, form, targets in itertools.product(bodies, modeling_kvshift.CHOICES["form"],
                                                 ["k", "v", "kv", "qkv"]):
        for window in [1] if form in ("gate", "data", "hard") else [1, 2, 3]:
            settings = {"body": body, "shift": targets, "shift-form": form, "shift-window": window}
            if form == "hard":
                settings.update({"positions": "rope", "rotary-fraction": 0.5})
            yield settings


def made(folder, number, **settings):
    """A random model of the library, and the folder it writes."""
    body = settings.get("body", "llama")
    model = kvshift.Model.create(seed=number + 1, runtime=kvshift.Runtime(threads=1),
                                 **{**SHAPE, **BODIES[body], **settings})
    path = os.path.join(folder, f"model{number}")
    model.save(path)
    return model, path


def opened(path, **settings):
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, **settings).eval()
    model.generation_config = GenerationConfig(do_sample=False, pad_token_id=0)
    return model


def as_torch(array):
    return torch.from_numpy(numpy.ascontiguousarray(array))


# ---- numbers -------------------------------------------------------------------------------------

def check_numbers(folder):
    count = 0
    for number, settings in enumerate(shifts()):
        ours, path = made(folder, number, **settings)
        name = " ".join(map(str, settings.values()))
        model, rows = opened(path), tokens(3, TOKENS, seed=number)
        with torch.no_grad():
            found = model(rows).logits
        expected = torch.stack([as_torch(ours.logits(row.tolist())) for row in rows])
        close(f"{name}: logits", found, expected, group="logits", quiet=True)
        trainer = kvshift.Trainer(ours, batch=3, steps=1)
        loss, gradients = trainer.gradients(rows.tolist())
        out = model.train()(rows, labels=rows)
        out.loss.backward()
        close(f"{name}: loss", out.loss.detach(), torch.tensor(loss), group="loss", quiet=True)
        found = {path: params.grad for path, params in model.named_parameters()}
        check_names = sorted(gradients) == sorted(path for path in found)
        if not check_names:
            check(f"{name}: names", False, sorted({*gradients} ^ {*found}))
            continue
        close(f"{name}: gradients", torch.cat([found[path].flatten() for path in gradients]),
              torch.cat([as_torch(gradient) for gradient in gradients.values()]),
              group="gradients", quiet=True)
        for path, expected in gradients.items():
            close(f"{name}: gradient of {path}", found[path].flatten(), as_torch(expected),
                  CANCELLED if path.endswith("_shift") else LIMIT,
                  group="taps" if path.endswith("_shift") else "tensors", quiet=True)
        count += 1
    print(f"     {count} models: logits {worst['logits']:.1e}, losses {worst['loss']:.1e}, "
          f"gradients {worst['gradients']:.1e} of the largest; tensor by tensor "
          f"{worst['tensors']:.1e}, taps {worst['taps']:.1e}")
    check("every form, target, window and body", count == 2 * 4 * (4 * 3 + 3), count)


def check_module(folder):
    """The module gives what the layers of the model compute."""
    for number, settings in enumerate(shifts(["llama"])):
        ours, path = made(folder, 1000 + number, **settings)
        name = " ".join(map(str, settings.values()))
        layer, x = opened(path).model.layers[0].self_attn, torch.randn(2, 11, 32)
        shift = Shift(settings["shift"], heads=4, kv_heads=2, size=8, form=settings["shift-form"],
                      window=settings["shift-window"], inputs=32)
        shift.load_state_dict({key: value for key, value in layer.state_dict().items()
                               if key.endswith("_shift")})
        modeling = modeling_kvshift.mixed
        same = 0.0 if settings["shift-form"] != "data" else 1e-6  # a product, for its gates
        inputs = {"inputs": x} if settings["shift-form"] == "data" else {}
        with torch.no_grad():
            rows = [row.unflatten(-1, (-1, 8)) for row in layer.project(x)]
            whole = shift(*rows, **inputs)

            def part(span, state, **more):
                return shift(*(row[:, span] for row in rows), state,
                             **{key: value[:, span] for key, value in inputs.items()}, **more)

            state, pieces = None, []
            for span in slice(0, 1), slice(1, 2), slice(2, 7), slice(7, 11):
                *found, state = part(span, state)
                pieces.append(found)
            for own, target in enumerate("qkv"):
                close(f"{name}: {target} in parts", torch.cat([p[own] for p in pieces], dim=1),
                      whole[own], same, quiet=True)
            for target, row in zip("qkv", rows):
                if target in settings["shift"]:
                    raw = F.pad(row.transpose(1, 2), (0, 0, layer.depth, 0))
                    expected = modeling(settings["shift-form"],
                                        getattr(layer, f"{target}_shift", None), raw, 11, x)
                    close(f"{name}: {target} of the model", whole["qkv".index(target)],
                          expected.transpose(1, 2), same, quiet=True)
            # Two documents in a row are the two alone; padding on either side is as if not there.
            alone = [part(slice(0, 4), None), part(slice(4, 11), None)]
            ids = torch.tensor([[0] * 4 + [1] * 7] * 2)
            places = torch.tensor([[*range(4), *range(7)]] * 2)
            for what, more in (("seq_idx", {"seq_idx": ids}), ("position_ids", {"position_ids": places})):
                packed = shift(*rows, **inputs, **more)
                for own, target in enumerate("qkv"):
                    close(f"{name}: {target} packed by {what}", packed[own],
                          torch.cat([alone[0][own], alone[1][own]], dim=1), same, quiet=True)
            for side, pads in ("left", (3, 0)), ("right", (0, 3)):
                wide = [F.pad(row, (0, 0, 0, 0, *pads), value=7.0) for row in rows]
                mask = F.pad(torch.ones(2, 11), pads)
                more = {key: F.pad(value, (0, 0, *pads)) for key, value in inputs.items()}
                *found, state = shift(*wide, attention_mask=mask, **more)
                for own, target in enumerate("qkv"):
                    close(f"{name}: {target} with padding, {side}", found[own][:, pads[0]:pads[0] + 11],
                          whole[own], same, quiet=True)
                for target in settings["shift"]:
                    close(f"{name}: state of {target} with padding, {side}", state[target],
                          whole[3][target], 0.0, quiet=True)
    check("the module Shift", not any("packed" in name or "padding" in name for name in failed))
    shift = Shift("kv", heads=2, size=4)
    before = shift.k_shift.detach().clone()
    check("taps stay in float32, with all bits", shift.to(torch.bfloat16).k_shift.equal(before)
          and shift.k_shift.dtype == torch.float32)
    refuses("an unknown form", lambda: Shift("kv", 2, 4, form="soft"), "form")
    refuses("a window of 2 with a gate", lambda: Shift("kv", 2, 4, form="gate", window=2), "window")
    refuses("identity with form data", lambda: Shift("kv", 2, 4, form="hard", init="identity"), "init")


# ---- generation ----------------------------------------------------------------------------------

GENERATION = [{"shift": "kv"}, {"shift": "qkv", "shift-form": "channel", "shift-window": 3},
              {"shift": "kv", "shift-form": "data"}, {"shift": "kv", "positions": "alibi"},
              {"shift": "kv", "shift-window": 2, "sliding-window": 4},
              {"shift": "kv", "sliding-window": 6, "sliding-layers": "1"},
              {"shift": "none", "positions": "alibi"}, {"shift": "k", "body": "gpt2"},
              {"shift": "kv", "shift-form": "residual", "shift-window": 3, "filters": "branches",
               "filter-window": 2, "mlp-factor": True, "positions": "relative", "qk-norm": "head",
               "score-divisor": "size", "score-growth": 0.3, "sliding-window": 5,
               "sliding-layers": "0"}]


def check_generation(folder):
    for number, settings in enumerate(GENERATION):
        ours, path = made(folder, number, **settings)
        model, name = opened(path), " ".join(f"{key} {value}" for key, value in settings.items())
        draft = opened(made(folder, 100 + number, **settings)[1])
        ids = tokens(2, 9, seed=number)
        close(f"{name}: logits", model(ids).logits[0], as_torch(ours.logits(ids[0].tolist())))
        mask = torch.ones_like(ids)
        mask[1, :4] = 0
        for beams, length in (1, 20), (3, 12):
            plain = model.generate(ids, attention_mask=mask, num_beams=beams, use_cache=False,
                                   max_new_tokens=length)
            for what, more in (("dynamic", {}), ("static", {"cache_implementation": "static"})):
                found = model.generate(ids, attention_mask=mask, num_beams=beams,
                                       max_new_tokens=length, **more)
                check(f"{name}: {beams} beams, {what} cache", found.equal(plain))
        single = model.generate(ids[1:, 4:], max_new_tokens=12, use_cache=False)
        check(f"{name}: padded on the left = alone",
              model.generate(ids, attention_mask=mask, max_new_tokens=12)[1:, 4:].equal(single))
        one = ids[:1]
        plain = model.generate(one, use_cache=False, max_new_tokens=24)
        for what, more in (("another model", {"assistant_model": draft}),
                           ("itself", {"assistant_model": model}),
                           ("prompt lookup", {"prompt_lookup_num_tokens": 3})):
            found = model.generate(one, max_new_tokens=24, **more)
            check(f"{name}: assisted by {what}", found.equal(plain))
        cache = DynamicCache()
        model(one[:, :1], past_key_values=cache)
        cache.crop(-1) if settings["shift"] == "none" and "sliding-window" not in settings else None
        if settings["shift"] != "none":
            refuses(f"{name}: crop without recorded rows", lambda: cache.crop(-1), "crop")
        cache = StaticCache(config=model.config, max_cache_len=20)
        pieces = [model(ids[:, a:b], past_key_values=cache, attention_mask=mask[:, :b]).logits
                  for a, b in ((0, 5), (5, 6), (6, 9))]
        there = mask.bool()
        close(f"{name}: static cache in parts", torch.cat(pieces, 1)[there],
              model(ids, attention_mask=mask).logits[there])
        right = torch.cat([ids[1:, 4:], ids[1:, :4]], dim=1)
        close(f"{name}: padded on the right = alone",
              model(right, attention_mask=mask[1:].flip(1)).logits[:, :5],
              model(right[:, :5]).logits)


# ---- interchange ---------------------------------------------------------------------------------

ALONE = f"""
import sys, torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], trust_remote_code=True).eval()
assert "transformers_modules" in type(model).__module__ and "kvshift.torch" not in sys.modules
with torch.no_grad():
    torch.save(model(torch.arange(1, {TOKENS})[None]).logits[0], sys.argv[2])
"""


def check_interchange(folder, command):
    for number, (body, form) in enumerate(itertools.product(BODIES, ["free", "channel", "data"])):
        for shards in False, True:
            name = f"{body} {form}, {'shards' if shards else 'one file'}"
            ours, path = made(folder, 10 * number + shards, body=body, shift="kv",
                              **{"shift-form": form})
            if shards:
                source, path = path, f"{path}-shards"
                subprocess.run([command, "convert", source, path, "--shard-size", "10KB"], check=True,
                               stdout=subprocess.DEVNULL)
                check(f"{name}: several files",
                      os.path.exists(os.path.join(path, "model.safetensors.index.json")))
            model, rows = opened(path).train(), tokens(4, TOKENS, seed=number)
            groups = model.param_groups(lr=1e-2, weight_decay=0.1)
            # With the usual epsilon the first step is the sign of the gradient.
            optimizer = torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.95), eps=1e-2)
            model(rows, labels=rows).loss.backward()
            optimizer.step()
            stepped = f"{path}-stepped"
            model.save_pretrained(stepped, max_shard_size="10KB" if shards else "1GB")
            with torch.no_grad():
                expected = model.eval()(rows).logits
            loaded = kvshift.Model.load(stepped, mapped=False, runtime=kvshift.Runtime(threads=1))
            close(f"{name}: the library after a step of PyTorch", torch.stack(
                [as_torch(loaded.logits(row.tolist())) for row in rows]), expected, group=name)
            check(f"{name}: the folder has the Python file",
                  os.path.exists(os.path.join(stepped, "modeling_kvshift.py")))
            # The same step there, from the same start.
            step = kvshift.Trainer(ours, batch=4, steps=1, lr=1e-2, warmup=0, clip=0,
                                   schedule="constant", eps=1e-2, **{"weight-decay": 0.1})
            step.step_batch(rows.tolist())
            for path_of, params in model.named_parameters():
                close(f"{name}: {path_of} after a step of both", params.detach().flatten(),
                      as_torch(ours.tensor(path_of)), 1e-5, group="step", quiet=True)
            # And back: a step of the library on what PyTorch wrote, read by PyTorch.
            kvshift.Trainer(loaded, batch=4, steps=1, lr=1e-2, warmup=0).step_batch(rows.tolist())
            loaded.save(f"{path}-back")
            with torch.no_grad():
                found = opened(f"{path}-back")(rows).logits
            close(f"{name}: PyTorch after a step of the library", found, torch.stack(
                [as_torch(loaded.logits(row.tolist())) for row in rows]), group=name)
    print(f"     weights after a step of both: {worst['step']:.1e} of the largest")
    for body in BODIES:  # a run folder needs no package
        path = os.path.join(folder, f"run-{body}")
        subprocess.run([command, "train", "--task", "induction", "--vocab", str(VOCAB), "--pool", "30",
                        "--body", body, "--shift", "kv", "--dim", "32", "--heads", "4", "--steps", "2",
                        "--batch", "4", "--eval-sequences", "4", "--threads", "1", "--quiet", "--out",
                        path], check=True, stdout=subprocess.DEVNULL)
        ours = kvshift.Model.load(path, runtime=kvshift.Runtime(threads=1))
        found = os.path.join(folder, "logits.pt")
        subprocess.run([sys.executable, "-c", ALONE, path, found], check=True, cwd=folder, env={
            key: value for key, value in os.environ.items() if key != "PYTHONPATH"})
        close(f"run folder, {body}, with its own file", torch.load(found),
              as_torch(ours.logits(list(range(1, TOKENS)))))


# ---- retrofit ------------------------------------------------------------------------------------

def plain_models():
    shape = {"vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
             "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": CONTEXT,
             "initializer_range": 0.2, "pad_token_id": 0}
    llama3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0, "low_freq_factor": 1.0,
              "high_freq_factor": 4.0, "original_max_position_embeddings": 16}
    yarn = {"rope_type": "yarn", "rope_theta": 1000.0, "factor": 2.0,
            "original_max_position_embeddings": 24}
    sliding = ["full_attention", "sliding_attention", "sliding_attention"]
    for name, settings in (
            ("Llama", {}), ("Llama", {"tie_word_embeddings": True, "attention_bias": True}),
            ("Llama", {"mlp_bias": True, "head_dim": 12, "rope_parameters": llama3}),
            ("Llama", {"rope_parameters": yarn}),
            ("Mistral", {"sliding_window": 5, "head_dim": 8}), ("Mistral", {"sliding_window": None}),
            ("Qwen2", {}),
            ("Qwen2", {"use_sliding_window": True, "sliding_window": 5, "layer_types": sliding}),
            ("Qwen3", {"head_dim": 16}), ("Qwen3", {"head_dim": 16, "attention_bias": True})):
        config = getattr(transformers, f"{name}Config")(**{**shape, **settings})
        yield f"{name} {settings}", getattr(transformers, f"{name}ForCausalLM")(config).eval()


def check_retrofit(folder):
    for number, (name, model) in enumerate(plain_models()):
        torch.manual_seed(number)
        with torch.no_grad():
            for part, params in model.named_parameters():
                if part.endswith("bias") or "norm" in part:
                    params.add_(0.3 * torch.randn_like(params))
        ids, before = tokens(2, 17, seed=number), dict(model.named_parameters())
        with torch.no_grad():
            expected = model(ids).logits
            same = retrofit(model)
            found = model(ids).logits
        check(f"{name}: in place", same is model and all(
            model.get_parameter(path) is params for path, params in before.items()))
        close(f"{name}: identity", found, expected, 1e-5)
        with torch.no_grad():
            for path, params in model.named_parameters():
                if path.endswith("_shift"):
                    params.add_(0.5 * torch.randn_like(params))
            expected = model(ids).logits
        check(f"{name}: the shift counts", (expected - found).abs().max() > 1e-2 * found.abs().max())
        path = os.path.join(folder, f"retrofit{number}")
        model.save_pretrained(path)
        loaded = kvshift.Model.load(path, runtime=kvshift.Runtime(threads=1))
        close(f"{name}: the library", torch.stack([as_torch(loaded.logits(row.tolist()))
                                                   for row in ids]), expected, 1e-5)
        again = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
        with torch.no_grad():
            close(f"{name}: saved and loaded", again(ids).logits, expected, 0.0)
            plain = model.generate(ids, max_new_tokens=8, do_sample=False, use_cache=False)
            check(f"{name}: generate", model.generate(ids, max_new_tokens=8,
                                                      do_sample=False).equal(plain))
    refuses("a second retrofit", lambda: retrofit(model), "model")


# ---- attention -----------------------------------------------------------------------------------

def stub(calls):
    """What flash attention would compute from its arguments, slowly."""
    def flash(module, query, key, value, attention_mask, dropout=0.0, scaling=None,
              sliding_window=None, softcap=None, is_causal=None, cu_seq_lens_q=None,
              cu_seq_lens_k=None, max_length_q=None, max_length_k=None, **others):
        calls.append({"mask": attention_mask, "window": sliding_window, "cap": softcap,
                      "scale": scaling, "borders": cu_seq_lens_q, "longest": max_length_q,
                      "others": others})
        past = key.shape[2] - query.shape[2]
        at = torch.arange(query.shape[2])[:, None] + past
        keys = torch.arange(key.shape[2])[None]
        seen = ((keys <= at) & ((at - keys < sliding_window) if sliding_window else True))[None, None]
        if attention_mask is not None:
            seen = seen & attention_mask[:, None, None].bool()
        if cu_seq_lens_q is not None:
            assert query.shape[0] == 1 and torch.equal(cu_seq_lens_q, cu_seq_lens_k)
            assert int(cu_seq_lens_q.diff().max()) == max_length_q == max_length_k
            number = torch.bucketize(keys[0], cu_seq_lens_q[1:], right=True)
            seen = seen & (number[:, None] == number[None])
        seen = seen | (keys == at)
        return modeling_kvshift.eager_attention(module, query, key, value, seen, scaling, dropout,
                                                softcap)
    return flash


ATTENTION = [{"shift": "kv"}, {"shift": "qkv", "shift-window": 2, "sliding-window": 5},
             {"shift": "kv", "score-cap": 1.5, "score-scale": 0.4, "kv-heads": 4}]


def check_attention(folder):
    registered = transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS
    ids = tokens(2, 19)
    mask = torch.ones_like(ids)
    mask[1, :5] = 0
    there = mask.bool()
    places = torch.cat([torch.arange(n) for n in (6, 1, 12)])[None]
    for number, settings in enumerate(ATTENTION):
        path = made(folder, number, **settings)[1]
        name = " ".join(f"{key} {value}" for key, value in settings.items())
        model = opened(path)
        with torch.no_grad():
            whole, padded = model(ids).logits, model(ids, attention_mask=mask).logits[there]
            packed = model(ids[:1], position_ids=places).logits
            others = ["eager"] + (["flex_attention"] if number < 2 else [])
            for other in others:
                again = opened(path, attn_implementation=other)
                close(f"{name}: {other}", again(ids).logits, whole)
                close(f"{name}: {other}, padded", again(ids, attention_mask=mask).logits[there], padded)
                close(f"{name}: {other}, packed", again(ids[:1], position_ids=places).logits, packed)
            calls = []
            registered["flash_attention_2"], kept = stub(calls), registered["flash_attention_2"]
            model.config._attn_implementation_internal = "flash_attention_2"
            window = settings.get("sliding-window")
            close(f"{name}: flash, stub", model(ids).logits, whole)
            check(f"{name}: flash without a mask", all(call["mask"] is None for call in calls))
            check(f"{name}: arguments of flash", all(
                call["window"] == window and call["cap"] == settings.get("score-cap")
                and abs(call["scale"] - settings.get("score-scale", 8 ** -0.5)) < 1e-12
                for call in calls))
            close(f"{name}: flash, stub, padded", model(ids, attention_mask=mask).logits[there], padded)
            check(f"{name}: flash gets padding as two dimensions",
                  calls[-1]["mask"].equal(there))
            close(f"{name}: flash, stub, packed", model(ids[:1], position_ids=places).logits, packed)
            check(f"{name}: flash gets borders", calls[-1]["borders"].tolist() == [0, 6, 7, 19])
            refuses(f"{name}: flash with several packed rows", lambda: model(
                ids, position_ids=places.expand(2, -1)), "flash")
            cache, rows = DynamicCache(), []
            for a, b in (0, 7), (7, 8), (8, 19):
                rows.append(model(ids[:, a:b], past_key_values=cache).logits)
            close(f"{name}: flash, stub, with a cache", torch.cat(rows, 1), whole)
            registered["flash_attention_2"] = kept
    model, alibi = opened(made(folder, 50, shift="kv")[1]), opened(made(folder, 51, shift="kv",
                                                                        positions="alibi")[1])
    for name, which, words in (("vllm", model, "vLLM"), ("paged|sdpa", model, "paged"),
                               ("flash_attention_2", alibi, "alibi"),
                               ("flex_attention", alibi, "alibi")):
        which.config._attn_implementation_internal = name
        refuses(f"attention '{name}'", lambda: which(ids), words)
    config = model.config
    registered["vllm"] = stub([])  # as vLLM does before it makes the model
    config._attn_implementation_internal = "vllm"
    refuses("a model for vLLM", lambda: type(model)(config), "vLLM")


def check_compile(folder):
    for number, settings in enumerate(GENERATION):
        path = made(folder, 300 + number, **settings)[1]
        name = " ".join(f"{key} {value}" for key, value in settings.items())
        model, ids = opened(path), tokens(2, 13)
        torch.compiler.reset()
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
        close(f"{name}: compiled", compiled(ids, labels=ids, use_cache=False).logits,
              model(ids, use_cache=False).logits)
        mask = torch.ones_like(ids)
        mask[0, :3] = 0
        close(f"{name}: compiled, padded", compiled(ids, attention_mask=mask, use_cache=False)
              .logits[mask.bool()], model(ids, attention_mask=mask, use_cache=False).logits[mask.bool()])
        with torch.no_grad():  # decoding with a static cache: the same graph for every token
            expected, cache = model(ids).logits, StaticCache(config=model.config, max_cache_len=16)
            model(ids[:, :4], past_key_values=cache)
            torch.compiler.reset()
            torch._dynamo.utils.counters.clear()
            step = torch.compile(model, backend="aot_eager", fullgraph=True)
            rows = [step(ids[:, at:at + 1], past_key_values=cache,
                         position_ids=torch.full((2, 1), at)).logits for at in range(4, 13)]
            close(f"{name}: compiled steps", torch.cat(rows, 1), expected[:, 4:])
            graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
            check(f"{name}: one graph for all steps", graphs == 1, graphs)


def check_types(folder):
    model, path = made(folder, 400, shift="kv", **{"shift-form": "channel"})
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16)
    kinds = {params.dtype for path, params in model.named_parameters() if path.endswith("_shift")}
    check("taps in float32 in a bfloat16 model", kinds == {torch.float32}, kinds)
    check("the rest in bfloat16", model.lm_head.weight.dtype == torch.bfloat16)
    ids = tokens(2, 13)
    model(ids, labels=ids).loss.backward()
    taps = model.model.layers[0].self_attn.k_shift
    before = taps.detach().clone()
    model.half().bfloat16()
    check("taps keep all bits when a model is converted",
          model.model.layers[0].self_attn.k_shift is taps and taps.equal(before)
          and taps.grad.dtype == torch.float32 and model.lm_head.weight.dtype == torch.bfloat16)
    check("gradients of taps in float32",
          model.model.layers[0].self_attn.k_shift.grad.dtype == torch.float32)
    groups = {group["name"]: group for group in param_groups(model, lr=1e-3, shift_lr=1e-2)}
    names = {id(params): path for path, params in model.named_parameters()}
    shifted = {names[id(params)].rpartition(".")[2] for params in groups["shift"]["params"]}
    check("groups: the shift", shifted == {"k_shift", "v_shift"}, shifted)
    check("groups: rates and decay", groups["shift"]["weight_decay"] == 0.0
          and groups["shift"]["lr"] == 1e-2 and groups["matrices"]["weight_decay"] == 0.1)
    check("groups: everything once", sum(len(group["params"]) for group in groups.values())
          == len(names))
    check("groups: gains have no decay", all("norm" in names[id(params)]
                                             for params in groups["gains"]["params"]))
    config = kvshift.torch.KVShiftConfig(vocab_size=VOCAB, hidden_size=32, intermediate_size=48,
                                         num_hidden_layers=2, num_attention_heads=4,
                                         kvshift={"targets": "kv", "init": "identity"})
    fresh = AutoModelForCausalLM.from_config(config)
    check("a new model has the first taps that are asked for",
          fresh.model.layers[1].self_attn.v_shift.tolist() == [[0.0, 1.0]] * 4)


# ---- plans ---------------------------------------------------------------------------------------

WORKER = """
import sys, torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from transformers import AutoModelForCausalLM
import kvshift.torch
kind, path, out = sys.argv[1:]
dist.init_process_group("gloo")
torch.set_num_threads(1)
ids = torch.randint(1, 61, (4, 13), generator=torch.manual_seed(3))
if kind == "tp":
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, tp_plan="auto").train()
    rows = ids
else:
    from torch.distributed.fsdp import fully_shard
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).train()
    units = [part for part in model.modules() if type(part).__name__ in model._no_split_modules]
    assert len(units) == 2
    for unit in units:
        fully_shard(unit)
    fully_shard(model)
    rows = ids[2 * dist.get_rank():][:2]
loss = model(rows, labels=rows).loss
loss.backward()
full = lambda x: x.full_tensor() if hasattr(x, "full_tensor") else x
gradients = {name: full(params.grad).detach() for name, params in model.named_parameters()}
with torch.no_grad():
    logits = full(model.eval()(ids).logits)
if dist.get_rank() == 0:
    torch.save({"gradients": gradients, "logits": logits}, out)
dist.destroy_process_group()
"""


def check_plans(folder):
    worker = os.path.join(folder, "worker.py")
    with open(worker, "w", encoding="utf-8") as file:
        file.write(WORKER)
    for number, (kind, form, more) in enumerate(
            [("tp", "free", {}), ("tp", "gate", {"qk-norm": "head"}), ("fsdp", "channel", {})]):
        path, out = made(folder, 500 + number, shift="qkv", **{"shift-form": form}, **more)[1], \
            os.path.join(folder, f"{kind}{number}.pt")
        done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2",
                               "--master-port", str(29611 + number), worker, kind, path, out],
                              capture_output=True, text=True)
        if done.returncode != 0:
            check(f"{kind}, {form}: two processes", False, done.stderr[-1500:])
            continue
        found, model = torch.load(out), opened(path).train()
        ids = torch.randint(1, 61, (4, 13), generator=torch.manual_seed(3))
        model(ids, labels=ids).loss.backward()
        for name, params in model.named_parameters():
            close(f"{kind}, {form}: gradient of {name}", found["gradients"][name], params.grad,
                  1e-5, group=kind, quiet=True)
        with torch.no_grad():
            close(f"{kind}, {form}: two processes", found["logits"], model.eval()(ids).logits, 1e-5)
    model = opened(made(folder, 520, shift="kv", **{"shift-form": "channel"})[1])
    check("no plan for form channel", model.config.base_model_tp_plan is None and not model._tp_plan)


CHECKS = {"numbers": check_numbers, "module": check_module, "generation": check_generation,
          "interchange": check_interchange, "retrofit": check_retrofit, "attention": check_attention,
          "compile": check_compile, "types": check_types, "plans": check_plans}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command")
    parser.add_argument("--only", help="one of the checks", choices=CHECKS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    for name, function in CHECKS.items():
        if arguments.only in (None, name):
            print(f"---- {name}")
            with tempfile.TemporaryDirectory() as folder:
                function(folder, *([arguments.command] if name == "interchange" else []))
    print(f"transformers {transformers.__version__}, torch {torch.__version__}: {len(failed)} wrong")
    sys.exit(len(failed) > 0)


if __name__ == "__main__":
    main()
