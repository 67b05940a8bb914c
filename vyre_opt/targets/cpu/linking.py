"""Object code in this process: linked, and called.

On Linux the linker of this package does it, and LLVM, where it has another format or what that linker does not know.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence

from ...linker import library as own_linker
from ...linker.library import NO_ADDRESSES, Library, LinkError
from ...worker import import_module

__all__ = ["NO_ADDRESSES", "Library", "LoadedFunction", "link", "load"]


class LoadedFunction:
    """A function of a library, which stays loaded with it.  For its parameters see lowering.host."""

    def __init__(self, library: Library, symbol: str) -> None:
        self.library = library
        self.address = library[symbol]
        signature = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
        )
        self.call: Callable[..., None] = signature(self.address)


def link(object_file: bytes, symbols: Sequence[str], addresses: Mapping[str, int] = NO_ADDRESSES) -> Library:
    """Link an object file into this process.

    `addresses`: of names that it uses and that the process does not have for all of its libraries.
    """
    if own_linker.can_link():
        try:
            return own_linker.link(object_file, symbols, addresses)
        except LinkError:
            pass
    import_module(f"{__package__}.jit")
    from . import jit

    return jit.link(object_file, symbols, addresses)


def load(object_file: bytes, symbol: str) -> LoadedFunction:
    """A function of an object file."""
    return LoadedFunction(link(object_file, [symbol]), symbol)
