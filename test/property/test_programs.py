"""Random programs keep their text and their meaning.

A failure shows a reduced program.  For more programs, set VYRE_PROPERTY_PROGRAMS, or run
`PYTHONPATH=test python -m support --programs 20000`.
"""

from __future__ import annotations

import pytest
from support import Settings, random_program
from support.campaign import Report, campaign
from support.properties import baseline, check_pipeline, check_text
from support.quick import quick

from vyre_opt.passes.registry import pass_names

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
    for name in pass_names():
        check_pipeline(sample, name, before)


@pytest.mark.parametrize("first", quick(range(7000, 7040, 10)))
def test_text_of_every_notation(first: int) -> None:
    """fastmath flags and bits of NaNs, which the other programs leave out, print and parse back."""
    for seed in range(first, first + 10):
        check_text(random_program(seed, NOTATION))
