"""Sequences for training: the caller's arrays, and functions that make them."""
from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from . import _abi
from ._handle import Handle, new_pointer
from ._library import Callbacks, call, field_type, library, options
from .tokenizer import address, ids_address, int_array

Sequences = Any  # a list of sequences of ids, or a two-dimensional array
STREAMS = {"train": _abi.KVS_STREAM_TRAIN, "valid": _abi.KVS_STREAM_EVAL}


class Batch:
    """A ragged batch: sequences laid end to end, with the start of each.  Nothing is padded.

    :param sequences: lists of ids, or a two-dimensional array of them.
    :param targets: like the sequences, -1 = no loss there; None = the next id of each sequence.
    :param mask: like the sequences, 0 = no loss there.
    :param scored: like the sequences, 1 = this target counts for the accuracy.
    """

    def __init__(self, sequences: Sequences, targets: Sequences | None = None, mask: Sequences | None = None,
                 scored: Sequences | None = None) -> None:
        rows = [int_array(row, f"sequence {i}") for i, row in enumerate(sequences)]
        if not rows:
            raise ValueError("the batch has no sequences")
        self.lengths = [len(row) for row in rows]
        self.starts = np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.uintp)
        self.ids = np.concatenate(rows)
        self.targets = self._like("targets", targets, np.int32)
        self.mask = self._like("mask", mask, np.uint8)
        self.scored = self._like("scored", scored, np.uint8)
        self.struct = options(_abi.kvs_batch, sequences=len(rows), starts=address(self.starts, ctypes.c_size_t),
                              ids=ids_address(self.ids), targets=ids_address(self.targets),
                              mask=address(self.mask, ctypes.c_uint8), scored=address(self.scored, ctypes.c_uint8))

    def _like(self, what: str, given: Sequences | None, kind: Any) -> np.ndarray[Any, Any] | None:
        if given is None:
            return None
        rows = [np.asarray(row) for row in given]
        if [len(row) for row in rows] != self.lengths:
            raise ValueError(f"{what}: expected the lengths of the sequences")
        return np.ascontiguousarray(np.concatenate(rows), dtype=kind)

    def __len__(self) -> int:
        return len(self.lengths)


class Data(Handle):
    """Numbered sequences for training and evaluation.

    :param train: sequences, as for :class:`Batch`, or a :class:`Batch`.  Training takes them in an
        order that differs in each epoch.
    :param valid: the same for evaluation, in order; None = there is no evaluation.
    :param vocab: 0 = the greatest id or target + 1.

    >>> import kvshift
    >>> data = kvshift.Data([[1, 2, 3], [4, 5]])
    >>> data.vocab, data.max_length
    (6, 3)
    """

    _free_function = "kvs_data_free"
    _label = "data"

    def __init__(self, train: Sequences | Batch, valid: Sequences | Batch | None = None, vocab: int = 0) -> None:
        first = train if isinstance(train, Batch) else Batch(train)
        second = valid if isinstance(valid, Batch) or valid is None else Batch(valid)
        pointer = new_pointer(_abi.kvs_data)
        call("kvs_data_create_arrays", ctypes.byref(pointer), ctypes.byref(first.struct),
             None if second is None else ctypes.byref(second.struct), vocab)
        self._own_data(pointer, (first, second))

    def _own_data(self, pointer: Any, kept: Any, *parents: Handle) -> None:
        # The library borrows the arrays and the function: they live until the data is freed.
        self._own(pointer, *parents, kept=kept)
        self._callbacks = kept if isinstance(kept, Callbacks) else Callbacks()

    @classmethod
    def _of(cls, pointer: Any, *parents: Handle) -> Data:
        self = cls.__new__(cls)
        self._own_data(pointer, None, *parents)
        return self

    @classmethod
    def from_function(cls, sequence: Callable[[int, str, int], Any], vocab: int, max_length: int,
                      mean_length: float = 0, name: str = "callback") -> Data:
        """Data that a function makes.  ``sequence(seed, stream, index)`` returns ids, or a pair of ids and
        targets, and must depend on its arguments only; ``stream`` is ``"train"`` or ``"valid"``.

        >>> import kvshift
        >>> data = kvshift.Data.from_function(lambda seed, stream, i: [i % 5, (i + 1) % 5], vocab=5, max_length=2)
        >>> data.sequence(7)[0].tolist()
        [2, 3]
        """
        callbacks = Callbacks()
        names = {number: stream for stream, number in STREAMS.items()}

        def fill(_user: Any, seed: int, stream: int, index: int, ids: Any, targets: Any, _scored: Any) -> int:
            made = sequence(seed, names[stream], index)
            row, wanted = made if isinstance(made, tuple) else (made, None)
            row = int_array(row)
            wanted = np.append(row[1:], -1).astype(np.int32) if wanted is None else int_array(wanted, "targets")
            if not 0 < len(row) <= max_length or len(wanted) != len(row):
                raise ValueError(f"sequence {index} has {len(row)} ids and {len(wanted)} targets, expected 1 to "
                                 f"{max_length} of both")
            np.ctypeslib.as_array(ids, (len(row),))[:] = row
            np.ctypeslib.as_array(targets, (len(row),))[:] = wanted
            return len(row)

        source = options(_abi.kvs_data_source, vocab=vocab, max_length=max_length, mean_length=mean_length,
                         name=name.encode())
        source.sequence = callbacks.wrap(field_type(_abi.kvs_data_source, "sequence"), fill, 0)
        pointer = new_pointer(_abi.kvs_data)
        call("kvs_data_create_callback", ctypes.byref(pointer), ctypes.byref(source))
        self = cls.__new__(cls)
        self._own_data(pointer, callbacks)
        return self

    def sequence(self, index: int, stream: str = "train", seed: int = 1) -> tuple[np.ndarray[Any, Any], ...]:
        """Sequence ``index`` of a stream: ids, targets (-1 = none) and scored (1 = counts)."""
        if stream not in STREAMS:
            raise ValueError(f"stream is '{stream}', expected 'train' or 'valid'")
        n = self.max_length
        ids, targets = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
        scored = np.empty(n, dtype=np.uint8)
        with self._lock:
            with self._callbacks.interrupts():
                length = library.kvs_data_sequence(ids_address(ids), ids_address(targets),
                                                   address(scored, ctypes.c_uint8), self._handle, seed,
                                                   STREAMS[stream], index)
            self._callbacks.raise_error()
        return ids[:length], targets[:length], scored[:length]

    @property
    def vocab(self) -> int:
        """The smallest vocabulary that a model needs for this data."""
        return int(library.kvs_data_vocab(self._handle))

    @property
    def max_length(self) -> int:
        """The length of the longest sequence."""
        return int(library.kvs_data_max_length(self._handle))


def as_data(data: Data | Iterable[Any] | Batch | None) -> Data | None:
    return data if data is None or isinstance(data, Data) else Data(data)
