"""The op table: every op of the language, declared once.

A row gives an op's name, its format (the shape of its operands, its rule, its syntax; see formats.py),
the types it takes, its attributes, its effects, its fold and one line of
documentation.  The parser, printer, verifier, folder, docs/reference/ops.md and the
interpreter's coverage test read this table; nothing else lists ops.  Rows of other packages are
added when their names are first met (see plugin_ops.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeVar

from ..records import dataclass
from . import arith
from .declarations import AccessMode
from .embedding_shape import EmbeddingShape
from .grids import MAX_LENGTH
from .types import DataType

__all__ = ["OPS", "Attr", "KernelDef", "OpDef", "Role", "kernel_def"]

AXES = ("x", "y", "z")
SCOPES = ("subgroup", "workgroup", "cluster", "grid")
"""Scopes of barriers, each within the next."""
BEYOND_WORKGROUP = ("cluster", "grid")
"""Scopes at which workgroups wait for each other."""
ORDERS = ("relaxed", "acquire", "release", "acq_rel", "seq_cst")
COMBINERS = ("add", "mul", "min", "max", "and", "or", "xor")
FASTMATH = ("contract", "reassoc", "nnan", "ninf", "nsz", "arcp", "afn")
SUBGROUP_SIZE = 32
LAYOUTS = ("row_major", "column_major")
CHECKED_ACCESSES = (
    "load", "store", "matrix_load", "matrix_store",
    "atomic_add", "atomic_min", "atomic_max", "atomic_and", "atomic_or", "atomic_xor",
)  # fmt: skip
"""The accesses that a check_bounds may be of."""
SCHEDULE = "schedule_"

MAX_COLUMNS = 1 << 18  # of a row of math.softmax
MAX_WARMUP = 49024  # of scan.dfa: with a lane's least chunk, it fills the workgroup memory that a GPU has
MAX_RANK = 4096  # of tt.chain: its vector is in workgroup memory
MAX_STEPS = 1 << 20
"""Ranges of parameters of named kernels."""

B = TypeVar("B")
IntFold = Callable[..., int]
FloatFold = Callable[..., float]
SizeRule = Callable[[Mapping[str, int]], int]


@dataclass(frozen=True, slots=True)
class Attr:
    """An attribute of an op: `choices` lists its words; None takes a value of `kind`.  An `optional` one may be missing."""

    name: str
    kind: str  # word, words, symbol, int, literal, string, types; in lowered programs also flag, shape, type, op
    choices: tuple[str, ...] | None = None
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Role:
    """A buffer parameter of a named kernel: its name, access and element types.

    `optional`: it may be left out, with all that follow it.  `like`: the role whose element type it has,
    or one of `also`; "" where it may have any of `types`.  `shape`: what its number of elements is the product of:
    numbers, parameters of the kernel, and sizes that follow from the buffers; () where it is not checked.  `may_be_longer`: it has
    at least so many.  `row`: what a buffer of several dimensions has as its last extent: a parameter, or the number of elements
    of another role; "" where any will do.
    """

    name: str
    access: AccessMode
    types: tuple[DataType, ...]
    optional: bool = False
    like: str = ""
    also: tuple[DataType, ...] = ()
    shape: tuple[str, ...] = ()
    may_be_longer: bool = False
    row: str = ""


@dataclass(frozen=True, slots=True)
class KernelDef:
    """The signature of a named kernel: its buffers, and its integer parameters with their defaults.

    A parameter of default None is required.  `schedule`: the fields of its schedule, which a text may
    set by parameters such as `schedule_lanes = 128`; they change its speed, never its result.
    `ranges`: the least and the largest value of parameters and sizes for which not all from 0 on are valid.
    `sizes`: sizes that are no products, each as a function of the others and the parameters; it raises ValueError where
    these do not fit together, and KeyError where one is not known.
    `renamed`: the field of the schedule that an older version called by a name, by that name.
    """

    roles: tuple[Role, ...]
    params: dict[str, int | None]
    schedule: tuple[str, ...] = ()
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, SizeRule] = field(default_factory=dict)

    @property
    def numbers_of_buffers(self) -> str:
        """Number of buffers that it takes, in words."""
        least, most = self._least_buffers, len(self.roles)
        return str(least) if least == most else f"{least} to {most}"

    def takes(self, count: int) -> bool:
        """Whether it may be used with that many buffers."""
        return self._least_buffers <= count <= len(self.roles)

    @property
    def _least_buffers(self) -> int:
        return sum(not role.optional for role in self.roles)

    def with_roles(self, buffers: Sequence[B]) -> list[tuple[B, Role]]:
        """The buffers of a use, each with its role.  Raises ValueError if it does not take that many."""
        if not self.takes(len(buffers)):
            raise ValueError(f"{len(buffers)} buffers for the roles {', '.join(r.name for r in self.roles)}")
        return list(zip(buffers, self.roles, strict=False))

    def semantic_params(self, params: Mapping[str, int]) -> dict[str, int]:
        """The parameters that determine the result, with defaults filled in."""
        defaults = {name: value for name, value in self.params.items() if value is not None}
        return defaults | {name: value for name, value in params.items() if not name.startswith(SCHEDULE)}

    def schedule_params(self, params: Mapping[str, int]) -> dict[str, int]:
        """The fields of the schedule among `params`, without their prefix."""
        return {n.removeprefix(SCHEDULE): v for n, v in params.items() if n.startswith(SCHEDULE)}


@dataclass(frozen=True, slots=True)
class OpDef:
    """A row of the table.

    `types`: what T may be: int, float, num (either), bits (int or bool), any.
    `effects`: of read, write, atomic, sync, wait, subgroup, workgroup, trap, fault, print, control; none means pure.  `subgroup`:
    lanes meet, and with `workgroup` all of a workgroup's.  `fault`: it may end in one, as an access may, and no access,
    barrier or trap is kept on one side of it.
    `ulp`: the error bound of a mathematical function, in units in the last place of the result, at every float type.
    `approximate_ulp`: that of its short form in f32, which fastmath<afn> allows (see math_functions/approximations.py); 0 where
    it has none.
    `since`: the first version of the format that has it.
    `expansion`: of another package's op or kernel, the function that builds what it means (see plugin_ops.py).
    """

    name: str
    format: str
    doc: str
    types: str = "any"
    effects: frozenset[str] = frozenset()
    attrs: tuple[Attr, ...] = ()
    commutative: bool = False
    fold_int: IntFold | None = None
    fold_float: FloatFold | None = None
    ulp: float = 0.0
    approximate_ulp: float = 0.0
    is_terminator: bool = False
    kernel: KernelDef | None = None
    is_pure: bool = False
    since: int = 1
    expansion: Callable[..., Any] | None = None

    @property
    def atomic_values(self) -> int:
        """Number of operands of an atomic after the indices: the value to compare with, if any, then the new one."""
        return 2 if self.name == "atomic_compare_exchange" else 1

    @property
    def fastmath(self) -> tuple[str, ...]:
        """The flags that it takes on floats."""
        if self.name == "atomic_add":
            return ("reassoc",)
        return FASTMATH if self.format in ("unary", "binary", "ternary", "compare", "select") else ()

    def accepts(self, dtype: DataType) -> bool:
        """Whether T may be `dtype` (elementwise ops take vectors of what they take)."""
        return dtype.element.kind in _ACCEPTED[self.types]


_ACCEPTED: dict[str, frozenset[str]] = {
    "int": frozenset({"int", "uint"}),
    "float": frozenset({"float"}),
    "num": frozenset({"int", "uint", "float"}),
    "bits": frozenset({"int", "uint", "bool"}),
    "any": frozenset({"int", "uint", "float", "bool", "opaque"}),
}

OPS: dict[str, OpDef] = {}
"""Name -> row, in the order of declaration."""


def _row(name: str, format: str, doc: str, types: str = "any", effects: str = "", **columns: Any) -> None:
    OPS[name] = OpDef(name, format, doc, types, frozenset(effects.split()), is_pure=not effects, **columns)


# A table reads by its columns
# fmt: off
# --- constants, ids and sizes ---------------------------------------------------------
_axis = (Attr("axis", "word", AXES),)
_row("const", "const", "A constant; a vector type splats it.", attrs=(Attr("value", "literal"),))
_row("spec", "spec", "The value of a specialization constant.", attrs=(Attr("spec", "symbol"),))
_row("param", "param", "The value of a runtime scalar.", attrs=(Attr("param", "symbol"),), since=2)
_row("global_id", "id", "workgroup_id * workgroup_size + local_id along an axis.", attrs=_axis)
_row("local_id", "id", "This invocation's place in its workgroup.", attrs=_axis)
_row("workgroup_id", "id", "This workgroup's place in the grid.", attrs=_axis)
_row("num_workgroups", "id", "Workgroups of the dispatch along an axis.", attrs=_axis)
_row("workgroup_size", "id", "Invocations of a workgroup along an axis.", attrs=_axis)
_row("global_size", "id", "Invocations of the dispatch along an axis.", attrs=_axis)
_row("lane_id", "size", "This invocation's place in its subgroup: linear local id modulo 32.")
_row("subgroup_id", "size", "This subgroup's place in its workgroup: linear local id / 32.")
_row("subgroup_size", "size", "Invocations of a subgroup: 32.")
_row("num_subgroups", "size", "Subgroups of a workgroup.")
_row("len", "len", "Elements of a buffer, along a dimension where it has several.",
     attrs=(Attr("buffer", "symbol"), Attr("dimension", "int", optional=True)))

# --- integer and float arithmetic -----------------------------------------------------
_int, _flt = "int", "float"
_row("add", "binary", "a + b.", "num", commutative=True, fold_int=lambda a, b, t: a + b,
     fold_float=lambda a, b: a + b)
_row("sub", "binary", "a - b.", "num", fold_int=lambda a, b, t: a - b, fold_float=lambda a, b: a - b)
_row("mul", "binary", "a * b.", "num", commutative=True, fold_int=lambda a, b, t: a * b,
     fold_float=lambda a, b: a * b)
_row("div", "binary", "a / b, truncated for integers; x/0 = x, INT_MIN/-1 = INT_MIN.", "num", approximate_ulp=2.0,
     fold_int=lambda a, b, t: arith.int_div(a, b), fold_float=arith.float_div)
_row("rem", "binary", "Remainder with the sign of a; integer x%0 = 0; fmod for floats.", "num",
     fold_int=lambda a, b, t: arith.int_rem(a, b), fold_float=arith.float_rem)
_row("min", "binary", "The smaller; a NaN operand is ignored.", "num", commutative=True,
     fold_int=lambda a, b, t: min(a, b), fold_float=arith.float_min)
_row("max", "binary", "The larger; a NaN operand is ignored.", "num", commutative=True,
     fold_int=lambda a, b, t: max(a, b), fold_float=arith.float_max)
_row("abs_diff", "binary", "|a - b|, exact for integers before wrapping.", "num", commutative=True,
     fold_int=lambda a, b, t: abs(a - b), fold_float=lambda a, b: abs(a - b))
_row("neg", "unary", "-a.", "num", fold_int=lambda a, t: -a, fold_float=lambda a: -a)
_row("abs", "unary", "|a|; |INT_MIN| = INT_MIN.", "num", fold_int=lambda a, t: abs(a), fold_float=abs)
_row("mul_hi", "binary", "The high half of the double-width product.", _int, commutative=True,
     fold_int=lambda a, b, t: (a * b) >> t.bits)
_row("add_sat", "binary", "a + b, clamped to the type's range.", _int, commutative=True,
     fold_int=lambda a, b, t: arith.saturate(a + b, t))
_row("sub_sat", "binary", "a - b, clamped to the type's range.", _int,
     fold_int=lambda a, b, t: arith.saturate(a - b, t))
_row("mul_sat", "binary", "a * b, clamped to the type's range.", _int, commutative=True,
     fold_int=lambda a, b, t: arith.saturate(a * b, t))

# --- bits -----------------------------------------------------------------------------
_row("and", "binary", "Bitwise and.", "bits", commutative=True, fold_int=lambda a, b, t: a & b)
_row("or", "binary", "Bitwise or.", "bits", commutative=True, fold_int=lambda a, b, t: a | b)
_row("xor", "binary", "Bitwise exclusive or.", "bits", commutative=True, fold_int=lambda a, b, t: a ^ b)
_row("not", "unary", "Bitwise complement.", "bits", fold_int=lambda a, t: ~a)
_row("shl", "binary", "Shift left; the amount is taken modulo the width.", _int,
     fold_int=lambda a, b, t: a << (b % t.bits))
_row("shr", "binary", "Shift right, arithmetic for signed types; the amount modulo the width.", _int,
     fold_int=lambda a, b, t: a >> (b % t.bits))
_row("rotl", "binary", "Rotate left; the amount modulo the width.", _int, fold_int=arith.rotate_left)
_row("rotr", "binary", "Rotate right; the amount modulo the width.", _int,
     fold_int=lambda a, b, t: arith.rotate_left(a, -b, t))
_row("popcount", "unary", "Bits that are set.", _int, fold_int=lambda a, t: arith.to_bits(a, t).bit_count())
_row("clz", "unary", "Leading zeros; the width for 0.", _int, fold_int=arith.leading_zeros)
_row("ctz", "unary", "Trailing zeros; the width for 0.", _int, fold_int=arith.trailing_zeros)
_row("reverse_bits", "unary", "Bits in opposite order.", _int, fold_int=arith.reverse_bits)

# --- floats ---------------------------------------------------------------------------
_row("fma", "ternary", "a * b + c with one rounding.", _flt)
_row("sqrt", "unary", "Square root, correctly rounded.", _flt, approximate_ulp=2.0, fold_float=arith.float_sqrt)
_row("floor", "unary", "Largest integral value not above a.", _flt, fold_float=arith.integral(math.floor))
_row("ceil", "unary", "Smallest integral value not below a.", _flt, fold_float=arith.integral(math.ceil))
_row("trunc", "unary", "a without its fraction.", _flt, fold_float=arith.integral(math.trunc))
_row("round_even", "unary", "Nearest integral value, ties to even.", _flt, fold_float=arith.round_even)
_row("rsqrt", "unary", "1 / sqrt(a).", _flt, ulp=1.5, approximate_ulp=2.5)
_row("rcp", "unary", "1 / a.", _flt, ulp=1.0, approximate_ulp=1.0)
_row("cbrt", "unary", "Cube root.", _flt, ulp=1.0, since=2)
_row("exp", "unary", "e to the a.", _flt, ulp=1.0, approximate_ulp=4.0)
_row("exp2", "unary", "2 to the a.", _flt, ulp=2.0, approximate_ulp=2.0)
_row("exp10", "unary", "10 to the a.", _flt, ulp=1.0, since=2)
_row("expm1", "unary", "e to the a, less 1; accurate where a is small, too.", _flt, ulp=1.5, since=2)
_row("log", "unary", "Natural logarithm.", _flt, ulp=1.0, approximate_ulp=2.0)
_row("log2", "unary", "Logarithm to base 2.", _flt, ulp=1.0, approximate_ulp=2.0)
_row("log1p", "unary", "log(1 + a); accurate where a is small, too.", _flt, ulp=1.0, since=2)
_row("pow", "binary", "a to the b; a negative a takes integral b; 1 for b = 0 or a = 1, even beside NaN.", _flt, ulp=1.0, approximate_ulp=5.0, since=2)
_row("sin", "unary", "Sine of a in radians, of any size.", _flt, ulp=1.0, approximate_ulp=2.0, since=2)
_row("cos", "unary", "Cosine of a in radians, of any size.", _flt, ulp=1.0, approximate_ulp=2.0, since=2)
_row("tan", "unary", "Tangent of a in radians, of any size.", _flt, ulp=1.0, since=2)
_row("asin", "unary", "Arcsine, from -pi/2 to pi/2.", _flt, ulp=1.0, since=2)
_row("acos", "unary", "Arccosine, from 0 to pi.", _flt, ulp=1.0, since=2)
_row("atan", "unary", "Arctangent, from -pi/2 to pi/2.", _flt, ulp=1.0, since=2)
_row("atan2", "binary", "The angle of the point (b, a), from -pi to pi: atan(a / b) where b > 0.", _flt, ulp=1.0, since=2)
_row("sinh", "unary", "Hyperbolic sine.", _flt, ulp=2.0, since=2)
_row("cosh", "unary", "Hyperbolic cosine.", _flt, ulp=1.5, since=2)
_row("tanh", "unary", "Hyperbolic tangent.", _flt, ulp=2.0, approximate_ulp=4.0)
_row("erf", "unary", "Error function.", _flt, ulp=1.5, approximate_ulp=2.0, since=2)
_row("erfc", "unary", "1 - erf(a), down to the smallest results.", _flt, ulp=4.0, since=2)

# --- compare, select, convert ---------------------------------------------------------
_row("eq", "compare", "a == b; false with NaN.", "any", commutative=True, fold_int=lambda a, b, t: a == b,
     fold_float=lambda a, b: a == b)
_row("ne", "compare", "a != b; true with NaN.", "any", commutative=True, fold_int=lambda a, b, t: a != b,
     fold_float=lambda a, b: a != b)
_row("lt", "compare", "a < b.", "num", fold_int=lambda a, b, t: a < b, fold_float=lambda a, b: a < b)
_row("le", "compare", "a <= b.", "num", fold_int=lambda a, b, t: a <= b, fold_float=lambda a, b: a <= b)
_row("gt", "compare", "a > b.", "num", fold_int=lambda a, b, t: a > b, fold_float=lambda a, b: a > b)
_row("ge", "compare", "a >= b.", "num", fold_int=lambda a, b, t: a >= b, fold_float=lambda a, b: a >= b)
_row("select", "select", "a where p holds, else b; p is a bool or a vector of them.")
_row("cast", "convert", "To another type of the same shape: wraps, rounds, or saturates with NaN -> 0.")
_row("bitcast", "convert", "The same bits as another type of the same size.")

# --- vectors --------------------------------------------------------------------------
_index = (Attr("index", "int"),)
_row("splat", "splat", "A vector of equal lanes.")
_row("vector", "vector", "A vector of the operands.")
_row("extract", "extract", "One lane of a vector.", attrs=_index)
_row("insert", "insert", "The vector with one lane replaced.", attrs=_index)
_row("permute", "permute", "A byte of the table for each byte of the index, which is its lane; 0 where there is no such lane.",
     _int, since=2)
_row("movemask", "movemask", "The lanes of a vector of 8, 16, 32 or 64 bools as the bits of an unsigned integer, lane 0 lowest.",
     "bits", since=2)

# --- memory ---------------------------------------------------------------------------
_buffer = (Attr("buffer", "symbol"),)
_ordered = (Attr("order", "word", ORDERS), *_buffer)
_row("load", "load", "Read an element, or a vector of consecutive ones of a row from index %i on.", effects="read",
     attrs=_buffer)
_row("store", "store", "Write an element, or a vector to consecutive ones.", effects="write", attrs=_buffer)
_row("atomic_add", "atomic", "Add; gives the old value.  With fastmath<reassoc> the sum may be regrouped, and in any order.",
     "num", "read write atomic", attrs=_ordered)
for _name, _doc, _types in (
    ("min", "Keep the smaller, as min does; gives the old value.", "num"),
    ("max", "Keep the larger, as max does; gives the old value.", "num"),
    ("and", "Bitwise and; gives the old value.", "int"),
    ("or", "Bitwise or; gives the old value.", "int"),
    ("xor", "Bitwise exclusive or; gives the old value.", "int"),
    ("exchange", "Replace; gives the old value.", "num"),
):  # fmt: skip
    _row(f"atomic_{_name}", "atomic", _doc, _types, "read write atomic", attrs=_ordered)
_row("atomic_compare_exchange", "atomic",
     "Replace by the second operand if equal to the first; gives the old value.", "int", "read write atomic",
     attrs=_ordered)
_row("copy_async", "store", "Write what was loaded to workgroup memory, at the latest when a copy_wait waits for it.",
     effects="write", attrs=_buffer, since=2)
_row("copy_wait", "copy_wait", "Wait for this invocation's copies, but for those since the last so many copy_waits before this one.",
     effects="wait", attrs=(Attr("pending", "int"),), since=2)
_row("barrier", "barrier", "Wait for all invocations of the scope; orders their memory accesses.",
     effects="sync", attrs=(Attr("scope", "word", SCOPES),))

# --- subgroups (32 lanes), whose lanes must arrive together, and workgroups that do -------
_combiner = Attr("combine", "word", COMBINERS)
_row("subgroup_shuffle", "shuffle", "The value of another lane; a lane outside keeps its own.",
     effects="subgroup", attrs=(Attr("mode", "word", ("idx", "up", "down", "xor")),))
_row("subgroup_reduce", "reduce", "All lanes combined, as a tree.", effects="subgroup", attrs=(_combiner,))
_row("subgroup_scan", "scan", "The lanes up to this one combined, as a tree.", effects="subgroup",
     attrs=(Attr("mode", "word", ("inclusive", "exclusive")), _combiner))
_row("workgroup_reduce", "reduce", "All invocations of the workgroup combined, as a tree.", effects="subgroup workgroup",
     attrs=(_combiner,), since=2)
_row("workgroup_scan", "scan", "The invocations up to this one combined, as a tree.", effects="subgroup workgroup",
     attrs=(Attr("mode", "word", ("inclusive", "exclusive")), _combiner), since=2)
_row("subgroup_ballot", "ballot", "Bit i is the predicate of lane i.", effects="subgroup")

# --- matrices, which the lanes of a subgroup hold together (see matrix types) ---------------
_layout = (Attr("layout", "word", LAYOUTS), *_buffer)
_row("matrix_load", "matrix_load", "Read a matrix whose first element is at the indices, from the rows of a buffer or transposed.",
     effects="read subgroup", attrs=_layout, since=2)
_row("matrix_store", "matrix_store", "Write a matrix to where its first element is to be.", effects="write subgroup",
     attrs=_layout, since=2)
_row("matrix_mul_add", "matrix_mul_add", "a * b + c; the order of its sums is open, see language.md.", effects="subgroup", since=2)
_row("matrix_unpack", "matrix_unpack", "The elements of sums that this lane has, in an order that is the same on every target, see language.md.",
     effects="subgroup", since=2)
_row("matrix_pack", "matrix_pack", "Sums of which each lane gives its elements, in that order.", effects="subgroup", since=2)

# --- slices: rows and blocks that a workgroup computes with, of programs with one invocation a workgroup ---------
_axis_of = (Attr("axis", "int"),)
_row("slice_load", "slice_load", "Read the row or block whose first element is at the indices.  An open extent is what is left of its "
     "dimension; beyond the edges is the last operand where it is filled, else a fault.", effects="read",
     attrs=(Attr("edge", "word", ("checked", "filled")), *_buffer), since=2)
_row("slice_gather", "slice_gather", "Read the elements whose indices are those of slices.", effects="read", attrs=_buffer, since=2)
_row("slice_store", "slice_store", "Write a row or block.  An open extent has to be what is left of its dimension; what is beyond the "
     "edge is a fault, or where it is clipped not written.", effects="write",
     attrs=(Attr("edge", "word", ("checked", "clipped")), *_buffer), since=2)
_row("slice_broadcast", "slice_broadcast", "A value, or a slice along its extents of 1, repeated; open extents are those of the second operand.",
     since=2)
_row("slice_iota", "slice_iota", "The first operand, and one more for each further element along the extent that is not 1; where that is open, it is the second operand.",
     since=2)
_row("slice_reduce", "slice_reduce", "Elements along an axis combined, in one order for all extents, see language.md.",
     attrs=(_combiner, *_axis_of), since=2)
_row("slice_scan", "slice_scan", "The elements up to each one along an axis combined, in one order for all extents, see language.md.",
     attrs=(Attr("mode", "word", ("inclusive", "exclusive")), _combiner, *_axis_of), since=2)
_row("slice_transpose", "slice_transpose", "The columns of a block as rows.", since=2)
_row("slice_dot", "slice_dot", "The product of two blocks as matrices, added to the third operand if there is one; for the order see language.md.", since=2)
_row("slice_len", "slice_len", "An extent of a slice.", attrs=_axis_of, since=2)

# --- control flow ---------------------------------------------------------------------
_bounds = (Attr("lower", "int"), Attr("upper", "int"), Attr("step", "int"))
_row("for", "for", "Counts from a lower bound up to, not including, an upper one.", effects="control",
     attrs=_bounds)
_row("while", "while", "Runs its body as long as its condition holds.", effects="control")
_row("if", "if", "Runs one of two blocks.", effects="control")
_row("region", "region", "A named group of ops, kept for reading and fusion reports.", effects="control",
     attrs=(Attr("label", "symbol"),))
_row("call", "call", "Calls a function of the module.", attrs=(Attr("callee", "symbol"),))
_row("trap", "trap", "Stops the dispatch with a message.", effects="trap", attrs=(Attr("message", "string"),))
_row("assert", "assert", "Stops the dispatch with a message unless p holds.", effects="trap",
     attrs=(Attr("message", "string"),), since=2)
_row("check_bounds", "check_bounds", "The fault of an access that a pass took out of a buffer: ends in it unless the index is below the length.",
     "int", "fault", attrs=(Attr("access", "word", CHECKED_ACCESSES), Attr("of", "symbol")), since=2)
_row("debug_print", "debug_print", "Prints a line; each operand in the place of its directive.", effects="print",
     attrs=(Attr("format", "string"),), since=2)
_row("breakpoint", "breakpoint", "Where a debugger stops (see debugging_kernels.md); other runs pass over it.", effects="print", since=2)
_row("yield", "yield", "Ends a block and gives its values.", effects="control", is_terminator=True)
_row("condition", "condition", "Ends a while's condition block.", effects="control", is_terminator=True)

# --- named kernels, expanded at a schedule by expand_kernels -----------------------------
_U8, _U32, _I32 = (DataType.U8,), (DataType.U32,), (DataType.I32,)
_FLOAT = (DataType.F32, DataType.F16, DataType.BF16)


def kernel_def(
    roles: str,
    params: Mapping[str, int | None],
    types: Mapping[str, Sequence[DataType]],
    schedule: str,
    like: Mapping[str, tuple[str, *tuple[DataType, ...]]] | None = None,
    shapes: Mapping[str, str] | None = None,
    ranges: Mapping[str, tuple[int, int]] | None = None,
    rows: Mapping[str, str] | None = None,
    renamed: Mapping[str, str] | None = None,
    sizes: Mapping[str, SizeRule] | None = None,
) -> KernelDef:
    """`roles`: `name:access`, with a `?` behind it if it may be left out.  `like`, `shapes`, `rows`: of some of them, see Role;
    `>=` stands before a shape that the buffer may be longer than.

    Raises ValueError for an access that does not exist, or a role without types.
    """
    parts = []
    for role in roles.split():
        name, _, access = role.removesuffix("?").partition(":")
        if name not in types:
            raise ValueError(f"role {name} has no types")
        same, *also = (like or {}).get(name, ("",))
        shape = (shapes or {}).get(name, "")
        parts.append(
            Role(
                name, AccessMode(access), tuple(types[name]), role.endswith("?"), same, tuple(also),
                tuple(shape.removeprefix(">=").split()), shape.startswith(">="), (rows or {}).get(name, ""),
            )
        )  # fmt: skip
    return KernelDef(
        tuple(parts), dict(params), tuple(schedule.split()), ranges or {}, renamed or {}, sizes or {}
    )


def base64_length(characters: int) -> int:
    """The number of bytes that `characters` of base64 decode to, padding not counted."""
    return characters // 4 * 3 + characters % 4 * 3 // 4


def _chain_cells(size: Mapping[str, int]) -> int:
    """Elements of the cores of a chain: of inner ones `rank` squared."""
    rank, inner = size["rank"], size["steps"] - 2
    if inner < 0:
        return size["rows"] * size["columns"]
    return size["rows"] * rank + inner * rank * rank + rank * size["columns"]


def _kernel(name: str, doc: str, *signature: Any, since: int = 1, **columns: Any) -> None:
    """`signature`, `columns`: of `kernel_def`."""
    kernel = kernel_def(*signature, **columns)
    _row(name, "kernel", doc, effects="read write", kernel=kernel, since=since)


_kernel("decode.base64", "Base64 text to bytes (RFC 4648, with or without padding at its end).",
        "text:read bytes:write", {}, {"text": _U8, "bytes": _U8},
        "lanes characters",
        shapes={"text": "characters", "bytes": ">= decoded"},
        sizes={"decoded": lambda size: base64_length(max(0, size["characters"] - 2))})  # two may be padding
_kernel("decode.hex", "Hex text, either case, to bytes.", "text:read bytes:write", {},
        {"text": _U8, "bytes": _U8},
        "lanes characters",
        shapes={"text": "characters", "bytes": ">= decoded"},
        sizes={"decoded": lambda size: size["characters"] // 2})
_kernel("scan.dfa",
        "Each byte's accepting state or 0, of a byte DFA that remembers no more than `warmup` bytes before it.",
        "bytes:read table:read accept:read matches:write", {"warmup": None},
        {"bytes": _U8, "table": (DataType.U16, DataType.U32), "accept": _U32, "matches": _U32},
        "lanes chunk in_shared",
        shapes={"bytes": "length", "table": "states 256", "accept": ">= states", "matches": ">= length"},
        ranges={"warmup": (0, MAX_WARMUP), "states": (1, MAX_LENGTH)},
        renamed={"staged": "in_shared"})
_kernel("scan.prefix", "Inclusive prefix sum.", "x:read y:write", {},
        dict.fromkeys("xy", (*_U32, *_I32, DataType.F32, DataType.U64, DataType.I64, DataType.F64)),
        "lanes rounds vector look_back two_pass",
        like={"y": ("x",)}, shapes={"x": "length", "y": ">= length"},
        renamed={"twice": "two_pass"})
_kernel("math.softmax", "Softmax over rows of `columns` elements.", "x:read y:write", {"columns": None},
        {"x": _FLOAT, "y": _FLOAT},
        "lanes rows vector in_registers unroll in_shared rows_per_thread splits peeled transposed predicated",
        shapes={"x": "rows columns", "y": ">= rows columns"},
        rows={"x": "columns", "y": "columns"},
        ranges={"columns": (1, MAX_COLUMNS)},
        renamed={"kept": "in_registers", "tile": "in_shared", "turns": "rows_per_thread", "shifted": "peeled",
                 "staged": "transposed", "clamped": "predicated"})
_kernel("math.softmax_step", "16.16 fixed point: floor((x_i << 16) / max(sum x, 1)), sum and numerator wide.",
        "x:read y:write", {}, {"x": _U32, "y": _U32},
        "lanes elements_per_workgroup",
        shapes={"x": "length", "y": ">= length"},
        renamed={"share": "elements_per_workgroup"})
_kernel("math.matvec_fixed", "y = M x in signed 16.16: each product shifted right by 16, summed modulo 2^32.",
        "m:read x:read y:write", {}, {"m": (*_U32, *_I32), "x": (*_U32, *_I32), "y": (*_U32, *_I32)},
        "rows unroll lanes vector rows_per_thread splits predicated",
        shapes={"m": "rows columns", "x": "columns", "y": ">= rows"},
        rows={"m": "x"},
        ranges={"columns": (1, MAX_LENGTH)},
        renamed={"turns": "rows_per_thread", "clamped": "predicated"})
_kernel("math.matmul",
        "C = activation(A B + bias), row by row, A of `depth` columns, B and C of `columns`; sums are f32, of f64 f64.  "
        "Activation: 0 none, 1 relu, 2 gelu by erf, 3 silu.",
        "a:read b:read c:write bias:read?", {"depth": None, "columns": None, "activation": 0},
        dict.fromkeys(("a", "b", "c", "bias"), (*_FLOAT, DataType.F64)),
        "lanes lanes_n rows_per_thread columns_per_thread block_m block_k unroll prefetch block_n stages warps_m warps_n group_m",
        like={"b": ("a",), "c": ("a", DataType.F32), "bias": ("a", DataType.F32)},
        shapes={"a": "rows depth", "b": "depth columns", "c": "rows columns", "bias": "columns"},
        rows={"a": "depth", "b": "columns", "c": "columns", "bias": "columns"},
        ranges={**dict.fromkeys(("depth", "columns"), (1, MAX_LENGTH)), "activation": (0, 3)},
        renamed={"across": "lanes_n", "rows": "rows_per_thread", "vectors": "columns_per_thread", "block": "block_m",
                 "step": "block_k", "tall": "block_m", "wide": "block_n", "deep": "block_k", "down": "warps_m",
                 "beside": "warps_n", "band": "group_m"},
        since=2)
_kernel("tt.contract_step", "out_j = sum_i acc_i * core_ij: f32, or signed 16.16 with wrapping sums.",
        "acc:read core:read out:write", {}, dict.fromkeys(("acc", "core", "out"), (*_U32, *_I32, DataType.F32)),
        "lanes unroll lanes_n vector splits stream_columns",
        like=dict.fromkeys(("core", "out"), ("acc",)),
        shapes={"acc": "rows", "core": "rows columns", "out": ">= columns"},
        ranges={"rows": (1, MAX_LENGTH)},
        renamed={"across": "lanes_n", "streamed": "stream_columns"})
_kernel("tt.chain",
        "acc times `steps` matrices of rank by rank; `first` rows of the first and `last` columns of the last, if set.",
        "acc:read cores:read out:write", {"steps": None, "rank": None, "first": 0, "last": 0},
        dict.fromkeys(("acc", "cores", "out"), (*_U32, *_I32, DataType.F32)),
        "lanes vector prefetch workgroups stream_rows",
        like=dict.fromkeys(("cores", "out"), ("acc",)),
        shapes={"acc": "rows", "cores": "cells", "out": ">= columns"},
        sizes={"rows": lambda size: size["first"] or size["rank"],
               "columns": lambda size: size["last"] or size["rank"], "cells": _chain_cells},
        ranges={"steps": (1, MAX_STEPS), "rank": (1, MAX_RANK), **dict.fromkeys(("first", "last"), (0, MAX_RANK))},
        renamed={"ahead": "prefetch", "streamed": "stream_rows"})
_kernel("tt.embedding",
        "Rows of a table kept as 2 to 4 cores [p, r, q, r'] one after the other: products of the slices of an index.",
        "cores:read indices:read out:write",
        {**dict.fromkeys(("p0", "q0", "r1", "p1", "q1"), None), **dict.fromkeys(("r2", "p2", "q2", "r3", "p3", "q3"), 0)},
        {"cores": (DataType.F32, DataType.BF16), "indices": _U32, "out": (DataType.F32, DataType.BF16)},
        "lanes lookups rows_per_thread unroll chunk subgroups columns_per_thread vector",
        shapes={"cores": "cells", "indices": "lookups", "out": ">= lookups columns"},
        sizes={"cells": lambda size: EmbeddingShape.of_kernel(size).elements,
               "columns": lambda size: EmbeddingShape.of_kernel(size).columns},
        renamed={"rows": "rows_per_thread", "columns": "columns_per_thread", "terms": "vector"})

NAMED_KERNELS: dict[str, KernelDef] = {row.name: row.kernel for row in OPS.values() if row.kernel is not None}
"""Name -> what a named kernel takes."""
