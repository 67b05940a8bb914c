"""Expansion: a named kernel becomes the program that does it, at a schedule for the target.

A kernel that is a program's body is replaced in place: the program keeps its name, its
buffers and its callers' freedom of grid (the schedule is one that is right for any), and
gets the schedule's workgroup.  A kernel that is a stage of a pipeline becomes a program of
the module and a launch of it over just the grid that its sizes need.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..ir.builder import Builder
from ..ir.ops import NAMED_KERNELS
from ..ir.pipeline import KernelStage, Launch, Pipeline, Repeat, Stage
from ..ir.program import AccessMode, Buffer, Module, Op, Program
from ..kernels.expansion import EXPANSIONS, Expansion, Request, expand
from .manager import Context
from .registry import Pass, register

MAX_GRID = 2**31 - 1


@dataclass(frozen=True)
class ExpandOptions:
    """`target`: what schedules are chosen for (`cpu`, `sm_90`); empty takes the pipeline's target."""

    target: str = ""


@register
class ExpandKernels(Pass):
    name = "expand_kernels"
    summary = "Replace named kernels by the programs that do them, at a schedule."
    invalidates = ("decode_scan_fuse", "inline")
    Options = ExpandOptions

    def run(self, module: Module, ctx: Context) -> bool:
        work = _Expander(module, ctx, self.options.target or ctx.target)
        for program in list(module.programs.values()):
            work.program(program)
        for pipeline in module.pipelines.values():
            work.pipeline(pipeline)
        ctx.count("kernels expanded", work.expanded)
        return work.expanded > 0


class _Expander:
    def __init__(self, module: Module, ctx: Context, target: str) -> None:
        self.module, self.ctx, self.target = module, ctx, target
        self.expanded = 0
        self.made: dict[Any, tuple[Program, Expansion]] = {}
        """The programs made for stages, so that equal stages launch one."""
        self.scratch: dict[tuple[str, str, str], str] = {}
        """The buffers of equal stages of a pipeline: one serves all, since each launch finds it cleared."""

    # --- programs -------------------------------------------------------------------------

    def program(self, program: Program) -> None:
        op = next((o for o in program.body.ops if o.definition.kernel is not None), None)
        if op is None:
            return
        buffers = [program.buffers[name] for name in op.attrs["buffers"]]
        made = self.choose(op.name, buffers, op.attrs["params"], op, owns_grid=False)
        if made is None:
            return
        _become(program, op, made.program)
        grid = "the grid that the caller gives" if made.grid is None else f"any grid, best {made.grid}"
        self.applied(op.name, made, f"in @{program.name}, over {grid}", op, program=program.name)

    # --- pipelines -------------------------------------------------------------------------

    def pipeline(self, pipeline: Pipeline) -> None:
        pipeline.stages = self.stages(pipeline, pipeline.stages)

    def stages(self, pipeline: Pipeline, given: list[Stage]) -> list[Stage]:
        made: list[Stage] = []
        for stage in given:
            if isinstance(stage, Repeat):
                stage.stages = self.stages(pipeline, stage.stages)
            launches = self.stage(pipeline, stage) if isinstance(stage, KernelStage) else None
            made += [stage] if launches is None else launches
        return made

    def stage(self, pipeline: Pipeline, stage: KernelStage) -> list[Stage] | None:
        """The launches that do a stage; None where it stays."""
        buffers = [pipeline.buffers[name] for name in stage.buffers]
        key = (
            stage.kernel,
            tuple((b.dtype, b.count) for b in buffers),
            tuple(sorted(stage.attrs.items())),
        )
        known = self.made.get(key)
        open_sizes = [b for b in buffers if b.count is None]
        if open_sizes:
            names = ", ".join(f"@{b.name}" for b in open_sizes)
            self.refused(stage.kernel, f"its grid depends on {names}, of open size; give a count", stage)
            return None
        made = self.choose(stage.kernel, buffers, stage.attrs, stage, owns_grid=True, known=known)
        if made is None:
            return None
        assert made.grid is not None
        if not 1 <= made.grid <= MAX_GRID:
            self.refused(stage.kernel, f"it needs {made.grid} workgroups, more than {MAX_GRID}", stage)
            return None
        program = known[0] if known else self.add_program(stage, made, buffers)
        self.made[key] = (program, made)
        launches: list[Stage] = []
        extra = []
        for buffer in program.bound_buffers[len(buffers) :]:
            assert made.scratch is not None
            use = (pipeline.name, program.name, buffer.name)
            name = self.scratch.get(use) or _fresh(f"{program.name}_{buffer.name}", pipeline.buffers)
            if use not in self.scratch:
                self.scratch[use] = name
                pipeline.buffers[name] = Buffer(
                    name, buffer.dtype, made.scratch[buffer.name], None, loc=stage.loc
                )
            clear = self.clearing(buffer)
            blocks = -(-made.scratch[buffer.name] // clear.lanes)
            launches.append(Launch(clear.name, (blocks, 1, 1), (name,), stage.loc))
            extra.append(name)
        launches.append(Launch(program.name, (made.grid, 1, 1), (*stage.buffers, *extra), stage.loc))
        self.applied(stage.kernel, made, f"as @{program.name} over {made.grid} workgroups", stage)
        return launches

    def add_program(self, stage: KernelStage, made: Expansion, buffers: Iterable[Buffer]) -> Program:
        program = made.program
        program.name = _fresh(stage.kernel.replace(".", "_"), self.module.programs)
        program.loc = stage.loc
        for op in program.walk():
            op.loc = stage.loc
        for formal, actual in zip(program.bound_buffers, buffers, strict=False):
            formal.count = actual.count
        self.put_before_pipelines(program)
        return program

    def clearing(self, buffer: Buffer) -> Program:
        """The program that fills a buffer of some type with zeros."""
        key = ("clear", buffer.dtype)
        if key not in self.made:
            program = _clear(_fresh(f"clear_{buffer.dtype}", self.module.programs), buffer)
            self.put_before_pipelines(program)
            self.made[key] = (program, Expansion(program, None, None))
        return self.made[key][0]

    def put_before_pipelines(self, program: Program) -> None:
        """Programs stand before the pipelines that launch them."""
        self.module.add(program)
        order = self.module.order
        first = next(i for i, item in enumerate(order) if isinstance(item, Pipeline))
        order.insert(first, order.pop())

    # --- both ------------------------------------------------------------------------------

    def choose(
        self,
        kernel: str,
        buffers: list[Buffer],
        given: Mapping[str, int],
        where: Op | KernelStage,
        *,
        owns_grid: bool,
        known: tuple[Program, Expansion] | None = None,
    ) -> Expansion | None:
        """The expansion, or None after a remark that says why there is none."""
        row = NAMED_KERNELS[kernel]
        if kernel not in EXPANSIONS:
            self.refused(kernel, "no program for it is known", where)
            return None
        written = {
            b.name for b, role in zip(buffers, row.roles, strict=True) if role.access is not AccessMode.READ
        }
        names = [b.name for b in buffers]
        twice = next((name for name in names if name in written and names.count(name) > 1), None)
        if twice is not None:
            self.refused(kernel, f"it would read @{twice} while it writes it", where)
            return None
        if known is not None:
            return known[1]
        try:
            return expand(
                Request(
                    kernel,
                    buffers,
                    row.semantic_params(given),
                    self.target,
                    owns_grid,
                    row.schedule_params(given),
                )
            )
        except ValueError as wrong:
            self.refused(kernel, str(wrong), where)
            return None

    def applied(self, kernel: str, made: Expansion, how: str, where: Op | KernelStage, **facts: Any) -> None:
        schedule = asdict(made.schedule)
        shown = ", ".join(f"{name}={value}" for name, value in schedule.items())
        message = f"{kernel} is expanded {how} ({shown})"
        self.ctx.remark(
            "applied", message, where.loc, kernel=kernel, schedule=schedule, grid=made.grid, **facts
        )
        self.expanded += 1

    def refused(self, kernel: str, why: str, where: Op | KernelStage) -> None:
        self.ctx.remark("refused", f"{kernel} is not expanded: {why}", where.loc, kernel=kernel)


def _become(program: Program, kernel: Op, made: Program) -> None:
    """Give `program` the body of `made`, whose roles are the kernel's buffers."""
    renamed = dict(zip([b.name for b in made.bound_buffers], kernel.attrs["buffers"], strict=True))
    for name, buffer in made.buffers.items():
        if name not in renamed:
            renamed[name] = buffer.name = _fresh(name, program.buffers)
            buffer.loc = kernel.loc
            program.buffers[buffer.name] = buffer
    for op in made.walk():
        op.loc = kernel.loc
        if "buffer" in op.attrs:
            op.attrs = {**op.attrs, "buffer": renamed[op.attrs["buffer"]]}
    place = program.body.ops.index(kernel)
    program.body.ops[place : place + 1] = made.body.ops
    program.workgroup = made.workgroup


def _fresh(name: str, taken: Mapping[str, Any]) -> str:
    number, found = 0, name
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found


def _clear(name: str, like: Buffer) -> Program:
    b = Builder(name, workgroup=256)
    words = b.buffer("words", like.dtype, None, "write", 0, live_out=True)
    place = b.global_id("x")
    with b.if_(b.lt(place, b.len(words))):
        b.store(0, words, place)
    return b.finish()
