"""signal_average: what is known of averages before they are written out."""

from __future__ import annotations

from vyre_opt import Pass, PassContext, apply_patterns, op, pattern, register
from vyre_opt.ir.program import Module

_average = op["signal.average"]

PATTERNS = [
    pattern(_average("x", "x"), "x"),
    pattern(_average("x", 0), op.shr("x", 1)),
    pattern(_average(0, "x"), op.shr("x", 1)),
]


@register
class SignalAverage(Pass):
    name = "signal_average"
    summary = "Simplify averages."

    def run(self, module: Module, ctx: PassContext) -> bool:
        rewrites = apply_patterns(module, PATTERNS)
        ctx.count("averages simplified", rewrites)
        return rewrites > 0
