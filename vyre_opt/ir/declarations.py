"""Declarations of programs and pipelines: buffers, specialization constants and params."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ..records import dataclass
from .grids import GridCall
from .types import DataType

if TYPE_CHECKING:
    from .diagnostics import Location
    from .grids import Extent

__all__ = ["MAX_DIMENSIONS", "MAX_EXTENT", "AccessMode", "Buffer", "Dim3", "Param", "Shape", "Spec"]

Dim3 = tuple[int, int, int]


class AccessMode(StrEnum):
    """The accesses that a program may make to a buffer; `workgroup` and `cluster` also name its memory tier."""

    READ = "read"
    WRITE = "write"
    READ_WRITE = "read_write"
    WORKGROUP = "workgroup"
    CLUSTER = "cluster"


Shape = tuple[int | None, ...]
"""Extents of 1 to `MAX_DIMENSIONS` dimensions, in elements, the last one contiguous; None for an open one (`?`)."""

MAX_DIMENSIONS = 3

MAX_EXTENT = (1 << 31) - 1
"""Largest extent of a dimension, where a buffer has several.  So an index that is in bounds is a number of 31 bits, whatever its
type, and what is known of an index modulo 2^32 says which one it is."""


@dataclass(slots=True, init=False)
class Buffer:
    """A buffer of a program or a pipeline.

    `shape`: in elements, row-major.  `sizes`: in a pipeline, for each dimension of open extent its extent as an
    expression of params and the lengths of buffers before it, or None; empty where there are none.  `access` is None only in a
    pipeline, where it may be left out.  A `read_write` buffer with neither live flag
    is transient: undefined on entry, unobservable after.
    """

    name: str
    dtype: DataType
    shape: Shape
    access: AccessMode | None
    binding: int | None = None
    live_in: bool = False
    live_out: bool = False
    loc: Location | None = field(default=None, compare=False)
    sizes: tuple[Extent | None, ...] = ()

    def __init__(
        self,
        name: str,
        dtype: DataType,
        shape: int | Sequence[int | None] | None,
        access: AccessMode | None,
        binding: int | None = None,
        live_in: bool = False,
        live_out: bool = False,
        loc: Location | None = None,
        size: Extent | None = None,
        sizes: tuple[Extent | None, ...] = (),
    ) -> None:
        """`shape`: a number or None stands for one dimension, and so does `size`."""
        self.name = name
        self.dtype = dtype
        self.shape = (shape,) if shape is None or isinstance(shape, int) else tuple(shape)
        self.access = access
        self.binding = binding
        self.live_in = live_in
        self.live_out = live_out
        self.loc = loc
        self.sizes = sizes if size is None else (size,)

    @property
    def dimensions(self) -> int:
        return len(self.shape)

    @property
    def count(self) -> int | None:
        """All elements; None where an extent is open."""
        total = 1
        for extent in self.shape:
            if extent is None:
                return None
            total *= extent
        return total

    @count.setter
    def count(self, count: int | None) -> None:
        """Make it a buffer of one dimension."""
        self.shape = (count,)

    def extent(self, dimension: int | None) -> int | None:
        """Result of `len`: elements along a dimension, with None along the only one; None where it is open."""
        return self.shape[0 if dimension is None else dimension]

    @property
    def extents(self) -> tuple[Extent | None, ...]:
        """The extent along each dimension as it is declared: a number, the expression of its size, or None where it is open."""
        sizes = self.sizes or (None,) * self.dimensions
        return tuple(size if known is None else known for known, size in zip(self.shape, sizes, strict=True))

    def length(self, dimension: int) -> GridCall:
        """The expression of what `len` gives along a dimension."""
        return GridCall("len", (self.name, dimension) if self.dimensions > 1 else (self.name,))

    @property
    def size(self) -> Extent | None:
        """The expression of the extent of a buffer of one dimension."""
        return self.sizes[0] if len(self.sizes) == 1 else None

    @property
    def size_bytes(self) -> int | None:
        """Bytes of the whole buffer; None where the count or the element size is open."""
        if self.count is None or self.dtype.element_bytes is None:
            return None
        return self.count * self.dtype.element_bytes

    @property
    def is_transient(self) -> bool:
        """True for storage whose contents are not visible outside of the program."""
        return self.access is AccessMode.READ_WRITE and not (self.live_in or self.live_out)

    @property
    def is_workgroup(self) -> bool:
        return self.access is AccessMode.WORKGROUP

    @property
    def is_cluster(self) -> bool:
        return self.access is AccessMode.CLUSTER

    @property
    def is_on_chip(self) -> bool:
        """Whether it is in memory that workgroups bring with them, not in storage."""
        return self.is_workgroup or self.is_cluster

    @property
    def is_output(self) -> bool:
        """True for a bound buffer whose contents the caller gets back."""
        return self.binding is not None and (self.live_out or self.access is AccessMode.WRITE)


@dataclass(slots=True)
class Spec:
    """A specialization constant; `default` is encoded as a `const` value is, None if unset.

    A type parameter has the dtype DTYPE and a DataType as its default.
    """

    name: str
    dtype: DataType
    default: Any = None
    loc: Location | None = field(default=None, compare=False)


@dataclass(slots=True)
class Param:
    """A runtime scalar of a program or a pipeline: each launch or call has a value for it.

    `default` is encoded as a `const` value is, None where a value has to be passed.
    """

    name: str
    dtype: DataType
    default: int | None = None
    loc: Location | None = field(default=None, compare=False)
