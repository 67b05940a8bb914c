"""tt.chain: a vector times matrices that follow one another in one buffer, of f32 or signed 16.16."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from math import sqrt
from operator import matmul
from typing import Any

from ...ir.ops import MAX_RANK
from ...ir.program import Buffer
from ...ir.types import DataType
from .. import chain as k
from ..call import Call, CopyOfInput, InputSlice, KernelCall, Steps, launch
from ..expansion import Expansion, ExpansionRequest
from . import named_kernel
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

_factors = partial(factors, k.ChainSchedule)


class Chain(NamedKernel):
    name = "tt.chain"
    operator = "tt_chain(acc, cores[])"
    keeps = "inputs"
    gpu = (
        _factors(lanes=LANES[1:], vector=(1, 2, 4), prefetch=(0, 16, 32, 64)),
        _factors(lanes=(*LANES, 320, 384), workgroups=(2, 4, 8, 10, 12, 16, 32, 64)),
    )
    cpu = (
        _factors(lanes=LANES[:5], vector=(1, 2, 4), prefetch=(0, 16, 32)),
        _factors(lanes=(32,), vector=(1,), prefetch=(0,), stream_rows=(1, 2, 4, 8, 16)),
    )

    def expand(self, r: ExpansionRequest) -> Expansion:
        ranks = k.uniform_ranks(**r.params)
        schedule = r.at(k.chain_schedule(ranks, r.target, r.owns_grid))
        if schedule.workgroups > 1 and not r.owns_grid:
            raise ValueError(
                "a chain over several workgroups needs a grid of its own: only for a pipeline's stage"
            )
        return Expansion(r.build(k.chain, ranks, r.dtype(), schedule), schedule, schedule.workgroups)

    def reference(
        self, acc: Array, cores: Array, steps: int, rank: int, first: int = 0, last: int = 0
    ) -> Array:
        """f32 is computed in f64 and rounded once."""
        ranks = k.uniform_ranks(steps, rank, first, last)
        cells = sum(x * y for x, y in pairwise(ranks))
        if len(acc) != ranks[0] or len(cores) != cells:
            raise ValueError(
                f"an accumulator of {len(acc)} and cores of {len(cores)} elements; "
                f"ranks {ranks[0]} to {ranks[-1]} take {ranks[0]} and {cells}"
            )
        wide = "float64" if acc.dtype == "float32" else acc.dtype
        step = named_kernel("tt.contract_step").reference
        start, out = 0, acc.astype(wide)
        for rows, columns in pairwise(ranks):
            core = cores[start : start + rows * columns].astype(wide)
            start += rows * columns
            out = out @ core.reshape(rows, columns) if wide == "float64" else step(out, core)
        return out.astype(acc.dtype)

    def sample(self, rng: Any, reads: Sequence[Buffer], params: Mapping[str, int]) -> list[Array]:
        import numpy as np

        ranks = k.uniform_ranks(**params)
        acc, buffer = reads
        counts = [acc.count, buffer.count]
        if counts != [ranks[0], sum(x * y for x, y in pairwise(ranks))]:
            raise ValueError(f"ranks {ranks[0]} to {ranks[-1]} do not take buffers of {counts} elements")
        # so scaled, the values neither grow nor vanish along the chain
        cores = [numbers(rng, buffer, x * y, 1 / sqrt(x)) for x, y in pairwise(ranks)]
        return [numbers(rng, acc), np.concatenate(cores)]

    def call(self, device: TargetDevice, arrays: Sequence[OperandLike], *options: Any) -> Call | Steps:
        """Chain a vector through cores in arrays of their own, in one launch where that is faster."""
        acc, *cores = arrays
        element, ranks = element_type(acc, "acc", self.row.roles[0].types), [acc.count]
        for number, core in enumerate(cores):
            element_type(core, f"core {number}", (element,))
            if len(core.shape) != 2 or core.shape[0] != ranks[-1]:
                raise ValueError(_unlinked(number, core.shape, ranks[-1]))
            ranks.append(core.shape[1])
        if not cores:
            return CopyOfInput()
        if not all(1 <= rank <= MAX_RANK for rank in ranks):
            raise ValueError(f"ranks are 1 to {MAX_RANK}: {ranks}")
        groups = k.chain_groups(ranks, device.target, device.workers)
        if len(groups) == 1:
            return self._together(device, element, ranks)
        steps: list[tuple[KernelCall, tuple[int | InputSlice, ...]]] = []
        for first, last in groups:
            make = contraction if last - first == 1 else self._together
            before = len(arrays) + len(steps) - 1 if steps else 0
            call = make(device, element, ranks[first : last + 1])
            steps.append((call, (before, *range(first + 1, last + 1))))
        return Steps(tuple(steps))

    def _together(self, device: TargetDevice, element: DataType, ranks: Sequence[int]) -> KernelCall:
        """All cores in one launch."""
        schedule = k.chain_schedule(ranks, device.target)
        program = k.chain(tuple(ranks), element, schedule, separate=True)
        return launch(program, schedule.workgroups, (ranks[-1],))

    def shape(self, acc: Any, *cores: Any) -> tuple[int, ...]:
        if not cores:
            raise ValueError("a chain has at least one core")
        return tuple(cores[-1].shape[1:])

    def gradient(
        self, call: Any, kept: Sequence[Tensor], g: Tensor, needed: Sequence[bool]
    ) -> list[Tensor | None]:
        """Gradients from v_k, the vector before core k, and h_k, the gradient of v_k: the gradient of core k is the outer product
        of v_k and h_(k+1), and h_k = core_k h_(k+1)."""
        acc, *cores = kept
        vectors = list(accumulate(cores[:-1], matmul, initial=acc.reshape(-1)))
        gradients: list[Tensor | None] = []
        for core, vector, is_needed in zip(cores[::-1], vectors[::-1], needed[:0:-1], strict=True):
            gradients.append(vector.outer(g) if is_needed else None)
            g = core @ g
        gradients.append(g.reshape(acc.shape) if needed[0] else None)
        return gradients[::-1]


def contraction(device: TargetDevice, element: DataType, ranks: Sequence[int]) -> KernelCall:
    """The launch of a chain's step, of one core."""
    rows, columns = ranks
    sizes = rows, rows * columns
    return named_kernel("tt.contract_step").one_launch(device, [element] * 2, sizes, (columns,))


def _unlinked(number: int, shape: Sequence[int], rank: int) -> str:
    """The message for a core whose rows are not as many as the vector before it has elements."""
    before = "acc has" if number == 0 else f"core {number - 1} gives a vector of"
    message = f"core {number} has shape {tuple(shape)}, and {before} {rank} elements, which takes {rank} rows"
    if tuple(shape[1:]) == (rank,):
        return f"{message}: transpose the core, core.T"
    return f"{message}: pass cores of shapes ({rank}, r1), (r1, r2) and so on"
