"""scan.prefix: inclusive prefix sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...ir.program import Buffer
from .. import scan as k
from ..expansion import Expansion, ExpansionRequest
from .kernel import LANES, MAX_ELEMENTS, Array, NamedKernel, Tensor, factors


class Prefix(NamedKernel):
    name = "scan.prefix"
    operator = "prefix_scan(x)"
    keeps = "nothing"
    gpu = (
        factors(k.ScanSchedule, lanes=LANES[1:5], rounds=(1, 2, 4, 8, 16), vector=(1, 2, 4, 8)),
        factors(k.ScanSchedule, lanes=(256, 1024), rounds=(2, 8), look_back=(0,)),
    )
    cpu = (
        factors(
            k.ScanSchedule,
            lanes=(32,), rounds=(64, 256, 1024, 4096, 16384), vector=(1,), look_back=(0, 1), two_pass=(1,),
        ),
        factors(k.ScanSchedule, lanes=LANES[:4], rounds=(1, 2, 4, 8), vector=(1, 4), look_back=(0, 1)),
    )  # fmt: skip

    def expand(self, r: ExpansionRequest) -> Expansion:
        count, dtype = r.count(0), r.dtype()
        schedule = k.prefix_schedule(count, r.target, r.owns_grid, r.workers or 1, dtype)
        schedule = r.at(schedule)
        if schedule.look_back and (not r.owns_grid or count is None):
            raise ValueError(
                "a look-back needs state of its own, and a known count: only for a pipeline's stage"
            )
        program = r.build(k.prefix, dtype, schedule)
        if not schedule.look_back:
            return Expansion(program, schedule, 1)
        assert count is not None
        scratch = {"state": k.prefix_state(schedule, count, dtype), "ticket": 1}
        return Expansion(program, schedule, k.prefix_grid(schedule, count), scratch)

    def reference(self, x: Array) -> Array:
        """Integers wrap; f32 is summed in f64 and rounded once, f64 in f64."""
        if x.dtype == "float32":
            return x.astype("float64").cumsum().astype("float32")
        return x.cumsum(dtype=x.dtype)

    def sample(self, rng: Any, reads: Sequence[Buffer], params: Mapping[str, int]) -> list[Array]:
        """Floats of 0 and above, so that sums do not cancel."""
        return [abs(x) if x.dtype.kind == "f" else x for x in super().sample(rng, reads, params)]

    def params(self, x: Any) -> dict[str, int]:
        if x.count > MAX_ELEMENTS:
            raise ValueError(f"x has {x.count} elements; at most 2^32 - 1")
        return {}

    def gradient(self, call: Any, kept: Any, g: Tensor, needed: Any) -> list[Tensor]:
        """Element i adds to the sums from i on, so the gradient is the scan of `g` from its end."""
        return [call(g.reshape(-1).flip(0)).flip(0).reshape(g.shape)]
