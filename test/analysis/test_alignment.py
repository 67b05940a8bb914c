"""Powers of two that divide an index: wide accesses rest on them, and a wrong one faults on a GPU."""

from __future__ import annotations

import random

import pytest
from support.quick import quick

from vyre_opt import parse
from vyre_opt.analysis.alignment import Alignment
from vyre_opt.ir import OPS, Builder, DataType, Value, arith

HEAD = """vyre 1
program @p workgroup(64) {
  buffer @y : u32[?] write binding(0)
  spec @k : u32 = 12
  %l = local_id x
  %c0 = const 0 : u32
  %c2 = const 2 : u32
  %c3 = const 3 : u32
  %c4 = const 4 : u32
  %c8 = const 8 : u32
"""

ZEROS = {
    "%i = mul %l, %c8 : u32": 3,
    "%a = mul %l, %c8 : u32\n %i = add %a, %c4 : u32": 2,
    "%a = mul %l, %c8 : u32\n %i = mul %a, %c4 : u32": 5,
    "%i = shl %l, %c4 : u32": 4,
    "%i = shl %c4, %l : u32": 2,
    "%a = mul %l, %c8 : u32\n %i = and %l, %a : u32": 3,
    "%k = spec @k : u32\n %i = mul %l, %k : u32": 2,
    "%i = workgroup_size x": 6,
    "%a = mul %l, %c8 : u32\n %i = cast %a : u32 -> u64": 3,
    "%a = mul %l, %c8 : u32\n %i = div %a, %c2 : u32": 0,
    "%i = for %n = 0 to 9 step 4 iter(%s = %c8 : u32) {\n %t = add %s, %n : u32\n yield %t }": 2,
    "%i = for %n = 0 to 9 step 4 iter(%s = %c8 : u32) {\n %t = add %s, %l : u32\n yield %t }": 0,
    "%i, %o = for %n = 0 to 9 iter(%s = %c8 : u32, %t = %c4 : u32) {\n %u = add %t, %c8 : u32\n yield %t, %u }": 2,
    "%p = lt %l, %c3 : u32\n %i = if %p -> u32 { yield %c8 } else { yield %c4 }": 2,
    "%i = while iter(%s = %c8 : u32) {\n %p = lt %s, %l : u32\n condition %p } do {\n %t = add %s, %c4 : u32\n yield %t }": 2,
}


@pytest.mark.parametrize(("body", "zeros"), ZEROS.items())
def test_trailing_zeros(body, zeros):
    program = parse(f"{HEAD}{body}\n store %l, @y[%i] : u32\n}}\n").programs["p"]
    index = program.body.ops[-1].operands[1]
    assert Alignment(program, {"k": 12}).of(index) == zeros


@pytest.mark.parametrize("seeds", quick([range(150), range(150, 2000)]))
def test_no_power_is_claimed_that_does_not_divide(seeds):
    """Straight programs over constants, whose values the op table's own arithmetic gives."""
    names = ("add", "sub", "mul", "shl", "and", "or", "xor", "min", "max", "shr", "div")
    for seed in seeds:
        rng = random.Random(seed)
        dtype = rng.choice((DataType.U8, DataType.I16, DataType.U32, DataType.I64))
        b = Builder("p", 1)
        known: dict[Value, int] = {}
        for _ in range(3):
            number = arith.wrap(rng.randrange(40) << rng.randrange(6), dtype)
            known[b.const(number, dtype)] = number
        for _ in range(8):
            name = rng.choice(names)
            x, y = rng.choice(list(known)), rng.choice(list(known))
            result = b.emit(OPS[name], (x, y), (dtype,)).result
            fold = OPS[name].fold_int
            assert fold is not None
            known[result] = arith.wrap(fold(known[x], known[y], dtype), dtype)
        alignment = Alignment(b.program)
        for value, number in known.items():
            zeros = alignment.of(value)
            assert number == 0 or number % (1 << zeros) == 0, (seed, value, number, zeros)
