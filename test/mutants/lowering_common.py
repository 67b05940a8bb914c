"""Mistakes in the arithmetic that all targets share."""

from __future__ import annotations

from .mutant import Mutant

__all__ = ["MUTANTS"]

ACCURACY = "test/math_functions/test_accuracy.py"
SPECIAL = "test/math_functions/test_special_values.py"
ELEMENTWISE = "test/lowering/test_elementwise.py"
CPU_GROUPS = "test/targets/cpu/test_groups.py"
PRINTS = "test/execution/test_debug_print.py"

MUTANTS = (
    Mutant(
        "the error of f16's fma has its terms the wrong way round",
        "vyre_opt/lowering/common/elementwise.py",
        "fsub {double} {c}, {back}",
        "fsub {double} {back}, {c}",
        f"{ELEMENTWISE}::test_exact_ops",
    ),
    Mutant(
        "an integer's negation is the integer",
        "vyre_opt/lowering/common/elementwise.py",
        'f"sub {self.kind} {self.int(0)}, {a}"',
        'f"sub {self.kind} {a}, {self.int(0)}"',
        f"{ELEMENTWISE}::test_exact_ops",
    ),
    Mutant(
        "a rotation to the left goes to the right",
        "vyre_opt/lowering/common/elementwise.py",
        '"rotl": lambda e, a, b: e.call("fshl"',
        '"rotl": lambda e, a, b: e.call("fshr"',
        f"{ELEMENTWISE}::test_exact_ops",
    ),
    Mutant(
        "round_even rounds ties away from zero",
        "vyre_opt/lowering/common/elementwise.py",
        '"round_even": "roundeven"',
        '"round_even": "round"',
        f"{ELEMENTWISE}::test_exact_ops",
    ),
    Mutant(
        "amounts of shifts are modulo 32 at every width",
        "vyre_opt/lowering/common/elementwise.py",
        "self.int(self.bits - 1)",
        "self.int(31 & ((1 << self.bits) - 1))",
        f"{ELEMENTWISE}::test_exact_ops",
    ),
    Mutant(
        "mul_hi takes one bit too many from below",
        "vyre_opt/lowering/common/elementwise.py",
        "self.shape.integer(element, self.bits)",
        "self.shape.integer(element, self.bits - 1)",
        f"{ELEMENTWISE}::test_exact_ops",
    ),
    Mutant(
        "a signed number is shifted right with zeros",
        "vyre_opt/lowering/common/elementwise.py",
        'verb = "ashr" if self.dtype.is_signed else "lshr"',
        'verb = "lshr"',
        f"{ELEMENTWISE}::test_exact_ops",
    ),
    Mutant(
        "a NaN is not unequal to itself",
        "vyre_opt/lowering/common/elementwise.py",
        '"ne": "une"',
        '"ne": "one"',
        f"{ELEMENTWISE}::test_exact_ops",
    ),
    Mutant(
        "a signed product saturates upwards only",
        "vyre_opt/lowering/common/elementwise.py",
        '(("min", high), ("max", low)) if self.dtype.is_signed else (("min", high),)',
        '(("min", high),)',
        f"{ELEMENTWISE}::test_exact_ops",
    ),
    Mutant(
        "min of zeros is +0.0, and max -0.0",
        "vyre_opt/lowering/common/elementwise.py",
        "'or' if name == 'min' else 'and'",
        "'and' if name == 'min' else 'or'",
        f"{ELEMENTWISE}::test_exact_ops",
    ),
    Mutant(
        "the identities of min and max change places",
        "vyre_opt/ir/arith.py",
        '"min": math.inf, "max": -math.inf',
        '"min": -math.inf, "max": math.inf',
        f"{CPU_GROUPS}::test_reduce_and_scan",
    ),
    Mutant(
        "an integer is widened by the sign of its new type",
        "vyre_opt/lowering/common/conversions.py",
        '"sext" if source.is_signed else "zext"\n',
        '"sext" if target.is_signed else "zext"\n',
        f"{ELEMENTWISE}::test_cast",
    ),
    Mutant(
        "bf16 rounds ties up",
        "vyre_opt/lowering/common/conversions.py",
        "shape.integer('i32', 0x7FFF)",
        "shape.integer('i32', 0x8000)",
        f"{ELEMENTWISE}::test_exact_ops",
    ),
    Mutant(
        "a float goes to a signed integer as to an unsigned one",
        "vyre_opt/lowering/common/conversions.py",
        'verb = "fptosi" if target.is_signed else "fptoui"',
        'verb = "fptoui"',
        f"{ELEMENTWISE}::test_cast",
    ),
    Mutant(
        "rounding to odd goes to the wrong neighbour",
        "vyre_opt/lowering/common/conversions.py",
        "{above}, {ints} {down}, {ints} {up}",
        "{above}, {ints} {up}, {ints} {down}",
        f"{ELEMENTWISE}::test_cast",
    ),
    Mutant(
        "the sticky bit of 64 bits misses the highest of those cut off",
        "vyre_opt/lowering/common/conversions.py",
        "shape.integer('i64', 0x7FF)",
        "shape.integer('i64', 0x3FF)",
        f"{ELEMENTWISE}::test_cast",
    ),
    Mutant(
        "integers of 32 bits go to bf16 in two roundings",
        "vyre_opt/lowering/common/conversions.py",
        "wide = (source.bits or 0) > 16",
        "wide = (source.bits or 0) > 32",
        f"{ELEMENTWISE}::test_cast",
    ),
    Mutant(
        "f64 goes to f16 in two roundings",
        "vyre_opt/lowering/common/conversions.py",
        "return round_to_half(w, shape, target, through_odd(w, shape, value))\n        if",
        "return round_to_half(w, shape, target, w.emit(f\"fptrunc {kind} {value} to {shape.of('float')}\"))\n        if",
        f"{ELEMENTWISE}::test_cast",
    ),
    Mutant(
        "a NaN is no true bool",
        "vyre_opt/lowering/common/conversions.py",
        "fcmp une {kind} {value}",
        "fcmp one {kind} {value}",
        f"{ELEMENTWISE}::test_cast",
    ),
    Mutant(
        "fmod leaves a remainder equal to its divisor",
        "vyre_opt/lowering/common/fmod.py",
        "icmp uge {i} %m, {my}",
        "icmp ugt {i} %m, {my}",
        f"{ELEMENTWISE}::test_exact_ops",
    ),
    Mutant(
        "the second half of a power of two has the wrong sign",
        "vyre_opt/lowering/common/math_functions.py",
        'w.emit(f"sub {self.ints} {whole}, {half}")',
        'w.emit(f"sub {self.ints} {half}, {whole}")',
        f"{ELEMENTWISE}::test_mathematical_functions",
    ),
    Mutant(
        "the rare part of a function is taken where no lane needs it, and not where one does",
        "vyre_opt/lowering/common/math_functions.py",
        "icmp ne {lanes}",
        "icmp eq {lanes}",
        f"{ELEMENTWISE}::test_mathematical_functions",
    ),
    Mutant(
        "exp reduces its argument by one word of ln 2",
        "vyre_opt/math_functions/exponentials.py",
        "    high = fma(-n, second, rough)\n    return n",
        "    high = rough\n    return n",
        f"{ACCURACY}::test_bound",
    ),
    Mutant(
        "the exponent of a subnormal is off by one in log",
        "vyre_opt/math_functions/logarithms.py",
        "select(tiny, float(format.precision), 0.0)",
        "select(tiny, float(format.precision - 1), 0.0)",
        f"{ACCURACY}::test_bound",
    ),
    Mutant(
        "tanh takes its sign from nowhere",
        "vyre_opt/math_functions/exponentials.py",
        "select(abs(x) < 0.55, near, far).with_sign_of(x)",
        "select(abs(x) < 0.55, near, far)",
        f"{ACCURACY}::test_bound",
    ),
    Mutant(
        "the third word of 2 / pi is taken for the second",
        "vyre_opt/math_functions/pi_reduction.py",
        "_sum(m * a[1], m.multiply_high(a[2]))",
        "_sum(m * a[1], m.multiply_high(a[1]))",
        f"{ACCURACY}::test_bound",
    ),
    Mutant(
        "pow takes every integer for an odd one",
        "vyre_opt/math_functions/power.py",
        "select(is_integer & is_odd,",
        "select(is_integer,",
        f"{SPECIAL}::test_pow",
    ),
    Mutant(
        "atan2 does not see the sign of a zero",
        "vyre_opt/math_functions/inverse_trigonometry.py",
        "x.constant(1.0).with_sign_of(x) < 0.0",
        "x < 0.0",
        f"{SPECIAL}::test_atan2",
    ),
    Mutant(
        "a print behind the last record has one too",
        "vyre_opt/lowering/common/print_records.py",
        "b.lt(slot, self.capacity)",
        "b.le(slot, self.capacity)",
        f"{PRINTS}::test_a_launch_keeps_so_many_lines_and_counts_the_rest",
    ),
    Mutant(
        "the records of all prints have one number",
        "vyre_opt/lowering/common/print_records.py",
        "b.const(self.changes, _U64)",
        "b.const(0, _U64)",
        f"{PRINTS}::test_lines_are_in_the_order_of_invocations_and_of_their_prints",
    ),
    Mutant(
        "workgroups along y count as those along x",
        "vyre_opt/lowering/common/print_records.py",
        "b.add(gx, b.mul(width,",
        "b.add(gx, b.mul(height,",
        f"{PRINTS}::test_lines_are_in_the_order_of_invocations_and_of_their_prints",
    ),
    Mutant(
        "lines are in the order in which they were printed",
        "vyre_opt/execution/debug_prints.py",
        'order = records[:, 1].argsort(kind="stable")',
        "order = records[:, 1].argsort() * 0 + range(len(records))",
        f"{PRINTS}::test_lines_are_in_the_order_of_invocations_and_of_their_prints",
    ),
    Mutant(
        "a planned call forgets what it prints",
        "vyre_opt/targets/cpu/loaded_plan.py",
        "if item.name == launch.records:",
        "if not item.name:",
        f"{PRINTS}::test_each_call_of_an_executable_prints",
    ),
)
