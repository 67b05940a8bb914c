"""Terms for elements of slices, in the normal form in which the elements of a row and what an invocation computes are one term.

numbers                   integers and bools of constants are computed, as z3 does
neutral elements          x + -0.0, x * 1, min(x, NaN) and the like are x, which z3 proves for each that is met
choices                   `select` and branches: none is within one of the same condition, or of one that follows from it
inside(k) of base, n      k < n - base and base + k < n: a round of a loop along a row has an element at `base + k`
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import z3

from ..ir.ops import OPS
from ..ir.program import Op, Program, Value
from ..ir.types import DataType
from .loop_terms import Linear, Node, Term, Terms
from .mismatch import Mismatch
from .obligations import Obligation
from .op_terms import FLOAT_FORMATS, NoTerm, has_term, is_nan, literal, same, term, variable

__all__ = ["ElementTerms", "Path"]

BOOL, U32 = DataType.BOOL, DataType.U32

Path = tuple[tuple[Term, bool], ...]
"""Conditions that hold, or do not, the last one innermost."""

MOST_TERMS = 1_000_000
"""Beyond which a program is not looked at any more: some 20 s and 500 MB."""

MOST_PARTS = 16
"""Most parts of a sum of integers that is one term in any order of adding; places have few parts, sums of elements many."""

FAMILIES = 251
"""Bits of a mask that says which conditions a term may depend on."""
ROUND = 1 << FAMILIES
"""The bit for what a round is given."""


class ElementTerms:
    """`cluster`: workgroups of the program after that do what one does before."""

    def __init__(self, cluster: int = 1) -> None:
        self.terms, self.cluster = Terms(), cluster
        self.claims: dict[object, Obligation] = {}
        self._values: dict[tuple[object, ...], Term] = {}
        self._ops: dict[object, Op] = {}
        self._masks: list[int] = []
        self._neutrals: dict[tuple[str, DataType], Term] = {}

    def obligations(self) -> list[Obligation]:
        return [*self.claims.values()]

    # --- constants ---------------------------------------------------------------------------------

    def number(self, value: int, dtype: DataType = U32) -> Term:
        return self.terms.number(value, dtype)

    def constant(self, of: Term) -> int | None:
        """An integer constant, or a bool constant as 0 or 1; None for any other node."""
        node = self.terms.nodes[of]
        if node.name == "linear" and not node.operands:
            return int(node.attrs[0])
        return int(node.attrs[0]) if node.name == "const" and node.dtype is BOOL else None

    def neutral(self, combine: str, dtype: DataType) -> Term:
        """Operand that changes no bit of the other one."""
        key = combine, dtype
        if key not in self._neutrals:
            self._neutrals[key] = self.emit("const", dtype, value=_neutral(combine, dtype))
            self.claims["neutral", key] = _is_neutral(combine, dtype)
        return self._neutrals[key]

    # --- ops ---------------------------------------------------------------------------------------

    def emit(self, name: str, dtype: DataType, *operands: Term, **attrs: Any) -> Term:
        """The result of an op that no program has."""
        types = [self.terms.dtype(each) for each in operands]
        return self.of(None, self.scalar_op(name, dtype, types, attrs), operands)

    def scalar_op(
        self, name: str, dtype: DataType, types: Sequence[DataType], attrs: Mapping[str, Any]
    ) -> Op:
        key = name, dtype, tuple(types), tuple(sorted((k, repr(v)) for k, v in attrs.items()))
        if key not in self._ops:
            operands = tuple(Value(f"v{number}", each) for number, each in enumerate(types))
            self._ops[key] = Op(OPS[name], operands, (Value("r", dtype),), dict(attrs))
        return self._ops[key]

    def of(self, program: Program | None, op: Op, operands: Sequence[Term]) -> Term:
        """The result of a pure op on scalars."""
        if len(self.terms.nodes) > MOST_TERMS:
            raise Mismatch(f"more than {MOST_TERMS} terms are not looked at", op)
        key = op, *operands
        value = self._values.get(key)
        if value is None:
            value = self._values[key] = self._of(program, op, tuple(operands))
        return value

    def _of(self, program: Program | None, op: Op, operands: tuple[Term, ...]) -> Term:
        name, dtype = op.name, op.result.type
        if name == "select":
            return self.choice(*operands)
        if name == "cast" and self.terms.dtype(operands[0]) is dtype:
            return operands[0]
        constants = [self.constant(each) for each in operands]
        if operands and None not in constants and (dtype.is_int or dtype is BOOL):
            known = self._computed(op, [each or 0 for each in constants])
            if known is not None:
                return known
        if name in ("and", "or") and dtype is BOOL:
            return self.both_hold(*operands) if name == "and" else self._either(*operands)
        if name == "cast" and dtype.is_int:
            known = self._of_parts(op, operands[0])
            if known is not None:
                return known
        if name in ("div", "rem"):
            known = self._of_cluster(name, operands[0], constants[1])
            if known is not None:
                return known
        if len(operands) == 2 and (name, dtype) in self._neutrals:
            for one, other in (operands, operands[::-1]):
                if other == self._neutrals[name, dtype]:
                    return one
        if name == "add" and dtype.is_int and not dtype.is_vec:
            parts = sum(len(self.terms.linear(each).parts) for each in operands)
            if parts > MOST_PARTS:  # not one flat sum of all elements
                return self.terms.add(Node("add", dtype, (), tuple(sorted(operands))))
        return self.terms.of(program, op, operands)[0]

    def _computed(self, op: Op, constants: Sequence[int]) -> Term | None:
        dtype, types = op.result.type, [operand.type for operand in op.operands]
        of = types[0] if op.definition.format == "compare" else dtype
        if op.name == "bitcast" or not has_term(op.name, of) or any(t.is_float for t in types):
            return None
        terms = [literal(value, each) for value, each in zip(constants, types, strict=True)]
        result = z3.simplify(term(op.name, of, terms, op.attrs, types[0]))
        if dtype is BOOL:
            return self.terms.boolean(z3.is_true(result))
        return self.number(result.as_long(), dtype)

    def _of_parts(self, op: Op, value: Term) -> Term | None:
        """A sum as a number of no more bits: the sum of its parts as such numbers, as both wrap."""
        dtype, source = op.result.type, op.operands[0].type
        node = self.terms.nodes[value]
        if node.name != "linear" or dtype.is_vec or (dtype.bits or 0) > (source.bits or 0):
            return None
        parts = zip(node.operands, node.attrs[1:], strict=True)
        forms = [(self.terms.linear(self.of(None, op, (part,))), times) for part, times in parts]
        return self.terms.sum(dtype, (Linear({}, node.attrs[0]), 1), *forms)

    def _of_cluster(self, name: str, value: Term, by: int | None) -> Term | None:
        """Ids of workgroups that share what one does before, which are neighbours."""
        node = self.terms.nodes[value]
        if node.name != "shared" or by != self.cluster:
            return None
        return node.operands[0] if name == "div" else self.number(node.attrs[0], node.dtype)

    # --- conditions ----------------------------------------------------------------------------------

    def negation(self, of: Term) -> Term:
        return self.terms.negation(of)

    def both_hold(self, a: Term, c: Term) -> Term:
        for one, other in ((a, c), (c, a)):
            known = self.constant(one)
            if known is not None:
                return other if known else one
        if a == c:
            return a
        for one, other in ((a, c), (c, a)):
            inside = self._as_inside(one, other)
            if inside is not None:
                return inside
        return self.terms.add(Node("and", BOOL, (), tuple(sorted((a, c)))))

    def _either(self, a: Term, c: Term) -> Term:
        for one, other in ((a, c), (c, a)):
            known = self.constant(one)
            if known is not None:
                return one if known else other
        return a if a == c else self.terms.add(Node("or", BOOL, (), tuple(sorted((a, c)))))

    def inside(self, k: int, base: Term, n: Term) -> Term:
        """Whether a row of n elements has one at base + k, of a base below n."""
        if "inside" not in self.claims:
            self.claims["inside"] = _inside_means()
        return self.terms.add(Node("inside", BOOL, (k,), (base, n)))

    def _as_inside(self, one: Term, other: Term) -> Term | None:
        """Term for `k < n - base` and `base + k < n` together; None for others."""
        a, c = self.terms.nodes[one], self.terms.nodes[other]
        if a.name != "lt" or c.name != "lt" or self.terms.dtype(a.operands[0]) is not U32:
            return None
        k = self.constant(a.operands[0])
        place, n = self.terms.linear(c.operands[0]), c.operands[1]
        if k is None or place.const != k or [*place.parts.values()] != [1]:
            return None
        (base,) = place.parts
        if self.terms.nodes[base].name != "base":
            return None
        left = self.terms.sum(U32, (self.terms.linear(n), 1), (self.terms.linear(base), -1))
        return self.inside(k, base, n) if left == a.operands[1] else None

    def decide(self, condition: Term, path: Iterable[tuple[Term, bool]]) -> bool | None:
        """Decide a condition where others hold or do not."""
        known = self.constant(condition)
        if known is not None:
            return bool(known)
        for other, value in path:
            decided = self._follows(condition, other, value)
            if decided is not None:
                return decided
        return None

    def _follows(self, condition: Term, other: Term, value: bool) -> bool | None:
        if condition == other:
            return value
        node, known = self.terms.nodes[condition], self.terms.nodes[other]
        if node.name == "not":
            decided = self._follows(node.operands[0], other, value)
            return None if decided is None else not decided
        if known.name == "not":
            return self._follows(condition, known.operands[0], not value)
        if node.name == "inside" == known.name and node.operands == known.operands:
            return value if (node.attrs[0] <= known.attrs[0]) is value else None
        if node.name == "and":
            parts = [self._follows(each, other, value) for each in node.operands]
            return False if False in parts else True if parts == [True, True] else None
        if known.name == "and" and value:
            parts = [self._follows(condition, each, True) for each in known.operands]
            return next((each for each in parts if each is not None), None)
        if node.name == "lt" == known.name and value:
            return True if self._is_nearer(node, known) else None
        return None

    def _is_nearer(self, node: Node, known: Node) -> bool:
        """Whether `i + k < n` follows from `i < sub_sat(n, c)` since k is c at most."""
        most = self.terms.nodes[known.operands[1]]
        index, place = node.operands[0], known.operands[0]
        if most.name != "sub_sat" or most.operands[0] != node.operands[1]:
            return False
        distance, most_distance = self.terms.difference(index, place), self.constant(most.operands[1])
        if distance.parts or most_distance is None or not 0 <= distance.const <= most_distance:
            return False
        dtype = self.terms.dtype(index)
        if dtype.is_signed:
            return False
        key = "nearer", dtype, distance.const, most_distance
        if key not in self.claims:
            i, n = variable("i", dtype), variable("n", dtype)
            bound = term("sub_sat", dtype, [n, literal(most_distance, dtype)])
            claim = z3.Implies(z3.ULT(i, bound), z3.ULT(i + distance.const, n))
            what = f"i + {distance.const} is below n where i is below sub_sat(n, {most_distance}), in {dtype}"
            self.claims[key] = Obligation(what, [], [], [], claim)
        return True

    # --- choices -----------------------------------------------------------------------------------

    def choice(self, condition: Term, one: Term, other: Term) -> Term:
        """`one` where the condition holds."""
        known = self.constant(condition)
        if known is not None:
            return one if known else other
        node = self.terms.nodes[condition]
        if node.name == "not":
            return self.choice(node.operands[0], other, one)
        one, other = self.under(one, ((condition, True),)), self.under(other, ((condition, False),))
        inner = self.terms.nodes[other]
        is_same = inner.name == "choice" and inner.operands[1] == one
        if is_same and self._follows(
            inner.operands[0], condition, True
        ):  # the inner condition holds wherever this does
            return other
        return self.terms.choice(condition, one, other)

    def under(self, of: Term, path: Path) -> Term:
        """A term where conditions hold, or do not."""
        wanted = 0
        for condition, _ in path:
            wanted |= self._family(condition)
        if not wanted or not self._mask(of) & wanted:
            return of
        values: dict[Term, Term] = {}
        pending = [of]
        while pending:
            each = pending[-1]
            node = self.terms.nodes[each]
            if each in values:
                pending.pop()
                continue
            if node.name == "fold" or not self._mask(each) & wanted:
                values[each] = each
                continue
            operands = node.operands
            if node.name == "choice":
                decided = self.decide(operands[0], path)
                if decided is not None:
                    operands = (operands[1 if decided else 2],)
            missing = [operand for operand in operands if operand not in values]
            if missing:
                pending += missing
                continue
            changed = tuple(values[operand] for operand in operands)
            if node.name == "choice":
                values[each] = changed[0] if len(changed) == 1 else self.terms.choice(*changed)
            else:
                values[each] = each if changed == node.operands else self._rebuilt(node, changed)
        return values[of]

    def _rebuilt(self, node: Node, operands: tuple[Term, ...]) -> Term:
        if node.name == "linear":
            forms = [
                (self.terms.linear(part), times) for part, times in zip(operands, node.attrs[1:], strict=True)
            ]
            return self.terms.sum(node.dtype, (Linear({}, node.attrs[0]), 1), *forms)
        for combine in ("add", "mul", "min", "max", "and", "or", "xor"):
            if node.name == combine and (combine, node.dtype) in self._neutrals:
                for one, other in (operands, operands[::-1]):
                    if other == self._neutrals[combine, node.dtype]:
                        return one
        ordered = tuple(sorted(operands)) if node.name in OPS and OPS[node.name].commutative else operands
        return self.terms.add(node._replace(operands=ordered))

    def of_round(self, dtype: DataType) -> Term:
        """Term for a value that one round of a loop along a row hands to the next."""
        return self.terms.symbol(dtype, "round")

    def depends_on_round(self, of: Term) -> bool:
        """Whether such a symbol stands in a term."""
        return bool(self._mask(of) & ROUND)

    def _mask(self, of: Term) -> int:
        """Bits of the families of the conditions that choices within a term have, and ROUND."""
        masks, nodes = self._masks, self.terms.nodes
        while len(masks) < len(nodes):  # operands precede the nodes that use them
            node = nodes[len(masks)]
            mask = ROUND if node.name == "symbol" and node.attrs[1] == "round" else 0
            if node.name != "fold":
                for operand in node.operands:
                    mask |= masks[operand]
                if node.name == "choice":
                    mask |= self._family(node.operands[0])
            masks.append(mask)
        return masks[of]

    def _family(self, condition: Term) -> int:
        """A bit for a class of conditions that may imply each other."""
        node = self.terms.nodes[condition]
        if node.name in ("not", "and"):
            mask = 0
            for operand in node.operands:
                mask |= self._family(operand)
            return mask
        if node.name == "inside":
            key: object = node.operands
        elif node.name == "lt":
            key = tuple(sorted(self.terms.linear(node.operands[0]).parts.items()))
        else:
            key = condition
        return 1 << hash(key) % FAMILIES


def _neutral(combine: str, dtype: DataType) -> Any:
    """The encoded value, by docs/reference/language.md."""
    if dtype is BOOL:
        return combine == "and"
    bits = dtype.bits or 0
    if dtype.is_float:
        exponent_bits, precision = FLOAT_FORMATS[dtype.name]
        ones = (1 << exponent_bits) - 1
        nan = ones << (precision - 1) | 1 << (precision - 2)
        return {"add": 1 << (bits - 1), "mul": ones >> 1 << (precision - 1), "min": nan, "max": nan}[combine]
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype.is_signed else (0, (1 << bits) - 1)
    return {
        "add": 0,
        "mul": 1,
        "min": high,
        "max": low,
        "and": -1 if dtype.is_signed else high,
        "or": 0,
        "xor": 0,
    }[combine]


def _is_neutral(combine: str, dtype: DataType) -> Obligation:
    """Obligation that the value is neutral.  z3 decides it in f16 for floats: all formats have one code."""
    if dtype.is_float:
        dtype = DataType.F16
    x = variable("x", dtype)
    try:
        combined = term(combine, dtype, [x, literal(_neutral(combine, dtype), dtype)])
    except NoTerm as error:
        raise Mismatch(str(error)) from None
    what = f"{combine} of x and its neutral element is x, in {dtype}"
    claim = same(combined, x, dtype)
    return Obligation(what, [], [], [], z3.Or(claim, is_nan(x, dtype)) if dtype.is_float else claim)


def _inside_means() -> Obligation:
    """The two comparisons are one of numbers that do not wrap."""
    base, n, k = (variable(name, U32) for name in ("base", "n", "k"))
    wide = [z3.ZeroExt(1, each) for each in (base, k, n)]
    meant = z3.ULT(wide[0] + wide[1], wide[2])
    claim = meant == z3.And(z3.ULT(k, n - base), z3.ULT(base + k, n))
    what = "a round of a loop has an element at base + k where k < n - base and base + k < n"
    return Obligation(what, [], [], [z3.ULT(base, n)], claim)
