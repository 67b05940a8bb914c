"""What support.mlir_device writes for a GPU fits the kernels: an argument for each parameter, of its size."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from support.mlir_device import __main__ as writing

SIZES = {
    "u8": 1,
    "s8": 1,
    "b8": 1,
    "u16": 2,
    "b16": 2,
    "u32": 4,
    "b32": 4,
    "f32": 4,
    "u64": 8,
    "b64": 8,
    "f64": 8,
}


@pytest.mark.skipif(shutil.which("mlir-opt-19") is None, reason="mlir-opt-19 is not on the PATH")
def test_arguments_are_those_of_the_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys, "argv", ["mlir_device", str(tmp_path), "--random", "12", "--ops", "90", "--kernels", "300"]
    )
    assert writing.main() == 0
    records = json.loads(gzip.decompress((tmp_path / "cases.json.gz").read_bytes()))
    assert len(records) > 20
    with np.load(tmp_path / "arrays.npz") as arrays:
        for record in records:
            assert all(buffer["key"] in arrays for buffer in record["buffers"])
            for side in ("ours", "theirs"):
                kernel = record[side]
                head = re.search(rf"\.entry {kernel['symbol']}\((.*?)\)", kernel["ptx"], re.DOTALL)
                assert head is not None
                sizes = [SIZES[kind] for kind in re.findall(r"\.param \.(?:align \d+ \.)?(\w+)", head[1])]
                assert sizes == [arg[2] if arg[0] == "word" else 8 for arg in kernel["args"]], record["name"]
