"""Rows of tables that are stored as a tensor train: `TTTable`, prepared once, and `tt_embedding` of cores as they are.

In main memory the indices are checked before anything runs.  On a GPU that would be a wait, so a lookup is a
pipeline there:

    indices --check, u32--> numbers --embedding--> rows --zeros where an index is out of range--> rows
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

from ..ir.builder import Builder
from ..ir.pipeline import Launch, Pipeline
from ..ir.program import AccessMode, Buffer, Module, Program, Value
from ..ir.types import DataType
from ..kernels.collective import as_type
from ..kernels.embedding import EmbeddingShape, embedding, embedding_grid, embedding_schedule
from ..runtime.array_backend import ArrayBackend, Operand
from ..runtime.dispatcher import BadInputs, DispatcherLike, OutputAlloc
from ..runtime.kernel_call import Call, KernelCall
from ..runtime.signatures import signature_of
from .operands import as_u32, check_integers, element_type, listed
from .pipeline import PipelineExecutable
from .placement import array_backend_of
from .planned_function import planned, remember
from .torch_calls import is_recorded

__all__ = ["TTTable", "rows_of_cores"]

_TABLES = (DataType.F32, DataType.BF16)
LANES = 256


class TTTable:
    """A table of prod(p) rows of prod(q) columns, stored as 2 to 4 cores of shape [p_k, r_k, q_k, r_k+1].

    f32 or bf16 (`dtype="bf16"` for arrays of its bits), summed in f32.  The cores are copied where they are; later
    changes of them do not change the table.  Raises BadInputs for cores that do not fit.

        table = TTTable(cores)
        rows = table(indices)                  of shape (*indices.shape, columns)
    """

    def __init__(
        self, cores: Sequence[Any], *, dtype: str | None = None, dispatcher: DispatcherLike | None = None
    ) -> None:
        cores = listed(cores, "cores")
        if any(map(is_recorded, cores)):
            raise BadInputs(
                "a table has no gradient: train a vyre_opt.torch.TTEmbedding, or pass core.detach() for each core"
            )
        self._lookup = _Lookup(cores, dtype, dispatcher)
        backend = array_backend_of(dispatcher, {"core 0": cores[0]})
        operands = [backend.take(core, f"core {k}") for k, core in enumerate(cores)]
        self._cores = [backend.result(backend.join([o]).array, o.shape, o) for o in operands]

    @property
    def rows(self) -> int:
        return self._lookup.rows

    @property
    def columns(self) -> int:
        return self._lookup.columns

    def __repr__(self) -> str:
        lookup = self._lookup
        return f"<table of {self.rows} rows of {self.columns} {lookup.element} in {len(self._cores)} cores>"

    def __call__(self, indices: Any, *, out: Any = None) -> Any:
        """The rows at `indices`, integers of any type, where the cores are: shape (*indices.shape, columns).

        In main memory an index out of range raises BadInputs.  On a GPU its row is zero, and its call has a fault,
        which a later call or `vyre_opt.synchronize` raises.
        """
        return self._lookup(self._cores, indices, out)


def rows_of_cores(
    cores: Sequence[Any], indices: Any, dtype: str | None, dispatcher: DispatcherLike | None
) -> Any:
    """`TTTable(cores)(indices)` without a copy of the cores."""
    signatures = tuple(map(signature_of, cores))
    if None in signatures or not isinstance(dispatcher, Hashable):  # not arrays as they are, or no target
        return _Lookup(cores, dtype, dispatcher)(cores, indices, None)
    key = (signatures, dtype, dispatcher)
    lookup = _LOOKUPS.get(key)
    if lookup is None:
        lookup = _Lookup(cores, dtype, dispatcher)
        remember(_LOOKUPS, key, lookup)
    return lookup(cores, indices, None)


class _Lookup:
    """Rows of tables whose cores are like `cores`, none of which it keeps.  Raises BadInputs for cores that do not fit.

    Called with the cores, indices, and an array for the rows or None.
    """

    def __init__(self, cores: Sequence[Any], dtype: str | None, dispatcher: DispatcherLike | None) -> None:
        named = {f"core {k}": core for k, core in enumerate(cores)}
        if not named:
            raise BadInputs("a table has 2 to 4 cores")
        self._dispatcher = dispatcher
        backend = array_backend_of(dispatcher, named)
        tables = [backend.take(core, name) for name, core in named.items()]
        self.element = _TABLES[0]
        for k, (name, table) in enumerate(zip(named, tables, strict=True)):
            self.element = element_type(table, name, _TABLES if k == 0 else (self.element,), dtype)
        try:
            self.shape = EmbeddingShape(*_shape(tables))
        except ValueError as error:
            raise BadInputs(str(error)) from None
        self.rows, self.columns = prod(self.shape.p), self.shape.columns
        self._plans: OrderedDict[Any, tuple[PipelineExecutable, tuple[int, ...]]] = OrderedDict()
        """For calls on a GPU, by the signature of the indices: the pipeline, and the shape of its rows."""

    def __call__(self, cores: Sequence[Any], indices: Any, out: Any) -> Any:
        signature = signature_of(indices)
        known = self._plans.get(signature)
        if known is not None and out is None:
            lookup, shape = known
            return lookup([*cores, indices])["rows"].reshape(shape)
        named = {"indices": indices, **{f"core {k}": core for k, core in enumerate(cores)}}
        backend = array_backend_of(self._dispatcher, named)
        if backend.on_gpu:
            result = self._on_gpu(backend, cores, indices, signature)
            return result if out is None else backend.copy_to(out, result)
        message = f"index {{}} of a table of {self.rows} rows"
        numbers = as_u32(backend, indices, "indices", self.rows, message)
        if numbers.count == 0:
            result = backend.empty((*numbers.shape, self.columns), backend.take(cores[0], "core 0"))
            return result if out is None else backend.copy_to(out, result)
        arrays = (*cores, numbers.array.reshape(numbers.shape))
        return _rows(arrays, (*named,), self._dispatcher, out, self.shape, self.element)

    def _on_gpu(self, backend: ArrayBackend, cores: Sequence[Any], indices: Any, signature: Any) -> Any:
        tables = [backend.take(core, f"core {k}") for k, core in enumerate(cores)]
        operand = backend.take(indices, "indices")
        check_integers(operand, "indices")
        shape, count = (*operand.shape, self.columns), operand.count
        if count == 0:
            return backend.empty(shape, tables[0])
        dtype = DataType.of(operand.kind.replace("uint", "u").replace("int", "i"))
        program, grid = _embedding(self.shape, self.element, count, backend.target)
        dispatcher: Any = backend.dispatcher
        lookup = _pipeline(dispatcher, self.shape, self.element, dtype, program, grid, count)
        if signature is not None and all(o.array is o.owner for o in (*tables, operand)):
            remember(self._plans, signature, (lookup, shape))
        return lookup([*(table.array for table in tables), operand.array])["rows"].reshape(shape)


_LOOKUPS: OrderedDict[Any, _Lookup] = OrderedDict()
"""By the signatures of cores, of `rows_of_cores`."""


@planned("tt_embedding")
def _rows(
    backend: ArrayBackend, operands: Sequence[Operand], shape: EmbeddingShape, element: DataType
) -> Call:
    """Rows in main memory; the last operand is the indices, checked."""
    numbers = operands[-1]
    program, grid = _embedding(shape, element, numbers.count, backend.target)
    arguments = (*range(len(operands)), OutputAlloc(numbers.count * shape.columns))
    return KernelCall(program, grid, arguments, (*numbers.shape, shape.columns))


def _embedding(shape: EmbeddingShape, element: DataType, count: int, target: str) -> tuple[Program, int]:
    """The program for so many lookups, and its grid."""
    try:
        schedule = embedding_schedule(shape, count=count, target=target)
        program = embedding(shape, element, schedule, separate=True)
    except ValueError as error:
        raise BadInputs(str(error)) from None
    return program, embedding_grid(schedule, shape, count)


@lru_cache(maxsize=256)
def _pipeline(
    dispatcher: Any,
    shape: EmbeddingShape,
    element: DataType,
    dtype: DataType,
    program: Program,
    grid: int,
    count: int,
) -> PipelineExecutable:
    """The pipeline for `count` indices of type `dtype`, shared by tables of a shape: cores are an input.

    `program`: the embedding, over `grid` workgroups.
    """
    rows, columns = prod(shape.p), shape.columns
    module = Module()
    check, clear = _check(dtype, rows), _clear(dtype, element, rows, columns)
    for item in (check, program, clear):
        module.add(item)
    pipeline = Pipeline("main")
    cores = [f"core{k}" for k in range(len(shape.p))]
    declared = {
        **{name: (element, program.buffers[name].count, AccessMode.READ) for name in cores},
        "indices": (dtype, count, AccessMode.READ),
        "numbers": (DataType.U32, count, AccessMode.READ_WRITE),
        "rows": (element, count * columns, AccessMode.WRITE),
    }
    for name, (kind, length, access) in declared.items():
        pipeline.buffers[name] = Buffer(name, kind, length, access)
    groups = (-(-count // LANES), 1, 1)
    pipeline.stages = [
        Launch(check.name, groups, ("indices", "numbers")),
        Launch(program.name, (grid, 1, 1), (*cores, "numbers", "rows")),
        Launch(clear.name, groups, ("indices", "rows")),
    ]
    module.add(pipeline)
    return PipelineExecutable(module, "main", dispatcher)


def _shape(tables: Sequence[Operand]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """p, q and the inner ranks.  Raises ValueError for cores whose ranks do not match."""
    rank = 1
    for k, table in enumerate(tables):
        if len(table.shape) != 4 or table.shape[1] != rank:
            raise ValueError(f"core {k} has shape {table.shape}, not [p, {rank}, q, r]")
        rank = table.shape[3]
    if rank != 1:
        raise ValueError(f"the last core has shape {tables[-1].shape}, not [p, r, q, 1]")
    p, q, r = (tuple(table.shape[axis] for table in tables) for axis in (0, 2, 3))
    return p, q, r[:-1]


# --- programs beside the embedding's own


def _index(b: Builder, number: Value) -> Value:
    """An index as a u64; a negative one becomes one beyond any table."""
    return as_type(b, b.load("indices", number), DataType.U64)


def _check(dtype: DataType, rows: int) -> Program:
    """Indices as u32; a trap for one out of range, in whose place is 0."""
    b = Builder("check_indices", workgroup=LANES)
    indices = b.buffer("indices", dtype, None, "read", 0)
    b.buffer("numbers", DataType.U32, None, "write", 1, live_out=True)
    number = b.global_id("x")
    with b.if_(b.lt(number, b.len(indices))):
        index = _index(b, number)
        is_outside = b.ge(index, b.const(rows, DataType.U64))
        b.store(b.select(is_outside, b.const(0), b.cast(index, DataType.U32)), "numbers", number)
        with b.if_(is_outside):
            b.trap(f"an index is out of range: the table has {rows} rows")
    return b.finish(verify=False)


def _clear(dtype: DataType, element: DataType, rows: int, columns: int) -> Program:
    """Zeros in the rows of indices that are out of range."""
    b = Builder("clear_rows", workgroup=LANES)
    indices = b.buffer("indices", dtype, None, "read", 0)
    b.buffer("rows", element, None, "read_write", 1, live_in=True, live_out=True)
    number = b.global_id("x")
    with b.if_(b.lt(number, b.len(indices))):
        is_outside = b.ge(_index(b, number), b.const(rows, DataType.U64))
        with b.if_(is_outside), b.for_(0, columns) as loop:
            b.store(b.const(0.0, element), "rows", b.add(b.mul(number, columns), loop.index))
    return b.finish(verify=False)
