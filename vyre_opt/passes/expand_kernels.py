"""Expansion: a named kernel becomes a program that computes it, with a schedule for the target.

A kernel that is a program's body is replaced in place: the program keeps its name and its
buffers, gets the schedule's workgroup, and is right for any grid, since its callers choose
that.  A kernel that is a stage of a pipeline becomes a program of the module and a launch of
it over exactly the grid that its sizes need, an expression where these are open; where they decide the
schedule too, the stage stays until a plan is made for their lengths.  So does a stage that takes a buffer of several
dimensions: its program has buffers of one, and is launched on all elements row by row, which only a plan does, so no proof
about launches meets it.  In a program such a buffer is accessed by the row and the column of each element.  A decoder gets as many lanes as the
launch beside it that shares a buffer with it has, so that launch_fusion may join the two.  A stage that fills a buffer
becomes a launch like the one that takes the buffer next, right before it; where that one is over more workgroups than have
elements to fill, it comes before all stages that do not use the buffer, so that it is not between two launches that may be
joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from math import prod
from typing import Any

from ..analysis.equal_lengths import lengths_by_size
from ..ir.diagnostics import Diagnostic, DiagnosticError, Location
from ..ir.grids import Extent, GridCall, show_extent
from ..ir.kernel_rules import complete_params
from ..ir.literals import encode_constant
from ..ir.ops import NAMED_KERNELS, SUBGROUP_SIZE
from ..ir.pipeline import Fill, HostRead, KernelStage, Launch, Pipeline, Repeat, Stage
from ..ir.plugins import PluginError
from ..ir.program import AccessMode, Buffer, Module, Op, Program
from ..ir.rewrite import fresh_name
from ..kernels.expansion import Expansion, ExpansionRequest, is_of_plugin
from ..kernels.fill import LEAST_LANES, FillSchedule, fill_program, fill_schedule
from ..kernels.named import expand, named_kernel
from ..kernels.row_indices import index_by_rows
from ..records import dataclass
from .manager import PassContext
from .registry import Pass, register


@dataclass(frozen=True)
class ExpandOptions:
    """`target`: the target of the schedules (`cpu`, `sm_90`); empty for the pass pipeline's target.

    `counts`: give buffers of a stage's program the counts of the pipeline's buffers, for the proofs of later passes;
    otherwise they stay open, so that one compiled program serves all lengths.
    `native`: leave the kernels of this package, which the interpreter runs as they are.
    """

    target: str = ""
    counts: bool = True
    native: bool = False


@register
class ExpandKernels(Pass):
    name = "expand_kernels"
    summary = "Replace named kernels by the programs that do them, at a schedule."
    invalidates = ("decode_scan_fuse", "inline")
    is_required = True
    Options = ExpandOptions

    def run(self, module: Module, ctx: PassContext) -> bool:
        options: ExpandOptions = self.options
        expander = _Expander(module, ctx, options.target or ctx.target, options.counts, options.native)
        for program in list(module.programs.values()):
            ctx.item = program.name
            expander.program(program)
        for pipeline in module.pipelines.values():
            ctx.item = pipeline.name
            pipeline.stages = expander.stages(pipeline, pipeline.stages)
        ctx.count("kernels expanded", expander.expansion_count)
        return expander.expansion_count > 0


class _Expander:
    def __init__(self, module: Module, ctx: PassContext, target: str, counts: bool, native: bool) -> None:
        self.module, self.ctx, self.target, self.counts, self.native = module, ctx, target, counts, native
        self.expansion_count = 0
        self.expansions: dict[Any, tuple[Program, Expansion]] = {}
        """Programs of stages, by kernel, sizes and attributes: equal stages launch the same program."""
        self.fills: dict[Any, Program] = {}
        """Programs of fills, by element type, shape, value and schedule."""
        self.lengths: dict[Pipeline, dict[str, Extent | None]] = {}
        self.scratch: dict[tuple[str, str, str], str] = {}
        """Scratch buffers by pipeline, program and formal.  Equal stages share one: each clears it first."""

    # --- programs -------------------------------------------------------------------------

    def program(self, program: Program) -> None:
        op = next((o for o in program.body.ops if o.definition.kernel is not None), None)
        if op is None or (self.native and not is_of_plugin(op.name)):
            return
        buffers = [program.buffers[name] for name in op.attrs["buffers"]]
        expansion = self.try_expand(op.name, buffers, op.attrs["params"], op, owns_grid=False)
        if expansion is None:
            return
        formals = [b.name for b in expansion.program.bound_buffers]
        multidimensional = {f: b for f, b in zip(formals, buffers, strict=True) if b.dimensions > 1}
        try:
            index_by_rows(expansion.program, multidimensional)
        except ValueError as error:
            self.remark_refusal(op.name, str(error), op)
            return
        _replace_body(program, op, expansion.program)
        grid = (
            "the grid that the caller gives" if expansion.grid is None else f"any grid, best {expansion.grid}"
        )
        self.remark_expansion(
            op.name, expansion, f"in @{program.name}, over {grid}", op, program=program.name
        )

    # --- pipelines -------------------------------------------------------------------------

    def stages(self, pipeline: Pipeline, stages: list[Stage]) -> list[Stage]:
        new_stages: list[Stage] = []
        leading: list[Stage] = []  # fills to put before all stages
        used_buffers: set[str] = set()
        users = _users(stages)
        fills_before: dict[int, list[Stage]] = {}  # fills to put right before their users, by `id(user)`
        for index, stage in enumerate(stages):
            if isinstance(stage, Repeat):
                stage.stages = self.stages(pipeline, stage.stages)
            launches: list[Stage] | None = None
            if isinstance(stage, Fill):
                user = users.get(index)
                fill = self.fill(pipeline, stage, user)
                destination = new_stages
                # without counts the expansion is for a run, and no pass joins launches after it
                if self.counts and user is not None and fill is not None:
                    if not _has_more_workgroups(user, fill):
                        destination = fills_before.setdefault(id(user), [])
                    elif stage.buffer not in used_buffers:
                        destination = leading
                destination += [] if fill is None else [fill]
                launches = []
            elif isinstance(stage, KernelStage) and not (self.native and not is_of_plugin(stage.kernel)):
                launches = self.stage(pipeline, stage, self.neighbour(stages, index))
            used_buffers.update(_buffers_of(stage))
            new_stages += fills_before.pop(id(stage), [])
            new_stages += [stage] if launches is None else launches
        return leading + new_stages

    def fill(self, pipeline: Pipeline, stage: Fill, user: Launch | None) -> Launch | None:
        """The launch that replaces a fill; None for a buffer without elements.  `user`: the launch that uses it next."""
        buffer = pipeline.buffers[stage.buffer]
        self.expansion_count += 1
        if 0 in buffer.shape:
            self.ctx.remark("applied", f"fill of @{buffer.name} is nothing: it has no elements", stage.loc)
            return None
        schedule = fill_schedule(buffer)
        if user is not None and self.counts:
            if pipeline not in self.lengths:
                self.lengths[pipeline] = lengths_by_size(pipeline)
            schedule = fill_schedule(buffer, user, self.module.programs[user.program], self.lengths[pipeline])
        open_shape: tuple[int | None, ...] = (None,) * buffer.dimensions
        like = replace(buffer, shape=buffer.shape if self.counts else open_shape, sizes=())
        launch = self.launch_fill(like, encode_constant(stage.constant, buffer.dtype), schedule, stage.loc)
        grid = ", ".join(map(show_extent, launch.grid))
        message = f"fill is expanded as @{launch.program} over ({grid}) workgroups"
        self.ctx.remark("applied", message, stage.loc, kernel="fill", grid=grid)
        return launch

    def launch_fill(self, like: Buffer, value: Any, schedule: FillSchedule, loc: Location | None) -> Launch:
        """A launch that fills a buffer of the pipeline with an encoded value.  `like`: the buffer as the program declares
        it."""
        key = like.dtype, like.shape, value, schedule.workgroup, schedule.strided
        if key not in self.fills:
            name = fresh_name(f"fill_{like.dtype.element}", self.module.programs)
            program = self.fills[key] = _set_location(fill_program(name, like, value, schedule), loc)
            self.module.add_before_pipelines(program)
        return Launch(self.fills[key].name, schedule.grid, (like.name,), loc)

    def neighbour(self, stages: Sequence[Stage], index: int) -> Program | None:
        """A neighbouring program with whose number of lanes launch_fusion may join the kernel at `index`."""
        stage = stages[index]
        assert isinstance(stage, KernelStage)
        # without counts the expansion is for a run, and no pass joins launches after it
        if not self.counts or "schedule_lanes" in stage.attrs or not named_kernel(stage.kernel).any_lanes:
            return None
        for positions in (range(index + 1, len(stages)), range(index - 1, -1, -1)):
            candidate = next(
                (stages[position] for position in positions if not isinstance(stages[position], Fill)), None
            )
            if isinstance(candidate, Launch) and not set(candidate.buffers).isdisjoint(stage.buffers):
                program = self.module.programs[candidate.program]
                lanes, *rest = program.workgroup
                if rest == [1, 1] and LEAST_LANES <= lanes and lanes % SUBGROUP_SIZE == 0:
                    return program
        return None

    def stage(
        self, pipeline: Pipeline, stage: KernelStage, neighbour: Program | None = None
    ) -> list[Stage] | None:
        """The launches that replace a stage; None, after a remark, if the stage stays."""
        if neighbour is not None:
            stage = replace(stage, attrs={**stage.attrs, "schedule_lanes": neighbour.lanes})
        buffers = [pipeline.buffers[name] for name in stage.buffers]
        # the grid names the buffer of an open size, so the name is part of the key
        sizes = tuple((b.dtype, b.name if b.count is None else b.count) for b in buffers)
        key = (stage.kernel, sizes, tuple(sorted(stage.attrs.items())))
        cached = self.expansions.get(key)
        open_sizes = [b for b in buffers if b.count is None]
        if open_sizes and not named_kernel(stage.kernel).any_length:
            names = ", ".join(f"@{b.name}" for b in open_sizes)
            self.remark_refusal(
                stage.kernel, f"its grid depends on {names}, of open size; give a count", stage
            )
            return None
        multidimensional = ", ".join(f"@{b.name}" for b in buffers if b.dimensions > 1)
        if multidimensional:  # only the launch of a plan passes these for buffers of one dimension
            reason = (
                f"{multidimensional} has rows, which its program takes as one; the plan of a call expands it"
            )
            self.remark_refusal(stage.kernel, reason, stage)
            return None
        expansion = self.try_expand(stage.kernel, buffers, stage.attrs, stage, owns_grid=True, cached=cached)
        if expansion is None:
            return None
        roles = NAMED_KERNELS[stage.kernel].with_roles(buffers)
        outputs = [buffer for buffer, role in roles if role.access is not AccessMode.READ]
        if all(buffer.count == 0 for buffer in (buffers[0], *outputs)):
            self.expansion_count += 1
            message = f"{stage.kernel} is nothing: @{buffers[0].name} has no elements"
            self.ctx.remark("applied", message, stage.loc, kernel=stage.kernel)
            return []
        assert expansion.grid is not None
        program = cached[0] if cached else self.add_program(stage, expansion, buffers)
        self.expansions[key] = (program, expansion)
        launches, scratch = self.clear_scratch(pipeline, stage, expansion)
        launches.append(Launch(program.name, (expansion.grid, 1, 1), (*stage.buffers, *scratch), stage.loc))
        description = f"as @{program.name} over {show_extent(expansion.grid)} workgroups"
        if neighbour is not None:
            description += f", with the lanes of its neighbour @{neighbour.name}"
        self.remark_expansion(stage.kernel, expansion, description, stage)
        return launches

    def clear_scratch(
        self, pipeline: Pipeline, stage: KernelStage, expansion: Expansion
    ) -> tuple[list[Stage], list[str]]:
        """Launches that clear the scratch buffers of a stage's program, and their names in the pipeline."""
        program = expansion.program
        launches: list[Stage] = []
        names = []
        for buffer in program.bound_buffers[len(stage.buffers) :]:
            assert expansion.scratch is not None
            count = expansion.scratch[buffer.name]
            key = (pipeline.name, program.name, buffer.name)
            if key not in self.scratch:
                name = self.scratch[key] = fresh_name(f"{program.name}_{buffer.name}", pipeline.buffers)
                pipeline.buffers[name] = Buffer(name, buffer.dtype, count, None, loc=stage.loc)
            scratch = pipeline.buffers[self.scratch[key]]
            like = replace(scratch, shape=(None,))  # one program clears the scratch of all kernels
            launches.append(self.launch_fill(like, 0, fill_schedule(scratch), stage.loc))
            names.append(self.scratch[key])
        return launches, names

    def add_program(self, stage: KernelStage, expansion: Expansion, buffers: Iterable[Buffer]) -> Program:
        program = expansion.program
        program.name = fresh_name(stage.kernel.replace(".", "_"), self.module.programs)
        _set_location(program, stage.loc)
        if self.counts:
            for formal, actual in zip(program.bound_buffers, buffers, strict=False):
                formal.shape = actual.shape
        self.module.add_before_pipelines(program)
        return program

    # --- both ------------------------------------------------------------------------------

    def try_expand(
        self,
        kernel: str,
        buffers: list[Buffer],
        params: Mapping[str, int],
        site: Op | KernelStage,
        *,
        owns_grid: bool,
        cached: tuple[Program, Expansion] | None = None,
    ) -> Expansion | None:
        """The expansion, or None after a remark with the reason."""
        row = NAMED_KERNELS[kernel]
        if cached is not None:
            return cached[1]
        try:
            return expand(
                ExpansionRequest(
                    kernel,
                    # only what the key of `expansions` has
                    [Buffer(b.name, b.dtype, b.count, None, loc=b.loc) for b in buffers],
                    row.semantic_params(complete_params(row, buffers, params)),
                    self.target,
                    owns_grid,
                    row.schedule_params(params),
                )
            )
        except ValueError as error:
            self.remark_refusal(kernel, str(error), site)
            return None
        except PluginError as error:
            raise DiagnosticError([Diagnostic("error", str(error), site.loc)]) from error

    def remark_expansion(
        self, kernel: str, expansion: Expansion, description: str, site: Op | KernelStage, **facts: Any
    ) -> None:
        schedule = asdict(expansion.schedule)
        fields = ", ".join(f"{name}={value}" for name, value in schedule.items())
        message = f"{kernel} is expanded {description} ({fields})"
        grid = show_extent(expansion.grid) if isinstance(expansion.grid, GridCall) else expansion.grid
        self.ctx.remark("applied", message, site.loc, kernel=kernel, schedule=schedule, grid=grid, **facts)
        self.expansion_count += 1

    def remark_refusal(self, kernel: str, reason: str, site: Op | KernelStage) -> None:
        self.ctx.remark("refused", f"{kernel} is not expanded: {reason}", site.loc, kernel=kernel)


def _users(stages: Sequence[Stage]) -> dict[int, Launch]:
    """Index of each fill -> the next stage that uses its buffer, if that is a launch."""
    users: dict[int, Launch] = {}
    latest: dict[str, Stage] = {}
    for index in range(len(stages) - 1, -1, -1):
        stage = stages[index]
        if isinstance(stage, Fill) and isinstance(user := latest.get(stage.buffer), Launch):
            users[index] = user
        latest.update(dict.fromkeys(_buffers_of(stage), stage))
    return users


def _has_more_workgroups(user: Launch, fill: Launch) -> bool:
    """Whether a launch has more workgroups than the fill of a buffer of known size."""
    fill_extents = [extent for extent in fill.grid if isinstance(extent, int)]
    user_extents = [extent for extent in user.grid if isinstance(extent, int)]
    return len(fill_extents) == 3 and (len(user_extents) < 3 or prod(user_extents) > prod(fill_extents))


def _buffers_of(stage: Stage) -> Iterator[str]:
    """Buffers that a stage, or a stage nested in it, uses."""
    if isinstance(stage, Repeat):
        for inner in stage.stages:
            yield from _buffers_of(inner)
    elif isinstance(stage, HostRead):
        yield stage.buffer
    else:
        yield from stage.buffers


def _replace_body(program: Program, kernel: Op, expanded: Program) -> None:
    """Put the body of `expanded`, whose bound buffers are the kernel's roles, in place of the kernel."""
    new_names = dict(zip([b.name for b in expanded.bound_buffers], kernel.attrs["buffers"], strict=True))
    for name, buffer in expanded.buffers.items():
        if name not in new_names:  # workgroup memory of the kernel
            new_names[name] = buffer.name = fresh_name(name, program.buffers)
            buffer.loc = kernel.loc
            program.buffers[buffer.name] = buffer
    for op in expanded.walk():
        op.loc = kernel.loc
        if "buffer" in op.attrs:
            op.attrs = {**op.attrs, "buffer": new_names[op.attrs["buffer"]]}
    position = program.body.ops.index(kernel)
    program.body.ops[position : position + 1] = expanded.body.ops
    program.workgroup = expanded.workgroup


def _set_location(program: Program, loc: Location | None) -> Program:
    """Give a program, its ops and its buffers one location."""
    program.loc = loc
    for op in program.walk():
        op.loc = loc
    for buffer in program.buffers.values():
        buffer.loc = loc
    return program
