"""The backward slice of a program's memory accesses: all that proofs about them may depend on.

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
"""Fields that no proof depends on.  Every other field is part of a slice, so that a new one is by default."""


def access_slice(program: Program) -> Hashable:
    """Equal for programs whose accesses, barriers and control flow are equal, whatever they are named and store."""
    slice_ops = _slice_ops(program)
    numbers: dict[Value, int] = {}
    buffers = {name: number for number, name in enumerate(program.buffers)}
    ops = tuple(_rows(program.body, slice_ops, numbers, buffers))
    overrides = {
        "buffers": tuple(map(_facts, program.buffers.values())),
        "specs": tuple((name, _facts(spec)) for name, spec in program.specs.items()),
        "params": tuple((name, _facts(param)) for name, param in program.params.items()),
        "body": ops,
    }
    return _facts(program, **overrides)


def _facts(declaration: Any, **overrides: Hashable) -> Hashable:
    """The fields of a dataclass by their names, some of them replaced."""
    names = [field.name for field in fields(declaration) if field.name not in NO_FACTS]
    return tuple(
        (name, overrides[name] if name in overrides else getattr(declaration, name)) for name in names
    )


def _slice_ops(program: Program) -> set[Op]:
    """Ops with effects or regions, terminators, and the ops that these depend on, except through stored values."""
    pending = [op for op in program.walk() if not op.definition.is_pure or op.regions]
    ops: set[Op] = set()
    while pending:
        op = pending.pop()
        if op in ops:
            continue
        ops.add(op)
        operands = op.operands[1:] if op.definition.format == "store" else op.operands
        pending += [value.owner for value in operands if isinstance(value.owner, Op)]  # not a block argument
    return ops


def _rows(
    block: Block, slice_ops: set[Op], numbers: dict[Value, int], buffers: dict[str, int]
) -> Iterator[Hashable]:
    for op in block.ops:
        if op not in slice_ops:
            continue
        operands = op.operands[1:] if op.definition.format == "store" else op.operands
        stored_type = op.operands[0].type if op.definition.format == "store" else None
        attrs = tuple(
            (name, buffers[value] if name == "buffer" else repr(value))
            for name, value in sorted(op.attrs.items())
        )
        uses = tuple(numbers.get(value, -1) for value in operands)
        inner = []
        for region in op.regions:
            for arg in region.args:
                numbers[arg] = len(numbers)
            inner.append(
                (tuple(a.type for a in region.args), tuple(_rows(region, slice_ops, numbers, buffers)))
            )
        for result in op.results:
            numbers[result] = len(numbers)
        yield op.name, uses, stored_type, tuple(r.type for r in op.results), attrs, tuple(inner)
