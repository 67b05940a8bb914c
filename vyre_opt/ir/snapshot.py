"""Checks cheaply, before each launch, that a program has not changed since it was compiled.

A fingerprint prints the whole program, which takes longer than a launch.  Comparing whether each op
is the same object with the same operands and attributes does not.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import fields
from operator import attrgetter
from typing import Any

from .program import Block, Func, Module, Op, Program

__all__ = ["Snapshot"]

_PARTS = attrgetter("definition", "operands", "results", "attrs", "regions")
"""What is compared of an op.  Comparing lists of these is fast, since Python compares identities first."""

_BESIDE = frozenset({"body", "loc"})
"""Fields that are compared elsewhere, or have no meaning: every other one is in the head, one that is added later too."""


def _getters(kind: Any) -> tuple[Callable[[Any], tuple[Any, ...]], Callable[[Any], tuple[Any, ...]]]:
    """What gets the values of a class beside its body, and what its declarations, which can be changed in place."""
    compared = [field for field in fields(kind) if field.name not in _BESIDE]
    values, declared = ([f.name for f in compared if (f.default_factory is dict) is d] for d in (False, True))
    return attrgetter(*values), attrgetter(*declared) if declared else lambda it: ()


_PROGRAM, _DECLARED = _getters(Program)
_FUNC, _ = _getters(Func)


class Snapshot:
    """A program, and the functions of its module, at one moment."""

    def __init__(self, program: Program, module: Module | None) -> None:
        self.program = program
        self.module = module
        self.ops, self.types, self.blocks = self._walked()
        # copies of all that a caller can change in place
        self.parts = [
            (definition, operands, results, {name: _kept(value) for name, value in attrs.items()}, regions)
            for definition, operands, results, attrs, regions in map(_PARTS, self.ops)
        ]
        self.head = self._head()
        self.declared = [{name: copy(it) for name, it in its.items()} for its in _DECLARED(program)]
        self.order = [list(its) for its in self.declared]

    def holds(self) -> bool:
        """Whether the program is unchanged."""
        declared = _DECLARED(self.program)
        if self.head != self._head() or self.declared != [*declared] or self.order != [*map(list, declared)]:
            return False
        ops, types, blocks = self._walked()
        if ops != self.ops or types != self.types or blocks != self.blocks:
            return False
        return list(map(_PARTS, ops)) == self.parts

    def _walked(self) -> tuple[list[Op], list[Any], list[Any]]:
        """All ops, the types of their results, and which of them are in which block, in no particular order: that is faster
        than walking regions recursively."""
        ops: list[Op] = []
        blocks: list[Any] = []
        pending: list[Block] = [self.program.body]
        if self.module is not None:
            pending += [func.body for func in self.module.funcs.values()]
        while pending:
            block = pending.pop()
            block_ops = block.ops
            ops += block_ops
            blocks += block, len(block_ops)
            if block.args:
                blocks += block.args, [arg.type for arg in block.args]
            for op in block_ops:
                pending += op.regions
        return ops, [value.type for op in ops for value in op.results], blocks

    def _head(self) -> list[Any]:
        """What a program and functions have beside their bodies and declarations."""
        funcs = {} if self.module is None else self.module.funcs
        return [_PROGRAM(self.program), *[(name, _FUNC(func)) for name, func in funcs.items()]]


def _kept(value: Any) -> Any:
    """A value of an attribute, which stays what it is when it is changed in place."""
    return copy(value) if isinstance(value, (dict, list, set)) else value
