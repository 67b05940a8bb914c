"""Elements of workgroup memory that are read, and that no invocation stores, found by running the indices of one workgroup.

    store %v, @t[%l]                  %l = local_id x, in a workgroup of 64; @t has 65 elements
    barrier workgroup
    %r = load @t[%next]               %next = add %l, 1: nobody stores @t[64]

    for %k = 0 to %n {                nobody stores @t[0, ...] before the first round reads it
      store %v, @t[%odd, %l]          %odd = rem (add %k, 1), 2
      barrier workgroup
      %r = load @t[%even, %mirror]    %even = rem %k, 2

A store behind a condition that is not known counts as one of all that may come to it; a load does so only behind a bound of a whole
array, `lt %i, %n`.  Of a loop of which the rounds are not known the first one is run, and then its buffers are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..diagnostics import Diagnostic, spelling_at
from ..loops import bounds, inits
from ..program import Block, Buffer, Op, Program, Value
from ..uniformity import Level, Uniformity
from .data_conditions import Assumption
from .invocation_runs import MOST_LANES, MOST_STEPS, ONE_GROUP, Column, Lanes, Run, moved_width
from .touched_elements import Around, Place

__all__ = ["is_used", "unstored_elements"]

_MOST_TERMS = 50
"""Ops of a bound, or uses of an element, that are looked at."""
_ANY_WAY = Assumption(frozenset(), Level.GRID)
"""Fact of a condition that lets anyone pass."""


def unstored_elements(program: Program) -> Iterator[Diagnostic]:
    """The warnings of loads of a program, the first of each buffer."""
    buffers = {
        b.name: b
        for b in program.buffers.values()
        if b.is_on_chip and not b.is_cluster and b.count is not None and None not in b.shape
    }
    ops = [*program.walk()] if buffers else []
    stored = {op.attrs["buffer"] for op in ops if op.definition.format == "store" and "buffer" in op.attrs}
    for op in ops:
        for name in (op.attrs.get("buffer"), *op.attrs.get("buffers", ())):
            if op.definition.format not in ("load", "store", "atomic", "len") or op.name == "copy_async":
                stored.discard(name)
    stored &= buffers.keys()
    if not stored or program.lanes > MOST_LANES:
        return
    run = _Stores(program, stored)
    run.run()
    unsure = run.unsure if run.left >= 0 else stored
    for name in sorted(stored):
        buffer = buffers[name]
        for op, places in run.loads.get(name, {}).items():
            never = set() if name in unsure else places - run.stored.get(name, set())
            early = run.early.get(op, set())
            missing = sorted(p for p in never or early if _is_inside(p, buffer))
            if missing and is_used(op, program):
                store = run.first.get(name) or next(each for each in ops if _stores_to(each, name))
                yield _unstored(program, buffer, op, missing, store, not never)
                break


def _stores_to(op: Op, name: str) -> bool:
    return op.name == "store" and op.attrs["buffer"] == name


class _Stores(Run):
    """A run of the first workgroup.  `stored`: the elements of each buffer that stores and atomics may be to; `loads`: those of each load;
    `early`: of these, the ones that nothing stores before; `first`: a store of each buffer; `unsure`: buffers of which there may be more
    stores."""

    rounds = 1 << 10

    def __init__(self, program: Program, names: set[str]) -> None:
        super().__init__(program, ONE_GROUP)
        self.names = names
        self.left = MOST_STEPS // 2
        self.stored: dict[str, set[Place]] = {}
        self.loads: dict[str, dict[Op, set[Place]]] = {}
        self.early: dict[Op, set[Place]] = {}
        self.first: dict[str, Op] = {}
        self.unsure: set[str] = set()
        self.uniformity = Uniformity(program)

    def given(self, op: Op) -> Column:
        """Column of an id; of what the caller says, nothing is known."""
        is_known = op.name not in ("num_workgroups", "global_size") and op.definition.format not in (
            "param",
            "spec",
        )
        return super().given(op) if is_known else None

    def extent(self, buffer: Buffer | None, dimension: int) -> Column:
        return None if buffer is None else buffer.shape[dimension]

    def assumed(self, condition: Value, holds: bool, lanes: Sequence[int]) -> tuple[Lanes, Assumption | None]:
        return lanes, _ANY_WAY

    def loop(self, op: Op, lanes: Lanes) -> None:
        lower, upper, _ = bounds(op)
        begin = lower if isinstance(lower, int) else self.column(lower)
        is_shared = isinstance(upper, Value) and self.uniformity.level(upper) <= Level.WORKGROUP
        if lanes is None or not isinstance(begin, int) or not is_shared or self.column(upper) is not None:  # type: ignore[arg-type]
            super().loop(op, lanes)
            return
        counter, *carried = op.regions[0].args
        self.columns.update(zip(carried, map(self.column, inits(op)), strict=True))
        self.columns[counter] = begin
        before, self.around = self.around, (*self.around, Around(op, True))
        self.block(op.regions[0], lanes)
        self.around = before
        self.leave(op)
        self.columns.update(dict.fromkeys(op.results))

    def leave(self, op: Op) -> None:
        self.unsure |= {inner.attrs["buffer"] for inner in op.walk() if "buffer" in inner.attrs}

    def access(self, op: Op, lanes: Lanes) -> None:
        name = op.attrs["buffer"]
        if name not in self.names or name in self.unsure:
            return
        columns = [self.column(index) for index in op.indices]
        is_load = op.name == "load"
        if lanes is None or None in columns:
            if not is_load:
                self.unsure.add(name)
            return
        places = {place for _, place in self.elements(columns, lanes, moved_width(self.program, op))}
        if not is_load:
            self.stored.setdefault(name, set()).update(places)
            self.first.setdefault(name, op)
        elif all(not each.assumed or self.is_bound(each) for each in self.around):
            self.loads.setdefault(name, {}).setdefault(op, set()).update(places)
            loops = (each.op for each in self.around if each.op.name == "for")
            if name in self.stored or any(_stores_to(inner, name) for loop in loops for inner in loop.walk()):
                # one that no store stands before is told of the text
                self.early.setdefault(op, set()).update(places - self.stored.get(name, set()))

    def is_bound(self, around: Around) -> bool:
        """Whether a condition lets all invocations of a workgroup pass but those behind the end of an array."""
        pending = [around.op.operands[0]]
        for _ in range(_MOST_TERMS):
            if not pending:
                return around.way == 0
            value = pending.pop()
            op = value.owner
            if self.column(value) is not None and all(_of_all(self.column(value))):
                continue
            if not isinstance(op, Op) or op.name not in ("and", "lt", "gt"):
                return False
            if op.name == "and":
                pending += op.operands
                continue
            below, bound = op.operands if op.name == "lt" else op.operands[::-1]
            id, length = below.owner, bound.owner
            is_id = isinstance(id, Op) and id.name == "global_id"
            if not is_id or not isinstance(length, Op) or length.name != "len":
                return False
        return False


def _of_all(column: Column) -> Sequence[int]:
    return column if isinstance(column, list) else [column or 0]


def _is_inside(place: Place, buffer: Buffer) -> bool:
    places = place if isinstance(place, tuple) else (place,)
    return all(0 <= p < (extent or 0) for p, extent in zip(places, buffer.shape, strict=True))


def is_used(load: Op, program: Program) -> bool:
    """Whether all invocations that load use the element: behind a condition it may be that of those that have one, and so may it in a select."""
    users: dict[Value, list[tuple[Op, Block]]] = {}
    inner: dict[Block, Block] = {}
    own = program.body
    for block in (program.body, *(region for op in program.walk() for region in op.regions)):
        for op in block.ops:
            own = block if op is load else own
            for operand in op.operands:
                users.setdefault(operand, []).append((op, block))
            if op.name in ("for", "while"):
                inner |= dict.fromkeys(op.regions, block)
    pending = [*load.results]
    for _ in range(_MOST_TERMS):
        if not pending:
            return False
        for op, block in users.get(pending.pop(), []):
            if block is not own and inner.get(block) is not own:
                continue
            if op.name == "select":
                continue
            if not op.definition.is_pure or op.regions or not op.results:
                return True
            pending += op.results
    return False


def _unstored(
    program: Program, buffer: Buffer, op: Op, missing: Sequence[Place], store: Op, is_early: bool
) -> Diagnostic:
    """The warning of a load of elements to which nobody stores, or nobody before it."""
    spelling = spelling_at(op.loc)
    shown = spelling.buffer(buffer.name)
    first, last, count = missing[0], missing[-1], len(missing)
    which = f"element {_shown(first)}" if count == 1 else f"{count} elements"
    if 1 < count and isinstance(first, int) and isinstance(last, int):
        which = f"elements {first} to {last}" if last - first == count - 1 else f"{which}, the first {first}"
    elif count > 1:
        which = f"{which}, the first {_shown(first)}"
    it, they = ("it", "it") if count == 1 else ("them", "they")
    when = f"before any invocation stores to {it}" if is_early else "to which no invocation stores"
    message = f"this reads {which} of {shown}, {when}: {they} may hold anything"
    help = f"store to {it} before the barrier, or read only what is stored"
    loop = next((each for each in program.walk() if each.name == "for" and op in each.walk()), None)
    if is_early and loop is not None and loop.loc is not None:
        help = f"store to {it} before the loop of line {loop.loc.line}, and put {spelling.barrier('workgroup')} behind that: its first round reads {it}"
    return Diagnostic("warning", message, op.loc, help=help).note("the store is here", store.loc)


def _shown(place: Place) -> str:
    return f"[{', '.join(map(str, place))}]" if isinstance(place, tuple) else str(place)
