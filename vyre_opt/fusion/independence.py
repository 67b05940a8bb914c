"""Whether workgroups of a program may run in any order, so that one may do the work of several in sequence."""

from __future__ import annotations

from ..analysis.effects import effects_of
from ..analysis.refusal import Refusal
from ..ir.ops import BEYOND_WORKGROUP
from ..ir.program import Program

__all__ = ["order_refusal"]


def order_refusal(program: Program, reason: str) -> Refusal | None:
    """Why workgroups may not run in sequence: they may wait for each other, or print in their order; None if they may."""
    name, has_while = program.name, any(op.name == "while" for op in program.walk())
    if program.cluster is not None:
        return Refusal(reason, f"workgroups of @{name} meet in clusters", loc=program.loc)
    for op in program.walk():
        effects, why = effects_of(op), ""
        if op.definition.kernel:
            why = f"@{name} is the named kernel {op.name}"
        elif op.name == "barrier" and op.attrs["scope"] in BEYOND_WORKGROUP:
            why = f"workgroups of @{name} meet: it has a barrier of the {op.attrs['scope']}"
        elif effects.prints:
            why = f"lines of @{name} come in the order of its workgroups: it has a {op.name}"
        elif effects.atomics and (effects.orders or has_while):
            how = f"of order {op.attrs['order']}" if effects.orders else "in a program with a while"
            why = f"workgroups of @{name} may wait for each other: it has an {op.name} {how}"
        if why:
            return Refusal(reason, why, loc=op.loc)
    return None
