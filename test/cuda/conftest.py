"""Tests that need a GPU run where there is one; elsewhere the run says at its end that it left them out."""

from __future__ import annotations

from functools import cache

import pytest

from vyre_opt.runtime.dispatcher import BackendError


@cache
def reason() -> str:
    """Why no GPU can be used; "" if one can."""
    from vyre_opt.cuda.device import device

    try:
        device()
    except BackendError as missing:
        return str(missing)
    return ""


def pytest_configure(config):
    config.addinivalue_line("markers", "gpu: needs an NVIDIA GPU, its driver and PyCUDA")


def pytest_collection_modifyitems(config, items):
    mine = [item for item in items if item.get_closest_marker("gpu")]
    if mine and reason():
        config.stash.setdefault(_COUNT, 0)
        config.stash[_COUNT] += len(mine)
        for item in mine:
            item.add_marker(pytest.mark.skip(reason=f"no GPU: {reason()}"))


_COUNT: pytest.StashKey[int] = pytest.StashKey()


def pytest_terminal_summary(terminalreporter, config):
    left_out = config.stash.get(_COUNT, 0)
    if left_out:
        terminalreporter.write_line(f"LEFT OUT: {left_out} tests that need a GPU ({reason()})", yellow=True)


@pytest.fixture
def cuda():
    """Makes dispatchers of the cuda target: `cuda(bounds="none")`."""
    from vyre_opt.cuda import CudaDispatcher

    return CudaDispatcher
