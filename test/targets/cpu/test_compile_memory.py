"""What a compile takes of the heap, it gives back: a process may compile any number of programs."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable

import pytest

from vyre_opt.lowering.nvptx.abi import Unit
from vyre_opt.lowering.nvptx.kernel import lower
from vyre_opt.lowering.nvptx.ptx import emit_ptx
from vyre_opt.lowering.nvptx.targets import GPUS
from vyre_opt.targets.cpu.host import Host
from vyre_opt.targets.cpu.jit import LINKS_PER_JIT, compile_object
from vyre_opt.targets.cpu.linking import load

FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
LIBC = ctypes.CDLL(None)

pytestmark = pytest.mark.skipif(not hasattr(LIBC, "mallinfo2"), reason="glibc counts its heap")


class Mallinfo2(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_size_t) for name in FIELDS.split())


def heap_bytes() -> int:
    """What has been allocated and not freed, in this whole process."""
    gc.collect()
    function = LIBC.mallinfo2
    function.restype = Mallinfo2
    info = function()
    return int(info.uordblks + info.hblkhd)


def growth(call: Callable[[], object], times: int) -> float:
    """Bytes that are left of a call."""
    for _ in range(5):
        call()
    before = heap_bytes()
    for _ in range(times):
        call()
    return (heap_bytes() - before) / times


LLVM_IR = "define void @f(ptr %p, i64 %a, i64 %b, ptr %q, ptr %r) {\n  ret void\n}\n"


def test_a_compile_for_this_machine() -> None:
    """The pipeline of LLVM's passes takes 95 KB."""
    host = Host.this()
    assert growth(lambda: compile_object(LLVM_IR, host), 20) < 15_000


def test_a_compile_for_a_gpu() -> None:
    from vyre_opt import parse

    module = parse("vyre 1\nprogram @p workgroup(32) {\n  buffer @x : u32[32] write binding(0)\n}\n")
    lowered = lower([Unit(module.programs["p"], module)], GPUS["sm_90"], "none")
    assert growth(lambda: emit_ptx(lowered, GPUS["sm_90"], None, 3), 20) < 15_000


def test_code_that_is_loaded_and_dropped() -> None:
    """What is unloaded leaves 7 KB in its JIT, which goes with the last of its functions."""
    object_file = compile_object(LLVM_IR, Host.this())
    assert growth(lambda: load(object_file, "f"), 4 * LINKS_PER_JIT) < 3_000


def test_code_outlives_the_jit_of_what_comes_after_it() -> None:
    answer = compile_object(
        "define void @f(ptr %p, i64 %a, i64 %b, ptr %q, ptr %r) {\n  store i64 %a, ptr %p\n  ret void\n}\n",
        Host.this(),
    )
    first = load(answer, "f")
    for _ in range(2 * LINKS_PER_JIT):
        load(answer, "f")
    gc.collect()
    cell = ctypes.c_int64(0)
    first.call(ctypes.addressof(cell), 42, 0, None, None)
    assert cell.value == 42
