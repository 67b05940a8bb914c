"""Whether a program is still the one that was compiled, without printing it again.

A fingerprint takes the program's whole text, which costs more than a launch.  Looking
whether each op is the same object with the same operands and attributes does not.
"""

from __future__ import annotations

from copy import copy
from operator import attrgetter
from typing import Any

from .program import Module, Op, Program

__all__ = ["Snapshot"]

_PARTS = attrgetter("definition", "operands", "attrs")
"""Of an op; comparing lists of them looks at identity first, which is nearly always all it takes."""


class Snapshot:
    """What a program and the functions of its module were made of at one moment."""

    def __init__(self, program: Program, module: Module | None) -> None:
        self.program = program
        self.module = module
        self.ops = self._ops()
        self.parts = [(op.definition, op.operands, dict(op.attrs)) for op in self.ops]
        self.head = self._head(copied=True)

    def holds(self) -> bool:
        """Whether nothing has changed since."""
        if self.head != self._head(copied=False):
            return False
        now = self._ops()
        return now == self.ops and list(map(_PARTS, now)) == self.parts

    def _ops(self) -> list[Op]:
        """All ops, in an order that takes little time."""
        all_ops: list[Op] = []
        pending = [self.program.body]
        if self.module is not None:
            pending += [func.body for func in self.module.funcs.values()]
        while pending:
            ops = pending.pop().ops
            all_ops += ops
            for op in ops:
                pending += op.regions
        return all_ops

    def _head(self, copied: bool) -> tuple[Any, ...]:
        """All of a program that is not in its ops."""
        program = self.program
        parts = [*program.buffers.values(), *program.specs.values()]
        return (program.name, program.workgroup, program.grid, [copy(p) for p in parts] if copied else parts)
