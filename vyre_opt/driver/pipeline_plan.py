"""The plan of a pipeline for given lengths: launches with their grids, all checked before any runs.

stages of the text                         steps of the plan
decode.base64(@text, @bytes)               LaunchStep @decode_base64 over 16 workgroups
repeat 3 { launch @p grid(len(@x)) (@x) }  RepeatStep 3 times: LaunchStep @p over 4096 workgroups
host_read @bytes                           HostReadStep @bytes
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..execution.arrays import storage_type
from ..execution.dispatcher import BackendError, BadInputs, BadLaunch
from ..execution.params import launch_words
from ..execution.plans.steps import (
    AnyStep,
    HostReadStep,
    LaunchStep,
    PipelinePlan,
    RepeatStep,
    is_returned,
    steps_of,
)
from ..ir.diagnostics import Diagnostic, spelling_at, written_name
from ..ir.grids import MAX_LENGTH, GridError, length_key, show_values
from ..ir.pipeline import Fill, HostRead, KernelStage, Launch, Pipeline, Repeat, Stage
from ..ir.program import MAX_GRID, MAX_INVOCATIONS, Block, Buffer, Module, Op, Program
from ..ir.shapes import passed_shape, shapes_differ, show_shape
from ..ir.types import with_article
from ..worker import import_module

__all__ = ["make_plan"]

MAX_ERRORS = 20


def make_plan(
    module: Module, pipeline: Pipeline, lengths: Mapping[str, int], target: str, expands: bool
) -> PipelinePlan:
    """The plan of a pipeline of a verified module, neither of which is changed.

    `lengths`: the number of elements of each buffer of open size; others may be there, too, and the values of params
    that grids use, by "@name".  `target`: what
    schedules are chosen for.  `expands`: whether named kernels are expanded to programs; if not, they become
    programs of the kernel op itself, which only the interpreter runs.

    Raises BadLaunch for everything that does not fit, BadInputs for a length that is missing.
    """
    bound = _with_counts(module, pipeline, lengths)
    for buffer in bound.pipelines[pipeline.name].buffers.values():
        if storage_type(buffer.dtype) is None:
            raise BackendError(
                f"pipeline @{pipeline.name}: buffer @{buffer.name}: no array holds {buffer.dtype}"
            )
    if any(isinstance(stage, KernelStage | Fill) for stage in pipeline.walk()):
        _expand(bound, pipeline.name, target, native=not expands)
        if not expands:
            owner = bound.pipelines[pipeline.name]
            owner.stages = _launches_of(bound, owner, owner.stages)
    planned = bound.pipelines[pipeline.name]
    known = {
        **planned.static_lengths,
        **{name: value for name, value in lengths.items() if name.startswith("@")},
    }
    _check(bound, planned, known)
    steps = _steps(bound, known, planned.stages)
    flat = list(steps_of(steps))
    written = frozenset(name for step in flat if isinstance(step, LaunchStep) for name in step.written)
    host_read = {step.buffer for step in flat if isinstance(step, HostReadStep)}
    outputs = [b for b in planned.buffers.values() if is_returned(b) or b.name in host_read]
    _mark_final_reads(steps)
    return PipelinePlan(planned, bound, steps, written, outputs)


# --- lengths and kernels


def _with_counts(module: Module, pipeline: Pipeline, lengths: Mapping[str, int]) -> Module:
    """The module with a copy of the pipeline, in which all buffers have counts."""
    buffers = {}
    for name, buffer in pipeline.buffers.items():
        keys = [length_key(name, number) for number in range(buffer.dimensions)]
        if buffer.dimensions == 1:
            keys = [name]
        shape = tuple(lengths.get(key, extent) for key, extent in zip(keys, buffer.shape, strict=True))
        if None in shape:
            raise BadInputs(f"pipeline @{pipeline.name}: nothing says how long @{name} is")
        buffers[name] = replace(buffer, shape=shape, sizes=())
    copy = replace(pipeline, buffers=buffers, stages=_copy_stages(pipeline, buffers, pipeline.stages))
    result = Module(source=module.source, version=module.version)
    for item in module.order:
        result.add(copy if item is pipeline else item)
    return result


def _copy_stages(pipeline: Pipeline, buffers: Mapping[str, Buffer], stages: list[Stage]) -> list[Stage]:
    """The stages, with repeats copied, since an expansion replaces stages inside of them, and the parameters of kernels
    that extents say.  Raises BadLaunch where an extent contradicts one."""
    result: list[Stage] = []
    for stage in stages:
        if isinstance(stage, Repeat):
            stage = Repeat(stage.times, _copy_stages(pipeline, buffers, stage.stages), stage.loc)
        elif isinstance(stage, KernelStage):
            stage = replace(stage, attrs=_complete_attributes(pipeline, buffers, stage))
        result.append(stage)
    return result


def _complete_attributes(
    pipeline: Pipeline, buffers: Mapping[str, Buffer], stage: KernelStage
) -> dict[str, Any]:
    """The parameters of a kernel, with those that extents say.  Raises BadLaunch."""
    import_module("vyre_opt.ir.kernel_rules")
    from ..ir.kernel_rules import MisfitError, complete_params
    from ..ir.ops import NAMED_KERNELS

    kernel = NAMED_KERNELS[stage.kernel]
    try:
        return complete_params(kernel, [buffers[name] for name in stage.buffers], stage.attrs)
    except MisfitError as error:
        message = f"pipeline @{pipeline.name}: {stage.kernel}: {error}"
        raise BadLaunch([Diagnostic("error", message, stage.loc, help=error.help)]) from None


def _expand(module: Module, name: str, target: str, native: bool) -> None:
    """Replace kernel stages by launches; with `native` only those of other packages.  Raises BadLaunch.

    Programs of kernels have buffers of one dimension, so they are launched on all elements of those that have several.
    """
    from ..kernels.expansion import is_of_plugin
    from ..passes.manager import PassManager

    buffers = module.pipelines[name].buffers
    used = [
        n for stage in module.pipelines[name].walk() if isinstance(stage, KernelStage) for n in stage.buffers
    ]
    shaped = {used_name: buffers[used_name] for used_name in used}
    buffers.update(
        {used_name: replace(buffer, shape=(buffer.count,)) for used_name, buffer in shaped.items()}
    )
    expansion = f"expand_kernels{{counts=false native={str(native).lower()}}}"
    result = PassManager(expansion, target=target, verify_each=False).run(module)
    buffers.update(shaped)
    reasons = {id(remark.loc): remark.message for remark in result.remarks if remark.kind == "refused"}
    errors = [
        Diagnostic(
            "error",
            f"pipeline @{name}: {reasons.get(id(stage.loc), f'{stage.kernel} has no program')}",
            stage.loc,
            help=_help(stage),
        )
        for stage in module.pipelines[name].walk()
        if isinstance(stage, KernelStage) and (not native or is_of_plugin(stage.kernel))
    ]
    if errors:
        raise BadLaunch(errors[:MAX_ERRORS])


def _help(stage: KernelStage) -> str:
    fixed = [name for name in stage.attrs if name.startswith("schedule_")]
    if fixed:
        return f"leave out {', '.join(fixed)}, or choose others"
    return (
        f"give {', '.join('@' + b for b in stage.buffers)} counts and element types that {stage.kernel} takes"
    )


def _launches_of(module: Module, pipeline: Pipeline, stages: list[Stage]) -> list[Stage]:
    """The stages, with each kernel stage replaced by a launch of a program whose body is the kernel op."""
    result: list[Stage] = []
    for stage in stages:
        if isinstance(stage, Repeat):
            stage.stages = _launches_of(module, pipeline, stage.stages)
        if not isinstance(stage, KernelStage):
            result.append(stage)
            continue
        is_used = stage.kernel in module.programs
        name = f"{stage.kernel}.{len(module.order)}" if is_used else stage.kernel
        program = _program_of(stage, pipeline, name)
        module.add(program)
        result.append(Launch(program.name, (1, 1, 1), stage.buffers, stage.loc))
    return result


def _program_of(stage: KernelStage, pipeline: Pipeline, name: str) -> Program:
    """A program of one invocation whose body is the kernel op; its buffers are named for the kernel's roles."""
    from ..ir.ops import NAMED_KERNELS, OPS

    buffers: dict[str, Buffer] = {}
    for name_here, role in NAMED_KERNELS[stage.kernel].with_roles(stage.buffers):
        like = pipeline.buffers[name_here]
        buffers[role.name] = Buffer(
            role.name, like.dtype, like.shape, role.access, len(buffers), loc=like.loc
        )
    attrs = {"buffers": tuple(buffers), "params": stage.attrs}
    body = Block((), [Op(OPS[stage.kernel], attrs=attrs, loc=stage.loc)])
    return Program(name, (1, 1, 1), (1, 1, 1), buffers, body=body, loc=stage.loc)


# --- checks


def _check(module: Module, pipeline: Pipeline, counts: Mapping[str, int | None]) -> None:
    """Check that every launch has a valid grid, and buffers that fit its program.  Raises BadLaunch."""
    errors: list[Diagnostic] = []
    for stage in pipeline.walk():
        if isinstance(stage, Launch):
            errors += _grid_errors(stage, module.programs[stage.program], counts)
            errors += _count_errors(stage, module.programs[stage.program], pipeline)
            errors += _length_errors(stage, module.programs[stage.program], counts)
        if len(errors) >= MAX_ERRORS:
            break
    if errors:
        raise BadLaunch(errors[:MAX_ERRORS])


def _grid_errors(stage: Launch, program: Program, counts: Mapping[str, int | None]) -> Iterator[Diagnostic]:
    try:
        grid = stage.workgroups(counts)
    except GridError as error:
        message = f"the grid of @{program.name} has no value: {error}"
        yield _grid_error(stage, counts, message, "divide by a number that is never 0, such as max(1, ...)")
        return
    for axis, extent, lanes, limit in zip("xyz", grid, program.workgroup, MAX_GRID, strict=True):
        message = f"the grid of @{program.name} is {extent} along {axis}; "
        if extent < 0:
            message += "a grid has 0 or more workgroups"
            help = "write max(0, ...) around it, or pass buffers that are longer"
        elif extent > limit:
            message += f"it has at most {limit}"
            help = "use another axis too, or let each workgroup do more (a loop by global_size)"
        elif extent * lanes > MAX_INVOCATIONS:
            message = f"{extent} workgroups of {lanes} pass 2^32 invocations along {axis}"
            help = "let each invocation do more"
        else:
            continue
        yield _grid_error(stage, counts, message, help)
    if program.grid is not None and program.grid != grid:
        shown = ", ".join(map(str, program.grid))
        message = f"program @{program.name} fixes its grid to ({shown}), the launch has {grid}"
        yield _grid_error(
            stage, counts, message, f"write {spelling_at(stage.loc).grid(program.name, shown)}"
        ).note("fixed here", program.loc)


def _grid_error(stage: Launch, counts: Mapping[str, int | None], message: str, help: str) -> Diagnostic:
    return Diagnostic("error", message + show_values(stage.grid, counts), stage.loc, help=help)


def _count_errors(stage: Launch, program: Program, pipeline: Pipeline) -> Iterator[Diagnostic]:
    for name, formal in zip(stage.buffers, program.bound_buffers, strict=True):
        actual = pipeline.buffers[name]
        problem = shapes_differ(replace(actual, shape=passed_shape(actual, formal)), formal)
        if problem:
            where = stage.loc.find(f"@{name}") if stage.loc else None
            written = written_name(name, actual.loc)
            shown = f"@{name}"
            if written != name and actual.loc is not None:  # two of a function in Python have one name
                shown = f"the {written} of line {actual.loc.line}"
            yield Diagnostic(
                "error",
                f"{shown} {problem.replace(f'@{formal.name}', f'@{formal.name} of @{program.name}')}",
                where,
                help=_fitting(formal),
            ).note(f"@{formal.name} is declared here", formal.loc)


def _length_errors(stage: Launch, program: Program, counts: Mapping[str, int | None]) -> Iterator[Diagnostic]:
    """Lengths that a program takes in a type that is too small: it would compute with others."""
    passed = zip(program.bound_buffers, stage.buffers, strict=True)
    large = {formal.name: name for formal, name in passed if (counts[name] or 0) > MAX_LENGTH}
    if not large:
        return
    for op in program.walk():
        name = large.get(op.attrs["buffer"]) if op.name == "len" else None
        count = counts[name] if name is not None else None
        if count is not None and (op.result.type.bits or 0) <= 32:
            message = (
                f"@{name} has {count} elements, which @{program.name} takes as {with_article(op.result.type)}"
            )
            wide = spelling_at(op.loc).wide_length(op.attrs["buffer"])
            help = f"pass at most {MAX_LENGTH} elements, or {wide}"
            yield Diagnostic("error", message, stage.loc, help=help).note("taken here", op.loc)
            return


def _fitting(formal: Buffer) -> str:
    if formal.dimensions == 1:
        return f"make it {formal.count} elements, or declare @{formal.name} with the count ?"
    return f"make it {formal.dtype}[{show_shape(formal.shape)}], or declare extents of @{formal.name} as ?"


# --- steps


def _steps(module: Module, counts: Mapping[str, int | None], stages: list[Stage]) -> list[AnyStep]:
    """The steps of stages; a launch over a grid without workgroups is none."""
    steps: list[AnyStep] = []
    for stage in stages:
        if isinstance(stage, Launch):
            grid = stage.workgroups(counts)
            if 0 in grid:  # so no target meets such a launch
                continue
            program = module.programs[stage.program]
            steps.append(LaunchStep(stage, program, grid, stage.buffers, launch_words(stage, program)))
        elif isinstance(stage, HostRead):
            steps.append(HostReadStep(stage))
        elif isinstance(stage, Repeat):
            inner = _steps(module, counts, stage.stages)
            steps += inner if stage.times == 1 else [RepeatStep(stage.times, inner)] if inner else []
    return steps


def _mark_final_reads(steps: list[AnyStep]) -> None:
    """Set `is_final` of the host reads after which nothing writes the buffer.

    A read in a loop runs again after all writes of that loop, so the last write must be before the outermost
    loop around it.
    """
    last_write: dict[str, int] = {}
    starts: list[tuple[HostReadStep, int]] = []
    index = 0
    for top in steps:
        start = index
        for step in steps_of([top]):
            if isinstance(step, HostReadStep):
                starts.append((step, start))
            else:
                last_write.update(dict.fromkeys(step.written, index))
            index += 1
    for read, start in starts:
        read.is_final = last_write.get(read.buffer, -1) < start
