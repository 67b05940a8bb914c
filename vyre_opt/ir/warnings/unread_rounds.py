"""Tiles that the last round of a loop fills, and that nobody reads.

    store %first, @t[0, %l]
    for %k = 1 to %n iter(%s = 0.0) {
      store (load @x[%k, %l]), @t[%k % 2, %l]        fills a half, and adds up the one that the round before has filled:
      barrier workgroup                              the last one is in no sum
      %v = load @t[(%k + 1) % 2, %mirror]

The first workgroup is run, with lengths of some rounds.  Told are elements that are loaded for nothing else, in a loop that adds up; a
store to another array in it may be late by a round on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..diagnostics import Diagnostic, source_text, spelling_at
from ..program import Op, Program, Value
from .invocation_runs import MOST_LANES, Lanes, Run, Supposed, moved_width
from .touched_elements import Place

__all__ = ["unread_rounds"]

_MOST_TERMS = 50
"""Ops of a value that are looked at."""
_TIMES = 4
"""Workgroups of elements that arrays have, so that loops have some rounds."""


def unread_rounds(program: Program) -> Iterator[Diagnostic]:
    """The warnings of a program, one for each such loop."""
    users: dict[Value, list[Op]] = {}
    for op in program.walk():
        for operand in op.operands:
            users.setdefault(operand, []).append(op)
    candidates = [
        (loop, op, load)
        for loop in program.walk()
        if loop.name == "for" and loop.results and _adds_up(program, loop)
        for op in loop.walk()
        if _is_tile(program, op) and (load := _only_load(op, users)) is not None
    ]
    if not candidates or program.lanes > MOST_LANES:
        return
    run = _Rounds(program)
    run.run()
    for loop, store, load in candidates if run.left >= 0 else ():
        if run.is_unread(store) and run.is_own(load, len(run.stored[store])):
            yield _unread(loop, store, load)
            return


def _adds_up(program: Program, loop: Op) -> bool:
    """Whether a loop changes nothing but what it carries, and tiles."""
    changes = (op for op in loop.walk() if op.definition.effects & {"write", "atomic"})
    return all(_is_tile(program, op) for op in changes)


def _is_tile(program: Program, op: Op) -> bool:
    return op.name == "store" and program.buffers[op.attrs["buffer"]].is_on_chip


def _only_load(store: Op, users: dict[Value, list[Op]]) -> Op | None:
    """The load whose value a store is of, and that nothing else uses."""
    pending, loads, seen = [store.operands[0]], list[Op](), set[Op]()
    for _ in range(_MOST_TERMS):
        if not pending:
            break
        op = pending.pop().owner
        if isinstance(op, Op) and op.name == "load":
            loads.append(op)
        elif isinstance(op, Op) and op.definition.is_pure and not op.regions:
            pending += op.operands
        else:
            return None
        seen.add(op)
    is_own = len(loads) == 1 and not pending and {*users[loads[0].result]} <= {store, *seen}
    return loads[0] if is_own else None


class _Rounds(Run):
    """A run of the first workgroup.  `stored`: whether somebody reads what a store to a tile stores, for each time that it runs; `read`: the
    elements of each load of an array, for each time; `tiles`: buffers of the workgroup; `unsure`: those of which not all accesses are known."""

    rounds = 2 * _TIMES

    def __init__(self, program: Program) -> None:
        super().__init__(program, Supposed(times=_TIMES))
        self.tiles = {b.name for b in program.buffers.values() if b.is_on_chip and not b.is_cluster}
        self.stored: dict[Op, list[bool]] = {}
        self.read: dict[Op, list[set[Place]]] = {}
        self.unsure: set[str] = set()
        self.met: set[Op] = set()
        self.holders: dict[tuple[str, Place], tuple[Op, int]] = {}

    def leave(self, op: Op) -> None:
        self.unsure |= {inner.attrs["buffer"] for inner in op.walk() if "buffer" in inner.attrs}

    def op(self, op: Op, lanes: Lanes) -> None:
        super().op(op, lanes)
        if "buffer" in op.attrs and op.name not in ("load", "store", "len"):
            self.unsure.add(op.attrs["buffer"])

    def access(self, op: Op, lanes: Lanes) -> None:
        name, columns = op.attrs["buffer"], [self.column(index) for index in op.indices]
        if lanes is None or None in columns:
            self.unsure.add(name)
            return
        places = {place for _, place in self.elements(columns, lanes, moved_width(self.program, op))}
        self.met.add(op)
        if name not in self.tiles:
            self.read.setdefault(op, []).append(places)
        elif op.name == "store":
            times = self.stored.setdefault(op, [])
            self.holders.update(((name, place), (op, len(times))) for place in places)
            times.append(False)
        else:
            for holder in {self.holders.get((name, place)) for place in places}:
                if holder is not None:
                    self.stored[holder[0]][holder[1]] = True

    def is_unread(self, store: Op) -> bool:
        """Whether nobody reads what the last round of a store has stored, and somebody does what all before have."""
        name, times = store.attrs["buffer"], self.stored.get(store, [])
        # one that no invocation comes to may read it with other lengths
        loads = [op for op in self.program.walk() if op.name == "load" and op.attrs["buffer"] == name]
        if name in self.unsure or not self.met.issuperset(loads):
            return False
        return len(times) > 1 and all(times[:-1]) and not times[-1]

    def is_own(self, load: Op, count: int) -> bool:
        """Whether a load that runs so many times has elements in the last one which no other has."""
        name, times = load.attrs["buffer"], self.read.get(load, [])
        others = [
            places
            for op, each in self.read.items()
            if op.attrs["buffer"] == name
            for places in (each[:-1] if op is load else each)
        ]
        return (
            name not in self.unsure
            and len(times) == count
            and bool(times[-1])
            and times[-1].isdisjoint(set().union(*others))
        )


def _unread(loop: Op, store: Op, load: Op) -> Diagnostic:
    spelling = spelling_at(store.loc)
    shown = source_text(load.loc) if spelling.name == "PYTHON" else spelling.buffer(load.attrs["buffer"])
    tile = spelling.buffer(store.attrs["buffer"])
    message = (
        f"what the last round stores to {tile} here nobody reads, so {shown} of that round is in no result"
    )
    help = f"read {tile} once more behind the loop, behind {spelling.barrier('workgroup')}, or let a round read what it stores"
    return Diagnostic("warning", message, store.loc, help=help).note("the loop is here", loop.loc)
