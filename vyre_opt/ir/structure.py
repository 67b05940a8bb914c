"""Checks that a module is made of the objects of the IR, each part of the type that its class declares.

A text cannot break this, but Python can: None among the operands, the name of a type in place of the type, an op
that is not of the op table.  The verifier, the printer and every pass take it for granted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any, TypeVar, cast

from .diagnostics import Diagnostic, Location
from .grids import FUNCTIONS, GridCall
from .lowered_ops import LOWERED_OPS, lowered_attrs
from .ops import NAMED_KERNELS, OPS, OpDef
from .pipeline import Fill, HostRead, KernelStage, Launch, Pipeline, Repeat
from .program import (
    MAX_DIMENSIONS,
    MAX_NESTING,
    NO_ATTRS,
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
from .types import DTYPE, DataType, with_article

__all__ = ["check_structure"]

MAX_ERRORS = 20
T = TypeVar("T")
_ROWS = frozenset(map(id, OPS.values()))
_NAME = re.compile(r"[\w.$]+")
_LOWERED_NAME = re.compile(r"~?[\w.$]+")
"""Names that also cover declarations of lowered programs, so that no text has them."""


def check_structure(module: Module, intact: Container[Program | Func | Pipeline] = ()) -> list[Diagnostic]:
    """An error for each part of a module that is of a wrong type, at most `MAX_ERRORS`; empty if all is well.

    `intact`: items that were checked before and are the same.
    """
    checker = _Checker(intact)
    try:
        checker.module(module)
    except _StopChecking:
        pass
    return checker.errors


class _StopChecking(Exception):
    """Enough errors, or blocks that never end."""


class _Checker:
    """`where`: what is being checked, as text; `loc`: the nearest place in the source; `is_lowered`: whether it is of a
    lowered program."""

    def __init__(self, intact: Container[Program | Func | Pipeline]) -> None:
        self.intact = intact
        self.errors: list[Diagnostic] = []
        self.is_lowered = False
        self.where = "the module"
        self.loc: Location | None = None

    def error(self, message: str) -> None:
        self.errors.append(Diagnostic("error", f"{self.where}: {message}", self.loc))
        if len(self.errors) == MAX_ERRORS:
            raise _StopChecking

    def expect(self, ok: bool, part: str, wanted: str, value: object) -> bool:
        """`ok`, with an error if it is false: `part` is `wanted`, and not `value`."""
        if not ok:
            self.error(f"{part} is {wanted}, not {_show(value)}")
        return ok

    def enter(self, where: str, loc: object) -> None:
        self.where = where
        self.loc = loc if isinstance(loc, Location) else None

    # --- items

    def module(self, module: Module) -> None:
        tables: dict[type, dict[str, Any]] = {
            Program: module.programs,
            Func: module.funcs,
            Pipeline: module.pipelines,
        }
        is_whole = self.expect(isinstance(module.order, list), "order", "a list", module.order)
        for table in tables.values():
            is_whole &= self.expect(isinstance(table, dict), "a table of items", "a dict", table)
        if not is_whole:
            return
        for item in module.order:
            self.enter("the module", None)
            if self.expect(type(item) in tables, "an item", "a Program, Func or Pipeline", item):
                self.item(item, tables[type(item)])
        self.enter("the module", None)
        order = set(map(id, module.order))
        if len(order) < len(module.order):
            self.error("an item stands in its order twice")
        for table in tables.values():
            for name, item in table.items():
                if id(item) not in order:
                    self.error(f"{_symbol(name)} is in a table, but not in the order of items")

    def item(self, item: Program | Func | Pipeline, table: Mapping[str, object]) -> None:
        kind = type(item).__name__.lower()
        self.enter(f"{kind} {_symbol(item.name)}", item.loc)
        if self.name(item.name) and table.get(item.name) is not item:
            self.error(f"the module's table of {kind}s has another one, or none, of this name")
        if item in self.intact:
            return
        if isinstance(item, Program):
            self.program(item)
        elif isinstance(item, Func):
            self.func(item)
        else:
            self.buffers(item.buffers)
            self.scalars("spec", item.specs, Spec)
            self.scalars("param", item.params, Param)
            self.stages(item.stages)

    def program(self, program: Program) -> None:
        is_target = program.lowered_for is None or isinstance(program.lowered_for, str)
        self.expect(is_target, "lowered_for", "the name of a target, or None", program.lowered_for)
        self.is_lowered = program.lowered_for is not None
        self.expect(_is_dims(program.workgroup), "workgroup", "three integers", program.workgroup)
        if program.grid is not None:
            self.expect(_is_dims(program.grid), "grid", "three integers, or None", program.grid)
        if program.prefer_shared is not None:
            is_integer = type(program.prefer_shared) is int
            self.expect(is_integer, "prefer_shared", "an integer, or None", program.prefer_shared)
        if program.cluster is not None:
            self.expect(type(program.cluster) is int, "cluster", "an integer, or None", program.cluster)
        self.buffers(program.buffers)
        self.scalars("spec", program.specs, Spec)
        self.scalars("param", program.params, Param)
        self.body(program.body)
        self.is_lowered = False

    def scalars(self, kind: str, scalars: Mapping[str, Spec | Param], wanted: type[Spec | Param]) -> None:
        for key, item in self.declared(f"{kind}s", scalars, wanted):
            what, dtype = f"{kind} {_symbol(key)}", item.dtype
            self.expect(item.name == key and self.name(key), f"the name of {what}", "its key", item.name)
            if self.expect(isinstance(dtype, DataType), f"the type of {what}", "a DataType", dtype):
                is_default = item.default is None or _is_default(item.default, dtype)
                wanted_text = f"{with_article(dtype)} or None"
                self.expect(is_default, f"the default of {what}", wanted_text, item.default)

    def func(self, func: Func) -> None:
        is_types = isinstance(func.results, tuple) and all(isinstance(t, DataType) for t in func.results)
        self.expect(is_types, "results", "a tuple of DataTypes", func.results)
        self.body(func.body)

    def declared(self, part: str, table: object, wanted: type[T]) -> Iterator[tuple[str, T]]:
        """The names and declarations of a table of buffers or specs that are of the `wanted` type."""
        if not isinstance(table, dict):
            self.expect(False, part, "a dict", table)
            return
        for key, item in table.items():
            if self.expect(
                isinstance(item, wanted), f"{_symbol(key)} of the {part}", f"a {wanted.__name__}", item
            ):
                yield key, item

    def buffers(self, buffers: Mapping[str, Buffer]) -> None:
        for key, buffer in self.declared("buffers", buffers, Buffer):
            what = f"buffer {_symbol(key)}"
            self.expect(buffer.name == key and self.name(key), f"the name of {what}", "its key", buffer.name)
            self.expect(isinstance(buffer.dtype, DataType), f"the type of {what}", "a DataType", buffer.dtype)
            is_binding = _is_natural_or_none(buffer.binding)
            self.expect(is_binding, f"the binding of {what}", "an integer from 0, or None", buffer.binding)
            is_shape = isinstance(buffer.shape, tuple) and 1 <= len(buffer.shape) <= MAX_DIMENSIONS
            is_shape = is_shape and all(map(_is_natural_or_none, buffer.shape))
            wanted = f"1 to {MAX_DIMENSIONS} integers from 0, or None"
            self.expect(is_shape, f"the shape of {what}", wanted, buffer.shape)
            is_sizes = isinstance(buffer.sizes, tuple) and len(buffer.sizes) in (0, len(buffer.shape))
            is_sizes = is_sizes and all(size is None or _is_extent(size) for size in buffer.sizes)
            wanted = "an integer or a GridCall, or None, for each dimension"
            self.expect(is_sizes, f"the sizes of {what}", wanted, buffer.sizes)
            is_mode = buffer.access is None or isinstance(buffer.access, AccessMode)
            self.expect(is_mode, f"the access of {what}", "an AccessMode or None", buffer.access)
            for part in ("live_in", "live_out"):
                value = getattr(buffer, part)
                self.expect(isinstance(value, bool), f"{part} of {what}", "True or False", value)

    def name(self, name: object) -> bool:
        """Whether a text can have this name, with an error if not."""
        pattern = _LOWERED_NAME if self.is_lowered else _NAME
        is_name = isinstance(name, str) and pattern.fullmatch(name) is not None
        return self.expect(is_name, "a name", "letters, digits, _, . and $", name)

    # --- stages

    def stages(self, stages: object) -> None:
        where, loc = self.where, self.loc
        self.expect(isinstance(stages, list), "stages", "a list", stages)
        for stage in _walk_stages(stages):
            self.enter(f"{where}, a stage", getattr(stage, "loc", None) or loc)
            if isinstance(stage, Repeat):
                self.expect(_is_int(stage.times), "times", "an integer", stage.times)
                self.expect(isinstance(stage.stages, list), "stages", "a list", stage.stages)
            elif isinstance(stage, HostRead):
                self.name(stage.buffer)
            elif isinstance(stage, Fill):
                self.name(stage.buffer)
                is_value = (
                    isinstance(stage.value, tuple) and stage.value and all(map(_is_written, stage.value))
                )
                self.expect(bool(is_value), "value", "a tuple of literals", stage.value)
            elif isinstance(stage, Launch):
                self.name(stage.program)
                self.names("buffers", stage.buffers)
                is_grid = (
                    isinstance(stage.grid, tuple)
                    and len(stage.grid) == 3
                    and all(map(_is_extent, stage.grid))
                )
                self.expect(is_grid, "grid", "three integers or GridCalls", stage.grid)
                notes = isinstance(stage.notes, dict) and all(
                    isinstance(n, int | str) for n in stage.notes.values()
                )
                self.expect(notes, "notes", "a dict of integers, bools and strings", stage.notes)
                is_params = isinstance(stage.params, dict) and all(
                    _is_symbol(name) and (_is_symbol(value) or _is_written(value))
                    for name, value in stage.params.items()
                )
                self.expect(is_params, "params", "a dict of names and literals by name", stage.params)
            elif self.expect(
                isinstance(stage, KernelStage), "it", "a Launch, KernelStage, Fill, HostRead or Repeat", stage
            ):
                is_kernel = isinstance(stage.kernel, str) and stage.kernel in NAMED_KERNELS
                self.expect(is_kernel, "kernel", "one of the op table", stage.kernel)
                self.names("buffers", stage.buffers)
                self.integers("attrs", stage.attrs)
        self.enter(where, loc)

    def names(self, part: str, names: object) -> None:
        is_names = isinstance(names, tuple) and all(isinstance(n, str) and _NAME.fullmatch(n) for n in names)
        self.expect(is_names, part, "a tuple of names", names)

    def integers(self, part: str, params: object) -> None:
        is_params = isinstance(params, dict) and all(
            isinstance(k, str) and _is_int(v) for k, v in params.items()
        )
        self.expect(is_params, part, "a dict of integers by name", params)

    # --- bodies

    def body(self, block: object) -> None:
        where, loc = self.where, self.loc
        self.block(block, 0)
        self.enter(where, loc)

    def block(self, block: object, depth: int) -> None:
        if depth > MAX_NESTING:
            self.error(f"blocks nest deeper than {MAX_NESTING}, or stand in themselves")
            raise _StopChecking
        if not isinstance(block, Block):
            self.error(f"a block is a Block, not {_show(block)}")
            return
        if not isinstance(block.ops, list):
            self.error(f"the ops of a block are a list, not {_show(block.ops)}")
            return
        self.values(block.args, "the arguments of a block")
        where, loc = self.where, self.loc
        for op in block.ops:
            if type(op) is not Op:
                self.error(f"an op is an Op, not {_show(op)}")
                continue
            if not _is_regular(op):
                self.enter(f"{where}, {getattr(op.definition, 'name', 'an op')}", op.loc or loc)
                self.parts(op)
                self.enter(where, loc)
            for region in op.regions if isinstance(op.regions, tuple) else ():
                self.block(region, depth + 1)

    def parts(self, op: Op) -> None:
        row = op.definition
        tables = (OPS, LOWERED_OPS) if self.is_lowered else (OPS,)
        is_known = isinstance(row, OpDef) and any(table.get(row.name) is row for table in tables)
        if not is_known:
            self.error("it is not in the op table")
        is_values = isinstance(op.operands, tuple) and all(isinstance(v, Value) for v in op.operands)
        self.expect(is_values, "operands", "a tuple of Values", op.operands)
        self.values(op.results, "results")
        self.expect(isinstance(op.regions, tuple), "regions", "a tuple of Blocks", op.regions)
        self.expect(op.loc is None or isinstance(op.loc, Location), "loc", "a Location or None", op.loc)
        if is_known and self.expect(isinstance(op.attrs, dict), "attrs", "a dict", op.attrs):
            self.attributes(op)

    def values(self, values: object, what: str) -> None:
        """Check values where they are defined."""
        if not isinstance(values, tuple) or not all(isinstance(v, Value) for v in values):
            self.error(f"{what} are a tuple of Values, not {_show(values)}")
            return
        for value in values:
            if not isinstance(value.name, str) or not _NAME.fullmatch(value.name):
                self.error(f"the name of a value is letters, digits, _, . and $, not {_show(value.name)}")
            if not isinstance(value.type, DataType):
                self.error(f"the type of %{value.name} is a DataType, not {_show(value.type)}")

    def attributes(self, op: Op) -> None:
        """Check the types of attributes that are there; which there must be is the verifier's."""
        if op.definition.kernel is not None:
            if "buffers" in op.attrs:
                self.names("buffers", op.attrs["buffers"])
            if "params" in op.attrs:
                self.integers("params", op.attrs["params"])
            return
        others = lowered_attrs(op.definition) if self.is_lowered else ()
        for attr in (*op.definition.attrs, *others):
            if attr.name in op.attrs:
                value, (wanted, fits) = op.attrs[attr.name], _ATTRIBUTES[attr.kind]
                self.expect(fits(value), f"attribute {attr.name}", wanted, value)
        flags = op.attrs.get("fastmath", ())
        is_flags = isinstance(flags, tuple) and all(isinstance(flag, str) for flag in flags)
        self.expect(is_flags, "fastmath", "a tuple of words", flags)


def _is_regular(op: Op) -> bool:
    """Whether `_Checker.parts` has nothing to say about an op, at a third of its cost."""
    definition, attrs = op.definition, op.attrs
    if id(definition) not in _ROWS or not (op.loc.__class__ is Location or op.loc is None):
        return False
    for parts in (op.operands, op.results, op.regions):
        if parts.__class__ is not tuple:
            return False
    for operand in op.operands:
        if not isinstance(operand, Value):
            return False
    for result in op.results:
        if not isinstance(result, Value) or result.type.__class__ is not DataType:
            return False
        name = result.name
        if name.__class__ is not str or not (name.isidentifier() or _NAME.fullmatch(name)):
            return False
    if attrs is NO_ATTRS:
        return True
    if attrs.__class__ is not dict or definition.kernel is not None or len(attrs) > len(definition.attrs):
        return False
    for attr in definition.attrs:
        if attr.name in attrs and not _ATTRIBUTES[attr.kind][1](attrs[attr.name]):
            return False
    return True


def _walk_stages(stages: object, depth: int = 0) -> Iterator[Any]:
    """All stages, without those of a repeat that stands in itself."""
    for stage in stages if isinstance(stages, list) else ():
        yield stage
        if isinstance(stage, Repeat) and depth < MAX_NESTING:
            yield from _walk_stages(stage.stages, depth + 1)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_natural_or_none(value: Any) -> bool:
    return value is None or (_is_int(value) and value >= 0)


def _is_dims(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 3 and all(map(_is_int, value))


def _is_extent(extent: object) -> bool:
    if not isinstance(extent, GridCall):
        return _is_int(extent)
    if extent.name in ("len", "param"):
        name, *dimension = extent.args
        return (
            isinstance(name, str)
            and len(dimension) <= (extent.name == "len")
            and all(map(_is_int, dimension))
        )
    return extent.name in FUNCTIONS and len(extent.args) == 2 and all(map(_is_extent, extent.args))


def _is_symbol(value: object) -> bool:
    return isinstance(value, str) and _LOWERED_NAME.fullmatch(value) is not None


def _is_written(value: object) -> bool:
    """Whether it is a literal as a text has it: its kind and its text."""
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(part, str) for part in value)


def _is_default(value: object, dtype: DataType) -> bool:
    """Whether `value` is encoded as a constant of `dtype` is: a float as its bits."""
    if dtype is DTYPE:
        return isinstance(value, DataType)
    return _is_int(value) and (not dtype.is_float or cast(int, value) >> (dtype.bits or 0) == 0)


def _is_literal(value: object) -> bool:
    return isinstance(value, int) or (
        isinstance(value, tuple) and all(isinstance(lane, int) for lane in value)
    )


def _is_shape(value: object) -> bool:
    return isinstance(value, tuple) and all(_is_int(extent) or _is_symbol(extent) for extent in value)


_ATTRIBUTES: dict[str, tuple[str, Callable[[object], bool]]] = {
    "word": ("a word", lambda value: isinstance(value, str)),
    "symbol": ("a name", _is_symbol),
    "string": ("a string", lambda value: isinstance(value, str)),
    "int": ("an integer, or None where it is dynamic", lambda value: value is None or _is_int(value)),
    "literal": ("an encoded constant", _is_literal),
    "flag": ("True or False", lambda value: isinstance(value, bool)),
    "shape": ("a tuple of integers and names", _is_shape),
    "type": ("a DataType", lambda value: isinstance(value, DataType)),
    "op": ("an Op", lambda value: isinstance(value, Op)),
}
"""Description of each kind of attribute, and its check of a value."""


def _symbol(name: object) -> str:
    return f"@{name}" if isinstance(name, str) else _show(name)


def _show(value: object) -> str:
    """A value in a message, however strange it is."""
    try:
        text = repr(value)
    except Exception:
        text = "a value"
    shown = text if len(text) <= 60 else f"{text[:57]}..."
    return shown if value is None or isinstance(value, str | int) else f"the {type(value).__name__} {shown}"
