"""A pipeline in DOT: launches as boxes, buffers as edges, fused launches as clusters.

"k:0" -> "k:1" [label="@mid\\n1 MiB"]        a hand-off, from its writer to its reader
subgraph cluster_...                         launches that were fused, or that repeat
"k:1" -> "k:2" [style=dashed]                a missed fusion, and why
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..records import dataclass
from .decisions import Decisions, FusedLaunches
from .pictures import BufferPicture, PipelinePicture, StagePicture
from .traffic import show_bytes

__all__ = ["pipeline_graph", "quote"]

_SHAPES = {"launch": "box", "kernel": 'box, style="dashed"', "host_read": "house"}


def quote(*lines: str) -> str:
    """Lines of text as a string of DOT."""
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"').replace("\0", "") for line in lines)
    return '"' + "\\n".join(escaped) + '"'


@dataclass(frozen=True, slots=True)
class _StageNode:
    """A stage, or one of the launches fused into it by `fusion`; `row` is the index of the stage."""

    name: str
    row: int
    stage: StagePicture
    fusion: FusedLaunches | None


def pipeline_graph(
    key: str, before: PipelinePicture, after: PipelinePicture, fusions: Decisions
) -> Iterator[str]:
    """Statements for the inside of a graph; the names of its nodes begin with `key`."""
    nodes = [node for row in range(len(after.stages)) for node in _nodes(key, row, before, after, fusions)]
    indices: dict[int, list[int]] = defaultdict(list)
    for position, node in enumerate(nodes):
        indices[node.row].append(position)
    yield f"subgraph {quote(f'cluster_{key}')} {{"
    yield f"label={quote(f'pipeline @{after.name}')}"
    yield from _boxes(key, nodes, after)
    yield "}"
    repeats = [(indices[r.first][0], indices[r.last][-1]) for r in after.repeats]
    yield from _Edges(key, nodes, {**before.buffers, **after.buffers}, repeats).all()
    for row, index in fusions.cuts(after):
        if row > 0:
            cut = fusions.missed[index]
            message = cut.message.partition("\n")[0]
            label = quote(f"not joined: {cut.reason or 'refused'}")
            ends = f"{quote(nodes[indices[row - 1][-1]].name)} -> {quote(nodes[indices[row][0]].name)}"
            yield (
                f"{ends} [style=dashed, color=red, fontcolor=red, arrowhead=none, constraint=false, "
                f"label={label}, tooltip={quote(message)}, labeltooltip={quote(message)}]"
            )


def _nodes(
    key: str, row: int, before: PipelinePicture, after: PipelinePicture, fusions: Decisions
) -> list[_StageNode]:
    """The launches fused into a stage if the picture before has them, else the stage."""
    stage = after.stages[row]
    fusion = fusions.fusion_of(stage)
    if fusion is None or len(fusion.rows) < 2:
        return [_StageNode(f"{key}:{row}", row, stage, None)]
    parts = [before.stages[part] for part in fusion.rows]
    return [
        _StageNode(f"{key}:{row}.{i}", row, replace(part, tiles=()), fusion) for i, part in enumerate(parts)
    ]


def _boxes(key: str, nodes: Sequence[_StageNode], picture: PipelinePicture) -> Iterator[str]:
    """The nodes, within the clusters of repeats and of fused launches."""
    opens: dict[int, list[str]] = defaultdict(list)
    closes: dict[int, int] = defaultdict(int)
    for number, repeat in enumerate(picture.repeats):
        opens[repeat.first] += [
            f"subgraph {quote(f'cluster_{key}_repeat{number}')} {{",
            f"label={quote(f'repeat {repeat.times} times')}",
        ]
        closes[repeat.last] += 1
    for index, node in enumerate(nodes):
        is_first = index == 0 or nodes[index - 1].row != node.row
        is_last = index + 1 == len(nodes) or nodes[index + 1].row != node.row
        stage = picture.stages[node.row]
        if is_first:
            yield from opens[node.row]
            if node.fusion is not None:
                tiles = [f"tile @{name}, {show_bytes(size)}" for name, size in stage.tiles]
                yield f"subgraph {quote(f'cluster_{key}_{node.row}')} {{"
                yield f"label={quote(stage.title, stage.shape, *tiles)}; style=filled; fillcolor=honeydew"
        yield f"{quote(node.name)} [shape={_SHAPES[node.stage.kind]}, label={quote(*_label(node))}]"
        if is_last:
            if node.fusion is not None:
                yield "}"
            yield from "}" * closes[node.row]  # each brace is a statement


def _label(node: _StageNode) -> list[str]:
    stage = node.stage
    if stage.kind == "host_read":
        return [f"host reads @{stage.name}"]
    tiles = [f"tile @{name}, {show_bytes(size)}" for name, size in stage.tiles]
    return [stage.title] if node.fusion is not None else [stage.title, stage.shape, *tiles]


class _Edges:
    """An edge for each read of a buffer, from the node that wrote it last.

    `repeats`: the first and the last node of each.  `reads` and `writes`: by buffer, the indices of
    the nodes that do, ascending.
    """

    def __init__(
        self,
        key: str,
        nodes: Sequence[_StageNode],
        buffers: dict[str, BufferPicture],
        repeats: Sequence[tuple[int, int]],
    ) -> None:
        self.key, self.nodes, self.buffers, self.repeats = key, nodes, buffers, repeats
        self.reads: dict[str, list[int]] = defaultdict(list)
        self.writes: dict[str, list[int]] = defaultdict(list)
        for index, node in enumerate(nodes):
            for name in node.stage.reads:
                self.reads[name].append(index)
            for name in node.stage.writes:
                self.writes[name].append(index)
        self.ends: dict[str, str] = {}

    def all(self) -> list[str]:
        edges = [edge for name in self.buffers for edge in self.buffer(name)]
        ends = [f"{quote(name)} [shape=plaintext, label={quote(text)}]" for name, text in self.ends.items()]
        order = [  # invisible edges, so that the nodes stand in the order of the text
            f"{quote(a.name)} -> {quote(b.name)} [style=invis]"
            for a, b in zip(self.nodes, self.nodes[1:], strict=False)
        ]
        return [*ends, *edges, *order]

    def buffer(self, name: str) -> Iterator[str]:
        reads, writes, buffer = self.reads[name], self.writes[name], self.buffers[name]
        unread = set(writes)  # less those whose value some read sees, here or in the next iteration
        for index in reads:
            at = bisect_left(writes, index)
            carried = self.carried(name, index, writes[at - 1] if at else -1)
            unread -= {carried, writes[at - 1] if at else None}
            if at:
                yield self.edge(self.nodes[writes[at - 1]].name, self.nodes[index], buffer)
            elif buffer.from_host:
                yield self.edge(self.end(f"{name}:in", "host"), self.nodes[index], buffer)
            elif carried is None:
                yield self.edge(self.end(f"{name}:in", "never written"), self.nodes[index], buffer)
            if carried is not None:
                attributes = ", constraint=false, style=bold"
                yield self.edge(self.nodes[carried].name, self.nodes[index], buffer, attributes, "next round")
        if buffer.to_host and writes:
            unread.discard(writes[-1])
            yield self.out(writes[-1], "host", buffer)
        for index in sorted(unread):
            yield self.out(index, "never read", buffer)

    def carried(self, name: str, index: int, source: int) -> int | None:
        """The node whose write in the previous iteration the read at `index` may see, if a repeat is around both.

        `source`: the node that wrote the buffer before `index`, -1 for none.
        """
        writes = self.writes[name]
        for first, last in self.repeats:
            # a write earlier in the same iteration would hide what the previous one left
            if first <= index <= last and source < first:
                at = bisect_left(writes, last + 1)
                if at and writes[at - 1] >= first:
                    return writes[at - 1]
        return None

    def end(self, name: str, text: str) -> str:
        full = f"{self.key}@{name}"
        self.ends[full] = text
        return full

    def out(self, index: int, text: str, buffer: BufferPicture) -> str:
        end = self.end(f"{buffer.name}:out", text)
        return f"{quote(self.nodes[index].name)} -> {quote(end)} [label={quote(*self.label(buffer))}]"

    def label(self, buffer: BufferPicture, *more: str) -> list[str]:
        return [f"@{buffer.name}", "? bytes" if buffer.size is None else show_bytes(buffer.size), *more]

    def edge(self, source: str, node: _StageNode, buffer: BufferPicture, style: str = "", *more: str) -> str:
        where = node.fusion.handoffs.get(buffer.name) if node.fusion is not None else None
        label = [f"@{buffer.name}", f"in {where}"] if where else self.label(buffer, *more)
        tip = quote(f"@{buffer.name} : {buffer.type}")
        return f"{quote(source)} -> {quote(node.name)} [label={quote(*label)}, tooltip={tip}{style}]"
