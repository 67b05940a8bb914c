"""What the GPU benchmarks do before a GPU is needed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.dense_automaton import build_automaton


@pytest.fixture
def bench(root: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(root / "bench"))
    monkeypatch.syspath_prepend(str(root / "examples"))
    import decode_scan_gpu

    return decode_scan_gpu


def test_the_independent_searches_agree(bench: Any) -> None:
    """A run without pyahocorasick compares with as much."""
    import scan_inputs

    work = scan_inputs.corpus(3 << 17)
    assert work.checked_by == "pyahocorasick"
    assert len(work.expected) > 20
    text = bench.np.frombuffer(work.encoded, bench.np.uint8).tobytes()
    decoded = __import__("base64").b64decode(text)
    assert scan_inputs.occurrences(decoded, work.patterns) == work.expected


@pytest.mark.campaign
def test_every_way_on_the_cpu_finds_the_same(bench: Any) -> None:
    """`cpu_sample` leaves the process if one does not; fused moves the text alone."""
    import scan_inputs

    work = scan_inputs.corpus(3 << 16)
    sample = bench.cpu_sample(work, build_automaton(work.patterns))
    assert set(sample["seconds"]) == {"fused", "storage", "two"}
    assert sample["bytes"]["fused"] == len(work.encoded) + 8 * len(work.expected)
    assert sample["bytes"]["two"] == sample["bytes"]["fused"] + 2 * work.size


def test_our_share_of_text_to_ptx(root: Path) -> None:
    """It compiles each text in a process of its own kind, and says where the time goes."""
    command = [sys.executable, str(root / "bench" / "ptx_tools.py"), "vyre-opt"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    result = json.loads(ran.stdout)
    assert len(result["ptx"]) == len(result["splits"]) > 3
    for total, split in zip(result["ptx"], result["splits"], strict=True):
        assert {"parse", "expand", "lower", "LLVM"} <= set(split)
        assert sum(split.values()) <= total
