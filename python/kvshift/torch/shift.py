"""The shift as a module for an attention of one's own."""
from __future__ import annotations

from typing import Optional

import torch
from torch import nn

from .modeling_kvshift import CHOICES, Float32Parts, Layout, first_taps, mixed, picked, shift_shape, starts_of

State = dict[str, torch.Tensor]

TARGETS = [targets for targets in CHOICES["targets"] if targets != "none"]
ONE_BACK = ("gate", "data", "hard")


class Shift(Float32Parts):
    """Mixes queries, keys and values with those of the previous tokens.  It belongs between the
    projections and everything else: norms of q and k, positions, the cache of keys and values.

    :param targets: what is mixed: "k", "v", "kv" or "qkv".
    :param heads: number of query heads; `kv_heads` of key and value heads, by default as many.
    :param size: channels of a head.
    :param form: how taps are computed from parameters: free, gate, clamp, channel, data, hard or
        residual; docs/training.md describes them.
    :param window: how many previous tokens are mixed in; 1 for gate, data and hard.
    :param init: first taps: uniform, softmax, or identity, which changes nothing.
    :param inputs: width of the rows that a gate of form data reads.

    The parameters are called `q_shift`, `k_shift` and `v_shift` as in the files of a model, are
    float32 with the oldest tap first, and should have no weight decay (:func:`param_groups`).

    >>> import torch
    >>> from kvshift.torch import Shift
    >>> shift = Shift("kv", heads=4, size=8, window=2)
    >>> q, k, v = torch.randn(3, 1, 6, 4, 8)
    >>> whole = shift(q, k, v)[1]
    >>> _, first, _, state = shift(q[:, :4], k[:, :4], v[:, :4])
    >>> _, second, _, state = shift(q[:, 4:], k[:, 4:], v[:, 4:], state)
    >>> torch.equal(torch.cat([first, second], dim=1), whole)
    True
    """

    def __init__(self, targets: str = "kv", heads: int = 1, size: int = 1, kv_heads: Optional[int] = None,
                 form: str = "free", window: int = 1, init: str = "uniform", inputs: Optional[int] = None) -> None:
        super().__init__()
        for name, value, choices in (("targets", targets, TARGETS), ("form", form, CHOICES["form"]),
                                     ("init", init, ["uniform", "softmax", "identity"])):
            if value not in choices:
                raise ValueError(f"{name}: expected {', '.join(choices)}, found '{value}'")
        if window < 1 or (window > 1 and form in ONE_BACK):
            raise ValueError(f"window: expected {'1' if form in ONE_BACK else 'at least 1'} with form {form}, "
                             f"found {window}")
        if init == "identity" and form in ONE_BACK:
            raise ValueError(f"init: form {form} has no parameters that change nothing")
        if form == "data" and inputs is None:
            raise ValueError("inputs: form data needs the width of its inputs")
        self.targets, self.form, self.window, self.init = targets, form, window, init
        self.heads, self.kv_heads, self.size = heads, heads if kv_heads is None else kv_heads, size
        for target in targets:
            shape = shift_shape(form, self.heads_of(target), size, inputs, window)
            if shape is not None:
                self.register_parameter(f"{target}_shift", nn.Parameter(torch.empty(shape, dtype=torch.float32)))
        self.reset_parameters()

    def heads_of(self, target: str) -> int:
        return self.heads if target == "q" else self.kv_heads

    def reset_parameters(self) -> None:
        """Draws the parameters anew."""
        with torch.no_grad():
            for params in self.parameters():
                params.copy_(first_taps(params.shape, self.form, self.init))

    def extra_repr(self) -> str:
        return (f"{self.targets!r}, heads={self.heads}, kv_heads={self.kv_heads}, size={self.size}, "
                f"form={self.form!r}, window={self.window}")

    def forward(self, q: Optional[torch.Tensor], k: torch.Tensor, v: torch.Tensor, state: Optional[State] = None,
                seq_idx: Optional[torch.Tensor] = None, position_ids: Optional[torch.Tensor] = None,
                attention_mask: Optional[torch.Tensor] = None, inputs: Optional[torch.Tensor] = None
                ) -> tuple[Optional[torch.Tensor], torch.Tensor, torch.Tensor, State]:
        """Returns q, k and v, shifted where they are targets, and the state of the next call.

        :param q: queries, keys and values, [batch, tokens, heads, size]; q may be None unless it is a target.
        :param state: what the call with the tokens before these has returned; None = there are none.
        :param seq_idx: document numbers, [batch, tokens], where a row has several documents.
        :param position_ids: [batch, tokens]; where they do not continue, a document starts.
        :param attention_mask: [batch, tokens], 0 for padding, which is skipped.
        :param inputs: the rows that the gates of form data read, [batch, tokens, width].
        """
        batch, tokens = k.shape[:2]
        starts = starts_of(seq_idx, None, batch, tokens, k.device)
        before = Layout(batch, tokens, 0, tokens, self.window, k.device, attention_mask, position_ids, starts).before
        if (self.form == "data") != (inputs is not None):
            raise ValueError(f"inputs: form {self.form} {'needs' if inputs is None else 'has no'} inputs")
        rows = {"q": q, "k": k, "v": v}
        after: State = {}
        for target in self.targets:
            x = rows[target]
            shape = [batch, tokens, self.heads_of(target), self.size]
            if x is None or list(x.shape) != shape:
                raise ValueError(f"{target}: expected {shape}, found {None if x is None else list(x.shape)}")
            x = x.transpose(1, 2)
            tail = x.new_zeros(batch, x.shape[1], self.window, self.size)
            if state is not None:
                tail = state[target].transpose(1, 2).to(x.dtype)
            every = torch.cat([tail, x], dim=2)
            params = getattr(self, f"{target}_shift", None)
            rows[target] = mixed(self.form, params, every, tokens, inputs, before).transpose(1, 2)
            kept = every if before is None else picked(every, before[2])
            after[target] = kept[:, :, tokens:].transpose(1, 2).clone()
        return rows["q"], rows["k"], rows["v"], after  # type: ignore[return-value]
