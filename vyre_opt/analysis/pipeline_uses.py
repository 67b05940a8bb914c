"""Who uses what in the pipelines of a module: found in one walk, since pipelines may be long."""

from __future__ import annotations

from collections import Counter, defaultdict

from ..ir.grids import fold, lengths_of
from ..ir.pipeline import HostRead, Launch, Pipeline, Repeat
from ..ir.program import Module

__all__ = ["PipelineUses"]


class PipelineUses:
    """`launches` of each program by its name, and of each pipeline:

    `counts`: how many stages name a buffer, as often as they name it (a grid does not count);
    `host`: the buffers that the host reads; `grids`: the launches whose grids ask for a length.
    """

    def __init__(self, module: Module) -> None:
        self.launches: dict[str, list[tuple[Pipeline, Launch]]] = defaultdict(list)
        self.counts: dict[Pipeline, Counter[str]] = {}
        self.host: dict[Pipeline, set[str]] = {}
        self.grids: dict[Pipeline, dict[str, list[Launch]]] = {}
        for pipeline in module.pipelines.values():
            self._walk(pipeline)

    def _walk(self, pipeline: Pipeline) -> None:
        counts = self.counts[pipeline] = Counter()
        host: set[str] = set()
        grids: dict[str, list[Launch]] = defaultdict(list)
        for stage in pipeline.walk():
            if isinstance(stage, Repeat):
                continue
            if isinstance(stage, HostRead):
                host.add(stage.buffer)
                counts[stage.buffer] += 1
                continue
            counts.update(stage.buffers)
            if isinstance(stage, Launch):
                self.launches[stage.program].append((pipeline, stage))
                for name in {name for extent in stage.grid for name in lengths_of(extent)}:
                    grids[name].append(stage)
        self.host[pipeline], self.grids[pipeline] = host, grids

    def drop(self, pipeline: Pipeline, stage: Launch, place: int) -> None:
        """Take the argument at `place` out of a launch, and its buffer out of the pipeline if no other
        stage names it; grids keep its length as a number."""
        name = stage.buffers[place]
        stage.buffers = stage.buffers[:place] + stage.buffers[place + 1 :]
        self.counts[pipeline][name] -= 1
        if self.counts[pipeline][name]:
            return
        length = {name: pipeline.buffers.pop(name).count}
        for launch in self.grids[pipeline].pop(name, ()):
            x, y, z = (fold(extent, length) for extent in launch.grid)
            launch.grid = (x, y, z)
