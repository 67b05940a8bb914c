"""Whether a buffer is a hand-off that nobody else sees: neither the host, nor other stages of a pipeline."""

from __future__ import annotations

from collections.abc import Container

from ..ir.pipeline import HostRead, Launch, Pipeline
from ..ir.program import AccessMode, Buffer, Module, Program

__all__ = ["who_sees", "who_sees_argument"]


def who_sees(pipeline: Pipeline, name: str, inside: Container[int]) -> str | None:
    """Who needs a buffer of a pipeline beside the stages `inside`, by their ids; None for nobody."""
    if _is_the_hosts(pipeline.buffers[name]):
        return f"@{name} is the host's"
    for stage in pipeline.walk():
        named = (stage.buffer,) if isinstance(stage, HostRead) else getattr(stage, "buffers", ())
        if name in named and id(stage) not in inside:
            return f"@{name} is used by another stage"
    return None


def who_sees_argument(module: Module, program: Program, buffer: str) -> str | None:
    """Who needs what a buffer of a program leaves behind; None for nobody."""
    own = program.buffers[buffer]
    if _is_the_hosts(own):
        return f"@{buffer} is the host's"
    if own.binding is None:
        return None
    place = program.bound_buffers.index(own)
    for pipeline in module.pipelines.values():
        for stage in pipeline.walk():
            if isinstance(stage, Launch) and stage.program == program.name:
                seen = who_sees(pipeline, stage.buffers[place], {id(stage)})
                if seen is None and stage.buffers.count(stage.buffers[place]) > 1:
                    seen = f"@{buffer} is another argument too"
                if seen is not None:
                    return seen
    return None


def _is_the_hosts(buffer: Buffer) -> bool:
    return buffer.live_in or buffer.live_out or buffer.access in (AccessMode.READ, AccessMode.WRITE)
