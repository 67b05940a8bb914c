"""Legalization: what a target does to programs before it writes LLVM IR.

    cpu     expand_ops, row_major, matrix_fragments, flatten, print_records
    cuda    expand_ops, warpgroups, row_major, matrix_fragments, print_records, zero_tiles
    ref     expand_ops

`legalize{target=cuda}` stands for those of a target.  Every target runs them by itself, and `vyre-opt` too with
`--emit=llvm`, `ptx` or `asm`, where `--print-ir-after=row_major` shows what came out.  What they leave is for the target
alone: it has names and ops that no text has, so that no other passes run after them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ..ir.diagnostics import Diagnostic, DiagnosticError
from ..ir.program import Module
from ..lowering.common.legalization import EXPAND_OPS, Legality, Rewrite
from ..lowering.common.row_major import has_rows
from ..lowering.host import legalization as host
from ..lowering.host.flatten import TooLarge
from ..lowering.nvptx import legalization as nvptx
from ..lowering.nvptx.abi import BOUNDS
from ..lowering.nvptx.targets import GPUS
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
    takes_rows: ClassVar[bool] = True
    """Whether buffers may have several dimensions."""
    rewrite_module: ClassVar[str]
    """The module of the rewrite, which describes it."""

    def run(self, module: Module, ctx: PassContext) -> bool:
        options = self.options if isinstance(self.options, Options) else Options()
        target, gpu = TARGETS[options.target], GPUS.get(ctx.target)
        legality = Legality(options.bounds, gpu is not None and gpu.has_warpgroups, zero_memory=True)
        changed = False
        for program in ctx.programs(module):
            if has_rows(program) and not self.takes_rows:
                message = f"{self.name} takes buffers of one dimension; run row_major before it"
                raise DiagnosticError([Diagnostic("error", message, program.loc)])
            try:
                legal, _ = _rewrite(target, self.name).apply(program, module, legality)
            except TooLarge as error:
                raise DiagnosticError([Diagnostic("error", str(error))]) from None
            if legal is not program:
                program.body, program.buffers, program.params = legal.body, legal.buffers, legal.params
                ctx.count("programs changed")
                changed = True
        return changed


def _rewrite(target: Sequence[Rewrite], name: str) -> Rewrite:
    """The rewrite of a name, of another target if this one has none."""
    rewrites = (rewrite for rewrites in (target, *TARGETS.values()) for rewrite in rewrites)
    return next(rewrite for rewrite in rewrites if rewrite.name == name)


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
    takes_rows = False


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
    takes_rows = False
