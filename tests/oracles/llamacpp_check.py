#!/usr/bin/env python3
"""Compares GGUF files that 'kvshift convert' writes, as llama.cpp runs them, with ours.

usage: llamacpp_check.py KVSHIFT LIBKVSHIFT LLAMA_CPP [--families FOLDER] [--model MODEL] [TOKENIZER...]

LLAMA_CPP is llama.cpp's source, built in its folder 'build' with shared libraries (the target llama
is enough).  Random plain models are written in every type, with grouped queries, tied and untied;
logits are compared after every token.  So are random models of the other families that llama.cpp
runs, in F32, and with FOLDER the models in its folders, each of which is written as the architecture
of its family; those that stay ours are listed.  MODEL, a plain Llama, and the random ones are also quantised
by llama.cpp, all in one type (pure) and as it does by default (mixed): our decoded numbers must be
those of ggml bit for bit, and our own blocks of the pure files must have the same bytes.  Each
TOKENIZER (as 'kvshift tokenizer -t' takes it) is
written into such a file, and the ids that llama.cpp gives to some texts are compared with ours.  It
leaves extra spaces where SentencePiece models say that they are to be removed.
"""
import json
import os
import random
import subprocess
import sys
import tempfile

from library import Library

HERE = os.path.dirname(os.path.abspath(__file__))
# Relative to the largest logit.  F32 is another order of sums; with halves llama.cpp also rounds
# what it multiplies them with, and with blocks it rounds that to 8 bits.
LIMITS = {"f32": 2e-5, "f16": 5e-3, "bf16": 3e-2, "q8_0": 6e-2, "q4_0": 1e-1}
TOKENS, VOCAB = 24, 96
SHAPES = ["--heads 4 --kv-heads 4", "--heads 4 --kv-heads 2 --tied", "--heads 8 --kv-heads 1",
          "--heads 2 --kv-heads 2 --rope-base 500000 --norm-eps 0.001 --ffn 160"]
# Those of families whose activation is GELU: llama.cpp has a table of its tanh approximation, with
# halves.  Its numbers must be within this of the largest.
FAMILY_LIMIT, GELU_LIMIT = 2e-5, 1e-3
GELU = {"gemma2", "gemma3", "gptneox"}
GEMMA = ("--norm-place both --gain-offset --activation gelu-tanh --embedding-scale 8 "
         "--head-size 16 --score-scale 0.25 --sliding-window 8 ")
LAYER_NORM = "--norm-kind layer --rotary-fraction 0.25 "
FAMILIES = {
    "llama": ["--qkv-bias --o-bias --mlp-bias --head-size 32 --tied",
              "--rope-scaling linear --rope-factor 2",
              "--rope-scaling yarn --rope-factor 4 --rope-original-context 16",
              "--rope-scaling yarn --rope-factor 4 --rope-original-context 16 "
              "--rope-vector-scale 1.5",
              "--rope-scaling llama3 --rope-factor 8 --rope-original-context 16 "
              "--rope-low-factor 1 --rope-high-factor 4",
              "--rope-scaling longrope --rope-factor 2 --rope-original-context 256 --context 256 "
              "--rope-short-factors 1,1.1,1.2,1.3,1.4,1.5,1.6,1.7 "
              "--rope-long-factors 2,2,2,2,2,2,2,2"],
    "qwen3": ["--qk-norm head --head-size 32", "--qk-norm head --tied --qkv-bias"],
    "granite": ["--score-scale 0.3 --embedding-scale 3 --residual-scale 0.4 --logit-divisor 0.45",
                "--score-scale 0.3 --qkv-bias --o-bias --mlp-bias --tied"],
    "smollm3": ["--no-rope-layers 3 --tied"],
    "olmo2": ["--norm-place after --qk-norm full",
              "--norm-place after --qk-norm full --sliding-window 8 --sliding-layers 0,1,2 "
              "--sliding-rope-base 10000 --rope-scaling linear --rope-factor 4"],
    "gemma2": [GEMMA + "--sliding-layers 0,2 --score-cap 40 --logit-cap 25 --tied"],
    "gemma3": [GEMMA + "--qk-norm head --sliding-layers 0,1,3 --sliding-rope-base 5000 --tied "
               "--rope-scaling linear --rope-factor 8",
               GEMMA + "--qk-norm head --sliding-rope-base 10000 --logit-cap 20"],
    "stablelm": [LAYER_NORM + "--qkv-bias", LAYER_NORM + "--parallel shared --qk-norm layer"],
}
# Folders with settings that llama.cpp lacks become models that it runs with these keys.  Its
# smallest context has 256 tokens, and it takes the long factors if that is beyond the original one.
CHANGES = {"gemma2-v4": {"query_pre_attn_scalar": 16}, "gemma3-v4": {"query_pre_attn_scalar": 16},
           "phi3": {"sliding_window": None},
           "smollm3": {"no_rope_layers": [1, 1, 1, 0], "no_rope_layer_interval": 4},
           "phi3-longrope-v4": {"max_position_embeddings": 1024,
                                "original_max_position_embeddings": 256}}
SKIPPED = {"phi3-longrope", "phi3-longrope-v4"}  # unless they are changed
TEXTS = ["Hello world", "  two  spaces and\ttabs\n\nlines", "it's 12345 tokens, isn't it?",
         "Äpfel straße naïve café", "你好，世界。", "🙂🚀", "x = [1, 2];  // code", "",
         "Once upon a time, there was a little girl named Lily."]


def build(llama, folder, name):
    program, libraries = os.path.join(folder, name), os.path.join(llama, "build", "bin")
    subprocess.run(["cc", "-O1", "-o", program, os.path.join(HERE, name + ".c"),
                    f"-I{llama}/include", f"-I{llama}/ggml/include", f"-L{libraries}",
                    f"-Wl,-rpath,{libraries}", "-lllama", "-lggml", "-lggml-base"], check=True)
    return program


def run(*command, text=None):
    return subprocess.run(command, input=text, capture_output=True, check=True, text=True).stdout


def convert(kvshift, path, seed, *options):
    run(kvshift, "convert", "--random", "desk-1m", path, "--overwrite", "--format", "gguf-llama",
        "--seed", str(seed), "--shift", "none", "--dim", "64", "--layers", "3", "--context", "64",
        "--init-std", "0.2", *options)


def differences(library, program, ours, theirs, ids, vocab):
    """Compares the logits of our model and of a GGUF file that llama.cpp runs, and the best tokens."""
    ours = library.logits(ours, ids, vocab)
    lines = run(program, theirs, "logits", *map(str, ids)).splitlines()
    theirs = [[float(number) for number in line.split()] for line in lines]
    assert len(theirs) == len(ids), theirs
    size = max(abs(x) for row in ours for x in row)
    error = max(abs(a - b) for left, right in zip(ours, theirs)
                for a, b in zip(left, right)) / size
    return error, sum(left.index(max(left)) == right.index(max(right))
                      for left, right in zip(ours, theirs))


def architecture(path):
    with open(path, "rb") as file:
        head = file.read(256)
    at = head.index(b"general.architecture") + len(b"general.architecture") + 4
    return head[at + 8:at + 8 + int.from_bytes(head[at:at + 8], "little")].decode()


def compare_family(library, program, name, model, path, vocab):
    ids = random.Random(7).choices(range(vocab), k=TOKENS)
    found = architecture(path)
    error, greedy = differences(library, program, model, path, ids, vocab)
    bad = error > (GELU_LIMIT if found in GELU else FAMILY_LIMIT)
    print(f"{name:70.70s} {found:8s} {error:.1e}, best token the same {greedy}/{TOKENS}"
          f"{'  WRONG' if bad else ''}")
    return bad


def change(folder, name, changes, to):
    """A folder with the weights of the model and other settings."""
    os.makedirs(to)
    os.symlink(os.path.abspath(os.path.join(folder, name, "model.safetensors")),
               os.path.join(to, "model.safetensors"))
    with open(os.path.join(folder, name, "config.json")) as file:
        settings = json.load(file)
    with open(os.path.join(to, "config.json"), "w") as file:
        json.dump(dict(settings, **changes), file)
    return to


def compare_folder(kvshift, library, program, path, model, name):
    written = subprocess.run([kvshift, "convert", model, path, "--overwrite", "--quiet"],
                             capture_output=True, text=True)
    if written.returncode != 0:
        print(f"{name}: {written.stderr.strip()}")
    elif architecture(path) == "kvshift":
        print(f"{name}: stays ours")
    else:
        with open(os.path.join(model, "config.json")) as file:
            vocab = json.load(file)["vocab_size"]
        return compare_family(library, program, name, model, path, vocab)
    return 0


def compare_families(kvshift, library, program, path, folder):
    wrong = 0
    for family, models in FAMILIES.items():
        for options in models:
            convert(kvshift, path, 3, "--vocab", str(VOCAB), "--heads", "4", "--kv-heads", "2",
                    "--rope-base", "10000", "--dtype", "f32", "--layers", "4", *options.split())
            if architecture(path) != family:
                print(f"{options}: architecture {architecture(path)}, not {family}  WRONG")
                wrong += 1
            wrong += compare_family(library, program, options, path, path, VOCAB)
    for name in sorted(os.listdir(folder)) if folder else []:
        model = os.path.join(folder, name)
        if os.path.exists(os.path.join(model, "config.json")) and name not in SKIPPED:
            wrong += compare_folder(kvshift, library, program, path, model, name)
        if name in CHANGES:
            changed = change(folder, name, CHANGES[name], path + "." + name)
            wrong += compare_folder(kvshift, library, program, path, changed, name + ", changed")
    return wrong


def compare_logits(kvshift, library, program, path):
    wrong = 0
    for seed, shape in enumerate(SHAPES):
        ids = random.Random(seed).choices(range(VOCAB), k=TOKENS)
        for dtype, limit in LIMITS.items():
            convert(kvshift, path, seed, "--vocab", str(VOCAB), "--dtype", dtype, *shape.split())
            error, greedy = differences(library, program, path, path, ids, VOCAB)
            bad = error > limit
            print(f"{shape:70s} {dtype:5s} {error:.1e}, best token the same {greedy}/{TOKENS}"
                  f"{'  WRONG' if bad else ''}")
            wrong += bad
    return wrong


def compare_blocks(kvshift, program, folder, base):
    """The F32 file `base`, quantised by both."""
    theirs, ours = os.path.join(folder, "theirs.gguf"), os.path.join(folder, "ours.gguf")
    wrong = 0
    for dtype in ("q8_0", "q4_0"):
        for how in ("pure", "mixed"):
            run(program, "quantise", base, theirs, dtype, how)
            run(kvshift, "convert", theirs, ours, "--dtype", "f32", "--overwrite", "--quiet")
            tensors, different = map(int, run(program, "numbers", theirs, ours).split())
            print(f"{dtype} {how}: of {tensors} tensors {different} have other numbers than ggml's")
            wrong += different
            if how == "pure":
                run(kvshift, "convert", base, ours, "--dtype", dtype, "--overwrite", "--quiet")
                tensors, different = map(int, run(program, "bytes", theirs, ours).split())
                print(f"{dtype} {how}: of {tensors} tensors {different} are other blocks")
                wrong += different
    return wrong


def compare_tokens(kvshift, program, path, tokenizer):
    vocab = json.loads(run(kvshift, "tokenizer", "info", "-t", tokenizer, "--json"))["vocab"]
    convert(kvshift, path, 0, "--vocab", str(vocab), "--heads", "4", "--kv-heads", "4",
            "--layers", "1", "--dim", "16", "-t", tokenizer)
    wrong = 0
    for text in TEXTS:
        ours = run(kvshift, "tokenizer", "encode", "-t", tokenizer, text=text).split()
        theirs = run(program, path, "tokens", text=text).split()
        if ours != theirs:
            print(f"{tokenizer}: {text!r}: ours {ours}, llama.cpp's {theirs}")
            wrong += 1
    print(f"{tokenizer}: {len(TEXTS)} texts, {wrong} differences")
    return wrong


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    kvshift, library, rest = sys.argv[1], Library(sys.argv[2]), sys.argv[4:]
    families = model = None
    while rest[:1] in (["--families"], ["--model"]):
        if rest.pop(0) == "--model":
            model = rest.pop(0)
        else:
            families = rest.pop(0)
    with tempfile.TemporaryDirectory() as folder:
        program = build(sys.argv[3], folder, "llamacpp_logits")
        blocks = build(sys.argv[3], folder, "llamacpp_blocks")
        path = os.path.join(folder, "model.gguf")
        wrong = compare_families(kvshift, library, program, path, families)
        wrong += compare_logits(kvshift, library, program, path)
        for shape in SHAPES:
            convert(kvshift, path, 5, "--vocab", str(VOCAB), "--dim", "256", *shape.split())
            wrong += compare_blocks(kvshift, blocks, folder, path)
        if model:
            run(kvshift, "convert", model, path, "--dtype", "f32", "--format", "gguf-llama",
                "--overwrite", "--quiet")
            wrong += compare_blocks(kvshift, blocks, folder, path)
        for tokenizer in rest:
            wrong += compare_tokens(kvshift, program, path, tokenizer)
    print(f"{wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
