"""For the tests of searches: all of them by programs, and a GPU in main memory (see test/stand_ins)."""

from __future__ import annotations

from typing import Any

import pytest
from fake_gpu import install

from vyre_opt.execution import dispatcher as protocol
from vyre_opt.targets.cuda import device, libcuda
from vyre_scan.search import cpu, stream
from vyre_scan.search import gpu as gpu_search


@pytest.fixture(autouse=True)
def by_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few bytes are searched as many are."""
    monkeypatch.setattr(cpu, "FEW_BYTES", 0)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The dispatcher that searches on GPU 0 choose, of a GPU in main memory; for data of any size, in small windows."""
    fake = install(monkeypatch)
    fake.gpu.cuda.target = "cpu"
    monkeypatch.setitem(protocol._shared, ("cuda", ("bounds", "none"), ("device", 0)), fake)
    monkeypatch.setitem(device._devices, 0, fake.gpu)
    monkeypatch.setattr(libcuda, "is_pinned", lambda pointer: True)
    for module, name, value in (
        (stream, "LEAST_ON_GPU", 300),
        (stream, "LEAST_RESIDENT", 300),
        (stream, "SEAM", 60),
        (gpu_search, "WINDOW", 480),
        (gpu_search, "RESIDENT_WINDOW", 960),
        (gpu_search, "FIRST_HITS", 8),
        (gpu_search, "ROOM", 20),
        (gpu_search, "_idle_slots", {}),
    ):
        monkeypatch.setattr(module, name, value)
    return fake
