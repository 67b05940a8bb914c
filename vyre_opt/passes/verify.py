"""The verifier as a pass: for the middle of a pipeline that does not verify after each pass."""

from __future__ import annotations

from ..ir.program import Module
from ..ir.verifier import check
from .manager import Context
from .registry import Pass, register


@register
class Verify(Pass):
    name = "verify"
    takes_type_parameters = True
    summary = "Check the module; stop with its errors if it has any."

    def run(self, module: Module, ctx: Context) -> bool:
        """Raises DiagnosticError.  Warnings become remarks."""
        for warning in check(module):
            ctx.remark("note", warning.message, warning.loc)
        return False
