#!/usr/bin/env python3
"""Compares ids of tokenizers in folders that 'kvshift convert' writes: transformers against ours.

usage: tokenizer_class_check.py KVSHIFT

Folders in Hugging Face's format under $KVSHIFT_SHARED/data are converted, and AutoTokenizer of
transformers encodes texts from the copy: prose, Chinese, benchmark questions and single characters
of many scripts.  Exits 77 where a module or the data is missing.
"""
import glob
import json
import os
import subprocess
import sys
import tempfile

try:
    from transformers import AutoTokenizer
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

FOLDERS = ["tinystories656K-hf", "eval-reference/plain", "eval-reference/shifted"]


def texts(data):
    yield from ["", " ", "a", " a", "a ", "  two  spaces ", "\n", "tab\tand\r\nlines\n\n", "ﬁ ½ é é 　 x", "<unk> </s> <s>",
                "Ünïcödé — naïve “quotes” … №", "日本語のテキスト", "한국어", "العربية", "עברית", "हिन्दी", "ไทย", "🙂👍🏽 emoji",
                "\u200b zero width", "x\u00a0y", "1234567890", "3.14159", "$\\frac{1}{2}$"]
    yield from (chr(code) for code in range(0xa1, 0x2400, 37))
    sources = [("arc/ARC-Easy-Test.jsonl", lambda o: o["question"]["stem"] if isinstance(o["question"], dict) else o["question"]),
               ("math/test_part.jsonl", lambda o: o["problem"]), ("lambada/lambada_test.jsonl", lambda o: o["text"])]
    for name, field in sources:
        with open(os.path.join(data, name), encoding="utf-8") as file:
            yield from (field(json.loads(line)) for _, line in zip(range(80), file))
    for name in sorted(glob.glob(os.path.join(data, "cmmlu", "dev", "*.csv")))[:20]:
        with open(name, encoding="utf-8") as file:
            yield from file.read().splitlines()[1:4]


def ours(command, folder, many):
    found = []
    for text in many:
        made = subprocess.run([command, "tokenizer", "encode", "-t", folder], input=text.encode(),
                              capture_output=True, check=True)
        found.append([int(word) for word in made.stdout.split()])
    return found


def main():
    command, data = sys.argv[1], os.path.join(os.environ.get("KVSHIFT_SHARED", "../shared"), "data")
    folders = [name for name in FOLDERS if os.path.isdir(os.path.join(data, name))]
    if not folders:
        print(f"skipped: no models in '{data}'")
        return 77
    many, failed = list(texts(data)), 0
    with tempfile.TemporaryDirectory() as place:
        for name in folders:
            copy = os.path.join(place, name.replace("/", "-"))
            subprocess.run([command, "convert", os.path.join(data, name), copy], check=True, capture_output=True)
            tokenizer = AutoTokenizer.from_pretrained(copy)
            bad = [text for text, ids in zip(many, ours(command, copy, many)) if tokenizer(text)["input_ids"] != ids]
            print(f"{name}: {type(tokenizer).__name__}, {len(many)} texts, {len(bad)} differ")
            for text in bad[:5]:
                print(f"  {text[:60]!r}")
            failed += bool(bad)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
