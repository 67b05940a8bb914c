"""Uses of programs and buffers in the pipelines of a module, collected in one walk since pipelines may be long."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from ..ir.grids import MAX_DEPTH, MAX_REPEATED_DEPTH, Extent, GridCall, fold, length_key, lengths_of
from ..ir.pipeline import HostRead, Launch, Pipeline, Repeat
from ..ir.program import AccessMode, Buffer, Module, Program
from ..rewriting.demanded_extents import undeclared_demands
from .equal_lengths import length_numbers

__all__ = ["PipelineUses", "is_host_visible"]


class PipelineUses:
    """`launches`: those of each program, by its name.  For each pipeline:

    `counts`: how often stages name each buffer as an argument or a host read (not in a grid).
    `host`: the buffers that the host reads.
    `demanded`: those of which a launch demands an extent that is not declared, see rewriting/demanded_extents.py.
    `grids`: for each buffer, the launches whose grids use its length.
    """

    def __init__(self, module: Module) -> None:
        self.launches: dict[str, list[tuple[Pipeline, Launch]]] = defaultdict(list)
        self.counts: dict[Pipeline, Counter[str]] = {}
        self.host: dict[Pipeline, set[str]] = {}
        self.demanded: dict[Pipeline, set[str]] = {}
        self.grids: dict[Pipeline, dict[str, list[Launch]]] = {}
        self._numbers: dict[Pipeline, dict[str, tuple[int, ...]]] = {}
        for pipeline in module.pipelines.values():
            self._walk(pipeline)
            self.demanded[pipeline] = undeclared_demands(pipeline, module)

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

    def length_numbers(self, pipeline: Pipeline) -> dict[str, tuple[int, ...]]:
        """See `equal_lengths.length_numbers`; also of buffers that have been removed since."""
        if pipeline not in self._numbers:
            self._numbers[pipeline] = length_numbers(pipeline)
        return self._numbers[pipeline]

    def is_own_scratch(self, program: Program, buffer: Buffer) -> bool:
        """Whether pipelines launch a program, and pass for a buffer what neither the host nor another stage uses, and no
        launch demands an extent of."""
        argument = program.bound_buffers.index(buffer)
        arguments = [(pipeline, launch.buffers[argument]) for pipeline, launch in self.launches[program.name]]
        return bool(arguments) and not any(
            self.counts[pipeline][name] > 1
            or name in self.demanded[pipeline]
            or is_host_visible(pipeline.buffers[name])
            for pipeline, name in arguments
        )

    def drop(self, program: Program, argument: int) -> None:
        """Remove an argument from all launches of a program, and what was passed from pipelines in which no other stage
        names it."""
        for pipeline, launch in self.launches[program.name]:
            name = launch.buffers[argument]
            launch.buffers = launch.buffers[:argument] + launch.buffers[argument + 1 :]
            self.counts[pipeline][name] -= 1
            if not self.counts[pipeline][name]:
                self._remove(pipeline, name)

    def _remove(self, pipeline: Pipeline, name: str) -> None:
        """Remove a buffer that no stage names.  In grids and sizes, its length is replaced by its value.

        It stays where the caller says its length, or where that would be long.
        """
        extents = pipeline.buffers[name].extents
        lengths: dict[str, Extent | None] = {
            length_key(name, at): extent for at, extent in enumerate(extents)
        }
        if len(extents) == 1:
            lengths[name] = extents[0]
        launches = self.grids[pipeline].get(name, ())
        users = [e for e in _sizes(pipeline) if name in lengths_of(e)]
        users += [extent for launch in launches for extent in launch.grid]
        if None in extents or not all(_is_short(extent, users) for extent in extents):
            return
        pipeline.remove_buffer(name)
        pipeline.fold_sizes(lengths)
        for launch in launches:
            x, y, z = (fold(extent, lengths) for extent in launch.grid)
            launch.grid = (x, y, z)
            for length in {length for extent in launch.grid for length in lengths_of(extent)}:
                self.grids[pipeline].setdefault(length, []).append(launch)
        self.grids[pipeline].pop(name, None)


def is_host_visible(buffer: Buffer) -> bool:
    """Whether the host passes a pipeline's buffer or gets it back; it gets back each buffer declared `write`."""
    return buffer.live_in or buffer.live_out or buffer.access in (AccessMode.READ, AccessMode.WRITE)


def _sizes(pipeline: Pipeline) -> Iterator[Extent]:
    yield from (size for buffer in pipeline.buffers.values() for size in buffer.sizes if size is not None)


def _is_short(extent: Extent | None, users: Iterable[Extent]) -> bool:
    """Whether an expression may stand for a length in others: it may be there twice, and nest deeply."""
    if not isinstance(extent, GridCall):
        return True
    deepest = max((user.depth for user in users if isinstance(user, GridCall)), default=0)
    if not deepest:
        return True
    return extent.depth <= MAX_REPEATED_DEPTH and deepest + extent.depth <= MAX_DEPTH
