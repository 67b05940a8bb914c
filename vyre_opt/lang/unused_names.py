"""Values and parameters of a kernel that nothing uses, as its text says.

    def kernel(x: Read[f32], bias: Read[f32], y: Write[f32]):      no line has bias: its call changes nothing
        centred = row - mean        no line has centred: another name stands in its place

A name that begins with an underscore is meant to be unused.  Left out are counters of loops, names that a tuple gives, and what no
arithmetic or reduction computes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..ir.diagnostics import Diagnostic
from .python_source import FunctionSource

__all__ = ["unused_names", "unused_parameters"]

_REDUCTIONS = (
    "workgroup_reduce",
    "workgroup_scan",
    "subgroup_reduce",
    "subgroup_scan",
    "sum",
    "max",
    "min",
    "argmax",
    "argmin",
)


def unused_names(source: FunctionSource) -> Iterator[Diagnostic]:
    """The warnings of a function that a kernel is written as."""
    used, assigned = _used(source), dict[str, ast.Name]()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Assign) and _is_result(node.value):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    assigned.setdefault(target.id, target)
    for name, target in assigned.items():
        if name not in used and not name.startswith("_"):
            help = f"use it, or leave it out; where it is not to be used, name it _{name}"
            yield Diagnostic(
                "warning", f"{name} is computed, and nothing uses it", source.location(target), help=help
            )


def unused_parameters(source: FunctionSource) -> Iterator[Diagnostic]:
    """The warnings of a function that a kernel or a pipeline is written as, one for each array or number that no line of it has."""
    used = _used(source)
    for argument in source.arguments:
        name = argument.arg
        if name not in used and not name.startswith("_"):
            message = f"{source.name} does not use {name}: what a call passes for it changes nothing"
            help = f"use it, or leave it out; where it is not to be used, name it _{name}"
            yield Diagnostic("warning", message, source.location(argument), help=help)


def _used(source: FunctionSource) -> set[str]:
    """Names that a function reads, or assigns to elements of; its docstring uses none."""
    used = set[str]()
    head = source.tree.body[:1] if ast.get_docstring(source.tree) else []
    docstring = {node for statement in head for node in ast.walk(statement)}
    for node in ast.walk(source.tree):
        if node in docstring:
            continue
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
            used.add(node.id)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            used.add(node.target.id)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            used.update(node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):  # an annotation, or a format
            used.update(re.findall(r"\w+", node.value))
    return used


def _is_result(value: ast.expr) -> bool:
    """Whether an expression computes with other values: arithmetic, or a reduction; ids, elements and handles may be there for later."""
    if isinstance(value, ast.Call):
        name = ast.unparse(value.func).rpartition(".")[2]
        return name in _REDUCTIONS
    calls = [ast.unparse(node.func) for node in ast.walk(value) if isinstance(node, ast.Call)]
    return isinstance(value, ast.BinOp) and not any("atomic" in call for call in calls)
