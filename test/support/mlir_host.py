"""Runs our MLIR on the CPU, by mlir-opt and LLVM's JIT: an execution that shares nothing with our own lowerings.

    MLIR text -> gpu ops as calls -> mlir-opt-19 to the llvm dialect -> mlir-translate-19 -> llvmlite

Each invocation of a workgroup is a thread, and workgroups run one after the other.  What a GPU knows or does for an
invocation, its ids, barriers and shuffles, is a call back into Python.
"""

from __future__ import annotations

import ctypes
import platform
import re
import shutil
import subprocess
import threading
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from vyre_opt.execution.arrays import storage_type
from vyre_opt.ir import Module, Program
from vyre_opt.ir.program import Dim3
from vyre_opt.lowering.nvptx.abi import storage_buffers
from vyre_opt.mlir.emit import emit_mlir

__all__ = ["WHY_NOT", "NotHere", "run_on_host", "why_not"]

OPT, TRANSLATE = "mlir-opt-19", "mlir-translate-19"
WHY_NOT = (
    "" if shutil.which(OPT) and shutil.which(TRANSLATE) else f"{OPT} and {TRANSLATE} are not on the PATH"
)
if platform.machine() not in ("x86_64", "AMD64"):
    WHY_NOT = "the host's functions for halves are those of x86"

CPU = "x86-64-v3"
"""With fma and conversions of f16, without those of bf16, which flush subnormals."""

SUBGROUP = 32
STACK_BYTES = 1 << 18

_PASSES = (
    "--convert-scf-to-cf", "--expand-strided-metadata", "--lower-affine", "--convert-vector-to-llvm",
    "--convert-math-to-llvm", "--convert-arith-to-llvm", "--finalize-memref-to-llvm", "--convert-index-to-llvm",
    "--convert-cf-to-llvm", "--convert-func-to-llvm", "--reconcile-unrealized-casts",
)  # fmt: skip

_IDS = ("thread_id", "block_id", "block_dim", "grid_dim")
_SHUFFLES = ("idx", "up", "down", "bfly")


class NotHere(Exception):
    """The host cannot run the text: it has an instruction of a GPU, or rounds twice."""


_HALF_FMA = re.compile(r"math\.fma .* : (vector<\d+x)?b?f16")


def why_not(text: str) -> str:
    """Why the host cannot run an MLIR text; "" if it can."""
    if _HALF_FMA.search(text):
        return "an fma of f16 or bf16, which x86 rounds twice"
    return "an approximate instruction of a GPU" if "approx" in text else ""


def run_on_host(
    program: Program, module: Module, arrays: list[np.ndarray[Any, Any]], grid: Dim3
) -> list[np.ndarray[Any, Any]]:
    """The outputs of a program in binding order, flat.  `arrays`: one for each bound buffer.  Raises NotHere."""
    alone = Module()
    for item in module.order:
        if item is program or item in module.funcs.values():
            alone.add(item)
    text = emit_mlir(alone)
    reason = why_not(text)
    if any(p.dtype.is_float and p.dtype.bits == 16 for p in program.params.values()):
        reason = "a half as an argument, for which ctypes has no type"
    if reason:
        raise NotHere(reason)
    name, source = _as_function(text)
    engine = _compiled(_llvm_ir(source), name)
    bound = dict(zip([b.name for b in program.bound_buffers], arrays, strict=True))
    memory = {b.name: _memory(b, bound.get(b.name)) for b in storage_buffers(program)}
    address = engine.get_function_address(name)
    scalars = [program.params[key] for key in sorted(program.params)]
    for z in range(grid[2]):
        for y in range(grid[1]):
            for x in range(grid[0]):
                tiles = {b.name: _memory(b, None) for b in program.buffers.values() if b.is_workgroup}
                arguments = [a for key, array in memory.items() for a in _descriptor(program, key, array)]
                arguments += [_scalar(param.default or 0, param.dtype) for param in scalars]
                arguments += [a for key, array in tiles.items() for a in _descriptor(program, key, array)]
                _Workgroup(program.workgroup, grid, (x, y, z)).run(address, arguments)
    outputs = [b for b in program.bound_buffers if b.is_output]
    return [memory[b.name].reshape(-1) for b in outputs]


# --- text to code


def _as_function(text: str) -> tuple[str, str]:
    """The kernel's name, and the text with a function of func in its place and calls for what a GPU does."""
    lines = text.splitlines()[2:-2]
    source = "\n".join(line for line in lines if "nvvm.membar" not in line and "nvvm.cp.async" not in line)
    name = re.findall(r"gpu\.func @(\w+)\(", source)[0]
    source = source.replace(", #gpu.address_space<workgroup>", "")
    head = re.compile(
        r"gpu\.func (@\w+)\((.*?)\)(?: workgroup\((.*?)\))? kernel attributes \{.*\} \{$", re.MULTILINE
    )

    def function(match: re.Match[str]) -> str:
        arguments = ", ".join(part for part in (match[2], match[3]) if part)
        return f"func.func {match[1]}({arguments}) {{"

    source = head.sub(function, source)
    source = source.replace("gpu.return", "func.return").replace(
        "gpu.barrier", "func.call @gpu_barrier() : () -> ()"
    )
    source = re.sub(r"gpu\.(\w+) ([xyz])", r"func.call @gpu_\1_\2() : () -> index", source)
    source = re.sub(
        r'"nvvm\.shfl\.sync"\((.*)\) \{kind = #nvvm<shfl_kind (\w+)>\} :',
        r"func.call @gpu_shuffle_\2(\1) :",
        source,
    )
    source = re.sub(r'"nvvm\.vote\.ballot\.sync"', "func.call @gpu_ballot", source)
    source = re.sub(r'"nvvm\.bar\.warp\.sync"', "func.call @gpu_subgroup_barrier", source)
    declared = [f"func.func private @gpu_{name}_{axis}() -> index" for name in _IDS for axis in "xyz"]
    declared += [f"func.func private @gpu_shuffle_{kind}(i32, i32, i32, i32) -> i32" for kind in _SHUFFLES]
    declared += [
        "func.func private @gpu_barrier()",
        "func.func private @gpu_ballot(i32, i1) -> i32",
        "func.func private @gpu_subgroup_barrier(i32)",
    ]
    return name, "module {\n" + "\n".join([*declared, source]) + "\n}\n"


def _llvm_ir(source: str) -> str:
    lowered = subprocess.run([OPT, *_PASSES, "-"], input=source, capture_output=True, text=True, check=False)
    assert not lowered.returncode, lowered.stderr[:2000]
    command = [TRANSLATE, "--mlir-to-llvmir"]
    translated = subprocess.run(command, input=lowered.stdout, capture_output=True, text=True, check=False)
    assert not translated.returncode, translated.stderr[:2000]
    return translated.stdout


def _compiled(text: str, name: str) -> Any:
    """The JIT's engine, with its code final."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for symbol, callback in _CALLBACKS.items():
        llvm.add_symbol(symbol, ctypes.cast(callback, ctypes.c_void_p).value or 0)
    machine = llvm.Target.from_default_triple().create_target_machine(cpu=CPU, opt=1)
    module = llvm.parse_assembly(text)
    module.link_in(llvm.parse_assembly(_HALVES))
    module.verify()
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine


_HALVES = """
define float @to_odd(double %x) {
  %y = fptrunc double %x to float
  %back = fpext float %y to double
  %bits = bitcast float %y to i32
  %inexact = fcmp one double %back, %x
  %odd = trunc i32 %bits to i1
  %even = xor i1 %odd, true
  %move = and i1 %inexact, %even
  %far = call double @llvm.fabs.f64(double %back)
  %near = call double @llvm.fabs.f64(double %x)
  %above = fcmp ogt double %far, %near
  %step = select i1 %above, i32 -1, i32 1
  %moved = add i32 %bits, %step
  %chosen = select i1 %move, i32 %moved, i32 %bits
  %result = bitcast i32 %chosen to float
  ret float %result
}
define bfloat @__truncsfbf2(float %x) {
  %bits = bitcast float %x to i32
  %high = lshr i32 %bits, 16
  %last = and i32 %high, 1
  %up = add i32 %last, 32767
  %sum = add i32 %bits, %up
  %cut = lshr i32 %sum, 16
  %nan = fcmp uno float %x, %x
  %word = select i1 %nan, i32 32704, i32 %cut
  %short = trunc i32 %word to i16
  %result = bitcast i16 %short to bfloat
  ret bfloat %result
}
define bfloat @__truncdfbf2(double %x) {
  %odd = call float @to_odd(double %x)
  %result = call bfloat @__truncsfbf2(float %odd)
  ret bfloat %result
}
define half @__truncdfhf2(double %x) {
  %odd = call float @to_odd(double %x)
  %result = fptrunc float %odd to half
  ret half %result
}
declare double @llvm.fabs.f64(double)
"""
"""What x86 calls to round to a half; to odd before, it rounds once in all."""

# --- arguments


def _memory(buffer: Any, array: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    """The contents of a buffer, of the caller's or zeros."""
    if array is not None:
        return np.ascontiguousarray(array).copy()
    dtype = storage_type(buffer.dtype)
    assert dtype is not None
    shape = (
        *(extent or 0 for extent in buffer.shape),
        *([buffer.dtype.lanes] if buffer.dtype.is_vec else []),
    )
    return np.zeros(shape, dtype)


def _descriptor(program: Program, name: str, array: np.ndarray[Any, Any]) -> list[Any]:
    """The arguments that a memref is: two pointers, an offset, extents and strides in elements."""
    buffer = program.buffers[name]
    lanes = [buffer.dtype.lanes] if buffer.dtype.is_vec else []
    if buffer.dimensions == 1:
        extents = [array.size // (buffer.dtype.lanes or 1), *lanes]
    else:
        extents = list(array.shape)
    strides = [int(np.prod(extents[number + 1 :])) for number in range(len(extents))]
    pointer = ctypes.c_void_p(array.ctypes.data)
    numbers = [ctypes.c_int64(int(n)) for n in (0, *extents, *strides)]
    return [pointer, pointer, *numbers]


def _scalar(value: int, dtype: Any) -> Any:
    bits = 8 if dtype.is_bool else dtype.bits
    word = value % (1 << bits)
    if dtype.is_float:
        kind = ctypes.c_float if bits == 32 else ctypes.c_double
        return kind.from_buffer_copy(word.to_bytes(bits // 8, "little"))
    return {8: ctypes.c_uint8, 16: ctypes.c_uint16, 32: ctypes.c_uint32, 64: ctypes.c_uint64}[bits](word)


# --- a workgroup of threads

_here = threading.local()


class _Subgroup:
    """What its invocations hand to each other."""

    def __init__(self, lanes: int) -> None:
        self.barrier = threading.Barrier(lanes)
        self.values = [0] * SUBGROUP

    def exchange(self, lane: int, value: int) -> list[int]:
        """The values of all lanes."""
        self.values[lane] = value
        self.barrier.wait()
        seen = list(self.values)
        self.barrier.wait()
        return seen


class _Workgroup:
    def __init__(self, size: Dim3, grid: Dim3, place: Dim3) -> None:
        self.size, self.grid, self.place = size, grid, place
        self.lanes = size[0] * size[1] * size[2]
        self.barrier = threading.Barrier(self.lanes)
        starts = range(0, self.lanes, SUBGROUP)
        self.subgroups = [_Subgroup(min(SUBGROUP, self.lanes - start)) for start in starts]

    def run(self, address: int, arguments: list[Any]) -> None:
        function = ctypes.CFUNCTYPE(None, *(type(a) for a in arguments))(address)

        def invocation(number: int) -> None:
            x, y, _ = self.size
            _here.ids = {
                "thread_id": (number % x, number // x % y, number // (x * y)),
                "block_id": self.place,
                "block_dim": self.size,
                "grid_dim": self.grid,
            }
            _here.workgroup, _here.number = self, number
            function(*arguments)

        old = threading.stack_size(STACK_BYTES)
        threads = [threading.Thread(target=invocation, args=(number,)) for number in range(self.lanes)]
        threading.stack_size(old)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def _id(name: str, axis: int) -> Callable[[], int]:
    return lambda: _here.ids[name][axis]


def _exchange(value: int) -> tuple[int, list[int]]:
    """This invocation's lane, and the values of all lanes of its subgroup."""
    subgroup, lane = divmod(_here.number, SUBGROUP)
    return lane, _here.workgroup.subgroups[subgroup].exchange(lane, value)


def _shuffle(kind: str) -> Callable[[int, int, int, int], int]:
    def move(mask: int, value: int, operand: int, clamp: int) -> int:
        """As the PTX ISA has it, for whole subgroups of 32."""
        lane, values = _exchange(value)
        amount = operand & 31
        source = {"idx": amount, "up": lane - amount, "down": lane + amount, "bfly": lane ^ amount}[kind]
        return values[source] if 0 <= source < SUBGROUP else value

    return move


def _ballot(mask: int, flag: int) -> int:
    _, flags = _exchange(flag & 1)
    return sum((flag & 1) << lane for lane, flag in enumerate(flags)) & mask


_WORD = ctypes.c_uint32
_CALLBACKS: dict[str, Any] = {
    **{
        f"gpu_{name}_{axis}": ctypes.CFUNCTYPE(ctypes.c_int64)(_id(name, "xyz".index(axis)))
        for name in _IDS
        for axis in "xyz"
    },
    **{
        f"gpu_shuffle_{kind}": ctypes.CFUNCTYPE(_WORD, _WORD, _WORD, _WORD, _WORD)(_shuffle(kind))
        for kind in _SHUFFLES
    },
    "gpu_ballot": ctypes.CFUNCTYPE(_WORD, _WORD, ctypes.c_uint8)(_ballot),
    "gpu_barrier": ctypes.CFUNCTYPE(None)(lambda: _here.workgroup.barrier.wait() and None),
    "gpu_subgroup_barrier": ctypes.CFUNCTYPE(None, _WORD)(lambda mask: _exchange(0) and None),
}
"""What the code calls back; the table keeps the callbacks alive."""
