#!/usr/bin/env python3
"""Compares GGUF files that 'kvshift convert' writes, as llama.cpp runs them, with ours.

usage: llamacpp_check.py KVSHIFT LIBKVSHIFT LLAMA_CPP [--model MODEL] [TOKENIZER...]

LLAMA_CPP is llama.cpp's source, built in its folder 'build' with shared libraries (the target llama
is enough).  Random plain models are written in every type, with grouped queries, tied and untied;
logits are compared after every token.  MODEL, a plain Llama, and the random ones are also quantised
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


def compare_logits(kvshift, library, program, path):
    wrong = 0
    for seed, shape in enumerate(SHAPES):
        ids = random.Random(seed).choices(range(VOCAB), k=TOKENS)
        for dtype, limit in LIMITS.items():
            convert(kvshift, path, seed, "--vocab", str(VOCAB), "--dtype", dtype, *shape.split())
            ours = library.logits(path, ids, VOCAB)
            lines = run(program, path, "logits", *map(str, ids)).splitlines()
            theirs = [[float(number) for number in line.split()] for line in lines]
            size = max(abs(x) for row in ours for x in row)
            error = max(abs(a - b) for left, right in zip(ours, theirs)
                        for a, b in zip(left, right)) / size
            greedy = sum(left.index(max(left)) == right.index(max(right))
                         for left, right in zip(ours, theirs))
            bad = len(theirs) != TOKENS or error > limit
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
    model = rest[1] if rest[:1] == ["--model"] else None
    with tempfile.TemporaryDirectory() as folder:
        program = build(sys.argv[3], folder, "llamacpp_logits")
        blocks = build(sys.argv[3], folder, "llamacpp_blocks")
        path = os.path.join(folder, "model.gguf")
        wrong = compare_logits(kvshift, library, program, path)
        for shape in SHAPES:
            convert(kvshift, path, 5, "--vocab", str(VOCAB), "--dim", "256", *shape.split())
            wrong += compare_blocks(kvshift, blocks, folder, path)
        if model:
            run(kvshift, "convert", model, path, "--dtype", "f32", "--format", "gguf-llama",
                "--overwrite", "--quiet")
            wrong += compare_blocks(kvshift, blocks, folder, path)
        for tokenizer in rest[2:] if model else rest:
            wrong += compare_tokens(kvshift, program, path, tokenizer)
    print(f"{wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
