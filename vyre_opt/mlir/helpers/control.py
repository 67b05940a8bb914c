"""Bodies of helpers for loops whose counter has 64 bits, and for asserts and checks.

scf.for compares signed numbers and its counter may wrap, so such a loop counts its rounds instead:

    for %k = %a to %b step %s : u64    ->    %n = vyre.trip_count.u64(%a, %b, %s)
                                             scf.for %t = 0 to %n step 1 { %k = vyre.counter.u64(%a, %t, %s) ... }
"""

from __future__ import annotations

from ...ir.types import DataType
from ..code import Code
from ..helper_key import HelperKey

__all__ = ["assert_", "check_bounds", "counter", "trip_count"]

MOST_ROUNDS = (1 << 63) - 1


def trip_count(code: Code, key: HelperKey, args: list[str]) -> str:
    """ceil((upper - lower) / step), or 0; at most 2^63 - 1, which no machine counts to."""
    (dtype,), (lower, upper, step) = key.types, args
    sign, kind = "s" if dtype.is_signed else "u", "i64"
    runs = code.compare(f"{sign}lt", kind, lower, upper)
    one, zero = code.integer(1, kind), code.integer(0, kind)
    # as an unsigned number the distance is exact; a step below 1 is an error of the program
    distance = code.op("arith.subi", kind, code.op("arith.subi", kind, upper, lower), one)
    quotient = code.op("arith.divui", kind, distance, code.op("arith.maxui", kind, step, one))
    rounds = code.op("arith.addi", kind, quotient, one)
    is_zero = code.compare("eq", kind, rounds, zero)  # of 2^64 rounds
    limit = code.integer(MOST_ROUNDS, kind)
    rounds = code.select(is_zero, kind, limit, code.op("arith.minui", kind, rounds, limit))
    return code.select(runs, kind, rounds, zero)


def counter(code: Code, key: HelperKey, args: list[str]) -> str:
    lower, turn, step = args
    return code.op("arith.addi", "i64", lower, code.op("arith.muli", "i64", turn, step))


def assert_(code: Code, key: HelperKey, args: list[str]) -> None:
    """Stops where the operand is false."""
    fails = code.op("arith.xori", "i1", args[0], code.literal("true", "i1"))
    code.open(f"scf.if {fails}")
    code.line('"llvm.intr.trap"() : () -> ()')
    code.close()


def check_bounds(code: Code, key: HelperKey, args: list[str]) -> None:
    """Does nothing, as no access is checked."""


COUNTERS = (DataType.I64, DataType.U64)
