"""Corpora: texts as numbered tokens on disk."""
from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _abi
from ._handle import Handle, new_pointer
from ._library import Callbacks, call, field_type, library, options, to_path
from .data import Data
from .tokenizer import Tokenizer, ids_address

SPLITS = {"train": _abi.KVS_SPLIT_TRAIN, "valid": _abi.KVS_SPLIT_VALID}


def split_of(name: str) -> int:
    if name not in SPLITS:
        raise ValueError(f"split is '{name}', expected 'train' or 'valid'")
    return SPLITS[name]


@dataclass(frozen=True)
class Split:
    """One split of a corpus."""

    tokens: int
    documents: int
    longest: int
    shards: int


class Corpus(Handle):
    """Texts as numbered tokens: a folder of ``kvshift data build``, or a file of llm.c or nanoGPT.

    :param vocab: vocabulary of files that do not record it.
    :param valid: a validation file of the same format.

    >>> import kvshift, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "text.txt").write_text("One.<|endoftext|>Two.")
    >>> corpus = kvshift.Corpus.build(folder / "corpus", [folder / "text.txt"], tokenizer="bytes", valid=0)
    >>> [corpus.tokenizer().decode(document) for document in corpus.documents("train")]
    ['One.', 'Two.']
    """

    _free_function = "kvs_corpus_close"
    _label = "corpus"

    def __init__(self, path: str | os.PathLike[str], vocab: int = 0, valid: str | os.PathLike[str] | None = None,
                 tokenizer: Tokenizer | None = None) -> None:
        pointer = new_pointer(_abi.kvs_corpus)
        o = options(_abi.kvs_corpus_options, vocab=vocab, valid=None if valid is None else to_path(valid))
        if tokenizer is not None:
            o.tokenizer = tokenizer._handle
        call("kvs_corpus_open", ctypes.byref(pointer), to_path(path), ctypes.byref(o))
        self._own(pointer, tokenizer)

    @classmethod
    def build(cls, folder: str | os.PathLike[str], files: Iterable[str | os.PathLike[str]],
              tokenizer: str | os.PathLike[str], *, valid: float | None = None, seed: int | None = None,
              field: str | None = None, separator: str | None = None, overwrite: bool = False,
              progress: Callable[[int, int], object] | None = None,
              notice: Callable[[str], object] | None = None) -> Corpus:
        """Builds a corpus from ``.txt`` and ``.jsonl`` files, also compressed as ``.zst``.

        :param tokenizer: a path, or ``"bytes"``.
        :param valid: fraction of the documents for validation.
        :param progress: called with the bytes read so far in both passes, and twice their number.
        """
        paths = [to_path(path) for path in files]
        o = options(_abi.kvs_corpus_build_options, overwrite=int(overwrite))
        if valid is not None:
            o.valid = valid
        if seed is not None:
            o.seed = seed
        o.field = None if field is None else field.encode()
        o.separator = None if separator is None else separator.encode()
        callbacks = Callbacks()

        def report(_user: Any, pointer: Any) -> int:
            p = pointer.contents
            if progress:
                progress(p.bytes if p.counting else p.size + p.bytes, 2 * p.size)
            return 0

        o.progress = callbacks.wrap(field_type(_abi.kvs_corpus_build_options, "progress"), report, 1)
        if notice:
            o.notice = callbacks.wrap(field_type(_abi.kvs_corpus_build_options, "notice"),
                                      lambda _user, line: notice(line.decode()) and None)
        callbacks.call("kvs_corpus_build", to_path(folder), (ctypes.c_char_p * len(paths))(*paths), len(paths),
                       to_path(tokenizer), ctypes.byref(o))
        return cls(folder)

    @property
    def _info(self) -> Any:
        return library.kvs_corpus_get_info(self._handle).contents

    @property
    def format(self) -> str:
        """``"kvshift"``, ``"llm.c"`` or ``"nanoGPT"``."""
        return str(self._info.format.decode())

    @property
    def vocab(self) -> int:
        """The number of tokens of its tokenizer; 0 if it is not known."""
        return int(self._info.vocab)

    def split(self, name: str) -> Split:
        """The size of ``"train"`` or ``"valid"``."""
        s = self._info.split[split_of(name)]
        return Split(s.tokens, s.documents, s.longest, s.shards)

    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer that the corpus was built with, or None if it is not known."""
        pointer = new_pointer(_abi.kvs_tokenizer)
        call("kvs_corpus_load_tokenizer", ctypes.byref(pointer), self._handle)
        return Tokenizer._of(pointer) if pointer else None

    def sources(self) -> list[dict[str, Any]]:
        """The text files that it was built from: name, bytes and checksum (XXH64) of each.

        >>> import kvshift, pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "text.txt").write_text("One.<|endoftext|>Two.")
        >>> corpus = kvshift.Corpus.build(folder / "corpus", [folder / "text.txt"], tokenizer="bytes", valid=0)
        >>> [(pathlib.Path(file["name"]).name, file["bytes"]) for file in corpus.sources()]
        [('text.txt', 21)]
        """
        found: list[dict[str, Any]] = []
        size, checksum = ctypes.c_uint64(), ctypes.c_uint64()
        while name := library.kvs_corpus_source(self._handle, len(found), ctypes.byref(size), ctypes.byref(checksum)):
            found.append({"name": os.fsdecode(name), "bytes": size.value, "checksum": f"{checksum.value:016x}"})
        return found

    def hold_out(self, fraction: float) -> None:
        """Makes the last part of a single llm.c or nanoGPT file the validation split."""
        with self._lock:
            call("kvs_corpus_hold_out", self._handle, fraction)

    def check(self) -> None:
        """Compares all files with their checksums."""
        call("kvs_corpus_check", self._handle)

    def read(self, split: str = "train", first: int = 0, count: int | None = None) -> np.ndarray[Any, Any]:
        """Tokens of a split, from number ``first`` on; all that follow if ``count`` is None."""
        all = self.split(split).tokens
        left = max(0, all - first)
        if first < 0 or (count is not None and count < 0):
            raise ValueError(f"first is {first} and count is {count}, expected at least 0")
        ids = np.empty(left if count is None else min(count, left), dtype=np.int32)
        got = library.kvs_corpus_read(ids_address(ids), len(ids), self._handle, split_of(split), first)
        return ids[:got]

    def document(self, index: int, split: str = "train") -> np.ndarray[Any, Any]:
        """The tokens of one document."""
        number = split_of(split)
        length = library.kvs_corpus_document(None, 0, self._handle, number, index) if index >= 0 else 0
        if length == 0:
            raise IndexError(f"no document {index} in split '{split}', which has {self.split(split).documents}")
        ids = np.empty(length, dtype=np.int32)
        library.kvs_corpus_document(ids_address(ids), length, self._handle, number, index)
        return ids

    def documents(self, split: str = "train") -> Iterator[np.ndarray[Any, Any]]:
        """The documents of a split, one after the other."""
        for index in range(self.split(split).documents):
            yield self.document(index, split)

    def windows(self, context: int, split: str = "train") -> int:
        """The number of sequences of one epoch."""
        return int(library.kvs_corpus_windows(self._handle, split_of(split), context))

    def data(self, context: int) -> Data:
        """The windows of both splits as data for training."""
        pointer = new_pointer(_abi.kvs_data)
        call("kvs_data_create_corpus", ctypes.byref(pointer), self._handle, context)
        return Data._of(pointer, self)


def read_corpus(path: str | os.PathLike[str], **how: Any) -> Corpus:
    """Opens a corpus, see :class:`Corpus`."""
    return Corpus(path, **how)
