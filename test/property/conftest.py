"""How many random programs a run checks: VYRE_PROPERTY_PROGRAMS, a few hundred in all by default."""

from __future__ import annotations

import os

import pytest
from support.quick import quick

DEFAULT_PROGRAMS = 80
SHARE = 2
"""Programs of one test, so that a failure names a small range of seeds."""


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of programs, each met once: keeping their code is work for nothing."""
    monkeypatch.setenv("VYRE_CACHE_SIZE", "0")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seeds" in metafunc.fixturenames:
        programs = int(os.environ.get("VYRE_PROPERTY_PROGRAMS", DEFAULT_PROGRAMS))
        first = int(os.environ.get("VYRE_PROPERTY_SEED", "1"))
        shares = [
            range(at, min(at + SHARE, first + programs)) for at in range(first, first + programs, SHARE)
        ]
        metafunc.parametrize("seeds", quick(shares), ids=lambda share: f"{share.start}-{share.stop - 1}")
