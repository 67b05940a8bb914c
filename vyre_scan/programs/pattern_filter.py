"""A search for literals that looks for their first bytes in vectors: the program `pattern_filter`.

The literals are in eight groups.  For each of the first POSITIONS bytes a table has, by the byte's low six bits, the
groups in which some literal has such a byte there.  Where a group is left after all positions, a literal may begin, and
the automaton walks from there until no match is under way:

    data             x   n e e d l e
    @filter[0, 'n']      0 0 0 0 1 1 0 0      groups of literals that begin with n, or another byte like it
    @filter[1, 'e']        1 0 0 0 1 0 0 0
    all of them                  1            group 4: walk

It is what the Teddy algorithm of Hyperscan does (X. Wang et al., "Hyperscan: A Fast Multi-pattern Regex Matcher for Modern
CPUs", 2019), with tables of 64 entries in the place of two of 16, and a walk in the place of its comparisons.

A workgroup searches one piece, from the automaton's state 0 on, in which nothing is under way.  Buffers are those of
pattern_walk, and

    @filter  u8[POSITIONS * 64]
    @walks   u32[n]  how often each piece's search had to walk

A piece ends behind the last byte whose hits are reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, reduce

from vyre_opt.ir.builder import Builder
from vyre_opt.ir.program import Program, Value
from vyre_opt.ir.types import DataType

from .start_walk import CandidateWalk

__all__ = ["ENTRIES", "POSITIONS", "pattern_filter"]

POSITIONS, ENTRIES = 8, 64
REACH = 64 + POSITIONS - 1
"""Bytes that a look at 64 positions needs."""

U8, U32 = DataType.U8, DataType.U32


@cache
def pattern_filter() -> Program:
    """The program; each call returns the same, which must not be changed."""
    b = Builder("pattern_filter", workgroup=1)
    walk = CandidateWalk(b)
    table = b.buffer("filter", U8, POSITIONS * ENTRIES, "read", walk.binding)
    tables = [b.load(table, position * ENTRIES, ENTRIES) for position in range(POSITIONS)]
    with b.while_([walk.begin, walk.begin, b.const(0)]) as loop:
        loop.condition(b.le(b.add(loop.args[0], REACH), walk.end))
        at, report_start, walks = loop.args
        mask = b.movemask(b.ne(_candidates(b, at, tables), 0))
        with b.if_(b.ne(mask, 0)) as candidate:
            start = b.add(at, b.cast(b.ctz(mask), U32))
            candidate.yield_(*walk.through(start, start, report_start), b.add(walks, 1))
        with candidate.else_():
            candidate.yield_(b.add(at, ENTRIES), report_start, walks)
        loop.yield_(*candidate.results)
    walk.finish(*loop.results)
    return b.finish()


def _candidates(b: Builder, at: Value, tables: Sequence[Value]) -> Value:
    """Groups that are left for each of 64 positions from `at` on."""

    def groups(position: int) -> Value:
        data = b.load("data", b.add(at, position), ENTRIES)
        return b.permute(tables[position], b.and_(data, ENTRIES - 1))

    return reduce(b.and_, map(groups, range(POSITIONS)))
