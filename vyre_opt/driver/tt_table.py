"""Tables stored as a tensor train, prepared once, whose calls take indices: `TTTable`.

In main memory the indices are checked before anything runs.  On a GPU that would be a wait, so a lookup is a
pipeline there:

    indices --check, u32--> numbers --embedding--> rows --zeros where an index is out of range--> rows
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
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
from ..runtime.signatures import signature_of
from .operands import as_u32, check_integers, element_type
from .pipeline import PipelineExecutable
from .placement import array_backend_of
from .planned_function import remember
from .torch_calls import is_recorded

__all__ = ["TTTable"]

_TABLES = (DataType.F32, DataType.BF16)
LANES = 256


class TTTable:
    """A table of prod(p) rows of prod(q) columns, stored as 2 to 4 cores of shape [p_k, r_k, q_k, r_k+1].

    f32 or bf16 (`dtype="bf16"` for arrays of its bits), summed in f32.  The cores are copied, side by side, where
    they are; later changes of them do not change the table.  Raises BadInputs for cores that do not fit.

        table = TTTable(cores)
        rows = table(indices)                  of shape (*indices.shape, columns)
    """

    def __init__(
        self, cores: Sequence[Any], *, dtype: str | None = None, dispatcher: DispatcherLike | None = None
    ) -> None:
        named = {f"core {k}": core for k, core in enumerate(cores)}
        if not named:
            raise BadInputs("a table has 2 to 4 cores")
        if any(map(is_recorded, cores)):
            raise BadInputs(
                "a table has no gradient: train a vyre_opt.torch.TTEmbedding, or pass core.detach() for each core"
            )
        self._dispatcher = dispatcher
        backend = array_backend_of(dispatcher, named)
        tables = [backend.take(core, name) for name, core in named.items()]
        self._element = _TABLES[0]
        for k, (name, table) in enumerate(zip(named, tables, strict=True)):
            self._element = element_type(table, name, _TABLES if k == 0 else (self._element,), dtype)
        try:
            self._shape = EmbeddingShape(*_shape(tables))
        except ValueError as error:
            raise BadInputs(str(error)) from None
        self._cores = backend.join(tables)
        self._lookups: OrderedDict[Any, tuple[PipelineExecutable, tuple[int, ...]]] = OrderedDict()
        """For calls on a GPU, by the signature of the indices: the pipeline, and the shape of its rows."""

    @property
    def rows(self) -> int:
        return prod(self._shape.p)

    @property
    def columns(self) -> int:
        return self._shape.columns

    def __repr__(self) -> str:
        return f"<table of {self.rows} rows of {self.columns} {self._element} in {len(self._shape.p)} cores>"

    def __call__(self, indices: Any, *, out: Any = None) -> Any:
        """The rows at `indices`, integers of any type, where the cores are: shape (*indices.shape, columns).

        In main memory an index out of range raises BadInputs.  On a GPU its row is zero, and its call has a fault,
        which a later call or `vyre_opt.synchronize` raises.
        """
        signature = signature_of(indices)
        known = self._lookups.get(signature)
        if known is not None and out is None:
            lookup, shape = known
            return lookup([self._cores.array, indices])["rows"].reshape(shape)
        backend = array_backend_of(self._dispatcher, {"cores": self._cores.array, "indices": indices})
        if backend.on_gpu:
            result = self._on_gpu(backend, indices, signature)
        else:
            result = self._in_memory(backend, indices)
        return result if out is None else backend.copy_to(out, result)

    def _in_memory(self, backend: ArrayBackend, indices: Any) -> Any:
        message = f"index {{}} of a table of {self.rows} rows"
        numbers = as_u32(backend, indices, "indices", self.rows, message)
        shape, count = (*numbers.shape, self.columns), numbers.count
        if count == 0:
            return backend.empty(shape, self._cores)
        program, grid = self._embedding(backend, count)
        (rows,) = backend.run(program, [self._cores, numbers, OutputAlloc(count * self.columns)], grid)
        return backend.result(rows, shape, self._cores)

    def _embedding(self, backend: ArrayBackend, count: int) -> tuple[Program, int]:
        """The program for so many lookups, and its grid."""
        try:
            schedule = embedding_schedule(self._shape, count=count, target=backend.target)
            program = embedding(self._shape, self._element, schedule)
        except ValueError as error:
            raise BadInputs(str(error)) from None
        return program, embedding_grid(schedule, self._shape, count)

    def _on_gpu(self, backend: ArrayBackend, indices: Any, signature: Any) -> Any:
        operand = backend.take(indices, "indices")
        check_integers(operand, "indices")
        shape, count = (*operand.shape, self.columns), operand.count
        if count == 0:
            return backend.empty(shape, self._cores)
        dtype = DataType.of(operand.kind.replace("uint", "u").replace("int", "i"))
        program, grid = self._embedding(backend, count)
        dispatcher: Any = backend.dispatcher
        lookup = _lookup(dispatcher, self._shape, self._element, dtype, program, grid, count)
        if signature is not None and operand.array is indices:
            remember(self._lookups, signature, (lookup, shape))
        return lookup([self._cores.array, operand.array])["rows"].reshape(shape)


@lru_cache(maxsize=256)
def _lookup(
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
    declared = {
        "cores": (element, shape.elements, AccessMode.READ),
        "indices": (dtype, count, AccessMode.READ),
        "numbers": (DataType.U32, count, AccessMode.READ_WRITE),
        "rows": (element, count * columns, AccessMode.WRITE),
    }
    for name, (kind, length, access) in declared.items():
        pipeline.buffers[name] = Buffer(name, kind, length, access)
    groups = (-(-count // LANES), 1, 1)
    pipeline.stages = [
        Launch(check.name, groups, ("indices", "numbers")),
        Launch(program.name, (grid, 1, 1), ("cores", "numbers", "rows")),
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
