"""A shift for a model of transformers that has none."""
from __future__ import annotations

from typing import Any, Optional

import torch
from transformers import PreTrainedModel

from .modeling_kvshift import KVShiftConfig, KVShiftForCausalLM, first_taps

# Classes, and whether the sliding window of their configuration holds in every layer or in those
# that layer_types names.
FAMILIES = {"LlamaForCausalLM": "none", "MistralForCausalLM": "every", "Qwen2ForCausalLM": "listed",
            "Qwen3ForCausalLM": "listed"}

# Keys of rope_parameters, by rope_type, and our settings.
ROPE_KEYS = {
    "default": {}, "linear": {"factor": "rope_factor"}, "dynamic": {"factor": "rope_factor"},
    "llama3": {"factor": "rope_factor", "low_freq_factor": "rope_low_factor",
               "high_freq_factor": "rope_high_factor", "original_max_position_embeddings": "rope_original_context"},
    "yarn": {"factor": "rope_factor", "beta_fast": "rope_beta_fast", "beta_slow": "rope_beta_slow",
             "attention_factor": "rope_vector_scale", "original_max_position_embeddings": "rope_original_context"},
}


def rope_settings(config: Any) -> tuple[float, dict[str, Any]]:
    """The base of the rotary positions, and settings of their scaling."""
    rope = {key: value for key, value in (config.rope_parameters or {}).items() if value is not None}
    kind, base = rope.pop("rope_type", "default"), rope.pop("rope_theta", 10000.0)
    fraction, truncate = rope.pop("partial_rotary_factor", 1.0), rope.pop("truncate", True)
    names = ROPE_KEYS.get(kind)
    unknown = sorted({*rope} - {*names, "original_max_position_embeddings"}) if names is not None else [kind]
    if unknown:
        raise ValueError(f"rope_parameters: '{unknown[0]}' is not supported")
    assert names is not None
    settings = {ours: rope[theirs] for theirs, ours in names.items() if theirs in rope}
    if kind != "default":
        settings["rotary_scaling"] = kind
    if kind == "dynamic" or (kind == "yarn" and "rope_original_context" not in settings):
        settings["rope_original_context"] = config.max_position_embeddings
    if kind == "yarn" and not truncate:
        settings["rope_untruncated"] = True
    if fraction != 1.0:
        settings["rotary_fraction"] = fraction
    return base, settings


def window_settings(config: Any, kind: str) -> dict[str, Any]:
    window = getattr(config, "sliding_window", None)
    if kind == "none" or not window:
        return {}
    layers = list(range(config.num_hidden_layers))
    if kind == "listed":
        layers = [layer for layer in layers if config.layer_types[layer] == "sliding_attention"]
    if not layers:
        return {}
    settings: dict[str, Any] = {"sliding_window": window}
    if len(layers) < config.num_hidden_layers:
        settings["sliding_layers"] = layers
    return settings


def shifted_config(model: PreTrainedModel, shift: dict[str, Any]) -> KVShiftConfig:
    config: Any = model.config
    if config.hidden_act not in ("silu", "swish"):
        raise ValueError(f"hidden_act: expected silu, found {config.hidden_act}")
    base, settings = rope_settings(config)
    settings.update(window_settings(config, FAMILIES[type(model).__name__]))
    layer: Any = model.model.layers[0]
    parts = {"qkv_bias": layer.self_attn.q_proj.bias is not None, "o_bias": layer.self_attn.o_proj.bias is not None,
             "mlp_bias": layer.mlp.up_proj.bias is not None}
    settings.update({name: True for name, there in parts.items() if there})
    if hasattr(layer.self_attn, "q_norm"):
        settings["qk_norm"] = "head"
    size = getattr(config, "head_dim", None)
    if size and size * config.num_attention_heads != config.hidden_size:
        settings["head_size"] = size
    if config.attention_dropout:
        settings["dropout_attention"] = config.attention_dropout
    same = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
            "num_key_value_heads", "max_position_embeddings", "rms_norm_eps", "initializer_range", "use_cache",
            "tie_word_embeddings", "bos_token_id", "eos_token_id", "pad_token_id", "dtype")
    made = KVShiftConfig(**{name: getattr(config, name) for name in same}, rope_theta=base,
                         kvshift={**settings, **shift})
    made._attn_implementation = config._attn_implementation
    made.name_or_path = config.name_or_path
    return made


def retrofit(model: PreTrainedModel, targets: str = "kv", form: str = "free", window: int = 1,
             init: str = "identity") -> PreTrainedModel:
    """Gives a loaded Llama, Mistral, Qwen2 or Qwen3 a shift, in place, and returns it.

    The model becomes a :class:`KVShiftForCausalLM` with the same parameters, so that optimizers and
    tied weights stay; what is new are `q_shift`, `k_shift` and `v_shift` of every layer, in float32.
    With init "identity" it computes what it computed before, up to the rounding of the rotary
    angles.  Do this before low-rank adapters, quantization or a division over several devices.

    >>> import torch
    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> from kvshift.torch import retrofit
    >>> model = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=48,
    ...                                      num_hidden_layers=2, num_attention_heads=4)).eval()
    >>> ids = torch.arange(10)[None]
    >>> with torch.no_grad():
    ...     before = model(ids).logits
    ...     after = retrofit(model)(ids).logits
    >>> torch.allclose(before, after, atol=1e-5), model.model.layers[0].self_attn.k_shift[0].tolist()
    (True, [0.0, 1.0])
    """
    name = type(model).__name__
    if name not in FAMILIES:
        raise ValueError(f"model: expected {', '.join(FAMILIES)}, found {name}")
    if getattr(model, "hf_quantizer", None) is not None:
        raise ValueError("model: a quantized model cannot get a shift")
    if any(hasattr(part, "_hf_hook") or part._forward_hooks or part._forward_pre_hooks for part in model.modules()):
        raise ValueError("model: its parts have hooks, or are on several devices; retrofit it before")
    config = shifted_config(model, {"targets": targets, "form": form, "window": window, "init": init})
    with torch.device("meta"):
        shifted = KVShiftForCausalLM(config)
    left = {path for path, _ in model.named_parameters(remove_duplicate=False)}
    taken: list[tuple[torch.nn.Module, str, torch.nn.Parameter]] = []
    for path, part in shifted.named_modules():
        for own, params in part._parameters.items():
            if params is None:
                continue
            full = f"{path}.{own}"
            given: Optional[torch.nn.Parameter]
            if own.endswith("_shift"):
                device = model.get_parameter(f"{path}.k_proj.weight").device
                given = torch.nn.Parameter(first_taps(params.shape, form, init, config.initializer_range).to(device))
            else:
                given = model.get_parameter(full)
                left.discard(full)
            if given.shape != params.shape:
                raise ValueError(f"model: expected '{full}' of shape {list(params.shape)}, found {list(given.shape)}")
            taken.append((part, own, given))
    if left:
        raise ValueError(f"model: has the parameter '{min(left)}', which no shifted model has")
    for part, own, given in taken:
        part._parameters[own] = given
    shifted.generation_config = model.generation_config
    shifted.train(model.training)
    checkpointing = any(getattr(part, "gradient_checkpointing", False) for part in model.modules())
    model.__class__ = KVShiftForCausalLM
    model.__dict__.clear()
    model.__dict__.update(shifted.__dict__)
    if checkpointing:
        model.gradient_checkpointing_enable()
    return model
