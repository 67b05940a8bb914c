"""Plans for a GPU in which an invocation does the work of several, so that each lane moves 16 bytes at a time.

Only where the loads and stores of neighbours become accesses of vectors, and where there are invocations enough for all
multiprocessors after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ..analysis.refusal import Refusal
from ..execution.plans.call_plan import CallPlan
from ..execution.plans.steps import AnyStep, LaunchStep, RepeatStep
from ..execution.target import Target
from ..fusion.coarsening import coarsen, groups_param
from ..ir.program import Module, Program
from ..passes.manager import PassManager

__all__ = ["Coarsening"]

VECTOR_BYTES = 16
"""Of the widest access of a lane."""
MOST = 8
"""Invocations that become one, at most."""
INVOCATIONS = 1024
"""Of a multiprocessor, at least, that a coarsened launch leaves: half of what it holds at a time."""


class Coarsening:
    """Coarsens the launches of a module's programs, each of which is rewritten once."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._known: dict[tuple[Program, int], Program | None] = {}

    def of(self, call: CallPlan, target: Target) -> CallPlan:
        """The call for a GPU; others stay as they are."""
        if not target.architecture:
            return call
        steps = self._steps(call.plan.steps, target.workers * INVOCATIONS)
        return replace(call, plan=replace(call.plan, steps=steps))

    def _steps(self, steps: Sequence[AnyStep], least: int) -> list[AnyStep]:
        made: list[AnyStep] = []
        for step in steps:
            if isinstance(step, RepeatStep):
                step = RepeatStep(step.times, self._steps(step.steps, least))
            elif isinstance(step, LaunchStep):
                step = self._launch(step, least)
            made.append(step)
        return made

    def _launch(self, step: LaunchStep, least: int) -> LaunchStep:
        program, (groups, *others) = step.program, step.grid
        if self.module.programs.get(program.name) is not program:
            return step  # of a named kernel, at the schedule that was chosen for it
        by, invocations = _neighbours(program), prod(step.grid) * program.lanes
        while by > 1 and invocations < by * least:
            by //= 2
        coarse = self._program(program, by) if by > 1 else None
        if coarse is None:
            return step
        words = dict(zip(sorted(program.params), step.params, strict=True))
        words[groups_param(program)] = groups
        grid = -(-groups // by), others[0], others[1]
        params = tuple(words[name] for name in sorted(words))
        return replace(step, program=coarse, grid=grid, params=params, neighbours=by)

    def _program(self, program: Program, by: int) -> Program | None:
        key = program, by
        if key not in self._known:
            self._known[key] = self._coarsened(program, by)
        return self._known[key]

    def _coarsened(self, program: Program, by: int) -> Program | None:
        """None where it may not be, or where nothing is gained."""
        coarse = coarsen(program, by)
        if isinstance(coarse, Refusal):
            return None
        module = Module(version=self.module.version)
        for func in self.module.funcs.values():
            module.add(func)
        module.add(coarse)
        changed = PassManager("vectorize_access", verify_each=False).run(module).changed
        return coarse if changed else None


def _neighbours(program: Program) -> int:
    """How many invocations' elements of the widest type that it accesses are a vector; 1 if it moves vectors already."""
    widest = 1
    for op in program.walk():
        if op.definition.format not in ("load", "store"):
            continue
        value = op.result.type if op.definition.format == "load" else op.operands[0].type
        if value.is_vec or value.bits is None:
            return 1
        widest = max(widest, value.bits // 8)
    return min(MOST, VECTOR_BYTES // widest)
