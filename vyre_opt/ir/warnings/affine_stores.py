"""Stores of a launch that is too large to be run whole: which invocation stores an element follows from where a few store.

    store %v, @y[%r, %c]        the first workgroup stores from @y[0, 0] on, and those beside it 8 rows or columns further:
                                of @y[100, 7] it is the workgroup (0, 12), and that is run

Stores in loops are not followed, nor those whose places do not go along with the numbers of the workgroups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ...records import dataclass
from ..program import Op, Program
from .invocation_runs import Lanes, Run, Supposed, moved_extents, of_lane
from .touched_elements import Place

__all__ = ["AffineStores"]


@dataclass(frozen=True, slots=True)
class _Store:
    """Places of a store: `begins` of each invocation of the first workgroup, `steps` by axes from one workgroup to the next, and how many elements
    it moves along each dimension."""

    begins: list[tuple[int, ...]]
    steps: list[tuple[int, ...]]
    widths: tuple[int, ...]


class AffineStores:
    """Stores of a launch to buffers, by formals of its program.  `unsure`: those that are not known so.  `run`: runs some invocations, and gives
    the elements of a buffer that they store."""

    def __init__(
        self,
        program: Program,
        supposed: Supposed,
        names: set[str],
        run: Callable[[Supposed, str], set[Place]],
    ) -> None:
        self.supposed, self.run = supposed, run
        self.shapes: Mapping[str, Sequence[int]] = supposed.shapes or {}
        self.places = [
            (n % x, n // x % y, n // (x * y)) for x, y, _ in [program.workgroup] for n in range(program.lanes)
        ]
        grid = supposed.grid
        beside = [tuple(int(a == axis) for a in range(3)) for axis in range(3) if grid[axis] > 1]
        groups = ((0, 0, 0), *beside, tuple(n - 1 for n in grid))
        first = _Indices(program, Supposed(grid, groups, None, supposed.shapes, supposed.params), names)
        first.run()
        self.unsure = first.unsure | ({*names} if first.left < 0 else set())
        for op in program.walk():
            if (
                op.definition.effects & {"write"} and op not in first.columns_of
            ):  # none of the few comes to it
                self.unsure |= names & {op.attrs.get("buffer", ""), *op.attrs.get("buffers", ())}
        self.stores: dict[str, list[_Store]] = {}
        for op, columns in first.columns_of.items():
            store = self.store(op, columns, program)
            if store is None:
                self.unsure.add(op.attrs["buffer"])
            else:
                self.stores.setdefault(op.attrs["buffer"], []).append(store)
        self.known: dict[tuple[str, Place], bool] = {}

    def store(self, op: Op, columns: Sequence[list[int]], program: Program) -> _Store | None:
        """The places of a store; None where they do not follow from the number of the workgroup."""
        grid, rank, lanes = self.supposed.grid, len(columns), len(self.places)
        extents = zip(moved_extents(program, op), self.shapes[op.attrs["buffer"]], strict=True)
        widths = [n if extent is None else extent for extent, n in extents]
        signed = [
            _signed(column, index.type.bits or 32) for column, index in zip(columns, op.indices, strict=True)
        ]
        begins = [tuple(column[lane] for column in signed) for lane in range(lanes)]
        steps, group = list[tuple[int, ...]](), 0
        for axis in range(3):
            group += grid[axis] > 1
            at = lanes * group if grid[axis] > 1 else 0
            steps.append(tuple(column[at] - column[0] for column in signed))
            if grid[axis] > 1 and (
                not any(steps[-1])
                or min(steps[-1]) < 0
                or any(
                    column[at + lane] - column[lane] != step
                    for column, step in zip(signed, steps[-1], strict=True)
                    for lane in range(lanes)
                )
            ):
                return None
        last = lanes * (group + 1)
        far = [sum((n - 1) * step[d] for n, step in zip(grid, steps, strict=True)) for d in range(rank)]
        is_straight = all(
            column[last + lane] - column[lane] == end
            for column, end in zip(signed, far, strict=True)
            for lane in range(lanes)
        )
        return _Store(begins, steps, tuple(widths)) if is_straight else None

    def has(self, name: str, place: Place) -> bool:
        """Whether the launch stores an element."""
        key = name, place
        if key not in self.known:
            invocations = dict.fromkeys(
                each for store in self.stores.get(name, ()) for each in self.candidates(store, place)
            )
            self.known[key] = any(
                place in self.run(self.one(group, lane), name) for group, lane in invocations
            )
        return self.known[key]

    def one(self, group: tuple[int, ...], lane: int) -> Supposed:
        supposed = self.supposed
        return Supposed(supposed.grid, (group,), (self.places[lane],), supposed.shapes, supposed.params)

    def candidates(self, store: _Store, place: Place) -> Iterator[tuple[tuple[int, ...], int]]:
        """The invocations that may store an element: their workgroups, and their numbers in these."""
        wanted = place if isinstance(place, tuple) else (place,)
        for lane, begin in enumerate(store.begins):
            rest, group = [w - b for w, b in zip(wanted, begin, strict=True)], [0, 0, 0]
            for axis in sorted(range(3), key=lambda a: -max(store.steps[a])):
                step = store.steps[axis]
                along = next((d for d, by in enumerate(step) if by), None)
                if along is None or self.supposed.grid[axis] < 2:
                    continue
                group[axis] = min(max(rest[along] // step[along], 0), self.supposed.grid[axis] - 1)
                rest = [r - group[axis] * by for r, by in zip(rest, step, strict=True)]
            if all(0 <= r < width for r, width in zip(rest, store.widths, strict=True)):
                yield tuple(group), lane


def _signed(column: Sequence[int], bits: int) -> list[int]:
    """Numbers of which the upper half are those below 0, as that of `i - 1` is for the first."""
    half = 1 << bits - 1
    return [(n + half) % (2 * half) - half for n in column]


class _Indices(Run):
    """A run of a few workgroups.  `columns_of`: the indices of each store to some buffers; `unsure`: buffers with stores whose places are not known,
    or that are in loops."""

    def __init__(self, program: Program, supposed: Supposed, names: set[str]) -> None:
        super().__init__(program, supposed)
        self.names, self.unsure = names, set[str]()
        self.columns_of: dict[Op, list[list[int]]] = {}

    def access(self, op: Op, lanes: Lanes) -> None:
        name = op.attrs["buffer"]
        if name not in self.names or op.name in ("load", "slice_load"):
            return
        columns = [self.column(index) for index in op.indices]
        in_loop = any(each.op.name in ("for", "while") for each in self.around)
        if in_loop or None in columns or op.operands[0].type.is_matrix or op.definition.format == "atomic":
            self.unsure.add(name)
            return
        self.columns_of[op] = [[of_lane(column, lane) for lane in range(self.count)] for column in columns]
