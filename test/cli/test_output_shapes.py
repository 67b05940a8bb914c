"""The shapes of arrays that vyre-run writes: they follow the inputs where there is no doubt which."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.tools_inside import call_run

from vyre_opt import parse
from vyre_opt.cli.output_shapes import output_shape
from vyre_opt.driver.binding import Signature

TEXT = """vyre 1

program @scale workgroup(64) {
  buffer @x : f32[?] read binding(0)
  buffer @_b : f32[?] read binding(1)
  buffer @y : f32[?] write binding(2)
  buffer @_sums : f32[12] write binding(3)
  %i = global_id x
  %n = len @y
  %p = lt %i, %n : u32
  if %p {
    %v = load @x[%i] : f32
    %two = const 2.0 : f32
    %w = mul %v, %two : f32
    store %w, @y[%i] : f32
  }
}
"""


def test_the_file_of_an_output_has_the_shape_of_its_input(tmp_path: Path) -> None:
    """And so can be compared with what NumPy computes from the same files, without a word about shapes."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "b.npy", np.ones(4, np.float32))
    files = ["--in", f"x={tmp_path}/x.npy", "--in", f"_b={tmp_path}/b.npy", "--out", f"y={tmp_path}/y.npy"]
    ran = call_run("-", *files, "--out", f"_sums={tmp_path}/sums.npy", "--len", "y=12", "--grid=1", text=TEXT)
    assert (ran.returncode, ran.stderr) == (0, "")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), 2 * x)
    assert np.load(tmp_path / "sums.npy").shape == (12,)


BUFFERS = """vyre 1
program @p workgroup(1) {
  buffer @x : f32[?] read binding(0)
  buffer @b : u8[?] read binding(1)
  buffer @v : vec<4 x f32>[?] read binding(2)
  buffer @y : f32[?] read_write binding(3) live_in
  buffer @w : vec<2 x f32>[?] write binding(4)
  buffer @fixed : f32[6] write binding(5)
}
"""


@pytest.mark.parametrize(
    ("inputs", "output", "length", "shape"),
    [
        ({"x": (2, 3)}, "y", 6, (2, 3)),
        ({"x": (2, 3)}, "y", 5, (5,)),
        ({"x": (2, 3), "b": (2, 3)}, "y", 6, (2, 3)),
        ({"x": (2, 3), "b": (6,)}, "y", 6, (6,)),
        ({"x": (2, 3), "b": (3, 2)}, "y", 6, (6,)),
        ({"x": (2, 3), "b": (7,)}, "y", 6, (2, 3)),
        ({"x": (2, 3), "y": (3, 2)}, "y", 6, (3, 2)),
        ({"x": ()}, "y", 1, ()),
        ({"v": (2, 3, 4)}, "y", 6, (2, 3)),
        ({"v": (24,)}, "y", 6, (6,)),
        ({"x": (2, 3)}, "w", 6, (2, 3, 2)),
        ({"x": (2, 3)}, "fixed", 6, (6,)),
        ({}, "y", 6, (6,)),
    ],
)
def test_which_inputs_an_output_follows(
    inputs: dict[str, tuple[int, ...]], output: str, length: int, shape: tuple[int, ...]
) -> None:
    """Those declared with the same count that hold as many elements, if they have one shape; its own before all."""
    signature = Signature.of(parse(BUFFERS).programs["p"])
    arrays = {name: np.zeros(extents) for name, extents in inputs.items()}
    flat = np.zeros((length, 2) if output == "w" else length)
    assert output_shape(signature, output, flat, arrays) == shape
