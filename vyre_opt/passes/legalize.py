"""Legalization: what a target does to programs before it writes LLVM IR.

    cpu     expand_ops, lower_slices, workgroup_reductions, reciprocals, row_major, matrix_fragments, flatten, print_records
    cuda    expand_ops, lower_slices, workgroup_reductions, reciprocals, warpgroups, row_major, matrix_fragments, print_records, zero_tiles
    ref     expand_ops

`legalize{target=cuda}` stands for those of a target.  Every target runs them by itself, and `vyre-opt` too with
`--emit=llvm`, `ptx` or `asm`, where `--print-ir-after=row_major` shows what came out.  What they leave is for the target
alone, so that no other passes run after them: most leave a lowered program, which is verified and printed, but not read
again: its text begins with `lowered`.  lowering/common/legalization.py has the refusals of each pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from ..ir.diagnostics import Diagnostic, DiagnosticError
from ..ir.program import Module, Program
from ..lowering.common.legalization import EXPAND_OPS, Legality, Rewrite
from ..lowering.host import legalization as host
from ..lowering.nvptx import legalization as nvptx
from ..lowering.nvptx.abi import BOUNDS
from ..lowering.nvptx.targets import GPUS
from ..records import dataclass
from .manager import PassContext
from .registry import Pass, find_pass, make_pass, register

__all__ = ["TARGETS", "Legalize"]

TARGETS: dict[str, Sequence[Rewrite]] = {
    "cpu": host.LEGALIZATION,
    "cuda": nvptx.LEGALIZATION,
    "ref": (EXPAND_OPS,),
}


@dataclass(frozen=True)
class Options:
    """`target`: cpu, cuda or ref.  `bounds`: what becomes of an access on a GPU that is not proven in bounds: none, clamp
    or trap."""

    target: str = "cpu"
    bounds: str = "trap"

    def __post_init__(self) -> None:
        for name, choices in (("target", [*TARGETS]), ("bounds", [*BOUNDS])):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} is one of {', '.join(choices)}, not {getattr(self, name)!r}")
        if self.target != "cuda" and self.bounds != "trap":
            raise ValueError("bounds is for target=cuda; everywhere else an access out of bounds traps")


@dataclass(frozen=True)
class AllOptions(Options):
    __doc__ = (
        f"{Options.__doc__}  `zero_memory`: whether workgroup memory that no invocation wrote is zeroed."
    )

    zero_memory: bool = False


@register
class Legalize(Pass):
    name = "legalize"
    summary = "Stands for what a target does to programs before it writes LLVM IR."
    is_legalization = True
    Options = AllOptions

    def parts(self) -> Sequence[Pass]:
        options = self.options
        values = {"target": options.target, "bounds": options.bounds}
        return [
            make_pass(rewrite.name, values if find_pass(rewrite.name).Options is Options else {})
            for rewrite in TARGETS[options.target]
            if rewrite.name != ZeroTiles.name or options.zero_memory
        ]


class Legalization(Pass):
    """A rewrite of each program, that of the pass's name; see `TARGETS`."""

    per_item = True
    is_required = True
    is_legalization = True
    needs_core_ops = True
    takes_type_parameters = True
    rewrite_module: ClassVar[str]
    """The module of the rewrite, which describes it."""

    def run(self, module: Module, ctx: PassContext) -> bool:
        options = self.options if isinstance(self.options, Options) else None
        rewrites = {
            name: each for name, target in TARGETS.items() for each in target if each.name == self.name
        }
        if options is not None and options.target in rewrites:
            rewrites = {options.target: rewrites[options.target]}
        target, rewrite = next(iter(rewrites.items()))
        gpu = GPUS.get(ctx.target)
        bounds = Options.bounds if options is None else options.bounds
        legality = Legality(target, bounds, gpu is not None and gpu.has_warpgroups, zero_memory=True)
        changed = False
        for program in ctx.programs(module):
            problem = rewrite.refusal(program, legality) or _mixture(self.name, rewrites, program)
            if problem is not None:
                raise DiagnosticError([Diagnostic("error", problem, program.loc)])
            legal, _ = rewrite.run(program, module, legality)
            if legal is not program:
                program.body, program.buffers, program.params = legal.body, legal.buffers, legal.params
                program.lowered_for = legal.lowered_for
                ctx.count("programs changed")
                changed = True
        return changed


def _mixture(name: str, targets: Iterable[str], program: Program) -> str | None:
    """Reason why a pass of some targets can't run on the result of another target's pass; None if it can."""
    lowered_for = program.lowered_for
    if lowered_for is None or lowered_for in targets:
        return None
    return (
        f"{name} is for {' and '.join(targets)}, and @{program.name} is lowered for {lowered_for}; "
        f"run passes of one target, those of legalize{{target={lowered_for}}}, say"
    )


@register
class WorkgroupReductions(Legalization):
    name = "workgroup_reductions"
    summary = "Replace reductions and scans of workgroups by those of their subgroups and workgroup memory."
    rewrite_module = "vyre_opt.lowering.common.workgroup_reductions"


@register
class Reciprocals(Legalization):
    name = "reciprocals"
    summary = "Multiply by one reciprocal in place of several quotients, where a program allows it."
    rewrite_module = "vyre_opt.lowering.common.reciprocals"


@register
class Warpgroups(Legalization):
    name = "warpgroups"
    summary = "Multiply matrices by warpgroups, on GPUs that can (sm_90a)."
    rewrite_module = "vyre_opt.lowering.nvptx.warpgroups"
    Options = Options


@register
class RowMajor(Legalization):
    name = "row_major"
    summary = "Give all buffers one dimension, and check accesses along each that they had."
    rewrite_module = "vyre_opt.lowering.common.row_major"
    Options = Options


@register
class MatrixFragments(Legalization):
    name = "matrix_fragments"
    summary = "Replace matrices by what each lane of a subgroup holds of them."
    rewrite_module = "vyre_opt.lowering.common.matrix_fragments"
    Options = Options


@register
class Flatten(Legalization):
    name = "flatten"
    summary = "Inline all calls and regions."
    rewrite_module = "vyre_opt.lowering.host.flatten"


@register
class PrintRecords(Legalization):
    name = "print_records"
    summary = "Store what is printed as records in a buffer, which the host reads."
    rewrite_module = "vyre_opt.lowering.common.print_records"


@register
class ZeroTiles(Legalization):
    name = "zero_tiles"
    summary = "Zero workgroup memory that may be read before it is written."
    rewrite_module = "vyre_opt.lowering.common.zeroed_tiles"
