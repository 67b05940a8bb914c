"""Programs by pairs of features against NumPy: a few, that the oracle can fail, and what a tally counts.

`make features` runs hundreds of thousands; test/campaign/property/test_features.py what is between.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.features import arithmetic, patterns, scene, templates
from support.features.campaign import Tally, add, run_campaign
from support.features.composition import compose, pair_of
from support.features.running import Outcome, check
from support.features.table import FEATURES, PAIRS, excluded

from vyre_opt.passes import launch_fusion

SEEDS = (3, 35, 61, 97, 140, 1019, 1121, 2028, 12151)
"""Pipelines with joined launches, tiles, a halo, a grid that is chosen, forwarded loads; of text and of Python."""


def test_programs_give_what_numpy_says() -> None:
    effects: set[str] = set()
    failures: list[tuple[int, str, str]] = []
    for seed in SEEDS:
        outcome = check(compose(seed), "ref")
        effects |= outcome.effects
        failures += [(seed, how, what) for how, what in outcome.failures]
    assert not failures, "\n".join(f"seed {seed} after {how}: {what}" for seed, how, what in failures)
    assert effects >= {"changed", "joined", "tile", "forward"}


@pytest.mark.gpu
def test_programs_give_what_numpy_says_on_a_gpu() -> None:
    assert run_campaign("cuda", 1, 40, None, 1).failures == []


def test_features_exclude_what_exists() -> None:
    for feature in FEATURES.values():
        assert set(feature.excludes) <= set(FEATURES)
    assert all(not excluded(*pair) for pair in PAIRS)
    offered = set().union(*(each.offers for each in templates.TEMPLATES.values()))
    assert offered <= set(FEATURES)


_blocks, _run = templates._blocks, scene.Launch.run


def _without_params(launch: scene.Launch, arrays: Any, scalars: Any) -> list[str]:
    zeros = dict.fromkeys(launch.params, ("literal", 0))
    return _run(scene.Launch(launch.program, launch.buffers, zeros), arrays, scalars)


WRONG: list[tuple[str, Any, str, Any, str]] = [
    ("sums are differences", arithmetic._INTEGER, "add", lambda t, a, b: a - b, "64 bits"),
    ("bf16 is cut off", arithmetic, "_narrow", lambda v: (v.view(np.uint32) >> 16).astype(np.uint16), "bf16"),
    (
        "neighbours are clamped late",
        patterns,
        "_moved",
        lambda i, n, by: np.clip(i + by, -1, n - 1),
        "neighbours",
    ),
    (
        "workgroups are larger",
        templates,
        "_blocks",
        lambda v, block, fill: _blocks(v, 2 * block, fill),
        "workgroup scan",
    ),
    ("params are 0", scene.Launch, "run", _without_params, "literal param"),
    (
        "joined launches have no barriers",
        launch_fusion._Fuser,
        "barriers",
        lambda *_: iter(()),
        "within workgroup",
    ),
]
"""A mistake in the oracle, or in a pass, and a feature of programs that it is noticed in."""


@pytest.mark.parametrize(("name", "place", "what", "wrong", "feature"), WRONG, ids=[row[0] for row in WRONG])
def test_mistakes_are_noticed(
    monkeypatch: pytest.MonkeyPatch, name: str, place: Any, what: str, wrong: Any, feature: str
) -> None:
    if isinstance(place, dict):
        monkeypatch.setitem(place, what, wrong)
    else:
        monkeypatch.setattr(place, what, wrong)
    seeds = [seed for seed in range(len(PAIRS)) if feature in pair_of(seed)]
    assert any(check(compose(seed), "ref").failures for seed in seeds[:20]), name


def test_campaign_goes_on_where_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "features.json"
    first = run_campaign("ref", 4, 3, path, 1)
    assert (first.programs, first.differ, first.batches) == (3, 0, [(4, 3)])
    again = run_campaign("ref", 4, 3, path, 1)
    assert again.json() == first.json()
    assert run_campaign("ref", 9, 1, path, 1).programs == 4


def test_pairs_without_programs_are_holes() -> None:
    tally = Tally("ref")
    composed = compose(0)
    add(tally, composed, Outcome(effects={"changed"}, together=[set(composed.pair)]))
    number = PAIRS.index(composed.pair)
    assert [tally.pairs[column][number] for column in ("programs", "changed", "together", "halo")] == [
        1,
        1,
        1,
        0,
    ]
    assert len(tally.holes(enough=1)) == sum(count == 0 for count in tally.pairs["changed"])
    assert composed.pair not in [pair[:2] for pair in tally.holes(enough=1)]
    assert len(tally.holes(enough=2)) == len(PAIRS)
