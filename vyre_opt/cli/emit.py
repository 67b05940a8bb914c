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

__all__ = ["FORMS", "check_form", "emit", "join"]

LOWERED = ("llvm", "ptx", "asm")
FORMS = ("vyre", *LOWERED, "json", "dot")


def check_form(form: str, target: str | None, version: tuple[int, int] | None) -> None:
    """Raises ValueError for a form that the target does not have."""
    if form in LOWERED:
        from .emit_lowered import check_lowered

        check_lowered(form, target, version)


def emit(
    module: Module,
    settings: Settings,
    manager: PassManager | None,
    remarks: Sequence[Remark],
    statistics: Mapping[tuple[str, str], int],
) -> str:
    """The text of a module in the form that the settings ask for."""
    if settings.emit in LOWERED:
        from .emit_lowered import lowered

        return lowered(module, settings)
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
