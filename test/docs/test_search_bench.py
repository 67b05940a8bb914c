"""The benchmarks of search by size and of memory measure searches that find what they must."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import figures
import pytest
import report
import scan_memory
import search_sizes
import search_sizes_plot
from support.quick import quick


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Of the smallest size alone, by all ways that are here.  Takes seconds: vyre-scan starts four times."""
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_sizes, "LEAST_SECONDS", 0)
        patch.setattr(
            "sys.argv", ["search_sizes.py", *f"--most-mib 0.0625 --rounds 1 --results {folder}".split()]
        )
        search_sizes.main()
    return json.loads((folder / "search_sizes.json").read_text(encoding="utf-8"))


def test_every_way_is_measured_or_absent(result: Any) -> None:
    (row,) = result["samples"]
    assert row["matches"] > 0
    measured = set(row["ways"])
    assert measured | set(result["absent"]) == {way.name for way in search_sizes.WAYS}
    assert not measured & set(result["absent"])
    assert {way.name for way in search_sizes.WAYS if way.is_here()} == measured
    assert len(measured) >= 6
    for way in row["ways"].values():
        assert way["characters"] >= 1 << 16
        assert way["seconds"] > 0


def test_lines_are_counted_with_their_breaks(result: Any) -> None:
    (row,) = result["samples"]
    for way in search_sizes.WAYS:
        if way.name in row["ways"]:
            characters = 65536 + -(-65536 // 76) * way.in_lines
            assert row["ways"][way.name]["characters"] == characters


def test_a_way_that_finds_less_is_not_timed(tmp_path: Path) -> None:
    (work,) = search_sizes.works(1 << 16, tmp_path)
    right = search_sizes.WAYS[0]
    wrong = replace(right, prepare=lambda work: lambda: right.prepare(work)() - 1)
    for name in (right.name, "vyre-scan --only-blobs in lines"):
        with pytest.raises(SystemExit, match=f"{name} counts {work.matches - 1} matches"):
            search_sizes.sample(work, [right, replace(wrong, name=name)], 1)


def test_a_section_shows_its_figure(result: Any) -> None:
    lines = [*report.section(result)]
    assert "![Search in base64 text by size](../images/search_sizes.svg)\n" in lines
    without = {name: value for name, value in result.items() if name != "figure"}
    assert not any("![" in line for line in report.section(without))


def test_the_figure_is_that_of_the_results(root: Path) -> None:
    written = json.loads((root / "bench/results/search_sizes.json").read_text(encoding="utf-8"))
    drawn = (root / "docs/images/search_sizes.svg").read_text(encoding="utf-8")
    assert figures.digest(written["samples"]) in drawn, "run: make plot"


def test_the_figure_is_the_same_each_time(result: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in "ab":
        search_sizes_plot.draw(result["samples"], tmp_path / name)
    drawn = (tmp_path / "a").read_bytes()
    assert drawn == (tmp_path / "b").read_bytes()
    assert b"<dc:date>" not in drawn


# --- memory


@pytest.mark.parametrize("mode", quick(scan_memory.MODES), ids=lambda mode: mode.name)
def test_a_file_and_a_pipe_are_searched(mode: Any, tmp_path: Path) -> None:
    rows = scan_memory.measured(1 << 20, [mode], tmp_path)
    assert [row["source"] for row in rows] == ["file", "pipe"]
    for row in rows:
        assert row["size"] >= 1 << 20
        assert row["matches"] > 0
        assert 30 << 20 < row["peak"] < scan_memory.MOST_MEMORY
    shown = scan_memory.result(rows, "")
    assert {len(cells) for cells in shown["tables"][0]["rows"]} == {len(shown["tables"][0]["columns"])}
    assert shown["targets"][0]["met"] is True
    rows[0]["peak"] = scan_memory.MOST_MEMORY
    assert scan_memory.result(rows, "")["targets"][0]["met"] is False


def test_a_wrong_count_ends_the_run(tmp_path: Path) -> None:
    block = scan_memory.Block(b"a needle ", ["needle"], {"strings": 2})
    with pytest.raises(SystemExit, match="strings: exit code 0, 3 matches, not 6"):
        scan_memory.run(scan_memory.MODES[0], block, 3, None, tmp_path)
