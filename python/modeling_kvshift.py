"""Language models with KV shifting attention, for transformers.

Every key and value (with target qkv also every query) is mixed with those of the tokens before it,
by a few learned coefficients per head, before the rotary positions are applied:

    K^_t = a1 * K_t + a2 * K_{t-1}          V^_t = b1 * V_t + b2 * V_{t-1}

    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)

config.json is that of Llama or GPT-2 with an additional object "kvshift" for the differences.
`OWN_SETTINGS` lists its keys with the values of a plain Llama, `GPT2_SETTINGS` where GPT-2 has others.

Which token is "the token before" (`mixed`):

  - without padding and packing it is the previous row; the first token is preceded by zeros;
  - padding, marked by 0 in attention_mask, is skipped (`Layout`);
  - a row may contain several documents, laid end to end.  A document starts where position_ids do
    not continue (in a row with padding: where they are 0), or where seq_idx or cu_seq_lens_q mark
    a start; the shift and attention do not cross a start (`Layout`);
  - with a cache it may be a token of an earlier call.  The cache of a layer holds the shifted keys
    and values and the last raw rows, because a shift cannot be inverted (`RawRows`).

The coefficients stay in float32 when a model is loaded in bfloat16 or float16, and rows are mixed
in float32.  `param_groups` makes groups for an optimizer in which they have no weight decay.
"""

import math
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F
from transformers.utils.versions import require_version

for package in "transformers>=5.0", "torch>=2.6":
    require_version(package, "modeling_kvshift.py does not work with older versions.")

from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel, initialization
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer, StaticCache, StaticLayer
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
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
    "filters": "none",  # outputs that are mixed with previous rows: attention, mlp, branches = both
    "filter_window": 0,  # number of previous rows; 0 = 1
    "mlp_factor": False,  # of the output of the MLP
    "relative_size": 0,  # relative positions: numbers per head and row; 0 = 16
    "relative_extent": 0,  # distances with a term; 0 = the context, with a sliding window as it has
    "score_divisor": "root",  # of the head size; size = the head size
    "score_growth": 0.0,  # scores *= 1 + growth * ln((position + 1) / start), without a window
    "score_growth_start": 0.0,  # 0 = 1
    "sliding_head_size": 0,  # 0 = as in the others
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
    "form": ["free", "gate", "clamp", "channel", "data", "hard", "residual"],
    "positions": ["rope", "alibi", "learned", "none", "relative"],
    "head": ["linear", "normalised", "none"],
    "qk_norm": ["none", "head", "full", "layer"],
    "norm_kind": ["auto", "rms", "layer"],
    "norm_place": ["before", "after", "both"],
    "parallel": ["none", "own", "shared"],
    "activation": ["auto", "silu", "gelu", "gelu-tanh", "relu"],
    "rotary_scaling": ["none", "linear", "llama3", "yarn", "dynamic", "longrope"],
    "filters": ["none", "attention", "mlp", "branches"],
    "score_divisor": ["root", "size"],
}
# For tensor parallelism, where every process has some of the heads: parts of a layer, and what a
# setting must be for it.  Elsewhere a row depends on heads that another process has.
PARALLEL_PLAN = {
    "q_proj": "colwise", "k_proj": "colwise", "v_proj": "colwise", "o_proj": "rowwise",
    "q_shift": "colwise", "k_shift": "colwise", "v_shift": "colwise",
}
PARALLEL_MLP = {"gate_proj": "colwise", "up_proj": "colwise", "down_proj": "rowwise"}
PARALLEL_SETTINGS = {
    "body": ["llama"], "form": ["free", "gate", "clamp", "hard"], "filters": ["none"],
    "positions": ["rope", "learned", "none"], "qk_norm": ["none", "head"], "head": ["linear"],
    "sliding_heads": [0], "sliding_head_size": [0], "qkv_bias": [False, True], "o_bias": [False],
    "mlp_bias": [False],
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
            if value not in CHOICES.get(key, [value]):
                raise ValueError(f"kvshift: key '{key}': expected {', '.join(CHOICES[key])}, "
                                 f"found '{value}'")
        super().__init__(**others)
        self.base_model_tp_plan = self.parallel_plan()

    @classmethod
    def from_dict(cls, config_dict, **others):
        """GPT-2's body has a class of its own, which the name in config.json does not tell."""
        if cls is KVShiftConfig and (config_dict.get("kvshift") or {}).get("body") == "gpt2":
            cls = KVShiftGPT2Config
        return super(KVShiftConfig, cls).from_dict(config_dict, **others)

    def to_dict(self):
        """config.json names the same class for both bodies, as the command writes it."""
        found = super().to_dict()
        if found.get("architectures"):
            found["architectures"] = [name.replace("GPT2", "") for name in found["architectures"]]
        return found

    def parallel_plan(self):
        """The plan of tensor parallelism, or None if the settings have none."""
        if any(self.own(key) not in values for key, values in PARALLEL_SETTINGS.items()):
            return None
        parts = {f"self_attn.{name}": style for name, style in PARALLEL_PLAN.items()
                 if not name.endswith("_shift")
                 or (name[0] in self.own("targets") and self.own("form") != "hard")}
        if self.own("mlp"):
            parts.update({f"mlp.{name}": style for name, style in PARALLEL_MLP.items()
                          if name != "gate_proj" or not self.own("plain_mlp")})
        if self.own("qk_norm") == "head":
            parts.update({f"self_attn.{name}": "replicated_with_grad_allreduce"
                          for name in ("q_norm", "k_norm")})
        return {f"layers.*.{name}": style for name, style in parts.items()}

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
        own = self.own("sliding_head_size") if self.slides(layer) else 0
        return own or self.own("head_size") or self.hidden_size // self.heads(layer)[0]

    def depth(self):
        """How many rows back shifts and filters reach."""
        shift = self.own("window") if self.own("targets") != "none" else 0
        return max(shift, self.filter_window("attention"), self.filter_window("mlp"))

    def filter_window(self, site):
        return (self.own("filter_window") or 1) if self.own("filters") in (site, "branches") else 0

    def relative_extent(self, layer):
        if self.slides(layer):
            return self.own("sliding_window")
        return self.own("relative_extent") or self.max_position_embeddings


class KVShiftGPT2Config(KVShiftConfig):
    """transformers remembers one class of models for each class of configurations."""

    def __init__(self, **settings):  # without it transformers 5 would make one
        super().__init__(**settings)


# ---- state ---------------------------------------------------------------------------------------

class RawRows:
    """What the cache of a layer keeps beside keys and values.  `tails` contains, by the name of what
    is mixed, the last raw rows of every sequence, [batch, heads, rows, size]; zeros before the first
    token.  `length` counts the tokens that the layer has seen."""

    record_past = False  # keep all raw rows (and keys) until the next crop

    def activate_past_recording(self):
        self.record_past = True

    def extend(self, name, x, depth, order):
        """Returns the last `depth` raw rows of earlier calls and those of x, and keeps what the next
        call needs.  `order` sorts these rows, padding first; None = there is none."""
        tail = self.tails.get(name)
        if tail is None:
            tail = x.new_zeros(*x.shape[:2], depth, x.shape[3])
        every = torch.cat([tail, x], dim=2)
        older, rows = every.split([tail.shape[2] - depth, depth + x.shape[2]], dim=2)
        kept = rows if order is None else picked(rows, order)
        if self.record_past:
            kept = torch.cat([older, kept], dim=2)
        else:
            kept = kept[:, :, x.shape[2]:].clone()  # not a view, which would keep all rows
        self.keep(name, kept)
        return rows

    def keep(self, name, rows):
        self.tails[name] = rows

    def _change(self, change):
        self.tails = {name: change(tail) for name, tail in self.tails.items()}

    def reorder_cache(self, beam_idx):
        super().reorder_cache(beam_idx)
        self._change(lambda tail: tail.index_select(0, beam_idx.to(tail.device)))

    def batch_repeat_interleave(self, repeats):
        super().batch_repeat_interleave(repeats)
        self._change(lambda tail: tail.repeat_interleave(repeats, dim=0))

    def batch_select_indices(self, indices):
        super().batch_select_indices(indices)
        self._change(lambda tail: tail[indices, ...])


class KVShiftLayer(RawRows, DynamicLayer):
    """The cache of one layer, which grows.  With a sliding window it holds the keys and values that
    the next token can see."""

    def __init__(self, window=0, depth=0):
        super().__init__()
        self.window, self.depth, self.tails, self.length = window, depth, {}, 0
        self.is_sliding = window > 0

    def stored(self):
        return self.keys.shape[-2] if self.is_initialized and self.keys.dim() == 4 else 0

    def get_seq_length(self):
        return self.length

    def get_mask_sizes(self, query_length):
        if isinstance(query_length, torch.Tensor):  # positions, in older versions
            query_length = query_length.shape[0]
        return self.stored() + query_length, self.length - self.stored()

    def update(self, key_states, value_states, settings=None, *others, **more):
        """`settings`: keep, the number of earlier rows that the next token may see."""
        keys, values = super().update(key_states, value_states)
        self.length += key_states.shape[-2]
        if self.window > 0 and not self.record_past and settings:
            self._shorten(settings["keep"])
        return keys, values

    def _shorten(self, keep):
        if keep < self.stored():
            start = self.stored() - keep
            self.keys = self.keys[:, :, start:].clone()
            self.values = self.values[:, :, start:].clone()

    def reset(self):
        self.keys = self.values = None
        self.is_initialized = False
        self.tails, self.length = {}, 0

    def crop(self, tokens_to_remove):
        """Removes the last -n tokens, or, in older versions of transformers, all from the n-th."""
        count = tokens_to_remove
        count = -count if count <= 0 else max(self.length - count, 0)
        if count > self.length:
            raise ValueError(f"crop: expected at most {self.length} tokens, found {count}")
        beyond = self.stored() < min(self.length, self.window - 1 + count) if self.window else False
        if count > 0 and not self.record_past and (self.tails or beyond):
            raise RuntimeError("crop: the cache does not keep earlier raw rows; call "
                               "activate_past_recording() before the tokens are fed")
        if count > 0:
            self.keys, self.values = self.keys[:, :, :-count], self.values[:, :, :-count]
            self.length -= count
        if self.window > 0:
            self._shorten(self.window - 1)
        depth = self.depth
        self._change(lambda tail: tail[:, :, tail.shape[2] - count - depth:tail.shape[2] - count])


class KVShiftStaticLayer(RawRows, StaticLayer):
    """The cache of one layer with tensors of a fixed size, for torch.compile."""

    def __init__(self, max_cache_len, depth=0):
        super().__init__(max_cache_len=max_cache_len)
        self.depth, self.tails = depth, {}
        self.length = torch.zeros((), dtype=torch.long)

    def activate_past_recording(self):
        raise RuntimeError("a static cache cannot be cropped")

    def crop(self, *arguments):
        raise RuntimeError("a static cache cannot be cropped")

    def lazy_initialization(self, key_states, value_states):
        super().lazy_initialization(key_states, value_states)
        self.length = self.length.to(key_states.device)
        if not torch.compiler.is_compiling():
            torch._dynamo.mark_static_address(self.length)

    def keep(self, name, rows):
        if name in self.tails:  # in place, since graphs remember addresses
            self.tails[name].copy_(rows)
            return
        self.tails[name] = rows
        if not torch.compiler.is_compiling():
            torch._dynamo.mark_static_address(rows)

    def get_seq_length(self):
        if not self.is_initialized:
            return 0
        return self.length if torch.compiler.is_compiling() else int(self.length)

    def update(self, key_states, value_states, settings=None, *others, **more):
        """`settings`: empty, whether these are the first tokens, which then see nothing else."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        at = torch.arange(key_states.shape[-2], device=self.keys.device) + self.length
        self.keys.index_copy_(2, at, key_states)
        self.values.index_copy_(2, at, value_states)
        self.length.add_(key_states.shape[-2])
        if settings and settings["empty"]:
            return key_states, value_states
        return self.keys, self.values

    def reset(self):
        super().reset()
        self.length.zero_()
        for tail in self.tails.values():
            tail.zero_()


def with_raw_rows(cache, config):
    """Returns the given cache with layers that keep raw rows.  An empty cache gets new layers in
    place; a filled one must have been filled by a shifted model."""
    if not isinstance(cache, (DynamicCache, StaticCache)):
        raise ValueError("past_key_values: expected a DynamicCache or a StaticCache, found "
                         f"{type(cache).__name__}; shifted models support no other cache")
    count = config.num_hidden_layers
    if len(cache.layers) == count and all(isinstance(layer, RawRows) for layer in cache.layers):
        return cache
    filled = cache.get_seq_length()
    if filled > 0:
        raise ValueError("past_key_values: expected an empty cache or one that this model filled, "
                         f"found {int(filled)} tokens without raw rows")
    if isinstance(cache, StaticCache):
        size = max(layer.max_cache_len for layer in cache.layers)
        cache.layers[:] = [KVShiftStaticLayer(size, config.depth()) for _ in range(count)]
    else:
        cache.layers[:] = [
            KVShiftLayer(config.own("sliding_window") if config.slides(layer) else 0,
                         config.depth()) for layer in range(count)]
    return cache


# ---- padding and packed documents ----------------------------------------------------------------

def known(condition):
    """Whether a tensor is true; False while a graph is traced, because values are unknown then."""
    return not torch.compiler.is_compiling() and bool(condition)


def picked(rows, places):
    """rows [batch, heads, n, size] at places [batch, m]: [batch, heads, m, size]"""
    return rows.gather(2, places[:, None, :, None].expand(-1, rows.shape[1], -1, rows.shape[3]))


class Layout:
    """Positions of the tokens of this call, [batch, tokens], after `past` tokens of a cache.

    total       rows that may be seen: those of the past and of this call, or a static cache's size
    at          [tokens]: the rows of this call
    positions   [batch or 1, tokens]
    places      [batch or 1, total]: number of earlier tokens that are not padding
    present     [batch, total], False for padding; None = there is none
    documents   [batch, tokens]: the document of a token; None = there is only one
    before      None if previous tokens are simply previous rows.  Otherwise, with
                rows = [last `depth` rows of earlier calls; rows of this call],
                source [batch, tokens, depth]: the row of the token 1, 2, ... depth tokens back,
                valid  [batch, tokens, depth]: whether it belongs to the same document; or None,
                order  [batch, depth + tokens]: all rows, padding first
    """

    def __init__(self, batch, tokens, past, total, depth, device, mask, position_ids, starts):
        self.batch, self.tokens, self.past, self.total = batch, tokens, past, total
        self.at = torch.arange(tokens, device=device) + past
        self.positions = position_ids
        self.places = torch.arange(total, device=device)[None]
        self.present = self.documents = self.before = None
        if mask is not None and not known(mask.all()):
            self.present = F.pad(mask.bool(), (0, total - mask.shape[1]), value=True)
            self.places = (self.present.long().cumsum(-1) - 1).clamp(min=0)
        if position_ids is None and starts is None:
            self.positions = self.places[:, self.at]
        continues = starts is None and (position_ids is None or tokens == 1
                                        or known((position_ids.diff() == 1).all()))
        if self.present is None and continues:
            return
        present = torch.ones(batch, tokens, dtype=torch.bool, device=device)
        if self.present is not None:
            present = self.present[:, self.at]
        # rank: number of earlier rows that are not padding; order: rows by rank, padding at the end
        counts = torch.cat([present.new_ones(batch, depth), present], dim=1)
        rank = counts.long().cumsum(-1) - 1
        order = (~counts).long().argsort(dim=-1, stable=True)
        lags = torch.arange(1, depth + 1, device=device)
        source = (rank[:, depth:, None] - lags).clamp(min=0)
        source = order.gather(1, source.flatten(1)).view(batch, tokens, depth)
        padding_first = counts.long().argsort(dim=-1, stable=True)
        valid = None
        if not continues:
            previous = order.gather(1, (rank[:, depth:] - 1).clamp(min=0)) - depth
            if depth == 0:
                previous = torch.where(rank == 0, -1, previous)
            self.documents = self._documents(present, previous, position_ids, starts)
            documents = F.pad(self.documents, (depth, 0))
            valid = documents.gather(1, source.flatten(1)).view_as(source)
            valid = valid == self.documents[..., None]
        self.before = source, valid, padding_first

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
            places = self.places[:, self.at].expand_as(present)
            self.positions = places - (places * starts).cummax(-1).values
        return starts.long().cumsum(-1)

    def packed(self):
        return self.documents is not None and known(self.documents[:, -1].any())

    def with_cache(self):
        """Behind a cache there is one document."""
        if self.documents is not None:
            self.documents = None
            source, _, order = self.before
            self.before = source, None, order

    def keep(self, window):
        """How many rows a cache keeps so that the next token sees the last window - 1 tokens."""
        if self.present is None:
            return window - 1
        if torch.compiler.is_compiling():
            return self.total
        newer = self.present.flip(-1).long().cumsum(-1).flip(-1)  # tokens from a row on
        enough = newer >= newer[:, :1].clamp(max=window - 1)
        return self.total + 1 - int(enough.sum(-1).min())

    def sees(self, window, first=0):
        """A function of the index of a sequence, head, token and key: whether the token attends to
        the key.  It sees the last `window` tokens (0 = all) of its document, and always itself.
        Keys start with row `first`."""
        places, present, documents = self.places, self.present, self.documents
        own = places[:, self.at]
        alone = places.shape[0] == 1

        def function(batch, head, token, key):
            key, at = key + first, self.at[token]
            seen = key <= at
            if window > 0:
                row = torch.zeros_like(batch) if alone else batch
                seen = seen & (own[row, token] - places[row, key] < window)
            if present is not None:
                seen = seen & present[batch, key]
            if documents is not None:
                seen = seen & (documents[batch, token] == documents[batch, key])
            return seen | (key == at)

        return function

    def mask(self, window, first, keys):
        """`sees` for all tokens and keys, [batch or 1, 1, tokens, keys]"""
        count = 1 if self.present is None and self.documents is None else self.batch
        index = [torch.arange(size, device=self.at.device) for size in (count, 1, self.tokens, keys)]
        index = [values.view([-1 if axis == own else 1 for axis in range(4)])
                 for own, values in enumerate(index)]
        return self.sees(window, first)(*index).expand(count, 1, self.tokens, keys)

    def distance(self, first, keys):
        """[batch or 1, 1, tokens, keys]: distance from token to key, in tokens."""
        return (self.places[:, None, self.at, None]
                - self.places[:, None, None, first:first + keys])

    def borders(self):
        """Where documents start and end in a single row, and the length of the longest: the
        arguments of flash attention for packed documents."""
        change = F.pad(self.documents[0].diff() != 0, (1, 1), value=True)
        ends = change.nonzero().flatten().int()
        longest = int(ends.diff().max())
        return {"cu_seq_lens_q": ends, "cu_seq_lens_k": ends, "max_length_q": longest,
                "max_length_k": longest}


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


# ---- mixing with previous rows -------------------------------------------------------------------

def local(params):
    """The part of the parameters that this process has, if they are distributed by heads."""
    return params.to_local() if hasattr(params, "to_local") else params


def taps_of(form, params):
    """[heads, 1 or size, taps], float32, oldest first."""
    params = local(params).float()
    if form == "gate":
        current = torch.sigmoid(params)
        return torch.stack([1 - current, current], dim=-1)[:, None]
    if form == "residual":
        return params + F.pad(params.new_ones(1), (params.shape[-1] - 1, 0))
    if form == "channel":
        return params
    return (params.clamp(0, 1) if form == "clamp" else params)[:, None]


def mixed(form, params, rows, tokens, inputs=None, before=None):
    """Mixes the last `tokens` of the rows [batch, heads, depth + tokens, size] with rows before
    them.  `inputs` are what a gate of form data reads, [batch, tokens, width]; `before` is that of a
    `Layout`.  The result has the type of the rows, the arithmetic is in float32."""
    depth = rows.shape[2] - tokens
    x = rows[:, :, depth:]

    def back(lag):  # the rows of the tokens `lag` tokens before
        if lag == 0:
            return x
        if before is None:
            return rows[:, :, depth - lag:depth - lag + tokens]
        source, valid, _ = before
        there = picked(rows, source[..., lag - 1])
        return there if valid is None else there * valid[:, None, :, lag - 1, None].to(x.dtype)

    if form == "hard":
        half = x.shape[3] // 2
        return torch.cat([x[..., :half], back(1)[..., half:]], dim=-1)
    if form == "data":
        with torch.autocast(x.device.type, enabled=False):
            share = torch.sigmoid(F.linear(inputs.float(), local(params).float()))
        share = share.transpose(1, 2)[..., None]
        return (share * back(1) + (1 - share) * x).to(x.dtype)
    taps = taps_of(form, params)
    window = taps.shape[-1] - 1
    return sum(taps[None, :, None, :, window - lag] * back(lag)
               for lag in range(window, -1, -1)).to(x.dtype)


def raw_rows(state, layer, name, x, depth, before):
    """x [batch, heads, tokens, size] behind the `depth` rows before it."""
    if state is None:
        return F.pad(x, (0, 0, depth, 0))
    return state.layers[layer].extend(name, x, depth, None if before is None else before[2])


def filtered(x, params, state, layer, name, depth, before):
    """x [batch, tokens, width], mixed channel by channel; `params` have no tap of the row itself."""
    rows = raw_rows(state, layer, name, x[:, None], depth, before)
    return mixed("residual", params[None], rows, x.shape[1], before=before)[:, 0]


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


SHIFT_PARTS = ("q_shift", "k_shift", "v_shift", "filter")
FLOAT32_PARTS = (*SHIFT_PARTS, "factor")


class Float32Parts(nn.Module):
    """A module whose coefficients stay in float32 when it is converted to another type."""

    def _apply(self, fn, recurse=True):
        kept = [self._parameters.get(name) for name in FLOAT32_PARTS]
        kept = {id(tensor) for params in kept if params is not None
                for tensor in (params, params.grad)}

        def apply(tensor):
            out = fn(tensor)
            same = id(tensor) not in kept or out.dtype == tensor.dtype
            return out if same else tensor.to(out.device)

        return super()._apply(apply, recurse)


class MLP(Float32Parts):
    def __init__(self, config, layer=0):
        super().__init__()
        self.depth, self.layer_idx = config.depth(), layer
        size, inner, bias = config.hidden_size, config.intermediate_size, config.own("mlp_bias")
        self.activation = {"gelu": F.gelu, "gelu-tanh": partial(F.gelu, approximate="tanh"),
                           "relu": F.relu}.get(config.own("activation"), F.silu)
        self.gate_proj = None if config.own("plain_mlp") else nn.Linear(size, inner, bias=bias)
        self.up_proj = nn.Linear(size, inner, bias=bias)
        self.down_proj = nn.Linear(inner, size, bias=bias)
        taps = config.filter_window("mlp") + 1
        self.filter = nn.Parameter(torch.empty(size, taps)) if taps > 1 else None
        self.factor = nn.Parameter(torch.empty(1)) if config.own("mlp_factor") else None

    def inner(self, x):
        if self.gate_proj is None:
            return self.activation(self.up_proj(x))
        return self.activation(self.gate_proj(x)) * self.up_proj(x)

    def forward(self, x, cache=None, before=None):
        x = self.down_proj(self.inner(x))
        if self.filter is not None:
            x = filtered(x, self.filter, cache, self.layer_idx, "mlp", self.depth, before)
        return x if self.factor is None else x * self.factor


class GPT2MLP(GPT2Names, MLP):
    names = {"up_proj": "c_fc", "down_proj": "c_proj"}

    def __init__(self, config, layer=0):
        super().__init__(config, layer)
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


def eager_attention(module, query, key, value, attention_mask, scaling, dropout=0.0, softcap=None,
                    **others):
    """Attention with all scores, which returns the weights too.  `attention_mask` is boolean, True
    for keys that are seen, or is added to the scores."""
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
    scores = capped((query @ key.transpose(2, 3)).float() * scaling, softcap)
    if attention_mask is not None and attention_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)
    elif attention_mask is not None:
        scores = scores + attention_mask
    weights = scores.softmax(-1).to(query.dtype)
    out = F.dropout(weights, dropout, module.training) @ value
    return out.transpose(1, 2).contiguous(), weights


def kind_of(implementation):
    """flash: padding and windows are arguments; flex: compiled masks; eager; sdpa: masks, which
    other functions that were registered with transformers get too."""
    for kind in "flash", "flex", "eager":
        if kind in implementation:
            return kind
    return "sdpa"


class Attention(Float32Parts):
    is_causal = True  # for the functions of transformers

    def __init__(self, config, layer):
        super().__init__()
        self.config, self.layer_idx = config, layer
        self.heads, self.kv_heads = config.heads(layer)
        self.num_key_value_groups = self.heads // self.kv_heads
        self.size = config.head_size(layer)
        divisor = self.size if config.own("score_divisor") == "size" else math.sqrt(self.size)
        self.scale = config.own("score_scale") or 1 / divisor
        self.targets = config.own("targets").replace("none", "")
        self.window, self.depth = config.own("window"), config.depth()
        self.sliding_window = config.own("sliding_window") if config.slides(layer) else None
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
            shape = shift_shape(config.own("form"), self.heads if target == "q" else self.kv_heads,
                                self.size, width, self.window)
            if shape:
                setattr(self, f"{target}_shift", nn.Parameter(torch.empty(shape)))
        self.r_proj = None
        if config.own("positions") == "relative":
            count = config.own("relative_size") or 16
            self.r_proj = nn.Linear(width, self.heads * count, bias=False)
            self.r_table = nn.Parameter(torch.empty(count, config.relative_extent(layer)))
        taps = config.filter_window("attention") + 1
        self.filter = nn.Parameter(torch.empty(width, taps)) if taps > 1 else None

    def project(self, x):
        return self.q_proj(x), self.k_proj(x), self.v_proj(x)

    def near(self, x, mask, distance, growth):
        """The terms of relative positions, with the mask: [batch, heads, tokens, keys]."""
        terms = self.r_proj(x).unflatten(-1, (self.heads, -1)) @ self.r_table.to(x.dtype)
        extent = self.r_table.shape[1]
        index = distance.clamp(0, extent - 1).expand(x.shape[0], self.heads, -1, -1)
        terms = terms.transpose(1, 2).gather(-1, index)
        terms = terms.masked_fill((distance < 0) | (distance >= extent), 0.0)
        if growth is not None:
            terms = terms * growth
        return terms.masked_fill(~mask, torch.finfo(terms.dtype).min)

    def forward(self, x, cache, before, rotation, mask, distance, growth, update, extra):
        batch, tokens, _ = x.shape
        rows = {target: row.view(batch, tokens, -1, self.size).transpose(1, 2)
                for target, row in zip("qkv", self.project(x))}
        for target in self.targets:
            raw = raw_rows(cache, self.layer_idx, target, rows[target], self.depth, before)
            rows[target] = mixed(self.config.own("form"), getattr(self, f"{target}_shift", None),
                                 raw, tokens, x, before)
        for target, name in self.qk_norms.items():
            rows[target] = getattr(self, name)(rows[target])
        q, k, v = rows["q"], rows["k"], rows["v"]
        if rotation is not None:
            q, k = rotate(q, rotation), rotate(k, rotation)
        if growth is not None:
            q = (q * growth).to(q.dtype)
        if cache is not None:
            k, v = cache.update(k, v, self.layer_idx, update)
        if self.r_proj is not None:
            mask = self.near(x, mask, distance, growth)
        name = self.config._attn_implementation
        cap = self.config.own("score_cap") or None
        attend = eager_attention
        if kind_of(name) != "eager" and not (name == "sdpa" and cap):  # which cannot cap scores
            attend = ALL_ATTENTION_FUNCTIONS[name]
        if mask is not None and mask.__class__ is torch.Tensor and mask.is_floating_point():
            mask = mask.to(torch.float32 if attend is eager_attention else q.dtype)
        out, weights = attend(
            self, q, k, v, mask, scaling=self.scale, softcap=cap, sliding_window=self.sliding_window,
            dropout=self.config.own("dropout_attention") if self.training else 0.0, **extra)
        out = self.o_proj(out.reshape(batch, tokens, -1))
        if self.filter is not None:
            out = filtered(out, self.filter, cache, self.layer_idx, "attention", self.depth, before)
        return out, weights


def shift_shape(form, heads, size, width, window):
    """The shape of a shift's parameters; None = it has none."""
    taps = window + 1
    return {"free": (heads, taps), "clamp": (heads, taps), "gate": (heads,),
            "channel": (heads, size, taps), "residual": (heads, size, taps),
            "data": (heads, width), "hard": None}[form]


@torch.no_grad()
def first_taps(shape, form, init, deviation=0.02):
    """Initial parameters of a shift."""
    if form == "data":
        return deviation * torch.randn(shape)
    drawn = torch.rand(shape)
    if form == "gate":
        return torch.logit(drawn, eps=1e-6)
    if init == "identity":
        drawn.zero_()
        drawn[..., -1] = 1.0
    elif init == "softmax":
        drawn = torch.randn(shape).softmax(-1)
    else:
        drawn[..., 0] = 1.0 - drawn[..., 1:].sum(-1)
    if form == "residual":
        drawn[..., -1] -= 1.0
    return drawn


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
        self.mlp = self.mlp_class(config, layer) if config.own("mlp") else None
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

    def forward(self, x, cache=None, before=None, **shared):
        branch, weights = self.self_attn(self.normed("input_layernorm", x), cache, before, **shared)
        middle = self.add(x, self.normed(self.after_attention, branch))
        if self.mlp is None:
            return middle, weights
        inputs = middle if self.config.own("parallel") == "none" else x
        branch = self.mlp(self.normed(self.before_mlp, inputs), cache, before)
        return self.add(middle, self.normed("post_feedforward_layernorm", branch)), weights


class GPT2Block(GPT2Names, Block):
    attention_class, mlp_class = GPT2Attention, GPT2MLP
    names = {"self_attn": "attn", "input_layernorm": "ln_1", "post_attention_layernorm": "ln_2"}

    def __init__(self, config, layer):
        super().__init__(config, layer)
        self.rename(config)


# ---- models --------------------------------------------------------------------------------------

def param_groups(model, lr=None, weight_decay=0.1, shift_lr=None, shift_weight_decay=0.0):
    """Groups of parameters for an optimizer, as `kvshift train` has them: matrices and embeddings
    with weight decay, gains and biases without, and the coefficients of shifts and filters with a
    learning rate of their own and, by default, without weight decay.

        optimizer = torch.optim.AdamW(model.param_groups(lr=3e-4), lr=3e-4, betas=(0.9, 0.95))
    """
    groups = {"matrices": [], "gains": [], "shift": []}
    for name, params in model.named_parameters():
        if not params.requires_grad:
            continue
        part = name.rpartition(".")[2]
        small = params.dim() < 2 or part in ("bias", "r_table", "factor")
        groups["shift" if part in SHIFT_PARTS else "gains" if small else "matrices"].append(params)
    rates = {"matrices": lr, "gains": lr, "shift": lr if shift_lr is None else shift_lr}
    decays = {"matrices": weight_decay, "gains": 0.0, "shift": shift_weight_decay}
    return [{"params": params, "weight_decay": decays[name], "name": name,
             **({} if rates[name] is None else {"lr": rates[name]})}
            for name, params in groups.items() if params]


class KVShiftPreTrainedModel(PreTrainedModel):
    config_class = KVShiftConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["Block", "GPT2Block"]
    _skip_keys_device_placement = ["past_key_values", "cache"]
    _keep_in_fp32_modules_strict = list(FLOAT32_PARTS)
    _supports_sdpa = _supports_flash_attn = _supports_flex_attn = True
    _supports_attention_backend = True
    _can_compile_fullgraph = True

    param_groups = param_groups

    def __init__(self, config, *inputs, **others):
        super().__init__(config, *inputs, **others)
        refuse_stateless(config._attn_implementation)

    @torch.no_grad()
    def _init_weights(self, module):
        deviation = self.config.initializer_range
        if isinstance(module, (nn.Linear, nn.Embedding, Conv1D)):
            initialization.normal_(module.weight, 0.0, deviation * getattr(module, "factor", 1))
            if getattr(module, "bias", None) is not None:
                initialization.zeros_(module.bias)
        elif isinstance(module, Norm):
            initialization.constant_(module.weight, 1 - module.offset)
            if module.bias is not None:
                initialization.zeros_(module.bias)
        elif isinstance(module, Attention):
            for target in module.targets:
                params = getattr(module, f"{target}_shift", None)
                if params is not None:
                    initialization.copy_(params, first_taps(
                        params.shape, self.config.own("form"), self.config.own("init"), deviation))
            if module.r_proj is not None:
                initialization.normal_(module.r_table, 0.0, deviation)
        if getattr(module, "filter", None) is not None:
            initialization.zeros_(module.filter)
        if isinstance(module, MLP) and module.factor is not None:
            initialization.ones_(module.factor)


def refuse_stateless(implementation):
    """Backends with key caches of their own would lose the raw rows between calls."""
    if implementation == "vllm":
        raise ValueError("attn_implementation 'vllm': vLLM's generic backend keeps keys and values "
                         "but no raw rows, without which a shifted model computes wrong numbers "
                         "from its second call on; use 'kvshift serve'")
    if str(implementation).startswith("paged"):
        raise ValueError(f"attn_implementation '{implementation}': paged caches keep no raw rows, "
                         "which a shifted model needs")


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
        device = positions.device
        if device.type == "mps":  # has no float64
            positions = positions.cpu()
        angles = (positions[..., None].double() * steps.to(positions.device)).float()
        return (scale * angles.cos()).to(device), (scale * angles.sin()).to(device)

    def bias(self, layer, distance, mask):
        """The bias of ALiBi, with the mask: [batch or 1, heads, tokens, keys]."""
        heads = self.config.heads(layer)[0]
        slopes = self.config.own("slopes") or [2 ** (-8 * (h + 1) / heads) for h in range(heads)]
        slopes = torch.tensor(slopes, device=mask.device, dtype=torch.float32)
        bias = -slopes.expand(heads)[None, :, None, None] * distance
        return bias.masked_fill(~mask, torch.finfo(torch.float32).min)

    def attention(self, layer, layout, cache):
        """What layers of one kind share: arguments of `Attention.forward`."""
        settings, slides = self.config, self.config.slides(layer)
        window = settings.own("sliding_window") if slides else 0
        positions = settings.own("positions")
        kind = kind_of(settings._attn_implementation)
        state = None if cache is None else cache.layers[layer]
        static = isinstance(state, KVShiftStaticLayer)
        empty = isinstance(layout.past, int) and layout.past == 0
        keys, first = layout.total, 0
        if static and empty:
            keys = layout.tokens
        elif state is not None and not static:
            keys = state.stored() + layout.tokens
            first = layout.total - keys
        shared = {"rotation": self.rotation(layer, layout.positions), "distance": None,
                  "growth": None, "mask": None, "extra": {},
                  "update": {"keep": layout.keep(window) if window > 0 else 0, "empty": empty}}
        if settings.own("score_growth") and not slides:
            start = settings.own("score_growth_start") or 1
            turns = ((layout.positions + 1).float() / start).clamp(min=1)
            shared["growth"] = (1 + settings.own("score_growth") * turns.log())[:, None, :, None]
        biased = positions in ("alibi", "relative")
        plain = (layout.before is None and not biased and (window == 0 or window >= keys)
                 and (empty or (layout.tokens == 1 and not static)))
        if kind == "flash":
            if layout.present is not None:
                shared["mask"] = layout.present[:, first:first + keys]
            if layout.packed():
                shared["extra"] = layout.borders()
        elif kind == "flex":
            from torch.nn.attention.flex_attention import create_block_mask
            device = layout.at.device
            shared["mask"] = create_block_mask(  # uncompiled, it makes the whole mask first
                layout.sees(window, first), layout.batch, None, layout.tokens, keys, device=device,
                _compile=device.type != "cpu")
        elif not plain or kind == "eager" or settings.own("score_cap"):
            shared["mask"] = layout.mask(window, first, keys)
            if biased:
                shared["distance"] = layout.distance(first, keys)
            if positions == "alibi":
                shared["mask"] = self.bias(layer, shared["distance"], shared["mask"])
        return shared

    def check(self, output_attentions, mask, position_ids, batch, tokens, past, static, others):
        """Rejects arguments that would otherwise be ignored or misread."""
        for name in sorted({*others} - IGNORED):
            raise TypeError(f"forward: unknown argument '{name}'")
        implementation = self.config._attn_implementation
        refuse_stateless(implementation)
        positions = self.config.own("positions")
        if positions in ("alibi", "relative") and kind_of(implementation) in ("flash", "flex"):
            raise ValueError(f"attn_implementation: positions {positions} need sdpa or eager, found "
                             f"{implementation}")
        if output_attentions and implementation != "eager":
            raise ValueError('output_attentions: needs attn_implementation="eager", found '
                             f'"{implementation}"')
        for name, value, rows, columns in (("attention_mask", mask, [batch], past + tokens),
                                           ("position_ids", position_ids, [1, batch], tokens)):
            shape = list(getattr(value, "shape", [])) or type(value).__name__
            if value is None or (static and name == "attention_mask" and len(shape) == 2
                                 and shape[0] == batch):
                continue  # with a static cache, a mask may be as long as the cache
            if shape not in [[n, columns] for n in rows]:
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
        return None if given is None else with_raw_rows(given, self.config)

    def layout(self, x, cache, given, use_cache, mask, position_ids, starts):
        """The layout of this call, and the cache, which packed documents do not have."""
        batch, tokens, _ = x.shape
        past = cache.get_seq_length() if cache is not None else 0
        static = cache is not None and isinstance(cache.layers[0], KVShiftStaticLayer)
        total = cache.layers[0].max_cache_len if static else past + tokens
        length = past + tokens
        if static and isinstance(length, int) and length > total:
            raise ValueError(f"past_key_values: {length} tokens, the cache has room for {total}")
        layout = Layout(batch, tokens, past, total, self.config.depth(), x.device, mask,
                        position_ids, starts)
        if layout.packed():
            if given is not None or use_cache:
                raise ValueError("position_ids: several documents packed into one row cannot be "
                                 "used with a cache")
            flash = kind_of(self.config._attn_implementation) == "flash"
            if flash and (batch > 1 or layout.present is not None):
                raise ValueError("position_ids: with flash attention, packed documents must be in "
                                 f"one row without padding, found {batch} rows")
            cache, length = None, int(layout.positions.max()) + 1  # of the longest document
        elif given is not None:
            layout.with_cache()
        if isinstance(length, int) and length > self.config.max_position_embeddings:
            raise ValueError(f"{length} tokens, the model's context is "
                             f"{self.config.max_position_embeddings}")
        return layout, cache

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
        self.check(output_attentions, attention_mask, position_ids, batch, tokens,
                   cache.get_seq_length() if cache is not None else 0,
                   isinstance(past_key_values, StaticCache), others)
        if cu_seq_lens_k is not None and (cu_seq_lens_q is None
                                          or not torch.equal(cu_seq_lens_q, cu_seq_lens_k)):
            raise ValueError("cu_seq_lens_k: expected the same as cu_seq_lens_q")
        layout, cache = self.layout(x, cache, past_key_values, use_cache, attention_mask,
                                    position_ids, starts_of(seq_idx, cu_seq_lens_q, batch, tokens,
                                                            x.device))

        x = scaled(x, settings, "embedding_scale")
        if settings.own("embedding_norm"):
            x = self.embed_norm(x)
        if settings.own("positions") == "learned":
            x = x + self.embed_positions(layout.positions)
        x = F.dropout(x, settings.own("dropout_embedding"), self.training)
        shared, states, attentions = {}, [], []
        for layer, block in enumerate(self.layers):
            if output_hidden_states:
                states.append(x)
            kind = settings.slides(layer), layer in settings.own("no_rope_layers")
            if kind not in shared:
                shared[kind] = self.attention(layer, layout, cache)
            x, weights = block(x, cache=cache, before=layout.before, **shared[kind])
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
    _tp_plan = {"lm_head": "colwise_gather_output"}
    _fsdp_plan = {"lm_head": "keep_full_weight"}

    def __init__(self, config):
        super().__init__(config)
        self.model = self.model_class(config)
        if config.own("head") != "none":
            self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()
        if config.base_model_tp_plan is None:
            self._tp_plan = {}

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

    def _prepare_cache_for_generation(self, generation_config, model_kwargs, *others, **more):
        super()._prepare_cache_for_generation(generation_config, model_kwargs, *others, **more)
        cache = model_kwargs.get("past_key_values")
        if isinstance(cache, Cache):
            with_raw_rows(cache, self.config)
            if getattr(generation_config, "is_assistant", False):
                for layer in cache.layers:
                    layer.activate_past_recording()

    @staticmethod
    def create_masks_for_generate(attention_mask=None, past_key_values=None, **others):
        """For a static cache: the mask of padding, as long as the cache, so that its shape stays.
        The shift needs it, and the mask of attention follows from it."""
        if attention_mask is None:
            return None
        size = past_key_values.layers[0].max_cache_len - attention_mask.shape[1]
        return F.pad(attention_mask, (0, size), value=1) if size > 0 else attention_mask


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
