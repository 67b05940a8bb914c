"""Warnings of what a program surely does wrong, by its text alone.

load @x[40]                  an index that is a constant, out of the bounds of u32[32]
ge (sub %i, 1), 0 : u32      a comparison that has one result, since an unsigned number is never below 0
load @t[%i]                  of a workgroup buffer, or a read_write buffer that is not live_in, before any store to it

They are warnings, and no errors: with clamped bounds the access has a meaning, and so has the comparison.  Blocks that
surely never run are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .access_extents import access_extents
from .buffer_uses import buffer_uses
from .diagnostics import Diagnostic, Location, spelling_at
from .fixes import with_flag
from .folding import fold
from .loops import bounds
from .program import AccessMode, Block, Buffer, Func, Op, Program, Value
from .rewrite import constant, constant_value
from .shapes import show_shape
from .types import with_article

__all__ = ["warn_of_bodies"]

_ACCESSES = ("load", "store", "atomic", "matrix_load", "matrix_store")
"""Formats of ops with indices."""
_UNSIGNED = {"ge": (0, True), "lt": (0, False), "le": (1, True), "gt": (1, False)}
"""Comparisons with 0 that have one result for unsigned numbers: which operand is the number, and the result."""


def warn_of_bodies(item: Program | Func, diagnostics: list[Diagnostic]) -> None:
    """Append the warnings of a program or a function that verifies."""
    diagnostics += _Bodies(item).block(item.body)
    if isinstance(item, Program):
        for name, op in buffer_uses(item).first_reads.items():
            buffer = item.buffers[name]
            if not buffer.live_in and buffer.access is not AccessMode.READ:
                diagnostics.append(_unwritten(op, buffer))


class _Bodies:
    """`known`: constants that ops compute, by their results."""

    def __init__(self, item: Program | Func) -> None:
        self.item = item
        self.known: dict[Value, Any] = {}

    def block(self, block: Block) -> Iterator[Diagnostic]:
        for op in block.ops:
            format = op.definition.format
            if format in _ACCESSES:
                yield from self.access(op)
            elif format == "compare":
                yield from _comparison(op)
            for region in self.running(op):
                yield from self.block(region)
            if op.definition.is_pure and len(op.results) == 1:
                self.fold(op)

    def value(self, value: Value) -> Any:
        """The constant that a value is, encoded; None if it is not known."""
        known = constant_value(value)
        return self.known.get(value) if known is None else known

    def fold(self, op: Op) -> None:
        values = [self.value(operand) for operand in op.operands]
        if None in values or op.definition.format == "const":
            return
        pairs = zip(op.operands, values, strict=True)
        operands = tuple([constant(value, operand.type, "c", op).result for operand, value in pairs])
        folded = fold(Op(op.definition, operands, (Value("r", op.result.type),), op.attrs), self.item)
        if folded is not None:
            self.known[op.result] = folded

    def running(self, op: Op) -> Sequence[Block]:
        """The blocks of an op but for those that never run."""
        if op.name == "if" and (condition := self.value(op.operands[0])) is not None:
            return op.regions[:1] if condition else op.regions[1:]
        if op.name == "for":
            lower, upper, _ = (self.value(b) if isinstance(b, Value) else b for b in bounds(op))
            if lower is not None and upper is not None and lower >= upper:
                return ()
        return op.regions

    def access(self, op: Op) -> Iterator[Diagnostic]:
        """An access to elements that a buffer does not have."""
        assert isinstance(self.item, Program)
        buffer = self.item.buffers[op.attrs["buffer"]]
        extents = access_extents(op, buffer)
        for dimension, (index, moved, extent) in enumerate(
            zip(op.indices, extents, buffer.shape, strict=True)
        ):
            first = self.value(index)
            if first is not None and extent is not None and not 0 <= first <= extent - moved:
                yield _outside(op, buffer, dimension, first, moved)
                return


def _unwritten(op: Op, buffer: Buffer) -> Diagnostic:
    spelling = spelling_at(op.loc)
    shown = spelling.buffer(buffer.name)
    message = f"{op.name} of {shown}, which nothing has written before it: it may hold anything"
    help = "store to every element before it is read"
    if not buffer.is_on_chip:
        help += f", or {spelling.input(buffer.name)} if the caller's contents are meant"
    warning = Diagnostic("warning", message, op.loc, help=help)
    if not buffer.is_on_chip:
        warning.add_fix(with_flag(buffer, "live_in"))
    return warning.note(f"{shown} is declared here", buffer.loc)


def _outside(op: Op, buffer: Buffer, dimension: int, first: int, moved: int) -> Diagnostic:
    place = f"index {first}" if moved == 1 else f"elements {first} to {first + moved - 1}"
    along = f" along dimension {dimension}" if buffer.dimensions > 1 else ""
    size = f"shape ({show_shape(buffer.shape)})" if along else f"length {buffer.shape[0]}"
    spell = spelling_at(op.loc).buffer
    message = f"{op.name} out of bounds of {spell(buffer.name)}: {place}{along}, {size}"
    last = (buffer.shape[dimension] or 0) - moved
    help = (
        f"the last index{along} is {last}" if last >= 0 else f"there are fewer elements than {op.name} moves"
    )
    return Diagnostic("warning", message, op.loc, help=help).note(
        f"{spell(buffer.name)} is declared here", buffer.loc
    )


def _comparison(op: Op) -> Iterator[Diagnostic]:
    if op.name not in _UNSIGNED or op.operands[0].type.is_open:
        return
    place, result = _UNSIGNED[op.name]
    number, zero = op.operands[place], op.operands[1 - place]
    if number.type.element.kind != "uint" or constant_value(zero) != 0:
        return
    if constant_value(number) is None:
        always = "always true" if result else "never true"
        message = f"this is {always}: {with_article(number.type)} is not below 0"
        yield Diagnostic("warning", message, op.loc, help=_help(op.loc, number, result))


def _help(loc: Location | None, number: Value, result: bool) -> str:
    """What to compare instead: the operands of a subtraction, which wraps below 0."""
    op, spelling = number.owner, spelling_at(loc)
    if isinstance(op, Op) and op.name == "sub":
        names = [_name(operand) for operand in op.operands]
        if None not in names:
            a, b = map(str, names)
            return f"a subtraction that would be below 0 wraps: write {spelling.compare('ge' if result else 'lt', a, b)}"
        return (
            "a subtraction that would be below 0 wraps: compare what it subtracts with what it subtracts from"
        )
    return "leave it out, or compute with a signed type such as i32"


def _name(value: Value) -> str | None:
    """What the author calls a value; None for one without a name."""
    known = constant_value(value)
    if isinstance(known, int):
        return str(known)
    return None if known is not None or value.name.isdigit() else value.name
