#!/usr/bin/env python3
"""Compares low-rank adapters with those of the package 'peft'.

usage: peft_check.py KVSHIFT LIBKVSHIFT

For every folder of $KVSHIFT_SHARED/data/zoo that the command reads, made by transformers:
  - adapters that the command has trained: peft loads them into the model, and the logits are those
    of the library; so are those of the model that 'convert --merge' writes;
  - the same with a shift, which peft loads into what 'convert --retrofit' has made of the model;
  - adapters that peft has made, with random values: 'convert --merge --base' gives peft's logits.
Where files have q, k and v in one tensor, adapters without a shift are those of other matrices.
Exits 77 where a module or the folder is missing.
"""
import os
import sys
import tempfile

try:
    import torch
    import transformers
    import peft
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from families_check import model_type, must, opened, run
from library import Library
from transformers_check import LIMIT, error

# Matrices with rows of their own, here and in PEFT, where those are not q_proj, o_proj and so on.
OURS = {"phi3": "o_proj,down_proj", "gpt_neox": "o_proj,up_proj,down_proj"}
THEIRS = {"gpt2": ["c_attn", "c_fc"], "gpt_neox": ["dense", "dense_h_to_4h"],
          "opt": ["out_proj", "q_proj", "fc2"]}
TRAINING = ("--lora 4 --lora-alpha 6 --task induction --pool 32 --steps 4 --batch 2 --lr 1e-2 "
            "--shift-lr 1e-1 --warmup 0 --eval-sequences 2 --threads 1").split()
TOKENS = 24


class Check:
    def __init__(self, command, library):
        self.command, self.library = command, Library(library)
        self.wrong, self.worst, self.done = [], 0.0, 0

    def compare(self, name, found, expected):
        size = error(found, expected)
        bad = not size <= LIMIT
        print(f"{name:70s} {size:.1e} {'WRONG' if bad else ''}", flush=True)
        self.worst, self.done = max(self.worst, size), self.done + 1
        if bad:
            self.wrong.append(name)

    def ours(self, folder, ids, width):
        return torch.tensor(self.library.logits(folder, ids[0].tolist(), width))

    def trained(self, name, source, base, at, *options):
        """Adapters that are trained from `source`, loaded by peft into `base`."""
        ids = torch.randint(1, 60, (1, TOKENS), generator=torch.manual_seed(1))
        model = opened(base)
        width = model.config.vocab_size
        plain = model(ids).logits[0]
        must(self.command, "train", "--init-from", source, *TRAINING, *options, "--out", f"{at}/run")
        ours = self.ours(f"{at}/run", ids, width)
        adapted = peft.PeftModel.from_pretrained(model, f"{at}/run").eval()
        self.compare(f"{name}, adapters in peft", adapted(ids).logits[0], ours)
        if not error(plain, ours) > 100 * LIMIT:
            self.wrong.append(name)
            print(f"{name}: the adapters have no effect")
        must(self.command, "convert", f"{at}/run", f"{at}/merged", "--merge")
        self.compare(f"{name}, merged", opened(f"{at}/merged")(ids).logits[0], ours)

    def made_by_peft(self, name, source, at):
        ids = torch.randint(1, 60, (1, TOKENS), generator=torch.manual_seed(2))
        kind = model_type(source)
        torch.manual_seed(3)
        adapted = peft.get_peft_model(opened(source), peft.LoraConfig(
            r=3, lora_alpha=5, use_rslora=True, task_type="CAUSAL_LM", init_lora_weights=False,
            fan_in_fan_out=kind == "gpt2",
            target_modules=THEIRS.get(kind, ["o_proj", "down_proj"]))).eval()
        expected = adapted(ids).logits[0]
        adapted.save_pretrained(f"{at}/adapter")
        must(self.command, "convert", f"{at}/adapter", f"{at}/out", "--merge", "--base", source)
        self.compare(f"{name}, made by peft", self.ours(f"{at}/out", ids, expected.shape[-1]),
                     expected)

    def folder(self, source, at):
        name = os.path.basename(source)
        if run(self.command, "convert", source, f"{at}/plain") is not None:
            return
        on = OURS.get(model_type(source))
        self.trained(name, source, source, at, *(["--lora-on", on] if on else []))
        self.made_by_peft(name, source, at)
        refused = run(self.command, "convert", source, f"{at}/base", "--retrofit", "kv")
        if refused is not None and "already shifted" in refused:  # Inkling
            return
        if refused is not None:
            sys.exit(refused)
        os.mkdir(f"{at}/shifted")
        try:
            opened(f"{at}/base")
        except ValueError as refused:  # modeling_kvshift.py does not have every setting
            print(f"{name}, shifted: {refused}")
            return
        self.trained(f"{name}, shifted", source, f"{at}/base", f"{at}/shifted", "--retrofit", "kv")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    zoo = os.path.join(os.environ.get("KVSHIFT_SHARED", "../shared"), "data", "zoo")
    if not os.path.isdir(zoo):
        print(f"skipped: no folder '{zoo}'")
        sys.exit(77)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    check = Check(*sys.argv[1:])
    with torch.no_grad():
        for name in sorted(os.listdir(zoo)):
            source = os.path.join(zoo, name)
            if not os.path.exists(os.path.join(source, "config.json")):
                continue
            with tempfile.TemporaryDirectory() as at:
                check.folder(source, at)
    print(f"peft {peft.__version__}, transformers {transformers.__version__}: {check.done} "
          f"comparisons, {len(check.wrong)} wrong; the largest difference is {check.worst:.1e} of "
          f"the largest logit")
    sys.exit(bool(check.wrong) or check.done == 0)


if __name__ == "__main__":
    main()
