"""What a call reports: bytes and arithmetic that were counted by hand, forms that launches got, and how fast they are."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import pytest

import vyre_opt as vyre
from vyre_opt import Read, ReadWrite, Write, f32, global_id, u8, u32
from vyre_opt.driver.call_report import CallReport, LaunchReport, LaunchTiming
from vyre_opt.driver.machine_target import MachineTarget
from vyre_opt.execution import BackendError, BadInputs
from vyre_opt.fusion.group_count import GroupCount
from vyre_opt.scheduling.launch_forms import LaunchForms, LaunchSite
from vyre_opt.scheduling.machines import MACHINES

Matrix = Annotated[f32, :, :]
H100 = "H100 SXM"
N = 1 << 20


@vyre.program
def saxpy(a: f32, x: Read[f32], y: ReadWrite[f32]) -> None:
    i = global_id(0)
    if i < len(y):
        y[i] = a * x[i] + y[i]


@vyre.program
def histogram(x: Read[u8], bins: ReadWrite[u32]) -> None:
    i = global_id(0)
    if i < len(x):
        vyre.atomic_add(bins, x[i], 1)


@vyre.program
def apart(x: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if 3 * i < len(x):
        y[i] = x[3 * i]


@vyre.program
def sums(x: Read[Matrix], y: Write[f32]) -> None:
    row = global_id(0)
    if row < x.shape[0]:
        total = f32(0)
        for column in range(x.shape[1]):
            total += x[row, column]
        y[row] = total


@vyre.program
def powers(x: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(x):
        v = x[i]
        for _ in range(1000):
            v = v * v + 0.5
        y[i] = v


@vyre.pipeline
def thrice(x: Read[f32], y: ReadWrite[f32]) -> None:
    for _ in range(3):
        saxpy[vyre.ceil_div(len(y), 256)](2.0, x, y)


def launch_of(report: CallReport) -> LaunchReport:
    (launch,) = report.launches
    return launch


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, np.float32)


def test_saxpy_is_as_counted_by_hand() -> None:
    launch = launch_of(saxpy[N // 256].report(2.0, floats(N), floats(N), machine=H100))
    work = launch.work
    assert {name: each.elements for name, each in work.reads.items()} == {"x": N, "y": N}
    assert {name: each.elements for name, each in work.writes.items()} == {"y": N}
    assert (work.moved, work.is_exact, work.operations, work.is_counted) == (
        3 * 4 * N,
        True,
        {"f32": 2 * N},
        True,
    )
    # 4 of f32 make 16 bytes of x and of y on their way
    assert (launch.neighbours, work.lane.loads[0], work.lane.stores[0], work.lane.in_flight) == (
        4,
        16,
        16,
        32,
    )
    lanes = -(-(N // 4) // 132)  # fewer than a multiprocessor holds
    assert launch.in_flight == 32 * lanes
    assert launch.limit is not None
    assert launch.limit.unit == "memory"
    assert launch.limit.seconds == pytest.approx(12 * N / 3.35e12)
    assert launch.decided == ["applied: 4 invocations are one"]


def test_lengths_that_are_no_multiples() -> None:
    """Of 1000 elements 1000 are moved, though 1024 invocations run."""
    work = launch_of(saxpy[4].report(2.0, floats(1000), floats(1000))).work
    assert (work.moved, work.is_exact) == (12_000, True)
    assert work.operations == {"f32": 2 * 1024}


def test_sums_of_rows() -> None:
    work = launch_of(sums[4].report(floats(1000, 300), floats(1000), machine=H100)).work
    assert (work.moved, work.is_exact) == (4 * (1000 * 300 + 1000), True)
    assert work.operations == {"f32": 1024 * 300}


def test_a_histogram_counts_by_workgroups() -> None:
    launch = launch_of(
        histogram[N // 256].report(np.zeros(N, np.uint8), np.zeros(256, np.uint32), machine=H100)
    )
    # the bins are found by data: all of them at most, read and written
    assert (launch.work.moved, launch.work.is_exact) == (N + 2 * 4 * 256, False)
    first, second = launch.decided
    assert (
        first == "applied: 4 invocations are one"
    )  # of 8, fewer than 1024 would be left for a multiprocessor
    assert re.fullmatch(r"applied: \d+ workgroups take turns, and count for themselves", second)


def test_what_was_refused_is_said() -> None:
    scattered = launch_of(apart[N // 256].report(floats(3 * N), floats(N), machine=H100))
    assert scattered.decided == ["refused: stays as written: neighbours of @apart touch elements apart"]
    assert (scattered.work.moved, scattered.work.is_exact) == (8 * N, True)
    # of 1000 every third, which the condition says of the index of the other buffer
    assert launch_of(apart[4].report(floats(1000), floats(1000))).work.moved == 8 * 334
    small = launch_of(saxpy[4].report(2.0, floats(1000), floats(1000), machine=H100))
    (refused,) = small.decided
    assert refused.startswith("refused: stays as written: @saxpy has 1024 invocations")
    few = launch_of(histogram[4].report(np.zeros(1000, np.uint8), np.zeros(256, np.uint32)))
    assert few.decided == [
        "refused: counts in storage: @histogram has 1024 invocations, too few to count by workgroups"
    ]


def test_rows_of_lanes() -> None:
    """A vector of each row at a time; as few rows as there are here are spread over all multiprocessors."""
    launch = launch_of(sums[4].report(floats(1000, 300), floats(1000), machine=H100))
    assert launch.decided[1:] == [
        "applied: this loop loads for 64 iterations at a time, along rows",
        "applied: workgroups are of 32 invocations, for all multiprocessors",
    ]
    launch = launch_of(sums[N // 256].report(floats(N, 8), floats(N), machine=H100))
    assert launch.decided[1:] == ["applied: this loop loads for 8 iterations at a time, along rows"]
    launch = launch_of(sums[1000].report(floats(256_000, 20), floats(256_000), machine=H100))
    assert launch.decided[1:] == ["applied: this loop loads for 16 iterations at a time, along rows"]


def test_a_fixed_grid_has_as_many_narrow_workgroups() -> None:
    """Else the invocations of the others would be taken for those of the first one."""
    (program,) = sums.module.programs.values()
    counts = GroupCount(None, {}), GroupCount(None, {}, "y")
    site = LaunchSite(replace(program, grid=(4, 1, 1)), {}, counts, 132, True)
    narrow = LaunchForms().narrow(site, (4, 1, 1))
    assert narrow is not None
    assert (narrow.program.workgroup, narrow.program.grid, narrow.workgroups) == ((32, 1, 1), (32, 1, 1), 32)


def test_arithmetic_may_be_the_limit() -> None:
    launch = launch_of(powers[N // 256].report(floats(N), floats(N), machine=H100))
    assert launch.work.operations == {"f32": 2000 * N}
    assert launch.limited == "f32 is the limit: 31.3 us at least on H100 SXM (67 trillion a second)"


def test_a_product_of_matrices() -> None:
    """Its operations are 2mnk, by the units for matrices; each element is moved once, whose rows are one for the kernel."""
    m, k, n = 512, 256, 1024
    text = f"""vyre 2
pipeline @main {{
  buffer @a : bf16[{m}, {k}] read
  buffer @b : bf16[{k}, {n}] read
  buffer @c : f32[{m}, {n}] write live_out
  math.matmul(@a, @b, @c)
}}
"""
    executable = vyre.compile(text, target=MachineTarget(H100))
    launch = launch_of(executable.report([np.zeros((m, k), np.uint16), np.zeros((k, n), np.uint16)]))
    assert launch.work.operations == {"matrix bf16": 2 * m * n * k}
    assert launch.work.moved == 2 * (m * k + k * n) + 4 * m * n


def test_the_decisions_are_those_of_the_call() -> None:
    """They are in the plan that a call keeps: a later call decides nothing."""
    executable = vyre.compile(saxpy.text(), target="cpu")
    inputs = {"x": floats(1000), "y": floats(1000)}
    executable(inputs, 4, params={"a": 2.0})
    rewrites = executable.rewrites
    asked: list[object] = []
    before = rewrites.of
    rewrites.of = lambda *args: asked.append(args) or before(*args)  # type: ignore[method-assign, func-returns-value]
    executable(inputs, 4, params={"a": 3.0})
    assert not asked


def test_a_report_as_text() -> None:
    report = str(saxpy[N // 256].report(2.0, floats(N), floats(N), machine="H200 SXM"))
    assert report.splitlines() == [
        "program @saxpy on H200 SXM",
        "  @saxpy over 1024 workgroups",
        "    moves 12.6 MB: reads 4.19 MB of @x, 4.19 MB of @y; writes 4.19 MB of @y",
        "    computes 2.1 million operations of f32, 0.167 a byte",
        "    a lane does the work of 4 invocations; loads 16 or 4 bytes at a time; stores 16 or 4 bytes at a time; "
        "32 bytes in flight, 63.6 kB a multiprocessor",
        "    memory is the limit: 2.62 us at least on H200 SXM (4800 GB/s)",
        "    applied: 4 invocations are one",
    ]


def test_a_pipeline_says_how_often() -> None:
    report = thrice.report(floats(N), floats(N), machine=H100, passes="canonicalize")
    assert report.call is not None
    assert sum(launch.times for launch in report.call.launches) == 3
    assert str(report).startswith("pipeline @thrice: 3 -> ")
    assert "pipeline @thrice on H100 SXM\n" in str(report)
    assert "What the launches ask of the machine, H100 SXM" in report.html()
    assert "reads 4.19 MB of @x" in report._repr_html_()


def test_times_leave_arrays_as_they_are() -> None:
    x, y = floats(5000), floats(5000)
    report = saxpy[20].time(2.0, x, y)
    assert (y == 1).all()
    (timing,) = report.timings
    assert timing.moved == 60_000
    assert timing.seconds > 0
    assert re.search(
        r"  @saxpy over 20 workgroups: moved 60 kB in \S+ [munp]?s: \S+ GB/s, \d+\.\d\d of a copy$",
        str(report),
    )
    (timing,) = sums[4].time(floats(1000, 3), floats(1000)).timings  # the cpu has buffers of one dimension
    assert timing.moved == 16_000
    assert len(thrice.time(x, y).timings) >= 1


def test_speeds_are_shares() -> None:
    """Of figures in, whatever a machine takes."""
    machine = next(each for each in MACHINES if each.name == H100)
    timing = LaunchTiming("@p", None, 4e-6, 8_000_000, {"f32": 10}, machine, 2.5e12)
    assert str(timing) == "moved 8 MB in 4 us: 2000 GB/s, 0.80 of a copy"
    timing = LaunchTiming("@p", None, 1e-3, 8_000_000, {"f32": 33_500_000_000}, machine, 2.5e12)
    assert str(timing) == (
        "computed 33.5 billion operations of f32 in 1 ms: 33.5 trillion a second, 0.50 of the peak of H100 SXM"
    )


def test_a_machine_that_is_not_there() -> None:
    with pytest.raises(BadInputs, match=r"no figures of a machine 'H100 SMX'.*did you mean H100 SXM"):
        saxpy[1].report(2.0, floats(4), floats(4), machine="H100 SMX")
    with pytest.raises(BackendError, match="nothing runs on a H100 SXM of the table"):
        vyre.compile(saxpy.text(), target=MachineTarget(H100))(
            {"x": floats(4), "y": floats(4)}, 1, params={"a": 1.0}
        )
    with pytest.raises(TypeError, match=r"say how many workgroups run: saxpy\[grid\]"):
        saxpy.report(2.0, floats(4), floats(4))
