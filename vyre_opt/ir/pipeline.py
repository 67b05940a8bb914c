"""Pipelines in memory: launches in order, and the device buffers between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from ..records import dataclass
from .grids import Extent, Grid, evaluate, fold, lengths_by_dimension
from .literals import Literal
from .text_form import TextForm
from .types import DTYPE

if TYPE_CHECKING:
    from .declarations import Buffer, Dim3, Param, Spec
    from .diagnostics import Location

__all__ = [
    "MAX_REPEATS",
    "Fill",
    "HostRead",
    "KernelStage",
    "Launch",
    "LaunchParam",
    "Note",
    "Pipeline",
    "Repeat",
    "Stage",
]

Note = int | bool | str

LaunchParam = str | Literal
"""The name of a parameter of the pipeline, or a literal."""

MAX_REPEATS = 8
"""The most levels that repeats may nest."""


@dataclass(slots=True)
class Launch:
    """Run a program over `grid` workgroups, `buffers` in the order of its bindings.

    `notes`: facts that passes recorded, by name; they have no effect on a run.
    `params`: a value for each parameter of the program, by name; those with defaults may be missing.
    `members`: the launches that passes joined into this one, as they were (see joined_locations.py).
    """

    program: str
    grid: Grid
    buffers: tuple[str, ...]
    loc: Location | None = field(default=None, compare=False)
    notes: dict[str, Note] = field(default_factory=dict)
    params: dict[str, LaunchParam] = field(default_factory=dict)
    members: tuple[Launch, ...] = field(default=(), compare=False)

    def workgroups(self, lengths: Mapping[str, int | None]) -> Dim3:
        """The grid for these lengths of the pipeline's buffers, in elements.  Raises GridError."""
        x, y, z = (evaluate(extent, lengths) for extent in self.grid)
        return x, y, z


@dataclass(slots=True)
class KernelStage:
    """Run a named kernel on `buffers`, in the order of its roles in the op table."""

    kernel: str
    buffers: tuple[str, ...]
    attrs: dict[str, Any]
    loc: Location | None = field(default=None, compare=False)


@dataclass(slots=True)
class Fill:
    """Set all elements of a buffer to a value: one literal, or for vectors one for each lane."""

    buffer: str
    value: tuple[Literal, ...]
    loc: Location | None = field(default=None, compare=False)

    @property
    def buffers(self) -> tuple[str, ...]:
        return (self.buffer,)

    @property
    def constant(self) -> Literal | list[Literal]:
        """The value as a constant is written: a list for the lanes of a vector."""
        return self.value[0] if len(self.value) == 1 else list(self.value)

    @property
    def shown(self) -> str:
        """The text of the value."""
        lanes = ", ".join(text for _, text in self.value)
        return lanes if len(self.value) == 1 else f"[{lanes}]"


@dataclass(slots=True)
class HostRead:
    """The host reads a buffer at this point."""

    buffer: str
    loc: Location | None = field(default=None, compare=False)


@dataclass(slots=True)
class Repeat:
    """Run `stages` in order, `times` times."""

    times: int
    stages: list[Stage]
    loc: Location | None = field(default=None, compare=False)

    @property
    def depth(self) -> int:
        """1 without a repeat inside."""
        return 1 + max((stage.depth for stage in self.stages if isinstance(stage, Repeat)), default=0)


Stage = Launch | KernelStage | Fill | HostRead | Repeat


@dataclass(slots=True, eq=False)
class Pipeline(TextForm):
    """Stages in order, and the device buffers between them.

    `specs`: type parameters alone, for the buffers and params that are passed to programs for theirs of the same name.
    `removed`: buffers that passes took out of it, which messages about `members` of launches name.
    """

    name: str
    specs: dict[str, Spec] = field(default_factory=dict, kw_only=True)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    params: dict[str, Param] = field(default_factory=dict)
    stages: list[Stage] = field(default_factory=list)
    loc: Location | None = None
    removed: dict[str, Buffer] = field(default_factory=dict, kw_only=True)

    @property
    def type_parameters(self) -> list[Spec]:
        """Type parameters, as those of a program."""
        return [spec for spec in self.specs.values() if spec.dtype is DTYPE]

    @property
    def extents(self) -> Iterator[Extent]:
        """All expressions of grids and sizes."""
        yield from (size for buffer in self.buffers.values() for size in buffer.sizes if size is not None)
        yield from (extent for stage in self.walk() if isinstance(stage, Launch) for extent in stage.grid)

    def fold_sizes(self, lengths: Mapping[str, Extent | None]) -> None:
        """Put what is known of lengths in their place in the sizes of buffers."""
        for buffer in self.buffers.values():
            if buffer.sizes:
                extents = [None if extent is None else fold(extent, lengths) for extent in buffer.extents]
                buffer.shape = _numbers(extents)
                rest = tuple(None if isinstance(extent, int) else extent for extent in extents)
                buffer.sizes = rest if any(rest) else ()

    @property
    def static_lengths(self) -> dict[str, int | None]:
        """Elements of each buffer, None for an open size, and its extents (see grids.py), computed where their sizes are
        of lengths that are known."""
        lengths: dict[str, int | None] = {}
        for name, buffer in self.buffers.items():
            if buffer.sizes:
                extents = [None if extent is None else fold(extent, lengths) for extent in buffer.extents]
                buffer = replace(buffer, shape=_numbers(extents))
            lengths[name] = buffer.count
            lengths.update(lengths_by_dimension(name, buffer.shape))
        return lengths

    def remove_buffer(self, name: str) -> None:
        """Take a buffer out that no stage uses any more."""
        self.removed[name] = self.buffers.pop(name)

    def walk(self) -> Iterator[Stage]:
        """All stages in the order of the text; a repeat comes before its own stages."""
        pending = self.stages[::-1]
        while pending:
            stage = pending.pop()
            yield stage
            if isinstance(stage, Repeat):
                pending += stage.stages[::-1]


def _numbers(extents: Iterable[Extent | None]) -> tuple[int | None, ...]:
    """A shape: the extents that are numbers."""
    return tuple(extent if isinstance(extent, int) else None for extent in extents)
