"""The kernels of natural_kernels by other libraries, a module for each, written as the library's own pages do.

A function has the name of its kernel and takes the same arguments.  It writes the last, or returns the result where the
library makes an array of its own; a kernel that a library has no plain way for is not there.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from call_timing import Side


@dataclass(frozen=True, slots=True)
class Peer:
    """A library that is installed.  `kernels`: its module here."""

    name: str
    version: str
    kernels: ModuleType

    def function(self, kernel: str) -> Callable[..., Any] | None:
        function: Callable[..., Any] | None = getattr(self.kernels, kernel, None)
        return function

    def arrays(self, arguments: list[Any], side: Side) -> list[Any]:
        """What its functions take: arrays of the library where it has its own, otherwise those of the side."""
        array = getattr(self.kernels, "array", None)
        if array is None:
            return side.arrays(arguments)
        return [array(a) if hasattr(a, "shape") else a for a in arguments]


def installed(names: Iterable[str]) -> tuple[list[Peer], list[str]]:
    """The libraries of these names that can be imported, and what is said of the others."""
    peers, absent = [], []
    for name in names:
        try:
            module = importlib.import_module(f"{__name__}.{name}")
            peers.append(Peer(name, importlib.import_module(name).__version__, module))
        except ImportError as error:
            absent.append(f"{name}: {error}")
    return peers, absent
