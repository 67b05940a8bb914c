"""tt.embedding: rows of a table kept as 2 to 4 cores [p, r, q, r'], each the product of a slice of every core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from ...ir.program import Buffer
from ...ir.types import DataType
from .. import embedding as k
from ..call import Call, EmptyResult, launch
from ..expansion import Expansion, ExpansionRequest
from .kernel import (
    LANES,
    Array,
    NamedKernel,
    OperandLike,
    TargetDevice,
    Tensor,
    element_type,
    factors,
    numbers,
)


class Embedding(NamedKernel):
    name = "tt.embedding"
    operator = "tt_embedding(cores[], indices)"
    keeps = "inputs"
    gpu = (
        factors(
            k.GroupedSchedule,
            chunk=(2048, 4096, 8192, 16384), lookups=(4, 8, 16, 32), rows_per_thread=(4, 7, 8, 16), columns_per_thread=(4, 8, 16), unroll=(4, 8),
        ),
        factors(k.EmbeddingSchedule, lanes=LANES[1:4], lookups=(1, 2, 4), rows_per_thread=(4, 8)),
        factors(k.PairSchedule, lanes=LANES[1:4], lookups=(1, 2, 4, 8), vector=(1, 2, 4)),
        factors(k.EmbeddingUnitSchedule, chunk=(2048, 4096, 8192, 16384, 32768), subgroups=(4, 8, 16)),
    )  # fmt: skip
    cpu = (
        factors(
            k.EmbeddingSchedule,
            lanes=LANES[:4],
            lookups=(1, 2, 4, 8),
            rows_per_thread=(2, 4, 8, 16),
            unroll=(1, 4, 8),
        ),
    )

    def expand(self, r: ExpansionRequest) -> Expansion:
        shape, count = k.EmbeddingShape.of(r.params), r.count(1)
        default: k.Schedule = k.embedding_schedule(
            shape, not r.owns_grid, count, r.target, r.dtype(0), r.dtype(2)
        )
        if "vector" in r.schedule:
            default = k.PairSchedule(strided=not r.owns_grid)
        elif "lanes" in r.schedule:
            default = k.EmbeddingSchedule(strided=not r.owns_grid)
        elif r.schedule.keys() & {"chunk", "columns_per_thread", "subgroups"}:
            if not r.owns_grid:
                raise ValueError(
                    "lookups grouped by slice need a grid of their own: only for a pipeline's stage"
                )
            default = k.EmbeddingUnitSchedule() if "subgroups" in r.schedule else k.GroupedSchedule()
        schedule = r.at(default)
        program = r.build(k.embedding, shape, r.dtype(0), schedule, r.dtype(2))
        return Expansion(
            program, schedule, None if count is None else k.embedding_grid(schedule, shape, count)
        )

    def reference(self, cores: Array, indices: Array, **shape: int) -> Array:
        """The product of core_k[i_k], i_k the digits of an index in radix p_k; in f64, rounded once."""
        import numpy as np

        count = max((n + 1 for n in range(4) if shape.get(f"p{n}")), default=0)
        p, q = ([shape[f"{name}{n}"] for n in range(count)] for name in "pq")
        r = [1, *(shape[f"r{n}"] for n in range(1, count)), 1]
        sizes = [p[n] * r[n] * q[n] * r[n + 1] for n in range(count)]
        if count < 2 or min((*p, *q, *r)) < 1 or any(v for n, v in shape.items() if int(n[1:]) >= count):
            raise ValueError("2 to 4 cores, each with its p, q and ranks, all at least 1")
        if len(cores) != sum(sizes):
            raise ValueError(f"cores of {len(cores)} elements; these shapes take {sum(sizes)}")
        rows = int(np.prod(p, dtype=np.int64))
        if len(indices) and int(indices.max()) >= rows:
            raise ValueError(f"index {int(indices.max())} of a table of {rows} rows")
        digits = np.unravel_index(indices.astype(np.int64), p)
        table, start = np.ones((len(indices), 1, 1)), 0
        for n in range(count):
            core = cores[start : start + sizes[n]].astype(np.float64).reshape(p[n], r[n], -1)
            start += sizes[n]
            table = (table @ core[digits[n]]).reshape(len(indices), -1, r[n + 1])
        return table.reshape(-1)

    def sample(self, rng: Any, reads: Sequence[Buffer], params: Mapping[str, int]) -> list[Array]:
        rows = prod(params[f"p{n}"] for n in range(4) if params.get(f"p{n}"))
        return [numbers(rng, reads[0]), rng.integers(0, rows, reads[1].count or 0, dtype="uint32")]

    def table(
        self, cores: Sequence[OperandLike], dtype: str | None = None
    ) -> tuple[k.EmbeddingShape, DataType]:
        """The shape and the element type of the table of cores [p, r, q, r'].  Raises ValueError for cores that do not fit."""
        accepted, rank = self.row.roles[0].types, 1
        for number, core in enumerate(cores):
            accepted = (element_type(core, f"core {number}", accepted, dtype),)
        for number, core in enumerate(cores):
            if len(core.shape) != 4 or core.shape[1] != rank:
                raise ValueError(f"core {number} has shape {core.shape}, not [p, {rank}, q, r]")
            rank = core.shape[3]
        if rank != 1:
            raise ValueError(f"the last core has shape {cores[-1].shape}, not [p, r, q, 1]")
        p, q, r = (tuple(core.shape[axis] for core in cores) for axis in (0, 2, 3))
        return k.EmbeddingShape(p, q, r[:-1]), accepted[0]

    def call(self, device: TargetDevice, arrays: Sequence[OperandLike], dtype: str | None = None) -> Call:
        """Look up rows in cores of an array each; indices have any integer type on a GPU, and are checked and u32 elsewhere."""
        *cores, indices = arrays
        shape, element = self.table(cores, dtype)
        checked = None
        if device.on_gpu:
            checked = DataType.of(indices.kind.replace("uint", "u").replace("int", "i"))
        rows, count = (*indices.shape, shape.columns), indices.count
        if count == 0:
            return EmptyResult(rows)
        target = device.architecture or device.target
        schedule = k.embedding_schedule(shape, count=count, target=target, dtype=element)
        program = k.embedding(shape, element, schedule, separate=True, checked=checked)
        return launch(program, k.embedding_grid(schedule, shape, count), rows)

    def shape(self, *tensors: Any) -> tuple[int, ...]:
        *cores, indices = tensors
        return (*indices.shape, prod(core.shape[2] for core in cores))

    def gradient(
        self, call: Any, kept: Sequence[Tensor], g: Tensor, needed: Sequence[bool]
    ) -> list[Tensor | None]:
        """A row is left * slice * right, for the slice of core k at digit i_k and the products of the slices on both
        sides of it.  The gradient of the slice is left^T g right^T; lookups with the same digit are added up, in f32.
        """
        from torch import einsum

        *cores, indices = kept
        rest, digits = indices.reshape(-1).long(), list[Tensor]()
        for core in reversed(cores):
            digits.insert(0, rest % core.shape[0])
            rest = rest // core.shape[0]
        slices = [core.index_select(0, digit).float() for core, digit in zip(cores, digits, strict=True)]
        count = len(rest)
        one = slices[0].new_ones(count, 1, 1)
        lefts, rights = [one], [one]  # of each lookup [columns, rank] and [rank, columns]
        for each in slices[:-1]:
            left = einsum("lar,lrqs->laqs", lefts[-1], each)
            lefts.append(left.flatten(1, 2))
        for each in reversed(slices[1:]):
            right = einsum("lrqs,lsb->lrqb", each, rights[0])
            rights.insert(0, right.flatten(2))
        gradients: list[Tensor | None] = []
        for core, digit, left, right, is_needed in zip(cores, digits, lefts, rights, needed, strict=False):
            if not is_needed:
                gradients.append(None)
                continue
            rows = g.float().reshape(count, left.shape[1], core.shape[2], right.shape[2])
            of_slices = einsum("lrqb,lsb->lrqs", einsum("lar,laqb->lrqb", left, rows), right)
            total = core.new_zeros(core.shape, dtype=of_slices.dtype)
            gradients.append(total.index_add(0, digit, of_slices).to(core.dtype))
        return [*gradients, None]

    def batch(self, call: Any, in_dims: Any, cores: Sequence[Tensor], indices: Tensor) -> Tensor | None:
        of_cores, of_indices = in_dims
        if any(dim is not None for dim in of_cores):
            return None
        return call(*cores, indices.movedim(of_indices, 0))
