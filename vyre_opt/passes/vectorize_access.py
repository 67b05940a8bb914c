"""The pass that joins accesses of neighbouring elements into those of vectors (scheduling/access_vectors)."""

from __future__ import annotations

from ..ir.program import Module
from ..records import dataclass
from ..scheduling.access_vectors import WIDTH, vectorize
from .manager import PassContext
from .registry import Pass, register

MAX_WIDTH = 64


@dataclass(frozen=True)
class VectorizeOptions:
    """`width`: bytes of the widest vector."""

    width: int = WIDTH

    def __post_init__(self) -> None:
        if not 2 <= self.width <= MAX_WIDTH or self.width & (self.width - 1):
            raise ValueError(f"width is a power of two from 2 to {MAX_WIDTH}, not {self.width}")


@register
class VectorizeAccess(Pass):
    name = "vectorize_access"
    summary = "Join loads and stores of neighbouring elements into accesses of vectors."
    per_item = True
    needs_core_ops = True
    Options = VectorizeOptions

    def run(self, module: Module, ctx: PassContext) -> bool:
        vectors = 0
        for program in ctx.programs(module):
            vectors += vectorize(program, ctx, self.options.width)
        ctx.count("vector accesses made", vectors)
        return vectors > 0
