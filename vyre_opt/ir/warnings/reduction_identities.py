"""Maxima and minima that begin with a 0 which counts in them.

%m = for %k = 0 to %n step 1 iter(%b = 0.0 : f32) {     0 where all elements are below it
  %v = load @x[%k] : f32
  %c = max %b, %v : f32                                 max %b, (abs %v) is right
  yield %c
}
min %b, %v : u32, with iter(%b = 0)                     always 0
atomic_max @m[0], %v : f32                              0 where @m is filled with 0: told of launches
workgroup_reduce<max> (select %inside, %v, 0.0)         0 where all elements are below it

Values that are computed from others that the loop carries may be meant to begin at 0, as sums of prefixes are: they are left out,
and so are differences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..diagnostics import Diagnostic, Location, spelling_at
from ..loops import inits
from ..program import AccessMode, Op, Program, Value
from ..rewrite import constant_value
from ..types import DataType
from .racing_stores import identity
from .signs import Signs

__all__ = ["EXTREMES", "neutral", "reduction_identities", "zeroed_extremes"]

_MOST_TERMS = 50
"""Ops of a value that are looked at."""
_SHORT = 40
"""Characters of a text that a message repeats, at most."""
_REDUCTIONS = ("workgroup_reduce", "subgroup_reduce", "slice_reduce")
EXTREMES = ("atomic_max", "atomic_min")
_KINDS = {"lt": "min", "le": "min", "gt": "max", "ge": "max"}
"""Kind of what taking a new value computes where a comparison of it with the one that is kept holds."""
_OTHER = {"min": "max", "max": "min"}

Taken = tuple[str, Value, Op]
"""Combiner of a value with the one that is kept, max or min; that value; the op that combines them."""


def reduction_identities(program: Program) -> Iterator[Diagnostic]:
    """The warnings of the maxima and minima of a program."""
    ops = [*program.walk()]
    loops = [op for op in ops if op.name == "for" and any(map(_is_zero, inits(op)))]
    reductions = [op for op in ops if op.name in _REDUCTIONS and op.attrs["combine"] in _OTHER]
    if not loops and not reductions:
        return
    signs = Signs(program)
    for loop in loops:
        yield from _running(loop, signs)
    for op in reductions:
        combine = op.attrs["combine"]
        for chosen, zero in _arms(op.operands[0]):
            if _is_zero(zero) and _counts(combine, chosen, signs):
                yield _warning(combine, chosen, op, zero, op.operands[0])
                break


def zeroed_extremes(
    program: Program, zeroed: Mapping[str, str], arrays: Mapping[str, Any], loc: Location | None
) -> Iterator[Diagnostic]:
    """The first warning of a launch at `loc` of a program that keeps a maximum or a minimum in a buffer of zeros.  `zeroed`: what fills a
    buffer with a number, by its name, with {} for the number; `arrays`: by names of buffers, of which those in main memory are looked at."""
    atomics = [op for op in program.walk() if op.name in EXTREMES and op.attrs["buffer"] in zeroed]
    if not atomics:
        return
    signs = Signs(program)
    for op in atomics:
        combine, value = op.name.removeprefix("atomic_"), op.operands[-1]
        if not _counts(combine, value, signs) or (combine == "max" and not _has_negative(program, arrays)):
            continue
        name, dtype = op.attrs["buffer"], value.type.element
        shown, side = spelling_at(op.loc).buffer(name), "below" if combine == "max" else "above"
        what = "maximum" if combine == "max" else "minimum"
        message = f"{shown} begins with 0, which is its {what} where all of {_text(value)} are {side} it"
        if combine == "min" and dtype.kind == "uint":
            message = f"{shown} begins with 0, and no {dtype} is below it"
        fill = zeroed[name].format(neutral(combine, dtype, op.loc))
        warning = Diagnostic("warning", message, op.loc, help=f"{fill} before the launch")
        yield warning.note("it is launched here", loc)
        return


def _has_negative(program: Program, arrays: Mapping[str, Any]) -> bool:
    """Whether an array that a program reads has a number below 0, or is not in main memory."""
    read: list[Any] = [
        arrays.get(buffer.name)
        for buffer in program.bound_buffers
        if buffer.access is AccessMode.READ and buffer.dtype.element.kind in ("int", "float")
    ]
    return any(not hasattr(each, "__array_interface__") or bool((each < 0).any()) for each in read)


def neutral(combine: str, dtype: DataType, loc: Location | None) -> str:
    """Text of the number that a maximum or a minimum of an element type begins with."""
    if dtype.is_float:
        infinity = "math.inf" if spelling_at(loc).name == "PYTHON" else "inf"
        return infinity if combine == "min" else f"-{infinity}"
    bits = (dtype.bits or 32) - dtype.is_signed
    least = -(1 << bits) if dtype.is_signed else 0
    return str((1 << bits) - 1 if combine == "min" else least)


def _counts(combine: str, value: Value, signs: Signs) -> bool:
    """Whether 0 may be another number than the maximum or the minimum of such values."""
    if value.type.element.is_open:
        return False
    if combine == "max":
        return signs.may_be_negative(value)
    return value.type.element.kind == "uint" or signs.may_be_negative(value) or signs.is_never_negative(value)


def _running(loop: Op, signs: Signs) -> Iterator[Diagnostic]:
    """The warnings of values that a loop begins with 0 and makes larger, or smaller, in each round."""
    body = loop.regions[0]
    end = body.terminator
    if end is None:
        return
    for carried, zero, kept in zip(body.args[1:], inits(loop), end.operands, strict=True):
        if not _is_zero(zero):
            continue
        taken = _taken(kept, carried) or []
        if not taken or len({kind for kind, _, _ in taken}) > 1:
            continue
        others = {*body.args[1:]} - {carried}
        found = [each for each in taken if _counts(each[0], each[1], signs)]
        if len(found) == len(taken) and not any(_depends(value, others) for _, value, _ in found):
            kind, value, op = found[0]
            yield _warning(kind, value, op, zero, carried)


def _taken(value: Value, kept: Value, depth: int = 12) -> list[Taken] | None:
    """Values that are combined with `kept`, of which `value` is the largest or the smallest; None where it is something else."""
    if value is kept:
        return []
    op = value.owner
    if not isinstance(op, Op) or not depth:
        return None
    if op.name in _OTHER:
        for before, new in (op.operands, op.operands[::-1]):
            taken = _taken(before, kept, depth - 1)
            if taken is not None:
                return [*taken, (op.name, new, op)]
        return None
    if op.name == "for":
        number = op.results.index(value)
        if inits(op)[number] is not kept or op.regions[0].terminator is None:
            return None
        return _taken(op.regions[0].terminator.operands[number], op.regions[0].args[number + 1], depth - 1)
    arms = _both_arms(value)
    if arms is None:
        return None
    first, second = (_taken(arm, kept, depth - 1) for arm in arms)
    if first is not None and second is not None:
        return first + second
    if (first is None) == (second is None) or (first or second):
        return None
    new = arms[0] if first is None else arms[1]
    compared = _compared(op.operands[0], new, kept)
    if compared is None:
        return None
    kind, value = compared
    return [(kind if first is None else _OTHER[kind], value, op)]


def _compared(condition: Value, new: Value, kept: Value) -> tuple[str, Value] | None:
    """Kind of what a condition computes that chooses `new` where it holds, and else `kept`; and the value that it compares."""
    pending = [condition]
    for _ in range(_MOST_TERMS):
        op = pending.pop().owner if pending else None
        if not isinstance(op, Op):
            return None
        if op.name == "and":
            pending += op.operands
        elif op.name in _KINDS:
            first, second = op.operands
            if second is kept and identity(first) == identity(new):
                return _KINDS[op.name], first
            if first is kept and identity(second) == identity(new):
                return _OTHER[_KINDS[op.name]], second
    return None


def _both_arms(value: Value) -> tuple[Value, Value] | None:
    """The values that a condition chooses between."""
    op = value.owner
    if isinstance(op, Op) and op.name == "select":
        return op.operands[1], op.operands[2]
    if not isinstance(op, Op) or op.name != "if" or len(op.regions) < 2:
        return None
    number, ends = op.results.index(value), [block.terminator for block in op.regions]
    first, second = (end.operands[number] if end is not None else None for end in ends)
    return (first, second) if first is not None and second is not None else None


def _arms(value: Value) -> Iterator[tuple[Value, Value]]:
    """The two values that a condition chooses between, in both orders."""
    arms = _both_arms(value)
    if arms is not None:
        yield arms
        yield arms[::-1]


def _is_zero(value: Value) -> bool:
    """Whether a number, or each element of a slice or a vector, is the constant 0."""
    op = value.owner
    if isinstance(op, Op) and op.name in ("slice_broadcast", "splat"):
        value = op.operands[0]
    return constant_value(value) == 0 and not value.type.is_bool


def _depends(value: Value, others: set[Value]) -> bool:
    """Whether a value is computed from one of others; also where that is not seen."""
    pending, seen = [value], set[Value]()
    for _ in range(_MOST_TERMS):
        if not pending:
            return False
        each = pending.pop()
        if each in others:
            return True
        op = each.owner
        if each in seen or not isinstance(op, Op):
            continue
        seen.add(each)
        pending += op.operands
        for block in op.regions:
            pending += block.terminator.operands if block.terminator is not None else ()
    return True


def _warning(combine: str, value: Value, op: Op, zero: Value, held: Value) -> Diagnostic:
    """`held`: what begins with the 0, or has it at times."""
    dtype, spelling = value.type.element, spelling_at(op.loc)
    what = "maximum" if combine == "max" else "minimum"
    text, side = _text(value), "below" if combine == "max" else "above"
    begins = f"a 0 counts in this {what}" if op.name in _REDUCTIONS else f"this {what} begins with 0"
    if combine == "min" and dtype.kind == "uint":
        message = f"{begins}, and no {dtype} is below it"
    else:
        message = f"{begins}, which it gives where all of {text} are {side} it"
    names = [name for each in (zero, held) for name in (each.name, re.sub(r"_\d+$", "", each.name))]
    place, help = spelling.begun(op.loc, _loc(zero), names, neutral(combine, dtype, op.loc))
    if op.name == "max" and spelling.name == "PYTHON" and len(text) < _SHORT:
        least = "0.0" if dtype.is_float else "0"
        help += f", or max({text}, {least}) for {text} where nothing below 0 is to count"
    warning = Diagnostic("warning", message, op.loc, help=help)
    return warning if place is None else warning.note("the 0 is here", place)


def _text(value: Value) -> str:
    """Name or text of a value in messages."""
    loc, op = _loc(value), value.owner
    if loc is None or spelling_at(loc).name != "PYTHON":
        return f"%{value.name}"
    is_load = isinstance(op, Op) and op.name == "load"
    return loc.text if is_load or value.name.isdigit() else value.name


def _loc(value: Value) -> Location | None:
    """Place of the number that a value repeats, or of itself."""
    op = value.owner
    if isinstance(op, Op) and op.name in ("slice_broadcast", "splat"):
        op = op.operands[0].owner
    return op.loc if isinstance(op, Op) else None
