"""The generated pages say what the code says today."""

from __future__ import annotations

from pathlib import Path

import features_page
import figures
import generated_pages
import math_functions_page
import op_stubs
import ops_page
import passes_page
import peers_plot
import pipeline_picture
import pytest
import ratios
import rules_page
from support.features.campaign import COLUMNS
from support.features.table import FEATURES
from support.op_samples import kernel_counts

from vyre_opt.ir import OPS, OpDef, Source, parse_source, print_program, verify
from vyre_opt.ir.diagnostics import render
from vyre_opt.rewriting.identities import RULES


def test_ops_page_is_up_to_date(root: Path) -> None:
    written = (root / "docs/reference/ops.md").read_text(encoding="utf-8")
    assert written == ops_page.page() + "\n", "run: python docs/ops_page.py > docs/reference/ops.md"


@pytest.mark.parametrize("path", op_stubs.STUBS)
def test_stubs_are_up_to_date(root: Path, path: str) -> None:
    assert (root / path).read_text(encoding="utf-8") == op_stubs.STUBS[path](), "run: python docs/op_stubs.py"


def test_passes_page_is_up_to_date(root: Path) -> None:
    written = (root / "docs/reference/passes.md").read_text(encoding="utf-8")
    assert written == passes_page.page() + "\n", "run: python docs/passes_page.py > docs/reference/passes.md"


def test_rules_page_has_every_rule_and_nothing_wrong() -> None:
    """Guards against a rule that is added and not proved: `make rules` then has to be run again."""
    lines = rules_page.results()["lines"]
    assert not [line["wrong"] for line in lines if line["wrong"]]
    rules = {rule.name for rule in RULES}
    assert rules == {line["rule"] for line in lines if line["section"] == "identity"}
    lowered = {line["rule"].partition(",")[0] for line in lines if line["section"] == "lowering"}
    formats = ("unary", "binary", "ternary", "compare", "select", "convert")
    assert lowered == {row.name for row in OPS.values() if row.format in formats and not row.ulp}


def test_features_page_has_every_feature() -> None:
    """Guards against a feature that is added and not run: `make features` then has to be run again."""
    for tally in features_page.tallies().values():
        assert tally["of"] == [list(FEATURES), list(COLUMNS)]


def test_math_functions_page_is_up_to_date(root: Path) -> None:
    written = (root / "docs/reference/math_functions.md").read_text(encoding="utf-8")
    expected = math_functions_page.page(math_functions_page.results())
    assert written == expected, "run: python docs/math_functions_page.py > docs/reference/math_functions.md"


def test_math_functions_page_has_every_function_within_its_bound() -> None:
    """Guards against a function that is added, or whose bound is made smaller, without `make maths`."""
    rows = math_functions_page.results()["rows"]
    assert {row["function"]: row["bound"] for row in rows} == {
        row.name: row.ulp for row in OPS.values() if row.ulp
    }
    assert [row for row in rows if row["error"] > row["bound"] or row["differences"]] == []
    assert all(row["arguments"] >= 10**7 for row in rows if row["dtype"] == "f32")


def test_performance_page_is_up_to_date(root: Path) -> None:
    written = (root / "docs/reference/performance.md").read_text(encoding="utf-8")
    assert written == ratios.page(), "run: python bench/ratios.py > docs/reference/performance.md"


def test_every_comparison_has_cases() -> None:
    """Guards against a column that a benchmark renames: no row of the page comes of nothing."""
    rows = [line for line in ratios.page().splitlines() if line.startswith("| ")][1:]
    assert len(rows) == len(ratios.COMPARISONS)
    worst = [float(row.split(" | ")[3]) for row in rows]
    assert worst == sorted(worst)
    assert worst[0] < 1 < worst[-1]


def test_charts_are_those_of_the_results(root: Path) -> None:
    drawn = (root / "docs/images/peers.svg").read_text(encoding="utf-8")
    assert figures.digest(peers_plot.ratios()) in drawn, "run: make plot"


def test_the_picture_of_a_pipeline_is_up_to_date() -> None:
    written = pipeline_picture.PICTURE.read_text(encoding="utf-8")
    assert written == pipeline_picture.picture(), "run: python docs/pipeline_picture.py"


@pytest.mark.parametrize("name", generated_pages.COMMANDS)
def test_pages_of_the_site_are_made(name: str) -> None:
    """They are not in the checkout, so that only the site and this test see them."""
    text = generated_pages.page(name)
    assert text.startswith("# ")
    assert text.count("\n|") > 20


def test_every_section_of_the_ops_page_begins_at_an_op() -> None:
    """A renamed op must not make its section vanish silently."""
    assert set(ops_page.SECTIONS) <= set(OPS)


@pytest.mark.parametrize("row", OPS.values(), ids=lambda row: row.name)
def test_example_of_an_op_is_a_program(row: OpDef) -> None:
    """The example of every op parses, verifies, and prints back as itself."""
    module = parse_source(Source(_program(row)))
    # the program has buffers for all ops
    diagnostics = [each for each in verify(module) if "changes nothing" not in each.message]
    assert not diagnostics, "\n".join(map(render, diagnostics))
    shown = " ".join(print_program(module).split())
    assert " ".join(ops_page.example(row).split()) in shown


def _matrix_program(row: OpDef) -> str:
    element = "f16" if row.name == "matrix_load" else "f32"
    return f"""vyre 2
    program @p workgroup(64) {{
      buffer @b : {element}[64, 64] read_write binding(0) live_in live_out
      %i = const 0 : u32
      %j = subgroup_id
      %m = const 1.0 : matrix<16x16xf32, acc>
      %v = const 1.0 : vec<8 x f32>
      %a = const 1.0 : matrix<16x16xf16, a>
      %b = const 1.0 : matrix<16x16xf16, b>
      %c = const 0.0 : matrix<16x16xf32, acc>
      {ops_page.example(row)}
    }}"""


def _slice_program(row: OpDef) -> str:
    return f"""vyre 2
    program @p workgroup(1) {{
      buffer @b : u32[?] read_write binding(0) live_in live_out
      %i = const 3 : u32
      %a = const 4 : u32
      %v = slice_load @b[%i] : slice<?xu32>
      %m = slice_broadcast %a : slice<32x32xu32>
      {ops_page.example(row)}
    }}"""


def _program(row: OpDef) -> str:
    """A program around the example of `row`, with all that it names."""
    if row.kernel is not None:
        params = {key: 64 if default is None else default for key, default in row.kernel.params.items()}
        buffers = "".join(
            f"buffer @{role.name} : {role.types[0]}[{count}] {role.access} binding({number})\n"
            for number, (role, count) in enumerate(kernel_counts(row.kernel, params))
        )
        return f"vyre {row.since}\nprogram @p workgroup(64) {{\n{buffers}{ops_page.example(row)}\n}}\n"
    dtype = ops_page.operand_type(row)
    if row.format.startswith("matrix"):
        return _matrix_program(row)
    if row.format.startswith("slice"):
        return _slice_program(row)
    # a terminator is shown where it stands
    text = "" if row.is_terminator else ops_page.example(row)
    if row.name == "yield":
        text = f"%r = region @g -> {dtype} {{ yield %a }}"
    elif row.name == "condition":
        text = f"%r = while iter(%s = %a : {dtype}) {{ condition %p }} do {{ yield %s }}"
    return f"""vyre 1
    func @f(%x : {dtype}) -> {dtype} {{ yield %x }}
    program @p workgroup(64) {{
      buffer @b : {dtype}[64] {"workgroup" if row.name == "copy_async" else "read_write binding(0) live_in live_out"}
      spec @s : {dtype} = 1
      param @n : {dtype}
      %i = local_id x
      %a = const 1 : {dtype}
      %b = const 2 : {dtype}
      %c = const 3 : {dtype}
      %p = const true : bool
      %v = const 0 : vec<4 x {dtype}>
      %table = const 1 : vec<16 x u8>
      %index = const 2 : vec<16 x u8>
      %m = const true : vec<32 x bool>
      {text}
    }}"""
