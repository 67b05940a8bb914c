"""Drops programs, functions and pipelines, and what programs declare."""

from __future__ import annotations

from typing import Any

from ..ir.grids import params_of
from ..ir.ops import OPS
from ..ir.pipeline import Launch
from ..ir.program import Module, Program
from ..ir.rewrite import bodies
from .removal import (
    buffers_of,
    buffers_of_stage,
    called_functions,
    remove_argument,
    remove_ops,
    remove_stages,
)
from .variants import Selection

__all__ = ["drop_buffers", "drop_items", "drop_unused", "fix_parameters", "renumber_bindings"]


def drop_items(module: Module, selection: Selection) -> None:
    """Programs with their launches, functions with their calls, and pipelines."""
    for item in [item for item in module.order if selection.drops()]:
        module.remove(item)
    for body in bodies(module):
        remove_ops(
            body, [op for op in body.walk() if op.name == "call" and op.attrs["callee"] not in module.funcs]
        )
    for pipeline in module.pipelines.values():
        stages = [stage for stage in pipeline.walk() if isinstance(stage, Launch)]
        remove_stages(pipeline, {id(stage) for stage in stages if stage.program not in module.programs})


def drop_unused(module: Module, selection: Selection) -> None:
    """Functions without calls, and buffers, specs and params that no op, stage or type names."""
    called = called_functions(module)
    for func in [*module.funcs.values()]:
        if func.name not in called and selection.drops():
            module.remove(func)
    for program in module.programs.values():
        named = {name for op in program.walk() for name in buffers_of(op)}
        for name in [name for name in program.buffers if name not in named]:
            if selection.drops():
                remove_argument(module, program, program.buffers[name])
                del program.buffers[name]
        for kind, table in (("spec", program.specs), ("param", program.params)):
            named = {op.attrs[kind] for op in program.walk() if op.name == kind}
            for name in [name for name in table if name not in named]:
                if selection.drops():
                    del table[name]
                    if kind == "param":
                        _remove_launch_param(module, program, name)
    for pipeline in module.pipelines.values():
        types = {item.dtype.element.name for item in pipeline.buffers.values()}
        types |= {param.dtype.name for param in pipeline.params.values()}
        passed = {v for s in pipeline.walk() if isinstance(s, Launch) for v in s.params.values()}
        sizes = {name for extent in pipeline.extents for name in params_of(extent)}
        named = {name for stage in pipeline.walk() for name in buffers_of_stage(stage)}
        unused: list[tuple[dict[str, Any], str]] = [
            *((pipeline.specs, name) for name in pipeline.specs if f"@{name}" not in types),
            *((pipeline.params, name) for name in pipeline.params if name not in passed | sizes),
            *((pipeline.buffers, name) for name in pipeline.buffers if name not in named),
        ]
        for table, name in unused:
            if selection.drops():
                del table[name]


def drop_buffers(module: Module, selection: Selection) -> None:
    """Buffers of programs with all ops that name them, and buffers of pipelines with all stages that do."""
    for program in module.programs.values():
        for name in [name for name in program.buffers if selection.drops()]:
            remove_ops(program.body, [op for op in program.walk() if name in buffers_of(op)])
            remove_argument(module, program, program.buffers[name])
            del program.buffers[name]
    for pipeline in module.pipelines.values():
        for name in [name for name in pipeline.buffers if selection.drops()]:
            remove_stages(
                pipeline, {id(stage) for stage in pipeline.walk() if name in buffers_of_stage(stage)}
            )
            del pipeline.buffers[name]


def fix_parameters(module: Module, selection: Selection) -> None:
    """Specs and params, in whose place stands the constant that they are by default, or zero."""
    for program in module.programs.values():
        for kind, table in (("spec", program.specs), ("param", program.params)):
            for name, declared in [*table.items()]:
                is_scalar = declared.dtype.has_arithmetic and not isinstance(declared.default, (tuple, str))
                if not (is_scalar and selection.drops()):
                    continue
                for op in program.walk():
                    if op.name == kind and op.attrs[kind] == name:
                        op.definition, op.attrs = OPS["const"], {"value": declared.default or 0}
                del table[name]
                if kind == "param":
                    _remove_launch_param(module, program, name)


def _remove_launch_param(module: Module, program: Program, name: str) -> None:
    for pipeline in module.pipelines.values():
        for stage in pipeline.walk():
            if isinstance(stage, Launch) and stage.program == program.name:
                stage.params.pop(name, None)


def renumber_bindings(module: Module, selection: Selection) -> None:
    """Gaps between bindings."""
    for program in module.programs.values():
        bound = program.bound_buffers
        if [b.binding for b in bound] != [*range(len(bound))] and selection.drops():
            for number, buffer in enumerate(bound):
                buffer.binding = number
