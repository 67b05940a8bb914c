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
from dataclasses import replace
from typing import NamedTuple

from ..ir import arith
from ..ir.access_extents import access_extents, is_slice_access
from ..ir.loops import bounds
from ..ir.program import Block, Op, Program, Value
from ..records import dataclass
from .affine import AffineExpr, Symbol, SymbolKind
from .affine_rules import length, result_form
from .value_forms import ValueForms

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
    """Why an access is in bounds along a dimension.

    `index`: as an integer, which it is by `no_wrap`.  `low`: facts whose sum it exceeds by what is never negative.
    `high`: the same of the count of elements less the last one's index.
    """

    index: AffineExpr
    low: Sum
    high: Sum
    no_wrap: Sum


class BoundsProofs:
    """`proven`: the loads, stores and atomics of a program that are in bounds, each with a proof for each dimension, and
    the checks of bounds that hold.

    `along`: for those that are in bounds along some dimensions only, which these are.
    `bases`: for accesses with an index that is a value plus a constant, both at least 0 and without a wrap, these two by dimension, of which
    the last one is -1.
    Without `proves` nothing is proven, and only `bases` are found; with `checks_only`, accesses are not looked at.
    `specs`: the values of specialization constants, where they are fixed.
    """

    def __init__(
        self,
        program: Program,
        specs: Mapping[str, object] | None = None,
        proves: bool = True,
        checks_only: bool = False,
    ) -> None:
        self.program = program
        self.proves = proves
        self.checks_only = checks_only
        self.forms = ValueForms(program, specs)
        self.proven: dict[Op, tuple[BoundsProof, ...]] = {}
        self.along: dict[Op, tuple[bool, ...]] = {}
        self.bases: dict[Op, dict[int, tuple[Value, int]]] = {}
        self.facts: list[Fact] = []
        self.properties: dict[Symbol, list[Fact]] = {}
        self.under_facts: dict[tuple[Value, int], tuple[AffineExpr, Sum]] = {}
        """Results of `_expr_with_facts` that hold under the current facts."""
        self.contradiction: Fact | None = None
        """A current fact that never holds: then the current block never runs, and all accesses in it are proven."""
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
            elif op.name == "check_bounds":
                if self.proves:
                    self._prove_check(op)
            elif "buffer" in op.attrs and op.operands and not self.checks_only and not is_slice_access(op):
                if op.attrs.get("in_bounds"):  # see lowering/common/row_major.py
                    self.proven[op] = ()
                elif self.proves:
                    self._prove(op)
                self._find_bases(op)

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
        self.forms.aliases.update(zip(body.args, condition.args, strict=False))
        self._block(condition)
        end = condition.terminator
        self._block_with(body, self._facts_if(end.operands[0], True) if end is not None else [])

    def _counter_facts(self, loop: Op) -> list[Fact]:
        """lower <= counter < upper; and the counter is lower + step * iteration, unless that might wrap."""
        counter = loop.regions[0].args[0]
        lower, upper, step = (
            AffineExpr(b) if isinstance(b, int) else self.forms.expr(b) for b in bounds(loop)
        )
        if step.is_const and step.const > 0:
            last = max(0, upper.range()[1] - 1 - lower.range()[0]) // step.const
            iteration = Symbol(SymbolKind.LOOP, f"iteration(%{counter.name})", (0, last), identity=loop)
            self.forms.define(counter, lower + AffineExpr.of(iteration).scaled(step.const))
        expr = self.forms.expr(counter)
        return [Fact(expr - lower, loop), Fact(upper - expr - AffineExpr(1), loop)]

    def _facts_if(self, value: Value, holds: bool) -> list[Fact]:
        """The facts that follow from the condition `value` being true or false."""
        facts: list[Fact] = []
        conditions = [(value, holds)]
        seen: set[tuple[Value, bool]] = set()
        for value, holds in conditions:
            op = value.owner
            if not isinstance(op, Op) or (value, holds) in seen:
                continue
            seen.add((value, holds))
            # both sides of a true `and` are true, and both of a false `or` are false
            if op.name == "not" or (op.name == ("and" if holds else "or") and value.type.is_bool):
                conditions += [(operand, holds != (op.name == "not")) for operand in op.operands]
            elif op.definition.format == "compare" and op.operands[0].type.is_int:
                a, b = (self.forms.expr(operand) for operand in op.operands)
                relation = op.name if holds else _NEGATION[op.name]
                facts += [Fact(expr, op) for expr in _nonnegative(relation, a, b)]
        return facts

    # --- expressions under the current facts

    def _expr_with_facts(self, value: Value, depth: int) -> tuple[AffineExpr, Sum]:
        """The expression of a value under the current facts and what follows for atoms, and which of these say so:
        `%i - 1` does not wrap where %i > 0, and `min(%i, 9) * 8` nowhere."""
        cached = self.under_facts.get((value, depth))
        if cached is None:
            cached = self.under_facts[value, depth] = self._derived(value, depth)
        return cached

    def _derived(self, value: Value, depth: int) -> tuple[AffineExpr, Sum]:
        expr = self.forms.expr(value)
        op = self.forms.aliases.get(value, value).owner
        # Facts help only where the op might wrap, so that its expression is a mere atom
        if not depth or not isinstance(op, Op) or expr != self.forms.atom(value) or op.name not in _LINEAR:
            return expr, ()
        used_facts: list[tuple[int, Fact]] = []

        def with_facts(operand: Value) -> AffineExpr:
            exact, sum_of_facts = self._expr_with_facts(operand, depth - 1)
            used_facts.extend(sum_of_facts)
            return exact

        derived = result_form(op, replace(self.forms.operands, form=with_facts, exact=with_facts))
        if derived is None:
            return expr, ()
        lowest, highest = arith.int_range(value.type)
        facts = self.facts[-MAX_FACTS:]
        for margin in (derived - AffineExpr(lowest), AffineExpr(highest) - derived):
            proof = self._sum_for(margin, facts)
            if proof is None:
                proof = self._sum_for(margin, [*facts, *self._implied_facts([margin])])
            if proof is None:
                return expr, ()
            used_facts += proof
        return derived, used_facts

    def _operands(self, op: Op) -> list[AffineExpr]:
        """Expressions of the integer operands, the amount of a `shr` modulo the width if it is known."""
        exprs = [self.forms.expr(v) for v in op.operands if v.type.is_int]
        if op.name == "shr":
            low, high = exprs[1].range()
            if low == high:
                exprs[1] = AffineExpr(low % (op.results[0].type.bits or 1))
        return exprs

    # --- the search ---------------------------------------------------------------------

    def _prove(self, op: Op) -> None:
        """Record the proofs that an access is in bounds, or along which dimensions it is."""
        proofs = [self._proof(op, dimension) for dimension in range(len(op.indices))]
        proven = tuple(proof for proof in proofs if proof is not None)
        if len(proven) == len(proofs):
            self.proven[op] = proven
        elif proven:
            self.along[op] = tuple(proof is not None for proof in proofs)

    def _proof(self, op: Op, dimension: int) -> BoundsProof | None:
        """The proof that an access is in bounds along a dimension; None if there is none."""
        buffer = self.program.buffers[op.attrs["buffer"]]
        width = access_extents(op, buffer)[dimension]
        return self._proof_below(op.indices[dimension], self._counts(buffer.name, dimension), width)

    def _counts(self, buffer: str, dimension: int | None) -> list[AffineExpr]:
        """Expressions of a buffer's extent: `len` modulo 2^bits is at most the count, so a proof by either is enough."""
        extent = self.program.buffers[buffer].extent(dimension)
        if extent is not None:
            return [AffineExpr(extent)]
        return [length(self.program, buffer, bits, dimension) for bits in (32, 64)]

    def _prove_check(self, op: Op) -> None:
        """Record the proof that the index of a check_bounds is below its length."""
        index, limit = op.operands
        last, length = index.owner, limit.owner
        counts = [self.forms.expr(limit)]
        if isinstance(length, Op) and length.name == "len":
            counts += self._counts(length.attrs["buffer"], length.attrs.get("dimension"))
        width = 1
        if (
            isinstance(last, Op) and last.name == "add_sat"
        ):  # the last element of a vector, which does not wrap
            more = self.forms.expr(last.operands[1])
            if more.is_const:
                index, width = last.operands[0], more.const + 1
        proof = self._proof_below(index, counts, width)
        if proof is not None:
            self.proven[op] = (proof,)

    def _proof_below(self, index: Value, counts: Sequence[AffineExpr], width: int) -> BoundsProof | None:
        """The proof that `width` elements from an index on are below a count, of which there are several expressions."""
        derived, no_wrap = self._expr_with_facts(index, MAX_DEPTH)
        proof = self._proof_of(derived, no_wrap, counts, width)
        plain = self.forms.expr(index)
        if proof is None and plain != derived:
            # a comparison of the index itself is a fact about the plain expression: `%i + 1 < n`
            proof = self._proof_of(plain, (), counts, width)
        return proof

    def _proof_of(
        self, expr: AffineExpr, no_wrap: Sum, counts: Sequence[AffineExpr], width: int
    ) -> BoundsProof | None:
        facts = self.facts[-MAX_FACTS:]
        facts = [*facts, *self._implied_facts([expr, *(fact.expr for fact in facts)])]
        low = self._sum_for(expr, facts)
        if low is None:
            return None
        highs = (self._sum_for(count - AffineExpr(width) - expr, facts) for count in counts)
        high = next((high for high in highs if high is not None), None)
        return BoundsProof(expr, low, high, no_wrap) if high is not None else None

    def _sum_for(self, goal: AffineExpr, facts: list[Fact]) -> Sum | None:
        """Facts by which `goal` is never negative; one that never holds counts so often that its greatest value makes up
        for the goal's least."""
        proof = _prove(goal, facts, MAX_DEPTH)
        if proof is None and self.contradiction is not None:
            by_one = -self.contradiction.expr.range()[1]
            proof = ((-(goal.range()[0] // by_one), self.contradiction),)
        return proof

    def _find_bases(self, op: Op) -> None:
        for dimension, index in enumerate(op.indices, -len(op.indices)):
            base = self._base(index)
            if base is not None:
                self.bases.setdefault(op, {})[dimension] = base

    def _base(self, index: Value) -> tuple[Value, int] | None:
        """A value and the constant that are added to an index."""
        add = index.owner
        if not isinstance(add, Op) or add.name != "add":
            return None
        base, constant = add.operands
        expr = self.forms.expr(constant)
        if not expr.is_const:
            base, constant, expr = constant, base, self.forms.expr(base)
        if not expr.is_const or expr.const < 0:
            return None
        start, _ = self._expr_with_facts(base, MAX_DEPTH)
        if start.range()[0] >= 0 and self._expr_with_facts(index, MAX_DEPTH)[0] == start + expr:
            return base, expr.const
        return None

    def _implied_facts(self, exprs: list[AffineExpr]) -> list[Fact]:
        """Facts about the atoms of `exprs` that are results of min, max, sub_sat, rem, div, shr and `and`.

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
        """Facts about an atom that follow from the op whose result it is."""
        cached = self.properties.get(symbol)
        if cached is None:
            op = symbol.identity.owner if isinstance(symbol.identity, Value) else None
            cached = []
            if isinstance(op, Op) and op.name in _PROPERTIES:
                exprs = _PROPERTIES[op.name](AffineExpr.of(symbol), *self._operands(op))
                cached = [Fact(expr, op) for expr in exprs]
            self.properties[symbol] = cached
        return cached


def _nonnegative(relation: str, a: AffineExpr, b: AffineExpr) -> list[AffineExpr]:
    """Expression that is never negative where the relation holds."""
    unit = AffineExpr(1)
    return {
        "lt": [b - a - unit], "le": [b - a], "gt": [a - b - unit], "ge": [a - b], "eq": [b - a, a - b], "ne": [],
    }[relation]  # fmt: skip


def _prove(goal: AffineExpr, facts: list[Fact], depth: int) -> Sum | None:
    """Facts to subtract from `goal` so that its range is never negative.  None if there is no such proof.

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
                proof = _prove(goal.plus(fact.expr, -times), facts, depth - 1)
                if proof is not None:
                    return ((times, fact), *proof)
    return None


# --- facts about results; x/0 = x, x%0 = 0


def _remainder(r: AffineExpr, a: AffineExpr, b: AffineExpr) -> list[AffineExpr]:
    if a.range()[0] < 0:
        return []
    return [a - r, *([b - r - AffineExpr(1)] if b.range()[0] > 0 else [])]


def _quotient(q: AffineExpr, a: AffineExpr, b: AffineExpr) -> list[AffineExpr]:
    """b * q <= a < b * q + b for a constant b."""
    if a.range()[0] < 0 or not b.is_const or b.const < 1:
        return []
    return [a - q.scaled(b.const), q.scaled(b.const) + AffineExpr(b.const - 1) - a]


def _saturated_difference(d: AffineExpr, a: AffineExpr, b: AffineExpr) -> list[AffineExpr]:
    """a - b <= d <= a for an a and a b that are not negative."""
    if a.range()[0] < 0 or b.range()[0] < 0:
        return []
    return [a - d, d - a + b]


def _shift_goals(q: AffineExpr, a: AffineExpr, b: AffineExpr) -> list[AffineExpr]:
    return _quotient(q, a, AffineExpr(1 << b.const)) if b.is_const else []


_PROPERTIES: dict[str, Callable[..., list[AffineExpr]]] = {
    "min": lambda m, a, b: [a - m, b - m],
    "max": lambda m, a, b: [m - a, m - b],
    "and": lambda m, a, b: [x - m for x in (a, b) if x.range()[0] >= 0],
    "sub_sat": _saturated_difference,
    "rem": _remainder,
    "div": _quotient,
    "shr": _shift_goals,
}
