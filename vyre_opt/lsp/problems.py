"""Diagnostics of an analysis in the protocol, and their fixes as code actions."""

from __future__ import annotations

from collections.abc import Iterator

from lsprotocol import types

from ..ir.diagnostics import Diagnostic, Fix, Location
from .analysis import DocumentAnalysis
from .positions import LineIndex
from .text_parts import Span

__all__ = ["code_actions", "diagnostics"]

_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "remark": types.DiagnosticSeverity.Information,
    "note": types.DiagnosticSeverity.Hint,
}
SOURCE = "vyre"


def diagnostics(analysis: DocumentAnalysis, lines: LineIndex, uri: str) -> list[types.Diagnostic]:
    """All that is wrong with a text."""
    return [_diagnostic(d, analysis, lines, uri) for d in analysis.diagnostics]


def _diagnostic(
    diagnostic: Diagnostic, analysis: DocumentAnalysis, lines: LineIndex, uri: str
) -> types.Diagnostic:
    message = diagnostic.message
    related = []
    for note, loc in diagnostic.notes:
        if loc is None:
            message += f"\nnote: {note}"
        else:
            place = types.Location(uri, lines.range(_visible(analysis.span(loc), lines.text)))
            related.append(types.DiagnosticRelatedInformation(place, note))
    if diagnostic.help:
        message += f"\nhelp: {diagnostic.help}"
    return types.Diagnostic(
        range=lines.range(_range(diagnostic.loc, analysis)),
        message=message,
        severity=_SEVERITIES[diagnostic.severity],
        source=SOURCE,
        related_information=related or None,
    )


def _range(loc: Location | None, analysis: DocumentAnalysis) -> Span:
    """Range of a message: for an op with blocks, its first line alone."""
    return Span(0, 0) if loc is None else _visible(analysis.span(loc), analysis.text)


def _visible(span: Span, text: str) -> Span:
    end = text.find("\n", span.start, span.end)
    if end < 0:
        return span
    return Span(span.start, span.start + len(text[span.start : end].rstrip()))


def code_actions(
    analysis: DocumentAnalysis, lines: LineIndex, uri: str, wanted: types.Range
) -> Iterator[types.CodeAction]:
    """The fixes of what is wrong in a range of the text, the first of each problem preferred."""
    span = lines.span(wanted)
    for diagnostic in analysis.diagnostics:
        place = _range(diagnostic.loc, analysis)
        if place.start <= span.end and span.start <= place.end:
            for number, fix in enumerate(diagnostic.fixes):
                yield types.CodeAction(
                    title=fix.title.removesuffix("?"),
                    kind=types.CodeActionKind.QuickFix,
                    diagnostics=[_diagnostic(diagnostic, analysis, lines, uri)],
                    is_preferred=number == 0,
                    edit=_workspace_edit(fix, analysis, lines, uri),
                )


def _workspace_edit(fix: Fix, analysis: DocumentAnalysis, lines: LineIndex, uri: str) -> types.WorkspaceEdit:
    edits = [types.TextEdit(lines.range(analysis.span(edit.loc)), edit.text) for edit in fix.edits]
    return types.WorkspaceEdit({uri: edits})
