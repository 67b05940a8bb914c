"""`--emit=html`: what became of a module's pipelines, as one page that needs nothing else.

No script, no font, no address outside of it; the same bytes for the same module and passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING

from ..ir.diagnostics import Location
from ..ir.program import Module, Program
from .decisions import Apart, Decisions, decisions, place, source_line
from .drawing import drawing
from .markup import Markup, element, joined
from .pictures import PipelinePicture, pictures
from .traffic import Traffic, show_bytes

if TYPE_CHECKING:
    from ..passes.manager import PassManager, Remark

__all__ = ["page"]

WIDE = 40
"""Characters of a cell that may be broken into lines."""


def page(
    module: Module,
    before: Mapping[str, PipelinePicture],
    manager: PassManager | None,
    remarks: Sequence[Remark],
) -> str:
    """The page of a module after its passes; `before` has its pipelines as they were."""
    name = module.source.name if module.source is not None else "a module"
    after = pictures(module)
    body = [
        _pipeline(number, picture, after.get(key), remarks)
        for number, (key, picture) in enumerate(before.items())
    ]
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
    whole = element("html", head, "\n", element("body", *content), lang="en")
    return f"<!DOCTYPE html>\n{whole}\n"


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
    number: int, before: PipelinePicture, after: PipelinePicture | None, remarks: Sequence[Remark]
) -> Markup:
    key = f"p{number}"
    decided = decisions(before, after, remarks)
    head = [element("h2", "pipeline ", element("code", f"@{before.name}"))]
    where = place(before.loc)
    if where:
        head.append(element("p", where, class_="soft mono"))
    is_same = after is not None and _words(before) == _words(after)
    shown = [(before, False)] if is_same else [(before, False), *([(after, True)] if after else [])]
    colors = list(dict.fromkeys([*before.buffers, *(after.buffers if after else ())]))
    figures = [_figure(picture, decided, colors, is_after, is_same, key) for picture, is_after in shown]
    return element(
        "section",
        *head,
        _numbers(before, after or before),
        element("div", *figures, class_="figures"),
        *_joined(decided),
        *_apart(decided.apart, key),
        *_pressure(decided),
        class_="card",
    )


def _words(picture: PipelinePicture) -> list[tuple[object, ...]]:
    return [(s.kind, s.name, s.shape, s.reads, s.writes, s.times, s.tiles) for s in picture.stages]


def _numbers(before: PipelinePicture, after: PipelinePicture) -> Markup:
    was, now = before.traffic, after.traffic
    tiles = {(s.name, name): size for s in after.stages for name, size in s.tiles}
    rows = [
        _number(str(before.launches), str(after.launches), "launches"),
        _number(
            show_bytes(was.known),
            show_bytes(now.known),
            f"through memory, each buffer as a whole{_beside(was, now)}",
        ),
    ]
    if was.known > now.known:
        rows.append(_number("", show_bytes(was.known - now.known), "less through memory"))
    if tiles:
        rows.append(
            _number("", show_bytes(sum(tiles.values())), "in workgroup tiles, all programs' added up")
        )
    return element("ul", *rows, class_="numbers")


def _beside(was: Traffic, now: Traffic) -> str:
    """What the known bytes leave out: buffers of open size, as often as they are moved."""
    if not was.open and not now.open:
        return ""
    shown = [", ".join(f"{times} x @{name}" for name, times in moved.open.items()) for moved in (was, now)]
    changed = f" \N{RIGHTWARDS ARROW} {shown[1] or 'none'}" if shown[0] != shown[1] else ""
    return f"; beside them, of open size, {shown[0] or 'none'}{changed}"


def _number(was: str, now: str, label: str) -> Markup:
    if not was or was == now:
        value = element("span", now, class_="value")
    else:
        value = element(
            "span", f"{was} \N{RIGHTWARDS ARROW} ", element("span", now, class_="less"), class_="value"
        )
    return element("li", value, element("span", label, class_="label"))


def _figure(
    picture: PipelinePicture,
    decided: Decisions,
    colors: Sequence[str],
    is_after: bool,
    is_same: bool,
    key: str,
) -> Markup:
    name = "after" if is_after else "before"
    svg = drawing(picture, decided, colors, is_after=is_after, key=key)
    caption = "The stages, which no pass has changed" if is_same else name.capitalize()
    label = f"Drawing of the pipeline {name} the passes"
    return element(
        "figure",
        element("figcaption", caption),
        element("div", svg, class_="scroll", tabindex=0, role="region", aria_label=label),
        element("details", element("summary", "The same as a table"), _stage_table(picture)),
    )


def _stage_table(picture: PipelinePicture) -> Markup:
    def names(given: Iterable[str]) -> str:
        return " ".join(f"@{name}" for name in given)

    rows = []
    for number, stage in enumerate(picture.stages):
        tiles = ", ".join(f"@{name} {show_bytes(size)}" for name, size in stage.tiles)
        title = f"host reads @{stage.name}" if stage.kind == "host_read" else stage.title
        reads = "" if stage.kind == "host_read" else names(stage.reads)
        times = "" if stage.times == 1 else f"{stage.times} times, "
        rows.append(
            (str(number + 1), title, times + stage.shape, reads, names(stage.writes), tiles, place(stage.loc))
        )
    buffers = [
        (
            f"@{b.name}",
            b.type,
            "?" if b.size is None else show_bytes(b.size),
            " and ".join(["from the host"] * b.given + ["to the host"] * b.taken),
        )
        for b in picture.buffers.values()
    ]
    stages = _table(("", "stage", "shape", "reads", "writes", "tiles", "place"), rows)
    return joined(stages, element("p"), _table(("buffer", "type", "size", "host"), buffers))


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


# --- what was decided


def _joined(decided: Decisions) -> Iterator[Markup]:
    if not decided.joined:
        return
    yield element("h3", "What became one launch")
    rows = []
    for made in decided.joined:
        parts = ", ".join(f"@{name}" for name in made.launches)
        items = [
            element(
                "p",
                element("strong", f"@{made.program}" if made.program else "one program"),
                f" from {parts}",
            )
        ]
        by_place: dict[str, list[str]] = {}
        for name, where in made.kept.items():
            by_place.setdefault(where, []).append(f"@{name}")
        kept = [
            element("li", element("code", ", ".join(names)), f": {'each ' * (len(names) > 1)}now in {where}")
            for where, names in by_place.items()
        ]
        if made.halo:
            kept.append(element("li", "what neighbouring workgroups need of each other is computed again"))
        if kept:
            items.append(element("ul", *kept))
        if made.halo or not kept:
            items.append(element("p", _sentence(made.message), class_="soft"))
        rows.append(element("li", *items))
    yield element("ul", *rows, class_="list")


def _apart(apart: Sequence[Apart], key: str) -> Iterator[Markup]:
    if not apart:
        return
    yield element("h3", "What stayed apart, and the fact that is missing")
    rows = [
        element("li", _sentence(cut.message), *_reason(cut), *_place(cut.loc), id=f"{key}-cut-{number + 1}")
        for number, cut in enumerate(apart)
    ]
    yield element("ol", *rows, class_="list cuts")


def _sentence(message: str) -> str:
    return message.partition("\n")[0]


def _reason(cut: Apart) -> Iterator[Markup]:
    if cut.reason:
        yield joined(" ", element("code", cut.reason, class_="kind-refused"))


def _place(loc: Location | None) -> Iterator[Markup]:
    if loc is not None:
        yield element("pre", element("span", f"{place(loc)}  ", class_="soft"), source_line(loc), tabindex=0)


def _pressure(decided: Decisions) -> Iterator[Markup]:
    if not decided.edges:
        return
    head = ("launches", "buffers", "rank", "pressure", "bytes at a cut", "decision")
    rows = []
    for edge in decided.edges:
        least = "at least " if "least_bytes" in edge else ""
        moved = edge.get("bytes", edge.get("least_bytes", "?"))
        decision = {True: "fuse", False: "leave"}.get(edge.get("fuse", ""), str(edge.get("reason", "?")))
        rows.append(
            (
                f"@{edge.get('first', '?')} \N{RIGHTWARDS ARROW} @{edge.get('second', '?')}",
                " ".join(f"@{name}" for name in edge.get("buffers", ())),
                str(edge.get("rank", "?")),
                str(edge.get("pressure", "?")),
                f"{least}{moved}",
                decision,
            )
        )
    table = _table(head, rows, frozenset((2, 3, 4)))
    yield element("details", element("summary", "How strongly the launches are tied"), table)


# --- the rest of the module


def _programs(module: Module) -> Markup:
    rows = []
    for item in module.order:
        if not isinstance(item, Program):
            continue
        buffers = ", ".join(
            f"@{b.name} : {b.dtype}[{'?' if b.count is None else b.count}] {b.access}"
            for b in item.buffers.values()
        )
        size = " x ".join(map(str, item.workgroup))
        rows.append((f"@{item.name}", size, str(sum(1 for _ in item.walk())), buffers, place(item.loc)))
    head = ("program", "workgroup", "ops", "buffers", "place")
    table = _table(head, rows, frozenset((2,))) if rows else element("p", "There are none.")
    title = element("summary", f"Programs ({len(rows)})")
    is_open = None if module.pipelines else ""
    return element("section", element("details", title, table, open=is_open), class_="card")


def _remarks(remarks: Sequence[Remark]) -> Iterator[Markup]:
    """All of them, by pass, folded away."""
    by_pass: dict[str, list[Remark]] = {}
    for remark in remarks:
        by_pass.setdefault(remark.pass_name, []).append(remark)
    if not by_pass:
        return
    sections = []
    for name, said in by_pass.items():
        items = [
            element(
                "li",
                element("span", remark.kind, class_=f"kind-{remark.kind}"),
                f" {_sentence(remark.message)}",
                *_place(remark.loc),
            )
            for remark in said
        ]
        sections.append(
            element(
                "details", element("summary", f"{name} ({len(said)})"), element("ul", *items, class_="list")
            )
        )
    yield element("section", element("h2", "What the passes say"), *sections, class_="card")
