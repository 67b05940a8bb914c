"""Obligations: what has to be true for a decision to be right, and z3's answer whether it is.

An obligation is proved if z3 finds that its assumptions and the negation of its claim cannot hold together.  It is
refuted by values for which they do, unless these are of free variables, of which the program may know more than the
terms say: then the answer is unknown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

import z3

from ..ir.program import Op
from ..records import dataclass
from .points import LEAST_WRAP, MAIN_GROUP, Point

__all__ = ["REFUTED", "Answer", "Obligation", "not_seen", "prove", "smt2", "variables"]

PROVED, REFUTED, UNKNOWN = "proved", "refuted", "unknown"
DEFAULT_SECONDS = 10.0
MAX_RETRIES = 16
"""The most retries of z3 after facts have ruled out its counterexamples."""

TURNS = 300, 1000, 3000
"""Milliseconds for each strategy, in turns: the right one needs little time, but which one is right is unknown."""


@dataclass
class Obligation:
    """The premises imply `claim` at `points`.

    `what`: the obligation in words.  `ops`: the ops that it is about.  `witness_terms`: terms whose values a refutation
    shows, by name.  `sufficient`: claims that imply `claim` and are quicker to prove.  `is_refuted`: whether a
    counterexample of `claim` refutes the obligation, if `claim` is stronger; `unknown_reason`: the reason to give if it
    does not.  `ruled_out`: facts that a counterexample contradicts and that hold in all programs without errors, but are
    too many to be premises from the start.
    """

    what: str
    ops: Sequence[Op]
    points: Sequence[Point]
    premises: Sequence[z3.BoolRef]
    claim: z3.BoolRef
    witness_terms: dict[str, z3.ArithRef] = field(default_factory=dict)
    sufficient: Sequence[z3.BoolRef] = ()
    is_refuted: Callable[[z3.ModelRef], bool] = lambda model: True
    ruled_out: Callable[[z3.ModelRef], list[z3.BoolRef]] = lambda model: []
    unknown_reason: str = "it holds where z3 tried it, by no witness that was put in"

    def assumptions(self) -> list[z3.BoolRef]:
        known = {fact.get_id(): fact for point in self.points for fact in point.assumptions()}
        return [*known.values(), *self.premises]


@dataclass(frozen=True)
class Answer:
    """`status`: proved, refuted or unknown.  `witness`: values of a refutation, by name.  `reason`: why it is unknown, or the
    consequence of the values."""

    obligation: Obligation
    status: str
    seconds: float
    witness: Mapping[str, int | float | str] = field(default_factory=dict)
    reason: str = ""


def not_seen(what: str, reason: str, ops: Sequence[Op]) -> Obligation:
    """An obligation that cannot be stated; `reason`: why it may not hold."""
    return Obligation(
        what, ops, [], [], z3.BoolVal(False), is_refuted=lambda model: False, unknown_reason=reason
    )


def prove(obligation: Obligation, seconds: float = DEFAULT_SECONDS) -> Answer:
    """z3's answer within `seconds`."""
    started = time.perf_counter()
    bases = _bases(obligation)
    ways = [*obligation.sufficient, *([obligation.claim] if bases else [])]
    result = z3.unknown
    for milliseconds in TURNS if ways else ():
        open_ways = []
        for claim in ways:
            answer = _ask(_without_wraps(obligation, claim, bases), milliseconds)
            if answer == z3.unsat:
                return Answer(obligation, PROVED, time.perf_counter() - started)
            if answer == z3.unknown:  # else it does not lead there, however long
                open_ways.append(claim)
        ways, solver = open_ways, _solver(obligation)
        result = _ask(solver, milliseconds)
        if result != z3.unknown:
            break
    if result == z3.unknown:
        solver = _solver(obligation)
        result = _ask(solver, int(seconds * 1000))
    for _ in range(MAX_RETRIES):
        facts = obligation.ruled_out(solver.model()) if result == z3.sat else []
        if not facts:
            break
        solver.add(*facts)
        result = _ask(solver, int(seconds * 1000))
    spent = time.perf_counter() - started
    if result == z3.unsat:
        return Answer(obligation, PROVED, spent)
    if result == z3.unknown:
        return Answer(obligation, UNKNOWN, spent, reason=f"z3 has no answer within {seconds:g} s")
    free = _free_values(obligation)
    if free:
        return Answer(obligation, UNKNOWN, spent, reason=f"nothing is known of {', '.join(free)}")
    if not obligation.is_refuted(solver.model()):
        return Answer(obligation, UNKNOWN, spent, reason=obligation.unknown_reason)
    return Answer(obligation, REFUTED, spent, _values(obligation, solver.model()))


def _ask(solver: z3.Solver, milliseconds: int) -> z3.CheckSatResult:
    solver.set("timeout", milliseconds)
    return solver.check()


def smt2(obligation: Obligation) -> str:
    """The obligation for other solvers: unsat means proved."""
    text: str = _solver(obligation).to_smt2()
    return f"; {obligation.what}\n{text}"


def _solver(obligation: Obligation) -> z3.Solver:
    solver = z3.Solver()
    solver.add(*obligation.assumptions())
    solver.add(z3.Not(obligation.claim))
    return solver


def _without_wraps(
    obligation: Obligation, claim: z3.BoolRef, bases: Sequence[tuple[z3.ExprRef, z3.ArithRef]]
) -> z3.Solver:
    """A solver in which what a workgroup has wrapped is any number: what holds for all is quickly proved for any."""
    solver = z3.Solver()
    parts = [*obligation.assumptions(), z3.Not(claim)]
    solver.add(*(z3.substitute(part, *bases) for part in parts) if bases else parts)
    solver.add(*(z3.And(base >= 0, base < term.arg(1)) for term, base in bases))
    return solver


def _bases(obligation: Obligation) -> list[tuple[z3.ExprRef, z3.ArithRef]]:
    """The innermost terms `x % 2^bits` over variables of a workgroup alone, each with a variable for it."""
    if not any(point.group.wraps for point in obligation.points):
        return []  # which most are, and to search costs more than to prove
    remainders: list[z3.ExprRef] = []
    # by id: whether all variables of a term are a workgroup's, whether it has a %
    known: dict[int, tuple[bool, bool]] = {}
    for term in _subterms([*obligation.assumptions(), obligation.claim, *obligation.sufficient]):
        children, symbol = term.children(), term.decl()
        below = [known[child.get_id()] for child in children]
        is_shared, has_mod = all(shared for shared, _ in below), any(mod for _, mod in below)
        if symbol.kind() == z3.Z3_OP_UNINTERPRETED and not children:
            is_shared = symbol.name().startswith(f"{MAIN_GROUP}.")
        elif symbol.kind() == z3.Z3_OP_MOD:
            if (
                is_shared
                and not has_mod
                and z3.is_int_value(children[1])
                and children[1].as_long() >= LEAST_WRAP
            ):
                remainders.append(term)
            has_mod = True
        known[term.get_id()] = is_shared, has_mod
    return [(term, z3.Int(f"base.{number}")) for number, term in enumerate(remainders)]


def _subterms(terms: Iterable[z3.ExprRef]) -> list[z3.ExprRef]:
    """The terms and all that they are made of, each once, parts before wholes."""
    found: list[z3.ExprRef] = []
    ids: set[int] = set()
    pending = [(term, False) for term in terms]
    while pending:
        term, has_parts = pending.pop()
        if term.get_id() in ids:
            continue
        if has_parts:
            ids.add(term.get_id())
            found.append(term)
        else:
            pending.append((term, True))
            pending += [(child, False) for child in term.children()]
    return found


def variables(terms: Iterable[z3.ExprRef]) -> list[z3.ExprRef]:
    """The variables in terms."""
    return [t for t in _subterms(terms) if z3.is_const(t) and t.decl().kind() == z3.Z3_OP_UNINTERPRETED]


def _free_values(obligation: Obligation) -> list[str]:
    """The values whose free variables the claim or what is given mentions."""
    names = {str(v) for v in variables([obligation.claim, *obligation.premises])}
    free = {name: value for point in obligation.points for name, value in point.free.items()}
    return sorted({f"%{free[name].name}" for name in names & free.keys()})


def _values(obligation: Obligation, model: z3.ModelRef) -> dict[str, int | float | str]:
    values: dict[str, int | float | str] = {}
    for name, term in obligation.witness_terms.items():
        value = model.eval(term, model_completion=True)
        if z3.is_int_value(value):
            values[name] = value.as_long()
    return values
