"""The GPU against the interpreter: every op at every type, and random programs, at no and full optimisation.

VYRE_PROGRAMS is the number of random programs, VYRE_JOBS that of processes that share the GPU.
"""

from __future__ import annotations

import os
import time

import pytest
from support.differential import Comparison, compare_ops, compare_random

pytestmark = pytest.mark.gpu

PROGRAMS = int(os.environ.get("VYRE_PROGRAMS", "256"))
JOBS = int(os.environ.get("VYRE_JOBS", "0")) or None


@pytest.fixture
def report(request: pytest.FixtureRequest):
    """Shows what was compared, whether or not the output of tests is kept; and fails for what differs."""
    started = time.monotonic()
    terminal = request.config.pluginmanager.get_plugin("terminalreporter")

    def show(done: Comparison) -> None:
        terminal.write_line(f"\n{done.summary('cuda')}, in {time.monotonic() - started:.0f} s")
        assert not done.differences, "\n".join(map(str, done.differences[:40]))

    return show


def test_every_op(report):
    report(compare_ops("cuda", jobs=JOBS))


def test_random_programs(report):
    """`PYTHONPATH=test python -m support --target cuda` makes small programs of those that differ."""
    done = compare_random("cuda", range(PROGRAMS), jobs=JOBS)
    assert done.programs == PROGRAMS
    report(done)
