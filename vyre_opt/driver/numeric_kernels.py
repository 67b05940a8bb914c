"""The numeric kernels as functions on arrays.

Arrays are those of NumPy, torch, CuPy, PyCUDA or any library with DLPack or
`__cuda_array_interface__`; results are of the same library, in the same memory.  Each function
takes `dispatcher=`, the name of a target or a dispatcher (see `vyre_opt.dispatcher`): by default
cpu for arrays in main memory, and cuda for arrays on a GPU.  Each raises BadInputs for arrays
that do not fit, before anything is allocated or run.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

from ..ir.program import Program
from ..ir.types import DataType
from ..runtime.dispatcher import BadInputs, OutputAlloc
from .operands import DispatcherLike, Operand, array_backend_of, as_u32, element_type

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
MAX_PLANS = 256
"""Programs and grids are cached by shapes and types: a call with those of an earlier one only runs."""


def softmax(x: Any, *, dtype: str | None = None, dispatcher: DispatcherLike | None = None) -> Any:
    """Softmax over the last axis of f32, f16 or bf16 (`dtype="bf16"` for an array of its bits), as `x`."""
    backend = array_backend_of(dispatcher, {"x": x})
    rows = backend.take(x, "x")
    element = element_type(rows, "x", _FLOATS, dtype)
    columns, count = rows.shape[-1], rows.count
    if count == 0:
        return backend.empty(rows.shape, rows)
    program, grid = _softmax(columns, count // columns, element, backend.target)
    (y,) = backend.run(program, [rows, OutputAlloc(count)], grid)
    return backend.result(y, rows.shape, rows)


@lru_cache(maxsize=MAX_PLANS)
def _softmax(columns: int, rows: int, element: DataType, target: str) -> tuple[Program, int]:
    """The program and its grid.  Raises BadInputs."""
    from ..kernels.softmax_rows import MAX_COLUMNS, softmax_grid, softmax_schedule
    from ..kernels.softmax_rows import softmax as build

    count = rows * columns
    if columns > MAX_COLUMNS or count > MAX_ELEMENTS:
        raise BadInputs(f"x has rows of {columns} and {count} elements; at most {MAX_COLUMNS} and 2^32 - 1")
    schedule = softmax_schedule(columns, element, target, rows)
    return build(columns, element, schedule), softmax_grid(schedule, rows)


def softmax_step(x: Any, *, dispatcher: DispatcherLike | None = None) -> Any:
    """floor((x_i << 16) / max(sum x, 1)) of u32 numbers, sum and numerator wide."""
    from ..kernels.softmax_fixed import softmax_step as build
    from ..kernels.softmax_fixed import softmax_step_grid, softmax_step_schedule

    backend = array_backend_of(dispatcher, {"x": x})
    numbers = as_u32(backend, x, "x")
    if numbers.count == 0:
        return backend.empty(numbers.shape, numbers)
    schedule = softmax_step_schedule(numbers.count, backend.target)
    grid = softmax_step_grid(schedule, numbers.count)
    (y,) = backend.run(build(schedule), [numbers, OutputAlloc(numbers.count)], grid)
    return backend.result(y, numbers.shape, numbers)


def prefix_scan(x: Any, *, dispatcher: DispatcherLike | None = None) -> Any:
    """The inclusive prefix sum of u32, i32 (wrapping) or f32, over all elements in order."""
    backend = array_backend_of(dispatcher, {"x": x})
    terms = backend.take(x, "x")
    element = element_type(terms, "x", _SUMMED)
    count = terms.count
    if count == 0:
        return backend.empty(terms.shape, terms)
    program, grid, tiles = _prefix(count, element, backend.target, backend.workers)
    arguments = [terms, OutputAlloc(count)]
    if tiles:
        arguments += [backend.zeros(tiles, DataType.U64), backend.zeros(1, DataType.U32)]
    (y,) = backend.run(program, arguments, grid)
    return backend.result(y, terms.shape, terms)


@lru_cache(maxsize=MAX_PLANS)
def _prefix(count: int, element: DataType, target: str, workers: int) -> tuple[Program, int, int]:
    """The program, its grid, and the length of @state, 0 if it has none.  Raises BadInputs."""
    from ..kernels.scan import prefix, prefix_grid, prefix_schedule, prefix_tiles

    if count > MAX_ELEMENTS:
        raise BadInputs(f"x has {count} elements; at most 2^32 - 1")
    schedule = prefix_schedule(count, target, workers=workers)
    tiles = prefix_tiles(schedule, count) if schedule.look_back else 0
    return prefix(element, schedule), prefix_grid(schedule, count), tiles


def matvec_fixed(m: Any, x: Any, *, dispatcher: DispatcherLike | None = None) -> Any:
    """M x in signed 16.16, M of shape (rows, columns) or flat; u32 or i32."""
    from ..kernels.matvec import matvec_fixed as build
    from ..kernels.matvec import matvec_grid, matvec_schedule

    backend = array_backend_of(dispatcher, {"m": m, "x": x})
    matrix, vector = backend.take(m, "m"), backend.take(x, "x")
    types = [element_type(a, n, _SUMMED[:2]) for a, n in ((matrix, "m"), (vector, "x"))]
    columns, cells = vector.count, matrix.count
    if not columns or cells % columns or (len(matrix.shape) > 1 and matrix.shape[-1] != columns):
        raise BadInputs(f"a matrix of shape {matrix.shape} has no rows of {columns}")
    rows = cells // columns
    if rows == 0:
        return backend.empty((0,), matrix)
    schedule = matvec_schedule(columns)
    program = build(types[0], schedule, types[1], types[0])
    (y,) = backend.run(program, [matrix, vector, OutputAlloc(rows)], matvec_grid(schedule, rows))
    return backend.result(y, (rows,), matrix)


def tt_contract_step(acc: Any, core: Any, *, dispatcher: DispatcherLike | None = None) -> Any:
    """out_j = sum_i acc_i * core_ij; f32, or signed 16.16 in u32 or i32."""
    from ..kernels.tensor_train import contract_step, contract_step_grid, contract_step_schedule

    backend = array_backend_of(dispatcher, {"acc": acc, "core": core})
    vector, matrix = backend.take(acc, "acc"), backend.take(core, "core")
    element = element_type(vector, "acc", _SUMMED)
    element_type(matrix, "core", (element,))
    inner, cells = vector.count, matrix.count
    if not inner or cells % inner or (len(matrix.shape) > 1 and matrix.shape[0] != inner):
        raise BadInputs(f"a core of shape {matrix.shape} has no {inner} rows")
    if cells == 0:
        return backend.empty((0,), vector)
    schedule, outer = contract_step_schedule(inner, cells, backend.target), cells // inner
    program = contract_step(element, schedule)
    (out,) = backend.run(program, [vector, matrix, OutputAlloc(outer)], contract_step_grid(schedule, outer))
    return backend.result(out, (outer,), vector)


def tt_chain(acc: Any, cores: Sequence[Any], *, dispatcher: DispatcherLike | None = None) -> Any:
    """acc times each of `cores`, matrices whose shapes match, in one launch.

    f32, or signed 16.16 in u32 or i32.
    """
    from ..kernels.chain import MAX_RANK, chain, chain_schedule

    named = {f"core {k}": core for k, core in enumerate(cores)}
    backend = array_backend_of(dispatcher, {"acc": acc, **named})
    vector = backend.take(acc, "acc")
    element = element_type(vector, "acc", _SUMMED)
    matrices = [backend.take(core, name) for name, core in named.items()]
    ranks = [vector.count]
    for name, matrix in zip(named, matrices, strict=True):
        element_type(matrix, name, (element,))
        if len(matrix.shape) != 2 or matrix.shape[0] != ranks[-1]:
            raise BadInputs(f"{name} has shape {matrix.shape}; it takes a vector of {ranks[-1]}")
        ranks.append(matrix.shape[1])
    if not matrices:
        return backend.result(vector.array, vector.shape, vector)
    if not all(1 <= rank <= MAX_RANK for rank in ranks):
        raise BadInputs(f"ranks are 1 to {MAX_RANK}: {ranks}")
    arguments = [vector, backend.join(matrices), OutputAlloc(ranks[-1])]
    schedule = chain_schedule(ranks, backend.target)
    (out,) = backend.run(chain(tuple(ranks), element, schedule), arguments, schedule.workgroups)
    return backend.result(out, (ranks[-1],), vector)


def tt_embedding(
    cores: Sequence[Any], indices: Any, *, dtype: str | None = None, dispatcher: DispatcherLike | None = None
) -> Any:
    """Rows of a table stored as 2 to 4 cores of shape [p_k, r_k, q_k, r_k+1]: shape (*indices, q_0 * q_1 ...).

    f32 or bf16 (`dtype="bf16"` for arrays of its bits), summed in f32.  Indices are integers of
    any type; they are checked before they are used, on a GPU, too, which is a synchronization.
    """
    from ..kernels.embedding import EmbeddingShape, embedding, embedding_grid, embedding_schedule

    named = {f"core {k}": core for k, core in enumerate(cores)}
    backend = array_backend_of(dispatcher, {**named, "indices": indices})
    tables = [backend.take(core, name) for name, core in named.items()]
    element = _TABLES[0]
    for k, (name, table) in enumerate(zip(named, tables, strict=True)):
        element = element_type(table, name, _TABLES if k == 0 else (element,), dtype)
    try:
        shape = EmbeddingShape(*_embedding_shape(tables))
        rows = prod(shape.p)
        numbers = as_u32(backend, indices, "indices", rows, f"index {{}} of a table of {rows} rows")
        count = numbers.count
        schedule = embedding_schedule(shape, count=count, target=backend.target)
        program = embedding(shape, element, schedule)
    except BadInputs:
        raise
    except ValueError as error:
        raise BadInputs(str(error)) from None
    out_shape = (*numbers.shape, shape.columns)
    if count == 0:
        return backend.empty(out_shape, tables[0])
    arguments = [backend.join(tables), numbers, OutputAlloc(count * shape.columns)]
    (out,) = backend.run(program, arguments, embedding_grid(schedule, shape, count))
    return backend.result(out, out_shape, tables[0])


def _embedding_shape(tables: Sequence[Operand]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """p, q and the inner ranks.  Raises ValueError for cores whose ranks do not match."""
    rank = 1
    for k, table in enumerate(tables):
        if len(table.shape) != 4 or table.shape[1] != rank:
            raise ValueError(f"core {k} has shape {table.shape}, not [p, {rank}, q, r]")
        rank = table.shape[3]
    if tables and rank != 1:
        raise ValueError(f"the last core has shape {tables[-1].shape}, not [p, r, q, 1]")
    p, q, r = (tuple(table.shape[axis] for table in tables) for axis in (0, 2, 3))
    return p, q, r[:-1]
