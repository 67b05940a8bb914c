"""Accesses of different invocations to one element that nothing orders, found by running the indices of one workgroup.

    store %v, @t[%l]                  %l = local_id x, and no barrier between the two: the load may come before the
    %r = load @t[%mirror]             store of the other invocation, or behind it

The first workgroup is run with what its indices and conditions need: ids, constants, and lengths and whole numbers of the caller, each
as large as the workgroup.  What depends on the contents of buffers is not known, and neither is who comes to an access behind such a
condition: these are left out, so what is told does happen in a call.  Three rounds of a loop are run, which is enough for what
one round stores and the next one reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..records import dataclass
from . import arith
from .diagnostics import Diagnostic, spelling_at
from .loops import bounds, inits
from .ops import AXES
from .program import Block, Buffer, Op, Program, Value
from .racing_stores import UPDATES, indices_shown, shown, updated
from .rewrite import constant_value
from .types import DataType

__all__ = ["unordered_accesses"]

Column = int | list[int] | None
"""Number of each invocation, one number for all of them, or None for what is not known."""
Lanes = Sequence[int] | None
"""Invocations that come to an op; None where that is not known."""
Place = int | tuple[int, ...]

MOST_LANES = 1024
MOST_STEPS = 1 << 18
"""Ops that are run, with each round of a loop, times the invocations of the workgroup: a tenth of a second."""
ROUNDS = 3
_MOST_TERMS = 50
"""Ops of the value of a store that are looked at."""


def unordered_accesses(program: Program) -> Iterator[Diagnostic]:
    """Warnings of the accesses of a program, the first of each buffer."""
    stored = {
        op.attrs["buffer"]
        for op in program.walk()
        if op.definition.format == "store" and "buffer" in op.attrs
    }
    if 1 < program.lanes <= MOST_LANES and stored:
        run = _Run(program, stored)
        try:
            run.block(program.body, range(program.lanes))
        except _Enough:
            pass
        yield from run.warnings.values()


class _Enough(Exception):
    """Error that ends a run of so many ops that the others are not looked at."""


class _Around:
    """A run of an `if` or a loop.  `is_shared`: all invocations take the same way."""

    def __init__(self, op: Op, is_shared: bool) -> None:
        self.op, self.is_shared = op, is_shared


@dataclass(slots=True)
class _Access:
    """A run of an access by all invocations that come to it: its op, and the runs of conditions and loops around it."""

    op: Op
    around: tuple[_Around, ...]


Touch = tuple[int, _Access]
"""An invocation and its access of an element."""


class _Run:
    """A workgroup.  `written`, `read`: by buffer, the last store to an element and the loads of it since the last barrier."""

    def __init__(self, program: Program, stored: set[str]) -> None:
        self.program = program
        self.stored = stored
        self.columns: dict[Value, Column] = {}
        self.computed_from: dict[Op, list[Column]] = {}
        self.written: dict[str, dict[Place, Touch]] = {}
        self.read: dict[str, dict[Place, list[Touch]]] = {}
        self.copies: dict[str, _Access] = {}
        self.around: tuple[_Around, ...] = ()
        self.warnings: dict[str, Diagnostic] = {}
        self.left = MOST_STEPS

    # --- control flow

    def block(self, block: Block, lanes: Lanes) -> None:
        for op in block.ops:
            self.left -= self.program.lanes
            if self.left < 0:
                raise _Enough
            self.op(op, lanes)

    def op(self, op: Op, lanes: Lanes) -> None:
        effects = op.definition.effects
        if op.name == "if":
            self.branch(op, lanes)
        elif op.name == "for":
            self.loop(op, lanes)
        elif op.name == "while":
            self.while_(op, lanes)
        elif op.regions:
            for region in op.regions:
                self.block(region, lanes)
        elif "sync" in effects or "subgroup" in effects:
            self.meet()
        elif "wait" in effects:
            self.copies.clear()
        elif op.definition.format in ("load", "store"):
            self.access(op, lanes)
        elif len(op.results) == 1 and (op.definition.is_pure or not effects):
            column = self.computed(op)
            if column is not None:
                self.columns[op.results[0]] = column

    def meet(self) -> None:
        self.written.clear()
        self.read.clear()

    def branch(self, op: Op, lanes: Lanes) -> None:
        condition = self.columns.get(op.operands[0], constant_value(op.operands[0]))
        parts: list[Lanes] = [None, None]
        if lanes is not None and isinstance(condition, int):
            parts = [lanes if condition else [], [] if condition else lanes]
        elif lanes is not None and isinstance(condition, list):
            parts = [[lane for lane in lanes if bool(condition[lane]) is holds] for holds in (True, False)]
        ends: list[list[Column]] = []
        before = self.around
        for region, part in zip(op.regions, parts, strict=False):
            if part is None or part:
                self.around = (*before, _Around(op, isinstance(condition, int)))
                self.block(region, part)
                self.around = before
            ends.append(self.ends(region))
        for number, result in enumerate(op.results):
            each = [end[number] if number < len(end) else None for end in ends]
            self.columns[result] = self.merged(each, parts)

    def ends(self, block: Block) -> list[Column]:
        """Columns of what a block gives."""
        end = block.terminator
        return [self.column(value) for value in end.operands] if end is not None else []

    def merged(self, columns: Sequence[Column], parts: Sequence[Lanes]) -> Column:
        """Column of a result, which each part of the invocations has from another block."""
        given = [column for column, part in zip(columns, parts, strict=False) if part is None or part]
        if len(given) == 1 and None not in parts:
            return given[0]
        result: list[int] = [0] * self.program.lanes
        for column, part in zip(columns, parts, strict=False):
            if part is None or (column is None and part):
                return None
            for lane in part:
                result[lane] = column[lane] if isinstance(column, list) else column or 0
        return result

    def loop(self, op: Op, lanes: Lanes) -> None:
        body = op.regions[0]
        counter, *carried = body.args
        lower, upper, step = (b if isinstance(b, int) else self.column(b) for b in bounds(op))
        values = [self.column(value) for value in inits(op)]
        is_known = lanes is not None and None not in (lower, upper, step)
        at: Column = lower
        before, self.around = (
            self.around,
            (*self.around, _Around(op, not isinstance(upper, list) and not isinstance(lower, list))),
        )
        for _ in range(ROUNDS if is_known else 1):
            part = lanes if is_known else None
            if part is not None:
                part = _below(at, upper, part)
                if not part:
                    break
            self.columns.update(zip([counter, *carried], [at if is_known else None, *values], strict=False))
            self.block(body, part)
            after = self.ends(body)
            values = [
                self.merged([v, a], [_others(lanes, part), part]) for v, a in zip(values, after, strict=False)
            ]
            at = _added(at, step)
        else:
            values = [None] * len(values)
        self.around = before
        self.columns.update(zip(op.results, values, strict=False))

    def while_(self, op: Op, lanes: Lanes) -> None:
        condition, body = op.regions
        values = [self.column(value) for value in op.operands]
        part = lanes
        before = self.around
        for _ in range(ROUNDS):
            self.columns.update(zip(condition.args, values, strict=False))
            self.block(condition, part)
            (holds,) = self.ends(condition) or [None]
            part = None if part is None or holds is None else [lane for lane in part if _of(holds, lane)]
            if part is not None and not part:
                break
            if self.around is before:
                self.around = (*before, _Around(op, isinstance(holds, int)))
            self.columns.update(zip(body.args, values, strict=False))
            self.block(body, part)
            after = self.ends(body)
            values = [
                self.merged([v, a], [_others(lanes, part), part]) for v, a in zip(values, after, strict=False)
            ]
            if part is None:
                values = [None] * len(values)
                break
        else:
            values = [None] * len(values)
        self.around = before
        self.columns.update(zip(op.results, values, strict=False))

    # --- numbers

    def column(self, value: Value) -> Column:
        if value in self.columns:
            return self.columns[value]
        known = constant_value(value)
        return known if isinstance(known, int) and not value.type.element.is_float else None

    def computed(self, op: Op) -> Column:
        """Column of the result of an op, of integers and bools that are no vectors."""
        row, dtype = op.definition, op.results[0].type
        if dtype.is_vec or not (dtype.is_int or dtype.is_bool):
            return None
        if row.format in ("id", "size", "len", "param", "spec"):
            return self.given(op)
        operands = [self.column(operand) for operand in op.operands]
        if not operands or any(column is None for column in operands):
            return None
        earlier = self.computed_from.get(op)
        if earlier is not None and all(a is b for a, b in zip(operands, earlier, strict=True)):
            return self.columns.get(op.results[0])  # as in the round before
        self.computed_from[op] = operands
        kind = op.operands[0].type
        if row.format == "select":
            return self.each(operands, lambda p, a, b: a if p else b)
        if op.name == "cast" and (kind.is_int or kind.is_bool):
            return self.each(operands, lambda a: arith.convert(a, kind, dtype))
        fold = row.fold_int
        if fold is None or not (kind.is_int or kind.is_bool):
            return None
        if row.format == "compare":
            return self.each(operands, lambda a, b: int(fold(a, b, kind)))
        return self.each(operands, lambda *numbers: arith.wrap(int(fold(*numbers, dtype)), dtype))

    def each(self, columns: Sequence[Column], of: object) -> Column:
        if all(isinstance(column, int) for column in columns):
            return of(*columns)  # type: ignore[operator,no-any-return]
        lists = [c if isinstance(c, list) else [c] * self.program.lanes for c in columns]
        return [of(*numbers) for numbers in zip(*lists, strict=True)]  # type: ignore[operator]

    def given(self, op: Op) -> Column:
        """Column of an id, or of what the caller gives: a length or a number, as large as the workgroup."""
        program, (x, y, _) = self.program, self.program.workgroup
        axis = AXES.index(str(op.attrs.get("axis", "x")))
        if op.name in ("local_id", "global_id"):
            divisor = (1, x, x * y)[axis]
            extent = program.workgroup[axis]
            return 0 if extent == 1 else [lane // divisor % extent for lane in range(program.lanes)]
        if op.name == "workgroup_id":
            return 0
        if op.name in ("workgroup_size", "global_size"):
            return program.workgroup[axis]
        if op.name == "num_workgroups":
            return 1
        if op.name == "len":
            return self.extent(program.buffers.get(op.attrs["buffer"]), op.attrs.get("dimension") or 0)
        return program.lanes if op.definition.format == "param" else None

    def extent(self, buffer: Buffer | None, dimension: int) -> Column:
        if buffer is None:
            return None
        fixed = buffer.shape[dimension]
        axis = buffer.dimensions - 1 - dimension
        along = self.program.workgroup[axis] if axis < 3 else 1
        return fixed if fixed is not None else along if along > 1 else self.program.lanes

    # --- accesses

    def access(self, op: Op, lanes: Lanes) -> None:
        name = op.attrs["buffer"]
        buffer = self.program.buffers.get(name)
        moved: DataType = (op.operands[0] if op.definition.format == "store" else op.results[0]).type
        indices = [self.column(index) for index in op.indices]
        if (
            buffer is None
            or name not in self.stored
            or name in self.warnings
            or moved.is_matrix
            or moved.is_slice
        ):
            return
        access = _Access(op, self.around)
        if op.name == "load" and name in self.copies:
            self.warnings[name] = _uncopied(access, self.copies[name])
        if op.name == "copy_async":
            self.copies[name] = access
        if lanes is None or any(index is None for index in indices):
            return
        width = moved.lanes if moved.is_vec and not buffer.dtype.is_vec else 1
        written, read = self.written.setdefault(name, {}), self.read.setdefault(name, {})
        places = self.places(indices, lanes, width)
        met = _loads if op.name == "load" else self.stores
        pair = met(access, places, written, read)
        if pair is not None:
            self.warnings[name] = _unordered(buffer, *pair)

    def places(
        self, indices: Sequence[Column], lanes: Sequence[int], width: int
    ) -> Iterator[tuple[int, Place]]:
        """Each element that each of the invocations moves, a vector from the last index on."""
        columns = [
            [index[lane] for lane in lanes] if isinstance(index, list) else [_of(index, 0)] * len(lanes)
            for index in indices
        ]
        if width > 1:
            lanes = [lane for lane in lanes for _ in range(width)]
            *first, last = columns
            columns = [[number for number in column for _ in range(width)] for column in first]
            columns.append([number + part for number in last for part in range(width)])
        return zip(lanes, columns[0] if len(columns) == 1 else zip(*columns, strict=True), strict=True)

    def stores(
        self,
        access: _Access,
        places: Iterator[tuple[int, Place]],
        written: dict[Place, Touch],
        read: dict[Place, list[Touch]],
    ) -> tuple[Touch, Touch] | None:
        """Note stores to elements; the first with another invocation's access of the same element that it races with."""
        op = access.op
        own, is_alike = self.element_read(op), self.is_alike(op)
        for lane, place in places:
            loads, store = read.get(place), written.get(place)
            if loads is not None or store is not None:
                others = [load for load in loads or () if load[0] != lane]
                other = next((load for load in others if load[1].op is not own), None)
                if other is None and not is_alike:
                    if store is not None and store[0] != lane and self.differs(op, store[1]):
                        other = store
                    elif others:  # both add to what is there
                        other = (others[0][0], _Access(op, ()))
                if other is not None:
                    return (lane, access), other
            written[place] = lane, access
        return None

    def is_alike(self, op: Op) -> bool:
        """Whether all invocations store to one element, which racing_stores tells."""
        return all(isinstance(self.column(index), int) for index in op.indices)

    def element_read(self, op: Op) -> Op | None:
        """The load of the element that a store changes."""
        change = updated(op)
        operands = () if change is None else change[0].operands
        loads = [operand.owner for operand in operands if change is not None and operand is not change[1]]
        return loads[0] if loads and isinstance(loads[0], Op) else None

    def differs(self, op: Op, store: _Access) -> bool:
        """Whether the values that two invocations store are surely not the same."""
        if op is not store.op:
            return False
        if updated(op) is not None:
            return True
        pending, differs = [op.operands[0]], False
        for _ in range(_MOST_TERMS):
            if not pending:
                return differs
            value = pending.pop()
            column, owner = self.column(value), value.owner
            if constant_value(value) is not None or isinstance(column, int):
                continue
            if isinstance(column, list) or not isinstance(owner, Op):
                differs |= isinstance(column, list) and len(set(column)) > 1
                if not isinstance(owner, Op):
                    return False
            elif owner.name == "load":
                columns = [self.column(index) for index in owner.indices]
                if any(c is None for c in columns):
                    return False
                differs |= any(isinstance(c, list) and len(set(c)) > 1 for c in columns)
            elif owner.definition.is_pure and not owner.regions:
                pending += owner.operands
            else:
                return False
        return False


def _loads(
    access: _Access,
    places: Iterator[tuple[int, Place]],
    written: dict[Place, Touch],
    read: dict[Place, list[Touch]],
) -> tuple[Touch, Touch] | None:
    """Note loads of elements, two invocations for each; the first with another invocation's store to the same element."""
    for lane, place in places:
        store = written.get(place)
        if store is not None and store[0] != lane:
            return (lane, access), store
        loads = read.get(place)
        if loads is None:
            read[place] = [(lane, access)]
        elif len(loads) == 1 and loads[0][0] != lane:
            loads.append((lane, access))
    return None


def _of(column: Column, lane: int) -> int:
    assert column is not None
    return column[lane] if isinstance(column, list) else column


def _below(at: Column, upper: Column, lanes: Sequence[int]) -> Sequence[int]:
    """Invocations whose number is below that of `upper`."""
    if isinstance(at, int) and isinstance(upper, int):
        return lanes if at < upper else ()
    return [lane for lane in lanes if _of(at, lane) < _of(upper, lane)]


def _others(lanes: Lanes, part: Lanes) -> Lanes:
    if lanes is None or part is None:
        return None
    inner = set(part)
    return [lane for lane in lanes if lane not in inner]


def _added(a: Column, b: Column) -> Column:
    if a is None or b is None:
        return None
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    count = len(a) if isinstance(a, list) else len(b)  # type: ignore[arg-type]
    return [_of(a, lane) + _of(b, lane) for lane in range(count)]


def _text(op: Op) -> str:
    return "" if op.loc is None else op.loc.source.text[op.loc.start : op.loc.end]


def _unordered(buffer: Buffer, last: Touch, first: Touch) -> Diagnostic:
    """Warning of two accesses, of which one at least stores."""
    (later_lane, later), (earlier_lane, earlier) = last, first
    op, spelling = later.op, spelling_at(later.op.loc)
    name = spelling.buffer(buffer.name)
    is_load, was_load = op.name == "load", earlier.op.name == "load"
    element = spelling.target(_text(op)) or spelling.element(buffer.name, indices_shown(op))
    if is_load:
        message = f"this reads elements of {name} that other invocations store, and nothing orders the two"
    elif was_load:
        message = f"this stores to elements of {name} that other invocations read, and nothing orders the two"
    else:
        pair = " and ".join(map(str, sorted((earlier_lane, later_lane))))
        message = f"invocations {pair} of a workgroup, and others, store to {element} at one place, each its own value: this is a race, and one of them stays"
    if not is_load and not was_load:
        change = updated(op)
        atomic = None if change is None else UPDATES.get(change[0].name)
        moved = op.operands[0].type
        help = f"store to an element of each one's own, or add to one by an atomic, {spelling.atomic}"
        if change is not None and atomic is not None:
            update = spelling.update(
                atomic, buffer.name, indices_shown(op), shown(change[1]), buffer.dtype, _text(op)
            )
            help = f"write {update}"
        elif moved.is_vec and not buffer.dtype.is_vec:
            help = f"an index counts elements, and {moved} has {moved.lanes} of them: multiply it by {moved.lanes}"
    elif buffer.is_on_chip:
        help = _with_barrier(later, earlier, spelling.barrier("workgroup"))
    else:
        help = spelling.apart(buffer.name, str(buffer.dtype), "" if is_load else _text(op))
    warning = Diagnostic("warning", message, op.loc, help=help)
    if earlier.op is not op:
        warning.note(f"the {'load' if was_load else 'store'} is here", earlier.op.loc)
    return warning


def _with_barrier(later: _Access, earlier: _Access, barrier: str) -> str:
    """Remedy for workgroup memory: a barrier where all invocations come to."""
    what = "load" if earlier.op.name == "load" else "store"
    split = next((each for each in later.around if each in earlier.around and not each.is_shared), None)
    if split is not None:
        return f"end the {split.op.name} behind the {what}, put {barrier} there, and begin it again before this line"
    place = _place(later, earlier)
    line = "" if place.loc is None else f" before line {place.loc.line}"
    is_above = place.loc and earlier.op.loc and earlier.op.loc.line < place.loc.line
    return f"put {barrier}{line}{f', behind the {what}' if is_above else ''}"


def _place(later: _Access, earlier: _Access) -> Op:
    """The outermost op around an access that is not around an earlier one."""
    return next((each.op for each in later.around if each not in earlier.around), later.op)


def _uncopied(load: _Access, copy: _Access) -> Diagnostic:
    spelling, place = spelling_at(load.op.loc), _place(load, copy)
    name = spelling.buffer(load.op.attrs["buffer"])
    line = "" if place.loc is None else f" before line {place.loc.line}"
    help = f"put {spelling.copy_wait}{line}, and {spelling.barrier('workgroup')} behind that"
    message = f"this reads {name}, and nothing waits for the copy to it"
    return Diagnostic("warning", message, load.op.loc, help=help).note("the copy is here", copy.op.loc)
