"""The accesses of a program to a buffer, and which of them come before which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import z3

from ..ir.access_extents import access_extents, is_matrix_access
from ..ir.program import Op
from ..records import dataclass
from .points import Nesting

__all__ = [
    "Access",
    "Indices",
    "accesses_of",
    "are_apart",
    "are_equal",
    "barrier_between",
    "is_group_barrier",
    "is_before",
    "is_inside",
    "named",
    "parts_workgroup",
    "shared_loops",
    "touches",
]


Indices = Sequence[z3.ArithRef]
"""Indices of an element, one for each dimension of the buffer."""


@dataclass(frozen=True)
class Access:
    """A load, store or atomic of `width` elements from the op's index on; a matrix is of so many in each of `rows` rows."""

    op: Op
    buffer: str
    is_write: bool
    is_atomic: bool
    width: int
    rows: int = 1

    @property
    def is_collective(self) -> bool:
        """Whether a subgroup makes it together: any of its lanes may touch any of the elements."""
        return is_matrix_access(self.op)

    def extents(self) -> list[int]:
        """Elements along each dimension of the buffer."""
        return [*[1] * (len(self.op.indices) - 2), self.rows, self.width][-len(self.op.indices) :]

    def __str__(self) -> str:
        return f"{self.op.name} @{self.buffer}"


def accesses_of(nesting: Nesting, buffer: str | None = None) -> list[Access]:
    """The accesses of a buffer, or of all, in program order."""
    found = []
    for op in nesting.ops:
        name = op.attrs.get("buffer")
        if name is None or not op.operands or op.definition.kernel is not None or buffer not in (None, name):
            continue
        *outer, width = access_extents(op, nesting.program.buffers[name])
        effects = op.definition.effects
        rows = outer[-1] if outer else 1
        found.append(Access(op, name, "write" in effects, "atomic" in effects, width, rows))
    return found


def is_inside(access: Access, indices: Indices, shape: Sequence[z3.ArithRef | int]) -> z3.BoolRef:
    """Whether an access at `indices`, one for each dimension, is of elements of a buffer of `shape`."""
    return z3.And(
        *(
            z3.And(index >= 0, index + moved <= extent)
            for index, extent, moved in zip(indices, shape, access.extents(), strict=True)
        )
    )


def are_apart(one: Access, at: Indices, other: Access, to: Indices) -> z3.BoolRef:
    """Whether accesses, at the indices `at` and `to`, have no element in common: along a dimension, one ends before the
    other begins."""
    along = zip(at, one.extents(), to, other.extents(), strict=True)
    return z3.Or(*(z3.Or(x + m <= y, y + n <= x) for x, m, y, n in along))


def touches(access: Access, indices: Indices, element: Indices) -> z3.BoolRef:
    """Whether an access at `indices` is of an element."""
    along = zip(indices, access.extents(), element, strict=True)
    return z3.And(*(z3.And(index <= start, start < index + moved) for index, moved, start in along))


def are_equal(one: Indices, other: Indices) -> z3.BoolRef:
    """Whether two accesses have the same indices."""
    return z3.And([x == y for x, y in zip(one, other, strict=True)])


def named(name: str, indices: Indices) -> dict[str, z3.ArithRef]:
    """Indices for a person to see; several with their dimensions."""
    if len(indices) == 1:
        return {name: indices[0]}
    return {f"{name} {dimension}": index for dimension, index in enumerate(indices)}


def shared_loops(nesting: Nesting, a: Op, b: Op) -> tuple[Op, ...]:
    """The loops around both ops."""
    both = set(nesting.loops(a)) & set(nesting.loops(b))
    return tuple(loop for loop in nesting.loops(a) if loop in both)


def is_before(nesting: Nesting, first: Op, second: Op) -> bool:
    """Whether a lane that comes to both, in equal iterations of the loops around both, comes to `first` first."""
    return _tops(nesting, first, second) is not None


def barrier_between(nesting: Nesting, first: Op, second: Op) -> bool:
    """Whether a barrier of the workgroup lies between two ops of which `is_before` is true.

    Barriers stand where all lanes of a workgroup come, so one behind `first` in its own block, or ahead of `second` in
    its own, parts them too.
    """
    tops = _tops(nesting, first, second)
    if tops is None:
        return False
    above, below = tops
    block = nesting.block[above].ops
    if any(map(parts_workgroup, block[block.index(above) + 1 : block.index(below)])):
        return True
    behind = (op for at in _path(nesting, first, above) for op in _after(nesting, at))
    ahead = (op for at in _path(nesting, second, below) for op in _ahead(nesting, at))
    return any(map(parts_workgroup, behind)) or any(map(parts_workgroup, ahead))


def _tops(nesting: Nesting, first: Op, second: Op) -> tuple[Op, Op] | None:
    """The ops of the innermost common block that hold `first` and `second`, if the one with `first` stands before."""
    a, b = nesting.around[first], nesting.around[second]
    depth = 0
    while depth < min(len(a), len(b)) and a[depth] == b[depth]:
        depth += 1
    above = a[depth][0] if depth < len(a) else first
    below = b[depth][0] if depth < len(b) else second
    return (above, below) if nesting.number[above] < nesting.number[below] else None


def _path(nesting: Nesting, op: Op, top: Op) -> Iterator[Op]:
    """`op` and the ops around it, without `top`."""
    if op is top:
        return
    yield op
    for outer, _ in reversed(nesting.around[op]):
        if outer is top:
            return
        yield outer


def _after(nesting: Nesting, op: Op) -> Sequence[Op]:
    block = nesting.block[op].ops
    return block[block.index(op) + 1 :]


def _ahead(nesting: Nesting, op: Op) -> Sequence[Op]:
    block = nesting.block[op].ops
    return block[: block.index(op)]


def is_group_barrier(op: Op) -> bool:
    """Whether it is a barrier of the workgroup, or of more."""
    return op.name == "barrier" and op.attrs["scope"] != "subgroup"


def parts_workgroup(op: Op) -> bool:
    """Whether a barrier of the workgroup is in an op that all lanes run: itself, or in a region of the text."""
    return is_group_barrier(op) or (op.name == "region" and any(map(parts_workgroup, op.regions[0].ops)))
