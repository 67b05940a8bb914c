"""`--emit=html`: what the passes did to a module's pipelines, as one self-contained page, or as a part of another.

It has no scripts and loads nothing; the same module and passes give the same bytes, but for times that are measured.
What is shown is gathered here; how, is in `templates`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

from ..driver.call_report import CallReport, LaunchReport
from ..fusion.halo_plan import BYTES_PER_US, LAUNCH_US, OPS_PER_US
from ..ir.program import Module, Program
from ..ir.shapes import show_shape
from ..records import dataclass
from .decisions import Decisions, FusedLaunches, decisions, location_text
from .drawing import Drawing
from .environment import render, show_us
from .listings import listings
from .pictures import PipelinePicture, StagePicture, pictures
from .snapshot import ModuleSnapshot, item_texts
from .traffic import Traffic, show_bytes

if TYPE_CHECKING:
    from ..passes.manager import PassManager, Remark
    from .measure import RunTimes

__all__ = ["fragment", "page"]

ARROW = "\N{RIGHTWARDS ARROW}"


def page(
    module: Module,
    before: ModuleSnapshot,
    manager: PassManager | None,
    remarks: Sequence[Remark],
    measured: Mapping[str, RunTimes] | None = None,
    calls: Mapping[str, CallReport | str] | None = None,
) -> str:
    """The page of a module after its passes; `before`: as it was before them; by pipeline `measured`, and `calls`: what its
    launches ask of a machine, or why nobody knows."""
    passes = [str(p) for p in manager.passes] if manager is not None else []
    name = module.source.name if module.source is not None else "a module"
    return render(
        "page.html.jinja",
        name=name,
        passes=passes,
        **_content(module, before, remarks, "p", measured or {}, calls or {}),
        programs=[_program_row(item) for item in module.order if isinstance(item, Program)],
    )


def fragment(
    module: Module,
    before: ModuleSnapshot,
    remarks: Sequence[Remark],
    prefix: str,
    calls: Mapping[str, CallReport | str],
) -> str:
    """The drawings of the pipelines and what the passes say, for a place within another page, with the style.

    `prefix`: what ids begin with, so that they differ from those of other fragments on the page.  `calls`: see `page`.
    """
    return render("fragment.html.jinja", **_content(module, before, remarks, prefix, {}, calls))


def _content(
    module: Module,
    before: ModuleSnapshot,
    remarks: Sequence[Remark],
    prefix: str,
    measured: Mapping[str, RunTimes],
    calls: Mapping[str, CallReport | str],
) -> dict[str, Any]:
    """Content of both kinds of page."""
    after = pictures(module)
    pipelines = [
        _Pipeline(
            f"{prefix}{number}", picture, after.get(name), remarks, measured.get(name), calls.get(name, "")
        )
        for number, (name, picture) in enumerate(before.pictures.items())
    ]
    by_pass: dict[str, list[Remark]] = {}
    for remark in remarks:
        by_pass.setdefault(remark.pass_name, []).append(remark)
    fused = [fusion for pipeline in pipelines for fusion in pipeline.fusions.fused]
    return {
        "style": resources.files(__package__).joinpath("templates/page.css").read_text(encoding="utf-8"),
        "pipelines": pipelines,
        "listings": listings(before.texts, item_texts(module), fused),
        "remarks": by_pass,
    }


def _program_row(program: Program) -> tuple[str, ...]:
    buffers = ", ".join(
        f"@{b.name} : {b.dtype}[{show_shape(b.shape)}] {b.access}" for b in program.buffers.values()
    )
    size, ops = " x ".join(map(str, program.workgroup)), str(sum(1 for _ in program.walk()))
    return f"@{program.name}", size, ops, buffers, location_text(program.loc)


# --- a pipeline


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """A figure at the head of a pipeline, before the passes ("" if it has no such) and after them."""

    was: str
    now: str
    label: str


class _Pipeline:
    """A pipeline as the templates show it."""

    def __init__(
        self,
        key: str,
        before: PipelinePicture,
        after: PipelinePicture | None,
        remarks: Sequence[Remark],
        measured: RunTimes | None,
        call: CallReport | str,
    ) -> None:
        self.key, self.name, self.place = key, before.name, location_text(before.loc)
        self.fusions: Decisions = decisions(before, after, remarks)
        self.measured, self.call = measured, call
        self.is_same = after is not None and _without_locations(before) == _without_locations(after)
        states = [(before, False)] if after is None or self.is_same else [(before, False), (after, True)]
        colors = list(dict.fromkeys([*before.buffers, *(after.buffers if after else ())]))
        self.drawings = [
            Drawing(picture, self.fusions, colors, is_after=is_after, key=key) for picture, is_after in states
        ]
        self.numbers = [*_numbers(before, after or before), *_times(before, after or before, measured)]

    @property
    def launch_rows(self) -> list[tuple[str, ...]]:
        """Rows with the traffic, arithmetic, limit and decisions of each launch."""
        if isinstance(self.call, str):
            return []
        return [
            (
                launch.what if launch.times == 1 else f"{launch.what}, {launch.times} times",
                launch.moves,
                launch.computes,
                launch.lane,
                launch.limited,
                self._speed(launch),
                "; ".join(launch.decided),
                location_text(launch.loc),
            )
            for launch in self.call.launches
        ]

    def _speed(self, launch: LaunchReport) -> str:
        """Speed of the launch on this CPU, if it was measured there."""
        stages = {} if self.measured is None else self.measured.stages_after
        seconds = stages.get(str(launch.loc))
        return "" if not seconds else launch.speed_of(seconds / launch.times)

    @property
    def edges(self) -> list[tuple[str, ...]]:
        """Rows of how strongly the launches are tied."""
        rows: list[tuple[str, ...]] = []
        for edge in self.fusions.edges:
            moved = edge.get("bytes", edge.get("least_bytes", "?"))
            decision = {True: "fuse", False: "leave"}.get(edge.get("fuse", ""), str(edge.get("reason", "?")))
            rows.append(
                (
                    f"@{edge.get('first', '?')} {ARROW} @{edge.get('second', '?')}",
                    " ".join(f"@{name}" for name in edge.get("buffers", ())),
                    str(edge.get("rank", "?")),
                    str(edge.get("pressure", "?")),
                    f"{'at least ' if 'least_bytes' in edge else ''}{moved}",
                    decision,
                )
            )
        return rows

    @staticmethod
    def handoffs(fusion: FusedLaunches) -> list[tuple[str, str]]:
        """(names of buffers, where they are now) of those that left the pipeline."""
        by_place: dict[str, list[str]] = {}
        for name, where in fusion.handoffs.items():
            by_place.setdefault(where, []).append(f"@{name}")
        return [
            (", ".join(names), f"{'each ' * (len(names) > 1)}now in {where}")
            for where, names in by_place.items()
        ]

    def stage_rows(self, drawing: Drawing) -> list[tuple[str, ...]]:
        """A drawing's stages as rows of a table."""
        return [self._stage_row(n, stage, drawing) for n, stage in enumerate(drawing.picture.stages)]

    def _stage_row(self, number: int, stage: StagePicture, drawing: Drawing) -> tuple[str, ...]:
        is_read = stage.kind == "host_read"
        reasons = [
            self.fusions.missed[i].message for row, i in self.fusions.cuts(drawing.picture) if row == number
        ]
        reasons += [self.fusions.kept[i].message for i in self.fusions.kept_in(stage)]
        return (
            str(number + 1),
            f"host reads @{stage.name}" if is_read else stage.title,
            ("" if stage.times == 1 else f"{stage.times} times, ") + stage.shape,
            "" if is_read else _symbols(stage.reads),
            _symbols(stage.writes),
            ", ".join(f"@{name} {show_bytes(size)}" for name, size in stage.tiles),
            "" if stage.estimated_us is None else show_us(stage.estimated_us),
            self._measured_time(stage, drawing.is_after),
            "; ".join(reason.partition("\n")[0] for reason in reasons),
            location_text(stage.loc),
        )

    def _measured_time(self, stage: StagePicture, is_after: bool) -> str:
        if self.measured is None or stage.loc is None:
            return ""
        stages = self.measured.stages_after if is_after else self.measured.stages_before
        seconds = stages.get(str(stage.loc))
        return "" if seconds is None else show_us(1e6 * seconds / stage.times)

    @staticmethod
    def buffer_rows(drawing: Drawing) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = []
        for b in drawing.picture.buffers.values():
            host = " and ".join(["from the host"] * b.from_host + ["to the host"] * b.to_host)
            rows.append((f"@{b.name}", b.type, "?" if b.size is None else show_bytes(b.size), host))
        return rows


def _symbols(names: Sequence[str]) -> str:
    return " ".join(f"@{name}" for name in names)


def _without_locations(picture: PipelinePicture) -> list[tuple[object, ...]]:
    return [(s.kind, s.name, s.shape, s.reads, s.writes, s.times, s.tiles) for s in picture.stages]


def _numbers(before: PipelinePicture, after: PipelinePicture) -> Iterator[KeyFigure]:
    old, new = before.traffic, after.traffic
    yield KeyFigure(str(before.launches), str(after.launches), "launches")
    moved = f"through memory, each buffer as a whole{_open_traffic(old, new)}"
    yield KeyFigure(show_bytes(old.known), show_bytes(new.known), moved)
    if old.known > new.known:
        yield KeyFigure("", show_bytes(old.known - new.known), "less through memory")
    tiles = {(s.name, name): size for s in after.stages for name, size in s.tiles}
    if tiles:
        yield KeyFigure("", show_bytes(sum(tiles.values())), "in workgroup tiles, all programs' added up")


def _open_traffic(old: Traffic, new: Traffic) -> str:
    """Traffic that the known bytes leave out: moves of buffers of open size."""
    if not old.open and not new.open:
        return ""
    was, now = (", ".join(f"{n} x @{name}" for name, n in moved.open.items()) for moved in (old, new))
    change = f" {ARROW} {now or 'none'}" if was != now else ""
    return f"; beside them, of open size, {was or 'none'}{change}"


def _times(before: PipelinePicture, after: PipelinePicture, measured: RunTimes | None) -> Iterator[KeyFigure]:
    if before.estimated_us is not None and after.estimated_us is not None:
        label = (
            f"estimated, on a GPU of {BYTES_PER_US / 1e6:g} TB/s and {OPS_PER_US / 1e6:g} T ops/s "
            f"that takes {LAUNCH_US:g} us for a launch"
        )
        yield KeyFigure(show_us(before.estimated_us), show_us(after.estimated_us), label)
    if measured is not None and measured.refusal:
        yield KeyFigure("", "not measured", measured.refusal)
    elif measured is not None:
        label = f"measured on this CPU: medians of {measured.rounds} rounds in turns, {measured.inputs}"
        yield KeyFigure(show_us(1e6 * measured.before), show_us(1e6 * measured.after), label)
