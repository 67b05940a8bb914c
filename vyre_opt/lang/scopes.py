"""Scopes: the meanings of Python's names at each op of a kernel that is translated for a debugger (see ir/scopes.py)."""

from __future__ import annotations

from typing import Any

from ..ir.program import Block, Op, Value
from ..ir.scopes import BufferName, LocalName, Scope, ScopedLocation, ValueName
from .bindings import BufferView, LocalArray, Static

__all__ = ["settle_scopes"]


def settle_scopes(body: Block) -> None:
    """Name the values of a body uniquely, and have its scopes refer to them so."""
    named: dict[str, int] = {}
    values: set[Value] = set()
    scopes: dict[int, Scope] = {}
    _name_block(body, named, values)
    for op in _ops(body):
        if isinstance(op.loc, ScopedLocation):
            scopes[id(op.loc.scope)] = op.loc.scope
    for scope in scopes.values():
        bindings = {name: _settled(binding, values) for name, binding in scope.names.items()}
        scope.names = {name: binding for name, binding in bindings.items() if binding is not _ABSENT}


_ABSENT = object()


def _settled(binding: Any, values: set[Value]) -> Any:
    if isinstance(binding, Value):
        return ValueName(binding.name) if binding in values else _ABSENT
    if isinstance(binding, BufferView):
        return BufferName(binding.buffer.name)
    if isinstance(binding, tuple):
        parts = [_settled(part, values) for part in binding]
        if any(part is _ABSENT for part in parts):
            return _ABSENT
        if isinstance(binding, LocalArray):
            return LocalName(tuple(parts), binding.shape)
        return getattr(binding, "_make", tuple)(parts)
    return binding.value if isinstance(binding, Static) else _ABSENT


def _name_block(block: Block, named: dict[str, int], values: set[Value]) -> None:
    for arg in block.args:
        _name(arg, named, values)
    for op in block.ops:
        for result in op.results:
            _name(result, named, values)
        for region in op.regions:
            _name_block(region, named, values)


def _name(value: Value, named: dict[str, int], values: set[Value]) -> None:
    values.add(value)
    base = name = value.name
    while name in named:
        named[base] += 1
        name = f"{base}_{named[base]}"
    named[name] = 0
    if name != base:
        value.name = name


def _ops(block: Block) -> list[Op]:
    return [inner for op in block.ops for inner in op.walk()]
