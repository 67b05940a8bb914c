"""Later calls of a pipeline on the CPU, which earlier ones with like arrays have settled."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from support.unwritten import COUNT

import vyre_opt
from vyre_opt.execution import BadInputs, ProgramError
from vyre_opt.targets.cpu import launch_sequence, loaded_plan, threads
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher
from vyre_opt.targets.cpu.launch import CompiledLaunch

DOUBLE = """
program @double workgroup(32) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1)
  %i = global_id x
  %n = len @y
  %in = lt %i, %n : u32
  if %in {
    %v = load @x[%i] : u32
    %w = add %v, %v : u32
    store %w, @y[%i] : u32
  }
}
program @add workgroup(32) {
  buffer @x : u32[?] read_write binding(0)
  buffer @y : u32[?] read binding(1)
  buffer @own : u32[32] workgroup
  %i = global_id x
  %n = len @x
  %in = lt %i, %n : u32
  if %in {
    %v = load @x[%i] : u32
    %w = load @y[%i] : u32
    %big = const 1000000 : u32
    %wrong = ge %w, %big : u32
    if %wrong {
      trap "too much"
    }
    %s = add %v, %w : u32
    store %s, @x[%i] : u32
  }
}
"""
SUM = f"""vyre 1
{DOUBLE}
pipeline @main {{
  buffer @x : u32[?] read
  buffer @total : u32[?] live_in live_out
  buffer @a : u32[100]
  buffer @b : u32[100]
  buffer @y : u32[?] write
  launch @double grid(4) (@x, @a)
  repeat 3 {{
    launch @double grid(4) (@a, @b)
    launch @add grid(4) (@total, @b)
  }}
  launch @double grid(4) (@total, @y)
}}
"""


def summed(x: np.ndarray, total: np.ndarray) -> dict[str, np.ndarray]:
    return {"total": total + 12 * x, "y": 2 * (total + 12 * x)}


def numbers(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 9, 100).astype(np.uint32)


def planned(text: str, target: str = "cpu") -> Any:
    pipeline = vyre_opt.compile(text, target=target)
    pipeline([numbers(0), numbers(1)], lengths={"y": 100})
    return pipeline


def test_later_calls_give_what_the_first_gives() -> None:
    pipeline = planned(SUM)
    assert len(pipeline._bound) == 1
    kept = []
    for seed in range(5):
        x, total = numbers(seed), numbers(seed + 1)
        inputs = x.copy(), total.copy()
        kept.append((pipeline([x, total], lengths={"y": 100}), summed(x, total)))
        assert np.array_equal(x, inputs[0])
        assert np.array_equal(total, inputs[1]), "an input is never modified"
    for outputs, expected in kept:  # after all calls: none shares memory with another
        assert list(outputs) == ["total", "y"]
        for name, array in outputs.items():
            assert np.array_equal(array, expected[name])
    assert len(pipeline._bound) == 1


def test_a_fault_is_located_and_the_next_call_is_right() -> None:
    pipeline = planned(SUM)
    x, total = numbers(3), numbers(4)
    wrong = x.copy()
    wrong[77] = 300_000
    with pytest.raises(ProgramError) as caught:
        pipeline([wrong, total], lengths={"y": 100})
    text = str(caught.value)
    assert "trap: too much" in text
    assert "launched here by pipeline @main, round 1 of 3" in text
    outputs = pipeline([x, total], lengths={"y": 100})
    assert np.array_equal(outputs["y"], summed(x, total)["y"])


GROWING = f"""vyre 1
{DOUBLE}
pipeline @main {{
  buffer @x : u32[?] read
  buffer @total : u32[?] live_in live_out
  buffer @a : u32[100]
  buffer @b : u32[100]
  launch @double grid(4) (@x, @a)
  launch @double grid(4) (@x, @b)
  repeat ROUNDS {{
    launch @add grid(4) (@b, @a)
    launch @add grid(4) (@total, @b)
  }}
}}
"""
"""In round k @b is 2 * (k + 1) * @x, which must stay less than a million."""


@pytest.mark.parametrize(("rounds", "x", "fault"), [(3, 125_000, 3), (70, 10_000, 49), (300, 2_000, 249)])
def test_a_fault_among_launches_that_are_one_call(rounds: int, x: int, fault: int) -> None:
    """Its round is said, where repeats are a list of launches and where they are a loop; the next call is right."""
    pipeline = vyre_opt.compile(GROWING.replace("ROUNDS", str(rounds)))
    wrong = np.zeros(100, np.uint32)
    wrong[99] = x
    good, total = numbers(0), numbers(1)
    for _ in range(3):
        for _ in range(4):
            outputs = pipeline([good, total])
            expected = total + 2 * good * sum(range(2, rounds + 2))
            assert np.array_equal(outputs["total"], expected)
        with pytest.raises(ProgramError) as caught:
            pipeline([wrong, total])
        assert "trap: too much; reached by workgroup (3,0,0) local id (3,0,0)" in str(caught.value)
        assert f"launched here by pipeline @main, round {fault} of {rounds}" in str(caught.value)


@pytest.mark.parametrize("rounds", [1, 2, loaded_plan.MAX_UNROLLED // 4, 300])
def test_repeats_of_any_number_of_rounds(rounds: int) -> None:
    """Few rounds are a list of launches, and many a loop."""
    text = SUM.replace("repeat 3", f"repeat {rounds}")
    pipeline = planned(text)
    for seed in range(4):
        x, total = numbers(seed), numbers(seed + 1)
        outputs = pipeline([x, total], lengths={"y": 100})
        assert np.array_equal(outputs["total"], total + 4 * rounds * x)
    (call,) = pipeline._bound.values()
    assert any(type(part).__name__ == "_RepeatedParts" for part in call.loaded._idle[0].parts) is (
        rounds == 300
    )


def test_small_launches_wake_nobody_and_a_second_like_call_plans_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter(range(1_000_000))
    for module in (threads, launch_sequence):
        monkeypatch.setattr(module, "perf_counter", lambda: next(clock) * 1e-7)
    for name in ("share", "share_among_workers"):
        monkeypatch.setattr(threads, name, None)
    pipeline = vyre_opt.compile(SUM, target=CpuDispatcher(workers=2))
    for seed in range(6):
        if seed == 3:  # the plan is made, and its launches are measured
            monkeypatch.setattr(CompiledLaunch, "new_runner", None)
            monkeypatch.setattr(threads.GridRunner, "run", None)
            monkeypatch.setattr(pipeline, "_load", None)
        x, total = numbers(seed), numbers(seed + 1)
        outputs = pipeline([x, total], lengths={"y": 100})
        assert np.array_equal(outputs["y"], summed(x, total)["y"])


def test_a_large_block_goes_back_to_the_free_list() -> None:
    """Where many calls find it; results are right on memory that another pipeline has left."""
    large = 3 * loaded_plan.MAX_KEPT_BYTES // 4
    texts = [SUM.replace("u32[100]", f"u32[{large // 4}]").replace("grid(4)", f"grid({large // 128})")]
    texts.append(texts[0].replace("repeat 3", "repeat 2"))
    pipelines = [vyre_opt.compile(text) for text in texts]
    x = np.resize(numbers(0), large // 4)
    for _ in range(3):
        for pipeline, rounds in zip(pipelines, (3, 2), strict=True):
            outputs = pipeline([x, x], lengths={"y": x.size})
            assert np.array_equal(outputs["y"], 2 * (x + 4 * rounds * x))
    for pipeline in pipelines:
        (call,) = pipeline._bound.values()
        assert [run.block for run in call.loaded._idle] == [None]


def test_what_the_host_reads_in_between() -> None:
    """A buffer that is written again after the read, and one that is not."""
    read = "  launch @double grid(4) (@total, @y)\n"
    for text in (
        SUM.replace(read, "  host_read @a\n  launch @double grid(4) (@total, @a)\n" + read),
        SUM.replace(read, "  host_read @a\n" + read),
    ):
        pipeline = planned(text)
        assert len(pipeline._bound) == 1
        for seed in range(3):
            x = numbers(seed)
            outputs = pipeline([x, numbers(9)], lengths={"y": 100})
            assert np.array_equal(outputs["a"], 2 * x)
    seen: list[tuple[str, int]] = []
    pipeline(
        [x, numbers(9)],
        lengths={"y": 100},
        on_host_read=lambda name, array: seen.append((name, int(array[0]))),
    )
    assert seen == [("a", 2 * int(x[0]))]


def test_a_reader_that_is_no_function() -> None:
    with pytest.raises(BadInputs, match="on_host_read is a function of a name and an array, not int"):
        planned(SUM)([numbers(0), numbers(1)], lengths={"y": 100}, on_host_read=3)


@pytest.mark.parametrize(
    "options",
    [
        {"grid": 1.5},
        {"grid": np.int32(1)},
        {"grid": object()},
        {"lengths": {"y": np.array([3])}},
        {"lengths": {"y": np.ma.masked}},
        {"lengths": np.zeros(2)},
        {"lengths": [1]},
        {"scratch": "abc"},
        {"scratch": vyre_opt.Scratch},
        {"scratch": np.zeros(0)},
        {"scratch": {}},
    ],
)
def test_options_that_are_none(options: dict[str, Any]) -> None:
    with pytest.raises(BadInputs):
        planned(SUM)([numbers(0), numbers(1)], **{"lengths": {"y": 100}, **options})


def test_a_memoryview_for_an_output() -> None:
    x, y = numbers(0), numbers(1)
    pipeline = planned(SUM)
    outputs = pipeline({"x": x, "total": memoryview(y.tobytes()), "y": memoryview(bytes(400))})
    for name, array in summed(x, y).items():
        assert np.array_equal(outputs[name], array)


def test_arrays_that_are_not_used_in_place() -> None:
    pipeline = planned(SUM)
    plain = numbers(5)
    backwards = plain[::-1].copy()[::-1]
    for x in (backwards, plain.astype(">u4"), plain.tobytes()):
        outputs = pipeline([x, numbers(6)], lengths={"y": 100})
        assert np.array_equal(outputs["y"], summed(plain, numbers(6))["y"])


def test_other_lengths_are_another_plan() -> None:
    pipeline = planned(SUM)
    short = pipeline([numbers(0), numbers(1)], lengths={"y": 50})
    assert np.array_equal(short["y"], summed(numbers(0), numbers(1))["y"][:50])
    assert len(pipeline._bound) == 2


def test_threads_share_a_plan() -> None:
    pipeline = planned(SUM)

    def call(seed: int) -> bool:
        x, total = numbers(seed), numbers(seed + 1)
        outputs = pipeline([x, total], lengths={"y": 100})
        return all(np.array_equal(outputs[name], array) for name, array in summed(x, total).items())

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(call, range(200)))


def test_an_unbound_buffer_is_zero_at_each_launch() -> None:
    """As it is where a program is called alone: a later round must not see what an earlier one added."""
    pipeline = vyre_opt.compile(
        f"""vyre 1
{COUNT}
pipeline @main {{
  buffer @x : u32[32] live_in live_out read_write
  repeat 3 {{
    launch @count grid(1) (@x)
  }}
}}
"""
    )
    for _ in range(4):
        x = pipeline([np.zeros(32, np.uint32)])["x"]
        assert x.sum() == 3 * sum(range(32))
