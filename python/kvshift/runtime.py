"""Processor code and threads."""
from __future__ import annotations

import ctypes
import os
import threading

from . import _abi
from ._handle import Handle, new_pointer
from ._library import call, library, options


class Runtime(Handle):
    """Processor code and threads, which all models of a runtime share.

    :param threads: number of threads; 0 means every core that the process may use.  Results have the
        same bits for every number.
    :param cpu_level: name of a level such as ``"avx2"``; None means the best one of the processor.
    :param exact: a sequence has the same bits however it is divided and whatever it is in a batch
        with.
    :param precision: ``"f32"`` or ``"bf16"``, of the products of linear layers.

    >>> import kvshift
    >>> with kvshift.Runtime(threads=1) as runtime:
    ...     runtime.threads
    1
    """

    _free_function = "kvs_runtime_free"
    _label = "runtime"

    def __init__(self, threads: int = 0, cpu_level: str | None = None, exact: bool = False,
                 precision: str | None = None) -> None:
        pointer = new_pointer(_abi.kvs_runtime)
        call("kvs_runtime_create", ctypes.byref(pointer), ctypes.byref(options(
            _abi.kvs_runtime_options, threads=threads, cpu_level=cpu_level and cpu_level.encode(), exact=int(exact),
            precision=precision and precision.encode())))
        self._own(pointer)
        self.exact = exact

    @property
    def threads(self) -> int:
        """The number of threads."""
        return int(library.kvs_runtime_threads(self._handle))

    @property
    def cpu_level(self) -> str:
        """The name of the level in use."""
        return str(library.kvs_runtime_cpu_level(self._handle).decode())


_default: Runtime | None = None
_default_lock = threading.Lock()


def default_runtime() -> Runtime:
    """The runtime of models that were loaded without one.  ``KVSHIFT_THREADS`` sets its number of
    threads."""
    global _default
    with _default_lock:
        if _default is None or _default.closed:
            text = os.environ.get("KVSHIFT_THREADS", "0")
            if not text.isdigit():
                raise ValueError(f"KVSHIFT_THREADS is '{text}', expected a number")
            _default = Runtime(threads=int(text))
        return _default
