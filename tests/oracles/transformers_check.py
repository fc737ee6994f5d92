#!/usr/bin/env python3
"""Compares logits of models that 'kvshift convert' writes for Hugging Face's 'transformers' with ours.

usage: transformers_check.py KVSHIFT LIBKVSHIFT

Random models of every shift, and of everything else that a configuration may say, are written by the
command and loaded by both: shifted ones there through the modeling_kvshift.py that comes with them,
plain ones through transformers' own Llama and GPT-2.  Ours are fed token by token.  There: the whole
sequence at once, the sequence in chunks through a cache, a batch padded on the left, greedy and beam
search with a cache and without.  Exits 77 where a module is missing.
"""
import itertools
import json
import os
import subprocess
import sys
import tempfile

try:
    import torch
    import transformers
    from transformers import AutoModelForCausalLM
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from library import Library

LIMIT = 2e-5  # of a difference, relative to the largest logit: float32 sums in another order
SHAPE = "--dim 32 --ffn 48 --layers 3 --heads 4 --kv-heads 2 --vocab 61 --context 40".split()
STRONG = "--init-std 0.2".split()  # so that every part counts
TOKENS, WIDTH = 19, 61
CHUNKS = [1, 5, 1, 1, 11]


def cases():
    for form, target in itertools.product(["free", "clamp", "channel", "residual"],
                                          ["k", "v", "kv", "qkv"]):
        for window in 1, 2, 3:
            yield f"{form} {target} {window}", ["--shift", target, "--shift-form", form,
                                                "--shift-window", str(window)]
    for form, target in itertools.product(["gate", "data"], ["k", "v", "kv", "qkv"]):
        yield f"{form} {target}", ["--shift", target, "--shift-form", form]
    for target in "k", "v", "kv", "qkv":
        yield f"hard {target}", ["--shift", target, "--shift-form", "hard",
                                 "--rotary-fraction", "0.5"]
    for options in [
            "--positions alibi", "--positions alibi --slopes 0.3",
            "--positions alibi --slopes 0.9,0.5,0.1,0", "--positions learned", "--positions none",
            "--rotary-fraction 0.5", "--score-scale 0.7", "--kv-heads 4", "--kv-heads 1", "--tied",
            "--head normalised", "--head normalised --tied", "--no-residual", "--no-mlp",
            "--no-norm", "--no-norm --no-mlp --no-residual", "--dropout 0.2", "--norm-eps 0.01",
            "--sliding-window 3", "--sliding-window 4 --sliding-layers 1",
            "--sliding-window 4 --sliding-layers 0,2 --sliding-heads 8 --sliding-kv-heads 2",
            "--sliding-window 4 --sliding-layers 1 --sliding-heads 2 --positions alibi",
            "--head none --vocab 32", "--rope-base 500",
            "--norm-kind layer", "--norm-kind layer --no-mlp", "--norm-kind layer --embedding-norm",
            "--norm-place after", "--norm-place both", "--norm-place both --no-mlp",
            "--norm-place both --norm-kind layer --gain-offset", "--gain-offset --qk-norm head",
            "--parallel own", "--parallel shared", "--parallel own --norm-place both",
            "--parallel shared --norm-place both", "--parallel own --norm-place after",
            "--parallel own --norm-kind layer --plain-mlp --activation gelu --rotary-fraction 0.25",
            "--activation gelu", "--activation gelu-tanh", "--activation relu",
            "--plain-mlp --activation relu --mlp-bias", "--plain-mlp",
            "--qk-norm full", "--qk-norm full --gain-offset", "--qk-norm layer",
            "--qk-norm layer --gain-offset", "--qk-norm layer --kv-heads 4 --rotary-fraction 0.5",
            "--score-cap 1.5", "--score-cap 1.5 --positions alibi",
            "--score-cap 1.5 --sliding-window 3", "--logit-cap 2", "--logit-cap 2 --tied",
            "--score-cap 1 --logit-cap 3 --logit-divisor 0.5",
            "--no-norm --embedding-norm",
            "--filters attention", "--filters mlp --filter-window 3",
            "--filters branches --filter-window 2 --mlp-factor",
            "--filters branches --norm-place both --residual-scale 0.7", "--positions relative",
            "--positions relative --relative-size 3 --relative-extent 7",
            "--positions relative --score-cap 1.5 --tied",
            "--positions relative --sliding-window 4 --sliding-layers 1 --sliding-head-size 16",
            "--positions relative --score-growth 0.5 --sliding-window 4 --sliding-layers 1",
            "--score-divisor size --qk-norm head", "--score-growth 0.3 --score-growth-start 4",
            "--qkv-bias --o-bias --mlp-bias", "--head-size 12", "--rope-scaling linear --rope-factor 4",
            "--rope-scaling llama3 --rope-factor 4 --rope-original-context 16 --rope-base 500",
            "--rope-scaling yarn --rope-factor 4 --rope-original-context 16 --rope-base 500",
            "--rope-scaling dynamic --rope-original-context 40", "--no-rope-layers 1",
            "--sliding-window 4 --sliding-layers 0,1 --sliding-rope-base 300",
            "--embedding-scale 3 --residual-scale 0.5 --logit-divisor 2"]:
        yield options, ["--shift", "kv", *options.split()]
    yield "not shifted, with alibi", "--shift none --positions alibi".split()
    yield "bf16", "--shift kv --dtype bf16".split()
    yield "f16 in shards", "--shift kv --dtype f16 --shard-size 5KB".split()
    yield "plain Llama", "--shift none".split()
    yield "plain Llama, tied, bf16", "--shift none --tied --dtype bf16".split()
    yield "plain GPT-2", ["gpt2"]
    for form in "free", "gate", "clamp", "channel", "data":
        yield f"GPT-2, {form}", ["gpt2", "--shift", "qkv", "--shift-form", form]
    for options in [
            "--positions rope --rope-base 500", "--positions alibi", "--no-mlp", "--no-norm",
            "--positions rope --rotary-fraction 0.5 --shift-form hard", "--norm-kind rms",
            "--activation relu", "--sliding-window 3", "--head normalised"]:
        yield f"GPT-2, {options}", ["gpt2", "--shift", "kv", *options.split()]
    yield "GPT-2, not shifted, with alibi", "gpt2 --positions alibi".split()


GPT2 = {"model_type": "gpt2", "vocab_size": 61, "n_embd": 32, "n_layer": 3, "n_head": 4,
        "n_positions": 40, "initializer_range": 0.2, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
        "resid_pdrop": 0.0}


def start_of(folder, options):
    """What 'convert --random' starts from: a Llama, or, for options after the word gpt2, a GPT-2."""
    if options[0] != "gpt2":
        return ["desk-1m", *SHAPE, *STRONG, *options]
    path = os.path.join(folder, "gpt2.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(GPT2, file)
    return [path, *options[1:]]


def error(found, expected):
    return ((found - expected).abs().max() / expected.abs().max()).item()


def in_chunks(model, ids):
    cache, rows, at = None, [], 0
    for size in CHUNKS:
        out = model(ids[:, at:at + size], past_key_values=cache, use_cache=True)
        cache, at = out.past_key_values, at + size
        rows.append(out.logits)
    return torch.cat(rows, dim=1)[0]


def padded(model, ids):
    """Beside a longer sequence, behind padding."""
    cut = 6
    batch = torch.cat([ids.flip(1), torch.cat([torch.zeros_like(ids[:, :cut]), ids[:, :-cut]], 1)])
    mask = torch.ones_like(batch)
    mask[1, :cut] = 0
    out = model(batch[:, :9], attention_mask=mask[:, :9], use_cache=True)
    rest = model(batch[:, 9:], attention_mask=mask, past_key_values=out.past_key_values,
                 use_cache=True)
    return torch.cat([out.logits, rest.logits], dim=1)[1, cut:]


def compare(name, model, ids, ours):
    found = {"whole": (model(ids).logits[0], ours), "chunks": (in_chunks(model, ids), ours)}
    # A table of positions ends with the context; ids that stand for padding would be beyond it.
    if "gpt2" not in model.config.model_type:
        found["padded"] = (padded(model, ids), ours[:-6])
    errors = {what: error(*pair) for what, pair in found.items()}
    wrong = [what for what, size in errors.items() if not size <= LIMIT]
    for beams in 1, 3:
        outputs = [model.generate(ids[:, :5], max_new_tokens=8, do_sample=False, num_beams=beams,
                                  use_cache=cached) for cached in (True, False)]
        if not outputs[0].equal(outputs[1]):
            wrong.append(f"generate with {beams} beams")
    print(f"{name:70s} {max(errors.values()):.1e} {'WRONG: ' + ', '.join(wrong) if wrong else ''}")
    return len(wrong) > 0, max(errors.values())


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    library, wrong, worst = Library(sys.argv[2]), 0, 0.0
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        for number, (name, options) in enumerate(cases()):
            path = os.path.join(folder, f"model{number}")
            subprocess.run([sys.argv[1], "convert", path, "--seed", str(number), "--random",
                            *start_of(folder, options)], check=True)
            model = AutoModelForCausalLM.from_pretrained(path, trust_remote_code=True,
                                                         dtype=torch.float32).eval()
            model.generation_config.pad_token_id = 0
            vocab = model.config.vocab_size
            ids = torch.randint(vocab, (1, TOKENS), generator=torch.manual_seed(number))
            ours = torch.tensor(library.logits(path, ids[0].tolist(), min(vocab, WIDTH)))
            bad, size = compare(name, model, ids, ours)
            wrong, worst, count = wrong + bad, max(worst, size), number + 1
    print(f"transformers {transformers.__version__}: {count} models, {wrong} wrong; the largest "
          f"difference is {worst:.1e} of the largest logit")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
