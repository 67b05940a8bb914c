"""Small graphs in compressed sparse rows, of the shapes that irregular programs trip over."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["GRAPHS", "Graph"]

Edge = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Graph:
    """The neighbours of vertex i are `neighbours[rows[i]:rows[i + 1]]`."""

    name: str
    rows: tuple[int, ...]
    neighbours: tuple[int, ...]

    @property
    def vertices(self) -> int:
        return len(self.rows) - 1

    @property
    def edges(self) -> int:
        return len(self.neighbours)


def _graph(name: str, vertices: int, edges: Iterable[Edge], directed: bool = True) -> Graph:
    """Parallel edges are merged.  An undirected edge is two directed ones."""
    pairs = set(edges)
    if not directed:
        pairs |= {(b, a) for a, b in pairs}
    rows, neighbours = [0], []
    for vertex in range(vertices):
        neighbours += sorted(b for a, b in pairs if a == vertex)
        rows.append(len(neighbours))
    return Graph(name, tuple(rows), tuple(neighbours))


def _path(n: int) -> list[Edge]:
    return [(i, i + 1) for i in range(n - 1)]


def _tree(n: int) -> list[Edge]:
    return [((i - 1) // 2, i) for i in range(1, n)]


def _random(vertices: range, count: int, seed: int) -> list[Edge]:
    rng = random.Random(seed)
    return [(rng.choice(vertices), rng.choice(vertices)) for _ in range(count)]


def _acyclic(n: int, count: int, seed: int) -> list[Edge]:
    return [(min(e), max(e)) for e in _random(range(n), count, seed) if e[0] != e[1]]


def _power_law(n: int, count: int, seed: int) -> list[Edge]:
    """Low numbers are met far more often than high ones, as source and as target."""
    rng = random.Random(seed)
    weights = [1 / (i + 1) for i in range(n)]
    ends = rng.choices(range(n), weights, k=2 * count)
    return list(zip(ends[::2], ends[1::2], strict=True))


GRAPHS: tuple[Graph, ...] = (
    _graph("star_out", 12, [(0, i) for i in range(1, 12)]),
    _graph("star_in", 12, [(i, 0) for i in range(1, 12)]),
    _graph("star_undirected", 9, [(4, i) for i in range(9) if i != 4], directed=False),
    _graph("wide_star", 70, [(69, i) for i in range(69)]),
    _graph("path", 16, _path(16)),
    _graph("path_undirected", 7, _path(7), directed=False),
    _graph("ring", 16, [*_path(16), (15, 0)]),
    _graph("tree", 15, _tree(15)),
    _graph("tree_to_root", 15, [(b, a) for a, b in _tree(15)]),
    _graph("random", 20, _random(range(20), 40, 1)),
    _graph("random_undirected", 14, _random(range(14), 20, 2), directed=False),
    _graph("acyclic", 20, _acyclic(20, 40, 3)),
    _graph("power_law", 24, _power_law(24, 80, 4)),
    _graph("isolated_ends", 18, _random(range(4, 13), 24, 5)),
    _graph("one_edge", 10, [(3, 8)]),
    _graph("self_loops", 8, [(i, i) for i in range(8)]),
    _graph("no_edges", 11, []),
    _graph("one_vertex", 1, []),
    _graph("long_ring", 96, [*_path(96), (95, 0)]),
    _graph("halves_apart", 128, [*_random(range(64), 90, 7), *_random(range(64, 128), 90, 8)]),
    _graph("whole_workgroup", 64, [*_path(64), *_random(range(64), 40, 6)]),
)
