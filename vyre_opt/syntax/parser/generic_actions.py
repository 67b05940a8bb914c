"""Semantic actions for the generic form, any op as `"name"(operands) {attributes} : types`."""

from __future__ import annotations

from typing import Any

from ...ir.diagnostics import Location
from ...ir.literals import LiteralError, encode, read_int, unquote
from ...ir.ops import OPS, OpDef
from ...ir.program import NO_ATTRS, Block, Op, Value
from ...ir.types import DataType
from ..op_syntax import MalformedOp, fastmath_flags
from .control_actions import ControlActions
from .scopes import Symbol


class GenericActions(ControlActions):
    """Ops in the generic form."""

    # --- the generic form ---------------------------------------------------------------

    def generic_head(
        self, start: int, end: int, results: str | None, name: str, operands: list[Value] | None
    ) -> tuple[Any, ...]:
        return results, unquote(name), operands or [], Location(self.source, start, end)

    def generic_regions(
        self, start: int, end: int, first: Block | None = None, rest: list[Block] | None = None
    ) -> tuple[Block, ...]:
        return () if first is None else (first, *(rest or ()))

    def generic_open(self, start: int, end: int, args: list[tuple[str, int, DataType]] | None) -> Block:
        self.pending = tuple(Value(name[1:], t) for name, _, t in args or ())
        return self.open(start, end)

    generic_block = ControlActions.block

    def generic(
        self,
        start: int,
        end: int,
        head: tuple[Any, ...],
        regions: tuple[Block, ...] | None,
        attrs: dict[str, Any] | None,
        params: list[DataType] | None,
        types: list[DataType] | None,
    ) -> Op | None:
        results, name, operands, loc = head
        row = OPS.get(name) or self.plugin_op(name, loc.find(name).start)
        if row is None:
            if results:
                self.poison(results)
            return None
        errors = self.error_count
        self.written_types(row.name, operands, params or (), loc)
        op_attrs = self._generic_attrs(row, attrs or {}, types[0] if types else None, loc)
        op = self.finish(row, tuple(operands), types or [], op_attrs, regions or (), results, loc)
        if not op.regions:  # as in the short form, an op is all of its text up to its blocks
            op.loc = Location(self.source, start, end)
        if self.error_count > errors:
            self.holes.mark_invalid(op)
        return op

    def _generic_attrs(
        self, row: OpDef, attrs: dict[str, Any], dtype: DataType | None, loc: Location
    ) -> dict[str, Any]:
        if row.kernel is not None:
            buffers = attrs.pop("buffers", [])
            symbols = buffers if isinstance(buffers, list) else [buffers]
            names = tuple(text for kind, text in symbols if kind == "symbol")
            return {"buffers": names, "params": self.kernel_params(row.name, attrs, loc.start, loc.end)}
        built: dict[str, Any] = {}
        expected = {attr.name: attr for attr in row.attrs}
        for key, value in attrs.items():
            try:
                if key == "fastmath" and not isinstance(value, list):
                    raise MalformedOp("takes a list of words in brackets")
                if key == "fastmath":
                    built[key] = fastmath_flags([text for _, text in value])
                elif key not in expected:
                    raise MalformedOp(f"has no attribute {key}")
                else:
                    built[key] = _generic_attr(expected[key].kind, value, dtype)
            except (MalformedOp, LiteralError, TypeError, ValueError) as error:
                self.error(f"{row.name}: attribute {key}: {error}", loc.start, loc.end)
        required = [attr.name for attr in row.attrs if not attr.optional]
        missing = [key for key in required if key not in built and key not in attrs]
        if missing:
            self.error(f"{row.name}: attribute {missing[0]} is missing", loc.start, loc.end)
        return built or NO_ATTRS

    def attrs(
        self, start: int, end: int, first: tuple[str, Any] | None, rest: list[Any] | None = None
    ) -> dict[str, Any]:
        pairs = [first, *(rest or ())] if first else []
        by_key = dict(pairs)
        if len(by_key) != len(pairs):
            keys = [key for key, _ in pairs]
            repeated = next(key for key in keys if keys.count(key) > 1)
            self.error(f"attribute {repeated} is given twice", start, end)
        return by_key

    def attr(self, start: int, end: int, key: str, value: Any) -> tuple[str, Any]:
        return key, ("word", value) if isinstance(value, str) else value

    def attr_symbol(self, start: int, end: int, symbol: Symbol) -> tuple[str, str]:
        return "symbol", symbol[0]

    def attr_string(self, start: int, end: int, text: str) -> tuple[str, str]:
        return "string", unquote(text)

    def attr_list(self, start: int, end: int, first: Any, rest: list[Any] | None = None) -> list[Any]:
        return [("word", item) if isinstance(item, str) else item for item in [first, *(rest or ())]]


def _generic_attr(kind: str, value: Any, dtype: DataType | None) -> Any:
    if kind == "literal":
        if dtype is None:
            raise MalformedOp("needs a result type")
        if isinstance(value, list):
            return tuple(encode(lane, dtype.element) for lane in value)
        return encode(value, dtype.element)
    if isinstance(value, list):
        raise MalformedOp(f"takes {_a(kind)}, not a list")
    value_kind, text = value
    if kind == "int" and value_kind == "word" and text == "dynamic":
        return None
    if value_kind != kind:
        raise MalformedOp(f"takes {_a(kind)}, not {_a(value_kind)}")
    return read_int(text) if kind == "int" else text


def _a(kind: str) -> str:
    return f"a{'n' * (kind == 'int')} {kind}"
