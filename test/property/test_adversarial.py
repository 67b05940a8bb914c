"""Pipelines that aim at the proofs of fusion, before and after passes; `make campaign` runs many."""

from __future__ import annotations

from typing import Any

import pytest
from support.adversarial import adversarial_pipeline, candidate
from support.pipeline_runs import RANDOM, compare_pipelines, random_passes
from support.quick import quick

from vyre_opt.fusion import group_legality

FOUND = (201151, 203620)
"""Seeds whose pipelines change what a joined pair loads in the launch between."""


def compared(target: str, seeds: Any, **options: Any) -> Any:
    done = compare_pipelines(target, seeds, jobs=1, kind="adversarial", **options)
    assert not done.failures, "\n\n".join(
        f"seed {seed}: {what}\n{text}" for seed, what, text in done.failures
    )
    return done


@pytest.mark.parametrize(("count", "joined", "tiles"), quick([(4, 1, 0), (15, 8, 0), (60, 50, 5)]))
def test_default_passes(count: int, joined: int, tiles: int) -> None:
    """Outputs and host reads stay, no fault is new, and a good part of the launches is joined."""
    done = compared("ref", range(count))
    assert done.joined > joined
    assert done.tiles >= tiles


@pytest.mark.parametrize("first", quick(range(1000, 1030, 5)))
def test_random_passes(first: int) -> None:
    compared("ref", range(first, first + 5), passes=RANDOM)


def test_random_passes_vary() -> None:
    assert len({random_passes(seed) for seed in range(1, 61, 2)}) > 10


@pytest.mark.parametrize("first", quick(range(2000, 2012, 2)))
def test_on_cpu(first: int) -> None:
    compared("cpu", range(first, first + 2))


def test_a_seed_gives_one_pipeline_that_runs() -> None:
    one, again = adversarial_pipeline(3), adversarial_pipeline(3)
    assert one.text == again.text != adversarial_pipeline(4).text
    assert all((one.inputs[name] == again.inputs[name]).all() for name in one.inputs)


@pytest.mark.campaign
def test_pipelines_vary() -> None:
    """Of what they aim at, a good part is in a few of them."""
    texts = "".join(candidate(seed)[0] for seed in range(40))
    for word in (
        "while",
        " : u8",
        "i8",
        "vec<2",
        "host_read",
        "repeat",
        "barrier",
        "local_id y",
        "sub_sat",
        "select",
    ):
        assert word in texts, word


@pytest.mark.usefixtures("unchecked_results")
@pytest.mark.parametrize("seed", FOUND)
def test_a_wrong_proof_is_found(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A campaign that never finds anything would pass every other test here."""
    compared("ref", [seed])
    monkeypatch.setattr(group_legality.GroupLegality, "rewrites_between", lambda *_: {})
    done = compare_pipelines("ref", [seed], jobs=1, kind="adversarial")
    assert [failed for failed, _, _ in done.failures] == [seed]
