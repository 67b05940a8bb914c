"""Launches of a plan in the form that is best for the lengths of a call (see scheduling/launch_forms).

Passes choose such forms for launches of a text whose grids are numbers.  A call has all numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from ..execution.plans.call_plan import CallPlan
from ..execution.plans.steps import AnyStep, LaunchStep, RepeatStep
from ..execution.target import Target
from ..fusion.group_count import GroupCount, groups_param
from ..ir.program import Buffer, Dim3, Module, Program, Shape
from ..scheduling.launch_forms import Coarse, Counting, LaunchForms, LaunchSite

__all__ = ["LaunchRewrites"]

_AS_PARAMS = (GroupCount(None, {}), GroupCount(None, {}, "y"))


class LaunchRewrites:
    """Rewrites the launches of a module's programs, each program once; those of `scheduled` have a schedule, and stay."""

    def __init__(self, module: Module, scheduled: Collection[str] = ()) -> None:
        self._programs = {each for name, each in module.programs.items() if name not in scheduled}
        self._forms = LaunchForms()

    def of(self, call: CallPlan, target: Target) -> CallPlan:
        """The call for a GPU or the cpu; others stay as they are."""
        if not target.architecture and target.name != "cpu":
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
                # an index of a vector would be clamped as a whole
                if target.architecture and target.bounds != "clamp":
                    step = self._coarse(step, buffers, target)
                if target.architecture:
                    step = replace(step, program=self._forms.batched(step.program, _shapes(step, buffers)))
                step = self._counting(step, buffers, target)
            made.append(step)
        return made

    def _coarse(self, step: LaunchStep, buffers: Mapping[str, Buffer], target: Target) -> LaunchStep:
        coarse = self._forms.coarse(_site(step, buffers, target), step.grid)
        if not isinstance(coarse, Coarse):
            return step
        grid = coarse.by.grid(step.grid)
        return replace(_relaunched(step, coarse.vectorized, grid), neighbours=coarse.by)

    def _counting(self, step: LaunchStep, buffers: Mapping[str, Buffer], target: Target) -> LaunchStep:
        counting = self._forms.counting(_site(step, buffers, target), step.grid)
        if not isinstance(counting, Counting):
            return step
        grid = (counting.workgroups, 1, 1)
        return replace(_relaunched(step, counting.program, grid), takes_turns=True)


def _site(step: LaunchStep, buffers: Mapping[str, Buffer], target: Target) -> LaunchSite:
    shapes, on_gpu = _shapes(step, buffers), bool(target.architecture)
    return LaunchSite(step.program, shapes, _AS_PARAMS, target.workers, on_gpu, step.neighbours.count)


def _shapes(step: LaunchStep, buffers: Mapping[str, Buffer]) -> dict[str, Shape]:
    """Of the program's bound buffers."""
    names = zip(step.program.bound_buffers, step.buffers, strict=True)
    return {formal.name: buffers[name].shape for formal, name in names}


def _relaunched(step: LaunchStep, program: Program, grid: Dim3) -> LaunchStep:
    """The launch over another grid, of a program that is told how many workgroups there were."""
    words = dict(zip(sorted(step.program.params), step.params, strict=True))
    told = {groups_param(step.program, axis): count for axis, count in zip("xy", step.grid, strict=False)}
    words |= {name: count for name, count in told.items() if name in program.params}
    params = tuple(words[name] for name in sorted(words))
    return replace(step, program=program, grid=grid, params=params)
