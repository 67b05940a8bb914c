"""The slice of a program on which its memory accesses depend: what proofs about them may differ by.

    %g = global_id x               kept: an index
    %v = load @x[%g]               kept: an access
    %c = const 1.5                 left out, as %s is: only stored
    %s = fma %v, %c, %c
    store %s, @y[%g]               kept, without the value

Launches of programs with equal slices are joined, or not, for equal reasons; so a long line of stages that compute
different things with the same elements takes few proofs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import fields
from typing import Any

from ..ir.program import Block, Op, Program, Value

__all__ = ["access_slice"]

NO_FACTS = frozenset({"name", "loc", "prefer_shared"})
"""Fields that no proof rests on; every other one is part of a slice, one that is added later too."""


def access_slice(program: Program) -> Hashable:
    """Equal for programs whose accesses, barriers and control flow are equal, whatever they are named and store."""
    needed = _needed(program)
    numbers: dict[Value, int] = {}
    buffers = {name: number for number, name in enumerate(program.buffers)}
    ops = tuple(_rows(program.body, needed, numbers, buffers))
    declared = {
        "buffers": tuple(map(_facts, program.buffers.values())),
        "specs": tuple((name, _facts(spec)) for name, spec in program.specs.items()),
        "params": tuple((name, _facts(param)) for name, param in program.params.items()),
        "body": ops,
    }
    return _facts(program, **declared)


def _facts(declaration: Any, **replaced: Hashable) -> Hashable:
    """The fields of a dataclass by their names, some of them replaced."""
    names = [field.name for field in fields(declaration) if field.name not in NO_FACTS]
    return tuple((name, replaced[name] if name in replaced else getattr(declaration, name)) for name in names)


def _needed(program: Program) -> set[Op]:
    """The ops with effects or regions, what ends regions, and all that these depend on, but for values stored."""
    pending = [op for op in program.walk() if not op.definition.is_pure or op.regions]
    needed: set[Op] = set()
    while pending:
        op = pending.pop()
        if op in needed:
            continue
        needed.add(op)
        operands = op.operands[1:] if op.definition.format == "store" else op.operands
        pending += [value.owner for value in operands if isinstance(value.owner, Op)]  # or a block has it
    return needed


def _rows(
    block: Block, needed: set[Op], numbers: dict[Value, int], buffers: dict[str, int]
) -> Iterator[Hashable]:
    for op in block.ops:
        if op not in needed:
            continue
        operands = op.operands[1:] if op.definition.format == "store" else op.operands
        stored = op.operands[0].type if op.definition.format == "store" else None
        attrs = tuple(
            (name, buffers[value] if name == "buffer" else repr(value))
            for name, value in sorted(op.attrs.items())
        )
        uses = tuple(numbers.get(value, -1) for value in operands)
        inner = []
        for region in op.regions:
            for arg in region.args:
                numbers[arg] = len(numbers)
            inner.append((tuple(a.type for a in region.args), tuple(_rows(region, needed, numbers, buffers))))
        for result in op.results:
            numbers[result] = len(numbers)
        yield op.name, uses, stored, tuple(r.type for r in op.results), attrs, tuple(inner)
