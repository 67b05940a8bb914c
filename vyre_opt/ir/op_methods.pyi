"""The builder's methods of ops.  Made by `python docs/op_stubs.py` from the op table."""

from collections.abc import Sequence
from typing import Literal

from .value_operators import BuiltValue, Operand
from .program import Buffer, Value
from .types import DataType

__all__ = ["OpMethods"]

class OpMethods:
    def global_id(self, axis: Literal["x", "y", "z"] | str = "x", *, name: str | None = None) -> BuiltValue:
        """workgroup_id * workgroup_size + local_id along an axis."""
    def local_id(self, axis: Literal["x", "y", "z"] | str = "x", *, name: str | None = None) -> BuiltValue:
        """This invocation's place in its workgroup."""
    def workgroup_id(self, axis: Literal["x", "y", "z"] | str = "x", *, name: str | None = None) -> BuiltValue:
        """This workgroup's place in the grid."""
    def num_workgroups(self, axis: Literal["x", "y", "z"] | str = "x", *, name: str | None = None) -> BuiltValue:
        """Workgroups of the dispatch along an axis."""
    def workgroup_size(self, axis: Literal["x", "y", "z"] | str = "x", *, name: str | None = None) -> BuiltValue:
        """Invocations of a workgroup along an axis."""
    def global_size(self, axis: Literal["x", "y", "z"] | str = "x", *, name: str | None = None) -> BuiltValue:
        """Invocations of the dispatch along an axis."""
    def lane_id(self, *, name: str | None = None) -> BuiltValue:
        """This invocation's place in its subgroup: linear local id modulo 32."""
    def subgroup_id(self, *, name: str | None = None) -> BuiltValue:
        """This subgroup's place in its workgroup: linear local id / 32."""
    def subgroup_size(self, *, name: str | None = None) -> BuiltValue:
        """Invocations of a subgroup: 32."""
    def num_subgroups(self, *, name: str | None = None) -> BuiltValue:
        """Subgroups of a workgroup."""
    def len(self, buffer: Buffer | str, dtype: DataType | str = DataType.U32, *, dimension: int | None = None, name: str | None = None) -> BuiltValue:
        """Elements of a buffer, along a dimension where it has several."""
    def add(self, a: Operand, b: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """a + b."""
    def sub(self, a: Operand, b: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """a - b."""
    def mul(self, a: Operand, b: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """a * b."""
    def div(self, a: Operand, b: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """a / b, truncated for integers; x/0 = x, INT_MIN/-1 = INT_MIN."""
    def rem(self, a: Operand, b: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """Remainder with the sign of a; integer x%0 = 0; fmod for floats."""
    def min(self, a: Operand, b: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """The smaller; a NaN operand is ignored."""
    def max(self, a: Operand, b: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """The larger; a NaN operand is ignored."""
    def abs_diff(self, a: Operand, b: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """|a - b|, exact for integers before wrapping."""
    def neg(self, a: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """-a."""
    def abs(self, a: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """|a|; |INT_MIN| = INT_MIN."""
    def mul_hi(self, a: Operand, b: Operand, *, name: str | None = None) -> BuiltValue:
        """The high half of the double-width product."""
    def add_sat(self, a: Operand, b: Operand, *, name: str | None = None) -> BuiltValue:
        """a + b, clamped to the type's range."""
    def sub_sat(self, a: Operand, b: Operand, *, name: str | None = None) -> BuiltValue:
        """a - b, clamped to the type's range."""
    def mul_sat(self, a: Operand, b: Operand, *, name: str | None = None) -> BuiltValue:
        """a * b, clamped to the type's range."""
    def and_(self, a: Operand, b: Operand, *, name: str | None = None) -> BuiltValue:
        """Bitwise and."""
    def or_(self, a: Operand, b: Operand, *, name: str | None = None) -> BuiltValue:
        """Bitwise or."""
    def xor(self, a: Operand, b: Operand, *, name: str | None = None) -> BuiltValue:
        """Bitwise exclusive or."""
    def not_(self, a: Operand, *, name: str | None = None) -> BuiltValue:
        """Bitwise complement."""
    def shl(self, a: Operand, b: Operand, *, name: str | None = None) -> BuiltValue:
        """Shift left; the amount is taken modulo the width."""
    def shr(self, a: Operand, b: Operand, *, name: str | None = None) -> BuiltValue:
        """Shift right, arithmetic for signed types; the amount modulo the width."""
    def rotl(self, a: Operand, b: Operand, *, name: str | None = None) -> BuiltValue:
        """Rotate left; the amount modulo the width."""
    def rotr(self, a: Operand, b: Operand, *, name: str | None = None) -> BuiltValue:
        """Rotate right; the amount modulo the width."""
    def popcount(self, a: Operand, *, name: str | None = None) -> BuiltValue:
        """Bits that are set."""
    def clz(self, a: Operand, *, name: str | None = None) -> BuiltValue:
        """Leading zeros; the width for 0."""
    def ctz(self, a: Operand, *, name: str | None = None) -> BuiltValue:
        """Trailing zeros; the width for 0."""
    def reverse_bits(self, a: Operand, *, name: str | None = None) -> BuiltValue:
        """Bits in opposite order."""
    def fma(self, a: Operand, b: Operand, c: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """a * b + c with one rounding."""
    def sqrt(self, a: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """Square root, correctly rounded."""
    def floor(self, a: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """Largest integral value not above a."""
    def ceil(self, a: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """Smallest integral value not below a."""
    def trunc(self, a: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """a without its fraction."""
    def round_even(self, a: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """Nearest integral value, ties to even."""
    def rsqrt(self, a: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """1 / sqrt(a)."""
    def rcp(self, a: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """1 / a."""
    def cbrt(self, a: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """Cube root."""
    def exp(self, a: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """e to the a."""
    def exp2(self, a: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """2 to the a."""
    def exp10(self, a: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """10 to the a."""
    def expm1(self, a: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """e to the a, less 1; accurate where a is small, too."""
    def log(self, a: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """Natural logarithm."""
    def log2(self, a: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """Logarithm to base 2."""
    def log1p(self, a: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """log(1 + a); accurate where a is small, too."""
    def pow(self, a: Operand, b: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """a to the b; a negative a takes integral b; 1 for b = 0 or a = 1, even beside NaN."""
    def sin(self, a: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """Sine of a in radians, of any size."""
    def cos(self, a: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """Cosine of a in radians, of any size."""
    def tan(self, a: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """Tangent of a in radians, of any size."""
    def asin(self, a: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """Arcsine, from -pi/2 to pi/2."""
    def acos(self, a: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """Arccosine, from 0 to pi."""
    def atan(self, a: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """Arctangent, from -pi/2 to pi/2."""
    def atan2(self, a: Operand, b: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """The angle of the point (b, a), from -pi to pi: atan(a / b) where b > 0."""
    def sinh(self, a: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """Hyperbolic sine."""
    def cosh(self, a: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """Hyperbolic cosine."""
    def tanh(self, a: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """Hyperbolic tangent."""
    def erf(self, a: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """Error function."""
    def erfc(self, a: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """1 - erf(a), down to the smallest results."""
    def eq(self, a: Operand, b: Operand, *, name: str | None = None) -> BuiltValue:
        """a == b; false with NaN."""
    def ne(self, a: Operand, b: Operand, *, name: str | None = None) -> BuiltValue:
        """a != b; true with NaN."""
    def lt(self, a: Operand, b: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """a < b."""
    def le(self, a: Operand, b: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """a <= b."""
    def gt(self, a: Operand, b: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """a > b."""
    def ge(self, a: Operand, b: Operand, *, fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """a >= b."""
    def select(self, predicate: Operand, a: Operand, b: Operand, *, name: str | None = None) -> BuiltValue:
        """a where p holds, else b; p is a bool or a vector of them."""
    def cast(self, operand: Value, dtype: DataType | str, *, name: str | None = None) -> BuiltValue:
        """To another type of the same shape: wraps, rounds, or saturates with NaN -> 0."""
    def bitcast(self, operand: Value, dtype: DataType | str, *, name: str | None = None) -> BuiltValue:
        """The same bits as another type of the same size."""
    def splat(self, operand: Value, lanes: int | DataType, *, name: str | None = None) -> BuiltValue:
        """A vector of equal lanes."""
    def vector(self, *operands: Operand, name: str | None = None) -> BuiltValue:
        """A vector of the operands."""
    def extract(self, vector: Value, index: int, *, name: str | None = None) -> BuiltValue:
        """One lane of a vector."""
    def insert(self, operand: Operand, vector: Value, index: int, *, name: str | None = None) -> BuiltValue:
        """The vector with one lane replaced."""
    def permute(self, table: Value, index: Value, *, name: str | None = None) -> BuiltValue:
        """A byte of the table for each byte of the index, which is its lane; 0 where there is no such lane."""
    def movemask(self, flags: Value, *, name: str | None = None) -> BuiltValue:
        """The lanes of a vector of 8, 16, 32 or 64 bools as the bits of an unsigned integer, lane 0 lowest."""
    def load(self, buffer: Buffer | str, index: Operand | Sequence[Operand], lanes: int = 1, *, name: str | None = None) -> BuiltValue:
        """Read an element, or a vector of consecutive ones of a row from index %i on."""
    def atomic_add(self, buffer: Buffer | str, index: Operand | Sequence[Operand], value: Operand, *, order: Literal["relaxed", "acquire", "release", "acq_rel", "seq_cst"] | str = "relaxed", fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """Add; gives the old value.  With fastmath<reassoc> the sum may be regrouped, and in any order."""
    def atomic_min(self, buffer: Buffer | str, index: Operand | Sequence[Operand], value: Operand, *, order: Literal["relaxed", "acquire", "release", "acq_rel", "seq_cst"] | str = "relaxed", fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """Keep the smaller, as min does; gives the old value."""
    def atomic_max(self, buffer: Buffer | str, index: Operand | Sequence[Operand], value: Operand, *, order: Literal["relaxed", "acquire", "release", "acq_rel", "seq_cst"] | str = "relaxed", fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """Keep the larger, as max does; gives the old value."""
    def atomic_and(self, buffer: Buffer | str, index: Operand | Sequence[Operand], value: Operand, *, order: Literal["relaxed", "acquire", "release", "acq_rel", "seq_cst"] | str = "relaxed", name: str | None = None) -> BuiltValue:
        """Bitwise and; gives the old value."""
    def atomic_or(self, buffer: Buffer | str, index: Operand | Sequence[Operand], value: Operand, *, order: Literal["relaxed", "acquire", "release", "acq_rel", "seq_cst"] | str = "relaxed", name: str | None = None) -> BuiltValue:
        """Bitwise or; gives the old value."""
    def atomic_xor(self, buffer: Buffer | str, index: Operand | Sequence[Operand], value: Operand, *, order: Literal["relaxed", "acquire", "release", "acq_rel", "seq_cst"] | str = "relaxed", name: str | None = None) -> BuiltValue:
        """Bitwise exclusive or; gives the old value."""
    def atomic_exchange(self, buffer: Buffer | str, index: Operand | Sequence[Operand], value: Operand, *, order: Literal["relaxed", "acquire", "release", "acq_rel", "seq_cst"] | str = "relaxed", fastmath: Sequence[str] = (), name: str | None = None) -> BuiltValue:
        """Replace; gives the old value."""
    def atomic_compare_exchange(self, buffer: Buffer | str, index: Operand | Sequence[Operand], expected: Operand, value: Operand, *, order: Literal["relaxed", "acquire", "release", "acq_rel", "seq_cst"] | str = "relaxed", name: str | None = None) -> BuiltValue:
        """Replace by the second operand if equal to the first; gives the old value."""
    def subgroup_shuffle(self, operand: Value, lane: Operand, mode: Literal["idx", "up", "down", "xor"] | str = "idx", *, name: str | None = None) -> BuiltValue:
        """The value of another lane; a lane outside keeps its own."""
    def subgroup_reduce(self, operand: Value, combine: Literal["add", "mul", "min", "max", "and", "or", "xor"] | str = "add", *, name: str | None = None) -> BuiltValue:
        """All lanes combined, as a tree."""
    def subgroup_scan(self, operand: Value, mode: Literal["inclusive", "exclusive"] | str = "inclusive", combine: Literal["add", "mul", "min", "max", "and", "or", "xor"] | str = "add", *, name: str | None = None) -> BuiltValue:
        """The lanes up to this one combined, as a tree."""
    def workgroup_reduce(self, operand: Value, combine: Literal["add", "mul", "min", "max", "and", "or", "xor"] | str = "add", *, name: str | None = None) -> BuiltValue:
        """All invocations of the workgroup combined, as a tree."""
    def workgroup_scan(self, operand: Value, mode: Literal["inclusive", "exclusive"] | str = "inclusive", combine: Literal["add", "mul", "min", "max", "and", "or", "xor"] | str = "add", *, name: str | None = None) -> BuiltValue:
        """The invocations up to this one combined, as a tree."""
    def subgroup_ballot(self, predicate: Value, *, name: str | None = None) -> BuiltValue:
        """Bit i is the predicate of lane i."""
    def matrix_load(self, buffer: Buffer | str, index: Operand | Sequence[Operand], dtype: DataType, layout: Literal["row_major", "column_major"] | str = "row_major", *, name: str | None = None) -> BuiltValue:
        """Read a matrix whose first element is at the indices, from the rows of a buffer or transposed."""
    def matrix_mul_add(self, x: Value, y: Value, z: Value, *, name: str | None = None) -> BuiltValue:
        """a * b + c; the order of its sums is open, see language.md."""
    def matrix_unpack(self, matrix: Value, *, name: str | None = None) -> BuiltValue:
        """The elements of sums that this lane has, in an order that is the same on every target, see language.md."""
    def matrix_pack(self, lanes: Value, dtype: DataType, *, name: str | None = None) -> BuiltValue:
        """Sums of which each lane gives its elements, in that order."""
    def slice_load(self, buffer: Buffer | str, index: Operand | Sequence[Operand], extents: Sequence[int | None], fill: Operand | None = None, *, name: str | None = None) -> BuiltValue:
        """Read the row or block whose first element is at the indices.  An open extent is what is left of its dimension; beyond the edges is the last operand where it is filled, else a fault."""
    def slice_gather(self, buffer: Buffer | str, index: Operand | Sequence[Operand], *, name: str | None = None) -> BuiltValue:
        """Read the elements whose indices are those of slices."""
    def slice_broadcast(self, value: Value, like: Value | Sequence[int], *, name: str | None = None) -> BuiltValue:
        """A value, or a slice along its extents of 1, repeated; open extents are those of the second operand."""
    def slice_iota(self, extents: int | Sequence[int] | Value, dtype: DataType | str = DataType.U32, start: Operand = 0, *, name: str | None = None) -> BuiltValue:
        """The first operand, and one more for each further element along the extent that is not 1; where that is open, it is the second operand."""
    def slice_reduce(self, value: Value, combine: Literal["add", "mul", "min", "max", "and", "or", "xor"] | str = "add", axis: int = 0, keep: bool = False, *, name: str | None = None) -> BuiltValue:
        """Elements along an axis combined, in one order for all extents, see language.md."""
    def slice_scan(self, value: Value, mode: Literal["inclusive", "exclusive"] | str = "inclusive", combine: Literal["add", "mul", "min", "max", "and", "or", "xor"] | str = "add", axis: int = 0, *, name: str | None = None) -> BuiltValue:
        """The elements up to each one along an axis combined, in one order for all extents, see language.md."""
    def slice_transpose(self, value: Value, *, name: str | None = None) -> BuiltValue:
        """The columns of a block as rows."""
    def slice_dot(self, x: Value, y: Value, total: Value | None = None, *, name: str | None = None) -> BuiltValue:
        """The product of two blocks as matrices, added to the third operand if there is one; for the order see language.md."""
    def slice_len(self, value: Value, axis: int = 0, *, name: str | None = None) -> BuiltValue:
        """An extent of a slice."""
