"""Runs pipelines stage by stage on the interpreter, for tests of what passes make of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from vyre_opt import dispatcher
from vyre_opt.execution.arrays import storage_type
from vyre_opt.ir import AccessMode, HostRead, Launch, Module, Repeat
from vyre_opt.ir.grids import evaluate
from vyre_opt.ir.pipeline import Stage

Seen = list[tuple[str, bytes]]


def run_stages(module: Module, name: str = "main", lengths: Mapping[str, int] | None = None) -> Seen:
    """What the host sees: each host read in turn, then the outputs.

    Every buffer starts with numbers of its own, the same for each run; `lengths` are those that the caller says.
    """
    pipeline = module.pipelines[name]
    memory: dict[str, np.ndarray] = {}
    sizes: dict[str, int] = {}
    for buffer in pipeline.buffers.values():
        count = buffer.count
        if count is None:
            count = evaluate(buffer.size, sizes) if buffer.size is not None else (lengths or {})[buffer.name]
        sizes[buffer.name] = count
        seeds = np.random.default_rng(sum(buffer.name.encode()) * 31 + count)
        stored = np.dtype(storage_type(buffer.dtype))
        numbers = seeds.integers(0, 120, count, dtype=np.uint8)
        memory[buffer.name] = numbers.astype(stored)
    seen: Seen = []
    ref = dispatcher("ref")

    def run(stages: list[Stage]) -> None:
        for stage in stages:
            if isinstance(stage, Repeat):
                for _ in range(stage.times):
                    run(stage.stages)
            elif isinstance(stage, HostRead):
                seen.append((stage.buffer, memory[stage.buffer].tobytes()))
            else:
                assert isinstance(stage, Launch)
                program = module.programs[stage.program]
                arrays = [memory[b] for b in stage.buffers]
                outputs = iter(ref.dispatch(program, arrays, stage.workgroups(sizes), module=module))
                for formal, actual in zip(program.bound_buffers, stage.buffers, strict=True):
                    if formal.is_output:
                        memory[actual] = next(outputs)

    run(pipeline.stages)
    for buffer in pipeline.buffers.values():
        if buffer.live_out or buffer.access is AccessMode.WRITE:
            seen.append((buffer.name, memory[buffer.name].tobytes()))
    return seen


@pytest.fixture(scope="session")
def run_pipeline() -> Callable[..., Seen]:
    """`run_pipeline(module, "main")`: see `run_stages`."""
    return run_stages
