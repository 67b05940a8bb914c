"""Decisions of passes and of the lowering, each as the obligations that it has to meet.

A pass says what it claims in the certificate of its remark:

    claim: tile       program, buffer                  a hand-off that became a tile of each workgroup
    claim: barrier    program, op                      a barrier that went
    claim: join       pipeline, at, barriers, halo     launches that became one; their numbers in the pipeline
    claim: vector     program, lanes_of                accesses that became one; the ops of each element

`op` and `lanes_of` are numbers of ops, in the order of the program's text before the pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..ir.copies import copy_module
from ..ir.diagnostics import Location
from ..ir.pipeline import Launch
from ..ir.program import Module, Op, Program
from .barriers import removed_barrier
from .in_bounds import in_bounds, unguarded
from .joins import joined
from .obligations import Answer, Obligation, prove, smt2
from .tiles import tile
from .vectors import vector

if TYPE_CHECKING:
    from ..passes.manager import Remark
    from ..passes.registry import Pass

__all__ = ["Certifier", "Decision", "lowering_decisions"]


@dataclass
class Decision:
    """`obligations`: what has to hold; None if nothing here knows such claims.  `by`: who decided."""

    by: str
    what: str
    loc: Location | None
    obligations: list[Obligation] | None
    answers: list[Answer] = field(default_factory=list)

    @property
    def status(self) -> str:
        """proved, refuted or unknown."""
        statuses = {answer.status for answer in self.answers}
        if "refuted" in statuses:
            return "refuted"
        return "proved" if self.obligations is not None and statuses <= {"proved"} else "unknown"

    def certify(self, seconds: float) -> None:
        """Ask z3, `seconds` at most for each obligation."""
        self.answers = [prove(obligation, seconds) for obligation in self.obligations or ()]

    def smt2(self) -> str:
        return "".join(map(smt2, self.obligations or ()))


class Certifier:
    """Observes a pass manager and collects the `decisions` of its passes."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self._before: Module | None = None

    def before(self, running: Pass, module: Module) -> None:
        self._before = copy_module(module)

    def after(self, running: Pass, module: Module, changed: bool, remarks: Sequence[Remark]) -> None:
        """Add a decision for each remark of the pass that something was applied."""
        assert self._before is not None
        removed: dict[str, list[int]] = {}
        for remark in remarks:
            if remark.certificate.get("claim") == "barrier":
                removed.setdefault(remark.certificate["program"], []).append(remark.certificate["op"])
        for remark in remarks:
            claim = remark.certificate.get("claim")
            if remark.kind != "applied" or claim is None:
                continue
            rule = _CLAIMS.get(claim)
            # a barrier may not rest on another one that goes too
            facts = {**remark.certificate, "removed": removed.get(remark.certificate.get("program", ""), ())}
            claims = rule(self._before, module, facts) if rule is not None else None
            obligations = None if claims is None else list(claims)
            self.decisions.append(Decision(running.name, remark.message, remark.loc, obligations))


def lowering_decisions(
    program: Program, proven: Iterable[Op], without_guard: Mapping[Op, int]
) -> list[Decision]:
    """A decision for each access that is not checked, and for each division and shift without a guard, by the number of
    lanes that compute it."""
    obligations = [*in_bounds(program, proven), *unguarded(program, without_guard)]
    return [
        Decision("lowering", f"@{program.name}: {each.what}", each.ops[0].loc, [each]) for each in obligations
    ]


def _tile(before: Module, after: Module, facts: Mapping[str, Any]) -> Iterable[Obligation]:
    name = facts["program"]
    return tile(before.programs[name], after.programs[name], facts["buffer"])


def _barrier(before: Module, after: Module, facts: Mapping[str, Any]) -> Iterable[Obligation]:
    program = before.programs[facts["program"]]
    ops = list(program.walk())
    return removed_barrier(program, ops[facts["op"]], [ops[number] for number in facts["removed"]])


def _vector(before: Module, after: Module, facts: Mapping[str, Any]) -> Iterable[Obligation]:
    program = before.programs[facts["program"]]
    ops = list(program.walk())
    return vector(program, [[ops[number] for number in same] for same in facts["lanes_of"]])


def _join(before: Module, after: Module, facts: Mapping[str, Any]) -> Iterable[Obligation] | None:
    """None where elements are computed again, of which nothing here knows."""
    if facts["halo"]:
        return None
    pipeline = before.pipelines[facts["pipeline"]]
    launches = [stage for stage in pipeline.walk() if isinstance(stage, Launch)]
    return joined(before, pipeline, [launches[number] for number in facts["at"]], facts["barriers"], ())


_CLAIMS: dict[str, Callable[[Module, Module, Mapping[str, Any]], Iterable[Obligation] | None]] = {
    "tile": _tile,
    "join": _join,
    "barrier": _barrier,
    "vector": _vector,
}
