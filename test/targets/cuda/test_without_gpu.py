"""What of the cuda target needs no GPU: imports, checks of the caller's mistakes, messages, records."""

from __future__ import annotations

import ctypes
import struct
import subprocess
import sys

import numpy as np
import pytest
from stand_ins.fake_gpu import install

from vyre_opt import dispatcher, parse
from vyre_opt.execution import BackendError, BadInputs
from vyre_opt.ir import OPS
from vyre_opt.ir.snapshot import Snapshot
from vyre_opt.lowering.common.row_major import row_major
from vyre_opt.lowering.nvptx.abi import Fault, Unit, read_record
from vyre_opt.lowering.nvptx.kernel import lower
from vyre_opt.lowering.nvptx.targets import gpu
from vyre_opt.targets.cuda import CudaDispatcher, dlpack
from vyre_opt.targets.cuda.driver import explain
from vyre_opt.targets.cuda.faults import program_error

TEXT = """vyre 1
program @p workgroup(32) {
  buffer @at : i32[?] read binding(0)
  buffer @x : u32[10] read binding(1)
  buffer @y : u32[?] write binding(2)
  %g = global_id x
  %i = load @at[%g] : i32
  %v = load @x[%i] : u32
  store %v, @y[%g] : u32
}
"""


def test_importing_takes_no_driver_and_no_pycuda():
    code = "import vyre_opt.targets.cuda, sys; assert not {'pycuda', 'cuda', 'llvmlite'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_pycuda_the_error_says_how_to_get_it(monkeypatch):
    from vyre_opt.targets.cuda import driver

    monkeypatch.setitem(sys.modules, "pycuda", None)
    monkeypatch.setitem(sys.modules, "pycuda.driver", None)
    with pytest.raises(BackendError, match=r"pip install 'vyre-opt\[cuda\]'"):
        driver.load.__wrapped__()


def test_a_wrong_call_is_refused_before_a_gpu_is_looked_for():
    program = parse(TEXT).programs["p"]
    cuda = dispatcher("cuda")
    with pytest.raises(BadInputs, match="binds 3 buffers"):
        cuda.dispatch(program, [], 1)
    with pytest.raises(BadInputs, match="grid"):
        cuda.dispatch(program, [np.zeros(4, np.int32), np.zeros(10, np.uint32), np.zeros(4, np.uint32)], -1)
    for wrong in ({"bounds": "check"}, {"opt_level": 4}, {"ptx_version": "9.1"}):
        with pytest.raises(BadInputs):
            CudaDispatcher(**wrong)


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ("cuStreamSynchronize failed: an illegal memory access was encountered", "start a new one"),
        (
            "cuModuleLoadDataEx failed: the provided PTX was compiled with an unsupported toolchain.",
            "older one",
        ),
        (
            "cuLaunchCooperativeKernel failed: too many blocks in cooperative launch: too large",
            "fewer workgroups",
        ),
        ("cuInit failed: something else", "something else"),
    ],
)
def test_messages_of_the_driver_come_with_advice(message, advice):
    assert advice in explain(message, "testing")
    assert message in explain(message, "testing")


def record(
    site: int, index: int, length: int, third: int = 0, extents: tuple[int, int, int] = (0, 0, 0)
) -> bytes:
    return struct.pack("<8I3Q3I", site, 3, 0, 0, 5, 0, 0, third, index, length, 12, *extents)


def test_a_fault_record_becomes_a_located_error():
    module = parse(TEXT)
    (kernel,) = lower([Unit(module.programs["p"], module)], gpu("sm_90"), "trap").kernels
    assert [site.op.name for site in kernel.sites] == ["load", "load", "store"]
    assert read_record(bytes(72)) is None
    fault = read_record(record(2, (1 << 64) - 7, 10))
    assert fault == Fault(2, (3, 0, 0), (5, 0, 0), (1 << 64) - 7, 10, 12, extents=(0, 0, 0))
    error = program_error(kernel, fault)
    assert error.kind == "bounds"
    assert error.diagnostic.loc.line == 8
    assert "load out of bounds of @x: index -7, length 10, by workgroup (3,0,0) local id (5,0,0)" in str(
        error
    )
    assert "@x is declared here" in str(error)


OUTSIDE = """vyre 2
program @p workgroup(32) {
  buffer @x : f32[?, 3, ?] read binding(0)
  buffer @y : f32[?] write binding(1)
  %i = global_id x
  %one = const 1 : u32
  %v = load @x[%one, %one, %i] : f32
  store %v, @y[%i] : f32
}
"""


def test_a_fault_record_has_the_open_extents():
    """Of the dimensions that are open, in their order: those of the call, as the CPU shows them."""
    rows = row_major(parse(OUTSIDE).programs["p"])
    (kernel,) = lower([Unit(rows)], gpu("sm_90"), "trap").kernels
    traps = [number for number, site in enumerate(kernel.sites, 1) if "access" in site.op.attrs]
    assert len(traps) == 2  # along the dimensions that are open; 1 is below the fixed 3
    fault = read_record(record(traps[1], 1, 1, third=31, extents=(2, 31, 0)))
    assert (
        "load out of bounds of @x: index (1, 1, 31), shape (2, 3, 31), outside along dimension 2, by"
        in str(program_error(kernel, fault))
    )


def test_a_snapshot_sees_every_change():
    module = parse(TEXT)
    program = module.programs["p"]
    unit = Unit(program, module)
    ops = program.body.ops

    def change_operand():
        ops[3].operands = (ops[0].results[0], ops[3].operands[1])

    def change_attribute():
        ops[2].attrs = {**ops[2].attrs, "buffer": "at"}

    changes = [
        change_operand,
        change_attribute,
        lambda: setattr(ops[0], "definition", OPS["local_id"]),
        lambda: ops.pop(),
        lambda: setattr(program, "workgroup", (64, 1, 1)),
        lambda: setattr(program, "prefer_shared", 50),
        lambda: setattr(program.buffers["x"], "count", 11),
        lambda: program.buffers.pop("x"),
    ]
    for change in changes:
        snapshot = Snapshot(unit.program, unit.module)
        assert snapshot.holds()
        change()
        assert not snapshot.holds()


@pytest.mark.parametrize("op", ["", 'debug_print "here"'])
def test_a_preference_is_told_to_the_driver_when_a_kernel_is_loaded(op, monkeypatch):
    """As CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT; a program that prints is lowered from a copy."""
    gpu = install(monkeypatch)
    attributes = []
    for prefer in ("prefer(shared = 40)", "", "prefer(shared = 0)"):
        program = parse(f"vyre 2 program @p workgroup(32) {prefer} {{ {op} }}").programs["p"]
        attributes += gpu.prepare(program).function.attributes
    assert attributes == [(9, 40), (9, 0)]


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int64, np.float16])
def test_dlpack_capsules_are_read(dtype):
    class Plain:
        """NumPy takes no stream."""

        def __init__(self, array):
            self.array = array

        def __dlpack__(self, stream=None):
            return self.array.__dlpack__()

    array = np.zeros((6, 4), dtype)[1::2]
    seen = dlpack.view(Plain(array), 1)
    assert seen.pointer == array.ctypes.data
    assert seen.shape == (3, 4)
    assert seen.strides == array.strides
    assert seen.name == array.dtype.name


def test_a_negative_stride_of_cupy_is_read():
    """It divides the bytes as an unsigned number."""
    array = np.zeros((6, 4), np.float32)[::-1]

    class Divided:
        def __dlpack__(self, stream=None):
            capsule = array.__dlpack__()
            get = ctypes.pythonapi.PyCapsule_GetPointer
            get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
            strides = dlpack._Tensor.from_address(get(capsule, b"dltensor")).strides
            strides[0] = -16 % 2**64 // 4
            return capsule

    assert dlpack.view(Divided(), 1).strides == array.strides
