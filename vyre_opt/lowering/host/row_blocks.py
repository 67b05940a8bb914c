"""Rows that run together, so that what loops load for all of them is loaded once, see row_emitter.py.

for %k = 0 to %n step 1 iter(%t = 0.0) {
  %a = load @a[%i * %n + %k]                 one element for a row
  %b = load @b[%k * %m + %j]                 a vector, the same for all rows
  ...
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from math import gcd

from ...ir.loops import bounds
from ...ir.ops import SUBGROUP_SIZE
from ...ir.program import Block, Op, Program, Value
from ...records import dataclass
from .lane_facts import LaneFacts
from .outline import is_heavy

__all__ = ["RowBlocks", "may_repeat", "row_blocks"]

MOST_ROWS = 8
MOST_OPS = 64
"""Most ops of a program whose body is written for several rows."""

REGISTERS = {64: 32}
"""Vector registers, by their bytes; 16 where they are shorter."""


@dataclass(frozen=True, slots=True)
class RowBlocks:
    """`rows`: so many run together.  `varying`: values that may differ from row to row."""

    rows: int
    varying: Container[Value]


def row_blocks(
    program: Program, facts: LaneFacts, row_ids: Sequence[str], height: int, register_bytes: int
) -> RowBlocks | None:
    """The rows of a workgroup, with so many beside each other along y, that run together; None where nothing is gained.

    `row_ids`: the params that are equal in a row.  Values that loops carry for all lanes may take half of the registers.
    """
    ops = [*program.walk()]
    loops = [op for op in ops if op.name == "for"]
    if len(ops) > MOST_OPS or any(map(is_heavy, ops)) or not all(map(_is_plain, ops)) or not may_repeat(ops):
        return None
    varying: set[Value] = set()
    _add_varying(program.body, row_ids, varying)
    limits = (bound for loop in loops for bound in bounds(loop))
    if any(map(facts.diverges, loops)) or not varying.isdisjoint(b for b in limits if isinstance(b, Value)):
        return None
    inside = [op for loop in loops for op in loop.regions[0].walk()]
    if not any(
        op.name == "load" and facts.stride(op.index) == 1 and op.index not in varying for op in inside
    ):
        return None
    carried_values = [arg for loop in loops for arg in loop.regions[0].args if facts.stride(arg) is None]
    size = sum(SUBGROUP_SIZE * (arg.type.bits or 0) // 8 for arg in carried_values)
    max_rows = register_bytes * REGISTERS.get(register_bytes, 16) // 2 // max(size, 1)
    rows = gcd(height, MOST_ROWS, 1 << max(0, max_rows.bit_length() - 1))
    return RowBlocks(rows, varying) if rows > 1 else None


def may_repeat(ops: Sequence[Op]) -> bool:
    """Whether an invocation is idempotent: running it twice leaves the same memory as running it once."""
    if any(op.definition.format == "atomic" for op in ops):
        return False
    loaded_buffers, stored_buffers = (
        {op.attrs["buffer"] for op in ops if op.name == name} for name in ("load", "store")
    )
    return loaded_buffers.isdisjoint(stored_buffers)


def _is_plain(op: Op) -> bool:
    if op.name == "if" or op.definition.format == "atomic":
        return False
    return not any(value.type.is_vec for value in (*op.operands, *op.results))


def _add_varying(block: Block, row_ids: Sequence[str], varying: set[Value]) -> None:
    """Collect the values that may differ from row to row."""
    for op in block.ops:
        if op.regions:
            (body,) = op.regions
            carried = body.args[len(body.args) - len(op.results) :]
            before = -1
            while len(varying) > before:
                before = len(varying)
                inits = op.operands[len(op.operands) - len(carried) :]
                ends = body.terminator.operands if body.terminator is not None else ()
                for sources in (inits, ends):
                    varying.update(a for a, s in zip(carried, sources, strict=False) if s in varying)
                _add_varying(body, row_ids, varying)
            varying.update(r for r, arg in zip(op.results, carried, strict=True) if arg in varying)
        elif op.attrs.get("param") in row_ids or not varying.isdisjoint(op.operands):
            varying.update(op.results)
