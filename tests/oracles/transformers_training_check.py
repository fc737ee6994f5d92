#!/usr/bin/env python3
"""Checks what people do with modeling_kvshift.py in 'transformers' besides computing logits.

usage: transformers_training_check.py KVSHIFT

Trainer with gradient accumulation, caches of the caller, packed documents, padding, gradient
checkpointing, optional outputs, and that what is not supported is refused.  Models are random ones
that the command writes.  Exits 77 where a module is missing.
"""
import copy
import os
import subprocess
import sys
import tempfile
import warnings

try:
    import accelerate  # noqa: F401 (Trainer needs it)
    import torch
    import transformers
    from transformers import (AutoModel, AutoModelForCausalLM, DataCollatorWithFlattening,
                              DynamicCache, StaticCache, Trainer, TrainingArguments)
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from transformers_check import start_of

SHIFTS = ["kv", "qkv --shift-form channel --shift-window 3", "kv --shift-form data",
          "kv --shift-form gate --positions alibi", "kv --positions learned",
          "kv --shift-form hard --rotary-fraction 0.5",
          "kv --shift-window 2 --sliding-window 4 --sliding-layers 1", "none --positions alibi",
          "gpt2 kv", "kv --norm-kind layer --parallel own --score-cap 2 --qk-norm layer"]
SAME = 1e-6  # relative: the same numbers, summed in another order
LIMIT = 1e-5  # of logits and gradients, relative to the largest

failed = []


def check(name, condition, detail=""):
    print(f"{'ok   ' if condition else 'WRONG'} {name} {detail}")
    if not condition:
        failed.append(name)


def close(name, found, expected, limit=LIMIT):
    size = ((found - expected).abs().max() / expected.abs().max()).item()
    check(name, size <= limit, f"{size:.1e}")


def refuses(name, call, kind=(ValueError, TypeError, NotImplementedError), words=""):
    try:
        call()
    except kind as problem:
        text = str(problem)
        check(name, words in text and "\n" not in text, f"({text})")
    except Exception as problem:  # refused, but by accident
        check(name, False, f"({type(problem).__name__}: {problem})")
    else:
        check(name, False, "(accepted)")


def tokens(*shape, seed=0):
    return torch.randint(1, 61, shape, generator=torch.manual_seed(seed))


def gradients(model, *losses):
    model.zero_grad()
    sum(losses).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


# ---- Trainer -------------------------------------------------------------------------------------

def trained(load, folder, batch, steps_each, **settings):
    """Loss of the first step and weights after three steps of 8 sequences each."""
    model = load().train()
    rows = [{"input_ids": row, "labels": row.clone()} for row in tokens(24, 13)]
    for number, row in enumerate(rows):
        row["labels"][:number % 5] = -100  # so that micro-batches differ in what they count
    arguments = TrainingArguments(
        output_dir=os.path.join(folder, "trainer"), per_device_train_batch_size=batch,
        gradient_accumulation_steps=steps_each, max_steps=3, learning_rate=1e-2, optim="sgd",
        lr_scheduler_type="constant", max_grad_norm=0, logging_steps=1, save_strategy="no",
        report_to=[], use_cpu=True, disable_tqdm=True, seed=1, **settings)
    trainer = Trainer(model=model, args=arguments, train_dataset=rows)
    trainer.train()
    log = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return log, torch.cat([p.detach().flatten() for p in model.parameters()])


def check_trainer(load, folder):
    losses, weights = trained(load, folder, 8, 1)
    for batch, steps in (4, 2), (2, 4):
        found_losses, found = trained(load, folder, batch, steps)
        name = f"Trainer, {steps} x {batch} sequences"
        close(f"{name}: losses", torch.tensor(found_losses), torch.tensor(losses), SAME)
        close(f"{name}: weights", found, weights, SAME)
    _, found = trained(load, folder, 8, 1, gradient_checkpointing=True)
    close("Trainer, gradient checkpointing: weights", found, weights, SAME)


def check_accumulated(load):
    model, rows = load().train(), tokens(8, 13)
    whole = model(rows, labels=rows).loss
    count = torch.tensor(8 * 12)
    parts = [model(rows[i:i + 2], labels=rows[i:i + 2], num_items_in_batch=count).loss
             for i in range(0, 8, 2)]
    close("num_items_in_batch: loss", sum(parts), whole, SAME)
    close("num_items_in_batch: gradients", gradients(model, *parts), gradients(model, whole), SAME)


# ---- caches --------------------------------------------------------------------------------------

def through(model, ids, cache, sizes, **inputs):
    rows, at = [], 0
    for size in sizes:
        mask = inputs.get("attention_mask")
        mask = mask if mask is None else mask[:, :at + size]
        out = model(ids[:, at:at + size], past_key_values=cache, attention_mask=mask)
        at += size
        assert out.past_key_values is cache
        rows.append(out.logits)
    return torch.cat(rows, dim=1)


@torch.no_grad()
def check_caches(name, load):
    model, ids = load(), tokens(3, 17)
    expected = model(ids, use_cache=False).logits
    for made, cache in (("DynamicCache()", DynamicCache()),
                        ("DynamicCache(config)", DynamicCache(config=model.config))):
        close(f"{name}: {made} of the caller", through(model, ids, cache, [5, 1, 1, 4, 6]),
              expected)
        check(f"{name}: get_seq_length", cache.get_seq_length() == 17, cache.get_seq_length())
    cache.reset()
    close(f"{name}: after reset", through(model, ids, cache, [9, 8]), expected)

    start = DynamicCache()
    model(ids[:, :9], past_key_values=start)
    kept = copy.deepcopy(start)
    model(tokens(3, 4, seed=5), past_key_values=start)
    close(f"{name}: a copy", model(ids[:, 9:], past_key_values=copy.deepcopy(kept)).logits,
          expected[:, 9:])
    close(f"{name}: a copy, use_cache=False",
          model(ids[:, 9:], past_key_values=copy.deepcopy(kept), use_cache=False).logits,
          expected[:, 9:])
    order = torch.tensor([2, 0, 1])
    for what, change, rows in (
            ("reorder_cache", lambda c: c.reorder_cache(order), order),
            ("batch_repeat_interleave", lambda c: c.batch_repeat_interleave(2),
             torch.tensor([0, 0, 1, 1, 2, 2])),
            ("batch_select_indices", lambda c: c.batch_select_indices(order[:2]), order[:2])):
        cache = copy.deepcopy(kept)
        change(cache)
        close(f"{name}: {what}", model(ids[rows, 9:], past_key_values=cache).logits,
              expected[rows, 9:])

    # Padding anywhere, also between the calls, is as if it were not there.
    mask = torch.ones(3, 17, dtype=torch.long)
    mask[0, :3], mask[1, 7:9], mask[2, [4, 9, 16]] = 0, 0, 0
    for sizes in [17], [9, 8], [5, 4, 1, 7]:
        found = through(model, ids, DynamicCache(), sizes, attention_mask=mask)
        for row in range(3):
            there = mask[row].bool()
            close(f"{name}: padding in row {row}, calls of {sizes}", found[row, there],
                  model(ids[row:row + 1, there], use_cache=False).logits[0])


@torch.no_grad()
def check_other_caches(load):
    model, ids = load(), tokens(1, 5)
    cache, expected = StaticCache(config=model.config, max_cache_len=12), model(ids).logits
    for _ in range(2):
        close("StaticCache", torch.cat([model(ids[:, a:b], past_key_values=cache).logits
                                        for a, b in ((0, 3), (3, 4), (4, 5))], dim=1), expected)
        cache.reset()
    refuses("more tokens than a StaticCache holds", lambda: model(
        tokens(1, 13), past_key_values=cache), words="room for 12")
    refuses("a crop of a StaticCache", lambda: cache.crop(-1), kind=RuntimeError)
    plain = model.generate(ids, max_new_tokens=6, do_sample=False, use_cache=False)
    for number in range(2):
        check(f"generate with a static cache, {number}", model.generate(
            ids, max_new_tokens=6, do_sample=False, cache_implementation="static").equal(plain))
    filled = DynamicCache()
    filled.update(torch.zeros(1, 2, 4, 8), torch.zeros(1, 2, 4, 8), 0)
    refuses("a cache that another model filled", lambda: model(ids, past_key_values=filled),
            words="past_key_values")
    cache = DynamicCache()
    found = [model.generate(ids, max_new_tokens=6, do_sample=False, past_key_values=cache),
             model.generate(ids, max_new_tokens=6, do_sample=False, use_cache=False)]
    check("generate with the caller's cache", found[0].equal(found[1]))
    turn = torch.cat([found[0], tokens(1, 3, seed=2)], dim=1)
    found = [model.generate(turn, max_new_tokens=6, do_sample=False, past_key_values=cache),
             model.generate(turn, max_new_tokens=6, do_sample=False, use_cache=False)]
    check("generate, a second turn with it", found[0].equal(found[1]))


# ---- packed documents ----------------------------------------------------------------------------

def check_packed(name, load):
    model = load().train()
    lengths = [5, 1, 9, 2, 30]  # 47 tokens, more than the context; each document fits
    documents = [tokens(1, length, seed=length) for length in lengths]
    ids = torch.cat(documents, dim=1)
    positions = torch.cat([torch.arange(length) for length in lengths])[None]
    numbers = torch.repeat_interleave(torch.arange(5), torch.tensor(lengths))[None]
    borders = torch.tensor([0, *lengths]).cumsum(0).int()
    labels = torch.cat([torch.cat([torch.tensor([[-100]]), d[:, 1:]], dim=1) for d in documents], 1)
    alone = [model(d, labels=d, num_items_in_batch=torch.tensor(42)) for d in documents]
    expected = torch.cat([out.logits for out in alone], dim=1)
    loss = sum(out.loss for out in alone if not out.loss.isnan())
    slopes = gradients(model, loss)
    flash = {"cu_seq_lens_q": borders, "cu_seq_lens_k": borders, "max_length_q": 30,
             "max_length_k": 30}
    for what, inputs in (("position_ids", {"position_ids": positions}),
                         ("position_ids and a mask of ones",
                          {"position_ids": positions, "attention_mask": torch.ones_like(ids)}),
                         ("seq_idx", {"seq_idx": numbers.int()}), ("cu_seq_lens", flash),
                         ("all", {"position_ids": positions, "seq_idx": numbers.int(), **flash})):
        out = model(ids, labels=labels, num_items_in_batch=torch.tensor(42), **inputs)
        close(f"{name}: packed by {what}: logits", out.logits, expected)
        close(f"{name}: packed by {what}: loss", out.loss, loss, LIMIT)
        close(f"{name}: packed by {what}: gradients", gradients(model, out.loss), slopes)
        check(f"{name}: packed by {what}: no cache", out.past_key_values is None)
    # A second row with padding behind its documents.
    short = torch.cat([ids[:, :15], torch.zeros(1, 32, dtype=torch.long)], dim=1)
    mask = torch.ones(2, 47, dtype=torch.long)
    mask[1, 15:] = 0
    out = model(torch.cat([ids, short]), attention_mask=mask, position_ids=torch.cat(
        [positions, torch.cat([positions[:, :15], torch.zeros(1, 32, dtype=torch.long)], 1)]))
    close(f"{name}: packed beside padding", torch.cat([out.logits[0], out.logits[1, :15]]),
          torch.cat([expected[0], expected[0, :15]]))


def check_collator(load):
    model = load()
    documents = [{"input_ids": tokens(length, seed=length).tolist()} for length in (4, 7, 3)]
    expected = torch.cat([model(torch.tensor([d["input_ids"]])).logits for d in documents], dim=1)
    for settings in {}, {"return_flash_attn_kwargs": True}, {"return_seq_idx": True}:
        batch = DataCollatorWithFlattening(**settings)(documents)
        close(f"DataCollatorWithFlattening {settings}", model(**batch).logits, expected)
    refuses("packed documents with a cache", lambda: model(
        batch["input_ids"], position_ids=batch["position_ids"], past_key_values=DynamicCache()))
    cache = DynamicCache()
    model(tokens(1, 4), past_key_values=cache)
    refuses("packed documents behind a cache", lambda: model(
        batch["input_ids"], position_ids=batch["position_ids"], past_key_values=cache))
    refuses("borders that do not fit", lambda: model(
        tokens(1, 9), cu_seq_lens_q=torch.tensor([0, 4, 10])), words="cu_seq_lens_q")


# ---- outputs, and what is refused ----------------------------------------------------------------

def check_outputs(load, path):
    model, ids = load(), tokens(2, 11)
    with torch.no_grad():
        plain = model(ids)
        out = model(ids, output_hidden_states=True)
        check("hidden states", len(out.hidden_states) == 4)
        close("the last hidden state gives the logits", model.lm_head(out.hidden_states[-1]),
              plain.logits)
        flat = model(ids, labels=ids, return_dict=False)
        check("return_dict=False", isinstance(flat, tuple) and flat[1].equal(plain.logits))
        for keep in 3, torch.tensor([0, 4]):
            rows = slice(-3, None) if isinstance(keep, int) else keep
            close(f"logits_to_keep {keep}", model(ids, logits_to_keep=keep).logits,
                  plain.logits[:, rows])
        bare = AutoModel.from_pretrained(path, trust_remote_code=True, dtype=torch.float32)
        close("AutoModel", bare(ids).last_hidden_state, out.hidden_states[-1])
        embedded = model(inputs_embeds=model.get_input_embeddings()(ids))
        close("inputs_embeds", embedded.logits, plain.logits)
    refuses("output_attentions with sdpa", lambda: model(ids, output_attentions=True),
            words="eager")
    refuses("an unknown argument", lambda: model(ids, head_mask=torch.ones(4)), words="head_mask")
    refuses("a mask of four dimensions", lambda: model(
        ids, attention_mask=torch.ones(2, 1, 11, 11)), words="attention_mask")
    refuses("a mask that is too short", lambda: model(ids, attention_mask=torch.ones(2, 10)),
            words="attention_mask")
    refuses("more tokens than the context", lambda: model(tokens(1, 41)), words="41 tokens")
    refuses("ids and embeddings at once", lambda: model(
        ids, inputs_embeds=model.get_input_embeddings()(ids)), words="input_ids")
    refuses("flash_attention_2 without its package", lambda: AutoModelForCausalLM.from_pretrained(
        path, trust_remote_code=True, attn_implementation="flash_attention_2"), kind=ImportError)


def check_eager(name, load):
    eager, model, ids = load(attn_implementation="eager"), load(), tokens(2, 17)
    mask = torch.ones_like(ids)
    mask[1, :4] = 0
    with torch.no_grad():
        out = eager(ids, attention_mask=mask, output_attentions=True)
        there = mask.bool()
        close(f"{name}: eager", out.logits[there], model(ids, attention_mask=mask).logits[there])
        weights = out.attentions[0]
        check(f"{name}: attentions", len(out.attentions) == 3 and weights.shape[2:] == (17, 17))
        close(f"{name}: attentions add up to 1", weights.sum(-1), torch.ones(weights.shape[:3]))
        check(f"{name}: nothing attends ahead", not weights.triu(1).any())
        check(f"{name}: nothing attends to padding", not weights[1, :, 4:, :4].any())
    model.train()
    expected = gradients(model, model(ids, labels=ids).loss)
    model.gradient_checkpointing_enable()
    out = model(ids, labels=ids)
    close(f"{name}: gradient checkpointing", gradients(model, out.loss), expected, SAME)
    check(f"{name}: gradient checkpointing fills no cache", out.past_key_values is None)
    model.gradient_checkpointing_disable()
    model.eval()
    step = torch.compile(model, backend="aot_eager")
    with torch.no_grad():
        close(f"{name}: torch.compile", step(ids, attention_mask=mask).logits[there],
              model(ids, attention_mask=mask).logits[there])


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    warnings.simplefilter("ignore", FutureWarning)  # names that transformers 6 will change
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as folder:
        for number, shift in enumerate(SHIFTS):
            path = os.path.join(folder, f"model{number}")
            options = ["--shift", *shift.split()]
            if shift.startswith("gpt2 "):
                options = ["gpt2", "--shift", *shift.split()[1:]]
            subprocess.run([sys.argv[1], "convert", path, "--seed", str(number), "--random",
                            *start_of(folder, options)], check=True)

            def load(**settings):
                model = AutoModelForCausalLM.from_pretrained(
                    path, trust_remote_code=True, dtype=torch.float32, **settings).eval()
                model.generation_config.pad_token_id = 0
                return model

            if number == 0:
                check_trainer(load, folder)
                check_other_caches(load)
                check_collator(load)
                check_outputs(load, path)
            check_accumulated(load)
            check_caches(shift, load)
            check_packed(shift, load)
            check_eager(shift, load)
    print(f"transformers {transformers.__version__}: {len(failed)} wrong")
    sys.exit(len(failed) > 0)


if __name__ == "__main__":
    main()
