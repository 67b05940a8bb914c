"""Walks of an automaton through a tile of bytes in a slab, a chunk by each lane, and on while a match that began in the
chunk may still be completed:

    slab   | chunk 0 | chunk 1 | chunk 2 | ... | chunk lanes-1 | halo |
    lane 0 |<- chunk ->|<- on ->|
    lane 1           |<- chunk ->|<- on ->|

The depth of a state is how many bytes ago what is under way began at most.  A lane that is `overrun` bytes past its chunk
can stop once depth <= overrun: all of it then began after the chunk, so another lane finds the match.  That is after a few
bytes as a rule, and after at most `warmup`.  A match that ends after a chunk may be reported by two lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from vyre_opt.ir.builder import Builder
from vyre_opt.ir.program import Buffer, Value
from vyre_opt.ir.types import DataType
from vyre_opt.kernels.collective import as_type
from vyre_opt.records import dataclass

__all__ = ["ChunkWalk"]

Report = Callable[[Value, Sequence[Value], Value], None]
"""Gets the position of the first of four bytes, the states after each, and whether the lane reports one of them; called for all
lanes of a subgroup at once."""


@dataclass
class ChunkWalk:
    """Walks by an automaton's table.  `table`: u16 or u32, the next state at state * 256 + byte.  `depth`: of each state.

    `slab`: u32 words.  `lanes`: of a workgroup.  `chunk`: bytes of a lane.  `warmup`: bytes before a position that tell the
    state there.  `lane`: the number of this lane.  `first`: the lowest accepting state, to be set before a walk.
    """

    b: Builder
    table: Buffer
    depth: Buffer
    slab: Buffer
    lanes: int
    chunk: int
    warmup: int
    lane: Value
    report: Report
    first: Value = field(init=False)

    def following(self, state: Value, byte: Value) -> Value:
        """The state after `byte`."""
        b = self.b
        return as_type(b, b.load(self.table, b.add(b.mul(state, 256), byte)), DataType.U32)

    def through(self, tile: Value, slab: Value, words: int) -> None:
        """Walk through the lane's chunk of a tile, and on while a match that began there may still be completed.

        The tile has `words` words, with its halo, from `slab` on.
        """
        b, size = self.b, self.chunk // 4
        chunk = b.mul(self.lane, size, name="chunk")
        position = b.add(b.mul(tile, self.lanes * self.chunk), b.mul(chunk, 4), name="position")
        spot = b.add(slab, chunk, name="spot")
        with b.for_(0, size, carry=[b.const(0)]) as loop:
            word = b.load(self.slab, b.add(spot, loop.index))
            loop.yield_(self.step(loop.args[0], word, b.add(position, b.mul(loop.index, 4)), None))
        if not self.warmup:
            return
        state: Value = loop.result
        end = b.add(chunk, size, name="end")
        with b.while_([state, end, self.goes_on(state, b.const(0))]) as on:
            # All lanes stay in the loop until the last is done: `step` ballots over the whole subgroup.
            on.condition(b.ne(b.subgroup_ballot(on.args[2]), 0))
            state, at, goes_on = on.args
            # clamped for lanes that are done, which would run out of the slab
            word = b.load(self.slab, b.add(slab, b.min(at, words - 1)))
            word_index = b.add(position, b.mul(b.sub(at, chunk), 4))
            state, at = self.step(state, word, word_index, goes_on), b.add(at, 1)
            overrun = b.mul(b.sub(at, end), 4)
            on.yield_(state, at, b.and_(goes_on, self.goes_on(state, overrun)))

    def goes_on(self, state: Value, overrun: Value) -> Value:
        """Whether a match that began before the last `overrun` bytes may still be completed."""
        b = self.b
        deeper = b.gt(b.cast(b.load(self.depth, state), DataType.U32), overrun)
        return b.and_(deeper, b.lt(overrun, self.warmup))

    def step(self, state: Value, word: Value, position: Value, counts: Value | None) -> Value:
        """The state after the four bytes of `word`, the first at index `position`.

        Hits are reported by lanes where `counts` holds (None: by all).
        """
        b, first, states, hits = self.b, self.first, [], []
        for k in range(4):
            byte = b.and_(b.shr(word, 8 * k) if k else word, 0xFF)
            state = self.following(state, byte)
            states.append(state)
            hits.append(b.ge(state, first))
        hit = b.or_(b.or_(hits[0], hits[1]), b.or_(hits[2], hits[3]))
        if counts is not None:
            hit = b.and_(hit, counts)
        # Hits are rare: one uniform branch for four bytes of 32 lanes.
        with b.if_(b.ne(b.subgroup_ballot(hit), 0)):
            self.report(position, states, hit)
        return state
