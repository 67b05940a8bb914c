"""Many processes that share a cache folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.cache_processes import in_processes, use_together

from vyre_opt.execution.cache.inventory import check
from vyre_opt.execution.cache.store import Store

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes, links, FIFOs")


def test_eight_processes(tmp_path: Path) -> None:
    """All start at an empty folder at once; nobody reads what nobody wrote, and nothing is lost."""
    payloads = {bytes([n]) * 32: bytes([n]) * 100 * n for n in range(20)}
    hits = in_processes(8, use_together, tmp_path / "cache", payloads, 5)
    assert sum(hits) > 8 * 20 * 2
    assert check(Store(tmp_path / "cache")) == (20, [])
