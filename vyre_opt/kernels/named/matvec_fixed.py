"""math.matvec_fixed: y = M x in signed 16.16, M row-major."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from .. import matvec as k
from ..expansion import Expansion, ExpansionRequest
from ..targets import MULTIPROCESSORS
from . import named_kernel
from .kernel import Array, NamedKernel, factors

_predicated = partial(factors, k.MatvecSchedule, vector=(1, 2, 4), rows_per_thread=(1, 2, 4), predicated=(1,))


class MatvecFixed(NamedKernel):
    name = "math.matvec_fixed"
    gpu = (
        factors(k.MatvecSchedule, unroll=(1, 2, 4, 8)),
        _predicated(rows=(16,), lanes=(16,), unroll=(1, 2, 4)),
        _predicated(rows=(8,), lanes=(32,), unroll=(1, 2, 4, 8)),
        _predicated(rows=(1,), lanes=(256, 1024), unroll=(1, 4, 8)),
        _predicated(rows=(1,), lanes=(256,), unroll=(1, 2, 4), splits=(8, 32, 128, 512)),
    )
    cpu = (factors(k.MatvecSchedule, rows=(1, 2, 4, 8, 16), unroll=(1, 2, 4, 8, 16)),)

    def expand(self, r: ExpansionRequest) -> Expansion:
        cells, columns = r.count(0), r.count(1)
        rows = cells // columns if cells and columns else None
        schedule = k.matvec_schedule(columns, rows, r.target, r.owns_grid, r.workers or MULTIPROCESSORS)
        schedule = r.at(replace(schedule, strided=not r.owns_grid))
        if schedule.vector > 1 and (not columns or columns % schedule.vector):
            raise ValueError(
                f"vectors of {schedule.vector} do not divide {columns or 'an open number of'} columns"
            )
        program = r.build(k.matvec_fixed, r.dtype(0), schedule, r.dtype(1), r.dtype(2))
        if cells is None or columns is None:
            return Expansion(program, schedule, None)
        rows = cells // columns
        scratch = {"sums": rows} if schedule.splits > 1 else None
        return Expansion(program, schedule, k.matvec_grid(schedule, rows), scratch)

    def reference(self, m: Array, x: Array) -> Array:
        if len(x) == 0 or len(m) % len(x):
            raise ValueError(f"a matrix of {len(m)} elements has no rows of {len(x)}")
        return named_kernel("tt.contract_step").reference(x, m.reshape(-1, len(x)).T.copy())

    def shape(self, m: Any, x: Any) -> tuple[int, ...]:
        columns, cells = x.count, m.count
        if not columns or cells % columns or (len(m.shape) > 1 and m.shape[-1] != columns):
            raise ValueError(f"a matrix of shape {m.shape} has no rows of {columns}")
        return (cells // columns,)
