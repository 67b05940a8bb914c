"""Public calls give what they gave when they were recorded, and the comparison sees what does not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.call_records.record import Entry, differences, read, write

TEST = Path(__file__).parents[1]
RECORDED = TEST / "support" / "call_records" / "recorded.json.gz"

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each call is made in a fork")

CHANGES = {
    "message": "vyre_opt.BadInputs.__str__ = lambda error: 'no'",
    "result": "before = kernels.softmax; kernels.softmax = lambda *args, **named: -before(*args, **named)",
}
"""Mistakes, as statements that are run before a replay."""


def replay(*options: str, program: tuple[str, ...] = ("-m", "support.call_records")) -> tuple[int, str]:
    """How a replay ends, and what it says, in a process that starts no threads before it forks."""
    command = [sys.executable, *program, "replay", "--jobs=1", *options]
    paths = [str(TEST.parent), str(TEST), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    return ran.returncode, ran.stdout + ran.stderr


def test_some_calls_give_what_they_gave() -> None:
    assert replay(str(RECORDED), "--only=60") == (0, "60 calls, 0 differ\n")


@pytest.mark.campaign
def test_all_calls_give_what_they_gave() -> None:
    code, said = replay(str(RECORDED))
    assert code == 0, said


@pytest.mark.campaign
@pytest.mark.parametrize("change", CHANGES)
def test_a_mistake_shows(tmp_path: Path, change: str) -> None:
    """In calls that end so or give such."""
    entries = [
        entry for entry in read(RECORDED) if entry["call"]["of"] in ("kernels.softmax", "kernels.matmul")
    ]
    write(tmp_path / "some.json", entries)
    start = "import vyre_opt; from vyre_opt import kernels; from support.call_records.__main__ import main"
    code, said = replay(str(tmp_path / "some.json"), program=("-c", f"{start}; {CHANGES[change]}; main()"))
    assert code == 1
    kinds = [line for line in said.splitlines() if line.endswith(" calls")]
    if change == "message":
        assert all(": error: " in kind for kind in kinds), said
    else:
        assert any(": out: " in kind for kind in kinds), said
        assert all(kind.startswith("kernels.softmax") for kind in kinds), said


ENTRY: Entry = {
    "call": {"of": "kernels.softmax", "args": [], "named": {"dispatcher": "ref"}},
    "turns": [{"out": "numpy float32[3] 0123456789abcdef", "compiled": 1}],
}


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({}, []),
        ({"out": "numpy float32[3] 0123456789abcdee"}, ["out"]),
        ({"out": None, "error": "BadInputs: x"}, ["error", "out"]),
        ({"compiled": 2}, ["compiled"]),
        ({"arrays": ["0123456789abcdef"]}, ["arrays"]),
    ],
)
def test_each_part_of_a_turn_is_compared(change: dict[str, object], parts: list[str]) -> None:
    """In the third turn, too, where a plan runs."""
    turn = ENTRY["turns"][0]
    other = {"call": ENTRY["call"], "turns": [turn, turn, turn | change]}
    assert sorted(differences(ENTRY, other)) == parts
    assert sorted(differences({**ENTRY, "varies": parts}, other)) == []
