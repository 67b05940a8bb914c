"""A GPU in main memory for the tests of pipelines and array functions (see test/stand_ins)."""

from __future__ import annotations

from typing import Any

import pytest
from fake_gpu import install


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The dispatcher that GPU arrays choose by themselves, of a GPU in main memory."""
    return install(monkeypatch)
