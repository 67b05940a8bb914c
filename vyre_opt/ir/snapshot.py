"""Checks cheaply, before each launch, that a program has not changed since it was compiled.

A fingerprint prints the whole program, which takes longer than a launch.  Comparing whether each op
is the same object with the same operands and attributes does not.
"""

from __future__ import annotations

from copy import copy
from operator import attrgetter
from typing import Any

from .program import Module, Op, Program

__all__ = ["Snapshot"]

_PARTS = attrgetter("definition", "operands", "attrs")
"""What is compared of an op.  Comparing lists of these is fast, since Python compares identities first."""


class Snapshot:
    """The ops and declarations of a program, and of the functions of its module, at one moment."""

    def __init__(self, program: Program, module: Module | None) -> None:
        self.program = program
        self.module = module
        self.ops = self._ops()
        # copies of all that a caller can change in place: attributes here, declarations in the head
        self.parts = [(op.definition, op.operands, dict(op.attrs)) for op in self.ops]
        self.head = self._head(copied=True)

    def holds(self) -> bool:
        """Whether the program is unchanged."""
        if self.head != self._head(copied=False):
            return False
        now = self._ops()
        return now == self.ops and list(map(_PARTS, now)) == self.parts

    def _ops(self) -> list[Op]:
        """All ops, in no particular order: that is faster than walking regions recursively."""
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
        """The name, sizes, preference and declarations of the program."""
        program = self.program
        parts = [*program.buffers.values(), *program.specs.values(), *program.params.values()]
        declared = [copy(p) for p in parts] if copied else parts
        return (
            program.name,
            program.workgroup,
            program.grid,
            program.prefer_shared,
            program.cluster,
            declared,
        )
