"""Whether a buffer is a hand-off that nobody else sees: neither the host, nor other stages of a pipeline; and whether a
pipeline is the one that it was, but for what a pass says."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace

from ..ir.grids import GridCall
from ..ir.pipeline import HostRead, Launch, Pipeline, Repeat, Stage
from ..ir.program import AccessMode, Buffer, Module, Program
from ..records import dataclass
from ..rewriting.cloning import copy_module
from ..rewriting.demanded_extents import declare_demands, demands
from .lengths import LengthTerms

__all__ = ["Changes", "difference", "lost_demands", "who_sees", "who_sees_argument"]


@dataclass(frozen=True)
class Changes:
    """Changes of a pipeline by a pass: the launches, by their ids, that are `joined` with others, and those `absorbed` by
    them; and the `dropped` arguments of launches, by program and index."""

    joined: Container[int]
    absorbed: Container[int]
    dropped: Mapping[str, Container[int]]


def difference(before: Pipeline, after: Pipeline, changes: Changes) -> str | None:
    """Other difference between the pipelines; None without one."""
    if before.params != after.params:
        return "its params are declared otherwise"
    lengths = LengthTerms(before.buffers)
    for name, buffer in before.buffers.items():
        if name in after.buffers and not _is_same_buffer(buffer, after.buffers[name], lengths):
            return f"@{name} is declared otherwise"
        if name not in after.buffers and _is_the_hosts(buffer):
            return f"@{name}, which is the host's, is not there"
    if after.buffers.keys() - before.buffers.keys():
        return "it has other buffers"
    return _stages_differ(before.stages, after.stages, lengths, changes)


def _is_same_buffer(was: Buffer, now: Buffer, lengths: LengthTerms) -> bool:
    """Lengths of buffers that left became what they are in sizes."""
    if was.dimensions != now.dimensions or replace(now, shape=was.shape, sizes=was.sizes) != was:
        return False
    formal_lengths = [GridCall("len", (was.name, *dimension)) for dimension in _dimensions(was)]
    extents = (
        length if extent is None else extent
        for length, extent in zip(formal_lengths, now.extents, strict=True)
    )
    return all(map(lengths.agree, formal_lengths, extents))


def _dimensions(buffer: Buffer) -> list[tuple[int, ...]]:
    """Results of `len` of a buffer for each dimension."""
    return [(dimension,) for dimension in range(buffer.dimensions)] if buffer.dimensions > 1 else [()]


def lost_demands(before: Module, after: Module) -> Iterator[tuple[Pipeline, str]]:
    """The first extent of each pipeline that a launch demanded, and that neither a launch nor a declaration does any more."""
    declared = copy_module(after)
    declare_demands(declared)
    for name, was in before.pipelines.items():
        now = declared.pipelines[name].buffers
        terms = LengthTerms({**now, **{key: b for key, b in was.buffers.items() if key not in now}})
        still = set(demands(after.pipelines[name], after))
        for buffer, dimension, number in demands(was, before):
            length = GridCall("len", (buffer, *_dimensions(was.buffers[buffer])[dimension]))
            if (buffer, dimension, number) not in still and not terms.agree(length, number):
                yield was, f"nothing demands {number} elements of @{buffer} any more"
                break


def _stages_differ(
    before: Sequence[Stage], after: Sequence[Stage], lengths: LengthTerms, changes: Changes
) -> str | None:
    kept = [stage for stage in before if id(stage) not in changes.absorbed]
    if len(kept) != len(after):
        return f"it has {len(after)} stages in place of {len(kept)}"
    for was, now in zip(kept, after, strict=True):
        if isinstance(was, Repeat) and isinstance(now, Repeat):
            inner = _stages_differ(was.stages, now.stages, lengths, changes)
            if inner is not None or was.times != now.times:
                return inner or f"a repeat of {was.times} is one of {now.times}"
        elif isinstance(was, Launch) and isinstance(now, Launch):
            if id(was) not in changes.joined and not _is_same_launch(was, now, lengths, changes):
                return f"the launch of @{was.program} is another one"
        elif was != now:
            return "it has another stage"
    return None


def _is_same_launch(was: Launch, now: Launch, lengths: LengthTerms, changes: Changes) -> bool:
    gone = changes.dropped.get(was.program, ())
    arguments = tuple(name for index, name in enumerate(was.buffers) if index not in gone)
    has_grid = all(map(lengths.agree, was.grid, now.grid))
    return (was.program, arguments, was.params) == (now.program, now.buffers, now.params) and has_grid


def who_sees(pipeline: Pipeline, name: str, inside: Container[int]) -> str | None:
    """User of a buffer of a pipeline besides the stages `inside`, which are given by their ids; None without one."""
    if _is_the_hosts(pipeline.buffers[name]):
        return f"@{name} is the host's"
    for stage in pipeline.walk():
        named = (stage.buffer,) if isinstance(stage, HostRead) else getattr(stage, "buffers", ())
        if name in named and id(stage) not in inside:
            return f"@{name} is used by another stage"
    return None


def who_sees_argument(module: Module, program: Program, buffer: str) -> str | None:
    """User of the contents that a buffer of a program leaves behind; None without one."""
    formal = program.buffers[buffer]
    if _is_the_hosts(formal):
        return f"@{buffer} is the host's"
    if formal.binding is None:
        return None
    index = program.bound_buffers.index(formal)
    for pipeline in module.pipelines.values():
        for stage in pipeline.walk():
            if isinstance(stage, Launch) and stage.program == program.name:
                seen = who_sees(pipeline, stage.buffers[index], {id(stage)})
                if seen is None and stage.buffers.count(stage.buffers[index]) > 1:
                    seen = f"@{buffer} is another argument too"
                if seen is not None:
                    return seen
    return None


def _is_the_hosts(buffer: Buffer) -> bool:
    return buffer.live_in or buffer.live_out or buffer.access in (AccessMode.READ, AccessMode.WRITE)
