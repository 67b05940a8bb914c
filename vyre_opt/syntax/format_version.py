"""The version of the text format that a module needs."""

from __future__ import annotations

from ..ir.grids import params_of
from ..ir.ops import OPS
from ..ir.pipeline import Fill, KernelStage, Pipeline
from ..ir.program import Func, Program

__all__ = ["least_version"]


def least_version(item: Program | Func | Pipeline) -> int:
    """The first version of the format that has all that is in `item`."""
    if isinstance(item, Pipeline):
        return _of_pipeline(item)
    if isinstance(item, Program) and (
        item.params
        or item.prefer_shared is not None
        or item.cluster is not None
        or any(buffer.dimensions > 1 for buffer in item.buffers.values())
    ):
        return 2
    version, blocks = 1, [item.body]
    for block in blocks:
        for op in block.ops:  # as `walk` does, without its generator: this runs after each pass
            if op.definition.since > version or "dimension" in op.attrs:  # of a `len`
                version = max(2, op.definition.since)
            if op.regions:
                blocks += op.regions
    return version


def _of_pipeline(pipeline: Pipeline) -> int:
    buffers = pipeline.buffers.values()
    if (
        pipeline.specs
        or pipeline.params
        or any(buffer.sizes or buffer.dimensions > 1 for buffer in buffers)
        or any(name for extent in pipeline.extents for name in params_of(extent))
    ):
        return 2
    stages = [*pipeline.walk()]
    if any(isinstance(stage, Fill) for stage in stages):
        return 2
    return max([OPS[stage.kernel].since for stage in stages if isinstance(stage, KernelStage)], default=1)
