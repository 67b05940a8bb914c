"""A pipeline as an SVG: stages as boxes, buffers as labelled wires, groups and cuts marked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from .decisions import Decisions
from .lanes import HEADING, LINE, PAD, Box, Layout, Port, Wire, lay_out
from .markup import Markup, concat, element
from .pictures import BufferPicture, PipelinePicture, StagePicture
from .traffic import show_bytes

__all__ = ["box_lines", "drawing"]

CHAR = 6.7
"""The width of a character in px, in a monospace font of 11 px."""
MAX_BOX, MAX_LABEL, MAX_PARTS = 30, 26, 6  # characters in a line of a box, characters in a label, lines
LANE, REPEAT = 16, 14
COLORS = 8
TURN = 6


def drawing(
    picture: PipelinePicture, fusions: Decisions, colors: Sequence[str], *, is_after: bool, key: str
) -> Markup:
    """The SVG; its ids begin with `key`.  The mark of a missed fusion links to `#key-cut-NUMBER`.

    `colors`: the names of the buffers; a buffer's index gives its colour, so drawings that are passed
    the same list agree.  If `is_after`, a box lists the launches fused into it; if not, the stages
    that are going to be fused are outlined.
    """
    return _Drawing(picture, fusions, colors, is_after, key).svg()


def box_lines(stage: StagePicture, fusions: Decisions, is_after: bool) -> list[tuple[str, str]]:
    """The lines of a stage's box, each as (CSS class, text)."""
    if stage.kind == "host_read":
        return [("title", f"host reads @{stage.name}")]
    lines = [("title", stage.title), ("shape", stage.shape)]
    fusion = fusions.fusion_of(stage) if is_after else None
    if fusion is not None:
        parts = [f"@{name}" for name in fusion.launches]
        if len(parts) > MAX_PARTS:
            parts[MAX_PARTS - 1 :] = [f"and {len(parts) - MAX_PARTS + 1} more"]
        lines += [("part", f"{'= ' if i == 0 else '+ '}{part}") for i, part in enumerate(parts)]
        names = fusion.in_registers
        if names:
            what = f"@{names[0]}" if len(names) == 1 else f"{len(names)} hand-offs"
            lines.append(("tile", f"{what} in registers"))
    return lines + [("tile", f"tile @{name}, {show_bytes(size)}") for name, size in stage.tiles]


def _clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}\N{HORIZONTAL ELLIPSIS}"


class _Drawing:
    """One SVG.  The constructor lays it out; `svg` and the methods below it yield the elements."""

    def __init__(
        self, picture: PipelinePicture, fusions: Decisions, colors: Sequence[str], is_after: bool, key: str
    ) -> None:
        self.picture, self.is_after, self.key = picture, is_after, key
        self.id = f"{key}-{'after' if is_after else 'before'}"
        self.marks = [(row, index + 1) for row, index in fusions.cuts(picture) if row > 0]
        self.lines = [box_lines(stage, fusions, is_after) for stage in picture.stages]
        self.groups = [] if is_after else [j for j in fusions.fused if len(j.rows) > 1]
        self.headings: dict[int, list[str]] = defaultdict(list)
        for repeat in picture.repeats:
            self.headings[repeat.first].append(f"repeat {repeat.times} times")
        for group in self.groups:
            self.headings[group.rows[0]].append("becomes one launch")
        self.layout: Layout = lay_out(
            picture, [len(lines) for lines in self.lines], {row: len(h) for row, h in self.headings.items()}
        )
        depth = max((repeat.depth + 1 for repeat in picture.repeats), default=0)
        longest = max((len(text) for lines in self.lines for _, text in lines), default=0)
        headed = max((len(text) for texts in self.headings.values() for text in texts), default=0)
        self.left = PAD + 4 + REPEAT * depth
        self.box = round(max(min(longest, MAX_BOX), headed, 12) * CHAR * 1.06 + 2 * PAD)
        self.labels = {port: self.label(port) for box in self.layout.boxes for port in box.ports}
        label = max((sum(map(len, texts)) for texts in self.labels.values()), default=0)
        self.label_end = self.left + self.box + round(label * CHAR) + 26
        self.width = self.label_end + LANE * self.layout.lanes + PAD
        self.colors = {name: f"wire c{i % COLORS}" for i, name in enumerate(colors)}

    def svg(self) -> Markup:
        title = f"Pipeline @{self.picture.name} {'after' if self.is_after else 'before'} the passes"
        if not self.picture.stages:
            return element("p", "It has no stages.")
        return element(
            "svg",
            element("title", title, id=f"{self.id}-title"),
            element("desc", self.description(), id=f"{self.id}-text"),
            *self.repeats(),
            *self.outlines(),
            *self.wires(),
            *self.boxes(),
            *self.cuts(),
            role="img",
            aria_labelledby=f"{self.id}-title {self.id}-text",
            width=self.width,
            height=self.layout.height,
            viewBox=f"0 0 {self.width} {self.layout.height}",
        )

    def description(self) -> str:
        """The drawing in words, for screen readers: the first 40 stages.  The page has a table of all."""
        sentences = []
        for number, stage in enumerate(self.picture.stages[:40]):
            reads = " and ".join(f"@{name}" for name in stage.reads) or "nothing"
            if stage.kind == "host_read":
                sentences.append(f"{number + 1}: the host reads {reads}.")
            else:
                writes = " and ".join(f"@{name}" for name in stage.writes) or "nothing"
                sentences.append(f"{number + 1}: {stage.title} reads {reads} and writes {writes}.")
        rest = len(self.picture.stages) - len(sentences)
        return " ".join([*sentences, f"And {rest} more."] if rest else sentences)

    # --- around the boxes

    def heading(self, row: int, number: int, x: float, kind: str) -> Markup:
        y = self.layout.boxes[row].top + HEADING * number + 13
        return element("text", self.headings[row][number], x=x, y=y, class_=kind)

    def repeats(self) -> Iterator[Markup]:
        headings: dict[int, int] = defaultdict(int)  # of each row, those placed so far
        for repeat in self.picture.repeats:
            first, last = self.layout.boxes[repeat.first], self.layout.boxes[repeat.last]
            number = headings[repeat.first]
            headings[repeat.first] += 1
            x, top, end = PAD + REPEAT * repeat.depth, first.top + HEADING * number + 9, last.y + last.height
            path = f"M{x + 8} {top} H{x + 4} Q{x} {top} {x} {top + 4} V{end} Q{x} {end + 4} {x + 4} {end + 4} H{x + 8}"
            yield element("path", d=path, class_="repeat")
            yield self.heading(repeat.first, number, x + 11, "repeat-text")

    def outlines(self) -> Iterator[Markup]:
        for group in self.groups:
            first, last = self.layout.boxes[group.rows[0]], self.layout.boxes[group.rows[-1]]
            top = first.y - HEADING
            yield element(
                "rect",
                element("title", f"becomes @{group.program}"),
                x=self.left - 6,
                y=top,
                width=self.box + 12,
                height=last.y + last.height + 6 - top,
                rx=9,
                class_="group",
            )
            yield self.heading(
                group.rows[0], len(self.headings[group.rows[0]]) - 1, self.left + 2, "group-text"
            )

    def boxes(self) -> Iterator[Markup]:
        for stage, box, lines in zip(self.picture.stages, self.layout.boxes, self.lines, strict=True):
            is_fused = any(kind == "part" for kind, _ in lines)
            radius = 13 if stage.kind == "host_read" else 6
            yield element(
                "g",
                element("title", "\n".join(text for _, text in lines)),
                element("rect", x=self.left, y=box.y, width=self.box, height=box.height, rx=radius),
                *self.texts(lines, box),
                class_=f"box {stage.kind}{' joined' if is_fused else ''}",
            )

    def texts(self, lines: Sequence[tuple[str, str]], box: Box) -> Iterator[Markup]:
        y = box.y + (box.height - len(lines) * LINE) // 2 + 11
        for number, (kind, text) in enumerate(lines):
            yield element("text", _clip(text, MAX_BOX), x=self.left + PAD, y=y + number * LINE, class_=kind)

    def cuts(self) -> Iterator[Markup]:
        """A numbered mark between two boxes for each fusion that was missed."""
        marks: dict[int, int] = defaultdict(int)
        for row, number in self.marks:
            before, after = self.layout.boxes[row - 1], self.layout.boxes[row]
            x = self.left + 16 + 22 * marks[row]
            marks[row] += 1
            if x > self.left + self.box - 8:
                continue  # no room; the list below the drawing has them all
            start, end = before.y + before.height, after.top
            yield element("path", d=f"M{x} {start} V{end}", class_="cut")
            yield element(
                "a",
                element("circle", cx=x, cy=(start + end) / 2, r=8, class_="cut-mark"),
                element("text", str(number), x=x, y=(start + end) / 2 + 3.5, class_="cut-number"),
                href=f"#{self.key}-cut-{number}",
                aria_label=f"why not: {number}",
            )

    # --- wires

    def label(self, port: Port) -> tuple[str, str]:
        """The name, and what follows it: the size at the first port, the host at the first or the last."""
        buffer: BufferPicture = self.picture.buffers[port.buffer]
        ports = self.layout.wires[port.buffer].ports
        size = "? bytes" if buffer.size is None else show_bytes(buffer.size)
        more = f" {size}" if port is ports[0] else ""
        if buffer.from_host and port is ports[0]:
            more += ", from host"
        if buffer.to_host and port is ports[-1]:
            more += ", to host"
        return _clip(f"@{port.buffer}", MAX_LABEL), more

    def wires(self) -> Iterator[Markup]:
        for name, wire in self.layout.wires.items():
            buffer = self.picture.buffers[name]
            yield element(
                "g",
                element("title", f"@{name} : {buffer.type}"),
                element("path", d=" ".join(self.path(wire)), class_="line"),
                *(part for port in wire.ports for part in self.port(port, wire)),
                class_=self.colors[name],
            )

    def path(self, wire: Wire) -> Iterator[str]:
        start = self.left + self.box
        if wire.lane is None:
            yield f"M{start} {wire.ports[0].y} H{self.label_end - 8}"
            return
        x = self.label_end + LANE * wire.lane + LANE // 2
        first, *between, last = wire.ports
        yield f"M{start} {first.y} H{x - TURN} Q{x} {first.y} {x} {first.y + TURN}"
        yield f"V{last.y - TURN} Q{x} {last.y} {x - TURN} {last.y} H{start}"
        for port in between:
            yield f"M{start} {port.y} H{x}"

    def port(self, port: Port, wire: Wire) -> Iterator[Markup]:
        x, y = self.left + self.box, port.y
        if port.writes:
            yield element("circle", cx=x, cy=y, r=3.5, class_="end")
        if port.reads:
            at = x + (6 if port.writes else 0)
            yield element("path", d=f"M{at} {y} l7 -4 v8 z", class_="end")
        if wire.lane is None:
            yield element("circle", cx=self.label_end - 8, cy=y, r=3, class_="terminal")
        name, more = self.labels[port]
        yield element(
            "text", concat(name, element("tspan", more, class_="more") if more else ""), x=x + 17, y=y - 3.5
        )
