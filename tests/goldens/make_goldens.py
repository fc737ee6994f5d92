#!/usr/bin/python3
"""Makes the golden files that tests/test_goldens.c compares the library with.

    make_goldens.py            writes the files beside this script
    make_goldens.py --check    makes them in memory and compares; exit 1 on a difference

Needs PyTorch only (Debian: python3-torch, with Debian's own python3).  The model below is written
from the definitions, sequence by sequence and without a cache, so that it shares no idea with the
library about batches, blocks or state.  All arithmetic and autograd is in float64, on weights that
are exact in float32.

A case is two files.  <case>.json is its config.json.  <case>.safetensors holds

    ids, starts, targets   I32   a ragged batch: sequence s is rows starts[s] .. starts[s+1]-1
    dropout                I64   [2]: seed and number of the first sequence; absent = nothing is dropped
    logits                 F32   [tokens, vocab], or [tokens, dim] without an output head
    loss                   F64   [1]: the SUM over rows with a target (-1 = none)
    grad.<tensor>          F32   the gradient of that sum
    <tensor>               F32   the weights of this case: its shift, and what else is its own

Every other weight is in body-<body>.safetensors, the same for all its cases: what differs between
their results comes from what differs in their configurations.

The cases <form>-<targets>-<window> are all the shifts there are.  To stay small they leave out the
gradients of norms, MLP and output head, which the other cases have.
"""

import argparse
import dataclasses
import json
import math
import pathlib
import random
import struct
import sys

import torch

HERE = pathlib.Path(__file__).resolve().parent
TOLERANCE = 1e-6  # of --check, relative to a tensor's largest number

VOCAB, DIM, LAYERS, FFN, CONTEXT = 13, 16, 2, 20, 8
ROPE_BASE, NORM_EPS = 100000.0, 1e-5
LENGTHS = [1, 2, 7]


# ---- cases ---------------------------------------------------------------------------------------

@dataclasses.dataclass(frozen=True)
class Case:
    body: str = "llama"
    targets: str = "kv"  # of the shift; "" = none
    form: str = "free"
    window: int = 1
    heads: int = 4
    kv_heads: int = 2
    head_size: int = 0
    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    embedding_norm: bool = False
    norm_kind: str = "auto"  # rms, layer
    norm_place: str = "before"  # after, both
    gain_offset: bool = False
    parallel: str = "none"  # own, shared
    activation: str = "auto"  # silu, gelu, gelu-tanh, relu
    plain_mlp: bool = False
    embedding_scale: float = 0.0
    residual_scale: float = 0.0
    logit_divisor: float = 0.0
    positions: str = "rope"
    rope_base: float = ROPE_BASE
    rotary_scaling: str = "none"
    rope_factor: float = 0.0
    rope_original_context: int = 0
    rope_low_factor: float = 0.0
    rope_high_factor: float = 0.0
    rope_beta_fast: float = 0.0
    rope_beta_slow: float = 0.0
    rope_untruncated: bool = False
    rope_vector_scale: float = 0.0
    rope_short_factors: tuple = ()
    rope_long_factors: tuple = ()
    no_rope_layers: tuple = ()
    sliding_rope_base: float = 0.0
    rotary_fraction: float = 1.0
    slopes: tuple = ()
    score_scale: float = 0.0
    score_cap: float = 0.0
    logit_cap: float = 0.0
    qk_norm: str = "none"
    sliding_window: int = 0
    sliding_layers: tuple = ()
    sliding_heads: int = 0
    sliding_kv_heads: int = 0
    sliding_head_size: int = 0
    filters: str = "none"  # attention, mlp, branches
    filter_window: int = 0
    mlp_factor: bool = False
    relative_size: int = 0
    relative_extent: int = 0
    score_divisor: str = "root"
    score_growth: float = 0.0
    score_growth_start: float = 0.0
    head: str = "linear"
    tied: bool = False
    dropout: tuple = (0.0, 0.0, 0.0)  # embedding, attention, residual
    pass_seed: int = 0
    pass_number: int = 0
    residual: bool = True
    mlp: bool = True
    norm: bool = True
    all_gradients: bool = True

    def slides(self, layer):
        return self.sliding_window > 0 and (not self.sliding_layers or layer in self.sliding_layers)

    def head_counts(self, layer):
        if self.sliding_heads and self.slides(layer):
            return self.sliding_heads, self.sliding_kv_heads
        return self.heads, self.kv_heads

    def size_of_heads(self, layer):
        own = self.sliding_head_size if self.slides(layer) else 0
        return own or self.head_size or DIM // self.head_counts(layer)[0]

    def has_bias(self, matrix):
        """Whether a matrix of Llama's body has one."""
        if matrix.startswith("mlp."):
            return self.mlp_bias
        return self.o_bias if "o_proj" in matrix else self.qkv_bias

    def has_layer_norm(self):
        return self.norm_kind == "layer" or self.norm_kind == "auto" and self.body == "gpt2"

    def has_filter(self, branch):
        return self.filters in (branch, "branches")

    def extent(self, layer):
        return self.sliding_window if self.slides(layer) else self.relative_extent

    def extras(self):
        """What the "kvshift" object says beside the shift itself."""
        usual = Case(positions="learned" if self.body == "gpt2" else "rope",
                     kv_heads=self.heads if self.body == "gpt2" else self.kv_heads)
        names = ["positions", "rotary_fraction", "slopes", "score_scale", "score_cap",
                 "logit_cap", "qk_norm", "sliding_window",
                 "sliding_layers", "sliding_heads", "sliding_kv_heads", "sliding_head_size",
                 "head_size", "qkv_bias", "o_bias", "mlp_bias", "embedding_norm", "norm_kind",
                 "norm_place", "gain_offset", "parallel", "activation", "plain_mlp",
                 "embedding_scale", "residual_scale", "logit_divisor", "rotary_scaling",
                 "rope_factor", "rope_original_context", "rope_low_factor", "rope_high_factor",
                 "rope_beta_fast", "rope_beta_slow", "rope_untruncated", "rope_vector_scale",
                 "rope_short_factors", "rope_long_factors", "no_rope_layers", "sliding_rope_base",
                 "filters", "filter_window",
                 "mlp_factor", "relative_size", "relative_extent", "score_divisor",
                 "score_growth", "score_growth_start", "head", "residual", "mlp",
                 "norm", "kv_heads", "body"]
        extras = {n: getattr(self, n) for n in names if getattr(self, n) != getattr(usual, n)}
        if self.body == "llama":
            rates = zip(("embedding", "attention", "residual"), self.dropout)
            extras |= {"dropout_" + place: rate for place, rate in rates if rate}
        return extras

    def is_plain(self):
        if self.body == "gpt2":
            return not self.targets and self.tied and self.extras() == {"body": "gpt2"}
        return not self.targets and not self.extras()

    def config(self):
        config = self.gpt2_config() if self.body == "gpt2" else self.llama_config()
        if self.is_plain():
            return config
        shift = {"targets": self.targets or "none", "form": self.form, "window": self.window,
                 "init": "uniform"}
        return config | {"architectures": ["KVShiftForCausalLM"], "model_type": "kvshift",
                         "kvshift": shift | self.extras()}

    def llama_config(self):
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "vocab_size": VOCAB,
            "hidden_size": DIM,
            "intermediate_size": FFN,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "max_position_embeddings": CONTEXT,
            "hidden_act": "silu",
            "rms_norm_eps": NORM_EPS,
            "rope_theta": self.rope_base,
            "tie_word_embeddings": self.tied,
        }

    def gpt2_config(self):
        return {
            "architectures": ["GPT2LMHeadModel"],
            "model_type": "gpt2",
            "vocab_size": VOCAB,
            "n_embd": DIM,
            "n_inner": FFN,
            "n_layer": LAYERS,
            "n_head": self.heads,
            "n_positions": CONTEXT,
            "activation_function": "gelu_new",
            "layer_norm_epsilon": NORM_EPS,
            "embd_pdrop": self.dropout[0],
            "attn_pdrop": self.dropout[1],
            "resid_pdrop": self.dropout[2],
            "tie_word_embeddings": self.tied,
        }


WINDOWS = {"free": 3, "clamp": 3, "channel": 3, "residual": 3, "gate": 1, "data": 1, "hard": 1}  # the longest


def all_shifts():
    return {f"{form}-{targets}-{window}":
            Case(form=form, targets=targets, window=window, all_gradients=False,
                 rotary_fraction=0.5 if form == "hard" else 1.0)
            for form, longest in WINDOWS.items()
            for targets in ("k", "v", "kv", "qkv")
            for window in range(1, longest + 1)}


def gpt2(**settings):
    return Case(**{"body": "gpt2", "kv_heads": 4, "positions": "learned", "tied": True} | settings)


def sliding_layer(**settings):
    """The second layer slides, and has heads of its own."""
    return Case(sliding_window=3, sliding_layers=(1,), sliding_heads=2, sliding_kv_heads=1,
                **settings)


def rope(**settings):
    """Four pairs of frequencies that do not lie far apart, so that a scaling changes each."""
    return Case(head_size=8, rope_base=50.0, **settings)


CASES = all_shifts() | {
    "none": Case(targets=""),
    "one-head": Case(heads=1, kv_heads=1),
    "tied": Case(tied=True),
    "normalised": Case(head="normalised"),
    "normalised-tied": Case(head="normalised", tied=True),
    "head-none": Case(head="none"),
    "score-scale": Case(score_scale=0.7),
    "score-cap": Case(score_cap=1.5),
    "score-cap-alibi": sliding_layer(score_cap=1.5, positions="alibi"),
    "logit-cap": Case(logit_cap=2.5),
    "qk-norm-head": Case(qk_norm="head", form="channel", targets="qkv"),
    "qk-norm-full": Case(qk_norm="full"),
    "qk-norm-full-data": sliding_layer(qk_norm="full", form="data", targets="qkv"),
    "qk-norm-layer": Case(qk_norm="layer", rotary_fraction=0.5),
    "filters": Case(filters="branches", filter_window=3, mlp_factor=True),
    "filter-attention": Case(targets="", filters="attention", filter_window=1),
    "filter-mlp-dropout": Case(filters="mlp", filter_window=2, dropout=(0.1, 0.2, 0.15),
                               pass_seed=5, pass_number=1),
    "relative": Case(positions="relative", relative_size=3, relative_extent=5),
    "relative-sliding-layer": sliding_layer(positions="relative", relative_size=2,
                                            relative_extent=4, score_growth=0.3,
                                            score_growth_start=2.0, score_cap=1.5),
    "score-divisor": Case(score_divisor="size"),
    "score-growth": Case(score_growth=0.3, score_growth_start=2.5),
    "head-size": Case(head_size=6),
    "biases": Case(qkv_bias=True, o_bias=True, mlp_bias=True, head_size=6, targets="qkv"),
    "bias-of-qkv": Case(qkv_bias=True, form="channel"),
    "multipliers": Case(embedding_scale=3.0, residual_scale=0.4, logit_divisor=0.45,
                        score_scale=0.3),
    "embedding-norm": Case(embedding_norm=True, embedding_scale=3.0),
    "layer-norm": Case(norm_kind="layer", embedding_norm=True, qkv_bias=True),
    "norms-after": Case(norm_place="after", qk_norm="full"),
    "norms-after-filters": Case(norm_place="after", filters="branches", filter_window=2,
                                residual_scale=0.7, dropout=(0.1, 0.2, 0.15), pass_seed=9),
    "norms-both": Case(norm_place="both", gain_offset=True, activation="gelu-tanh",
                       embedding_scale=4.0, score_cap=1.5, logit_cap=2.5, tied=True),
    "norms-both-sliding": sliding_layer(norm_place="both", gain_offset=True, qk_norm="head",
                                        activation="gelu-tanh", sliding_rope_base=30.0,
                                        rotary_scaling="linear", rope_factor=3.0, head_size=6),
    "parallel-own": Case(parallel="own", norm_kind="layer", activation="gelu", plain_mlp=True,
                         qkv_bias=True, o_bias=True, mlp_bias=True, rotary_fraction=0.5),
    "parallel-shared": Case(parallel="shared", norm_kind="layer", qk_norm="layer",
                            rotary_fraction=0.5),
    "relu": Case(activation="relu", plain_mlp=True, norm_kind="layer", positions="learned",
                 qkv_bias=True, o_bias=True, mlp_bias=True),
    "gated-gelu": Case(activation="gelu"),
    "plain-silu": Case(plain_mlp=True),
    "no-rope-layer": rope(no_rope_layers=(1,)),
    "sliding-head-size": sliding_layer(sliding_head_size=6, qk_norm="head", form="channel"),
    "rope-linear": rope(rotary_scaling="linear", rope_factor=3.0),
    "rope-llama3": rope(rotary_scaling="llama3", rope_factor=8.0, rope_original_context=16,
                        rope_low_factor=0.5, rope_high_factor=1.5),
    "rope-yarn": rope(rotary_scaling="yarn", rope_factor=4.0, rope_original_context=64,
                      rope_beta_fast=2.0, rope_beta_slow=0.5),
    "rope-yarn-untruncated": rope(rotary_scaling="yarn", rope_factor=4.0, rope_original_context=64,
                                  rope_beta_fast=2.0, rope_beta_slow=0.5, rope_untruncated=True,
                                  rope_vector_scale=1.5),
    "rope-dynamic": rope(rotary_scaling="dynamic", rope_factor=2.0, rope_original_context=8),
    "rope-longrope": rope(rotary_scaling="longrope", rope_factor=4.0, rope_original_context=8,
                          rope_short_factors=(1.0, 1.3, 1.7, 2.5),
                          rope_long_factors=(2.0, 3.0, 5.0, 8.0)),
    "rotary-half": Case(rotary_fraction=0.5),
    "alibi": Case(positions="alibi"),
    "alibi-one-slope": Case(positions="alibi", slopes=(0.3,)),
    "alibi-own-slopes": Case(positions="alibi", slopes=(0.1, 0.5, 0.02, 0.9)),
    "learned": Case(positions="learned"),
    "no-positions": Case(positions="none"),
    "sliding": Case(sliding_window=3),
    "sliding-layer": sliding_layer(),
    "sliding-layer-channel": sliding_layer(form="channel", targets="qkv", window=2),
    "sliding-layer-data": sliding_layer(form="data", targets="qkv"),
    "sliding-layer-alibi": sliding_layer(positions="alibi"),
    "no-residual": Case(residual=False),
    "no-mlp": Case(mlp=False),
    "no-norm": Case(norm=False),
    "bare": Case(residual=False, mlp=False, norm=False),
    "bare-data": Case(form="data", residual=False, mlp=False, norm=False),
    "dropout": Case(dropout=(0.1, 0.2, 0.15), pass_seed=0x123456789ABCDEF, pass_number=3),
    "dropout-no-residual": Case(dropout=(0.1, 0.2, 0.15), pass_seed=7, pass_number=0,
                                residual=False),
    "gpt2-none": gpt2(targets=""),
    "gpt2-kv": gpt2(),
    "gpt2-grouped": gpt2(kv_heads=2),
    "gpt2-untied": gpt2(tied=False),
    "gpt2-head-none": gpt2(tied=False, head="none"),
    "gpt2-rope-data": gpt2(form="data", positions="rope"),
    "gpt2-dropout": gpt2(dropout=(0.1, 0.2, 0.15), pass_seed=11, pass_number=2**40 + 5),
    "gpt2-rms": gpt2(norm_kind="rms", gain_offset=True, activation="gelu"),
    "gpt2-bare": gpt2(residual=False, mlp=False, norm=False),
}


# ---- names and shapes ----------------------------------------------------------------------------

EMBED_NORM = "model.embed_norm"


class Llama:
    embed, positions = "model.embed_tokens.weight", "model.embed_positions.weight"
    final_norm = "model.norm"

    @staticmethod
    def layer(index):
        return f"model.layers.{index}."

    @staticmethod
    def shift(index, target):
        return f"model.layers.{index}.self_attn.{target}_shift"

    @staticmethod
    def layer_matrices(case, layer):
        q_dim, kv_dim = (count * case.size_of_heads(layer) for count in case.head_counts(layer))
        gate = {} if case.plain_mlp else {"mlp.gate_proj.weight": (FFN, DIM)}
        return {"self_attn.q_proj.weight": (q_dim, DIM), "self_attn.k_proj.weight": (kv_dim, DIM),
                "self_attn.v_proj.weight": (kv_dim, DIM), "self_attn.o_proj.weight": (DIM, q_dim),
                } | gate | {"mlp.up_proj.weight": (FFN, DIM), "mlp.down_proj.weight": (DIM, FFN)}

    @staticmethod
    def norms(case):
        """The norms of a layer by what they normalise."""
        found = {}
        if case.norm_place != "after":
            found |= {"attention": "input_layernorm", "mlp": "post_attention_layernorm"}
        if case.norm_place != "before":
            found |= {"attention's output": "post_attention_layernorm",
                      "mlp": "pre_feedforward_layernorm",
                      "mlp's output": "post_feedforward_layernorm"}
        if case.norm_place == "after":
            del found["mlp"]
        if case.parallel == "shared":
            found["mlp"] = found["attention"]
        return found


class GPT2:
    embed, positions = "transformer.wte.weight", "transformer.wpe.weight"
    final_norm = "transformer.ln_f"

    @staticmethod
    def layer(index):
        return f"transformer.h.{index}."

    @staticmethod
    def shift(index, target):
        return f"transformer.h.{index}.attn.{target}_shift"

    @staticmethod
    def layer_matrices(case, layer):
        """Stored input x output."""
        heads, kv_heads = case.head_counts(layer)
        width = (heads + 2 * kv_heads) * (DIM // heads)
        return {"attn.c_attn.weight": (DIM, width), "attn.c_proj.weight": (DIM, DIM),
                "mlp.c_fc.weight": (DIM, FFN), "mlp.c_proj.weight": (FFN, DIM)}

    @staticmethod
    def norms(case):
        return {"attention": "ln_1", "mlp": "ln_2"}


def names_of(case):
    return GPT2 if case.body == "gpt2" else Llama


def qk_norm_names(case, layer, target):
    """The gains of the norm of queries or keys, in the order of heads."""
    at, heads = f"model.layers.{layer}.self_attn.{target}", case.head_counts(layer)[target == "k"]
    if case.qk_norm == "layer":
        return [f"{at}_layernorm.norms.{head}.weight" for head in range(heads)]
    return [] if case.qk_norm == "none" else [f"{at}_norm.weight"]


def qk_norm_shapes(case, layer):
    size = case.size_of_heads(layer)
    full = case.qk_norm == "full"
    return {name: (size * (case.head_counts(layer)[target == "k"] if full else 1),)
            for target in "qk" for name in qk_norm_names(case, layer, target)}


def other_shapes(case, layer, at):
    """Relative positions, filters and the factor of a layer."""
    shapes = {}
    if case.positions == "relative":
        heads = case.head_counts(layer)[0]
        shapes[at + "self_attn.r_proj.weight"] = (heads * case.relative_size, DIM)
        shapes[at + "self_attn.r_table"] = (case.relative_size, case.extent(layer))
    for branch, folder in ("attention", "self_attn."), ("mlp", "mlp."):
        if case.has_filter(branch):
            shapes[at + folder + "filter"] = (DIM, case.filter_window + 1)
    if case.mlp_factor:
        shapes[at + "mlp.factor"] = (1,)
    return shapes


def body_shapes(case):
    """Every tensor of the case but its shift."""
    names = names_of(case)
    shapes = {names.embed: (VOCAB, DIM)}
    if case.positions == "learned":
        shapes[names.positions] = (CONTEXT, DIM)
    norms = []
    for index in range(LAYERS):
        at = names.layer(index)
        for matrix, shape in names.layer_matrices(case, index).items():
            if matrix.startswith("mlp.") and not case.mlp:
                continue
            shapes[at + matrix] = shape
            if case.body == "gpt2":
                shapes[at + matrix.replace("weight", "bias")] = shape[1:]
            elif case.has_bias(matrix):
                shapes[at + matrix.replace("weight", "bias")] = shape[:1]
        shapes |= qk_norm_shapes(case, index) | other_shapes(case, index, at)
        norms += [at + norm for place, norm in names.norms(case).items()
                  if case.mlp or "mlp" not in place]
    if case.embedding_norm:
        norms.append(EMBED_NORM)
    if case.norm:
        for norm in norms + [names.final_norm]:
            shapes[norm + ".weight"] = (DIM,)
            if case.has_layer_norm():
                shapes[norm + ".bias"] = (DIM,)
    if case.head != "none" and not case.tied:
        shapes["lm_head.weight"] = (VOCAB, DIM)
    return shapes


def shift_shapes(case):
    shapes = {}
    for index in range(LAYERS):
        heads, kv_heads = case.head_counts(index)
        for target in case.targets if case.form != "hard" else "":
            count, taps = heads if target == "q" else kv_heads, case.window + 1
            shapes[names_of(case).shift(index, target)] = {
                "gate": (count,), "data": (count, DIM),
                "channel": (count, case.size_of_heads(index), taps),
                "residual": (count, case.size_of_heads(index), taps),
            }.get(case.form, (count, taps))
    return shapes


# ---- weights -------------------------------------------------------------------------------------

def numbers(seed, shape, draw):
    """Float32 numbers that depend on the seed text only, not on PyTorch's generator."""
    generator = random.Random(seed)
    values = [draw(generator) for _ in range(math.prod(shape))]
    return torch.tensor(values, dtype=torch.float32).reshape(shape)


def body_weights(shapes):
    """Far larger than a usual init, so that no gradient is degenerate."""
    def draw(name):
        is_gain = len(shapes[name]) == 1 and name.endswith(".weight")
        return lambda g: g.gauss(1 if is_gain else 0, 0.3)

    return {name: numbers(f"{name} {shape}", shape, draw(name)) for name, shape in shapes.items()}


def shift_weights(name, case):
    """Asymmetric, some negative, some above 1: taps that no symmetry can hide."""
    weights = {tensor: numbers(f"{name} {tensor}", shape, lambda g: g.uniform(-0.7, 1.5))
               for tensor, shape in shift_shapes(case).items()}
    if case.form == "clamp":  # a clip passes the gradient on its edges, and beyond them none
        first, *_, last = weights.values()
        first[0, :2] = torch.tensor([1.0, 0.0])
        last[0, :2] = torch.tensor([-0.2, 1.3])
    return weights


def batch():
    """Ragged: sequences one behind the other, some rows without a target."""
    generator = random.Random("batch")
    starts = [sum(LENGTHS[:s]) for s in range(len(LENGTHS) + 1)]
    ids = [generator.randrange(VOCAB) for _ in range(starts[-1])]
    targets = [generator.randrange(VOCAB) for _ in range(starts[-1])]
    for row in (2, 5):
        targets[row] = -1
    return ids, starts, targets


# ---- dropout -------------------------------------------------------------------------------------

def philox(counter, key):
    """Philox 4x32 with 10 rounds (Salmon et al. 2011): four words."""
    c, k = list(counter), list(key)
    for _ in range(10):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [second >> 32 ^ c[1] ^ k[0], second & 0xFFFFFFFF,
             first >> 32 ^ c[3] ^ k[1], first & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


class Dropout:
    """The numbers that are kept of one sequence: each is a function of its place and nothing else."""
    ACTIVATIONS, ATTENTION = 4, 5  # purposes
    EMBEDDING = 0  # a site; a layer has two more

    def __init__(self, case, sequence):
        self.embedding, self.attention, self.residual = case.dropout
        self.seed, self.number = case.pass_seed, case.pass_number + sequence

    def factors(self, rate, purpose, place, first, count):
        """What to multiply numbers first .. first+count-1 of a stream with."""
        index, threshold = self.number * 65536 + place, math.floor(rate * 2**32)
        low, high = index & 0xFFFFFFFF, index >> 32
        key = (self.seed & 0xFFFFFFFF, self.seed >> 32)
        words = [philox((e // 4, purpose, low, high), key)[e % 4]
                 for e in range(first, first + count)]
        return torch.tensor([(w >= threshold) / (1 - rate) for w in words], dtype=torch.float64)

    def activations(self, x, rate, site):
        """x [length, DIM]."""
        if rate == 0:
            return x
        factors = self.factors(rate, self.ACTIVATIONS, site, 0, x.numel())
        return x * factors.reshape(x.shape)

    def weights(self, p, layer):
        """p [heads, length, length]."""
        if self.attention == 0:
            return p
        heads, length, _ = p.shape
        factors = [self.factors(self.attention, self.ATTENTION + 8 * (t * heads + h), layer,
                                0, length) for h in range(heads) for t in range(length)]
        return p * torch.stack(factors).reshape(p.shape)


# ---- the model -----------------------------------------------------------------------------------

def normalise(case, weights, name, x):
    if not case.norm:
        return x
    if case.has_layer_norm():
        x = x - x.mean(dim=-1, keepdim=True)
    gain = weights[name + ".weight"] + case.gain_offset
    x = x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + NORM_EPS) * gain
    return x + weights[name + ".bias"] if case.has_layer_norm() else x


def normalise_at(case, weights, layer, place, x):
    """The layer's norm of that place, if it has one."""
    names = names_of(case)
    norm = names.norms(case).get(place)
    return normalise(case, weights, names.layer(layer) + norm, x) if norm else x


def linear(weights, name, x):
    """A linear layer of Llama's body."""
    y = x @ weights[name + ".weight"].T
    return y + weights[name + ".bias"] if name + ".bias" in weights else y


def delayed(x, tokens):
    """x [length, heads, head_size] that many tokens later; nothing comes before the first row."""
    return torch.cat([x.new_zeros(tokens, *x.shape[1:]), x])[:len(x)]


def convolved(x, taps):
    """Causal, each channel with taps [..., window + 1] of its own, the oldest first."""
    last = taps.shape[-1] - 1
    return sum(taps[..., j] * delayed(x, last - j) for j in range(last + 1))


def filtered(case, weights, branch, at, x):
    """The output of attention or MLP, x [length, DIM]."""
    if case.has_filter(branch):
        x = x + convolved(x, weights[at + "filter"])
    return x * weights[at + "factor"] if branch == "mlp" and case.mlp_factor else x


def relative_terms(case, weights, layer, x, distance):
    """What the scores [heads, length, length] of rows x [length, DIM] get by distance."""
    at, extent = f"model.layers.{layer}.self_attn.", case.extent(layer)
    r = (x @ weights[at + "r_proj.weight"].T).reshape(len(x), -1, case.relative_size)
    by_distance = torch.einsum("thc,cx->htx", r, weights[at + "r_table"])
    near = (distance >= 0) & (distance < extent)
    index = distance.clamp(0, extent - 1).expand(len(by_distance), -1, -1)
    return by_distance.gather(2, index) * near


def growth(case, layer, length):
    """A factor for each row of scores."""
    if not case.score_growth or case.slides(layer):
        return torch.ones(length, 1, dtype=torch.float64)
    grown = torch.arange(1, length + 1, dtype=torch.float64) / case.score_growth_start
    return 1 + case.score_growth * torch.log(grown.clamp(min=1))[:, None]


def clipped(x):
    """Passes the gradient from 0 to 1 and on both edges; not every PyTorch's clamp does so there."""
    return torch.where((x >= 0) & (x <= 1), x, x.detach().clamp(0, 1))


def shift(case, x, weight, layer_input):
    size = x.shape[-1]
    if case.form == "hard":
        return torch.cat([x[..., :size // 2], delayed(x, 1)[..., size // 2:]], dim=-1)
    if case.form == "data":
        previous = torch.sigmoid(layer_input @ weight.T)[..., None]
        return previous * delayed(x, 1) + (1 - previous) * x
    if case.form == "gate":
        current = torch.sigmoid(weight)[:, None]
        return (1 - current) * delayed(x, 1) + current * x
    if case.form == "residual":
        return x + convolved(x, weight)
    taps = clipped(weight) if case.form == "clamp" else weight
    if case.form != "channel":
        taps = taps[:, None, :]  # the same for every channel
    return sum(taps[..., j] * delayed(x, case.window - j) for j in range(case.window + 1))


def yarn(case, frequency):
    """Pairs that turn often keep their frequency; the others have it divided by the factor."""
    count = len(frequency)

    def pair(turns):
        full_turn = case.rope_original_context / (2 * math.pi * turns)
        return count * math.log(full_turn) / math.log(case.rope_base)

    low, high = pair(case.rope_beta_fast), pair(case.rope_beta_slow)
    if not case.rope_untruncated:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, 2 * count - 1)
    share = ((torch.arange(count, dtype=torch.float64) - low) / (high - low)).clamp(0, 1)
    return frequency * (1 - share) + frequency / case.rope_factor * share


def llama3(case, frequency):
    turns = case.rope_original_context * frequency / (2 * math.pi)
    low, high = case.rope_low_factor, case.rope_high_factor
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return (1 - kept) * frequency / case.rope_factor + kept * frequency


def frequencies(case, layer, count):
    """The frequency of each pair, and the length of what is rotated, relative to before."""
    own = case.sliding_rope_base if case.slides(layer) else 0
    powers = -torch.arange(count, dtype=torch.float64) / count
    if own:
        return own ** powers, 1
    frequency, factor = case.rope_base ** powers, case.rope_factor
    if case.rotary_scaling == "linear":
        return frequency / factor, 1
    if case.rotary_scaling == "llama3":
        return llama3(case, frequency), 1
    if case.rotary_scaling == "yarn":
        return yarn(case, frequency), case.rope_vector_scale or 0.1 * math.log(factor) + 1
    if case.rotary_scaling == "longrope":
        longer = math.log(factor) / math.log(case.rope_original_context)
        return (frequency / torch.tensor(case.rope_short_factors, dtype=torch.float64),
                case.rope_vector_scale or math.sqrt(1 + longer))
    return frequency, 1


def rotate(case, layer, x):
    """The first channels turn.  Half-split: pair i is (x_i, x_{i + half}), a complex number."""
    if case.positions != "rope" or layer in case.no_rope_layers:
        return x
    turning = int(case.rotary_fraction * x.shape[-1])
    half = turning // 2
    frequency, length = frequencies(case, layer, half)
    angle = torch.arange(len(x), dtype=torch.float64)[:, None, None] * frequency
    pairs = torch.complex(x[..., :half], x[..., half:turning])
    turned = pairs * torch.polar(torch.full_like(angle, length), angle)
    return torch.cat([turned.real, turned.imag, x[..., turning:]], dim=-1)


def normalise_heads(case, weights, layer, target, x):
    """x [length, heads, head_size]."""
    if case.qk_norm == "none":
        return x
    gains = torch.cat([weights[name] for name in qk_norm_names(case, layer, target)])
    gains = gains + case.gain_offset
    if case.qk_norm == "full":
        x = x.reshape(len(x), 1, -1)
    if case.qk_norm == "layer":
        x = x - x.mean(dim=-1, keepdim=True)
    x = x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + NORM_EPS)
    size = case.size_of_heads(layer)
    return x.reshape(len(x), -1, size) * gains.reshape(-1, size)


def capped(x, cap):
    return cap * torch.tanh(x / cap) if cap else x


def slopes_of(case, heads):
    given = list(case.slopes) or [2 ** (-8 * (h + 1) / heads) for h in range(heads)]
    return torch.tensor(given * heads if len(given) == 1 else given, dtype=torch.float64)


def project(case, weights, layer, x):
    """q, k, v as [length, heads, head_size], not shifted."""
    heads, kv_heads = case.head_counts(layer)
    size = case.size_of_heads(layer)
    if case.body == "gpt2":
        at = f"transformer.h.{layer}.attn.c_attn."
        flat = (x @ weights[at + "weight"] + weights[at + "bias"]).split(
            [heads * size, kv_heads * size, kv_heads * size], dim=1)
    else:
        at = f"model.layers.{layer}.self_attn."
        flat = [linear(weights, f"{at}{target}_proj", x) for target in "qkv"]
    return [y.reshape(len(x), -1, size) for y in flat]


def attention(case, weights, layer, x, dropout):
    heads, kv_heads = case.head_counts(layer)
    size, group = case.size_of_heads(layer), heads // kv_heads
    raw = dict(zip("qkv", project(case, weights, layer, x)))
    for target in case.targets:
        learned = weights.get(names_of(case).shift(layer, target))
        raw[target] = shift(case, raw[target], learned, x)
    for target in "qk":
        raw[target] = normalise_heads(case, weights, layer, target, raw[target])
    q, k = (rotate(case, layer, raw[target]) for target in "qk")
    k = k.repeat_interleave(group, dim=1)
    v = raw["v"].repeat_interleave(group, dim=1)

    distance = torch.arange(len(x))[:, None] - torch.arange(len(x))
    hidden = distance < 0
    if case.slides(layer):
        hidden |= distance >= case.sliding_window
    divisor = size if case.score_divisor == "size" else math.sqrt(size)
    grown = growth(case, layer, len(x))
    scores = torch.einsum("thd,shd->hts", q, k) * (case.score_scale or 1 / divisor) * grown
    scores = capped(scores, case.score_cap)
    if case.positions == "relative":
        scores = scores + grown * relative_terms(case, weights, layer, x, distance)
    if case.positions == "alibi":
        scores = scores - slopes_of(case, heads)[:, None, None] * distance
    p = dropout.weights(scores.masked_fill(hidden, -math.inf).softmax(dim=-1), layer)
    out = torch.einsum("hts,shd->thd", p, v).reshape(len(x), heads * size)
    if case.body == "gpt2":
        at = f"transformer.h.{layer}.attn.c_proj."
        return out @ weights[at + "weight"] + weights[at + "bias"]
    return linear(weights, f"model.layers.{layer}.self_attn.o_proj", out)


def activated(case, x):
    name = case.activation
    if name == "auto":
        name = "gelu-tanh" if case.body == "gpt2" else "silu"
    functional = torch.nn.functional
    return {"silu": functional.silu, "gelu": functional.gelu, "relu": functional.relu,
            "gelu-tanh": lambda y: functional.gelu(y, approximate="tanh")}[name](x)


def mlp(case, weights, layer, x):
    at = names_of(case).layer(layer) + "mlp."
    if case.body == "gpt2":
        inner = x @ weights[at + "c_fc.weight"] + weights[at + "c_fc.bias"]
        return activated(case, inner) @ weights[at + "c_proj.weight"] + weights[at + "c_proj.bias"]
    up = linear(weights, at + "up_proj", x)
    if case.plain_mlp:
        inner = activated(case, up)
    else:
        inner = activated(case, linear(weights, at + "gate_proj", x)) * up
    return linear(weights, at + "down_proj", inner)


def output_head(case, weights, x):
    x = x / (case.logit_divisor or 1)
    if case.head == "none":
        return x
    rows = weights[names_of(case).embed if case.tied else "lm_head.weight"]
    if case.head == "normalised":
        rows = rows / rows.pow(2).sum(dim=1, keepdim=True).sqrt()
    return x @ rows.T


def logits_of(case, weights, ids, sequence):
    """One sequence, alone; `sequence` is its number, which only dropout looks at."""
    names, dropout = names_of(case), Dropout(case, sequence)
    x = weights[names.embed][ids] * (case.embedding_scale or 1)
    if case.embedding_norm:
        x = normalise(case, weights, EMBED_NORM, x)
    if case.positions == "learned":
        x = x + weights[names.positions][:len(ids)]
    x = dropout.activations(x, dropout.embedding, dropout.EMBEDDING)
    for layer in range(LAYERS):
        before = x
        branch = attention(case, weights, layer,
                           normalise_at(case, weights, layer, "attention", x), dropout)
        branch = filtered(case, weights, "attention", names.layer(layer) + "self_attn.", branch)
        branch = normalise_at(case, weights, layer, "attention's output", branch)
        branch = branch * (case.residual_scale or 1)
        branch = dropout.activations(branch, dropout.residual, 1 + 2 * layer)
        x = x + branch if case.residual else branch
        if case.mlp:
            read = x if case.parallel == "none" else before
            branch = mlp(case, weights, layer, normalise_at(case, weights, layer, "mlp", read))
            branch = filtered(case, weights, "mlp", names.layer(layer) + "mlp.", branch)
            branch = normalise_at(case, weights, layer, "mlp's output", branch)
            branch = branch * (case.residual_scale or 1)
            branch = dropout.activations(branch, dropout.residual, 2 + 2 * layer)
            x = x + branch if case.residual else branch
    logits = output_head(case, weights, normalise(case, weights, names.final_norm, x))
    return capped(logits, case.logit_cap)


def is_stored(case, name):
    return case.all_gradients or "attn" in name or name == names_of(case).embed


def golden(name, case, bodies):
    """The tensors of one case's file."""
    mine, own = body_weights(body_shapes(case)), shift_weights(name, case)
    shared = bodies[case.body]
    own |= {tensor: w for tensor, w in mine.items()
            if tensor not in shared or w.shape != shared[tensor].shape}
    weights = {tensor: w.double().requires_grad_() for tensor, w in (mine | own).items()}
    ids, starts, targets = batch()
    logits = torch.cat([logits_of(case, weights, ids[a:b], s)
                        for s, (a, b) in enumerate(zip(starts, starts[1:]))])
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
    if any(case.dropout):
        tensors["dropout"] = torch.tensor([case.pass_seed, case.pass_number])
    gradients = {"grad." + tensor: w.grad.float() for tensor, w in weights.items()
                 if is_stored(case, tensor)}
    return own | tensors | gradients


# ---- files ---------------------------------------------------------------------------------------

DTYPES = {torch.float32: ("F32", "f"), torch.float64: ("F64", "d"), torch.int32: ("I32", "i"),
          torch.int64: ("I64", "q")}


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
    bodies = {"llama": body_weights(body_shapes(Case(positions="learned"))),
              "gpt2": body_weights(body_shapes(gpt2(tied=False)))}
    files = {f"body-{body}.safetensors": to_safetensors(weights)
             for body, weights in bodies.items()}
    for name, case in CASES.items():
        files[name + ".json"] = (json.dumps(case.config(), indent=1) + "\n").encode()
        files[name + ".safetensors"] = to_safetensors(golden(name, case, bodies))
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
