"""The layout of a pipeline's drawing: stages as boxes in a column, buffers as wires in lanes beside it.

    +---------+  @mid 1 MiB
    | @decode |o-------------.          a port for each buffer that a stage reads or writes,
    +---------+              |          each at a height of its own, its label on the wire;
    +---------+  @mid        |          a lane for each buffer with two ports or more, from its
    | @scan   |<-------------'          first port to its last; then the lane is free for others
    +---------+

All numbers are pixels, from the top left.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from ..records import dataclass
from .pictures import PipelinePicture

__all__ = ["HEADING", "LABEL", "LINE", "PAD", "Layout", "Port", "Box", "Wire", "lay_out"]

LINE, LABEL, PAD, GAP, HEADING = 15, 12, 8, 26, 18


@dataclass(frozen=True, slots=True)
class Port:
    """Place where a buffer enters or leaves a stage; `row` is the stage's index."""

    buffer: str
    row: int
    y: int
    reads: bool
    writes: bool


@dataclass(frozen=True, slots=True)
class Box:
    """The box of a stage: `height` from `y` down; its headings stand between `top` and `y`."""

    top: int
    y: int
    height: int
    ports: tuple[Port, ...]


@dataclass(slots=True)
class Wire:
    """A buffer with its ports from top to bottom; `lane` is None if there is one only."""

    buffer: str
    ports: list[Port] = field(default_factory=list)
    lane: int | None = None


@dataclass(slots=True)
class Layout:
    """`lanes`: number of lanes; `height`: height of the whole drawing."""

    boxes: list[Box]
    wires: dict[str, Wire]
    lanes: int
    height: int


def lay_out(
    picture: PipelinePicture,
    lines: Sequence[int],
    headings: Mapping[int, int],
    labels: Mapping[tuple[int, str], tuple[int, int]],
) -> Layout:
    """`lines`: of text in each stage's box; `headings`: by stage, lines of text above its box.

    `labels`: by stage and buffer, the lines of text above the wire of a port and below it.
    """
    boxes: list[Box] = []
    wires: dict[str, Wire] = {}
    y = PAD
    for number, stage in enumerate(picture.stages):
        top, y = y, y + HEADING * headings.get(number, 0)
        names = dict.fromkeys((*stage.reads, *stage.writes))
        heights = [LABEL * sum(labels[number, name]) + 8 for name in names]
        height = max(lines[number] * LINE + 2 * PAD, sum(heights) + 4)
        at = y + (height - sum(heights)) // 2
        ports = []
        for name, lane_height in zip(names, heights, strict=True):
            above, _ = labels[number, name]
            port = Port(name, number, at + LABEL * above + 4, name in stage.reads, name in stage.writes)
            ports.append(port)
            wires.setdefault(name, Wire(name)).ports.append(port)
            at += lane_height
        boxes.append(Box(top, y, height, tuple(ports)))
        y += height + GAP
    # stages and ports go downwards, so `wires` is in the order of first ports
    return Layout(boxes, wires, _assign_lanes(wires.values()), max(y - GAP, PAD) + PAD)


def _assign_lanes(wires: Iterable[Wire]) -> int:
    """Give each wire the innermost lane that is free from its first port on.  Returns the number of lanes.

    `wires` must be sorted by their first ports; this is the usual greedy colouring of intervals.
    """
    free: list[int] = []  # a heap, as `busy` is
    busy: list[tuple[int, int]] = []  # (where it becomes free, lane)
    lanes = 0
    for wire in wires:
        if len(wire.ports) < 2:
            continue
        while busy and busy[0][0] < wire.ports[0].y:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            wire.lane = heapq.heappop(free)
        else:
            wire.lane, lanes = lanes, lanes + 1
        heapq.heappush(busy, (wire.ports[-1].y, wire.lane))
    return lanes
