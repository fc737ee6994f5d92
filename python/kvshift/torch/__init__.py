"""KV shifting attention in PyTorch.

- :class:`Shift` mixes the queries, keys and values of an attention of your own;
- :class:`KVShiftForCausalLM` is the model for transformers, which the Auto classes find once this
  module is imported; its folders are those of the command;
- :func:`retrofit` gives a loaded Llama, Mistral or Qwen a shift, in place;
- :func:`param_groups` makes the groups of an optimizer, without weight decay on the coefficients.

>>> import torch
>>> from kvshift.torch import Shift
>>> shift = Shift("kv", heads=8, kv_heads=2, size=16)
>>> q, k, v = torch.randn(1, 5, 8, 16), torch.randn(1, 5, 2, 16), torch.randn(1, 5, 2, 16)
>>> q, k, v, state = shift(q, k, v)
>>> k.shape, state["k"].shape
(torch.Size([1, 5, 2, 16]), torch.Size([1, 1, 2, 16]))
"""
try:
    import torch as _torch  # noqa: F401
    import transformers as _transformers
except ImportError as _missing:
    raise ImportError(f"kvshift.torch needs torch and transformers 5 ({_missing}): "
                      "pip install 'kvshift[torch]'") from _missing

from .modeling_kvshift import (KVShiftConfig, KVShiftForCausalLM, KVShiftGPT2Config, KVShiftGPT2ForCausalLM,
                               KVShiftGPT2Model, KVShiftModel, param_groups)
from .retrofit import retrofit
from .shift import Shift

_transformers.AutoConfig.register("kvshift", KVShiftConfig, exist_ok=True)
KVShiftConfig.register_for_auto_class()
KVShiftGPT2Config.register_for_auto_class()
for _config, _model, _causal in ((KVShiftConfig, KVShiftModel, KVShiftForCausalLM),
                                 (KVShiftGPT2Config, KVShiftGPT2Model, KVShiftGPT2ForCausalLM)):
    _transformers.AutoModel.register(_config, _model, exist_ok=True)
    _transformers.AutoModelForCausalLM.register(_config, _causal, exist_ok=True)
    _model.register_for_auto_class("AutoModel")  # folders then contain the file of the model
    _causal.register_for_auto_class("AutoModelForCausalLM")

__all__ = [
    "KVShiftConfig", "KVShiftForCausalLM", "KVShiftGPT2Config", "KVShiftGPT2ForCausalLM", "KVShiftGPT2Model",
    "KVShiftModel", "Shift", "param_groups", "retrofit",
]
