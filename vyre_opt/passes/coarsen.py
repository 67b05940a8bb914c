"""Neighbouring invocations of a launch become one that does the work of several (scheduling/coarsening).

For a GPU and a grid of numbers, the pass chooses the factor: accesses become vectors of 16 bytes, and enough invocations
remain for all multiprocessors.  For an open grid, the same rule chooses when a call has its lengths; `by=4` applies to any
target at once.
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

MAX_FACTOR = 64


@dataclass(frozen=True)
class CoarsenOptions:
    """`by`: neighbouring invocations that become one, a power of two; 0 to choose for a GPU.
    `blocks`: blocks of `by` neighbours that one invocation takes, a workgroup's reach of elements apart.
    `multiprocessors`: multiprocessors of the GPU.
    """

    by: int = 0
    blocks: int = 1
    multiprocessors: int = MULTIPROCESSORS

    def __post_init__(self) -> None:
        if self.by and (not 2 <= self.by <= MAX_FACTOR or self.by & (self.by - 1)):
            raise ValueError(f"by is a power of two from 2 to {MAX_FACTOR}, or 0, not {self.by}")
        if self.blocks != 1 and not self.by:
            raise ValueError(f"blocks={self.blocks} needs by=, the neighbours of a block")
        if not 1 <= self.blocks <= MAX_FACTOR:
            raise ValueError(f"blocks is a number from 1 to {MAX_FACTOR}, not {self.blocks}")
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
        changes = rewrite_launches(module, ctx, "is not coarsened", lambda launch: self.choose(launch, forms))
        ctx.count("launches coarsened", changes)
        return changes > 0

    def choose(self, text: TextLaunch, forms: LaunchForms) -> NewForm | Refusal:
        site, grid = text.site(self.options.multiprocessors, on_gpu=True), text.grid
        if self.options.by:
            coarse = forms.by(site, Neighbours(self.options.by, blocks=self.options.blocks))
        else:
            coarse = grid if isinstance(grid, Refusal) else forms.coarse(site, grid)
        if isinstance(coarse, Refusal):
            return coarse
        by = coarse.by
        x, y, z = text.launch.grid
        facts = {"claim": "coarsen", "by": by.x, "by_y": by.y, "tile": by.tile, "blocks": by.blocks}
        return NewForm(
            coarse.program,
            f"by{by.groups_along_x}" if by.tile is None else "tiled",
            (ceil_divided(x, by.groups_along_x), ceil_divided(y, by.y), z),
            f"{by} invocations of {{old}} are one of {{new}}",
            facts,
        )
