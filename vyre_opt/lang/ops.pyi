"""What kernels call by name.  Made by `python docs/op_stubs.py` from the op table."""

from collections.abc import Sequence
from typing import Any, Literal

__all__ = [
    "global_id",
    "local_id",
    "workgroup_id",
    "num_workgroups",
    "workgroup_size",
    "global_size",
    "lane_id",
    "subgroup_id",
    "subgroup_size",
    "num_subgroups",
    "add",
    "sub",
    "mul",
    "div",
    "rem",
    "min",
    "max",
    "abs_diff",
    "neg",
    "abs",
    "mul_hi",
    "add_sat",
    "sub_sat",
    "mul_sat",
    "and_",
    "or_",
    "xor",
    "not_",
    "shl",
    "shr",
    "rotl",
    "rotr",
    "popcount",
    "clz",
    "ctz",
    "reverse_bits",
    "fma",
    "sqrt",
    "floor",
    "ceil",
    "trunc",
    "round_even",
    "rsqrt",
    "rcp",
    "cbrt",
    "exp",
    "exp2",
    "exp10",
    "expm1",
    "log",
    "log2",
    "log1p",
    "pow",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "atan2",
    "sinh",
    "cosh",
    "tanh",
    "erf",
    "erfc",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "select",
    "splat",
    "vector",
    "permute",
    "movemask",
    "atomic_add",
    "atomic_min",
    "atomic_max",
    "atomic_and",
    "atomic_or",
    "atomic_xor",
    "atomic_exchange",
    "atomic_compare_exchange",
    "copy_wait",
    "barrier",
    "subgroup_shuffle",
    "subgroup_reduce",
    "subgroup_scan",
    "workgroup_reduce",
    "workgroup_scan",
    "subgroup_ballot",
    "matrix_load",
    "matrix_store",
    "matrix_mul_add",
    "trap",
    "debug_print",
    "shared",
    "local",
    "buffer",
    "zeros",
    "full",
    "arange",
    "where",
    "transpose",
    "fill",
    "host_read",
    "copy_async",
    "matrix",
    "matrix_cast",
    "sum",
    "prod",
    "any",
    "all",
    "argmax",
    "argmin",
    "cumsum",
    "cumprod",
    "cummax",
    "cummin",
    "bitcast",
    "decode",
    "scan",
    "math",
    "tt",
]

def global_id(axis: Literal[0, 1, 2, "x", "y", "z"] = 0) -> Any:
    """workgroup_id * workgroup_size + local_id along an axis."""
def local_id(axis: Literal[0, 1, 2, "x", "y", "z"] = 0) -> Any:
    """This invocation's place in its workgroup."""
def workgroup_id(axis: Literal[0, 1, 2, "x", "y", "z"] = 0) -> Any:
    """This workgroup's place in the grid."""
def num_workgroups(axis: Literal[0, 1, 2, "x", "y", "z"] = 0) -> Any:
    """Workgroups of the dispatch along an axis."""
def workgroup_size(axis: Literal[0, 1, 2, "x", "y", "z"] = 0) -> Any:
    """Invocations of a workgroup along an axis."""
def global_size(axis: Literal[0, 1, 2, "x", "y", "z"] = 0) -> Any:
    """Invocations of the dispatch along an axis."""
def lane_id() -> Any:
    """This invocation's place in its subgroup: linear local id modulo 32."""
def subgroup_id() -> Any:
    """This subgroup's place in its workgroup: linear local id / 32."""
def subgroup_size() -> Any:
    """Invocations of a subgroup: 32."""
def num_subgroups() -> Any:
    """Subgroups of a workgroup."""
def add(a: Any, b: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """a + b."""
def sub(a: Any, b: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """a - b."""
def mul(a: Any, b: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """a * b."""
def div(a: Any, b: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """a / b, truncated for integers; x/0 = x, INT_MIN/-1 = INT_MIN."""
def rem(a: Any, b: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """Remainder with the sign of a; integer x%0 = 0; fmod for floats."""
def min(a: Any, b: Any = None, axis: int | None = None, keepdims: bool = False, fastmath: str | Sequence[str] = ()) -> Any:
    """The smaller; a NaN operand is ignored."""
def max(a: Any, b: Any = None, axis: int | None = None, keepdims: bool = False, fastmath: str | Sequence[str] = ()) -> Any:
    """The larger; a NaN operand is ignored."""
def abs_diff(a: Any, b: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """|a - b|, exact for integers before wrapping."""
def neg(a: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """-a."""
def abs(a: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """|a|; |INT_MIN| = INT_MIN."""
def mul_hi(a: Any, b: Any) -> Any:
    """The high half of the double-width product."""
def add_sat(a: Any, b: Any) -> Any:
    """a + b, clamped to the type's range."""
def sub_sat(a: Any, b: Any) -> Any:
    """a - b, clamped to the type's range."""
def mul_sat(a: Any, b: Any) -> Any:
    """a * b, clamped to the type's range."""
def and_(a: Any, b: Any) -> Any:
    """Bitwise and."""
def or_(a: Any, b: Any) -> Any:
    """Bitwise or."""
def xor(a: Any, b: Any) -> Any:
    """Bitwise exclusive or."""
def not_(a: Any) -> Any:
    """Bitwise complement."""
def shl(a: Any, b: Any) -> Any:
    """Shift left; the amount is taken modulo the width."""
def shr(a: Any, b: Any) -> Any:
    """Shift right, arithmetic for signed types; the amount modulo the width."""
def rotl(a: Any, b: Any) -> Any:
    """Rotate left; the amount modulo the width."""
def rotr(a: Any, b: Any) -> Any:
    """Rotate right; the amount modulo the width."""
def popcount(a: Any) -> Any:
    """Bits that are set."""
def clz(a: Any) -> Any:
    """Leading zeros; the width for 0."""
def ctz(a: Any) -> Any:
    """Trailing zeros; the width for 0."""
def reverse_bits(a: Any) -> Any:
    """Bits in opposite order."""
def fma(a: Any, b: Any, c: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """a * b + c with one rounding."""
def sqrt(a: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """Square root, correctly rounded."""
def floor(a: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """Largest integral value not above a."""
def ceil(a: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """Smallest integral value not below a."""
def trunc(a: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """a without its fraction."""
def round_even(a: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """Nearest integral value, ties to even."""
def rsqrt(a: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """1 / sqrt(a)."""
def rcp(a: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """1 / a."""
def cbrt(a: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """Cube root."""
def exp(a: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """e to the a."""
def exp2(a: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """2 to the a."""
def exp10(a: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """10 to the a."""
def expm1(a: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """e to the a, less 1; accurate where a is small, too."""
def log(a: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """Natural logarithm."""
def log2(a: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """Logarithm to base 2."""
def log1p(a: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """log(1 + a); accurate where a is small, too."""
def pow(a: Any, b: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """a to the b; a negative a takes integral b; 1 for b = 0 or a = 1, even beside NaN."""
def sin(a: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """Sine of a in radians, of any size."""
def cos(a: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """Cosine of a in radians, of any size."""
def tan(a: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """Tangent of a in radians, of any size."""
def asin(a: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """Arcsine, from -pi/2 to pi/2."""
def acos(a: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """Arccosine, from 0 to pi."""
def atan(a: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """Arctangent, from -pi/2 to pi/2."""
def atan2(a: Any, b: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """The angle of the point (b, a), from -pi to pi: atan(a / b) where b > 0."""
def sinh(a: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """Hyperbolic sine."""
def cosh(a: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """Hyperbolic cosine."""
def tanh(a: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """Hyperbolic tangent."""
def erf(a: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """Error function."""
def erfc(a: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """1 - erf(a), down to the smallest results."""
def eq(a: Any, b: Any) -> Any:
    """a == b; false with NaN."""
def ne(a: Any, b: Any) -> Any:
    """a != b; true with NaN."""
def lt(a: Any, b: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """a < b."""
def le(a: Any, b: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """a <= b."""
def gt(a: Any, b: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """a > b."""
def ge(a: Any, b: Any, fastmath: str | Sequence[str] = ()) -> Any:
    """a >= b."""
def select(condition: Any, a: Any, b: Any) -> Any:
    """a where p holds, else b; p is a bool or a vector of them."""
def splat(x: Any, lanes: Any) -> Any:
    """A vector of equal lanes."""
def vector(*values: Any) -> Any:
    """A vector of the operands."""
def permute(table: Any, index: Any) -> Any:
    """A byte of the table for each byte of the index, which is its lane; 0 where there is no such lane."""
def movemask(flags: Any) -> Any:
    """The lanes of a vector of 8, 16, 32 or 64 bools as the bits of an unsigned integer, lane 0 lowest."""
def atomic_add(array: Any, index: Any, value: Any, order: Literal["relaxed", "acquire", "release", "acq_rel", "seq_cst"] | str = "relaxed", fastmath: str | Sequence[str] = ()) -> Any:
    """Add; gives the old value.  With fastmath<reassoc> the sum may be regrouped, and in any order."""
def atomic_min(array: Any, index: Any, value: Any, order: Literal["relaxed", "acquire", "release", "acq_rel", "seq_cst"] | str = "relaxed") -> Any:
    """Keep the smaller, as min does; gives the old value."""
def atomic_max(array: Any, index: Any, value: Any, order: Literal["relaxed", "acquire", "release", "acq_rel", "seq_cst"] | str = "relaxed") -> Any:
    """Keep the larger, as max does; gives the old value."""
def atomic_and(array: Any, index: Any, value: Any, order: Literal["relaxed", "acquire", "release", "acq_rel", "seq_cst"] | str = "relaxed") -> Any:
    """Bitwise and; gives the old value."""
def atomic_or(array: Any, index: Any, value: Any, order: Literal["relaxed", "acquire", "release", "acq_rel", "seq_cst"] | str = "relaxed") -> Any:
    """Bitwise or; gives the old value."""
def atomic_xor(array: Any, index: Any, value: Any, order: Literal["relaxed", "acquire", "release", "acq_rel", "seq_cst"] | str = "relaxed") -> Any:
    """Bitwise exclusive or; gives the old value."""
def atomic_exchange(array: Any, index: Any, value: Any, order: Literal["relaxed", "acquire", "release", "acq_rel", "seq_cst"] | str = "relaxed") -> Any:
    """Replace; gives the old value."""
def atomic_compare_exchange(array: Any, index: Any, expected: Any, value: Any, order: Literal["relaxed", "acquire", "release", "acq_rel", "seq_cst"] | str = "relaxed") -> Any:
    """Replace by the second operand if equal to the first; gives the old value."""
def copy_wait(pending: Any = 0) -> Any:
    """Wait for this invocation's copies, but for those since the last so many copy_waits before this one."""
def barrier(scope: Literal["subgroup", "workgroup", "cluster", "grid"] | str = "workgroup") -> None:
    """Wait for all invocations of the scope; orders their memory accesses."""
def subgroup_shuffle(x: Any, lane: Any, mode: Literal["idx", "up", "down", "xor"] | str = "idx") -> Any:
    """The value of another lane; a lane outside keeps its own."""
def subgroup_reduce(x: Any, combine: Literal["add", "mul", "min", "max", "and", "or", "xor"] | str = "add") -> Any:
    """All lanes combined, as a tree."""
def subgroup_scan(x: Any, mode: Literal["inclusive", "exclusive"] | str = "inclusive", combine: Literal["add", "mul", "min", "max", "and", "or", "xor"] | str = "add") -> Any:
    """The lanes up to this one combined, as a tree."""
def workgroup_reduce(x: Any, combine: Literal["add", "mul", "min", "max", "and", "or", "xor"] | str = "add") -> Any:
    """All invocations of the workgroup combined, as a tree."""
def workgroup_scan(x: Any, mode: Literal["inclusive", "exclusive"] | str = "inclusive", combine: Literal["add", "mul", "min", "max", "and", "or", "xor"] | str = "add") -> Any:
    """The invocations up to this one combined, as a tree."""
def subgroup_ballot(predicate: Any) -> Any:
    """Bit i is the predicate of lane i."""
def matrix_load(array: Any, index: Any, rows: Any, columns: Any, use: Any = "acc", layout: Literal["row_major", "column_major"] | str = "row_major") -> Any:
    """Read a matrix whose first element is at the indices, from the rows of a buffer or transposed."""
def matrix_store(array: Any, index: Any, value: Any, layout: Literal["row_major", "column_major"] | str = "row_major") -> Any:
    """Write a matrix to where its first element is to be."""
def matrix_mul_add(a: Any, b: Any, c: Any) -> Any:
    """a * b + c; the order of its sums is open, see language.md."""
def trap(message: Any) -> None:
    """Stops the dispatch with a message."""
def debug_print(format: Any, *values: Any) -> None:
    """Prints a line; each operand in the place of its directive."""
def shared(dtype: Any, size: Any, scope: Any = "workgroup") -> Any:
    """shared(f32, 256), shared(f32, (16, 17)): memory that the invocations of a workgroup share, or with 'cluster' those of a cluster."""
def local(dtype: Any, size: Any) -> Any:
    """local(f32, 8), local(f32, (4, 4)): an array of an invocation's own, of zeros, in registers; at most 64 elements."""
def buffer(dtype: Any, size: Any) -> Any:
    """buffer(f32, n), buffer(f32, (rows, columns)): a buffer of a pipeline."""
def zeros(shape: Any, dtype: Any) -> Any:
    """zeros((64, 64), f32): a block of zeros; in a pipeline a buffer, zeros(n, u32), whose elements are 0 from here on."""
def full(shape: Any, value: Any, dtype: Any) -> Any:
    """full((64, 64), 1.5, f32): a block of one value."""
def arange(start: Any, stop: Any = None) -> Any:
    """arange(64), arange(1, 65), arange(len(x)): the numbers up to the last one, without it, as u32; from a negative one as i32."""
def where(condition: Any, a: Any, b: Any) -> Any:
    """where(row > 0, row, 0): the elements of a where a condition holds, else those of b."""
def transpose(x: Any) -> Any:
    """transpose(block), block.T: the columns of a block as rows."""
def fill(array: Any, value: Any) -> Any:
    """fill(x, 0): sets all elements of a buffer of a pipeline to a value."""
def host_read(array: Any) -> Any:
    """host_read(x): hands the contents of a buffer of a pipeline to the caller at this point."""
def copy_async(tile: Any, at: Any, array: Any, start: Any, elements: Any = 1) -> Any:
    """copy_async(tile, i, x, j, 4): copies elements of an array to shared memory by the copy_wait that waits for it."""
def matrix(rows: Any, columns: Any, dtype: Any, value: Any = 0, use: Any = "acc") -> Any:
    """matrix(16, 16, f32): a matrix of a subgroup, of one value."""
def matrix_cast(x: Any, dtype: Any, use: Any = None) -> Any:
    """matrix_cast(x, bf16, 'a'): a matrix of another type, or for another use."""
def sum(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """sum(x[r, :]): of a slice, in one order on every target; of f16 and bf16 in f32."""
def prod(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """prod(x[r, :]): the product of a slice."""
def any(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """any(x[r, :] > 0): whether one of the bools of a slice is true."""
def all(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """all(x[r, :] > 0): whether all bools of a slice are true."""
def argmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """argmax(x[r, :]): the first index of the largest element; NaN is none, and 0 where there are no others."""
def argmin(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """argmin(x[r, :]): the same of the smallest element."""
def cumsum(x: Any, axis: int | None = None, exclusive: Any = False) -> Any:
    """cumsum(x[r, :]): the sums of the elements up to each, in one order on every target; of f16 and bf16 in f32."""
def cumprod(x: Any, axis: int | None = None, exclusive: Any = False) -> Any:
    """cumprod(x[r, :]): the products of the elements up to each."""
def cummax(x: Any, axis: int | None = None, exclusive: Any = False) -> Any:
    """cummax(x[r, :]): the largest of the elements up to each."""
def cummin(x: Any, axis: int | None = None, exclusive: Any = False) -> Any:
    """cummin(x[r, :]): the smallest of the elements up to each."""
def bitcast(x: Any, dtype: Any) -> Any:
    """bitcast(x, u32): the same bits as another type, or as a vector of it that is as large."""
class _decode:
    """The kernels decode.*, which pipelines launch."""

    @staticmethod
    def base64(text: Any, bytes: Any) -> Any:
        """Base64 text to bytes (RFC 4648, with or without padding at its end)."""
    @staticmethod
    def hex(text: Any, bytes: Any) -> Any:
        """Hex text, either case, to bytes."""
decode: type[_decode]
class _scan:
    """The kernels scan.*, which pipelines launch."""

    @staticmethod
    def dfa(bytes: Any, table: Any, accept: Any, matches: Any, *, warmup: Any) -> Any:
        """Each byte's accepting state or 0, of a byte DFA that remembers no more than `warmup` bytes before it."""
    @staticmethod
    def prefix(x: Any, y: Any) -> Any:
        """Inclusive prefix sum."""
scan: type[_scan]
class _math:
    """The kernels math.*, which pipelines launch."""

    @staticmethod
    def matmul(a: Any, b: Any, c: Any, bias: Any = None, *, depth: Any = None, columns: Any = None, activation: Any = 0) -> Any:
        """C = activation(A B + bias), row by row, A of `depth` columns, B and C of `columns`; sums are f32, of f64 f64.  Activation: 0 none, 1 relu, 2 gelu by erf, 3 silu."""
    @staticmethod
    def matvec_fixed(m: Any, x: Any, y: Any) -> Any:
        """y = M x in signed 16.16: each product shifted right by 16, summed modulo 2^32."""
    @staticmethod
    def softmax(x: Any, y: Any, *, columns: Any = None) -> Any:
        """Softmax over rows of `columns` elements."""
    @staticmethod
    def softmax_step(x: Any, y: Any) -> Any:
        """16.16 fixed point: floor((x_i << 16) / max(sum x, 1)), sum and numerator wide."""
math: type[_math]
class _tt:
    """The kernels tt.*, which pipelines launch."""

    @staticmethod
    def chain(acc: Any, cores: Any, out: Any, *, steps: Any, rank: Any, first: Any = 0, last: Any = 0) -> Any:
        """acc times `steps` matrices of rank by rank; `first` rows of the first and `last` columns of the last, if set."""
    @staticmethod
    def contract_step(acc: Any, core: Any, out: Any) -> Any:
        """out_j = sum_i acc_i * core_ij: f32, or signed 16.16 with wrapping sums."""
    @staticmethod
    def embedding(cores: Any, indices: Any, out: Any, *, p0: Any, q0: Any, r1: Any, p1: Any, q1: Any, r2: Any = 0, p2: Any = 0, q2: Any = 0, r3: Any = 0, p3: Any = 0, q3: Any = 0) -> Any:
        """Rows of a table kept as 2 to 4 cores [p, r, q, r'] one after the other: products of the slices of an index."""
tt: type[_tt]
