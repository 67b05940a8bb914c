"""Copies of a program or pipeline to run, so that specialization and passes do not change the caller's module."""

from __future__ import annotations

from dataclasses import replace

from ..ir.pipeline import Launch, Pipeline, Repeat, Stage
from ..ir.program import Block, Func, Module, Program, Value
from ..ir.rewrite import clone

__all__ = ["copy_for", "copy_module", "copy_pipeline", "copy_program"]


def copy_for(module: Module, entry: Program | Pipeline) -> Module:
    """A module with copies of `entry`, of the programs that it launches, and of all functions."""
    launched: set[str] = set()
    if isinstance(entry, Pipeline):
        launched = {stage.program for stage in entry.walk() if isinstance(stage, Launch)}
    copied = Module(source=module.source, version=module.version)
    for item in module.order:
        is_launched = isinstance(item, Program) and item.name in launched
        if isinstance(item, Func) or item is entry or is_launched:
            copied.add(_copy(item))
    return copied


def copy_program(program: Program, module: Module | None) -> tuple[Program, Module]:
    """A copy of `program` in a module of its own, with copies of all functions of `module`."""
    copied = Module(source=None if module is None else module.source)
    for func in module.funcs.values() if module is not None else ():
        copied.add(_func(func))
    copy = _program(program)
    copied.add(copy)
    return copy, copied


def copy_module(module: Module) -> Module:
    """A module with copies of all that is in this one."""
    copied = Module(source=module.source, version=module.version)
    for item in module.order:
        copied.add(_copy(item))
    return copied


def _copy(item: Func | Program | Pipeline) -> Func | Program | Pipeline:
    if isinstance(item, Func):
        return _func(item)
    return _program(item) if isinstance(item, Program) else copy_pipeline(item)


def _func(func: Func) -> Func:
    args = tuple(Value(a.name, a.type) for a in func.params)
    ops = clone(func.body.ops, dict(zip(func.params, args, strict=True)))
    return Func(func.name, func.results, Block(args, ops), func.loc)


def _program(program: Program) -> Program:
    buffers = {name: replace(buffer) for name, buffer in program.buffers.items()}
    specs = {name: replace(spec) for name, spec in program.specs.items()}
    params = {name: replace(param) for name, param in program.params.items()}
    body = Block((), clone(program.body.ops, {}))
    return replace(program, buffers=buffers, specs=specs, params=params, body=body)


def copy_pipeline(pipeline: Pipeline) -> Pipeline:
    """A copy of a pipeline, with declarations and stages of its own."""
    buffers = {name: replace(buffer) for name, buffer in pipeline.buffers.items()}
    specs = {name: replace(spec) for name, spec in pipeline.specs.items()}
    params = {name: replace(param) for name, param in pipeline.params.items()}
    stages, removed = [_stage(stage) for stage in pipeline.stages], dict(pipeline.removed)
    return replace(pipeline, specs=specs, buffers=buffers, params=params, stages=stages, removed=removed)


def _stage(stage: Stage) -> Stage:
    if isinstance(stage, Repeat):
        return Repeat(stage.times, [_stage(inner) for inner in stage.stages], stage.loc)
    if isinstance(stage, Launch):
        return replace(stage, notes=dict(stage.notes), params=dict(stage.params))
    return replace(stage)
