"""`--emit=html`: what the passes did to a module's pipelines, as one self-contained page, or as a part of another.

It has no scripts and loads nothing; the same module and passes give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING

from ..ir.diagnostics import Location
from ..ir.program import Module, Program
from ..ir.shapes import show_shape
from .decisions import Decisions, MissedFusion, decisions, location_text, source_line
from .drawing import drawing
from .markup import Markup, concat, element
from .pictures import PipelinePicture, pictures
from .traffic import Traffic, show_bytes

if TYPE_CHECKING:
    from ..passes.manager import PassManager, Remark

__all__ = ["fragment", "page"]

WIDE = 40
"""A table cell of more characters than this may be broken into lines."""


def page(
    module: Module,
    before: Mapping[str, PipelinePicture],
    manager: PassManager | None,
    remarks: Sequence[Remark],
) -> str:
    """The page of a module after its passes; `before` has the pictures of its pipelines before them."""
    name = module.source.name if module.source is not None else "a module"
    body = _pipelines(module, before, remarks, "p")
    if not body:
        none = "This module has no pipeline, so there are no launches to join: its programs are below."
        body = [element("section", element("p", none), class_="card")]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"{name}: launches and hand-offs"),
        element("style", Markup(_style())),
    )
    content = [
        element("header", element("h1", name), *_passes(manager)),
        element("main", *body, _programs(module), *_remarks(remarks)),
    ]
    whole = element("html", head, "\n", element("body", *content, class_="report"), lang="en")
    return f"<!DOCTYPE html>\n{whole}\n"


def fragment(
    module: Module, before: Mapping[str, PipelinePicture], remarks: Sequence[Remark], prefix: str
) -> str:
    """The drawings of the pipelines and what the passes say, for a place within another page, with the style.

    `prefix`: what ids begin with, so that they differ from those of other fragments on the page.
    """
    style = element("style", Markup(_style()))
    body = _pipelines(module, before, remarks, prefix)
    return element("div", style, *body, *_remarks(remarks), class_="report")


def _pipelines(
    module: Module, before: Mapping[str, PipelinePicture], remarks: Sequence[Remark], prefix: str
) -> list[Markup]:
    after = pictures(module)
    return [
        _pipeline(f"{prefix}{number}", picture, after.get(name), remarks)
        for number, (name, picture) in enumerate(before.items())
    ]


def _style() -> str:
    return resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8")


def _passes(manager: PassManager | None) -> Iterator[Markup]:
    passes = [str(p) for p in manager.passes] if manager is not None else []
    if not passes:
        yield element("p", "No pass was run: this is the module as written.", class_="soft")
        return
    shown = element("p", element("code", ", ".join(passes)))
    yield element("details", element("summary", f"{len(passes)} passes were run"), shown, class_="soft")


# --- a pipeline


def _pipeline(
    key: str, before: PipelinePicture, after: PipelinePicture | None, remarks: Sequence[Remark]
) -> Markup:
    fusions = decisions(before, after, remarks)
    head = [element("h2", "pipeline ", element("code", f"@{before.name}"))]
    location = location_text(before.loc)
    if location:
        head.append(element("p", location, class_="soft mono"))
    is_same = after is not None and _without_locations(before) == _without_locations(after)
    states = [(before, False)] if after is None or is_same else [(before, False), (after, True)]
    colors = list(dict.fromkeys([*before.buffers, *(after.buffers if after else ())]))
    figures = [_figure(picture, fusions, colors, is_after, is_same, key) for picture, is_after in states]
    return element(
        "section",
        *head,
        _numbers(before, after or before),
        element("div", *figures, class_="figures"),
        *_fused(fusions),
        *_missed(fusions.missed, key),
        *_pressure(fusions),
        class_="card",
    )


def _without_locations(picture: PipelinePicture) -> list[tuple[object, ...]]:
    return [(s.kind, s.name, s.shape, s.reads, s.writes, s.times, s.tiles) for s in picture.stages]


def _numbers(before: PipelinePicture, after: PipelinePicture) -> Markup:
    old, new = before.traffic, after.traffic
    tiles = {(s.name, name): size for s in after.stages for name, size in s.tiles}
    moved = f"through memory, each buffer as a whole{_open_traffic(old, new)}"
    rows = [
        _number(str(before.launches), str(after.launches), "launches"),
        _number(show_bytes(old.known), show_bytes(new.known), moved),
    ]
    if old.known > new.known:
        rows.append(_number("", show_bytes(old.known - new.known), "less through memory"))
    if tiles:
        total = show_bytes(sum(tiles.values()))
        rows.append(_number("", total, "in workgroup tiles, all programs' added up"))
    return element("ul", *rows, class_="numbers")


def _open_traffic(old: Traffic, new: Traffic) -> str:
    """What the known bytes leave out: how often buffers of open size are moved."""
    if not old.open and not new.open:
        return ""
    was, now = (", ".join(f"{n} x @{name}" for name, n in moved.open.items()) for moved in (old, new))
    change = f" \N{RIGHTWARDS ARROW} {now or 'none'}" if was != now else ""
    return f"; beside them, of open size, {was or 'none'}{change}"


def _number(was: str, now: str, label: str) -> Markup:
    value = [now]
    if was and was != now:
        value = [f"{was} \N{RIGHTWARDS ARROW} ", element("span", now, class_="less")]
    return element("li", element("span", *value, class_="value"), element("span", label, class_="label"))


def _figure(
    picture: PipelinePicture,
    fusions: Decisions,
    colors: Sequence[str],
    is_after: bool,
    is_same: bool,
    key: str,
) -> Markup:
    name = "after" if is_after else "before"
    svg = drawing(picture, fusions, colors, is_after=is_after, key=key)
    caption = "The stages, which no pass has changed" if is_same else name.capitalize()
    label = f"Drawing of the pipeline {name} the passes"
    return element(
        "figure",
        element("figcaption", caption),
        element("div", svg, class_="scroll", tabindex=0, role="region", aria_label=label),
        element("details", element("summary", "The same as a table"), _stage_table(picture)),
    )


def _stage_table(picture: PipelinePicture) -> Markup:
    def symbols(names: Iterable[str]) -> str:
        return " ".join(f"@{name}" for name in names)

    rows = []
    for number, stage in enumerate(picture.stages):
        tiles = ", ".join(f"@{name} {show_bytes(size)}" for name, size in stage.tiles)
        title = f"host reads @{stage.name}" if stage.kind == "host_read" else stage.title
        reads = "" if stage.kind == "host_read" else symbols(stage.reads)
        times = "" if stage.times == 1 else f"{stage.times} times, "
        shape, place = times + stage.shape, location_text(stage.loc)
        rows.append((str(number + 1), title, shape, reads, symbols(stage.writes), tiles, place))
    buffers = []
    for b in picture.buffers.values():
        size = "?" if b.size is None else show_bytes(b.size)
        host = " and ".join(["from the host"] * b.from_host + ["to the host"] * b.to_host)
        buffers.append((f"@{b.name}", b.type, size, host))
    stages = _table(("", "stage", "shape", "reads", "writes", "tiles", "place"), rows)
    return concat(stages, element("p"), _table(("buffer", "type", "size", "host"), buffers))


def _table(
    head: Sequence[str], rows: Iterable[Sequence[str]], numbers: frozenset[int] = frozenset()
) -> Markup:
    def cell(tag: str, at: int, text: str) -> Markup:
        scope = "col" if tag == "th" else None
        kind = "number" if at in numbers else "wide" if len(text) > WIDE else None
        return element(tag, text, class_=kind, scope=scope)

    top = element("tr", *(cell("th", at, text) for at, text in enumerate(head)))
    body = [element("tr", *(cell("td", at, text) for at, text in enumerate(row))) for row in rows]
    table = element("table", element("thead", top), element("tbody", *body))
    return element("div", table, class_="scroll", tabindex=0)


# --- the decisions of the passes


def _fused(fusions: Decisions) -> Iterator[Markup]:
    if not fusions.fused:
        return
    yield element("h3", "What became one launch")
    rows = []
    for fusion in fusions.fused:
        parts = ", ".join(f"@{name}" for name in fusion.launches)
        program = f"@{fusion.program}" if fusion.program else "one program"
        items = [element("p", element("strong", program), f" from {parts}")]
        by_place: dict[str, list[str]] = {}
        for name, where in fusion.handoffs.items():
            by_place.setdefault(where, []).append(f"@{name}")
        handoffs = [
            element("li", element("code", ", ".join(names)), f": {'each ' * (len(names) > 1)}now in {where}")
            for where, names in by_place.items()
        ]
        if fusion.halo:
            handoffs.append(
                element("li", "what neighbouring workgroups need of each other is computed again")
            )
        if handoffs:
            items.append(element("ul", *handoffs))
        if fusion.halo or not handoffs:
            items.append(element("p", _sentence(fusion.message), class_="soft"))
        rows.append(element("li", *items))
    yield element("ul", *rows, class_="list")


def _missed(cuts: Sequence[MissedFusion], key: str) -> Iterator[Markup]:
    if not cuts:
        return
    yield element("h3", "What stayed apart, and the fact that is missing")
    rows = [
        element("li", _sentence(cut.message), *_reason(cut), *_source(cut.loc), id=f"{key}-cut-{number + 1}")
        for number, cut in enumerate(cuts)
    ]
    yield element("ol", *rows, class_="list cuts")


def _sentence(message: str) -> str:
    return message.partition("\n")[0]


def _reason(cut: MissedFusion) -> Iterator[Markup]:
    if cut.reason:
        yield concat(" ", element("code", cut.reason, class_="kind-refused"))


def _source(loc: Location | None) -> Iterator[Markup]:
    if loc is not None:
        place = element("span", f"{location_text(loc)}  ", class_="soft")
        yield element("pre", place, source_line(loc), tabindex=0)


def _pressure(fusions: Decisions) -> Iterator[Markup]:
    if not fusions.edges:
        return
    head = ("launches", "buffers", "rank", "pressure", "bytes at a cut", "decision")
    rows = []
    for edge in fusions.edges:
        prefix = "at least " if "least_bytes" in edge else ""
        moved = edge.get("bytes", edge.get("least_bytes", "?"))
        decision = {True: "fuse", False: "leave"}.get(edge.get("fuse", ""), str(edge.get("reason", "?")))
        first, second, rank, pressure = (
            str(edge.get(key, "?")) for key in ("first", "second", "rank", "pressure")
        )
        launches = f"@{first} \N{RIGHTWARDS ARROW} @{second}"
        names = " ".join(f"@{name}" for name in edge.get("buffers", ()))
        rows.append((launches, names, rank, pressure, f"{prefix}{moved}", decision))
    table = _table(head, rows, frozenset((2, 3, 4)))
    yield element("details", element("summary", "How strongly the launches are tied"), table)


# --- the rest of the module


def _programs(module: Module) -> Markup:
    rows = []
    for item in module.order:
        if not isinstance(item, Program):
            continue
        buffers = ", ".join(
            f"@{b.name} : {b.dtype}[{show_shape(b.shape)}] {b.access}" for b in item.buffers.values()
        )
        size = " x ".join(map(str, item.workgroup))
        ops = str(sum(1 for _ in item.walk()))
        rows.append((f"@{item.name}", size, ops, buffers, location_text(item.loc)))
    head = ("program", "workgroup", "ops", "buffers", "place")
    table = _table(head, rows, frozenset((2,))) if rows else element("p", "There are none.")
    title = element("summary", f"Programs ({len(rows)})")
    is_open = None if module.pipelines else ""
    return element("section", element("details", title, table, open=is_open), class_="card")


def _remarks(remarks: Sequence[Remark]) -> Iterator[Markup]:
    """All remarks, by pass, in folded sections."""
    by_pass: dict[str, list[Remark]] = {}
    for remark in remarks:
        by_pass.setdefault(remark.pass_name, []).append(remark)
    if not by_pass:
        return
    sections = []
    for name, own in by_pass.items():
        items = [
            element(
                "li",
                element("span", remark.kind, class_=f"kind-{remark.kind}"),
                f" {_sentence(remark.message)}",
                *_source(remark.loc),
            )
            for remark in own
        ]
        title = element("summary", f"{name} ({len(own)})")
        sections.append(element("details", title, element("ul", *items, class_="list")))
    yield element("section", element("h2", "What the passes say"), *sections, class_="card")
