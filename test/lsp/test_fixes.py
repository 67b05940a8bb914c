"""Every fix that a diagnostic offers removes it."""

from __future__ import annotations

import pytest

from vyre_opt.ir.diagnostics import Fix
from vyre_opt.lsp.analysis import Analyzer, DocumentAnalysis

HEAD = "vyre 2\n\nprogram @p workgroup(32) {\n"
BODY = (
    HEAD
    + "  buffer @rows : f32[32] read binding(0)\n  buffer @out : f32[32] write binding(1)\n\n  %i = lane_id\n"
)
PIPELINE = (
    "vyre 2\n\nprogram @p workgroup(32) {\n  buffer @a : f32[32] read binding(0)\n  buffer @b : f32[32] write binding(1)\n"
    "  param @count : u32\n}\n\npipeline @main {\n  buffer @x : f32[32] read\n  buffer @y : f32[32] write\n"
)

CASES = [
    (BODY + "  %a = load @row[%i] : f32\n  store %a, @out[%i] : f32\n}\n", "did you mean @rows?"),
    (BODY + "  %a = laod @rows[%i] : f32\n  store %a, @out[%i] : f32\n}\n", "did you mean load?"),
    (BODY + "  %abc = load @rows[%i] : f32\n  store %abd, @out[%i] : f32\n}\n", "did you mean %abc?"),
    (BODY + "  %a = load @rows[%i] : f23\n  store %a, @out[%i] : f32\n}\n", "did you mean f32?"),
    (BODY + "  store 1.0, @out[%i] : f32\n  %a = load @out[%i] : f32\n}\n", "declare @out read_write"),
    (BODY + "  %a = load @rows[%i] : float\n  store %a, @out[%i] : f32\n}\n", "`float` of C is `f32` here"),
    (BODY + "  %a = threadIdx.x\n}\n", "`threadIdx.x` of CUDA is `local_id x` here"),
    (BODY.replace("vyre 2", "vyre 1") + "  %a = add %i, 1 : u32\n}\n", "write %c = const 1 : u32 before"),
    (HEAD + "  buffer @x : f32[32] read\n}\n", "declare @x binding(0)"),
    (HEAD + "  buffer @x : f32[?] read_write live_in live_out\n}\n", "declare @x binding(0)"),
    (HEAD + "  buffer @x : f32[32] read binding(0) live_out\n}\n", "declare @x read_write"),
    (HEAD + "  buffer @x : f32[32] write binding(0) live_in\n}\n", "declare @x read_write"),
    (HEAD + "  buffer @x : f32[32] binding(0)\n}\n", "add read_write"),
    (HEAD + "  buffer @x : f32[32] workgroup binding(0)\n}\n", "remove binding(0)"),
    (HEAD + "  buffer @x : f32[32] cluster\n}\n", "add cluster(8)"),
    (HEAD + "  barrier cluster\n}\n", "add cluster(8)"),
    (HEAD + "  buffer @x : f32[32] read_write\n  %i = lane_id\n  %a = const 1.0 : f32\n  store %a, @x[%i] : f32\n}\n",
     "declare @x live_out"),
    (HEAD + "  %a = const 1 : @T\n}\n", "declare spec @T : dtype = f32"),
    ("vyre 1\n\nprogram @p {\n}\n", "add workgroup(256)"),
    (PIPELINE.replace("@x", "@a").replace("@y", "@b") + "  launch @p grid(1) (@a) params(@count = 1)\n}\n", "pass (@a, @b)"),
    (PIPELINE + "  launch @p grid(1) (@x, @y) params(@count = @m)\n}\n", "declare param @m : u32"),
    (PIPELINE + "  launch @p grid(1) (@x, @y) params(@coutn = 1)\n}\n", "did you mean @count?"),
    (PIPELINE + "  launch @p grid(@x) (@x, @y) params(@count = 1)\n}\n", "write len(@x)"),
    (PIPELINE + "  buffer @z : f32[32] binding(0)\n  launch @p grid(1) (@x, @y) params(@count = 1)\n}\n", "remove binding(0)"),
]  # fmt: skip


def apply(analysis: DocumentAnalysis, fix: Fix) -> str:
    text = analysis.text
    edits = sorted(((analysis.span(edit.loc), edit.text) for edit in fix.edits), reverse=True)
    for (start, end), new in edits:
        text = text[:start] + new + text[end:]
    return text


@pytest.mark.parametrize(("text", "title"), CASES)
def test_a_fix_removes_what_it_is_offered_for(text, title):
    analysis = Analyzer("a.vyre").analyze(text)
    offers = [(d, fix) for d in analysis.diagnostics for fix in d.fixes if fix.title.startswith(title)]
    assert offers, [(d.message, [f.title for f in d.fixes]) for d in analysis.diagnostics]
    diagnostic, fix = offers[0]
    after = Analyzer("a.vyre").analyze(apply(analysis, fix))
    assert diagnostic.message not in [d.message for d in after.diagnostics]
    # a head has buffers for other ops than these
    others = [d for d in after.diagnostics if "changes nothing" not in d.message]
    assert len(others) < len(analysis.diagnostics) + (len(fix.edits) > 1)


def test_fixes_stay_within_the_text(texts):
    """Of every diagnostic of every text: they change what they say they do, and the message is gone from its place."""
    for text in texts:
        analysis = Analyzer("a.vyre").analyze(text)
        for diagnostic in analysis.diagnostics:
            for fix in diagnostic.fixes:
                changed = Analyzer("a.vyre").analyze(apply(analysis, fix))
                key = (diagnostic.message, analysis.span(diagnostic.loc))
                assert key not in [(d.message, changed.span(d.loc)) for d in changed.diagnostics if d.loc], (
                    fix.title
                )
