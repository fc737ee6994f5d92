"""Language models with KV shifting attention, for transformers.

Each key and value (and query, where asked for) is mixed with those of the tokens before it, by a
few learned numbers a head, before the positions are rotated in:

    K^_t = a1 * K_t + a2 * K_{t-1}          V^_t = b1 * V_t + b2 * V_{t-1}

    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)

config.json is Llama's with an object "kvshift" that says what differs; `OWN_SETTINGS` has its keys
with the values of a plain model.  The cache of a layer holds the mixed keys and values, and beside
them the last rows as they were before mixing: mixed rows cannot be unmixed.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.cache_utils import Cache, DynamicLayer
from transformers.modeling_outputs import CausalLMOutputWithPast

OWN_SETTINGS = {
    "body": "llama",
    "targets": "none",  # none, k, v, kv, qkv: what is mixed
    "form": "free",
    "window": 1,  # tokens before that take part
    "init": "uniform",
    "positions": "rope",
    "rotary_fraction": 1.0,  # share of a head's channels, from the first on, that rotates
    "slopes": [],  # of ALiBi; none = 2^(-8i/heads), one = for all heads
    "score_scale": 0.0,  # 0 = 1 / sqrt(head size)
    "sliding_window": 0,  # token t attends to s > t - window; 0 = to all
    "sliding_layers": [],  # that have it; none = all
    "sliding_heads": 0,  # of those layers; 0 = as the others
    "sliding_kv_heads": 0,
    "head": "linear",
    "residual": True,
    "mlp": True,
    "norm": True,
    "dropout_embedding": 0.0,
    "dropout_attention": 0.0,
    "dropout_residual": 0.0,
    "identity_projections": False,  # these two are about training only
    "unit_embeddings": False,
}
CHOICES = {
    "body": ["llama"],
    "targets": ["none", "k", "v", "kv", "qkv"],
    "form": ["free", "gate", "clamp", "channel", "data", "hard"],
    "positions": ["rope", "alibi", "learned", "none"],
    "head": ["linear", "normalised", "none"],
}


class KVShiftConfig(PretrainedConfig):
    model_type = "kvshift"
    keys_to_ignore_at_inference = ["past_key_values"]

    def __init__(self, vocab_size=32000, hidden_size=512, intermediate_size=1376,
                 num_hidden_layers=8, num_attention_heads=8, num_key_value_heads=None,
                 max_position_embeddings=2048, rope_theta=10000.0, rms_norm_eps=1e-6,
                 initializer_range=0.02, use_cache=True, kvshift=None, rope_scaling=None, **others):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.intermediate_size = intermediate_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.num_key_value_heads = num_key_value_heads or num_attention_heads
        self.max_position_embeddings = max_position_embeddings
        self.rope_theta = rope_theta
        self.rms_norm_eps = rms_norm_eps
        self.initializer_range = initializer_range
        self.use_cache = use_cache
        self.kvshift = dict(kvshift or {})
        if rope_scaling is not None:
            raise ValueError("rope_scaling: expected null, scaled positions are unknown here")
        for key, value in self.kvshift.items():
            if key not in OWN_SETTINGS:
                raise ValueError(f"kvshift: unknown key '{key}'")
            if value not in CHOICES.get(key, [value]):
                raise ValueError(f"kvshift: key '{key}': expected {', '.join(CHOICES[key])}, "
                                 f"found '{value}'")
        super().__init__(**others)

    def own(self, key):
        return self.kvshift.get(key, OWN_SETTINGS[key])

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


# ---- state ---------------------------------------------------------------------------------------

class KVShiftLayer(DynamicLayer):
    """The cache of one layer.  `tails` has, for each target, the last raw rows of every sequence:
    [batch, heads, at most window, head size]."""

    is_croppable = False

    def __init__(self, *arguments, **settings):
        super().__init__(*arguments, **settings)
        self.tails = {}

    def _change(self, change):
        self.tails = {target: change(tail) for target, tail in self.tails.items()}

    def reset(self):
        super().reset()
        self.tails = {}

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
        raise NotImplementedError("a shifted model's cache cannot be cropped: the rows before "
                                  "mixing are gone")


class KVShiftCache(Cache):
    def __init__(self):
        super().__init__(layer_class_to_replicate=KVShiftLayer)

    @classmethod
    def of(cls, cache):
        """The given cache, or one of ours in the place of an empty one of another kind."""
        if isinstance(cache, cls):
            return cache
        if cache is not None and cache.get_seq_length() > 0:
            raise ValueError(f"past_key_values: expected a KVShiftCache, found a filled "
                             f"{type(cache).__name__}")
        return cls()

    def layer(self, index):
        while len(self.layers) <= index:
            self.layers.append(KVShiftLayer())
        return self.layers[index]


# ---- parts ---------------------------------------------------------------------------------------

class RMSNorm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * y.to(x.dtype)


def norm_of(config):
    if not config.own("norm"):
        return nn.Identity()
    return RMSNorm(config.hidden_size, config.rms_norm_eps)


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        size, inner = config.hidden_size, config.intermediate_size
        self.gate_proj = nn.Linear(size, inner, bias=False)
        self.up_proj = nn.Linear(size, inner, bias=False)
        self.down_proj = nn.Linear(inner, size, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


def rotate(x, angles):
    """The first channels of x [batch, heads, tokens, size] turn by angles [batch, tokens, pairs];
    pair i is channels i and i + pairs."""
    half = angles.shape[-1]
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    first, second = x[..., :half].float(), x[..., half:2 * half].float()
    turned = torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
    return torch.cat([turned.to(x.dtype), x[..., 2 * half:]], dim=-1)


class Attention(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        self.config, self.layer = config, layer
        self.heads, self.kv_heads = config.heads(layer)
        self.size = config.hidden_size // self.heads
        self.scale = config.own("score_scale") or 1 / math.sqrt(self.size)
        self.targets = config.own("targets").replace("none", "")
        width = config.hidden_size
        self.q_proj = nn.Linear(width, self.heads * self.size, bias=False)
        self.k_proj = nn.Linear(width, self.kv_heads * self.size, bias=False)
        self.v_proj = nn.Linear(width, self.kv_heads * self.size, bias=False)
        self.o_proj = nn.Linear(self.heads * self.size, width, bias=False)
        for target in self.targets:
            shape = self.shift_shape(self.heads if target == "q" else self.kv_heads)
            if shape:
                setattr(self, f"{target}_shift", nn.Parameter(torch.empty(shape)))

    def shift_shape(self, heads):
        taps = self.config.own("window") + 1
        return {"free": (heads, taps), "clamp": (heads, taps), "gate": (heads,),
                "channel": (heads, self.size, taps), "data": (heads, self.config.hidden_size),
                "hard": None}[self.config.own("form")]

    def shift(self, target, x, inputs, tail):
        """Mixes x [batch, heads, tokens, size] with the rows before it, of which `tail` has the
        last ones; returns the mixture and the new tail."""
        window, form, tokens = self.config.own("window"), self.config.own("form"), x.shape[2]
        if tail is None:
            tail = x.new_zeros(x.shape[0], x.shape[1], window, x.shape[3])
        rows = torch.cat([tail, x], dim=2)
        before = rows[:, :, window - 1:window - 1 + tokens]
        numbers = getattr(self, f"{target}_shift", None)
        if form == "hard":
            half = self.size // 2
            mixed = torch.cat([x[..., :half], before[..., half:]], dim=-1)
        elif form == "data":
            share = torch.sigmoid(F.linear(inputs.float(), numbers.float()))
            share = share.transpose(1, 2)[..., None].to(x.dtype)
            mixed = share * before + (1 - share) * x
        else:
            if form == "gate":
                current = torch.sigmoid(numbers.float())
                taps = torch.stack([1 - current, current], dim=-1)
            else:
                taps = numbers.float().clamp(0, 1) if form == "clamp" else numbers.float()
            if form != "channel":
                taps = taps[:, None, :]  # the same for every channel
            taps = taps.to(x.dtype)
            mixed = sum(taps[None, :, None, :, j] * rows[:, :, j:j + tokens]
                        for j in range(window + 1))
        return mixed, rows[:, :, tokens:]

    def forward(self, x, angles, bias, cache, present):
        batch, tokens, _ = x.shape
        raw = {target: projection(x).view(batch, tokens, -1, self.size).transpose(1, 2)
               for target, projection in zip("qkv", (self.q_proj, self.k_proj, self.v_proj))}
        state = cache.layer(self.layer) if cache is not None else None
        for target in self.targets:
            rows = raw[target]
            if present is not None:  # what is only padding is as if it were not there
                rows = rows * present[:, None, :, None].to(rows.dtype)
            tail = state.tails.get(target) if state else None
            raw[target], tail = self.shift(target, rows, x, tail)
            if state:
                state.tails[target] = tail
        q, k, v = raw["q"], raw["k"], raw["v"]
        if angles is not None:
            q, k = rotate(q, angles), rotate(k, angles)
        if cache is not None:
            k, v = cache.update(k, v, self.layer)
        group = self.heads // self.kv_heads
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        dropout = self.config.own("dropout_attention") if self.training else 0.0
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype), dropout_p=dropout,
                                             scale=self.scale)
        return self.o_proj(out.transpose(1, 2).reshape(batch, tokens, -1))


class Block(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        self.config = config
        self.self_attn = Attention(config, layer)
        self.input_layernorm = norm_of(config)
        if config.own("mlp"):
            self.mlp = MLP(config)
            self.post_attention_layernorm = norm_of(config)

    def add(self, x, branch):
        branch = F.dropout(branch, self.config.own("dropout_residual"), self.training)
        return x + branch if self.config.own("residual") else branch

    def forward(self, x, angles, bias, cache, present):
        x = self.add(x, self.self_attn(self.input_layernorm(x), angles, bias, cache, present))
        if self.config.own("mlp"):
            x = self.add(x, self.mlp(self.post_attention_layernorm(x)))
        return x


# ---- models --------------------------------------------------------------------------------------

class KVShiftPreTrainedModel(PreTrainedModel):
    config_class = KVShiftConfig
    base_model_prefix = "model"
    _no_split_modules = ["Block"]
    _supports_sdpa = True

    @torch.no_grad()
    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            module.weight.normal_(0.0, self.config.initializer_range)
        elif isinstance(module, RMSNorm):
            module.weight.fill_(1.0)
        elif isinstance(module, Attention):
            for target in module.targets:
                numbers = getattr(module, f"{target}_shift", None)
                if numbers is not None:
                    self._init_shift(numbers)

    def _init_shift(self, numbers):
        form, init = self.config.own("form"), self.config.own("init")
        if form == "data":
            numbers.normal_(0.0, self.config.initializer_range)
            return
        drawn = torch.rand_like(numbers)
        if form == "gate":
            numbers.copy_(torch.logit(drawn, eps=1e-6))
        elif init == "identity":
            numbers.zero_()
            numbers[..., -1] = 1.0
        elif init == "softmax":
            numbers.copy_(torch.randn_like(numbers).softmax(-1))
        else:
            numbers.copy_(drawn)
            numbers[..., 0] = 1.0 - drawn[..., 1:].sum(-1)


class KVShiftModel(KVShiftPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        if config.own("positions") == "learned":
            self.embed_positions = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.layers = nn.ModuleList(Block(config, layer)
                                    for layer in range(config.num_hidden_layers))
        self.norm = norm_of(config)
        self.post_init()

    def angles(self, layer, positions):
        """What the pairs of a head turn by: [batch, tokens, pairs]; None = nothing turns."""
        size = self.config.hidden_size // self.config.heads(layer)[0]
        pairs = round(self.config.own("rotary_fraction") * size) // 2
        if self.config.own("positions") != "rope" or pairs == 0:
            return None
        steps = torch.arange(pairs, device=positions.device, dtype=torch.float64) / pairs
        return (positions[..., None].double() * self.config.rope_theta ** -steps).float()

    def bias(self, layer, mask, past, tokens, batch, device):
        """What is added to scores: [batch or 1, heads or 1, tokens, keys]."""
        query = torch.arange(past, past + tokens, device=device)[:, None]
        distance = query - torch.arange(past + tokens, device=device)
        hidden = distance < 0
        if self.config.slides(layer):
            hidden = hidden | (distance >= self.config.own("sliding_window"))
        hidden = hidden[None, None]
        if mask is not None:
            hidden = hidden | (mask[:, None, None, :] == 0)
        bias = torch.zeros(1, 1, tokens, past + tokens, device=device)
        if self.config.own("positions") == "alibi":
            heads = self.config.heads(layer)[0]
            slopes = self.config.own("slopes") or [2 ** (-8 * (h + 1) / heads)
                                                   for h in range(heads)]
            slopes = torch.tensor(slopes, device=device, dtype=torch.float32)
            bias = bias - slopes.expand(heads)[None, :, None, None] * distance
        return bias.masked_fill(hidden, torch.finfo(self.dtype).min)

    def forward(self, input_ids=None, attention_mask=None, position_ids=None, inputs_embeds=None,
                cache=None):
        x = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        batch, tokens, _ = x.shape
        past = cache.get_seq_length() if cache is not None else 0
        if past + tokens > self.config.max_position_embeddings:
            raise ValueError(f"{past + tokens} tokens, the model's context is "
                             f"{self.config.max_position_embeddings}")
        mask = attention_mask
        if mask is not None and (mask.dim() != 2 or mask.shape[1] != past + tokens):
            raise ValueError(f"attention_mask: expected [{batch}, {past + tokens}], "
                             f"found {list(mask.shape)}")
        if position_ids is None:
            position_ids = torch.arange(past, past + tokens, device=x.device)[None]
            if mask is not None:
                position_ids = (mask.long().cumsum(-1) - 1).clamp(min=0)[:, past:]
        present = mask[:, past:] if mask is not None else None
        if self.config.own("positions") == "learned":
            x = x + self.embed_positions(position_ids)
        x = F.dropout(x, self.config.own("dropout_embedding"), self.training)
        shared = {}  # layers of one kind have the same angles and bias
        for layer, block in enumerate(self.layers):
            kind = self.config.slides(layer)
            if kind not in shared:
                shared[kind] = (self.angles(layer, position_ids),
                                self.bias(layer, mask, past, tokens, batch, x.device))
            x = block(x, *shared[kind], cache, present)
        return self.norm(x)


class KVShiftForCausalLM(KVShiftPreTrainedModel, GenerationMixin):
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}

    def __init__(self, config):
        super().__init__(config)
        self.model = KVShiftModel(config)
        if config.own("head") != "none":
            self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.model.embed_tokens

    def set_input_embeddings(self, value):
        self.model.embed_tokens = value

    def get_output_embeddings(self):
        return getattr(self, "lm_head", None)

    def set_output_embeddings(self, value):
        self.lm_head = value

    def head(self, x):
        if self.config.own("head") == "none":
            return x
        if self.config.own("head") == "normalised":
            rows = self.lm_head.weight
            return F.linear(x, rows / rows.float().norm(dim=1, keepdim=True).to(rows.dtype))
        return self.lm_head(x)

    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None,
                inputs_embeds=None, labels=None, use_cache=None, logits_to_keep=0, **others):
        use_cache = self.config.use_cache if use_cache is None else use_cache
        cache = KVShiftCache.of(past_key_values) if use_cache else None
        x = self.model(input_ids, attention_mask, position_ids, inputs_embeds, cache)
        if isinstance(logits_to_keep, int):
            x = x[:, -logits_to_keep:] if logits_to_keep > 0 else x
        else:
            x = x[:, logits_to_keep]
        logits = self.head(x)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten(),
                                   ignore_index=-100)
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=cache)
