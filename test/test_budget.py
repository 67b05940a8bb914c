"""The budget of time: long files are listed, and in CI those without a reason fail the run; slow tests have a table."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from support.budget import PLAIN_RUN, REASONS, Budget, is_whole_run
from support.slow_tests import SlowTests, read_table

ROOT = Path(__file__).parents[1]


def run_of(seconds: dict[str, list[float]], **budget: object) -> tuple[Budget, SimpleNamespace, list[str]]:
    """A run whose tests took so long: its budget, its session at the end, and what it says."""
    plugin = Budget(**budget)  # type: ignore[arg-type]
    for path, durations in seconds.items():
        for duration in durations:
            plugin.pytest_runtest_logreport(SimpleNamespace(location=(path, 1, "test"), duration=duration))  # type: ignore[arg-type]
    session = SimpleNamespace(exitstatus=pytest.ExitCode.OK)
    plugin.pytest_sessionfinish(session)  # type: ignore[arg-type]
    lines: list[str] = []
    plugin.pytest_terminal_summary(SimpleNamespace(write_line=lambda line, **_: lines.append(line)))  # type: ignore[arg-type]
    return plugin, session, lines


def test_a_long_file_needs_a_reason() -> None:
    times = {"test/a.py": [3.0, 9.0], "test/b.py": [11.0], "test/c.py": [9.5]}
    _, session, lines = run_of(times, reasons={"test/a.py": "it waits"}, is_strict=True)
    assert session.exitstatus == pytest.ExitCode.TESTS_FAILED
    assert lines[0] == "LONG: test/a.py took 12 s: it waits"
    assert lines[1].startswith("LONG: test/b.py took 11 s: no reason")
    assert len(lines) == 2


def test_a_run_at_home_only_tells() -> None:
    _, session, lines = run_of({"test/b.py": [11.0]}, reasons={}, is_strict=False)
    assert session.exitstatus == pytest.ExitCode.OK
    assert len(lines) == 1


def test_a_slow_machine_is_no_long_file() -> None:
    """Forty files of 12 seconds take 480 in all, of which a file may take 16."""
    plugin, *_ = run_of({f"test/{n}.py": [12.0] for n in range(40)})
    assert plugin.long_files() == []


@pytest.mark.parametrize(
    ("source", "keyword", "marks", "is_whole"),
    [
        ("TESTPATHS", "", "", True),
        ("ARGS", "", "", False),
        ("TESTPATHS", "ir", "", False),
        ("TESTPATHS", "", "gpu", False),
    ],
)
def test_a_run_of_chosen_tests_is_no_whole_one(source: str, keyword: str, marks: str, is_whole: bool) -> None:
    options = SimpleNamespace(keyword=keyword, markexpr=marks)
    config = SimpleNamespace(args_source=pytest.Config.ArgsSource[source], option=options)
    assert is_whole_run(config) is is_whole  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "Makefile"])
def test_documents_say_how_long_the_plain_run_takes(name: str) -> None:
    assert PLAIN_RUN in " ".join((ROOT / name).read_text(encoding="utf-8").split())


def test_reasons_are_about_files_that_there_are() -> None:
    assert [path for path in REASONS if not (ROOT / path).is_file()] == []


def test_slow_tests_are_functions_that_there_are() -> None:
    missing = [
        name
        for name in read_table()
        if f"def {name.rpartition('::')[2]}("
        not in (ROOT / name.partition("::")[0]).read_text(encoding="utf-8")
    ]
    assert missing == []


def test_the_slowest_case_decides_and_what_did_not_run_stays(tmp_path: Path) -> None:
    table = tmp_path / "slow.txt"
    table.write_text("# a comment\n  2.0 test/a.py::test_left_out\n  3.0 test/a.py::test_faster\n")
    plugin = SlowTests(table)
    times = {"test_faster": 0.1, "test_b[1]": 0.4, "test_b[x-2]": 0.7, "test_c": 0.4}
    for name, seconds in times.items():
        plugin.pytest_runtest_logreport(
            SimpleNamespace(nodeid=f"test/a.py::{name}", when="call", duration=seconds)  # type: ignore[arg-type]
        )
    plugin.pytest_runtest_logreport(SimpleNamespace(nodeid="test/a.py::test_c", when="setup", duration=9.0))  # type: ignore[arg-type]
    plugin.pytest_sessionfinish()
    assert read_table(table) == {"test/a.py::test_b": 0.7, "test/a.py::test_left_out": 2.0}
