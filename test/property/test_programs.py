"""Random programs keep their text and their meaning.

A failure shows a reduced program.  For more programs, set VYRE_PROPERTY_PROGRAMS, or run
`PYTHONPATH=test python -m support --programs 20000`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from support import Settings, random_program
from support.campaign import Report, campaign
from support.properties import baseline, check_pipeline, check_text, ordinary_passes, run, with_options
from support.quick import quick
from support.sample import Sample

from vyre_opt import fingerprint, parse, print_program
from vyre_opt.ir import Source
from vyre_opt.syntax.upgrade import upgrade

SMALL = Settings(statements=5, depth=2, expression_depth=2)
NOTATION = Settings(statements=5, depth=2, bitcast_nan=True, fastmath=True)


def shown(report: Report) -> str:
    return "\n\n".join(f"seed {seed}: {what}\n{text}" for seed, what, text in report.failures)


def test_programs_survive_passes_and_pipelines(seeds: range) -> None:
    """A sound program runs clean; a pass and a random pipeline leave its outputs as they are, bit by bit."""
    report = campaign(seeds, settings=Settings(statements=6))
    assert not report.failures, shown(report)
    assert report.programs["clean"] == len(seeds)


def test_hand_offs_survive_decode_scan_fuse(seeds: range) -> None:
    """Whatever decode_scan_fuse moves to a tile, the program gives the same; and what read nothing is refused."""
    report = campaign(range(seeds.start * 2, seeds.stop * 2), handoff=True)
    assert not report.failures, shown(report)


@pytest.mark.parametrize("seed", quick(range(5000, 5008)))
def test_every_pass_keeps_small_programs(seed: int) -> None:
    """Each registered pass by itself; the other tests give a program only one of them."""
    sample = random_program(seed, SMALL)
    before = baseline(sample, seed)
    for name in ordinary_passes():
        check_pipeline(sample, with_options(name, random.Random(seed)), before)


@pytest.mark.parametrize("first", quick(range(7000, 7040, 4)))
def test_text_of_every_notation(first: int) -> None:
    """fastmath flags and bits of NaNs, which the other programs leave out, print and parse back."""
    for seed in range(first, first + 4):
        check_text(random_program(seed, NOTATION))


def in_version_2(sample: Sample) -> Iterator[str]:
    """The text of a program in version 2: as it is printed, in both forms, and as its text is upgraded."""
    yield print_program(sample.module, version=2)
    yield print_program(sample.module, version=2, generic=True)
    yield upgrade(Source(print_program(sample.module)))


@pytest.mark.parametrize("first", quick(range(8000, 8040, 4)))
def test_programs_mean_the_same_in_version_2(first: int) -> None:
    """The constants in place are those that were named: the same fingerprint, and the same outputs bit by bit."""
    for seed in range(first, first + 4):
        sample = random_program(seed, NOTATION)
        before = baseline(sample, seed)
        for text in in_version_2(sample):
            module = parse(text)
            assert fingerprint(module) == fingerprint(sample.module), text
            assert isinstance(before.outcome, dict), "a sound program"
            after = run(module.programs["main"], module, sample.grid, before.inputs)
            assert {name: array.tobytes() for name, array in after.items()} == {
                name: array.tobytes() for name, array in before.outcome.items()
            }, text
