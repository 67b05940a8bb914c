"""Objects linked into this process: `link` maps pages for one, and a Library has the addresses of its symbols.

Pages are written first and then made code, or read-only; none is ever writable and executable at once.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any
from weakref import ref

from .elf import AARCH64, X86_64, LinkError, read_object
from .layout import Layout

__all__ = ["NO_ADDRESSES", "Library", "LinkError", "can_link", "link"]

_MACHINES = {"x86_64": X86_64, "aarch64": AARCH64}
_READ, _WRITE, _EXECUTE = 1, 2, 4
_PRIVATE, _ANONYMOUS = 2, 0x20
NO_ADDRESSES: Mapping[str, int] = {}
_FAILED = ctypes.c_void_p(-1).value


class Library:
    """Code in memory: addresses by symbol.  It is unloaded after this object has gone."""

    def __init__(self, addresses: Mapping[str, int]) -> None:
        self._addresses = addresses

    def __getitem__(self, symbol: str) -> int:
        return self._addresses[symbol]


_unused: deque[ref[Library]] = deque()
_mapped: dict[int, tuple[ref[Library], int, int]] = {}
"""Address and size of a library's pages, by the id of the reference in it.

They are unmapped at the next link, and not by Python code that runs where a library goes: that swallows the exception of a
signal.  None is unmapped when the process ends, since threads may be in the code still.
"""


def can_link() -> bool:
    """Whether objects for this machine can be linked: on Linux, x86-64 and aarch64."""
    return sys.platform == "linux" and _machine() is not None


def link(object_file: bytes, symbols: Sequence[str], addresses: Mapping[str, int] = NO_ADDRESSES) -> Library:
    """The addresses of symbols of an object, whose code is loaded.  Raises LinkError, and OSError for want of memory.

    `addresses`: of names that the object uses; others are those of the process and its libraries.
    """
    _unmap_unused()
    parts = read_object(object_file)
    if parts.machine != _machine():
        raise LinkError("the object is for another machine")
    layout = Layout(parts, _page_size())
    offsets = {symbol: layout.offset(symbol) for symbol in symbols}
    size = layout.ends[-1]
    base = _map(size)
    try:
        image = layout.image(base, lambda name: addresses.get(name) or _address_of(name))
        ctypes.memmove(base, bytes(image), size)
        start = 0
        for end, access in zip(layout.ends, (_READ | _EXECUTE, _READ, _READ | _WRITE), strict=True):
            if end > start:
                _protect(base + start, end - start, access)
            start = end
        if parts.machine == AARCH64:
            _clear_instruction_cache()(base, base + layout.ends[0])
    except BaseException:
        _libc().munmap(base, size)
        raise
    library = Library({symbol: base + offset for symbol, offset in offsets.items()})
    reference = ref(library, _unused.append)
    _mapped[id(reference)] = reference, base, size
    return library


def _unmap_unused() -> None:
    while True:
        try:
            reference = _unused.popleft()
        except IndexError:
            return
        _, base, size = _mapped.pop(id(reference))
        _libc().munmap(base, size)


@cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    address, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    libc.mmap.restype = address
    libc.mmap.argtypes = [address, size, number, number, number, ctypes.c_int64]
    libc.mprotect.argtypes = [address, size, number]
    libc.munmap.argtypes = [address, size]
    return libc


def _machine() -> int | None:
    return _MACHINES.get(os.uname().machine)


def _page_size() -> int:
    return os.sysconf("SC_PAGESIZE")


def _map(size: int) -> int:
    base = _libc().mmap(None, size, _READ | _WRITE, _PRIVATE | _ANONYMOUS, -1, 0)
    if base == _FAILED:
        raise OSError(ctypes.get_errno(), f"no memory for {size} bytes of code")
    return int(base)


def _protect(base: int, size: int, access: int) -> None:
    if _libc().mprotect(base, size, access):
        raise OSError(ctypes.get_errno(), "pages of code cannot be made executable")


@cache
def _process() -> Any:
    return ctypes.CDLL(None)


def _address_of(name: str) -> int | None:
    """The address of a function or variable of the process and its libraries: libc, libm, threads."""
    try:
        return ctypes.cast(_process()[name], ctypes.c_void_p).value
    except AttributeError:
        return None


@cache
def _clear_instruction_cache() -> Callable[[int, int], object]:
    """Code that was written is data until then, on machines with caches of their own for instructions."""
    try:
        clear: Any = ctypes.CDLL("libgcc_s.so.1")["__clear_cache"]
    except (OSError, AttributeError):
        raise LinkError("no __clear_cache in libgcc_s.so.1") from None
    clear.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    clear.restype = None
    call: Callable[[int, int], object] = clear
    return call
