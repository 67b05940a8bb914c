"""Tuning: each named kernel gets the schedule that measures best, written into the text.

What is best is measured, on the target that the options name, so two runs may choose differently; a
choice that is kept in the cache is taken again.  The schedule changes how a kernel is done and never
what it computes, so nothing else of the module changes.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.diagnostics import suggest
from ..ir.ops import NAMED_KERNELS
from ..ir.program import Module
from ..passes.manager import Context
from ..passes.registry import Pass, register
from ..runtime.dispatcher import DispatchError
from .module_tuning import Settings, dispatcher_for, tune_kernels

__all__ = ["Tune", "TuneOptions"]


@dataclass(frozen=True)
class TuneOptions:
    """`kernel`: only that one (`math.softmax`).  `target`: where to measure, cpu, ref, cuda or the GPU here
    by its architecture; empty takes the pipeline's target, or cpu.  `budget`: configurations to measure,
    0 for a quarter of each space.  `reuse`: choices of earlier runs; `retune`: kernels with a schedule too.
    """

    kernel: str = ""
    target: str = ""
    budget: int = 0
    rounds: int = 5
    seed: int = 0
    reuse: bool = True
    retune: bool = False

    def __post_init__(self) -> None:
        if self.budget < 0 or self.rounds < 1:
            raise ValueError(f"a budget of at least 0 and at least one round: {self.budget}, {self.rounds}")
        if self.kernel and self.kernel not in NAMED_KERNELS:
            hint = suggest(self.kernel, NAMED_KERNELS) or f"there are {', '.join(NAMED_KERNELS)}"
            raise ValueError(f"unknown kernel {self.kernel}; {hint}")


@register
class Tune(Pass):
    name = "tune"
    summary = "Measure the schedules of named kernels, and write the best into the text."
    Options = TuneOptions

    def run(self, module: Module, ctx: Context) -> bool:
        options = self.options
        settings = Settings(
            kernel=options.kernel,
            budget=options.budget,
            rounds=options.rounds,
            seed=options.seed,
            reuse=options.reuse,
            retune=options.retune,
            progress=True,
        )
        before = _schedules(module)
        try:
            backend = dispatcher_for(options.target or ctx.target)
            found = tune_kernels(module, backend, settings, ctx.remark)
        except DispatchError as refusal:
            ctx.remark("refused", f"nothing is tuned: {refusal}")
            return False
        ctx.count("kernels tuned", len(found))
        ctx.count("configurations measured", sum(len(t.measured) for t in found if not t.kept))
        return _schedules(module) != before


def _schedules(module: Module) -> list[dict[str, int]]:
    """The parameters of every kernel."""
    ops = [op for program in module.programs.values() for op in program.body.ops]
    found = [dict(op.attrs["params"]) for op in ops if op.definition.kernel is not None]
    for pipeline in module.pipelines.values():
        found += [dict(getattr(stage, "attrs", {})) for stage in pipeline.walk()]
    return found
