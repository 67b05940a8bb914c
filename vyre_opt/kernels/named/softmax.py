"""math.softmax: exp(x - max) / sum(exp(x - max)) of each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ...ir.ops import MAX_COLUMNS
from ...ir.types import DataType
from .. import softmax_schedules as k
from ..expansion import Expansion, ExpansionRequest
from ..softmax_rows import softmax
from ..targets import is_gpu
from .kernel import LANES, MAX_ELEMENTS, Array, NamedKernel, Tensor, factors

_factors = partial(factors, k.SoftmaxSchedule)
_SHORT = {"lanes": (8, 16, 32), "rows": (1, 2, 4, 8)}
"""Several rows in a workgroup."""


class Softmax(NamedKernel):
    name = "math.softmax"
    operator = "softmax(x)"
    keeps = "result"
    gpu = (
        _factors(**_SHORT, vector=(1, 2, 4, 8), rows_per_thread=(1, 2), predicated=(1,)),
        _factors(lanes=LANES[1:], vector=(1, 2, 4, 8), predicated=(1,)),
        _factors(lanes=LANES[1:], vector=(2, 4, 8), in_registers=(0,), unroll=(2, 4, 8)),
        _factors(lanes=LANES[3:], vector=(4, 8), splits=(2, 4, 8), predicated=(1,)),
    )
    cpu = (
        _factors(**_SHORT, vector=(1, 2, 4)),
        _factors(lanes=(32, 64, 128), vector=(1, 2, 4), in_registers=(0, 1), unroll=(2, 4, 8)),
        _factors(lanes=(32,), vector=(1, 2, 4), in_registers=(0,), unroll=(1, 2, 4, 8, 16), in_shared=(1,)),
    )

    def expand(self, r: ExpansionRequest) -> Expansion:
        columns, count = r.params["columns"], r.count(0)
        rows = None if count is None else count // columns
        schedule = k.softmax_schedule(columns, r.dtype(), r.target, rows, r.workers)
        schedule = r.at(replace(schedule, strided=not r.owns_grid))
        if schedule.splits > 1 and not (is_gpu(r.target) and r.owns_grid and rows is not None):
            raise ValueError(
                "rows that workgroups share need state of their own, and a GPU: only for a pipeline's stage"
            )
        program = r.build(softmax, columns, r.dtype(), schedule, r.dtype(1))
        if rows is None:
            return Expansion(program, schedule, None)
        grid = k.softmax_grid(schedule, rows)
        scratch = {"state": grid, "ticket": 1} if schedule.splits > 1 else None
        general = partial(self._general, rows, columns, r.dtype(), r.target)
        return Expansion(program, schedule, grid, scratch, general=general)

    def _general(self, rows: int, columns: int, element: DataType, target: str) -> Expansion:
        """Call of the code for any number of columns."""
        schedule = k.general_softmax_schedule(columns, target)
        grid = k.softmax_grid(schedule, rows)
        return Expansion(softmax(None, element, schedule), schedule, grid, {"row": columns}, ("row",))

    def reference(self, x: Array, columns: int) -> Array:
        """Reference softmax in f64."""
        import numpy as np

        if columns < 1 or len(x) % columns:
            raise ValueError(f"{len(x)} elements are not rows of {columns}")
        rows = x.astype(np.float64).reshape(-1, columns)
        powers = np.exp(rows - rows.max(axis=1, keepdims=True, initial=-np.inf))
        return (powers / powers.sum(axis=1, keepdims=True)).reshape(-1)

    def params(self, x: Any) -> dict[str, int]:
        columns = x.shape[-1] if x.shape else 1
        if columns > MAX_COLUMNS or x.count > MAX_ELEMENTS:
            raise ValueError(
                f"x has rows of {columns} and {x.count} elements; at most {MAX_COLUMNS} and 2^32 - 1"
            )
        return {"columns": columns}

    def gradient(self, call: Any, kept: Sequence[Tensor], g: Tensor, needed: Any = ()) -> list[Tensor]:
        """y * (g - sum(g * y)) over the last axis, in one launch."""
        import torch

        (y,) = kept
        return [torch.ops.aten._softmax_backward_data(g, y, -1, y.dtype)]

    def tangent(self, call: Any, kept: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> Tensor:
        return self.gradient(call, kept, tangents[0])[0]  # the matrix of derivatives is symmetric

    def batch(self, call: Any, in_dims: Any, x: Tensor) -> Tensor:
        rows = x.movedim(in_dims[0], 0)
        return call(rows) if rows.dim() > 1 else call(rows.unsqueeze(1)).squeeze(1)
