"""Accesses of different invocations to one element that nothing orders, found by running the indices of one workgroup.

    store %v, @t[%l]                  %l = local_id x, and no barrier between the two: the load may come before the
    %r = load @t[%mirror]             store of the other invocation, or behind it

The first workgroup is run (invocation_runs.py), so a race that is told without a "may" does happen in a call; three rounds of a loop are
enough for what one round stores and the next one reads.  A launch has its first workgroups run, with the lengths, numbers and indices of
the call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..diagnostics import Diagnostic, Location, source_text, spelling_at
from ..grids import Extent
from ..loops import bounds
from ..ops import AXES, SUBGROUP_SIZE
from ..program import Buffer, Op, Program, Value
from ..rewrite import constant_value
from ..types import DataType
from ..uniformity import Level, Uniformity
from .data_conditions import Assumption, assumption, leaves
from .invocation_runs import MOST_LANES, MOST_STEPS, ONE_GROUP, Lanes, Run, Supposed, moved_width, of_lane
from .race_remedies import extreme, instead_of_store
from .racing_stores import UPDATES, identity, indices_shown, updated, written
from .touched_elements import Access, Around, Place, Touch
from .unordered_atomics import Counted

__all__ = ["unordered_accesses", "unordered_launches"]

LOADS, STORES = ("load", "slice_load"), ("store", "slice_store")
"""Formats of plain accesses."""
_MOST_TERMS = 50
"""Ops of the value of a store that are looked at."""
_SMALL = 64
"""Invocations of a launch that are run at least, where it has so many."""


def unordered_accesses(program: Program) -> Iterator[Diagnostic]:
    """Warnings of the accesses of a program, the first of each buffer."""
    stored = {
        op.attrs["buffer"] for op in program.walk() if op.definition.format in STORES and "buffer" in op.attrs
    }
    if 1 < program.lanes <= MOST_LANES and stored:
        warnings = _found(program, stored, ONE_GROUP, MOST_STEPS)
        if not warnings and any(op.name == "for" and not _is_known(op) for op in program.walk()):
            # loops over a length have a second round, and a third, in which halves of a buffer come again
            warnings = _found(program, stored, Supposed(times=3), MOST_STEPS)
        yield from warnings


def _found(program: Program, stored: set[str], supposed: Supposed, steps: int) -> list[Diagnostic]:
    """Warnings of a run, and of another that assumes what the first did not know, of the buffers that are left."""
    run = _Accesses(program, stored, supposed, steps)
    run.run()
    warnings, left = [*run.warnings.values()], stored - run.warnings.keys()
    if run.has_unknown and left:
        run = _Accesses(program, left, supposed, steps, Uniformity(program))
        run.run()
        warnings += run.warnings.values()
    return warnings


def _is_known(loop: Op) -> bool:
    return all(isinstance(b, int) or constant_value(b) is not None for b in bounds(loop))


def unordered_launches(
    program: Program,
    grid: Sequence[Extent],
    shapes: Mapping[str, Sequence[int]],
    params: Mapping[str, int],
    contents: Mapping[str, Any],
    loc: Location | None,
    told: Collection[Location | None] = (),
) -> Iterator[Diagnostic]:
    """Warnings of the accesses of a launch at `loc`, by what the caller passes: those between its first workgroups, too.

    `shapes`: extents of arrays by names of buffers.  `params`: whole numbers, by "@name".  `contents`: arrays that are read, of which
    elements are taken as indices.  `told`: places of warnings that were given before.
    """
    extents = tuple(extent for extent in grid if isinstance(extent, int) and extent > 0)
    stored = _shared_stores(program)
    if len(extents) < len(grid) or program.lanes > MOST_LANES or not stored:
        return
    axis = next((axis for axis, extent in enumerate(extents) if extent > 1), 0)
    count = min(extents[axis], max(2, _SMALL // program.lanes))
    groups = tuple(tuple(n if a == axis else 0 for a in range(3)) for n in range(count))
    supposed = Supposed(extents, groups, None, shapes, params, contents)
    for warning in _found(program, stored, supposed, MOST_STEPS // 2):  # a call waits for it
        if warning.loc not in told:
            yield warning.note("it is launched here", loc)


def _shared_stores(program: Program) -> set[str]:
    """Buffers that are stored to, but for those of which each invocation has an element of its own, that of its number."""
    stored: set[str] = set()
    indices: dict[str, set[object]] = {}
    for op in program.walk():
        if op.definition.format not in (*LOADS, *STORES, "atomic") or "buffer" not in op.attrs:
            continue
        name, owners = op.attrs["buffer"], [index.owner for index in op.indices]
        is_own = all(isinstance(owner, Op) and owner.name == "global_id" for owner in owners)
        axes = tuple(owner.attrs["axis"] for owner in owners if isinstance(owner, Op)) if is_own else op
        indices.setdefault(name, set()).add(axes)
        if op.definition.format in STORES:
            stored.add(name)
    return {name for name in stored if len(indices[name]) > 1 or isinstance(next(iter(indices[name])), Op)}


class _Accesses(Run):
    """A run of workgroups.  `written`, `read`: by buffer, the last store to an element and the loads of it since the last barrier.
    `filled`: by buffer of workgroups, those that have stored to an element.  With `uniformity`, conditions that are not known are assumed."""

    def __init__(
        self,
        program: Program,
        stored: set[str],
        supposed: Supposed,
        steps: int,
        uniformity: Uniformity | None = None,
    ) -> None:
        super().__init__(program, supposed)
        self.stored, self.left, self.uniformity = stored, steps, uniformity
        self.has_unknown = False
        """Whether accesses are left out behind a condition that is not known."""
        self.behind = (0, 0, 0, 0)
        self.filled: dict[str, dict[Place, dict[int, Access]]] = {}
        self.has_groups = len(self.supposed.groups) > 1
        self.has_narrow = False
        """Whether a barrier of a subgroup was met, which the author may have taken for one of the workgroup."""
        self.unsure: set[str] = set()
        """Buffers of which there may be stores that are not seen."""
        self.mended: set[Op] = set()
        """Accesses before which a warning asks for a barrier, which orders others, too."""
        self.longer: set[Op] = set()
        """Loops that have more rounds than are run."""
        self.written: dict[str, dict[Place, Touch]] = {}
        self.read: dict[str, dict[Place, list[Touch]]] = {}
        self.counted = Counted(program, self.may_mix)
        self.copies: dict[str, Access] = {}
        self.warnings: dict[str, Diagnostic] = {}

    def meet(self, op: Op) -> None:
        if "wait" in op.definition.effects:
            self.copies.clear()
            return
        grid, workgroup, subgroup, waits = self.behind
        scope = op.attrs.get("scope", "workgroup" if "workgroup" in op.definition.effects else "subgroup")
        if scope == "subgroup":
            self.behind = grid, workgroup, subgroup + 1, waits
            self.has_narrow |= op.name == "barrier"
        elif scope == "workgroup":
            self.behind = grid, workgroup + 1, subgroup, waits
        else:
            self.behind = grid + 1, workgroup, subgroup, waits
        if scope != "subgroup":
            self.counted.clear()
            for name in (*self.written, *self.read):
                if not self.has_groups or self.program.buffers[name].is_on_chip:
                    self.written.pop(name, None)
                    self.read.pop(name, None)

    def assumed(self, condition: Value, holds: bool, lanes: Sequence[int]) -> tuple[Lanes, Assumption | None]:
        self.has_unknown = True
        if self.uniformity is None:
            return None, None
        what = assumption(condition, holds, self.uniformity, lambda value: self.column(value) is not None)
        return (None, None) if what is None else (self.possible(condition, holds, lanes), what)

    def possible(self, condition: Value, holds: bool, lanes: Sequence[int]) -> Sequence[int]:
        """Invocations for which a condition may hold, by the parts of it that are known."""
        ways: dict[Value, list[int]] = {}

        def of(value: Value) -> list[int]:
            """Numbers of the invocations: 1 for a bool that may be true, 2 for one that may be false, or 3."""
            if value not in ways:
                ways[value] = self.bool_ways(value, of)
            return ways[value]

        wanted = 1 if holds else 2
        return [lane for lane in lanes if of(condition)[lane] & wanted]

    def bool_ways(self, value: Value, of: Callable[[Value], list[int]]) -> list[int]:
        column, op = self.columns.get(value, constant_value(value)), value.owner
        if column is not None:
            return [1 if of_lane(column, lane) else 2 for lane in range(self.count)]
        if not isinstance(op, Op) or op.name not in ("not", "and", "or", "if"):
            return [3] * self.count
        if op.name == "not":
            return [(3, 2, 1, 3)[way] for way in of(op.operands[0])]
        if op.name == "if":
            number = op.results.index(value)
            ends = [region.terminator for region in op.regions]
            parts = [of(end.operands[number]) if end is not None else [3] * self.count for end in ends]
            asked = of(op.operands[0])
            return [(a if p & 1 else 0) | (b if p & 2 else 0) for p, a, b in zip(asked, *parts, strict=True)]
        first, second = (of(operand) for operand in op.operands)
        both, either = (1, 2) if op.name == "and" else (2, 1)
        return [(a & b & both) | ((a | b) & either) for a, b in zip(first, second, strict=True)]

    def may_meet(self, one: Touch, other: Touch, is_sum: bool = False) -> bool:
        """Whether two accesses of an element happen in one call, where they are behind conditions that are assumed.  `is_sum`: all add to
        one element, which are seldom only one."""
        (lane, a), (second, b) = one, other
        assumed = [[(each, each.assumed) for each in access.around if each.assumed] for access in (a, b)]
        if not any(assumed):
            return True
        own = {a.op.attrs["buffer"]}
        if not is_sum and any(not what.asked <= own for each in assumed for _, what in each):
            return False
        group = self.common_group(lane, second)
        ways = [[(each.op, each.way) for each, what in side if what.level <= group] for side in assumed]
        length = min(map(len, ways))
        return ways[0][:length] == ways[1][:length]

    def may_mix(self, one: Touch, other: Touch) -> bool:
        """Whether an atomic of workgroup memory and another access are of two invocations of a workgroup that nothing orders."""
        (lane, _), (second, _) = one, other
        is_same_group = lane // len(self.places) == second // len(self.places)
        return (
            lane != second
            and is_same_group
            and not self.is_ordered(other, lane)
            and self.may_meet(one, other)
        )

    def common_group(self, lane: int, other: int) -> Level:
        """The smallest group that two invocations are both in."""
        (group, place), (second, at) = divmod(lane, len(self.places)), divmod(other, len(self.places))
        if group != second:
            return Level.GRID
        return Level.SUBGROUP if place // SUBGROUP_SIZE == at // SUBGROUP_SIZE else Level.WORKGROUP

    def leave(self, op: Op) -> None:
        if op not in self.longer:
            self.longer.add(op)
            stores = (inner for inner in op.walk() if inner.definition.format in STORES)
            self.unsure |= {store.attrs["buffer"] for store in stores}
        if op.name == "while":
            self.wait()

    def wait(self) -> None:
        """Note an op that may wait for another workgroup."""
        self.behind = (*self.behind[:3], self.behind[3] + 1)

    def is_ordered(self, touch: Touch, lane: int) -> bool:
        """Whether an access comes before those that another invocation makes now."""
        (first, earlier), (grid, workgroup, subgroup, waits) = touch, self.behind
        if earlier.behind[0] != grid:
            return True
        (group, place), (other, at) = divmod(first, len(self.places)), divmod(lane, len(self.places))
        if group != other:
            return earlier.behind[3] != waits
        is_near = place // SUBGROUP_SIZE == at // SUBGROUP_SIZE
        return earlier.behind[1] != workgroup or (is_near and earlier.behind[2] != subgroup)

    # --- accesses

    def access(self, op: Op, lanes: Lanes) -> None:
        name = op.attrs["buffer"]
        buffer = self.program.buffers.get(name)
        moved: DataType = (op.results or op.operands)[0].type
        indices = [self.column(index) for index in op.indices]
        if op in self.mended:
            self.behind = (self.behind[0], self.behind[1] + 1, *self.behind[2:])
        is_atomic = op.definition.format == "atomic"
        if is_atomic and buffer is not None and not buffer.is_on_chip:
            self.wait()
        if (
            buffer is None
            or name not in self.stored
            or name in self.warnings
            or moved.is_matrix
            or (moved.is_slice and self.program.lanes > 1)  # all invocations have parts of one
            or (buffer.is_cluster and self.has_groups)  # some of the workgroups that run have it in common
        ):
            return
        access = Access(op, self.around, self.behind)
        if op.name == "load" and name in self.copies:
            self.warnings[name] = _uncopied(access, self.copies[name])
        if op.name == "copy_async":
            self.copies[name] = access
        if op.definition.format in STORES and (lanes is None or None in indices or access.is_assumed):
            self.unsure.add(name)
        if lanes is None:
            return
        written, read = self.written.setdefault(name, {}), self.read.setdefault(name, {})
        if any(index is None for index in indices):
            if is_atomic and buffer.is_on_chip:
                self.warn_of(self.counted.of_data(name, access, lanes, written, read))
            return
        touched: Iterable[tuple[int, Place]] = self.elements(indices, lanes, moved_width(self.program, op))
        if buffer.is_on_chip and self.has_groups:
            of_groups = [(lane, (lane // len(self.places), place)) for lane, place in touched]
            if not access.is_assumed and self.is_unfilled(access, [place for _, place in of_groups]):
                return
            touched = of_groups
        if not is_atomic:
            touched = [*touched] if buffer.is_on_chip else touched
            met = self.loads if op.name in LOADS else self.stores
            pair = met(access, touched, written, read)
            self.warn_of(pair or self.counted.plain(name, access, touched))
        elif buffer.is_on_chip:
            self.warn_of(self.counted.atomic(name, access, touched, written, read))

    def is_unfilled(self, access: Access, places: Sequence[tuple[int, Place]]) -> bool:
        """Note an access of workgroup memory; whether it is told to read what only another workgroup has stored to its own."""
        op, name = access.op, access.op.attrs["buffer"]
        by_place = self.filled.setdefault(name, {})
        for group, place in places:
            filled = by_place.setdefault(place, {})
            if op.definition.format in STORES:
                filled[group] = access
            elif filled and group not in filled and name not in self.unsure:
                self.warnings[name] = _unfilled(op, next(iter(filled.values())))
                return True
        return False

    def loads(
        self,
        access: Access,
        touched: Iterable[tuple[int, Place]],
        written: dict[Place, Touch],
        read: dict[Place, list[Touch]],
    ) -> tuple[Touch, Touch] | None:
        """Note loads of elements, two invocations for each; the first with another invocation's store to the same element."""
        for lane, place in touched:
            store = written.get(place)
            is_apart = store is not None and store[0] != lane and not self.is_ordered(store, lane)
            if store is not None and is_apart and self.may_meet((lane, access), store):
                return (lane, access), store
            loads = read.get(place)
            if loads is None:
                read[place] = [(lane, access)]
            elif loads[0][0] == lane or (self.has_groups and self.is_ordered(loads[0], lane)):
                loads[0] = lane, access
            else:
                loads[1:] = [(lane, access)]
        return None

    def stores(
        self,
        access: Access,
        touched: Iterable[tuple[int, Place]],
        written: dict[Place, Touch],
        read: dict[Place, list[Touch]],
    ) -> tuple[Touch, Touch] | None:
        """Note stores to elements; the first with another invocation's access of the same element that it races with."""
        own, is_alike = self.element_read(access.op), self.is_alike(access.op)
        # whoever finds something stores the same, and who reads it may be late
        is_flag = access.is_assumed and is_alike and self.is_same(access.op.operands[0])
        earlier: dict[Place, Touch] = {}
        """Stores of another op to the one element."""
        for lane, place in touched:
            touch, loads, store = (lane, access), read.get(place), written.get(place)
            if is_alike and store is not None and store[1].op is not access.op:
                earlier[place] = store
            store = earlier.get(place, store)
            others = [load for load in loads or () if load[0] != lane and not self.is_ordered(load, lane)]
            others = [] if is_flag else others
            met = (load for load in others if load[1].op is not own and self.may_meet(touch, load))
            other = next(met, None)
            is_other = store is not None and (store[1].op is not access.op or self.is_leader(access))
            if other is None and (not is_alike or access.is_assumed or is_other):
                is_apart = store is not None and store[0] != lane and not self.is_ordered(store, lane)
                if store is not None and is_apart and self.differs(touch, store):
                    other = store
                elif others and self.may_meet(touch, others[0], is_alike):  # both add to what is there
                    other = (others[0][0], Access(access.op, others[0][1].around, others[0][1].behind))
            if other is not None:
                return touch, other
            written[place] = touch
        return None

    def is_alike(self, op: Op) -> bool:
        """Whether all invocations store to one element, which racing_stores tells."""
        return all(isinstance(self.column(index), int) for index in op.indices)

    def is_same(self, value: Value) -> bool:
        """Whether a value is one constant, or one number for all."""
        return constant_value(value) is not None or isinstance(self.column(value), int)

    def element_read(self, op: Op) -> Op | None:
        """The load of the element that a store changes."""
        change = updated(op)
        operands = () if change is None else change[0].operands
        loads = [operand.owner for operand in operands if change is not None and operand is not change[1]]
        return loads[0] if loads and isinstance(loads[0], Op) else None

    def differs(self, touch: Touch, store: Touch) -> bool:
        """Whether the values that two invocations store are surely not the same, and both store."""
        (lane, access), (other, earlier) = touch, store
        op = access.op
        if op is not earlier.op:
            return self.are_unlike(op, earlier.op) and self.may_meet(touch, store)
        if updated(op) is not None:
            return self.may_meet(touch, store, self.is_alike(op))
        if (
            access.is_assumed or earlier.is_assumed
        ):  # one of them may be chosen, but not by the element that both change
            around = [each.op for each in access.around]
            return extreme(op, around) is not None or self.is_own_choice(touch, store)
        pending, differs = [op.operands[0]], False
        for _ in range(_MOST_TERMS):
            if not pending:
                return differs
            value = pending.pop()
            column, owner = self.column(value), value.owner
            if constant_value(value) is not None or isinstance(column, int):
                continue
            if isinstance(column, list) or not isinstance(owner, Op):
                differs |= isinstance(column, list) and column[lane] != column[other]
                if not isinstance(owner, Op):
                    return False
            elif owner.name in LOADS:
                columns = [self.column(index) for index in owner.indices]
                if any(c is None for c in columns):
                    return False
                differs |= any(isinstance(c, list) and c[lane] != c[other] for c in columns)
            elif owner.name == "subgroup_reduce" and self.common_group(lane, other) < Level.SUBGROUP:
                pending += _guarded(owner.operands[-1])
            elif owner.definition.is_pure and not owner.regions:
                pending += owner.operands
            else:
                return False
        return False

    def is_own_choice(self, touch: Touch, store: Touch) -> bool:
        """Whether invocations of two workgroups each store an element of their own that they choose by its size: `if x[i] > 0: y[l] = x[i]`."""
        (lane, access), (other, _) = touch, store
        load = access.op.operands[0].owner
        if (
            self.common_group(lane, other) is not Level.GRID
            or not isinstance(load, Op)
            or load.name != "load"
        ):
            return False
        columns = [self.column(index) for index in load.indices]
        if not any(isinstance(c, list) and c[lane] != c[other] for c in columns):
            return False
        conditions = [each.op.operands[0] for each in access.around if each.assumed]
        asked = [
            leaf for c in conditions for leaf in leaves(c) or () if isinstance(leaf, Op) and leaf.results
        ]
        is_asked = identity(load.result) in [identity(leaf.result) for leaf in asked]
        return is_asked and self.may_meet(touch, store)

    def are_unlike(self, op: Op, earlier: Op) -> bool:
        """Whether two stores are of unlike constants."""
        values = [constant_value(each.operands[0]) for each in (op, earlier)]
        return None not in values and values[0] != values[1]

    def is_leader(self, access: Access) -> bool:
        """Whether an access is of some invocations of each subgroup, `lane_id == 0`, which racing_stores does not tell."""
        conditions = [each.op.operands[0].owner for each in access.around if each.op.name == "if"]
        asked = [o.owner for c in conditions if isinstance(c, Op) and c.name == "eq" for o in c.operands]
        return any(isinstance(owner, Op) and owner.name == "lane_id" for owner in asked)

    # --- messages

    def warn_of(self, pair: tuple[Touch, Touch] | None) -> None:
        """Tell of an access and one before that it races with, if there are such."""
        if pair is None:
            return
        last, first = pair
        (lane, later), (other, earlier) = last, first
        name, groups = later.op.attrs["buffer"], [each // len(self.places) for each in (other, lane)]
        buffer = self.program.buffers[name]
        if groups[0] != groups[1]:
            self.warnings[name] = _between_groups(self.program, buffer, later, earlier, groups)
            return
        is_narrow = self.has_narrow and earlier.behind[2] != later.behind[2]
        self.warnings[name] = _unordered(self.program, last, first, is_narrow)
        if buffer.is_on_chip:
            self.mended.add(later.op)
            self.behind = (self.behind[0], self.behind[1] + 1, *self.behind[2:])


def _guarded(value: Value) -> Sequence[Value]:
    """The values that a guard chooses from, `x[i] if i < len(x) else 0.0`, or another value itself."""
    owner = value.owner
    if not isinstance(owner, Op) or owner.name != "if":
        return [value]
    number = owner.results.index(value)
    return [end.operands[number] for region in owner.regions if (end := region.terminator) is not None]


def _unordered(program: Program, last: Touch, first: Touch, is_narrow: bool) -> Diagnostic:
    """Warning of two accesses, of which one at least stores.  `is_narrow`: a barrier of a subgroup stands between them."""
    (later_lane, later), (earlier_lane, earlier) = last, first
    op, spelling = later.op, spelling_at(later.op.loc)
    buffer = program.buffers[op.attrs["buffer"]]
    name = spelling.buffer(buffer.name)
    is_load, was_load = op.name in LOADS, earlier.op.name in LOADS
    is_mixed = "atomic" in (op.definition.format, earlier.op.definition.format)
    element = spelling.target(source_text(op.loc)) or spelling.element(buffer.name, indices_shown(op))
    may = next((each for access in (later, earlier) for each in access.around if each.assumed), None)
    if is_load:
        reads = "may read" if may else "reads"
        message = f"this {reads} elements of {name} that other invocations {_done(earlier)}, and nothing orders the two"
    elif was_load or is_mixed:
        stores = "may store" if may else "stores"
        stores = ("may change" if may else "changes") if op.definition.format == "atomic" else f"{stores} to"
        message = f"this {stores} elements of {name} that other invocations {_done(earlier)}, and nothing orders the two"
    elif may:
        message = f"several invocations may store to {element} at once, each its own value: this is a race, and one of them stays"
    else:
        pair = " and ".join(map(str, sorted((earlier_lane, later_lane))))
        message = f"invocations {pair} of a workgroup, and others, store to {element} at one place, each its own value: this is a race, and one of them stays"
    if not is_load and not was_load and not is_mixed:
        help = _stepped(program, later) or _of_stores(buffer, later, earlier)
    elif buffer.is_on_chip and is_narrow:
        help = f"a barrier of a subgroup orders {SUBGROUP_SIZE} invocations: write {spelling.barrier('workgroup')} in its place"
    elif buffer.is_on_chip:
        help = _with_barrier(later, earlier, spelling.barrier("workgroup"))
    else:
        help = _elsewhere(buffer, later, earlier)
    warning = Diagnostic("warning", message, op.loc, help=help)
    if earlier.op is not op:
        warning.note(f"the {_kind(earlier)} is here", earlier.op.loc)
    return _with_condition(warning, may)


def _kind(access: Access) -> str:
    op = access.op
    return (
        op.definition.format if op.definition.format == "atomic" else op.name if op.name in LOADS else "store"
    )


def _done(access: Access) -> str:
    """Verb for an access of other invocations."""
    return {"load": "read", "atomic": "change by an atomic"}.get(_kind(access), "store")


def _with_condition(warning: Diagnostic, may: Around | None) -> Diagnostic:
    """A warning with a note of the condition that it depends on."""
    test = None if may is None else may.op.operands[0].owner
    if isinstance(test, Op):
        warning.note("elements decide whether this holds, and it may for several at once", test.loc)
    return warning


def _elsewhere(buffer: Buffer, later: Access, earlier: Access) -> str:
    """Remedy for a load and a store of a buffer of the caller: the store is another, or the load is of another program."""
    store, load = (earlier, later) if later.op.name in LOADS else (later, earlier)
    loops = {each.op for each in store.around} & {each.op for each in load.around}
    if later is store or any(op.name in ("for", "while") for op in loops):
        return instead_of_store(buffer, store.op, load.op, [each.op for each in store.around])
    return spelling_at(load.op.loc).apart(buffer.name, str(buffer.dtype), buffer.dimensions, "", False)


def _of_stores(buffer: Buffer, later: Access, earlier: Access) -> str:
    """Remedy for two stores to one element."""
    around = [each.op for each in later.around]
    if later.op is not earlier.op:
        return "store one of the two in a launch before this one, or let one invocation store both"
    total = later.op.operands[0].owner
    if isinstance(total, Op) and total.name == "subgroup_reduce":
        whole = source_text(total.loc).replace("subgroup_reduce", "workgroup_reduce", 1)
        return f"for all of a workgroup write {whole}; else store to an element of each subgroup's own"
    if extreme(later.op, around) is not None:
        return instead_of_store(buffer, later.op, later.op, around)
    return _apart(buffer, later.op)


def _apart(buffer: Buffer, op: Op) -> str:
    """Remedy for stores of several to one element: an atomic, or elements of each one's own."""
    spelling, change, moved = spelling_at(op.loc), updated(op), op.operands[0].type
    atomic = None if change is None else UPDATES.get(change[0].name)
    if change is not None and atomic is not None:
        update = spelling.update(
            atomic, buffer.name, indices_shown(op), written(change[1], op), buffer.dtype, source_text(op.loc)
        )
        return f"write {update}"
    if moved.is_vec and not buffer.dtype.is_vec:
        return (
            f"an index counts elements, and {moved} has {moved.lanes} of them: multiply it by {moved.lanes}"
        )
    return f"store to an element of each one's own, or add to one by an atomic, {spelling.atomic}"


def _between_groups(
    program: Program, buffer: Buffer, later: Access, earlier: Access, groups: Sequence[int]
) -> Diagnostic:
    """Warning of two accesses of different workgroups."""
    op, spelling = later.op, spelling_at(later.op.loc)
    name, was_load = spelling.buffer(buffer.name), earlier.op.name in LOADS
    may = next((each for access in (later, earlier) for each in access.around if each.assumed), None)
    if op.name in LOADS or was_load:
        what = ("reads", "stores") if op.name in LOADS else ("stores to", "reads")
        what = ({"reads": "may read", "stores to": "may store to"}[what[0]], what[1]) if may else what
        message = f"workgroup {groups[1]} {what[0]} elements of {name} that workgroup {groups[0]} {what[1]}, and nothing orders the two"
    else:
        pair = " and ".join(map(str, sorted(groups)))
        element = spelling.target(source_text(op.loc)) or spelling.element(buffer.name, indices_shown(op))
        message = f"workgroups {pair} of this launch, and others, store to {element} at one place, each its own value: this is a race, and one of them stays"
    stepped = _stepped(program, later)
    if stepped:
        help = f"each workgroup goes over the elements of others: {stepped}"
    elif earlier.behind[1] != later.behind[1] and (op.name in LOADS or was_load):
        reader = spelling.apart(buffer.name, str(buffer.dtype), buffer.dimensions, "", False)
        help = f"a barrier of a workgroup orders no others: write {spelling.barrier('grid')} in its place, or {reader}"
    elif op.name in LOADS or was_load:
        help = _elsewhere(buffer, later, earlier)
    else:
        help = _of_stores(buffer, later, earlier)
    warning = Diagnostic("warning", message, op.loc, help=help)
    if earlier.op is not op:
        warning.note(f"the {'load' if was_load else 'store'} is here", earlier.op.loc)
    return _with_condition(warning, may)


def _stepped(program: Program, access: Access) -> str:
    """Remedy for a loop around an access that goes on by too small a step; "" for none."""
    for each in access.around:
        if (strided := _group_stride(program, each.op)) is not None:
            axis, loop = strided
            size = spelling_at(access.op.loc).id("global_size", axis)
            return spelling_at(access.op.loc).stepped(source_text(loop.loc), size) or f"step by {size}"
    return ""


def _group_stride(program: Program, loop: Op) -> tuple[int, Op] | None:
    """The axis of a loop that begins at the number of an invocation and goes on by the size of a workgroup, or by the number of workgroups."""
    if loop.name != "for":
        return None
    lower, _, step = bounds(loop)
    first = lower.owner if isinstance(lower, Value) else None
    if not isinstance(first, Op) or first.name != "global_id":
        return None
    axis = AXES.index(first.attrs["axis"])
    by = step if isinstance(step, int) else constant_value(step)
    sizes = ("workgroup_size", "num_workgroups")
    of_size = isinstance(step, Value) and isinstance(step.owner, Op) and step.owner.name in sizes
    return (axis, loop) if of_size or by == program.workgroup[axis] else None


def _unfilled(op: Op, store: Access) -> Diagnostic:
    """Warning of workgroup memory that one workgroup alone stores to."""
    spelling = spelling_at(op.loc)
    name = spelling.buffer(op.attrs["buffer"])
    message = f"{op.name} of {name}, to which only another workgroup has stored: each workgroup has memory of its own"
    help = f"store to it in each workgroup, by {spelling.id('local_id', 0)}"
    at = store.op.indices[0].owner
    if isinstance(at, Op) and at.name == "global_id":
        own = spelling.id("local_id", AXES.index(at.attrs["axis"]))
        help = f"{spelling.id('global_id', AXES.index(at.attrs['axis']))} counts in the whole launch: take {own} for the index of {name}"
        return Diagnostic("warning", message, op.loc, help=help).note("the store is here", store.op.loc)
    for each in reversed(store.around):
        test = each.op.operands[0].owner if each.op.name == "if" else None
        if not isinstance(test, Op):
            continue
        ids = ((value, value.owner) for value in test.operands if isinstance(value.owner, Op))
        compared = next(((v, id) for v, id in ids if id.name in ("global_id", "workgroup_id")), None)
        if compared is not None:
            value, id = compared
            own = spelling.id("local_id", AXES.index(id.attrs["axis"]))
            text = source_text(id.loc) if value.name.isdigit() else value.name
            written = re.sub(rf"(?<![\w.]){re.escape(text)}(?!\w)", own, source_text(test.loc))
            help = f"write {written}" if spelling.name == "PYTHON" else f"compare {own}, not %{value.name}"
            break
    return Diagnostic("warning", message, op.loc, help=help).note("the store is here", store.op.loc)


def _with_barrier(later: Access, earlier: Access, barrier: str) -> str:
    """Remedy for workgroup memory: a barrier where all invocations come to."""
    what = _kind(earlier)
    split = next((each for each in later.around if each in earlier.around and not each.is_shared), None)
    loc, at = later.op.loc, earlier.op.loc
    is_line = what in LOADS and loc is not None and at is not None and at in loc
    named = f"write v = {source_text(at)} above this line, and v in it" if is_line else ""
    if split is not None:
        begin = f"{named}; " if named else ""
        return f"{begin}end the {split.op.name} behind the {what}, put {barrier} there, and begin it again before this line"
    if named:
        return f"{named}, with {barrier} between the two"
    place = _place(later, earlier)
    line = "" if place.loc is None else f" before line {place.loc.line}"
    is_above = place.loc and earlier.op.loc and earlier.op.loc.line < place.loc.line
    return f"put {barrier}{line}{f', behind the {what}' if is_above else ''}"


def _place(later: Access, earlier: Access) -> Op:
    """The outermost op around an access that is not around an earlier one."""
    return next((each.op for each in later.around if each not in earlier.around), later.op)


def _uncopied(load: Access, copy: Access) -> Diagnostic:
    spelling, place = spelling_at(load.op.loc), _place(load, copy)
    name = spelling.buffer(load.op.attrs["buffer"])
    line = "" if place.loc is None else f" before line {place.loc.line}"
    help = f"put {spelling.copy_wait}{line}, and {spelling.barrier('workgroup')} behind that"
    message = f"this reads {name}, and nothing waits for the copy to it"
    return Diagnostic("warning", message, load.op.loc, help=help).note("the copy is here", copy.op.loc)
