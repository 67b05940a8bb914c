"""The shipped recordings, and the tuner on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vyre_opt import BadInputs
from vyre_opt.tuning.ledger import Ledger
from vyre_opt.tuning.recording import RECORDINGS, RecordedBench, load_recording, recordings
from vyre_opt.tuning.tuner import DEFAULT_STRATEGY, search

FILES = sorted(RECORDINGS.glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_recording_is_whole(path: Path) -> None:
    """Every configuration has all rounds or a reason; the text is what `to_json` makes of it."""
    found = load_recording(path)
    assert found.to_json() == path.read_text()
    counts = {len(rounds) for place, rounds in enumerate(found.samples) if place not in found.failures}
    assert len(counts) == 1
    assert min(counts) >= 8
    assert found.best > 0
    assert found.truth[found.default] < float("inf")


def test_default_strategy_beats_random_search() -> None:
    """Over all recordings and ten starts each, with a quarter of the measurements."""
    near = {DEFAULT_STRATEGY: 0, "random": 0}
    for recording in recordings():
        count, rounds = len(recording.space), recording.rounds
        for strategy in near:
            for seed in range(10):
                ledger = Ledger(RecordedBench(recording), count, count // 4 * rounds, rounds)
                search(ledger, np.random.default_rng(seed), recording.space, strategy)
                assert ledger.spent <= count // 4 * rounds
                assert ledger.best is not None
                near[strategy] += recording.truth[ledger.best] <= 1.05 * recording.best
    assert len(FILES) >= 6
    assert near[DEFAULT_STRATEGY] > 1.05 * near["random"], near


def test_what_is_no_recording(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    for text in ("", "{}", '{"format": 2}', FILES[0].read_text()[:-9]):
        broken.write_text(text)
        with pytest.raises(BadInputs, match=r"broken\.json"):
            load_recording(broken)
