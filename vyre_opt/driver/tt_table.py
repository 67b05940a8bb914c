"""Rows of tables that are stored as a tensor train: `TTTable`, prepared once, and `tt_embedding` of cores as they are.

In main memory the indices are checked before anything runs.  On a GPU that would be a wait, so the program checks them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..execution.array_backend import ArrayBackend, Operand
from ..execution.dispatcher import BadInputs, DispatcherLike
from ..execution.kernel_call import run_call
from ..execution.target import as_target
from ..ir.types import DataType
from ..kernels.call import launch
from ..kernels.embedding import EmbeddingShape, merge_for
from ..kernels.embedding_merge import merge_pair, merge_pair_grid
from ..kernels.named.embedding import Embedding
from .operands import as_u32, check_integers, listed
from .placement import any_on_gpu, array_backend_of
from .planned_function import kernel_function
from .torch_calls import is_recorded, record

__all__ = ["TTTable", "rows_of_cores"]

_EMBEDDING = Embedding()


class TTTable:
    """A table of prod(p) rows and prod(q) columns that is stored as a tensor train: `tt_embedding`, prepared once.

    Neighbouring cores are made one where that makes lookups faster and takes at most four times the memory.
    `rows`, `columns`: of the table.

    Args:
        cores: 2 to 4 arrays of shape (p_k, r_k, q_k, r_k+1), with r_0 and the last r 1, of f32 or bf16; summed in f32.  They are
            copied where they are; later changes of them do not change the table.
        dtype: "bf16" for arrays of u16 that hold the bits of bf16.
        dispatcher: a target's name or a dispatcher; left out, cpu for arrays in main memory and cuda for those on a GPU.

    Raises:
        BadInputs: for other types, or shapes that do not match.

    Example:
        >>> table = kernels.TTTable([np.ones((2, 1, 2, 3), np.float32), np.ones((2, 3, 2, 1), np.float32)])
        >>> table.rows, table.columns
        (4, 4)
        >>> table([0, 3]).tolist()
        [[3.0, 3.0, 3.0, 3.0], [3.0, 3.0, 3.0, 3.0]]
    """

    def __init__(
        self, cores: Sequence[Any], *, dtype: str | None = None, dispatcher: DispatcherLike | None = None
    ) -> None:
        cores = listed(cores, "cores")
        if any(map(is_recorded, cores)):
            raise BadInputs(
                "a table has no gradient: train a vyre_opt.torch.TTEmbedding, or pass core.detach() for each core"
            )
        backend, shape, self._element = _table(cores, dtype, dispatcher)
        groups = merge_for(shape, self._element, as_target(backend.dispatcher).schedules)
        self._cores = [_merged(backend, cores[first:last], self._element) for first, last in groups]
        self._dtype, self._dispatcher = dtype, dispatcher
        self.rows, self.columns = prod(shape.p), shape.columns

    def __repr__(self) -> str:
        return f"<table of {self.rows} rows of {self.columns} {self._element}>"

    def __call__(self, indices: Any, *, out: Any = None) -> Any:
        """The rows at `indices`, integers of any type, where the cores are: shape (*indices.shape, columns).

        In main memory an index out of range raises BadInputs.  On a GPU its row is zero, and its call has a fault,
        which a later call or `vyre_opt.synchronize` raises.
        """
        if is_recorded(indices):
            return record("TTTable", self, (indices,), None, out)
        return rows_of_cores(self._cores, indices, self._dtype, self._dispatcher, out)


def _table(
    cores: Sequence[Any], dtype: str | None, dispatcher: DispatcherLike | None
) -> tuple[ArrayBackend, EmbeddingShape, DataType]:
    """Backend of some cores, with the shape and element type of their table.  Raises BadInputs for cores that do not fit."""
    if not cores:
        raise BadInputs("a table has 2 to 4 cores")
    named = {f"core {k}": core for k, core in enumerate(cores)}
    backend = array_backend_of(dispatcher, named)
    tables = [backend.take(core, name) for name, core in named.items()]
    try:
        return backend, *_EMBEDDING.table(tables, dtype)
    except ValueError as error:
        raise BadInputs(str(error)) from None


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


def _take(backend: ArrayBackend, array: Any, name: str) -> Operand:
    operand = backend.take(array, name)
    if name == "indices":
        check_integers(operand, name)
    return operand


_rows = kernel_function("tt_embedding", "tt.embedding", _take)
"""The last array is the indices: of any integer type on a GPU, elsewhere checked and u32."""


def rows_of_cores(
    cores: Sequence[Any], indices: Any, dtype: str | None, dispatcher: DispatcherLike | None, out: Any = None
) -> Any:
    """`TTTable(cores)(indices)` without a copy of the cores.  Raises BadInputs for cores that do not fit."""
    names = [*(f"core {k}" for k in range(len(cores))), "indices"]
    if not any_on_gpu(cores):
        backend = array_backend_of(dispatcher, dict(zip(names, (*cores, indices), strict=True)))
        try:
            rows = prod(extent for core in cores for extent in np.shape(core)[:1])
            numbers = as_u32(backend, indices, "indices", rows, f"index {{}} of a table of {rows} rows")
        except ValueError:
            _table(cores, dtype, dispatcher)  # what is wrong with the cores is told first
            raise
        indices = numbers.array.reshape(numbers.shape)
    return _rows((*cores, indices), names, dispatcher, out, dtype)
