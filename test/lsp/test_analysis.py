"""What an edit leaves is what the text alone says, and only the item that changed is parsed again."""

from __future__ import annotations

import random

import pytest
from frontend_inputs import straight_vyre
from support.half_typed import edits

from vyre_opt import parse
from vyre_opt.ir import Diagnostic, DiagnosticError, print_program
from vyre_opt.lsp.analysis import Analyzer, DocumentAnalysis, Stale


def shown(analysis: DocumentAnalysis) -> list[tuple[object, ...]]:
    """All that is wrong with a text: where, and in which words."""
    return sorted(
        (*(analysis.span(d.loc) if d.loc else (0, 0)), d.severity, d.message, len(d.notes), len(d.fixes))
        for d in analysis.diagnostics
    )


def reported(diagnostics: list[Diagnostic]) -> list[tuple[object, ...]]:
    return sorted((d.loc.start, d.loc.end, d.severity, d.message) for d in diagnostics if d.loc)


def check_history(texts: list[str], count: int, seed: int) -> None:
    choose = random.Random(seed)
    for _ in range(count):
        text, analyzer = choose.choice(texts), Analyzer("a.vyre")
        analyzer.analyze(text)
        for _, (start, end, new) in zip(range(5), edits(text, choose), strict=False):
            text = text[:start] + new + text[end:]
            after_edit, fresh = analyzer.analyze(text), Analyzer("a.vyre").analyze(text)
            assert shown(after_edit) == shown(fresh), text
            if not fresh.has_errors:
                assert (
                    print_program(after_edit.module)
                    == print_program(fresh.module)
                    == print_program(parse(text))
                )


def test_edits_leave_what_the_text_alone_says(texts):
    """Whatever was typed before: nothing of an older text stays, and nothing of the new one is missed."""
    check_history(texts, 12, seed=1)


@pytest.mark.campaign  # minutes: thousands of edits
@pytest.mark.parametrize("seed", range(1, 3))
def test_many_edits_leave_what_the_text_alone_says(texts, seed):
    check_history(texts, 700, seed)


def test_texts_have_the_errors_that_vyre_opt_finds(texts):
    """As a whole text without edits: the same messages in the same places."""
    for text in texts:
        try:
            parse(text)
            wanted: list[tuple[object, ...]] = []
        except DiagnosticError as error:
            wanted = reported(error.diagnostics)
        analysis = Analyzer("a.vyre").analyze(text)
        found = [row[:4] for row in shown(analysis) if row[2] == "error"]
        if text.count("\nvyre ") == 0 and len(wanted) < 20:  # not several texts in one file
            assert wanted == found, text


def test_items_that_did_not_change_are_not_parsed():
    item = "program @p{} workgroup(1) {{\n  buffer @x : u32[1] read_write binding(0) live_out\n}}\n"
    text = "vyre 1\n" + "".join(item.format(n) for n in range(100))
    analyzer = Analyzer("a.vyre")
    analyzer.analyze(text)
    moved = analyzer.analyze(text.replace("vyre 1\n", "vyre 1\n// a comment above all of them\n"))
    assert moved.parsed < 100
    changed = analyzer.analyze(text.replace("@p50 workgroup(1)", "@p50 workgroup(2)"))
    assert changed.parsed < 300


def test_what_is_declared_decides_what_statements_become():
    """The types that version 2 leaves out: of a load by its buffer, of a param, of a call by its function."""
    text = """vyre 2

func @f(%x : u32) -> u32 {
  yield %x
}

program @p workgroup(32) {
  buffer @x : u32[32] read binding(0)
  buffer @y : u32[32] write binding(1)
  param @n : u32

  %i = lane_id
  %v = load @x[%i]
  %n = param @n
  %s = add %v, 1
  %t = add %s, %n
  %r = call @f(%t)
  store %r, @y[%i]
}
"""
    analyzer = Analyzer("a.vyre")
    assert not analyzer.analyze(text).diagnostics
    for old, new in (
        ("@x : u32[32] read", "@x : f32[32] read"),
        ("param @n : u32", "param @n : i32"),
        ("@f(%x : u32) -> u32", "@f(%x : f32) -> f32"),
        ("-> u32 {\n  yield %x", "-> i32 {\n  yield 1"),
        ("func @f", "func @g"),
        ("vyre 2", "vyre 1"),
    ):
        changed = text.replace(old, new)
        assert shown(analyzer.analyze(changed)) == shown(Analyzer("a.vyre").analyze(changed))
        assert analyzer.analyze(changed).has_errors, new
        assert not analyzer.analyze(text).diagnostics


def test_a_stale_analysis_is_given_up():
    """And the next one is as if it had not been."""
    text, analyzer = straight_vyre(1000), Analyzer("a.vyre")
    with pytest.raises(Stale):
        analyzer.analyze(text, is_stale=lambda: True)
    assert not analyzer.analyze(text).diagnostics


def test_locations_are_exact_behind_an_edit():
    """The place of an error moves with the lines above it, by its offset in its item."""
    text = "vyre 1\n\nprogram @p workgroup(1) {\n  %a = lane_id\n  %b = add %a, %missing : u32\n}\n"
    analyzer = Analyzer("a.vyre")
    for comment in ("", "  // one line\n", "  // one line\n  // and one more\n"):
        edited = text.replace("  %a", f"{comment}  %a")
        (error,) = analyzer.analyze(edited).diagnostics
        start, end = analyzer.analyze(edited).span(error.loc)
        assert edited[start:end] == "%missing"
