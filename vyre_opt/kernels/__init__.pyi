"""The kernels as functions on arrays.  Made by `python docs/op_stubs.py` from their docstrings."""

from collections.abc import Sequence
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from ..execution.dispatcher import DispatcherLike
from ..driver.prepared_chain import TTChain as TTChain
from ..driver.tt_table import TTTable as TTTable
from vyre_opt.row_kernels.attention import attention as attention
from vyre_scan.decode_scan import decode_scan as decode_scan
from vyre_opt.row_kernels.norms import layer_norm as layer_norm
from vyre_opt.row_kernels.norms import layer_norm_backward as layer_norm_backward
from ..driver.numeric_kernels import prefix_scan as prefix_scan
from vyre_opt.row_kernels.norms import rms_norm as rms_norm
from vyre_opt.row_kernels.norms import rms_norm_backward as rms_norm_backward
from ..driver.numeric_kernels import softmax as softmax

A = TypeVar("A")

@overload
def base64_decode(text: str | bytes | NDArray[Any], *, dispatcher: DispatcherLike | None = None) -> NDArray[np.uint8]:
    """The bytes that base64 text encodes.

    Args:
        text: a str of ASCII, bytes, or a 1-dimensional array of u8; padding may be left out.  In main memory blanks and line
            breaks are skipped; on a GPU each character outside of the alphabet counts as A, six zero bits.
        dispatcher: a target's name or a dispatcher; left out, cpu for arrays in main memory and cuda for those on a GPU.

    Returns:
        An array of u8 of 3 bytes for 4 characters: of NumPy for str and bytes, else of the library and memory of `text`.

    Raises:
        BadInputs: for what is no text, and for the first character in main memory that encodes nothing, with its place.

    Example:
        >>> bytes(kernels.base64_decode("dnlyZQ=="))
        b'vyre'
    """
@overload
def base64_decode(text: A, *, dispatcher: DispatcherLike | None = None) -> A: ...
@overload
def cross_entropy(x: NDArray[Any], labels: NDArray[Any], *, dispatcher: DispatcherLike | None = None, out: Any = None) -> NDArray[Any]:
    """The cross entropy of each row of logits and its label: log(sum(exp(x))) - x[label].

    Args:
        x: (..., columns) of f32, f16 or bf16, computed in f32.
        labels: (...) of i32, i64, u8, u16 or u32, below columns.
        dispatcher: a target's name or a dispatcher; left out, cpu for arrays in main memory and cuda for those on a GPU.
        out: an array of f32 that gets the result, and is returned.

    Returns:
        An array of f32 of shape (...), of the library and memory of `x`, without reduction.

    Raises:
        BadInputs: for other types or shapes, and rows without elements, before anything runs; in main memory for a label that no column has.
        ProgramError: for such a label on a GPU, where accesses are checked.

    Example:
        >>> kernels.cross_entropy(np.zeros((1, 4), np.float32), np.array([2], np.int32)).round(4).tolist()
        [1.386299967765808]
    """
@overload
def cross_entropy(x: A, labels: A, *, dispatcher: DispatcherLike | None = None, out: Any = None) -> A: ...
@overload
def hex_decode(text: str | bytes | NDArray[Any], *, dispatcher: DispatcherLike | None = None) -> NDArray[np.uint8]:
    """The bytes that hexadecimal text encodes.

    Args:
        text: a str of ASCII, bytes, or a 1-dimensional array of u8, digits in either case.  In main memory blanks and line breaks are
            skipped; on a GPU a character that is no digit counts as 0, and a last odd digit is left out.
        dispatcher: a target's name or a dispatcher; left out, cpu for arrays in main memory and cuda for those on a GPU.

    Returns:
        An array of u8 of a byte for 2 digits: of NumPy for str and bytes, else of the library and memory of `text`.

    Raises:
        BadInputs: for what is no text, and for the first character in main memory that encodes nothing, with its place.

    Example:
        >>> bytes(kernels.hex_decode("76797265"))
        b'vyre'
    """
@overload
def hex_decode(text: A, *, dispatcher: DispatcherLike | None = None) -> A: ...
@overload
def log_sum_exp(x: NDArray[Any], *, dispatcher: DispatcherLike | None = None, out: Any = None) -> NDArray[Any]:
    """The logarithm of the sum of exp(x) along the last axis, which does not overflow.

    Args:
        x: (..., columns) of f32, f16 or bf16, computed in f32.  A row of -inf gives -inf, one with +inf +inf, one with a NaN NaN.
        dispatcher: a target's name or a dispatcher; left out, cpu for arrays in main memory and cuda for those on a GPU.
        out: an array of f32 that gets the result, and is returned.

    Returns:
        An array of f32 of shape (...), of the library and memory of `x`.

    Raises:
        BadInputs: for other types or shapes, and rows without elements, before anything runs.

    Example:
        >>> kernels.log_sum_exp(np.array([[1000, 1000 - np.log(3)]], np.float32)).round(3).tolist()
        [1000.2880249023438]
    """
@overload
def log_sum_exp(x: A, *, dispatcher: DispatcherLike | None = None, out: Any = None) -> A: ...
@overload
def matmul(a: NDArray[Any], b: Any, bias: Any = None, activation: str = 'none', *, dtype: str | None = None, result: str | None = None, dispatcher: DispatcherLike | None = None, out: Any = None) -> NDArray[Any]:
    """Product of matrices, activation(a b + bias), with sums in f32, of f64 in f64.

    Shapes are those of numpy.matmul: stacks of matrices, whose leading extents broadcast, and vectors, (depth,) being a row as `a` and a
    column as `b`; the result has no such axis.  A stack takes no more launches than one product, and what is broadcast is read where it is.

    Args:
        a: (..., rows, depth) or (depth,) of f32, f16, bf16 or f64; the depth is at least 1.
        b: (..., depth, columns) or (depth,), of the type of `a`.
        bias: (columns,), of the type of `a` or f32, added to each row.
        activation: "none", "relu", "gelu" (by erf) or "silu".
        dtype: "bf16" for arrays of u16 that hold the bits of bf16.
        result: "f32" for a result of f32 of narrower matrices.
        dispatcher: a target's name or a dispatcher; left out, cpu for arrays in main memory and cuda for those on a GPU.
        out: an array that gets the result, and is returned; it may be an argument.

    Returns:
        An array of shape (..., rows, columns), of the type of `a` or of f32, of its library and memory.

    Raises:
        BadInputs: for other types, or shapes that do not match, before anything runs.

    Example:
        >>> a, b = np.array([[1, -2]], np.float32), np.array([[3, 4], [5, 6]], np.float32)
        >>> kernels.matmul(a, b).tolist()
        [[-7.0, -8.0]]
        >>> kernels.matmul(a, b, bias=np.array([10, 0], np.float32), activation="relu").tolist()
        [[3.0, 0.0]]
    """
@overload
def matmul(a: A, b: Any, bias: Any = None, activation: str = 'none', *, dtype: str | None = None, result: str | None = None, dispatcher: DispatcherLike | None = None, out: Any = None) -> A: ...
@overload
def matvec_fixed(m: NDArray[Any], x: Any, *, dispatcher: DispatcherLike | None = None, out: Any = None) -> NDArray[Any]:
    """Matrix times vector in signed 16.16 fixed point: y_i = sum_j (m_ij * x_j) >> 16; sums wrap.

    Args:
        m: (rows, columns), or as many elements in one dimension, of i32 or u32 (two's complement); 65,536 is 1.0.
        x: (columns,) of i32 or u32.
        dispatcher: a target's name or a dispatcher; left out, cpu for arrays in main memory and cuda for those on a GPU.
        out: an array that gets the result, and is returned; it may be an argument.

    Returns:
        An array of shape (rows,) in 16.16, of the type, library and memory of `m`.

    Raises:
        BadInputs: for other types, or shapes that do not match, before anything runs.

    Example:
        >>> half, three = 1 << 15, 3 << 16
        >>> kernels.matvec_fixed(np.array([[half, 0], [0, half]], np.int32), np.array([three, three], np.int32)).tolist()
        [98304, 98304]
    """
@overload
def matvec_fixed(m: A, x: Any, *, dispatcher: DispatcherLike | None = None, out: Any = None) -> A: ...
@overload
def softmax_step(x: Sequence[int] | NDArray[Any], *, dispatcher: DispatcherLike | None = None, out: Any = None) -> NDArray[np.uint32]:
    """Shares of a sum in 16.16 fixed point: floor((x_i << 16) / max(sum(x), 1)), neither sum nor numerator wraps.

    Args:
        x: whole numbers from 0 to 2^32 - 1, in an array of any shape and integer type, or in a list; the sum is over all of them.
        dispatcher: a target's name or a dispatcher; left out, cpu for arrays in main memory and cuda for those on a GPU.
        out: an array that gets the result, and is returned; it may be an argument.

    Returns:
        An array of u32 in 16.16, 65,536 for 1.0, of the shape of `x`, where `x` is.

    Raises:
        BadInputs: for numbers that are no u32, before anything runs.

    Example:
        >>> kernels.softmax_step([1, 3]).tolist()
        [16384, 49152]
    """
@overload
def softmax_step(x: A, *, dispatcher: DispatcherLike | None = None, out: Any = None) -> A: ...
@overload
def tt_chain(acc: NDArray[Any], cores: Sequence[Any], *, dispatcher: DispatcherLike | None = None, out: Any = None) -> NDArray[Any]:
    """A vector times each of some matrices, acc @ cores[0] @ cores[1] ..., in one launch where that is faster.

    Args:
        acc: (r_0,) of f32, or of signed 16.16 in i32 or u32 (two's complement), whose sums wrap; 65,536 is 1.0.
        cores: matrices (r_k, r_k+1) of the type of `acc`, with ranks from 1 to 4,096; of none the result is a copy of `acc`.
        dispatcher: a target's name or a dispatcher; left out, cpu for arrays in main memory and cuda for those on a GPU.
        out: an array that gets the result, and is returned; it may be an argument.

    Returns:
        An array of shape (r_n,), of the type, library and memory of `acc`.

    Raises:
        BadInputs: for other types, or shapes that do not match, before anything runs.

    Example:
        >>> cores = [np.full((2, 3), 0.5, np.float32), np.ones((3, 1), np.float32)]
        >>> kernels.tt_chain(np.array([1, 3], np.float32), cores).tolist()
        [6.0]
    """
@overload
def tt_chain(acc: A, cores: Sequence[Any], *, dispatcher: DispatcherLike | None = None, out: Any = None) -> A: ...
@overload
def tt_contract_step(acc: NDArray[Any], core: Any, *, dispatcher: DispatcherLike | None = None, out: Any = None) -> NDArray[Any]:
    """A step of a tensor train: y_j = sum_i acc_i * core_ij.

    Args:
        acc: (rows,) of f32, or of signed 16.16 in i32 or u32 (two's complement), whose sums wrap; 65,536 is 1.0.  Of shape (n, rows), of
            f32, f16 or bf16, it is n vectors at once: the `matmul` of both.
        core: (rows, columns), or as many elements in one dimension, of the type of `acc`.
        dispatcher: a target's name or a dispatcher; left out, cpu for arrays in main memory and cuda for those on a GPU.  One of your
            own, an object with `dispatch(program, inputs, grid)`, gets one dispatch of max(1, ceil(columns / 256)) workgroups.
        out: an array that gets the result, and is returned; it may be an argument.

    Returns:
        An array of shape (columns,), of n vectors (n, columns), of the type, library and memory of `acc`.

    Raises:
        BadInputs: for other types, or shapes that do not match, before anything runs.

    Example:
        >>> core = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
        >>> kernels.tt_contract_step(np.array([1, 2], np.float32), core).tolist()
        [9.0, 12.0, 15.0]
    """
@overload
def tt_contract_step(acc: A, core: Any, *, dispatcher: DispatcherLike | None = None, out: Any = None) -> A: ...
@overload
def tt_embedding(cores: Sequence[NDArray[Any]], indices: Any, *, dtype: str | None = None, dispatcher: DispatcherLike | None = None) -> NDArray[Any]:
    """Rows of a table of prod(p) rows and prod(q) columns that is stored as a tensor train; `TTTable` prepares cores for many calls.

    Args:
        cores: 2 to 4 arrays of shape (p_k, r_k, q_k, r_k+1), with r_0 and the last r 1, of f32 or bf16; summed in f32.
        indices: whole numbers from 0 to prod(p) - 1, in an array of any shape and integer type, or in a list.
        dtype: "bf16" for arrays of u16 that hold the bits of bf16.
        dispatcher: a target's name or a dispatcher; left out, cpu for arrays in main memory and cuda for those on a GPU.

    Returns:
        An array of shape (*indices.shape, prod(q)), of the type, library and memory of the cores.

    Raises:
        BadInputs: for other types or shapes, and in main memory for an index out of range, before anything runs.  On a GPU such a row is
            zero, and a later call or `vyre_opt.synchronize` raises ProgramError.

    Example:
        >>> cores = [np.ones((2, 1, 2, 3), np.float32), np.ones((2, 3, 2, 1), np.float32)]
        >>> kernels.tt_embedding(cores, [0, 3]).tolist()
        [[3.0, 3.0, 3.0, 3.0], [3.0, 3.0, 3.0, 3.0]]
    """
@overload
def tt_embedding(cores: Sequence[A], indices: Any, *, dtype: str | None = None, dispatcher: DispatcherLike | None = None) -> A: ...
