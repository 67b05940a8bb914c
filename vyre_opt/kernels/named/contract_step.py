"""tt.contract_step: out_j = sum_i acc_i * core_ij, core row-major, of f32 or signed 16.16."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ...ir.types import DataType
from .. import tensor_train as k
from ..call import Call, Steps
from ..expansion import Expansion, ExpansionRequest
from . import named_kernel
from .kernel import FINE, LANES, Array, NamedKernel, OperandLike, TargetDevice, element_type, factors

_factors = partial(factors, k.StepSchedule)


class ContractStep(NamedKernel):
    name = "tt.contract_step"
    gpu = (
        _factors(lanes=FINE, unroll=(1, 2, 4, 8, 16, 32)),
        _factors(
            lanes=LANES[2:5], unroll=(1, 2, 4, 8, 16), lanes_n=(32,), vector=(1, 2, 4), splits=(1, 2, 4, 8)
        ),
    )
    cpu = (
        _factors(lanes=FINE[:8], unroll=(1, 2, 4, 8, 16)),
        _factors(lanes=(32,), unroll=(1, 2, 4, 8, 16), stream_columns=(256, 1024, 2048, 4096)),
    )

    def expand(self, r: ExpansionRequest) -> Expansion:
        inner, cells, dtype = r.count(0), r.count(1), r.dtype()
        schedule = r.at(k.contract_step_schedule(inner, cells, r.target, r.owns_grid, r.workers or 1))
        if inner is None or cells is None:
            if schedule.vector > 1 or schedule.splits > 1:
                raise ValueError(
                    f"vectors and workgroups that share columns need a known number of these: {schedule}"
                )
            return Expansion(r.build(k.contract_step, dtype, schedule), schedule, None)
        outer = cells // inner
        if outer % schedule.vector:
            raise ValueError(f"vectors of {schedule.vector} do not divide {outer} columns")
        if schedule.splits > 1 and not r.owns_grid:
            raise ValueError(
                "columns that workgroups share need sums of their own: only for a pipeline's stage"
            )
        program, grid = r.build(k.contract_step, dtype, schedule), k.contract_step_grid(schedule, outer)
        if schedule.splits == 1:
            return Expansion(program, schedule, grid)
        partials, arrived = k.contract_step_scratch(schedule, outer)
        return Expansion(program, schedule, grid, {"partials": partials, "arrived": arrived}, ("partials",))

    def reference(self, acc: Array, core: Array) -> Array:
        """f32 is summed in f64 and rounded once; a product of 16.16 is shifted back to it, and sums are modulo 2^32."""
        if len(acc) == 0 or len(core) % len(acc):
            raise ValueError(f"a core of {len(core)} elements has no {len(acc)} rows")
        rows = core.reshape(len(acc), -1)
        if acc.dtype == "float32":
            return (acc.astype("float64") @ rows.astype("float64")).astype("float32")
        products = acc.view("int32").astype("int64")[:, None] * rows.view("int32")
        return (products >> 16).sum(axis=0).astype("uint32").view(core.dtype)

    def call(self, device: TargetDevice, arrays: Sequence[OperandLike], *options: Any) -> Call | Steps:
        acc, core = arrays
        if len(acc.shape) <= 1:
            return super().call(device, arrays, *options)
        floats = DataType.F32, DataType.F16, DataType.BF16
        element_type(core, "core", (element_type(acc, "acc of several vectors", floats),))
        if len(acc.shape) != 2 or len(core.shape) != 2 or core.shape[0] != acc.shape[1]:
            raise ValueError(
                f"acc has shape {acc.shape} and the core {core.shape}, not (n, rows) and (rows, columns)"
            )
        return named_kernel("math.matmul").call(device, arrays)

    def shape(self, acc: Any, core: Any) -> tuple[int, ...]:
        inner, cells = acc.count, core.count
        if not inner or cells % inner or (len(core.shape) > 1 and core.shape[0] != inner):
            raise ValueError(f"a core of shape {core.shape} has no {inner} rows")
        return (cells // inner,)
