"""Launches of a plan in the form that is best for the lengths of a call (see scheduling/launch_forms).

Passes choose such forms for launches of a text whose grids are numbers.  A call has all numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from ..execution.plans.call_plan import CallPlan
from ..execution.plans.steps import AnyStep, FormDecision, LaunchStep, RepeatStep
from ..execution.target import Target
from ..ir.diagnostics import Location
from ..ir.ops import SUBGROUP_SIZE
from ..ir.program import Buffer, Dim3, Module, Program, Shape
from ..ir.shapes import has_slices
from ..worker import import_module
from .pass_pipeline import PassPipeline

if TYPE_CHECKING:
    from ..scheduling.launch_forms import LaunchForms, LaunchSite, Rewritten
    from ..slices.row_lengths import Bounds, Row
    from .slice_lengths import SliceLengths

__all__ = ["LaunchRewrites"]


class LaunchRewrites:
    """Rewrites the launches of a module's programs, each program once; those of `scheduled` have a schedule, and stay.

    `of_slices`: the passes of programs with slices, see slice_lengths; `on_ref`: whether the interpreter runs what they make, too.
    """

    def __init__(
        self,
        module: Module,
        scheduled: Collection[str] = (),
        of_slices: PassPipeline | None = None,
        on_ref: bool = False,
    ) -> None:
        self._programs = {each for name, each in module.programs.items() if name not in scheduled}
        self._module, self._of_slices_pipeline = module, of_slices
        self._on_ref = on_ref

    # what rewrites is imported where there is something to rewrite: of most programs for the cpu there is nothing

    @cached_property
    def _forms(self) -> LaunchForms:
        import_module("vyre_opt.scheduling.launch_forms")
        from ..scheduling.launch_forms import LaunchForms

        return LaunchForms()

    @cached_property
    def _slices(self) -> SliceLengths:
        import_module("vyre_opt.driver.slice_lengths")
        from .slice_lengths import SliceLengths

        return SliceLengths(self._module, self._of_slices_pipeline)

    def lowered_slices(
        self, program: Program, shapes: Mapping[str, Shape] | None, schedules: str
    ) -> Program | None:
        """A program for rows as long as those of `shapes` over any grid, or of None for rows of any length, where it can be; see
        slice_lengths."""
        if shapes is None:
            return self._slices.of_class(program, {}, schedules)
        return self._slices.of_rows(program, shapes, schedules)

    def lowered_class(
        self, program: Program, shapes: Mapping[str, Shape], schedules: str
    ) -> tuple[Program | None, Mapping[Row, Bounds]]:
        """The same for rows of the classes that the lengths of `shapes` are in, and these classes."""
        return self._slices.of_classes(program, shapes, schedules)

    def of(self, call: CallPlan, target: Target) -> CallPlan:
        """The call for a GPU or the cpu; others stay as they are, but for what `on_ref` says."""
        if not target.architecture and target.name != "cpu" and not (self._on_ref and target.name == "ref"):
            return call
        steps = self._steps(call.plan.steps, call.plan.buffers, target)
        return replace(call, plan=replace(call.plan, steps=steps))

    def _steps(
        self, steps: Sequence[AnyStep], buffers: Mapping[str, Buffer], target: Target
    ) -> list[AnyStep]:
        made: list[AnyStep] = []
        for step in steps:
            if isinstance(step, RepeatStep):
                step = RepeatStep(step.times, self._steps(step.steps, buffers, target))
            elif isinstance(step, LaunchStep) and step.program in self._programs:
                step = self._of_slices(step, buffers, target)
                original = step
                if target.architecture:
                    step = _rewritten(step, self._forms.hoisted(step.program))
                    step = self._coarse(step, buffers, target)
                if target.name != "ref":
                    step = self._counting(step, buffers, target)
                if target.architecture:
                    step = _rewritten(step, self._forms.carried(step.program))
                    step = self._batched(step, buffers)
                    step = self._narrow(step, buffers, target)
                if target.architecture or (target.name == "cpu" and step.program.lanes < SUBGROUP_SIZE):
                    step = self._wide(step, buffers, target)
                if step.program is not original.program:
                    step = replace(step, original=original)
            made.append(step)
        return made

    def _of_slices(self, step: LaunchStep, buffers: Mapping[str, Buffer], target: Target) -> LaunchStep:
        if not has_slices(step.program):
            return step
        lowered = self._slices.of(step.program, _shapes(step, buffers), step.grid, target.schedules)
        if lowered is None:
            return step
        shared = f", and {lowered.cluster} share a row" if lowered.cluster else ""
        step = replace(step, program=lowered, grid=step.grid if lowered.grid is None else lowered.grid)
        return _decided(
            step, "applied", f"a workgroup has {lowered.lanes} invocations for its slices{shared}"
        )

    def _coarse(self, step: LaunchStep, buffers: Mapping[str, Buffer], target: Target) -> LaunchStep:
        if target.bounds == "clamp":  # an index of a vector would be clamped as a whole
            return _decided(step, "refused", "accesses out of bounds are moved into them, each by itself")
        from ..analysis.refusal import Refusal

        coarse = self._forms.coarse(_site(step, buffers, target), step.grid)
        if isinstance(coarse, Refusal):
            return _decided(step, "refused", f"stays as written: {coarse.message}", coarse.loc)
        relaunched = _relaunched(step, coarse.vectorized, coarse.by.grid(step.grid))
        step = replace(relaunched, neighbours=coarse.by)
        return _decided(step, "applied", f"{coarse.by} invocations are one")

    def _batched(self, step: LaunchStep, buffers: Mapping[str, Buffer]) -> LaunchStep:
        workgroups = step.grid[0] if step.takes_turns else None
        return _rewritten(step, self._forms.batched(step.program, _shapes(step, buffers), workgroups))

    def _narrow(self, step: LaunchStep, buffers: Mapping[str, Buffer], target: Target) -> LaunchStep:
        narrow = self._forms.narrow(_site(step, buffers, target), step.grid)
        if narrow is None:
            return step
        step = replace(step, program=narrow.program, grid=(narrow.workgroups, *step.grid[1:]))
        lanes = narrow.program.lanes
        return _decided(step, "applied", f"workgroups are of {lanes} invocations, for all multiprocessors")

    def _wide(self, step: LaunchStep, buffers: Mapping[str, Buffer], target: Target) -> LaunchStep:
        wide = self._forms.wide(_site(step, buffers, target), step.grid)
        if wide is None:
            return step
        grid = (-(-step.grid[0] // wide.by), *step.grid[1:])
        message = f"{wide.by} workgroups of {step.program.lanes} invocations are one"
        return _decided(_relaunched(step, wide.program, grid), "applied", message)

    def _counting(self, step: LaunchStep, buffers: Mapping[str, Buffer], target: Target) -> LaunchStep:
        if not any("atomic" in op.definition.effects for op in step.program.walk()):
            return step
        from ..analysis.refusal import Refusal

        counting = self._forms.counting(_site(step, buffers, target), step.grid)
        if counting is None:
            return step
        if isinstance(counting, Refusal):
            return _decided(step, "refused", f"counts in storage: {counting.message}", counting.loc)
        relaunched = _relaunched(step, counting.program, (counting.workgroups, 1, 1))
        step = replace(relaunched, takes_turns=True)
        return _decided(
            step, "applied", f"{counting.workgroups} workgroups take turns, and count for themselves"
        )


def _rewritten(step: LaunchStep, form: Rewritten) -> LaunchStep:
    for kind, message, loc in form.remarks:
        step = _decided(step, kind, message, loc)
    return replace(step, program=form.program)


def _decided(step: LaunchStep, kind: str, message: str, loc: Location | None = None) -> LaunchStep:
    return replace(step, decisions=(*step.decisions, FormDecision(kind, message, loc)))


def _site(step: LaunchStep, buffers: Mapping[str, Buffer], target: Target) -> LaunchSite:
    import_module("vyre_opt.scheduling.launch_forms")
    from ..fusion.group_count import GroupCount
    from ..scheduling.launch_forms import LaunchSite

    shapes, on_gpu = _shapes(step, buffers), bool(target.architecture)
    counts = GroupCount(None, {}), GroupCount(None, {}, "y")
    return LaunchSite(step.program, shapes, counts, target.workers, on_gpu, step.neighbours.count)


def _shapes(step: LaunchStep, buffers: Mapping[str, Buffer]) -> dict[str, Shape]:
    """Shapes of the program's bound buffers."""
    names = zip(step.program.bound_buffers, step.buffers, strict=True)
    return {formal.name: buffers[name].shape for formal, name in names}


def _relaunched(step: LaunchStep, program: Program, grid: Dim3) -> LaunchStep:
    """The launch over another grid, of a program that is told how many workgroups there were."""
    from ..fusion.group_count import groups_param

    told = {groups_param(step.program, axis): count for axis, count in zip("xy", step.grid, strict=False)}
    return step.relaunched(
        program, grid, {name: count for name, count in told.items() if name in program.params}
    )
