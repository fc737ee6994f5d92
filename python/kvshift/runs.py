"""Run folders: what `kvshift train --out` and :func:`train` write."""
from __future__ import annotations

import json
import math
import os
import pathlib
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Run:
    """A run folder.  ``docs/run-folder.md`` describes the files."""

    folder: pathlib.Path
    settings: dict[str, Any]
    """The first line of the log: model, task, training and how it was computed."""
    steps: dict[str, np.ndarray[Any, Any]]
    """The records by field: ``steps["loss"][i]`` is of step ``steps["step"][i]``; NaN where a record
    has no such field."""
    samples: list[dict[str, Any]]
    benchmarks: list[dict[str, Any]]
    result: dict[str, Any] | None
    """The final evaluation; None if the run has not ended."""


def _lines(path: pathlib.Path, needed: bool = False) -> list[dict[str, Any]]:
    """The complete lines of a file: a last one without a newline is still being written."""
    if not needed and not path.exists():
        return []
    found = []
    text = path.read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.split("\n")[:-1], 1):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as problem:
            raise ValueError(f"'{path}': line {number} is not JSON: {problem}") from None
        if not isinstance(value, dict):
            raise ValueError(f"'{path}': line {number}: expected an object, found {type(value).__name__}")
        found.append(value)
    return found


def read_run(folder: str | os.PathLike[str]) -> Run:
    """Reads a run folder, also while the run continues.

    >>> import kvshift, tempfile
    >>> folder = tempfile.mkdtemp() + "/run"
    >>> model = kvshift.Model.create(vocab=12, dim=16, layers=1, context=16)
    >>> _ = kvshift.train(model, [[1, 2, 3, 4]], folder, steps=2, batch=1)
    >>> run = kvshift.read_run(folder)
    >>> run.steps["step"].tolist(), run.settings["model"]["hidden_size"], run.result["steps"]
    ([1, 2], 16, 2)
    """
    place = pathlib.Path(folder)
    log = place / "train.jsonl"
    if not log.is_file():
        raise FileNotFoundError(f"'{place}' is not a run folder: it has no train.jsonl")
    lines = _lines(log, needed=True)
    if not lines or "kvshift" not in lines[0]:
        raise ValueError(f"'{log}': the first line has no settings of a run")
    settings, records = lines[0], lines[1:]
    keys = list(dict.fromkeys(key for record in records for key in record))
    steps = {}
    for key in keys:
        values = [record.get(key) for record in records]
        if key in ("step", "tokens") and all(isinstance(value, int) for value in values):
            steps[key] = np.array(values, dtype=np.int64)
        elif all(value is None or isinstance(value, (int, float)) for value in values):
            steps[key] = np.array([math.nan if value is None else value for value in values], dtype=np.float64)
    result = None
    if (place / "result.json").is_file():
        result = json.loads((place / "result.json").read_text(encoding="utf-8"))
    return Run(place, settings, steps, _lines(place / "samples.jsonl"), _lines(place / "benchmarks.jsonl"), result)
