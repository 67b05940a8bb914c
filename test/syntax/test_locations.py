"""Locations in a text: they come back from what is printed with them, change nothing else, and lead to the original."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.each import each
from support.op_samples import op_samples
from support.quick import quick

from vyre_opt import DiagnosticError, PassManager, fingerprint, parse, parse_file, print_program, verify
from vyre_opt.cli.text_files import read_original
from vyre_opt.driver.compile import compile_module
from vyre_opt.ir import OPS, Location, Module, OpDef, Pipeline, Source, parse_source
from vyre_opt.ir.diagnostics import render

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def located_parts(module: Module) -> Iterator[Any]:
    """All that has a location, in an order that is the same for equal modules."""
    for item in module.order:
        yield item
        if isinstance(item, Pipeline):
            yield from (*item.buffers.values(), *item.params.values(), *item.walk())
        else:
            for table in ("buffers", "specs", "params"):
                declared = getattr(item, table, {})
                yield from declared.values() if isinstance(declared, dict) else ()
            yield from item.walk()


def places(module: Module) -> list[str]:
    return [str(part.loc) for part in located_parts(module)]


def test_every_op_keeps_its_location() -> None:
    """In both forms, with regions and without; the fingerprint and the plain text of its version do not change."""

    def check(row: OpDef) -> None:
        for built in op_samples(row):
            module = parse(print_program(built), "original.vyre")
            for generic in (False, True):
                text = print_program(module, generic, locations=True)
                again = parse(text, "copy.vyre")
                assert places(again) == places(module)
                assert print_program(again, generic, locations=True) == text
                assert print_program(again, generic, version=module.version) == print_program(module, generic)
                assert fingerprint(again) == fingerprint(module)

    each(OPS.values(), check, lambda row: row.name)


def test_declarations_stages_and_items_keep_theirs() -> None:
    def check(path: Path) -> None:
        module = parse_file(path)
        again = parse(print_program(module, locations=True))
        assert places(again) == places(module)
        assert fingerprint(again) == fingerprint(module)

    each(sorted(EXAMPLES.rglob("*.vyre")), check)


@pytest.mark.parametrize("start", quick(range(3)))
def test_the_passes_keep_them(start: int) -> None:
    """Fused launches, inlined functions and expanded kernels: each op says which line of the original it is of."""
    for path in sorted(EXAMPLES.rglob("*.vyre"))[start::3]:
        module = parse_file(path)
        PassManager("default").run(module)
        lines = len(path.read_text().splitlines())
        for part in located_parts(module):
            assert part.loc is not None, (path.name, part)
            assert part.loc.source.name == str(path)
            assert 1 <= part.loc.line <= lines


PAIR = """vyre 1

program @first workgroup(64) {
  buffer @x : u32[256] read binding(0)
  buffer @m : u32[256] write binding(1) live_out
  %g = global_id x
  %v = load @x[%g] : u32
  store %v, @m[%g] : u32
}

program @second workgroup(64) {
  buffer @m : u32[256] read binding(0)
  buffer @y : u32[256] write binding(1) live_out
  %h = global_id x
  %w = load @m[%h] : u32
  store %w, @y[%h] : u32
}

pipeline @main {
  buffer @x : u32[256] read
  buffer @m : u32[256]
  buffer @y : u32[256] write live_out
  launch @first grid(4) (@x, @m)
  launch @second grid(4) (@m, @y)
}
"""


def test_a_fused_program_has_the_locations_of_both_through_a_pipe() -> None:
    module = parse(PAIR, "pair.vyre")
    PassManager("launch_fusion").run(module)
    (joined,) = parse(print_program(module, locations=True)).programs.values()
    lines = [(op.name, op.loc.line) for op in joined.walk() if op.loc is not None]
    assert lines == [
        ("global_id", 6), ("load", 7), ("store", 8), ("load", 15), ("store", 16),  # the second id is the first
    ]  # fmt: skip
    assert {loc.source.name for op in joined.walk() if (loc := op.loc)} == {"pair.vyre"}


def test_what_has_no_location_says_so() -> None:
    module = parse("vyre 1\n\nprogram @p workgroup(64) {\n  %l = local_id x\n}\n")
    op = module.programs["p"].body.ops[0]
    op.loc = None
    text = print_program(module, locations=True)
    assert "%l = local_id x loc(unknown)\n" in text
    assert parse(text).programs["p"].body.ops[0].loc is None


# --- the original text


TEXT = """vyre 1

program @p workgroup(64) {
  buffer @y : u32[64] write binding(0)  // out
  %l = local_id x
  if %b {  // a condition that is no bool
    store %l, @y[%l] : u32
  }
}
""".replace("  if %b", "  %b = add %l, %l : u32\n  if %b")


def errors(text: str, originals: dict[str, str]) -> list[str]:
    """What is said of a located text, with the files that can be read."""
    return [render(d) for d in verify(parse_source(Source(text, "<stdin>"), originals.get))]


def located(text: str, name: str = "original.vyre") -> str:
    return print_program(parse_source(Source(text, name)), locations=True)


def test_messages_are_those_of_the_original() -> None:
    """Word for word, with its line and the same part underlined."""
    direct = [render(d) for d in verify(parse_source(Source(TEXT, "original.vyre")))]
    assert "original.vyre:7:6: error" in direct[0] or "original.vyre:7:3: error" in direct[0]
    assert errors(located(TEXT), {"original.vyre": TEXT}) == direct


def test_without_the_original_a_message_has_the_place_alone() -> None:
    direct = [render(d) for d in verify(parse_source(Source(TEXT, "original.vyre")))]
    quoted = [line for message in direct for line in message.splitlines() if not line.startswith("  ")]
    piped = [line for message in errors(located(TEXT), {}) for line in message.splitlines()]
    places = [line.split(" ")[0].rsplit(":", 2)[0] for line in quoted if line.startswith("original")]
    assert [line.split(" ")[0].rsplit(":", 2)[0] for line in piped if line.startswith("original")] == places
    assert not any(line.startswith("  ") for line in piped)


def test_a_file_that_has_changed_since_is_not_quoted_where_it_ends_before() -> None:
    (first, *_) = errors(located(TEXT), {"original.vyre": "vyre 1\n"})
    assert first.splitlines()[0].startswith("original.vyre:7:")
    assert not first.splitlines()[1].startswith("  ")


def test_syntax_errors_are_of_the_text_at_hand() -> None:
    """The original is not where the mistake is."""
    text = located(TEXT).replace("local_id x", "local_idd x")
    with pytest.raises(DiagnosticError) as caught:
        parse_source(Source(text, "<stdin>"), {"original.vyre": TEXT}.get)
    assert {d.loc.source.name for d in caught.value.diagnostics if d.loc} == {"<stdin>"}


def test_the_library_reads_no_file_that_a_text_names(tmp_path: Path) -> None:
    """A text from anywhere may name any file; only the tools, whose user has it, quote one."""
    secret = tmp_path / "secret"
    secret.write_text("the secret\n")
    text = (
        f'vyre 1\nprogram @p workgroup(64) {{\n  %c = const 1 : f64 loc("{secret}":1:1)\n  if %c {{}}\n}}\n'
    )
    with pytest.raises(DiagnosticError) as caught:
        parse(text)
    assert "the secret" not in str(caught.value)


def test_special_files_and_large_ones_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(1 << 30)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name in ("pipe", "large", "binary", "missing", ".", "nul\0"):
        assert read_original(str(tmp_path / name)) is None
    assert read_original("/dev/zero") is None


def test_a_run_time_error_is_located_in_the_original() -> None:
    """Bounds of the cpu target, whose records travel through generated code."""
    text = """vyre 1

program @p workgroup(64) {
  buffer @y : u32[?] write binding(0) live_out
  %l = local_id x
  store %l, @y[%l] : u32
}
"""
    module = parse(located(text))
    executable = compile_module(module, None, "cpu", {})
    with pytest.raises(Exception, match=r"original\.vyre:6:3"):
        executable([], 1, lengths={"y": 4})


# --- what may stand between the parentheses


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), min_size=1, max_size=30),
    st.integers(1, 1 << 20),
    st.integers(1, 999),
)
def test_any_name_of_a_file_comes_back(name: str, line: int, column: int) -> None:
    module = parse("vyre 1\nprogram @p workgroup(64) {\n  %l = local_id x\n}\n")
    (op,) = module.programs["p"].body.ops
    op.loc = Location(Source("", name, line, first_column=column), 0, 0)
    loc = parse(print_program(module, locations=True)).programs["p"].body.ops[0].loc
    assert loc is not None
    assert (loc.source.name, loc.line, loc.column) == (name, line, column)


P = "vyre 1\nprogram @p workgroup(64) {\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (P + '  loc("f":1:1)\n}\n', "a location stands behind what it locates"),
        (
            P + '  barrier workgroup loc("f":1:1) loc("f":1:1)\n}\n',
            "a location stands behind what it locates",
        ),
        (
            P + '  %c = const true : bool\n  if %c {\n    loc("f":1:1)\n  }\n}\n',
            "a location stands behind what it locates",
        ),
        ('vyre 1\nloc("f":1:1)\n', "a location stands behind what it locates"),
        (P + '  barrier workgroup loc("f":0:1)\n}\n', "a line and a column are 1 to 2147483647"),
        (P + '  barrier workgroup loc("f":1:-1)\n}\n', "a line and a column are 1 to 2147483647"),
        (P + '  barrier workgroup loc("f":1:99999999999)\n}\n', "a line and a column are 1 to 2147483647"),
        (P + "  barrier workgroup loc(nowhere)\n}\n", "no location is called nowhere"),
        (P + '  barrier workgroup loc("f":1)\n}\n', 'a location is loc("file":line:column)'),
        (P + "  barrier workgroup loc(f:1:1)\n}\n", 'a location is loc("file":line:column)'),
        (P + '  buffer @b : u32[4] read loc("f":1:1) loc("f":1:1)\n}\n', "buffer @b is given loc twice"),
    ],
)
def test_wrong_locations(text: str, message: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        parse(text)
    assert message in [d.message for d in caught.value.diagnostics]


def test_one_may_stand_on_a_line_of_its_own_and_behind_any_flag() -> None:
    module = parse(
        P
        + '  buffer @b : u32[4] read loc("f":2:3) binding(0)\n  barrier workgroup\n  loc("f":9:3)\n}\nloc("f":1:9)\n'
    )
    assert places(module) == ["f:1:9", "f:2:3", "f:9:3"]
