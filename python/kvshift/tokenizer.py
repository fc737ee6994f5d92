"""Text into ids and back."""
from __future__ import annotations

import codecs
import ctypes
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from . import _abi
from ._handle import Handle, new_pointer
from ._library import Callbacks, call, field_type, library, options, to_path

Ids = Any  # a sequence of integers: a list, a numpy array, a tensor


def int_array(ids: Ids, what: str = "ids") -> np.ndarray[Any, Any]:
    """Ids as a contiguous array of 32-bit integers."""
    array = np.asarray(ids)
    if array.size == 0:
        array = array.astype(np.int32)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"{what}: expected a sequence of integers, found {array.ndim} dimensions of {array.dtype}")
    if array.size and (array.min() < -2**31 or array.max() >= 2**31):
        raise ValueError(f"{what}: expected numbers of 32 bits, found {array.min()} to {array.max()}")
    return np.ascontiguousarray(array, dtype=np.int32)


def address(array: np.ndarray[Any, Any] | None, kind: Any) -> Any:
    """The memory of an array for the library; None stays NULL."""
    return None if array is None else array.ctypes.data_as(ctypes.POINTER(kind))


def ids_address(array: np.ndarray[Any, Any] | None) -> Any:
    return address(array, ctypes.c_int32)


class Tokenizer(Handle):
    """Text into ids and back.  Threads may share one.

    :param path: a tokenizer.json, a SentencePiece model, llama2.c's tokenizer.bin, a GGUF file, a
        folder with one of these, or ``"bytes"`` for a token per byte.

    >>> import kvshift
    >>> tokenizer = kvshift.Tokenizer("bytes")
    >>> tokenizer.encode("Hi!")
    [72, 105, 33]
    >>> tokenizer.decode([72, 105, 33])
    'Hi!'
    """

    _free_function = "kvs_tokenizer_free"
    _label = "tokenizer"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        pointer = new_pointer(_abi.kvs_tokenizer)
        call("kvs_tokenizer_load", ctypes.byref(pointer), to_path(path))
        self._own(pointer)

    @classmethod
    def _of(cls, pointer: Any) -> Tokenizer:
        self = cls.__new__(cls)
        self._own(pointer)
        return self

    @classmethod
    def train(cls, files: Iterable[str | os.PathLike[str]], vocab: int = 8192, special: Sequence[str] = (),
              field: str | None = None, separator: str | None = None, threads: int = 0,
              progress: Callable[[int, int], object] | None = None) -> Tokenizer:
        """Trains a byte-level BPE on text files (``.txt``, ``.jsonl``, also as ``.zst``).

        ``progress`` is called from time to time with the merges done and their number.
        """
        paths = [to_path(path) for path in files]
        names = [text.encode() for text in special]
        pointer, callbacks = new_pointer(_abi.kvs_tokenizer), Callbacks()
        o = options(_abi.kvs_tokenizer_training, vocab=vocab, special=(ctypes.c_char_p * len(names))(*names),
                    specials=len(names), threads=threads)
        o.field = None if field is None else field.encode()
        o.separator = None if separator is None else separator.encode()
        kind = field_type(_abi.kvs_tokenizer_training, "progress")

        def report(_user: Any, done: int, wanted: int) -> int:
            if progress:
                progress(done, wanted)
            return 0

        o.progress = callbacks.wrap(kind, report, 1)
        callbacks.call("kvs_tokenizer_train", ctypes.byref(pointer), (ctypes.c_char_p * len(paths))(*paths),
                       len(paths), ctypes.byref(o))
        return cls._of(pointer)

    def encode(self, text: str | bytes, special: bool = True) -> list[int]:
        """The ids of a text.  ``special=False`` adds no BOS and no EOS."""
        data = text.encode() if isinstance(text, str) else text
        ids, count = ctypes.POINTER(ctypes.c_int32)(), ctypes.c_size_t()
        call("kvs_tokenizer_encode", ctypes.byref(ids), ctypes.byref(count), self._handle, data, len(data),
             0 if special else _abi.KVS_ENCODE_NO_SPECIAL)
        try:
            return ids[:count.value]
        finally:
            library.kvs_ids_free(ids)

    def encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """The ids of a context and of its continuation, divided as evaluations do: spaces at the end
        of the context move to the continuation, and both are encoded together."""
        first, second = context.encode(), continuation.encode()
        ids, count, split = ctypes.POINTER(ctypes.c_int32)(), ctypes.c_size_t(), ctypes.c_size_t()
        call("kvs_tokenizer_encode_pair", ctypes.byref(ids), ctypes.byref(count), ctypes.byref(split), self._handle,
             first, len(first), second, len(second))
        try:
            return ids[:split.value], ids[split.value:count.value]
        finally:
            library.kvs_ids_free(ids)

    def decode_bytes(self, ids: Ids) -> bytes:
        """The text of ids as bytes, which need not be whole characters."""
        array = int_array(ids)
        text, size = ctypes.c_void_p(), ctypes.c_size_t()
        call("kvs_tokenizer_decode", ctypes.byref(text), ctypes.byref(size), self._handle, ids_address(array),
             len(array))
        try:
            return ctypes.string_at(text.value or 0, size.value)
        finally:
            library.kvs_text_free(ctypes.cast(text, ctypes.c_char_p))

    def decode(self, ids: Ids) -> str:
        """The text of ids; bytes that are not UTF-8 become U+FFFD."""
        return self.decode_bytes(ids).decode("utf-8", "replace")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a tokenizer.json."""
        call("kvs_tokenizer_save", self._handle, to_path(path))

    def find(self, piece: str) -> int | None:
        """The id of the token with this text, or None."""
        found = int(library.kvs_tokenizer_find(self._handle, piece.encode()))
        return None if found < 0 else found

    def __len__(self) -> int:
        return int(library.kvs_tokenizer_vocab(self._handle))

    @property
    def vocab(self) -> int:
        """The number of tokens."""
        return len(self)

    @property
    def bos(self) -> int | None:
        """The id that begins a text, or None."""
        found = int(library.kvs_tokenizer_bos(self._handle))
        return None if found < 0 else found

    @property
    def eos(self) -> int | None:
        """The id that ends a text, or None."""
        found = int(library.kvs_tokenizer_eos(self._handle))
        return None if found < 0 else found

    @property
    def hash(self) -> int:
        """A hash of everything that determines the ids of a text."""
        return int(library.kvs_tokenizer_hash(self._handle))


class Detokenizer(Handle):
    """Text of ids that arrive one by one, in whole characters, up to a stop string.

    >>> import kvshift
    >>> stream = kvshift.Detokenizer(kvshift.Tokenizer("bytes"), stops=["."])
    >>> [stream.add([byte]) for byte in "né.x".encode()]
    ['n', '', 'é', '', '']
    >>> stream.stopped
    True
    """

    _free_function = "kvs_detokenizer_free"
    _label = "detokenizer"

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str] = ()) -> None:
        texts = [text.encode() for text in stops]
        pointer = new_pointer(_abi.kvs_detokenizer)
        call("kvs_detokenizer_create", ctypes.byref(pointer), tokenizer._handle,
             (ctypes.c_char_p * len(texts))(*texts), len(texts))
        self._own(pointer, tokenizer)
        # Bytes that are not UTF-8 become what they become in the whole text, wherever it is divided.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def _text(self, name: str, *arguments: Any, final: bool = False) -> str:
        text, size = ctypes.c_void_p(), ctypes.c_size_t()
        with self._lock:
            call(name, ctypes.byref(text), ctypes.byref(size), self._handle, *arguments)
            return self._decoder.decode(ctypes.string_at(text.value or 0, size.value), final)

    def skip(self, ids: Ids) -> None:
        """Adds ids before the text, such as a prompt."""
        array = int_array(ids)
        with self._lock:
            call("kvs_detokenizer_skip", self._handle, ids_address(array), len(array))

    def add(self, ids: Ids) -> str:
        """Adds ids and returns the text that can no longer change."""
        array = int_array(ids)
        return self._text("kvs_detokenizer_add", ids_address(array), len(array))

    def finish(self) -> str:
        """Returns the remaining text."""
        return self._text("kvs_detokenizer_finish", final=True)

    @property
    def stopped(self) -> bool:
        """Whether a stop string was found."""
        return bool(library.kvs_detokenizer_stopped(self._handle))
