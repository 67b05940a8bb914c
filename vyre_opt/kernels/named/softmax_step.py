"""math.softmax_step: floor((x_i << 16) / max(sum x, 1)) in 16.16 fixed point, sum and numerator wide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import softmax_fixed as k
from ..call import Call, Steps, launch
from ..expansion import Expansion, ExpansionRequest
from .kernel import FINE, Array, NamedKernel, OperandLike, TargetDevice


class SoftmaxStep(NamedKernel):
    name = "math.softmax_step"
    gpu = ({"lanes": FINE, "elements_per_workgroup": (256, 1024, 4096, 16384, 65536)},)

    def expand(self, r: ExpansionRequest) -> Expansion:
        count = r.count(0)
        schedule = r.at(k.softmax_step_schedule(count, r.target))
        grid = None if count is None else k.softmax_step_grid(schedule, count)
        return Expansion(r.build(k.softmax_step, schedule), schedule, grid)

    def reference(self, x: Array) -> Array:
        """Reference in u64, which holds the sum of 2^32 elements."""
        import numpy as np

        wide = x.astype(np.uint64)
        total = max(int(wide.sum()), 1)
        return ((wide << np.uint64(16)) // np.uint64(total)).astype(np.uint32)

    def call(self, device: TargetDevice, arrays: Sequence[OperandLike], *options: Any) -> Call | Steps:
        (x,) = arrays
        launches = k.softmax_step_launches(x.count, device.target, device.workers)
        if launches is None:
            return super().call(device, arrays, *options)
        lanes, workgroups = launches
        parts = launch(k.softmax_step_parts(lanes), workgroups, (workgroups,))
        quotients = launch(k.softmax_step_quotients(lanes), workgroups, x.shape)
        return Steps(((parts, (0,)), (quotients, (0, 1))))
