"""IR to text.  `parse(print_program(m))` gives `m` back, and printing that gives the same bytes.

Value names are preserved.  A pass may leave two visible values with one name; the
second is then printed with a number.  There are two forms: the short one, by the op's format,
and the generic one, which spells every op alike.  In version 2 of the text, constants without a name
of their own are printed in place, in both forms.  Either may have the locations of all that is
printed, so that they survive where the text is read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from ..ir.access_extents import moved_type
from ..ir.diagnostics import Location
from ..ir.formats import type_list
from ..ir.grids import Grid, show_extent
from ..ir.literals import quote, show
from ..ir.lowered_ops import LOWERED_ATTRS, LOWERED_OPS, lowered_attrs
from ..ir.ops import Attr
from ..ir.pipeline import Fill, HostRead, KernelStage, Launch, LaunchParam, Note, Pipeline, Repeat, Stage
from ..ir.program import NO_ATTRS, Block, Buffer, Func, Module, Op, Param, Program, Spec, Value
from ..ir.rewrite import constant_value
from ..ir.shapes import declared_shape
from ..ir.types import DTYPE
from .format_version import least_version
from .inline_constants import constants_in_place, used_constants
from .op_syntax import SYNTAX, OpPrinter, kernel_text, symbol_list, types_text
from .unique_names import UniqueNames

__all__ = ["canonical_text", "op_line", "print_program"]

T = TypeVar("T")

_PRINT = {name: format.print for name, format in SYNTAX.items()}  # one look-up less for each op
_BINARY = frozenset(name for name, print in _PRINT.items() if print is _PRINT["binary"])
"""The formats of ops that are printed as `add` is, if they have two operands."""


def _print_lowered(p: OpPrinter, op: Op) -> str:
    """An op that lowered programs alone have, without its attributes."""
    types = f" : {type_list(op.results)}" if op.results else ""
    return " ".join(filter(None, (op.name, p.uses(op.operands)))) + types


_PRINT |= dict.fromkeys(LOWERED_OPS, _print_lowered)


def print_program(
    item: Module | Program | Func | Pipeline,
    generic: bool = False,
    locations: bool = False,
    version: int | None = None,
) -> str:
    """The text of a module, or of one item as a module of its own.

    `generic`: every op in the generic form.  `locations`: with where each op, declaration, stage and item was written;
    constants are ops of their own then.  `version`: of the format, 1 or 2; None is that of the module, and 1 for an item.
    A text has version 2 where it needs it.
    """
    if version is None:
        version = item.version if isinstance(item, Module) else 1
    parts = item.order if isinstance(item, Module) else [item]
    printer = Printer(generic, locations=locations, version=version)
    for part in parts:
        printer.item(part)
    shown = 2 if locations else max([version, *map(least_version, parts)])
    is_lowered = any(isinstance(part, Program) and part.lowered_for is not None for part in parts)
    lowered = "lowered " if is_lowered else ""  # by which the parser refuses it
    return f"{lowered}vyre {shown}\n" + "".join(printer.lines)


def canonical_text(item: Program | Func | Pipeline, exact: bool = False) -> str:
    """The text of an item with values numbered in order, and unordered things sorted by name.

    Equal for items that differ in value names only, in the order of declarations, parameters and flags, or, unless it
    is to be `exact`, in where constants are defined and how often.
    """
    printer = Printer(generic=False, numbered=True, exact=exact)
    printer.item(item)
    return "".join(printer.lines)


class _OwnNames(dict[Value, str]):
    """Values by their own names, as long as they are defined nowhere."""

    def __missing__(self, value: Value) -> str:
        return f"%{value.name}"


def op_line(op: Op) -> str:
    """The first line of an op, alone."""
    printer = Printer(generic=False)
    printer.names = _OwnNames()
    printer.ops([op])
    return printer.lines[0].strip()


class Printer:
    def __init__(
        self,
        generic: bool,
        numbered: bool = False,
        exact: bool = False,
        locations: bool = False,
        version: int = 1,
    ) -> None:
        self.lines: list[str] = []
        self.generic = generic
        self.locations = locations
        self.has_constants_in_place = version >= 2 and not locations
        self.numbered = numbered
        self.exact = exact
        self.count = 0
        self.names: dict[Value, str] = {}
        self.visible = UniqueNames()
        self.indent = "  "
        self.is_lowered = False

    # --- names --------------------------------------------------------------------

    def define(self, value: Value) -> str:
        """A name for `value` that no visible value has."""
        if self.numbered:
            name = f"%{self.count}"
            self.count += 1
        else:
            name = self.visible.unique("%" + value.name)
        self.names[value] = name
        return name

    def rename(self, value: Value, name: str) -> None:
        """Let `value` have a name that is visible, or the next number."""
        if self.numbered:
            self.define(value)
        else:
            self.names[value] = name
            self.visible.add(name)

    def uses(self, values: tuple[Value, ...]) -> str:
        names = self.names
        return ", ".join([names[v] for v in values])

    # --- items --------------------------------------------------------------------

    def item(self, item: Program | Func | Pipeline) -> None:
        self.lines.append("\n")
        self.names, self.visible, self.count = {}, UniqueNames(), 0
        self.is_lowered = isinstance(item, Program) and item.lowered_for is not None
        if not isinstance(item, Pipeline):
            self.constants(item.body)
        if isinstance(item, Program):
            self.program(item)
        elif isinstance(item, Func):
            self.func(item)
        else:
            self.pipeline(item)

    def constants(self, body: Block) -> None:
        """Let the constants that are printed in place be their text wherever they are used."""
        if self.numbered and not self.exact:
            self.names = {v: f"{_constant(v)}:{v.type}" for v in used_constants(body)}
        elif self.has_constants_in_place:
            self.names = {v: _constant(v) for v in constants_in_place(body)}

    def program(self, program: Program) -> None:
        grid = f" grid({_dims(program.grid)})" if program.grid else ""
        prefer = "" if program.prefer_shared is None else f" prefer(shared = {program.prefer_shared})"
        cluster = "" if program.cluster is None else f" cluster({program.cluster})"
        lowered = "" if program.lowered_for is None else f" lowered({program.lowered_for})"
        head = f"workgroup({_dims(program.workgroup)}){cluster}{grid}{prefer}{lowered}"
        self.lines.append(f"program @{program.name} {head} {{\n")
        # type parameters first: buffers may be of them
        specs = self.declared(program.specs)
        self.lines += [self.located(_spec(s), s.loc) for s in specs if s.dtype is DTYPE]
        self.buffers(self.declared(program.buffers))
        self.lines += [self.located(_spec(s), s.loc) for s in specs if s.dtype is not DTYPE]
        self.params(program.params)
        if program.body.ops and (program.buffers or program.specs or program.params):
            self.lines.append("\n")
        self.ops(program.body.ops)
        self.lines.append(self.located("}\n", program.loc))

    def func(self, func: Func) -> None:
        params = ", ".join(f"{self.define(arg)} : {arg.type}" for arg in func.params)
        results = f" -> {types_text(func.results)}" if func.results else ""
        self.lines.append(f"func @{func.name}({params}){results} {{\n")
        self.ops(func.body.ops)
        self.lines.append(self.located("}\n", func.loc))

    def pipeline(self, pipeline: Pipeline) -> None:
        self.lines.append(f"pipeline @{pipeline.name} {{\n")
        for spec in self.declared(pipeline.specs):
            self.lines.append(self.located(_spec(spec), spec.loc))
        # their sizes speak of those before them
        has_sizes = any(b.sizes for b in pipeline.buffers.values())
        ordered = list(pipeline.buffers.values()) if has_sizes else self.declared(pipeline.buffers)
        self.buffers(ordered)
        self.params(pipeline.params)
        if (pipeline.specs or pipeline.buffers or pipeline.params) and pipeline.stages:
            self.lines.append("\n")
        self.stages(pipeline.stages, "  ")
        self.lines.append(self.located("}\n", pipeline.loc))

    def buffers(self, buffers: Iterable[Buffer]) -> None:
        for buffer in buffers:
            self.lines.append(self.located(_buffer(buffer), buffer.loc))

    def params(self, params: Mapping[str, Param]) -> None:
        for param in self.declared(params):
            default = "" if param.default is None else f" = {show(param.default, param.dtype)}"
            line = f"  param @{param.name} : {param.dtype}{default}\n"
            self.lines.append(self.located(line, param.loc))

    def declared(self, table: Mapping[str, T]) -> list[T]:
        """Declarations in the order of the text, or sorted by name in the canonical text."""
        return [table[name] for name in (sorted(table) if self.numbered else table)]

    def entries(self, table: Mapping[str, T]) -> list[tuple[str, T]]:
        """Parameters in the order of the text, or sorted by name in the canonical text."""
        return sorted(table.items()) if self.numbered else list(table.items())

    def stages(self, stages: list[Stage], indent: str) -> None:
        for stage in stages:
            if isinstance(stage, Repeat):
                self.lines.append(f"{indent}repeat {stage.times} {{\n")
                self.stages(stage.stages, indent + "  ")
                self.lines.append(self.located(f"{indent}}}\n", stage.loc))
            else:
                self.lines.append(self.located(f"{indent}{_stage(self, stage)}\n", stage.loc))

    def located(self, line: str, loc: Location | None) -> str:
        """A line, or the last of several, with the location of what it is if locations are printed."""
        if not self.locations:
            return line
        if loc is None:
            return f"{line[:-1]} loc(unknown)\n"
        return f"{line[:-1]} loc({quote(loc.source.name)}:{loc.line}:{loc.column})\n"

    # --- ops ----------------------------------------------------------------------

    def ops(self, ops: list[Op]) -> None:
        lines, names, visible, numbered = self.lines, self.names, self.visible, self.numbered
        indent, locations = self.indent, self.locations
        for op in ops:
            row, operands = op.definition, op.operands
            has_attrs = op.attrs is not NO_ATTRS
            if op.definition.format == "const" and op.results and op.results[0] in names:
                continue  # it is printed in place
            if op.regions or self.generic:
                self.nested(op)
                continue
            is_binary = not has_attrs and len(operands) == 2 and row.format in _BINARY
            body = "" if is_binary else _PRINT[row.format](self, op)
            if has_attrs and self.is_lowered:
                body += _lowered_attrs(op)
            results = op.results
            if len(results) != 1:
                lines.append(f"{indent}{self.results(op)}{body}\n")
            else:
                value = results[0]
                name = "%" + value.name
                if numbered or name in visible:
                    name = self.define(value)
                else:
                    visible.add(name)
                    names[value] = name
                if is_binary:  # most ops of most programs, so the call of `print` is spared
                    a, b = operands
                    body = f"{row.name} {names[a]}, {names[b]} : {b.type.name}"
                lines.append(f"{indent}{name} = {body}\n")
            if locations:
                lines[-1] = self.located(lines[-1], op.loc)

    def results(self, op: Op) -> str:
        return f"{', '.join([self.define(v) for v in op.results])} = " if op.results else ""

    def nested(self, op: Op) -> None:
        """An op in the generic form, or one with regions in the short form."""
        start = len(self.lines)
        # The head is printed first but known last: the results get names that the regions no longer use.
        self.lines.append("")
        if self.generic:
            head, tail = self.generic_op(op)
        else:
            head, tail = SYNTAX[op.definition.format].print(self, op), f"{self.indent}}}\n"
        self.lines[start] = f"{self.indent}{self.results(op)}{head}"
        self.lines.append(self.located(tail, op.loc))

    def block(self, block: Block, head: Callable[[], str] | None = None) -> str:
        """Print the block's ops one level in; names it defines are free again after it."""
        text = head() if head else ""
        self.indent += "  "
        self.ops(block.ops)
        self.indent = self.indent[:-2]
        names = self.names
        self.visible.difference_update([names[arg] for arg in block.args])
        for op in block.ops:
            self.visible.difference_update([names[value] for value in op.results])
        return text

    def generic_op(self, op: Op) -> tuple[str, str]:
        """The text of `op` before its regions, which this prints, and after them."""
        head = f'"{op.name}"({self.uses(op.operands)}){" (" if op.regions else ""}'
        for number, block in enumerate(op.regions):
            params = ", ".join(f"{self.define(arg)} : {arg.type}" for arg in block.args)
            self.lines.append(f"{', ' if number else ''}{{ ^({params})\n")
            self.block(block)
            self.lines.append(self.indent + "}")
        types = f"({type_list(op.operands)}) -> ({type_list(op.results)})"
        others = LOWERED_ATTRS.get(op.definition.format, ()) if self.is_lowered else ()
        return head, f"{')' if op.regions else ''}{_generic_attrs(op, others)} : {types}\n"


# --- declarations and stages


def _dims(dims: Grid) -> str:
    x, y, z = map(show_extent, dims)
    return f"{x}, {y}, {z}" if z != "1" else f"{x}, {y}" if y != "1" else x


def _buffer(buffer: Buffer) -> str:
    access = f" {buffer.access}" if buffer.access else ""
    binding = "" if buffer.binding is None else f" binding({buffer.binding})"
    live = " live_in" * buffer.live_in + " live_out" * buffer.live_out
    return f"  buffer @{buffer.name} : {buffer.dtype}[{declared_shape(buffer)}]{access}{binding}{live}\n"


def _spec(spec: Spec) -> str:
    default = "" if spec.default is None else f" = {show(spec.default, spec.dtype)}"
    return f"  spec @{spec.name} : {spec.dtype}{default}\n"


def _constant(value: Value) -> str:
    return show(constant_value(value), value.type)


def _stage(p: Printer, stage: Launch | Fill | HostRead | KernelStage) -> str:
    if isinstance(stage, Launch):
        notes = ", ".join(f"{key} = {_note(value)}" for key, value in p.entries(stage.notes))
        shown = f"launch @{stage.program} grid({_dims(stage.grid)}) ({symbol_list(stage.buffers)})"
        if stage.params:
            shown += f" params({', '.join(_launch_param(*pair) for pair in p.entries(stage.params))})"
        return f"{shown} {{{notes}}}" if notes else shown
    if isinstance(stage, HostRead):
        return f"host_read @{stage.buffer}"
    if isinstance(stage, Fill):
        return f"fill(@{stage.buffer}, {stage.shown})"
    return kernel_text(p, stage.kernel, stage.buffers, stage.attrs)


def _launch_param(name: str, value: LaunchParam) -> str:
    return f"@{name} = @{value}" if isinstance(value, str) else f"@{name} = {value[1]}"


def _note(value: Note) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else quote(value)


def _generic_attrs(op: Op, others: Iterable[Attr]) -> str:
    """The attributes of an op in the generic form, with a space before them; `others`: those that its row does not have."""
    if op.definition.kernel is not None:
        shown = [f"buffers = [{symbol_list(op.attrs['buffers'])}]"] if op.attrs["buffers"] else []
        shown += [f"{key} = {value}" for key, value in op.attrs["params"].items()]
        return f" {{{', '.join(shown)}}}" if shown else ""
    shown = _attr_texts(op, (*op.definition.attrs, *others))
    if "fastmath" in op.attrs:
        shown.append(f"fastmath = [{', '.join(op.attrs['fastmath'])}]")
    return f" {{{', '.join(shown)}}}" if shown else ""


def _lowered_attrs(op: Op) -> str:
    """The attributes of an op that lowered programs alone have, behind its short form, with a space before them."""
    shown = _attr_texts(op, lowered_attrs(op.definition))
    return f" {{{', '.join(shown)}}}" if shown else ""


def _attr_texts(op: Op, attrs: Iterable[Attr]) -> list[str]:
    """Attributes that an op has, with their values."""
    shown = []
    for attr in attrs:
        if attr.optional and attr.name not in op.attrs:
            continue
        value = op.attrs[attr.name]
        if attr.kind == "literal":
            text = show(value, op.results[0].type)
        elif attr.kind == "symbol":
            text = f"@{value}"
        elif attr.kind == "string":
            text = quote(value)
        elif attr.kind == "flag":
            text = str(value).lower()
        elif attr.kind == "shape":
            text = f"[{', '.join(f'@{each}' if isinstance(each, str) else str(each) for each in value)}]"
        elif attr.kind == "op":
            moved = moved_type(value)
            text = f"{value.name} @{value.attrs['buffer']}[{type_list(value.indices)}] : {moved}"
        else:
            text = "dynamic" if value is None else str(value)
        shown.append(f"{attr.name} = {text}")
    return shown
