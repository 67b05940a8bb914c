"""Drops stages of pipelines, rounds of repeats, and what launches say beside the program and its buffers."""

from __future__ import annotations

from ..ir.pipeline import Launch, Pipeline, Repeat, Stage
from ..ir.program import Module
from .removal import remove_stages
from .variants import Selection

__all__ = ["drop_launch_parts", "drop_stages", "unroll_repeats"]


def drop_stages(module: Module, selection: Selection) -> None:
    """Launches, host reads and repeats of pipelines."""
    for pipeline in module.pipelines.values():
        remove_stages(pipeline, {id(stage) for stage in pipeline.walk() if selection.drops()})


def unroll_repeats(module: Module, selection: Selection) -> None:
    """Repeats, in whose place stand their stages, once."""
    for pipeline in module.pipelines.values():
        pipeline.stages = _unrolled(pipeline.stages, selection)


def _unrolled(stages: list[Stage], selection: Selection) -> list[Stage]:
    left: list[Stage] = []
    for stage in stages:
        if isinstance(stage, Repeat):
            is_dropped = selection.drops()
            stage.stages = _unrolled(stage.stages, selection)
            left += stage.stages if is_dropped else [stage]
        else:
            left.append(stage)
    return left


def drop_launch_parts(module: Module, selection: Selection) -> None:
    """Rounds of repeats but two, notes, and grids but of one workgroup; of programs, too, with their hints."""
    for pipeline in module.pipelines.values():
        _drop_parts(pipeline, selection)
    for program in module.programs.values():
        if program.grid is not None and selection.drops():
            program.grid = None
        if program.prefer_shared is not None and selection.drops():
            program.prefer_shared = None
        if program.cluster is not None and selection.drops():
            program.cluster = None


def _drop_parts(pipeline: Pipeline, selection: Selection) -> None:
    for stage in pipeline.walk():
        if isinstance(stage, Repeat) and stage.times > 2 and selection.drops():
            stage.times = 2
        if not isinstance(stage, Launch):
            continue
        for name in [name for name in stage.notes if selection.drops()]:
            del stage.notes[name]
        for name in [name for name in stage.params if selection.drops()]:
            del stage.params[name]
        for axis in range(3):
            if stage.grid[axis] != 1 and selection.drops():
                x, y, z = (1 if other == axis else extent for other, extent in enumerate(stage.grid))
                stage.grid = (x, y, z)
