"""Errors of a text: several a run, each once, at the exact place, in words, with a suggestion."""

from __future__ import annotations

import pytest

from vyre_opt import DiagnosticError, parse
from vyre_opt.ir import Diagnostic
from vyre_opt.ir.diagnostics import render

HEAD = "vyre 1\nprogram @p workgroup(4) {\n  buffer @text : u32[4] read_write binding(0) live_out\n"


def errors(text: str) -> list[Diagnostic]:
    with pytest.raises(DiagnosticError) as caught:
        parse(text)
    return caught.value.diagnostics


def places(text: str) -> list[tuple[int, int, str]]:
    """Line, column and message of each error."""
    return [(d.loc.line, d.loc.column, d.message) for d in errors(text) if d.loc is not None]


def body(*lines: str) -> str:
    """A program whose ops start on line 4."""
    return HEAD + "".join(f"  {line}\n" for line in lines) + "}\n"


@pytest.mark.parametrize(
    ("line", "column", "message"),
    [
        ("%a = const 2", 8, "const: needs a type: const 2 : u32"),
        ("%a = const 300 : u8", 8, "const: 300 does not fit in u8 (0 to 255)"),
        ("%a = const 1.5 : u32", 8, "const: 1.5 is a float, not a u32"),
        ("%a = const true : u32", 8, "const: true is a bool, not a u32"),
        ("%a = add %zz, %l : u32", 12, "%zz is not defined"),
        ("%a = add %l, 3 : u32", 16, "an operand is a value in `vyre 1`"),
        ("%a = add %l %l : u32", 15, "operands are separated by commas"),
        ("%a = add %l, %l, %l : u32", 8, "add: takes 2 operands, 3 given"),
        ("%ad = ad %l, %l : u32", 9, "unknown op ad"),
        ("%a = add %l, %l : u33", 21, "unknown type u33"),
        ("%a = load @text[3] : u32", 19, "an operand is a value in `vyre 1`"),
        ("%a = load @texd[%l] : u32", 13, "program @p has no buffer @texd"),
        ("%a = global_id %l", 8, "global_id: is written global_id x|y|z"),
        ("%l = lane_id", 3, "%l is defined twice"),
        ("%a = cast %l : u8 -> u32", 8, "cast: %l is u32, not u8"),
        ("%a = eq %l, %l : f32", 8, "eq: %l is u32, not f32"),
        ("%a = lane_id x", 8, "lane_id: takes no x"),
        ("%a = atomic_add<sometimes> @text[%l], %l : u32", 8,
         "atomic_add: order is relaxed, acquire, release, acq_rel, seq_cst, not sometimes"),
        ("if %l { }", 6, "if: %l is u32, not bool"),
        ("for %i = 0 to 4 step 0 { }", 3, "for: the step is at least 1, not 0"),
        ("%a = call @f(%l) : (u32) -> u32", 13, "there is no func @f"),
        ("%a = call @f(%l) : (f32) -> u32", 16, "call: %l is u32, not f32"),
        ("trap \"no end", 8, "this string has no end"),
        ('assert %l, "a bool"', 10, "assert: %l is u32, not bool"),
        ('assert "no condition"', 10, "an assert has a condition and a message"),
        ("%a = spec @k : u32", 13, "program @p has no spec constant @k"),
    ],
)  # fmt: skip
def test_an_error_stands_where_the_mistake_is(line: str, column: int, message: str) -> None:
    """Line 5, and the column of the word to change."""
    matches = [d for d in places(body("%l = lane_id", line)) if d[2] == message]
    assert matches == [(5, column, message)], places(body("%l = lane_id", line))


@pytest.mark.parametrize(
    ("line", "help"),
    [
        ("%a = popcout %l : u32", "did you mean popcount?"),
        ("%a = add %ll, %l : u32", "did you mean %l?"),
        ("%a = load @texd[%l] : u32", "did you mean @text?"),
        ("%a = splat %l : vec<4 x u3>", "did you mean u32?"),
        ("math.sofmax(@text, @text) {columns = 4}", "did you mean math.softmax?"),
    ],
)
def test_a_misspelt_name_gets_a_suggestion(line: str, help: str) -> None:
    """Ops, values, buffers, types and kernels alike."""
    assert errors(body("%l = lane_id", line))[0].help == help


def test_all_errors_are_reported_in_one_run() -> None:
    """Parsing goes on at the next line that starts a statement, also inside blocks and in later items."""
    text = """vyre 1
program @p workgroup(4) {
  %a = const 1 : u32
  %b = add %a 3 : u32
  if %a, {
    %c = ad %a, %a : u32
  }
  %d = add %b, %nope : u32
}
func @f(%x : u3) -> u32 {
  yield %x
}
pipeline @m {
  launch @p grid(1,) ()
}
"""
    errors_at = places(text)
    assert [line for line, _, _ in errors_at] == [4, 5, 6, 8, 10, 14] or [
        line for line, _, _ in errors_at
    ] == [
        4,
        5,
        8,
        10,
        14,
    ]


def test_an_error_is_reported_once() -> None:
    """What a broken op would define counts as defined, of a type about which nothing more is said."""
    text = body("%a = const 1 : u33", "%b = add %a, %a : u32", "%c = foo %b", "%d = mul %c, %b : f32")
    assert [message for _, _, message in places(text)] == ["unknown type u33", "unknown op foo"]


def test_an_unfinished_line_does_not_hide_the_next() -> None:
    """The op after a line that breaks off is read, so its uses are not errors."""
    text = body("%l = lane_id", "%a = load @text[%l", "%b = add %l, %l : u32", "%c = add %b, %b : u32")
    assert places(text) == [(5, 19, "the closing bracket of an index is missing")]


def test_a_missing_brace_is_named_and_the_next_item_is_read() -> None:
    """The error is at the item that cannot start there; what follows is checked in a scope of its own."""
    text = """vyre 1
program @p workgroup(4) {
  %a = const 1 : u32
  %b = add %a, %a : u32
program @q workgroup(4) {
  %a = const 1 : u32
  %c = add %a, %zz : u32
}
"""
    assert places(text) == [(5, 1, "the closing brace is missing"), (7, 16, "%zz is not defined")]


def test_twenty_errors_are_enough() -> None:
    """A file of another language does not fill the screen; the rest is counted."""
    messages = errors(body(*["%x = add %q, %q : u32"] * 3000))
    assert len(messages) == 20
    assert messages[-1].notes[-1][0].endswith("more errors follow")


def test_a_diagnostic_in_full() -> None:
    """File, line and column, the source line, a caret range, a note where the value is defined, and help."""
    text = body("%a = const 1 : u32", "%a = lane_id")
    with pytest.raises(DiagnosticError) as caught:
        parse(text, "file.vyre")
    assert str(caught.value) == (
        "file.vyre:5:3: error: %a is defined twice\n"
        "    %a = lane_id\n"
        "    ^~\n"
        "file.vyre:4:3: note: first defined here\n"
        "    %a = const 1 : u32\n"
        "    ^~~~~~~~~~~~~~~~~~\n"
        "help: an SSA value is assigned once: write %a_1 = lane_id, and %a_1 for %a behind it"
    )


def test_carets_stand_under_tabs_wide_lines_and_odd_line_ends() -> None:
    """Tabs are kept before the caret, a long line is cut around it, and a CR is not shown."""
    tabs = render(errors("vyre 1\nprogram @p workgroup(4) {\n\t%a = foo\n}")[0]).split("\n")
    assert tabs[2] == "  \t     ^~~"
    long = render(errors(HEAD + " " * 5000 + "%a = foo" + " " * 5000 + "\n}")[0]).split("\n")
    assert len(long[1]) < 200
    assert long[1][long[2].index("^") :].startswith("foo")
    crlf = render(errors("vyre 1\r\nprogram @p workgroup(4) {\r\n  %a = foo\r\n}\r\n")[0])
    assert "\r" not in crlf
    assert "\N{REPLACEMENT CHARACTER}" not in crlf


@pytest.mark.parametrize(
    ("buffer", "message"),
    [
        ("buffer @w : u32[4611686018427387904] workgroup", "takes 18446744073709551616 bytes; at most 2^31"),
        ("buffer @w : u8[2147483649] workgroup", "takes 2147483649 bytes; at most 2^31"),
        ("buffer @w : u64[17592186044417] read_write", "takes 140737488355336 bytes; at most 2^47"),
    ],
)
def test_sizes_that_no_memory_has(buffer: str, message: str) -> None:
    """Where they are declared, in programs and in pipelines."""
    assert [
        (line, column) for line, column, _ in places(f"vyre 1\nprogram @p workgroup(1) {{\n  {buffer}\n}}\n")
    ] == [(3, 3)]
    assert message in errors(f"vyre 1\nprogram @p workgroup(1) {{\n  {buffer}\n}}\n")[0].message
    if "workgroup" not in buffer:
        assert message in errors(f"vyre 1\npipeline @m {{\n  {buffer}\n}}\n")[0].message


def test_items_are_found_by_name() -> None:
    """Of many programs one that is defined twice is, however many there are."""
    text = "".join(f"program @p{k} workgroup(1) {{\n}}\n" for k in range(3000))
    assert len(parse(f"vyre 1\n{text}").programs) == 3000
    (error,) = errors(f"vyre 1\n{text}program @p7 workgroup(1) {{\n}}\n")
    assert error.message == "program @p7 is defined twice"


def test_a_trap_without_a_message_is_told_at_the_trap() -> None:
    (error,) = errors(body("trap", "%u = lane_id"))
    assert error.loc is not None
    assert error.loc.source.text[error.loc.start : error.loc.end] == "trap"
    assert (error.message, error.help) == ("trap: a text in quotes is missing", 'write trap "why"')
    parse(body('trap "why"'))


def test_a_function_is_told_at_once_that_it_cannot_touch_buffers() -> None:
    """Also where the load has no type, which would be of no use there."""
    for line in ("%v = load @x[%a]", "%v = load @x[%a] : f32", "store %a, @x[%a] : f32"):
        found = errors(f"vyre 2\nfunc @f(%a : f32) -> f32 {{\n  {line}\n  yield %a\n}}\n")
        assert [d.message.split(": ")[1] for d in found] == ["a function cannot touch buffers"]


@pytest.mark.parametrize("name", ["é", "aé", "x_ß"])
def test_a_name_with_another_letter_is_told_which(name: str) -> None:
    sign = next(c for c in name if not c.isascii())
    (error,) = [d for d in errors(body(f"%{name} = lane_id")) if "character" in d.message]
    assert error.message == f"unexpected character {sign!r}"
    assert error.help == "names have letters a to z and A to Z, digits, _, . and $"


@pytest.mark.parametrize(
    ("grid", "right"),
    [
        ("len(@x) / 64", "div(len(@x), 64)"),
        ("(len(@x) + 63) / 64", "ceil_div(len(@x), 64)"),
        (
            "(len(@x) + len(@x) - 1) / @x, 2 * (@x - 1)",
            "ceil_div(len(@x), len(@x)), mul(2, sub(len(@x), 1))",
        ),
        ("(len(@x))", "len(@x)"),
        ("ceil_div(len(@x), 64) * 2", "mul(ceil_div(len(@x), 64), 2)"),
        ("len(@x) - 1, 2", "sub(len(@x), 1), 2"),
        ("max(1, div(len(@x), 64)) + 1", "add(max(1, div(len(@x), 64)), 1)"),
    ],
)
def test_an_operator_in_a_grid_is_told_as_a_function(grid: str, right: str) -> None:
    text = (
        "vyre 2\nprogram @p workgroup(64) {{\n  buffer @y : f32[?] write binding(0) live_out\n}}\n"
        "pipeline @m {{\n  buffer @x : f32[640] write\n  launch @p grid({}) (@x)\n}}\n"
    )
    (error,) = errors(text.format(grid))
    assert error.message.endswith(
        ("is no operator here; grids have functions", "without parentheses of its own")
    )
    assert error.help is not None
    assert error.help.startswith(f"write grid({right})")
    parse(text.format(right))
