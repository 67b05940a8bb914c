"""Terms against numbers: what they say of a value is so, whatever the ids and the unknown values are."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from support.quick import quick

from vyre_opt.checker.terms import Form, Terms, int_type
from vyre_opt.ir import OPS, DataType
from vyre_opt.ir.arith import wrap

WORKGROUPS = [(64, 1, 1), (8, 4, 2), (33, 1, 1)]
TYPES = ("u8", "i8", "u16", "u32", "i32", "u64")
BINARY = "add sub mul div rem min max and or xor shl shr abs_diff add_sat sub_sat mul_sat rotl".split()
COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")
POINTS = 12


class Point:
    """One invocation: its workgroup, its lane, and values for what is unknown."""

    def __init__(self, terms: Terms, rng: random.Random) -> None:
        self.terms = terms
        width, height, depth = terms.workgroup
        self.lane = rng.randrange(width * height * depth)
        local = (self.lane % width, self.lane // width % height, self.lane // width // height)
        self.values: dict[int, int] = {}
        for axis, (at, size) in enumerate(zip(local, terms.workgroup, strict=True)):
            last = min(terms.counts[axis], (1 << 32) // size) - 1
            group = rng.choice((0, min(1, last), last, rng.randrange(last + 1)))
            self.define(terms.id("local_id", "xyz"[axis]), at)
            self.define(terms.id("workgroup_id", "xyz"[axis]), group)

    def define(self, term: int, value: int) -> None:
        self.values[term] = value

    def value(self, atom: int) -> int:
        key = self.terms.keys[atom]
        if atom not in self.values and key[0] == "quotient":
            self.values[atom] = self.sum(Form(key[2], dict(key[3]))) // key[1]
        if atom not in self.values and (form := self.terms.sums[atom]) is not None:
            self.values[atom] = wrap(self.sum(form), DataType.of(self.terms.types[atom]))
        if atom not in self.values:  # an op on parts of a value
            args = [self.value(arg) for arg in key[3]]
            self.values[atom] = meaning(key[0], args, self.terms.types[key[3][0]], self.terms.types[atom])
        return self.values[atom]

    def sum(self, form: Form) -> int:
        return form.const + sum(times * self.value(atom) for atom, times in form.atoms.items())


def meaning(name: str, args: Sequence[int], operand: str, dtype: str) -> int:
    """What an op gives, by the op table of the compiler."""
    if name == "select":
        return args[1] if args[0] else args[2]
    if name == "cast":
        return wrap(args[0], DataType.of(dtype))
    fold: Callable[..., int] | None = OPS[name].fold_int
    assert fold is not None
    return wrap(int(fold(*args, DataType.of(operand))), DataType.of(dtype))


def agree(terms: Terms, points: Sequence[Point], term: int, values: Sequence[int]) -> None:
    """Everything that is said of a term is true of its values at the points."""
    dtype = terms.types[term]
    low, high = terms.bounds[term]
    lanes = terms.lanes(term)
    for point, value in zip(points, values, strict=True):
        assert point.values.setdefault(term, value) == value, f"{terms.keys[term]} is of two values"
        assert low <= value <= high, f"{terms.keys[term]} is {value}, not in {low} to {high}"
        assert point.sum(terms.exact(term)) == value, terms.keys[term]
        if int_type(dtype) and dtype != "bool":
            assert wrap(point.sum(terms.modular(term)), DataType.of(dtype)) == value, terms.keys[term]
        assert lanes is None or lanes[point.lane] == value, terms.keys[term]


@pytest.mark.parametrize("seed", quick(range(3000), keep=60))
def test_what_terms_say_of_random_ops(seed: int) -> None:
    rng = random.Random(seed)
    groups = rng.choice(((None, None, None), (16, 1, 1), (3, 2, None)))
    terms = Terms(rng.choice(WORKGROUPS), groups)
    points = [Point(terms, rng) for _ in range(POINTS)]
    nodes: list[tuple[int, list[int]]] = []

    def add(term: int, values: list[int]) -> None:
        agree(terms, points, term, values)
        nodes.append((term, values))

    for name in ("local_id", "workgroup_id", "global_id", "lane_id", "subgroup_id"):
        axis = "" if name in ("lane_id", "subgroup_id") else rng.choice("xyz")
        term = terms.id(name, axis)
        add(term, [point.sum(terms.exact(term)) for point in points])
    for dtype in rng.sample(TYPES, 2):
        unknown = terms.unknown("unknown", dtype)
        values = [rng.randrange(terms.bounds[unknown][0], terms.bounds[unknown][1] + 1) for _ in points]
        for point, value in zip(points, values, strict=True):
            point.define(unknown, value)
        add(unknown, values)
    for _ in range(40):
        one, values = rng.choice(nodes)
        dtype = terms.types[one]
        like = [node for node in nodes if terms.types[node[0]] == dtype]
        other, others = rng.choice(like)
        if rng.random() < 0.6 and dtype != "bool":
            number = rng.choice((0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 31, 63, 64, 100, 255, 4095, -1))
            other = terms.const(number, dtype)
            others = [wrap(number, DataType.of(dtype))] * POINTS
        conditions = [node for node in nodes if terms.types[node[0]] == "bool"]
        kind = rng.choice(("cast", "binary", "binary", "binary", "compare", "select"))
        if kind == "cast" and dtype != "bool":
            to = rng.choice(TYPES)
            add(terms.op("cast", (), [one], to), [meaning("cast", [v], dtype, to) for v in values])
        elif kind == "select" and conditions:
            condition, holds = rng.choice(conditions)
            chosen = [
                meaning("select", each, dtype, dtype) for each in zip(holds, values, others, strict=True)
            ]
            add(terms.op("select", (), [condition, one, other], dtype), chosen)
        elif kind == "compare" or dtype == "bool":
            name = rng.choice(COMPARE if dtype != "bool" else ("and", "or", "xor", "eq"))
            args, pairs = [one, other], list(zip(values, others, strict=True))
            add(terms.op(name, (), args, "bool"), [meaning(name, pair, dtype, "bool") for pair in pairs])
        else:
            name = rng.choice(BINARY)
            pairs = list(zip(values, others, strict=True))
            add(
                terms.op(name, (), [one, other], dtype), [meaning(name, pair, dtype, dtype) for pair in pairs]
            )
