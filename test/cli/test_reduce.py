"""vyre-reduce as a command: what a test is run with, where the result goes, and what ends a reduction."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.interrupts import has_ended, hear_interrupts
from support.tools_inside import call_reduce

Ran = subprocess.CompletedProcess[str]

TEXT = """vyre 1

program @p workgroup(64) {
  buffer @x : u32[64] read  binding(0)
  buffer @y : u32[64] write binding(1)
  %i = local_id x
  %v = load @x[%i] : u32
  %two = const 2 : u32
  %s = shl %v, %two : u32
  %t = mul %s, %v : u32
  store %t, @y[%i] : u32
}
"""
SMALL = """vyre 1

program @p workgroup(1) {
  %zero = const 0 : u32
  %s = shl %zero, %zero : u32
}
"""
HAS_SHL = "grep -q shl"


@pytest.fixture
def bug(tmp_path: Path) -> Path:
    path = tmp_path / "bug.vyre"
    path.write_text(TEXT)
    return path


def script(folder: Path, body: str) -> Path:
    path = folder / "is_interesting.sh"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_the_result_goes_to_stdout(bug: Path) -> None:
    ran = call_reduce(bug, "--test", HAS_SHL)
    assert (ran.returncode, ran.stdout) == (0, SMALL)
    assert ran.stderr.startswith("6 ops (")
    assert bug.read_text() == TEXT


def test_or_to_a_file_or_in_place(bug: Path) -> None:
    small = bug.with_name("small.vyre")
    ran = call_reduce(bug, "--test", HAS_SHL, "-o", small, "-j", "3")
    assert (ran.returncode, ran.stdout, small.read_text()) == (0, "", SMALL)
    ran = call_reduce(bug, "--test", HAS_SHL, "--in-place")
    assert (ran.returncode, ran.stdout, bug.read_text()) == (0, "", SMALL)


def test_stdin_is_reduced_too() -> None:
    assert call_reduce("-", "--test", HAS_SHL, text=TEXT).stdout == SMALL


@pytest.mark.parametrize(
    "arguments",
    [
        ["--test", "grep", "--test-arg=-q", "--test-arg", "shl"],
        ["--test", "grep -q shl {}"],
        ["--test", "sh -c 'test -f {} && grep -q shl {}'"],
    ],
    ids=["arguments", "placeholder", "shell"],
)
def test_the_words_of_a_test(bug: Path, arguments: list[str]) -> None:
    assert call_reduce(bug, *arguments).stdout == SMALL


def test_a_candidate_has_the_name_of_the_file(bug: Path) -> None:
    """So that messages about it stay the same."""
    test = script(bug.parent, 'test "$(basename "$1")" = bug.vyre && grep -q shl "$1"')
    assert call_reduce(bug, "--test", test).stdout == SMALL


def test_a_file_that_is_not_interesting(bug: Path) -> None:
    small = bug.with_name("small.vyre")
    small.write_text("old")
    ran = call_reduce(bug, "--test", script(bug.parent, "echo no such thing; exit 3"), "-o", small)
    assert ran.returncode == 1
    assert ran.stderr == (
        f"error: {bug} is not interesting as it is: the test ends with exit code 3, and not 0\n"
        "  no such thing\n"
    )
    assert small.read_text() == "old"


def test_a_test_that_is_killed_or_takes_too_long(bug: Path) -> None:
    ran = call_reduce(bug, "--test", script(bug.parent, "kill -SEGV $$"))
    assert (ran.returncode, "the test ends by SIGSEGV" in ran.stderr) == (1, True)
    ran = call_reduce(bug, "--test", "sh -c 'sleep 100'", "--test-timeout", "0.2")
    assert (ran.returncode, "the test takes more than 0.2 s" in ran.stderr) == (1, True)


def test_a_candidate_that_takes_too_long_is_not_interesting(bug: Path) -> None:
    """Without its multiplication, the program here makes the test hang."""
    test = script(bug.parent, 'grep -q mul "$1" || sleep 100; grep -q shl "$1"')
    ran = call_reduce(bug, "--test", test, "--test-timeout", "0.3", "--delta-passes", "dead-ops,operands")
    assert ran.returncode == 0
    assert "mul" in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--test", "nowhere/at_all"], 1, "cannot run nowhere/at_all: No such file"),
        (["--test", "''"], 1, "cannot run"),
        (["--test", "'unclosed"], 2, "--test: No closing quotation"),
        ([], 2, "give a --test"),
        (["--test", HAS_SHL, "--in-place", "-o", "x"], 2, "--in-place is for a FILE, without --output"),
        (["--test", HAS_SHL, "--delta-passes", "opps"], 2, "no delta pass 'opps'; did you mean"),
    ],
)
def test_wrong_command_lines(bug: Path, arguments: list[str], code: int, message: str) -> None:
    ran = call_reduce(bug, *arguments)
    assert (ran.returncode, ran.stdout) == (code, "")
    assert message in ran.stderr


def test_a_file_that_may_not_be_run(bug: Path) -> None:
    ran = call_reduce(bug, "--test", bug)
    assert ran.returncode == 1
    assert "make it executable by chmod +x" in ran.stderr


def test_the_number_of_tests_is_a_limit(bug: Path) -> None:
    log = bug.with_name("log")
    test = script(bug.parent, f'echo >> {log}; grep -q shl "$1"')
    ran = call_reduce(bug, "--test", test, "--max-tests", "4")
    assert ran.returncode == 0
    assert "4 tests, the most that may be" in ran.stderr
    assert len(log.read_text().splitlines()) == 1 + 4  # and one of the file as it is


def test_passes_can_be_chosen(bug: Path) -> None:
    only = call_reduce(bug, "--test", HAS_SHL, "--delta-passes", "dead-ops,extents").stdout
    assert "workgroup(1)" in only
    assert "mul" in only
    rest = call_reduce(bug, "--test", HAS_SHL, "--skip-delta-passes", "extents,half-extents").stdout
    assert "workgroup(64)" in rest
    assert "mul" not in rest
    listed = call_reduce("--print-delta-passes").stdout
    assert "\ncarried-values  Results of structured ops" in listed


def test_an_interrupt_keeps_the_best(bug: Path) -> None:
    """The fourth interesting text waits for ever, in a process of the test's own, which ends with the reduction."""
    small, steps, child = (bug.with_name(name) for name in ("small.vyre", "steps", "child"))
    test = script(
        bug.parent,
        f'grep -q shl "$1" || exit 1; echo >> {steps}\n'
        f"test $(wc -l < {steps}) -lt 4 && exit 0; sleep 1000 & echo $! > {child}; wait",
    )
    code = "from vyre_opt.cli.start import vyre_reduce; raise SystemExit(vyre_reduce())"
    command = [sys.executable, "-c", code, str(bug), "--test", str(test), "-o", str(small)]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear_interrupts,
    )
    while process.poll() is None and not (child.exists() and child.read_text()):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert "shl" in small.read_text()
    assert len(small.read_text()) < len(TEXT)
    assert has_ended(int(child.read_text()))


def test_the_time_of_all_is_a_limit(run_reduce: Callable[..., Ran], bug: Path) -> None:
    ran = run_reduce(bug, "--test", script(bug.parent, "sleep 1000"), "--timeout", "0.5")
    assert ran.returncode == 1
    assert "error: not done after 0.5 s" in ran.stderr
    assert bug.read_text() == TEXT
