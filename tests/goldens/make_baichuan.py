#!/usr/bin/python3
"""Makes a tiny random model in the layout of Baichuan-M1 and the logits that it gives.

    make_baichuan.py            writes the files into baichuan/ beside this script
    make_baichuan.py --check    makes them in memory and compares; exit 1 on a difference

Needs PyTorch only (Debian: python3-torch, with Debian's own python3).  The model is written twice,
from its description alone: once for a whole sequence, with masks, and once token by token, with a
cache that forgets what has left the sliding window.  All arithmetic is in float64, on weights that
are exact in bfloat16; the two ways must agree to 1e-12 before anything is written.

    config.json, model.safetensors   the model, BF16, as tests/test_baichuan.c loads it
    expected.safetensors             ids      I32 [tokens]
                                     prefill  F32 [tokens, vocab]: all tokens at once
                                     decode   F32 [tokens, vocab]: one token after the other
"""

import argparse
import json
import math
import pathlib
import random
import struct
import sys

import torch

HERE = pathlib.Path(__file__).resolve().parent / "baichuan"
TOLERANCE = 1e-6  # of --check, relative to the largest number
TOKENS = 24

# Layers 1 and 3 slide; their heads are fewer and larger.
CONFIG = {
    "architectures": ["BaichuanM1ForCausalLM"],
    "model_type": "baichuan_m1",
    "vocab_size": 41,
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_swa_attention_heads": 2,
    "num_swa_key_value_heads": 1,
    "sliding_window": 5,
    "sliding_window_layers": [1, 3],
    "conv_window": 2,
    "hidden_act": "silu",
    "rope_theta": 10000.0,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
DIM, FFN, VOCAB = CONFIG["hidden_size"], CONFIG["intermediate_size"], CONFIG["vocab_size"]
LAYERS, WINDOW = CONFIG["num_hidden_layers"], CONFIG["sliding_window"]


def slides(layer):
    return layer in CONFIG["sliding_window_layers"]


def head_counts(layer):
    kind = "swa_" if slides(layer) else ""
    return CONFIG[f"num_{kind}attention_heads"], CONFIG[f"num_{kind}key_value_heads"]


# ---- weights -------------------------------------------------------------------------------------

def make_weights():
    """Large enough that everything counts; numbers depend on the tensor's name only."""
    shapes = {"model.embed_tokens.weight": (VOCAB, DIM), "model.norm.weight": (DIM,),
              "lm_head.weight": (VOCAB, DIM)}
    for layer in range(LAYERS):
        heads, kv_heads = head_counts(layer)
        at = f"model.layers.{layer}."
        shapes |= {
            at + "input_layernorm.weight": (DIM,),
            at + "self_attn.W_pack.weight": (DIM + 2 * kv_heads * (DIM // heads), DIM),
            at + "self_attn.o_proj.weight": (DIM, DIM),
            at + "self_attn.conv_k": (1, 1, kv_heads, 1, 2),
            at + "self_attn.conv_v": (1, 1, kv_heads, 1, 2),
            at + "post_attention_layernorm.weight": (DIM,),
            at + "mlp.gate_proj.weight": (FFN, DIM),
            at + "mlp.up_proj.weight": (FFN, DIM),
            at + "mlp.down_proj.weight": (DIM, FFN),
        }
    return {name: draw(name, shape) for name, shape in shapes.items()}


def draw(name, shape):
    generator = random.Random(name)
    if "conv_" in name:
        values = [generator.uniform(-0.7, 1.5) for _ in range(math.prod(shape))]
    else:
        mean = 1 if len(shape) == 1 else 0
        values = [generator.gauss(mean, 0.3) for _ in range(math.prod(shape))]
    return torch.tensor(values, dtype=torch.bfloat16).reshape(shape)


# ---- what both ways share ------------------------------------------------------------------------

def rms_norm(x, gain):
    return x / (x.square().mean(-1, keepdim=True) + CONFIG["rms_norm_eps"]).sqrt() * gain


def feed_forward(w, at, x):
    inner = torch.nn.functional.silu(x @ w[at + "mlp.gate_proj.weight"].T)
    return (inner * (x @ w[at + "mlp.up_proj.weight"].T)) @ w[at + "mlp.down_proj.weight"].T


def output(w, x):
    rows = w["lm_head.weight"]
    return rms_norm(x, w["model.norm.weight"]) @ (rows / rows.norm(dim=1, keepdim=True)).T


def rotate(x, positions):
    """x [..., length, size]: channel i turns together with channel i + size/2."""
    size = x.shape[-1]
    speed = CONFIG["rope_theta"] ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angle = positions.double()[:, None] * speed
    cosine, sine = (f(angle).repeat(1, 2) for f in (torch.cos, torch.sin))
    turned = torch.cat([-x[..., size // 2:], x[..., :size // 2]], dim=-1)
    return x * cosine + turned * sine


# ---- all tokens at once --------------------------------------------------------------------------

def whole_attention(w, layer, x):
    heads, kv_heads = head_counts(layer)
    size, length = DIM // heads, len(x)
    at = f"model.layers.{layer}.self_attn."
    packed = (x @ w[at + "W_pack.weight"].T).reshape(length, heads + 2 * kv_heads, size)
    q, k, v = packed.transpose(0, 1).split([heads, kv_heads, kv_heads])

    def convolve(y, kernel):  # y [kv heads, length, size]
        before = torch.nn.functional.pad(y, (0, 0, 1, 0))[:, :-1]
        return kernel[0, 0, :, :, 0, None] * before + kernel[0, 0, :, :, 1, None] * y

    positions = torch.arange(length)
    q = rotate(q, positions)
    k = rotate(convolve(k, w[at + "conv_k"]), positions).repeat_interleave(heads // kv_heads, 0)
    v = convolve(v, w[at + "conv_v"]).repeat_interleave(heads // kv_heads, 0)
    seen = torch.ones(length, length, dtype=torch.bool).tril()
    if slides(layer):
        seen &= ~torch.ones(length, length, dtype=torch.bool).tril(-WINDOW)
    scores = (q @ k.transpose(1, 2) / math.sqrt(size)).masked_fill(~seen, -math.inf)
    mixed = scores.softmax(-1) @ v
    return mixed.transpose(0, 1).reshape(length, DIM) @ w[at + "o_proj.weight"].T


def prefill(w, ids):
    x = w["model.embed_tokens.weight"][ids]
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        x = x + whole_attention(w, layer, rms_norm(x, w[at + "input_layernorm.weight"]))
        x = x + feed_forward(w, at, rms_norm(x, w[at + "post_attention_layernorm.weight"]))
    return output(w, x)


# ---- token by token ------------------------------------------------------------------------------

class LayerCache:
    """Mixed keys and values, and beside them the last ones as they were before the mixing."""

    def __init__(self, layer):
        heads, kv_heads = head_counts(layer)
        self.keys, self.values = [], []
        self.last_key = self.last_value = torch.zeros(kv_heads, DIM // heads, dtype=torch.float64)

    def forget(self, keep):
        del self.keys[:-keep], self.values[:-keep]


def single_attention(w, layer, x, position, cache):
    """x [DIM]; head by head, as plainly as can be."""
    heads, kv_heads = head_counts(layer)
    size = DIM // heads
    at = f"model.layers.{layer}.self_attn."
    rows = (w[at + "W_pack.weight"] @ x).reshape(-1, size)
    q, key, value = rows[:heads], rows[heads:heads + kv_heads], rows[heads + kv_heads:]
    taps_k, taps_v = (w[at + name].reshape(kv_heads, 2) for name in ("conv_k", "conv_v"))
    place = torch.tensor([position])
    mixed = taps_k[:, :1] * cache.last_key + taps_k[:, 1:] * key
    cache.keys.append(rotate(mixed[:, None], place)[:, 0])
    cache.values.append(taps_v[:, :1] * cache.last_value + taps_v[:, 1:] * value)
    cache.last_key, cache.last_value = key, value
    if slides(layer):
        cache.forget(WINDOW)
    out = []
    for head in range(heads):
        turned, kv = rotate(q[head][None], place)[0], head // (heads // kv_heads)
        scores = torch.stack([turned @ past[kv] for past in cache.keys]) / math.sqrt(size)
        weights = scores.softmax(0)
        out.append(sum(p * past[kv] for p, past in zip(weights, cache.values)))
    return w[at + "o_proj.weight"] @ torch.cat(out)


def decode(w, ids):
    caches, logits = [LayerCache(layer) for layer in range(LAYERS)], []
    for position, token in enumerate(ids):
        x = w["model.embed_tokens.weight"][token]
        for layer, cache in enumerate(caches):
            at = f"model.layers.{layer}."
            norm = rms_norm(x, w[at + "input_layernorm.weight"])
            x = x + single_attention(w, layer, norm, position, cache)
            x = x + feed_forward(w, at, rms_norm(x, w[at + "post_attention_layernorm.weight"]))
        logits.append(output(w, x))
    return torch.stack(logits)


# ---- files ---------------------------------------------------------------------------------------

def to_safetensors(tensors):
    def to_bytes(tensor):
        if tensor.dtype == torch.bfloat16:
            return "BF16", struct.pack(f"<{tensor.numel()}h",
                                       *tensor.view(torch.int16).flatten().tolist())
        dtype, code = {torch.float32: ("F32", "f"), torch.int32: ("I32", "i")}[tensor.dtype]
        return dtype, struct.pack(f"<{tensor.numel()}{code}", *tensor.flatten().tolist())

    header, data = {}, b""
    for name, tensor in sorted(tensors.items()):
        dtype, more = to_bytes(tensor)
        header[name] = {"dtype": dtype, "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(more)]}
        data += more
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def make_files():
    stored = make_weights()
    weights = {name: tensor.double() for name, tensor in stored.items()}
    ids = random.Random("ids").choices(range(VOCAB), k=TOKENS)
    whole, single = prefill(weights, ids), decode(weights, ids)
    difference = ((whole - single).abs().max() / whole.abs().max()).item()
    assert difference < 1e-12, f"the two ways differ by {difference}"
    expected = {"ids": torch.tensor(ids, dtype=torch.int32), "prefill": whole.float(),
                "decode": single.float()}
    return {"config.json": (json.dumps(CONFIG, indent=2) + "\n").encode(),
            "model.safetensors": to_safetensors(stored),
            "expected.safetensors": to_safetensors(expected)}, expected


def read_expected():
    data = (HERE / "expected.safetensors").read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header, data = json.loads(data[8:8 + length]), data[8 + length:]
    codes = {"F32": "f", "I32": "i"}
    return {name: torch.tensor(struct.unpack(
        f"<{math.prod(t['shape'])}{codes[t['dtype']]}", data[slice(*t["data_offsets"])]))
        .reshape(t["shape"]) for name, t in header.items()}


def check(files, expected):
    """The model byte for byte, the logits up to rounding."""
    same = all((HERE / name).read_bytes() == files[name]
               for name in ("config.json", "model.safetensors"))
    for name, tensor in read_expected().items():
        error = (tensor - expected[name]).abs().max() / expected[name].abs().max()
        same = same and error.item() <= TOLERANCE
    return same


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    files, expected = make_files()
    if parser.parse_args().check:
        same = check(files, expected)
        print("the golden files are as made" if same else "the golden files differ")
        return 0 if same else 1
    HERE.mkdir(exist_ok=True)
    for name, data in files.items():
        (HERE / name).write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
