"""One compiler in one process:  python bench/ptx_tools.py TOOL [--launch]

Compiles the row softmax of one number of columns after the other to PTX, so that nothing can be
kept from one to the next, and prints what it took as JSON; text_to_ptx starts it.  With --launch
it then takes more of them from their text to a result on the GPU, which is checked.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

ARCHITECTURE = 90
COLUMNS = (1024, 2048, 768, 1536, 512, 1280)
LAUNCHED = (1792, 896, 2304, 640, 1152)
ROWS = 256

Split = dict[str, float]


class Tool(Protocol):
    """`prepare` imports; `ptx` gives the text and where the time went, if the tool tells."""

    def prepare(self) -> None: ...

    def ptx(self, columns: int) -> tuple[str, Split]: ...

    def open(self) -> None:
        """The GPU, before anything is launched."""

    def result(self, columns: int, x: Any) -> Callable[[], tuple[float, Any]]:
        """Puts `x` on the GPU; what it gives compiles, launches and waits: when that was done, and y."""


# --- vyre-opt ----------------------------------------------------------------------------------


def vyre_text(columns: int) -> str:
    return f"""vyre 1
program @softmax workgroup(128) {{
  buffer @x : f32[{ROWS * columns}] read binding(0)
  buffer @y : f32[{ROWS * columns}] write binding(1) live_out
  math.softmax(@x, @y) {{columns = {columns}}}
}}
"""


class Vyre:
    def prepare(self) -> None:
        import llvmlite.binding

        import vyre_opt.ir.verifier
        import vyre_opt.kernels.softmax_rows
        import vyre_opt.lowering.nvptx.kernel
        import vyre_opt.lowering.nvptx.ptx
        import vyre_opt.passes.expand_kernels
        import vyre_opt.syntax.parser  # noqa: F401

        llvmlite.binding.initialize_all_targets()

    def module(self, columns: int, clock: LapTimer) -> Any:
        from vyre_opt import PassManager, parse, verify

        module = parse(vyre_text(columns))
        clock.lap("parse")
        verify(module)
        clock.lap("verify")
        PassManager(f"expand_kernels{{target=sm_{ARCHITECTURE}}}").run(module)
        clock.lap("expand")
        return module

    def ptx(self, columns: int) -> tuple[str, Split]:
        from vyre_opt.lowering.nvptx.abi import Unit
        from vyre_opt.lowering.nvptx.kernel import lower
        from vyre_opt.lowering.nvptx.ptx import emit_ptx
        from vyre_opt.lowering.nvptx.targets import gpu

        clock = LapTimer()
        module = self.module(columns, clock)
        target = gpu(f"sm_{ARCHITECTURE}")
        lowered = lower([Unit(module.programs["softmax"], module)], target)
        clock.lap("lower")
        ptx = emit_ptx(lowered, target)
        clock.lap("LLVM")
        return ptx, clock.laps

    def open(self) -> None:
        from vyre_opt.targets.cuda import CudaDispatcher

        self.gpu = CudaDispatcher(bounds="none")
        _ = self.gpu.device

    def result(self, columns: int, x: Any) -> Callable[[], tuple[float, Any]]:
        with self.gpu.device:
            device_x, out = arrays(x)

        def run() -> tuple[float, Any]:
            program = self.module(columns, LapTimer()).programs["softmax"]
            with self.gpu.device as device:
                self.gpu.launch(program, [device_x, out], ROWS)
                device.cuda.Context.synchronize()
                return time.monotonic(), out.get()

        return run


# --- NVRTC -------------------------------------------------------------------------------------

# A row a block, in registers, as vyre-opt has it
CUDA_TEXT = """
#define VECTORS (COLUMNS / 4)
#define EACH ((VECTORS + THREADS - 1) / THREADS)
#define WARPS (THREADS / 32)

template <bool MAXIMUM> __device__ float together(float value, float* slots) {
  for (int at = 16; at; at /= 2) {
    float other = __shfl_xor_sync(0xffffffff, value, at);
    value = MAXIMUM ? fmaxf(value, other) : value + other;
  }
  if (threadIdx.x % 32 == 0) slots[threadIdx.x / 32] = value;
  __syncthreads();
  value = slots[0];
  for (int k = 1; k < WARPS; ++k) value = MAXIMUM ? fmaxf(value, slots[k]) : value + slots[k];
  return value;
}

extern "C" __global__ void __launch_bounds__(THREADS) softmax(const float4* x, float4* y) {
  __shared__ float maxima[WARPS], sums[WARPS];
  float4 row[EACH];
  float maximum = __int_as_float(0xff800000), sum = 0;
  for (int k = 0; k < EACH; ++k) {
    int at = k * THREADS + threadIdx.x;
    if (at < VECTORS) {
      float4 v = row[k] = x[blockIdx.x * VECTORS + at];
      maximum = fmaxf(maximum, fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
    }
  }
  maximum = together<true>(maximum, maxima);
  for (int k = 0; k < EACH; ++k) {
    if (k * THREADS + threadIdx.x < VECTORS) {
      float4& v = row[k];
      v.x = __expf(v.x - maximum), v.y = __expf(v.y - maximum);
      v.z = __expf(v.z - maximum), v.w = __expf(v.w - maximum);
      sum += v.x + v.y + v.z + v.w;
    }
  }
  float share = 1 / together<false>(sum, sums);
  for (int k = 0; k < EACH; ++k) {
    int at = k * THREADS + threadIdx.x;
    float4 v = row[k];
    if (at < VECTORS) {
      y[blockIdx.x * VECTORS + at] = make_float4(v.x * share, v.y * share, v.z * share, v.w * share);
    }
  }
}
"""
THREADS = 256


class Nvrtc:
    def prepare(self) -> None:
        from cuda.bindings import nvrtc

        self.nvrtc = nvrtc
        self.done(nvrtc.nvrtcVersion())  # loads the library

    def done(self, answer: tuple[Any, ...]) -> Any:
        code, *values = answer
        if int(code):
            raise RuntimeError(str(code))
        return values[0] if values else None

    def compiled(self, columns: int, architecture: str) -> Any:
        options = [f"--gpu-architecture={architecture}", f"-DCOLUMNS={columns}", f"-DTHREADS={THREADS}"]
        flags = [option.encode() for option in options]
        program = self.done(self.nvrtc.nvrtcCreateProgram(CUDA_TEXT.encode(), b"softmax.cu", 0, [], []))
        self.done(self.nvrtc.nvrtcCompileProgram(program, len(flags), flags))
        return program

    def ptx(self, columns: int) -> tuple[str, Split]:
        program = self.compiled(columns, f"compute_{ARCHITECTURE}")
        text = b" " * self.done(self.nvrtc.nvrtcGetPTXSize(program))
        self.done(self.nvrtc.nvrtcGetPTX(program, text))
        return text.decode(), {}

    def open(self) -> None:
        import pycuda.driver as cuda

        cuda.init()
        self.cuda = cuda
        cuda.Device(0).retain_primary_context().push()
        atexit.register(cuda.Context.pop)  # PyCUDA ends the process in error where one is left

    def result(self, columns: int, x: Any) -> Callable[[], tuple[float, Any]]:
        device_x, out = arrays(x)

        def run() -> tuple[float, Any]:
            program = self.compiled(columns, f"sm_{ARCHITECTURE}")
            code = b" " * self.done(self.nvrtc.nvrtcGetCUBINSize(program))
            self.done(self.nvrtc.nvrtcGetCUBIN(program, code))
            module = self.cuda.module_from_buffer(code)
            module.get_function("softmax")(device_x, out, block=(THREADS, 1, 1), grid=(ROWS, 1))
            self.cuda.Context.synchronize()
            return time.monotonic(), out.get()

        return run


class Cupy:
    """NVRTC as users of CuPy have it, with the options and headers that CuPy gives it."""

    def prepare(self) -> None:
        os.environ["CUPY_COMPILE_WITH_PTX"] = "1"  # it makes cubins else
        import cupy
        from cupy.cuda import compiler

        self.cupy, self.compiler = cupy, compiler
        self.cupy.cuda.runtime.getDeviceCount()

    def options(self, columns: int) -> tuple[str, ...]:
        return (f"-DCOLUMNS={columns}", f"-DTHREADS={THREADS}")

    def ptx(self, columns: int) -> tuple[str, Split]:
        options = self.options(columns)
        text = self.compiler.compile_using_nvrtc(CUDA_TEXT, options, str(ARCHITECTURE))[0]
        return text.decode() if isinstance(text, bytes) else str(text), {}

    def open(self) -> None:
        self.cupy.zeros(1)

    def result(self, columns: int, x: Any) -> Callable[[], tuple[float, Any]]:
        device_x = self.cupy.asarray(x)
        out = self.cupy.zeros_like(device_x)
        self.cupy.cuda.get_current_stream().synchronize()

        def run() -> tuple[float, Any]:
            module = self.cupy.RawModule(code=CUDA_TEXT, options=self.options(columns))
            module.get_function("softmax")((ROWS,), (THREADS,), (device_x, out))
            self.cupy.cuda.get_current_stream().synchronize()
            return time.monotonic(), out.get()

        return run


# --- Triton ------------------------------------------------------------------------------------


class Triton:
    """Its own pipeline goes on to ptxas; the PTX is there when that begins."""

    def prepare(self) -> None:
        import torch
        import triton_softmax
        from triton.backends.nvidia.compiler import CUDABackend

        self.torch, self.kernel = torch, triton_softmax.softmax_columns
        torch.cuda.init()
        assemble = CUDABackend.make_cubin

        def noted(backend: Any, text: Any, *rest: Any, **named: Any) -> Any:
            self.text, self.at = text, time.perf_counter()
            return assemble(backend, text, *rest, **named)

        CUDABackend.make_cubin = noted

    def ptx(self, columns: int) -> tuple[str, Split]:
        started = time.perf_counter()
        dtype = self.torch.float32
        self.kernel.warmup(dtype, dtype, **constants(columns), grid=(ROWS,))
        return str(self.text), {"to PTX": self.at - started}

    def open(self) -> None:
        self.torch.zeros(1, device="cuda")

    def result(self, columns: int, x: Any) -> Callable[[], tuple[float, Any]]:
        device_x = self.torch.from_numpy(x).cuda()
        out = self.torch.empty_like(device_x)
        self.torch.cuda.synchronize()

        def run() -> tuple[float, Any]:
            self.kernel[(ROWS,)](device_x, out, **constants(columns))
            self.torch.cuda.synchronize()
            return time.monotonic(), out.cpu().numpy()

        return run


def constants(columns: int) -> dict[str, int]:
    """Of Triton's kernel: a block is a power of two."""
    return {"columns": columns, "block": 1 << (columns - 1).bit_length(), "num_warps": 4}


# --- what all share ----------------------------------------------------------------------------

TOOLS: dict[str, Callable[[], Tool]] = {"vyre-opt": Vyre, "NVRTC": Nvrtc, "CuPy": Cupy, "Triton": Triton}


class LapTimer:
    """Seconds between laps, by name."""

    def __init__(self) -> None:
        self.laps: Split = {}
        self.last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = now - self.last
        self.last = now


def arrays(x: Any) -> tuple[Any, Any]:
    """`x` and room for its softmax on the GPU, flat, as PyCUDA's; the context is current."""
    from pycuda import gpuarray

    return gpuarray.to_gpu(x.reshape(-1)), gpuarray.zeros(x.size, x.dtype)


def compile_all(tool: Tool) -> dict[str, Any]:
    """Seconds to PTX for each number of columns; `ready`: when the first was there, by the system's clock."""
    seconds, splits, ready = [], [], 0.0
    for columns in COLUMNS:
        started = time.perf_counter()
        text, split = tool.ptx(columns)
        seconds.append(split.pop("to PTX", time.perf_counter() - started))
        ready = ready or time.monotonic()
        splits.append(split)
        if ".entry softmax" not in text:
            sys.exit("this is no PTX of the softmax")
    return {"ready": ready, "ptx": seconds, "splits": splits}


def launch_all(tool: Tool) -> dict[str, Any]:
    """Seconds from the text to a result on the GPU, compiled anew each time, and the largest relative error."""
    import numpy as np

    tool.open()
    seconds, errors = [], []
    draw = np.random.default_rng(1)
    for columns in LAUNCHED:
        x = draw.standard_normal((ROWS, columns), np.float32)
        run = tool.result(columns, x)
        started = time.monotonic()
        done, y = run()
        seconds.append(done - started)
        powers = np.exp(x.astype(np.float64))
        expected = powers / powers.sum(axis=1, keepdims=True)
        errors.append(float(np.abs(y.reshape(x.shape) / expected - 1).max()))
    return {"launch": seconds, "error": max(errors)}


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parent))
    tool = TOOLS[sys.argv[1]]()
    tool.prepare()
    imported = time.monotonic()
    result = {"imported": imported, **compile_all(tool)}
    if "--launch" in sys.argv:
        result |= launch_all(tool)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
