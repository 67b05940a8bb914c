"""The numeric kernels as functions on arrays.

Each takes `dispatcher=`, the name of a target or a dispatcher (see `vyre_opt.dispatcher`), and
raises BadInputs for arrays that do not fit before anything is allocated or run.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..ir.types import DataType
from ..runtime.dispatcher import BadInputs
from .operands import Target, as_array, as_stored, as_u32, element_type, like, room, target, target_name

__all__ = [
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
_TABLES = (DataType.F32, DataType.BF16)
MAX_ELEMENTS = (1 << 32) - 1


def softmax(x: Any, *, dtype: str | None = None, dispatcher: Target = "cpu") -> Any:
    """Softmax over the last axis of f32, f16 or bf16 (`dtype="bf16"` for an array of its bits), as `x`."""
    from .softmax_rows import MAX_COLUMNS, softmax_grid, softmax_schedule
    from .softmax_rows import softmax as build

    array = as_array(x, "x")
    element = element_type(array, "x", _FLOATS, dtype)
    columns, count = int(array.shape[-1]), prod(array.shape)
    if count == 0:
        return array
    if columns > MAX_COLUMNS or count > MAX_ELEMENTS:
        raise BadInputs(f"x has rows of {columns} and {count} elements; at most {MAX_COLUMNS} and 2^32 - 1")
    schedule = softmax_schedule(columns, element, target_name(dispatcher))
    inputs = [as_stored(array, element), room(count, element)]
    grid = softmax_grid(schedule, count // columns)
    (y,) = target(dispatcher).dispatch(build(columns, element, schedule), inputs, grid)
    return like(y, array)


def softmax_step(x: Any, *, dispatcher: Target = "cpu") -> Any:
    """floor((x_i << 16) / max(sum x, 1)) of u32 numbers, sum and numerator wide."""
    from .softmax_fixed import SoftmaxStepSchedule, softmax_step_grid
    from .softmax_fixed import softmax_step as build

    array = as_u32(x, "x")
    count = prod(array.shape)
    if count == 0:
        return array
    schedule = SoftmaxStepSchedule()
    inputs = [as_stored(array, DataType.U32), room(count, DataType.U32)]
    (y,) = target(dispatcher).dispatch(build(schedule), inputs, softmax_step_grid(schedule, count))
    return like(y, array)


def prefix_scan(x: Any, *, dispatcher: Target = "cpu") -> Any:
    """The inclusive prefix sum of u32, i32 (wrapping) or f32, over all elements in order."""
    from .scan import prefix, prefix_grid, prefix_schedule, prefix_tiles

    array = as_array(x, "x")
    element = element_type(array, "x", _SUMMED)
    count = prod(array.shape)
    if count == 0:
        return array
    if count > MAX_ELEMENTS:
        raise BadInputs(f"x has {count} elements; at most 2^32 - 1")
    schedule = prefix_schedule(count, target_name(dispatcher))
    inputs = [as_stored(array, element), room(count, element)]
    if schedule.look_back:
        inputs += [room(prefix_tiles(schedule, count), DataType.U64), room(1, DataType.U32)]
    (y,) = target(dispatcher).dispatch(prefix(element, schedule), inputs, prefix_grid(schedule, count))
    return like(y, array)


def matvec_fixed(m: Any, x: Any, *, dispatcher: Target = "cpu") -> Any:
    """M x in signed 16.16, M of shape (rows, columns) or flat; u32 or i32."""
    from .matvec import MatvecSchedule, matvec_grid
    from .matvec import matvec_fixed as build

    matrix, vector = as_array(m, "m"), as_array(x, "x")
    types = [element_type(a, n, _SUMMED[:2]) for a, n in ((matrix, "m"), (vector, "x"))]
    columns, cells = prod(vector.shape), prod(matrix.shape)
    if not columns or cells % columns or (len(matrix.shape) > 1 and matrix.shape[-1] != columns):
        raise BadInputs(f"a matrix of shape {tuple(matrix.shape)} has no rows of {columns}")
    rows = cells // columns
    if rows == 0:
        return np.zeros(0, vector.dtype)
    schedule = MatvecSchedule()
    program = build(types[0], schedule, types[1], types[0])
    inputs = [as_stored(matrix, types[0]), as_stored(vector, types[1]), room(rows, types[0])]
    (y,) = target(dispatcher).dispatch(program, inputs, matvec_grid(schedule, rows))
    return y


def tt_contract_step(acc: Any, core: Any, *, dispatcher: Target = "cpu") -> Any:
    """out_j = sum_i acc_i * core_ij; f32, or signed 16.16 in u32 or i32."""
    from .tensor_train import StepSchedule, contract_step, contract_step_grid

    vector, matrix = as_array(acc, "acc"), as_array(core, "core")
    element = element_type(vector, "acc", _SUMMED)
    element_type(matrix, "core", (element,))
    inner, cells = prod(vector.shape), prod(matrix.shape)
    if not inner or cells % inner or (len(matrix.shape) > 1 and matrix.shape[0] != inner):
        raise BadInputs(f"a core of shape {tuple(matrix.shape)} has no {inner} rows")
    if cells == 0:
        return np.zeros(0, vector.dtype)
    schedule, outer = StepSchedule(), cells // inner
    inputs = [as_stored(vector, element), as_stored(matrix, element), room(outer, element)]
    (out,) = target(dispatcher).dispatch(
        contract_step(element, schedule), inputs, contract_step_grid(schedule, outer)
    )
    return out


def tt_chain(acc: Any, cores: Sequence[Any], *, dispatcher: Target = "cpu") -> Any:
    """acc times each of `cores`, matrices whose shapes follow each other, in one launch.

    f32, or signed 16.16 in u32 or i32.
    """
    from .chain import MAX_RANK, chain

    vector = as_array(acc, "acc")
    element = element_type(vector, "acc", _SUMMED)
    matrices = [as_array(core, f"core {k}") for k, core in enumerate(cores)]
    ranks = [prod(vector.shape)]
    for k, matrix in enumerate(matrices):
        element_type(matrix, f"core {k}", (element,))
        if len(matrix.shape) != 2 or matrix.shape[0] != ranks[-1]:
            raise BadInputs(f"core {k} has shape {tuple(matrix.shape)}; it takes a vector of {ranks[-1]}")
        ranks.append(int(matrix.shape[1]))
    if not matrices:
        return vector
    if not all(1 <= rank <= MAX_RANK for rank in ranks):
        raise BadInputs(f"ranks are 1 to {MAX_RANK}: {ranks}")
    joined = np.concatenate([as_stored(matrix, element) for matrix in matrices])
    inputs = [as_stored(vector, element), joined, room(ranks[-1], element)]
    (out,) = target(dispatcher).dispatch(chain(tuple(ranks), element), inputs, 1)
    return out


def tt_embedding(
    cores: Sequence[Any], indices: Any, *, dtype: str | None = None, dispatcher: Target = "cpu"
) -> Any:
    """Rows of a table kept as 2 to 4 cores of shape [p_k, r_k, q_k, r_k+1]: shape (*indices, q_0 * q_1 ...).

    f32 or bf16 (`dtype="bf16"` for arrays of its bits), summed in f32.
    """
    from .embedding import EmbeddingShape, embedding, embedding_grid, embedding_schedule

    tables = [as_array(core, f"core {k}") for k, core in enumerate(cores)]
    element = _TABLES[0]
    for k, table in enumerate(tables):
        element = element_type(table, f"core {k}", _TABLES if k == 0 else (element,), dtype)
    try:
        shape = EmbeddingShape(*_embedding_shape(tables))
        schedule = embedding_schedule(shape)
        program = embedding(shape, element, schedule)
    except ValueError as wrong:
        raise BadInputs(str(wrong)) from None
    rows = as_u32(indices, "indices")
    count = prod(rows.shape)
    wanted = (*rows.shape, shape.columns)
    if count == 0:
        return like(room(0, element), tables[0], wanted)
    if isinstance(rows, np.ndarray) and int(rows.max()) >= prod(shape.p):
        raise BadInputs(f"index {int(rows.max())} of a table of {prod(shape.p)} rows")
    joined = np.concatenate([as_stored(table, element) for table in tables])
    inputs = [joined, as_stored(rows, DataType.U32), room(count * shape.columns, element)]
    (out,) = target(dispatcher).dispatch(program, inputs, embedding_grid(schedule, count))
    return like(out, tables[0], wanted)


def _embedding_shape(tables: Sequence[Any]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """p, q and the inner ranks.  Raises ValueError for cores that do not follow each other."""
    rank = 1
    for k, table in enumerate(tables):
        if len(table.shape) != 4 or table.shape[1] != rank:
            raise ValueError(f"core {k} has shape {tuple(table.shape)}, not [p, {rank}, q, r]")
        rank = int(table.shape[3])
    if tables and rank != 1:
        raise ValueError(f"the last core has shape {tuple(tables[-1].shape)}, not [p, r, q, 1]")
    p, q, r = (tuple(int(t.shape[axis]) for t in tables) for axis in (0, 2, 3))
    return p, q, r[:-1]
