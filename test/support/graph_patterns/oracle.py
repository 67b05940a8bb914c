"""What a clean variant leaves in its outputs: a few lines of Python a pattern, without lanes."""

from __future__ import annotations

from .graphs import Graph
from .variants import Variant

__all__ = ["expected"]

Buffers = dict[str, list[int]]


def expected(variant: Variant, graph: Graph, buffers: Buffers) -> Buffers:
    """The outputs of the variant's pattern, from the buffers before the dispatch; a worklist's @list is sorted."""
    visits = ((vertex, edge) for vertex in range(graph.vertices) for edge in _visited(variant, graph, vertex))
    edges = [(vertex, edge, graph.neighbours[edge]) for vertex, edge in visits]
    values = buffers["values"]
    if variant.pattern == "conditional_edge":
        return {"best": [max([*buffers["best"], *(values[n] for _, _, n in edges)])]}
    if variant.pattern == "conditional_vertex":
        return {"total": [buffers["total"][0] + len(edges)]}
    if variant.pattern == "worklist":
        unused = buffers["list"][len(edges) :]
        return {"count": [len(edges)], "list": sorted(edge for _, edge, _ in edges) + unused}
    if variant.pattern == "push":
        own = buffers["out"]
        return {"out": [min([own[v], *(values[i] for i, _, n in edges if n == v)]) for v in range(len(own))]}
    if variant.pattern in ("pull", "exchange"):
        factor, own = (1, buffers["out"]) if variant.pattern == "pull" else (2, [0] * graph.vertices)
        return {
            "out": [own[v] + factor * sum(values[n] for i, _, n in edges if i == v) for v in range(len(own))]
        }
    roots = _roots(buffers["parent"])
    if variant.pattern == "path_compression":
        return {"parent": roots}
    return {"parent": buffers["parent"], "root": roots}


def _visited(variant: Variant, graph: Graph, vertex: int) -> list[int]:
    """The edges of a vertex that count."""
    edges = list(range(graph.rows[vertex], graph.rows[vertex + 1]))
    if variant.order == "last":
        edges = edges[-1:]
    elif variant.order == "first":
        edges = edges[:1]
    counting = [edge for edge in edges if graph.neighbours[edge] > vertex or not variant.upward]
    return counting[:1] if variant.order == "until" else counting


def _roots(parents: list[int]) -> list[int]:
    roots: list[int] = []
    for vertex, parent in enumerate(parents):  # a parent's number is lower, so its root is known
        roots.append(vertex if parent == vertex else roots[parent])
    return roots
