"""What the lanes of a variant do with a graph, in plain Python; the places are those of the program's text."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from operator import add

from .graphs import Graph
from .lanes import Barrier, Lane, Memory, Reduce, Verdict, Wait, run_lanes
from .variants import SUBGROUP, WORKGROUP, Variant

__all__ = ["judge"]

Steps = Generator[Wait, int, None]
Combined = Generator[Wait, int, int | None]
Combine = Callable[[int, int], int]
_OPS: dict[str, Combine] = {"max": max, "min": min, "add": add}


def judge(variant: Variant, graph: Graph, buffers: dict[str, list[int]], workgroups: int) -> Verdict:
    """Run the variant's lanes; `buffers` hold the outputs afterwards."""
    memory = Memory(buffers, per_workgroup=("carry",), undefined=("carry", "mid"))
    return run_lanes(memory, workgroups, lambda lane: _LaneProgram(variant, graph, lane).steps())


def _keep_old(old: int, new: int) -> int:
    return old


def _take_new(old: int, new: int) -> int:
    return new


@dataclass(frozen=True, slots=True)
class _LaneProgram:
    variant: Variant
    graph: Graph
    lane: Lane

    def steps(self) -> Steps:
        if self.variant.pattern == "exchange":
            yield from self.exchange()
            return
        visit = getattr(self, self.variant.pattern)
        for vertex in self.vertices():
            yield from visit(vertex)

    # --- who visits what

    def vertices(self) -> range:
        lane, spread = self.lane, self.variant.spread
        first, stride = {
            "lane": (lane.invocation, lane.workgroups * WORKGROUP),
            "subgroup": (lane.invocation // SUBGROUP, lane.workgroups * (WORKGROUP // SUBGROUP)),
        }.get(spread, (lane.workgroup, lane.workgroups))
        end = self.graph.vertices + (self.variant.plant == "bounds_vertex")
        return range(first, end if self.variant.persistent else min(end, first + 1), stride)

    def share(self, vertex: int) -> tuple[range, int, int]:
        """The numbers of the lane's edges among the vertex's, and where these begin and end."""
        begin = self.lane.load("rows.begin", "rows", vertex)
        end = self.lane.load("rows.end", "rows", vertex + 1)
        visits = end - begin
        off = self.variant.plant == "bounds_edge"
        if self.variant.order in ("first", "last"):
            visits = 1 if off else min(visits, 1)
        elif off:
            visits += 1
        first, step = {"lane": (0, 1), "subgroup": (self.lane.local % SUBGROUP, SUBGROUP)}.get(
            self.variant.spread, (self.lane.local, WORKGROUP)
        )
        return range(first, visits, step), begin, end

    def edge(self, number: int, begin: int, end: int) -> tuple[int, int]:
        """The place of an edge in @neighbours, and the vertex that it leads to."""
        edge = end - number - 1 if self.variant.order in ("reverse", "last") else begin + number
        return edge, self.lane.load("edge", "neighbours", edge)

    def counts(self, vertex: int, neighbour: int) -> bool:
        return vertex < neighbour or not self.variant.upward

    def edges(self, vertex: int) -> Iterator[tuple[int, int]]:
        """The lane's edges that count."""
        numbers, begin, end = self.share(vertex)
        for number in numbers:
            edge, neighbour = self.edge(number, begin, end)
            if self.counts(vertex, neighbour):
                yield edge, neighbour
                if self.variant.order == "until":
                    return

    def private(self, vertex: int, op: str, term: Callable[[int], int]) -> tuple[int, bool]:
        """A term of each of the lane's edges that count, combined, and whether the lane has edges."""
        numbers, begin, end = self.share(vertex)
        total = 0
        for number in numbers:
            _, neighbour = self.edge(number, begin, end)
            value = term(neighbour)  # of an edge that does not count, too
            if self.counts(vertex, neighbour):
                total = _OPS[op](total, value)
        return total, bool(numbers)

    # --- reductions and updates

    def combined(self, vertex: int, op: str, term: Callable[[int], int]) -> Combined:
        """A term of each edge over the vertex's group, in its first lane; None in the others."""
        total, has_edges = self.private(vertex, op, term)
        if self.variant.spread == "lane":
            return total
        if self.variant.spread == "subgroup":
            total = yield Reduce(_OPS[op], total)
            return None if self.lane.local % SUBGROUP else total
        if self.variant.spread == "tree":
            yield from self.tree(total, _OPS[op], has_edges)
            return None if self.lane.local else self.lane.load("carry.first", "carry", 0)
        yield from self.tiles(total, _OPS[op])
        if self.lane.local:
            return None
        return _OPS[op](self.lane.load("carry.first", "carry", 0), self.lane.load("carry.second", "carry", 1))

    def tree(self, value: int, combine: Combine, has_edges: bool) -> Steps:
        lane, plant = self.lane, self.variant.plant
        if has_edges or plant != "clear":
            lane.store("carry.own", "carry", lane.local, value)
        if plant != "sync_first":
            yield Barrier("workgroup", "own")
        stride = WORKGROUP // 2
        while stride:
            if lane.local < stride:
                far = lane.load(f"carry.far{stride}", "carry", lane.local + stride)
                near = lane.load(f"carry.near{stride}", "carry", lane.local)
                lane.store(f"carry.sum{stride}", "carry", lane.local, combine(near, far))
            inside = plant == "barrier" and lane.local >= stride
            if not inside and not (plant == "sync_tree" and stride == 16):
                yield Barrier("workgroup", f"tree{stride}")
            stride //= 2

    def tiles(self, value: int, combine: Combine) -> Steps:
        lane = self.lane
        part = yield Reduce(combine, value)
        if lane.local % SUBGROUP == 0:
            lane.store("carry.own", "carry", lane.local // SUBGROUP, part)
        if self.variant.plant != "sync_first":
            yield Barrier("workgroup", "own")

    def used(self) -> Steps:
        """After the first lane has used the result."""
        if self.variant.spread == "tiles" and self.variant.plant != "sync_last":
            yield Barrier("workgroup", "used")

    def update(self, buffer: str, index: int, op: str, value: int) -> None:
        lane, combine = self.lane, _OPS[op]
        if self.variant.plant == "atomic":
            old = lane.load("update.load", buffer, index)
            lane.store("update.store", buffer, index, combine(old, value))
            return
        if self.variant.guarded:
            if self.variant.plant == "guard":
                old = lane.load("guard", buffer, index)
            else:
                old = lane.atomic("guard", buffer, index, _keep_old, 0)
            if combine(old, value) == old:
                return
        lane.atomic("update", buffer, index, combine, value)

    def value(self, vertex: int) -> int:
        return self.lane.load("value", "values", vertex)

    # --- the patterns

    def conditional_edge(self, vertex: int) -> Steps:
        if self.variant.spread == "lane":
            for _, neighbour in self.edges(vertex):
                self.update("best", 0, "max", self.value(neighbour))
            return
        total = yield from self.combined(vertex, "max", self.value)
        if total is not None:
            self.update("best", 0, "max", total)
        yield from self.used()

    def conditional_vertex(self, vertex: int) -> Steps:
        total = yield from self.combined(vertex, "add", lambda _: 1)
        if total:
            self.update("total", 0, "add", total)
        yield from self.used()

    def worklist(self, vertex: int) -> Steps:
        lane = self.lane
        for edge, _ in self.edges(vertex):
            if self.variant.plant == "atomic":
                at = lane.load("update.load", "count", 0)
                lane.store("update.store", "count", 0, at + 1)
            else:
                at = lane.atomic("update", "count", 0, add, 1)
            lane.store("list", "list", at, edge)
        yield from ()

    def push(self, vertex: int) -> Steps:
        value = self.value(vertex)
        for _, neighbour in self.edges(vertex):
            self.update("out", neighbour, "min", value)
        yield from ()

    def pull(self, vertex: int) -> Steps:
        def add_to_own(total: int) -> None:
            old = self.lane.load("own.load", "out", vertex)
            self.lane.store("own.store", "out", vertex, old + total)

        mistaken = self.variant.plant == "race"
        if mistaken and self.variant.spread != "lane":
            total, has_edges = self.private(vertex, "add", self.value)
            if has_edges:
                add_to_own(total)
            return
        term = (lambda n: self.lane.load("value", "out", n)) if mistaken else self.value
        total_or_none = yield from self.combined(vertex, "add", term)
        if total_or_none is not None:
            add_to_own(total_or_none)
        yield from self.used()

    def path_compression(self, vertex: int) -> Steps:
        yield from self.path(vertex, plain=self.variant.plant == "race", in_place=True)

    def path_roots(self, vertex: int) -> Steps:
        yield from self.path(vertex, plain=True, in_place=self.variant.plant == "race")

    def path(self, vertex: int, plain: bool, in_place: bool) -> Steps:
        lane = self.lane

        def parent_of(child: int, place: str) -> int:
            if plain:
                return lane.load(place, "parent", child)
            return lane.atomic(place, "parent", child, _keep_old, 0)

        root, parent = vertex, parent_of(vertex, "parent.own")
        while parent < root:
            root, parent = parent, parent_of(parent, "parent.next")
        if not in_place:
            lane.store("root", "root", vertex, root)
        elif plain:
            lane.store("parent.store", "parent", vertex, root)
        else:
            lane.atomic("parent.store", "parent", vertex, _take_new, root)
        yield from ()

    def exchange(self) -> Steps:
        lane = self.lane
        for vertex in self.vertices():
            lane.store("mid.store", "mid", vertex, 2 * self.value(vertex))
        scope = {"sync_none": "", "sync_scope": "workgroup"}.get(self.variant.plant, "grid")
        if scope:
            yield Barrier(scope)
        for vertex in self.vertices():
            total = yield from self.combined(vertex, "add", lambda n: lane.load("mid.load", "mid", n))
            lane.store("own.store", "out", vertex, total or 0)
