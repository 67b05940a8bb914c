"""`--emit`: the forms in which a compiled module leaves the tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..ir.printer import print_program
from ..ir.program import Module
from .settings import Settings
from .split import MARKER

if TYPE_CHECKING:
    from ..passes.manager import PassManager, Remark
    from ..report.pictures import PipelinePicture

__all__ = ["FORMS", "check_form", "emit", "join", "pictures_before"]

LOWERED = ("llvm", "ptx", "asm")
REPORTS = ("html", "dot")
FORMS = ("vyre", *LOWERED, "json", *REPORTS)


def check_form(form: str, target: str | None, version: tuple[int, int] | None, is_split: bool) -> None:
    """Raises ValueError for a form that the target, or a split input, does not have."""
    if form == "html" and is_split:
        raise ValueError("--emit=html makes one page of one module; run it without --split-input-file")
    if form in LOWERED:
        from .emit_lowered import check_lowered

        check_lowered(form, target, version)


def pictures_before(module: Module, settings: Settings) -> Mapping[str, PipelinePicture]:
    """The pipelines before any pass, for the forms that show what passes made of them."""
    if settings.emit not in REPORTS:
        return {}
    from ..report.pictures import pictures

    return pictures(module)


def emit(
    module: Module,
    settings: Settings,
    manager: PassManager | None,
    remarks: Sequence[Remark],
    statistics: Mapping[tuple[str, str], int],
    before: Mapping[str, PipelinePicture],
) -> str:
    """The text of a module in the form that the settings ask for; `before` is from `pictures_before`."""
    if settings.emit in LOWERED:
        from .emit_lowered import lowered

        return lowered(module, settings)
    if settings.emit == "json":
        from .emit_json import document

        return document(module, settings.target, manager, remarks, statistics)
    if settings.emit == "dot":
        from .emit_dot import graph

        return graph(module, before, remarks)
    if settings.emit == "html":
        from ..report.page import page

        return page(module, before, manager, remarks)
    return print_program(module, generic=settings.print_generic)


def join(texts: Sequence[str], form: str, is_split: bool) -> str:
    """One text of the texts of a split input: a list for json, else parts between markers."""
    if form == "json" and is_split:
        return f"[\n{','.join(texts).rstrip()}\n]\n"
    return f"{MARKER}\n".join(texts)
