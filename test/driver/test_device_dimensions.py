"""GPU arrays that do not fit a kernel in Python of several dimensions are refused, without a GPU (see test/stand_ins).

Those that fit run on a GPU only, in test/targets/cuda/test_python_kernels.py.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from fake_gpu import cupy

import vyre_opt as vyre
from vyre_opt import BadInputs
from vyre_opt.lang import Read, Write, f32
from vyre_opt.lowering.nvptx.abi import Unit
from vyre_opt.lowering.nvptx.kernel import lower
from vyre_opt.lowering.nvptx.targets import gpu as gpu_target
from vyre_opt.targets.cuda import ptx_cache


@vyre.program(workgroup=8)
def row(x: Read[f32[:, 8]], y: Write[f32]) -> None:
    j = vyre.local_id(0)
    y[j] = x[vyre.workgroup_id(0), j]


@vyre.pipeline
def rows(x: Read[f32[:, 8]], y: Write[f32]) -> None:
    row[1](x, y)


Y = np.zeros(8, np.float32)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((3, 7), "x: an array of shape (3, 7), and @x is f32[?, 8]: it has 7 along dimension 1, not 8"),
        ((24,), "x: an array of shape (24,), and @x is f32[?, 8]; pass array.reshape(-1, 8)"),
    ],
)
def test_arrays_of_other_shapes_are_refused(gpu: Any, shape: tuple[int, ...], message: str) -> None:
    x = np.zeros(shape, np.float32)
    for call in (row.options(target=gpu)[1], rows.options(target=gpu)):
        with pytest.raises(BadInputs, match=re.escape(message)):
            call(cupy(x), cupy(Y))
    assert not gpu.programs, "nothing was loaded"


def test_programs_that_are_loaded_together_are_what_a_call_runs(gpu: Any) -> None:
    module = row.module
    program = module.programs["row"]
    (loaded,) = gpu.preload([Unit(program, module)])
    assert gpu.prepare(program, module) is loaded
    prepared = loaded.kernel.program
    assert all(buffer.dimensions == 1 for buffer in prepared.buffers.values())
    # the sites of faults are ops of that program, which an entry of the compile cache names by number
    units = [Unit(prepared, module)]
    kernels = lower(units, gpu_target("sm_90")).kernels
    assert kernels[0].sites
    assert ptx_cache.encode(kernels, units, b"")
