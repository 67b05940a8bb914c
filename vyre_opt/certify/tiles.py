"""The claim of `decode_scan_fuse`: a buffer may be a tile of each workgroup.

In the program before, every element that a lane reads was written by its own workgroup: earlier by the lane itself, or
with a barrier between.  In the program after, accesses of one workgroup are at the same distance from where they were,
so they meet exactly if they met before; and they lie in the tile.  Where a barrier parts the iterations of a loop around
all of them, the distance may be another one in each: the tile is used again.

An access out of bounds is an error of the program, so none is assumed to be: neither at the lane in question, nor at
the first lane, whose index bounds by how much others may wrap.

The writer of an element is not searched for.  It is put in: the lane and the iterations that the index of a store
gives by division, the largest coefficient first.

    store @h[64*w + 4*l + k]     of element e:  l = (e - 64*w) / 4,  k = (e - 64*w) % 4

Of several dimensions, one gives what the others leave open, those that move with the fewest first:

    store @h[16*w + k, l]        of element e, f:  l = f,  k = e - 16*w

Where the index is no sum of multiples of the ids, a small workgroup's lanes are listed:

    store @h[64*w + l*l % 67]    of element e:  l = 0 if e - 64*w = 0, 1 if e - 64*w = 1, 2 if e - 64*w = 4, ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from operator import mul

import z3

from ..ir.loops import bounds
from ..ir.ops import AXES
from ..ir.program import Dim3, Op, Program
from ..records import dataclass
from .accesses import (
    Access,
    Indices,
    accesses_of,
    barrier_between,
    is_before,
    is_inside,
    named,
    parts_workgroup,
    shared_loops,
    touches,
)
from .in_bounds import shown_at
from .obligations import Obligation, not_seen, variables
from .points import Group, Nesting, Point, type_range

__all__ = ["covered", "tile"]

SEARCH_MILLISECONDS = 2000

MOST_LISTED = 256
"""Lanes of a workgroup that a witness lists."""


def tile(before: Program, after: Program, buffer: str) -> Iterator[Obligation]:
    """The obligations of one buffer.  `before`, `after`: the program around the pass."""
    old, new = Nesting(before), Nesting(after)
    were, are = accesses_of(old, buffer), accesses_of(new, buffer)
    if len(were) != len(are):
        yield not_seen(f"accesses of @{buffer} are moved", f"{len(are)} of {len(were)} are there", [])
        return
    reads_and_writes = list(zip(were, are, strict=True))
    for access, _ in reads_and_writes:
        if not access.is_write:
            yield covered(old, access, [a for a, _ in reads_and_writes if a.is_write])
    parted = _parted_loops(old, [access.op for access, _ in reads_and_writes])
    for pair in reads_and_writes:
        yield _in_tile(old, new, *pair)
        yield _rebased(old, new, reads_and_writes[0], pair, parted)
        if before.buffers[buffer].dtype is not after.buffers[buffer].dtype and pair[0].is_write:
            yield _narrowed(old, pair[0], after)


# --- each read is covered


def covered(
    nesting: Nesting,
    read: Access,
    writes: Sequence[Access],
    given: Callable[[Point], list[z3.BoolRef]] = lambda reader: [],
) -> Obligation:
    """Each element that is read, the workgroup has written.  `premises`: what else is known of the reader."""
    group = Group(nesting.program)
    point = Point.any(nesting, group, "reader")
    parts = [z3.Int(f"part.{dimension}") for dimension in range(len(read.op.indices))]
    element = [index + part for index, part in zip(point.indices(read.op), parts, strict=True)]
    points = [point]
    same, others = list[z3.BoolRef](), list[z3.BoolRef]()
    # writers in one lane and iteration share a point, so that exactly one of two arms of an `if` is taken
    known: dict[str, Point] = {}
    for number, write in enumerate(writes):
        for solved in _writers(nesting, point, write, read, element, number):
            writer = known.setdefault(_place(solved), solved)
            if writer is solved:
                points.append(writer)
            by = same if writer.local == point.local else others
            by.append(z3.And(writer.reaches(write.op), touches(write, writer.indices(write.op), element)))
    return Obligation(
        f"what {read} reads, its workgroup has written",
        [read.op, *(write.op for write in writes)],
        points,
        [
            point.reaches(read.op),
            *_no_fault(point, read),
            *given(point),
            *(fact for write in writes for fact in _first_inside(point, write, read)),
            *(z3.And(part >= 0, part < extent) for part, extent in zip(parts, read.extents(), strict=True)),
        ],
        z3.Or(same + others),
        shown_at(point, **named("element", element)),
        [z3.Or(others)] if others else [],
        partial(_has_no_writer, nesting, point, read, writes, element),
    )


def _place(point: Point) -> str:
    """The lane and the iterations of a point, equal only for equal ones."""
    iterations = ((point.nesting.number[loop], term) for loop, term in point.iterations.items())
    terms = (*enumerate(point.local, -len(AXES)), *iterations)
    return " ".join(f"{number}: {z3.simplify(term).sexpr()}" for number, term in terms)


def _has_no_writer(
    nesting: Nesting,
    reader: Point,
    read: Access,
    writes: Sequence[Access],
    element: Indices,
    model: z3.ModelRef,
) -> bool:
    """Whether at the reader of a model no lane at all has written the element."""
    here = [
        z3.Int(str(name)) == model[name]
        for name in model.decls()
        if name.arity() == 0 and z3.is_int_value(model[name])
    ]
    for number, write in enumerate(writes):
        if write.op.name == "copy_async":
            return False  # when it arrives is not followed
        if not _may_write(nesting, write, read):
            continue
        writer = Point.any(nesting, reader.group, f"any{number}")
        shared = shared_loops(nesting, write.op, read.op)
        equal = [
            writer.iterations[loop] == reader.iterations[loop] for loop in shared if loop in writer.iterations
        ]
        if not barrier_between(nesting, write.op, read.op):
            equal += [x == y for x, y in zip(writer.local, reader.local, strict=True)]
        solver = z3.Solver()
        solver.set("timeout", SEARCH_MILLISECONDS)
        solver.add(writer.reaches(write.op), touches(write, writer.indices(write.op), element), *here, *equal)
        solver.add(*writer.assumptions())
        if solver.check() != z3.unsat:
            return False
    return True


def _may_write(nesting: Nesting, write: Access, read: Access) -> bool:
    """Whether what `write` writes is there when `read` reads it, at some lane."""
    if write.is_atomic or write.op.name == "copy_async" or not is_before(nesting, write.op, read.op):
        return False
    return _has_own_lane(write, read) or barrier_between(nesting, write.op, read.op)


def _has_own_lane(write: Access, read: Access) -> bool:
    """Whether a lane with both accesses surely reads its own write; in matrix accesses, any lane may move an element."""
    return not (write.is_collective or read.is_collective)


def _writers(
    nesting: Nesting, reader: Point, write: Access, read: Access, element: Indices, number: int
) -> Iterator[Point]:
    """The points that may have written an element by `write`: of the reading lane, and of another one."""
    if not _may_write(nesting, write, read):
        return
    shared = shared_loops(nesting, write.op, read.op)
    if _has_own_lane(write, read):
        yield _solved(nesting, reader, write, element, shared, f"same{number}", reader.local)
    if barrier_between(nesting, write.op, read.op):
        for position, lane in enumerate(_lanes_named(nesting, write.op)):
            yield _solved(nesting, reader, write, element, shared, f"writer{number}.{position}", None, lane)
        listed = _listed(nesting, reader, write, element, shared, f"writer{number}.listed")
        if listed is not None:
            yield listed


def _lanes_named(nesting: Nesting, op: Op) -> list[Dim3]:
    """Local ids that a lane may have where the index does not tell: 0, and what conditions around compare with, as an id
    along an axis or as the linear one."""
    width, height, depth = nesting.program.workgroup
    lanes: dict[Dim3, None] = {(0, 0, 0): None}
    for outer, _ in nesting.around[op]:
        compare = outer.operands[0].owner if outer.name == "if" else None
        for value in compare.operands if isinstance(compare, Op) else ():
            owner = value.owner
            if isinstance(owner, Op) and owner.name == "const" and value.type.is_int:
                number = int(owner.attrs["value"])
                linear = number % width, number // width % height, number // width // height % depth
                lanes.update(dict.fromkeys((linear, (number, 0, 0), (0, number, 0), (0, 0, number))))
    return [
        lane for lane in lanes if all(0 <= x < y for x, y in zip(lane, (width, height, depth), strict=True))
    ]


def _solved(
    nesting: Nesting,
    reader: Point,
    write: Access,
    element: Indices,
    shared: Sequence[Op],
    name: str,
    local: Sequence[z3.ArithRef] | None,
    otherwise: Dim3 = (0, 0, 0),
) -> Point:
    """The point at which `write` writes `element`, in the reader's iterations of the loops `shared`.

    `local`: the local ids; if None, they are solved for, as the iterations of the other loops are.  `otherwise`: ids of
    which the index says nothing.
    """
    unknowns = _Unknowns(nesting, write.op, shared, local is None)
    ids = unknowns.ids if local is None else local
    at = Point(nesting, reader.group, name, ids, {**reader.iterations, **unknowns.iterations})
    solution = unknowns.solve(at.indices(write.op), element, otherwise)
    lanes = [z3.substitute(term, *solution) for term in at.local]
    iterations = {loop: z3.substitute(term, *solution) for loop, term in unknowns.iterations.items()}
    if local is not None:
        return reader.same_lane(name, shared, iterations)
    return Point(nesting, reader.group, name, lanes, {**reader.iterations, **iterations})


def _listed(
    nesting: Nesting, reader: Point, write: Access, element: Indices, shared: Sequence[Op], name: str
) -> Point | None:
    """The point at which `write` writes `element`, found in a list of the lanes; None where the index is a sum of
    multiples of the ids, or the list is long."""
    width, height, depth = nesting.program.workgroup
    unknowns = _Unknowns(nesting, write.op, shared, True)
    if unknowns.iterations or nesting.program.lanes > MOST_LISTED:
        return None
    at = Point(nesting, reader.group, name, unknowns.ids, reader.iterations)
    indices = at.indices(write.op)
    ids = [(x, y, z) for z, y, x in product(range(depth), range(height), range(width))]
    steps = {
        lane: [_growth(index, list(zip(unknowns.ids, lane_ids, strict=True))) for index in indices]
        for lane, lane_ids in enumerate(ids)
    }
    none = [0] * len(indices)
    units = list(zip(*(steps.get(lane, none) for lane in (1, width, width * height)), strict=True))
    if all(
        steps[lane] == [sum(map(mul, unit, lane_ids)) for unit in units] for lane, lane_ids in enumerate(ids)
    ):
        return None
    zero = [(term, z3.IntVal(0)) for term in unknowns.ids]
    rest = [
        component - z3.substitute(index, *zero) for component, index in zip(element, indices, strict=True)
    ]
    number: z3.ArithRef = z3.IntVal(0)
    for lane, step in steps.items():
        number = z3.If(z3.And([x == y for x, y in zip(rest, step, strict=True)]), lane, number)
    lanes = [number % width, number / width % height, number / (width * height)]
    return Point(nesting, reader.group, name, lanes, reader.iterations)


@dataclass(frozen=True)
class _Unknown:
    """A variable, and how many values it has, from 0 on; None if that is not known."""

    term: z3.ArithRef
    count: int | None


class _Unknowns:
    """Variables for the ids and iterations at which an access is to be found."""

    def __init__(self, nesting: Nesting, op: Op, shared: Sequence[Op], with_ids: bool) -> None:
        loops = [loop for loop in nesting.loops(op) if loop not in shared and loop.name == "for"]
        self.iterations = {loop: z3.Int(f"?{nesting.number[loop]}") for loop in loops}
        self.ids = [z3.Int(f"?{axis}") for axis in AXES] if with_ids else []
        counts = [*nesting.program.workgroup, *map(_trips, loops)] if with_ids else list(map(_trips, loops))
        self.all = [
            _Unknown(*pair) for pair in zip([*self.ids, *self.iterations.values()], counts, strict=True)
        ]

    def solve(
        self, indices: Indices, element: Indices, otherwise: Dim3
    ) -> list[tuple[z3.ArithRef, z3.ArithRef]]:
        """A term for each variable, so that the indices are those of `element` or a little below them, if each is a sum of
        multiples of the variables, or of their bits, each less than the next larger multiple."""
        parts, bits, along = [], [], []
        solution: dict[z3.ArithRef, z3.ArithRef] = {}
        values = [*(otherwise if self.ids else ()), *[0] * len(self.iterations)]
        for unknown, value in zip(self.all, values, strict=True):
            is_linear = all(self._is_linear(index, unknown) for index in indices)
            split = [] if is_linear else _bits(unknown)
            parts += split or [unknown]
            solution.update((part.term, z3.IntVal(value >> k & 1)) for k, part in enumerate(split))
            if split:
                bits.append((unknown.term, z3.Sum([part.term * (1 << k) for k, part in enumerate(split)])))
            else:
                solution[unknown.term] = z3.IntVal(value)
        zero = [(part.term, z3.IntVal(0)) for part in parts]
        for index, component in zip(indices, element, strict=True):
            index = z3.substitute(index, *bits)
            factors = {part: factor for part in parts if (factor := _step(index, parts, part, 1))}
            along.append((index, component, factors))
        solved: dict[z3.ArithRef, z3.ArithRef] = {}
        for index, component, factors in sorted(along, key=lambda each: len(each[2])):
            open_factors = {part: factor for part, factor in factors.items() if part.term not in solved}
            rest = component - z3.substitute(index, *{**dict(zero), **solved}.items())
            solved.update(_divided(rest, open_factors))
        solution.update(solved)
        whole = [(term, z3.substitute(sum_of_bits, *solution.items())) for term, sum_of_bits in bits]
        return [*solution.items(), *whole]

    def _is_linear(self, index: z3.ArithRef, unknown: _Unknown) -> bool:
        last = (unknown.count or 2) - 1
        return last < 1 or _step(index, self.all, unknown, last) == last * _step(index, self.all, unknown, 1)


def _divided(rest: z3.ArithRef, factors: Mapping[_Unknown, int]) -> dict[z3.ArithRef, z3.ArithRef]:
    """Value of each variable whose multiples by `factors` add up to `rest`, the largest multiple first."""
    solution = {}
    for part, factor in factors.items():  # counted down from its last value where the index falls
        if factor < 0 and part.count is not None:
            rest -= factor * (part.count - 1)
    for part, factor in sorted(factors.items(), key=lambda each: -abs(each[1])):
        if factor > 0 or part.count is not None:
            number = rest / abs(factor)
            solution[part.term] = number if factor > 0 else (part.count or 1) - 1 - number
            rest = rest % abs(factor)
    return solution


def _step(index: z3.ArithRef, unknowns: Sequence[_Unknown], one: _Unknown, value: int) -> int:
    """Growth of the index where `one` goes from 0 to `value`, and all else is 0, so that nothing wraps."""
    return _growth(index, [(u.term, value if u.term is one.term else 0) for u in unknowns])


def _growth(index: z3.ArithRef, values: Sequence[tuple[z3.ArithRef, int]]) -> int:
    """Growth of the index where variables go from 0 to these values, and all else is 0."""
    here = [(term, z3.IntVal(value)) for term, value in values]
    step = z3.substitute(index, *here) - z3.substitute(index, *((term, z3.IntVal(0)) for term, _ in values))
    step = z3.simplify(z3.substitute(step, *((other, _zero_of(other)) for other in variables([step]))))
    return int(step.as_long()) if z3.is_int_value(step) else 0


def _bits(unknown: _Unknown) -> list[_Unknown]:
    """The bits of a variable whose count is a power of two, the lowest first; none for others."""
    count = unknown.count or 0
    if count < 2 or count & (count - 1):
        return []
    return [_Unknown(z3.Int(f"{unknown.term}.{k}"), 2) for k in range(count.bit_length() - 1)]


def _trips(loop: Op) -> int | None:
    """The iterations of a loop whose bounds are constants."""
    lower, upper, step = bounds(loop)
    if not (isinstance(lower, int) and isinstance(upper, int) and isinstance(step, int)):
        return None
    return max(0, -(-(upper - lower) // step))


def _zero_of(variable: z3.ExprRef) -> z3.ExprRef:
    return z3.BoolVal(False) if z3.is_bool(variable) else z3.IntVal(0)


def _no_fault(point: Point, access: Access) -> list[z3.BoolRef]:
    """The access is in bounds here, and at the first lane."""
    if _is_open(point, access):
        return []
    return [_is_element(point, access), *_first_inside(point, access, access)]


def _first_inside(point: Point, access: Access, here: Access) -> list[z3.BoolRef]:
    """`access` is in bounds at the first lane, in the first iterations, and in those that `here` is in at `point`."""
    if _is_open(point, access):
        return []
    facts, zero = [], z3.IntVal(0)
    lane, zeros = [zero] * len(AXES), dict.fromkeys(point.iterations, zero)
    shared = shared_loops(point.nesting, access.op, here.op)
    now = {loop: point.iterations[loop] for loop in shared if loop in point.iterations}
    for iterations in [zeros, {**zeros, **now}] if now else [zeros]:
        first = Point(point.nesting, point.group, "first", lane, iterations)
        fact = z3.Implies(first.reaches(access.op), _is_element(first, access))
        facts += [] if first.free else [fact]
    return facts


def _is_open(point: Point, access: Access) -> bool:
    """Whether bounds say nothing: of one dimension and any length."""
    buffer = point.program.buffers[access.buffer]
    return buffer.dimensions == 1 and buffer.count is None


def _is_element(point: Point, access: Access) -> z3.BoolRef:
    return is_inside(access, point.indices(access.op), point.group.shape(access.buffer))


# --- the tile


def _pair(
    old: Nesting, new: Nesting, group: Group, name: str, access: tuple[Access, Access]
) -> tuple[Point, Point, z3.ArithRef, z3.ArithRef]:
    """One lane before and after, and the index of an access at both."""
    first = Point.any(old, group, name)
    loops = zip(
        (op for op in new.ops if op.name == "for"), (op for op in old.ops if op.name == "for"), strict=True
    )
    second = Point(new, group, name, first.local, {mine: first.iterations[its] for mine, its in loops})
    indices = (point.integer(a.op.index).term for point, a in zip((first, second), access, strict=True))
    return (first, second, *indices)


def _in_tile(old: Nesting, new: Nesting, access: Access, moved: Access) -> Obligation:
    first, second, _, index = _pair(old, new, Group(old.program), "lane", (access, moved))
    count = new.program.buffers[moved.buffer].count or 0
    return Obligation(
        f"{moved} lies in its tile of {count}",
        [access.op],
        [first, second],
        [first.reaches(access.op), *_no_fault(first, access)],
        is_inside(moved, [index], [count]),
        shown_at(first, place=index),
    )


def _parted_loops(nesting: Nesting, ops: Sequence[Op]) -> list[Op]:
    """The loops around all of `ops` with a barrier before or behind them in each iteration."""
    loops = (
        [loop for loop in nesting.loops(ops[0]) if all(loop in nesting.loops(op) for op in ops)]
        if ops
        else []
    )
    return [loop for loop in loops if loop.name == "for" and _parts_iterations(loop, ops)]


def _parts_iterations(loop: Op, ops: Sequence[Op]) -> bool:
    body = loop.regions[0].ops
    positions = [position for position, top in enumerate(body) if any(op in ops for op in top.walk())]
    outside = (*body[: min(positions)], *body[max(positions) + 1 :])
    return any(map(parts_workgroup, outside))


def _rebased(
    old: Nesting,
    new: Nesting,
    reference: tuple[Access, Access],
    access: tuple[Access, Access],
    parted: Sequence[Op],
) -> Obligation:
    """All accesses of a workgroup moved by the same distance; modulo the type of their indices, where that tells them
    apart."""
    group = Group(old.program)
    a, a_new, a_was, a_is = _pair(old, new, group, "one", reference)
    b, b_new, b_was, b_is = _pair(old, new, group, "other", access)
    unlike = (a_was - a_is) - (b_was - b_is)
    old_bits = {each.op.index.type.bits or 1 for each in (reference[0], access[0])}
    count = new.program.buffers[access[1].buffer].count or 0
    alike = unlike == 0
    wrap = 1 << min(old_bits)
    if len(old_bits) == 1 and count <= wrap:
        # the later elements of a vector do not wrap with the first, unless it begins at a multiple of their number
        whole = [was % each[0].width == 0 for was, each in ((a_was, reference), (b_was, access))]
        alike = z3.Or(alike, z3.And(unlike % wrap == 0, *whole))
    return Obligation(
        f"{access[0]} and {reference[0]} are moved alike",
        [reference[0].op, access[0].op],
        [a, a_new, b, b_new],
        [
            a.reaches(reference[0].op),
            b.reaches(access[0].op),
            *_no_fault(a, reference[0]),
            *_no_fault(b, access[0]),
            *(a.iterations[loop] == b.iterations[loop] for loop in parted),
        ],
        alike,
        {
            **shown_at(a, **{"one element": a_was, "one place": a_is}),
            **shown_at(b, **{"other element": b_was, "other place": b_is}),
        },
    )


def _narrowed(nesting: Nesting, write: Access, after: Program) -> Obligation:
    """Obligation that a stored value fits the narrower type of the tile."""
    point = Point.any(nesting, Group(nesting.program), "lane")
    value = point.integer(write.op.operands[0]).term
    narrow = after.buffers[write.buffer].dtype
    low, high = type_range(narrow)
    return Obligation(
        f"what {write} stores fits {narrow}",
        [write.op],
        [point],
        [point.reaches(write.op)],
        z3.And(value >= low, value <= high),
        shown_at(point, value=value),
    )
