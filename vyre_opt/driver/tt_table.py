"""Rows of tables that are stored as a tensor train: `TTTable`, prepared once, and `tt_embedding` of cores as they are.

In main memory the indices are checked before anything runs.  On a GPU that would be a wait, so the program checks them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from math import prod
from typing import Any

from ..ir.types import DataType
from ..kernels.call import launch
from ..kernels.embedding import EmbeddingShape, merge_for
from ..kernels.embedding_merge import merge_pair, merge_pair_grid
from ..runtime.array_backend import ArrayBackend, Operand
from ..runtime.dispatcher import BadInputs, DispatcherLike
from ..runtime.kernel_call import run_call
from ..runtime.signatures import signature_of
from ..runtime.target import as_target
from .operands import as_u32, check_integers, element_type, listed
from .placement import array_backend_of
from .planned_function import kernel_function
from .plans import remember
from .torch_calls import is_recorded, record

__all__ = ["TTTable", "rows_of_cores"]

_TABLES = (DataType.F32, DataType.BF16)


class TTTable:
    """A table of prod(p) rows of prod(q) columns, stored as 2 to 4 cores of shape [p_k, r_k, q_k, r_k+1].

    f32 or bf16 (`dtype="bf16"` for arrays of its bits), summed in f32.  The cores are copied where they are; later
    changes of them do not change the table.  Neighbouring cores are made one where that makes lookups faster and
    takes at most four times the memory.  Raises BadInputs for cores that do not fit.

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
        given = _Lookup(cores, dtype, dispatcher)
        backend = array_backend_of(dispatcher, {"core 0": cores[0]})
        groups = merge_for(given.shape, given.element, as_target(backend.dispatcher).schedules)
        self._cores = [_merged(backend, cores[first:last], given.element) for first, last in groups]
        self._lookup = _Lookup(self._cores, dtype, dispatcher)

    @property
    def rows(self) -> int:
        return self._lookup.rows

    @property
    def columns(self) -> int:
        return self._lookup.columns

    def __repr__(self) -> str:
        lookup = self._lookup
        return f"<table of {self.rows} rows of {self.columns} {lookup.element}>"

    def __call__(self, indices: Any, *, out: Any = None) -> Any:
        """The rows at `indices`, integers of any type, where the cores are: shape (*indices.shape, columns).

        In main memory an index out of range raises BadInputs.  On a GPU its row is zero, and its call has a fault,
        which a later call or `vyre_opt.synchronize` raises.
        """
        return self._lookup(self._cores, indices, out)


def _merged(backend: ArrayBackend, cores: Sequence[Any], element: DataType) -> Any:
    """The product of neighbouring cores, a new array."""
    product = backend.take(cores[0], "a core")
    if len(cores) == 1:
        return backend.result(backend.copy(product).array, product.shape, product)
    for core in cores[1:]:
        right = backend.take(core, "a core")
        (p, rank, q, _), (other_p, _, other_q, last) = product.shape, right.shape
        program = merge_pair(product.shape, right.shape, element)
        shape = (p * other_p, rank, q * other_q, last)
        call = launch(program, merge_pair_grid(program), shape)
        result = run_call(backend, call, [product, right])
        product = backend.take(result, "a core")
    return result


def rows_of_cores(
    cores: Sequence[Any], indices: Any, dtype: str | None, dispatcher: DispatcherLike | None
) -> Any:
    """`TTTable(cores)(indices)` without a copy of the cores."""
    signatures = tuple(map(signature_of, cores))
    is_known = dtype is None or isinstance(dtype, str)
    # perhaps no arrays, no target
    if None in signatures or not isinstance(dispatcher, Hashable) or not is_known:
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
        self._on_gpu = backend.on_gpu
        self._names = (*named, "indices")

    def __call__(self, cores: Sequence[Any], indices: Any, out: Any) -> Any:
        if is_recorded(indices):
            return record("TTTable", lambda numbers: self(cores, numbers, None), (indices,), None, out)
        if self._on_gpu:
            return _rows((*cores, indices), self._names, self._dispatcher, out, self.shape, self.element)
        backend = array_backend_of(self._dispatcher, dict(zip(self._names, (*cores, indices), strict=True)))
        message = f"index {{}} of a table of {self.rows} rows"
        numbers = as_u32(backend, indices, "indices", self.rows, message)
        arrays = (*cores, numbers.array.reshape(numbers.shape))
        return _rows(arrays, self._names, self._dispatcher, out, self.shape, self.element)


_LOOKUPS: OrderedDict[Any, _Lookup] = OrderedDict()
"""By the signatures of cores, of `rows_of_cores`."""


def _take(backend: ArrayBackend, array: Any, name: str) -> Operand:
    operand = backend.take(array, name)
    if name == "indices":
        check_integers(operand, name)
    return operand


_rows = kernel_function("tt_embedding", "tt.embedding", _take)
"""The last array is the indices: of any integer type on a GPU, elsewhere checked and u32."""


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
