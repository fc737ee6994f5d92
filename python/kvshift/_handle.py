"""Handles of the library as Python objects."""
from __future__ import annotations

import ctypes
import threading
import weakref
from typing import Any, TypeVar

from ._library import library

_H = TypeVar("_H", bound="Handle")


def _free(function: Any, pointer: Any, _parents: tuple[Any, ...]) -> None:
    function(pointer)


class Handle:
    """Something that the library has allocated.

    It is freed by :meth:`close`, at the end of a ``with`` block, or with the last reference to it.
    A handle that was made from another one keeps that one alive.  ``close()`` of a handle first
    closes all that were made from it, so that any order is safe.  Each method locks the handle,
    because only one thread at a time may use it.
    """

    _free_function = ""
    _label = "handle"

    def _own(self, pointer: Any, *parents: Handle | None, kept: Any = None) -> None:
        self._lock = threading.RLock()
        self._pointer = pointer
        self._children: weakref.WeakSet[Handle] = weakref.WeakSet()
        borrowed = tuple(parent for parent in parents if parent is not None)
        # The finalizer refers to the parents, so that they cannot be freed before it has run.
        self._finalizer = weakref.finalize(self, _free, getattr(library, self._free_function), pointer,
                                           (*borrowed, kept))
        # At the exit of the interpreter nothing is freed: daemon threads may still be in the library.
        self._finalizer.atexit = False
        for parent in borrowed:
            with parent._lock:
                parent._children.add(self)

    @property
    def _handle(self) -> Any:
        """The pointer for the library."""
        if not getattr(self, "_finalizer", None) or not self._finalizer.alive:
            raise ValueError(f"the {self._label} is closed")
        return self._pointer

    @property
    def closed(self) -> bool:
        """Whether the memory is free."""
        return not self._finalizer.alive

    def close(self) -> None:
        """Frees the memory, and first that of everything that was made from this object."""
        with self._lock:
            for child in list(self._children):
                child.close()
            self._finalizer()

    def __enter__(self: _H) -> _H:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def new_pointer(kind: Any) -> Any:
    """A place for a handle of this type."""
    return ctypes.POINTER(kind)()
