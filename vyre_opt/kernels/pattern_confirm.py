"""All ends of matches that begin at known positions: the program `pattern_confirm`.

An invocation walks from one position on, until nothing is under way, or to the end of what it reports.  Buffers are those of
pattern_walk, a position for a piece:

    @begins  u32[n]  the position of the first byte
    @exits   u32[n]  the state in which the walk came to the end of what it reports, as a cell; 0 if it did not
"""

from __future__ import annotations

from functools import cache

from ..ir.builder import Builder
from ..ir.program import Program
from ..ir.types import DataType
from .pattern_walk import HitReport, TransitionTable

__all__ = ["INVOCATIONS", "pattern_confirm"]

INVOCATIONS = 64
"""Of a workgroup."""

U32 = DataType.U32


@cache
def pattern_confirm() -> Program:
    """The program; each call returns the same, which must not be changed."""
    b = Builder("pattern_confirm", workgroup=INVOCATIONS)
    table = TransitionTable(b)
    begins = b.buffer("begins", U32, None, "read", 3)
    report = HitReport(b, 4)
    entries = b.buffer("entries", U32, None, "read", 7)
    exits = b.buffer("exits", U32, None, "write", 8, live_out=True)
    invocation = b.global_id("x")
    with b.if_(b.lt(invocation, b.len(begins))):
        end = b.load(report.reports, b.add(b.mul(invocation, 4), 1))
        with b.while_([b.load(begins, invocation), b.load(entries, invocation)]) as loop:
            loop.condition(b.and_(b.lt(loop.args[0], end), b.ne(loop.args[1], 0)))
            position, cell = loop.args
            cell = table.after_byte_at(cell, position)
            with b.if_(b.ge(cell, report.first_accepting)):
                report.add(invocation, position, cell)
            loop.yield_(b.add(position, 1), cell)
        b.store(loop.results[1], exits, invocation)
    return b.finish()
