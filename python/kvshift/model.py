"""Models: loading, generating, scoring, and what happens inside."""
from __future__ import annotations

import contextlib
import ctypes
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np

from . import _abi
from ._handle import Handle, new_pointer
from ._library import Callbacks, Error, UnsupportedError, call, field_type, library, options, to_path
from .runtime import Runtime, default_runtime
from .session import SLICE, Sampler, Session, Taps, target_of
from .settings import ModelConfig
from .tokenizer import Detokenizer, Ids, Tokenizer, address, ids_address, int_array

Array = np.ndarray[Any, Any]
Text = str | Ids
FINISH = {_abi.KVS_FINISH_LENGTH: "length", _abi.KVS_FINISH_EOS: "eos", _abi.KVS_FINISH_STOP: "stop",
          _abi.KVS_FINISH_FULL: "full"}


@dataclass(frozen=True)
class Token:
    """A generated token.  ``text`` is what can be shown now; it is empty while a character is
    incomplete or a stop string may have begun.  The last one may have a text but no token (id -1)."""

    index: int
    id: int
    text: str
    logprob: float
    ends: bool
    finish: str | None


@dataclass(frozen=True)
class Generation:
    """A generated text.  ``finish`` says why it ended: ``"length"``, ``"eos"``, ``"stop"`` or
    ``"full"``."""

    text: str
    ids: list[int]
    logprobs: list[float]
    finish: str


@dataclass(frozen=True)
class ModelInfo:
    """What the files of a model are."""

    format: str
    files: int
    tensors: int
    dtype: str | None
    is_mixed: bool
    has_vocabulary: bool
    bytes: int


def describe(path: str | os.PathLike[str]) -> ModelInfo:
    """Describes the model at a path; reads only headers."""
    info = _abi.kvs_model_info(size=ctypes.sizeof(_abi.kvs_model_info))
    call("kvs_model_describe", ctypes.byref(info), to_path(path))
    return ModelInfo(info.format.decode(), info.files, info.tensors, info.dtype.decode() if info.dtype else None,
                     bool(info.is_mixed), bool(info.has_vocabulary), info.bytes)


def convert(source: str | os.PathLike[str], out: str | os.PathLike[str], format: str = "auto", dtype: str = "keep",
            tokenizer: str | None = None, overwrite: bool = False) -> list[str]:
    """Converts a model; returns a sentence for each difference between the output and the request.

    :param format: ``"auto"``, ``"hf"``, ``"gguf"``, ``"gguf-llama"``, ``"llama2c"``, ``"llama2c-v1"``
    :param dtype: ``"keep"``, ``"f32"``, ``"f16"``, ``"bf16"``, ``"q8_0"`` or ``"q4_0"``
    """
    o = options(_abi.kvs_convert_options, overwrite=int(overwrite))
    number = ctypes.c_int()
    call("kvs_format_parse", ctypes.byref(number), format.encode())
    o.format = number.value
    call("kvs_dtype_parse", ctypes.byref(number), dtype.encode())
    o.dtype = number.value
    o.tokenizer = None if tokenizer is None else os.fsencode(tokenizer)
    lines: list[str] = []
    callbacks = Callbacks()
    o.notice = callbacks.wrap(field_type(_abi.kvs_convert_options, "notice"), lambda _user, line: lines.append(line.decode()))
    o.progress = callbacks.wrap(field_type(_abi.kvs_convert_options, "progress"),
                                lambda _user, _done, _all: 0, 1)  # notices Ctrl-C
    callbacks.call("kvs_convert", to_path(out), to_path(source), ctypes.byref(o))
    return lines


def activation_names() -> list[str]:
    """The names of activations, those of TransformerLens; ``*`` stands for the number of a layer.

    >>> import kvshift
    >>> "blocks.*.attn.hook_pattern" in kvshift.activation_names()
    True
    """
    names: list[str] = []
    while name := library.kvs_activation_name(len(names)):
        names.append(name.decode())
    return names


def _find_tokenizer(path: str | os.PathLike[str]) -> Tokenizer | None:
    """The tokenizer in the folder of a model, or in or beside its file; None if there is none."""
    if os.path.isfile(path) and describe(path).has_vocabulary:
        return Tokenizer(path)
    folder = path if os.path.isdir(path) else os.path.dirname(os.path.abspath(path))
    for names in (("tokenizer.json",), ("tokenizer.model",), ("tokenizer.bin",), ("encoder.json", "vocab.bpe")):
        if all(os.path.isfile(os.path.join(folder, name)) for name in names):
            return Tokenizer(folder)
    return None


class Model(Handle):
    """A model: weights, their configuration, and its tokenizer if there is one.

    Make one with :meth:`load` or :meth:`create`.  Threads may share a model that none of them
    changes; each needs a session of its own, which :meth:`generate` and the other methods make.

    >>> import kvshift
    >>> model = kvshift.Model.create(vocab=256, dim=32, layers=2, heads=2, context=64, shift="kv", seed=7)
    >>> model.tokenizer = kvshift.Tokenizer("bytes")
    >>> len(model.generate("ab", max_tokens=5, temperature=0).ids)
    5
    >>> [(total, greedy)] = model.loglikelihood([("a", "b")])
    >>> -10 < total < 0, greedy
    (True, False)
    """

    _free_function = "kvs_model_free"
    _label = "model"

    tokenizer: Tokenizer | None
    runtime: Runtime
    mapped: bool
    _taps: dict[tuple[int, str, int], Sequence[float]]
    _config: dict[str, Any] | None

    # ---- making models ----

    @classmethod
    def _of(cls, pointer: Any, runtime: Runtime, tokenizer: Tokenizer | None = None, mapped: bool = False) -> Model:
        self = cls.__new__(cls)
        self.runtime, self.tokenizer, self.mapped = runtime, tokenizer, mapped
        self._taps, self._config = {}, None
        self._own(pointer, runtime)
        return self

    @classmethod
    def load(cls, path: str | os.PathLike[str], tokenizer: Tokenizer | str | os.PathLike[str] | None = None,
             runtime: Runtime | None = None, mapped: bool = True) -> Model:
        """Loads a model: a folder in Hugging Face's layout, a GGUF file, or a file of llama2.c.

        :param tokenizer: a tokenizer or its path; None means the one with the model, if there is one.
        :param mapped: use the weights in the mapped file, for inference only.  A model that is to be
            trained or changed needs ``mapped=False``.
        """
        runtime = runtime or default_runtime()
        pointer = new_pointer(_abi.kvs_model)
        call("kvs_model_load", ctypes.byref(pointer), runtime._handle, to_path(path),
             ctypes.byref(options(_abi.kvs_load_options, mapped=int(mapped))))
        self = cls._of(pointer, runtime, mapped=mapped)
        if tokenizer is None:
            self.tokenizer = _find_tokenizer(path)
        else:
            self.tokenizer = tokenizer if isinstance(tokenizer, Tokenizer) else Tokenizer(tokenizer)
        vocab = self.config["vocab"]
        if self.tokenizer is not None and len(self.tokenizer) > vocab:
            raise ValueError(f"the tokenizer has {len(self.tokenizer)} tokens, the model {vocab}")
        return self

    from_pretrained = load

    @classmethod
    def create(cls, preset: str | None = None, /, *, seed: int = 1, runtime: Runtime | None = None,
               config: ModelConfig | None = None, **settings: Any) -> Model:
        """A model with random weights.  Settings have the names of the command's options:
        ``Model.create(vocab=512, dim=64, layers=2, shift="kv")``."""
        runtime = runtime or default_runtime()
        if config is None:
            config = ModelConfig(preset, **settings)
            config.finish()
        elif preset or settings:
            raise ValueError("give either a configuration or a preset and settings")
        pointer = new_pointer(_abi.kvs_model)
        call("kvs_model_create", ctypes.byref(pointer), runtime._handle, config._handle, seed)
        return cls._of(pointer, runtime)

    def retrofit(self, shift: str = "kv", form: str = "free", window: int = 1) -> Model:
        """A copy with a shift, for a model that has none.  It starts as the identity, so that the logits
        have the same bits."""
        with ModelConfig(shift=shift) as config:
            config["shift-form"], config["shift-window"] = form, window
            pointer = new_pointer(_abi.kvs_model)
            call("kvs_model_retrofit", ctypes.byref(pointer), self.runtime._handle, self._handle, config._handle)
        return Model._of(pointer, self.runtime, self.tokenizer)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes config.json and model.safetensors, tokenizer.json if there is a tokenizer, and for a model with a
        shift modeling_kvshift.py, which runs it in transformers."""
        os.makedirs(folder, exist_ok=True)
        with self._lock:
            call("kvs_model_save", self._handle, to_path(folder))
        if self.tokenizer is not None:
            self.tokenizer.save(os.path.join(folder, "tokenizer.json"))

    # ---- what it is ----

    @property
    def config(self) -> dict[str, Any]:
        """All settings of the model by name."""
        if self._config is None:
            view = ModelConfig.__new__(ModelConfig)
            copy = new_pointer(_abi.kvs_model_config)
            call("kvs_model_config_copy", ctypes.byref(copy), library.kvs_model_get_config(self._handle))
            view._own(copy)
            with view:
                self._config = {name: view[name] for name in view.keys()}
        return dict(self._config)

    @property
    def context(self) -> int:
        """The largest number of tokens of a sequence."""
        return int(self.config["context"])

    @property
    def parameters(self) -> int:
        """The number of learned values."""
        return int(library.kvs_model_parameters(self._handle))

    @property
    def logit_count(self) -> int:
        """The number of logits per token."""
        return int(library.kvs_model_logit_count(self._handle))

    @property
    def eos(self) -> list[int]:
        """The tokens that end a text, as the model's files name them."""
        ids = ctypes.POINTER(ctypes.c_int32)()
        count = library.kvs_model_eos(self._handle, ctypes.byref(ids))
        return list(ids[:count]) if count else []

    @eos.setter
    def eos(self, ids: Ids) -> None:
        array = int_array(ids)
        with self._lock:
            call("kvs_model_set_eos", self._handle, ids_address(array), len(array))

    def tensors(self) -> dict[str, int]:
        """The names of the weights, and the number of values of each."""
        found: dict[str, int] = {}
        count = ctypes.c_size_t()
        while name := library.kvs_model_tensor_name(self._handle, len(found), ctypes.byref(count)):
            found[name.decode()] = count.value
        return found

    def tensor(self, name: str) -> Array:
        """A copy of one tensor, flat and row-major."""
        values = np.empty(self._tensor_count(name), dtype=np.float32)
        call("kvs_model_read_tensor", address(values, ctypes.c_float), len(values), self._handle, name.encode())
        return values

    def set_tensor(self, name: str, values: Any) -> None:
        """Replaces the values of one tensor.  Existing sessions keep what they computed before."""
        array = np.ascontiguousarray(values, dtype=np.float32).reshape(-1)
        with self._lock:
            call("kvs_model_write_tensor", self._handle, name.encode(), address(array, ctypes.c_float), len(array))

    def _tensor_count(self, name: str) -> int:
        count = self.tensors().get(name)
        if count is None:
            raise KeyError(f"the model has no tensor '{name}'")
        return count

    # ---- texts ----

    def _tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            raise ValueError("texts need a tokenizer: set model.tokenizer, or give ids")
        return self.tokenizer

    def _start(self) -> int:
        """The token that stands before a text: BOS, or EOS if there is no BOS."""
        tokenizer = self._tokenizer()
        start = tokenizer.eos if tokenizer.bos is None else tokenizer.bos
        if start is None:
            raise ValueError("the tokenizer has neither BOS nor EOS, one of which must stand before the text")
        return start

    def encode(self, text: Text) -> Array:
        """Ids of a text, or ids as they are."""
        if isinstance(text, str):
            return int_array(self._tokenizer().encode(text) or [self._start()])
        return int_array(text)

    # ---- running ----

    def session(self, capacity: int | None = None, cache: str = "f32") -> Session:
        """An empty session."""
        return Session(self, capacity, cache)

    def logits(self, text: Text) -> Array:
        """The logits after each token, ``[tokens, vocab]``.

        >>> import kvshift
        >>> model = kvshift.Model.create(vocab=8, dim=16, layers=1, context=32)
        >>> model.logits([1, 2, 3]).shape
        (3, 8)
        """
        return self.run_with_cache(text, names=[])[0]

    __call__ = logits

    @overload
    def generate(self, prompt: Text, max_tokens: int | None = ..., *, stream: Literal[False] = ...,
                 **how: Any) -> Generation: ...
    @overload
    def generate(self, prompt: Text, max_tokens: int | None = ..., *, stream: Literal[True],
                 **how: Any) -> Iterator[Token]: ...

    def generate(self, prompt: Text, max_tokens: int | None = 128, *, stream: bool = False,
                 **how: Any) -> Generation | Iterator[Token]:
        """Continues a text or ids, with the tokens of ``kvshift generate`` for the same options.

        :param max_tokens: None means until the context is full.
        :param stream: return an iterator of :class:`Token`.
        :param how: ``temperature`` (0.8; 0 = the likeliest token), ``top_k``, ``top_p``, ``min_p``,
            ``repeat_penalty``, ``repeat_last``, ``seed``; ``stop``, a list of strings; ``ignore_eos``;
            ``logprobs=True`` for log-probabilities; ``session`` to continue a session.

        >>> import kvshift
        >>> model = kvshift.Model.create(vocab=256, dim=16, layers=1, context=32, shift="kv")
        >>> model.tokenizer = kvshift.Tokenizer("bytes")
        >>> tokens = list(model.generate("ab", max_tokens=3, temperature=0, stream=True))
        >>> [token.id for token in tokens if token.id >= 0] == model.generate("ab", 3, temperature=0).ids
        True
        """
        tokens = self._generate(prompt, max_tokens, **how)
        if stream:
            return tokens
        texts, ids, logprobs, finish = [], [], [], ""
        for token in tokens:
            texts.append(token.text)
            finish = token.finish or finish
            if token.id >= 0 and not token.ends:
                ids.append(token.id)
                logprobs.append(token.logprob)
        return Generation("".join(texts), ids, logprobs if how.get("logprobs") else [], finish)

    def _generate(self, prompt: Text, max_tokens: int | None, *, stop: Sequence[str] = (), ignore_eos: bool = False,
                  logprobs: bool = False, session: Session | None = None, **sampling: Any) -> Iterator[Token]:
        """The loop of kvs_generate() in src/infer/generate.c, so that tokens can be taken one by one."""
        ids = self.encode(prompt) if session is None or not isinstance(prompt, str) or prompt else int_array([])
        if len(ids) == 0 and (session is None or len(session) == 0):
            raise ValueError("the prompt is empty, and so is the session")
        if max_tokens is not None and max_tokens < 1:
            raise ValueError(f"max_tokens is {max_tokens}, expected at least 1")
        texts = [stop] if isinstance(stop, str) else list(stop)
        tokenizer = self.tokenizer
        if texts and tokenizer is None:
            raise ValueError("stop strings need a tokenizer")
        with contextlib.ExitStack() as closing:
            if session is None:
                wanted = self.context if max_tokens is None else min(self.context, len(ids) + max_tokens)
                session = closing.enter_context(Session(self, max(wanted, len(ids))))
            choices = min(self.logit_count, int(self.config["vocab"]))
            if tokenizer is not None:
                choices = min(choices, len(tokenizer))
            sampler = closing.enter_context(Sampler(choices, **sampling))
            text = closing.enter_context(Detokenizer(tokenizer, texts)) if tokenizer is not None else None
            for before in (session.ids, ids):
                sampler.accept(before)
                if text is not None and tokenizer is not None:
                    text.skip([i for i in before if i < len(tokenizer)])
            ends: set[int | None] = set()
            if not ignore_eos:
                ends.update(self.eos, [] if tokenizer is None else [tokenizer.eos])
            logits = session.feed(ids) if len(ids) else session.logits()
            yield from self._decode(session, sampler, text, ends, logits, max_tokens, logprobs)

    def _decode(self, session: Session, sampler: Sampler, text: Detokenizer | None, ends: set[int | None],
                logits: Array, max_tokens: int | None, logprobs: bool) -> Iterator[Token]:
        index = 0
        while True:
            id = sampler.next(logits)
            is_end = id in ends
            is_full = len(session) == session.capacity
            if not math.isfinite(logits[id]):
                raise Error(f"the logits after {len(session)} tokens are not finite")
            logprob = (float(library.kvs_logits_logprob(address(logits, ctypes.c_float), len(logits), id))
                       if logprobs else math.nan)
            piece = "" if text is None else text.finish() if is_end else text.add([id])
            stopped = text is not None and text.stopped
            if stopped and text is not None:
                piece += text.finish()
            done = index + 1 == max_tokens or is_full
            finish = "eos" if is_end else "stop" if stopped else None
            rest = text.finish() if done and finish is None and text is not None else ""
            if done and finish is None:
                finish = ("stop" if text is not None and text.stopped else
                          "length" if index + 1 == max_tokens else "full")
            yield Token(index, id, piece, logprob, is_end, None if rest else finish)
            if rest:
                yield Token(index + 1, -1, rest, math.nan, False, finish)
            if finish is not None:
                return
            logits = session.feed([id])
            index += 1

    # ---- scoring ----

    def loglikelihood(self, pairs: Iterable[tuple[Text, Text]], batch: int = 1) -> list[tuple[float, bool]]:
        """The log-probability of each continuation after its context, and whether every token of it is
        the likeliest one.  Contexts and continuations are texts, which are divided as in
        lm-evaluation-harness, or ids.

        :param batch: with more than 1, so many sequences share a pass: faster, with the same bits
            only if the runtime is ``exact``.

        >>> import kvshift
        >>> model = kvshift.Model.create(vocab=8, dim=16, layers=1, context=32)
        >>> one, two = model.loglikelihood([([1, 2], [3]), ([1, 2], [3, 4])])
        >>> two[0] < one[0] < 0
        True
        """
        requests = [self._pair(*pair) for pair in pairs]
        found = self._score(requests, batch)
        return [(float(sum(logprobs.tolist())), bool((best == continuation).all()))
                for (logprobs, best), (_, continuation) in zip(found, requests)]

    def token_logprobs(self, text: Text) -> Array:
        """The log-probability of each token of a text after those before it; NaN for the first."""
        ids = self.encode(text)
        if len(ids) < 2:
            return np.full(len(ids), math.nan)
        [(logprobs, _)] = self._score([(ids[:1], ids[1:])], 1)
        return np.concatenate([[math.nan], logprobs])

    def loglikelihood_rolling(self, texts: Iterable[Text], batch: int = 1, window: int | None = None) -> list[float]:
        """The log-probability of each whole text.  BOS (or EOS) stands before it.  A text that is longer
        than ``window`` tokens (None = the context) is divided into windows as lm-evaluation-harness
        does."""
        length = self.context if window is None else window
        if not 0 < length <= self.context:
            raise ValueError(f"window is {length}, expected 1 to the context {self.context}")
        windows, owners, texts = [], [], list(texts)
        for i, text in enumerate(texts):
            ids = int_array(self._tokenizer().encode(text, special=False) if isinstance(text, str) else text)
            for pair in self._windows(ids, length):
                windows.append(pair)
                owners.append(i)
        totals = [0.0] * len(texts)
        for (logprobs, _), i in zip(self._score(windows, batch), owners):
            totals[i] += float(sum(logprobs.tolist()))
        return totals

    def _windows(self, ids: Array, length: int) -> Iterator[tuple[Array, Array]]:
        """Contexts and continuations: each continuation has up to `length` tokens, and the model is fed
        as many before the last of them as fit."""
        start = self._start() if len(ids) else 0
        for first in range(0, len(ids), length):
            part = ids[first:first + length]
            if first == 0:
                yield int_array([start]), part
            else:
                yield ids[first + len(part) - length - 1:first], part

    def _pair(self, context: Text, continuation: Text) -> tuple[Array, Array]:
        if isinstance(context, str) != isinstance(continuation, str):
            raise ValueError("context and continuation are a text and ids; give two texts or two lists of ids")
        if isinstance(context, str) and isinstance(continuation, str):
            first, second = self._tokenizer().encode_pair(context, continuation)
            return int_array(first), int_array(second)
        return int_array(context, "context"), int_array(continuation, "continuation")

    def _score(self, requests: Sequence[tuple[Array, Array]], batch: int) -> list[tuple[Array, Array]]:
        """Log-probabilities and likeliest tokens at the continuations.  One by one, the passes are those
        of kvs_score()."""
        vocab = int(self.config["vocab"])
        for i, (context, continuation) in enumerate(requests):
            if len(context) < 1 or len(continuation) < 1:
                raise ValueError(f"request {i}: expected at least 1 token in the context and in the continuation, "
                                 f"found {len(context)} and {len(continuation)}")
            if len(context) + len(continuation) - 1 > self.context:
                raise ValueError(f"request {i}: context and continuation have {len(context) + len(continuation)} "
                                 f"tokens, the model takes at most {self.context + 1}")
            wrong = [int(id) for id in continuation if not 0 <= id < vocab]
            if wrong:
                raise ValueError(f"request {i}: id {wrong[0]}, expected 0 to {vocab - 1}")
        if batch > 1:
            return self._score_batches(requests, batch)
        found = []
        capacity = max((len(a) + len(b) - 1 for a, b in requests), default=1)
        with Session(self, capacity) as session:
            for context, continuation in requests:
                session.reset()
                if len(context) > 1:
                    for first in range(0, len(context) - 1, SLICE):
                        part = context[first:min(first + SLICE, len(context) - 1)]
                        call("kvs_session_feed", session._handle, ids_address(part), len(part), None)
                found.append(session.score(np.concatenate([context[-1:], continuation[:-1]]), continuation))
        return found

    def _score_batches(self, requests: Sequence[tuple[Array, Array]], batch: int) -> list[tuple[Array, Array]]:
        """Requests of similar length share passes."""
        order = sorted(range(len(requests)), key=lambda i: -len(requests[i][0]) - len(requests[i][1]))
        found: list[Any] = [None] * len(requests)
        runner = new_pointer(_abi.kvs_runner)
        call("kvs_runner_create", ctypes.byref(runner), self._handle, ctypes.byref(options(
            _abi.kvs_runner_options, sequences=batch, tokens=max(SLICE, batch))))
        try:
            for first in range(0, len(order), batch):
                self._score_batch(runner, requests, order[first:first + batch], found)
        finally:
            library.kvs_runner_free(runner)
        return found

    def _score_batch(self, runner: Any, requests: Sequence[tuple[Array, Array]], chosen: Sequence[int],
                     found: list[Any]) -> None:
        with contextlib.ExitStack() as closing:
            rows = []
            for i in chosen:
                context, continuation = requests[i]
                ids = np.concatenate([context, continuation[:-1]])
                targets = np.full(len(ids), -1, dtype=np.int32)
                targets[len(context) - 1:] = continuation
                logprobs, best = np.zeros(len(ids)), np.zeros(len(ids), dtype=np.int32)
                rows.append((closing.enter_context(Session(self, len(ids))), ids, targets, logprobs, best))
                found[i] = logprobs[len(context) - 1:], best[len(context) - 1:]
            for first in range(0, max(len(row[1]) for row in rows), SLICE):
                part = slice(first, first + SLICE)
                feeds = [options(_abi.kvs_feed, session=session._handle, count=len(ids[part]),
                                 ids=ids_address(ids[part]), targets=ids_address(targets[part]),
                                 logprobs=address(logprobs[part], ctypes.c_double), best=ids_address(best[part]))
                         for session, ids, targets, logprobs, best in rows if len(ids) > first]
                call("kvs_runner_feed", runner, (_abi.kvs_feed * len(feeds))(*feeds), len(feeds))

    # ---- inside ----

    def run_with_cache(self, text: Text, names: str | Iterable[str] | None = None) -> tuple[Array, dict[str, Array]]:
        """Runs the model on one sequence; returns the logits ``[tokens, vocab]`` and activations by
        their names in TransformerLens.  ``docs/api.md`` has the names and shapes.

        :param names: names such as ``"blocks.0.attn.hook_pattern"``, with ``*`` for every layer; None
            means all of them.

        >>> import kvshift
        >>> model = kvshift.Model.create(vocab=8, dim=16, layers=2, heads=2, context=32, shift="kv")
        >>> logits, cache = model.run_with_cache([1, 2, 3], names="blocks.*.attn.hook_pattern")
        >>> {name: values.shape for name, values in cache.items()}
        {'blocks.0.attn.hook_pattern': (2, 3, 3), 'blocks.1.attn.hook_pattern': (2, 3, 3)}
        """
        ids = self.encode(text)
        wanted = None if names is None else [names] if isinstance(names, str) else list(names)
        cache: dict[str, Array] = {}
        callbacks = Callbacks()

        def visit(_user: Any, pointer: Any) -> int:
            a = pointer.contents
            shape = tuple(a.shape[:a.rank])
            cache[a.name.decode()] = np.ctypeslib.as_array(a.values, shape=shape).copy()
            return 0

        function = callbacks.wrap(library.kvs_model_trace.argtypes[5], visit, 1)
        listed = None if wanted is None else [*(name.encode() for name in wanted), b"logits"]
        with self._written_taps():
            callbacks.call("kvs_model_trace", self._handle, ids_address(ids), len(ids),
                           None if listed is None else (ctypes.c_char_p * len(listed))(*listed),
                           0 if listed is None else len(listed), function, None)
        logits = cache["logits"]
        if wanted is not None and "logits" not in wanted:
            del cache["logits"]
        return logits, cache

    @overload
    def taps(self) -> dict[str, Array]: ...
    @overload
    def taps(self, values: Taps) -> contextlib.AbstractContextManager[Model]: ...

    def taps(self, values: Taps | None = None) -> dict[str, Array] | contextlib.AbstractContextManager[Model]:
        """Without an argument: the taps of every head, ``{"k": [layers, heads, window + 1], ...}``, the
        one of the oldest token first.  If layers have different numbers of heads, those that a layer
        does not have are NaN.

        With taps of single heads, ``{(layer, "k", head): (a2, a1)}``: a context in which everything
        that the model runs uses them.  Sessions that exist already keep theirs.

        >>> import kvshift
        >>> model = kvshift.Model.create(vocab=8, dim=16, layers=1, heads=2, context=32, shift="kv")
        >>> model.taps()["k"].shape
        (1, 2, 2)
        >>> before = model.logits([1, 2, 3])
        >>> with model.taps({(0, "k", 1): (0.0, 1.0)}):
        ...     changed = model.logits([1, 2, 3])
        >>> bool((before == changed).all()), bool((before == model.logits([1, 2, 3])).all())
        (False, True)
        """
        return self._read_taps() if values is None else self._with_taps(values)

    def _read_taps(self) -> dict[str, Array]:
        """The library says which targets, layers and heads there are: it refuses the others."""
        config = self.config
        targets = [name for name in ("q", "k", "v") if name in config["shift"]] if config["shift"] != "none" else []
        out: dict[str, Array] = {}
        most = max(int(config[name]) for name in config if name in ("heads", "kv-heads", "sliding-heads", "sliding-kv-heads"))
        count, layers = int(config["shift-window"]) + 1, int(config["layers"])
        for name in targets:
            taps = np.full((layers, most, count), math.nan)
            for layer in range(layers):
                for head in range(most):
                    row = np.empty(count)
                    try:
                        call("kvs_model_taps", address(row, ctypes.c_double), None, self._handle, layer,
                             target_of(name), head)
                    except ValueError:
                        break
                    taps[layer, head] = row
            heads = int((~np.isnan(taps[:, :, 0])).any(axis=0).sum())
            out[name] = taps[:, :heads]
        return out

    @contextlib.contextmanager
    def _with_taps(self, values: Taps) -> Iterator[Model]:
        with Session(self, 1, taps=values):  # refuses what the model cannot have
            pass
        old = self._taps
        self._taps = {**old, **dict(values)}
        try:
            yield self
        finally:
            self._taps = old

    @contextlib.contextmanager
    def _written_taps(self) -> Iterator[None]:
        """Sessions have taps of their own, but activations are computed with those of the model: they
        are written into it and restored."""
        if not self._taps:
            yield
            return
        form = self.config["shift-form"]
        if form not in ("free", "channel"):
            raise UnsupportedError(f"activations with other taps need shift form free or channel, the model has "
                                   f"'{form}'")
        if self.mapped:
            raise UnsupportedError("activations with other taps need a model in memory: load it with mapped=False")
        names = [name for name in self.tensors() if name.endswith("_shift")]
        old: dict[str, Array] = {}
        with self._lock:
            try:
                for (layer, target, head), taps in self._taps.items():
                    [name] = [n for n in names if f".{layer}." in n and n.endswith(f".{target}_shift")]
                    values = self.tensor(name)
                    old.setdefault(name, values.copy())
                    heads = len(self._read_taps()[target][layer])
                    values.reshape(heads, -1, len(taps))[head] = taps
                    self.set_tensor(name, values)
                yield
            finally:
                for name, values in old.items():
                    self.set_tensor(name, values)
