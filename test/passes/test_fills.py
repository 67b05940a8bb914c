"""A fill is a launch: it is joined with others like any, and keeps its place among them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from support.each import each
from support.quick import quick

import vyre_opt
from vyre_opt import PassManager, parse, verify
from vyre_opt.ir import Launch, Module

PROGRAMS = """vyre 2

program @count workgroup(64) {
  buffer @x : u32[?] read binding(0)
  buffer @bins : u32[16] read_write binding(1) live_in live_out
  %i = global_id x
  %n = len @x
  %inside = lt %i, %n : u32
  if %inside {
    %v = load @x[%i]
    %b = and %v, 15 : u32
    %old = atomic_add @bins[%b], 1
  }
}

program @add workgroup(64) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] read_write binding(1) live_in live_out
  %i = global_id x
  %n = len @x
  %inside = lt %i, %n : u32
  if %inside {
    %v = load @x[%i]
    %w = load @y[%i]
    %s = add %v, %w : u32
    store %s, @y[%i]
  }
}

program @add_rows workgroup(16, 16) {
  buffer @x : f32[?, ?] read binding(0)
  buffer @y : f32[?, ?] read_write binding(1) live_in live_out
  %i = global_id x
  %j = global_id y
  %n = len @x, 1
  %m = len @x, 0
  %a = lt %i, %n : u32
  %b = lt %j, %m : u32
  %inside = and %a, %b : bool
  if %inside {
    %v = load @x[%j, %i]
    %w = load @y[%j, %i]
    %s = add %v, %w : f32
    store %s, @y[%j, %i]
  }
}
"""
GRID = "grid(ceil_div(len(@x), 64))"
ROWS = "grid(ceil_div(len(@x, 1), 16), ceil_div(len(@x, 0), 16))"
X = np.arange(1000, dtype=np.uint32) * 7
BINS = np.bincount(X % 16, minlength=16)
MATRIX = np.arange(60, dtype=np.float32).reshape(5, 12)

CASES: dict[str, tuple[str, str, np.ndarray, dict[str, Any], int | None]] = {
    # declarations, stages, the input, the output as NumPy has it, and how many launches are left
    "own elements": (
        "buffer @x : u32[?] read buffer @y : u32[len(@x)] live_out", f"fill(@y, 5) launch @add {GRID} (@x, @y)", X, {"y": X + 5}, 1,
    ),
    "rows": (
        "buffer @x : f32[?, ?] read buffer @y : f32[len(@x, 0), len(@x, 1)] live_out",
        f"fill(@y, 0.5) launch @add_rows {ROWS} (@x, @y)", MATRIX, {"y": MATRIX + 0.5}, 1,
    ),
    "rows of known size": (
        "buffer @x : f32[5, 12] read buffer @y : f32[5, 12] live_out",
        "fill(@y, 0.5) launch @add_rows grid(1, 1) (@x, @y)", MATRIX, {"y": MATRIX + 0.5}, 1,
    ),
    "two of one grid": (
        "buffer @x : u32[?] read buffer @y : u32[len(@x)] live_out buffer @z : u32[len(@x)] live_out",
        f"fill(@y, 5) fill(@z, 6) launch @add {GRID} (@x, @y) launch @add {GRID} (@x, @z)", X, {"y": X + 5, "z": X + 6}, 1,
    ),
    "atomics after it": (
        "buffer @x : u32[?] read buffer @bins : u32[16] live_out", f"fill(@bins, 3) launch @count {GRID} (@x, @bins)", X,
        {"bins": BINS + 3}, 2,
    ),
    "between atomics": (
        "buffer @x : u32[?] read buffer @bins : u32[16] live_in live_out",
        f"launch @count {GRID} (@x, @bins) fill(@bins, 0) launch @count {GRID} (@x, @bins)", X, {"bins": BINS}, 3,
    ),
    "between two that are joined": (
        "buffer @x : u32[?] read buffer @t : u32[len(@x)] buffer @y : u32[len(@x)] live_out buffer @bins : u32[16] live_out",
        f"fill(@t, 1) launch @add {GRID} (@x, @t) fill(@bins, 0) fill(@y, 0) launch @add {GRID} (@t, @y) launch @count {GRID} (@y, @bins)",
        X, {"y": X + 1, "bins": np.bincount((X + 1) % 16, minlength=16)}, 2,
    ),
    "far from the launch that takes it": (
        "buffer @x : u32[?] read buffer @y : u32[len(@x)] live_out buffer @bins : u32[16] live_out",
        f"fill(@bins, 0) fill(@y, 5) launch @count grid(16) (@x, @bins) launch @count grid(16) (@x, @bins) launch @add {GRID} (@x, @y)",
        X, {"y": X + 5, "bins": 2 * BINS}, 4,
    ),
    "before a read of the host": (
        "buffer @x : u32[?] read buffer @y : u32[len(@x)] live_out", f"fill(@y, 5) host_read @y launch @add {GRID} (@x, @y)", X,
        {"y": X + 5}, 2,
    ),
    "twice": (
        "buffer @x : u32[?] read buffer @y : u32[len(@x)] live_out",
        f"fill(@y, 5) launch @add {GRID} (@x, @y) fill(@y, 6) fill(@y, 7) launch @add {GRID} (@x, @y)", X, {"y": X + 7}, None,
    ),
    "after what it undoes": (
        "buffer @x : u32[?] read buffer @y : u32[len(@x)] live_in live_out",
        f"launch @add {GRID} (@x, @y) fill(@y, 9)", X, {"y": np.full(1000, 9)}, None,
    ),
    "in each round": (
        "buffer @x : u32[?] read buffer @bins : u32[16] live_out",
        f"repeat 3 {{ fill(@bins, 0) launch @count {GRID} (@x, @bins) }}", X, {"bins": BINS}, 2,
    ),
    "before all rounds": (
        "buffer @x : u32[?] read buffer @bins : u32[16] live_out",
        f"fill(@bins, 0) repeat 3 {{ launch @count {GRID} (@x, @bins) }}", X, {"bins": 3 * BINS}, 2,
    ),
}  # fmt: skip


def optimised(text: str, passes: str = "default") -> Module:
    module = parse(text)
    PassManager(passes).run(module)
    return module


def test_results_and_launches() -> None:
    def check(name: str) -> None:
        declarations, stages, x, expected, launches = CASES[name]
        text = f"{PROGRAMS}\npipeline @main {{ {declarations} {stages} }}"
        inputs = {"x": x}
        if "live_in" in declarations:
            inputs |= {n: np.ones(len(v), np.uint32) for n, v in expected.items()}
        for target, passes in (("ref", None), ("ref", "default"), ("cpu", None), ("cpu", "default")):
            got = vyre_opt.run(text, inputs, target=target, passes=passes)
            for buffer, values in expected.items():
                assert np.array_equal(got[buffer], values), (target, passes)
        stages_left = list(optimised(text).pipelines["main"].walk())
        left = [stage for stage in stages_left if isinstance(stage, Launch)]
        assert launches is None or len(left) == launches

    each(CASES, check)


def test_equal_fills_share_a_program() -> None:
    text = "vyre 2 pipeline @m { buffer @a : u32[?] buffer @b : u32[?] buffer @c : f32[?] fill(@a, 0) fill(@b, 0x0) fill(@a, 1) fill(@c, 0) }"
    module = optimised(text, "expand_kernels")
    launched = [stage.program for stage in module.pipelines["m"].walk() if isinstance(stage, Launch)]
    assert sorted(launched) == ["fill_f32", "fill_u32", "fill_u32", "fill_u32_1"]


def test_a_buffer_without_elements_is_not_launched_over() -> None:
    module = optimised("vyre 2 pipeline @m { buffer @a : u32[0] live_out fill(@a, 0) }", "expand_kernels")
    assert module.pipelines["m"].stages == []


LONG, SHORT = ("x", "a", "b", "c"), ("p", "q")
Stage = tuple[Any, ...]


def random_stages(rng: random.Random, written: set[str], depth: int = 0) -> list[Stage]:
    """Stages that read what is `written` only, which they add to."""
    stages: list[Stage] = []
    for _ in range(rng.randint(2, 6)):
        kind = rng.choice(("fill", "fill", "add", "count", "read", "repeat"))
        longs, shorts = [n for n in LONG if n in written], [n for n in SHORT if n in written]
        if kind == "repeat" and depth == 0:
            stages.append(("repeat", random_stages(rng, written, 1)))
        elif kind == "read" and len(written) > 1:
            stages.append(("read", rng.choice(sorted(written - {"x"}))))
        elif kind == "add" and len(longs) > 1:
            stages.append(("add", rng.choice(longs), into := rng.choice(longs[1:])))
            if stages[-1][1] == into:
                stages.pop()
        elif kind == "count" and shorts:
            stages.append(("count", rng.choice(longs), rng.choice(shorts)))
        else:
            stages.append(("fill", name := rng.choice((*LONG[1:], *SHORT)), rng.randrange(100)))
            written.add(name)
    return stages


def text_of(stages: Sequence[Stage]) -> str:
    forms: dict[str, Callable[..., str]] = {
        "repeat": lambda inner: f"repeat 2 {{ {text_of(inner)} }}",
        "read": lambda name: f"host_read @{name}",
        "fill": lambda name, value: f"fill(@{name}, {value})",
        "add": lambda source, into: f"launch @add {GRID} (@{source}, @{into})",
        "count": lambda source, into: f"launch @count {GRID} (@{source}, @{into})",
    }
    return " ".join(forms[kind](*operands) for kind, *operands in stages)


def run_by_numpy(stages: Sequence[Stage], held: dict[str, np.ndarray]) -> None:
    for kind, *operands in stages:
        if kind == "repeat":
            for _ in range(2):
                run_by_numpy(operands[0], held)
        elif kind == "fill":
            held[operands[0]] = np.full(16 if operands[0] in SHORT else X.size, operands[1], np.uint32)
        elif kind == "add":
            held[operands[1]] = held[operands[1]] + held[operands[0]]
        elif kind == "count":
            bins = np.bincount(held[operands[0]] & 15, minlength=16)
            held[operands[1]] = held[operands[1]] + bins.astype(np.uint32)


def random_pipeline(seed: int) -> tuple[str, dict[str, np.ndarray]]:
    """A pipeline of fills among launches and repeats, and its outputs as NumPy has them for the input `X`."""
    written = {"x"}
    stages = random_stages(random.Random(seed), written)
    held = {"x": X}
    run_by_numpy(stages, held)
    sizes = {**dict.fromkeys(LONG[1:], "len(@x)"), **dict.fromkeys(SHORT, "16")}
    declared = " ".join(f"buffer @{n} : u32[{size}]{' live_out' * (n in held)}" for n, size in sizes.items())
    del held["x"]
    return f"{PROGRAMS}\npipeline @main {{ buffer @x : u32[?] read {declared} {text_of(stages)} }}", held


@pytest.mark.parametrize("seeds", quick([range(at, at + 12) for at in range(0, 2400, 12)], keep=1))
def test_random_pipelines(seeds: range) -> None:
    def check(seed: int) -> None:
        text, expected = random_pipeline(seed)
        assert [d for d in verify(parse(text)) if "nothing has written" in d.message] == []
        for passes in (None, "default"):
            got = vyre_opt.run(text, {"x": X}, target="ref" if passes else "cpu", passes=passes)
            for name, array in expected.items():
                assert np.array_equal(got[name], array), (passes, name)

    each(seeds, check)
