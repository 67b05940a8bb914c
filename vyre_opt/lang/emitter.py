"""Emits the ops of a kernel, with types that may be open, and resolves them at the end.

An op whose form depends on a type that is open when it is written (`//` of integers that have met only literals) is put
down as one op, and expanded once the types are resolved.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from ..ir import arith
from ..ir.diagnostics import Diagnostic, Location
from ..ir.literals import show_number
from ..ir.ops import OPS
from ..ir.program import NO_ATTRS, Block, Op, Unnamed, Value
from ..ir.scopes import Scope, ScopedLocation
from ..ir.types import DataType, with_article
from .bindings import Static
from .inference import AnyType, OpenType, bind, known, resolved, unify
from .intrinsics import instead_of
from .python_source import Unsupported
from .random_draws import Draw

__all__ = ["Emitter", "check_constant", "element_of", "type_of"]

Expansion = Callable[["Emitter", Op], Value]


def type_of(value: Value) -> AnyType:
    """The type of a value, as far as it is known."""
    return known(cast(AnyType, value.type))


def element_of(dtype: AnyType) -> AnyType:
    """The type of a vector's lanes; any other type itself."""
    return dtype if isinstance(dtype, OpenType) else dtype.element


class Emitter:
    """`block`: where ops go; `loc`: the location that they get, but for those of a function of this package, which are
    where it is called, `pinned`."""

    def __init__(self, block: Block) -> None:
        self.body = self.block = block
        self.loc: Location | None = None
        self.pinned: Location | None = None
        self.scope: Scope | None = None
        """Scope of the statement, where the kernel is translated for a debugger: `names` are bindings until it is finished."""
        self.heads: set[Location] = set()
        """Locations of statements with blocks; ops for their flags and results are not lines of the author's."""
        self.is_hidden = False
        """Whether the op with blocks that is written now is no line of the author's either, as what guards the lines after a return."""
        self.checks: list[Callable[[], None]] = []
        """Called once types are resolved; each raises Unsupported for what they do not fit."""
        self.warnings: list[Diagnostic] = []
        """Warnings of things that are no error, but surely not meant, and that the IR does not show."""
        self.draws: list[Draw] = []
        """Random numbers of the kernel, in the order in which they are written."""
        self.open_beginnings: set[Value] = set()
        """Values that a loop carries, that began as a literal, and so have the type that they met."""
        self.open_sums: set[Value] = set()
        """The same behind their loops, where rounds added or multiplied."""
        self._count = 0
        self._constants: list[tuple[Op, Static, ast.AST]] = []
        self.index_checks: set[Op] = set()
        """Asserts that the translation wrote, of indices of local arrays."""
        self._deferred: dict[Op, Expansion] = {}

    # --- writing

    @contextmanager
    def at(self, block: Block) -> Iterator[Block]:
        """Write into another block for a while."""
        before, self.block, scope = self.block, block, self.scope
        try:
            yield block
        finally:
            self.block, self.scope = before, scope

    def fresh(self, dtype: AnyType, name: str | None = None) -> Value:
        """A new value; without a name, it has a number."""
        self._count += 1
        return Value(name or str(self._count - 1), cast(DataType, dtype))

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Compute what is thrown away: with it go constants and checks whose types nothing resolves."""
        constants, checks, deferred = len(self._constants), len(self.checks), dict(self._deferred)
        with self.at(Block()):
            yield
        del self._constants[constants:], self.checks[checks:]
        self._deferred.clear()
        self._deferred.update(deferred)

    def op(
        self,
        name: str,
        operands: Sequence[Value] = (),
        types: Sequence[AnyType] = (),
        attrs: dict[str, Any] = NO_ATTRS,
        regions: tuple[Block, ...] = (),
    ) -> Op:
        results = tuple([self.fresh(dtype) for dtype in types])
        if name == "const":
            results[0].name = Unnamed(results[0].name)
        loc = self.pinned or self.loc
        if self.scope is not None and loc is not None:
            is_line = loc not in self.heads or (regions and not self.is_hidden)
            loc = ScopedLocation(loc, self.scope) if is_line else loc
        op = Op(OPS[name], tuple(operands), results, attrs, regions, loc)
        self.block.ops.append(op)
        return op

    def value(
        self, name: str, operands: Sequence[Value], dtype: AnyType, attrs: dict[str, Any] = NO_ATTRS
    ) -> Value:
        """The result of an op that gives one."""
        return self.op(name, operands, (dtype,), attrs).results[0]

    def deferred(self, name: str, operands: Sequence[Value], dtype: AnyType, expansion: Expansion) -> Value:
        """The result of an op that `expansion` replaces once all types are resolved."""
        op = self.op(name, operands, (dtype,))
        self._deferred[op] = expansion
        return op.results[0]

    def constant(self, static: Static, node: ast.AST, dtype: AnyType | None = None) -> Value:
        """A constant: of a type, or of the one that its uses ask for.  Raises Unsupported for what is no number."""
        value = static.value
        if isinstance(value, bool):
            dtype = dtype or DataType.BOOL
        elif not static.is_number:
            shown = repr(value) if len(repr(value)) < 40 else type(value).__name__
            help = instead_of(value)
            if value is None and isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                help = f"{ast.unparse(node.func)} has no return: end it with return and what it computes"
            raise Unsupported(node, f"{shown} is no value of a kernel", help)
        open_type = OpenType(isinstance(value, float))
        if dtype is None:
            dtype = open_type
        elif not isinstance(value, bool):
            bind(open_type, known(dtype), self.loc)
        if isinstance(known(dtype), DataType):
            check_constant(value, resolved(dtype), node)
        op = self.op("const", (), (dtype,), {"value": value})
        self._constants.append((op, static, node))
        return op.results[0]

    def blank(self, node: ast.AST) -> Value:
        """A constant that nothing uses before it is replaced: 0 or false of the type that its uses ask for."""
        op = self.op("const", (), (OpenType(False, is_any=True),), {"value": 0})
        self._constants.append((op, Static(0), node))
        return op.results[0]

    def adapted(self, static: Static, dtype: AnyType, node: ast.AST) -> Value:
        """A constant of the type of another operand.  Raises Mismatch, or Unsupported for a number that does not fit."""
        dtype = known(dtype)
        if isinstance(static.value, bool) and not (isinstance(dtype, DataType) and dtype.element.is_bool):
            dtype = unify(DataType.BOOL, dtype)
        return self.constant(static, node, dtype)

    def broadcast(self, value: Value, dtype: AnyType) -> Value:
        """Widen a number to the vector or matrix type `dtype`; other values stay."""
        element = type_of(value)
        if isinstance(dtype, OpenType) or not (dtype.is_vec or dtype.is_matrix):
            return value
        if isinstance(element, OpenType) and element.is_scalar:
            element = unify(element, dtype.element)
        return self.value("splat", (value,), dtype) if element is dtype.element else value

    # --- settling

    def finish(self) -> None:
        """Settle all types, run the checks, encode constants, expand what waits for that.  Raises Unsupported."""
        by_default = {op for op, _, _ in self._constants if isinstance(type_of(op.results[0]), OpenType)}
        self._resolve_types(self.body)
        for check in self.checks:
            check()
        for op, static, node in self._constants:
            try:
                op.attrs = {"value": encoded(static.value, op.results[0].type, node)}
            except Unsupported as error:
                if op in by_default:
                    error.help = "nothing says which type it has: " + _with_type(static.value)
                if static.loc is not None:
                    error.notes.append(("it is written here", static.loc))
                raise
        if self._deferred:
            self._expand(self.body)

    def _resolve_types(self, block: Block) -> None:
        for arg in block.args:
            arg.type = resolved(arg.type)
        for op in block.ops:
            for result in op.results:
                result.type = resolved(result.type)
            for region in op.regions:
                self._resolve_types(region)

    def _expand(self, block: Block) -> None:
        ops, block.ops = block.ops, []
        for op in ops:
            for region in op.regions:
                self._expand(region)
            expansion = self._deferred.get(op)
            if expansion is None:
                block.ops.append(op)
                continue
            self.loc, self.scope = op.loc, op.loc.scope if isinstance(op.loc, ScopedLocation) else None
            with self.at(block):
                value = expansion(self, op)
            last = block.ops[-1]
            assert last.results == (value,), "the last op of an expansion gives its value"
            last.results = op.results
            op.results[0].owner = last
            self._resolve_types(Block((), [last]))

    def number(self, value: int | float, dtype: DataType, like: Value | None = None) -> Value:
        """A constant of a resolved type.  `like`: a slice whose extents one of a slice's type has."""
        if dtype.is_slice and like is not None:
            operands = [self.number(value, dtype.element), *([like] if None in dtype.extents else [])]
            return self.value("slice_broadcast", operands, dtype)
        bits = arith.encode_float(value, dtype.element) if dtype.element.is_float else int(value)
        return self.value("const", (), dtype, {"value": bits})


MAX_FLOAT_BITS = 1024
"""Most bits of a whole number that a float may be rounded from; Python makes no float of one with more."""


def check_constant(value: bool | int | float, dtype: DataType, node: ast.AST) -> None:
    """Raises Unsupported for a number that a type does not have."""
    element = dtype.element
    if element.is_int:
        low, high = arith.int_range(element)
        if not low <= value <= high:
            help = f"write a number from {low} to {high}"
            if value < 0 == low:
                help = f"{with_article(element)} is not below 0: count from the end with len, as in x[len(x) - 1], or convert to i32"
            raise Unsupported(node, f"{show_number(value)} does not fit in {element} ({low} to {high})", help)
    elif element.is_float and isinstance(value, int) and value.bit_length() > MAX_FLOAT_BITS:
        raise Unsupported(node, f"{show_number(value)} does not fit in {element}")


_WIDER = (DataType.U16, DataType.I16, DataType.U32, DataType.I32, DataType.I64, DataType.U64)


def integer_type(value: int, types: Sequence[DataType] = _WIDER) -> DataType | None:
    """The first of some types that holds a whole number."""
    return next((t for t in types if arith.int_range(t)[0] <= value <= arith.int_range(t)[1]), None)


def wider_type(value: int, dtype: DataType) -> DataType | None:
    """The first type that holds a whole number, and all of another type."""
    low, high = arith.int_range(dtype)
    types = [t for t in _WIDER if arith.int_range(t)[0] <= low and high <= arith.int_range(t)[1]]
    return integer_type(value, types)


def _with_type(value: Any) -> str:
    """Remedy for a number that is no i32."""
    dtype = integer_type(value, (DataType.U32, DataType.I64, DataType.U64))
    return "write f64(...)" if dtype is None else f"write {dtype}({value})"


def encoded(value: bool | int | float, dtype: DataType, node: ast.AST) -> int:
    """The encoded constant (see `ir.arith`).  Raises Unsupported for a number that the type does not have."""
    check_constant(value, dtype, node)
    element = dtype.element
    if not element.is_float:
        return int(value)
    bits = (
        arith.encode_float(value, element)
        if isinstance(value, float)
        else arith.convert(value, DataType.I64, element)
    )
    if math.isinf(arith.decode_float(bits, element)) and not math.isinf(value):
        help = "write math.inf if that is meant, or compute in f64"
        raise Unsupported(node, f"{show_number(value)} does not fit in {element}, and would be inf", help)
    return bits
