"""Semantic actions for constants in place: what stands in the place of an operand becomes a `const` before the op.

    store 1, @x[%i] : u32          %c = const 1 : u32
                                   store %c, @x[%i] : u32

A literal is read before what says its type: the type behind the operands, or the op around a `yield`.  So it is a
`PendingConstant` until then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from ...ir.diagnostics import Location
from ...ir.fixes import with_constant
from ...ir.literals import Literal, LiteralError, encode_constant, show
from ...ir.ops import OPS, OpDef
from ...ir.program import Block, Op, Program, Unnamed, Value
from ...ir.suggestions import suggest_later
from ...ir.types import UNKNOWN, DataType
from ...ir.undeclared import declaration_help
from ..inline_constants import constant_roles, fixed_type
from ..op_syntax import Tail
from .scopes import Scopes

__all__ = ["ConstantActions", "PendingConstant"]

_DEFAULTS = {"int": DataType.U32, "float": DataType.F32, "bool": DataType.BOOL}
_SUFFIX = re.compile(r"[fFhuUlL]+\b", re.ASCII)
"""Suffixes of numbers in other languages."""
_BUFFER_FORMATS = ("load", "store", "atomic")
"""Whose T is that of the buffer's elements if none is written."""


class PendingConstant(Value):
    """A literal, or those of lanes, in the place of an operand; its type is not known yet."""

    __slots__ = ("written", "loc")

    def __init__(self, written: Literal | list[Literal], loc: Location) -> None:
        super().__init__("c", UNKNOWN)
        self.written = written
        self.loc = loc

    @property
    def text(self) -> str:
        return self.loc.text

    @property
    def usual_type(self) -> DataType:
        """Type of a constant that is written so, where nothing says another."""
        if isinstance(self.written, list):
            return DataType.vec(_DEFAULTS[self.written[0][0]], max(2, len(self.written)))
        return _DEFAULTS[self.written[0]]


class ConstantActions(Scopes):
    """`has_pending`: constants were read of the op that is being read; `has_open_yields`: some that a `yield` gives."""

    has_pending = False
    has_open_yields = False
    has_placed = False

    # --- called by the parse loop ---------------------------------------------------------

    def constant(self, start: int, end: int, literal: Literal) -> PendingConstant:
        self.has_pending = True
        return PendingConstant(literal, Location(self.source, start, end))

    def constant_lanes(
        self, start: int, end: int, first: Literal, rest: list[Literal] | None = None
    ) -> PendingConstant:
        self.has_pending = True
        return PendingConstant([first, *(rest or ())], Location(self.source, start, end))

    def operands_first_constant(self, start: int, end: int, constant: PendingConstant) -> list[Value]:
        return [constant]

    def operands_next_constant(
        self, start: int, end: int, values: list[Value], constant: PendingConstant
    ) -> list[Value]:
        values.append(constant)
        return values

    def operand_value(self, start: int, end: int, token: str) -> Value:
        return self.use(token, start)

    # --- types ----------------------------------------------------------------------------

    def typed(self, value: Value, dtype: DataType | None, help: str | None = None) -> Value:
        """A constant in place with its type; any other value as it is.

        None: nothing says the type, which is an error; `help`: where to write it, if that can be.
        """
        if not isinstance(value, PendingConstant):
            return value
        encoded = self._encoded(value, dtype, help)
        if encoded is None:
            encoded, dtype = 0, UNKNOWN
        self.has_placed = True
        constant = Value(Unnamed("c"), dtype or UNKNOWN)
        Op(OPS["const"], (), (constant,), {"value": encoded}, (), value.loc)
        return constant

    def _encoded(self, pending: PendingConstant, dtype: DataType | None, help: str | None) -> Any:
        """The value of a constant of a type; None after an error."""
        loc, shown = pending.loc, pending.text
        if suffix := _SUFFIX.match(self.source.text, loc.end):
            message = f"the type of a constant is none of its letters: {suffix[0]}"
            self.error(message, loc.start, suffix.end(), f"write {shown}")
            line_end = self.source.text.find("\n", loc.end)
            self.reported_until = line_end if line_end >= 0 else len(self.source.text)
            return None
        if dtype is UNKNOWN:
            return None
        if dtype is None:
            usual = pending.usual_type
            help = f"{help}, or" * bool(help) + f" name the constant: %c = const {shown} : {usual}"
            message = "nothing says of which type this constant is"
            diagnostic = self.name_error(message, loc.start, loc.end, help.strip(), what=message)
            diagnostic.add_fix(with_constant(loc, self.scope, shown, str(usual)))
            return None
        try:
            encoded = encode_constant(pending.written, dtype)
        except LiteralError as error:
            is_fraction = pending.usual_type.is_float and dtype.element.is_int
            help = (
                f"cast the other operands from {dtype} to f32 first, or write a whole number"
                if is_fraction
                else None
            )
            self.error(str(error), loc.start, loc.end, help)
            return None
        if self.module.version < 2:
            help = f"write vyre 2 as the first line, or name the constant: %c = const {show(encoded, dtype)} : {dtype}"
            message = "an operand is a value in `vyre 1`"
            diagnostic = self.name_error(message, loc.start, loc.end, help, what=message)
            diagnostic.add_fix(with_constant(loc, self.scope, show(encoded, dtype), str(dtype)))
        return encoded

    def typed_tail(self, row: OpDef, tail: Tail, start: int, end: int) -> Tail:
        """The parts of an op, which stands between two offsets, with the types of constants in place and of a load."""
        self.has_pending = False
        operands, first = tail.operands, tail.operands[0] if tail.operands else None
        if row.format in ("const", "copy_wait"):
            if len(operands) == 1 and tail.access is None and isinstance(first, PendingConstant):
                return tail._replace(operands=(), access=("literal", (), first.written))
        elif row.name == "yield" and tail.dtype is None:
            self.has_open_yields = True
            return tail
        written = self._written_type(row, tail, Location(self.source, start, end))
        if row.format == "load" and tail.dtype is None and self.module.version > 1:
            tail = tail._replace(dtype=written)
        is_filled = row.format == "slice_load" and tail.access is not None and tail.access[0] == "atomic"
        roles = constant_roles(row, len(operands), is_filled)
        roles += ("?",) * (len(operands) - len(roles))  # too many operands, which is an error of its own
        typed = [self.typed_as(role, value, written) for value, role in zip(operands, roles, strict=False)]
        return tail._replace(operands=typed)

    def typed_as(self, role: str, value: Value, written: DataType | None) -> Value:
        """A constant in place with the type of its role (see `constant_roles`) in an op whose T is `written`."""
        dtype = _type_in(role, written)
        help = (
            f"write `: {_usual_type(value)}` behind the operands" if dtype is None and role != "-" else None
        )
        return self.typed(value, dtype, help)

    def _written_type(self, row: OpDef, tail: Tail, loc: Location) -> DataType | None:
        """The T of an op: as it is written, or else that of its buffer's elements, or of the first operand that has it."""
        if tail.dtype is not None:
            return tail.dtype
        if row.format in _BUFFER_FORMATS:
            return self._element_type(row, tail, loc)
        roles = constant_roles(row, len(tail.operands))
        values = [v for v, role in zip(tail.operands, roles, strict=False) if role == "T"]
        if (
            row.format == "select" and not tail.operands[0].type.element.is_bool
        ):  # a condition that stands behind
            values.insert(0, tail.operands[0])
        return next((value.type for value in values if not isinstance(value, PendingConstant)), None)

    def _element_type(self, row: OpDef, tail: Tail, loc: Location) -> DataType | None:
        """The type of the elements of the buffer that the op at `loc` accesses, UNKNOWN after an error; None in a function."""
        program = self.owners[0]
        if tail.access is None or len(tail.access) < 3 or not isinstance(program, Program):
            return None
        name = tail.access[2]
        if not isinstance(name, str):
            return None  # the number of a lane, which is no access to a buffer
        if name in self.declared:
            return self.declared[name].dtype
        stored = tail.operands[0] if row.name == "store" and tail.operands else None
        dtype = None if stored is None or isinstance(stored, PendingConstant) else stored.type
        has_values = tail.access[0] in ("store", "atomic")  # beside its indices
        dimensions = tail.access[3] if has_values else len(tail.access[1])
        help = declaration_help(row, name, self.declared, dtype, dimensions)
        self.undeclared("buffer", name, self.declared, program, loc, help)
        return UNKNOWN

    def undeclared(
        self,
        kind: str,
        name: str,
        declared: Iterable[str],
        program: Program,
        loc: Location,
        help: str | None = None,
    ) -> None:
        """Report a name of which the type was wanted, so that the verifier does not."""
        if self.holes.may_define(program, name):
            return
        at = loc.find(f"@{name}")
        message = f"program @{program.name} has no {kind} @{name}"
        names = [f"@{each}" for each in islice(declared, 3)]
        help = (
            help
            or f"{'write ' + ' or '.join(names) + ', or ' if names else ''}declare {kind.split()[0]} @{name}"
        )
        error = self.name_error(message, at.start, at.end, help)
        error.suggestion = suggest_later(name, declared, "@")
        self.holes.add_lost_names(program, (name,))

    def type_operands(
        self, operands: list[Value], types: Sequence[DataType | None], help: str | None = None
    ) -> None:
        """Give constants in place among `operands` the types at their places; `help`: see `typed`."""
        self.has_pending = False
        known = [*types, *[UNKNOWN] * (len(operands) - len(types))]
        operands[:] = [self.typed(value, dtype, help) for value, dtype in zip(operands, known, strict=False)]

    def written_types(
        self, name: str, operands: list[Value], types: Sequence[DataType], loc: Location
    ) -> None:
        """Report where the types written in parentheses are not those of the operands.  Constants in place have theirs."""
        if len(types) != len(operands):
            self.error(f"{name}: {len(types)} types for {len(operands)} operands", loc.start, loc.end)
            return
        self.type_operands(operands, types)
        for value, dtype in zip(operands, types, strict=True):
            if dtype is not value.type and UNKNOWN not in (dtype, value.type):
                at = loc.find(f"%{value.name}")
                self.error(f"{name}: %{value.name} is {value.type}, not {dtype}", at.start, at.end)

    def type_yields(self, block: Block, types: Sequence[DataType]) -> None:
        """Give constants in place that `block` yields their types, those of the results of the op around it."""
        for end in [op for op in block.ops if op.definition.is_terminator]:
            if any(isinstance(value, PendingConstant) for value in end.operands):
                # of more values than are wanted, which is an error, the usual types do
                wanted = (*types, *map(_usual_type, end.operands[len(types) :]))
                operands = list(end.operands)
                self.type_operands(operands, wanted)
                end.operands = tuple(operands)
        block.ops = self.with_constants(block.ops)

    def with_constants(self, ops: list[Op]) -> list[Op]:
        """`ops`, each behind the constants in place among its operands; not those that are there."""
        if not self.has_placed:
            return ops
        known, placed = set(ops), list[Op]()
        for op in ops:
            owners = [value.owner for value in op.operands if value.is_unnamed_constant]
            placed += [owner for owner in owners if isinstance(owner, Op) and owner not in known]
            placed.append(op)
        return placed


def _usual_type(value: Value) -> DataType:
    return value.usual_type if isinstance(value, PendingConstant) else value.type


def _type_in(role: str, written: DataType | None) -> DataType | None:
    """The type of a constant in a role, for an op whose T is `written`; None if nothing says it."""
    if role == "?":
        return UNKNOWN
    if role == "T":
        return written
    if role == "element":
        return written.element if written is not None else None
    return fixed_type(role)
