"""Neighbouring invocations of a launch become one that does the work of several (scheduling/coarsening).

Where the grid is numbers, and a GPU is the target, as many become one as pay: their accesses become vectors of 16 bytes,
and invocations enough for all multiprocessors are left.  A grid that is open is chosen for when a call has its lengths, by
the same rule; `by=4` does not wait for that, and does not ask for a target.
"""

from __future__ import annotations

from ..analysis.refusal import Refusal
from ..execution.plans.neighbours import Neighbours
from ..ir.grids import ceil_divided
from ..ir.program import Module
from ..kernels.targets import MULTIPROCESSORS
from ..records import dataclass
from ..scheduling.launch_forms import LaunchForms
from ..scheduling.relaunch import NewForm, TextLaunch, rewrite_launches
from .manager import PassContext
from .registry import Pass, register

MOST = 64


@dataclass(frozen=True)
class CoarsenOptions:
    """`by`: how many invocations become one, a power of two; 0 for as many as pay on a GPU.
    `blocks`: so many times that, each block as far from the one before as the lanes of a workgroup reach.
    `multiprocessors`: of the GPU.
    """

    by: int = 0
    blocks: int = 1
    multiprocessors: int = MULTIPROCESSORS

    def __post_init__(self) -> None:
        if self.by and (not 2 <= self.by <= MOST or self.by & (self.by - 1)):
            raise ValueError(f"by is a power of two from 2 to {MOST}, or 0, not {self.by}")
        if self.blocks != 1 and not self.by:
            raise ValueError(f"blocks={self.blocks} needs by=, the neighbours of a block")
        if not 1 <= self.blocks <= MOST:
            raise ValueError(f"blocks is a number from 1 to {MOST}, not {self.blocks}")
        if self.multiprocessors < 1:
            raise ValueError(f"multiprocessors is a number from 1 on, not {self.multiprocessors}")


@register
class Coarsen(Pass):
    name = "coarsen"
    summary = "Let an invocation do the work of neighbours, so that their accesses become vectors."
    invalidates = ("fusion",)
    needs_core_ops = True
    Options = CoarsenOptions

    def run(self, module: Module, ctx: PassContext) -> bool:
        if not (self.options.by or ctx.is_for_gpu()):
            return False
        forms = LaunchForms()
        changes = rewrite_launches(module, ctx, "is not coarsened", lambda each: self.choose(each, forms))
        ctx.count("launches coarsened", changes)
        return changes > 0

    def choose(self, each: TextLaunch, forms: LaunchForms) -> NewForm | Refusal:
        site, grid = each.site(self.options.multiprocessors, on_gpu=True), each.grid
        if self.options.by:
            coarse = forms.by(site, Neighbours(self.options.by, blocks=self.options.blocks))
        else:
            coarse = grid if isinstance(grid, Refusal) else forms.coarse(site, grid)
        if isinstance(coarse, Refusal):
            return coarse
        by = coarse.by
        x, y, z = each.launch.grid
        facts = {"claim": "coarsen", "by": by.x, "by_y": by.y, "tile": by.tile, "blocks": by.blocks}
        return NewForm(
            coarse.program,
            f"by{by.groups_along_x}" if by.tile is None else "tiled",
            (ceil_divided(x, by.groups_along_x), ceil_divided(y, by.y), z),
            f"{by} invocations of {{old}} are one of {{new}}",
            facts,
        )
