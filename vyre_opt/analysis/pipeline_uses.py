"""Uses of programs and buffers in the pipelines of a module, collected in one walk since pipelines may be long."""

from __future__ import annotations

from collections import Counter, defaultdict

from ..ir.grids import fold, lengths_of, renamed_lengths
from ..ir.pipeline import HostRead, Launch, Pipeline, Repeat
from ..ir.program import Module

__all__ = ["PipelineUses"]


class PipelineUses:
    """`launches`: those of each program, by its name.  For each pipeline:

    `counts`: how often stages name each buffer as an argument or a host read (not in a grid).
    `host`: the buffers that the host reads.
    `grids`: for each buffer, the launches whose grids use its length.
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

    def drop(self, pipeline: Pipeline, stage: Launch, position: int) -> None:
        """Remove the argument at `position` from a launch, and its buffer from the pipeline if no other
        stage names it; in grids its length becomes a number."""
        name = stage.buffers[position]
        stage.buffers = stage.buffers[:position] + stage.buffers[position + 1 :]
        self.counts[pipeline][name] -= 1
        if self.counts[pipeline][name]:
            return
        length = renamed_lengths(pipeline.static_lengths, {name: name})
        del pipeline.buffers[name]
        pipeline.fold_sizes(length)
        for launch in self.grids[pipeline].pop(name, ()):
            x, y, z = (fold(extent, length) for extent in launch.grid)
            launch.grid = (x, y, z)
