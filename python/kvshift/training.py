"""Training: single steps, and whole runs with a folder."""
from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _abi
from ._handle import Handle, new_pointer
from ._library import Callbacks, call, field_type, library, options, to_path
from .data import Batch, Data, Sequences, as_data
from .model import Model
from .settings import TrainConfig
from .tokenizer import Tokenizer, address


@dataclass(frozen=True)
class Step:
    """One training step.  Values that the step does not have are NaN."""

    step: int
    loss: float
    accuracy: float
    lr: float
    grad_norm: float
    eval_loss: float
    eval_accuracy: float
    shift: dict[str, tuple[float, float]]
    """Sum of a head's taps and tap of the current token, as means over all heads; keys k, v, q.  Only
    :func:`train` has them, on some steps; :meth:`Model.taps` has them at any time."""
    tokens: int
    seconds: float


@dataclass(frozen=True)
class Evaluation:
    """Loss and accuracy on held-out sequences."""

    loss: float
    accuracy: float
    by_length: list[tuple[int, int, int, float]]
    """Shortest and longest length, scored rows, accuracy."""


@dataclass(frozen=True)
class TrainResult:
    """The result of a run."""

    steps: int
    step_at_99: int | None
    tokens: int
    seconds: float
    final: Evaluation


def _step(r: Any) -> Step:
    shift = {name: (getattr(r, name + "_shift").sum, getattr(r, name + "_shift").current) for name in "kvq"}
    return Step(r.step, r.loss, r.accuracy, r.lr, r.grad_norm, r.eval_loss, r.eval_accuracy, shift, r.tokens, r.seconds)


def _evaluation(e: Any) -> Evaluation:
    return Evaluation(e.loss, e.accuracy, [(getattr(b, "from"), b.to, b.scored, b.accuracy)
                                           for b in e.bucket[:e.buckets]])


class Trainer(Handle):
    """A model, its gradients and its optimizer.

    :param data: sequences, as for :class:`Data`; None = only batches of the caller.
    :param settings: settings of training by name, such as ``steps``, ``batch``, ``lr``, ``warmup``.

    >>> import kvshift
    >>> sequences = [[(s + i) % 12 for i in range(16)] for s in range(64)]
    >>> model = kvshift.Model.create(vocab=12, dim=32, context=16, shift="kv")
    >>> trainer = kvshift.Trainer(model, sequences, steps=60, warmup=10, batch=16, lr=5e-3)
    >>> losses = [step.loss for step in trainer]
    >>> len(losses), losses[-1] < 0.5 < losses[0]
    (60, True)
    """

    _free_function = "kvs_trainer_free"
    _label = "trainer"

    def __init__(self, model: Model, data: Data | Sequences | Batch | None = None, config: TrainConfig | None = None,
                 **settings: Any) -> None:
        if config is not None and settings:
            raise ValueError("give either a configuration or settings")
        self.model, self.data = model, as_data(data)
        own = config or TrainConfig(**settings)
        pointer = new_pointer(_abi.kvs_trainer)
        call("kvs_trainer_create", ctypes.byref(pointer), model._handle,
             None if self.data is None else self.data._handle, own._handle)
        self._wanted = int(own["steps"])
        self._own(pointer, model, self.data)

    def _call(self, name: str, *arguments: Any) -> None:
        """A call that may read the data, and so call the caller's function."""
        if self.data is None:
            call(name, *arguments)
        else:
            self.data._callbacks.call(name, *arguments)

    def step(self) -> Step:
        """One optimizer step on the next sequences of the data."""
        record = ctypes.POINTER(_abi.kvs_step_record)()
        with self._lock:
            self._call("kvs_trainer_step", ctypes.byref(record), self._handle)
            return _step(record.contents)

    def step_batch(self, sequences: Sequences | Batch, targets: Sequences | None = None,
                   mask: Sequences | None = None, scored: Sequences | None = None) -> Step:
        """One optimizer step on sequences of the caller."""
        batch = sequences if isinstance(sequences, Batch) else Batch(sequences, targets, mask, scored)
        record = ctypes.POINTER(_abi.kvs_step_record)()
        with self._lock:
            call("kvs_trainer_step_batch", ctypes.byref(record), self._handle, ctypes.byref(batch.struct))
            return _step(record.contents)

    def __iter__(self) -> Iterator[Step]:
        """The remaining steps, up to the setting ``steps``."""
        while self.steps < self._wanted:
            yield self.step()

    @property
    def steps(self) -> int:
        """The number of steps done."""
        return int(library.kvs_trainer_steps(self._handle))

    def evaluate(self, sequences: int) -> Evaluation:
        """Loss and accuracy on the first sequences of the evaluation data."""
        out = _abi.kvs_evaluation(size=ctypes.sizeof(_abi.kvs_evaluation))
        with self._lock:
            self._call("kvs_trainer_evaluate", ctypes.byref(out), self._handle, sequences)
        return _evaluation(out)

    def gradients(self, sequences: Sequences | Batch, targets: Sequences | None = None,
                  mask: Sequences | None = None) -> tuple[float, dict[str, np.ndarray[Any, Any]]]:
        """The mean loss of a batch and its gradients, flat arrays by the names of
        :meth:`Model.tensors`, without an update."""
        batch = sequences if isinstance(sequences, Batch) else Batch(sequences, targets, mask)
        loss = ctypes.c_double()
        found: dict[str, np.ndarray[Any, Any]] = {}
        with self._lock:
            call("kvs_trainer_gradients", ctypes.byref(loss), self._handle, ctypes.byref(batch.struct))
            for name, count in self.model.tensors().items():
                found[name] = np.empty(count, dtype=np.float32)
                call("kvs_trainer_read_gradient", address(found[name], ctypes.c_float), count, self._handle,
                     name.encode())
        return loss.value, found

    def save(self, folder: str | os.PathLike[str], keep: int = 0) -> None:
        """Writes the checkpoint ``folder/step-N`` and removes all but the newest ``keep`` (0 = none)."""
        with self._lock:
            call("kvs_trainer_save", self._handle, to_path(folder), keep)

    def load(self, folder: str | os.PathLike[str]) -> int | None:
        """Loads the newest complete checkpoint and returns its step; None if there is none."""
        step = ctypes.c_uint64()
        with self._lock:
            call("kvs_trainer_load", ctypes.byref(step), self._handle, to_path(folder))
        return step.value or None


def train(model: Model, data: Data | Sequences | Batch, out: str | os.PathLike[str] | None = None, *,
          progress: Callable[[Step], object] | None = None, notice: Callable[[str], object] | None = None,
          tokenizer: Tokenizer | None = None, resume: bool | None = False, config: TrainConfig | None = None,
          **settings: Any) -> TrainResult:
    """Trains a model: a whole run with steps, evaluations and, if ``out`` is given, a folder with log,
    checkpoints and the final model.  Ctrl-C ends the run cleanly, with a checkpoint, and is raised
    again.

    :param progress: called after every step.
    :param resume: True continues from the newest checkpoint, None does so if there is one, False
        starts a new run.
    :param settings: settings of training by name.

    >>> import kvshift, tempfile
    >>> sequences = [[(s + i) % 12 for i in range(16)] for s in range(64)]
    >>> model = kvshift.Model.create(vocab=12, dim=16, layers=1, context=16, shift="kv")
    >>> folder = tempfile.mkdtemp() + "/run"
    >>> seen = []
    >>> result = kvshift.train(model, kvshift.Data(sequences, valid=sequences), folder,
    ...                        progress=lambda step: seen.append(step.loss), steps=5, batch=8)
    >>> result.steps, len(seen), len(kvshift.read_run(folder).steps["loss"])
    (5, 5, 5)
    """
    if config is not None and settings:
        raise ValueError("give either a configuration or settings")
    own = config or TrainConfig(**settings)
    source = as_data(data)
    assert source is not None
    callbacks = Callbacks()

    def report(_user: Any, record: Any) -> int:
        if progress:
            progress(_step(record.contents))
        return 0

    o = options(_abi.kvs_train_options, resume={False: _abi.KVS_RESUME_NEVER, True: _abi.KVS_RESUME_ALWAYS,
                                                None: _abi.KVS_RESUME_AUTO}[resume])
    o.out = None if out is None else to_path(out)
    tokenizer = tokenizer or model.tokenizer
    if tokenizer is not None:
        o.tokenizer = tokenizer._handle
    o.progress = callbacks.wrap(field_type(_abi.kvs_train_options, "progress"), report, _abi.KVS_PROGRESS_STOP)
    if notice:
        o.notice = callbacks.wrap(field_type(_abi.kvs_train_options, "notice"),
                                  lambda _user, line: notice(line.decode()) and None)
    result = _abi.kvs_train_result(size=ctypes.sizeof(_abi.kvs_train_result))
    with model._lock:
        try:
            callbacks.call("kvs_train", ctypes.byref(result), model._handle, source._handle, own._handle,
                           ctypes.byref(o))
        finally:
            source._callbacks.raise_error()
    return TrainResult(result.steps, result.step_at_99 or None, result.tokens, result.seconds,
                       _evaluation(result.final))
