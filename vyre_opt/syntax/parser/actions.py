"""The semantic actions of the grammar: a method for each rule, by its name.

The parser calls a method with the offsets of the rule's start and of the end of its last token, and
with its parts.  Ops are built as they are read, so names are resolved at once.  An undefined
name gives a value of type UNKNOWN, about which no further error is reported.  What could not be
built is left out, and `holes` tells the verifier.
"""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

from ...ir.diagnostics import Diagnostic, Location, Source
from ...ir.fixes import with_declaration, with_head_flag
from ...ir.grids import Extent, GridCall
from ...ir.literals import Literal, LiteralError, encode, read_int
from ...ir.pipeline import Pipeline
from ...ir.program import (
    MAX_DIMENSIONS,
    AccessMode,
    Block,
    Buffer,
    Func,
    Module,
    Op,
    Param,
    Program,
    Spec,
    Value,
)
from ...ir.suggestions import suggest_later
from ...ir.types import (
    DTYPE,
    MAX_VECTOR_LANES,
    MIN_VECTOR_LANES,
    UNKNOWN,
    DataType,
    TypeNameError,
    vector_lanes,
)
from .locations import WrittenLocation
from .scopes import Symbol
from .stage_actions import StageActions

FORMAT_VERSIONS = ("1", "2")
"""2 has runtime scalars, preferences, clusters, buffers of several dimensions and constants in place, and may leave types out.
But for the last two, a text of either version may use what both have."""

Item = Program | Func | Pipeline
D = TypeVar("D", Spec, Param)


class ModuleActions(StageActions):
    """Builds a Module; `diagnostics` collects what is wrong."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.parameters: dict[
            str, DataType
        ] = {}  # type parameters of the program or pipeline that is being read
        self.broken_heads: set[int] = set()  # offsets of items whose first line has a syntax error

    # --- the module ---------------------------------------------------------------

    def start(self, start: int, end: int, version: Any, items: list[Any] | None = None) -> Module:
        self.located(items or [])
        return self.module

    def version(self, start: int, end: int, number: str) -> None:
        if number in FORMAT_VERSIONS:
            self.module.version = int(number)
        else:
            help = f"this vyre-opt reads {' and '.join(f'`vyre {v}`' for v in FORMAT_VERSIONS)}"
            self.error(f"this text is in format version {number[:20]}", start, end, help)

    def version_missing(self) -> None:
        """Read the text in the newest format, which takes most."""
        self.module.version = int(FORMAT_VERSIONS[-1])

    def add(self, item: Item, kind: str) -> None:
        first = self.module.of_kind(item).get(item.name)
        if first is not None and item.loc is not None:
            error = Diagnostic("error", f"{kind} @{item.name} is defined twice", item.loc)
            self.diagnostics.append(error.note("first defined here", first.loc))
            self.holes.mark_invalid(first)
        self.module.add(item)

    # --- programs and functions -----------------------------------------------------

    def program_head(
        self, start: int, end: int, symbol: Symbol, flags: list[tuple[str, Any, int]] | None = None
    ) -> Program:
        name, loc = symbol
        program = Program(name, (1, 1, 1), loc=loc)
        self.parameters = {}
        self.open_scope(program)
        seen: set[str] = set()
        for flag, value, at in flags or ():
            if flag in seen:
                self.error(f"{flag} is given twice", at, at + len(flag))
            seen.add(flag)
            if flag == "workgroup":
                program.workgroup = value
            elif flag == "grid":
                program.grid = value
            elif flag == "cluster":
                program.cluster = value
            else:
                program.prefer_shared = value
        is_broken = start in self.broken_heads
        if "workgroup" not in seen and not is_broken:
            help = f"write program @{program.name} workgroup(256) {{"
            error = self.error(f"program @{program.name} has no workgroup size", loc.start, loc.end, help)
            error.add_fix(with_head_flag(loc, "workgroup(256)"))
        if is_broken or self.has_error(start, end):
            program.workgroup, program.grid = (1, 1, 1), None
            program.prefer_shared = program.cluster = None
            self.holes.mark_invalid(program)
        return program

    def _dims(self, flag: str, start: int, end: int, ints: list[int]) -> tuple[str, Any, int]:
        if len(ints) > 3:
            self.error(f"{flag} has 1 to 3 dimensions, not {len(ints)}", start, end)
        return flag, (*ints, 1, 1)[:3], start

    def flag_workgroup(self, start: int, end: int, ints: list[int]) -> tuple[str, Any, int]:
        return self._dims("workgroup", start, end, ints)

    def flag_cluster(self, start: int, end: int, text: str) -> tuple[str, Any, int]:
        return "cluster", self.integer(start, end, text), start

    def flag_grid(self, start: int, end: int, ints: list[int]) -> tuple[str, Any, int]:
        return self._dims("grid", start, end, ints)

    def flag_prefer(self, start: int, end: int, name: str, text: str) -> tuple[str, Any, int]:
        if name != "shared":
            self.name_error(f"no preference is called {name}", start, end, "write prefer(shared = 50)")
        return "prefer", self.integer(start, end, text), start

    def program(self, start: int, end: int, head: Item, *parts: list[Any] | None) -> Item:
        """Close the scope of a program, function or pipeline, and add it to the module."""
        self.close_scope()
        self.complete(head, [statement for part in parts for statement in part or ()])
        return head

    func = pipeline = program

    def complete(self, head: Item, statements: list[Any]) -> None:
        """Add `statements` to an item, after those that error recovery saved for it, and the item to the module."""
        ops: list[Op | None] = []
        for item in self.located([*self.salvaged.pop(id(head), ()), *statements]):
            if item is None or isinstance(item, Op):
                ops.append(item)
            elif isinstance(item, Buffer) and not isinstance(head, Func):
                self.declare(head.buffers, item, "buffer")
            elif isinstance(item, Spec) and not isinstance(head, Func):
                self.declare(head.specs, item, "spec")
            elif isinstance(item, Param) and not isinstance(head, Func):
                self.declare(head.params, item, "param")
            elif isinstance(head, Pipeline):
                head.stages.append(item)
        if not isinstance(head, Pipeline):
            self.fill(head.body, ops)
            if self.has_open_yields:
                self.type_yields(head.body, head.results if isinstance(head, Func) else ())
            if self.unbalanced:
                self.unbalance(head)
        if isinstance(head, Func):
            self.drop_bare_yield(head.body)
        self.add(head, type(head).__name__.lower())

    def unbalance(self, item: Program | Func) -> None:
        """A brace of `item` is missing or too many: drop the errors about values that wrong scopes may have caused."""
        self.holes.mark_unbalanced(item)
        names = set(self.poisoned)
        for op in item.walk():
            names.update(f"%{v.name}" for v in (*op.results, *(a for b in op.regions for a in b.args)))
        unsure = [*self.redefinitions, *(error for name, error in self.undefined.items() if name in names)]
        ignored = {id(error) for error in unsure}
        self.diagnostics = [error for error in self.diagnostics if id(error) not in ignored]

    def declare(self, table: dict[str, Any], item: Buffer | Spec | Param, kind: str) -> None:
        first = table.setdefault(item.name, item)
        if first is not item:
            error = Diagnostic("error", f"{kind} @{item.name} is declared twice", item.loc)
            self.diagnostics.append(error.note("first declared here", first.loc))
            self.holes.mark_invalid(first)

    def func_head(
        self,
        start: int,
        end: int,
        symbol: Symbol,
        params: list[tuple[str, int, DataType]] | None,
        results: list[DataType] | None,
    ) -> Func:
        args = tuple(Value(name[1:], dtype) for name, _, dtype in params or ())
        func = Func(symbol[0], tuple(results or ()), Block(args), symbol[1])
        if start in self.broken_heads:
            self.holes.mark_invalid(func)
            self.holes.mark_invalid(func.body)
        self.open_scope(func)
        for arg, (name, at, _) in zip(args, params or (), strict=True):
            self.define(name, arg, at)
        return func

    def block_arg(
        self, start: int, end: int, name: tuple[str, int], dtype: DataType
    ) -> tuple[str, int, DataType]:
        return (*name, dtype)

    # --- declarations ---------------------------------------------------------------

    def buffer(
        self,
        start: int,
        end: int,
        symbol: Symbol,
        dtype: DataType,
        counts: list[Extent | None],
        flags: list[tuple[str, Any, int, int]] | None = None,
    ) -> Buffer:
        loc = Location(self.source, start, end)
        shape = [None if isinstance(count, GridCall) else count for count in counts]
        sizes = tuple(count if isinstance(count, GridCall) else None for count in counts)
        if len(counts) > MAX_DIMENSIONS:
            self.error(f"a buffer has 1 to {MAX_DIMENSIONS} dimensions, not {len(counts)}", start, end)
        buffer = Buffer(symbol[0], dtype, shape, None, loc=loc, sizes=sizes if any(sizes) else ())
        seen: set[str] = set()
        for flag, argument, at, stop in flags or ():
            if flag in seen:
                what = "an access" if flag == "access" else flag
                self.error(f"buffer @{symbol[0]} is given {what} twice", at, stop)
            seen.add(flag)
            if flag == "loc":
                self.placed.append((buffer, argument))
            else:
                setattr(buffer, flag, argument)
        if self.has_error(start, end) or dtype is UNKNOWN:
            self.holes.mark_invalid(buffer)
        self.last_buffer = self.declared[symbol[0]] = buffer
        return buffer

    def counts(
        self, start: int, end: int, first: Extent | None, rest: list[Extent | None] | None = None
    ) -> list[Extent | None]:
        return [first, *(rest or ())]

    def count(self, start: int, end: int, text: str) -> int:
        number = self.integer(start, end, text)
        if not 0 <= number < 1 << 63:
            self.error("a buffer has 0 to 2^63-1 elements", start, end)
            return 1
        return number

    def flag_access(self, start: int, end: int, word: str) -> tuple[str, Any, int, int]:
        return "access", AccessMode(word), start, end

    def flag_live_in(self, start: int, end: int) -> tuple[str, Any, int, int]:
        return "live_in", True, start, end

    def flag_live_out(self, start: int, end: int) -> tuple[str, Any, int, int]:
        return "live_out", True, start, end

    def flag_binding(self, start: int, end: int, text: str) -> tuple[str, Any, int, int]:
        number = self.integer(start, end, text)
        if not 0 <= number < 1 << 16:
            self.error("a binding is 0 to 65535", start, end)
        return "binding", number, start, end

    def flag_location(
        self, start: int, end: int, written: WrittenLocation
    ) -> tuple[str, WrittenLocation, int, int]:
        return "loc", written, start, end

    def declaration(self, item: D, is_valid: bool, written: WrittenLocation | None) -> D:
        """`item`, located where its text says."""
        self.scalars[item.name] = item.dtype
        if written is not None:
            self.placed.append((item, written))
        if not is_valid:
            self.holes.mark_invalid(item)
        return item

    def spec_unset(
        self, start: int, end: int, symbol: Symbol, dtype: DataType, written: WrittenLocation | None
    ) -> Spec:
        return self.declaration(Spec(symbol[0], dtype, None, symbol[1]), dtype is not UNKNOWN, written)

    def spec(
        self,
        start: int,
        end: int,
        symbol: Symbol,
        dtype: DataType,
        value: Literal,
        written: WrittenLocation | None,
    ) -> Spec:
        spec = Spec(symbol[0], dtype, self.encoded(value, dtype, start, end), symbol[1])
        return self.declaration(spec, not self.has_error(start, end) and dtype is not UNKNOWN, written)

    def param_unset(
        self, start: int, end: int, symbol: Symbol, dtype: DataType, written: WrittenLocation | None
    ) -> Param:
        return self.declaration(Param(symbol[0], dtype, None, symbol[1]), dtype is not UNKNOWN, written)

    def param(
        self,
        start: int,
        end: int,
        symbol: Symbol,
        dtype: DataType,
        value: Literal,
        written: WrittenLocation | None,
    ) -> Param:
        param = Param(symbol[0], dtype, self.encoded(value, dtype, start, end), symbol[1])
        return self.declaration(param, not self.has_error(start, end) and dtype is not UNKNOWN, written)

    def parameter_unset(self, start: int, end: int, symbol: Symbol, written: WrittenLocation | None) -> Spec:
        name, loc = symbol
        help = f"write spec @{name} : dtype = f32; the program is checked with that, and --spec changes it"
        self.error(f"the type parameter @{name} stands for no type", loc.start, loc.end, help)
        return self.parameter(start, end, symbol, UNKNOWN, written)

    def parameter(
        self, start: int, end: int, symbol: Symbol, dtype: DataType, written: WrittenLocation | None
    ) -> Spec:
        parameter = UNKNOWN
        if dtype is not UNKNOWN:
            try:
                parameter = DataType.parameter(symbol[0], dtype)
            except TypeNameError as error:
                self.error(str(error), start, end)
        self.parameters[symbol[0]] = parameter
        spec = Spec(symbol[0], DTYPE, parameter.bound, symbol[1])
        return self.declaration(spec, parameter is not UNKNOWN, written)

    # --- pipelines ------------------------------------------------------------------

    def pipeline_head(self, start: int, end: int, symbol: Symbol) -> Pipeline:
        pipeline = Pipeline(symbol[0], loc=symbol[1])
        self.parameters = {}
        self.open_scope(pipeline)
        return pipeline

    # --- types ----------------------------------------------------------------------

    def type_name(self, start: int, end: int, name: str) -> DataType:
        interned = DataType._interned.get(name)
        return interned if interned is not None else self._type(start, end, name)

    def _type(self, start: int, end: int, name: str, *params: Any) -> DataType:
        if UNKNOWN in params:
            return UNKNOWN
        try:
            lanes = params[0] if name == "vec" and params else None
            if isinstance(lanes, int) and not MIN_VECTOR_LANES <= lanes <= MAX_VECTOR_LANES:
                raise TypeNameError(vector_lanes(lanes))
            return DataType.of(name, *params)
        except TypeNameError as error:
            known = DataType.all_names()
            wrong = self.name_error(str(error), start, end, None)
            if name not in known:
                wrong.suggestion = partial(self.advice, name, "type", known)
            return UNKNOWN

    def type_parameter(self, start: int, end: int, token: str) -> DataType:
        if not self.owners or isinstance(self.owners[0], Func):
            self.error(f"{token} is no type here: a function has no type parameters", start, end)
            return UNKNOWN
        dtype = self.parameters.get(token[1:])
        if dtype is None:
            declaration = f"spec {token} : dtype = f32"
            error = self.error(f"{token} is no type", start, end, help=f"declare {declaration} above")
            error.add_fix(with_declaration(self.owners[0].loc, declaration))
            error.suggestion = suggest_later(token[1:], self.parameters, "@")
            self.parameters[token[1:]] = UNKNOWN
        return dtype or UNKNOWN

    def type_params(self, start: int, end: int, name: str, args: list[Any]) -> DataType:
        flat = [part for arg in args for part in (arg if isinstance(arg, tuple) else (arg,))]
        return self._type(start, end, name, *flat)

    def type_shaped(self, start: int, end: int, name: str, shape: str, *use: str) -> DataType:
        """A matrix or a slice: `64x?xf32`."""
        *extents, element = shape.split("x", 2)
        try:
            sizes = [0 if extent == "?" else read_int(extent) for extent in extents]
        except LiteralError as error:
            self.error(str(error), start, end)
            return UNKNOWN
        dtype = DataType.TF32 if element == "tf32" else self.type_name(start, end, element)
        if 0 in sizes and name != "slice":
            if name == "matrix":
                self.error("an extent of a matrix is a number", start, end)
            return UNKNOWN  # of another language, see foreign_syntax.py
        return self._type(start, end, name, *sizes, dtype, *use)

    def type_lanes(self, start: int, end: int, text: str, element: DataType) -> tuple[Any, ...]:
        return self.integer(start, end, text), element

    def types_many(self, start: int, end: int, types: list[DataType] | None) -> list[DataType]:
        return types or []

    # --- names and literals -----------------------------------------------------------

    def symbol(self, start: int, end: int, token: str) -> Symbol:
        return token[1:], Location(self.source, start, start + len(token))

    def value(self, start: int, end: int, token: str) -> tuple[str, int]:
        return token, start

    def symbols(self, start: int, end: int, first: Symbol, rest: list[Symbol] | None = None) -> list[str]:
        return [name for name, _ in [first, *(rest or ())]]

    def ints(self, start: int, end: int, first: str, rest: list[str] | None = None) -> list[int]:
        return [self.integer(start, end, text) for text in [first, *(rest or ())]]

    def encoded(self, literal: Literal, dtype: DataType, start: int, end: int) -> Any:
        if dtype is UNKNOWN:
            return 0
        try:
            return encode(literal, dtype.element)
        except LiteralError as error:
            self.error(str(error), start, end)
            return 0
