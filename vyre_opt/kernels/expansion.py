"""A use of a named kernel, and its expansion: a program at a schedule chosen for its buffers and the target.

`named.expand` makes the one of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields, replace
from typing import Any, TypeVar

from ..ir.grids import Extent, GridCall
from ..ir.ops import OPS
from ..ir.program import Buffer, Program
from ..ir.types import DataType
from ..records import dataclass

__all__ = ["Expansion", "ExpansionRequest", "is_of_plugin"]

S = TypeVar("S")


@dataclass(frozen=True)
class ExpansionRequest:
    """A use of a kernel: its buffers by role, its parameters with defaults filled in.

    `owns_grid`: whether the launch will have the grid that the expansion asks for, and zeroed scratch buffers.
    If not, the program must be right for every grid.
    `schedule`: fields of the schedule that the text fixes, flags as 0 and 1.
    `workers`: threads of the cpu target, or multiprocessors of a GPU, that run nothing else; 0 if unknown.
    `is_shared`: the program is one of a builder's cache, which nobody may change.
    """

    kernel: str
    buffers: Sequence[Buffer]
    params: Mapping[str, int]
    target: str = ""
    owns_grid: bool = False
    schedule: Mapping[str, int] = field(default_factory=dict)
    workers: int = 0
    is_shared: bool = False

    def build(self, builder: Any, *arguments: Any) -> Program:
        """The program that a cached builder makes of such arguments."""
        program: Program = (builder if self.is_shared else builder.__wrapped__)(*arguments)
        return program

    def tiles(self, size: int) -> Extent | None:
        """The grid of a kernel whose workgroups share its first buffer in tiles of `size` elements."""
        count = self.count(0)
        if count is not None:
            return max(1, -(-count // size))
        if not self.owns_grid:
            return None
        length = GridCall("len", (self.buffers[0].name,))
        return GridCall("max", (1, GridCall("ceil_div", (length, size))))

    def at(self, default: S) -> S:
        """The schedule `default` with the fields that the text fixes.  Raises ValueError."""
        kinds = {f.name: type(getattr(default, f.name)) for f in fields(default)}  # type: ignore[arg-type]
        for name, value in self.schedule.items():
            if name not in kinds or name == "strided":
                raise ValueError(f"its schedule here has no {name}: {default}")
            if kinds[name] is bool and value not in (0, 1):
                raise ValueError(f"{name} is a flag, 0 or 1, not {value}")
        fixed = {name: kinds[name](value) for name, value in self.schedule.items()}
        return replace(default, **fixed)  # type: ignore[type-var]

    def count(self, index: int) -> int | None:
        return self.buffers[index].count

    def dtype(self, index: int = 0) -> DataType:
        return self.buffers[index].dtype


@dataclass(frozen=True)
class Expansion:
    """A new program, whose first bound buffers are the kernel's roles; the caller may change it.

    `grid`: workgroups along x; over the lengths of the kernel's buffers where these are open, and None where
    they decide more than the grid.  `scratch`: elements of each bound buffer after the roles, which are zero
    when the program starts; for those in `fresh` they need not be.
    `general`: gives the same by code that takes all lengths, where the program is for one; slower.
    """

    program: Program
    schedule: Any
    grid: Extent | None
    scratch: Mapping[str, int] | None = None
    fresh: tuple[str, ...] = ()
    general: Callable[[], Expansion] | None = None


def is_of_plugin(kernel: str) -> bool:
    """Whether a kernel is of another package: its expansion is all there is of it, for the interpreter too."""
    return OPS[kernel].expansion is not None
