"""Layouts: which elements of a slice each invocation of a workgroup has in registers.

The invocations form `row_lanes` rows of `column_lanes`; each has `width` adjacent elements of a row at a time, here 4:

    lane 0     lane 1    lane 2     ...      columns 0 to 3, 4 to 7, ... of row 0
    lane 16    lane 17                       columns 0 to 3, 4 to 7, ... of row 1      (column_lanes = 16)

and rounds of this cover the slice.  Along an extent of 1 all lanes have the same element.  A slice of one extent is a row, or
a column after a sum along rows.  A row of open length has rounds for the most elements that it may have.

Sums of products on a GPU have paired lanes: lanes 0 and 1 are in the same column of lanes, and so on.  Half a subgroup then
reads vectors of factors at once, since lanes 0 and 1 read the same right factors, and lanes 0 and 2 the same left ones:

    lane 0     lane 2     lane 4     ...      of row 0
    lane 1     lane 3     lane 5              of row 1

On matrix units each subgroup has a band of adjacent rows, as matrices or by lanes.  The lanes then have the layout of the
units' fragments, so that matrix_pack and matrix_unpack move no element between lanes:

    lane 0     lane 1    lane 2     lane 3     columns 0 and 1, 2 and 3, ... of row 0 of the band
    ...
    lane 28    lane 29   lane 30    lane 31    ... of row 7
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import field, replace

from ..ir.builder import Builder
from ..ir.ops import SUBGROUP_SIZE
from ..ir.program import Value
from ..ir.types import DataType
from ..records import dataclass

__all__ = [
    "FOLDED",
    "GROUP",
    "MAX_COLUMNS",
    "STRIP",
    "AnyLayout",
    "Extent",
    "Group",
    "Layout",
    "MatrixLayout",
]

FOLDED = 4096
"""Positions of a sum that are a multiple of FOLDED apart are combined first, see language.md."""
GROUP = 4
"""Adjacent elements of an invocation: the first steps of the tree of a sum."""

STRIP = 16
"""Rows of a matrix."""
UNPACKED_ROWS, UNPACKED = 8, 2
"""Rows of lanes of an unpacked matrix, and adjacent elements of a lane."""
COLUMN_LANES = 8
"""Preferred lanes along a row for products by lanes."""
MAX_COLUMNS, MIN_COLUMNS = 64, 8
"""Columns of a matrix, at most and at least: narrow matrices need little memory on their way to lanes, and warpgroups
multiply several at once."""


@dataclass(frozen=True)
class Extent:
    """`value`: the extent as a u32 value; `number`: the extent if it is a constant.  `least`, `most`: bounds of one that is not,
    as far as known.  Extents with equal `key` are equal."""

    value: Value = field(compare=False)
    number: int | None = field(compare=False)
    key: Hashable
    least: int = field(default=0, compare=False)
    most: int | None = field(default=None, compare=False)

    @property
    def capacity(self) -> int | None:
        """The most elements along the extent."""
        return self.most if self.number is None else self.number


@dataclass(frozen=True)
class Layout:
    """`columns`: the most that a row may have if `open` is the length of the only one."""

    rows: int
    columns: int
    row_lanes: int
    column_lanes: int
    neighbours: int = GROUP
    bands: int = 1
    """Bands of rows, one for each subgroup; 1 if the rows of all subgroups alternate."""
    is_paired: bool = False
    open: Extent | None = None

    @classmethod
    def of(cls, extents: Sequence[int], lanes: int, neighbours: int = GROUP) -> Layout:
        """Default layout of a slice of these extents."""
        rows, columns = (1, *extents)[-2:]
        column_lanes = 1
        while column_lanes < lanes and column_lanes * neighbours < columns:
            column_lanes *= 2
        return cls(rows, columns, lanes // column_lanes, column_lanes, neighbours)

    @classmethod
    def of_extents(cls, extents: Sequence[Extent], lanes: int, neighbours: int = GROUP) -> Layout | None:
        """Default layout of a slice; None if its extents are not known, and it is no row that has a greatest length."""
        numbers = [extent.number for extent in extents if extent.number is not None]
        if len(numbers) == len(extents):
            return cls.of(numbers, lanes, neighbours)
        most = extents[0].most if len(extents) == 1 else None
        return None if most is None else replace(cls.of([max(2, most)], lanes, neighbours), open=extents[0])

    @classmethod
    def of_sums(cls, rows: int, columns: int, lanes: int) -> Layout:
        """Layout of sums of products for which lanes load the fewest vectors of factors: a row's vector covers GROUP
        positions of the depth, and a group of columns needs GROUP vectors for as many."""

        def cost(layout: Layout) -> tuple[int, int, int]:
            read = layout.row_rounds + layout.column_rounds * GROUP
            return layout.registers, read, abs(layout.column_lanes - COLUMN_LANES)

        powers = [1 << bit for bit in range(lanes.bit_length())]
        paired = [1 < each < min(SUBGROUP_SIZE, lanes) for each in powers]
        return min(
            (
                cls(rows, columns, lanes // each, each, is_paired=pair)
                for each, pair in zip(powers, paired, strict=True)
            ),
            key=cost,
        )

    def with_extents(self, rows: int, columns: int) -> Layout:
        """The same lanes for other extents."""
        return replace(self, rows=rows, columns=columns, open=self.open if columns == self.columns else None)

    @property
    def width(self) -> int:
        """Adjacent elements of a lane at a time."""
        return 1 if self.columns == 1 else self.neighbours

    @property
    def row_rounds(self) -> int:
        return -(-self.rows // self.row_lanes)

    @property
    def column_rounds(self) -> int:
        return -(-self.columns // (self.column_lanes * self.width))

    @property
    def registers(self) -> int:
        """Elements of an invocation."""
        return self.row_rounds * self.column_rounds * self.width

    @property
    def places(self) -> list[tuple[int, int]]:
        """Row round and column round of each group, row by row."""
        return [(i, j) for i in range(self.row_rounds) for j in range(self.column_rounds)]

    @property
    def by_lanes(self) -> Layout:
        return self

    def lane_bit(self, bit: int) -> int:
        """The bit of a lane's number for a bit of its place, in which the bits of the column precede those of the row."""
        of_row = self.column_lanes.bit_length() - 1
        if not self.is_paired or bit > of_row:
            return bit
        return 0 if bit == of_row else bit + 1

    def register_type(self, element: DataType) -> DataType:
        """Type of a register value of the layout."""
        return element


@dataclass(frozen=True)
class MatrixLayout:
    """A block as matrices of 16 rows: a subgroup has the strips of its band, and the parts of their columns."""

    rows: int
    columns: int
    subgroups: int
    neighbours: int = GROUP
    width = 1

    @classmethod
    def fits(cls, rows: int, columns: int, lanes: int) -> bool:
        """Whether a block splits into whole matrices for the subgroups of `lanes` lanes."""
        is_power = columns & (columns - 1) == 0
        is_wide = columns % MAX_COLUMNS == 0 or (is_power and columns >= MIN_COLUMNS)
        return rows > 0 and columns > 0 and is_wide and rows % (STRIP * (lanes // SUBGROUP_SIZE)) == 0

    @property
    def band(self) -> int:
        """Rows of a subgroup."""
        return self.rows // self.subgroups

    @property
    def part(self) -> int:
        """Columns of a matrix."""
        return min(self.columns, MAX_COLUMNS)

    @property
    def places(self) -> list[tuple[int, int]]:
        """The strips and parts of its matrices."""
        return [(i, j) for i in range(self.band // STRIP) for j in range(self.columns // self.part)]

    @property
    def registers(self) -> int:
        """Matrices of a subgroup."""
        return len(self.places)

    @property
    def by_lanes(self) -> Layout:
        """The same elements in the same lanes."""
        column_lanes = SUBGROUP_SIZE // UNPACKED_ROWS
        return Layout(
            self.rows, self.columns, self.subgroups * UNPACKED_ROWS, column_lanes, UNPACKED, self.subgroups
        )

    def unpacked(self, strip: int, part: int) -> list[tuple[int, int]]:
        """Places in `by_lanes` of a lane's elements of a matrix, in the order of matrix_unpack."""
        rows, columns = STRIP // UNPACKED_ROWS, self.part // UNPACKED_ROWS
        return [(strip * rows + i, part * columns + j) for j in range(columns) for i in range(rows)]

    def register_type(self, element: DataType) -> DataType:
        return DataType.matrix(STRIP, self.part, element, "acc")


AnyLayout = Layout | MatrixLayout


@dataclass(frozen=True, eq=False)
class Group:
    """Adjacent elements of a row that an invocation computes together.

    `row`: their row, None for a slice of one row.  `columns`: their columns.  `inside`: condition for each that it exists,
    None if all surely do.  `is_whole`: whether all exist or none.  `whole`: condition that all exist, None if that of the
    last one decides.  `layout`, `place`: their layout and place in it; None in a loop over an open row.
    """

    b: Builder
    row: Value | None
    columns: Sequence[Value]
    inside: Sequence[Value] | None
    is_whole: bool
    layout: Layout | None = None
    place: tuple[int, int] = (0, 0)
    whole: Value | None = None

    @property
    def width(self) -> int:
        return len(self.columns)

    def position(self, k: int, rank: int) -> tuple[Value, ...]:
        """The indices of element `k` in a slice with `rank` extents."""
        if rank == 2:
            return (self.b.const(0) if self.row is None else self.row), self.columns[k]
        is_column = self.row is not None and self.layout is not None and self.layout.columns == 1
        return (self.row if is_column and self.row is not None else self.columns[k],)

    def guard(self, make: Callable[[int], Value | None], others: Callable[[], Value] | None) -> list[Value]:
        """`make(k)` for each element that exists, `others()` for elements that do not.

        Without `others`, `make` returns no values.
        """
        b, every = self.b, range(self.width)
        if self.inside is None:
            return _values(make(k) for k in every)
        with b.if_(self.inside[-1] if self.whole is None else self.whole) as branch:
            values = _values(make(k) for k in every)
            if others is not None:
                branch.yield_(*values)
        if others is None and (self.is_whole or self.width == 1):
            return []
        with branch.else_():
            some: list[Value] = []
            for k in every:
                is_none = self.is_whole or (self.whole is None and k == self.width - 1)
                if not is_none:
                    some += self.where(self.inside[k], lambda k=k: make(k), others)  # type: ignore[misc]
                elif others is not None:
                    some.append(others())
            if others is not None:
                branch.yield_(*some)
        return list(branch.results) if others is not None else []

    def where(
        self, condition: Value, make: Callable[[], Value | None], others: Callable[[], Value] | None
    ) -> list[Value]:
        """`make()` if a condition holds, otherwise `others()`."""
        with self.b.if_(condition) as branch:
            values = _values([make()])
            if others is not None:
                branch.yield_(*values)
        if others is None:
            return []
        with branch.else_():
            branch.yield_(others())
        return list(branch.results)

    def mask(self, values: Sequence[Value], neutral: Value) -> list[Value]:
        """The elements, with `neutral` in place of those that do not exist."""
        if self.inside is None:
            return list(values)
        return [self.b.select(inside, v, neutral) for inside, v in zip(self.inside, values, strict=True)]


def _values(values: Iterable[Value | None]) -> list[Value]:
    return [value for value in values if value is not None]
