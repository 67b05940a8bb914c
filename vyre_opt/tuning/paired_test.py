"""Whether the cheapest configurations of a search are better than the default, beyond the noise.

A search takes the least of many medians, which is in part the luckiest.  So its cheapest run once more,
beside the default (or the start that the caller gave), all taking turns, and what counts are the ratios
to the default in the same round, which drift of the machine leaves alone.  A candidate replaces the
default only if

    the median of its ratios is at most FLOOR:  a gain of less is not worth a change, and other arrays or
                                                another day move a time by as much
    it was faster in so many rounds as a coin would be in one case of a hundred (the sign test): a gain
                                                that is large beside the noise, whatever its distribution

and of several such the one of the least median is taken.  Of 21 rounds, 17 are needed.

The sign test asks that nothing favours one in all rounds, as its preparation does: on an H200 two recordings of the same
launches of 2 us differ by up to a tenth, again and again.  So each round has a preparation of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from statistics import median

from .measure import INFINITE, Bench, relative

__all__ = ["CANDIDATES", "FLOOR", "ROUNDS", "PairedTest", "is_faster", "paired_test"]

FLOOR = 0.98
ROUNDS = 21
CANDIDATES = 3
CHANCE = 0.01


@dataclass(frozen=True, slots=True)
class PairedTest:
    """`winner`, and of each the cost in these rounds, infinite if it failed, and in how many it was faster than the default."""

    winner: int
    costs: Mapping[int, float]
    wins: Mapping[int, int]


def paired_test(bench: Bench, default: int, candidates: Sequence[int]) -> PairedTest:
    """The winner is the best of `candidates` that is faster than `default`, or `default` if none is.

    If the default fails, it is the first of `candidates`, which are in order of their cost, that does not.
    """
    reference, *each = _samples(bench, [default, *candidates])
    costs = {
        pick: median(samples) if samples else INFINITE for pick, samples in zip(candidates, each, strict=True)
    }
    if not reference:
        valid = [pick for pick in candidates if costs[pick] < INFINITE]
        return PairedTest(valid[0] if valid else default, costs | {default: INFINITE}, {})
    # costs are on the scale of the default's median, so that ratios of the same round can be compared
    costs[default], winner = median(reference), default
    wins = {
        pick: _wins(samples, reference) for pick, samples in zip(candidates, each, strict=True) if samples
    }
    for pick, samples in zip(candidates, each, strict=True):
        if samples and all(sample > 0 for sample in reference):
            costs[pick] = costs[default] * relative(samples, reference)
        if samples and is_faster(samples, reference) and costs[pick] < costs[winner]:
            winner = pick
    return PairedTest(winner, costs, wins)


def _samples(bench: Bench, picks: Sequence[int]) -> list[list[float]]:
    """The seconds of each, [] for one that failed at any time."""
    samples: list[list[float]] = [[] for _ in picks]
    for _ in range(ROUNDS):
        bench.renew(picks)
        for times, one in zip(samples, bench.samples(picks, 1), strict=True):
            times += one
    return [times if len(times) == ROUNDS else [] for times in samples]


def is_faster(samples: Sequence[float], reference: Sequence[float]) -> bool:
    """Whether `samples` are a gain over `reference`, of the same rounds, beyond the noise and FLOOR.

    Costs of 0 or less, as a function of the caller's may return, have no ratio: then medians are compared.
    """
    if _wins(samples, reference) < rounds_to_win(len(reference)):
        return False
    if all(sample > 0 for sample in reference):
        return relative(samples, reference) <= FLOOR
    return median(samples) < median(reference)


def _wins(samples: Sequence[float], reference: Sequence[float]) -> int:
    """The rounds in which `samples` are less."""
    return sum(a < b for a, b in zip(samples, reference, strict=True))


def rounds_to_win(rounds: int) -> int:
    """The least k such that a fair coin shows at least k heads in `rounds` throws with probability <= CHANCE."""
    heads, cases = rounds + 1, 0
    while heads > 0 and cases + comb(rounds, heads - 1) <= CHANCE * (1 << rounds):
        heads -= 1
        cases += comb(rounds, heads)
    return heads
