"""A pipeline as an SVG: stages as boxes, buffers as labelled wires, groups and refusals marked.

This is the geometry; templates/drawing.svg.jinja writes it down.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..records import dataclass
from .decisions import Decisions, sentence
from .lanes import HEADING, LABEL, LINE, PAD, Box, Layout, Port, Wire, lay_out
from .pictures import PipelinePicture, StagePicture
from .traffic import show_bytes
from .wrapping import wrap

__all__ = ["Drawing", "Mark"]

CHAR = 6.7
"""The width of a character in px, in a monospace font of 11 px."""
MAX_BOX, MAX_LABEL, MAX_PARTS = 26, 16, 6  # characters in a line of a box, of a label, lines of launches
MAX_TIP, MAX_TIP_LINES = 56, 9
LANE, REPEAT = 16, 14
COLORS = 8
TURN = 6
LEAST_SCALE = 0.8
"""A drawing is shown that much smaller at most where there is no room; beyond that it scrolls."""

Line = tuple[str, str]
"""The CSS class of a line of text, and the text."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark for a refusal, which links to `target` in the page; `tip` is shown beside it, from (`tip_x`, `tip_y`) on.

    `line`: the top and the bottom of a dashed line through it.
    """

    text: str
    target: str
    reason: str
    x: float
    y: float
    tip: tuple[str, ...]
    tip_x: float = 0.0
    tip_y: float = 0.0
    line: tuple[float, float] | None = None

    @property
    def tip_width(self) -> float:
        return max(map(len, self.tip)) * CHAR + 2 * PAD

    @property
    def tip_height(self) -> float:
        return len(self.tip) * LINE + 2 * PAD


class Drawing:
    """One SVG; its ids begin with `key`.

    `colors`: the names of the buffers; a buffer's index gives its colour, so drawings that are passed
    the same list agree.  If `is_after`, a box lists the launches fused into it; if not, the stages
    that are going to be fused are outlined.
    """

    def __init__(
        self, picture: PipelinePicture, fusions: Decisions, colors: Sequence[str], *, is_after: bool, key: str
    ) -> None:
        self.picture, self.fusions, self.is_after, self.key = picture, fusions, is_after, key
        self.id = f"{key}-{'after' if is_after else 'before'}"
        self.lines = [_box_lines(stage, fusions, is_after) for stage in picture.stages]
        self.groups = [] if is_after else [j for j in fusions.fused if len(j.rows) > 1]
        self.headings: dict[int, list[str]] = defaultdict(list)
        for repeat in picture.repeats:
            self.headings[repeat.first].append(f"repeat {repeat.times} times")
        for group in self.groups:
            self.headings[group.rows[0]].append("becomes one launch")
        self.labels = self._labels()
        self.layout: Layout = lay_out(
            picture,
            [len(lines) for lines in self.lines],
            {row: len(h) for row, h in self.headings.items()},
            {position: (len(above), len(below)) for position, (above, below) in self.labels.items()},
        )
        depth = max((repeat.depth + 1 for repeat in picture.repeats), default=0)
        longest = max((len(text) for lines in self.lines for _, text in lines), default=0)
        headed = max((len(text) for texts in self.headings.values() for text in texts), default=0)
        self.left = PAD + 4 + REPEAT * depth
        self.box = round(max(longest, headed, 12) * CHAR * 1.06 + 2 * PAD)
        label = max((len(t) for above, below in self.labels.values() for t in (*above, *below)), default=0)
        self.label_end = self.left + self.box + round(label * CHAR) + 26
        self.width = self.label_end + LANE * self.layout.lanes + PAD
        self.height = self.layout.height
        self.marks = [*self._marks()]
        # a short drawing has no room for its label
        self.height = max([self.height, *(round(m.tip_y + m.tip_height) + 4 for m in self.marks)])
        self.least_width = round(self.width * LEAST_SCALE)
        self.colors = {name: f"wire c{i % COLORS}" for i, name in enumerate(colors)}

    @property
    def title(self) -> str:
        return f"Pipeline @{self.picture.name} {'after' if self.is_after else 'before'} the passes"

    @property
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

    def repeats(self) -> Iterator[tuple[str, str, float, float]]:
        """(path, heading, its x, its y) of each repeat."""
        headings: dict[int, int] = defaultdict(int)  # of each row, those placed so far
        for repeat in self.picture.repeats:
            first, last = self.layout.boxes[repeat.first], self.layout.boxes[repeat.last]
            number = headings[repeat.first]
            headings[repeat.first] += 1
            x, top, end = PAD + REPEAT * repeat.depth, first.top + HEADING * number + 9, last.y + last.height
            path = f"M{x + 8} {top} H{x + 4} Q{x} {top} {x} {top + 4} V{end} Q{x} {end + 4} {x + 4} {end + 4} H{x + 8}"
            yield path, self.headings[repeat.first][number], x + 11, first.top + HEADING * number + 13

    def outlines(self) -> Iterator[tuple[str, float, float]]:
        """(program, top, height) of each group of stages that becomes one launch."""
        for group in self.groups:
            first, last = self.layout.boxes[group.rows[0]], self.layout.boxes[group.rows[-1]]
            top = first.y - HEADING
            yield group.program, top, last.y + last.height + 6 - top

    def boxes(self) -> Iterator[tuple[StagePicture, Box, str, list[tuple[str, str, int]]]]:
        """(stage, box, CSS classes, lines of text with their y) of each stage."""
        for stage, box, lines in zip(self.picture.stages, self.layout.boxes, self.lines, strict=True):
            joined = " joined" if any(kind == "part" for kind, _ in lines) else ""
            top = box.y + (box.height - len(lines) * LINE) // 2 + 11
            placed = [(kind, text, top + n * LINE) for n, (kind, text) in enumerate(lines)]
            yield stage, box, f"box {stage.kind}{joined}", placed

    # --- marks: why launches stayed apart, and buffers in memory

    def _marks(self) -> Iterator[Mark]:
        yield from self._cuts()
        for stage, box in zip(self.picture.stages, self.layout.boxes, strict=True):
            for position, index in enumerate(self.fusions.kept_in(stage)):
                x = self.left + self.box - 14 - 20 * position
                if x > self.left + 40:  # the list below the drawing has all
                    kept = self.fusions.kept[index]
                    text = f"stays in memory: {sentence(kept.message)}"
                    yield self._mark(letter(index), f"{self.key}-kept-{index + 1}", text, x, box.y)

    def _cuts(self) -> Iterator[Mark]:
        """Between two boxes, one for each fusion that was missed."""
        marks: dict[int, int] = defaultdict(int)
        for row, index in self.fusions.cuts(self.picture):
            if not row:
                continue
            before, after = self.layout.boxes[row - 1], self.layout.boxes[row]
            x = self.left + 16 + 22 * marks[row]
            marks[row] += 1
            if x <= self.left + self.box - 8:
                line = (before.y + before.height, after.top)
                reason = sentence(self.fusions.missed[index].message)
                mark = self._mark(str(index + 1), f"{self.key}-cut-{index + 1}", reason, x, sum(line) / 2)
                yield replace(mark, line=line)

    def _mark(self, text: str, target: str, reason: str, x: float, y: float) -> Mark:
        """Return a mark whose tip is where there is room in the drawing, below the mark or above it."""
        limit = max(20, min(MAX_TIP, int((self.width - 4 * PAD) / CHAR)))
        lines = wrap(reason, limit)
        if len(lines) > MAX_TIP_LINES:
            lines[MAX_TIP_LINES - 1 :] = ["\N{HORIZONTAL ELLIPSIS}"]
        mark = Mark(text, target, reason, x, y, tuple(lines))
        tip_x = max(2.0, min(x - 8, self.width - mark.tip_width - 2))
        is_below = y + 12 + mark.tip_height <= self.height or y < self.height / 2
        tip_y = y + 12 if is_below else max(2.0, y - 12 - mark.tip_height)
        return replace(mark, tip_x=tip_x, tip_y=tip_y)

    # --- wires

    def _labels(self) -> dict[tuple[int, str], tuple[list[str], list[str]]]:
        """Lines of text by stage and buffer: above the wire the name, and the others below it.

        These are the size at the first port, and the host at the first or the last.
        """
        rows_by_name: dict[str, list[int]] = defaultdict(list)
        for row, stage in enumerate(self.picture.stages):
            for name in dict.fromkeys((*stage.reads, *stage.writes)):
                rows_by_name[name].append(row)
        labels = {}
        for name, rows in rows_by_name.items():
            buffer = self.picture.buffers[name]
            for row in rows:
                more = []
                if row == rows[0]:
                    more.append("? bytes" if buffer.size is None else show_bytes(buffer.size))
                    more += ["from host"] * buffer.from_host
                more += ["to host"] * (buffer.to_host and row == rows[-1])
                labels[row, name] = (
                    wrap(f"@{name}", MAX_LABEL),
                    wrap(", ".join(more), MAX_LABEL) if more else [],
                )
        return labels

    def wires(self) -> Iterator[tuple[str, Wire, str]]:
        """(buffer, wire, path) of each buffer."""
        for name, wire in self.layout.wires.items():
            yield name, wire, " ".join(self._path(wire))

    def _path(self, wire: Wire) -> Iterator[str]:
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

    def texts(self, port: Port) -> Iterator[tuple[str, str, float]]:
        """(CSS class, text, y) of the lines at a port."""
        above, below = self.labels[port.row, port.buffer]
        for number, text in enumerate(reversed(above)):
            yield "", text, port.y - 3.5 - LABEL * number
        for number, text in enumerate(below):
            yield "more", text, port.y + LABEL - 1 + LABEL * number


def letter(index: int) -> str:
    """a, b, ... z, aa, ab, ..., as a list of lower-case letters counts."""
    letters = ""
    number = index + 1
    while number:
        number, digit = divmod(number - 1, 26)
        letters = chr(ord("a") + digit) + letters
    return letters


def _box_lines(stage: StagePicture, fusions: Decisions, is_after: bool) -> list[Line]:
    """The lines of a stage's box."""
    return [
        (kind, line) for kind, text in _box_texts(stage, fusions, is_after) for line in wrap(text, MAX_BOX)
    ]


def _box_texts(stage: StagePicture, fusions: Decisions, is_after: bool) -> Iterator[Line]:
    if stage.kind == "host_read":
        yield "title", f"host reads @{stage.name}"
        return
    yield from (("title", stage.title), ("shape", stage.shape))
    fusion = fusions.fusion_of(stage) if is_after else None
    if fusion is not None:
        parts = [f"@{name}" for name in fusion.launches]
        if len(parts) > MAX_PARTS:
            parts[MAX_PARTS - 1 :] = [f"and {len(parts) - MAX_PARTS + 1} more"]
        yield from (("part", f"{'= ' if i == 0 else '+ '}{part}") for i, part in enumerate(parts))
        names = fusion.in_registers
        if names:
            what = f"@{names[0]}" if len(names) == 1 else f"{len(names)} hand-offs"
            yield "tile", f"{what} in registers"
    for name, size in stage.tiles:
        yield "tile", f"tile @{name}, {show_bytes(size)}"
