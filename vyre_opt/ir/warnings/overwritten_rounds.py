"""Stores of a loop of which the last round alone stays.

    for %k = 0 to %n step 32 {
      %p = slice_dot (slice_load @a[%i, %k]), (slice_load @b[%k, %j])
      slice_store %p, @c[%i, %j]             each round stores what the round before it stored
    }

A value that a loop carries, `total += ...`, may be stored in each round, which gives the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..diagnostics import Diagnostic, source_text, spelling_at
from ..loops import trip_count
from ..program import Block, Op, Program, Value

__all__ = ["overwritten_rounds"]

_MOST_TERMS = 200
"""Ops of a value or an index that are looked at."""


def overwritten_rounds(program: Program) -> Iterator[Diagnostic]:
    """The first warning of a program, if it has such a loop."""
    for loop in program.walk():
        trips = trip_count(loop) if loop.name == "for" else 0
        body = loop.regions[0] if loop.name == "for" else Block()
        stores = [op for op in body.ops if op.name in ("store", "slice_store")]
        if not stores or (trips is not None and trips < 2):
            continue
        inner = [*body.walk()]
        blocks = {body, *(block for op in inner for block in op.regions)}
        touched = Counter(op.attrs["buffer"] for op in inner if "buffer" in op.attrs)
        ordered = any(op.definition.effects & {"sync", "atomic", "subgroup"} for op in inner)
        for op in stores:
            buffer = program.buffers[op.attrs["buffer"]]
            is_alone = touched[buffer.name] == 1 and not buffer.is_on_chip and not ordered
            if (
                is_alone
                and not _args(op.indices, blocks)
                and _args(op.operands[:1], blocks) == {body.args[0]}
            ):
                yield _overwritten(op, loop)
                return


def _args(values: tuple[Value, ...], blocks: set[Block]) -> set[Value]:
    """Arguments of blocks that values are computed from; all of them where that is not seen."""
    found, pending, seen = set[Value](), [*values], set[Value]()
    for _ in range(_MOST_TERMS):
        if not pending:
            return found
        value = pending.pop()
        owner = value.owner
        if value in seen:
            continue
        seen.add(value)
        if isinstance(owner, Block) and owner in blocks:
            found.add(value)
        elif isinstance(owner, Op):
            if owner.regions and any(block in blocks for block in owner.regions):
                return {arg for block in blocks for arg in block.args} | {value}
            pending += owner.operands
    return {arg for block in blocks for arg in block.args} | {*values}


def _overwritten(op: Op, loop: Op) -> Diagnostic:
    spelling, dtype = spelling_at(op.loc), op.operands[0].type
    text = source_text(op.loc)
    shown = spelling.target(text) or spelling.buffer(op.attrs["buffer"])
    message = f"each round of this loop stores to {shown}, and what the last one stores stays"
    zero = "0.0" if dtype.element.is_float else "0"
    if dtype.is_slice:
        extents = ", ".join(map(str, dtype.extents))
        zero = f"vyre.zeros(({extents}{',' * (len(dtype.extents) == 1)}), {dtype.element})"
    help = "add up in a value that the loop carries, and store that behind it"
    value = text.partition(" = ")[2]
    if spelling.name == "PYTHON" and value and None not in dtype.extents:
        help = f"for the sum of all rounds write total = {zero} before the loop, total += {value} in it, and {shown} = total behind it"
    return Diagnostic("warning", message, op.loc, help=help).note("the loop is here", loop.loc)
