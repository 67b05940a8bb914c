"""Random numbers of a kernel, which `vyre.rand` and `vyre.randint` make of a key and a counter, that come more than once.

u, v = vyre.rand(seed, i), vyre.rand(seed, i)                  both are one number: each wants a counter of its own
y[i] = vyre.rand(seed, 0)                                      one number for all invocations
for k in range(8): total += vyre.rand(seed, i)                 one number for all rounds

A number that all invocations have in common may be meant, as one that says whether a step is left out: told is one that is all they
store or add.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..ir.diagnostics import Diagnostic, Location
from ..ir.loops import inits
from ..ir.program import AccessMode, Block, Op, Program, Value
from ..ir.uniformity import Level, Uniformity
from ..ir.warnings.racing_stores import identity
from ..ir.warnings.unchanged_rounds import adds_the_same
from .bindings import Static

__all__ = ["Draw", "is_draw", "repeated_draws"]

_MOST_TERMS = 100
"""Ops of a counter that are looked at."""


class Draw:
    """A random number: the key and the counter, as bindings, and the value.  `places`: of its call in the author's text, and of those of the
    functions around it."""

    def __init__(self, arguments: Sequence[Any], result: Value) -> None:
        self.arguments, self.result = arguments, result
        self.places: list[Location] = []

    @property
    def loc(self) -> Location:
        return self.places[0]

    @property
    def values(self) -> list[Value]:
        return [each for each in self.arguments if isinstance(each, Value)]


def is_draw(function: Callable[..., Any]) -> bool:
    """Whether a function is the one that makes random numbers, of which the others are made."""
    return (function.__module__, function.__name__) == (f"{__package__}.philox", "randint")


def repeated_draws(program: Program, draws: Sequence[Draw]) -> Iterator[Diagnostic]:
    """The warnings of the random numbers of a program, one for each kind of mistake."""
    if not draws:
        return
    again = _drawn_again(program, {draw.result: draw for draw in draws})
    if again is not None:
        yield again
        return
    yield from _of_all_rounds(program, draws)
    yield from _in_common(program, draws)


def _drawn_again(program: Program, draws: dict[Value, Draw]) -> Diagnostic | None:
    """The warning of the first number that is drawn again behind it."""

    def visit(block: Block, earlier: dict[object, Draw]) -> Diagnostic | None:
        for op in block.ops:
            draw = draws.get(op.results[0]) if op.results else None
            if draw is not None and all(_is_fixed(program, value) for value in draw.values):
                key = tuple(_key(each) for each in draw.arguments)
                first = earlier.setdefault(key, draw)
                if first is not draw:
                    return _again(draw, first)
            for region in op.regions:
                if (warning := visit(region, dict(earlier))) is not None:
                    return warning
        return None

    return visit(program.body, {})


def _key(argument: Any) -> object:
    return argument.value if isinstance(argument, Static) else identity(argument, _MOST_TERMS)


def _is_fixed(program: Program, value: Value) -> bool:
    """Whether a value is computed from no element that the program changes."""
    pending, seen = [value], set[Value]()
    while pending:
        op = pending.pop().owner
        if not isinstance(op, Op):
            continue
        buffer = program.buffers.get(op.attrs.get("buffer", ""))
        if buffer is not None and buffer.access is not AccessMode.READ and op.name != "len":
            return False
        new = [operand for operand in op.operands if operand not in seen]
        seen.update(new)
        pending += new
    return True


def _again(draw: Draw, first: Draw) -> Diagnostic:
    message = "this is the same number once more: its key and its counter are those of an earlier one"
    counter = draw.arguments[-1]
    such = ""
    if isinstance(counter, Value) and not counter.name.isdigit():
        such = f", such as 2 * {counter.name} and 2 * {counter.name} + 1"
    help = f"give each number a counter of its own{such}; where one number is meant, draw it once and give it a name"
    pairs = zip(draw.places, first.places, strict=False)
    place, earlier = next(((a, b) for a, b in pairs if a != b), (draw.loc, first.loc))
    return Diagnostic("warning", message, place, help=help).note("the earlier one is here", earlier)


def _of_all_rounds(program: Program, draws: Sequence[Draw]) -> Iterator[Diagnostic]:
    for loop in program.walk():
        if loop.name != "for" or not adds_the_same(loop):
            continue
        results = {result for op in loop.walk() for result in op.results}
        draw = next((each for each in draws if each.result in results), None)
        if draw is not None:
            name = loop.regions[0].args[0].name
            message = f"this is the same number in each round of the loop: its key and its counter do not go by {name}"
            help = f"let the counter go by {name}, too"
            yield Diagnostic("warning", message, draw.loc, help=help).note("the loop is here", loop.loc)
            return


def _in_common(program: Program, draws: Sequence[Draw]) -> Iterator[Diagnostic]:
    """The warning of the first number which is the same in the whole launch, or in all workgroups, and is all that these store to elements of each
    one's own; or which all invocations add up."""
    uniformity = Uniformity(program)
    own = {result for op in program.walk() if _is_of_group(op) for result in op.results}
    _add_dependents(program.body, own)
    for draw in draws:
        numbers = {draw.result}
        _add_dependents(program.body, numbers)
        for op in program.walk():
            is_sum = op.name in ("atomic_add", "workgroup_reduce", "subgroup_reduce")
            is_store = (
                op.name in ("store", "slice_store") and not program.buffers[op.attrs["buffer"]].is_on_chip
            )
            value = op.operands[-1 if is_sum else 0] if is_sum or is_store else None
            if value is None or value not in numbers:
                continue
            levels = [uniformity.level(each) for each in (value, *draw.values)]
            is_apart = is_store and any(uniformity.level(index) > Level.GRID for index in op.indices)
            if max(levels) is Level.GRID and (is_sum or is_apart):
                yield _common(draw, op, "workgroups" if program.lanes == 1 else "invocations")
                return
            if is_store and own & {*op.indices} and not own & {value, *draw.values}:
                yield _common(draw, op, "workgroups")
                return


def _is_of_group(op: Op) -> bool:
    """Whether workgroups may have an op's results for themselves: its number, and what is in memory."""
    return op.name in ("global_id", "workgroup_id") or bool(op.definition.effects & {"read", "atomic"})


def _add_dependents(block: Block, values: set[Value]) -> None:
    """Add the values of a block that are computed from some values, or by rounds or branches that these decide."""
    for op in block.ops:
        if not op.regions:
            if any(operand in values for operand in op.operands):
                values.update(op.results)
            continue
        is_loop = op.name in ("for", "while")
        begin = inits(op) if is_loop else ()
        body_end, first_end = op.regions[-1].terminator, op.regions[0].terminator
        tests = [*op.operands[: len(op.operands) - len(begin)]]
        if op.name == "for" and any(test in values for test in tests):
            values.add(op.regions[0].args[0])
        ends = [body_end, *([] if is_loop else [first_end])]
        given = [begin, *(end.operands for end in ends if end is not None)]
        for _ in range(2 if is_loop else 1):  # a round gives what it ends with to the next
            for region in op.regions:
                carried = region.args[len(region.args) - len(begin) :]
                for each in given:
                    values.update(arg for arg, value in zip(carried, each, strict=False) if value in values)
                _add_dependents(region, values)
        if op.name == "while" and first_end is not None:
            tests += first_end.operands
        if any(test in values for test in tests):
            values.update(op.results)
        for each in given[1:]:
            values.update(result for result, value in zip(op.results, each, strict=False) if value in values)


def _common(draw: Draw, op: Op, who: str) -> Diagnostic:
    id = "vyre.workgroup_id(0)" if who == "workgroups" else "vyre.global_id(0)"
    message = f"this is one number for all {who}: neither its key nor its counter differs between them"
    help = f"let the counter go by {id}, too"
    what = "stored" if "store" in op.name else "added up"
    return Diagnostic("warning", message, draw.loc, help=help).note(f"it is {what} here", op.loc)
