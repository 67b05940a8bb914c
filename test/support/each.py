"""A table of cases as one test, which tells all that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

__all__ = ["each"]

Case = TypeVar("Case")


def each(
    cases: Iterable[Case], check: Callable[[Case], object], name: Callable[[Case], object] = str
) -> None:
    """Call `check` for each case; raises one group of the errors, each with the name of its case.

    For tables whose cases take no time: as tests of their own, pytest takes longer about them than they do.
    """
    errors: list[BaseException] = []
    count = 0
    for case in cases:
        count += 1
        try:
            check(case)
        except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
            error.add_note(f"the case: {name(case)}")
            errors.append(error)
    assert count, "a table without cases tests nothing"
    if errors:
        raise BaseExceptionGroup(f"{len(errors)} of {count} cases fail", errors)
