"""Elements of a row that no whole round of a loop has, and that no total has either.

    %rounds = div (len @a, 1), 16             rows of 40 elements: two rounds of 16, and 8 elements that are in none
    for %t = 0 to %rounds iter(%s = 0.0) {
      for %k = 0 to 16 iter(%u = %s) {
        %v = load @a[%i, (%t * 16 + %k)]

Told are sums that go on from round to round over the elements of a round, or over all invocations: a loop whose rounds each have a result of
their own, the windows of a signal, may leave the last part out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from ...records import dataclass
from ..diagnostics import Diagnostic, Location, source_text, spelling_at
from ..grids import Extent
from ..loops import bounds, inits
from ..program import Block, Op, Program, Value
from ..rewrite import constant_value
from .invocation_runs import Lanes, Run, Supposed, moved_extents, of_lane

__all__ = ["dropped_remainders"]

_MOST_TERMS = 200
"""Ops of an index that are looked at."""
_LOADS = ("load", "slice_load")
_SUMS = ("workgroup_reduce", "subgroup_reduce", "subgroup_shuffle")


@dataclass(frozen=True, slots=True)
class _Remainder:
    """A loop over the whole parts of a length, its quotient, a load in it, and the dimension along which it goes over them."""

    loop: Op
    quotient: Op
    load: Op
    dimension: int


def dropped_remainders(
    program: Program,
    grid: Sequence[Extent],
    shapes: Mapping[str, Sequence[int]],
    params: Mapping[str, int],
    loc: Location | None,
) -> Iterator[Diagnostic]:
    """The warning of a launch at `loc`.  `shapes`: of the arrays that are passed, by buffers; `params`: whole numbers, by "@name"."""
    extents = tuple(extent for extent in grid if isinstance(extent, int) and extent > 0)
    candidates = [*_candidates(program)] if len(extents) == len(grid) else []
    if not candidates:
        return
    run = _Ends(program, extents, shapes, params)
    run.run()
    if run.left < 0:
        return
    loads = [op for op in program.walk() if "buffer" in op.attrs and op.definition.format != "len"]
    for each in candidates:
        name, shape = each.load.attrs["buffer"], shapes.get(each.load.attrs["buffer"], ())
        number, part = (run.column(operand) for operand in each.quotient.operands)
        if not isinstance(number, int) or not isinstance(part, int) or part < 2 or number % part == 0:
            continue
        if len(shape) != len(each.load.indices) or shape[each.dimension] != number or name in run.unsure:
            continue
        ends = [run.reached.get(op) for op in loads if op.attrs["buffer"] == name]
        last = max((end[each.dimension] for end in ends if end is not None), default=0)
        # a load that is not seen may be one of the others
        is_seen = number < part or None not in ends
        if is_seen and last == number - number % part:
            yield _dropped(each, number, part, loc)
            return


def _candidates(program: Program) -> Iterator[_Remainder]:
    """Loops that add up over the whole parts of a length."""
    for loop in program.walk():
        quotient = _rounds(loop) if loop.name == "for" and loop.results else None
        if quotient is None:
            continue
        counter, inner = loop.regions[0].args[0], [*loop.regions[0].walk()]
        changes = (op for op in inner if op.definition.effects & {"write"} and "buffer" in op.attrs)
        outside = (op for op in changes if not program.buffers[op.attrs["buffer"]].is_on_chip)
        if any(_is_of(op.indices, counter) for op in outside):  # each round has a result
            continue
        for load in inner:
            for dimension, index in enumerate(load.indices if load.name in _LOADS else ()):
                if _is_of([index], counter) and _is_in_total(program, loop, load, quotient):
                    yield _Remainder(loop, quotient, load, dimension)


def _rounds(loop: Op) -> Op | None:
    """The quotient of a length, or a number of the caller, that says how many rounds a loop has."""
    lower, upper, step = bounds(loop)
    op = upper.owner if isinstance(upper, Value) else None
    if (lower, step) != (0, 1) or not isinstance(op, Op) or op.name != "div":
        return None
    length = op.operands[0].owner
    while isinstance(length, Op) and length.name == "cast":
        length = length.operands[0].owner
    return op if isinstance(length, Op) and length.name in ("len", "param") else None


def _is_of(values: Sequence[Value], counter: Value) -> bool:
    """Whether numbers are computed from a counter."""
    return any(value is counter for value in _sources(values))


def _has_id(indices: Sequence[Value]) -> bool:
    """Whether invocations have places of their own."""
    owners = [value.owner for value in _sources(indices)]
    return any(isinstance(op, Op) and op.name in ("local_id", "global_id", "lane_id") for op in owners)


def _sources(values: Sequence[Value]) -> Iterator[Value]:
    """Values, and those that they are computed from."""
    pending, seen = [*values], set[Value]()
    for _ in range(_MOST_TERMS):
        if not pending:
            return
        value = pending.pop()
        if value not in seen:
            seen.add(value)
            yield value
            pending += value.owner.operands if isinstance(value.owner, Op) else ()


def _is_in_total(program: Program, loop: Op, load: Op, quotient: Op) -> bool:
    """Whether what a loop carries goes on through the elements of a round, or is added up over invocations behind the loop."""
    body, (_, *carried) = loop.regions[0], loop.regions[0].args
    if any(op.name == "for" and {*inits(op)} & {*carried} for op in body.ops):
        return True
    if load.name == "slice_load":
        return any(op.name == "slice_dot" and op.operands[-1] in carried for op in body.ops)
    ends = body.terminator.operands if body.terminator is not None else ()
    part = constant_value(quotient.operands[1])
    if any(_has_terms(end, arg, load, part) for arg, end in zip(carried, ends, strict=True)):
        return True
    derived = {*loop.results}
    for op in _behind(program.body, loop):
        if not any(operand in derived for operand in op.operands):
            continue
        is_shared = "buffer" in op.attrs and program.buffers[op.attrs["buffer"]].is_on_chip
        if op.name in _SUMS or op.definition.format == "atomic" or is_shared:
            return _has_id(load.indices)
        if op.definition.is_pure and not op.regions:
            derived.update(op.results)
    return False


def _has_terms(total: Value, begun: Value, load: Op, count: object) -> bool:
    """Whether a sum adds so many terms to what it began with, each with an element of its own of the array that a load is of."""
    pending, terms = [total], list[Value]()
    for _ in range(_MOST_TERMS):
        if not pending:
            break
        value = pending.pop()
        op = value.owner
        if isinstance(op, Op) and op.name == "fma":
            pending.append(op.operands[2])
            terms.append(value)
        elif isinstance(op, Op) and op.name == "add":
            pending += op.operands
        elif value is not begun:
            terms.append(value)
    return (
        not pending and len(terms) == count and all(_loads(term, load.attrs["buffer"]) == 1 for term in terms)
    )


def _loads(term: Value, name: str) -> int:
    """Number of elements of a buffer that a term is computed from."""
    pending, loads = [term], set[Op]()
    for _ in range(_MOST_TERMS):
        if not pending:
            return len(loads)
        op = pending.pop().owner
        if isinstance(op, Op) and op.name == "load":
            loads |= {op} if op.attrs["buffer"] == name else set()
        elif isinstance(op, Op):
            pending += op.operands[:2] if op.name == "fma" else op.operands
    return 0


def _behind(block: Block, loop: Op) -> Iterator[Op]:
    """The ops of a block behind a loop in it."""
    ops = iter(block.walk())
    for op in ops:
        if op is loop:
            break
    inner = {*loop.walk()}
    yield from (op for op in ops if op not in inner)


class _Ends(Run):
    """A run of the invocations at the corners of the first workgroup and of the last ones, in the first and the last rounds of loops.  `reached`: of
    each load, one more than its largest place along each dimension; `unsure`: buffers of which there may be other loads."""

    def __init__(
        self,
        program: Program,
        grid: Sequence[int],
        shapes: Mapping[str, Sequence[int]],
        params: Mapping[str, int],
    ) -> None:
        groups = {
            (0, 0, 0),
            *(tuple(n - 1 if a == axis else 0 for a, n in enumerate(grid)) for axis in range(len(grid))),
        }
        places = tuple(product(*({0, size - 1} for size in program.workgroup)))
        super().__init__(program, Supposed(tuple(grid), tuple(sorted(groups)), places, shapes, params))
        self.reached: dict[Op, list[int]] = {}
        self.unsure: set[str] = set()

    def loop(self, op: Op, lanes: Lanes) -> None:
        lower, upper, step = (b if isinstance(b, int) else self.column(b) for b in bounds(op))
        super().loop(op, lanes)
        if lanes is None or lower is None or upper is None or step is None:
            return
        last = self.each(
            [lower, upper, step], lambda a, b, by: a + (b - a - 1) // by * by if by > 0 and a < b else b
        )
        within = [lane for lane in lanes if of_lane(last, lane) < of_lane(upper, lane)]
        counter, *carried = op.regions[0].args
        self.columns.update(dict.fromkeys(carried))
        self.columns[counter] = last
        if within:
            self.block(op.regions[0], within)

    def access(self, op: Op, lanes: Lanes) -> None:
        name, columns = op.attrs["buffer"], [self.column(index) for index in op.indices]
        widths = [extent or 0 for extent in moved_extents(self.program, op)]
        if lanes is None or None in columns or 0 in widths:
            self.unsure.add(name)
            return
        places = [
            max(of_lane(column, lane) for lane in lanes) + width
            for column, width in zip(columns, widths, strict=True)
        ]
        self.reached[op] = [*map(max, places, self.reached.get(op, places))]


def _dropped(each: _Remainder, number: int, part: int, loc: Location | None) -> Diagnostic:
    load, loop = each.load, each.loop
    spelling, rest = spelling_at(load.loc), number % part
    along = f" along dimension {each.dimension}" if len(load.indices) > 1 else ""
    last = "the last one is not read" if rest == 1 else f"the last {rest} are not read"
    message = f"{spelling.buffer(load.attrs['buffer'])} has {number} elements{along}, and {number // part} rounds of {part} end at {number - rest}: {last}"
    help = f"go over the others behind the loop, or pass a multiple of {part} elements"
    if spelling.name == "PYTHON":
        text = source_text(each.quotient.loc)
        first, _, second = text.partition("//")
        whole = f"vyre.ceil_div({first.strip()}, {second.strip()})"
        name = load.attrs["buffer"]
        rest_of = "leave out what is behind the end"
        if load.name == "slice_load":
            rest_of = f"{name}.filled(0) for {name}, which has 0 behind the end"
        help = f"write {whole} for the rounds, and {rest_of}; or pass a multiple of {part} elements"
    warning = Diagnostic("warning", message, loc, help=help)
    return warning.note("the loop is here", loop.loc).note("it is read here", load.loc)
