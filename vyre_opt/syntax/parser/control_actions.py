"""Semantic actions for control flow, calls and named kernels."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...ir import plugins
from ...ir.diagnostics import Location
from ...ir.literals import unquote
from ...ir.loops import BOUND_NAMES
from ...ir.ops import NAMED_KERNELS, OPS, OpDef
from ...ir.pipeline import Pipeline
from ...ir.plugin_ops import find_op
from ...ir.plugins import PluginError
from ...ir.program import MAX_NESTING, NO_ATTRS, Block, Op, Value
from ...ir.types import UNKNOWN, DataType
from ..op_syntax import SYNTAX
from .op_actions import OpActions
from .scopes import Symbol, TooDeep, result_names


class ControlActions(OpActions):
    """Blocks, for, while, if, region, call, trap, assert, debug_print, kernels."""

    # --- control flow -----------------------------------------------------------------

    def open(self, start: int, end: int) -> Block:
        args, self.pending = self.pending or (), None
        if self.scopes and len(self.scopes) > MAX_NESTING:
            self.error(f"blocks are nested deeper than {MAX_NESTING}", start, start + 1)
            raise TooDeep
        block = Block(args)
        self.open_scope(block, start)
        # after open_scope, so that the names of the arguments go when the block closes
        for arg in args:
            self.define(f"%{arg.name}", arg, start)
        return block

    def block(self, start: int, end: int, block: Block, ops: list[Any] | None = None) -> Block:
        self.close_scope()
        self.fill(block, [*self.salvaged.pop(id(block), ()), *(ops or ())])
        self.drop_bare_yield(block)
        return block

    def fill(self, block: Block, ops: list[Op | None]) -> None:
        """Set the ops of a block; None is an op that could not be built, perhaps the terminator."""
        ops = self.located(ops)
        block.ops = [op for op in ops if op is not None]
        if len(block.ops) < len(ops):
            self.holes.mark_invalid(block)
        block.ops = self.with_constants(block.ops)

    def drop_bare_yield(self, block: Block) -> None:
        """Remove a yield without operands, which the text may have and the IR has not."""
        if block.ops and block.ops[-1].name == "yield" and not block.ops[-1].operands:
            block.ops.pop()

    def bound_value(self, start: int, end: int, token: str) -> Value:
        return self.use(token, start)

    def step(self, start: int, end: int, bound: int | Value) -> int | Value:
        return bound

    def iter_arg(self, start: int, end: int, name: str, init: Value, dtype: DataType) -> tuple[Any, ...]:
        return result_names(name)[0], self.typed(init, dtype), dtype

    def for_head(
        self,
        start: int,
        end: int,
        results: str | None,
        variable: str,
        lower: int | Value,
        upper: int | Value,
        step: int | Value | None,
        args: list[tuple[str, Value, DataType]] | None,
        dtype: DataType | None,
    ) -> tuple[Any, ...]:
        names = result_names(variable)
        if len(names) != 1:
            self.error("a for has one loop variable", start, end)
        counter = Value(names[0][1:], dtype or DataType.U32)
        self.pending = (counter, *(Value(name[1:], t) for name, _, t in args or ()))
        limits = dict(zip(BOUND_NAMES, (lower, upper, 1 if step is None else step), strict=True))
        operands = (*(b for b in limits.values() if isinstance(b, Value)), *(v for _, v, _ in args or ()))
        attrs = {k: b if isinstance(b, int) else None for k, b in limits.items()}
        loc = Location(self.source, start, end)
        return OPS["for"], operands, [t for _, _, t in args or ()], attrs, results, loc

    def structured(self, start: int, end: int, head: tuple[Any, ...], *blocks: Block) -> Op:
        row, operands, types, attrs, results, loc = head
        if self.has_open_yields:
            for block in blocks:
                self.type_yields(block, types)
        return self.finish(row, operands, types, attrs, blocks, results, loc)

    def while_head(
        self, start: int, end: int, results: str | None, args: list[tuple[str, Value, DataType]] | None
    ) -> tuple[Any, ...]:
        self.pending = tuple(Value(name[1:], t) for name, _, t in args or ())
        operands = tuple(value for _, value, _ in args or ())
        loc = Location(self.source, start, end)
        return OPS["while"], operands, [t for _, _, t in args or ()], NO_ATTRS, results, loc

    def while_condition(self, start: int, end: int, head: tuple[Any, ...], block: Block) -> tuple[Any, ...]:
        """Start the body, whose arguments are new values with the names of the condition's."""
        self.pending = tuple(Value(arg.name, arg.type) for arg in block.args)
        return *head, block

    def while_op(self, start: int, end: int, head: tuple[Any, ...], body: Block) -> Op:
        return self.structured(start, end, head[:-1], head[-1], body)

    def if_head(
        self, start: int, end: int, results: str | None, condition: Value, types: list[DataType] | None
    ) -> tuple[Any, ...]:
        loc = Location(self.source, start, end)
        value = self.typed(condition, DataType.BOOL)
        return OPS["if"], (value,), types or (), NO_ATTRS, results, loc

    def region_head(
        self, start: int, end: int, results: str | None, symbol: Symbol, types: list[DataType] | None
    ) -> tuple[Any, ...]:
        loc = Location(self.source, start, end)
        return OPS["region"], (), types or (), {"label": symbol[0]}, results, loc

    def call(
        self,
        start: int,
        end: int,
        results: str | None,
        symbol: Symbol,
        operands: list[Value] | None,
        params: list[DataType] | None,
        types: list[DataType] | None,
    ) -> Op:
        loc = Location(self.source, start, end)
        attrs = {"callee": symbol[0]}
        errors = self.error_count
        operands = operands or []
        callee = self.module.funcs.get(symbol[0])
        if types is None and callee is not None and (self.has_pending or self.module.version > 1):
            # the types that it was declared with
            self.type_operands(operands, [param.type for param in callee.params])
            types = list(callee.results)
        elif types is not None:
            self.written_types("call", operands, params or (), loc)
        elif not results:
            help = "write `: (u32) -> ()`, or the like, behind it"
            self.type_operands(operands, [None] * len(operands), help)
        else:
            self.type_operands(operands, [])
            help = "write `: (u32) -> u32`, or the like, behind it"
            self.error("a call that gives results needs their types", start, end, help)
            types = [UNKNOWN] * len(result_names(results))  # so that their uses are no errors
        op = self.finish(OPS["call"], tuple(operands), types or [], attrs, (), results, loc)
        if self.error_count > errors:
            self.holes.mark_invalid(op)
        return op

    def trap(self, start: int, end: int, message: str) -> Op:
        attrs = {"message": unquote(message)}
        return self.finish(OPS["trap"], (), (), attrs, (), None, Location(self.source, start, end))

    def assert_op(self, start: int, end: int, condition: Value, message: str) -> Op:
        loc = Location(self.source, start, end)
        value = self.typed(condition, DataType.BOOL)
        return self.finish(OPS["assert"], (value,), (), {"message": unquote(message)}, (), None, loc)

    def debug_print(self, start: int, end: int, format: str, operands: list[Value] | None = None) -> Op:
        attrs = {"format": unquote(format)}
        loc = Location(self.source, start, end)
        operands = operands or []
        self.type_operands(operands, [None] * len(operands), "write it into the format")
        return self.finish(OPS["debug_print"], tuple(operands), (), attrs, (), None, loc)

    # --- named kernels ----------------------------------------------------------------

    def kernel(
        self, start: int, end: int, name: str, names: list[str] | None, attrs: dict[str, Any] | None = None
    ) -> Op | None:
        row = self.kernel_row(name, start)
        if row is None:
            return None
        errors = self.error_count
        op_attrs = {"buffers": tuple(names or ()), "params": self.kernel_params(name, attrs, start, end)}
        op = self.finish(row, (), (), op_attrs, (), None, Location(self.source, start, end))
        if self.error_count > errors:
            self.holes.mark_invalid(op)
        return op

    def kernel_row(self, name: str, start: int) -> OpDef | None:
        """The row of a named kernel, of this package or of another; None, after an error, if there is none."""
        try:
            row = find_op(name)
        except PluginError as error:
            self.error(str(error), start, start + len(name))
            return None
        if row is not None and row.kernel is not None:
            return row
        in_pipeline = bool(self.owners) and isinstance(self.owners[0], Pipeline)
        known = [*NAMED_KERNELS, *plugins.names(plugins.KERNELS)]
        help = None
        if row is not None:
            help = f"{name} is an op: %r = " + SYNTAX[row.format].example.removeprefix("%r = ").format(
                name=name, type=row.types
            )
        unknown = self.name_error(f"unknown kernel {name}", start, start + len(name), help)
        if row is None:
            unknown.suggestion = partial(self.advice, name, "stage" if in_pipeline else "op", known)
        return None

    def kernel_params(self, name: str, attrs: dict[str, Any] | None, start: int, end: int) -> dict[str, Any]:
        """The integer parameters of a named kernel."""
        params: dict[str, Any] = {}
        for key, value in (attrs or {}).items():
            if isinstance(value, tuple) and value[0] == "int":
                params[key] = self.integer(start, end, value[1])
            else:
                self.error(f"{name}: parameter {key} is an integer", start, end)
        return params
