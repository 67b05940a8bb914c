"""Proofs of the rewrite rules: where one fires, the op before and the value after are the same for all inputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

import z3

from vyre_opt.certify import op_terms
from vyre_opt.ir import OPS, DataType, Op, Program, Value
from vyre_opt.ir.program import Dim3
from vyre_opt.passes import Pattern, Rewriter
from vyre_opt.rewriting.identities import RULES

from .graphs import Lanes, Node, build, shape, terms
from .identity_patterns import patterns
from .proving import PROVED, REFUTED, UNKNOWN, Outcome, prove
from .values import SCALARS

__all__ = ["Firing", "RuleProof", "firings", "prove_firings", "prove_rules", "rule_names"]

BATCH, FEW = 16, 4
"""Claims that are asked at once; cases of one shape that are not worth a question of their own for all constants."""


@dataclass(frozen=True, slots=True)
class Firing:
    """A rule that has rewritten a pattern: `before` and `after` have the patterns' leaves in common."""

    rule: str
    type: DataType
    before: Value
    after: Value
    leaves: tuple[Value, ...]

    @property
    def constants(self) -> list[Value]:
        """The constants of the pattern."""
        return [v for v in self.leaves if isinstance(v.owner, Op)]

    @property
    def shape(self) -> str:
        """What it does, whatever the constants are."""
        names = {v: f"k{number}:{v.type}" for number, v in enumerate(self.constants)}
        return f"{shape(self.before, names)} = {shape(self.after, names)}"

    @property
    def new_constants(self) -> list[Value]:
        """The constants that only `after` has."""
        return [v for v in _constants(self.after) if v not in self.leaves]

    def claim(self, any_constant: bool = False) -> z3.BoolRef:
        """That both are the same; for any values of the pattern's constants too, if asked for.

        Then a new constant is what `_NEW_CONSTANTS` says that it is.
        """
        symbols: dict[Value, Lanes] = {}
        if any_constant:
            free = [
                op_terms.variable(f"k{number}", v.type.element) for number, v in enumerate(self.constants)
            ]
            symbols = {value: (term,) for value, term in zip(self.constants, free, strict=True)}
            symbols |= {value: (self.new_constant(free),) for value in self.new_constants}
        lanes = zip(terms(self.before, symbols), terms(self.after, symbols), strict=True)
        return z3.And([op_terms.same(a, b, self.before.type.element) for a, b in lanes])

    @property
    def generalises(self) -> bool:
        """Whether it is for any constants that the rule claims something, not for certain ones."""
        return self.rule == "_constant_right" or self.rule in _NEW_CONSTANTS

    def new_constant(self, constants: Sequence[op_terms.Term]) -> op_terms.Term:
        """What the new constant is, for terms of the pattern's constants."""
        owner = self.before.owner
        assert isinstance(owner, Op)
        return _NEW_CONSTANTS[self.rule](owner.name, self.type, constants)

    def has_expected_constant(self) -> bool:
        """Whether the new constant is that, for the pattern's own constants."""
        known = [terms(value, {})[0] for value in self.constants]
        return all(
            z3.is_true(z3.simplify(terms(value, {})[0] == self.new_constant(known)))
            for value in self.new_constants
        )


# (x op c) op d = x op (c op d); x - c = x + -c
_NEW_CONSTANTS: dict[str, Callable[[str, DataType, Sequence[op_terms.Term]], op_terms.Term]] = {
    "_associative": lambda name, dtype, known: op_terms.term(name, dtype, known),
    "_sub_constant": lambda name, dtype, known: op_terms.term("neg", dtype, known[-1:]),
}


def _constants(value: Value) -> Iterator[Value]:
    if isinstance(value.owner, Op):
        if value.owner.name == "const":
            yield value
        for operand in value.owner.operands:
            yield from _constants(operand)


@dataclass(slots=True)
class RuleProof:
    """What is proved of a rule: by type name, the verdict, and the seconds of all."""

    rule: str
    types: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    counterexamples: list[str] = field(default_factory=list)

    def add(self, dtype: str, outcome: Outcome, what: str) -> None:
        self.seconds += outcome.seconds
        worst = max(self.types.get(dtype, PROVED), outcome.verdict, key=(PROVED, UNKNOWN, REFUTED).index)
        self.types[dtype] = worst
        if outcome.verdict == REFUTED:
            self.counterexamples.append(f"{what}: {outcome.counterexample}")


def rule_names() -> list[str]:
    """The patterns of the table, in the order of their declaration."""
    return [*dict.fromkeys(rule.name for rule in RULES)]


def firings(name: str, rule: Pattern, dtype: DataType) -> Iterator[Firing]:
    """Where a rule of an op rewrites one of the op's patterns."""
    for node in patterns(name, dtype):
        leaves: dict[Node, Value] = {}
        for leaf in _leaves(node):
            build(leaf, leaves)
        rewritten = build(node, dict(leaves))
        op = rewritten.owner
        assert isinstance(op, Op)
        result = rule.rewrite(op, Rewriter())
        if result is not None:
            after = result if isinstance(result, Value) else op.result
            yield Firing(rule.name, dtype, build(node, dict(leaves)), after, tuple(leaves.values()))


def _leaves(node: Node) -> Iterator[Node]:
    if not node.operands:
        yield node
    for operand in node.operands:
        yield from _leaves(operand)


def prove_rules(
    types: Sequence[DataType] = SCALARS,
    seconds: float = 10,
    by_exponent: bool = False,
    rules: Collection[str] = (),
) -> list[RuleProof]:
    """Every rule on every type it fires on.

    `seconds`: for each question.  `by_exponent`: a claim on
    floats of 16 bits that z3 does not decide is asked again for each exponent.  `rules`: those of these names
    alone, if there are any.
    """
    proofs = {name: RuleProof(name) for name in rules or rule_names()}
    for rule in RULES:
        for name in rule.roots if rule.name in proofs else ():
            for dtype in types:
                prove_firings(proofs[rule.name], firings(name, rule, dtype), seconds, by_exponent)
    if "_global_id" in proofs:
        _prove_ids(proofs["_global_id"], seconds)
    return list(proofs.values())


def _extents(axis: int, along: int) -> Dim3:
    """An extent along an axis, and another along the others."""
    x, y, z = (along if place == axis else 3 for place in range(3))
    return x, y, z


# --- ids, which are no functions of operands


def _prove_ids(proof: RuleProof, seconds: float) -> None:
    """global_id = workgroup_id * size + local_id, for sizes and grids with and without an extent of 1."""
    ids = {name: z3.BitVec(name, 32) for name in ("workgroup_id", "local_id")}
    for axis, size, groups in product(range(3), (1, 2, 64), (None, 1, 5)):
        program = Program("p", _extents(axis, size), None if groups is None else _extents(axis, groups))
        op = Op(OPS["global_id"], (), (Value("g", DataType.U32),), {"axis": "xyz"[axis]})
        for rule in RULES:
            if "global_id" not in rule.roots or rule.rewrite(op, Rewriter(program)) is None:
                continue
            within = [z3.ULT(ids["local_id"], size)]
            within += [z3.ULT(ids["workgroup_id"], groups)] if groups is not None else []
            equal = ids["workgroup_id"] * size + ids["local_id"] == ids[op.name]
            proof.add("u32", prove([z3.Implies(z3.And(within), equal)], seconds), f"{size} of {groups}")


def exponents(case: Firing) -> list[list[z3.BoolRef]]:
    """The exponents of a 16-bit float, the first variable of the pattern; one case each."""
    (variable,) = terms(_deepest(case.before), {})
    places = {"f16": 10, "bf16": 7}.get(_deepest(case.before).type.name)
    if places is None:
        return [[]]
    return [[z3.Extract(14, places, variable) == e] for e in range(1 << (15 - places))]


def prove_firings(
    proof: RuleProof, cases: Iterable[Firing], seconds: float, by_exponent: bool = False
) -> None:
    """Case by case; where a rewrite keeps the pattern's constants and fires for many, for any constants at once."""
    by_shape: dict[str, list[Firing]] = {}
    for case in cases:
        by_shape.setdefault(case.shape, []).append(case)
    for key, group in by_shape.items():
        types = _types(group[0])
        if len(group) > FEW and group[0].generalises:
            outcome = prove([group[0].claim(any_constant=True)], seconds)
            if outcome.verdict == PROVED and all(case.has_expected_constant() for case in group):
                proof.add(types, outcome, key)
                continue
            proof.seconds += outcome.seconds
        for start in range(0, len(group), BATCH):
            claims = [case.claim() for case in group[start : start + BATCH]]
            outcome = prove(claims, seconds)
            if outcome.verdict == UNKNOWN and by_exponent:
                outcome = prove(claims, seconds, exponents(group[0]))
            proof.add(types, outcome, key)


def _types(case: Firing) -> str:
    """The types of the pattern: of the operand that it starts from, and of its result if that is another."""
    names = [t.element.name for t in dict.fromkeys((_deepest(case.before).type, case.before.type))]
    return names[0] if names[0] == names[-1] or case.before.type.is_bool else " -> ".join(names)


def _deepest(value: Value) -> Value:
    """The first variable of a graph."""
    while isinstance(value.owner, Op):
        owner = value.owner
        value = next((v for v in owner.operands if not _is_constant(v)), owner.operands[0])
    return value


def _is_constant(value: Value) -> bool:
    return isinstance(value.owner, Op) and value.owner.name == "const"
