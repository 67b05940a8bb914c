"""Sums and products of 8 and 16 bits that wrap, or lose bits, before they are made wider, divided, or shifted to the right.

%p = mul %a, 77 : u8           of an element of an array: at most 255 * 77
%w = cast %p : u8 -> u32       the lowest 8 bits of it
%m = shr (add %a, %b), 1 : u8  a mean without the carry
for ... iter(%s = 0.0 : f16)   a sum of ones stays at 2048

What is masked, rotated, or combined by xor is a hash, which wraps on purpose, and so does an index of a table of 256 elements.
Parts of a packed number are moved to the left, `hex[i] * 16 + hex[i + 1]`.  A constant that is added or subtracted moves a range, `u32(c[i] - 48)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ..diagnostics import Diagnostic, source_text, spelling_at
from ..loops import trip_count
from ..program import Op, Program, Value
from ..rewrite import constant_value
from ..types import DataType, with_article

__all__ = ["narrow_numbers"]

_DEPTH = 6
"""Ops one behind another that a bound is computed through."""
_SHORT_SUM = 256
"""Rounds of a loop whose sum of floats of 16 bits is not told."""
_ARITHMETIC = ("add", "sub", "mul", "shl")
_REDUCTIONS = ("slice_reduce", "workgroup_reduce", "subgroup_reduce")
_BEHIND = {"shr": "shifted to the right", "div": "divided"}


def narrow_numbers(program: Program) -> Iterator[Diagnostic]:
    """The warnings of the numbers of a program."""
    ops = [*program.walk()]
    wide = [op for op in ops if op.name in ("cast", *_BEHIND) and _is_narrow(op.operands[0].type.element)]
    sums = [op for op in ops if op.name == "for" and any(_is_half(result.type) for result in op.results)]
    if not wide and not sums:
        return
    users = _users(ops)
    told = set[Op]()
    for op in wide:
        root = _wrapping(op, users, program)
        if root is not None and root not in told:
            told.add(root)
            yield _warning(op, root)
    for loop in sums:
        yield from _rounded(loop)


def _is_narrow(dtype: DataType) -> bool:
    return dtype.is_int and not dtype.is_open and dtype.bits in (8, 16)


def _is_half(dtype: DataType) -> bool:
    return dtype.is_float and not dtype.is_open and dtype.bits == 16


def _users(ops: Sequence[Op]) -> dict[Value, list[Op]]:
    users: dict[Value, list[Op]] = {}
    for op in ops:
        for operand in op.operands:
            users.setdefault(operand, []).append(op)
    return users


def _wrapping(op: Op, users: Mapping[Value, Sequence[Op]], program: Program) -> Op | None:
    """The first op that wraps of those that compute the operand of a cast, a shift or a division."""
    number = op.operands[0]
    if number.type.is_slice and spelling_at(op.loc).name == "PYTHON":
        return None  # told where it is translated
    dtype, uses = number.type.element, users.get(op.results[0], [])
    if op.name == "cast":
        if not _is_wider(op):
            return None
        if uses and all(_is_modular(use, op.results[0], dtype, program) for use in uses):
            return None
    elif not uses or all(use.name in ("xor", "or", "and") for use in uses):
        return None
    computed = number.owner
    if not isinstance(computed, Op) or (op.name == "shr" and computed.name == "shl") or not _wraps(computed):
        return None
    amount = constant_value(op.operands[1]) if op.name == "shr" else 0
    if op.name != "cast" and (
        computed.name == "sub" or not isinstance(amount, int) or amount >= (dtype.bits or 0)
    ):
        return None
    return _root(computed)


def _is_wider(op: Op) -> bool:
    """Whether a cast is to a float, or to an integer of more bits."""
    before, after = op.operands[0].type.element, op.results[0].type.element
    return after.is_float or (after.is_int and (after.bits or 0) > (before.bits or 0))


def _is_modular(use: Op, value: Value, dtype: DataType, program: Program) -> bool:
    """Whether a use of a wider number needs no more of it than its lowest bits."""
    size = 1 << (dtype.bits or 0)
    if use.name in ("and", "rem"):
        known = constant_value(use.operands[1])
        most = size - 1 if use.name == "and" else size
        return (
            isinstance(known, int) and 0 < known <= most and (use.name == "and" or known & (known - 1) == 0)
        )
    if use.name in ("load", "store") or use.name.startswith("atomic"):
        if value not in use.indices or value in use.operands[len(use.indices) :]:
            return False
        extent = program.buffers[use.attrs["buffer"]].shape[use.indices.index(value)]
        return extent is not None and extent <= size
    return use.name in ("xor", "rotl", "rotr")


def _wraps(op: Op, depth: int = _DEPTH) -> bool:
    """Whether a result may be more than its type has, by the bounds of what it is computed from."""
    dtype = op.results[0].type.element if op.results else None
    if dtype is None or not _is_narrow(dtype):
        return False
    if op.name in _REDUCTIONS:
        return str(op.attrs["combine"]) == "add"
    constants = [each for each in map(constant_value, op.operands) if isinstance(each, int)]
    if op.name not in _ARITHMETIC or (op.name in ("add", "sub") and constants):
        is_sum = op.name in ("add", "sub") and depth > 0
        return is_sum and any(_wraps(each, depth - 1) for each in _computed(op))
    is_hash = any(each & 1 and each > 4096 for each in constants)
    is_packed = (_is_moved(op) and op.name == "mul") or (
        op.name == "add" and any(map(_is_moved, _computed(op)))
    )
    if is_hash or is_packed or (op.name == "sub" and not dtype.is_signed):
        return False
    return _exact(op, _DEPTH) > _largest(dtype)


def _is_moved(op: Op) -> bool:
    """Whether an op moves bits to the left, to where a part of a packed number is: `hex[i] * 16 + hex[i + 1]`."""
    constants = [each for each in map(constant_value, op.operands) if isinstance(each, int)]
    return op.name == "shl" or (op.name == "mul" and any(each & (each - 1) == 0 for each in constants))


def _computed(op: Op) -> list[Op]:
    """Ops that compute the operands of an op in its type."""
    return [
        each.owner for each in op.operands if isinstance(each.owner, Op) and each.owner.name in _ARITHMETIC
    ]


def _largest(dtype: DataType) -> int:
    return (1 << (dtype.bits or 0) - dtype.is_signed) - 1


def _most(value: Value, depth: int) -> int:
    """Upper bound of the absolute value of a number."""
    dtype, op = value.type.element, value.owner
    if dtype.is_bool:
        return 1
    largest = _largest(dtype) if dtype.is_int and not dtype.is_open else 1 << 64
    known = constant_value(value)
    if isinstance(known, int):
        return abs(known)
    if not isinstance(op, Op) or not depth:
        return largest
    return min(_exact(op, depth), largest)


def _exact(op: Op, depth: int) -> int:
    """Upper bound of the absolute value that an op would give in a type that is wide enough."""
    most = [_most(operand, depth - 1) for operand in op.operands] if depth else []
    is_signed = bool(op.results) and op.results[0].type.element.is_signed
    if not most:
        return 1 << 64
    if op.name == "add" or (op.name == "sub" and is_signed):
        return sum(most)
    if op.name == "mul":
        return most[0] * most[1]
    if op.name == "shl":
        return most[0] << min(most[1], 64)
    if op.name == "shr":
        known = constant_value(op.operands[1])
        bits = op.results[0].type.bits or 64  # which an amount is taken modulo
        return most[0] >> known % bits if isinstance(known, int) else most[0]
    if op.name in ("min", "and") and not is_signed:
        return min(most)
    if op.name in ("max", "select", "or", "xor"):
        arms = most[-2:]
        return max(arms) if op.name in ("max", "select") else (1 << max(arms).bit_length()) - 1
    if op.name == "rem":
        return min(most[0], max(most[1] - 1, 0))
    if op.name == "div":
        known = constant_value(op.operands[1])
        return most[0] // known if isinstance(known, int) and known > 0 else most[0]
    return most[0] if op.name in ("cast", "abs", "slice_broadcast", "splat") else 1 << 64


def _root(op: Op) -> Op:
    """The op that has to be wider first: that of a line of its own whose result the others are computed from."""
    for _ in range(_DEPTH):
        own = [each for each in _chain(op) if each is not op and not _is_written_in(each, op)]
        first = next((each for each in own if each.name == "sub" or _wraps(each)), None)
        if first is None:
            break
        op = first
    return op


def _chain(op: Op) -> list[Op]:
    """An op and those in its type that compute its operands."""
    found, pending = list[Op](), [op]
    while pending and len(found) < _DEPTH * 4:
        each = pending.pop()
        found.append(each)
        pending += _computed(each)
    return found


def _is_written_in(inner: Op, outer: Op) -> bool:
    return inner.loc is not None and outer.loc is not None and inner.loc in outer.loc


def _wider(op: Op, root: Op) -> str:
    """The type to compute in what a cast, a shift or a division takes."""
    after = op.results[0].type.element
    if op.name == "cast" and not after.is_float:
        return str(after)
    has_difference = root.results[0].type.element.is_signed or any(
        each.name == "sub" for each in _chain(root)
    )
    return "i32" if has_difference else "u32"


def _warning(op: Op, root: Op) -> Diagnostic:
    spelling, narrow = spelling_at(op.loc), root.results[0].type.element
    is_python = spelling.name == "PYTHON"
    text, whole = source_text(root.loc), source_text(op.loc)
    shown = text if is_python and text else "this number"
    after = op.results[0].type.element
    behind = _BEHIND.get(op.name) or f"made {with_article(after)}"
    wide = _wider(op, root)
    below = " below 0" if root.name == "sub" and not narrow.is_signed else ""
    message = f"{shown} wraps{below} at 2^{(narrow.bits or 0) - narrow.is_signed} in {narrow}, before it is {behind}"
    leaf = next((each for each in root.operands if constant_value(each) is None), root.operands[0])
    if root.name in _REDUCTIONS:
        help = (
            f"reduce {wide}({leaf.name})" if is_python else spelling.widened("", wide, str(narrow), leaf.name)
        )
    elif not is_python:
        help = spelling.widened(text, wide, str(narrow), leaf.name)
    elif _is_written_in(root, op):
        call = re.fullmatch(r"[\w.]+\((.*)\)", whole, re.DOTALL) if op.name == "cast" else None
        outer = str(narrow) if call is None else "" if str(after) == wide else str(after)
        help = spelling.widened(whole if call is None else call[1], wide, outer, leaf.name)
    else:
        help = f"{spelling.widened(text, wide, '', leaf.name)} for {text}"
    warning = Diagnostic("warning", message, root.loc or op.loc, help=help)
    return warning if _is_written_in(root, op) or not op.loc else warning.note(f"it is {behind} here", op.loc)


def _rounded(loop: Op) -> Iterator[Diagnostic]:
    """The warning of a sum of many floats of 16 bits."""
    body, trips = loop.regions[0], trip_count(loop)
    end = body.terminator
    if end is None or (trips is not None and trips <= _SHORT_SUM):
        return
    for carried, kept in zip(body.args[1:], end.operands, strict=True):
        total, dtype = kept.owner, kept.type
        if (
            not _is_half(dtype)
            or not isinstance(total, Op)
            or total.name != "add"
            or carried not in total.operands
        ):
            continue
        term = next((each for each in total.operands if each is not carried), carried)
        bits = 11 if dtype is DataType.F16 else 8
        message = f"this sum is in {dtype}, which has {bits} bits: of many ones it stays at {1 << bits}"
        yield Diagnostic("warning", message, total.loc, help=_carried(total, carried, term, "f32"))
        return


def _carried(total: Op, carried: Value, term: Value, wide: str) -> str:
    """Remedy for a loop that adds up in a narrow type."""
    if spelling_at(total.loc).name != "PYTHON":
        return f"carry a {wide}, and add cast %{term.name} : {term.type} -> {wide}"
    name, owner = re.sub(r"_\d+$", "", carried.name), term.owner
    is_load = isinstance(owner, Op) and (owner.name == "load" or term.name.isdigit())
    text = source_text(owner.loc) if is_load and isinstance(owner, Op) else term.name
    return f"begin with {name} = {wide}(0), and add {wide}({text})"
