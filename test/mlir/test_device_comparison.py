"""What support.mlir_device writes for a GPU fits the kernels: an argument for each parameter, of its size."""

from __future__ import annotations

import json
import lzma
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.kernel_cases import kernel_cases
from support.mlir_device import __main__ as writing
from support.mlir_device import run
from support.mlir_device.cases import cases

from vyre_opt.ir import parse
from vyre_opt.mlir.emit import emit_mlir

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


ALL = ["--random", "12", "--ops", "90", "--kernels", "300", "--pipelines"]


@pytest.mark.skipif(shutil.which("mlir-opt-19") is None, reason="mlir-opt-19 is not on the PATH")
@pytest.mark.parametrize(
    "chosen",
    [["--random", "3", "--ops", "400"], pytest.param(ALL, marks=pytest.mark.campaign)],  # minutes of mlir-opt
    ids=["few", "all kinds"],
)
def test_arguments_are_those_of_the_kernels(
    chosen: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["mlir_device", str(tmp_path), *chosen])
    assert writing.main() == 0
    records = json.loads(lzma.decompress((tmp_path / "cases.json.xz").read_bytes()))
    kinds = Counter(record["kind"] for record in records)
    assert kinds["random program"] == int(chosen[1])
    pipelines = 15 * ("--pipelines" in chosen)
    assert kinds["pipeline"] == kinds["pipeline after the default passes"] == pipelines
    with np.load(tmp_path / "arrays.npz") as arrays:
        for record in records:
            assert all(buffer["key"] in arrays for buffer in record["buffers"])
            for side in ("ours", "theirs"):
                for launch in record[side]["launches"]:
                    sizes = parameter_sizes(record[side]["ptx"][launch["ptx"]], launch["symbol"])
                    passed = [arg[2] if arg[0] == "word" else 8 for arg in launch["args"]]
                    assert sizes == passed, record["name"]


def parameter_sizes(ptx: str, symbol: str) -> list[int]:
    """The bytes of each parameter of a kernel."""
    head = re.search(rf"\.entry {symbol}\((.*?)\)", ptx, re.DOTALL)
    assert head is not None
    return [SIZES[kind] for kind in re.findall(r"\.param \.(?:align \d+ \.)?(\w+)", head[1])]


@pytest.mark.skipif(shutil.which("mlir-opt-19") is None, reason="mlir-opt-19 is not on the PATH")
def test_helpers_for_memory_have_names_that_ptx_takes(to_ptx: Callable[[list[str]], list[str]]) -> None:
    """mlir-opt leaves a wrapper of each function that takes a memref in the PTX, under the function's own name."""
    text = """vyre 1
        program @p workgroup(32) {
          buffer @bits : u32[32] workgroup
          buffer @old  : u32[?]  write binding(0)
          %i = local_id x
          %v = atomic_xor<acq_rel> @bits[%i], %i : u32
          store %v, @old[%i] : u32
        }"""
    (ptx,) = to_ptx([emit_mlir(parse(text))])
    names = re.findall(r"\.(?:func|entry)\s+(?:\(.*?\)\s*)?([^\s(]+)", ptx)
    assert len(names) > 1, "there is no wrapper: this test guards nothing"
    assert all(re.fullmatch(r"[A-Za-z_$][\w$]*", name) for name in names), names


def test_a_difference_in_any_bit_is_told_from_other_bits_of_a_nan() -> None:
    buffers = [{"name": "out", "type": "f32", "is_output": True}]
    nan, other_nan, one = (np.array([bits], "u4").view("u1") for bits in (0x7FC00000, 0xFFFFFFFF, 0x3F800000))
    zero, minus_zero = (np.array([bits], "u4").view("u1") for bits in (0, 0x80000000))
    assert run.compared(buffers, [one], [one], [None])[0] == run.SAME
    assert run.compared(buffers, [nan], [other_nan], [None])[0] == run.SAME_NUMBERS
    assert run.compared(buffers, [zero], [minus_zero], [None])[0] == run.DIFFERENT
    assert run.compared(buffers, [nan], [one], [None])[0] == run.DIFFERENT


def test_a_tolerance_is_for_numbers_and_counted_apart() -> None:
    buffers = [{"name": "out", "type": "f32", "is_output": True}]
    tolerance = np.array([0.5, 0.0])

    def word(ours: list[float], theirs: list[float]) -> str:
        a, b = np.array(ours, "f4").view("u1"), np.array(theirs, "f4").view("u1")
        return run.compared(buffers, [a], [b], [tolerance])[0]

    assert word([1.0, 2.0], [1.0, 2.0]) == run.SAME
    assert word([1.0, 2.0], [1.5, 2.0]) == run.SAME_BUT_ROUNDING
    assert word([1.0, 2.0], [1.75, 2.0]) == run.DIFFERENT
    assert word([1.0, 2.0], [1.5, 2.25]) == run.DIFFERENT
    assert word([1.0, 2.0], [np.nan, 2.0]) == run.DIFFERENT
    assert word([1.0, 2.0], [np.inf, 2.0]) == run.DIFFERENT


def test_only_float_scans_that_look_back_have_a_tolerance() -> None:
    """Of all kernels: any other one must agree in every bit."""
    varying = {
        case.name for case in kernel_cases() if case.kernel == "scan.prefix" and case.make().order_varies
    }
    assert {" ".join(name.split(",")[0].split()[1:]) for name in varying} == {"f32", "f64"}
    assert all("look-back" in name or "as on the cpu" in name for name in varying)
    chosen = [case for case in cases(0, 40, False, False) if case.name in varying]
    assert all(any(s.tolerance is not None for s in case.storage.values()) for case in chosen)
    assert chosen
