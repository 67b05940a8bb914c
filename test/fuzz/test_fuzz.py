"""The fuzzer notices each way to fail, names the case, and makes it small; and what it fuzzes works at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from failing_target import FAILING
from support.fuzz import run_target
from support.fuzz.session import Session, record, run_cases
from support.fuzz.target import Wrong
from support.fuzz.targets import TARGETS
from support.fuzz.worker import CASE_SECONDS, Batch, CaseSource, Failure, result_of, start
from support.quick import quick

from vyre_opt import dispatcher

FAST_FIRST = sorted(TARGETS, key=lambda name: name not in ("pass-text", "options", "npy"))
"""The seeds of the others take seconds to make."""

FAILURES = {
    b"please raise": "KeyError in no function of the compiler",
    b"this is wrong": "wrong _ is not _",
    b"and abort": "process ended with -6 in no function of the compiler",
    b"much memory": "MemoryError in no function of the compiler",
    b"hang here": "too long in no function of the compiler",
    b"too busy": "too long in no function of the compiler",
}


@pytest.mark.parametrize(("case", "kind"), FAILURES.items(), ids=lambda value: value.split()[-1])
def test_each_way_to_fail_is_noticed(case: bytes, kind: str, tmp_path: Path) -> None:
    """The process is over after some of them; the case that it was at is known all the same."""
    seconds = 0.2 if kind.startswith("too long") else CASE_SECONDS
    process = start(Batch(FAILING, explicit=(b"fine", case), case_seconds=seconds), tmp_path)
    process.join(60)
    (failure,) = result_of(tmp_path, process.exitcode).failures
    assert (failure.kind, failure.case) == (kind, case)


def test_cases_that_are_fine_do_not_fail(tmp_path: Path) -> None:
    """Of a batch that ends, the cases are counted, and how many shapes their answers have."""
    process = start(Batch(FAILING, seed=3, cases=40), tmp_path)
    process.join(60)
    result = result_of(tmp_path, process.exitcode)
    assert (result.cases, result.accepted, result.shapes, result.failures) == (40, 40, 1, [])


@pytest.mark.campaign
def test_a_failing_case_is_made_small_and_written(tmp_path: Path) -> None:
    """Under the name of its kind; one that does not fail again is not."""
    case = b"one line\nanother line\nand abort now\nthe last\n"
    (failure,) = run_cases(FAILING, [case])
    path = record(FAILING, failure, tmp_path)
    assert path == tmp_path / "failing" / "process-ended-with-6-in-no-function-of-the-compiler.txt"
    assert path.read_bytes() == b"abort"
    assert record(FAILING, Failure(failure.kind, "", b"fine"), tmp_path) is None


@pytest.mark.parametrize("name", quick(FAST_FIRST, keep=3))
def test_a_seed_gives_the_same_cases(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another seed, and another batch of it, give others."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VYRE_CACHE_DIR", str(tmp_path / "cache"))
    first, again, other, later = (
        list(CaseSource(Batch(TARGETS[name], seed, number, 60)))
        for seed, number in ((1, 1), (1, 1), (2, 1), (1, 2))
    )
    assert len(first) == 60
    assert first == again
    assert first != other
    assert first != later


@pytest.mark.parametrize("name", quick(FAST_FIRST, keep=3))
def test_seeds_are_answered(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of what mutations start from is right, else they would only ever meet the first check."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VYRE_CACHE_DIR", str(tmp_path / "cache"))
    target = TARGETS[name]
    answers = [target.run(case) for case in target.seeds()[:12]]
    assert sum(not answer.startswith("refused") for answer in answers) > 0


class Flipped:
    """A cpu target whose outputs have one wrong bit."""

    name = "cpu"

    def __init__(self, **options: Any) -> None:
        self.ref = dispatcher("ref")

    def dispatch(self, *args: Any, **more: Any) -> list[Any]:
        outputs = self.ref.dispatch(*args, **more)
        outputs[0].view("u1")[3] ^= 1
        return outputs


def test_a_wrong_result_of_the_jit_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same program passes with the cpu target as it is."""
    case = b"""vyre 1
program @p workgroup(4) {
  buffer @y : u32[4] write binding(0)
  %i = global_id x
  store %i, @y[%i] : u32
}
"""
    assert TARGETS["run"].run(case) == "runs"
    monkeypatch.setattr(run_target, "CpuDispatcher", Flipped)
    with pytest.raises(Wrong, match="cpu differs from ref"):
        TARGETS["run"].run(case)


@pytest.mark.campaign
def test_a_session_runs_all_targets(tmp_path: Path) -> None:
    """Some cases of each, mutations most of them; `make fuzz` is this for longer."""
    session = Session(list(TARGETS.values()), seed=1, seconds=300, cases=30, jobs=2, first=1)
    session.run(tmp_path)
    assert not session.failures()
    cases = {name: totals.result.cases for name, totals in session.totals.items()}
    assert cases == dict.fromkeys(TARGETS, 30)
