"""Sessions: one sequence with its state."""
from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _abi
from ._handle import Handle, new_pointer
from ._library import call, library, options, to_path
from .tokenizer import Ids, address, ids_address, int_array

if TYPE_CHECKING:
    from .model import Model

TARGETS = {"k": _abi.KVS_SHIFT_K, "v": _abi.KVS_SHIFT_V, "q": _abi.KVS_SHIFT_Q}
CACHES = {"f32": _abi.KVS_DTYPE_F32, "f16": _abi.KVS_DTYPE_F16, "q8_0": _abi.KVS_DTYPE_Q8_0}

# Tokens of a pass of a session's own runner.  Longer calls are made in slices of this size: the bits
# are those of one call, and Ctrl-C is noticed between slices.
SLICE = 256

Taps = Mapping[tuple[int, str, int], Sequence[float]]


def target_of(name: str) -> int:
    if name not in TARGETS:
        raise ValueError(f"shift target is '{name}', expected 'k', 'v' or 'q'")
    return TARGETS[name]


class Session(Handle):
    """One sequence in a model: the tokens that were fed, and the state that the next one needs.

    :param capacity: the largest number of tokens; None means the model's context.
    :param cache: type of keys and values: ``"f32"``, ``"f16"`` or ``"q8_0"``.
    :param taps: taps of single heads in this session, as in :meth:`Model.taps`.

    >>> import kvshift
    >>> model = kvshift.Model.create(vocab=8, dim=16, layers=1, context=32, shift="kv")
    >>> session = kvshift.Session(model)
    >>> logits = session.feed([1, 2, 3])
    >>> other = session.fork()
    >>> bool((other.feed([4]) == session.feed([4])).all())
    True
    >>> session.rewind(2)
    >>> session.ids
    [1, 2]
    """

    _free_function = "kvs_session_free"
    _label = "session"

    def __init__(self, model: Model, capacity: int | None = None, cache: str = "f32", taps: Taps | None = None) -> None:
        pointer = new_pointer(_abi.kvs_session)
        call("kvs_session_create", ctypes.byref(pointer), model._handle, ctypes.byref(self._options(capacity, cache)))
        self.model = model
        self._own(pointer, model)
        merged = dict(model._taps)
        merged.update(taps or {})
        for (layer, target, head), values in merged.items():
            self._set_taps(layer, target, head, values)

    @staticmethod
    def _options(capacity: int | None, cache: str | None) -> Any:
        if cache is not None and cache not in CACHES:
            raise ValueError(f"cache is '{cache}', expected 'f32', 'f16' or 'q8_0'")
        return options(_abi.kvs_session_options, capacity=capacity or 0,
                       **({} if cache is None else {"cache": CACHES[cache]}))

    @classmethod
    def _of(cls, pointer: Any, model: Model) -> Session:
        self = cls.__new__(cls)
        self.model = model
        self._own(pointer, model)
        return self

    @classmethod
    def load(cls, model: Model, path: str | os.PathLike[str], capacity: int | None = None) -> Session:
        """Loads a session that :meth:`save` wrote, for the same model."""
        pointer = new_pointer(_abi.kvs_session)
        call("kvs_session_load", ctypes.byref(pointer), model._handle, to_path(path),
             ctypes.byref(cls._options(capacity, None)))
        return cls._of(pointer, model)

    def _set_taps(self, layer: int, target: str, head: int, values: Sequence[float]) -> None:
        array = np.ascontiguousarray(values, dtype=np.float64)
        wanted = int(self.model.config["shift-window"]) + 1
        if array.shape != (wanted,):
            raise ValueError(f"taps of layer {layer}, '{target}', head {head}: expected {wanted} numbers, the oldest "
                             f"token first, found {array.size}")
        call("kvs_session_set_taps", self._handle, layer, target_of(target), head, address(array, ctypes.c_double))

    def feed(self, ids: Ids) -> np.ndarray[Any, Any]:
        """Appends tokens and returns the logits after the last one, ``[vocab]``."""
        array = int_array(ids)
        logits = np.empty(self.model.logit_count, dtype=np.float32)
        if len(array) == 0:
            return self.logits()
        with self._lock:
            room = self.capacity - len(self)
            if len(array) > room:  # the library checks single calls, this is about all slices
                raise ValueError(f"{len(array)} tokens do not fit: the session has {len(self)} of at most "
                                 f"{self.capacity}")
            start = len(self)
            try:
                for first in range(0, len(array), SLICE):
                    part = array[first:first + SLICE]
                    last = first + SLICE >= len(array)
                    call("kvs_session_feed", self._handle, ids_address(part), len(part),
                         address(logits, ctypes.c_float) if last else None)
            except ValueError:
                self.rewind(start)  # a bad id in a later slice: nothing was fed
                raise
        return logits

    def score(self, ids: Ids, targets: Ids) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Appends tokens; returns the log-probability of a target after each of them, and the likeliest
        token there.  Target -1 means none; its log-probability is 0."""
        array, wanted = int_array(ids), int_array(targets, "targets")
        if len(array) != len(wanted):
            raise ValueError(f"expected as many targets as ids, found {len(wanted)} and {len(array)}")
        logprobs, best = np.zeros(len(array)), np.zeros(len(array), dtype=np.int32)
        with self._lock:
            for first in range(0, len(array), SLICE):
                part = slice(first, first + SLICE)
                feed = options(_abi.kvs_feed, session=self._handle, ids=ids_address(array[part]),
                               count=len(array[part]), targets=ids_address(wanted[part]),
                               logprobs=address(logprobs[part], ctypes.c_double), best=ids_address(best[part]))
                call("kvs_runner_feed", None, ctypes.byref(feed), 1)
        return logprobs, best

    def logits(self) -> np.ndarray[Any, Any]:
        """The logits after the last token, ``[vocab]``."""
        logits = np.empty(self.model.logit_count, dtype=np.float32)
        with self._lock:
            call("kvs_session_logits", address(logits, ctypes.c_float), self._handle)
        return logits

    def fork(self, length: int | None = None, capacity: int | None = None) -> Session:
        """A copy of the session, or of its first ``length`` tokens."""
        pointer = new_pointer(_abi.kvs_session)
        with self._lock:
            call("kvs_session_copy", ctypes.byref(pointer), self._handle,
                 ctypes.c_size_t(-1).value if length is None else length,
                 ctypes.byref(self._options(capacity, None)))
        return Session._of(pointer, self.model)

    def rewind(self, length: int) -> None:
        """Removes tokens from the end until ``length`` remain."""
        if length < 0:
            raise ValueError(f"length is {length}, expected at least 0")
        with self._lock:
            call("kvs_session_rewind", self._handle, length)

    def reset(self) -> None:
        """Removes all tokens."""
        with self._lock:
            library.kvs_session_reset(self._handle)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a file that restores the session exactly."""
        with self._lock:
            call("kvs_session_save", self._handle, to_path(path))

    def __len__(self) -> int:
        return int(library.kvs_session_length(self._handle))

    @property
    def ids(self) -> list[int]:
        """The tokens that were fed."""
        with self._lock:
            return list(library.kvs_session_ids(self._handle)[:len(self)])

    @property
    def capacity(self) -> int:
        """The largest number of tokens."""
        return int(library.kvs_session_capacity(self._handle))

    @property
    def earliest(self) -> int:
        """The smallest length, other than 0, that the session can be rewound to."""
        return int(library.kvs_session_earliest(self._handle))


class Sampler(Handle):
    """Chooses tokens: repeat penalty, top-k, top-p, min-p, temperature.

    >>> import kvshift
    >>> kvshift.Sampler(4, temperature=0).next([0.0, 3.0, 1.0, 2.0])
    1
    """

    _free_function = "kvs_sampler_free"
    _label = "sampler"

    def __init__(self, count: int, temperature: float = 0.8, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0,
                 repeat_penalty: float = 1.0, repeat_last: int = 64, seed: int = 1) -> None:
        pointer = new_pointer(_abi.kvs_sampler)
        call("kvs_sampler_create", ctypes.byref(pointer), count, ctypes.byref(options(
            _abi.kvs_sampling, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, seed=seed,
            repeat_penalty=repeat_penalty, repeat_last=repeat_last)))
        self._own(pointer)
        self.count = count

    def accept(self, ids: Ids) -> None:
        """Adds tokens that the sampler did not choose, for the repeat penalty."""
        array = int_array(ids)
        with self._lock:
            call("kvs_sampler_accept", self._handle, ids_address(array), len(array))

    def next(self, logits: Any) -> int:
        """The next token."""
        array = np.ascontiguousarray(logits, dtype=np.float32)
        if array.ndim != 1 or len(array) < self.count:
            raise ValueError(f"expected {self.count} logits, found an array of shape {array.shape}")
        with self._lock:
            return int(library.kvs_sampler_next(self._handle, address(array, ctypes.c_float)))
