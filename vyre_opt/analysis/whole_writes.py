"""Buffers that a launch surely writes from the first element to the last, so that what they held before is gone.

Two forms are known, which most programs have that map elements:

    store %v, @y[%g]                                     each invocation writes the element of its number, under
                                                         conditions `lt %g, N`, an `and` of such, or none
    for %i = %g to N step %s { store %v, @y[%i] }        all invocations together stride over the elements

%g is `global_id x`, %s `global_size x`, and N a constant or the `len` of a buffer, so that where a launch comes to the
end, the elements below all its bounds are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..ir import loops
from ..ir.program import Block, Op, Program, Value

__all__ = ["WholeWrite", "whole_writes", "wholly_written"]

MAX_ELEMENTS = (1 << 32) - 1
"""Ids and lengths are numbers of 32 bits in programs."""


@dataclass(frozen=True, slots=True)
class WholeWrite:
    """The elements of a buffer below all of its bounds are written, and nothing of it is read.

    `bounds`: constants, and names of buffers for their lengths.  `invocations`: of a workgroup along x, if each writes
    one element; None if they stride over all.
    """

    bounds: frozenset[int | str]
    invocations: int | None

    def covers(self, count: int, workgroups: int, counts: Mapping[str, int]) -> bool:
        """Whether all of `count` elements are written by a launch of so many workgroups along x.

        `counts`: the lengths of the buffers, by name.
        """
        ends = [bound if isinstance(bound, int) else counts[bound] for bound in self.bounds]
        if self.invocations is not None:
            ends.append(self.invocations * workgroups)
        return count <= min([MAX_ELEMENTS, *ends])


def whole_writes(program: Program) -> dict[str, list[WholeWrite]]:
    """The forms found, by the buffer that they write.  A buffer that is also read, or of atomics, has none."""
    writes: dict[str, list[WholeWrite]] = {}
    for store, around in _stores(program.body, ()):
        write = _whole_write(program, store, around)
        if write is not None:
            writes.setdefault(store.attrs["buffer"], []).append(write)
    for op in program.walk():
        if "buffer" in op.attrs and op.name not in ("store", "len"):
            writes.pop(op.attrs["buffer"], None)
    return writes


def wholly_written(
    writes: Mapping[str, Sequence[WholeWrite]], grid: Sequence[int], counts: Mapping[str, int]
) -> set[str]:
    """The buffers of a program that a launch writes whole; a grid without workgroups writes none.

    `writes`: its `whole_writes`; `grid`: workgroups along x, y, z; `counts`: the lengths of all its buffers.
    """
    if 0 in grid:
        return set()
    return {
        name
        for name, forms in writes.items()
        if any(form.covers(counts[name], grid[0], counts) for form in forms)
    }


def _stores(block: Block, around: tuple[Op, ...]) -> Iterator[tuple[Op, tuple[Op, ...]]]:
    """Stores with the ops around them, where these are regions, loops and the first arms of ifs."""
    for op in block.ops:
        if op.name == "store":
            yield op, around
        elif op.name in ("if", "for", "region"):
            yield from _stores(op.regions[0], (*around, op))


def _whole_write(program: Program, store: Op, around: tuple[Op, ...]) -> WholeWrite | None:
    buffer = program.buffers[store.attrs["buffer"]]
    if buffer.dimensions > 1:
        return None
    index = store.index
    if buffer.is_workgroup or store.operands[0].type is not buffer.dtype:
        return None
    loop = next((op for op in around if op.name == "for" and op.regions[0].args[0] is index), None)
    if loop is None and not _is_id(index, "global_id"):
        return None
    limits = set[int | str]()
    for op in around:
        if op.name == "region":
            continue
        if op is loop:
            bounds = [_stride_bound(op)]
        elif op.name == "if" and loop is None:
            bounds = _condition_bounds(op.operands[0])
        else:
            return None  # a loop that may run no round, a condition that some invocations' rounds depend on
        for bound in bounds:
            if bound is None:
                return None
            limits.add(bound)
    return WholeWrite(frozenset(limits), program.workgroup[0] if loop is None else None)


def _bound(value: Value | int) -> int | str | None:
    """A constant as it is, the length of a buffer as its name."""
    if isinstance(value, int):
        return value
    op = value.owner
    if isinstance(op, Op) and op.name == "const":
        return int(op.attrs["value"])
    return str(op.attrs["buffer"]) if isinstance(op, Op) and op.name == "len" else None


def _condition_bounds(condition: Value) -> list[int | str | None]:
    """The bounds of `lt %g, bound`, or of an `and` of such; None among them for a condition of another kind."""
    op = condition.owner
    if isinstance(op, Op) and op.name == "and":
        return [bound for operand in op.operands for bound in _condition_bounds(operand)]
    if isinstance(op, Op) and op.name == "lt" and _is_id(op.operands[0], "global_id"):
        return [_bound(op.operands[1])]
    return [None]


def _stride_bound(loop: Op) -> int | str | None:
    """The upper bound of `for %i = %g to bound step %s`."""
    lower, upper, step = loops.bounds(loop)
    strides = isinstance(lower, Value) and _is_id(lower, "global_id")
    strides = strides and isinstance(step, Value) and _is_id(step, "global_size")
    return _bound(upper) if strides else None


def _is_id(value: Value, name: str) -> bool:
    op = value.owner
    return isinstance(op, Op) and op.name == name and op.attrs["axis"] == "x"
