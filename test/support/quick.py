"""Which of many cases a run has: of those that are kept of each group, the plain run has the first half and `pytest --slow` the rest;
`pytest --campaign` has all others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

import pytest

__all__ = ["quick"]

whole_tables = False
"""Whether tables have all their cases.  A plain run does not even collect the others: they are tens of thousands."""


def quick(
    cases: Iterable[Any],
    group: Callable[[Any], Any] = lambda case: None,
    keep: int = 1,
    *,
    ids: Iterable[str] | None = None,
    one_parameter: bool = False,
) -> list[Any]:
    """The cases as pytest parameters.  Of each `group`, those after the first `keep` are for campaigns, and those of the second half
    of these are slow.

    `ids`: the name of each case.  A tuple is several parameters of one case, as pytest has it, unless there is `one_parameter` only.
    """
    seen: Counter[Any] = Counter()
    parameters = []
    for case, name in zip(cases, repeat(None) if ids is None else ids, strict=ids is not None):
        key = group(case)
        seen[key] += 1
        is_kept = seen[key] <= keep
        if is_kept or whole_tables:
            values = case if type(case) is tuple and not one_parameter else (case,)
            is_plain = 2 * seen[key] <= keep + 1
            marks = () if is_plain else pytest.mark.slow if is_kept else pytest.mark.campaign
            parameters.append(pytest.param(*values, marks=marks, id=name))
    return parameters
