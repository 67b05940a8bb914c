"""Proofs of what the lowerings write for an op: nothing undefined for any input, and the language's result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import z3

from vyre_opt.certify import op_terms
from vyre_opt.ir import OPS, DataType, Op, Program, Value

from .graphs import terms
from .llvm_terms import LlvmResult, read
from .lowered_ops import LOWERINGS, op_program, parsed, program_text
from .proving import Outcome, prove
from .values import SCALARS

__all__ = ["LoweredOp", "lowered_ops", "prove_lowering", "prove_program"]


@dataclass(frozen=True, slots=True)
class LoweredOp:
    """An op on a type; `source`: the operand's type of a cast or bitcast."""

    name: str
    type: DataType
    source: DataType | None = None

    def __str__(self) -> str:
        return f"{self.name} {self.source} -> {self.type}" if self.source else f"{self.name} {self.type}"

    @property
    def widest(self) -> int:
        """Bits of the widest type in it."""
        return max(t.bits or 0 for t in (self.type, self.source) if t is not None)


def lowered_ops() -> Iterator[LoweredOp]:
    """Every pure op on scalars that has a term, on every type."""
    for name, row in OPS.items():
        for dtype in SCALARS:
            if row.format in ("unary", "binary", "ternary", "compare"):
                if row.accepts(dtype) and op_terms.has_term(name, dtype):
                    yield LoweredOp(name, dtype)
            elif row.format == "select":
                yield LoweredOp(name, dtype)
            elif row.format == "convert":
                yield from (
                    LoweredOp(name, dtype, t) for t in SCALARS if name == "cast" or _same_size(t, dtype)
                )


def _same_size(a: DataType, b: DataType) -> bool:
    return a.bits == b.bits and not a.is_bool and not b.is_bool


def prove_lowering(op: LoweredOp, lowering: str, seconds: float) -> Outcome:
    """One op by one lowering of `LOWERINGS`.  Raises Unreadable where its LLVM IR has no term."""
    types, lines, result = op_program(op.name, op.type, op.source)
    return prove_program(types, lines, result, lowering, seconds)


def prove_program(
    types: list[DataType], lines: str, result: DataType, lowering: str, seconds: float
) -> Outcome:
    """A program as `program_text` takes it, of ops that have terms."""
    write, index = LOWERINGS[lowering]
    text = program_text(types, lines, result, index)
    arguments = [z3.BitVec(n, t.bits) for n, t in zip("abcdef", types, strict=False)]
    got = read(write(parsed(text)), arguments)
    program = parsed(text)
    loads = [op.result for op in program.body.ops if op.name == "load"]
    values = [_value(bits, t) for bits, t in zip(arguments, types, strict=True)]
    operands = dict(zip(loads, values, strict=True))
    stored = program.body.ops[-1].operands[0]
    (expected,) = terms(stored, {value: (term,) for value, term in operands.items()})
    claims = _claims(got, expected, result)
    if lines.split()[2] == "bitcast" and types[0] is DataType.F16:
        claims[-1] = _same_or_nan(got.value, arguments[0])
    # the lowerings write many ops alike; z3 has one number for terms that are the same
    key = (*(claim.get_id() for claim in claims), seconds)
    if key not in _ASKED:
        _ASKED[key] = claims, prove(claims, seconds, _cases(program, operands))
    return _ASKED[key][1]


_ASKED: dict[tuple[float, ...], tuple[list[z3.BoolRef], Outcome]] = {}
"""The claims, which must live for their numbers to be theirs, and what came of them."""


def _cases(program: Program, operands: Mapping[Value, op_terms.Term]) -> list[list[z3.BoolRef]]:
    """For a program that ends in a division of integers: by 0, by -1, by any other number."""
    last = program.body.ops[-1].operands[0].owner
    if not isinstance(last, Op) or last.name not in ("div", "rem") or not last.result.type.is_int:
        return [[]]
    (divisor,) = terms(last.operands[1], {value: (term,) for value, term in operands.items()})
    return [[divisor == 0], [divisor == -1], [divisor != 0, divisor != -1]]


def _same_or_nan(got: z3.BitVecRef, operand: z3.BitVecRef) -> z3.BoolRef:
    """That a bitcast of f16 keeps the bits, but that a NaN may have become another.

    An f16 is carried as f32, and LLVM leaves open which NaN comes of a NaN when a float is converted.  Its
    optimiser takes the two conversions for none, so that compiled code keeps all bits; a test looks at it.
    """
    are_nans = z3.And(op_terms.is_nan(operand, DataType.F16), op_terms.is_nan(got, DataType.F16))
    return z3.Or(got == operand, are_nans)


def _value(bits: z3.BitVecRef, dtype: DataType) -> op_terms.Term:
    return bits != 0 if dtype.is_bool else bits


def _claims(got: LlvmResult, expected: op_terms.Term, dtype: DataType) -> list[z3.BoolRef]:
    # a bool is 0 or 1 in 8 bits
    as_bits = z3.If(expected, z3.BitVecVal(1, 8), z3.BitVecVal(0, 8)) if dtype.is_bool else expected
    equal = got.value == as_bits if dtype.is_bool else op_terms.same(got.value, as_bits, dtype)
    return [z3.Not(got.undefined), z3.Not(got.poison), equal]
