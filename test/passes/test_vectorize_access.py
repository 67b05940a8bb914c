"""vectorize_access against the interpreter and the CPU target: what a program computes stays the same."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from support.quick import quick

from vyre_opt import PassManager, dispatcher, parse
from vyre_opt.analysis.alignment import Alignment
from vyre_opt.analysis.linear import LinearAnalysis
from vyre_opt.ir import Builder, DataType, Module, Program, Value, arith

LANES, OWN = 8, 16
"""Invocations of a program, and elements of @y that each of them owns."""

INDICES = (DataType.U32, DataType.U8, DataType.I32, DataType.U64)
U32 = DataType.U32


class Accesses:
    """A random program of loads and stores near each other, indices written in many ways."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.b = b = Builder("p", (LANES,), (1,), Module())
        b.buffer("x", U32, 256, "read", 0)
        self.y = b.buffer("y", U32, LANES * OWN, "read_write", 1, live_in=True, live_out=True)
        self.n = b.buffer("n", U32, LANES, "read_write", 2, live_in=True, live_out=True)
        self.x = b.program.buffers["x"]
        self.dtypes = self.rng.sample(INDICES, 2)
        self.ways = self.rng.sample(("add", "or", "twice", "sub", "unknown"), 3)
        self.lane = b.local_id("x")
        self.values = [b.load(self.x, self.lane)]
        self.some(self.rng.randrange(8, 40))
        b.store(self.mixed(), self.n, self.lane)
        self.module = b.module
        self.program = b.finish()

    def some(self, count: int, deep: bool = False) -> None:
        for _ in range(count):
            kind = self.rng.choices(["load", "read", "store", "fence"], [4, 1, 3, 1 if not deep else 0])[0]
            if kind == "load":
                self.run(lambda at: self.values.append(self.b.load(self.y, at)), owned=True)
            elif kind == "read":
                self.run(lambda at: self.values.append(self.b.load(self.x, at)), owned=False)
            elif kind == "store":
                self.run(lambda at: self.b.store(self.mixed(), self.y, at), owned=True)
            else:
                self.fence()

    def run(self, access: object, owned: bool) -> None:
        """One access, or some at neighbours in any order."""
        assert callable(access)
        dtype = self.rng.choice(self.dtypes)
        start, count = self.rng.choice((0, 0, 1, 2, 4, 9)), self.rng.choice((1, 2, 3, 4, 5, 8))
        places = [place for place in range(start, start + count) if place < OWN]
        if self.rng.random() < 0.3:
            self.rng.shuffle(places)
        for place in places:
            access(self.index(place, dtype, OWN if owned else self.rng.choice((1, 2, OWN))))

    def index(self, place: int, dtype: DataType, stride: int) -> Value:
        """lane * stride + place, in one way of many."""
        b, rng = self.b, self.rng
        narrow = rng.choice((dtype, DataType.U32)) if dtype is DataType.U64 else dtype
        lane = b.cast(self.lane, narrow) if narrow is not U32 else self.lane
        base = b.mul(lane, stride) if rng.random() < 0.5 else b.shl(lane, stride.bit_length() - 1)
        how = rng.choice(self.ways)
        if how == "or" and place < stride:
            base = b.or_(base, place)
        elif how == "twice":
            base = b.add(b.add(base, 1), place - 1) if place else base
        elif how == "unknown" and stride == OWN:  # a term of its own, which may be any element
            base = b.rem(b.add(base, place), LANES * OWN)
        elif how == "sub":
            base = b.sub(b.add(base, 100), 100 - place)
        elif place or rng.random() < 0.5:
            base = b.add(base, place)
        return b.cast(base, dtype) if narrow is not dtype else base

    def mixed(self) -> Value:
        one, two = self.rng.choice(self.values[-6:]), self.rng.choice(self.values)
        return self.b.add(self.b.xor(one, two), self.rng.randrange(1 << 32))

    def fence(self) -> None:
        b = self.b
        kind = self.rng.choice(("barrier", "atomic", "if"))
        if kind == "barrier":
            b.barrier("workgroup")
        elif kind == "atomic":
            self.values.append(b.atomic_add(self.n, self.lane, 1))
        else:
            held = list(self.values)
            with b.if_(b.lt(self.mixed(), self.mixed())):
                self.some(3, deep=True)
            self.values = held


def outputs(target: str, program: Program, module: Module, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    inputs = [rng.integers(0, 1 << 32, b.count, dtype=np.uint32) for b in program.bound_buffers]
    return dispatcher(target).dispatch(program, inputs, 1, module=module)


SEEMING_NEIGHBOURS = {
    "a sum that wraps before it is widened": """
      %l8 = cast %l : u32 -> u8
      %four = const 4 : u8
      %six = const 6 : u8
      %quadruple = mul %l8, %four : u8
      %sum = add %quadruple, %six : u8
      %i = cast %sum : u8 -> u16
      %wide = cast %quadruple : u8 -> u16
      %seven = const 7 : u16
      %j = add %wide, %seven : u16""",
    "an or that is no sum": """
      %four = const 4 : u32
      %five = const 5 : u32
      %quadruple = mul %l, %four : u32
      %i = add %quadruple, %four : u32
      %j = or %quadruple, %five : u32""",
    "a negative number that is widened": """
      %l16 = cast %l : u32 -> i16
      %two = const 2 : i16
      %most = const 254 : i16
      %one = const 1 : i16
      %minus = const -1 : i8
      %double = mul %l16, %two : i16
      %up = add %double, %two : i16
      %i = add %up, %most : i16
      %wide = cast %minus : i8 -> i16
      %j = add %up, %wide : i16""",
}


@pytest.mark.parametrize("indices", SEEMING_NEIGHBOURS.values(), ids=SEEMING_NEIGHBOURS)
def test_what_seems_to_be_a_neighbour_is_loaded_from_its_own_place(indices: str) -> None:
    """%j is %i + 1 only if one forgets how its type wraps, carries or extends."""
    text = f"""vyre 1
    program @p workgroup(64) {{
      buffer @x : u32[400] read binding(0)
      buffer @y : u32[64] write binding(1)
      %l = local_id x
      {indices}
      %a = load @x[%i] : u32
      %b = load @x[%j] : u32
      %c1000 = const 1000 : u32
      %scaled = mul %a, %c1000 : u32
      %both = add %scaled, %b : u32
      store %both, @y[%l] : u32
    }}"""
    module = parse(text)
    x = np.arange(400, dtype=np.uint32)
    (before,) = dispatcher("ref").dispatch(
        module.programs["p"], [x, np.zeros(64, np.uint32)], 1, module=module
    )
    PassManager("vectorize_access").run(module)
    (after,) = dispatcher("ref").dispatch(
        module.programs["p"], [x, np.zeros(64, np.uint32)], 1, module=module
    )
    np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize("start", quick(range(0, 240, 10)))
def test_random_accesses(start: int) -> None:
    """Same outputs, no race, nothing out of bounds or unwritten; and most programs do get vectors."""
    changed = 0
    for seed in range(start, start + 10):
        case = Accesses(seed)
        before = outputs("ref", case.program, case.module, seed)
        width = case.rng.choice((8, 16, 64))
        changed += bool(PassManager(f"vectorize_access{{width={width}}}").run(case.module))
        for target in ("ref", "cpu") if seed % 8 == 0 else ("ref",):
            for a, b in zip(before, outputs(target, case.program, case.module, seed), strict=True):
                np.testing.assert_array_equal(a, b, err_msg=f"seed {seed} on {target}")
    assert changed >= 4


@pytest.mark.campaign
def test_linear_expressions_say_how_values_differ() -> None:
    """Values of the same terms differ by their constants, whatever the lane: checked lane by lane."""
    for seed in range(300, 340):
        case = Accesses(seed)
        linear = LinearAnalysis(case.program, Alignment(case.program))
        indices = [op.index for op in case.program.walk() if op.name in ("load", "store")]
        known = [(v, _values(v)) for v in indices]
        for (v, at), (w, other) in pairwise(known):
            (terms, a), (others, b) = linear.of(v), linear.of(w)
            if terms == others and v.type is w.type and at is not None and other is not None:
                modulus = 1 << (v.type.bits or 1)
                assert all((p - q - a + b) % modulus == 0 for p, q in zip(at, other, strict=True))
            if at is not None:
                assert all(p % (1 << linear.zeros(v)) == 0 for p in at)


def _values(value: Value) -> list[int] | None:
    """What a value of adds, products, shifts and casts is in each lane."""
    op = value.owner
    if not hasattr(op, "definition"):
        return None
    if op.name == "const":
        return [op.attrs["value"]] * LANES
    if op.name == "local_id":
        return list(range(LANES))
    operands = [_values(v) for v in op.operands]
    if op.name == "cast":
        source = operands[0]
        return None if source is None else [arith.wrap(v, value.type) for v in source]
    apply = {
        "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
        "shl": lambda a, b: a << b,
        "or": lambda a, b: a | b,
        "rem": lambda a, b: a % b,
    }.get(op.name)  # fmt: skip
    if apply is None or None in operands:
        return None
    a, b = operands
    assert a is not None
    assert b is not None
    return [arith.wrap(apply(p, q), value.type) for p, q in zip(a, b, strict=True)]


def test_an_index_that_wraps_between_neighbours() -> None:
    """In u8, the neighbour of 255 is 0: a pair from an odd index on would reach element 256."""
    text = """vyre 1
        program @p workgroup(128) grid(1) {
          buffer @x : u32[256] read binding(0)
          buffer @y : u32[128] write binding(1) live_out
          %l = local_id x
          %i = cast %l : u32 -> u8
          %one = const 1 : u8
          %two = const 2 : u8
          %even = add %i, %i : u8
          %a = add %even, %one : u8
          %b = add %even, %two : u8
          %v = load @x[%a] : u32
          %w = load @x[%b] : u32
          %s = sub %w, %v : u32
          store %s, @y[%l] : u32
        }"""
    module = parse(text)
    result = PassManager("vectorize_access").run(module)
    assert not result
    (y,) = dispatcher("ref").dispatch(
        module.programs["p"], [np.arange(256, dtype=np.uint32), np.zeros(128, np.uint32)]
    )
    np.testing.assert_array_equal(y, [1] * 127 + [(-255) % (1 << 32)])


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_up_to_the_last_element(target: str) -> None:
    """The vectors of the last invocation end with the buffer; one element less is out of bounds as before."""
    text = """vyre 1
        program @p workgroup(64) {
          buffer @x : f32[?] read binding(0)
          buffer @y : f32[?] write binding(1) live_out
          %g = global_id x
          %c4 = const 4 : u32
          %b = mul %g, %c4 : u32
          for %k = 0 to 4 {
            %i = add %b, %k : u32
            %v = load @x[%i] : f32
            store %v, @y[%i] : f32
          }
        }"""
    module = parse(text)
    PassManager("unroll,vectorize_access").run(module)
    program = module.programs["p"]
    assert [op.name for op in program.walk()].count("load") == 1
    x = np.arange(1024, dtype=np.float32)
    (y,) = dispatcher(target).dispatch(program, [x, np.zeros_like(x)], 4)
    np.testing.assert_array_equal(y, x)
    with pytest.raises(Exception, match="out of bounds of @x: elements 1020 to 1023, length 1023"):
        dispatcher(target).dispatch(program, [x[:-1], np.zeros_like(x)], 4)
