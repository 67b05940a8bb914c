"""Launches of a plan by programs that do the same and are faster.

    neighbours    an invocation does the work of several, so that each lane moves 16 bytes at a time (fusion/coarsening):
                  on a GPU, where their accesses become vectors, and invocations enough for all multiprocessors are left
    turns         a workgroup does the work of many, and has its own memory for what atomics count (fusion/privatization):
                  where it then adds to the buffers that all share fewer times than before

Rows of open length are of the length that they have in the call, where that is whole vectors.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import prod

from ..analysis.refusal import Refusal
from ..execution.plans.call_plan import CallPlan
from ..execution.plans.steps import AnyStep, LaunchStep, RepeatStep
from ..execution.target import Target
from ..fusion.coarsening import coarsen, groups_param, strided_access
from ..fusion.privatization import privatize
from ..ir.program import Buffer, Module, Program, Shape
from ..passes.manager import PassManager

__all__ = ["LaunchRewrites"]

VECTOR_BYTES = 16
"""Of the widest access of a lane."""
MOST = 8
"""Invocations that become one, at most."""
INVOCATIONS = 1024
"""Of a multiprocessor, at least, that a coarsened launch leaves: half of what it holds at a time."""
RESIDENT = 2048
"""Invocations that a multiprocessor holds at a time."""
SHARES = 8
"""Workgroups that a thread of the cpu takes, one after the other, so that threads end at the same time."""
LEAST_COUNTING = 1 << 14
"""Invocations of a launch that counts by workgroups, at least: faults of smaller ones name the invocation."""
LEAST_COUNTED = 4
"""Elements that a workgroup adds to each element of its copy, at least, on average."""


class LaunchRewrites:
    """Rewrites the launches of a module's programs, each program once; those of `scheduled` have a schedule, and stay."""

    def __init__(self, module: Module, scheduled: Collection[str] = ()) -> None:
        self.module = module
        self._programs = {each for name, each in module.programs.items() if name not in scheduled}
        self._most: dict[Program, int] = {}
        self._coarse: dict[tuple[Program, int, tuple[Shape, ...]], Program | None] = {}
        self._private: dict[tuple[Program, tuple[int, ...], bool], Program | None] = {}

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
                    step = self._by_neighbours(step, buffers, target.workers)
                step = self._in_turns(step, buffers, target)
            made.append(step)
        return made

    def _by_neighbours(self, step: LaunchStep, buffers: Mapping[str, Buffer], processors: int) -> LaunchStep:
        program, invocations = step.program, prod(step.grid) * step.program.lanes
        if program not in self._most:
            self._most[program] = _neighbours(program)
        by = self._most[program]
        while by > 1:
            coarse = None
            if invocations >= by * processors * INVOCATIONS:
                rows = _rows(step, buffers, by)
                key = program, by, tuple(row.shape for row in rows)
                if key not in self._coarse:
                    fixed = replace(program, buffers=program.buffers | {row.name: row for row in rows})
                    self._coarse[key] = self._coarsened(fixed, by)
                coarse = self._coarse[key]
            if coarse is not None:
                return _relaunched(step, coarse, -(-step.grid[0] // by), neighbours=by)
            by //= 2
        return step

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

    def _in_turns(self, step: LaunchStep, buffers: Mapping[str, Buffer], target: Target) -> LaunchStep:
        program = step.program
        atomics = {op.attrs["buffer"] for op in program.walk() if "atomic" in op.definition.effects}
        held = max(1, RESIDENT // program.lanes) if target.architecture else SHARES
        workgroups, invocations = min(target.workers * held, step.grid[0]), step.grid[0] * program.lanes
        if not atomics or step.grid[1:] != (1, 1) or invocations < LEAST_COUNTING:
            return step
        names = zip(program.bound_buffers, step.buffers, strict=True)
        counts = {formal.name: buffers[name].count or 0 for formal, name in names}
        shared = sum(counts.get(name, 0) for name in atomics)
        if invocations * step.neighbours < LEAST_COUNTED * workgroups * shared:
            return step
        in_order = not target.architecture
        key = program, tuple(counts[name] for name in sorted(atomics & counts.keys())), in_order
        if key not in self._private:
            private = privatize(program, counts, in_order)
            self._private[key] = None if isinstance(private, Refusal) else private
        rewritten = self._private[key]
        return step if rewritten is None else _relaunched(step, rewritten, workgroups, takes_turns=True)


def _relaunched(
    step: LaunchStep, program: Program, workgroups: int, neighbours: int = 1, takes_turns: bool = False
) -> LaunchStep:
    """The launch over fewer workgroups along x, of a program that is told how many there were."""
    words = dict(zip(sorted(step.program.params), step.params, strict=True))
    words[groups_param(step.program)] = step.grid[0]
    return replace(
        step,
        program=program,
        grid=(workgroups, *step.grid[1:]),
        params=tuple(words[name] for name in sorted(words)),
        neighbours=step.neighbours * neighbours,
        takes_turns=takes_turns,
    )


def _rows(step: LaunchStep, buffers: Mapping[str, Buffer], by: int) -> list[Buffer]:
    """The buffers of several dimensions, those with rows of open length with the call's where that is a multiple of `by`."""
    rows = []
    for formal, name in zip(step.program.bound_buffers, step.buffers, strict=True):
        if formal.dimensions > 1:
            length = buffers[name].shape[-1]
            fits = formal.shape[-1] is None and length is not None and length % by == 0
            rows.append(replace(formal, shape=(*formal.shape[:-1], length)) if fits else formal)
    return rows


def _neighbours(program: Program) -> int:
    """How many invocations' elements of the widest type that it accesses are a vector; 1 if it moves vectors already, or if
    neighbours touch elements apart."""
    widest = 1
    for op in program.walk():
        if op.definition.format not in ("load", "store"):
            continue
        value = op.result.type if op.definition.format == "load" else op.operands[0].type
        if value.is_vec or value.bits is None:
            return 1
        widest = max(widest, value.bits // 8)
    return min(MOST, VECTOR_BYTES // widest) if strided_access(program) is None else 1
