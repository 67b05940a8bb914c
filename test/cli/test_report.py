"""`--emit=html` and `--emit=dot`: all of a pipeline is there, escaped, in one file, before and after the passes."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support.tools_inside import call_opt

IN_PLACE = """
program @in_place workgroup(64) {
  buffer @h : u32[64] read_write binding(0) live_out
  %l = local_id x
  store %l, @h[%l] : u32
  %v = load @h[%l] : u32
  store %v, @h[%l] : u32
}
"""

PROGRAMS = """vyre 1

program @decode workgroup(64) {
  buffer @text : vec<2 x u8>[?] read binding(0)
  buffer @bytes : u8[?] write binding(1) live_out
  %g = global_id x
  %p = load @text[%g] : vec<2 x u8>
  %a = extract %p[0] : vec<2 x u8>
  %b = extract %p[1] : vec<2 x u8>
  %v = or %a, %b : u8
  store %v, @bytes[%g] : u8
}

program @sums workgroup(64) {
  buffer @x : u8[?] read binding(0)
  buffer @y : u32[?] write binding(1) live_out
  %w = workgroup_id x
  %g = global_id x
  %z = const 0 : u32
  %tile = const 64 : u32
  %base = mul %w, %tile : u32
  %s = for %k = 0 to 64 step 1 iter(%acc = %z : u32) {
    %i = add %base, %k : u32
    %v = load @x[%i] : u8
    %u = cast %v : u8 -> u32
    %n = add %acc, %u : u32
    yield %n
  }
  store %s, @y[%g] : u32
}

program @gather workgroup(64) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1) live_out
  %g = global_id x
  %i = load @x[%g] : u32
  %n = len @x
  %j = rem %i, %n : u32
  %v = load @x[%j] : u32
  store %v, @y[%g] : u32
}
"""

PIPELINE = """
pipeline @main {
  buffer @text : vec<2 x u8>[1024] read
  buffer @mid : u8[1024]
  buffer @hits : u32[1024]
  buffer @open : u32[?]
  buffer @out : u32[1024] write live_out
  launch @decode grid(16) (@text, @mid)
  launch @sums grid(16) (@mid, @hits)
  launch @gather grid(16) (@hits, @open)  // <b> & "hostile" \x1b
  repeat 3 {
    launch @gather grid(16) (@hits, @out)
    launch @gather grid(16) (@out, @hits)
  }
  math.softmax(@weights, @soft) {columns = 64}
  buffer @weights : f32[?] read
  buffer @soft : f32[?]
  host_read @out
}
"""
# a kernel whose sizes are open stays a stage
LINES = PIPELINE.splitlines(keepends=True)
PIPELINE = "".join([*LINES[:7], *LINES[15:17], *LINES[7:15], *LINES[17:]])

TEXT = PROGRAMS + PIPELINE
NAMES = ("@text", "@mid", "@hits", "@open", "@out", "@weights", "@soft", "@decode", "@sums", "@gather")
VOID = {"meta", "br", "link"}


class Page(HTMLParser):
    """A page's elements: that tags balance, what text there is by element, and what is referred to."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.text: dict[str, list[str]] = defaultdict(list)
        self.words: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.count: dict[str, int] = defaultdict(int)
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] += 1
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), "a page without scripts"
            if name in ("href", "src", "xlink:href"):
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.text[self.open[-1]].append(data)
            if self.open[-1] != "style":
                self.words.append(data)

    @property
    def all(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Page:
    path = tmp_path_factory.mktemp("report") / "a <b> & c.vyre"
    path.write_text(TEXT)
    ran = call_opt("-O", path, "--emit=html")
    assert ran.returncode == 0, ran.stderr
    return Page(ran.stdout)


def test_page_has_every_launch_and_buffer_before_and_after(report: Page) -> None:
    """In the drawings and, for those who do not see them, in tables."""
    drawn, tables = " ".join(report.text["text"]), " ".join(report.text["td"])
    for name in NAMES:
        assert name in drawn
        assert name in tables
    assert report.count["svg"] == 2
    assert "@decode_then_sums" in drawn
    assert "host reads @out" in drawn
    assert "repeat 3 times" in drawn
    assert "math.softmax" in drawn


def test_page_counts_launches_and_bytes(report: Page) -> None:
    """10 launches, 3 rounds of 2 among them, become 9; @mid's KiB is neither written nor read again."""
    shown = report.all
    assert "10 \N{RIGHTWARDS ARROW} 9 launches" in shown
    assert "2 KiB less through memory" in shown
    assert "tile @mid, 64 B" in shown
    assert "now in a workgroup tile of 64 bytes" in shown


def test_page_names_what_was_joined_and_what_was_not(report: Page) -> None:
    """With the place and the line of the text, and a mark in the drawing that leads there."""
    assert "becomes one launch" in report.all
    why = [text for text in report.text["li"] if "@gather does not join @sums: load @hits" in text]
    assert len(why) == 2  # in the list of cuts, and among the remarks
    assert any("launch @gather grid(16) (@hits, @open)" in line for line in report.text["pre"])
    assert report.links
    assert all(link.startswith("#") and link[1:] in report.ids for link in report.links)
    assert len(set(report.ids)) == len(report.ids)


def test_text_of_the_user_is_escaped(report: Page) -> None:
    """As text it is all there, so none of it was taken for markup; what cannot be shown is replaced."""
    assert "b" not in report.count
    assert any("a <b> & c.vyre" in text for text in report.text["h1"])
    assert any('// <b> & "hostile" \N{REPLACEMENT CHARACTER}' in line for line in report.text["pre"])
    assert "\x1b" not in report.all


def test_page_refers_to_nothing_outside(tmp_path: Path) -> None:
    path = tmp_path / "p.vyre"
    path.write_text(TEXT)
    page = call_opt("-O", path, "--emit=html").stdout
    assert not re.search(r"https?:|url\(|@import|<script|<link|<img|<iframe", page)
    assert page == call_opt("-O", path, "--emit=html").stdout  # and is the same again


def test_page_without_passes_has_one_drawing(tmp_path: Path) -> None:
    path = tmp_path / "p.vyre"
    path.write_text(TEXT)
    page = Page(call_opt(path, "--emit=html").stdout)
    assert page.count["svg"] == 1
    assert "No pass was run" in page.all
    assert "became one launch" not in page.all


def test_page_without_a_pipeline_shows_the_programs(tmp_path: Path) -> None:
    path = tmp_path / "p.vyre"
    path.write_text(PROGRAMS + IN_PLACE)
    page = Page(call_opt("--pass=decode_scan_fuse", path, "--emit=html").stdout)
    assert "no pipeline" in page.all
    assert page.count["svg"] == 0
    assert {"@decode", "@sums", "@gather"} <= set(page.text["td"])
    assert "@h is live_out: the host sees it" in page.all


def test_page_shows_the_ir_side_by_side(report: Page) -> None:
    """A launch that was joined beside its parts; what did not change is not repeated."""
    assert "program @decode, program @sums \N{RIGHTWARDS ARROW} program @decode_then_sums" in report.all
    assert "pipeline @main" in report.text["summary"]
    assert "program @gather" not in report.all
    assert report.text["th"].count("before") == report.text["th"].count("after") == 2


def test_refusals_are_at_their_places_and_need_no_mouse() -> None:
    """Each mark is a link to the reason in the list, with the reason as its name, and shows it when it has the focus."""
    kept = """
pipeline @kept {
  buffer @h : u32[64] live_in live_out
  launch @in_place grid(1) (@h)
}
"""
    text = call_opt("-O", "--emit=html", text=TEXT + IN_PLACE + kept).stdout
    page = Page(text)
    named = dict(re.findall(r'<a class="mark" href="#([^"]*)" aria-label="([^"]*)"', text))
    assert set(named) <= set(page.ids)
    assert "1: @gather does not join @sums: load @hits" in named["p0-cut-1"]
    assert named["p1-kept-1"] == "a: stays in memory: @h is live_out: the host sees it"
    assert "What stayed in memory, and the fact that is missing" in page.all
    assert ".mark:is(:hover, :focus) .tip" in text


def test_long_names_are_broken_and_not_cut() -> None:
    long = "a_name_of_more_characters_than_a_line_of_a_box_holds_and_" + "x" * 60
    text = call_opt("-O", "--emit=html", text=TEXT.replace("@gather", f"@{long}")).stdout
    page = Page(text)
    assert f"@{long}" in "".join(page.text["text"])


def test_page_estimates_and_measures() -> None:
    """Estimates where all sizes are known; times of this CPU with --measure, or why there are none."""
    diamond = Path(__file__).parents[2] / "examples/pipelines/diamond.vyre"
    plain = Page(call_opt("-O", diamond, "--emit=html").stdout)
    assert re.search(r"20 us \S 5.01 us estimated, on a GPU of 2 TB/s and 10 T ops/s", plain.all)
    assert "measured on this CPU" not in plain.all
    ran = call_opt("-O", diamond, "--emit=html", "--measure")
    assert ran.returncode == 0, ran.stderr
    assert re.search(
        r"[\d.]+ [um]?s \S [\d.]+ [um]?s measured on this CPU: medians of \d+ rounds", Page(ran.stdout).all
    )
    open_size = Page(call_opt("-O", "--emit=html", "--measure", text=TEXT).stdout)
    assert "not measured" in open_size.all
    assert "declare it with a count: buffer @" in open_size.all
    assert "@weights is an input of open size" in open_size.all
    wrong = call_opt(diamond, "--measure")
    assert (wrong.returncode, "--measure is of --emit=html" in wrong.stderr) == (2, True)


def test_a_pipeline_that_faults_on_random_inputs_is_measured_on_zeros() -> None:
    program = """vyre 1
program @p workgroup(64) {
  buffer @i : u32[64] read binding(0)
  buffer @x : u32[2] read binding(1)
  buffer @y : u32[64] write binding(2) live_out
  %l = local_id x
  %i = load @i[%l] : u32
  %v = load @x[%i] : u32
  store %v, @y[%l] : u32
}
pipeline @main {
  buffer @i : u32[64] read
  buffer @x : u32[2] read
  buffer @y : u32[64] write live_out
  launch @p grid(1) (@i, @x, @y)
}
"""
    ran = call_opt("--emit=html", "--measure", text=program)
    assert "inputs of zeros" in Page(ran.stdout).all
    faulty = call_opt(
        "--emit=html", "--measure", text=program.replace("@x : u32[2] read", "@x : u32[0] read")
    )
    assert faulty.returncode in (0, 1)
    assert "Traceback" not in faulty.stderr


def test_page_is_of_one_module(tmp_path: Path) -> None:
    path = tmp_path / "p.vyre"
    path.write_text(f"{TEXT}// -----\n{TEXT}")
    ran = call_opt(path, "--emit=html", "--split-input-file")
    assert ran.returncode == 2
    assert "one page of one module" in ran.stderr


def test_empty_pipeline_is_said() -> None:
    page = Page(call_opt("-O", "-", "--emit=html", text="vyre 1\npipeline @none {\n}\n").stdout)
    assert "It has no stages." in page.all


def test_long_pipeline_is_linear() -> None:
    """Text per launch does not grow with the launches."""

    def size(count: int) -> int:
        buffers = "".join(f"buffer @b{i:04} : u32[64]\n" for i in range(count + 1))
        launches = "".join(f"launch @gather grid(1) (@b{i:04}, @b{i + 1:04})\n" for i in range(count))
        ran = call_opt("--emit=html", text=f"{PROGRAMS}pipeline @main {{\n{buffers}{launches}}}\n")
        assert ran.returncode == 0, ran.stderr
        return len(ran.stdout) - empty

    empty = len(call_opt("--emit=html", text=PROGRAMS).stdout)
    assert size(400) < 4.5 * size(100)


def test_graph_draws_hand_offs_groups_and_cuts() -> None:
    """A part of a joined launch is a box in its cluster, a buffer an edge with its bytes, a cut is dashed."""
    ran = call_opt("-O", "--emit=dot", text=TEXT)
    assert ran.returncode == 0, ran.stderr
    graph = ran.stdout[ran.stdout.index('label="pipeline @main"') :]
    assert re.search(r'label="@decode_then_sums\\ngrid 16, workgroup 64\\ntile @mid, 64 B"', graph)
    assert re.search(r':0.0" -> "pipeline\d+:0.1" \[label="@mid\\nin a workgroup tile of 64 bytes"', graph)
    assert re.search(r':0.1" -> "pipeline\d+:1" \[label="@hits\\n4 KiB"', graph)
    assert 'label="repeat 3 times"' in graph
    assert re.search(r"style=dashed, color=red.*@gather does not join @sums", graph)
    assert 'label="@open\\n? bytes"' in graph
    assert re.search(r'"@hits\\n4 KiB\\nnext round"', graph)


STRING = r'"(?:[^"\\\n]|\\.)*"'
VALUE = rf"(?:{STRING}|\w+)"
ATTRS = rf"\[{VALUE}={VALUE}(?:, {VALUE}={VALUE})*\]"
STATEMENT = re.compile(
    rf"(?:digraph \w+ \{{|\}}|subgraph {VALUE} \{{|{VALUE}={VALUE}(?:; {VALUE}={VALUE})*"
    rf"|{VALUE} {ATTRS}|{VALUE} -> {VALUE}(?: {ATTRS})?)"
)


def test_graph_is_dot() -> None:
    """Each line is a statement of the DOT language, strings of the user's text closed; braces balance."""
    graph = call_opt("-O", "--emit=dot", text=TEXT.replace("@open", "@o.p$en")).stdout
    lines = [line.strip() for line in graph.splitlines()]
    assert [line for line in lines if not STATEMENT.fullmatch(line)] == []
    assert sum(line.endswith("{") for line in lines) == lines.count("}")


@pytest.mark.skipif(os.name != "posix", reason="file names are bytes")
@pytest.mark.parametrize("emit", ["html", "dot", "json"])
def test_file_name_that_is_not_utf8(emit, tmp_path):
    """A page is UTF-8 all the same; the name's stray byte is shown as U+FFFD."""
    path, target = tmp_path / os.fsdecode(b"a\xff.vyre"), tmp_path / os.fsdecode(b"out\xfe")
    path.write_text(PROGRAMS)
    for to in ((), ("-o", target)):
        ran = call_opt(path, f"--emit={emit}", *to)
        assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == ""
    if emit == "html":
        assert "a\N{REPLACEMENT CHARACTER}.vyre" in target.read_text(encoding="utf-8")


def test_page_says_what_launches_ask_of_the_machine(tmp_path: Path) -> None:
    """A pipeline of known sizes has a row for each launch; one of open sizes says so."""
    path = tmp_path / "k.vyre"
    lines = [each for each in TEXT.splitlines(keepends=True) if not re.search("@(open|weights|soft)", each)]
    path.write_text("".join(lines))
    cells = Page(call_opt(path, "--emit=html").stdout).text["td"]
    assert "@decode over 16 workgroups" in cells
    # 1024 elements of 2 bytes, and of 1
    assert "moves 3.07 kB: reads 2.05 kB of @text; writes 1.02 kB of @bytes" in cells
    assert "memory is the limit: 0.917 ns at least on H100 SXM (3350 GB/s)" in cells
    assert "@gather over 16 workgroups, 3 times" in cells
    assert any("refused: stays as written: @decode accesses vec<2 x u8> already" in cell for cell in cells)
    assert "A100 80GB SXM" in call_opt(path, "--emit=html", "--target=sm_80").stdout
    assert "GB/s, " in call_opt(path, "--emit=html", "--measure").stdout
    path.write_text(TEXT)
    text = Page(call_opt(path, "--emit=html").stdout).all
    assert "depends on the open size of @open, @weights, @soft: report()" in text
