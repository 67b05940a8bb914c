"""Walks of an automaton from places where a literal may begin: the program `start_walk`, and what it shares with others.

A walk ends when no match is under way.  A workgroup searches a piece, one start of pattern_grams after the other, and all bytes
from @rests on.  Buffers are those of pattern_walk, and

    @starts      u32[n * capacity]  see pattern_grams, as `capacity`
    @walks       u32[n]             the number of walks of each piece
    @num_starts  u32[n]             the number of starts of each piece
    @rests       u32[n]             see pattern_grams
"""

from __future__ import annotations

from functools import cache

from vyre_opt.ir.builder import Builder
from vyre_opt.ir.program import Program, Value
from vyre_opt.ir.types import DataType

from .pattern_walk import HitReport, TransitionTable

__all__ = ["CandidateWalk", "start_walk"]

MOST_REPEATED = 8
"""Bytes of a long walk that the next one goes through again."""

U32 = DataType.U32


@cache
def start_walk() -> Program:
    """The program; each call returns the same, which must not be changed."""
    b = Builder("start_walk", workgroup=1)
    walk = CandidateWalk(b)
    starts = b.buffer("starts", U32, None, "read", walk.binding)
    num_starts = b.buffer("num_starts", U32, None, "read", 9)
    rests = b.buffer("rests", U32, None, "read", 10)
    first = b.mul(walk.piece, b.param("capacity", U32))
    with b.for_(0, b.load(num_starts, walk.piece), carry=[walk.begin, walk.begin, b.const(0)]) as loop:
        alive, report_start, walks = loop.args
        start = b.load(starts, b.add(first, loop.index))
        with b.if_(b.ge(start, alive)) as new:
            new.yield_(*walk.through(start, start, report_start), b.add(walks, 1))
        with new.else_():
            new.yield_(alive, report_start, walks)
        loop.yield_(*new.results)
    alive, report_start, walks = loop.results
    walk.finish(b.max(alive, b.load(rests, walk.piece)), report_start, walks)
    return b.finish()


class CandidateWalk:
    """Walks of the automaton from candidates, one byte a round, and the buffers that all searches for candidates have."""

    def __init__(self, b: Builder) -> None:
        self.b, self.table = b, TransitionTable(b)
        begins = b.buffer("begins", U32, None, "read", 3)
        self.report = HitReport(b, 4)
        self.binding = 7
        """Binding of the table of candidates."""
        self.walks = b.buffer("walks", U32, None, "write", 8, live_out=True)
        self.piece = b.workgroup_id("x")
        self.begin = b.load(begins, self.piece)
        self.end = b.load(self.report.reports, b.add(b.mul(self.piece, 2), 1))

    def through(self, start: Value, last: Value, report_start: Value) -> tuple[Value, Value]:
        """Walk from `start` while a literal that begins up to `last` may be completed, and report hits from `report_start` on.

        Gives the first position at which a literal begins that was not walked through, and the one from which on hits were
        not reported.
        """
        b = self.b
        with b.while_([start, b.const(0), start, b.const(True, DataType.BOOL)]) as loop:
            loop.condition(b.and_(b.lt(loop.args[0], self.end), loop.args[3]))
            at, state, _, _ = loop.args
            state = self.table.after(state, b.cast(b.load(self.table.data, at), U32))
            with b.if_(b.and_(b.ge(state, self.report.first_accepting), b.ge(at, report_start))):
                self.report.add(self.piece, at, state)
            depth = b.load(self.table.transitions, b.add(state, self.report.classes))
            behind = b.add(at, 1)
            # of long walks the next one repeats little
            goes_on = b.or_(b.lt(at, last), b.gt(depth, b.min(b.sub(at, last), MOST_REPEATED)))
            loop.yield_(behind, state, b.sub(behind, depth), goes_on)
        behind, _, alive, _ = loop.results
        alive = b.select(b.lt(behind, self.end), b.max(alive, b.add(last, 1)), self.end)
        return alive, b.max(report_start, behind)

    def finish(self, start: Value, report_start: Value, walks: Value) -> None:
        """Walk from `start` through all remaining bytes, after `walks` walks."""
        self.through(start, self.end, report_start)
        self.b.store(walks, self.walks, self.piece)
