"""Launches that the passes fused, and launches that they left apart, read from their remarks.

Stages are named by their rows, that is their indices in the picture of the pipeline before the
passes.  A key that a remark's certificate lacks is a fact not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ..ir.diagnostics import Location
from ..records import dataclass
from .pictures import PipelinePicture, StagePicture

if TYPE_CHECKING:
    from ..passes.manager import Remark

__all__ = [
    "Decisions",
    "FusedLaunches",
    "KeptBuffer",
    "MissedFusion",
    "decisions",
    "location_text",
    "sentence",
    "source_line",
]


REGISTERS = "registers"


@dataclass(frozen=True, slots=True)
class FusedLaunches:
    """`launches` that became one of `program`; `rows` is empty if they are not in the picture.

    `handoffs`: for each buffer that left the pipeline, where its values are now ("registers").
    """

    launches: tuple[str, ...]
    program: str
    handoffs: Mapping[str, str]
    halo: bool
    message: str
    loc: Location | None
    rows: range

    @property
    def in_registers(self) -> list[str]:
        return [name for name, where in self.handoffs.items() if where == REGISTERS]


@dataclass(frozen=True, slots=True)
class MissedFusion:
    """Two launches that were not fused.  `row`: row of the second, None if it is not in the picture."""

    first: str
    second: str
    buffer: str
    reason: str
    message: str
    loc: Location | None
    row: int | None


@dataclass(frozen=True, slots=True)
class KeptBuffer:
    """A hand-off within a program that stays in memory: `reason` in a word, `message` in full."""

    program: str
    buffer: str
    reason: str
    message: str
    loc: Location | None


@dataclass(slots=True)
class Decisions:
    """The fusion decisions of one pipeline; `edges` are the certificates of the pass fusion_pressure."""

    fused: list[FusedLaunches] = field(default_factory=list)
    missed: list[MissedFusion] = field(default_factory=list)
    kept: list[KeptBuffer] = field(default_factory=list)
    edges: list[Mapping[str, Any]] = field(default_factory=list)

    def fusion_of(self, stage: StagePicture) -> FusedLaunches | None:
        """The fusion that made a stage of the picture after the passes, if one did."""
        of_program = [f for f in self.fused if f.program == stage.name and stage.kind == "launch"]
        # Fusions with equal bodies share a program; the location tells them apart.
        at_location = [f for f in of_program if f.loc and stage.loc and str(f.loc) == str(stage.loc)]
        return next(iter([*at_location, *of_program]), None)

    def kept_in(self, stage: StagePicture) -> list[int]:
        """Indices in `kept` of the buffers of a launch's program."""
        return [i for i, b in enumerate(self.kept) if stage.kind == "launch" and b.program == stage.name]

    def cuts(self, picture: PipelinePicture) -> list[tuple[int, int]]:
        """Pairs (row of its second stage in `picture`, index in `missed`) of the missed fusions that `picture` shows."""
        rows = _rows(picture)
        cuts = ((_row(cut.loc, rows), index) for index, cut in enumerate(self.missed))
        return [(row, index) for row, index in cuts if row is not None]


def decisions(before: PipelinePicture, after: PipelinePicture | None, remarks: Sequence[Remark]) -> Decisions:
    """Decisions that the remarks tell about one pipeline."""
    result = Decisions()
    tiles = _tiles(remarks)
    internal_of: dict[str, list[str]] = {}
    used = {(s.name, name) for s in (after.stages if after else ()) for name, _ in s.tiles}
    rows = _rows(before)
    launched = {stage.name for picture in (before, after) if picture for stage in picture.stages}
    for remark in remarks:
        facts = remark.certificate
        if remark.pass_name == "decode_scan_fuse" and remark.kind == "refused":
            program, buffer, reason = (str(facts.get(key) or "") for key in ("program", "buffer", "reason"))
            if program in launched:
                result.kept.append(KeptBuffer(program, buffer, reason, remark.message, remark.loc))
        if facts.get("pipeline") != before.name:
            continue
        if remark.pass_name == "fusion_pressure" and "edges" in facts:
            result.edges += facts["edges"]
        elif remark.pass_name == "launch_fusion" and remark.kind == "applied":
            result.fused.append(_fused(remark, before, rows, tiles, used, internal_of))
        elif remark.pass_name == "launch_fusion" and remark.kind == "refused":
            first, second, buffer, reason = (
                str(facts.get(key) or "") for key in ("first", "second", "buffer", "reason")
            )
            row = _row(remark.loc, rows)
            result.missed.append(MissedFusion(first, second, buffer, reason, remark.message, remark.loc, row))
    result.missed.sort(key=lambda cut: len(before.stages) if cut.row is None else cut.row)
    return result


def _rows(picture: PipelinePicture) -> dict[str, int]:
    """Rows by where the stage was written; the first, if stages share a place."""
    rows: dict[str, int] = {}
    for row, stage in enumerate(picture.stages):
        if stage.loc is not None:
            rows.setdefault(str(stage.loc), row)
    return rows


def _row(loc: Location | None, rows: Mapping[str, int]) -> int | None:
    return None if loc is None else rows.get(str(loc))


def _tiles(remarks: Iterable[Remark]) -> dict[tuple[str, str], int]:
    """Sizes in bytes of the tiles that decode_scan_fuse made, by program and buffer."""
    return {
        (str(r.certificate.get("program")), str(r.certificate.get("buffer"))): int(
            r.certificate["tile_bytes"]
        )
        for r in remarks
        if r.pass_name == "decode_scan_fuse" and r.kind == "applied" and "tile_bytes" in r.certificate
    }


def _fused(
    remark: Remark,
    before: PipelinePicture,
    rows: Mapping[str, int],
    tiles: Mapping[tuple[str, str], int],
    used: set[tuple[str, str]],
    internal_of: dict[str, list[str]],
) -> FusedLaunches:
    """`internal_of`: by program, the internal buffers of the first group it was built for.

    Groups with equal bodies share that program, so their own buffers correspond to those in order.
    """
    facts = remark.certificate
    launches = tuple(map(str, facts.get("launches") or ()))
    program = str(facts.get("program") or "")
    handoffs = {}
    internal = list(map(str, facts.get("internal") or ()))
    for name, tile_name in zip(internal, internal_of.setdefault(program, internal), strict=False):
        size = tiles.get((program, tile_name))
        if (program, tile_name) in used:
            handoffs[name] = f"a workgroup tile of {size} bytes" if size is not None else "a workgroup tile"
        else:
            handoffs[name] = REGISTERS if size is not None else "storage of the program alone"
    first = _row(remark.loc, rows)
    covered = range(0) if first is None else _covered(before.stages, first, launches)
    halo = bool(facts.get("halo"))
    return FusedLaunches(launches, program, handoffs, halo, remark.message, remark.loc, covered)


def _covered(stages: Sequence[StagePicture], first: int, launches: Sequence[str]) -> range:
    """The rows from `first` on that became `launches`; a named kernel was expanded to one or more."""
    row, at = first, 0
    while row < len(stages) and at < len(launches):
        stage = stages[row]
        if stage.kind == "kernel":
            # launches that clear scratch buffers may precede the launch of the program named after the kernel
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


# --- messages and locations


def sentence(message: str) -> str:
    """The first line of a message."""
    return message.partition("\n")[0]


def location_text(loc: Location | None) -> str:
    """`file.vyre:12`, or "" if there is no location."""
    return f"{loc.source.name}:{loc.line}" if loc is not None else ""


def source_line(loc: Location, limit: int = 200) -> str:
    """The line at `loc`, cut at `limit` characters; unprintable ones become U+FFFD."""
    text = loc.source.line_text(loc.line)[:limit].strip()
    return "".join(c if c.isprintable() else " " if c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
