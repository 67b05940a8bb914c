"""Checks a module and reports everything that is wrong with it.

What holds of a verified module:

  Values      every operand is defined before its use, in a block around it; no
              value is defined twice; result types follow from the op table.
  Ops         operand types fit the row; attributes are present and known; a
              terminator ends a block and nothing else; yields match the values
              their op gives; constants fit their types.
  Loops       bounds have the counter's type, an integer one; an int step is
              positive; carried values keep their type.
  Buffers     an op names a declared buffer, with an index for each of its 1 to 3
              dimensions; loads need read access, stores write
              access, atomics both; element types agree; a `read` buffer is not
              live_out; bindings are unique and not on workgroup buffers; a
              workgroup buffer has a static size.
  Uniformity  a barrier stands where its whole scope arrives together, a subgroup
              op where its whole subgroup does, one of a workgroup where that does.
  Limits      1 to 1024 invocations a workgroup (64 along z), a grid of 1 to
              2^31-1 by 65535 by 65535, ids within 32 bits; a preference of 0 to
              100 percent.
  Functions   pure, not recursive, called with their own types, at most 64 deep.
  Kernels     known, with their parameters, alone in their program; each buffer of the
              type, the access and the size that its role has, at most 2^32 - 2^16
              elements, and none passed twice if it is written.
  Lowered     a program that is lowered for a target has what no text has, and that
              right (lowered_rules.py); no launch is held to its params and shapes.
  Pipelines   launches name programs and declared buffers, as many as the program
              binds, of the same element type and a fitting count and access; a
              buffer that a stage writes is passed to it once; each param of the
              program has a default or gets a value of its type.  A fill is of a buffer
              that may be written, and of a value of its elements.

Warnings: a program that writes a buffer nobody can observe, accesses that are out
of bounds whenever they run, comparisons of unsigned numbers that have one result
(warnings/program_warnings.py), and reads of what nobody wrote (pipeline_rules.py).
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from .aliasing import check_aliasing
from .body_checker import BodyChecker
from .call_graph import check_calls
from .diagnostics import (
    Diagnostic,
    DiagnosticError,
    Location,
    Replacement,
    shown,
    source_text,
    spelling_at,
    written_name,
)
from .fixes import (
    next_binding,
    with_access,
    with_arguments,
    with_declaration,
    with_flag,
    with_head_flag,
    without_flag,
)
from .grids import Extent, GridError, dimensions_of, lengths_of, params_of
from .kernel_rules import check_kernel
from .literals import LiteralError, encode, encode_constant, show_number
from .lowered_rules import LOWERED_RULES
from .op_rules import OP_RULES
from .ops import NAMED_KERNELS
from .parse_holes import NO_HOLES, ParseHoles
from .pipeline import Fill, HostRead, KernelStage, Launch, Pipeline, Repeat
from .pipeline_rules import check_contents, outside_when_launched
from .program import (
    MAX_EXTENT,
    MAX_GRID,
    MAX_INVOCATIONS,
    MAX_LANES,
    MAX_WORKGROUP,
    AccessMode,
    Buffer,
    Func,
    Module,
    Param,
    Program,
    Spec,
)
from .shapes import shapes_differ
from .suggestions import suggest_later
from .types import DTYPE, MIN_VECTOR_LANES, DataType, TypeNameError, vector_lanes, with_article, with_bound
from .uniformity import check_sync
from .warnings.program_warnings import warn_of_bodies

__all__ = ["check", "errors_of", "verify"]

MAX_CLUSTER = 16  # of a GPU that has them; 8 on all of these
_DECLARE_CLUSTERS = "write cluster(8) behind workgroup(...), or @program(cluster=8) in Python"
MAX_BYTES = {True: 1 << 31, False: 1 << 47}
"""Most bytes of a buffer in workgroup memory, of which every thread of a CPU has its own; and of any other, an address space."""


def verify(
    module: Module,
    holes: ParseHoles = NO_HOLES,
    warns: bool = True,
    intact: Container[Program | Func | Pipeline] = (),
) -> list[Diagnostic]:
    """Every error and warning of a module, errors first in the order of the text.  `warns`: whether warnings are wanted.
    `intact`: items that verified before and are the same; programs and functions among them are not looked at again unless
    a function is another.

    For a module that was built from a text with errors, `holes` says what they left out; a problem
    that only follows from that is not reported.
    """
    checker = _ModuleChecker(module, holes, warns, intact)
    checker.run()
    return shown(
        sorted(checker.diagnostics, key=lambda d: (d.severity != "error", d.loc.start if d.loc else 0))
    )


def errors_of(
    module: Module, holes: ParseHoles = NO_HOLES, intact: Container[Program | Func | Pipeline] = ()
) -> list[Diagnostic]:
    """Errors of a module as `verify` finds them, without the time that warnings take."""
    return [d for d in verify(module, holes, warns=False, intact=intact) if d.severity == "error"]


def check(module: Module) -> None:
    """Verify a module.  Raises DiagnosticError with its errors, if it has any."""
    if errors := errors_of(module):
        raise DiagnosticError(errors)


class _ModuleChecker:
    def __init__(
        self, module: Module, holes: ParseHoles, warns: bool, intact: Container[Program | Func | Pipeline]
    ) -> None:
        self.module = module
        self.holes, self.intact = holes, intact
        is_lowered = any(program.lowered_for is not None for program in module.programs.values())
        self.warns = warns and holes is NO_HOLES and not is_lowered  # warnings are of what somebody wrote
        self.diagnostics: list[Diagnostic] = []
        self.undeclared: dict[str, int] = {}  # program -> number of buffers used but not declared
        self.unknown: dict[str, Diagnostic] = {}

    def error(self, message: str, loc: Location | None, help: str | None = None) -> Diagnostic:
        diagnostic = Diagnostic("error", message, loc, help=help)
        self.diagnostics.append(diagnostic)
        return diagnostic

    def run(self) -> None:
        has_same_functions = all(func in self.intact for func in self.module.funcs.values())
        for item in self.module.order:
            if has_same_functions and item in self.intact:
                continue
            before = len(self.diagnostics)
            if isinstance(item, Program):
                self.program(item)
            elif isinstance(item, Func):
                BodyChecker(self.module, item, self.diagnostics, OP_RULES, self.holes).run(item.body)
            else:
                continue
            if self.warns and all(d.severity != "error" for d in self.diagnostics[before:]):
                warn_of_bodies(item, self.diagnostics)
        for item in self.module.order:
            if isinstance(item, Pipeline):
                self.unknown = {}
                self.pipeline(item)
        check_calls(self.module.funcs, self.diagnostics)

    # --- programs -------------------------------------------------------------------

    def program(self, program: Program) -> None:
        self.limits(program)
        for buffer in program.buffers.values():
            if not self.holes.is_invalid(buffer):
                self.buffer(program, buffer)
        for spec in program.specs.values():
            if self.holes.is_invalid(spec):
                continue
            if spec.dtype is DTYPE:
                self.type_parameter(spec)
            elif spec.dtype.kind not in ("bool", "uint", "int", "float"):
                self.error(f"spec @{spec.name} is {with_article(spec.dtype)}; it must be a scalar", spec.loc)
        self.params(program.params)
        self.type_names(program)
        self.bindings(program)
        rules = OP_RULES if program.lowered_for is None else LOWERED_RULES
        body = BodyChecker(self.module, program, self.diagnostics, rules, self.holes)
        body.run(program.body)
        self.undeclared[program.name] = body.undeclared
        if body.has_sync and body.is_well_formed and not self.holes.is_unbalanced(program):
            check_sync(program, self.diagnostics)
        self.unobserved(program, body.written, body.read)

    def params(self, params: Mapping[str, Param]) -> None:
        for param in params.values():
            if not self.holes.is_invalid(param) and param.dtype.kind not in ("bool", "uint", "int", "float"):
                self.error(
                    f"param @{param.name} is {with_article(param.dtype)}; it must be a scalar", param.loc
                )

    def type_parameter(self, spec: Spec) -> None:
        try:
            DataType.parameter(spec.name, spec.default)
        except (TypeNameError, AttributeError) as error:
            self.error(f"spec @{spec.name}: {error}", spec.loc)

    def type_names(self, item: Program | Pipeline) -> None:
        """Check that the type parameters of what an item declares are its own; of a text the parser has."""
        if self.holes is not NO_HOLES:
            return
        bound = {(f"@{spec.name}", spec.default) for spec in item.type_parameters}
        parts: list[Buffer | Spec | Param] = [
            *item.buffers.values(),
            *item.specs.values(),
            *item.params.values(),
        ]
        for part in parts:
            element = part.dtype.element
            if element.is_open and (element.name, element.bound) not in bound:
                message = f"@{part.name} is {with_bound(part.dtype)}, a type parameter that @{item.name} does not declare"
                self.error(message, part.loc, f"declare spec {element} : dtype = {element.bound}")

    def limits(self, program: Program) -> None:
        for axis, size, limit in zip("xyz", program.workgroup, MAX_WORKGROUP, strict=True):
            if not 1 <= size <= limit:
                self.error(
                    f"a workgroup has 1 to {limit} invocations along {axis}, not {show_number(size)}",
                    program.loc,
                )
        if program.lanes > MAX_LANES:
            message = f"a workgroup has at most {MAX_LANES} invocations, this one {program.lanes}"
            self.error(message, program.loc, "use a smaller workgroup and a larger grid")
        if program.grid is not None:
            self.grid(program.grid, program, program.loc)
        if program.prefer_shared is not None and not 0 <= program.prefer_shared <= 100:
            shown = show_number(program.prefer_shared)
            self.error(f"prefer(shared = ...) is a percentage, 0 to 100, not {shown}", program.loc)
        self.cluster(program)

    def cluster(self, program: Program) -> None:
        size = program.cluster
        if size is None:
            needy = next((op for op in program.walk() if op.attrs.get("scope") == "cluster"), None)
            if needy is not None:
                message = f"a cluster barrier, but program @{program.name} has no clusters"
                error = self.error(message, needy.loc, _DECLARE_CLUSTERS)
                error.add_fix(with_head_flag(program.loc, "cluster(8)"))
            return
        if not 1 <= size <= MAX_CLUSTER:
            shown = show_number(size)
            self.error(f"a cluster has 1 to {MAX_CLUSTER} workgroups, not {shown}", program.loc)
        elif program.grid is not None:
            self.whole_clusters(program, program.grid, program.loc)

    def whole_clusters(self, program: Program, grid: tuple[int, int, int], loc: Location | None) -> None:
        if program.cluster and grid[0] % program.cluster:
            self.error(f"{grid[0]} workgroups along x are not whole clusters of {program.cluster}", loc)

    def grid(self, grid: tuple[int, int, int], program: Program, loc: Location | None) -> None:
        for axis, count, lanes, limit in zip("xyz", grid, program.workgroup, MAX_GRID, strict=True):
            if not 1 <= count <= limit:
                self.error(f"a grid has 1 to {limit} workgroups along {axis}, not {show_number(count)}", loc)
            elif count * lanes > MAX_INVOCATIONS:
                self.error(f"{count} workgroups of {lanes} pass 2^32 invocations along {axis}", loc)

    def buffer(self, program: Program, buffer: Buffer) -> None:
        where, name = buffer.loc, f"buffer @{buffer.name}"
        self.size(buffer)
        if buffer.sizes:
            self.error(f"{name}: the size of a program's buffer is a number or ?", where, "write [?]")
        if buffer.access is None:
            error = self.error(
                f"{name} has no access", where, "add read, write, read_write, workgroup or cluster"
            )
            for access in AccessMode:
                error.add_fix(with_access(buffer, access))
        if buffer.dtype.is_vec and buffer.dtype.lanes < MIN_VECTOR_LANES:
            self.error(f"{name}: {vector_lanes(buffer.dtype.lanes)}", where)
        if buffer.is_cluster and program.cluster is None:
            error = self.error(f"{name}: program @{program.name} has no clusters", where, _DECLARE_CLUSTERS)
            error.add_fix(with_head_flag(program.loc, "cluster(8)"))
        if buffer.is_on_chip:
            if buffer.count is None:
                self.error(
                    f"{name}: a {buffer.access} buffer has a static count",
                    where,
                    f"write its size: {buffer.dtype}[256]",
                )
            if buffer.binding is not None:
                message = f"{name}: a {buffer.access} buffer has no binding"
                self.error(message, where, "remove the binding").add_fix(without_flag(buffer, "binding"))
            if buffer.live_in or buffer.live_out:
                self.error(f"{name}: a {buffer.access} buffer is neither live_in nor live_out", where)
            if buffer.dtype.element_bytes is None:
                self.error(f"{name}: {buffer.dtype} has no static size", where)
        if buffer.access is AccessMode.READ and buffer.live_out:
            error = self.error(f"{name} is read-only, so it cannot be live_out", where, "make it read_write")
            error.add_fix(with_access(buffer, "read_write"))
        if buffer.access is AccessMode.WRITE and buffer.live_in:
            error = self.error(f"{name} is write-only, so it cannot be live_in", where, "make it read_write")
            error.add_fix(with_access(buffer, "read_write"))
        if buffer.access is AccessMode.READ and buffer.binding is None and not buffer.live_in:
            message = f"{name} is read but nobody can fill it"
            warning = Diagnostic("warning", message, where, help=f"add {_free_binding(program, buffer)}")
            self.diagnostics.append(warning.add_fix(with_flag(buffer, next_binding(program))))
        if buffer.count is None and buffer.binding is None and not buffer.is_on_chip:
            error = self.error(
                f"{name} has an open size and no binding to give it one",
                where,
                f"add {_free_binding(program, buffer)}",
            )
            error.add_fix(with_flag(buffer, next_binding(program)))

    def size(self, buffer: Buffer) -> None:
        """Check that there can be so many bytes anywhere, and so many elements along each dimension."""
        if buffer.dtype.is_slice:
            self.error(
                f"buffer @{buffer.name} holds {buffer.dtype.element}, of which a slice is loaded, not slices",
                buffer.loc,
                help=f"write {buffer.dtype.element}[...]",
            )
        if buffer.dtype.is_matrix:
            message = (
                f"buffer @{buffer.name} holds elements, not {buffer.dtype}, which is a value of a subgroup"
            )
            help = f"write {buffer.dtype.stored}, and load matrices from it by matrix_load"
            self.error(message, buffer.loc, help)
        for extent in buffer.shape:
            if extent is not None and extent < 0:
                self.error(f"buffer @{buffer.name} has {extent} elements, which is below 0", buffer.loc)
                return
        for number, extent in enumerate(buffer.shape if buffer.dimensions > 1 else ()):
            if extent is not None and extent > MAX_EXTENT:
                message = f"buffer @{buffer.name} has {extent} elements along dimension {number}"
                self.error(f"{message}; of several dimensions each has at most 2^31-1", buffer.loc)
        size, most = buffer.size_bytes, MAX_BYTES[buffer.is_on_chip]
        if size is not None and size > most:
            message = f"buffer @{buffer.name} takes {show_number(size)} bytes; at most 2^{most.bit_length() - 1} are possible"
            self.error(message, buffer.loc)

    def bindings(self, program: Program) -> None:
        by_binding: dict[int, Buffer] = {}
        for buffer in program.buffers.values():
            if buffer.binding is None or self.holes.is_invalid(buffer):
                continue
            other = by_binding.setdefault(buffer.binding, buffer)
            if other is not buffer:
                error = self.error(
                    f"binding {buffer.binding} is taken by @{other.name}",
                    buffer.loc,
                    f"write {next_binding(program)}",
                )
                error.note(f"@{other.name} is declared here", other.loc)

    def unobserved(self, program: Program, written: dict[str, Location | None], read: set[str]) -> None:
        for name, loc in written.items():
            buffer = program.buffers[name]
            discarded = buffer.is_transient or (buffer.access is AccessMode.WRITE and not buffer.is_output)
            if discarded and not buffer.live_out and name not in read:
                message = f"buffer @{name} is written, but nobody can observe it"
                help = "mark it live_out, or remove the stores"
                warning = Diagnostic("warning", message, buffer.loc, [("written here", loc)], help)
                self.diagnostics.append(warning.add_fix(with_flag(buffer, "live_out")))

    # --- pipelines ------------------------------------------------------------------

    def pipeline(self, pipeline: Pipeline) -> None:
        for buffer in pipeline.buffers.values():
            if self.holes.is_invalid(buffer):
                continue
            name = f"buffer @{buffer.name}"
            self.size(buffer)
            if buffer.is_on_chip:
                what = f"a pipeline's buffers are in storage, not {buffer.access} memory"
                self.error(f"{name}: {what}", buffer.loc)
            if buffer.binding is not None:
                error = self.error(
                    f"{name}: a pipeline's buffers are passed by name, not by binding", buffer.loc
                )
                error.add_fix(without_flag(buffer, "binding"))
            if buffer.access is AccessMode.READ and buffer.live_out:
                error = self.error(
                    f"{name} is read-only, so it cannot be live_out", buffer.loc, "make it read_write"
                )
                error.add_fix(with_access(buffer, "read_write"))
        for spec in pipeline.specs.values():
            if self.holes.is_invalid(spec):
                continue
            if spec.dtype is DTYPE:
                self.type_parameter(spec)
            else:
                message = (
                    f"spec @{spec.name} is {with_article(spec.dtype)}; a pipeline has type parameters alone"
                )
                help = f"declare param @{spec.name} : {spec.dtype}, or leave the constant to the programs"
                self.error(message, spec.loc, help)
        self.params(pipeline.params)
        self.type_names(pipeline)
        self.sizes(pipeline)
        for stage in pipeline.walk():
            if isinstance(stage, Repeat):
                if stage.times < 1:
                    self.error(f"a repeat is done at least once, not {stage.times} times", stage.loc)
            else:
                self.stage(pipeline, stage)
        if self.warns:
            check_contents(pipeline, self.module, self.diagnostics)
            if all(d.severity != "error" for d in self.diagnostics):
                self.diagnostics += outside_when_launched(pipeline, self.module)

    def sizes(self, pipeline: Pipeline) -> None:
        """Sizes are of buffers that are declared before, and of whole numbers among the params."""
        before: list[str] = []
        for buffer in pipeline.buffers.values():
            for size in buffer.sizes if not self.holes.is_invalid(buffer) else ():
                if size is None:
                    continue
                for name in lengths_of(size):
                    if name not in before and not self.holes.may_define(pipeline, name):
                        message = f"the size of @{buffer.name} is of @{name}, which is not declared before it"
                        at = buffer.loc.find(f"@{name}") if buffer.loc else None
                        self.error(message, at).suggestion = suggest_later(name, before, "@")
                self.used_params(pipeline, size, buffer.loc)
                self.used_dimensions(pipeline, size, buffer.loc)
            before.append(buffer.name)

    def used_params(self, pipeline: Pipeline, extent: Extent, loc: Location | None) -> bool:
        """Check the params that a grid or a size uses; whether there are any."""
        names = list(params_of(extent))
        for name in names:
            param = pipeline.params.get(name)
            at = loc.find(f"@{name}") if loc else None
            if param is None:
                declaration = f"param @{name} : u32"
                message = f"pipeline @{pipeline.name} has no param @{name}"
                if name in pipeline.buffers:
                    length = f"len(@{name})"
                    self.error(message, at, Replacement.of(f"write {length}", f"@{name}", length))
                    continue
                error = self.error(message, at, f"declare {declaration}")
                error.add_fix(with_declaration(pipeline.loc, declaration))
                error.suggestion = suggest_later(name, pipeline.params, "@")
            elif not param.dtype.is_int and not self.holes.is_invalid(param):
                error = self.error(f"@{name} is {param.dtype}, and a size is a whole number", at)
                error.note(f"@{name} is declared here", param.loc)
        return bool(names)

    def used_dimensions(self, pipeline: Pipeline, extent: Extent, loc: Location | None) -> bool:
        """Check that each len in a grid or a size names a dimension where its buffer has several; whether all do."""
        problems = 0
        for name, number in dimensions_of(extent):
            buffer = pipeline.buffers.get(name)
            if buffer is None or self.holes.is_invalid(buffer):
                continue
            message = ""
            if number is None and buffer.dimensions > 1:
                message = (
                    f"@{name} has {buffer.dimensions} dimensions: write len(@{name}, 0) for the first extent"
                )
            elif number is not None and not 0 <= number < buffer.dimensions:
                message = f"@{name} has no dimension {number}; its last one is {buffer.dimensions - 1}"
            if message:
                problems += 1
                at = loc.find(f"@{name}") if loc else None
                self.error(message, at).note(f"@{name} is declared here", buffer.loc)
        return not problems

    def unknown_name(
        self, message: str, stage: Launch | Fill | HostRead | KernelStage, name: str, owner: Pipeline | None
    ) -> None:
        """Report the `@name` of a stage, once in a pipeline, unless unread text may define it in `owner`."""
        where = stage.loc.find(f"@{name}") if stage.loc else None
        if message in self.unknown:
            self.unknown[message].add_place(where)
        elif not self.holes.may_define(owner, name):
            known = self.module.programs if owner is None else owner.buffers
            error = self.unknown[message] = self.error(message, where)
            error.help = f"declare {'program' if owner is None else 'buffer'} @{name}"
            error.suggestion = suggest_later(name, known, "@")

    def stage(self, pipeline: Pipeline, stage: Launch | Fill | HostRead | KernelStage) -> None:
        names = (stage.buffer,) if isinstance(stage, HostRead) else stage.buffers
        for name in names:
            if name not in pipeline.buffers:
                message = f"pipeline @{pipeline.name} has no buffer @{name}"
                self.unknown_name(message, stage, name, pipeline)
        if isinstance(stage, HostRead):
            return
        known = all(name in pipeline.buffers for name in names)
        if isinstance(stage, Fill):
            if known:
                self.fill(pipeline.buffers[stage.buffer], stage)
            return
        if isinstance(stage, KernelStage):
            if known and not self.holes.is_invalid(stage):
                self.kernel(pipeline, stage)
            return
        program = self.module.programs.get(stage.program)
        if program is None:
            self.unknown_name(f"there is no program @{stage.program}", stage, stage.program, None)
            return
        if self.holes.is_invalid(stage) or self.holes.is_invalid(program):
            return
        self.launch_grid(pipeline, stage, program)
        if program.lowered_for is not None:
            return  # its params and shapes are no longer those that a launch is written for
        self.launch_params(pipeline, stage, program)
        bound = program.bound_buffers
        if any(self.holes.is_invalid(buffer) for buffer in program.buffers.values()):
            return  # one of them may lack the binding it was meant to have
        if len(names) - len(bound) == self.undeclared.get(program.name, 0) > 0:
            return  # exactly the undeclared buffers are missing, and each has been reported
        if len(bound) != len(names):
            message = f"program @{program.name} binds {len(bound)} buffers, {len(names)} given"
            help = f"pass ({', '.join('@' + b.name for b in bound)}) in this order"
            if (completed := _completed(names, bound, pipeline)) is not None:
                help = f"write ({', '.join(completed)}), for {', '.join('@' + b.name for b in bound)}"
            error = self.error(message, stage.loc, help)
            error.note(f"@{program.name} is declared here", program.loc)
            known = all(b.name in pipeline.buffers for b in bound)
            error.add_fix(with_arguments(stage, [b.name for b in bound]) if known else None)
            return
        for name, formal in zip(names, bound, strict=True) if known else ():
            where = stage.loc.find(f"@{name}") if stage.loc else None
            self.argument(pipeline.buffers[name], formal, program, where, pipeline, stage)
        formals = [(f"@{b.name}", b.access) for b in bound]
        check_aliasing(f"@{program.name}", names, formals, stage.loc, self.diagnostics)

    def fill(self, buffer: Buffer, stage: Fill) -> None:
        if self.holes.is_invalid(buffer):
            return
        name = f"@{buffer.name}"
        if buffer.access is AccessMode.READ:
            where = stage.loc.find(name) if stage.loc else None
            error = self.error(f"{name} is read-only, and a fill writes it", where)
            error.note(f"{name} is declared here", buffer.loc)
        try:
            encode_constant(stage.constant, buffer.dtype)
        except LiteralError as problem:
            error = self.error(f"the value of a fill: {problem}", stage.loc)
            error.note(f"{name} is declared here", buffer.loc)

    def kernel(self, pipeline: Pipeline, stage: KernelStage) -> None:
        name, buffers = stage.kernel, pipeline.buffers
        if name not in NAMED_KERNELS:
            error = self.error(f"unknown kernel {name}", stage.loc)
            error.suggestion = suggest_later(name, NAMED_KERNELS)
            return
        check_kernel(
            name,
            stage.buffers,
            stage.attrs,
            buffers,
            stage.loc,
            self.diagnostics,
            self.holes,
            is_stage=True,
        )

    def launch_params(self, pipeline: Pipeline, stage: Launch, program: Program) -> None:
        """Check that each parameter of the program gets a value of its type, and nothing else does."""

        def at(name: str) -> Location | None:
            return stage.loc.find(f"@{name}") if stage.loc else None

        for name, value in stage.params.items():
            formal = program.params.get(name)
            if formal is None:
                message = f"program @{program.name} has no param @{name}"
                self.error(message, at(name)).suggestion = suggest_later(name, program.params, "@")
            elif isinstance(value, str):
                actual = pipeline.params.get(value)
                if actual is None:
                    message = f"pipeline @{pipeline.name} has no param @{value}"
                    declaration = f"param @{value} : {formal.dtype}"
                    error = self.error(message, at(value), f"declare {declaration}")
                    error.add_fix(with_declaration(pipeline.loc, declaration))
                    error.suggestion = suggest_later(value, pipeline.params, "@")
                elif not _is_taken(actual.dtype, formal.dtype) and not self.holes.is_invalid(actual):
                    has, wanted = with_bound(actual.dtype), with_bound(formal.dtype)
                    advice = _type_advice(actual.dtype, formal.dtype, program)
                    error = self.error(f"@{value} is {has}, @{name} is {wanted}", at(value), advice)
                    error.note(f"@{name} is declared here", formal.loc)
            else:
                try:
                    encode(value, formal.dtype.bound)
                except LiteralError as problem:
                    self.error(f"@{name}: {problem}", at(name)).note(f"@{name} is declared here", formal.loc)
        for name, formal in program.params.items():
            if name not in stage.params and formal.default is None and not self.holes.is_invalid(formal):
                message = f"program @{program.name} needs a value for its param @{name}"
                help = (
                    f"write params(@{name} = ...) behind the buffers: a literal, or a param of the pipeline"
                )
                self.error(message, stage.loc, help).note(f"@{name} is declared here", formal.loc)

    def launch_grid(self, pipeline: Pipeline, stage: Launch, program: Program) -> None:
        """Check the grid, unless it depends on the length of a buffer of open size."""
        used = {name for extent in stage.grid for name in lengths_of(extent)}
        for name in sorted(used - pipeline.buffers.keys()):
            self.unknown_name(f"pipeline @{pipeline.name} has no buffer @{name}", stage, name, pipeline)
        dimensions = [self.used_dimensions(pipeline, extent, stage.loc) for extent in stage.grid]
        if sum(self.used_params(pipeline, extent, stage.loc) for extent in stage.grid) or not all(dimensions):
            return
        buffers = [pipeline.buffers.get(name) for name in used]
        if any(b is None or b.count is None or self.holes.is_invalid(b) for b in buffers):
            return
        try:
            grid = stage.workgroups(pipeline.static_lengths)
        except GridError as problem:
            self.error(f"the grid has no value: {problem}", stage.loc)
            return
        self.grid(grid, program, stage.loc)
        self.whole_clusters(program, grid, stage.loc)
        if program.grid is not None and program.grid != grid:
            shown = ", ".join(map(str, program.grid))
            error = self.error(f"program @{program.name} fixes its grid to ({shown})", stage.loc)
            error.note("fixed here", program.loc)

    def argument(
        self,
        actual: Buffer,
        formal: Buffer,
        program: Program,
        loc: Location | None,
        pipeline: Pipeline,
        stage: Launch,
    ) -> None:
        problem = help = None
        if self.holes.is_invalid(actual):
            return
        if not _is_taken(actual.dtype, formal.dtype):
            problem = f"holds {with_bound(actual.dtype)}, @{formal.name} is {with_bound(formal.dtype)}"
            help = _type_advice(actual.dtype, formal.dtype, program)
            spell = spelling_at(loc).buffer
            both = f"declare {spell(actual.name)} of {formal.dtype} here, or {spell(formal.name)} of {actual.dtype} in {program.name}"
            help = help or f"{both}; or launch a program that converts before it"
        elif differing := shapes_differ(actual, formal):
            problem = differing
        elif actual.access is AccessMode.READ and formal.access is not AccessMode.READ:
            problem = f"is read-only, @{formal.name} is {formal.access}"
            others = [
                f"@{b.name}"
                for b in pipeline.buffers.values()
                if b.access is not AccessMode.READ and b.dtype is formal.dtype
            ]
            help = f"pass a buffer that may be written{', such as ' * bool(others)}{' or '.join(others[:3])}"
            help = _exchanged(stage, formal, program, pipeline) or help
        if problem:
            error = self.error(f"@{actual.name} {problem}", loc, help)
            error.note(f"@{formal.name} is declared here", formal.loc)


def _exchanged(stage: Launch, formal: Buffer, program: Program, pipeline: Pipeline) -> str | None:
    """Remedy for a launch that has a result and what it is computed from in each other's places; None for another."""
    bound = program.bound_buffers
    actuals = [pipeline.buffers[name] for name in stage.buffers]
    at = bound.index(formal)
    for number, (other, taken) in enumerate(zip(actuals, bound, strict=True)):
        fits = _is_taken(other.dtype, formal.dtype) and _is_taken(actuals[at].dtype, taken.dtype)
        is_same_rank = not shapes_differ(other, formal) and not shapes_differ(actuals[at], taken)
        if fits and is_same_rank and taken.access is AccessMode.READ is not other.access:
            names = [*stage.buffers]
            names[at], names[number] = names[number], names[at]
            pair = [written_name(each.name, each.loc) for each in (actuals[at], other)]
            text = source_text(stage.loc)
            spelling = spelling_at(stage.loc)
            written = spelling.swapped(text, pair) or f"({', '.join('@' + name for name in names)})"
            shown = " and ".join(map(spelling.buffer, pair))
            return f"{shown} are exchanged, {spelling.buffer(formal.name)} is what {program.name} writes: write {written}"
    return None


def _free_binding(program: Program, buffer: Buffer) -> str:
    """A binding for a buffer that lacks one, of which those before it get others."""
    unbound = [b for b in program.buffers.values() if b.binding is None and not b.is_on_chip]
    taken = [b.binding for b in program.buffers.values() if b.binding is not None]
    return f"binding({max(taken, default=-1) + 1 + unbound.index(buffer)})"


def _completed(names: Sequence[str], bound: Sequence[Buffer], pipeline: Pipeline) -> list[str] | None:
    """The buffers of a launch that lacks some, with those of the pipeline that fit; None where several or none do."""
    given = [f"@{name}" for name in names]
    for formal in bound[len(names) :]:
        fits = [
            b
            for b in pipeline.buffers.values()
            if f"@{b.name}" not in given
            and b.dtype is formal.dtype
            and (b.access is not AccessMode.READ or formal.access is AccessMode.READ)
        ]
        if len(fits) != 1:
            return None
        given.append(f"@{fits[0].name}")
    return given if len(names) < len(bound) else None


def _is_taken(actual: DataType, formal: DataType) -> bool:
    """Whether a program takes what is of one type in a pipeline for what is of another: a type parameter for the one of the
    same name, and so whatever both are bound to; or the type that its own parameter is bound to."""
    return actual is formal or actual is formal.bound


def _type_advice(actual: DataType, formal: DataType, program: Program) -> str | None:
    """Advice that makes the types of an argument agree, where one is of a type parameter."""
    if not (actual.is_open or formal.is_open):
        return None
    mine, other = actual.element, formal.element
    if not other.is_open:
        return f"declare spec {mine} : dtype = {mine.bound} in program @{program.name} too, and {mine} there"
    if not mine.is_open:
        return f"declare spec {other} : dtype = {other.bound} in the pipeline too, and {other} there"
    if mine.name != other.name:
        return f"call it {other} in both: types are bound by the name of their parameter"
    return f"write the same type behind spec {other} : dtype in both: one type is bound to all of that name"
