"""The paired test at the end of a search: the default is left for a gain beyond the noise, and for no other."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from support.quick import quick

from vyre_opt import BackendError, Space, autotune
from vyre_opt.tuning import tuner
from vyre_opt.tuning.measure import INFINITE, Bench, FunctionBench
from vyre_opt.tuning.paired_test import CANDIDATES, FLOOR, ROUNDS, is_faster, paired_test, rounds_to_win

SPACE = Space({"a": tuple(range(40))})


class Noisy(Bench):
    """A device whose times are `true` ones, times noise, times a spell that all of a round share.

    `tails`: of all samples this part takes half as long again."""

    def __init__(self, true: Sequence[float], noise: float, seed: int, tails: float = 0.05) -> None:
        self.true = true
        self.noise = noise
        self.tails = tails
        self.rng = np.random.default_rng(seed)
        self.failures: dict[int, str] = {}

    def samples(self, picks: Sequence[int], rounds: int) -> list[list[float]]:
        spells = np.exp(self.rng.normal(0, 0.2, rounds))
        return [
            [] if pick in self.failures else [self.true[pick] * spell * self._noise() for spell in spells]
            for pick in picks
        ]

    def _noise(self) -> float:
        slow = 1.5 if self.rng.random() < self.tails else 1.0
        return float(slow * np.exp(self.rng.normal(0, self.noise)))


def test_rounds_to_win_is_the_sign_test() -> None:
    assert rounds_to_win(21) == 17
    assert rounds_to_win(7) == 7
    assert rounds_to_win(6) == 7, "one case in 64 is more than one in a hundred: six rounds tell nothing"


def test_the_statistic() -> None:
    """Paired, in the same rounds: a spell of both does not count, nor does a gain in a few rounds."""
    home = [1.0 + 0.5 * (k % 3) for k in range(21)]
    assert is_faster([0.97 * t for t in home], home)
    assert not is_faster([0.985 * t for t in home], home), "less than the floor"
    lucky = [0.5 * t if k < 12 else 1.01 * t for k, t in enumerate(home)]
    assert not is_faster(lucky, home), "faster by half, but in 12 rounds of 21"
    assert is_faster([-1.0] * 21, [0.0] * 21), "costs that have no ratio"


@pytest.mark.parametrize("noise", quick([0.02, 0.002, 0.1]))
def test_equals_do_not_beat_the_default(noise: float) -> None:
    """40 configurations as fast as the default, or slower by up to 4 %; the search's favourite is the
    luckiest of them.  The default stays in 200 of 200 runs where a test by the median alone would leave it
    often; and no choice is slower by more than 2 %."""
    wins = by_median = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        device = Noisy([1.0, *(1 + 0.04 * rng.random(39))], noise, seed)
        seen = [np.median(samples) for samples in device.samples(range(40), 5)]
        candidates = [int(k) for k in np.argsort(seen) if k][:CANDIDATES]
        ended = paired_test(device, 0, candidates)
        wins += ended.winner == 0
        by_median += min(ended.costs, key=ended.costs.__getitem__) != 0
        assert device.true[ended.winner] <= 1.02
    assert wins >= 197
    assert by_median > 20 or noise == 0.002


class Lucky(Noisy):
    """Each preparation makes a configuration faster or slower by some percent, in all rounds until the next."""

    def __init__(self, true: Sequence[float], luck: float, seed: int) -> None:
        super().__init__(true, 0.003, seed, tails=0.0)
        self.luck = luck
        self.renew(range(len(true)))

    def renew(self, picks: Sequence[int]) -> None:
        self.factors = np.exp(self.rng.normal(0, self.luck, len(self.true)))

    def samples(self, picks: Sequence[int], rounds: int) -> list[list[float]]:
        plain = super().samples(picks, rounds)
        return [[t * self.factors[pick] for t in own] for pick, own in zip(picks, plain, strict=True)]


def test_luck_of_a_preparation_is_no_gain() -> None:
    """30 configurations as fast as the default; in one preparation the luckiest wins all rounds, by 10 %."""
    wins = once = 0
    for seed in range(100):
        device = Lucky([1.0] * 30, 0.05, seed)
        seen = device.samples(range(30), ROUNDS)
        ranked = [int(k) for k in np.argsort([np.median(own) for own in seen])]
        once += ranked[0] != 0 and is_faster(seen[ranked[0]], seen[0])
        wins += paired_test(device, 0, [k for k in ranked if k][:CANDIDATES]).winner != 0
    assert once >= 80
    assert wins <= 10


def test_a_gain_is_taken() -> None:
    """One of 5 %, under noise of 2 %, from nearly every seed; of several, the best; at its cost in the test."""
    wins = 0
    for seed in range(100):
        device = Noisy([1.0, 1.03, 0.95, 0.99], 0.02, seed)
        ended = paired_test(device, 0, [1, 2, 3])
        wins += ended.winner == 2
        if ended.winner == 2:
            assert ended.costs[2] <= FLOOR * ended.costs[0]
    # of 21 rounds 17: the chance of a round is Phi(0.05 / (0.02 sqrt 2)), less the tails
    assert NormalDist().cdf(0.05 / 0.028) > 0.95
    assert wins >= 90


def test_who_fails_loses() -> None:
    device = Noisy([1.0, 0.5, 0.8], 0.0, 0, tails=0.0)
    device.failures[1] = "out of memory"
    ended = paired_test(device, 0, [1, 2])
    assert ended.winner == 2
    assert ended.costs[1] == INFINITE
    device.failures[0] = "gone"
    assert paired_test(device, 0, [1, 2]).winner == 2
    assert paired_test(device, 0, [1]).winner == 0


@pytest.mark.parametrize(("gain", "stays"), [(0.99, True), (0.9, False)])
def test_autotune_leaves_a_start_for_a_gain_alone(gain: float, stays: bool) -> None:
    """By a function with a start that is given: it is measured beside the cheapest, and has that cost."""
    calls: list[int] = []

    def cost(config: Any) -> float:
        calls.append(config["a"])
        return 1.0 if config["a"] == 0 else gain + 0.001 * abs(config["a"] - 30)

    tuning = autotune("k", SPACE, cost, start={"a": 0}, budget=40, store=None)
    assert tuning.config == ({"a": 0} if stays else {"a": 30})
    assert tuning.cost == cost(tuning.config)
    assert calls.count(0) >= ROUNDS
    assert autotune("k", SPACE, cost, budget=40, store=None).config == {"a": 30}, "no start: no test"


@pytest.mark.parametrize("seed", quick(range(5), keep=2))
def test_a_workload_keeps_its_default_on_a_noisy_device(
    seed: int, small_softmax: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All configurations are as fast, under noise of 10 %: the search has favourites, the default is taken."""

    class Bench(Noisy):
        def close(self) -> None:
            pass

        def __init__(self, workload: Any, space: Space, dispatcher: Any) -> None:
            super().__init__([1e-3] * len(space), 0.1, seed)

    monkeypatch.setattr(tuner, "DispatchBench", Bench)
    tuning = autotune(small_softmax, seed=seed, store=None, budget=10)
    assert tuning.config == tuning.default
    assert tuning.gain == 1.0


def test_a_default_that_does_not_run_is_left(small_softmax: Any) -> None:
    """Where the default fails, the choice needs no test."""

    def cost(config: Any) -> float:
        if config["a"] == 0:
            raise BackendError("no room")
        return 1.0 + config["a"]

    tuning = autotune("k", SPACE, cost, start={"a": 0}, budget=40, store=None)
    cheapest = min(tuning.measured, key=lambda measured: measured.cost)
    assert tuning.config == cheapest.config
    assert cheapest.cost == 2.0
    bench = FunctionBench(SPACE, cost)
    assert paired_test(bench, 0, [3, 4]).winner == 3
