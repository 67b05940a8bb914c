"""Calls on arrays of a GPU that fault are recorded: with their inputs from before, though faults are known later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_gpu import cupy, numpy

import vyre_opt
from vyre_opt import ProgramError
from vyre_opt.driver.recording import read_record

TEXT = """vyre 2
program @checked workgroup(64) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] read_write binding(1) live_in live_out
  %i = global_id x
  %v = load @x[%i] : u32
  %w = load @y[%i] : u32
  %s = add %v, %w : u32
  store %s, @y[%i] : u32
  %fine = lt %v, 1000 : u32
  assert %fine, "too large"
}
"""


@pytest.mark.parametrize("on_gpu", [True, False])
def test_a_fault_is_recorded_by_its_own_call(
    gpu: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, on_gpu: bool
) -> None:
    monkeypatch.setenv("VYRE_RECORD", str(tmp_path))
    compiled = vyre_opt.compile(TEXT, target=gpu)
    move, back = (cupy, numpy) if on_gpu else (np.array, np.asarray)
    fine, y = np.arange(128, dtype=np.uint32), np.full(128, 7, np.uint32)
    bad = fine.copy()
    bad[77] = 1000
    for x in (fine, bad, fine, bad):
        if x is bad:
            with pytest.raises(ProgramError, match="too large") as raised:
                compiled([move(x), move(y)], grid=2)
            assert "the call is recorded" in str(raised.value)
        else:
            assert np.array_equal(back(compiled([move(x), move(y)], grid=2)["y"]), x + y)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checked-1", "checked-2"]
    folder, record = read_record(tmp_path / "checked-1")
    assert (record.kind, record.entry, record.grid) == ("assert", "checked", [2, 1, 1])
    assert record.place == "<string>:11:3"
    assert record.inputs == ["x", "y"]
    for number, expected in enumerate((bad, y)):
        assert np.array_equal(np.load(folder / f"inputs/{number}.npy"), expected)
