"""The benchmark of kernels as first written compares results before it measures, and its result has what the page needs."""

from __future__ import annotations

from dataclasses import replace

import natural
import pytest
from report import section


def test_every_kernel_is_compared_and_measured() -> None:
    side = natural.Host()
    samples = [
        natural.sample(each, count, is_drawn=False, side=side, seconds=0.0002)
        for each in natural.KERNELS
        if not each.only_torch
        for count in (1_000, 1_000_003 if each.kernel is natural.histogram else 70)
    ]
    assert all(each["seconds"]["ours"] > 0 < each["seconds"]["NumPy"] for each in samples)
    page = "\n".join(section(natural.result(side, samples, "--quick", 1)))
    assert "| histogram | 1 |" in page
    assert "| exp 1,000 |" in page


def test_a_wrong_result_is_not_measured() -> None:
    wrong = replace(natural.KERNELS[0], peer=lambda library, x, y: None)
    with pytest.raises(SystemExit, match="affine is wrong at 100 elements"):
        natural.sample(wrong, 100, is_drawn=False, side=natural.Host(), seconds=0.0002)


def test_sizes_are_listed_and_drawn() -> None:
    chosen = list(natural.sizes(natural.QUICK, 4, 7))
    assert [count for count, is_drawn in chosen if not is_drawn] == [1_000, 100_000]
    assert all(100 < count <= natural.QUICK for count, is_drawn in chosen if is_drawn)
    assert chosen == list(natural.sizes(natural.QUICK, 4, 7))
