"""Cluster buffers of rows, each loaded only by the workgroup that owns it.

    %number = rem %workgroup_id_x, 16               a cluster of 16; @inbox has 16 x 640 elements
    %v = load @inbox[%number * 640 + %i]            where %i is at most 639
    store %v, @inbox[%owner * 640 + %number * 40]   of any row

Of such a buffer a workgroup needs the row with its number, and a store goes to one workgroup.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...analysis.affine import AffineExpr, Symbol
from ...analysis.bounds import BoundsProofs
from ...ir.program import Buffer, Op, Program, Value
from ...ir.rewrite import constant_value
from .abi import ALIGNMENT

__all__ = ["owned_row", "column_in_row"]

WORKGROUP_ID = "workgroup_id.x"  # the name of its symbol


def owned_row(
    program: Program, buffer: Buffer, workgroups: int, accesses: Sequence[Op], proofs: BoundsProofs
) -> int:
    """The elements of a row, if each of `accesses`, all loads and stores of the buffer, surely is in one row, loads in that of
    their workgroup; 0 if not.  Buffers have one dimension by then (see lowering/common/row_major.py)."""
    row, remainder = divmod(buffer.count or 0, workgroups)
    if (
        remainder
        or row * (buffer.dtype.size_bytes or 0) % ALIGNMENT
        or not any(op.results for op in accesses)
    ):
        return 0
    for op in accesses:
        proof = proofs.proven.get(op)
        if proof is None or len(op.indices) != 1 or op.name not in ("load", "store"):
            return 0
        dtype = op.results[0].type if op.name == "load" else op.operands[0].type
        width = dtype.lanes // buffer.dtype.lanes
        # of a buffer that had several dimensions no more is known than that it was checked, or was not to be
        index = proof[0].index if proof else proofs.forms.expr(op.indices[0])
        low, high = index.range()
        if not proof and (low < 0 or high + width > row * workgroups):
            return 0
        column = column_in_row(index, row, width)
        # an access is `ahead` of a base that it shares with others
        _, ahead = proofs.bases.get(op, {}).get(-1, (None, 0))
        if column is None or column.range()[0] < ahead:
            return 0
        if op.name == "load" and not _is_own(program, index - column, row, workgroups):
            return 0
    return row


def column_in_row(index: AffineExpr, row: int, width: int) -> AffineExpr | None:
    """Column at which an access of `width` begins in its row of `length` elements; None unless all of it surely is in one row.

    `index` less this is `row` times the number of the row.
    """
    column = AffineExpr(index.const % row, {symbol: factor % row for symbol, factor in index.terms.items()})
    low, high = column.range()
    return column if low >= 0 and high + width <= row else None


def _is_own(program: Program, start: AffineExpr, row: int, workgroups: int) -> bool:
    """Whether the row that begins there is that with the number of the workgroup in its cluster."""
    symbol = next(iter(start.terms), None)
    return (
        symbol is not None
        and start == AffineExpr(0, {symbol: row})
        and _is_number(program, symbol, workgroups)
    )


def _is_number(program: Program, symbol: Symbol, workgroups: int) -> bool:
    if program.grid == (workgroups, 1, 1) and symbol.name == WORKGROUP_ID:
        return True
    value = symbol.identity
    op = value.owner if isinstance(value, Value) else None
    if not isinstance(op, Op) or op.name not in ("rem", "and") or not _is_workgroup_id(op.operands[0]):
        return False
    factor = constant_value(op.operands[1])
    if op.name == "rem":
        return bool(factor == workgroups)
    return bool(factor == workgroups - 1 and workgroups & factor == 0)


def _is_workgroup_id(value: Value) -> bool:
    op = value.owner
    return isinstance(op, Op) and op.name == "workgroup_id" and op.attrs["axis"] == "x"
