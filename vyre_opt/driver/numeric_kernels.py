"""The numeric kernels as functions on arrays.

Arrays are those of NumPy, torch, CuPy, PyCUDA or any library with DLPack or
`__cuda_array_interface__`; results are of the same library, in the same memory.  Each function
takes `dispatcher=`, the name of a target or a dispatcher (see `vyre_opt.dispatcher`): by default
cpu for arrays in main memory, and cuda for arrays on a GPU.  Each raises BadInputs for arrays
that do not fit, before anything is allocated or run.

`out=`, where a function has it, is an array that gets the result and is returned: of the result's shape, type,
library and memory.  It may be one of the inputs.

For a tensor of torch that requires a gradient, softmax, prefix_scan, tt_chain and tt_embedding are the operators of
`vyre_opt.torch`, and the others raise BadInputs; so do all with `dispatcher=`, `dtype=` or `out=`.

What a call comes to is in the kernel's declaration, see `vyre_opt.kernels.named`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .operands import A, DispatcherLike, Like, Words, as_u32, listed
from .planned_function import kernel_function
from .torch_calls import is_recorded, record, traced_as
from .tt_table import TTTable, rows_of_cores

__all__ = [
    "TTTable",
    "matmul",
    "matvec_fixed",
    "prefix_scan",
    "softmax",
    "softmax_step",
    "tt_chain",
    "tt_contract_step",
    "tt_embedding",
]

_softmax = kernel_function("softmax", "math.softmax")
_softmax_step = kernel_function("softmax_step", "math.softmax_step", as_u32)
_prefix_scan = kernel_function("prefix_scan", "scan.prefix")
_matvec_fixed = kernel_function("matvec_fixed", "math.matvec_fixed")
_matmul = kernel_function("matmul", "math.matmul")
_contract_step = kernel_function("tt_contract_step", "tt.contract_step")
_chain = kernel_function("tt_chain", "tt.chain")


@traced_as("softmax")
def softmax(
    x: A, *, dtype: str | None = None, dispatcher: DispatcherLike | None = None, out: Any = None
) -> A:
    """Softmax over the last axis: exp(x - max) / sum(exp(x - max)).

    Args:
        x: (..., columns) of f32, f16 or bf16, computed in f32; at most 262,144 columns.  A row with a NaN or +inf becomes NaN.
        dtype: "bf16" for an array of u16 that holds the bits of bf16.
        dispatcher: a target's name or a dispatcher; left out, cpu for arrays in main memory and cuda for those on a GPU.
        out: an array that gets the result, and is returned; it may be an argument.

    Returns:
        An array like `x`, of its shape, type, library and memory; each row is of numbers from 0 to 1 with the sum 1.

    Raises:
        BadInputs: for other types, or an `out` of another shape or type, before anything runs.

    Example:
        >>> kernels.softmax(np.zeros((2, 4), np.float32)).tolist()
        [[0.25, 0.25, 0.25, 0.25], [0.25, 0.25, 0.25, 0.25]]
    """
    return _softmax((x,), ("x",), dispatcher, out, dtype)


def softmax_step(x: A, *, dispatcher: DispatcherLike | None = None, out: Any = None) -> Words[A]:
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
    return _softmax_step((x,), ("x",), dispatcher, out)


@traced_as("prefix_scan")
def prefix_scan(x: A, *, dispatcher: DispatcherLike | None = None, out: Any = None) -> A:
    """Inclusive prefix sum over all elements, row by row: y_i = x_0 + ... + x_i.

    Args:
        x: of u32, i32, u64 or i64, whose sums wrap, or of f32 or f64, whose sums have one order on all targets; any shape.
        dispatcher: a target's name or a dispatcher; left out, cpu for arrays in main memory and cuda for those on a GPU.
        out: an array that gets the result, and is returned; it may be an argument.

    Returns:
        An array like `x`, of its shape, type, library and memory.

    Raises:
        BadInputs: for other types, before anything runs.

    Example:
        >>> kernels.prefix_scan(np.array([3, 1, 4, 1, 5], np.uint32)).tolist()
        [3, 4, 8, 9, 14]
    """
    return _prefix_scan((x,), ("x",), dispatcher, out)


def matvec_fixed(m: A, x: Any, *, dispatcher: DispatcherLike | None = None, out: Any = None) -> Like[A]:
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
    return _matvec_fixed((m, x), ("m", "x"), dispatcher, out)


def matmul(
    a: A,
    b: Any,
    bias: Any = None,
    activation: str = "none",
    *,
    dtype: str | None = None,
    result: str | None = None,
    dispatcher: DispatcherLike | None = None,
    out: Any = None,
) -> Like[A]:
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
    arrays, names = ((a, b), ("a", "b")) if bias is None else ((a, b, bias), ("a", "b", "bias"))
    return _matmul(arrays, names, dispatcher, out, activation, dtype, result)


def tt_contract_step(
    acc: A, core: Any, *, dispatcher: DispatcherLike | None = None, out: Any = None
) -> Like[A]:
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
    return _contract_step((acc, core), ("acc", "core"), dispatcher, out)


@traced_as("tt_chain")
def tt_chain(
    acc: A, cores: Sequence[Any], *, dispatcher: DispatcherLike | None = None, out: Any = None
) -> Like[A]:
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
    cores = listed(cores, "cores")
    names = ("acc", *(f"core {k}" for k in range(len(cores))))
    return _chain((acc, *cores), names, dispatcher, out)


@traced_as("tt_embedding")
def tt_embedding(
    cores: Sequence[A], indices: Any, *, dtype: str | None = None, dispatcher: DispatcherLike | None = None
) -> Like[A]:
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
    cores = listed(cores, "cores")
    if any(map(is_recorded, (*cores, indices))):

        def call(*arrays: Any) -> Any:
            return tt_embedding(arrays[:-1], arrays[-1], dtype=dtype, dispatcher=dispatcher)

        return record("tt_embedding", call, (*cores, indices), dispatcher, None, dtype)
    return rows_of_cores(cores, indices, dtype, dispatcher)
