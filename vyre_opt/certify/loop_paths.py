"""Facts along the paths of a program: conditions that hold, and distances of counters from their bounds.

Which way a condition goes is guessed here by a sum, as if no number wrapped.  Each guess is kept as a claim, of which z3
makes sure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Any

import z3

from ..ir.program import Op
from ..records import dataclass
from .loop_terms import Linear, Term, Terms, beyond, centred
from .obligations import Obligation

__all__ = ["Distance", "Path", "Paths"]

Known = tuple[Term, bool]


@dataclass(frozen=True)
class Distance:
    """`form`, an upper bound less a lower one, is from `low` to `high`; None for any number."""

    form: Linear
    low: int
    high: int | None


@dataclass(frozen=True)
class Path:
    """`assumed`: conditions that are known.  `guards`: those that a first iteration has as well; `closure`: all of them.
    `facts`: for z3."""

    assumed: dict[Term, bool] = field(default_factory=dict)
    guards: frozenset[Known] = frozenset()
    closure: frozenset[Known] = frozenset()
    distances: tuple[Distance, ...] = ()
    facts: tuple[Any, ...] = ()


class Paths:
    """`now`: the path that is gone.  `obligations`: what z3 is to prove, with the loop that it is about, None for none."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.now = Path()
        self.obligations: list[tuple[Op | None, Obligation]] = []
        self._claims: dict[tuple[object, ...], z3.BoolRef] = {}
        self._base = 0

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Scope of assumptions: they hold in it only."""
        was = self.now
        try:
            yield
        finally:
            self.now = was

    @contextmanager
    def claims(self, what: str, loop: Op | None, ops: Sequence[Op]) -> Iterator[None]:
        """A scope whose claims are one obligation, of a loop of the program before."""
        outer, base = self._claims, self._base
        self._claims, self._base = {}, len(self.now.facts)
        with self.scope():
            yield
            if self._claims:
                given, claim = self._z3(self.now.facts[: self._base]), z3.And([*self._claims.values()])
                self.obligations.append(
                    (loop, Obligation(what, ops, [], given, claim, is_refuted=lambda model: False))
                )
        self._claims, self._base = outer, base

    def begin_claims(self) -> None:
        """Let the present assumptions hold for all claims of this scope."""
        self._base = len(self.now.facts)

    def _z3(self, facts: Sequence[Any]) -> list[z3.BoolRef]:
        return [self._as_z3(*each) if isinstance(each, tuple) else each for each in facts]

    def _as_z3(self, condition: Term, value: bool) -> z3.BoolRef:
        term = self.terms.to_z3(condition)
        return term if value else z3.Not(term)

    def claim(self, key: tuple[object, ...], claim: z3.BoolRef) -> None:
        more = self.now.facts[self._base :]
        if (key, more) not in self._claims:
            self._claims[key, more] = z3.Implies(z3.And(self._z3(more)), claim) if more else claim

    # --- assumptions -----------------------------------------------------------------------------

    def assume(self, condition: Term, value: bool, guards: bool = True) -> None:
        """`guards`: see `Path`."""
        assumed, known = dict(self.now.assumed), list[Known]()
        pending = [(condition, value)]
        while pending:
            term, holds = pending.pop()
            node = self.terms.nodes[term]
            assumed[term] = holds
            known.append((term, holds))
            if node.name == "not":
                pending.append((node.operands[0], not holds))
            elif node.name == ("and" if holds else "or"):
                pending += [(each, holds) for each in node.operands]
        new = {(term, holds) for term, holds in known if self.decide(term) is not holds}
        self.now = replace(
            self.now,
            assumed=assumed,
            guards=self.now.guards | new if guards else self.now.guards,
            closure=self.now.closure | {*known},
            facts=(*self.now.facts, (condition, value)),
        )

    def assume_distance(self, lower: Term, upper: Term, low: int, high: int | None) -> None:
        """`upper` is above `lower`, by `low` to `high`."""
        bits = self.terms.dtype(lower).bits or 1
        apart = self.terms.distance(lower, upper)
        facts = [beyond(apart, low - 1, bits)]
        facts += [z3.Not(beyond(apart, high, bits))] if high is not None else []
        form = self.terms.difference(upper, lower)
        self.now = replace(
            self.now,
            distances=(Distance(form, low, high), *self.now.distances),
            facts=(*self.now.facts, *facts),
        )

    def steps_between(self, lower: Term, upper: Term, step: int) -> int | None:
        """Number of positive steps from one to the other, if distances say it."""
        form, modulus = self.terms.difference(upper, lower), 1 << (self.terms.dtype(lower).bits or 1)
        for distance in self.now.distances:
            if distance.form.parts != form.parts or distance.high is None or step < 1:
                continue
            moved = centred((form.const - distance.form.const) % modulus, modulus.bit_length() - 1)
            least, most = (max(0, -(-(apart + moved) // step)) for apart in (distance.low, distance.high))
            if least == most:
                self._claim_steps(lower, upper, most, step)
                return most
        return None

    def _claim_steps(self, lower: Term, upper: Term, count: int, step: int) -> None:
        bits, apart = self.terms.dtype(lower).bits or 1, self.terms.distance(lower, upper)
        begins = self.terms.to_z3(self.terms.less(lower, upper))
        claim = z3.Not(begins)
        if count:
            least, most = ((each * step) for each in (count - 1, count))
            claim = z3.And(begins, beyond(apart, least, bits), z3.Not(beyond(apart, most, bits)))
        self.claim(("steps", lower, upper, count, step), claim)

    # --- what follows ------------------------------------------------------------------------------

    def decide(self, condition: Term) -> bool | None:
        """Whether a condition holds; None if that is open."""
        value, is_guess = self._decided(condition)
        if value is not None and is_guess:
            self.claim((condition, value), self._as_z3(condition, value))
        return value

    def resolved(self, term: Term) -> Term:
        """The term, or the one that it is here."""
        while (node := self.terms.nodes[term]).name == "choice":
            value = self.decide(node.operands[0])
            if value is None:
                break
            term = node.operands[1] if value else node.operands[2]
        return term

    def _decided(self, condition: Term) -> tuple[bool | None, bool]:
        """Known value of a condition, and whether it is a guess."""
        if condition in self.now.assumed:
            return self.now.assumed[condition], False
        node = self.terms.nodes[condition]
        if node.name == "const":
            return bool(node.attrs[0]), False
        if node.name == "not":
            value, is_guess = self._decided(node.operands[0])
            return (None if value is None else not value), is_guess
        if node.name in ("and", "or"):
            return self._joined(node.name == "and", node.operands)
        if node.name == "room":
            lower, upper = node.operands
            form = self.terms.difference(upper, lower)
            return self._positive(form._replace(const=form.const - node.attrs[0]), lower), True
        if node.name == "lt" and self.terms.dtype(node.operands[0]).is_int:
            one, other = node.operands
            a, b = self.terms.linear(one), self.terms.linear(other)
            if not a.parts and not b.parts:
                return a.const < b.const, False
            parts = self.terms.difference(other, one).parts
            return self._positive(Linear(parts, b.const - a.const), one), True
        return None, False

    def _joined(self, is_and: bool, operands: Sequence[Term]) -> tuple[bool | None, bool]:
        parts = [self._decided(each) for each in operands]
        for value, is_guess in sorted(parts, key=lambda part: part[1]):
            if value is (not is_and):
                return value, is_guess
        if any(value is None for value, _ in parts):
            return None, False
        return is_and, any(is_guess for _, is_guess in parts)

    def _positive(self, form: Linear, like: Term) -> bool | None:
        """Whether a difference is above 0, if numbers do not wrap and distances say it."""
        modulus = 1 << (self.terms.dtype(like).bits or 1)
        for distance in self.now.distances:
            if distance.form.parts != form.parts:
                continue
            moved = (form.const - distance.form.const) % modulus
            reach = distance.high if distance.high is not None else max(distance.low, modulus // 2)
            if modulus - moved <= reach or moved > modulus // 2:
                moved -= modulus
            if distance.low + moved > 0:
                return True
            if distance.high is not None and distance.high + moved <= 0:
                return False
        return None
