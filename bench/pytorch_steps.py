#!/usr/bin/python3
"""Training steps of the paper's model in PyTorch, one per line of standard input.

    pytorch_steps.py FOLDER --shift unfold|multiply|none [--precision f32|bf16] [--threads N]

FOLDER was written by 'kvshift bench train --save': config.json, model.safetensors and the batch.
The model is written like Hugging Face's Llama, with fused attention and fused AdamW if this PyTorch
has them.  The answer to each line is {"seconds": ..., "loss": ...}.
"""

import argparse
import json
import pathlib
import struct
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

TYPES = {"F32": torch.float32, "I32": torch.int32}
FUSED_ATTENTION = hasattr(F, "scaled_dot_product_attention")


def read_safetensors(path):
    data = path.read_bytes()
    size, = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, about in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        start, end = about["data_offsets"]
        flat = torch.frombuffer(bytearray(data[8 + size + start:8 + size + end]),
                                dtype=TYPES[about["dtype"]])
        tensors[name] = flat.reshape(about["shape"])
    return tensors


# ---- the shift, in two ways ----------------------------------------------------------------------

def shift_unfold(u, taps):
    """As in the paper's listing: pad, unfold, multiply, sum.  u (batch, length, heads, size)."""
    width = taps.shape[1]
    unfolded = F.pad(u, (0, 0, 0, 0, width - 1, 0)).unfold(1, width, 1)
    return (unfolded * taps[None, None, :, None, :]).sum(dim=-1)


def shift_multiply(u, taps):
    """The same for two taps: two products and a sum."""
    previous = F.pad(u[:, :-1], (0, 0, 0, 0, 1, 0))
    return previous * taps[:, 0, None] + u * taps[:, 1, None]


SHIFTS = {"unfold": shift_unfold, "multiply": shift_multiply, "none": None}


# ---- the model -----------------------------------------------------------------------------------

class RMSNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def rotate(x, cosines, sines):
    left, right = x.chunk(2, dim=-1)
    return x * cosines + torch.cat((-right, left), dim=-1) * sines


def attend(q, k, v):
    """(batch, heads, length, size), causal."""
    if FUSED_ATTENTION:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    length = q.shape[2]
    hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
    scores = (q @ k.transpose(2, 3)) * q.shape[3] ** -0.5
    return scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v


class Attention(nn.Module):
    def __init__(self, config, shift):
        super().__init__()
        dim, self.heads = config["hidden_size"], config["num_attention_heads"]
        self.kv_heads, self.size = config["num_key_value_heads"], dim // self.heads
        self.q_proj = nn.Linear(dim, dim, bias=False)
        self.k_proj = nn.Linear(dim, self.kv_heads * self.size, bias=False)
        self.v_proj = nn.Linear(dim, self.kv_heads * self.size, bias=False)
        self.o_proj = nn.Linear(dim, dim, bias=False)
        self.shift = shift
        if shift:
            self.k_shift = nn.Parameter(torch.zeros(self.kv_heads, 2))
            self.v_shift = nn.Parameter(torch.zeros(self.kv_heads, 2))

    def forward(self, x, cosines, sines):
        batch, length, dim = x.shape
        q = self.q_proj(x).view(batch, length, self.heads, self.size)
        k = self.k_proj(x).view(batch, length, self.kv_heads, self.size)
        v = self.v_proj(x).view(batch, length, self.kv_heads, self.size)
        if self.shift:
            k, v = self.shift(k, self.k_shift), self.shift(v, self.v_shift)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        q, k = rotate(q, cosines, sines), rotate(k, cosines, sines)
        if self.kv_heads < self.heads:
            k = k.repeat_interleave(self.heads // self.kv_heads, dim=1)
            v = v.repeat_interleave(self.heads // self.kv_heads, dim=1)
        return self.o_proj(attend(q, k, v).transpose(1, 2).reshape(batch, length, dim))


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        dim, ffn = config["hidden_size"], config["intermediate_size"]
        self.gate_proj = nn.Linear(dim, ffn, bias=False)
        self.up_proj = nn.Linear(dim, ffn, bias=False)
        self.down_proj = nn.Linear(ffn, dim, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, config, shift):
        super().__init__()
        dim, eps = config["hidden_size"], config["rms_norm_eps"]
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(dim, eps), RMSNorm(dim, eps)
        self.self_attn, self.mlp = Attention(config, shift), MLP(config)

    def forward(self, x, cosines, sines):
        x = x + self.self_attn(self.input_layernorm(x), cosines, sines)
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    def __init__(self, config, shift, length):
        super().__init__()
        self.embed_tokens = nn.Embedding(config["vocab_size"], config["hidden_size"])
        layers = range(config["num_hidden_layers"])
        self.layers = nn.ModuleList(Layer(config, shift) for _ in layers)
        self.norm = RMSNorm(config["hidden_size"], config["rms_norm_eps"])
        size = config["hidden_size"] // config["num_attention_heads"]
        speeds = config["rope_theta"] ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
        angles = torch.outer(torch.arange(length, dtype=torch.float64), speeds).repeat(1, 2)
        self.cosines, self.sines = angles.cos().float(), angles.sin().float()

    def forward(self, ids):
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x, self.cosines, self.sines)
        return self.norm(x)


class Model(nn.Module):
    def __init__(self, config, shift, length):
        super().__init__()
        self.model = Body(config, shift, length)
        self.lm_head = nn.Linear(config["hidden_size"], config["vocab_size"], bias=False)

    def forward(self, ids):
        return self.lm_head(self.model(ids))


# ---- steps ---------------------------------------------------------------------------------------

def make_optimizer(parameters):
    settings = {"lr": 1e-4, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}
    parameters = list(parameters)
    try:
        return torch.optim.AdamW(parameters, fused=True, **settings), "fused"
    except (RuntimeError, TypeError):
        return torch.optim.AdamW(parameters, **settings), "plain"


def train_step(model, optimizer, ids, targets, precision):
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
        loss = F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--shift", choices=list(SHIFTS), required=True)
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32",
                        help="bf16: autocast to bfloat16 (default: f32)")
    parser.add_argument("--length", type=int, required=True, help="tokens per sequence")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    config = json.loads((options.folder / "config.json").read_text())
    tokens = read_safetensors(options.folder / "batch.safetensors")["tokens"].long()
    ids, targets = (t.reshape(-1, options.length) for t in (tokens[:-1], tokens[1:]))
    model = Model(config, SHIFTS[options.shift], options.length)
    model.load_state_dict(read_safetensors(options.folder / "model.safetensors"))
    optimizer, kind = make_optimizer(model.parameters())
    print(json.dumps({"ready": True, "pytorch": torch.__version__, "adamw": kind,
                      "attention": "fused" if FUSED_ATTENTION else "plain"}), flush=True)
    for _ in sys.stdin:
        started = time.perf_counter()
        loss = train_step(model, optimizer, ids, targets, options.precision)
        print(json.dumps({"seconds": time.perf_counter() - started, "loss": loss}), flush=True)


if __name__ == "__main__":
    main()
