#!/usr/bin/env python3
"""Compares what the command writes from models of other families with Hugging Face's 'transformers'.

usage: families_check.py KVSHIFT LIBKVSHIFT

Every folder of $KVSHIFT_SHARED/data/zoo that the command reads, made by transformers, is
  - converted without a change: transformers reads it as the same family, with the same logits;
  - trained for two steps, all weights: likewise, with the logits that the library computes;
  - retrofitted, given random taps, and converted: transformers, with modeling_kvshift.py, computes
    the library's logits in one pass, in chunks with a cache, padded, and generates the same.
Exits 77 where a module or the folder is missing.
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
    from transformers import AutoModelForCausalLM
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from library import Library
from transformers_check import CHUNKS, LIMIT, compare, error

TRAINING = ("--task induction --pool 32 --steps 2 --batch 2 --lr 1e-3 --eval-sequences 2 "
            "--threads 1").split()


def run(*command):
    """Returns the message of a failure, or None."""
    done = subprocess.run(command, capture_output=True, text=True)
    return None if done.returncode == 0 else done.stderr.strip()


def must(*command):
    message = run(*command)
    if message is not None:
        sys.exit(f"{' '.join(command)}: {message}")


def model_type(folder):
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        return json.load(file)["model_type"]


def opened(folder, **options):
    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True,
                                                 dtype=torch.float32, **options).eval()
    model.generation_config.pad_token_id = 0
    model.generation_config.eos_token_id = None  # so that every text has the same length
    return model


def set_taps(folder, seed):
    path = os.path.join(folder, "model.safetensors")
    tensors, draw = load_file(path), torch.Generator().manual_seed(seed)
    for name, tensor in tensors.items():
        if name.endswith("_shift"):
            tensors[name] = tensor + 0.5 * torch.randn(tensor.shape, generator=draw)
    save_file(tensors, path, metadata={"format": "pt"})


class Check:
    def __init__(self, command, library):
        self.command, self.library = command, Library(library)
        self.wrong, self.worst = [], 0.0

    def report(self, name, bad, size):
        self.worst = max(self.worst, size)
        if bad:
            self.wrong.append(name)

    def ours(self, folder, ids, width):
        return torch.tensor(self.library.logits(folder, ids[0].tolist(), width))

    def family(self, name, folder, expected, model, ids, logits):
        """A folder that is to be read as the family `expected`, with these logits.  Version 4 caps
        the scores of Gemma 2 only with the eager implementation."""
        found = opened(folder, attn_implementation="eager")
        size = error(found(ids).logits[0], logits)
        kept = model_type(folder) == expected and type(found) is type(model)
        bad = not (kept and size <= LIMIT)
        print(f"{name:70s} {size:.1e} {'WRONG: ' + model_type(folder) if bad else ''}")
        self.report(name, bad, size)

    def folder(self, source, at):
        name, plain, trained = os.path.basename(source), f"{at}/plain", f"{at}/trained"
        refused = run(self.command, "convert", source, plain)
        if refused is not None:
            print(f"{name:70s} refused: {refused}")
            return 0
        kind, model = model_type(source), opened(source)
        ids = torch.randint(1, model.config.vocab_size, (1, sum(CHUNKS)),
                            generator=torch.manual_seed(1))
        logits = model(ids).logits[0]
        width = logits.shape[-1]
        if transformers.__version__ < "5":  # reads only its own files rightly
            logits = self.ours(plain, ids, width)
        self.family(f"{name}, converted", plain, kind, model, ids, logits)
        train = [self.command, "train", "--init-from", source, *TRAINING]
        must(*train, "--out", trained)
        self.family(f"{name}, trained", trained, kind, model, ids, self.ours(trained, ids, width))
        refused = run(*train, "--retrofit", "qkv", "--out", f"{at}/run")
        if refused is not None and "already shifted" in refused:  # Inkling
            return 1
        if refused is not None:
            sys.exit(refused)
        set_taps(f"{at}/run", 1)
        must(self.command, "convert", f"{at}/run", f"{at}/shifted")
        bad, size = compare(f"{name}, shifted", opened(f"{at}/shifted"), ids,
                            self.ours(f"{at}/run", ids, width))
        self.report(f"{name}, shifted", bad or model_type(f"{at}/shifted") != "kvshift", size)
        return 1


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    zoo = os.path.join(os.environ.get("KVSHIFT_SHARED", "../shared"), "data", "zoo")
    if not os.path.isdir(zoo):
        print(f"skipped: no folder '{zoo}'")
        sys.exit(77)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    check, count = Check(*sys.argv[1:]), 0
    with torch.no_grad():
        for name in sorted(os.listdir(zoo)):
            source = os.path.join(zoo, name)
            if not os.path.exists(os.path.join(source, "config.json")):
                continue
            with tempfile.TemporaryDirectory() as at:
                count += check.folder(source, at)
    print(f"transformers {transformers.__version__}: {count} models, {len(check.wrong)} checks "
          f"wrong; the largest difference is {check.worst:.1e} of the largest logit")
    sys.exit(bool(check.wrong) or count == 0)


if __name__ == "__main__":
    main()
