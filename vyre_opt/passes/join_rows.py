"""Launches whose workgroups each work on a row of their own become one, and hand their rows over in registers.

    launch @norm grid(n) (@x, @mid)           launch @norm_then_bias grid(n) (@x, @w, @mid, @y)
    launch @bias grid(n) (@mid, @w, @y)  ->     slice_store %normed, @mid[%r, 0]
                                                %row = %normed

A program with slices describes one workgroup, in order.  So two bodies over one grid may be concatenated if no workgroup
sees what another one writes: in each buffer that both use and one writes, both touch only the row with the workgroup's
number.  launch_fusion could join them later, but then a row is spread over invocations, under guards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..analysis.equal_lengths import equal_lengths, length_numbers, lengths_by_size
from ..analysis.launch_flow import BufferStages, LaunchDataflow, launch_runs
from ..fusion.bound_program import BoundPrograms
from ..fusion.group_legality import LaunchNode, launch_node
from ..fusion.join import JoinPlan, join, joined_name
from ..fusion.pair_legality import static_grid
from ..fusion.veto import veto_of
from ..ir.diagnostics import DiagnosticError
from ..ir.pipeline import Launch, Pipeline, Repeat, Stage
from ..ir.program import Module, Op, Program
from ..ir.shapes import has_slices
from ..scheduling.relaunch import launched_programs, remove_unlaunched
from ..slices.forwarding import forward_slices
from ..slices.lowering import lower_slices
from ..slices.schedule import slice_schedule
from .manager import PassContext
from .registry import Pass, register


@register
class JoinRows(Pass):
    name = "join_rows"
    summary = "Join launches whose workgroups work on rows of their own, and hand rows over in registers."

    def run(self, module: Module, ctx: PassContext) -> bool:
        programs, join_count = launched_programs(module), 0
        for pipeline in module.pipelines.values():
            join_count += _Joiner(module, pipeline, ctx).run()
        if join_count:
            remove_unlaunched(module, programs)
        ctx.count("launches joined", join_count)
        return join_count > 0


class _Group:
    """Launches that become one.  `foreign`: buffer -> program of a launch that touches rows
    of other workgroups in it."""

    def __init__(self, first: LaunchNode) -> None:
        self.nodes: list[LaunchNode] = []
        self.reads: set[str] = set()
        self.writes: set[str] = set()
        self.foreign: dict[str, str] = {}
        self.add(first)

    def add(self, node: LaunchNode) -> None:
        self.nodes.append(node)
        self.reads |= node.reads
        self.writes |= node.writes
        for name in _foreign_row_buffers(node):
            self.foreign.setdefault(name, node.launch.program)


class _Joiner:
    def __init__(self, module: Module, pipeline: Pipeline, ctx: PassContext) -> None:
        self.module, self.pipeline, self.ctx = module, pipeline, ctx
        self.sizes, self.programs = lengths_by_size(pipeline), BoundPrograms()

    def run(self) -> int:
        if not any(has_slices(self.module.programs[name]) for name in _launched_names(self.pipeline)):
            return 0
        uses = self.ctx.analyses.get(LaunchDataflow, self.module).uses(self.pipeline)
        absorbed_ids: set[int] = set()
        for run in launch_runs(self.pipeline.stages):
            names = ", ".join(f"@{launch.program}" for launch in run.launches)
            self.ctx.debug(
                "in @{}, launches in a row: {}", self.pipeline.name, names, loc=run.launches[0].loc
            )
            first, *later = (
                launch_node(self.module, launch, uses.lengths, self.sizes, self.programs)
                for launch in run.launches
            )
            group = _Group(first)
            for node in later:
                if self.may_join(group, node):
                    group.add(node)
                else:
                    self.join(group.nodes, uses, absorbed_ids)
                    group = _Group(node)
            self.join(group.nodes, uses, absorbed_ids)
        self.pipeline.stages = _without(self.pipeline.stages, absorbed_ids)
        return len(absorbed_ids)

    def may_join(self, group: _Group, later: LaunchNode) -> bool:
        """Whether a launch may follow others in one program; a remark says why not."""
        reason = _refusal(group, later)
        if reason is not None and has_slices(later.member.program):
            first = group.nodes[-1].launch.program
            message = f"@{later.launch.program} is not joined with @{first}: {reason}"
            self.ctx.remark("refused", message, later.launch.loc, pipeline=self.pipeline.name)
        return reason is None

    def join(self, group: Sequence[LaunchNode], uses: BufferStages, absorbed_ids: set[int]) -> None:
        if len(group) < 2:
            return
        launches = [node.launch for node in group]
        names = [*dict.fromkeys(name for node in group for name in node.member.buffers)]
        escaping = uses.escaping(launches)
        private = tuple(name for name in names if name not in escaping and _is_written_first(group, name))
        permanent = {name: name for name in names if name not in private}
        equal = equal_lengths(
            length_numbers(self.pipeline), {**permanent, **{name: name for name in private}}
        )
        plan = JoinPlan(
            tuple(node.member for node in group),
            tuple(sorted(uses.lengths.items())),
            static_grid(group[0].grid),
            frozenset(),
            initialized=private,
            private=private,
            equal=tuple(equal.items()),
        )
        program = join(joined_name(plan.members, self.module.programs), plan)
        has_forwarded = forward_slices(program)
        first = launches[0]
        listing = ", ".join(f"@{launch.program}" for launch in launches)
        problem = _lowering_error(program)
        if problem is not None:
            message = f"{len(launches)} launches ({listing}) stay: in one program {problem}"
            self.ctx.remark("refused", message, first.loc, pipeline=self.pipeline.name)
            return
        self.module.add_before_pipelines(program)
        in_registers = ", with what they hand over in registers" if has_forwarded else ""
        message = f"{len(launches)} launches ({listing}) become one of @{program.name}{in_registers}: each works on the row of its workgroup"
        self.ctx.remark("applied", message, first.loc, pipeline=self.pipeline.name)
        veto = veto_of(first)
        first.members = tuple(replace(launch) for launch in launches)
        first.program, first.notes = program.name, veto.notes if veto is not None else {}
        first.buffers = tuple(names)
        first.params = {name: name for name in program.params}
        absorbed_ids.update(map(id, launches[1:]))


def _refusal(group: _Group, later: LaunchNode) -> str | None:
    last = group.nodes[-1]
    ends = last.member.program, later.member.program  # earlier members were compared when they were added
    if not all(map(has_slices, ends)):
        return "one of them has no slices"
    if veto_of(later.launch) is not None:
        return "its notes say so"
    if later.sized_grid != last.sized_grid or later.sized_grid[1:] != (1, 1):
        return "their grids are not one of rows"
    if any("print" in op.definition.effects for program in ends for op in program.walk()):
        return "one of them prints"
    foreign = dict.fromkeys(_foreign_row_buffers(later), later.launch.program) | group.foreign
    conflicts = (group.writes & (later.reads | later.writes)) | (group.reads & later.writes)
    for name in sorted(conflicts & foreign.keys()):
        return f"@{foreign[name]} touches other rows of @{name} than that of its workgroup"
    return None


def _foreign_row_buffers(node: LaunchNode) -> set[str]:
    """Buffers in which a launch touches rows other than those of its workgroups."""
    program = node.member.program
    return {actual for formal, actual in node.member.bindings if not _touches_own_row(program, formal.name)}


def _lowering_error(program: Program) -> str | None:
    """Why the slices of a joined program cannot be lowered, although those of its parts may be; None if they can."""
    try:
        lower_slices(program, slice_schedule(program))
    except DiagnosticError as error:
        return error.diagnostics[0].message
    return None


def _launched_names(pipeline: Pipeline) -> list[str]:
    return [stage.program for stage in pipeline.walk() if isinstance(stage, Launch)]


def _is_row(op: Op) -> bool:
    return op.name in ("workgroup_id", "global_id") and op.attrs["axis"] == "x"


def _touches_own_row(program: Program, name: str) -> bool:
    """Whether each workgroup touches only its own row of a buffer, or its own element if that has one dimension."""
    dimensions = program.buffers[name].dimensions
    for op in program.walk():
        if op.attrs.get("buffer") != name or op.name == "len":
            continue
        index, value = op.indices[0], op.result if op.results else op.operands[0]
        if (
            not isinstance(index.owner, Op)
            or not _is_row(index.owner)
            or len(value.type.extents) >= dimensions
        ):
            return False
    return True


def _is_written_first(group: Sequence[LaunchNode], name: str) -> bool:
    """Whether a launch writes a whole row of a buffer before any reads it."""
    for node in group:
        for formal, actual in node.member.bindings:
            if actual != name:
                continue
            first = next(
                op
                for op in node.member.program.walk()
                if op.attrs.get("buffer") == formal.name and op.name != "len"
            )
            is_whole = first.name == "slice_store" and first.attrs["edge"] == "checked"
            return (
                is_whole and first in node.member.program.body.ops and None in first.operands[0].type.extents
            )
    return False


def _without(stages: Sequence[Stage], absorbed_ids: set[int]) -> list[Stage]:
    remaining = [stage for stage in stages if id(stage) not in absorbed_ids]
    for stage in remaining:
        if isinstance(stage, Repeat):
            stage.stages = _without(stage.stages, absorbed_ids)
    return remaining
