"""What the launches of a pipeline read and write, as their programs' ops do, and who else sees it.

    launch @a (@x, @mid)      reads @x     writes @mid
    launch @b (@mid, @y)      reads @mid   writes @y          @a hands @mid over to @b

A formal counts as read or written if some op of the program does so, whatever it was declared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..ir.ops import OPS
from ..ir.pipeline import HostRead, KernelStage, Launch, Pipeline, Repeat, Stage
from ..ir.program import Access, Module, Program

__all__ = ["Flow", "Flows", "LaunchRun", "seen_by_host"]


@dataclass(frozen=True, slots=True)
class Flow:
    """The buffers that a stage reads and writes, each once, in the order of its arguments."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LaunchRun:
    """Launches with no other stage between them.

    `outside`: those of their buffers that others see too: the host, other stages of the pipeline,
    or the next round of a repeat.
    """

    launches: tuple[Launch, ...]
    flows: tuple[Flow, ...]
    outside: frozenset[str]


class Flows:
    """Of all pipelines of a module; each program is looked at once."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._used: dict[str, tuple[frozenset[str], frozenset[str]]] = {}

    def of(self, stage: Launch | KernelStage) -> Flow:
        """What a stage reads and writes."""
        if isinstance(stage, KernelStage):
            row = OPS[stage.kernel].kernel
            assert row is not None
            uses = [
                (name, role.access is not Access.WRITE, role.access is not Access.READ)
                for name, role in zip(stage.buffers, row.roles, strict=True)
            ]
        else:
            program = self.module.programs[stage.program]
            read, written = self.used(program)
            formals = [formal.name for formal in program.bound_buffers]
            uses = [(a, f in read, f in written) for a, f in zip(stage.buffers, formals, strict=True)]
        reads = dict.fromkeys(name for name, is_read, _ in uses if is_read)
        writes = dict.fromkeys(name for name, _, is_written in uses if is_written)
        return Flow(tuple(reads), tuple(writes))

    def counts(self, pipeline: Pipeline) -> dict[str, int | None]:
        """Elements of each buffer; an open size is known where a program that takes the buffer has it."""
        found = pipeline.static_lengths
        for stage in pipeline.walk():
            if isinstance(stage, Launch):
                for name, formal in zip(
                    stage.buffers, self.module.programs[stage.program].bound_buffers, strict=True
                ):
                    if found[name] is None:
                        found[name] = formal.count
        return found

    def runs(self, pipeline: Pipeline) -> Iterator[LaunchRun]:
        """The runs of launches, those in repeats included, each as long as it can be."""
        uses = Counter[str]()
        seen = {name for name, buffer in pipeline.buffers.items() if seen_by_host(pipeline, name)}
        for stage in pipeline.walk():
            if isinstance(stage, HostRead):
                seen.add(stage.buffer)
            elif not isinstance(stage, Repeat):
                uses.update(set(stage.buffers))
        for launches, repeats in _consecutive(pipeline.stages):
            flows = tuple(self.of(launch) for launch in launches)
            inside = Counter(name for launch in launches for name in set(launch.buffers))
            outside = {name for name, count in inside.items() if name in seen or count < uses[name]}
            if repeats:
                outside |= _carried(flows)
            yield LaunchRun(tuple(launches), flows, frozenset(outside))

    def used(self, program: Program) -> tuple[frozenset[str], frozenset[str]]:
        """The buffers that a program's ops read, and those that they write."""
        known = self._used.get(program.name)
        if known is not None:
            return known
        read: set[str] = set()
        written: set[str] = set()
        for op in program.walk():
            kernel = op.definition.kernel
            if kernel is not None:
                for name, role in zip(op.attrs["buffers"], kernel.roles, strict=True):
                    if role.access is not Access.WRITE:
                        read.add(name)
                    if role.access is not Access.READ:
                        written.add(name)
            elif isinstance(name := op.attrs.get("buffer"), str):
                if "read" in op.definition.effects:
                    read.add(name)
                if "write" in op.definition.effects:
                    written.add(name)
        found = self._used[program.name] = (frozenset(read), frozenset(written))
        return found


def seen_by_host(pipeline: Pipeline, name: str) -> bool:
    """Whether the caller gives a buffer or gets it back, by its declaration."""
    buffer = pipeline.buffers[name]
    return buffer.live_in or buffer.live_out or buffer.access in (Access.READ, Access.WRITE)


def _consecutive(stages: Sequence[Stage], repeats: bool = False) -> Iterator[tuple[list[Launch], bool]]:
    """Launches without another stage between them, and whether they repeat."""
    run: list[Launch] = []
    for stage in stages:
        if isinstance(stage, Launch):
            run.append(stage)
            continue
        if run:
            yield run, repeats
            run = []
        if isinstance(stage, Repeat):
            yield from _consecutive(stage.stages, repeats=True)
    if run:
        yield run, repeats


def _carried(flows: Sequence[Flow]) -> set[str]:
    """Buffers that a round reads before it writes them."""
    written: set[str] = set()
    carried: set[str] = set()
    for flow in flows:
        carried.update(name for name in flow.reads if name not in written)
        written.update(flow.writes)
    return carried
