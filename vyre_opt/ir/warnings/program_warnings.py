"""Warnings of what a program surely does wrong, by its text alone.

load @x[40]                  an index that is a constant, out of the bounds of u32[32]
ge (sub %i, 1), 0 : u32      a comparison that has one result, since an unsigned number is never below 0
shr %v, 8 : u8               a shift by as many bits as there are, which is one by 0
min (add %a, %b), 255 : u8   a sum that has wrapped before it is limited
for ... step %zero           a step that is 0
load @t[%i]                  of a workgroup buffer, or a read_write buffer that is not live_in, before any store to it

They are warnings, and no errors: with clamped bounds the access has a meaning, and so has the comparison.  Blocks that
surely never run are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from ..access_extents import access_extents
from ..buffer_uses import buffer_uses
from ..diagnostics import Diagnostic, Location, source_text, spelling_at
from ..fixes import with_flag
from ..folding import fold
from ..loops import bounds
from ..ops import AXES
from ..program import AccessMode, Block, Buffer, Func, Op, Program, Value
from ..rewrite import constant, constant_value
from ..shapes import show_shape
from ..types import with_article
from .narrow_numbers import narrow_numbers
from .overwritten_rounds import overwritten_rounds
from .part_of_a_tile import parts_of_tiles
from .racing_stores import overlapping_blocks, plain_counts, racing_stores
from .reduction_identities import reduction_identities
from .scanned_places import scanned_places
from .spin_locks import spin_locks
from .subgroup_values import subgroup_values
from .unchanged_rounds import unchanged_rounds
from .unordered_accesses import unordered_accesses
from .unread_rounds import unread_rounds
from .unstored_elements import unstored_elements
from .unused_buffers import unused_buffers
from .wrapped_numbers import product_of_elements

__all__ = ["accesses_outside", "ignored_breakpoints", "warn_of_bodies"]

_ACCESSES = ("load", "store", "atomic", "matrix_load", "matrix_store")
"""Formats of ops with indices."""
_MOST_TERMS = 50
"""Ops of a number that are looked at."""
_ONE_WAY = (AccessMode.READ, AccessMode.WRITE)
_UNSIGNED = {
    "ge": (0, "always true", "ge"), "le": (1, "always true", "ge"),
    "lt": (0, "never true", "lt"), "gt": (1, "never true", "lt"),
    "max": (0, "always the number itself", "sub_sat"),
}  # fmt: skip
"""Ops with 0 that have one result for unsigned numbers: which operand is the number, the result, and what to write of a
difference instead."""


def warn_of_bodies(item: Program | Func, diagnostics: list[Diagnostic]) -> None:
    """Append the warnings of a program or a function that verifies."""
    bodies, before = _Bodies(item), len(diagnostics)
    bodies.block(item.body)
    diagnostics += (*bodies.outside.values(), *bodies.found, *bodies.split.values())
    if isinstance(item, Program):
        # of others the verifier knows whether they may be read
        fresh = {b.name for b in item.buffers.values() if b.access not in _ONE_WAY and not b.live_in}
        reads = buffer_uses(item, bodies.running).first_reads if fresh else {}
        diagnostics += [_unwritten(op, item, name) for name, op in reads.items() if name in fresh]
        for rule in (
            racing_stores,
            plain_counts,
            overlapping_blocks,
            overwritten_rounds,
            unchanged_rounds,
            unread_rounds,
            parts_of_tiles,
            unordered_accesses,
            unstored_elements,
            spin_locks,
            subgroup_values,
            scanned_places,
            reduction_identities,
            narrow_numbers,
            _too_much_memory,
        ):
            diagnostics += rule(item)
        if len(diagnostics) == before:  # a mistake that is told may be why
            diagnostics += unused_buffers(item)


MAX_WORKGROUP_BYTES = 227 << 10
"""Workgroup memory that the largest GPUs give a workgroup: those of sm_90 and sm_100."""


def _too_much_memory(program: Program) -> Iterator[Diagnostic]:
    """The warning of workgroup buffers that no GPU has room for."""
    buffers = [
        b for b in program.buffers.values() if b.is_on_chip and b.count is not None and b.dtype.size_bytes
    ]
    sizes = [(b.count or 0) * (b.dtype.size_bytes or 0) for b in buffers]
    if sum(sizes) <= MAX_WORKGROUP_BYTES:
        return
    largest = buffers[sizes.index(max(sizes))]
    room = (MAX_WORKGROUP_BYTES - sum(sizes) + max(sizes)) // (largest.dtype.size_bytes or 1)
    spell = spelling_at(largest.loc).buffer
    message = f"{program.name} has {sum(sizes)} bytes of workgroup memory, and no GPU gives a workgroup more than {MAX_WORKGROUP_BYTES}"
    help = f"give {spell(largest.name)} {room} elements at most" if room > 0 else "make the buffers smaller"
    yield Diagnostic(
        "warning", message, largest.loc, help=f"{help}; larger ones are arguments, in the memory of the GPU"
    )


def accesses_outside(program: Program) -> dict[Op, Diagnostic]:
    """The warnings of accesses that are out of bounds whenever they run."""
    bodies = _Bodies(program)
    bodies.block(program.body)
    return bodies.outside


def ignored_breakpoints(program: Program) -> list[Diagnostic]:
    """Warnings of a program that is to run without a debugger."""
    return [
        Diagnostic("warning", "this run passes over a breakpoint", op.loc, help=spelling_at(op.loc).debugger)
        for op in program.walk()
        if op.name == "breakpoint"
    ]


class _Bodies:
    """`known`: of the values that were asked for, and those they are computed from, the encoded constant, or None.
    `outside`: the warnings of accesses; `found`: all others; `split`: by place, those of indices that
    are parts of one number; `compared`: by the ifs around, values that are known to be as large as another, or are compared with a constant."""

    def __init__(self, item: Program | Func) -> None:
        self.item = item
        self.known: dict[Value, Any] = {}
        self.outside: dict[Op, Diagnostic] = {}
        self.found: list[Diagnostic] = []
        self.split: dict[Location | None, Diagnostic] = {}
        self.compared: list[set[Value]] = []

    def block(self, block: Block) -> None:
        for op in block.ops:
            format = op.definition.format
            if op.regions:
                self.found += (*self.step(op), *self.first_round(op))
                compared = _compared(op.operands[0]) if op.name == "if" else set()
                self.compared.append(compared)
                for region in self.running(op):
                    self.block(region)
                self.compared.pop()
            elif format in _ACCESSES:
                self.access(op)
            elif op.name in _UNSIGNED:
                self.found += _comparison(op, self.item)
            elif op.name == "abs":
                self.found += _absolute(op)
            elif op.name == "rem":
                self.found += _remainder(op)
            elif op.name in ("shl", "shr"):
                self.found += _wide_shift(op)
            elif op.name == "cast":
                self.found += product_of_elements(op)
            elif op.name == "min":
                self.found += _late_limit(op)
            elif op.name == "add":
                self.found += _id_counted_twice(op)
            elif op.name == "eq":
                self.found += _last_ticket(op)

    def value(self, wanted: Value) -> Any:
        """The constant that a value is, encoded; None if it is not known."""
        known, pending = self.known, [wanted]
        while pending:
            value = pending[-1]
            op = value.owner
            if value in known or not isinstance(op, Op) or not op.definition.is_pure or len(op.results) != 1:
                known.setdefault(pending.pop(), None)
            elif op.definition.format == "const":
                known[pending.pop()] = op.attrs["value"]
            elif any(known.get(operand, 0) is None for operand in op.operands):
                known[pending.pop()] = None
            elif missing := [operand for operand in op.operands if operand not in known]:
                pending += missing
            else:
                known[pending.pop()] = self.folded(op)
        return known[wanted]

    def folded(self, op: Op) -> Any:
        """The constant that an op gives, whose operands are known."""
        pairs = [(operand, self.known[operand]) for operand in op.operands]
        operands = tuple([constant(value, operand.type, "c", op).result for operand, value in pairs])
        return fold(Op(op.definition, operands, (Value("r", op.result.type),), op.attrs), self.item)

    def running(self, op: Op) -> Sequence[Block]:
        """The blocks of an op but for those that never run."""
        if op.name == "if" and (condition := self.value(op.operands[0])) is not None:
            return op.regions[:1] if condition else op.regions[1:]
        if op.name == "for":
            lower, upper, step = (self.value(b) if isinstance(b, Value) else b for b in bounds(op))
            if lower is not None and upper is not None:
                if lower >= upper:
                    return ()
                if step is not None and lower + step >= upper:  # one round
                    self.known[op.regions[0].args[0]] = lower
        return op.regions

    def step(self, op: Op) -> Iterator[Diagnostic]:
        """The warning of a loop that has a round, with a step that is 0 and has a name."""
        step = bounds(op)[2] if op.name == "for" and self.running(op) else None
        known = self.value(step) if isinstance(step, Value) else None
        if known is not None and known < 1:
            yield Diagnostic("warning", f"the step is at least 1, not {known}", op.loc, help="write step 1")

    def first_round(self, op: Op) -> Iterator[Diagnostic]:
        """The warning of a loop from an id less a number on, `range(i - 2, i + 3)`, which has no rounds where that wraps below 0."""
        lower, upper, _ = bounds(op) if op.name == "for" else (0, 0, 0)
        less = lower.owner if isinstance(lower, Value) else None
        more = upper.owner if isinstance(upper, Value) else None
        if not isinstance(less, Op) or not isinstance(more, Op) or (less.name, more.name) != ("sub", "add"):
            return
        number, amount = less.operands
        known = constant_value(amount)
        is_id = isinstance(number.owner, Op) and number.owner.definition.format == "id"
        is_same = amount in _summed(upper) or (isinstance(known, int) and known > 0)
        if not is_id or not is_same or number not in _summed(upper):
            return
        if number.type.element.kind == "uint" and not any(number in values for values in self.compared):
            texts, spelling = [_text_of(each, less.loc) for each in (number, amount)], spelling_at(less.loc)
            message = f"{texts[0]} - {texts[1]} wraps below 0 at 2^{number.type.bits} where {texts[0]} is less than {texts[1]}, and the loop has no rounds there"
            help = f"begin at {spelling.of_two('max', *texts)} - {texts[1]}, which is at least 0"
            yield Diagnostic("warning", message, less.loc, help=help)

    def access(self, op: Op) -> None:
        """Note an access to elements that a buffer does not have."""
        assert isinstance(self.item, Program)
        buffer = self.item.buffers[op.attrs["buffer"]]
        extents = access_extents(op, buffer)
        for dimension, (index, moved, extent) in enumerate(
            zip(op.indices, extents, buffer.shape, strict=True)
        ):
            first = None if extent is None else self.value(index)
            if first is not None and extent is not None and not 0 <= first <= extent - moved:
                self.outside[op] = _outside(op, buffer, dimension, first, moved)
                return
        for warning in _wrong_split(op, buffer):
            self.split.setdefault(warning.loc, warning)


def _summed(value: Value | int) -> set[Value]:
    """Values that are added up to a number."""
    found, pending = set[Value](), [value]
    for _ in range(_MOST_TERMS):
        if not pending:
            break
        each = pending.pop()
        if isinstance(each, Value):
            found.add(each)
            if isinstance(each.owner, Op) and each.owner.name == "add":
                pending += each.owner.operands
    return found


def _wrong_split(op: Op, buffer: Buffer) -> Iterator[Diagnostic]:
    """The warning of a number that is split into a row and a column by the number of rows, `x[i // len(x), i % len(x)]`."""
    for dimension, (row, column) in enumerate(pairwise(index.owner for index in op.indices)):
        if not isinstance(row, Op) or not isinstance(column, Op) or (row.name, column.name) != ("div", "rem"):
            continue
        extents = [each.operands[1].owner for each in (row, column)]
        along = [
            e.attrs.get("dimension") or 0
            for e in extents
            if isinstance(e, Op) and e.name == "len" and e.attrs["buffer"] == buffer.name
        ]
        is_square = None is not buffer.shape[dimension] == buffer.shape[dimension + 1]
        if row.operands[0] is column.operands[0] and along == [dimension, dimension] and not is_square:
            spelling = spelling_at(op.loc)
            lengths = [spelling.extent(buffer.name, d) for d in (dimension, dimension + 1)]
            message = f"this divides by {lengths[0]}, the number of rows, and a row has {lengths[1]} elements"
            write = (
                f"write // {lengths[1]} and % {lengths[1]}"
                if spelling.name == "PYTHON"
                else f"divide by {lengths[1]}"
            )
            warning = Diagnostic("warning", message, row.loc, help=write)
            yield warning.note("the row and the column are indices here", op.loc)
            return


_SUMS = ("atomic_add", "atomic_or", "atomic_xor")
"""Atomics that begin with 0."""


def _unwritten(op: Op, program: Program, name: str) -> Diagnostic:
    spelling, buffer = spelling_at(op.loc), program.buffers[name]
    shown = spelling.buffer(buffer.name)
    message = f"{op.name} of {shown}, which nothing has written before it: it may hold anything"
    help = "store to every element before it is read"
    if op.name in _SUMS and buffer.is_on_chip and buffer.dimensions == 1 and program.workgroup[1:] == (1, 1):
        help = spelling.zeroed(buffer.name, buffer.count or 0, program.lanes)
    # what is changed in place is given back, too
    flags = "live_in" if buffer.live_out or name not in buffer_uses(program).written else "live_in live_out"
    if not buffer.is_on_chip:
        help += f", or {spelling.input(buffer.name, flags)} if the caller's contents are meant"
    warning = Diagnostic("warning", message, op.loc, help=help)
    if not buffer.is_on_chip:
        warning.add_fix(with_flag(buffer, flags))
    return warning.note(f"{shown} is declared here", buffer.loc)


def _outside(op: Op, buffer: Buffer, dimension: int, first: int, moved: int) -> Diagnostic:
    elements = f"index {first}" if moved == 1 else f"elements {first} to {first + moved - 1}"
    along = f" along dimension {dimension}" if buffer.dimensions > 1 else ""
    size = f"shape ({show_shape(buffer.shape)})" if along else f"length {buffer.shape[0]}"
    spell = spelling_at(op.loc).buffer
    message = f"{op.name} out of bounds of {spell(buffer.name)}: {elements}{along}, {size}"
    last = (buffer.shape[dimension] or 0) - moved
    help = (
        f"the last index{along} is {last}" if last >= 0 else f"there are fewer elements than {op.name} moves"
    )
    return Diagnostic("warning", message, op.loc, help=help).note(
        f"{spell(buffer.name)} is declared here", buffer.loc
    )


def _compared(condition: Value) -> set[Value]:
    """Values that a condition says are as large as another, or compares with a constant."""
    values, pending = set[Value](), [condition]
    for _ in range(_MOST_TERMS):
        if not pending:
            break
        op = pending.pop().owner
        if not isinstance(op, Op):
            continue
        if op.name in ("ge", "gt", "le", "lt", "eq", "ne"):
            first, second = op.operands
            is_known = constant_value(first) is not None or constant_value(second) is not None
            values |= {first, second} if is_known else {first} if op.name in ("ge", "gt") else {second}
        elif op.definition.is_pure and not op.regions:
            pending += op.operands
    return values


def _comparison(op: Op, item: Program | Func) -> Iterator[Diagnostic]:
    if op.operands[0].type.is_open:
        return
    index, result, instead = _UNSIGNED[op.name]
    if op.definition.commutative and constant_value(op.operands[0]) == 0:
        index = 1
    number, zero = op.operands[index], op.operands[1 - index]
    if number.type.element.kind != "uint" or constant_value(zero) != 0:
        return
    # a function of Python that programs call is right for signed numbers, too, and has names of its own
    is_own = op.loc is None or item.loc is None or op.loc.source is item.loc.source
    difference = number.owner if isinstance(number.owner, Op) and number.owner.name == "sub" else None
    if constant_value(number) is None and (is_own or difference is not None):
        message = f"this is {result}: {with_article(number.type)} is not below 0"
        help = "leave it out, or compute with a signed type such as i32"
        if difference is not None:
            names = [_name(operand) if is_own else None for operand in difference.operands]
            help = _help(op.loc, names, instead)
        yield Diagnostic("warning", message, op.loc, help=help)


def _remainder(op: Op) -> Iterator[Diagnostic]:
    """The warning of a remainder of an id less a number, `(i - 1) % n`, where the difference wraps at a power of two first."""
    number, divisor = op.operands
    difference, size = number.owner, constant_value(divisor)
    if not isinstance(difference, Op) or difference.name != "sub" or number.type.element.kind != "uint":
        return
    first, less = difference.operands
    is_id = isinstance(first.owner, Op) and first.owner.definition.format == "id"
    steps = constant_value(less)
    if (
        not is_id
        or not isinstance(steps, int)
        or steps < 1
        or (isinstance(size, int) and size & (size - 1) == 0)
    ):
        return
    texts = [_text_of(value, op.loc) for value in (first, divisor)]
    spelling = spelling_at(op.loc)
    whole = f"({texts[0]} + {texts[1]} - {steps}) % {texts[1]}"
    help = (
        f"write {whole}"
        if spelling.name == "PYTHON"
        else f"add {texts[1]} to {texts[0]} before {steps} is subtracted"
    )
    message = f"{texts[0]} - {steps} wraps below 0 at 2^{number.type.bits}, before the remainder by {texts[1]} is taken"
    yield Diagnostic("warning", message, op.loc, help=help)


def _wide_shift(op: Op) -> Iterator[Diagnostic]:
    """The warning of a shift by as many bits as a number has, or more."""
    number, amount, dtype = op.operands[0], constant_value(op.operands[1]), op.result.type.element
    bits, wide = dtype.bits or 0, "u64" if dtype.bits == 32 else "u32"
    if not isinstance(amount, int) or dtype.is_open or not 0 < bits <= amount:
        return
    message = f"this shifts by {amount % bits}: {with_article(dtype)} has {bits} bits, and an amount is taken modulo that"
    leaf = number
    for _ in range(_MOST_TERMS):
        owner = leaf.owner
        if not isinstance(owner, Op) or owner.definition.format != "binary":
            break
        leaf = next((v for v in owner.operands if constant_value(v) is None), leaf)
    text = source_text(op.loc)
    help = spelling_at(op.loc).widened(text, wide, str(dtype), leaf.name)
    yield Diagnostic("warning", message, op.loc, help=help)


def _late_limit(op: Op) -> Iterator[Diagnostic]:
    """The warning of a sum that is limited to the largest number of its type, `min(x + 50, 255)` of u8: it has wrapped before."""
    dtype = op.result.type.element
    if not dtype.is_int or dtype.is_open or op.result.type.is_slice:
        return
    largest = (1 << (dtype.bits or 0) - dtype.is_signed) - 1
    for limit, number in (op.operands, op.operands[::-1]):
        total = number.owner
        if constant_value(limit) != largest or not isinstance(total, Op) or total.name not in ("add", "mul"):
            continue
        message = f"this is always the number itself: {with_article(dtype)} is at most {largest}, and wraps there before it is limited"
        texts = [_text_of(value, op.loc) for value in total.operands]
        help = f"compute in {'u64' if dtype.bits == 32 else 'u32'}"
        if total.name == "add":
            help = f"write {spelling_at(op.loc).of_two('add_sat', *texts)}, which stops at {largest}"
        yield Diagnostic("warning", message, op.loc, help=help)


def _id_counted_twice(op: Op) -> Iterator[Diagnostic]:
    """The warning of `global_id(0) * workgroup_size(0) + local_id(0)`: the first is in the whole launch already."""
    for product, local in (op.operands, op.operands[::-1]):
        factors = (
            product.owner.operands if isinstance(product.owner, Op) and product.owner.name == "mul" else ()
        )
        ids = [_id(value) for value in (*factors, local)]
        axes = {axis for _, axis in ids}
        if (
            {name for name, _ in ids[:-1]} != {"global_id", "workgroup_size"}
            or ids[-1][0] != "local_id"
            or len(axes) > 1
        ):
            continue
        spelling, axis = spelling_at(op.loc), AXES.index(axes.pop())
        one, group, size, local_id = (
            spelling.id(name, axis) for name in ("global_id", "workgroup_id", "workgroup_size", "local_id")
        )
        message = f"{one} is {group} * {size} + {local_id} already, and here it is multiplied and added to once more"
        yield Diagnostic("warning", message, op.loc, help=f"write {one}")


def _last_ticket(op: Op) -> Iterator[Diagnostic]:
    """The warning of a count of workgroups that is compared with their number: an atomic gives what was there before it."""
    for count, number in (op.operands, op.operands[::-1]):
        ticket = count.owner
        is_count = (
            isinstance(ticket, Op)
            and ticket.name == "atomic_add"
            and constant_value(ticket.operands[-1]) == 1
        )
        if is_count and _id(number)[0] == "num_workgroups":
            spelling = spelling_at(op.loc)
            shown = spelling.id("num_workgroups", AXES.index(_id(number)[1]))
            message = f"an atomic gives what was there before it, and the last of {shown} workgroups gets one less: this is never true"
            help = f"compare with {shown} - 1"
            if spelling.name != "PYTHON":
                help = f"compare with {shown} less 1"
            yield Diagnostic("warning", message, op.loc, help=help)


def _id(value: Value) -> tuple[str, str]:
    """Name and axis of the id or the size that a value is; empty for another value."""
    op = value.owner
    return (op.name, op.attrs.get("axis", "")) if isinstance(op, Op) else ("", "")


def _text_of(value: Value, loc: Location | None) -> str:
    """The text of an operand where it is written in the op's own, else its name."""
    spelling, op = spelling_at(loc), value.owner
    known = constant_value(value)
    if isinstance(known, int):
        return str(known)
    inside = isinstance(op, Op) and op.loc is not None and loc is not None and op.loc in loc
    if isinstance(op, Op) and op.loc is not None and (inside or value.name.isdigit()):
        return op.loc.text
    return value.name if spelling.name == "PYTHON" else f"%{value.name}"


def _absolute(op: Op) -> Iterator[Diagnostic]:
    """The warning of the absolute value of an unsigned difference."""
    (number,) = op.operands
    difference = number.owner
    if number.type.element.kind == "uint" and isinstance(difference, Op) and difference.name == "sub":
        message = f"this is always the number itself: {with_article(number.type)} is not below 0"
        names = [_name(operand) for operand in difference.operands]
        yield Diagnostic("warning", message, op.loc, help=_help(op.loc, names, "abs_diff"))


def _help(loc: Location | None, names: Sequence[str | None], instead: str) -> str:
    """Replacement of a difference that is compared with 0: an op of the values that are subtracted, by their names if they have any."""
    a, b = names
    if a is not None and b is not None:
        instead = f"write {spelling_at(loc).of_two(instead, a, b)}"
    elif instead == "abs_diff":
        instead = f"write {spelling_at(loc).of_two(instead, 'a', 'b')} of what is subtracted"
    elif instead == "sub_sat":
        instead = "subtract by sub_sat, which stops at 0"
    else:
        instead = "compare what it subtracts with what it subtracts from"
    return f"a subtraction that would be below 0 wraps: {instead}"


def _name(value: Value) -> str | None:
    """Name that the author gave a value; None for one without."""
    known = constant_value(value)
    if isinstance(known, int):
        return str(known)
    return None if known is not None or value.name.isdigit() else value.name
