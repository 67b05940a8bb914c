"""The verifier as a pass: for the middle of a pipeline that does not verify after each pass.

It also warns of workgroup memory that one lane may load while another stores to it.  That takes an
analysis, so the verifier alone does not find it: see analysis/unordered.
"""

from __future__ import annotations

from ..analysis.footprint import Footprints
from ..analysis.unordered import unordered_loads
from ..ir.diagnostics import DiagnosticError, spelling_at
from ..ir.program import Module, Program
from ..ir.verifier import verify
from .manager import PassContext
from .registry import Pass, register


@register
class Verify(Pass):
    name = "verify"
    takes_type_parameters = True
    is_required = True
    summary = "Check the module; stop with its errors if it has any, and warn of a barrier that may lack."

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Warnings of the verifier become remarks, missing barriers warnings.  Raises DiagnosticError."""
        diagnostics = verify(module)
        if errors := [each for each in diagnostics if each.severity == "error"]:
            raise DiagnosticError(errors)
        for warning in diagnostics:
            ctx.remark("note", warning.message, warning.loc)
        for program in module.programs.values():
            if not program.type_parameters and any(b.is_workgroup for b in program.buffers.values()):
                _warn_of_missing_barriers(program, ctx)
        return False


def _warn_of_missing_barriers(program: Program, ctx: PassContext) -> None:
    for store, load in unordered_loads(ctx.analyses.get(Footprints, program)):
        message = (
            f"{load.describe()} may give what another lane stores ({store.describe()}"
            f"{f', {store.op.loc}' if store.op.loc else ''}): no barrier is between them; "
            f"put `{spelling_at(load.op.loc).barrier('workgroup')}` there"
        )
        facts = {"program": program.name, "buffer": load.buffer, "reason": "no-barrier"}
        ctx.remark("warning", message, load.op.loc, store=store.describe(), load=load.describe(), **facts)
