"""Proofs that an access lies within its buffer, whatever the ids and the data.

The index of one invocation is an affine expression over atoms, values of which only a range is known.
Facts are affine expressions that are nonnegative where the access is: conditions of the branches and
loops around it, and properties of min, max, rem and the like.  The access is in bounds if

    count - width - index  =  sum(k * fact) + something whose least value is not negative

for some k > 0, and likewise for `index` itself.  A proof needs few facts, so the search is
bounded to short sums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..ir import arith
from ..ir.loops import bounds
from ..ir.program import Block, Op, Program, Value
from .affine import AffineExpr, ByLane, Range, Symbol, SymbolKind
from .affine_rules import OperandForms, length, local_ids, result_form
from .lane_values import LaneValues, is_by_lane, put_together
from .ranges import declared_range, is_within, result_range

__all__ = ["BoundsProof", "BoundsProofs", "Fact"]

MAX_DEPTH = 3
"""The most facts that one proof adds up."""

MAX_FACTS = 24
"""The most facts that a search tries, the innermost."""

_LINEAR = ("add", "sub", "mul", "shl")
_NEGATION = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}


class Fact(NamedTuple):
    """An expression that is not negative, because of `op`: a comparison that a branch or loop around is taken by, a
    loop, or an op whose result has a property."""

    expr: AffineExpr
    op: Op


Sum = Sequence[tuple[int, Fact]]
"""Facts, each so many times."""


@dataclass(frozen=True, slots=True)
class BoundsProof:
    """Why an access is in bounds.

    `index`: as an integer, which it is by `no_wrap`.  `low`: facts whose sum it exceeds by what is never negative.
    `high`: the same of the count of elements less the last one's index.
    """

    index: AffineExpr
    low: Sum
    high: Sum
    no_wrap: Sum


class BoundsProofs:
    """`proven`: the loads, stores and atomics of a program that are in bounds, each with its proof.

    `bases`: accesses whose index is a value plus a constant, both at least 0 and without a wrap: these two.
    Without `proves` nothing is proven, and only `bases` are found.
    `specs`: the values of specialization constants, where they are fixed.  `aliases`: arguments of a
    while's body, with those of its condition that they are equal to.
    """

    def __init__(
        self, program: Program, specs: Mapping[str, object] | None = None, proves: bool = True
    ) -> None:
        self.program = program
        self.proves = proves
        self.forms = OperandForms(program, local_ids(program), self._congruent, self.expr, specs or {})
        self.lane_values = LaneValues(program.lanes, self._congruent)
        self.proven: dict[Op, BoundsProof] = {}
        self.bases: dict[Op, tuple[Value, int]] = {}
        self.exprs: dict[Value, AffineExpr] = {}
        self.congruent_exprs: dict[Value, AffineExpr] = {}
        self.atoms: dict[Value, AffineExpr] = {}
        self.aliases: dict[Value, Value] = {}
        self.facts: list[Fact] = []
        self.properties: dict[Symbol, list[Fact]] = {}
        self.under_facts: dict[tuple[Value, int], tuple[AffineExpr, Sum]] = {}
        """Results of `_expr_with_facts` that hold under the current facts."""
        self.contradiction: Fact | None = None
        """A current fact that never holds, so that what is proven is never reached."""
        self._block(program.body)

    # --- the walk: facts of the branches and loops around -------------------------------

    def _block(self, block: Block) -> None:
        for op in block.ops:
            if op.name == "if":
                for number, inner in enumerate(op.regions):
                    self._block_with(inner, self._facts_if(op.operands[0], number == 0))
            elif op.name == "for":
                self._block_with(op.regions[0], self._counter_facts(op))
            elif op.name == "while":
                self._while(op)
            elif op.regions:
                self._block(op.regions[0])
            elif "buffer" in op.attrs and op.operands:
                proof = self._proof(op) if self.proves else None
                if proof is not None:
                    self.proven[op] = proof
                self._find_base(op)

    def _block_with(self, block: Block, facts: list[Fact]) -> None:
        outer = len(self.facts), self.under_facts, self.contradiction
        self.facts += facts
        self.under_facts = {}
        never = (fact for fact in facts if fact.expr.range()[1] < 0)
        self.contradiction = next(never, self.contradiction)
        self._block(block)
        kept, self.under_facts, self.contradiction = outer
        del self.facts[kept:]

    def _while(self, op: Op) -> None:
        condition, body = op.regions
        # The condition hands its arguments on to the body unchanged
        self.aliases.update(zip(body.args, condition.args, strict=False))
        self._block(condition)
        end = condition.terminator
        self._block_with(body, self._facts_if(end.operands[0], True) if end is not None else [])

    def _counter_facts(self, loop: Op) -> list[Fact]:
        """lower <= counter < upper; and the counter is lower + step * iteration, unless that might wrap."""
        counter = loop.regions[0].args[0]
        lower, upper, step = (AffineExpr(b) if isinstance(b, int) else self.expr(b) for b in bounds(loop))
        if step.is_const and step.const > 0:
            last = max(0, upper.range()[1] - 1 - lower.range()[0]) // step.const
            iteration = _symbol(f"iteration(%{counter.name})", (0, last), counter)
            expr = lower + AffineExpr.of(iteration).scaled(step.const)
            if is_within(expr.range(), arith.int_range(counter.type)):
                self.exprs[counter] = expr
        expr = self.expr(counter)
        return [Fact(expr - lower, loop), Fact(upper - expr - AffineExpr(1), loop)]

    def _facts_if(self, value: Value, holds: bool) -> list[Fact]:
        """The facts that follow from the condition `value` being true or false."""
        op = value.owner
        if not isinstance(op, Op):
            return []
        if op.name == "not":
            return self._facts_if(op.operands[0], not holds)
        # Both sides of a true `and` are true, and both of a false `or` are false
        if op.name == ("and" if holds else "or") and value.type.is_bool:
            return [fact for operand in op.operands for fact in self._facts_if(operand, holds)]
        if op.definition.format != "compare" or not op.operands[0].type.is_int:
            return []
        a, b = (self.expr(operand) for operand in op.operands)
        relation = op.name if holds else _NEGATION[op.name]
        less, equal = b - a, relation in ("le", "ge", "eq")
        slack = AffineExpr(0 if equal else -1)
        exprs = {
            "lt": [less + slack], "le": [less], "gt": [-less + slack], "ge": [-less],
            "eq": [less, -less], "ne": [],
        }[relation]  # fmt: skip
        return [Fact(expr, op) for expr in exprs]

    # --- expressions: exact as integers, not modulo anything ---------------------------

    def expr(self, value: Value) -> AffineExpr:
        value = self.aliases.get(value, value)
        expr = self.exprs.get(value)
        if expr is None:
            expr = self._congruent(value)
            if not is_within(expr.range(), arith.int_range(value.type)):
                expr = self._atom(value)
            self.exprs[value] = expr
        return expr

    def _congruent(self, value: Value) -> AffineExpr:
        """An expression that is equal to the value modulo 2^bits of its type: in `(%s + %l) - %s` the sum may wrap,
        but the difference is `%l`."""
        value = self.aliases.get(value, value)
        known = self.congruent_exprs.get(value)
        if known is None:
            known = self._form(value, self.forms) or self.exprs.get(value) or self._atom(value)
            if is_by_lane(known):
                known = put_together(known, self.forms.local.values(), self.program.lanes)
            self.congruent_exprs[value] = known
        return known

    def _form(self, value: Value, forms: OperandForms) -> AffineExpr | None:
        op = value.owner
        return result_form(op, forms) if isinstance(op, Op) and value.type.is_int else None

    def _expr_with_facts(self, value: Value, depth: int) -> tuple[AffineExpr, Sum]:
        """The expression of a value under the current facts, and which of them say so: `%i - 1` does not wrap where
        %i > 0."""
        known = self.under_facts.get((value, depth))
        if known is None:
            known = self.under_facts[value, depth] = self._derived(value, depth)
        return known

    def _derived(self, value: Value, depth: int) -> tuple[AffineExpr, Sum]:
        expr = self.expr(value)
        op = self.aliases.get(value, value).owner
        # Facts help only where the op might wrap, so that its expression is a mere atom
        if not depth or not isinstance(op, Op) or expr != self._atom(value) or op.name not in _LINEAR:
            return expr, ()
        used: list[tuple[int, Fact]] = []

        def with_facts(operand: Value) -> AffineExpr:
            exact, sum_of_facts = self._expr_with_facts(operand, depth - 1)
            used.extend(sum_of_facts)
            return exact

        derived = self._form(value, replace(self.forms, form=with_facts, exact=with_facts))
        if derived is None:
            return expr, ()
        lowest, highest = arith.int_range(value.type)
        facts = self.facts[-MAX_FACTS:]
        for margin in (derived - AffineExpr(lowest), AffineExpr(highest) - derived):
            proof = self._prove(margin, facts)
            if proof is None:
                return expr, ()
            used += proof
        return derived, used

    def _atom(self, value: Value) -> AffineExpr:
        """A symbol for a value of which the range is known, and in each lane if it depends on the local ids alone."""
        known = self.atoms.get(value)
        if known is None:
            name, whole = f"%{value.name}", arith.int_range(value.type)
            self.atoms[value] = AffineExpr.of(
                _symbol(name, whole, value)
            )  # for a value that depends on itself
            span, by_lane = self._range(value)
            known = self.atoms[value] = AffineExpr.of(_symbol(name, span, value, by_lane))
        return known

    def _range(self, value: Value) -> tuple[Range, ByLane | None]:
        op = value.owner
        if not isinstance(op, Op) or op.regions or len(op.results) != 1:
            return arith.int_range(value.type), None
        by_lane = self.lane_values.of_result(op, value) if value.type.is_int else None
        if by_lane is not None:
            return (min(by_lane), max(by_lane)), by_lane
        declared = declared_range(self.program, op, self.forms.specs)
        if declared is not None and is_within(declared, arith.int_range(value.type)):
            return declared, None
        return result_range(op, {v: self.expr(v).range() for v in op.operands if v.type.is_int}), None

    def _operands(self, op: Op) -> list[AffineExpr]:
        """Expressions of the integer operands, the amount of a `shr` modulo the width if it is known."""
        exprs = [self.expr(v) for v in op.operands if v.type.is_int]
        if op.name == "shr":
            low, high = exprs[1].range()
            if low == high:
                exprs[1] = AffineExpr(low % (op.results[0].type.bits or 1))
        return exprs

    # --- the search ---------------------------------------------------------------------

    def _proof(self, op: Op) -> BoundsProof | None:
        """The proof that an access is in bounds; None if there is none."""
        buffer = self.program.buffers[op.attrs["buffer"]]
        value = op.operands[0] if op.name == "store" else op.results[0]
        width = value.type.lanes // buffer.dtype.lanes
        expr, no_wrap = self._expr_with_facts(op.index, MAX_DEPTH)
        facts = self.facts[-MAX_FACTS:]
        facts = [*facts, *self._implied_facts([expr, *(fact.expr for fact in facts)])]
        low = self._prove(expr, facts)
        if low is None:
            return None
        if buffer.count is not None:
            counts = [AffineExpr(buffer.count)]
        else:
            # `len` modulo 2^bits is at most the count, so a proof by either is enough
            counts = [length(self.program, buffer.name, bits) for bits in (32, 64)]
        highs = (self._prove(count - AffineExpr(width) - expr, facts) for count in counts)
        high = next((high for high in highs if high is not None), None)
        return BoundsProof(expr, low, high, no_wrap) if high is not None else None

    def _prove(self, goal: AffineExpr, facts: list[Fact]) -> Sum | None:
        """`_prove`, and by a contradiction: so often that its least negative value makes up for the goal's least."""
        proof = _prove(goal, facts, MAX_DEPTH)
        if proof is None and self.contradiction is not None:
            by_one = -self.contradiction.expr.range()[1]
            proof = ((-(goal.range()[0] // by_one), self.contradiction),)
        return proof

    def _find_base(self, op: Op) -> None:
        add = op.index.owner
        if not isinstance(add, Op) or add.name != "add":
            return
        base, constant = add.operands
        expr = self.expr(constant)
        if not expr.is_const:
            base, constant, expr = constant, base, self.expr(base)
        if not expr.is_const or expr.const < 0:
            return
        start, _ = self._expr_with_facts(base, MAX_DEPTH)
        if start.range()[0] >= 0 and self._expr_with_facts(op.index, MAX_DEPTH)[0] == start + expr:
            self.bases[op] = base, expr.const

    def _implied_facts(self, exprs: list[AffineExpr]) -> list[Fact]:
        """Facts about the atoms of `exprs` that are results of min, max, rem, div, shr and `and`.

        Transitively: atoms of these facts have facts too.
        """
        facts: list[Fact] = []
        worklist = [symbol for expr in exprs for symbol in expr.terms]
        seen: set[Symbol] = set()
        while worklist and len(facts) < MAX_FACTS:
            symbol = worklist.pop()
            if symbol not in seen:
                seen.add(symbol)
                for fact in self._properties(symbol):
                    facts.append(fact)
                    worklist += fact.expr.terms
        return facts

    def _properties(self, symbol: Symbol) -> list[Fact]:
        """What holds for an atom because of the op whose result it is."""
        known = self.properties.get(symbol)
        if known is None:
            op = symbol.identity.owner if isinstance(symbol.identity, Value) else None
            known = []
            if isinstance(op, Op) and op.name in _PROPERTIES:
                exprs = _PROPERTIES[op.name](AffineExpr.of(symbol), *self._operands(op))
                known = [Fact(expr, op) for expr in exprs]
            self.properties[symbol] = known
        return known


def _symbol(name: str, span: Range, identity: object, by_lane: ByLane | None = None) -> Symbol:
    return Symbol(SymbolKind.VALUE, name, span, identity=identity, by_lane=by_lane)


def _prove(goal: AffineExpr, facts: list[Fact], depth: int) -> Sum | None:
    """Facts by which `goal` is never negative, beside its range: those that are subtracted.  None if there are none.

    Only multiples that cancel a term of `goal` are tried, so each step makes it simpler.
    """
    if goal.range()[0] >= 0:
        return ()
    if not depth:
        return None
    for fact in facts:
        for symbol, coefficient in fact.expr.terms.items():
            term = goal.terms.get(symbol, 0)
            if term * coefficient > 0 and term % coefficient == 0:
                times = term // coefficient
                rest = _prove(goal.plus(fact.expr, -times), facts, depth - 1)
                if rest is not None:
                    return ((times, fact), *rest)
    return None


# --- what is true of results; x/0 = x, x%0 = 0


def _remainder(r: AffineExpr, a: AffineExpr, b: AffineExpr) -> list[AffineExpr]:
    if a.range()[0] < 0:
        return []
    return [a - r, *([b - r - AffineExpr(1)] if b.range()[0] > 0 else [])]


def _quotient(q: AffineExpr, a: AffineExpr, b: AffineExpr) -> list[AffineExpr]:
    """b * q <= a < b * q + b for a constant b."""
    if a.range()[0] < 0 or not b.is_const or b.const < 1:
        return []
    return [a - q.scaled(b.const), q.scaled(b.const) + AffineExpr(b.const - 1) - a]


def _shifted(q: AffineExpr, a: AffineExpr, b: AffineExpr) -> list[AffineExpr]:
    return _quotient(q, a, AffineExpr(1 << b.const)) if b.is_const else []


_PROPERTIES: dict[str, Callable[..., list[AffineExpr]]] = {
    "min": lambda m, a, b: [a - m, b - m],
    "max": lambda m, a, b: [m - a, m - b],
    "and": lambda m, a, b: [x - m for x in (a, b) if x.range()[0] >= 0],
    "rem": _remainder,
    "div": _quotient,
    "shr": _shifted,
}
