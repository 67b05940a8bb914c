"""A GPU in main memory for the tests of pipelines and array functions (see test/stand_ins)."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
from fake_gpu import install

from vyre_opt.driver import numeric_kernels, prepared_chain, text_kernels, tt_table
from vyre_opt.driver.planned_function import PlannedFunction


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The dispatcher that GPU arrays choose by themselves, of a GPU in main memory; without plans of other tests' GPUs."""
    for module in (numeric_kernels, prepared_chain, text_kernels, tt_table):
        for function in vars(module).values():
            if isinstance(function, PlannedFunction):
                monkeypatch.setattr(function, "_bound", OrderedDict())
    return install(monkeypatch)
