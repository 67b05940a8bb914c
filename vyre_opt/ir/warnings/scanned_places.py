"""Elements that are kept one behind the other at the places of an inclusive scan, which leaves the first place free.

    %keep = select %is_kept, 1, 0                     1 1 0 1
    %at = workgroup_scan<inclusive, add> %keep        1 2 2 3: those before, and itself
    if %is_kept { store %v, @y[%at] }                 @y[0] is never stored, and the last one is a place too far

Told is a buffer with this store alone: one that counts its elements in the first is stored to there as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..diagnostics import Diagnostic, source_text, spelling_at
from ..program import Block, Op, Program, Value
from ..rewrite import constant_value
from .racing_stores import identity

__all__ = ["scanned_places"]

_MOST_TERMS = 50
"""Ops of a place that are looked at."""
_SCANS = ("workgroup_scan", "subgroup_scan")


def scanned_places(program: Program) -> Iterator[Diagnostic]:
    """The warnings of a program, one for each such buffer."""
    ops = [*program.walk()]
    if not any(op.name in _SCANS for op in ops):
        return
    changed = [op.attrs["buffer"] for op in ops if op.definition.effects & {"write"} and "buffer" in op.attrs]
    for store, conditions in _stores(program.body, ()):
        scan = _scan(store.indices[0]) if len(store.indices) == 1 else None
        if scan is None or changed.count(store.attrs["buffer"]) > 1:
            continue
        if any(_is_flag(scan.operands[0], condition) for condition in conditions):
            yield _one_too_far(store, scan)


def _stores(block: Block, conditions: tuple[Value, ...]) -> Iterator[tuple[Op, tuple[Value, ...]]]:
    """The stores of a block, with the conditions which hold where each is."""
    for op in block.ops:
        if op.name == "store":
            yield op, conditions
        for number, region in enumerate(op.regions):
            is_held = op.name == "if" and number == 0
            yield from _stores(region, (*conditions, op.operands[0]) if is_held else conditions)


def _scan(index: Value) -> Op | None:
    """The inclusive scan that a place is, or that it adds to the begin of a part; None where anything is subtracted from it."""
    pending, scans = [index], list[Op]()
    for _ in range(_MOST_TERMS):
        if not pending:
            break
        value = pending.pop()
        op, known = value.owner, constant_value(value)
        if isinstance(op, Op) and op.name in _SCANS:
            scans.append(op)
        elif isinstance(op, Op) and op.name in ("add", "cast"):
            pending += op.operands
        elif (isinstance(op, Op) and op.name == "sub") or (isinstance(known, int) and known != 0):
            return None
    is_one = len(scans) == 1 and not pending
    attrs = scans[0].attrs if is_one else {}
    return scans[0] if attrs.get("mode") == "inclusive" and "add" in attrs.values() else None


def _is_flag(number: Value, condition: Value) -> bool:
    """Whether a number is 1 where a condition holds, and else 0."""
    tests = [identity(part) for part in _parts(condition)]
    op = number.owner
    while isinstance(op, Op) and op.name == "cast" and op.operands[0].type.is_int:
        number = op.operands[0]
        op = number.owner
    if not isinstance(op, Op):
        return False
    if op.name == "cast":
        return identity(op.operands[0]) in tests
    if op.name in ("select", "if"):
        ways: Sequence[Value] = op.operands[1:]
        if op.name == "if":
            ends = [region.terminator for region in op.regions]
            ways = [end.operands[op.results.index(number)] for end in ends if end is not None]
        return [constant_value(way) for way in ways] == [1, 0] and identity(op.operands[0]) in tests
    for part in _parts(condition):
        test = part.owner
        if not isinstance(test, Op) or test.name not in ("eq", "ne", "gt"):
            continue
        flag, known = test.operands[0], constant_value(test.operands[1])
        if identity(flag) == identity(number) and (test.name, known) in (("eq", 1), ("ne", 0), ("gt", 0)):
            return True
    return False


def _parts(condition: Value) -> Iterator[Value]:
    """A condition, and the conditions that hold wherever it does."""
    pending = [condition]
    for _ in range(_MOST_TERMS):
        if not pending:
            return
        value = pending.pop()
        yield value
        op = value.owner
        if isinstance(op, Op) and op.name == "and":
            pending += op.operands
        elif isinstance(op, Op) and op.name == "if":  # a and b of Python, which asks b where a holds
            held, other = (region.terminator for region in op.regions)
            number = op.results.index(value)
            if held is not None and other is not None and constant_value(other.operands[number]) == 0:
                pending += (op.operands[0], held.operands[number])


def _one_too_far(store: Op, scan: Op) -> Diagnostic:
    spelling, text = spelling_at(store.loc), source_text(store.loc)
    shown, target = spelling.buffer(store.attrs["buffer"]), spelling.target(text)
    message = f"this is stored at how many there are up to itself, so the first of {shown} is never stored: places begin at 0"
    if spelling.name == "PYTHON" and target:
        help = f"write {target.removesuffix(']')} - 1]"
    else:
        help = f"subtract 1 from the place, or take {scan.name}<exclusive, add>"
    return Diagnostic("warning", message, store.loc, help=help).note("the places are counted here", scan.loc)
