"""Results of passes and legalization, kept on disk beside the code that is compiled of them.

A process whose code is in the cache needs neither these nor what they import.  A result is under a hash of all that it depends on: the
version of this package, the name and the options of what makes it, and the whole program as bytes, places included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from ...ir.ir_bytes import UnknownBytes, from_bytes, to_bytes
from ...observers import OBSERVERS, span
from ...specialization.digest import digest_of
from .keys import compiler_version
from .store import Store

__all__ = ["ir_result"]

T = TypeVar("T", bound=tuple[Any, ...])

KIND = "ir"
is_enabled = True
"""Tests that replace functions of passes set it to False: the key is of files."""


def ir_result(
    store: Store | None,
    what: str,
    options: object,
    parts: tuple[Any, ...],
    make: Callable[[], T],
) -> T:
    """Result of `make` for programs and modules, from the store if it is there.

    `what`: names the function that `make` is; `options`: all that it depends on but `parts`, with a `repr` of all of it.
    Observers hear of passes, so nothing is taken from the store where there are any.
    """
    if store is None or OBSERVERS or not is_enabled:
        return make()
    try:
        key = digest_of(
            [
                ("compiler", "version", compiler_version().encode()),
                ("what", "name", what.encode()),
                ("options", "repr", repr(options).encode()),
                ("parts", "ir", to_bytes(*parts)),
            ]
        )
    except UnknownBytes:
        return make()
    payload = store.get(key, KIND)
    if payload is not None:
        try:
            with span("read", what):
                return cast(T, from_bytes(payload))
        except UnknownBytes:
            store.discard(key)
    made = make()
    try:
        written = to_bytes(*made)
        copy = from_bytes(written)
    except UnknownBytes:
        return made
    store.put(key, KIND, written)
    return cast(T, copy)  # whose own bytes, which later keys are of, are those in the next process
