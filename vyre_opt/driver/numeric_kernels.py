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
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.types import DataType
from ..runtime.array_backend import ArrayBackend
from ..runtime.dispatcher import BadInputs, OutputAlloc
from ..runtime.kernel_call import Call, Composed, Empty, Fresh, KernelCall, Same, Zeros
from ..runtime.target import as_target
from .operands import DispatcherLike, Operand, as_u32, element_type, listed
from .planned_function import planned
from .torch_calls import (
    is_recorded,
    record,
    traced_as,
    traced_prefix_scan,
    traced_softmax,
    traced_tt_chain,
    traced_tt_embedding,
)
from .tt_table import TTTable, rows_of_cores

if TYPE_CHECKING:
    from ..kernels.matmul_batch import Batch
    from ..kernels.matmul_form import MatmulProblem

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

_FLOATS = (DataType.F32, DataType.F16, DataType.BF16)
_SUMMED = (DataType.U32, DataType.I32, DataType.F32)
_SCANNED = (*_SUMMED, DataType.U64, DataType.I64, DataType.F64)
MAX_ELEMENTS = (1 << 32) - 1


@traced_as(traced_softmax)
def softmax(
    x: Any, *, dtype: str | None = None, dispatcher: DispatcherLike | None = None, out: Any = None
) -> Any:
    """Softmax over the last axis of f32, f16 or bf16 (`dtype="bf16"` for an array of its bits), as `x`."""
    return _softmax((x,), ("x",), dispatcher, out, dtype)


@planned("softmax")
def _softmax(backend: ArrayBackend, operands: Sequence[Operand], dtype: str | None) -> Call:
    from ..kernels import softmax_schedules as k
    from ..kernels.softmax_rows import softmax as build

    (x,) = operands
    element = element_type(x, "x", _FLOATS, dtype)
    columns, count = x.shape[-1] if x.shape else 1, x.count
    if count == 0:
        return Empty(x.shape)
    if columns > k.MAX_COLUMNS or count > MAX_ELEMENTS:
        raise BadInputs(f"x has rows of {columns} and {count} elements; at most {k.MAX_COLUMNS} and 2^32 - 1")
    rows = count // columns
    schedule = k.softmax_schedule(columns, element, backend.target, rows, backend.workers)
    program, grid = build(columns, element, schedule), k.softmax_grid(schedule, rows)
    arguments: tuple[Any, ...] = (0, OutputAlloc(count))
    if schedule.splits > 1:
        arguments += (Zeros(grid, DataType.U64), Zeros(1, DataType.U32))
    general = partial(_general_softmax, x.shape, columns, element, backend.target)
    return KernelCall(program, grid, arguments, x.shape, general=general)


def _general_softmax(shape: tuple[int, ...], columns: int, element: DataType, target: str) -> KernelCall:
    """Softmax by code for any number of columns."""
    from ..kernels import softmax_schedules as k
    from ..kernels.softmax_rows import softmax as build

    count = prod(shape)
    schedule = k.general_softmax_schedule(columns, target)
    grid = k.softmax_grid(schedule, count // columns)
    arguments = (0, OutputAlloc(count), Fresh(columns, DataType.U8))
    return KernelCall(build(None, element, schedule), grid, arguments, shape)


def softmax_step(x: Any, *, dispatcher: DispatcherLike | None = None, out: Any = None) -> Any:
    """floor((x_i << 16) / max(sum x, 1)) of u32 numbers, sum and numerator wide."""
    return _softmax_step((x,), ("x",), dispatcher, out)


@planned("softmax_step", as_u32)
def _softmax_step(backend: ArrayBackend, operands: Sequence[Operand]) -> Call | Composed:
    from ..kernels import softmax_fixed as k

    (x,) = operands
    if x.count == 0:
        return Empty(x.shape)
    if k.softmax_step_launches(x.count, backend.target, backend.workers):
        return Composed(_softmax_step_in_two)
    schedule = k.softmax_step_schedule(x.count, backend.target)
    grid = k.softmax_step_grid(schedule, x.count)
    return KernelCall(k.softmax_step(schedule), grid, (0, OutputAlloc(x.count)), x.shape)


def _softmax_step_in_two(arrays: Sequence[Any], dispatcher: DispatcherLike | None, out: Any) -> Any:
    parts = _softmax_step_parts(arrays, ("x",), dispatcher, None)
    return _softmax_step_quotients((*arrays, parts), ("x", "parts"), dispatcher, out)


@planned("softmax_step", as_u32)
def _softmax_step_parts(backend: ArrayBackend, operands: Sequence[Operand]) -> Call:
    from ..kernels.softmax_fixed import softmax_step_launches, softmax_step_parts

    launches = softmax_step_launches(operands[0].count, backend.target, backend.workers)
    assert launches is not None
    lanes, workgroups = launches
    return KernelCall(softmax_step_parts(lanes), workgroups, (0, OutputAlloc(workgroups)), (workgroups,))


def _take_quotients(backend: ArrayBackend, array: Any, name: str) -> Operand:
    return as_u32(backend, array, name) if name == "x" else backend.take(array, name)


@planned("softmax_step", _take_quotients)
def _softmax_step_quotients(backend: ArrayBackend, operands: Sequence[Operand]) -> Call:
    from ..kernels.softmax_fixed import softmax_step_launches, softmax_step_quotients

    x = operands[0]
    launches = softmax_step_launches(x.count, backend.target, backend.workers)
    assert launches is not None
    lanes, workgroups = launches
    return KernelCall(softmax_step_quotients(lanes), workgroups, (0, 1, OutputAlloc(x.count)), x.shape)


@traced_as(traced_prefix_scan)
def prefix_scan(x: Any, *, dispatcher: DispatcherLike | None = None, out: Any = None) -> Any:
    """The inclusive prefix sum of integers of 32 or 64 bits (wrapping), f32 or f64, over all elements in order."""
    return _prefix_scan((x,), ("x",), dispatcher, out)


@planned("prefix_scan")
def _prefix_scan(backend: ArrayBackend, operands: Sequence[Operand]) -> Call:
    from ..kernels.scan import prefix, prefix_grid, prefix_schedule, prefix_state

    (x,) = operands
    element, count = element_type(x, "x", _SCANNED), x.count
    if count == 0:
        return Empty(x.shape)
    if count > MAX_ELEMENTS:
        raise BadInputs(f"x has {count} elements; at most 2^32 - 1")
    schedule = prefix_schedule(count, backend.target, workers=backend.workers, dtype=element)
    grid = prefix_grid(schedule, count)
    arguments: tuple[Any, ...] = (0, OutputAlloc(count))
    if schedule.look_back:
        arguments += (Zeros(prefix_state(schedule, count, element), DataType.U64), Zeros(1, DataType.U32))
    return KernelCall(prefix(element, schedule), grid, arguments, x.shape)


def matvec_fixed(m: Any, x: Any, *, dispatcher: DispatcherLike | None = None, out: Any = None) -> Any:
    """M x in signed 16.16, M of shape (rows, columns) or flat; u32 or i32."""
    return _matvec_fixed((m, x), ("m", "x"), dispatcher, out)


@planned("matvec_fixed")
def _matvec_fixed(backend: ArrayBackend, operands: Sequence[Operand]) -> Call:
    from ..kernels.matvec import matvec_fixed as build
    from ..kernels.matvec import matvec_grid, matvec_schedule

    matrix, vector = operands
    types = [element_type(a, n, _SUMMED[:2]) for a, n in ((matrix, "m"), (vector, "x"))]
    columns, cells = vector.count, matrix.count
    if not columns or cells % columns or (len(matrix.shape) > 1 and matrix.shape[-1] != columns):
        raise BadInputs(f"a matrix of shape {matrix.shape} has no rows of {columns}")
    rows = cells // columns
    if rows == 0:
        return Empty((0,))
    schedule = matvec_schedule(columns, rows, backend.target, multiprocessors=backend.workers)
    program = build(types[0], schedule, types[1], types[0])
    arguments: tuple[Any, ...] = (0, 1, OutputAlloc(rows))
    if schedule.splits > 1:
        arguments += (Zeros(rows, DataType.U64),)
    return KernelCall(program, matvec_grid(schedule, rows), arguments, (rows,))


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


@planned("matmul")
def _matmul(
    backend: ArrayBackend, operands: Sequence[Operand], activation: str, dtype: str | None, result: str | None
) -> Call | Composed:
    from ..kernels import matmul_program as k
    from ..kernels.pitched_rows import pitch_of

    a, b, *rest = operands
    element = element_type(a, "a", (*_FLOATS, DataType.F64), dtype)
    element_type(b, "b", (element,), dtype)
    if activation not in k.ACTIVATIONS:
        raise BadInputs(f"activation is one of {', '.join(k.ACTIVATIONS)}, not {activation!r}")
    if result not in (None, "f32", element.name):
        raise BadInputs(f"the result is of f32 or, like a, of {element.name}, not of {result!r}")
    is_row, is_column = len(a.shape) == 1, len(b.shape) == 1
    *a_extents, rows, depth = (1, *a.shape) if is_row else a.shape or (0, 0)
    *b_extents, b_depth, columns = (*b.shape, 1) if is_column else b.shape or (0, 0)
    if not a.shape or not b.shape or depth != b_depth:
        raise BadInputs(
            f"a and b are matrices (rows, depth) and (depth, columns), not {a.shape} and {b.shape}"
        )
    try:
        extents = np.broadcast_shapes(tuple(a_extents), tuple(b_extents))
    except ValueError:
        raise BadInputs(
            f"a and b are stacks of matrices, (..., rows, depth) and (..., depth, columns), whose leading extents "
            f"broadcast; {tuple(a_extents)} and {tuple(b_extents)} do not"
        ) from None
    shape = (*extents, *[rows][is_row:], *[columns][is_column:])
    count = prod(shape)
    if not depth:
        raise BadInputs("a has no columns and b no rows; their depth is at least 1")
    bias = _bias_type(rest[0], element, columns, dtype) if rest else None
    if max(a.count, b.count, count) > MAX_ELEMENTS:
        stacks = f"{prod(extents)} products of " if extents else ""
        raise BadInputs(f"{stacks}matrices of {rows} x {depth} x {columns} have more than 2^32 - 1 elements")
    if not count:
        return Empty(shape, kind="float32" if result == "f32" else "")
    wide = DataType.F32 if result == "f32" else element
    pitches = pitch_of(depth, element), pitch_of(columns, element)
    batch = k.batch_of(a_extents, b_extents, rows)
    number = k.ACTIVATIONS.index(activation)
    problem = k.MatmulProblem(depth, columns, element, wide, bias, number, pitches, len(batch.axes))
    fits = max(a.count // depth * pitches[0], b.count // columns * pitches[1]) <= MAX_ELEMENTS
    if fits and k.units_take(problem, as_target(backend.dispatcher).architecture):
        if pitches != (depth, columns):
            return Composed(partial(_matmul_of_pitched, problem, batch, shape, dtype))
        return _product(backend, operands, problem, batch, shape)
    return _product(backend, operands, replace(problem, pitches=None), batch, shape)


def _product(
    backend: ArrayBackend,
    operands: Sequence[Operand],
    problem: MatmulProblem,
    batch: Batch,
    shape: tuple[int, ...],
) -> KernelCall:
    """On matrix units for a problem with pitches.  `shape`: of the result."""
    from ..kernels import matmul_program as k

    depth, columns = problem.depth or 0, problem.columns or 0
    sizes = batch.params
    schedule: k.Schedule
    if problem.pitches:
        architecture = as_target(backend.dispatcher).architecture
        schedule = k.unit_schedule(batch.rows, columns, architecture, backend.workers, batch.count)
    else:
        schedule = k.matmul_schedule(
            batch.rows, columns, backend.target, backend.workers, problem.sums, batch.count
        )
        problem = replace(problem, depth=None, columns=None)
        sizes |= {"depth": depth, "columns": columns}
    return KernelCall(
        k.matmul(problem, schedule),
        k.matmul_grid(schedule, batch.rows, columns, batch.count),
        (0, 1, OutputAlloc(prod(shape)), *range(2, len(operands))),
        shape,
        words=tuple(size for _, size in sorted(sizes.items())),
    )


def _matmul_of_pitched(
    problem: MatmulProblem,
    batch: Batch,
    shape: tuple[int, ...],
    dtype: str | None,
    arrays: Sequence[Any],
    dispatcher: DispatcherLike | None,
    out: Any,
) -> Any:
    """A product of matrices whose rows do not all begin aligned, by way of copies of them whose rows do."""
    a, b, *bias = arrays
    a_pitch, b_pitch = problem.pitches or (problem.depth, problem.columns)
    if a_pitch != problem.depth:
        a = _pitched((a,), ("a",), dispatcher, None, dtype, problem.depth)
    if b_pitch != problem.columns:
        b = _pitched((b,), ("b",), dispatcher, None, dtype, problem.columns)
    names = ("a", "b", *["bias"] * len(bias))
    return _pitched_product((a, b, *bias), names, dispatcher, out, problem, batch, shape)


@planned("matmul")
def _pitched(backend: ArrayBackend, operands: Sequence[Operand], dtype: str | None, columns: int) -> Call:
    from ..kernels.pitched_rows import pitch_of, pitched_rows, pitched_rows_grid

    (matrix,) = operands
    element = element_type(matrix, "a", _FLOATS, dtype)
    rows, pitch = matrix.count // columns, pitch_of(columns, element)
    grid = pitched_rows_grid(columns, rows, element)
    return KernelCall(pitched_rows(columns, element), grid, (0, OutputAlloc(rows * pitch)), (rows, pitch))


_pitched_product = planned("matmul")(_product)


def _bias_type(bias: Operand, element: DataType, columns: int, dtype: str | None) -> DataType:
    if bias.shape != (columns,):
        raise BadInputs(f"the bias has shape {bias.shape}, not ({columns},)")
    if bias.kind == "float32":
        return DataType.F32  # whatever `dtype` says of the matrices
    return element_type(bias, "bias", tuple(dict.fromkeys((element, DataType.F32))), dtype)


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


@planned("tt_contract_step")
def _contract_step(backend: ArrayBackend, operands: Sequence[Operand]) -> Call | Composed:
    from ..kernels import tensor_train as k

    vector, matrix = operands
    if len(vector.shape) > 1:
        element_type(matrix, "core", (element_type(vector, "acc of several vectors", _FLOATS),))
        if len(vector.shape) != 2 or len(matrix.shape) != 2 or matrix.shape[0] != vector.shape[1]:
            raise BadInputs(
                f"acc has shape {vector.shape} and the core {matrix.shape}, not (n, rows) and (rows, columns)"
            )
        return Composed(_contract_steps)
    element = element_type(vector, "acc", _SUMMED)
    element_type(matrix, "core", (element,))
    inner, cells = vector.count, matrix.count
    if not inner or cells % inner or (len(matrix.shape) > 1 and matrix.shape[0] != inner):
        raise BadInputs(f"a core of shape {matrix.shape} has no {inner} rows")
    if cells == 0:
        return Empty((0,))
    outer = cells // inner
    schedule = k.contract_step_schedule(inner, cells, backend.target, workers=backend.workers)
    arguments: tuple[Any, ...] = (0, 1, OutputAlloc(outer))
    if schedule.splits > 1:
        partials, arrived = k.contract_step_scratch(schedule, outer)
        arguments += (Fresh(partials, DataType.U32), Zeros(arrived, DataType.U32))
    program, grid = k.contract_step(element, schedule), k.contract_step_grid(schedule, outer)
    return KernelCall(program, grid, arguments, (outer,))


def _contract_steps(arrays: Sequence[Any], dispatcher: DispatcherLike | None, out: Any) -> Any:
    """Of several vectors."""
    acc, core = arrays
    return _matmul((acc, core), ("acc", "core"), dispatcher, out, "none", None, None)


@traced_as(traced_tt_chain)
def tt_chain(
    acc: Any, cores: Sequence[Any], *, dispatcher: DispatcherLike | None = None, out: Any = None
) -> Any:
    """acc times each of `cores`, matrices whose shapes match, in one launch where that is faster.

    f32, or signed 16.16 in u32 or i32.
    """
    cores = listed(cores, "cores")
    names = ("acc", *(f"core {k}" for k in range(len(cores))))
    return _chain((acc, *cores), names, dispatcher, out)


@planned("tt_chain")
def _chain(backend: ArrayBackend, operands: Sequence[Operand]) -> Call | Composed:
    from ..kernels.chain import MAX_RANK, chain, chain_groups, chain_schedule

    vector, *matrices = operands
    element = element_type(vector, "acc", _SUMMED)
    ranks = [vector.count]
    for k, matrix in enumerate(matrices):
        element_type(matrix, f"core {k}", (element,))
        if len(matrix.shape) != 2 or matrix.shape[0] != ranks[-1]:
            raise BadInputs(f"core {k} has shape {matrix.shape}; it takes a vector of {ranks[-1]}")
        ranks.append(matrix.shape[1])
    if not matrices:
        return Same()
    if not all(1 <= rank <= MAX_RANK for rank in ranks):
        raise BadInputs(f"ranks are 1 to {MAX_RANK}: {ranks}")
    groups = chain_groups(ranks, backend.target, backend.workers)
    if len(groups) > 1:
        return Composed(partial(_chain_of_groups, groups))
    schedule = chain_schedule(ranks, backend.target)
    program = chain(tuple(ranks), element, schedule, separate=True)
    arguments = (*range(len(operands)), OutputAlloc(ranks[-1]))
    return KernelCall(program, schedule.workgroups, arguments, (ranks[-1],))


def _chain_of_groups(
    groups: Sequence[tuple[int, int]], arrays: Sequence[Any], dispatcher: DispatcherLike | None, out: Any
) -> Any:
    """A chain in several launches, see `chain_groups`."""
    acc, *cores = arrays
    for first, last in groups:
        names = ("acc", *(f"core {k}" for k in range(first, last)))
        step = _contract_step if last - first == 1 else _chain
        acc = step((acc, *cores[first:last]), names, dispatcher, out if last == len(cores) else None)
    return acc


@traced_as(traced_tt_embedding)
def tt_embedding(
    cores: Sequence[Any], indices: Any, *, dtype: str | None = None, dispatcher: DispatcherLike | None = None
) -> Any:
    """Rows of a table stored as cores, which are used where they are: as `TTTable(cores)(indices)`, without a copy."""
    cores = listed(cores, "cores")
    if any(map(is_recorded, (*cores, indices))):

        def call(indices: Any, *cores: Any) -> Any:
            return tt_embedding(cores, indices, dtype=dtype, dispatcher=dispatcher)

        return record("tt_embedding", call, (indices, *cores), dispatcher, None, dtype)
    return rows_of_cores(cores, indices, dtype, dispatcher)
