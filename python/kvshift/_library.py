"""The shared library: finding it, checking that the bindings fit it, and calling it."""
from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

from . import _abi

__all__ = ["Error", "InvalidError", "MemoryLimitError", "FileError", "FormatError", "UnsupportedError", "LimitError",
           "DivergedError", "ExistsError", "StoppedError", "library", "call", "check", "path"]


# ---- errors --------------------------------------------------------------------------------------

class Error(Exception):
    """A call of the library failed.  The message names the thing, what was expected and what was
    found.  Each status of the library has its own subclass, which is also the built-in exception
    that fits."""


class InvalidError(Error, ValueError):
    """An argument, a setting or a combination of them is invalid."""


class MemoryLimitError(Error, MemoryError):
    """There is not enough memory."""


class FileError(Error, OSError):
    """A file cannot be read or written."""


class FormatError(Error, ValueError):
    """A file is damaged or of an unknown kind."""


class UnsupportedError(Error, NotImplementedError):
    """What was asked is valid, but not possible here."""


class LimitError(Error, ValueError):
    """A capacity or a limit is exceeded."""


class DivergedError(Error, ArithmeticError):
    """A loss or a gradient is not finite."""


class ExistsError(Error, FileExistsError):
    """The output exists."""


class StoppedError(Error):
    """A callback stopped the call."""


_ERRORS = {
    _abi.KVS_E_INVALID: InvalidError, _abi.KVS_E_NOMEM: MemoryLimitError, _abi.KVS_E_IO: FileError,
    _abi.KVS_E_FORMAT: FormatError, _abi.KVS_E_UNSUPPORTED: UnsupportedError, _abi.KVS_E_LIMIT: LimitError,
    _abi.KVS_E_DIVERGED: DivergedError, _abi.KVS_E_EXISTS: ExistsError, _abi.KVS_E_STOPPED: StoppedError,
}


# ---- loading -------------------------------------------------------------------------------------

def _find() -> str:
    given = os.environ.get("KVSHIFT_LIBRARY")
    if given:
        return given
    own = pathlib.Path(__file__).parent / "lib" / "libkvshift.so"
    if not own.is_file():
        raise ImportError(f"no library at '{own}': install the package with pip, or set KVSHIFT_LIBRARY to the "
                          "path of libkvshift.so")
    return str(own)


@contextlib.contextmanager
def _short_spins() -> Iterator[None]:
    """With GNU's OpenMP a thread that waits spins for milliseconds, which slows down everything else
    on its core.  That runtime reads the environment once, when it is loaded.  The command does the
    same."""
    if "OMP_WAIT_POLICY" in os.environ or "GOMP_SPINCOUNT" in os.environ:
        yield
        return
    os.environ["GOMP_SPINCOUNT"] = "1000"
    try:
        yield
    finally:
        del os.environ["GOMP_SPINCOUNT"]


def layout_hash(abi: Any = _abi) -> int:
    """The hash that a library has to return from ``kvs_layout_hash`` for these bindings: FNV-1a over
    the declarations, the layouts of all structs and the constants (src/base/layout.c)."""
    numbers = [abi.DECLARATIONS]
    for struct in abi.STRUCTS:
        numbers.append(ctypes.sizeof(struct))
        for name, *_ in struct._fields_:
            field = getattr(struct, name)
            numbers += [field.offset, field.size]
    numbers += [value for name, value in vars(abi).items() if name.startswith("KVS_")]
    value = 0xcbf29ce484222325
    for number in numbers:
        for byte in (number % 2**64).to_bytes(8, "little"):
            value = (value ^ byte) * 0x100000001b3 % 2**64
    return value


def _load(name: str) -> ctypes.CDLL:
    try:
        with _short_spins():
            found = ctypes.CDLL(name)
    except OSError as problem:
        raise ImportError(f"cannot load the library '{name}': {problem}") from None
    ours = f"{_abi.KVS_VERSION_MAJOR}.{_abi.KVS_VERSION_MINOR}.{_abi.KVS_VERSION_PATCH}"
    try:
        found.kvs_build.restype = ctypes.POINTER(_abi.kvs_build_info)
        theirs = found.kvs_build().contents.version.decode()
    except AttributeError:
        raise ImportError(f"'{name}' is not a library of kvshift: it has no function kvs_build") from None
    try:
        found.kvs_layout_hash.restype = ctypes.c_uint64
        fits = found.kvs_layout_hash() == layout_hash()
    except AttributeError:
        fits = False
    if not fits:
        raise ImportError(f"the library '{name}' has version {theirs} and another binary layout than these bindings, "
                          f"which are of version {ours}; install both from the same source")
    for function, (result, arguments) in _abi.FUNCTIONS.items():
        pointer = getattr(found, function)
        pointer.restype = result
        pointer.argtypes = arguments
    return found


path = _find()
library = _load(path)


# ---- calling -------------------------------------------------------------------------------------

def check(status: int, err: _abi.kvs_err) -> None:
    """Raises the exception of a status."""
    if status != _abi.KVS_OK:
        raise _ERRORS.get(status, Error)(err.message.decode("utf-8", "replace"))


def call(name: str, *arguments: Any) -> None:
    """Calls a function that returns a status and has ``err`` as its last argument."""
    err = _abi.kvs_err()
    status = getattr(library, name)(*arguments, ctypes.byref(err))
    check(status, err)


def options(kind: Any, **values: Any) -> Any:
    """A struct of options with its defaults, in which some fields are set."""
    struct = kind()
    getattr(library, kind.__name__ + "_init")(ctypes.byref(struct), ctypes.sizeof(struct))
    for name, value in values.items():
        setattr(struct, name, value)
    return struct


def field_type(struct: Any, name: str) -> Any:
    """The type of a field, such as that of a callback."""
    return next(field[1] for field in struct._fields_ if field[0] == name)


def to_path(value: str | os.PathLike[str]) -> bytes:
    """A path as the library takes it."""
    return os.fsencode(value)


class Callbacks:
    """Python functions that the library calls.  An exception, also that of Ctrl-C, cannot pass through
    C: it is kept, the function returns what stops the call, and :meth:`call` raises the exception
    once the library has returned."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._alive: list[Any] = []

    def wrap(self, kind: Any, function: Any, stop: Any = None) -> Any:
        """The function as a pointer for the library; ``stop`` is the result that ends the call."""
        def guarded(*arguments: Any) -> Any:
            if self.error is None:
                try:
                    result = function(*arguments)
                except BaseException as error:
                    self.error = error
                else:
                    return result if self.error is None else stop
            return stop

        pointer = kind(guarded)
        self._alive.append(pointer)
        return pointer

    @contextlib.contextmanager
    def interrupts(self) -> Iterator[None]:
        """Keeps the exception of the handler of SIGINT.  Python calls that handler when a function that
        the library calls is entered, before it can catch anything."""
        handler = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is not threading.main_thread() or not callable(handler):
            yield
            return

        def keep(number: int, frame: Any) -> None:
            try:
                handler(number, frame)
            except BaseException as error:
                self.error = error

        signal.signal(signal.SIGINT, keep)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, handler)

    def raise_error(self) -> None:
        """Raises what was kept."""
        if self.error is not None:
            error, self.error = self.error, None
            raise error

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function that returns a status and calls back."""
        err = _abi.kvs_err()
        with self.interrupts():
            status = getattr(library, name)(*arguments, ctypes.byref(err))
        self.raise_error()
        check(status, err)
