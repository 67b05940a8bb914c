"""Proven facts that the lowering relies on: accesses without a check, divisions and shifts without a guard.

Each has a certificate, as data.

    claim: in_bounds   index, low, high, no_wrap   the index as an integer expression; facts whose sum it exceeds, and
                                                   the same of what is left of the buffer behind the access; one for
                                                   each `dimension` of a buffer that has several
    claim: no_guard    operand, lanes              least and largest divisor or amount, in the lanes that a CPU computes
                                                   together; no lanes for a GPU, where those that come to it count

Specialization constants have their defaults, which `--spec` sets.  A CPU computes all lanes of the last subgroup,
active or not, of which some may lie beyond the workgroup; a GPU may leave out guards that it needs.

A fact is an expression that is not negative, `times` so often, because of an op: the comparison of a branch or loop
around, the loop, or one whose result has a property.  Ops are given by their numbers in the program's text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...analysis.bounds import BoundsProofs, Sum
from ...analysis.value_forms import ValueForms
from ...ir.program import Op, Program
from .guards import needs_guard

__all__ = ["certificates"]

GUARDED = ("div", "rem", "shl", "shr")


def certificates(program: Program) -> Iterator[tuple[Op, dict[str, Any]]]:
    """The ops of a program whose lowering rests on a proof, in its order, each with its certificate."""
    ops = list(program.walk())
    numbers = {op: number for number, op in enumerate(ops)}
    specs = program.spec_defaults
    proofs = BoundsProofs(program, specs)
    subgroup_forms = ValueForms(program, specs, whole_subgroups=True)
    computed = ((subgroup_forms.operands.lanes, subgroup_forms), (None, proofs.forms))
    for op in ops:
        facts: dict[str, Any] = {"program": program.name, "op": numbers[op]}
        along = proofs.proven.get(op, ())
        for dimension, proof in enumerate(along):
            yield (
                op,
                {
                    "claim": "in_bounds",
                    **facts,
                    **({"dimension": dimension} if len(along) > 1 else {}),
                    "index": str(proof.index),
                    "low": _sum(proof.low, numbers),
                    "high": _sum(proof.high, numbers),
                    "no_wrap": _sum(proof.no_wrap, numbers),
                },
            )
        if not along and op.name in GUARDED and op.result.type.is_int:
            for lanes, forms in computed:
                if not needs_guard(op, forms):
                    operand = list(forms.range(op.operands[1]))
                    yield op, {"claim": "no_guard", **facts, "operand": operand, "lanes": lanes}
                    break


def _sum(terms: Sum, numbers: dict[Op, int]) -> list[dict[str, Any]]:
    return [{"times": times, "fact": str(fact.expr), "op": numbers[fact.op]} for times, fact in terms]
