"""One run reports all mistakes of a text, of whatever kinds, each once, and nothing that follows from them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.quick import quick

from vyre_opt import DiagnosticError, parse
from vyre_opt.ir import OPS, DataType

EXAMPLES = sorted(Path(__file__).parents[2].glob("examples/**/*.vyre"))


def reported(text: str) -> list[tuple[int, str]]:
    """Line and message of each error."""
    try:
        parse(text)
    except DiagnosticError as wrong:
        return [(d.loc.line, d.message) for d in wrong.diagnostics if d.loc is not None]
    return []


MIXED = """vyre 1
program @scale workgroup(64) {
  buffer @rows : f32[?] read  binding(0)
  buffer @sums : f32[?] write binding(1)
  %i = global_id x
  %v = laod @rows[%i] : f32
  %w = load @row[%i] : f32
  %s = add %w, %i : f32
  %t = mul %s, %v : u32
  store %t, @rows[%i : f32
  store %s, @rows[%i] : f32
}
program @half workgroup(64) {
  buffer @in : f23[?] read binding(0)
  buffer @out : f32[?] write bindng(1)
  %i = global_id x
  %v = load @in[%i] : f32
  %u = mul %v, %hlf : f32
  %r = add %u, %hlf : f32
  store %r, @out[%i] : u32
  barier workgroup
}
func @twice(%x : f32) -> f32 {
  %y = add %x, %x : f32
  yeild %y
}
pipeline @main {
  buffer @x : f32[?] read
  buffer @m : f32[?]
  buffer @y : f32[?] write live_out
  launch @scale grid(ceil_dv(len(@x), 64)) (@x, @m)
  launch @haf grid(4) (@m, @y)
  launch @scale grid(4) (@m)
  host_read @z
}
"""


def test_mistakes_of_all_kinds_come_in_one_run() -> None:
    """Misspelt ops, types, values and names beside broken syntax, wrong access and wrong types."""
    assert reported(MIXED) == [
        (6, "unknown op laod"),
        (7, "program @scale has no buffer @row"),
        (8, "add: %i is u32, not f32"),
        (10, "the closing bracket of an index is missing"),
        (11, "@rows is written here, but it is read-only"),
        (14, "unknown type f23"),
        (15, "not a buffer flag"),
        (18, "%hlf is not defined"),
        (20, "store: %r is f32, not u32"),
        (21, "unknown op barier"),
        (25, "unknown op yeild"),
        (31, "a grid has no function ceil_dv"),
        (32, "there is no program @haf"),
        (33, "program @scale binds 2 buffers, 1 given"),
        (34, "pipeline @main has no buffer @z"),
    ]


def test_a_name_that_comes_again_is_one_error() -> None:
    """Its other places are notes."""
    with pytest.raises(DiagnosticError) as caught:
        parse(MIXED)
    again = [d for d in caught.value.diagnostics if d.message == "%hlf is not defined"]
    assert [(message, loc.line) for message, loc in again[0].notes if loc] == [("and here", 19)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%c lt %i, %two : u32", "an `=` is missing behind %c, or an op before it"),
        ("%c = lt %i, %two : u32\n  if %c", "expected the `{` of a block"),
        ("%c = lt %i, %two : u32\n  fi %c {", "unknown op fi"),
        ("%c = lt %i, %two : u32\n  if %c {\n    barrier workgroop", "barrier: is written barrier"),
        ("%c = lt %i, %two : u32\n  bufer @z : u32[4] read\n  if %c {", "unknown op bufer"),
        ("%c = lt %i, %two : u32\n  if %c {\n    %i = lane_id", "%i is defined twice"),
    ],
)
def test_a_mended_line_is_one_error(line: str, message: str) -> None:
    """What stands after it is read as if the sign or the word had been right."""
    text = f"""vyre 1
program @p workgroup(64) {{
  buffer @out : u32[?] write binding(0)
  %i = global_id x
  %two = const 2 : u32
  {line}
    store %i, @ouf[%i] : u32
  }}
}}
"""
    text = text if "{" in line or "if" in line else text.replace("  }\n", "", 1)
    lost = [] if "fi %c" in line else ["program @p has no buffer @ouf"]
    messages = [m for _, m in reported(text)]
    assert [m.partition(" subgroup|")[0] for m in messages] == [message, *lost]


OTHER = """program @other workgroup(64) {
  buffer @out : u32[?] write binding(0)
  %i = global_id x
  store %i, @ouf[%i] : u32
}
"""
MISSING = "program @other has no buffer @ouf"


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("program @p workgroup(64) {\n  %a = lane_id", "the closing brace is missing"),
        ("program @p workgroup(64) {\n  %a = lane_id\n}\n}", "an extra closing brace"),
        (
            "program @p workgrop(64) {\n  %a = lane_id\n}",
            "expected workgroup(...), cluster(...), grid(...), prefer(...) or {",
        ),
        ("progam @p workgroup(64) {\n  %a = lane_id\n}", "expected a program, a func or a pipeline"),
        ("%a = lane_id", "expected a program, a func or a pipeline"),
        (
            "program @p workgroup(64)\n  %a = lane_id\n}",
            "expected workgroup(...), cluster(...), grid(...), prefer(...) or {",
        ),
        (
            "pipeline @m {\n  lunch @other grid(1) ()\n}",
            "expected a buffer, a launch, a fill, a host_read or a kernel",
        ),
    ],
)
def test_an_error_hides_none_of_another_program(broken: str, message: str) -> None:
    """Whether the broken item comes before or after."""
    for text in (f"vyre 1\n{broken}\n{OTHER}", f"vyre 1\n{OTHER}{broken}\n"):
        assert sorted(m for _, m in reported(text)) == sorted([message, MISSING]), text


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("workgrop(64)", "expected workgroup(...), cluster(...), grid(...), prefer(...) or {"),
        ("workgroup(64) garbage(1)", "expected workgroup(...), cluster(...), grid(...), prefer(...) or {"),
        ("workgroup(64", "unexpected '{'; expected ) or ,"),
        ("workgroup(64) prefer(sharde = 50)", "no preference is called sharde"),
        ("prefer(shared = 1) workgroup(64) prefer(shared = 2)", "prefer is given twice"),
        ("workgroup(64) prefer(shared 50)", "unexpected '50'; expected ="),
        ("workgroup(6x4)", "unexpected 'x4'; expected ) or ,"),
        ("workgroup 64", "unexpected '64'; expected ("),
        ("grid(4) wrkgroup(64)", "expected workgroup(...), cluster(...), grid(...), prefer(...) or {"),
    ],
)
def test_a_mistake_in_a_head_hides_none_in_its_body(head: str, message: str) -> None:
    """And is one error, though a program of no workgroup size would be another."""
    text = f"""vyre 1
program @p {head} {{
  buffer @y : u32[?] write binding(0)
  %g = global_id x
  store %h, @y[%g] : u32
  store %g, @z[%g] : u32
}}
pipeline @m {{
  buffer @y : u32[64] live_out
  launch @p grid(1) (@y)
}}
{OTHER}"""
    lost = [(5, "%h is not defined"), (6, "program @p has no buffer @z"), (15, MISSING)]
    assert reported(text) == [(2, message), *lost]


def test_callers_of_a_function_whose_head_is_wrong_are_not_blamed() -> None:
    """Nor is its end, since nobody knows what it was to give."""
    text = """vyre 1
func @f(%a : u32) -> {
  %b = add %a, %a : u32
  %d = add %c, %a : u32
  yield %b
}
program @p workgroup(64) {
  buffer @y : u32[?] write binding(0)
  %g = global_id x
  %v = call @f(%g) : (u32) -> u32
  store %v, @y[%g] : u32
}
"""
    errors = reported(text)
    assert [line for line, _ in errors] == [2, 4]
    assert errors[1][1] == "%c is not defined"


def test_a_text_without_its_version_is_read() -> None:
    """The first line may be missing or wrong."""
    for first in ("", "vyre\n", "viyre 1\n"):
        messages = [m for _, m in reported(first + OTHER)]
        assert len(messages) == 2, messages
        assert MISSING in messages


def test_the_limit_holds_for_both_together() -> None:
    """Twenty errors, of the parser's stage and of the verifier's by their places; the rest is counted."""
    lines = "".join(f"  %a{k} = ad{k} %i, %i : u32\n  store %i, @b{k}[%i] : u32\n" for k in range(15))
    with pytest.raises(DiagnosticError) as caught:
        parse(f"vyre 1\nprogram @p workgroup(64) {{\n  %i = global_id x\n{lines}}}\n")
    diagnostics = caught.value.diagnostics
    assert [d.message.partition(" ")[0] for d in diagnostics] == ["unknown", "program"] * 10
    assert diagnostics[-1].notes[-1][0] == "10 more errors follow"


TOKEN = re.compile(r'//[^\n]*|"[^"\n]*"|[%@]?[\w.$]+|\S')
STRUCTURED = ("for", "while", "if", "region")


def misspellings(text: str) -> list[tuple[str, int]]:
    """The kind of each name that can be misspelt, and the place behind it."""
    names = []
    for token in TOKEN.finditer(text):
        word, follows = token.group(), text[token.end() : token.end() + 2]
        line = text[text.rfind("\n", 0, token.start()) + 1 : token.start()]
        if word[0] in "%@":
            kind = "value" if word[0] == "%" else "symbol"
            defines = re.match(r"func|\s*(buffer|spec|program|pipeline|region)\s+$|\s*(%[\w, %]*)?$", line)
            defines = follows == " =" or defines
            names.append((f"{kind} {'defined' if defines else 'used'}", token.end()))
        elif word in DataType.all_names():
            names.append(("type", token.end()))
        elif word in OPS and follows != " =":
            names.append(("block" if word in STRUCTURED else "op", token.end()))
    return names


def some(places: list[int], most: int) -> list[int]:
    """At most so many, from all over the text."""
    return places[:: max(1, len(places) // most)]


# places of a text are few in the plain run
TEXTS = quick([*((path, 2) for path in EXAMPLES[:6]), *((path, 10) for path in EXAMPLES)], keep=6)


@pytest.mark.parametrize(("path", "most"), TEXTS)
def test_a_misspelt_name_is_one_error(path: Path, most: int) -> None:
    """Of an op, a value, a buffer, a program or a type; at its definition the uses are what is wrong."""
    text = path.read_text()
    names = misspellings(text)
    for kind in sorted({kind for kind, _ in names}):
        for place in some([place for other, place in names if other == kind], most):
            wrong = text[:place] + "qq" + text[place:]
            errors = reported(wrong)
            line = wrong.count("\n", 0, place) + 1
            least = 0 if kind.endswith("defined") else 1  # what nothing uses may have any name
            assert least <= len(errors) <= 1, (kind, line, errors)


@pytest.mark.parametrize(("path", "most"), TEXTS)
def test_a_lost_line_is_one_error_and_its_names(path: Path, most: int) -> None:
    """Beside the names that it defined, which are gone, at most one thing is wrong: a brace, an end, a count."""
    lines = path.read_text().splitlines(keepends=True)
    code = [at for at, line in enumerate(lines) if line.strip() and not line.strip().startswith("//")]
    for at in some(code, 3 * most):
        errors = reported("".join(lines[:at] + lines[at + 1 :]))
        defined = re.findall(r"[%@][\w.$]+", lines[at])
        others = [m for _, m in errors if not any(f"{name} " in f"{m} " for name in defined)]
        assert len(others) <= 1, (at + 1, errors)
        assert len(errors) == len({m for _, m in errors})


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(EXAMPLES), st.lists(st.integers(0, 10_000), min_size=2, max_size=6, unique=True))
def test_several_misspellings_are_each_reported_once(path: Path, picks: list[int]) -> None:
    """One a line, so that none is a part of what could not be read for another."""
    text = path.read_text()
    names = [n for n in misspellings(text) if n[0] in ("op", "type", "value used", "symbol used")]
    by_line = {text.count("\n", 0, place): place for _, place in (names[n % len(names)] for n in picks)}
    for number, place in enumerate(sorted(by_line.values(), reverse=True)):
        text = f"{text[:place]}_q{number}{text[place:]}"
    errors = reported(text)
    for number in range(len(by_line)):
        assert sum(f"_q{number}" in message for _, message in errors) == 1, (number, errors)
    assert len(errors) == len(by_line), errors
