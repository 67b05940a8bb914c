"""The walks through calls in docs/explanation/architecture.md are the ways that the calls go."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import vyre_opt
import vyre_opt as vyre
from vyre_opt import kernels
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher

ROOT = Path(__file__).parents[2]
PACKAGE = Path(vyre_opt.__file__).parent
SEARCH = PACKAGE.with_name("vyre_scan")
Step = tuple[str, str]
"""A file, and a function in it."""

_WALK = re.compile(r"(?:^\d+\. `\S+` `\S+`.*\n)+", re.MULTILINE)
_STEP = re.compile(r"^\d+\. `(\S+)` `(\S+)`", re.MULTILINE)


@vyre.program
def double(x: vyre.Read[vyre.f32], y: vyre.Write[vyre.f32]) -> None:
    i = vyre.global_id(0)
    if i < len(x):
        y[i] = x[i] * 2.0


TEXT = """vyre 2
program @double workgroup(32) {
  buffer @x : f32[64] read binding(0)
  buffer @y : f32[64] write binding(1)
  %i = global_id x
  %v = load @x[%i]
  %w = add %v, %v
  store %w, @y[%i]
}
"""


def walks() -> dict[str, list[Step]]:
    """The walks of the page, by the line before each."""
    text = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
    found = {}
    for match in _WALK.finditer(text):
        title = text[: match.start()].rstrip().rpartition("\n")[2]
        found[title] = _STEP.findall(match.group())
    return found


def way_of(call: Callable[[], Any]) -> list[Step]:
    """The functions of the package that a call enters, in order, but for those without names."""
    steps: list[Step] = []

    def enter(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event != "call" or "<" in code.co_name:
            return
        for package, root in ((PACKAGE, PACKAGE), (SEARCH, SEARCH.parent)):
            if code.co_filename.startswith(f"{package}{os.sep}"):
                name = code.co_qualname.rpartition("<locals>.")[2]
                steps.append((Path(code.co_filename).relative_to(root).as_posix(), name))

    sys.setprofile(enter)
    try:
        call()
    finally:
        sys.setprofile(None)
    return steps


def calls() -> dict[str, Callable[[], Any]]:
    rng = np.random.default_rng(1)
    x, y = rng.random(1000, np.float32), np.empty(1000, np.float32)
    executable, fixed = vyre.compile(TEXT), x[:64].copy()
    rows, grid = rng.random((9, 111), np.float32), 4
    scanner = vyre.Scanner(["secret", "token"])
    return {
        "kernels.softmax": lambda: kernels.softmax(rows),
        "kernel[grid]": lambda: double[grid](x, y),
        "compile": lambda: executable({"x": fixed}, 2),
        "Scanner": lambda: scanner.scan(b"a secret token"),
    }


def walk_of(name: str) -> list[Step]:
    (walk,) = (steps for title, steps in walks().items() if title.partition("(")[0].find(name) >= 0)
    return walk


@pytest.mark.parametrize("name", ["kernels.softmax", "kernel[grid]", "compile", "Scanner"])
def test_every_function_of_a_later_call_is_named(name: str) -> None:
    call, walk = calls()[name], walk_of(name)
    ways: Counter[tuple[Step, ...]] = Counter()
    for _ in range(15):
        for _ in range(8):  # launches are measured, and a traced one, or one that is held up, seems long
            call()
        ways[tuple(dict.fromkeys(way_of(call)))] += 1
    assert list(max(ways, key=ways.__getitem__)) == walk
    assert len(walk) <= 12


def test_a_first_call_goes_through_what_is_named() -> None:
    (walk,) = (steps for title, steps in walks().items() if "first call" in title)
    rows, fresh = np.ones((7, 113), np.float32), CpuDispatcher()
    way = way_of(lambda: kernels.softmax(rows, dispatcher=fresh))
    assert_in_order(walk, way)


def assert_in_order(walk: list[Step], way: list[Step]) -> None:
    assert walk
    rest = iter(way)
    assert [step for step in walk if step not in rest] == []
