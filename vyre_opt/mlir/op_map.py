"""Ops of ours that are one op of MLIR, for both directions.

A row is for an op at a class of types: i all integers, s signed, u unsigned, b bool, f floats, w f32 and f64.  Ops that
have no row here are calls of helper functions (see helper_key.py), or have a form of their own: constants, accesses,
control flow.

Emitted ops are those that mlir-opt 16 and 19 both read and 19 lowers to NVVM without a library.  So square roots and
roundings are intrinsics of LLVM, since 19 makes calls of libdevice of math.sqrt and its kin.
"""

from __future__ import annotations

from ..ir.types import DataType
from ..records import dataclass

__all__ = ["CASTS", "COMPARISONS", "EMITTED", "GUARDED", "READ", "DirectOp", "direct_op", "type_class"]


@dataclass(frozen=True, slots=True)
class DirectOp:
    """`name` of MLIR's op.  `form`: plain `NAME %a, %b : T`, generic `"NAME"(%a) : (T) -> T`, or intrinsic, a call of LLVM's.

    `flags`: whether it takes fastmath flags.
    """

    name: str
    form: str = "plain"
    flags: bool = False


EMITTED: dict[tuple[str, str], DirectOp] = {}
"""(Name of our op, class of types) -> what it is in MLIR."""


def _row(ops: str, classes: str, form: str = "plain", flags: bool = False) -> None:
    """`ops`: `OURS:THEIRS`, separated by spaces."""
    for pair in ops.split():
        ours, _, theirs = pair.partition(":")
        for type_class in classes:
            EMITTED[ours, type_class] = DirectOp(theirs, form, flags)


_row("add:arith.addi sub:arith.subi mul:arith.muli and:arith.andi or:arith.ori xor:arith.xori", "su")
_row("and:arith.andi or:arith.ori xor:arith.xori", "b")
_row("shl:arith.shli", "su")
_row("div:arith.divsi rem:arith.remsi shr:arith.shrsi min:arith.minsi max:arith.maxsi", "s")
_row("div:arith.divui rem:arith.remui shr:arith.shrui min:arith.minui max:arith.maxui", "u")
_row("popcount:math.ctpop clz:math.ctlz ctz:math.cttz", "su")
_row("reverse_bits:llvm.intr.bitreverse", "su", form="generic")
_row(
    "add:arith.addf sub:arith.subf mul:arith.mulf div:arith.divf neg:arith.negf fma:math.fma",
    "wh",
    flags=True,
)
_row(
    "sqrt:llvm.sqrt floor:llvm.floor ceil:llvm.ceil trunc:llvm.trunc round_even:llvm.roundeven abs:llvm.fabs",
    "w",
    form="intrinsic",
)

GUARDED = ("div", "rem", "shl", "shr")
"""Integer ops with operands for which MLIR's leave the result open; they are helper functions where those may come."""

COMPARISONS: dict[str, dict[str, str]] = {
    "f": {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"},
    "s": {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"},
    "u": {"eq": "eq", "ne": "ne", "lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge"},
}
"""Class of types -> our comparison -> the predicate of arith.cmpf or arith.cmpi."""

CASTS: dict[tuple[str, str], str] = {
    ("widen", "s"): "arith.extsi",
    ("widen", "u"): "arith.extui",
    ("narrow", ""): "arith.trunci",
    ("to_float", "s"): "arith.sitofp",
    ("to_float", "u"): "arith.uitofp",
    ("extend", ""): "arith.extf",
    ("round", ""): "arith.truncf",
}
"""(What a cast does, class of the source where that matters) -> MLIR's op."""

READ: dict[str, tuple[str, str]] = {
    **{
        f"math.{name}": (ours, "f")
        for name, ours in (
            *((n, n) for n in "sqrt rsqrt cbrt floor ceil trunc exp exp2 expm1 log log2 log1p sin cos tan asin".split()),
            *((n, n) for n in "acos atan atan2 sinh cosh tanh erf".split()),
            ("absf", "abs"), ("roundeven", "round_even"), ("powf", "pow"),
        )
    },
    "math.absi": ("abs", "s"),
    "vector.fma": ("fma", "f"),
    "arith.minnumf": ("min", "f"),
    "arith.maxnumf": ("max", "f"),
    **{f"llvm.intr.{theirs}": (ours, "f") for theirs, ours in (("fabs", "abs"), ("sqrt", "sqrt"), ("floor", "floor"),
       ("ceil", "ceil"), ("trunc", "trunc"), ("roundeven", "round_even"), ("fma", "fma"))},
    "llvm.intr.ctpop": ("popcount", "i"),
}  # fmt: skip
"""MLIR ops that we read but never emit -> (our op, class of types)."""


def type_class(dtype: DataType) -> str:
    """b, s, u, w (f32 and f64) or h (f16 and bf16) of a scalar type or of a vector's elements."""
    element = dtype.element
    if element.is_bool:
        return "b"
    if element.is_float:
        return "h" if element.bits == 16 else "w"
    return "s" if element.is_signed else "u"


def direct_op(name: str, dtype: DataType) -> DirectOp | None:
    """The op of MLIR for the op `name` at a type; None without one."""
    return EMITTED.get((name, type_class(dtype)))
