"""Facts of the analyses about a value or an access: ranges, affine forms, the elements of a workgroup."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from ..analysis.affine import AffineExpr, SymbolKind
from ..analysis.footprint import Footprints, MemoryAccess
from ..ir.program import Op, Program, Value

__all__ = ["access_facts", "buffer_facts", "value_facts"]


@lru_cache(maxsize=16)
def _footprints(program: Program) -> Footprints:
    return Footprints(program)


def value_facts(program: Program, value: Value) -> Iterator[str]:
    """The range of an integer and its affine form, as far as they are known.  The program is one that verifies."""
    if not value.type.is_int:
        return
    affine = _footprints(program).affine
    expr = affine.form(value)
    low, high = affine.ranges.get(value, (None, None))
    if expr is not None:
        low, high = expr.range() if low is None else (low, high)
        exact = "" if affine.exact(value) is not None else f", modulo 2^{value.type.bits}"
        yield f"affine form: `{expr}`{exact}"
    if low is not None and high is not None:
        yield f"range: {low} to {high}"


def access_facts(program: Program, op: Op) -> Iterator[str]:
    """Elements that a load, a store or an atomic touches, and how many of them a workgroup does."""
    for event in _footprints(program).events:
        if isinstance(event, MemoryAccess) and event.op is op:
            yield from _access(event)


def buffer_facts(program: Program, name: str) -> Iterator[str]:
    """All accesses of a buffer."""
    for access in _footprints(program).accesses(name):
        yield next(_access(access))


def _access(access: MemoryAccess) -> Iterator[str]:
    if not isinstance(access.index, AffineExpr):
        yield f"`{access.describe()}`: the index has no affine form, {access.index.reason}"
        return
    elements = access.elements()
    count = "" if elements is None else f"; {_elements(len(elements))} of a workgroup"
    each = " in each iteration" if access.loops and elements is not None else ""
    yield f"`{access.describe()}`{count}{each}"
    if elements is not None and elements and access.dimensions == 1:
        base = access.index.terms_of(SymbolKind.GROUP, SymbolKind.LOOP)
        yield f"footprint: elements {elements}{f', from `{base}` on' if base.terms else ''}"


def _elements(count: int) -> str:
    return f"{count} element{'s' * (count != 1)}"
