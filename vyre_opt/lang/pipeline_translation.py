"""A Python function as a pipeline: its launches, its buffers, and their sizes as expressions of lengths.

def count(text: Read[u8], lines: Write[u32])               pipeline @count {
    decoded = vyre.buffer(u8, len(text) // 2)                 buffer @text    : u8[?] read
    hex_decode[...](text, decoded)                            buffer @decoded : u8[div(len(@text), 2)]
    count_lines[...](decoded, lines)                          launch @hex_decode grid(...) (@text, @decoded)
"""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

from ..execution.dispatcher import BadInputs
from ..ir.diagnostics import Diagnostic, DiagnosticError
from ..ir.grids import Extent, GridCall, fold, lengths_of, params_of
from ..ir.literals import LiteralError, encode_constant
from ..ir.ops import NAMED_KERNELS, OPS
from ..ir.pipeline import Fill, HostRead, KernelStage, Launch, LaunchParam, Pipeline, Repeat, Stage
from ..ir.pipeline_builder import literal_of
from ..ir.pipeline_rules import (
    UnwrittenRead,
    lost_results,
    outside_when_launched,
    unwritten_reads,
    unwritten_warning,
)
from ..ir.program import MAX_DIMENSIONS, AccessMode, Buffer, Module, Param, Program
from ..ir.suggestions import suggest
from ..ir.types import DataType
from ..ir.verifier import verify
from ..records import dataclass
from .array_types import declared_array, refuse_arguments, show_array_type
from .constants import checked, constant_of, evaluate, measured_name
from .defaults import defaults_of, encoded_default
from .foreign_words import no_attribute, type_meant, undefined
from .functions import Kernel, usual_grid
from .generics import specialized, unbound_help, widest_types
from .intrinsics import INTRINSICS, KernelIntrinsic, ceil_div, static
from .program_warnings import give_warnings
from .python_source import FunctionSource, Unsupported, text_name, untyped
from .scalars import scalar_type
from .unsupported import STATEMENTS, surely_unsupported, unsupported
from .unused_names import unused_parameters

__all__ = ["check_source", "translate_pipeline"]

_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.FloorDiv: "div",
}
_FUNCTIONS: dict[Any, str] = {ceil_div: "ceil_div", min: "min", max: "max"}
"""Names of functions of grids (see ir/grids.py)."""

_ONLY_HERE = "a pipeline launches programs, and computes sizes and grids only"
MAX_CALLS = 64


@dataclass(frozen=True, slots=True)
class _Constant:
    value: Any


@dataclass(frozen=True, slots=True)
class _Size:
    """A whole number that each call computes."""

    extent: GridCall


@dataclass(frozen=True, slots=True)
class _Param:
    """A number that each call gives."""

    param: Param


_WRONG = _Constant("")
"""Binding of a name whose assignment was an error."""

_Binding = _Constant | _Size | _Param | Buffer | tuple[Any, ...]


def translate_pipeline(
    function: Callable[..., Any], types: Mapping[Any, Any] | None = None, for_debugger: bool = False
) -> Module:
    """The module with the pipeline of a function, and the programs that it launches; see `translate_program`.

    Raises DiagnosticError, located in the files of the functions.
    """
    source = FunctionSource(function, types)
    pipeline = Pipeline(source.name, loc=source.location(source.tree))
    module = Module(source=source.source)
    builder = _PipelineState(module, pipeline, for_debugger)
    t = _Translator(source, builder, pipeline.stages)
    t.declare_arguments()
    t.block(source.tree.body)
    if builder.diagnostics:
        raise DiagnosticError(builder.diagnostics)
    module.add(pipeline)
    give_warnings(verify(module, warns=False))
    # its programs have warned where they were translated
    unwritten = unwritten_reads(pipeline, module)
    told = map(_unwritten, unwritten)
    found = [*told, *outside_when_launched(pipeline, module), *lost_results(pipeline, module, unwritten)]
    found += () if found else unused_parameters(source)  # a mistake that is told may be why
    give_warnings([each for each in found if each.severity == "error" or not for_debugger])
    return module


def check_source(source: FunctionSource) -> None:
    """Raise DiagnosticError for what is wrong with a pipeline when it is decorated."""
    source.types = widest_types(source)
    pipeline = Pipeline(source.name)
    builder = _PipelineState(Module(source=source.source), pipeline)
    t = _Translator(source, builder, pipeline.stages)
    if not any(isinstance(each, str) for each in source.function.__annotations__.values()):
        t.declare_arguments()
    for statement in surely_unsupported(source.tree.body):
        t.report(unsupported(source, statement))
    if builder.diagnostics:
        raise DiagnosticError(builder.diagnostics)


def _unwritten(read: UnwrittenRead) -> Diagnostic:
    """Diagnostic for a stage that reads an array which nothing has written: an error for a caller's array that is `Write`."""
    buffer, stage = read.buffer, read.stage
    if buffer.access is not AccessMode.WRITE:
        return unwritten_warning(read)
    declared = show_array_type(AccessMode.READ_WRITE, buffer.dtype, buffer.shape)
    reader = stage.program if isinstance(stage, Launch) else getattr(stage, "kernel", "host_read")
    message = f"{reader} reads {buffer.name}, which is Write, before anything writes it"
    help = f"declare it {declared}"
    if read.exchanged:
        help = f"write {read.exchanged}, which writes {buffer.name}, or {help}"
    error = Diagnostic("error", message, stage.loc, help=help)
    return error.note(f"{buffer.name} is declared here", buffer.loc)


class _PipelineState:
    """The pipeline that is built, and its programs.  `calls`: the functions of pipelines that are being called."""

    def __init__(self, module: Module, pipeline: Pipeline, for_debugger: bool = False) -> None:
        self.module, self.pipeline, self.for_debugger = module, pipeline, for_debugger
        self.diagnostics: list[Diagnostic] = []
        self.calls: list[Any] = []
        self._programs: dict[Any, Program] = {}
        """Programs by the kernels themselves: one that an expression makes each time would be gone, and its id that of another."""

    def program(self, kernel: Kernel) -> Program:
        """The program of a kernel in the module; two kernels of one name get two names."""
        known = self._programs.get(kernel)
        if known is None:
            if self.for_debugger:
                known = kernel.debug_module().programs[kernel.function.__name__]
            else:
                known = kernel.program()
            base, number = known.name, 1
            while known.name in self.module.programs or known.name == self.pipeline.name:
                number += 1
                known.name = f"{base}_{number}"
            self._programs[kernel] = known
            self.module.add(known)
        return known

    def buffer(self, name: str, dtype: DataType, sizes: Sequence[Extent], loc: Any) -> Buffer:
        """A buffer of the pipeline's own."""
        name = text_name(name)
        fresh, number = name, 1
        while fresh in self.pipeline.buffers:
            number += 1
            fresh = f"{name}_{number}"
        shape = [size if isinstance(size, int) else None for size in sizes]
        computed = tuple(None if isinstance(size, int) else size for size in sizes)
        buffer = Buffer(fresh, dtype, shape, None, loc=loc, sizes=computed if any(computed) else ())
        self.pipeline.buffers[fresh] = buffer
        return buffer


class _Translator:
    """Translates the statements of one function.  `stages`: where its launches go."""

    def __init__(self, source: FunctionSource, builder: _PipelineState, stages: list[Stage]) -> None:
        self.source, self.builder, self.stages = source, builder, stages
        self.env: dict[str, _Binding] = {}

    # --- arguments

    def declare_arguments(self) -> None:
        """The arguments of the pipeline as its buffers and params."""
        arguments = self.source.tree.args
        for argument in (arguments.vararg, arguments.kwarg):
            if argument is not None:
                self.report(
                    Unsupported(argument, "a pipeline has no * and ** arguments", "name each argument")
                )
        for argument in self.source.arguments:
            try:
                self.env[argument.arg] = self._declared(argument)
            except Unsupported as error:
                self.report(error)

    def _declared(self, argument: ast.arg) -> _Binding:
        name, loc, pipeline = argument.arg, self.source.location(argument), self.builder.pipeline
        if argument.annotation is None:
            help = f"write {name}: Read[f32] for an array that is read, {name}: u32 for a number"
            raise untyped(argument, self.source.function, help)
        refuse_arguments(argument.annotation, self.source.arguments, self.source.names)
        written = self.constant(argument.annotation, "the type of an argument")
        annotation = specialized(written, self.source.types)
        scalar = scalar_type(annotation)
        if scalar is not None:
            default = encoded_default(self.source, argument, scalar)
            param = pipeline.params[name] = Param(name, scalar, default, loc)
            return _Param(param)
        array = declared_array(argument, annotation)
        if array is None:
            help = "write Read[f32], Write[f32] or ReadWrite[f32] for an array, Read[f32[:, :]] for one of two dimensions, u32 for a number"
            help = unbound_help(annotation) or help
            raise Unsupported(argument, "this is no type of an argument of a pipeline", help)
        encoded_default(self.source, argument, None)
        live_in, live_out = array.access is AccessMode.READ_WRITE, array.access is not AccessMode.READ
        access = None if live_in else array.access
        buffer = Buffer(name, array.element, array.shape, access, None, live_in, live_out, loc)
        pipeline.buffers[name] = buffer
        return buffer

    # --- statements

    def _rounds(self, node: ast.While) -> str:
        """Remedy for a loop as long as a condition holds; one of the pipeline's own buffers becomes an argument."""
        rounds = "write for _ in range(3), a number of rounds that is known"
        read = [each.value for each in ast.walk(node.test) if isinstance(each, ast.Subscript)]
        if not read:
            return rounds
        names = [argument.arg for argument in self.source.arguments]
        own = [each.id for each in read if isinstance(each, ast.Name) and each.id not in names]
        call = f"{self.source.tree.name}({', '.join([*names, *own])})"
        rounds += "; as long as a result says so, have a round in the pipeline"
        rounds += "".join(f", make {name} an argument of it" for name in own)
        return f"{rounds}, and call it in Python, while {self.source.text(node.test)}: {call}"

    def block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            try:
                self.statement(statement)
            except Unsupported as error:
                self.report(error)
                for inner in ast.walk(statement):
                    if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                        self.env.setdefault(inner.id, _WRONG)

    def report(self, error: Unsupported) -> None:
        if not error.message:
            return
        diagnostic = Diagnostic("error", error.message, self.source.location(error.node), help=error.help)
        self.builder.diagnostics.append(diagnostic)

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Pass) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        ):
            return
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self._call(node.value)
        elif isinstance(node, ast.Assign):
            self._assign(node)
        elif isinstance(node, ast.For):
            self._repeat(node)
        elif isinstance(node, ast.If):
            test = self.constant(node.test, "the condition of an if in a pipeline")
            self.block(node.body if test else node.orelse)
        elif isinstance(node, ast.Return) and node.value is None:
            raise Unsupported(node, "a pipeline has no return", "write if and else around constants")
        elif isinstance(node, ast.Return):
            instead = "leave it out: results are in the arrays of the caller that are Write or ReadWrite"
            raise Unsupported(node, "a pipeline returns nothing", instead)
        elif isinstance(node, ast.While):
            raise Unsupported(node, _ONLY_HERE, self._rounds(node))
        else:
            message, help = STATEMENTS.get(type(node), (_ONLY_HERE, None))
            raise Unsupported(node, message if type(node) in STATEMENTS else _ONLY_HERE, help)

    def _assign(self, node: ast.Assign) -> None:
        binding = self._assigned(node.targets, node.value)
        for target in node.targets:
            self._bind(target, binding)

    def _assigned(self, targets: Sequence[ast.expr], node: ast.expr) -> _Binding:
        """Binding of an assignment; a buffer is named by its target, in a tuple by the one at its place."""
        names = targets[0].elts if len(targets) == 1 and isinstance(targets[0], ast.Tuple) else []
        if isinstance(node, ast.Tuple) and len(node.elts) == len(names):
            return tuple(self._assigned([name], part) for name, part in zip(names, node.elts, strict=True))
        return self._own_buffer(targets, node) or self.expression(node)

    def _bind(self, target: ast.expr, binding: _Binding) -> None:
        if isinstance(target, ast.Name):
            self.env[target.id] = binding
        elif (
            isinstance(target, ast.Tuple) and isinstance(binding, tuple) and len(binding) == len(target.elts)
        ):
            for name, part in zip(target.elts, binding, strict=True):
                self._bind(name, part)
        else:
            raise Unsupported(target, "a pipeline assigns names only", "store in arrays in a program")

    def _own_buffer(self, targets: Sequence[ast.expr], call: ast.expr) -> Buffer | None:
        """`decoded = vyre.buffer(u8, n)`, `bins = vyre.zeros(256, u32)`."""
        if not isinstance(call, ast.Call):
            return None
        callee = self._maybe_constant(call.func)
        if callee is INTRINSICS["zeros"]:
            size, element = self._arguments(
                call, "zeros", "shape", "dtype", "a size and a type: vyre.zeros(n, f32)"
            )
        elif callee is INTRINSICS["buffer"]:
            element, size = self._arguments(
                call, "buffer", "dtype", "size", "a type and a size: vyre.buffer(f32, n)"
            )
        else:
            return None
        if len(targets) != 1 or not isinstance(targets[0], ast.Name):
            raise Unsupported(call, f"a buffer has one name: t = {self.source.text(call)}")
        swapped = _plain(self.expression(size))
        if swapped is not None and scalar_type(swapped.value) is not None:
            first, second = (element, size) if callee is INTRINSICS["zeros"] else (size, element)
            written = ", ".join(map(self.source.text, (first, second)))
            order = "behind" if callee is INTRINSICS["zeros"] else "before"
            help = f"write {self.source.text(call.func)}({written})"
            raise Unsupported(element, f"the type of a buffer is written {order} its size", help)
        given = self.constant(element, "the type of a buffer")
        dtype = scalar_type(given)
        if dtype is None:
            help = f"write {type_meant(given) or 'f32'}"
            raise Unsupported(element, "the elements of a buffer have a type such as f32", help)
        loc = self.source.location(call)
        buffer = self.builder.buffer(targets[0].id, dtype, self.sizes(size), loc)
        if callee is INTRINSICS["zeros"]:
            self.stages.append(Fill(buffer.name, (literal_of(False if dtype.is_bool else 0),), loc))
        return buffer

    def _arguments(
        self, call: ast.Call, name: str, first: str, second: str, has: str
    ) -> tuple[ast.expr, ast.expr]:
        """The two arguments of a function of pipelines, in order or by name; `has`: what they are."""
        given = dict(zip((first, second), call.args, strict=False))
        given |= {k.arg: k.value for k in call.keywords if k.arg is not None and k.arg not in given}
        if given.keys() != {first, second} or len(call.args) + len(call.keywords) != 2:
            what, _, written = has.partition(": ")
            if name == "buffer" and len(call.args) == 1 and not call.keywords:
                lone = _plain(self.expression(call.args[0]))
                is_type = lone is not None and scalar_type(lone.value) is not None
                text = self.source.text(call.args[0])
                pair = f"{text}, n" if is_type else f"f32, {text}"
                written = f"{self.source.text(call.func)}({pair})"
            raise Unsupported(call, f"{name} takes {what}", f"write {written}")
        return given[first], given[second]

    def _fill(self, call: ast.Call) -> None:
        """`vyre.fill(x, 0)`."""
        array, written = self._arguments(
            call, "fill", "array", "value", "an array and a value: vyre.fill(x, 0)"
        )
        buffer, binding = self._buffer(array), _plain(self.expression(written))
        if binding is None:
            help = "launch a program that stores it"
            raise Unsupported(written, "a fill is of a value that is known before the pipeline runs", help)
        value = binding.value
        if buffer.access is AccessMode.READ:
            name = self.source.text(array)
            help = f"declare it {show_array_type(AccessMode.READ_WRITE, buffer.dtype, buffer.shape)}"
            raise Unsupported(array, f"{name} is Read, and a fill writes it", help)
        lanes = value if isinstance(value, tuple) else (value,)
        try:
            stage = Fill(buffer.name, tuple(map(literal_of, lanes)), self.source.location(call))
            encode_constant(stage.constant, buffer.dtype)
        except (TypeError, LiteralError) as error:
            raise Unsupported(
                written, f"{self.source.text(array)} is not filled with this: {error}"
            ) from None
        self.stages.append(stage)

    def _repeat(self, node: ast.For) -> None:
        call = node.iter
        if isinstance(call, ast.Call) and self._maybe_constant(call.func) is range and len(call.args) == 1:
            times = self.constant(call.args[0], "the rounds of a repeat")
            if not isinstance(times, int) or isinstance(times, bool) or times < 1:
                raise Unsupported(call.args[0], f"a repeat is done 1 or more times, not {times!r}")
            if any(
                isinstance(n, ast.Name) and n.id == getattr(node.target, "id", None)
                for s in node.body
                for n in ast.walk(s)
            ):
                help = "write for k in vyre.static(range(n)), which is unrolled"
                raise Unsupported(
                    node.target, "a repeat does the same in each round, so its counter has no use", help
                )
            stage = Repeat(times, [], self.source.location(node))
            outer, before, self.stages = self.stages, dict(self.env), stage.stages
            self.block(node.body)
            self.stages = outer
            changed = next(
                (n for n, b in before.items() if self.env.get(n) is not b and self.env.get(n) != b), None
            )
            if changed is not None:
                help = (
                    "write for _ in vyre.static(range(n)), which is unrolled, or launch twice in each round"
                )
                raise Unsupported(
                    node,
                    f"{changed} is another one after a round, and all rounds of a repeat are the same",
                    help,
                )
            self.stages.append(stage)
            return
        try:
            items = list(self.constant(node.iter, "what a loop of a pipeline goes through"))
        except TypeError:
            raise Unsupported(
                node.iter, "a loop of a pipeline is over range(n) or vyre.static(...)"
            ) from None
        for item in items:
            self._bind(node.target, _Constant(constant_of(item)))
            self.block(node.body)

    # --- launches

    def _call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Subscript):
            self._launch(node, node.func)
            return
        callee = self.constant(node.func, "what a pipeline calls")
        if isinstance(callee, KernelIntrinsic):
            self._named_kernel(node, callee.__name__)
        elif callee is INTRINSICS["host_read"]:
            if len(node.args) != 1 or node.keywords:
                raise Unsupported(node, "host_read takes one buffer")
            self.stages.append(HostRead(self._buffer(node.args[0]).name, self.source.location(node)))
        elif callee is INTRINSICS["fill"]:
            self._fill(node)
        elif callee is INTRINSICS["buffer"] or callee is INTRINSICS["zeros"]:
            self._function(node)
        elif callee is breakpoint:
            help = "put it into a program that the pipeline launches, where vyre.debug(pipeline)(...) stops"
            raise Unsupported(node, "a pipeline has no breakpoints of its own", help)
        elif hasattr(callee, "__vyre_pipeline__"):
            self._inline(node, callee)
        elif isinstance(callee, Kernel):
            if callee.grid is None:
                name = self.source.text(node.func)
                arguments = ", ".join(map(self.source.text, [*node.args, *(k.value for k in node.keywords)]))
                names = [each.id for each in node.args if isinstance(each, ast.Name)]
                outer = {argument.arg for argument in self.source.arguments}
                length = next((n for n in names if n in outer), names[0] if names else "x")
                raise Unsupported(
                    node,
                    f"{name} is launched over a grid",
                    f"write {name}[{usual_grid(callee.function, callee.workgroup[0], f'len({length})')}]({arguments})",
                )
            self._stage(node, callee, callee.grid)
        else:
            name = self.source.text(node.func)
            instead = f"call it in a program, and launch that; or call {name} outside of the pipeline"
            if name.rpartition(".")[2] in ("synchronize", "barrier", "syncthreads"):
                instead = "leave it out: launches run in the order in which they are written"
            elif inspect.isfunction(callee):
                instead = f"put @vyre.program on {name}, and give it a grid"
            raise Unsupported(node, _ONLY_HERE, _not_here(node, callee, name) or instead)

    def _launch(self, node: ast.Call, subscript: ast.Subscript) -> None:
        kernel = self.constant(subscript.value, "what a pipeline launches")
        if not isinstance(kernel, Kernel):
            raise Unsupported(
                subscript.value,
                f"{self.source.text(subscript.value)} is no program",
                "put @vyre.program on it",
            )
        parts = subscript.slice.elts if isinstance(subscript.slice, ast.Tuple) else [subscript.slice]
        if not 1 <= len(parts) <= 3:
            raise Unsupported(subscript.slice, "a grid has one to three extents")
        whole = _plain(self.expression(parts[0])) if len(parts) == 1 else None
        if len(parts) == 1 and (
            isinstance(self.expression(parts[0]), tuple) or (whole and isinstance(whole.value, tuple))
        ):
            grid = self.source.text(subscript.slice)
            help = f"write {self.source.text(subscript.value)}[{grid}[0], {grid}[1]]"
            raise Unsupported(
                subscript.slice, "the extents of a grid stand in the brackets, one by one", help
            )
        extents = [self.extent(part) for part in parts]
        x, y, z = (*extents, 1, 1)[:3]
        self._stage(node, kernel, (x, y, z))

    def _stage(self, node: ast.Call, kernel: Any, grid: Any) -> None:
        name, takes = kernel.function.__name__, ", ".join(kernel.parameters)
        keywords = {k.arg: k.value for k in node.keywords if k.arg is not None}
        if len(node.args) > len(kernel.parameters) or any(isinstance(a, ast.Starred) for a in node.args):
            raise Unsupported(
                node,
                f"{name} takes {len(kernel.parameters)} arguments",
                f"it is {name}({takes})",
            )
        given = dict(zip(kernel.parameters, node.args, strict=False))
        unknown = next((k for k in keywords if k not in kernel.parameters or k in given), None)
        if unknown is not None:
            help = suggest(unknown, kernel.parameters) or f"it is {name}({takes})"
            raise Unsupported(node, f"{name} takes no {unknown} here", help)
        given |= keywords
        missing = [n for n in kernel.parameters if n not in given and n not in defaults_of(kernel.function)]
        if missing:
            raise Unsupported(
                node,
                f"{name} needs {', '.join(missing)}",
                self._completed(node, missing) or f"it is {name}({takes})",
            )
        program = self.builder.program(self._specialized(node, kernel, given))
        signature = f"it is {name}({takes})"
        buffers = tuple(
            self._buffer(given[b.name], f"{name} takes an array for {b.name}; {signature}").name
            for b in program.bound_buffers
        )
        formals = {actual: b.name for actual, b in zip(buffers, program.bound_buffers, strict=True)}
        params = {
            n: self._param_value(given[n], p, program.name, formals, signature)
            for n, p in program.params.items()
            if n in given
        }
        lengths = self.builder.pipeline.static_lengths
        if 0 not in (fold(extent, lengths) for extent in grid):  # one that never runs is none
            self.stages.append(Launch(program.name, grid, buffers, self.source.location(node), params=params))

    def _completed(self, node: ast.Call, missing: Sequence[str]) -> str | None:
        """The launch with what it lacks, where the pipeline has all of that by the same names."""
        if not all(isinstance(self.env.get(name), (Buffer, _Param)) for name in missing):
            return None
        written = [
            *map(self.source.text, node.args),
            *(self.source.text(k) for k in node.keywords),
            *(f"{n}={n}" for n in missing),
        ]
        return f"write {self.source.text(node.func)}({', '.join(written)})"

    def _specialized(self, node: ast.Call, generic: Any, given: Mapping[str, ast.expr]) -> Any:
        """A kernel, or another pipeline, for the types of the arrays that are passed to it."""
        arrays = {name for variable in generic.variables for name in variable.arrays}
        elements = {name: self._buffer(given[name]).dtype for name in given if name in arrays}
        try:
            types = [v.type_of(generic.function.__name__, elements) for v in generic.variables]
        except BadInputs as error:
            raise Unsupported(node, str(error)) from None
        return generic.at(*types) if types else generic

    def _buffer(self, node: ast.expr, help: str | None = None) -> Buffer:
        """An array that is passed.  `help`: what to pass."""
        if isinstance(node, ast.Subscript) and isinstance(self._maybe(node.value), Buffer):
            text = self.source.text(node.value)
            instead = f"pass {text}, and where it begins as a number; or slice it in the call of the pipeline"
            raise Unsupported(node, "a pipeline passes whole arrays", instead)
        binding = self.expression(node)
        if not isinstance(binding, Buffer):
            text = self.source.text(node)
            own = "pass an array argument, or memory of the pipeline's own: t = vyre.buffer(f32, 16)"
            raise Unsupported(node, f"{text} is no array", help or own)
        return binding

    def _param_value(
        self, node: ast.expr, param: Param, program: str, formals: Mapping[str, str], signature: str
    ) -> LaunchParam:
        """Argument of a launch for a number.  `formals`: the program's names of the buffers that it passes.  `signature`: how it
        is called."""
        self._refuse_computed_float(node, param, program)
        binding = self.expression(node)
        if isinstance(binding, _Param):
            return binding.param.name
        if isinstance(binding, _Constant) and isinstance(binding.value, (bool, int, float)):
            return literal_of(binding.value)
        if isinstance(binding, _Size):
            size = fold(binding.extent, self.builder.pipeline.static_lengths)
            if isinstance(size, int):
                return literal_of(size)
            message = f"a launch passes constants and numbers of the pipeline, and {self.source.text(node)} is computed"
            names = [formals.get(name) for name in lengths_of(size)]
            help = f"take a number as an argument of the pipeline, and pass that for {param.name}"
            if names and None not in names and not any(params_of(size)):
                lengths = ", ".join(f"len({name})" for name in dict.fromkeys(names))
                help = f"take {param.name} out of {program}, and compute it there, from {lengths}"
            raise Unsupported(node, message, help)
        raise Unsupported(node, f"{param.name} is {param.dtype}, and this is no number", signature)

    def _refuse_computed_float(self, node: ast.expr, param: Param, program: str) -> None:
        """Raises Unsupported for arithmetic on a number of the pipeline's own that no size could be: of a float."""
        names = [self.env.get(n.id) for n in ast.walk(node) if isinstance(n, ast.Name)]
        is_float = any(isinstance(b, _Param) and not b.param.dtype.is_int for b in names)
        if is_float and not isinstance(node, ast.Name):
            text = self.source.text(node)
            message = f"a launch passes constants and numbers of the pipeline, and {text} is computed"
            help = f"compute it in {program}, or pass it to the pipeline as a number of its own, {param.name}: {param.dtype}"
            raise Unsupported(node, message, help)

    def _named_kernel(self, node: ast.Call, name: str) -> None:
        kernel = NAMED_KERNELS[name]
        if not kernel.takes(len(node.args)):
            roles = ", ".join(role.name for role in kernel.roles)
            message = f"{name} takes {kernel.numbers_of_buffers} arrays"
            arrays = [
                part
                for part in (*node.args, *(k.value for k in node.keywords))
                if isinstance(self._maybe(part), Buffer)
            ]
            help = f"it is {name}({roles})"
            if kernel.takes(len(arrays)):
                help = (
                    f"write {self.source.text(node.func)}({', '.join(map(self.source.text, arrays))}); {help}"
                )
            raise Unsupported(node, message, help)
        params = {}
        for keyword in node.keywords:
            value = self.constant(keyword.value, f"a parameter of {name}")
            if keyword.arg is None or not isinstance(value, int):
                raise Unsupported(keyword, f"the parameters of {name} are whole numbers by name")
            params[keyword.arg] = int(value)
        buffers = tuple(self._buffer(argument).name for argument in node.args)
        self.stages.append(KernelStage(name, buffers, params, self.source.location(node)))

    def _inline(self, node: ast.Call, pipeline: Any) -> None:
        """The stages of another pipeline in place of a call of it."""
        function = pipeline.function
        source = FunctionSource(function)
        calls = self.builder.calls
        if function in calls or len(calls) >= MAX_CALLS:
            raise Unsupported(node, f"{source.name} calls itself")
        signature = inspect.signature(function)
        try:
            given = signature.bind(*node.args, **{k.arg or "**": k.value for k in node.keywords}).arguments
        except TypeError as error:
            parameters = ", ".join(signature.parameters)
            message = f"{source.name}(): {error}"
            raise Unsupported(node, message, f"it is {source.name}({parameters})") from None
        source = FunctionSource(function, self._specialized(node, pipeline, given).types)
        inner = _Translator(source, self.builder, self.stages)
        inner.env = {name: _Constant(value) for name, value in defaults_of(function).items()}
        inner.env |= {name: self.expression(argument) for name, argument in given.items()}
        calls.append(function)
        before = len(self.builder.diagnostics)
        inner.block(source.tree.body)
        for diagnostic in self.builder.diagnostics[before:]:
            diagnostic.note(f"{source.name} is called here", self.source.location(node))
        calls.pop()

    # --- expressions

    def constant(self, node: ast.expr, what: str) -> Any:
        binding = self.expression(node)
        plain = _plain(binding)
        if plain is None:
            help = "write a number, or a name of a number outside of the pipeline"
            raise Unsupported(node, f"{what} is known before the pipeline runs; this is not", help)
        return plain.value

    def _maybe(self, node: ast.expr) -> _Binding | None:
        try:
            return self.expression(node)
        except Unsupported:
            return None

    def _maybe_constant(self, node: ast.expr) -> Any:
        try:
            return self.constant(node, "")
        except Unsupported:
            return None

    def extent(self, node: ast.expr) -> Extent:
        """An expression as a size."""
        return self._as_extent(self.expression(node), node)

    def sizes(self, node: ast.expr) -> list[Extent]:
        """An expression as the extents of a buffer: one, or a tuple."""
        binding = self.expression(node)
        plain = _plain(binding)
        parts: tuple[Any, ...] = (binding,)
        if isinstance(binding, tuple):
            parts = binding
        elif plain is not None and isinstance(plain.value, tuple):
            parts = tuple(map(_Constant, plain.value))
        if not 1 <= len(parts) <= MAX_DIMENSIONS:
            raise Unsupported(node, f"a buffer has 1 to {MAX_DIMENSIONS} dimensions, not {len(parts)}")
        nodes = node.elts if isinstance(node, ast.Tuple) else [node] * len(parts)
        return [self._as_extent(part, at) for part, at in zip(parts, nodes, strict=True)]

    def _as_extent(self, binding: _Binding, node: ast.expr) -> Extent:
        if isinstance(binding, _Size):
            return binding.extent
        if isinstance(binding, _Param):
            if not binding.param.dtype.is_int:
                raise Unsupported(
                    node, f"{binding.param.name} is {binding.param.dtype}, and a size is a whole number"
                )
            return GridCall("param", (binding.param.name,))
        if (
            isinstance(binding, _Constant)
            and isinstance(binding.value, int)
            and not isinstance(binding.value, bool)
        ):
            return binding.value
        raise Unsupported(node, f"{self.source.text(node)} is no whole number")

    def expression(self, node: ast.expr) -> _Binding:
        if isinstance(node, ast.Constant):
            return _Constant(node.value)
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Tuple):
            return tuple(self.expression(item) for item in node.elts)
        if isinstance(node, ast.BinOp):
            return self._operation(node, _OPERATORS.get(type(node.op), ""), [node.left, node.right])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            zero = ast.copy_location(ast.Constant(0), node)
            return self._operation(node, "sub", [zero, node.operand])
        if isinstance(node, ast.Call):
            return self._function(node)
        if isinstance(node, ast.Subscript):
            return self._item(node)
        if isinstance(node, (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.IfExp)):
            return self._evaluated(node)
        raise Unsupported(
            node, _ONLY_HERE, "compute it in Python before the call of the pipeline, or in a program"
        )

    def _name(self, node: ast.Name) -> _Binding:
        if node.id in self.env:
            if self.env[node.id] is _WRONG:
                raise Unsupported(node, "")  # what follows from an error that has been reported
            return self.env[node.id]
        if node.id in self.source.names:
            return _Constant(checked(node, self.source.outer(node)))
        raise undefined(node, node.id, (*self.env, *self.source.names))

    def _attribute(self, node: ast.Attribute) -> _Binding:
        base = self.expression(node.value)
        if isinstance(base, Buffer) and node.attr in _OF_ARRAYS:
            return _OF_ARRAYS[node.attr](base)
        if not isinstance(base, _Constant):
            help = f"an array has {', '.join(_OF_ARRAYS)}, and len(x)" if isinstance(base, Buffer) else None
            message = f"{self.source.text(node.value)} has no {node.attr} in a pipeline"
            raise Unsupported(node, message, help)
        try:
            return _Constant(checked(node, self.source.bound(getattr(base.value, node.attr))))
        except AttributeError as error:
            wrong = no_attribute(node, base.value, error)
            kernel = next((name for name in NAMED_KERNELS if name.rpartition(".")[2] == node.attr), None)
            if kernel is not None:
                wrong.help = f"write {self.source.text(node.value)}.{kernel}(...)"
            raise wrong from None

    def _item(self, node: ast.Subscript) -> _Binding:
        base, index = self.expression(node.value), self._subscript(node.slice)
        items = base if isinstance(base, tuple) else base.value if isinstance(base, _Constant) else None
        if items is None:
            text = self.source.text(node)
            help = f"pass {self.source.text(node.value)} to the program in its place, and read {text} there"
            raise Unsupported(node, "a pipeline reads no elements", help)
        try:
            return items[index] if isinstance(base, tuple) else _Constant(checked(node, items[index]))
        except (TypeError, LookupError) as error:
            raise Unsupported(node, f"{self.source.text(node)}: {error}") from None

    def _subscript(self, node: ast.expr) -> Any:
        """Constant in the brackets of a constant: `SIZES[1:]`, `f32[:, 64]`."""
        if isinstance(node, ast.Slice):
            bounds = (node.lower, node.upper, node.step)
            return slice(*[None if bound is None else self.constant(bound, "this index") for bound in bounds])
        if isinstance(node, ast.Tuple):
            return tuple(map(self._subscript, node.elts))
        return self.constant(node, "this index")

    def _operation(self, node: ast.expr, name: str, operands: Sequence[ast.expr]) -> _Binding:
        bindings = [self.expression(operand) for operand in operands]
        if all(isinstance(b, _Constant) for b in bindings):
            return self._evaluated(node)
        if not name:
            help = None
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
                over, by = self.source.text(node.left), self.source.text(node.right)
                help = f"write {self.source.operand(node.left)} // {self.source.operand(node.right)}"
                if not isinstance(node.left, ast.BinOp):
                    help += f", or vyre.ceil_div({over}, {by}), which rounds up"
            message = "sizes and grids are computed by +, -, *, //, min, max and ceil_div"
            raise Unsupported(node, message, help)
        for binding, operand in zip(bindings, operands, strict=True):
            if isinstance(binding, Buffer):
                text = self.source.text(operand)
                raise Unsupported(
                    node,
                    _ONLY_HERE,
                    f"compute with elements of {text} in a program, and with len({text}) here",
                )
        a, b = (
            self._as_extent(binding, operand) for binding, operand in zip(bindings, operands, strict=True)
        )
        return _Size(GridCall(name, (a, b)))

    def _function(self, node: ast.Call) -> _Binding:
        of_launch = node.func.value if isinstance(node.func, ast.Subscript) else node.func
        callee = self.constant(of_launch, "what a pipeline calls")
        if isinstance(callee, (Kernel, KernelIntrinsic)):
            help = f"write it on a line of its own, {self.source.text(node.func)}(x, y): it writes to an array that it takes"
            if isinstance(callee, Kernel):
                help = self._with_result(node, callee) or help
            raise Unsupported(node, "a launch gives no value", help)
        if of_launch is not node.func:
            callee = self.constant(node.func, "what a pipeline calls")
        if callee is INTRINSICS["shared"] or callee is INTRINSICS["local"]:
            help = "write t = vyre.buffer(f32, 256), which all programs may take"
            raise Unsupported(node, f"{self.source.text(node.func)} is memory of a kernel", help)
        if callee is len and len(node.args) == 1:
            binding = self.expression(node.args[0])
            if isinstance(binding, Buffer):
                return _length(binding, 0)
        if callee is static and len(node.args) == 1:
            return _Constant(self.constant(node.args[0], "what is static"))
        if len(node.args) == 2 and callee in (min, max, ceil_div):
            return self._operation(node, _FUNCTIONS[callee], node.args)
        if callee is INTRINSICS["buffer"] or callee is INTRINSICS["zeros"]:
            raise Unsupported(
                node, "a buffer has a name of its own", f"assign it: t = {self.source.text(node)}"
            )
        instead = _not_here(node, callee, self.source.text(node.func)) or self._as_kernel(node)
        if instead is not None and any(self._maybe_constant(a) is None for a in node.args):
            message = f"{self.source.text(node.func)} computes in Python, before the pipeline runs"
            raise Unsupported(node, message, instead)
        return self._evaluated(node)

    def _with_result(self, node: ast.Call, kernel: Kernel) -> str | None:
        """The launch in `t = scale[grid](x)` with memory for its result; None where it is not that which is missing."""
        statement = next(
            (s for s in ast.walk(self.source.tree) if isinstance(s, ast.Assign) and s.value is node), None
        )
        target = statement.targets[0] if statement is not None else None
        missing = kernel.parameters[len(node.args) :]
        first = next((a for a in node.args if isinstance(self._maybe(a), Buffer)), None)
        if not isinstance(target, ast.Name) or len(missing) != 1 or node.keywords or first is None:
            return None
        buffers = kernel.module.programs[kernel.function.__name__].buffers if not kernel.variables else {}
        if missing[0] not in buffers:
            return None
        arguments = ", ".join([*map(self.source.text, node.args), target.id])
        launch = f"{self.source.text(node.func)}({arguments})"
        if isinstance(self.env.get(target.id), Buffer):
            return f"write {launch}"
        size = f"len({self.source.text(first)})"
        return f"write {target.id} = vyre.buffer({buffers[missing[0]].dtype}, {size}), and below it {launch}"

    def _as_kernel(self, node: ast.Call) -> str | None:
        """Remedy for a function of arrays that is called on buffers: the named kernel, or a kernel that has its op."""
        buffers = [self.source.text(a) for a in node.args if isinstance(self._maybe(a), Buffer)]
        if not buffers:
            return None
        name = self.source.text(node.func)
        last = name.rpartition(".")[2]
        statement = next(
            (s for s in ast.walk(self.source.tree) if isinstance(s, ast.Assign) and s.value is node), None
        )
        target = statement.targets[0] if statement is not None else None
        base = target.value if isinstance(target, ast.Subscript) else target
        out = self.source.text(base) if base is not None else "y"
        named = next((kernel for kernel in NAMED_KERNELS if kernel.rpartition(".")[2] == last), None)
        if named is not None:
            return f"write vyre.{named}({', '.join([*buffers, out])})"
        op = last if last in OPS and OPS[last].format == "unary" else None
        if op is None:
            return None
        return (
            f"write a kernel, with @vyre.program(workgroup=64) and y[i] = vyre.{op}(x[i]) in it, and launch it here: "
            f"kernel[vyre.ceil_div(len({buffers[0]}), 64)]({', '.join([*buffers, out])})"
        )

    def _evaluated(self, node: ast.expr) -> _Constant:
        """An expression of constants, as Python computes it."""
        return _Constant(evaluate(node, self.source.text(node), self._known, self._is_length))

    def _known(self, node: ast.expr) -> Any:
        plain = _plain(self.expression(node))
        if plain is None:
            help = "decide it in a kernel, or in Python before the pipeline is called"
            raise Unsupported(node, f"{self.source.text(node)} is not known before the pipeline runs", help)
        return plain.value

    def _is_length(self, node: ast.expr) -> bool:
        """Whether this is `len(x)`, `x.shape` or `x.shape[1]`, of a buffer; one extent may be known where another is not."""
        node = node.value if isinstance(node, ast.Subscript) else node
        return isinstance(self.env.get(measured_name(node)), Buffer)


def _not_here(node: ast.Call, callee: Any, name: str) -> str | None:
    """Remedy in a pipeline for a function of Python or NumPy."""
    if callee is print:
        return 'print arrays after the call of the pipeline, and values in a program: print(f"i={i}")'
    inner = node.args[0] if callee is math.ceil and len(node.args) == 1 else None
    if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Div):
        return f"write vyre.ceil_div({ast.unparse(inner.left)}, {ast.unparse(inner.right)})"
    last = name.rpartition(".")[2]
    if last in ("zeros", "empty", "ones", "full", "zeros_like", "empty_like") and "." in name:
        own = "zeros(len(x), f32)" if last.startswith("zeros") else "buffer(f32, len(x))"
        return f"write t = vyre.{own}, memory of the pipeline's own"
    return None


def _length(buffer: Buffer, dimension: int) -> _Constant | _Size:
    """The elements of a buffer along a dimension."""
    extent = buffer.shape[dimension]
    return _Size(buffer.length(dimension)) if extent is None else _Constant(extent)


def _shape(buffer: Buffer) -> tuple[_Constant | _Size, ...]:
    return tuple(_length(buffer, dimension) for dimension in range(buffer.dimensions))


def _size(buffer: Buffer) -> _Constant | _Size:
    """All elements of a buffer."""
    if buffer.count is not None:
        return _Constant(buffer.count)
    extents = [part.value if isinstance(part, _Constant) else part.extent for part in _shape(buffer)]
    return _Size(reduce(lambda a, b: GridCall("mul", (a, b)), extents))


_OF_ARRAYS: dict[str, Callable[[Buffer], _Binding]] = {
    "shape": _shape,
    "size": _size,
    "ndim": lambda buffer: _Constant(buffer.dimensions),
}


def _plain(binding: _Binding) -> _Constant | None:
    """A binding of constants only."""
    if isinstance(binding, _Constant):
        return binding
    if isinstance(binding, tuple):
        parts = [_plain(part) for part in binding]
        if all(part is not None for part in parts):
            return _Constant(tuple(part.value for part in parts if part is not None))
    return None
