"""Where matches start whose ends are known, by walks backwards: the program `pattern_starts`.

An invocation walks one match, until nothing that could begin further left is under way.

    @data         u8[?]
    @columns      u32[256]  the column of each byte in a row of the table
    @transitions  u32[?]    the cell where the row of the next state begins, at that of this one + column
    @lags         u32[?]    of each accepting state how many bytes before the walk's position the match starts later
    @ends         u32[n]    the position behind each match
    @entries      u32[n]    the state to begin in, as the cell of its row
    @starts       u32[n]    the lowest position at which the automaton shows a start; that of the end if there is none
    @exits        u32[n]    the state in which the walk came to the first byte of the data, as a cell; 0 if it did not

`first_accepting`: the lowest cell of the row of an accepting state.  `classes`: cells of a row.
"""

from __future__ import annotations

from functools import cache

from ..ir.builder import Builder
from ..ir.program import Program
from ..ir.types import DataType
from .pattern_walk import TransitionTable

__all__ = ["INVOCATIONS", "pattern_starts"]

INVOCATIONS = 64
"""Of a workgroup."""

U32 = DataType.U32


@cache
def pattern_starts() -> Program:
    """The program; each call returns the same, which must not be changed."""
    b = Builder("pattern_starts", workgroup=INVOCATIONS)
    table = TransitionTable(b)
    lags, ends, entries = (
        b.buffer(name, U32, None, "read", 3 + position)
        for position, name in enumerate(("lags", "ends", "entries"))
    )
    starts = b.buffer("starts", U32, None, "write", 6, live_out=True)
    exits = b.buffer("exits", U32, None, "write", 7, live_out=True)
    first_accepting, classes = b.param("first_accepting", U32), b.param("classes", U32)
    invocation = b.global_id("x")
    with b.if_(b.lt(invocation, b.len(ends))):
        end = b.load(ends, invocation)
        with b.while_([end, b.load(entries, invocation), end]) as loop:
            position, cell, _ = loop.args
            loop.condition(b.and_(b.ne(position, 0), b.ne(cell, 0)))
            position, cell, start = loop.args
            position = b.sub(position, 1)
            cell = table.after_byte_at(cell, position)
            with b.if_(b.ge(cell, first_accepting)) as shown:
                number = b.div(b.sub(cell, first_accepting), classes)
                shown.yield_(b.add(position, b.load(lags, number)))
            with shown.else_():
                shown.yield_(start)
            loop.yield_(position, cell, shown.result)
        _, cell, start = loop.results
        b.store(start, starts, invocation)
        b.store(cell, exits, invocation)
    return b.finish()
