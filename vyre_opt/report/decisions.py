"""What passes joined and what they left apart, read off their remarks and put beside a picture.

The facts of remarks are read with care: a key that is not there is a fact not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..ir.diagnostics import Location
from .pictures import PipelinePicture, StagePicture

if TYPE_CHECKING:
    from ..passes.manager import Remark

__all__ = ["Apart", "Decisions", "Joined", "decisions", "place", "source_line"]


REGISTERS = "registers"


@dataclass(frozen=True, slots=True)
class Joined:
    """`launches` that became one of `program`; `rows` of the picture before, if they were found there.

    `kept`: for each buffer that left the pipeline, in words, where its values are now.
    """

    launches: tuple[str, ...]
    program: str
    kept: Mapping[str, str]
    halo: bool
    message: str
    loc: Location | None
    rows: range

    @property
    def in_registers(self) -> list[str]:
        return [name for name, where in self.kept.items() if where == REGISTERS]


@dataclass(frozen=True, slots=True)
class Apart:
    """A link that was not made.  `row`: the second stage in the picture before, None if not found."""

    first: str
    second: str
    buffer: str
    reason: str
    message: str
    loc: Location | None
    row: int | None


@dataclass(slots=True)
class Decisions:
    """Of one pipeline; `edges` are the facts of fusion_pressure."""

    joined: list[Joined] = field(default_factory=list)
    apart: list[Apart] = field(default_factory=list)
    edges: list[Mapping[str, Any]] = field(default_factory=list)

    def made(self, stage: StagePicture) -> Joined | None:
        """What a launch was joined from."""
        of_program = [made for made in self.joined if made.program == stage.name and stage.kind == "launch"]
        same_place = [
            made for made in of_program if made.loc and stage.loc and made.loc.start == stage.loc.start
        ]
        return next(iter([*same_place, *of_program]), None)

    def cuts(self, picture: PipelinePicture) -> list[tuple[int, int]]:
        """For each cut whose second stage is in a picture: its row there, and its place in `apart`."""
        rows = _rows(picture)
        found = ((_row(cut.loc, rows), at) for at, cut in enumerate(self.apart))
        return [(row, at) for row, at in found if row is not None]


def decisions(before: PipelinePicture, after: PipelinePicture | None, remarks: Sequence[Remark]) -> Decisions:
    """What remarks say of one pipeline."""
    found = Decisions()
    tiles = _tiles(remarks)
    made: dict[str, list[str]] = {}
    used = {(s.name, name) for s in (after.stages if after else ()) for name, _ in s.tiles}
    rows = _rows(before)
    for remark in remarks:
        facts = remark.certificate
        if facts.get("pipeline") != before.name:
            continue
        if remark.pass_name == "fusion_pressure" and "edges" in facts:
            found.edges += facts["edges"]
        elif remark.pass_name == "launch_fusion" and remark.kind == "applied":
            found.joined.append(_joined(remark, before, rows, tiles, used, made))
        elif remark.pass_name == "launch_fusion" and remark.kind == "refused":
            text = [str(facts.get(key) or "") for key in ("first", "second", "buffer", "reason")]
            found.apart.append(
                Apart(text[0], text[1], text[2], text[3], remark.message, remark.loc, _row(remark.loc, rows))
            )
    found.apart.sort(key=lambda cut: len(before.stages) if cut.row is None else cut.row)
    return found


def _rows(picture: PipelinePicture) -> dict[int, int]:
    """The first row of a stage by where it starts in the text."""
    found: dict[int, int] = {}
    for row, stage in enumerate(picture.stages):
        if stage.loc is not None:
            found.setdefault(stage.loc.start, row)
    return found


def _row(loc: Location | None, rows: Mapping[int, int]) -> int | None:
    return None if loc is None else rows.get(loc.start)


def _tiles(remarks: Iterable[Remark]) -> dict[tuple[str, str], int]:
    """Bytes of the tiles that decode_scan_fuse made, by program and buffer."""
    return {
        (str(r.certificate.get("program")), str(r.certificate.get("buffer"))): int(
            r.certificate["tile_bytes"]
        )
        for r in remarks
        if r.pass_name == "decode_scan_fuse" and r.kind == "applied" and "tile_bytes" in r.certificate
    }


def _joined(
    remark: Remark,
    before: PipelinePicture,
    rows: Mapping[int, int],
    tiles: Mapping[tuple[str, str], int],
    used: set[tuple[str, str]],
    made: dict[str, list[str]],
) -> Joined:
    """`made`: by program, the buffers of the first group it was made for; groups alike share it."""
    facts = remark.certificate
    launches = tuple(map(str, facts.get("launches") or ()))
    program = str(facts.get("program") or "")
    kept = {}
    internal = list(map(str, facts.get("internal") or ()))
    for name, own in zip(internal, made.setdefault(program, internal), strict=False):
        size = tiles.get((program, own))
        if (program, own) in used:
            kept[name] = f"a workgroup tile of {size} bytes" if size is not None else "a workgroup tile"
        else:
            kept[name] = REGISTERS if size is not None else "storage of the program alone"
    first = _row(remark.loc, rows)
    matched = range(0) if first is None else _matched(before.stages, first, launches)
    return Joined(launches, program, kept, bool(facts.get("halo")), remark.message, remark.loc, matched)


def _matched(stages: Sequence[StagePicture], first: int, launches: Sequence[str]) -> range:
    """The stages from `first` on that became `launches`; a named kernel became one or more."""
    row, at = first, 0
    while row < len(stages) and at < len(launches):
        stage = stages[row]
        if stage.kind == "kernel":
            stem = stage.name.replace(".", "_")
            last = next((i for i in range(at, len(launches)) if launches[i].startswith(stem)), None)
            if last is None:
                break
            at = last + 1
        elif stage.kind == "launch" and stage.name == launches[at]:
            at += 1
        else:
            break
        row += 1
    return range(first, row)


# --- places in texts


def place(loc: Location | None) -> str:
    """`file.vyre:12`, or nothing."""
    return f"{loc.source.name}:{loc.line}" if loc is not None else ""


def source_line(loc: Location, limit: int = 200) -> str:
    """The line of a place, with what cannot be shown replaced."""
    text = loc.source.line_text(loc.line)[:limit].strip()
    return "".join(c if c.isprintable() else " " if c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
