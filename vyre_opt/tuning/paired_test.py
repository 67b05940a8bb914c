"""The last word of a search: its finalists beside the configuration that would be taken without it.

A search takes the least of many medians, which is in part the luckiest.  So its cheapest run once more,
beside the default (or the start that was given), all taking turns, and what counts are the ratios to the
default in the same round, which drift leaves alone.  A rival is taken for it only if

    the median of its ratios is at most FLOOR:  a gain of less is not worth leaving what is known, and
                                                other arrays or another day move a time by as much
    it was faster in so many rounds as a coin would be in one case of a hundred (the sign test): a gain
                                                that is large beside the noise, whatever that is like

and of several such the one of the least median.  Of 21 rounds, 17 are needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from statistics import median

from .measure import INFINITE, Bench, relative

__all__ = ["FLOOR", "RIVALS", "ROUNDS", "PairedTest", "beats", "duel"]

FLOOR = 0.98
ROUNDS = 21
RIVALS = 3
CHANCE = 0.01


@dataclass(frozen=True, slots=True)
class PairedTest:
    """`winner`, and what each costs at the pace of these rounds, infinite if it failed."""

    winner: int
    costs: Mapping[int, float]


def duel(bench: Bench, home: int, rivals: Sequence[int]) -> PairedTest:
    """`home`, or the one of `rivals` (the likeliest first) that beats it; the first that runs if it does not."""
    theirs, *each = bench.samples([home, *rivals], ROUNDS)
    costs = {
        pick: median(samples) if samples else INFINITE for pick, samples in zip(rivals, each, strict=True)
    }
    if not theirs:
        ran = [pick for pick in rivals if costs[pick] < INFINITE]
        return PairedTest(ran[0] if ran else home, costs | {home: INFINITE})
    costs[home], winner = median(theirs), home
    for rival, ours in zip(rivals, each, strict=True):
        if ours and all(sample > 0 for sample in theirs):
            costs[rival] = costs[home] * relative(ours, theirs)
        if ours and beats(ours, theirs) and costs[rival] < costs[winner]:
            winner = rival
    return PairedTest(winner, costs)


def beats(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    """Whether ours, measured in the same rounds as theirs, is a gain beyond the noise and FLOOR.

    Costs of 0 or less, as a function of the caller's may give, have no ratio: then the median is less.
    """
    faster = sum(a < b for a, b in zip(ours, theirs, strict=True))
    if faster < rounds_to_win(len(theirs)):
        return False
    if all(sample > 0 for sample in theirs):
        return relative(ours, theirs) <= FLOOR
    return median(ours) < median(theirs)


def rounds_to_win(rounds: int) -> int:
    """The fewest heads that as many throws of a coin give in at most CHANCE of all cases."""
    heads, cases = rounds + 1, 0
    while heads > 0 and cases + comb(rounds, heads - 1) <= CHANCE * (1 << rounds):
        heads -= 1
        cases += comb(rounds, heads)
    return heads
