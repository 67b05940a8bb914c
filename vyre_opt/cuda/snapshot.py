"""Whether a program is still the one that was compiled, without printing it again.

A fingerprint takes the program's whole text, which costs more than a launch.  Looking
whether each op is the same object with the same operands and attributes does not.
"""

from __future__ import annotations

from copy import copy
from typing import Any

from ..ir.program import Op
from ..lowering.nvptx import Unit

__all__ = ["Snapshot"]


class Snapshot:
    """What a program and the functions of its module were made of at one moment."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.ops = [(op, op.definition, op.operands, dict(op.attrs)) for op in _ops(unit)]
        self.head = _head(unit, copied=True)

    def holds(self) -> bool:
        """Whether nothing has changed since."""
        if self.head != _head(self.unit, copied=False):
            return False
        now = _ops(self.unit)
        if len(now) != len(self.ops):
            return False
        return all(
            op is was and op.definition is row and op.operands == operands and op.attrs == attrs
            for op, (was, row, operands, attrs) in zip(now, self.ops, strict=True)
        )


def _ops(unit: Unit) -> list[Op]:
    found = list(unit.program.walk())
    if unit.module is not None:
        for func in unit.module.funcs.values():
            found += func.walk()
    return found


def _head(unit: Unit, copied: bool) -> tuple[Any, ...]:
    """All of a program that is not in its ops."""
    program = unit.program
    parts = [*program.buffers.values(), *program.specs.values()]
    return (program.name, program.workgroup, program.grid, [copy(p) for p in parts] if copied else parts)
