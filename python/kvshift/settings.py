"""Settings of models and of training, by name."""
from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import _abi
from ._handle import Handle, new_pointer
from ._library import call, library, to_path


@dataclass(frozen=True)
class Setting:
    """One setting: its name, type, default and meaning."""

    name: str
    type: str
    group: str
    help: str
    value: str
    automatic: str | None
    choices: tuple[str, ...] | None
    low: float
    high: float


def _setting(s: Any) -> Setting:
    choices: list[str] = []
    while s.choices and s.choices[len(choices)]:
        choices.append(s.choices[len(choices)].decode())
    return Setting(s.name.decode(), s.type.decode(), s.group.decode(), s.help.decode(), s.value.decode(),
                   s.automatic.decode() if s.automatic else None, tuple(choices) or None, s.low, s.high)


def _all(function: str) -> dict[str, Setting]:
    found: dict[str, Setting] = {}
    while pointer := getattr(library, function)(len(found)):
        one = _setting(pointer.contents)
        found[one.name] = one
    return found


def model_settings() -> dict[str, Setting]:
    """The settings of models by name.

    >>> import kvshift
    >>> kvshift.model_settings()["shift"].help
    'what is mixed with the previous tokens'
    """
    return _all("kvs_model_setting")


def train_settings() -> dict[str, Setting]:
    """The settings of training by name."""
    return _all("kvs_train_setting")


def presets() -> list[str]:
    """The names of the presets: configurations of a model and of its training."""
    found: list[str] = []
    while name := library.kvs_preset_name(len(found)):
        found.append(name.decode())
    return found


def _text_of(value: Any) -> str:
    """A value of Python as the library's text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ",".join(str(element) for element in value)
    return str(value)


def _value_of(text: str, kind: str) -> Any:
    """The library's text as a value of Python."""
    if kind == "flag":
        return text == "yes"
    if kind == "count" or (kind == "optional" and text):
        return int(text) if text.isdigit() else text
    if kind == "number":
        return float(text)
    if kind in ("counts", "numbers"):
        convert = int if kind == "counts" else float
        return [convert(part) for part in text.split(",")] if text else []
    return text


class Config(Handle):
    """Values of settings.  ``config["dim"]`` reads one, ``config["dim"] = 64`` sets one, ``dict(config)``
    has all.  An underscore may stand for a hyphen."""

    _prefix = ""
    _type: Any = None

    def _make(self, preset: str | None, values: Mapping[str, Any]) -> None:
        pointer = new_pointer(self._type)
        call(self._prefix + "create", ctypes.byref(pointer), preset.encode() if preset else None)
        self._own(pointer)
        self.update(values)

    def update(self, values: Mapping[str, Any]) -> None:
        """Sets several settings.  ``body`` sets defaults of others and comes first."""
        for name in sorted(values, key=lambda name: name != "body"):
            self[name] = values[name]

    def __setitem__(self, name: str, value: Any) -> None:
        with self._lock:
            call(self._prefix + "set", self._handle, name.replace("_", "-").encode(), _text_of(value).encode())

    def __getitem__(self, name: str) -> Any:
        name = name.replace("_", "-")
        size = 256
        while True:
            text = ctypes.create_string_buffer(size)
            try:
                call(self._prefix + "get", text, size, self._handle, name.encode())
            except ValueError as problem:
                if type(problem).__name__ != "LimitError" or size > 1 << 24:
                    raise
                size *= 4
                continue
            return _value_of(text.value.decode(), self._settings()[name].type)

    def keys(self) -> list[str]:
        """The names of all settings."""
        return list(self._settings())

    def __iter__(self) -> Any:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def _settings(self) -> dict[str, Setting]:
        raise NotImplementedError

    def __repr__(self) -> str:
        if self.closed:
            return f"<closed {type(self).__name__}>"
        changed = [f"{name}={self[name]!r}" for name, s in self._settings().items()
                   if self[name] != _value_of(s.value, s.type)]
        return f"{type(self).__name__}({', '.join(changed)})"


class ModelConfig(Config):
    """The configuration of a model.

    >>> import kvshift
    >>> config = kvshift.ModelConfig(vocab=12, dim=32, shift="kv")
    >>> config["dim"], config["shift"], config["shift-window"]
    (32, 'kv', 1)
    """

    _free_function = "kvs_model_config_free"
    _label = "configuration"
    _prefix = "kvs_model_config_"
    _type = _abi.kvs_model_config

    def __init__(self, preset: str | None = None, /, **values: Any) -> None:
        self._make(preset, values)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ModelConfig:
        """Reads the configuration of a model's folder or file."""
        self = cls.__new__(cls)
        pointer = new_pointer(cls._type)
        call("kvs_model_config_load", ctypes.byref(pointer), to_path(path))
        self._own(pointer)
        return self

    def finish(self) -> None:
        """Replaces automatic values and checks all of them."""
        with self._lock:
            call("kvs_model_config_finish", self._handle)

    def _settings(self) -> dict[str, Setting]:
        return _MODEL


class TrainConfig(Config):
    """The configuration of training.

    >>> import kvshift
    >>> config = kvshift.TrainConfig(steps=100, warmup=10, lr=5e-3)
    >>> config.learning_rate(5)
    0.0025
    """

    _free_function = "kvs_train_config_free"
    _label = "configuration"
    _prefix = "kvs_train_config_"
    _type = _abi.kvs_train_config

    def __init__(self, preset: str | None = None, /, **values: Any) -> None:
        self._make(preset, values)

    def check(self) -> None:
        """Checks every value and every combination."""
        call("kvs_train_config_check", self._handle)

    def learning_rate(self, step: int) -> float:
        """The learning rate of a step; the first is 1."""
        return float(library.kvs_learning_rate(self._handle, step))

    def _settings(self) -> dict[str, Setting]:
        return _TRAIN


_MODEL = model_settings()
_TRAIN = train_settings()
