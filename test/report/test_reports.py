"""Modules and kernels as a notebook shows them, and reports of what passes made of pipelines."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support.each import each
from support.quick import quick
from support.tools_inside import call_opt

import vyre_opt as vyre
from vyre_opt.lang import Read, ReadWrite, u8, u32
from vyre_opt.report.reports import Report
from vyre_opt.syntax.highlighting import highlight

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").rglob("*.vyre"))


@vyre.program(workgroup=256)
def tally(data: Read[u8], sums: ReadWrite[u32]):
    i = vyre.global_id(0)
    if i < len(data):
        vyre.atomic_add(sums, 0, u32(data[i]))


@vyre.pipeline
def decoded_tally(text: Read[u8], sums: ReadWrite[u32]):
    decoded = vyre.buffer(u8, len(text) // 2)
    vyre.decode.hex(text, decoded)
    tally[vyre.ceil_div(len(decoded), 256)](decoded, sums)


class Balanced(HTMLParser):
    """Checks that every element is closed, and keeps ids, links and tags."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.links += [(value or "")[1:] for name, value in attrs if name == "href"]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_colours_leave_the_text_as_it_is() -> None:
    def check(path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        html = highlight(text)
        Balanced(html)
        assert unescape(re.sub(r"<[^>]*>", "", html)) == text

    each(EXAMPLES, check)


def test_words_have_their_colours() -> None:
    html = highlight('%v = add %a, %b : vec<4 x u8> // "no" <tag>\ntrap "a <b>"')
    colored = re.findall(r'<span style="color: (#\w+)">([^<]*)</span>', html)
    kinds = {unescape(word): color for color, word in colored}
    assert kinds["%v"] == kinds["%a"] != kinds["add"]
    assert kinds["u8"] == kinds["vec"] != kinds["add"] == kinds["trap"]
    assert '// "no" <tag>' in kinds
    assert '"a <b>"' in kinds


def test_modules_programs_and_pipelines_are_their_text() -> None:
    module = decoded_tally.module
    for item in (module, module.programs["tally"], module.pipelines["decoded_tally"]):
        assert str(item) == vyre.print_program(item)
        assert item._repr_html_() == highlight(str(item))
    assert tally._repr_html_() == highlight(tally.text())


def test_a_report_says_what_became_one_launch() -> None:
    report = decoded_tally.report()
    first, second, *_ = str(report).splitlines()
    assert first == "pipeline @decoded_tally: 2 -> 1 launches"
    assert second == "  @decode_hex_then_tally from @decode_hex, @tally"
    apart = str(decoded_tally.report(passes="canonicalize"))
    assert apart == "pipeline @decoded_tally: 2 -> 2 launches"
    (refused,) = [
        remark
        for remark in report.remarks
        if remark.kind == "refused" and "partial" in str(remark.certificate)
    ]
    assert __file__ in str(refused)
    assert "tally[vyre.ceil_div" in str(refused)
    assert unescape(re.sub(r"<[^>]*>", "", refused._repr_html_())) == str(refused)


def test_a_report_in_a_notebook_is_a_drawing_of_its_own(tmp_path: Path) -> None:
    report = decoded_tally.report()
    part, whole = Balanced(report._repr_html_()), Balanced(report.html())
    assert part.tags.count("svg") == whole.tags.count("svg") == 2
    assert "html" not in part.tags
    assert "html" in whole.tags
    assert set(part.links) <= set(part.ids)
    assert len(set(part.ids)) == len(part.ids)
    other = Balanced(Report(decoded_tally.module, "canonicalize")._repr_html_())
    assert not set(part.ids) & set(other.ids)
    report.save(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == report.html()
    assert decoded_tally._repr_html_() == report._repr_html_()


def test_a_report_leaves_its_module_alone() -> None:
    before = decoded_tally.text()
    decoded_tally.report()
    assert decoded_tally.text() == before


@pytest.mark.parametrize("path", quick(EXAMPLES, lambda path: path.parent, 3, ids=[p.name for p in EXAMPLES]))
def test_a_text_with_locations_alone_has_the_same_report(path: Path) -> None:
    """Stages are told apart by where they were written, although none of that can be quoted."""

    def page(text: str) -> str:
        """Without the lines of the text, and the IR and the counts of its ops, of which constants with locations are some."""
        ran = call_opt("-O", "--emit=html", text=text)
        assert ran.returncode == 0, ran.stderr
        left_out = r'<pre.*?</pre>|<h2>The IR before and after</h2>.*?</section>|<td class="number">\d+</td>|\d+ ops\b'
        return re.sub(left_out, "", ran.stdout, flags=re.DOTALL)

    text = path.read_text(encoding="utf-8")
    located = vyre.print_program(vyre.parse(text, "<stdin>"), locations=True)
    assert page(located) == page(text)
