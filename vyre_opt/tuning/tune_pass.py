"""The pass `tune`: measures the schedules of named kernels, and writes the best into the module.

Two runs may end at different schedules, since times vary; a result in the cache is used again.  A schedule
changes how a kernel computes and never what, so nothing else of the module changes.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ..execution.dispatcher import DispatchError
from ..ir.ops import NAMED_KERNELS
from ..ir.program import Module
from ..ir.suggestions import suggest
from ..passes.manager import PassContext
from ..passes.registry import Pass, register
from .module_tuning import TuningOptions, dispatcher_for, tune_kernels

__all__ = ["Tune", "TuneOptions"]

TARGETS = ("ref", "cpu", "cuda")


@dataclass(frozen=True)
class TuneOptions:
    """`kernel`: tune only this one (`math.softmax`).  `target`: where to measure: cpu, ref, cuda, or the
    architecture of the GPU here; if empty, the target of the pass manager, or cpu.  `budget`: configurations
    to measure, 0 for a quarter of each space.  `reuse`: use results of earlier runs; `retune`: tune kernels
    that have a schedule, too.
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
        if self.seed < 0:
            raise ValueError(f"a seed of at least 0: {self.seed}")
        if self.target and self.target not in TARGETS and not self.target.startswith("sm_"):
            hint = suggest(self.target, TARGETS) or f"there are {', '.join(TARGETS)}, and GPUs such as sm_90"
            raise ValueError(f"unknown target {self.target}; {hint}")
        if self.kernel and self.kernel not in NAMED_KERNELS:
            hint = suggest(self.kernel, NAMED_KERNELS) or f"there are {', '.join(NAMED_KERNELS)}"
            raise ValueError(f"unknown kernel {self.kernel}; {hint}")


@register
class Tune(Pass):
    name = "tune"
    summary = "Measure the schedules of named kernels, and write the best into the text."
    Options = TuneOptions

    def run(self, module: Module, ctx: PassContext) -> bool:
        options = asdict(self.options)
        target = options.pop("target") or ctx.target
        before = _schedules(module)
        try:
            backend = dispatcher_for(target)
            tunings = tune_kernels(module, backend, TuningOptions(**options, progress=True), ctx.remark)
        except DispatchError as error:
            ctx.remark("refused", f"nothing is tuned: {error}")
            return False
        ctx.count("kernels tuned", len(tunings))
        ctx.count("configurations measured", sum(len(t.measured) for t in tunings if not t.kept))
        return _schedules(module) != before


def _schedules(module: Module) -> list[dict[str, int]]:
    """The parameters of every kernel."""
    ops = [op for program in module.programs.values() for op in program.body.ops]
    params = [dict(op.attrs["params"]) for op in ops if op.definition.kernel is not None]
    for pipeline in module.pipelines.values():
        params += [dict(getattr(stage, "attrs", {})) for stage in pipeline.walk()]
    return params
