"""A variant on a graph: the text, what it is run on, and what it must be found to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle
from typing import Any

import numpy as np

from .graphs import GRAPHS, Graph
from .lanes import Verdict
from .model import judge
from .oracle import Buffers, expected
from .program_text import ProgramText
from .programs import MID_COUNT, OUTPUTS, program_text
from .variants import SUBGROUP, WORKGROUP, Variant, variants

__all__ = ["ERRORS", "PLANTED", "Case", "cases"]

Array = np.ndarray[Any, Any]

PLANTED = {
    "atomic": ("update.",),
    "bounds": ("rows.", "value", "edge", "parent.own"),
    "guard": ("guard",),
    "race": ("own.", "parent.", "value"),
    "sync": ("carry.", "mid."),
    "clear": ("carry.",),
    "barrier": ("carry.barrier",),
}
"""Kind of mistake -> how the names of the places begin of which one takes part in every error that it causes."""

ERRORS = {
    **dict.fromkeys(("atomic", "guard", "race", "sync"), "race"),
    "bounds": "bounds",
    "clear": "uninitialised",
    "barrier": "divergence",
}
"""Kind of mistake -> the kind of error that it causes."""


_NUMPY_NAMES = {"u32": "uint32", "i32": "int32", "u64": "uint64", "i64": "int64", "f32": "float32"}


@dataclass(frozen=True)
class Case:
    variant: Variant
    graph: Graph

    @property
    def name(self) -> str:
        return f"{self.variant.name}-{self.graph.name}"

    @cached_property
    def text(self) -> ProgramText:
        return program_text(self.variant)

    @property
    def workgroups(self) -> int:
        """Enough for all vertices; a third of that, rounded up, for a persistent variant."""
        per_workgroup = {"lane": WORKGROUP, "subgroup": WORKGROUP // SUBGROUP}.get(self.variant.spread, 1)
        enough = -(-self.graph.vertices // per_workgroup)
        return -(-enough // 3) if self.variant.persistent else enough

    @property
    def buffers(self) -> Buffers:
        """All buffers before the dispatch, those of the program's own too."""
        vertices = self.graph.vertices
        values = [(vertex * 7 + 3) % 50 for vertex in range(vertices)]
        contents = {
            "rows": list(self.graph.rows),
            "neighbours": list(self.graph.neighbours),
            "values": values,
            "carry": [0] * WORKGROUP,
            "mid": [0] * MID_COUNT,
        }
        first = {
            "best": [5],
            "total": [0],
            "count": [0],
            "list": [0] * (self.graph.edges + 2 * vertices),  # room for what a mistake adds
            "out": [25] * vertices,
            "parent": [min([vertex, *self._neighbours(vertex)]) for vertex in range(vertices)],
            "root": [0] * vertices,
        }
        return contents | {name: first[name] for name in OUTPUTS[self.variant.pattern]}

    def _neighbours(self, vertex: int) -> tuple[int, ...]:
        return self.graph.neighbours[self.graph.rows[vertex] : self.graph.rows[vertex + 1]]

    @property
    def inputs(self) -> list[Array]:
        """The arrays of the bound buffers, in the order of their bindings."""
        buffers, dtype = self.buffers, np.dtype(_NUMPY_NAMES[self.variant.dtype])
        graph = [np.array(buffers[name], np.uint32) for name in ("rows", "neighbours")]
        return graph + [np.array(buffers[name], dtype) for name in ("values", *OUTPUTS[self.variant.pattern])]

    @cached_property
    def _judged(self) -> tuple[Verdict, list[list[int]]]:
        buffers = self.buffers
        verdict = judge(self.variant, self.graph, buffers, self.workgroups)
        return verdict, self.in_any_order([buffers[name] for name in OUTPUTS[self.variant.pattern]])

    @property
    def verdict(self) -> Verdict:
        """By the model of lanes; it never asks the interpreter."""
        return self._judged[0]

    @property
    def modelled(self) -> list[list[int]]:
        """The outputs by the model of lanes; those of every execution if the verdict is that nothing is wrong."""
        return self._judged[1]

    @property
    def reached(self) -> bool:
        """Whether an execution meets the planted mistake."""
        return bool(self.verdict.kinds)

    @property
    def expected(self) -> list[list[int]]:
        """The outputs of a clean variant, in the order of their bindings."""
        return list(expected(self.variant, self.graph, self.buffers).values())

    def in_any_order(self, outputs: list[list[int]]) -> list[list[int]]:
        """The outputs, with a worklist's entries sorted: which comes first is up to the schedule."""
        if self.variant.pattern != "worklist":
            return outputs
        (count,), entries = outputs
        return [[count], sorted(entries[:count]) + entries[count:]]


GRAPHS_OF_A_VARIANT = 2
LARGE_GRAPHS = ("wide_star", "long_ring", "halves_apart", "whole_workgroup")
"""Too many vertices to give a group of lanes to each."""
ON_ALL_GRAPHS = ("path_compression", "path_roots", "exchange")
"""Patterns with few variants."""


def cases() -> Iterator[Case]:
    """Every variant on some graphs, in turn, or on all."""
    in_turn, small = cycle(GRAPHS), cycle(graph for graph in GRAPHS if graph.name not in LARGE_GRAPHS)
    for variant in variants():
        if variant.pattern in ON_ALL_GRAPHS:
            yield from (Case(variant, graph) for graph in GRAPHS)
            continue
        turn = in_turn if variant.spread == "lane" else small
        for _ in range(GRAPHS_OF_A_VARIANT):
            yield Case(variant, next(turn))
