"""Slices become ops of a workgroup's invocations (slices/lowering)."""

from __future__ import annotations

from dataclasses import replace

from ..ir.program import Module
from ..ir.shapes import has_slices
from ..kernels.targets import slice_machine
from ..records import dataclass
from ..slices.layout import AnyLayout, Layout
from ..slices.lowering import lower_in_place
from ..slices.schedule import SliceMachine, SliceSchedule, is_for_units, slice_schedule
from .manager import PassContext
from .registry import Pass, register

BEST = "best"


@dataclass(frozen=True)
class LowerSlicesOptions:
    """Options of the schedule; 0 chooses the best value.

    `lanes`: invocations of a workgroup, a power of two.  `neighbours`: adjacent elements of an invocation, 1 or 4.
    `workgroups`: workgroups that share a row, 1 to 16.  `stages`: tiles of factors that copies run ahead, 1 to 8.
    `units`: what multiplies blocks on matrix units: none, subgroups, warpgroups or best.
    """

    lanes: int = 0
    neighbours: int = 0
    workgroups: int = 0
    units: str = BEST
    stages: int = 0

    def __post_init__(self) -> None:
        self.schedule(SliceSchedule())  # raises ValueError for a wrong value

    def machine(self, machine: SliceMachine) -> SliceMachine:
        """Machine for which the best schedule is chosen."""
        return machine if self.units == BEST else replace(machine, units=self.units)

    def schedule(self, best: SliceSchedule) -> SliceSchedule:
        """`best` with the values of the options that are set."""
        return SliceSchedule(
            self.lanes or best.lanes,
            self.neighbours or best.neighbours,
            self.workgroups or best.workgroups,
            best.units if self.units == BEST else self.units,
            self.stages or best.stages,
        )


def _invocations(layout: AnyLayout) -> list[int]:
    """A layout in a certificate: rows, columns, rows and columns of lanes, neighbours, and whether lanes are paired; empty
    for a layout by subgroups, and for one of a row of open length."""
    if not isinstance(layout, Layout) or layout.bands > 1 or layout.open is not None:
        return []
    sizes = layout.rows, layout.columns, layout.row_lanes, layout.column_lanes, layout.neighbours
    return [*sizes, layout.is_paired]


@register
class LowerSlices(Pass):
    name = "lower_slices"
    summary = "Replace rows that a workgroup computes with by what its invocations do."
    per_item = True
    is_required = True
    Options = LowerSlicesOptions

    def run(self, module: Module, ctx: PassContext) -> bool:
        changed = False
        for program in ctx.programs(module):
            if not has_slices(program):
                continue
            machine = self.options.machine(slice_machine(ctx.target))
            schedule = self.options.schedule(slice_schedule(program, machine))
            on_units = any(is_for_units(op, schedule) for op in program.walk())
            numbers = {op: number for number, op in enumerate(program.walk())}
            schedule, layouts = lower_in_place(
                program, schedule, 0 if self.options.stages else machine.memory
            )
            ctx.debug("{} lanes for the slices of @{}", schedule.lanes, program.name, loc=program.loc)
            sharing = f", and {schedule.workgroups} share a row" if schedule.workgroups > 1 else ""
            if on_units:
                stages = f", through {schedule.stages} stages in loops" if schedule.stages > 1 else ""
                sharing += f", whose {schedule.units} multiply blocks on matrix units{stages}"
            message = f"a workgroup has {schedule.lanes} invocations for its slices{sharing}"
            certificate = {
                "claim": "lower_slices",
                "program": program.name,
                "carried": [
                    [numbers[loop], [_invocations(layout) for layout in carried]]
                    for loop, carried in layouts.items()
                ],
            }
            ctx.remark("applied", message, program.loc, **certificate)
            ctx.count("programs lowered")
            changed = True
        return changed
