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

from .operands import DispatcherLike, as_u32, listed
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
    x: Any, *, dtype: str | None = None, dispatcher: DispatcherLike | None = None, out: Any = None
) -> Any:
    """Softmax over the last axis of f32, f16 or bf16 (`dtype="bf16"` for an array of its bits), as `x`."""
    return _softmax((x,), ("x",), dispatcher, out, dtype)


def softmax_step(x: Any, *, dispatcher: DispatcherLike | None = None, out: Any = None) -> Any:
    """floor((x_i << 16) / max(sum x, 1)) of u32 numbers, sum and numerator wide."""
    return _softmax_step((x,), ("x",), dispatcher, out)


@traced_as("prefix_scan")
def prefix_scan(x: Any, *, dispatcher: DispatcherLike | None = None, out: Any = None) -> Any:
    """The inclusive prefix sum of integers of 32 or 64 bits (wrapping), f32 or f64, over all elements in order."""
    return _prefix_scan((x,), ("x",), dispatcher, out)


def matvec_fixed(m: Any, x: Any, *, dispatcher: DispatcherLike | None = None, out: Any = None) -> Any:
    """M x in signed 16.16, M of shape (rows, columns) or flat; u32 or i32."""
    return _matvec_fixed((m, x), ("m", "x"), dispatcher, out)


def matmul(
    a: Any,
    b: Any,
    bias: Any = None,
    activation: str = "none",
    *,
    dtype: str | None = None,
    result: str | None = None,
    dispatcher: DispatcherLike | None = None,
    out: Any = None,
) -> Any:
    """activation(a b + bias) of matrices (rows, depth) and (depth, columns) and a bias of (columns,), sums in f32, of f64 in f64.

    As numpy.matmul, both may be stacks of matrices, whose leading extents broadcast, and vectors: (depth,) is a row as
    `a` and a column as `b`, and the result has no such axis.  What is broadcast is read where it is.

    f32, f64, f16 or bf16 (`dtype="bf16"` for arrays of its bits), both matrices alike, the bias like these or f32.
    `activation`: none, relu, gelu (by erf) or silu.  The result is of the matrices' type, or of f32 with `result="f32"`.
    """
    arrays, names = ((a, b), ("a", "b")) if bias is None else ((a, b, bias), ("a", "b", "bias"))
    return _matmul(arrays, names, dispatcher, out, activation, dtype, result)


def tt_contract_step(
    acc: Any, core: Any, *, dispatcher: DispatcherLike | None = None, out: Any = None
) -> Any:
    """out_j = sum_i acc_i * core_ij; f32, or signed 16.16 in u32 or i32.

    `acc`: (rows,).  `core`: (rows, columns).  Operands of u32 from 2^31 on are the negative numbers of two's complement,
    as all of signed 16.16; sums wrap.  A `dispatcher` of your own, an object with `dispatch(program, inputs, grid)`, gets one
    dispatch of max(1, ceil(columns / 256)) workgroups.

    An `acc` of shape (n, rows) is n vectors at once, the result (n, columns): the `matmul` of both, of f32, f16 or bf16.
    """
    return _contract_step((acc, core), ("acc", "core"), dispatcher, out)


@traced_as("tt_chain")
def tt_chain(
    acc: Any, cores: Sequence[Any], *, dispatcher: DispatcherLike | None = None, out: Any = None
) -> Any:
    """acc times each of `cores`, matrices whose shapes match, in one launch where that is faster.

    f32, or signed 16.16 in u32 or i32.
    """
    cores = listed(cores, "cores")
    names = ("acc", *(f"core {k}" for k in range(len(cores))))
    return _chain((acc, *cores), names, dispatcher, out)


@traced_as("tt_embedding")
def tt_embedding(
    cores: Sequence[Any], indices: Any, *, dtype: str | None = None, dispatcher: DispatcherLike | None = None
) -> Any:
    """Rows of a table stored as cores, which are used where they are: as `TTTable(cores)(indices)`, without a copy."""
    cores = listed(cores, "cores")
    if any(map(is_recorded, (*cores, indices))):

        def call(*arrays: Any) -> Any:
            return tt_embedding(arrays[:-1], arrays[-1], dtype=dtype, dispatcher=dispatcher)

        return record("tt_embedding", call, (*cores, indices), dispatcher, None, dtype)
    return rows_of_cores(cores, indices, dtype, dispatcher)
