"""Buffers of several dimensions on a GPU: the same elements, shapes and faults as the interpreter has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.dimension_programs import random_pipeline
from support.quick import quick

import vyre_opt
from vyre_opt import dispatcher
from vyre_opt.execution import ProgramError

pytestmark = pytest.mark.gpu

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize(("rows", "inner", "columns"), [(33, 50, 70), (512, 512, 512), (1, 1, 1)])
def test_matmul_on_the_host_and_on_the_device(rows: int, inner: int, columns: int) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(rows)
    a = rng.integers(-8, 8, (rows, inner)).astype(np.float32)
    b = rng.integers(-8, 8, (inner, columns)).astype(np.float32)
    grid = -(-columns // 16), -(-rows // 16)
    matmul = vyre_opt.compile(EXAMPLES / "matmul.vyre", target="cuda")
    lengths = {"c": (rows, columns)}
    assert np.array_equal(matmul({"a": a, "b": b}, grid, lengths=lengths)["c"], a @ b)
    tensors = {"a": torch.from_numpy(a).cuda(), "b": torch.from_numpy(b).cuda()}
    for _ in range(3):  # the later ones are planned calls
        c = matmul(tensors, grid, lengths=lengths)["c"]
        assert tuple(c.shape) == (rows, columns)
        assert np.array_equal(c.cpu().numpy(), a @ b)


@pytest.mark.parametrize("passes", ["", "default"])
def test_a_pipeline_on_the_host_and_on_the_device(passes: str) -> None:
    torch = pytest.importorskip("torch")
    plate = np.random.default_rng(3).random((190, 450), np.float32)
    expected = vyre_opt.run(EXAMPLES / "plate.vyre", {"plate": plate}, target="ref")["plate"]
    spread = vyre_opt.compile(EXAMPLES / "plate.vyre", target="cuda", passes=passes)
    assert np.array_equal(spread({"plate": plate})["plate"], expected)
    on_gpu = torch.from_numpy(plate).cuda()
    for _ in range(3):
        result = spread({"plate": on_gpu})["plate"]
        assert tuple(result.shape) == plate.shape
        assert np.array_equal(result.cpu().numpy(), expected)


OUTSIDE = """vyre 2
program @outside workgroup(32) {
  buffer @x : f32[?, 3, ?] read binding(0)
  buffer @y : f32[?] write binding(1)
  %i = global_id x
  %one = const 1 : u32
  %v = load @x[%one, %one, %i] : f32
  store %v, @y[%i] : f32
}
"""


def test_a_fault_has_the_index_along_each_dimension() -> None:
    x = np.arange(2 * 3 * 31, dtype=np.float32).reshape(2, 3, 31)
    with pytest.raises(ProgramError, match=r"index \(1, 1, 31\), shape \(2, 3, 31\)"):
        vyre_opt.run(OUTSIDE, {"x": x}, 1, lengths={"y": 32}, target="cuda")


def test_an_index_is_clamped_along_its_dimension() -> None:
    x = np.arange(2 * 3 * 31, dtype=np.float32).reshape(2, 3, 31)
    clamping = dispatcher("cuda", bounds="clamp")
    y = vyre_opt.run(OUTSIDE, {"x": x}, 1, lengths={"y": 32}, target=clamping)["y"]
    assert np.array_equal(y, np.append(x[1, 1], x[1, 1, 30]))


@pytest.mark.parametrize("seed", quick(range(40), keep=20))
def test_random_pipelines(seed: int) -> None:
    case = random_pipeline(seed)

    def run(target: str, passes: str = "") -> np.ndarray | str:
        try:
            compiled = vyre_opt.compile(case.text, target=target, passes=passes)
            y: np.ndarray = compiled(case.arrays(seed), lengths={"y": case.shape})["y"]
        except ProgramError as error:
            return error.kind
        return y

    expected = run("ref")
    if isinstance(expected, str):
        assert expected != "bounds" or run("cuda") == "bounds"
        return
    for passes in ("", "default"):
        assert np.array_equal(run("cuda", passes), expected)
