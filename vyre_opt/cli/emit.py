"""`--emit`: the forms in which a compiled module leaves the tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..ir.printer import print_program
from ..ir.program import Module
from .conduct import ToolError
from .settings import Settings
from .split import MARKER

if TYPE_CHECKING:
    from ..passes.manager import PassManager, Remark

__all__ = ["FORMS", "check_form", "emit", "join"]

LOWERED = ("llvm", "ptx", "asm")
FORMS = ("vyre", *LOWERED, "json", "dot")


def check_form(form: str) -> None:
    """Raises ToolError for a form that this version cannot emit."""
    if form in LOWERED:
        raise ToolError(f"--emit={form}: this version has no lowering yet; it emits vyre, json and dot")


def emit(
    module: Module,
    settings: Settings,
    manager: PassManager | None,
    remarks: Sequence[Remark],
    statistics: Mapping[tuple[str, str], int],
) -> str:
    """The text of a module in the form that the settings ask for."""
    if settings.emit == "json":
        from .emit_json import document

        return document(module, settings.target, manager, remarks, statistics)
    if settings.emit == "dot":
        from .emit_dot import graph

        return graph(module)
    return print_program(module, generic=settings.print_generic)


def join(texts: Sequence[str], form: str, is_split: bool) -> str:
    """One text of the texts of a split input: a list for json, else parts between markers."""
    if form == "json" and is_split:
        return f"[\n{','.join(texts).rstrip()}\n]\n"
    return f"{MARKER}\n".join(texts)
