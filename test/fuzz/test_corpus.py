"""What ever failed under the fuzzer does so no longer: every case of test/corpus, in a process for each target."""

from __future__ import annotations

import pytest
from support.fuzz.corpus import CORPUS, cases_of
from support.fuzz.session import run_cases
from support.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if cases_of(target)])
def test_cases_that_have_failed(name: str) -> None:
    failures = run_cases(TARGETS[name], [path.read_bytes() for path in cases_of(TARGETS[name])])
    assert not failures, "\n\n".join(f"{f.kind}\n{f.what}\n{f.case[:1000]!r}" for f in failures)


def test_every_file_of_the_corpus_is_run() -> None:
    """A file in a folder of another name, or with another suffix, would be run by nobody."""
    run = {path for target in TARGETS.values() for path in cases_of(target)}
    assert run == {path for path in CORPUS.rglob("*") if path.is_file()}
    assert run
