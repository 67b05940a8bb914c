"""`--verify-roundtrip`: the text of a module, short and generic, reads back as the same bytes."""

from __future__ import annotations

from ..ir.diagnostics import DiagnosticError, Source
from ..ir.parser import parse_source
from ..ir.printer import print_program
from ..ir.program import Module
from .errors import ToolError

__all__ = ["check_roundtrip"]

SHOWN_LINES = 20


def check_roundtrip(module: Module) -> None:
    """Raises ToolError with a diff for a text that does not come back as it was printed."""
    short, generic = print_program(module), print_program(module, generic=True)
    for form, text in (("short", short), ("generic", generic)):
        try:
            again = parse_source(Source(text, f"<{form} form>"))
        except DiagnosticError as unread:
            raise ToolError(f"round trip: the {form} form does not parse\n{unread}") from None
        _same(short, print_program(again), form, "short")
        _same(generic, print_program(again, generic=True), form, "generic")


def _same(printed: str, again: str, read: str, form: str) -> None:
    if printed == again:
        return
    from difflib import unified_diff
    from itertools import islice

    lines = unified_diff(printed.splitlines(), again.splitlines(), "printed", "read back", lineterm="")
    shown = "\n".join(islice(lines, SHOWN_LINES))
    raise ToolError(f"round trip: the {read} form read back prints otherwise in the {form} form\n{shown}")
