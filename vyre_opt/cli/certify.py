"""`--certify`: every decision of the passes and of the lowering is proved by a solver that trusts none of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from statistics import median
from typing import TYPE_CHECKING

from ..ir.diagnostics import Diagnostic
from ..ir.ops import SUBGROUP_SIZE
from ..ir.program import Module, Op, Program
from .errors import ToolError

if TYPE_CHECKING:
    from ..certify.certifier import Certifier, Decision

__all__ = ["certifier", "certify", "summary"]

SECONDS = 10.0
"""For each obligation."""


def certifier() -> Certifier:
    """Collects the decisions of passes.  Raises ToolError where z3 is not installed."""
    try:
        from ..certify.certifier import Certifier
    except ImportError:
        raise ToolError("--certify needs z3: pip install 'vyre-opt[certify]'") from None
    return Certifier()


def add_lowering(collector: Certifier, module: Module) -> None:
    """Add what the lowering of the module's programs takes for proven."""
    from ..certify.certifier import lowering_decisions

    for program in module.programs.values():
        collector.decisions += lowering_decisions(program, *_proven(program))


def _proven(program: Program) -> tuple[list[Op], dict[Op, int]]:
    """The accesses that are not checked; the divisions and shifts without guards, by how many lanes compute them.

    A CPU computes all lanes of the last subgroup, of which some may lie beyond the workgroup.  So guards that it needs a
    GPU may leave out.
    """
    from ..analysis.bounds import BoundsProofs
    from ..analysis.ranges import Ranges
    from ..lowering.common.guards import needs_guard

    proven = BoundsProofs(program).proven
    divided = ("div", "rem", "shl", "shr")
    ops = [op for op in program.walk() if op.name in divided and op.result.type.is_int]
    whole = -(-program.lanes // SUBGROUP_SIZE) * SUBGROUP_SIZE
    without_guard = {}
    for lanes, ranges in ((program.lanes, Ranges(program)), (whole, Ranges(program, whole_subgroups=True))):
        without_guard.update({op: lanes for op in ops if not needs_guard(op, ranges)})
    return [op for op in program.walk() if op in proven], without_guard


def certify(decisions: list[Decision]) -> Iterator[Diagnostic]:
    """Prove all; gives an error for each that is refuted or unknown."""
    for decision in decisions:
        decision.certify(SECONDS)
        if decision.status != "proved":
            yield _error(decision)


def _error(decision: Decision) -> Diagnostic:
    what = f"[{decision.by}] {decision.what}"
    if decision.obligations is None:
        return Diagnostic(
            "error", f"unknown: {what}", decision.loc, help="nothing here proves such decisions"
        )
    failed = next(a for a in decision.answers if a.status == decision.status)
    claim = failed.obligation
    error = Diagnostic("error", f"{decision.status}: {what}", decision.loc)
    shown = ", ".join(f"{name} = {value}" for name, value in failed.witness.items())
    why = f"not so where {shown}" if shown else failed.reason or "it does not hold"
    error.note(f"{claim.what}: {why}", claim.ops[0].loc if claim.ops else None)
    for op in claim.ops[1:]:
        error.note(f"with this {op.name}", op.loc)
    return error


def summary(decisions: list[Decision], started: float) -> str:
    """How many decisions of each kind are proved, and how long that took."""
    lines = []
    for by in dict.fromkeys(decision.by for decision in decisions):
        statuses = Counter(decision.status for decision in decisions if decision.by == by)
        counts = ", ".join(f"{number} {status}" for status, number in sorted(statuses.items()))
        lines.append(f"certify: {by}: {counts}\n")
    seconds = [sum(answer.seconds for answer in decision.answers) for decision in decisions]
    if seconds:
        spent = time.perf_counter() - started
        lines.append(
            f"certify: {len(decisions)} decisions in {spent:.1f} s, median {1000 * median(seconds):.0f} ms, "
            f"longest {1000 * max(seconds):.0f} ms\n"
        )
    return "".join(lines) or "certify: no decisions\n"
