"""Proofs that accesses are in bounds: what is proven, what must not be, and that no proof is wrong."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.quick import quick

from vyre_opt import dispatcher, parse
from vyre_opt.analysis.affine import AffineExpr
from vyre_opt.analysis.bounds import BoundsProofs
from vyre_opt.execution import ProgramError
from vyre_opt.execution.dispatcher import Dispatcher
from vyre_opt.ir import Builder, DataType, Op, Program, Value
from vyre_opt.lowering.common.certificates import certificates

HEAD = """vyre 1
program @p workgroup(64) {
  buffer @x : u32[?] read binding(0)
  buffer @t : u32[256] read binding(1)
  buffer @b : u8[?] read binding(2)
  buffer @y : u32[?] write binding(3)
  spec @k : u32 = 3
  %g = global_id x
  %l = local_id x
  %n = len @x
  %c0 = const 0 : u32
  %c1 = const 1 : u32
  %c3 = const 3 : u32
  %c4 = const 4 : u32
  %c63 = const 63 : u32
  %c64 = const 64 : u32
  %c255 = const 255 : u32
"""

PROVEN = {
    "guarded by the length": "%p = lt %g, %n : u32\n if %p { %v = load @x[%g] : u32 }",
    "guarded from the other side": "%p = ge %g, %n : u32\n if %p { } else { %v = load @x[%g] : u32 }",
    "one of two conditions": """%p = lt %g, %n : u32
        %q = gt %g, %c3 : u32
        %r = and %p, %q : bool
        if %r { %i = sub %g, %c3 : u32
          %v = load @x[%i] : u32 }""",
    "less one where it is more than none": """%i = sub %l, %c1 : u32
        %p = gt %l, %c0 : u32
        if %p { %v = load @t[%i] : u32 }""",
    "local ids fit a static count": "%i = mul %l, %c4 : u32\n %v = load @t[%i] : vec<4 x u32>",
    "a byte indexes 256 entries": """%p = lt %g, %n : u32
        %m = len @b
        %q = lt %g, %m : u32
        if %q { %b = load @b[%g] : u8
          %i = cast %b : u8 -> u32
          %v = load @t[%i] : u32 }""",
    "a mask": "%w = sub %g, %c3 : u32\n %i = and %w, %c255 : u32\n %v = load @t[%i] : u32",
    "a remainder": "%i = rem %g, %c64 : u32\n %v = load @t[%i] : u32",
    "a quotient": "%q = div %l, %c4 : u32\n %i = mul %q, %c4 : u32\n %v = load @t[%i] : vec<4 x u32>",
    "the least of two": "%i = min %g, %c255 : u32\n %v = load @t[%i] : u32",
    "a counter": "for %k = 0 to %n step 1 { %v = load @x[%k] : u32 }",
    "a counter from a constant": "for %k = 4 to 253 step 4 : u32 { %v = load @t[%k] : vec<4 x u32> }",
    "a while's condition": """%e = while iter(%i = %l : u32) {
          %p = lt %i, %n : u32
          condition %p
        } do {
          %v = load @x[%i] : u32
          %j = add %i, %c64 : u32
          yield %j
        }""",
    "a vector where a quarter of the length bounds": """%q = div %n, %c4 : u32
        %p = lt %g, %q : u32
        if %p { %i = mul %g, %c4 : u32
          %v = load @x[%i] : vec<4 x u32> }""",
    "rows and columns": """%r = div %l, %c4 : u32
        %c = rem %l, %c4 : u32
        %s = mul %r, %c4 : u32
        %i = add %s, %c : u32
        %v = load @t[%i] : u32""",
    "what is never reached": "%p = lt %c3, %c1 : u32\n if %p { %v = load @x[%g] : u32 }",
    "what is not reached by De Morgan": """%p = ge %g, %n : u32
        %q = lt %g, %c3 : u32
        %r = or %p, %q : bool
        %o = not %r : bool
        if %o { %i = sub %g, %c3 : u32
          %v = load @x[%i] : u32 }""",
    "a quotient and its remainder": """%q = div %l, %c3 : u32
        %m = mul %q, %c3 : u32
        %r = rem %l, %c3 : u32
        %i = add %m, %r : u32
        %j = mul %i, %c4 : u32
        %v = load @t[%j] : vec<4 x u32>""",
    "bits of a clamped local id": """%a = add %l, %c1 : u32
        %m = min %a, %c63 : u32
        %f = xor %m, %c3 : u32
        %i = mul %f, %c4 : u32
        %v = load @t[%i] : vec<4 x u32>""",
    "a specialization constant": "%k = spec @k : u32\n %i = add %l, %k : u32\n %v = load @t[%i] : u32",
}

NOT_PROVEN = {
    "no guard": "%v = load @x[%g] : u32",
    "another buffer's length": "%m = len @b\n %p = lt %g, %m : u32\n if %p { %v = load @x[%g] : u32 }",
    "at most the length": "%p = le %g, %n : u32\n if %p { %v = load @x[%g] : u32 }",
    "the other branch": "%p = lt %g, %n : u32\n if %p { } else { %v = load @x[%g] : u32 }",
    "either of two conditions": """%p = lt %g, %n : u32
        %q = lt %g, %c4 : u32
        %r = or %p, %q : bool
        if %r { %v = load @x[%g] : u32 }""",
    "a vector that sticks out": "%p = lt %g, %n : u32\n if %p { %v = load @x[%g] : vec<4 x u32> }",
    "an index that may wrap below": "%i = sub %l, %c1 : u32\n %p = lt %l, %n : u32\n if %p { %v = load @x[%i] : u32 }",
    "a product that may wrap": """%p = lt %g, %n : u32
        if %p { %w = load @x[%g] : u32
          %i = mul %w, %c4 : u32
          %q = lt %w, %c64 : u32
          %v = load @t[%i] : u32 }""",
    "a length less one, which may be none": "%m = sub %n, %c1 : u32\n %i = min %g, %m : u32\n %v = load @x[%i] : u32",
    "a guard after the access": "%v = load @x[%g] : u32\n %p = lt %g, %n : u32\n if %p { }",
    "a signed index from below": """%s = cast %g : u32 -> i32
        %m = cast %n : u32 -> i32
        %c = const 5 : i32
        %i = sub %s, %c : i32
        %p = lt %i, %m : i32
        if %p { %v = load @x[%i] : u32 }""",
    "a shift by the width, which is none": """%b = cast %g : u32 -> u8
        %c8 = const 8 : u8
        %w = shr %b, %c8 : u8
        %i = mul %w, %c8 : u8
        %v = load @t[%i] : vec<4 x u32>""",
    "a cast that may wrap below": """%w = load @t[%l] : u32
        %s = cast %w : u32 -> i32
        %h = const 256 : i32
        %p = lt %s, %h : i32
        if %p { %v = load @t[%s] : u32 }""",
    "a condition that holds of constants": "%p = le %c3, %c3 : u32\n if %p { %v = load @x[%g] : u32 }",
    "two from below the length": "%p = lt %g, %n : u32\n if %p { %v = load @x[%g] : vec<2 x u32> }",
    "what has wrapped before it was widened": """%b = cast %l : u32 -> u8
        %h = const 200 : u8
        %s = add %b, %h : u8
        %w = cast %s : u8 -> u32
        %c200 = const 200 : u32
        %i = sub %w, %c200 : u32
        %v = load @t[%i] : u32""",
    "remainder by a length that may be 0": "%i = rem %g, %n : u32\n %v = load @x[%i] : u32",
}


def last_access(body: str) -> tuple[Program, Op]:
    program = parse(f"{HEAD}{body}\n  store %c0, @y[%c0] : u32\n}}\n").programs["p"]
    return program, [op for op in program.walk() if op.name == "load"][-1]


def is_proven(body: str) -> bool:
    program, op = last_access(body)
    return op in BoundsProofs(program, {"k": 3}).proven


def test_proven():
    assert [name for name, body in PROVEN.items() if not is_proven(body)] == []


def test_a_row_is_no_element():
    """Its extent may be open, so that an index in bounds says nothing of the rest."""
    (program,) = parse("""vyre 2
    program @rows workgroup(1) {
      buffer @x : f32[1, 1] read binding(0)
      buffer @y : f32[1, 1] write binding(1) live_out
      %r = const 0 : u32
      %v = slice_load @x[%r, %r] : slice<?xf32>
      slice_store %v, @y[%r, %r] : slice<?xf32>
    }""").programs.values()
    assert not BoundsProofs(program, {}).proven
    assert not list(certificates(program))


def test_not_proven():
    assert [name for name, body in NOT_PROVEN.items() if is_proven(body)] == []


# --- no proof is wrong: what is proven never faults, whatever the data and lengths


def random_access(rng: random.Random) -> Program:
    """A load at a random index, under random guards."""
    b = Builder("p", 8, None if rng.random() < 0.5 else 2)
    count = rng.choice((None, 1, 5, 8, 16, 40))
    b.buffer("data", DataType.U32, None, "read", 0)
    b.buffer("x", DataType.U32, count, "read", 1)
    b.buffer("out", DataType.U32, None, "write", 2)
    dtype = rng.choice((DataType.U32, DataType.I32, DataType.U8, DataType.I8))
    g = b.global_id("x")
    pool = [b.cast(v, dtype) for v in (g, b.local_id("x"), b.load("data", g), b.len("x"))]
    pool += [b.const(c, dtype) for c in (0, 1, rng.randrange(2, 9), rng.randrange(9, 100))]

    def value(depth: int) -> Value:
        if depth == 0 or rng.random() < 0.2:
            return rng.choice(pool)
        name = rng.choice(("add", "sub", "mul", "div", "rem", "and_", "min", "max", "shl", "shr"))
        return getattr(b, name)(value(depth - 1), value(depth - 1))

    def access() -> None:
        index = rng.choice([*pool[:3], value(2), value(2)])
        lanes = rng.choice((1, 1, 1, 2, 4))
        b.load("x", index, lanes)

    def guarded(depth: int) -> None:
        if not depth:
            return access()
        if rng.random() < 0.2:
            with b.for_(value(1), value(1), rng.choice((1, 3)), dtype=dtype) as loop:
                pool.insert(0, loop.index)
                guarded(depth - 1)
                pool.pop(0)
            return None
        name = rng.choice(("lt", "lt", "le", "gt", "ge", "eq", "ne"))
        condition = getattr(b, name)(value(1), rng.choice([pool[3], value(1)]))
        size = len(pool)
        with b.if_(b.not_(condition) if rng.random() < 0.2 else condition):
            guarded(depth - 1)
        del pool[size:]
        return None

    # what is made inside a branch is not visible outside of it, so only pool values are reused
    guarded(rng.randrange(1, 4))
    b.store(b.const(1), "out", b.const(0))
    return b.finish()


def outcome(ref: Dispatcher, program: Program, inputs: list[np.ndarray]) -> str:
    """What went wrong out of bounds, "" if nothing did; a run that takes too long counts as fine."""
    try:
        ref.dispatch(program, inputs, program.grid or 2)
    except ProgramError as fault:
        return fault.diagnostic.message if fault.kind == "bounds" else ""
    return ""


@pytest.mark.parametrize("seeds", quick([range(120), range(120, 1000)]))
def test_what_is_proven_never_faults(seeds):
    ref = dispatcher("ref", checks=False, max_steps=2000)
    proofs, faults = 0, 0
    for seed in seeds:
        rng = random.Random(seed)
        program = random_access(rng)
        proven = BoundsProofs(program).proven
        watched = [op for op in program.walk() if op.attrs.get("buffer") == "x" and op.operands]
        sure = [op for op in watched if op in proven]
        proofs += len(sure)
        count = program.buffers["x"].count
        for trial in range(3 if sure else 1):
            length = count if count is not None else rng.choice((0, 1, 3, 8, 20))
            kinds = (rng.randrange(50), rng.getrandbits(32), 2**31 - 1)
            data = np.array([rng.choice(kinds) for _ in range(16)], np.uint32)
            x = np.zeros(length, np.uint32)
            fault = outcome(ref, program, [data, x, np.zeros(1, np.uint32)])
            faults += "@x" in fault
            assert "@x" not in fault or not sure, (seed, trial, fault)
    assert proofs > len(seeds) / 10, "the test proves too little to say anything"
    assert faults > len(seeds) / 10, "the test faults too little to say anything"


# --- no base is wrong: its sum with the constant never wraps


def random_sum(rng: random.Random) -> Program:
    """A load at a value plus a constant, under random guards, behind a trap for a sum that wraps."""
    b = Builder("p", 8, 2)
    b.buffer("data", DataType.U32, None, "read", 0)
    b.buffer("x", DataType.U32, rng.choice((None, 16, 300)), "read", 1)
    dtype = rng.choice((DataType.U32, DataType.I32, DataType.U8, DataType.I8))
    word = b.load("data", b.global_id("x"))
    base = b.cast(rng.choice((b.global_id("x"), word, b.rem(word, 8))), dtype)
    if rng.random() < 0.5:
        base = getattr(b, rng.choice(("add", "mul", "sub")))(base, rng.randrange(1, 20))
    limits = [b.const(rng.choice((1, 10, 100, 120)), dtype), b.cast(b.len("x"), dtype)]

    def guarded(depth: int) -> None:
        if depth:
            with b.if_(getattr(b, rng.choice(("lt", "le", "ge", "ne")))(base, rng.choice(limits))):
                guarded(depth - 1)
            return
        ahead = rng.choice((1, 3, 30, 90))
        index = b.add(base, ahead)
        exact = b.add(b.cast(base, DataType.U64), ahead)
        with b.if_(b.ne(exact, b.cast(index, DataType.U64))):
            b.trap("it wraps")
        b.load("x", index)

    guarded(rng.randrange(3))
    return b.finish()


@pytest.mark.parametrize("seeds", quick([range(100), range(100, 1000)]))
def test_a_base_and_its_constant_never_wrap(seeds):
    ref = dispatcher("ref", checks=False)
    bases, wraps = 0, 0
    for seed in seeds:
        rng = random.Random(seed)
        program = random_sum(rng)
        has_base = any(op.attrs["buffer"] == "x" for op in BoundsProofs(program).bases)
        bases += has_base
        length = program.buffers["x"].count or rng.choice((0, 8, 200))
        kinds = (rng.randrange(130), rng.getrandbits(32), 2**32 - 1, 2**31 - 1)
        data = np.array([rng.choice(kinds) for _ in range(16)], np.uint32)
        does_wrap = False
        try:
            ref.dispatch(program, [data, np.zeros(length, np.uint32)], 2)
        except ProgramError as fault:
            does_wrap = "it wraps" in str(fault)
        wraps += does_wrap
        assert not (does_wrap and has_base), seed
    assert bases > len(seeds) / 8, "the test has too few bases to say anything"
    assert wraps > len(seeds) / 8, "too little wraps to say anything"


def test_a_proof_names_what_bounds_the_index():
    """The facts are those of the comparison and the loop around; with them the rest is never negative."""
    program = parse("""vyre 1
    program @p workgroup(64) {
      buffer @x : u32[100] read_write binding(0) live_in live_out
      %g = global_id x
      %n = const 90 : u32
      %p = lt %g, %n : u32
      if %p {
        for %k = 0 to 11 step 1 {
          %i = add %g, %k : u32
          %v = load @x[%i] : u32
        }
      }
    }
    """).programs["p"]
    (access,) = (op for op in program.walk() if op.name == "load")
    (proof,) = BoundsProofs(program).proven[access]
    assert {fact.op.name for _, fact in proof.high} == {"lt"}
    assert str(proof.index) == "64*workgroup_id.x + local_id.x + iteration(%k)"
    margins = [(proof.index, proof.low), (AffineExpr(99) - proof.index, proof.high)]
    for margin, facts in margins:
        for times, fact in facts:
            assert times > 0
            margin -= fact.expr.scaled(times)
        assert margin.range()[0] >= 0


def test_the_certificates_of_a_lowering():
    program = parse("""vyre 1
    program @p workgroup(64) {
      buffer @x : u32[100] read_write binding(0) live_in live_out
      %l = local_id x
      %v = load @x[%l] : u32
      %w = load @x[%v] : u32
      %d = div %v, %w : u32
      %q = div %w, %l : u32
      %c = const 5 : u32
      %s = shl %d, %c : u32
    }
    """).programs["p"]
    shown = [(certificate["op"], certificate["claim"]) for _, certificate in certificates(program)]
    assert shown == [(1, "in_bounds"), (6, "no_guard")]
