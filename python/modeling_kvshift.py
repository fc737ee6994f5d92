"""Language models with KV shifting attention, for transformers.

Every key and value (with target qkv also every query) is mixed with those of the tokens before it,
by a few learned coefficients per head, before the rotary positions are applied:

    K^_t = a1 * K_t + a2 * K_{t-1}          V^_t = b1 * V_t + b2 * V_{t-1}

    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)

config.json is that of Llama or GPT-2 with an additional object "kvshift" for the differences.
`OWN_SETTINGS` lists its keys with the values of a plain Llama, `GPT2_SETTINGS` where GPT-2 has others.

Which token is "the token before" (`Attention.shift`):

  - without padding and packing it is the previous row; the first token is preceded by zeros;
  - padding, marked by 0 in attention_mask, is skipped (`Layout`);
  - a row may contain several documents, laid end to end.  A document starts where position_ids do
    not continue (in a row with padding: where they are 0), or where seq_idx or cu_seq_lens_q mark
    a start; the shift and attention do not cross a start (`Layout`);
  - with a cache it may be a token of an earlier call.  The cache of a layer holds the shifted keys
    and values and the last raw rows, because a shift cannot be inverted (`KVShiftLayer`).
"""

import math
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F
from transformers.utils.versions import require_version

for package in "transformers>=4.57", "torch>=2.5":
    require_version(package, "modeling_kvshift.py does not work with older versions.")

from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.cache_utils import DynamicCache, DynamicLayer
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast
from transformers.pytorch_utils import Conv1D

OWN_SETTINGS = {
    "body": "llama",
    "targets": "none",  # none, k, v, kv, qkv: what is shifted
    "form": "free",
    "window": 1,  # number of previous tokens used
    "init": "uniform",
    "positions": "rope",
    "rotary_fraction": 1.0,  # fraction of a head's channels, from the first, that rotates
    "slopes": [],  # of ALiBi; empty = 2^(-8i/heads), one value = for all heads
    "score_scale": 0.0,  # 0 = 1 / sqrt(head size)
    "sliding_window": 0,  # token t attends to s > t - window; 0 = to all tokens before it
    "sliding_layers": [],  # layers that have it; empty = all
    "sliding_heads": 0,  # head count of those layers; 0 = as in the others
    "sliding_kv_heads": 0,
    "head": "linear",
    "residual": True,
    "mlp": True,
    "norm": True,
    "dropout_embedding": 0.0,
    "dropout_attention": 0.0,
    "dropout_residual": 0.0,
    "head_size": 0,  # 0 = hidden_size / heads
    "qkv_bias": False,
    "o_bias": False,
    "mlp_bias": False,
    "qk_norm": "none",  # between shift and rotation; see `qk_norm_of`
    "embedding_norm": False,
    "norm_kind": "auto",  # auto = rms
    "norm_place": "before",  # of attention and MLP; see `Block`
    "gain_offset": False,  # norms multiply by 1 + weight
    "parallel": "none",  # own, shared: attention and MLP read the same x, with two norms or one
    "activation": "auto",  # of the MLP; auto = silu
    "plain_mlp": False,  # the MLP has no gate
    "embedding_scale": 0.0,  # this and the two following: 0 = 1
    "residual_scale": 0.0,
    "logit_divisor": 0.0,
    "logit_cap": 0.0,  # logits become cap * tanh(logits / cap); 0 = they stay
    "rotary_scaling": "none",  # for the numbers of each kind see `frequencies`
    "rope_factor": 0.0,
    "rope_original_context": 0,
    "rope_low_factor": 0.0,
    "rope_high_factor": 0.0,
    "rope_beta_fast": 0.0,
    "rope_beta_slow": 0.0,
    "rope_untruncated": False,
    "rope_vector_scale": 0.0,
    "rope_short_factors": [],
    "rope_long_factors": [],  # beyond the context
    "no_rope_layers": [],  # layers where nothing rotates
    "sliding_rope_base": 0.0,  # of layers with the window, which then have no scaling; 0 = as others
    "score_cap": 0.0,  # the same for scores, before the slopes of ALiBi
    "filters": "none",  # for this and those up to sliding_head_size see UNSUPPORTED
    "filter_window": 0,
    "filter_place": "output",
    "mlp_factor": False,
    "relative_size": 0,
    "relative_extent": 0,
    "score_divisor": "root",
    "score_growth": 0.0,
    "score_growth_start": 0.0,
    "sliding_head_size": 0,
    "identity_projections": False,  # these two only affect training
    "unit_embeddings": False,
}
GPT2_SETTINGS = {
    "positions": "learned",
    "norm_kind": "layer",
    "activation": "gelu-tanh",
    "plain_mlp": True,
    "qkv_bias": True,
    "o_bias": True,
    "mlp_bias": True,
    "kv_heads": 0,  # this and the next have keys of their own in Llama's files; 0 = as many as heads
    "rope_theta": 1e5,
}
# Llama's names of what GPT-2's config.json names otherwise, and settings that are keys there.
GPT2_KEYS = {
    "hidden_size": "n_embd",
    "intermediate_size": "n_inner",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "max_position_embeddings": "n_positions",
    "rms_norm_eps": "layer_norm_epsilon",
}
GPT2_DROPOUT = {"dropout_embedding": "embd_pdrop", "dropout_attention": "attn_pdrop",
                "dropout_residual": "resid_pdrop"}
CHOICES = {
    "body": ["llama", "gpt2"],
    "targets": ["none", "k", "v", "kv", "qkv"],
    "form": ["free", "gate", "clamp", "channel", "data", "hard"],  # not "residual"
    "positions": ["rope", "alibi", "learned", "none"],  # not "relative"
    "head": ["linear", "normalised", "none"],
    "qk_norm": ["none", "head", "full", "layer"],
    "norm_kind": ["auto", "rms", "layer"],
    "norm_place": ["before", "after", "both"],
    "parallel": ["none", "own", "shared"],
    "activation": ["auto", "silu", "gelu", "gelu-tanh", "relu"],
    "rotary_scaling": ["none", "linear", "llama3", "yarn", "dynamic", "longrope"],
}
# Settings that kvshift has and this file does not: only the value of a plain model is accepted.
UNSUPPORTED = {
    "filters",  # "attention", "mlp", "branches"
    "filter_window", "filter_place", "mlp_factor", "relative_size", "relative_extent",
    "score_divisor",  # "size"
    "score_growth", "score_growth_start", "sliding_head_size",
}


class KVShiftConfig(PretrainedConfig):
    model_type = "kvshift"
    keys_to_ignore_at_inference = ["past_key_values"]

    def __init__(self, vocab_size=32000, hidden_size=512, intermediate_size=1376,
                 num_hidden_layers=8, num_attention_heads=8, num_key_value_heads=None,
                 max_position_embeddings=2048, rope_theta=10000.0, rms_norm_eps=1e-6,
                 initializer_range=0.02, use_cache=True, kvshift=None, rope_scaling=None,
                 rope_parameters=None, **others):
        rope = rope_parameters or rope_scaling or {}
        if ({*rope} - {"rope_theta", "rope_type", "type"}
                or {rope.get("rope_type"), rope.get("type")} - {None, "default"}):
            raise ValueError(f"rope_parameters: expected rope_type 'default', found {rope}")
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.intermediate_size = intermediate_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.num_key_value_heads = num_key_value_heads or num_attention_heads
        self.max_position_embeddings = max_position_embeddings
        self.rope_theta = rope.get("rope_theta", rope_theta)
        self.rms_norm_eps = rms_norm_eps
        self.initializer_range = initializer_range
        self.use_cache = use_cache
        self.kvshift = dict(kvshift or {})
        if self.is_gpt2():
            for ours, theirs in GPT2_KEYS.items():
                if theirs not in others:
                    raise ValueError(f"expected the key '{theirs}', which GPT-2 has")
                setattr(self, ours, others[theirs])
            self.num_key_value_heads = self.own("kv_heads") or self.num_attention_heads
            self.rope_theta = self.own("rope_theta")
        for key, value in self.kvshift.items():
            if key not in OWN_SETTINGS and not (self.is_gpt2() and key in GPT2_SETTINGS):
                raise ValueError(f"kvshift: unknown key '{key}'")
            if key in UNSUPPORTED and value != OWN_SETTINGS[key]:
                raise ValueError(f"kvshift: key '{key}': expected {OWN_SETTINGS[key]}, found "
                                 f"{value}, which only the command kvshift computes")
            if value not in CHOICES.get(key, [value]):
                raise ValueError(f"kvshift: key '{key}': expected {', '.join(CHOICES[key])}, "
                                 f"found '{value}'")
        super().__init__(**others)

    def is_gpt2(self):
        return self.kvshift.get("body") == "gpt2"

    def own(self, key):
        if key in self.kvshift:
            return self.kvshift[key]
        if self.is_gpt2() and key in GPT2_DROPOUT:
            return getattr(self, GPT2_DROPOUT[key], 0.1)
        return GPT2_SETTINGS[key] if self.is_gpt2() and key in GPT2_SETTINGS else OWN_SETTINGS[key]

    def slides(self, layer):
        layers = self.own("sliding_layers")
        return self.own("sliding_window") > 0 and (not layers or layer in layers)

    def heads(self, layer):
        """Query heads and KV heads of a layer."""
        heads, kv_heads = self.num_attention_heads, self.num_key_value_heads
        if not self.slides(layer):
            return heads, kv_heads
        sliding = self.own("sliding_heads") or heads
        return sliding, self.own("sliding_kv_heads") or (kv_heads if sliding == heads else sliding)

    def head_size(self, layer):
        return self.own("head_size") or self.hidden_size // self.heads(layer)[0]


class KVShiftGPT2Config(KVShiftConfig):
    """transformers remembers one class of models for each class of configurations."""

    def __init__(self, **settings):  # without it transformers 5 would make one
        super().__init__(**settings)


# ---- state ---------------------------------------------------------------------------------------

class KVShiftLayer(DynamicLayer):
    """The cache of one layer.  For each target, `tails` contains the last raw rows of every
    sequence, [batch, heads, window, head size]; zeros before the first token."""

    is_croppable = False

    def __init__(self, *arguments, **settings):
        super().__init__(*arguments, **settings)
        self.tails = {}

    def _change(self, change):
        self.tails = {target: change(tail) for target, tail in self.tails.items()}

    def reset(self):
        self.keys = self.values = None
        self.is_initialized = False
        self.tails = {}

    def offload(self):
        super().offload()
        self._change(lambda tail: tail.to("cpu", non_blocking=True))

    def prefetch(self):
        super().prefetch()
        if self.is_initialized:
            self._change(lambda tail: tail.to(self.device, non_blocking=True))

    def reorder_cache(self, beam_idx):
        super().reorder_cache(beam_idx)
        self._change(lambda tail: tail.index_select(0, beam_idx.to(tail.device)))

    def batch_repeat_interleave(self, repeats):
        super().batch_repeat_interleave(repeats)
        self._change(lambda tail: tail.repeat_interleave(repeats, dim=0))

    def batch_select_indices(self, indices):
        super().batch_select_indices(indices)
        self._change(lambda tail: tail[indices, ...])

    def crop(self, *arguments):
        raise NotImplementedError("the cache of a shifted model cannot be cropped: it does not "
                                  "keep earlier raw rows")


def with_tails(cache, layers):
    """Returns the given DynamicCache with layers that keep tails.  An empty cache gets new layers
    in place; a filled one must have been filled by a shifted model."""
    if not isinstance(cache, DynamicCache):
        raise ValueError(f"past_key_values: expected a DynamicCache, found {type(cache).__name__}; "
                         "shifted models support no other cache")
    if len(cache.layers) == layers and all(isinstance(layer, KVShiftLayer)
                                           for layer in cache.layers):
        return cache
    if cache.get_seq_length() > 0:
        raise ValueError("past_key_values: expected an empty cache or one that this model filled, "
                         f"found {cache.get_seq_length()} tokens without raw rows")
    cache.layers[:] = [KVShiftLayer() for _ in range(layers)]
    return cache


# ---- padding and packed documents ----------------------------------------------------------------

def known(condition):
    """Whether a tensor is true; False while a graph is traced, because values are unknown then."""
    return not torch.compiler.is_compiling() and bool(condition)


class Layout:
    """Positions of the tokens of this call, [batch, tokens], after `past` tokens of a cache.

    positions   [batch or 1, tokens]
    places      [batch or 1, past + tokens]: number of earlier tokens that are not padding
    present     [batch, past + tokens], False for padding; None = there is none
    documents   [batch, tokens]: the document of a token; None = there is only one
    before      None if previous tokens are simply previous rows.  Otherwise, with
                rows = [last `window` rows of earlier calls; rows of this call],
                source [batch, tokens, window]: the row of the token 1, 2, ... window tokens back,
                valid  [batch, tokens, window]: whether it belongs to the same document,
                last   [batch, window]: the rows that the next call needs
    """

    def __init__(self, batch, tokens, past, window, device, mask, position_ids, starts):
        self.tokens, self.past = tokens, past
        self.positions = position_ids
        self.places = torch.arange(past + tokens, device=device)[None]
        self.present = self.documents = self.before = None
        if mask is not None and not known(mask.all()):
            self.present = mask.bool()
            self.places = (mask.long().cumsum(-1) - 1).clamp(min=0)
        if position_ids is None and starts is None:
            self.positions = self.places[:, past:]
        if self.present is None and starts is None and (
                position_ids is None or known((position_ids.diff() == 1).all())):
            return
        present = torch.ones(batch, tokens, dtype=torch.bool, device=device)
        if self.present is not None:
            present = self.present[:, past:]
        # rank: number of earlier rows that are not padding; order: rows by rank, padding at the end
        counts = torch.cat([present.new_ones(batch, window), present], dim=1)
        rank = counts.long().cumsum(-1) - 1
        order = (~counts).long().argsort(dim=-1, stable=True)
        lags = torch.arange(1, window + 1, device=device)
        source = (rank[:, window:, None] - lags).clamp(min=0)
        source = order.gather(1, source.flatten(1)).view(batch, tokens, window)
        last = order.gather(1, rank[:, -1:] - lags.flip(0) + 1)
        self.documents = self._documents(present, source[..., 0] - window, position_ids, starts)
        documents = F.pad(self.documents, (window, 0))
        valid = documents.gather(1, source.flatten(1)).view_as(source) == self.documents[..., None]
        self.before = source, valid, last

    def _documents(self, present, previous, position_ids, starts):
        """Numbers the documents; previous: index of the token before each (< 0 = not here)."""
        follows = present & (previous >= 0)
        starts = torch.zeros_like(present) if starts is None else starts & follows
        if position_ids is not None:
            positions = position_ids.expand_as(present)
            continues = positions == positions.gather(1, previous.clamp(min=0)) + 1
            if self.present is not None:  # with padding in a row, positions in generate() may jump
                continues = continues | ((positions > 0) & ~self.present.all(-1, keepdim=True))
            starts = starts | (follows & ~continues)
        elif self.positions is None:  # count from the last start
            places = self.places[:, self.past:].expand_as(present)
            self.positions = places - (places * starts).cummax(-1).values
        return starts.long().cumsum(-1)

    def packed(self):
        return self.documents is not None and known(self.documents[:, -1].any())

    def hidden(self, window):
        """Mask of keys that a token does not attend to, [batch or 1, 1, tokens, past + tokens].
        It sees the last `window` tokens (0 = all), and always itself."""
        rows = torch.arange(self.past + self.tokens, device=self.places.device)
        hidden = (rows > rows[self.past:, None])[None, None]
        if window > 0:
            hidden = hidden | (self.distance() >= window)
        if self.present is not None:
            hidden = hidden | ~self.present[:, None, None, :]
        if self.documents is not None:
            documents = F.pad(self.documents, (self.past, 0))
            hidden = hidden | (self.documents[:, None, :, None] != documents[:, None, None, :])
        return hidden & (rows[self.past:, None] != rows)

    def distance(self):
        """[batch or 1, 1, tokens, past + tokens]: distance from query to key, in tokens."""
        return self.places[:, None, self.past:, None] - self.places[:, None, None, :]


def starts_of(seq_idx, cu_seq_lens, batch, tokens, device):
    """Mask of document starts, [batch, tokens], from document numbers (seq_idx) or from borders in
    a single row (cu_seq_lens); None if neither is given."""
    starts = None
    if seq_idx is not None:
        starts = F.pad(seq_idx.diff() != 0, (1, 0), value=True).expand(batch, tokens)
    if cu_seq_lens is not None:
        if batch != 1 or int(cu_seq_lens[-1]) != tokens:
            raise ValueError(f"cu_seq_lens_q: expected borders in one row of {tokens} tokens, found "
                             f"{batch} rows and {int(cu_seq_lens[-1])} tokens")
        borders = torch.zeros(1, tokens + 1, dtype=torch.bool, device=device)
        borders[0, cu_seq_lens.long()] = True
        starts = borders[:, :-1] if starts is None else starts | borders[:, :-1]
    return starts


# ---- parts ---------------------------------------------------------------------------------------

class Norm(nn.Module):
    """RMSNorm or LayerNorm of the last dimension."""

    def __init__(self, config, size, kind, bias):
        super().__init__()
        self.eps, self.kind = config.rms_norm_eps, kind
        self.offset = float(config.own("gain_offset"))
        self.weight = nn.Parameter(torch.full((size,), 1 - self.offset))
        self.bias = nn.Parameter(torch.zeros(size)) if bias else None

    def forward(self, x):
        y = x.float()
        if self.kind == "layer":
            y = y - y.mean(-1, keepdim=True)
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        if self.offset == 0 and self.bias is None:
            return self.weight * y.to(x.dtype)
        y = y * (self.offset + self.weight.float())
        return (y if self.bias is None else y + self.bias.float()).to(x.dtype)


def row_norm(config):
    kind = config.own("norm_kind").replace("auto", "rms")
    return Norm(config, config.hidden_size, kind, bias=kind == "layer")


def norm_of(config):
    return row_norm(config) if config.own("norm") else nn.Identity()


class FullNorm(Norm):
    """RMSNorm of all heads together, x [batch, heads, tokens, size]."""

    def forward(self, x):
        rows = super().forward(x.transpose(1, 2).flatten(2))
        return rows.unflatten(2, (x.shape[1], x.shape[3])).transpose(1, 2)


class HeadNorms(nn.Module):
    """LayerNorm without bias of each head, with weights of its own."""

    def __init__(self, config, heads, size):
        super().__init__()
        self.norms = nn.ModuleList(Norm(config, size, "layer", bias=False) for _ in range(heads))

    def forward(self, x):
        return torch.cat([norm(head) for norm, head in zip(self.norms, x.split(1, dim=1))], dim=1)


def qk_norm_of(config, heads, size):
    """The norm of queries or keys, and the end of its name."""
    kind = config.own("qk_norm")
    if kind == "layer":
        return "layernorm", HeadNorms(config, heads, size)
    if kind == "full":
        return "norm", FullNorm(config, heads * size, "rms", bias=False)
    return "norm", Norm(config, size, "rms", bias=False)


def scaled(x, config, key):
    """x times a factor of the configuration, which is 1 if it is 0 there."""
    factor = config.own(key)
    return x * factor if factor else x


def capped(x, cap):
    return cap * torch.tanh(x / cap) if cap else x


class GPT2Names:
    """Gives modules GPT-2's names, `names` = {Llama's: GPT-2's}; the rest of this file reads them by
    Llama's.  Matrices are stored input x output."""

    names = {}

    def rename(self, config):
        for ours, theirs in self.names.items():
            module = self._modules.pop(ours, None)
            if isinstance(module, nn.Linear):
                module = Conv1D(module.out_features, module.in_features)
                if theirs == "c_proj":  # it ends a branch, so initial values are smaller
                    module.factor = 1 / math.sqrt(2 * config.num_hidden_layers)
            if module is not None:
                self._modules[theirs] = module

    def __getattr__(self, name):
        return super().__getattr__(self.names.get(name, name))


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        size, inner, bias = config.hidden_size, config.intermediate_size, config.own("mlp_bias")
        self.activation = {"gelu": F.gelu, "gelu-tanh": partial(F.gelu, approximate="tanh"),
                           "relu": F.relu}.get(config.own("activation"), F.silu)
        self.gate_proj = None if config.own("plain_mlp") else nn.Linear(size, inner, bias=bias)
        self.up_proj = nn.Linear(size, inner, bias=bias)
        self.down_proj = nn.Linear(inner, size, bias=bias)

    def forward(self, x):
        if self.gate_proj is None:
            return self.down_proj(self.activation(self.up_proj(x)))
        return self.down_proj(self.activation(self.gate_proj(x)) * self.up_proj(x))


class GPT2MLP(GPT2Names, MLP):
    names = {"up_proj": "c_fc", "down_proj": "c_proj"}

    def __init__(self, config):
        super().__init__(config)
        self.rename(config)


def yarn_share(config, base, pairs):
    """How far the frequency of each pair is that of the longer context: 0 for pairs that turn
    often within the original context, 1 for those that turn rarely, linear between."""
    context = config.own("rope_original_context")

    def pair_of(turns):  # as a real number
        return pairs * math.log(context / (2 * math.pi * turns)) / math.log(base)

    low = pair_of(config.own("rope_beta_fast") or 32)
    high = pair_of(config.own("rope_beta_slow") or 1)
    if not config.own("rope_untruncated"):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, 2 * pairs - 1)
    if low == high:
        high += 0.001
    return ((torch.arange(pairs, dtype=torch.float64) - low) / (high - low)).clamp(0, 1)


def frequencies(config, layer):
    """Angles of the rotary pairs per position, [pairs], and a factor of queries and keys."""
    base, scaling = config.rope_theta, config.own("rotary_scaling")
    if config.slides(layer) and config.own("sliding_rope_base"):
        base, scaling = config.own("sliding_rope_base"), "none"
    pairs = round(config.own("rotary_fraction") * config.head_size(layer)) // 2
    plain = base ** -(torch.arange(pairs, dtype=torch.float64) / max(pairs, 1))
    factor, context = config.own("rope_factor") or 1, config.own("rope_original_context")
    scale = config.own("rope_vector_scale")
    if scaling == "linear":
        return plain / factor, 1
    if scaling == "llama3":  # long waves are scaled, short ones are not, between them it is mixed
        low, high = config.own("rope_low_factor") or 1, config.own("rope_high_factor") or 4
        share = ((context * plain / (2 * math.pi) - low) / (high - low)).clamp(0, 1)
        return (1 - share) * plain / factor + share * plain, 1
    if scaling == "yarn":
        share = yarn_share(config, base, pairs)
        return plain * (1 - share) + plain / factor * share, scale or (
            0.1 * math.log(factor) + 1 if factor > 1 else 1)
    if scaling == "longrope":  # within the original context, which is all of it
        return plain / torch.tensor(config.own("rope_short_factors"), dtype=torch.float64), scale or (
            math.sqrt(1 + math.log(factor) / math.log(context)) if factor > 1 else 1)
    return plain, 1  # "none", and "dynamic" within the original context


def rotate(x, rotation):
    """Rotates the first channels of x [batch, heads, tokens, size] by cos and sin, each
    [batch, tokens, pairs]; pair i is channels i and i + pairs."""
    cos, sin = (part[:, None] for part in rotation)
    half = cos.shape[-1]
    first, second = x[..., :half].float(), x[..., half:2 * half].float()
    rotated = torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
    return torch.cat([rotated.to(x.dtype), x[..., 2 * half:]], dim=-1)


class Attention(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        self.config, self.layer = config, layer
        self.heads, self.kv_heads = config.heads(layer)
        self.size = config.head_size(layer)
        self.scale = config.own("score_scale") or 1 / math.sqrt(self.size)
        self.targets = config.own("targets").replace("none", "")
        width, bias = config.hidden_size, config.own("qkv_bias")
        self.q_proj = nn.Linear(width, self.heads * self.size, bias=bias)
        self.k_proj = nn.Linear(width, self.kv_heads * self.size, bias=bias)
        self.v_proj = nn.Linear(width, self.kv_heads * self.size, bias=bias)
        self.o_proj = nn.Linear(self.heads * self.size, width, bias=config.own("o_bias"))
        self.qk_norms = {}  # names of modules
        if config.own("qk_norm") != "none":
            for target, heads in ("q", self.heads), ("k", self.kv_heads):
                end, norm = qk_norm_of(config, heads, self.size)
                self.qk_norms[target] = f"{target}_{end}"
                setattr(self, self.qk_norms[target], norm)
        for target in self.targets:
            shape = self.shift_shape(self.heads if target == "q" else self.kv_heads)
            if shape:
                setattr(self, f"{target}_shift", nn.Parameter(torch.empty(shape)))

    def project(self, x):
        return self.q_proj(x), self.k_proj(x), self.v_proj(x)

    def shift_shape(self, heads):
        taps = self.config.own("window") + 1
        return {"free": (heads, taps), "clamp": (heads, taps), "gate": (heads,),
                "channel": (heads, self.size, taps), "data": (heads, self.config.hidden_size),
                "hard": None}[self.config.own("form")]

    def shift(self, target, x, inputs, tail, before):
        """Mixes x [batch, heads, tokens, size] with previous rows; `tail` contains the last raw
        rows of earlier calls.  Returns the shifted rows and the new tail."""
        window, form, tokens = self.config.own("window"), self.config.own("form"), x.shape[2]
        if tail is None:
            tail = x.new_zeros(x.shape[0], x.shape[1], window, x.shape[3])
        rows = torch.cat([tail, x], dim=2)

        def pick(places):  # [batch, n] -> rows [batch, heads, n, size]
            return rows.gather(2, places[:, None, :, None].expand(-1, x.shape[1], -1, x.shape[3]))

        def back(lag):  # the rows of the tokens `lag` tokens before
            if lag == 0:
                return x
            if before is None:
                return rows[:, :, window - lag:window - lag + tokens]
            source, valid, _ = before
            return pick(source[..., lag - 1]) * valid[:, None, :, lag - 1, None].to(x.dtype)

        params = getattr(self, f"{target}_shift", None)
        if form == "hard":
            half = self.size // 2
            mixed = torch.cat([x[..., :half], back(1)[..., half:]], dim=-1)
        elif form == "data":
            previous = torch.sigmoid(F.linear(inputs.float(), params.float()))
            previous = previous.transpose(1, 2)[..., None].to(x.dtype)
            mixed = previous * back(1) + (1 - previous) * x
        else:
            if form == "gate":
                current = torch.sigmoid(params.float())
                taps = torch.stack([1 - current, current], dim=-1)
            else:
                taps = params.float().clamp(0, 1) if form == "clamp" else params.float()
            if form != "channel":
                taps = taps[:, None, :]  # the same for every channel
            taps = taps.to(x.dtype)  # oldest first
            mixed = sum(taps[None, :, None, :, window - lag] * back(lag)
                        for lag in range(window, -1, -1))
        return mixed, rows[:, :, tokens:] if before is None else pick(before[2])

    def attend(self, q, k, v, bias, causal):
        """Returns the weighted sum of v, [batch, heads, tokens, size], and the attention weights
        (None with sdpa, which cannot cap scores).  `bias` is added to scores or, if boolean, True hides a key."""
        group = self.heads // self.kv_heads
        dropout = self.config.own("dropout_attention") if self.training else 0.0
        if self.config._attn_implementation == "sdpa" and bias is None:
            return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=causal,
                                                  scale=self.scale, enable_gqa=group > 1), None
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        if self.config._attn_implementation == "sdpa" and not self.config.own("score_cap"):
            mask = ~bias if bias.dtype == torch.bool else bias.to(q.dtype)
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout,
                                                  scale=self.scale), None
        scores = capped((q @ k.transpose(2, 3)).float() * self.scale, self.config.own("score_cap"))
        if bias.dtype == torch.bool:
            scores = scores.masked_fill(bias, torch.finfo(scores.dtype).min)
        else:
            scores = scores + bias
        weights = scores.softmax(-1).to(q.dtype)
        return F.dropout(weights, dropout, self.training) @ v, weights

    def forward(self, x, rotation, bias, causal, before, cache):
        batch, tokens, _ = x.shape
        rows = {target: row.view(batch, tokens, -1, self.size).transpose(1, 2)
                for target, row in zip("qkv", self.project(x))}
        tails = {} if cache is None else cache.layers[self.layer].tails
        for target in self.targets:
            rows[target], tail = self.shift(target, rows[target], x, tails.get(target), before)
            if cache is not None:
                tails[target] = tail
        for target, name in self.qk_norms.items():
            rows[target] = getattr(self, name)(rows[target])
        q, k, v = rows["q"], rows["k"], rows["v"]
        if rotation is not None:
            q, k = rotate(q, rotation), rotate(k, rotation)
        if cache is not None:
            k, v = cache.update(k, v, self.layer)
        out, weights = self.attend(q, k, v, bias, causal)
        return self.o_proj(out.transpose(1, 2).reshape(batch, tokens, -1)), weights


class GPT2Attention(GPT2Names, Attention):
    """q, k and v are the outputs of one layer."""

    names = {"o_proj": "c_proj"}

    def __init__(self, config, layer):
        super().__init__(config, layer)
        parts = [self._modules.pop(f"{target}_proj").out_features for target in "qkv"]
        self.rename(config)
        self.widths, self.c_attn = parts, Conv1D(sum(parts), config.hidden_size)

    def project(self, x):
        return self.c_attn(x).split(self.widths, dim=-1)


class Block(GradientCheckpointingLayer):
    """x + after(f(before(x))) with f = attention, then with f = MLP; in a parallel block the MLP
    reads the x that attention reads.  `norm_place` says which of the norms are there."""

    attention_class, mlp_class = Attention, MLP

    def __init__(self, config, layer):
        super().__init__()
        self.config = config
        self.self_attn = self.attention_class(config, layer)
        self.mlp = self.mlp_class(config) if config.own("mlp") else None
        before, after = config.own("norm_place") != "after", config.own("norm_place") != "before"
        shared = config.own("parallel") == "shared"
        self.after_attention = "post_attention_layernorm" if after else ""
        self.before_mlp = ("input_layernorm" if shared else "pre_feedforward_layernorm" if after
                           else "post_attention_layernorm")
        if before:
            self.input_layernorm = norm_of(config)
        if after:
            self.post_attention_layernorm = norm_of(config)
        if self.mlp is not None and before and not shared:
            setattr(self, self.before_mlp, norm_of(config))
        if self.mlp is not None and after:
            self.post_feedforward_layernorm = norm_of(config)

    def normed(self, name, x):
        return getattr(self, name)(x) if hasattr(self, name) else x

    def add(self, x, branch):
        branch = scaled(branch, self.config, "residual_scale")
        branch = F.dropout(branch, self.config.own("dropout_residual"), self.training)
        return x + branch if self.config.own("residual") else branch

    def forward(self, x, **shared):
        branch, weights = self.self_attn(self.normed("input_layernorm", x), **shared)
        middle = self.add(x, self.normed(self.after_attention, branch))
        if self.mlp is None:
            return middle, weights
        inputs = middle if self.config.own("parallel") == "none" else x
        branch = self.mlp(self.normed(self.before_mlp, inputs))
        return self.add(middle, self.normed("post_feedforward_layernorm", branch)), weights


class GPT2Block(GPT2Names, Block):
    attention_class, mlp_class = GPT2Attention, GPT2MLP
    names = {"self_attn": "attn", "input_layernorm": "ln_1", "post_attention_layernorm": "ln_2"}

    def __init__(self, config, layer):
        super().__init__(config, layer)
        self.rename(config)


# ---- models --------------------------------------------------------------------------------------

class KVShiftPreTrainedModel(PreTrainedModel):
    config_class = KVShiftConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["Block", "GPT2Block"]
    _supports_sdpa = True

    @torch.no_grad()
    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding, Conv1D)):
            module.weight.normal_(0.0, self.config.initializer_range * getattr(module, "factor", 1))
            if getattr(module, "bias", None) is not None:
                module.bias.zero_()
        elif isinstance(module, Norm):
            module.weight.fill_(1 - module.offset)
            if module.bias is not None:
                module.bias.zero_()
        elif isinstance(module, Attention):
            for target in module.targets:
                params = getattr(module, f"{target}_shift", None)
                if params is not None:
                    self._init_shift(params)

    def _init_shift(self, params):
        form, init = self.config.own("form"), self.config.own("init")
        if form == "data":
            params.normal_(0.0, self.config.initializer_range)
            return
        drawn = torch.rand_like(params)
        if form == "gate":
            params.copy_(torch.logit(drawn, eps=1e-6))
        elif init == "identity":
            params.zero_()
            params[..., -1] = 1.0
        elif init == "softmax":
            params.copy_(torch.randn_like(params).softmax(-1))
        else:
            params.copy_(drawn)
            params[..., 0] = 1.0 - drawn[..., 1:].sum(-1)


# Arguments that transformers passes to every model; they have no effect here.
IGNORED = {"cache_position", "max_length_q", "max_length_k", "token_type_ids"}
LOSS_ARGUMENTS = ("num_items_in_batch", "ignore_index", "shift_labels")


def wants_dict(return_dict, config):
    return config.return_dict if return_dict is None else return_dict


class KVShiftModel(KVShiftPreTrainedModel):
    block_class = Block

    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        if config.own("embedding_norm"):
            self.embed_norm = row_norm(config)
        if config.own("positions") == "learned":
            self.embed_positions = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.layers = nn.ModuleList(self.block_class(config, layer)
                                    for layer in range(config.num_hidden_layers))
        self.norm = norm_of(config)
        self.gradient_checkpointing = False
        self.post_init()

    def rotation(self, layer, positions):
        """cos and sin of the rotation angles, each [batch, tokens, pairs]; None = no rotation."""
        if self.config.own("positions") != "rope" or layer in self.config.own("no_rope_layers"):
            return None
        steps, scale = frequencies(self.config, layer)
        if len(steps) == 0:
            return None
        angles = (positions[..., None].double() * steps.to(positions.device)).float()
        return scale * angles.cos(), scale * angles.sin()

    def bias(self, layer, layout):
        """The bias for `Attention.attend`; None if causal attention needs none."""
        window = self.config.own("sliding_window") if self.config.slides(layer) else 0
        keys = layout.past + layout.tokens
        alibi = self.config.own("positions") == "alibi"
        if (self.config._attn_implementation == "sdpa" and layout.before is None and not alibi
                and (window == 0 or window >= keys) and (layout.past == 0 or layout.tokens == 1)
                and not self.config.own("score_cap")):
            return None
        hidden = layout.hidden(window)
        if not alibi:
            return hidden
        heads = self.config.heads(layer)[0]
        slopes = self.config.own("slopes") or [2 ** (-8 * (h + 1) / heads) for h in range(heads)]
        slopes = torch.tensor(slopes, device=hidden.device, dtype=torch.float32)
        bias = -slopes.expand(heads)[None, :, None, None] * layout.distance()
        return bias.masked_fill(hidden, torch.finfo(torch.float32).min)

    def check(self, output_attentions, mask, position_ids, batch, tokens, past, others):
        """Rejects arguments that would otherwise be ignored or misread."""
        for name in sorted({*others} - IGNORED):
            raise TypeError(f"forward: unknown argument '{name}'")
        implementation = self.config._attn_implementation
        if implementation not in ("eager", "sdpa"):
            raise ValueError(f"attn_implementation: expected eager or sdpa, found {implementation}")
        if output_attentions and implementation != "eager":
            raise ValueError('output_attentions: needs attn_implementation="eager", found '
                             f'"{implementation}"')
        for name, value, rows, columns in (("attention_mask", mask, [batch], past + tokens),
                                           ("position_ids", position_ids, [1, batch], tokens)):
            shape = list(getattr(value, "shape", [])) or type(value).__name__
            if value is not None and shape not in [[n, columns] for n in rows]:
                raise ValueError(f"{name}: expected [{batch}, {columns}], found {shape}")

    def cache(self, given, use_cache):
        """The cache to fill, or None."""
        if self.gradient_checkpointing and self.training:
            if given is not None:
                raise ValueError("past_key_values: a cache cannot be filled with gradient "
                                 "checkpointing")
            return None
        if given is None and (self.config.use_cache if use_cache is None else use_cache):
            given = DynamicCache()
        return None if given is None else with_tails(given, len(self.layers))

    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None,
                inputs_embeds=None, use_cache=None, output_attentions=None,
                output_hidden_states=None, return_dict=None, seq_idx=None, cu_seq_lens_q=None,
                cu_seq_lens_k=None, **others):
        settings = self.config
        if output_attentions is None:
            output_attentions = settings.output_attentions
        if output_hidden_states is None:
            output_hidden_states = settings.output_hidden_states
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("forward: expected either input_ids or inputs_embeds")
        x = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        batch, tokens, _ = x.shape
        cache = self.cache(past_key_values, use_cache)
        past = cache.get_seq_length() if cache is not None else 0
        self.check(output_attentions, attention_mask, position_ids, batch, tokens, past, others)
        if cu_seq_lens_k is not None and (cu_seq_lens_q is None
                                          or not torch.equal(cu_seq_lens_q, cu_seq_lens_k)):
            raise ValueError("cu_seq_lens_k: expected the same as cu_seq_lens_q")
        layout = Layout(batch, tokens, past, settings.own("window"), x.device, attention_mask,
                        position_ids,
                        starts_of(seq_idx, cu_seq_lens_q, batch, tokens, x.device))
        length = past + tokens
        if layout.packed():
            if past > 0 or past_key_values is not None or use_cache:
                raise ValueError("position_ids: several documents packed into one row cannot be "
                                 "used with a cache")
            cache, length = None, int(layout.positions.max()) + 1  # of the longest document
        if length > settings.max_position_embeddings:
            raise ValueError(f"{length} tokens, the model's context is "
                             f"{settings.max_position_embeddings}")

        x = scaled(x, settings, "embedding_scale")
        if settings.own("embedding_norm"):
            x = self.embed_norm(x)
        if settings.own("positions") == "learned":
            x = x + self.embed_positions(layout.positions)
        x = F.dropout(x, settings.own("dropout_embedding"), self.training)
        shared, states, attentions = {}, [], []  # layers of one kind share rotation and bias
        for layer, block in enumerate(self.layers):
            if output_hidden_states:
                states.append(x)
            kind = settings.slides(layer), layer in settings.own("no_rope_layers")
            if kind not in shared:
                bias = self.bias(layer, layout)
                shared[kind] = {"rotation": self.rotation(layer, layout.positions), "bias": bias,
                                "causal": bias is None and tokens > 1, "before": layout.before}
            x, weights = block(x, cache=cache, **shared[kind])
            if output_attentions:
                attentions.append(weights)
        x = self.norm(x)
        output = BaseModelOutputWithPast(
            last_hidden_state=x, past_key_values=cache,
            hidden_states=(*states, x) if output_hidden_states else None,
            attentions=tuple(attentions) if output_attentions else None)
        return output if wants_dict(return_dict, settings) else output.to_tuple()


class KVShiftForCausalLM(KVShiftPreTrainedModel, GenerationMixin):
    model_class = KVShiftModel
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}

    def __init__(self, config):
        super().__init__(config)
        self.model = self.model_class(config)
        if config.own("head") != "none":
            self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def head(self, x):
        if self.config.own("logit_divisor"):
            x = x / self.config.own("logit_divisor")
        if self.config.own("head") == "normalised":
            rows = self.lm_head.weight
            x = F.linear(x, rows / rows.float().norm(dim=1, keepdim=True).to(rows.dtype))
        elif self.config.own("head") == "linear":
            x = self.lm_head(x)
        return capped(x, self.config.own("logit_cap"))

    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None,
                inputs_embeds=None, labels=None, use_cache=None, output_attentions=None,
                output_hidden_states=None, return_dict=None, logits_to_keep=0, seq_idx=None,
                cu_seq_lens_q=None, cu_seq_lens_k=None, **others):
        about_loss = {name: others.pop(name) for name in LOSS_ARGUMENTS if name in others}
        out = self.model(input_ids, attention_mask, position_ids, past_key_values, inputs_embeds,
                         use_cache, output_attentions, output_hidden_states, True, seq_idx,
                         cu_seq_lens_q, cu_seq_lens_k, **others)
        x = out.last_hidden_state
        if isinstance(logits_to_keep, int):
            logits = self.head(x[:, -logits_to_keep:] if logits_to_keep > 0 else x)
        else:
            logits = self.head(x[:, logits_to_keep])
        loss = None
        if labels is not None:  # divided by num_items_in_batch if Trainer accumulates gradients
            loss = self.loss_function(logits, labels, logits.shape[-1], **about_loss)
        output = CausalLMOutputWithPast(loss=loss, logits=logits,
                                        past_key_values=out.past_key_values,
                                        hidden_states=out.hidden_states,
                                        attentions=out.attentions)
        return output if wants_dict(return_dict, self.config) else output.to_tuple()


# ---- GPT-2's layout ------------------------------------------------------------------------------

class KVShiftGPT2PreTrainedModel(GPT2Names):
    config_class = KVShiftGPT2Config
    base_model_prefix = "transformer"

    def post_init(self):
        self.rename(self.config)
        super().post_init()


class KVShiftGPT2Model(KVShiftGPT2PreTrainedModel, KVShiftModel):
    block_class = GPT2Block
    names = {"embed_tokens": "wte", "embed_positions": "wpe", "layers": "h", "norm": "ln_f"}


class KVShiftGPT2ForCausalLM(KVShiftGPT2PreTrainedModel, KVShiftForCausalLM):
    model_class = KVShiftGPT2Model
    names = {"model": "transformer"}
    _tied_weights_keys = {"lm_head.weight": "transformer.wte.weight"}
