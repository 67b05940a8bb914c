"""Checks cheaply that a program has not changed: before each launch, since it was compiled, and after each pass.

A fingerprint prints the whole program, which takes longer than a launch.  Comparing whether each op
is the same object with the same operands and attributes does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import fields
from operator import attrgetter
from typing import Any

from .program import Block, Func, Module, Op, Program, Value

__all__ = ["Snapshot"]

_PARTS = attrgetter("definition", "operands", "results", "attrs", "regions")
"""Parts of an op that are compared.  Comparing lists of these is fast, since Python compares identities first."""

_BESIDE = frozenset({"body", "loc"})
"""Fields that are compared elsewhere, or have no meaning: every other one is in the head, one that is added later too."""


def _getters(kind: Any) -> tuple[Callable[[Any], tuple[Any, ...]], Callable[[Any], tuple[Any, ...]]]:
    """Getters of a class: one for its values beside its body, one for its declarations, which can be changed in place."""
    compared = [field for field in fields(kind) if field.name not in _BESIDE]
    values, declared = ([f.name for f in compared if (f.default_factory is dict) is d] for d in (False, True))
    return attrgetter(*values), attrgetter(*declared) if declared else lambda it: ()


_GETTERS = {Program: _getters(Program), Func: _getters(Func)}


class Snapshot:
    """A program or a function, and the functions of a module, at one moment."""

    def __init__(self, program: Program | Func, module: Module | None) -> None:
        self.program = program
        self.module = module
        self.ops, self.types, self.blocks = self._walked()
        # copies of all that a caller can change in place
        self.parts = [
            (definition, operands, results, {name: _kept(value) for name, value in attrs.items()}, regions)
            for definition, operands, results, attrs, regions in map(_PARTS, self.ops)
        ]
        self.head = self._head()
        self.declared = [{name: copy(it) for name, it in its.items()} for its in self._declared()]
        self.order = [list(its) for its in self.declared]

    def holds(self) -> bool:
        """Whether it is unchanged."""
        declared = self._declared()
        if self.head != self._head() or self.declared != [*declared] or self.order != [*map(list, declared)]:
            return False
        ops, types, blocks = self._walked(len(self.ops))
        if ops != self.ops or types != self.types or blocks != self.blocks:
            return False
        return list(map(_PARTS, ops)) == self.parts

    def equals(self, later: Snapshot) -> bool:
        """Whether a later one has an equal op in the place of each: others, but with operands from the same places."""
        if self.head != later.head or self.declared != later.declared or self.types != later.types:
            return False
        if len(self.parts) != len(later.parts) or len(self.blocks) != len(later.blocks):
            return False
        renamed: dict[Value, Value] = {}
        for (_, size, args, types), (_, other_size, other_args, other_types) in zip(
            self.blocks, later.blocks, strict=True
        ):
            if size != other_size or types != other_types:
                return False
            renamed.update(zip(args, other_args, strict=True))
        for own, other in zip(self.parts, later.parts, strict=True):
            if own[0] is not other[0] or own[3] != other[3] or [*map(len, own[1:])] != [*map(len, other[1:])]:
                return False
            renamed.update(zip(own[2], other[2], strict=True))
        return all(
            [renamed.get(value) for value in own[1]] == [*other[1]]
            for own, other in zip(self.parts, later.parts, strict=True)
        )

    def _walked(self, most: int | None = None) -> tuple[list[Op], list[Any], list[Any]]:
        """All ops, the types of their results, and which of them are in which block, in no particular order: that is faster
        than walking regions recursively.  `most`: after how many ops to stop, since a block may be in itself by now."""
        ops: list[Op] = []
        blocks: list[tuple[Block, int, tuple[Value, ...], Sequence[Any]]] = []
        pending: list[Block] = [self.program.body]
        if self.module is not None:
            pending += [func.body for func in self.module.funcs.values()]
        while pending and (most is None or len(ops) <= most):
            block = pending.pop()
            block_ops = block.ops
            ops += block_ops
            args = block.args
            blocks.append((block, len(block_ops), args, [arg.type for arg in args] if args else args))
            for op in block_ops:
                pending += op.regions
        return ops, [value.type for op in ops for value in op.results], blocks

    def _head(self) -> list[Any]:
        """Values of programs and functions beside their bodies and declarations."""
        funcs = {} if self.module is None else self.module.funcs
        parts = [("", self.program), *funcs.items()]
        return [(name, _GETTERS[type(part)][0](part)) for name, part in parts]

    def _declared(self) -> tuple[dict[str, Any], ...]:
        return _GETTERS[type(self.program)][1](self.program)


def _kept(value: Any) -> Any:
    """A value of an attribute, which stays what it is when it is changed in place."""
    return copy(value) if isinstance(value, (dict, list, set)) else value
