"""What the tests of the cuda target share; all are marked `gpu`, see test/conftest.py."""

from __future__ import annotations

import pytest


@pytest.fixture
def cuda():
    """Makes dispatchers of the cuda target: `cuda(bounds="none")`."""
    from vyre_opt.targets.cuda import CudaDispatcher

    return CudaDispatcher
