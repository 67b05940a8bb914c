"""A small program for every op of the table at every type it takes.

Backends compile and run these one by one: what random programs find by chance, these
find by name.  Every program is sound and gives the same on every target, up to which
NaN it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from vyre_opt.ir import OPS

from .control import control, subgroups
from .maker import OpProgram
from .matrices import matrices
from .memory import accesses, atomics
from .slices import slices
from .values import byte_shuffles, constants, converts, elementwise, ids, selects, vectors

__all__ = ["OpProgram", "op_programs"]


@cache
def op_programs() -> tuple[OpProgram, ...]:
    """All of them, in the order of the table's parts; nobody changes their modules."""
    return tuple(_op_programs())


def _op_programs() -> Iterator[OpProgram]:
    for row in OPS.values():
        if row.format in ("unary", "binary", "ternary", "compare"):
            yield from elementwise(row)
    yield from selects()
    yield from converts()
    yield from vectors()
    yield from byte_shuffles()
    yield from constants()
    yield from ids()
    yield from accesses()
    yield from atomics()
    yield from subgroups()
    yield from matrices()
    yield from slices()
    yield from control()
