"""`--certify`: every decision of the passes and of the lowering is proved by a solver that trusts none of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING

from ..ir.diagnostics import Diagnostic
from ..ir.program import Module
from .errors import ToolError

if TYPE_CHECKING:
    from ..certify.certifier import Certifier, Decision

__all__ = ["certifier", "certify", "summary"]

SECONDS = 10.0
"""Seconds for each obligation."""

SEARCH_SECONDS = 2.0
"""Seconds to look for a call on which a pass changes the result of a module."""


def certifier() -> Certifier:
    """Collects the decisions of passes.  Raises ToolError where z3 is not installed, RuntimeError without a thread for it."""
    try:
        from ..certify.certifier import Certifier
    except ImportError:
        raise ToolError("--certify needs z3: pip install 'vyre-opt[certify]'") from None
    from ..driver.counterexample import counterexample

    # z3 has a thread for its clock, and ends the process where it gets none
    probe = Thread(target=int)
    probe.start()
    probe.join()

    return Certifier(partial(counterexample, seconds=SEARCH_SECONDS))


def add_lowering(collector: Certifier, module: Module) -> None:
    """Add what the lowering of the module's programs takes for proven."""
    from ..certify.certifier import lowering_decisions
    from ..lowering.common.certificates import certificates

    for program in module.programs.values():
        claims = list(certificates(program))
        proven = [op for op, facts in claims if facts["claim"] == "in_bounds"]
        unguarded = {op: facts["lanes"] for op, facts in claims if facts["claim"] == "no_guard"}
        collector.decisions += lowering_decisions(program, proven, unguarded)


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
    if shown and failed.reason:
        why = f"{failed.reason}, where {shown}"
    error.note(f"{claim.what}: {why}", claim.ops[0].loc if claim.ops else None)
    for op in claim.ops[1:]:
        error.note(f"with this {op.name}", op.loc)
    return error


def summary(decisions: list[Decision], started: float) -> str:
    """Number of proved decisions of each kind, and the time that they took."""
    from statistics import median

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
