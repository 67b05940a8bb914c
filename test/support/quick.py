"""Which of many cases the plain test command runs: a few of each group; the others are marked slow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest

__all__ = ["quick"]


def quick(
    cases: Iterable[Any],
    group: Callable[[Any], Any] = lambda case: None,
    keep: int = 1,
    *,
    one_parameter: bool = False,
) -> list[Any]:
    """The cases as pytest parameters.  Of each `group`, those after the first `keep` are slow.

    A tuple is several parameters of one case, as pytest has it, unless there is `one_parameter` only.
    """
    seen: Counter[Any] = Counter()
    parameters = []
    for case in cases:
        key = group(case)
        seen[key] += 1
        values = case if type(case) is tuple and not one_parameter else (case,)
        marks = [pytest.mark.slow] if seen[key] > keep else []
        parameters.append(pytest.param(*values, marks=marks))
    return parameters
