"""Atomics of a launch go to workgroup memory; each workgroup adds its counts to storage once (scheduling/privatization).

For a GPU and a grid of numbers, a launch gets as many workgroups as run at a time, if that lowers the number of atomics on
shared buffers.  For other launches the choice waits for a call with its lengths and processors; `workgroups=264` does not
wait.
"""

from __future__ import annotations

from ..analysis.refusal import Refusal
from ..ir.program import Module
from ..kernels.targets import MULTIPROCESSORS
from ..records import dataclass
from ..scheduling.launch_forms import Counting, LaunchForms
from ..scheduling.relaunch import NewForm, TextLaunch, rewrite_launches
from .manager import PassContext
from .registry import Pass, register


@dataclass(frozen=True)
class PrivatizeOptions:
    """`workgroups`: workgroups of the new launch; 0 for as many as run on a GPU at a time, where that pays.
    `multiprocessors`: multiprocessors of the GPU.
    """

    workgroups: int = 0
    multiprocessors: int = MULTIPROCESSORS

    def __post_init__(self) -> None:
        if not 0 <= self.workgroups < 1 << 31:
            raise ValueError(f"workgroups is a number below 2^31, not {self.workgroups}")
        if self.multiprocessors < 1:
            raise ValueError(f"multiprocessors is a number from 1 on, not {self.multiprocessors}")


@register
class Privatize(Pass):
    name = "privatize"
    summary = "Let each workgroup count in memory of its own, and add to the buffer once."
    invalidates = ("buffer_layout", "fusion")
    needs_core_ops = True
    Options = PrivatizeOptions

    def run(self, module: Module, ctx: PassContext) -> bool:
        if not (self.options.workgroups or ctx.is_for_gpu()):
            return False
        forms, on_gpu = LaunchForms(), ctx.target != "cpu"
        changes = rewrite_launches(
            module, ctx, "counts in storage", lambda launch: self.choose(launch, forms, on_gpu)
        )
        ctx.count("launches that count by workgroups", changes)
        return changes > 0

    def choose(self, text: TextLaunch, forms: LaunchForms, on_gpu: bool) -> NewForm | Refusal | None:
        if not any("atomic" in op.definition.effects for op in text.program.walk()):
            return None
        site, grid = text.site(self.options.multiprocessors, on_gpu), text.grid
        counting: Counting | Refusal | None
        if self.options.workgroups:
            counting = forms.by_turns(site, text.extents, self.options.workgroups)
        else:
            counting = grid if isinstance(grid, Refusal) else forms.counting(site, grid)
        if not isinstance(counting, Counting):
            return counting
        message = (
            f"{counting.workgroups} workgroups of {{new}} take turns for {{old}}, and count for themselves"
        )
        facts = {"claim": "privatize", "workgroups": counting.workgroups}
        return NewForm(counting.program, "counting", (counting.workgroups, 1, 1), message, facts)
