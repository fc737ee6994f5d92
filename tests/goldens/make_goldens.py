#!/usr/bin/python3
"""Makes the golden files that tests/test_goldens.c compares the library with.

    make_goldens.py            writes the files beside this script
    make_goldens.py --check    makes them in memory and compares; exit 1 on a difference

Needs PyTorch only (Debian: python3-torch, with Debian's own python3).  The model below is written
from the definition of the shift, sequence by sequence and without a cache, so that it shares no
idea with the library about batches, blocks or state.  All arithmetic and autograd is in float64, on
weights that are exact in float32.

A case is two files.  <case>.json is its config.json.  <case>.safetensors holds

    ids, starts, targets   I32   a ragged batch: sequence s is rows starts[s] .. starts[s+1]-1
    logits                 F32   [tokens, vocab]
    loss                   F64   [1]: the SUM over rows with a target (-1 = none)
    grad.<tensor>          F32   the gradient of that sum
    <tensor>               F32   the weights of this case: its shift, and what else is its own

Every other weight is in body.safetensors, the same for all cases: what differs between their
results comes from the shift.
"""

import argparse
import json
import math
import pathlib
import random
import struct
import sys

import torch

HERE = pathlib.Path(__file__).resolve().parent
TOLERANCE = 1e-6  # of --check, relative to a tensor's largest number

VOCAB, DIM, LAYERS, FFN, CONTEXT = 19, 24, 2, 36, 16
ROPE_BASE, NORM_EPS = 100000.0, 1e-5
LENGTHS = [1, 2, 9, 5]

# name: targets, form, window, heads, kv_heads, tied
CASES = {
    "none": ("", "free", 1, 4, 2, False),
    "k": ("k", "free", 1, 4, 2, False),
    "v": ("v", "free", 1, 4, 2, False),
    "kv": ("kv", "free", 1, 4, 2, False),
    "qkv": ("qkv", "free", 1, 4, 2, False),
    "gate": ("kv", "gate", 1, 4, 2, False),
    "gate-k": ("k", "gate", 1, 4, 2, False),
    "clamp": ("kv", "clamp", 1, 4, 2, False),
    "window2": ("kv", "free", 2, 4, 2, False),
    "window3": ("qkv", "free", 3, 4, 2, False),
    "tied": ("kv", "free", 1, 4, 2, True),
    "kv-1head": ("kv", "free", 1, 1, 1, False),
}


class Case:
    def __init__(self, name):
        self.name = name
        self.targets, self.form, self.window, self.heads, self.kv_heads, self.tied = CASES[name]
        self.head_size = DIM // self.heads

    def config(self):
        shifted = bool(self.targets)
        config = {
            "architectures": ["KVShiftForCausalLM" if shifted else "LlamaForCausalLM"],
            "model_type": "kvshift" if shifted else "llama",
            "vocab_size": VOCAB,
            "hidden_size": DIM,
            "intermediate_size": FFN,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "max_position_embeddings": CONTEXT,
            "hidden_act": "silu",
            "rms_norm_eps": NORM_EPS,
            "rope_theta": ROPE_BASE,
            "tie_word_embeddings": self.tied,
        }
        if shifted:
            config["kvshift"] = {"targets": self.targets, "form": self.form,
                                 "window": self.window, "init": "uniform"}
        return config


# ---- weights -------------------------------------------------------------------------------------

def numbers(seed, shape, draw):
    """Float32 numbers that depend on the seed text only, not on PyTorch's generator."""
    generator = random.Random(seed)
    values = [draw(generator) for _ in range(math.prod(shape))]
    return torch.tensor(values, dtype=torch.float32).reshape(shape)


def body_weights(kv_heads, head_size):
    """Far larger than a usual init, so that no gradient is degenerate."""
    kv_dim = kv_heads * head_size
    matrices = {"model.embed_tokens.weight": (VOCAB, DIM), "lm_head.weight": (VOCAB, DIM)}
    gains = ["model.norm.weight"]
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        matrices |= {
            at + "self_attn.q_proj.weight": (DIM, DIM),
            at + "self_attn.k_proj.weight": (kv_dim, DIM),
            at + "self_attn.v_proj.weight": (kv_dim, DIM),
            at + "self_attn.o_proj.weight": (DIM, DIM),
            at + "mlp.gate_proj.weight": (FFN, DIM),
            at + "mlp.up_proj.weight": (FFN, DIM),
            at + "mlp.down_proj.weight": (DIM, FFN),
        }
        gains += [at + "input_layernorm.weight", at + "post_attention_layernorm.weight"]
    weights = {name: numbers(f"{name} {shape}", shape, lambda g: g.gauss(0, 0.3))
               for name, shape in matrices.items()}
    weights |= {name: numbers(name, (DIM,), lambda g: g.gauss(1, 0.3)) for name in gains}
    return weights


def shift_weights(case):
    """Asymmetric, some negative, some above 1: taps that no symmetry can hide."""
    weights = {}
    for layer in range(LAYERS):
        for target in case.targets:
            heads = case.heads if target == "q" else case.kv_heads
            shape = (heads,) if case.form == "gate" else (heads, case.window + 1)
            name = f"model.layers.{layer}.self_attn.{target}_shift"
            weights[name] = numbers(f"{case.name} {name}", shape, lambda g: g.uniform(-0.7, 1.5))
    if case.form == "clamp":  # a clip passes the gradient on its edges
        weights["model.layers.0.self_attn.k_shift"][0] = torch.tensor([1.0, 0.0])
    everything = torch.cat([w.flatten() for w in weights.values()]) if weights else None
    if everything is not None:
        assert everything.min() < 0 and everything.max() > 0
        assert case.form != "clamp" or everything.max() > 1
    return weights


def batch():
    """Ragged: sequences one behind the other, some rows without a target."""
    generator = random.Random("batch")
    starts = [sum(LENGTHS[:s]) for s in range(len(LENGTHS) + 1)]
    ids = [generator.randrange(VOCAB) for _ in range(starts[-1])]
    targets = [generator.randrange(VOCAB) for _ in range(starts[-1])]
    for row in (2, 5, 6, starts[-1] - 1):
        targets[row] = -1
    return ids, starts, targets


# ---- the model -----------------------------------------------------------------------------------

def rms_norm(x, gain):
    return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + NORM_EPS) * gain


def taps_of(case, weight):
    """[heads, window + 1], oldest first."""
    if case.form == "gate":
        current = torch.sigmoid(weight)
        return torch.stack([1 - current, current], dim=1)
    return weight.clamp(0, 1) if case.form == "clamp" else weight


def shift(x, taps):
    """x [length, heads, head_size]; nothing comes before the first row."""
    window = taps.shape[1] - 1
    padded = torch.cat([x.new_zeros(window, *x.shape[1:]), x])
    return sum(taps[:, j, None] * padded[j:j + len(x)] for j in range(window + 1))


def rope(x):
    """Half-split: pair i is (x_i, x_{i + size/2}), a complex number turned by its angle."""
    half = x.shape[-1] // 2
    frequency = ROPE_BASE ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = torch.arange(len(x), dtype=torch.float64)[:, None, None] * frequency
    pairs = torch.complex(x[..., :half], x[..., half:])
    turned = pairs * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([turned.real, turned.imag], dim=-1)


def attention(case, weights, layer, x):
    at = f"model.layers.{layer}.self_attn."

    def project(target, heads):
        y = (x @ weights[f"{at}{target}_proj.weight"].T).reshape(len(x), heads, case.head_size)
        if target in case.targets:
            y = shift(y, taps_of(case, weights[f"{at}{target}_shift"]))
        return y

    group = case.heads // case.kv_heads
    q = rope(project("q", case.heads))
    k = rope(project("k", case.kv_heads)).repeat_interleave(group, dim=1)
    v = project("v", case.kv_heads).repeat_interleave(group, dim=1)
    scores = torch.einsum("thd,shd->hts", q, k) / math.sqrt(case.head_size)
    future = torch.ones(len(x), len(x)).triu(1).bool()
    p = scores.masked_fill(future, -math.inf).softmax(dim=-1)
    out = torch.einsum("hts,shd->thd", p, v).reshape(len(x), DIM)
    return out @ weights[at + "o_proj.weight"].T


def mlp(weights, layer, x):
    at = f"model.layers.{layer}.mlp."
    gate = torch.nn.functional.silu(x @ weights[at + "gate_proj.weight"].T)
    return (gate * (x @ weights[at + "up_proj.weight"].T)) @ weights[at + "down_proj.weight"].T


def logits_of(case, weights, ids):
    """One sequence, alone."""
    x = weights["model.embed_tokens.weight"][ids]
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        x = x + attention(case, weights, layer, rms_norm(x, weights[at + "input_layernorm.weight"]))
        x = x + mlp(weights, layer, rms_norm(x, weights[at + "post_attention_layernorm.weight"]))
    head = "model.embed_tokens.weight" if case.tied else "lm_head.weight"
    return rms_norm(x, weights["model.norm.weight"]) @ weights[head].T


def golden(case, body):
    """The tensors of one case's file."""
    own = shift_weights(case)
    mine = body_weights(case.kv_heads, case.head_size)
    own |= {name: w for name, w in mine.items() if w.shape != body[name].shape}
    weights = {name: w.double().requires_grad_() for name, w in (mine | own).items()
               if not (case.tied and name == "lm_head.weight")}
    ids, starts, targets = batch()
    logits = torch.cat([logits_of(case, weights, ids[a:b]) for a, b in zip(starts, starts[1:])])
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor(targets), ignore_index=-1,
                                             reduction="sum")
    loss.backward()
    tensors = {
        "ids": torch.tensor(ids, dtype=torch.int32),
        "starts": torch.tensor(starts, dtype=torch.int32),
        "targets": torch.tensor(targets, dtype=torch.int32),
        "logits": logits.detach().float(),
        "loss": loss.detach().reshape(1),
    }
    return own | tensors | {"grad." + name: w.grad.float() for name, w in weights.items()}


# ---- files ---------------------------------------------------------------------------------------

DTYPES = {torch.float32: ("F32", "f"), torch.float64: ("F64", "d"), torch.int32: ("I32", "i")}


def to_safetensors(tensors):
    header, data = {}, b""
    for name in sorted(tensors):
        dtype, code = DTYPES[tensors[name].dtype]
        values = tensors[name].flatten().tolist()
        start = len(data)
        data += struct.pack(f"<{len(values)}{code}", *values)
        header[name] = {"dtype": dtype, "shape": list(tensors[name].shape),
                        "data_offsets": [start, len(data)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def from_safetensors(content):
    size = struct.unpack_from("<Q", content)[0]
    types = {name: (dtype, code) for dtype, (name, code) in DTYPES.items()}
    tensors = {}
    for name, entry in json.loads(content[8:8 + size]).items():
        dtype, code = types[entry["dtype"]]
        values = struct.unpack_from(f"<{math.prod(entry['shape'])}{code}", content,
                                    8 + size + entry["data_offsets"][0])
        tensors[name] = torch.tensor(values, dtype=dtype).reshape(entry["shape"])
    return tensors


def make_files():
    """Every file's content by its name."""
    body = body_weights(2, DIM // 4)
    files = {"body.safetensors": to_safetensors(body)}
    for name in CASES:
        case = Case(name)
        files[name + ".json"] = (json.dumps(case.config(), indent=2) + "\n").encode()
        files[name + ".safetensors"] = to_safetensors(golden(case, body))
    return files


def differences(name, made, stored):
    """What differs between two contents of one file, in words."""
    if name.endswith(".json"):
        return [] if json.loads(made) == json.loads(stored) else ["another configuration"]
    made, stored = from_safetensors(made), from_safetensors(stored)
    if made.keys() != stored.keys():
        return [f"tensors {sorted(made.keys() ^ stored.keys())} are in one of both only"]
    found = []
    for tensor, new in made.items():
        old = stored[tensor]
        if new.dtype != old.dtype or new.shape != old.shape:
            found.append(f"{tensor}: {old.dtype} {list(old.shape)}, "
                         f"expected {new.dtype} {list(new.shape)}")
            continue
        error, size = (new.double() - old.double()).abs().max(), new.double().abs().max()
        if not error <= TOLERANCE * size:
            found.append(f"{tensor}: differs by {error:.3g}, its largest number is {size:.3g}")
    return found


def check(files):
    kept = {p.name for p in HERE.iterdir() if p.suffix in (".json", ".safetensors")}
    found = [f"{name}: belongs to no case" for name in sorted(kept - files.keys())]
    for name, content in files.items():
        if name not in kept:
            found.append(f"{name}: is missing")
        else:
            stored = (HERE / name).read_bytes()
            found += [f"{name}: {d}" for d in differences(name, content, stored)]
    print("\n".join(found) if found else f"{len(files)} files agree")
    return 1 if found else 0


def main():
    parser = argparse.ArgumentParser(description="Makes the golden files of the model's tests.")
    parser.add_argument("--check", action="store_true",
                        help="compare with the files instead of writing them")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    files = make_files()
    if arguments.check:
        return check(files)
    for name, content in files.items():
        (HERE / name).write_bytes(content)
    print(f"{len(files)} files, {sum(map(len, files.values()))} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
