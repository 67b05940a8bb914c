"""Runs both PTX texts of each program that was written to a folder, and compares their outputs bit by bit.

    python test/support/mlir_device/run.py FOLDER [--jobs 8]

Needs NumPy and the GPU's driver, which it calls by ctypes.  Exit code 1 if any program differs in more than the bits of a
NaN, which the language leaves open, or does not load or run.
"""

from __future__ import annotations

import argparse
import ctypes
import gzip
import json
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

LOG_BYTES = 4096
FLOAT_EXPONENTS = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF0000000000000}
"""The bits of an infinity; a larger magnitude is a NaN."""

FLOAT_BYTES = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}


class DriverError(Exception):
    """A call of the driver failed."""


class Driver:
    """The calls of libcuda that a launch takes, on the first GPU."""

    def __init__(self) -> None:
        self.lib = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self.make_current()
        name = ctypes.create_string_buffer(128)
        self.call("cuDeviceGetName", name, 128, device)
        self.device_name = name.value.decode()

    def call(self, name: str, *args: Any) -> None:
        code = getattr(self.lib, name)(*args)
        if code:
            text = ctypes.c_char_p()
            self.lib.cuGetErrorName(code, ctypes.byref(text))
            raise DriverError(f"{name}: {(text.value or b'').decode() or code}")

    def make_current(self) -> None:
        """Of the calling thread."""
        self.call("cuCtxSetCurrent", self.context)

    def load(self, ptx: str) -> ctypes.c_void_p:
        """The module of a PTX text.  Raises DriverError with the assembler's words."""
        module, log = ctypes.c_void_p(), ctypes.create_string_buffer(LOG_BYTES)
        # CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
        options = (ctypes.c_int * 2)(5, 6)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), LOG_BYTES)
        try:
            self.call("cuModuleLoadDataEx", ctypes.byref(module), ptx.encode() + b"\0", 2, options, values)
        except DriverError as error:
            words = log.value.decode(errors="replace").strip().partition("\n")[0]
            raise DriverError(f"{error}: {words}") from None
        return module


class Memory:
    """Buffers on the GPU that are freed together."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.pointers: list[ctypes.c_uint64] = []

    def zeros(self, size: int) -> ctypes.c_uint64:
        pointer = ctypes.c_uint64()
        self.driver.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(size, 16)))
        self.driver.call("cuMemsetD8_v2", pointer, ctypes.c_ubyte(0), ctypes.c_size_t(max(size, 16)))
        self.pointers.append(pointer)
        return pointer

    def copy(self, content: np.ndarray[Any, Any]) -> ctypes.c_uint64:
        pointer = self.zeros(content.size)
        if content.size:
            source = ctypes.c_void_p(content.ctypes.data)
            self.driver.call("cuMemcpyHtoD_v2", pointer, source, ctypes.c_size_t(content.size))
        return pointer

    def read(self, pointer: ctypes.c_uint64, size: int) -> np.ndarray[Any, Any]:
        content = np.empty(size, np.uint8)
        if size:
            target = ctypes.c_void_p(content.ctypes.data)
            self.driver.call("cuMemcpyDtoH_v2", target, pointer, ctypes.c_size_t(size))
        return content

    def free(self) -> None:
        for pointer in self.pointers:
            self.driver.lib.cuMemFree_v2(pointer)


def outputs(
    driver: Driver, case: dict[str, Any], kernel: dict[str, Any], module: ctypes.c_void_p, arrays: Any
) -> list[np.ndarray[Any, Any]]:
    """The bytes of each output buffer after one launch."""
    function = ctypes.c_void_p()
    driver.call("cuModuleGetFunction", ctypes.byref(function), module, kernel["symbol"].encode())
    if kernel["shared"]:  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        driver.call("cuFuncSetAttribute", function, 8, kernel["shared"])
    memory = Memory(driver)
    try:
        pointers = [memory.copy(np.ascontiguousarray(arrays[b["key"]])) for b in case["buffers"]]
        args = [_argument(arg, pointers, memory) for arg in kernel["args"]]
        packed = (ctypes.c_void_p * max(len(args), 1))(*(ctypes.addressof(arg) for arg in args))
        launch = [*case["grid"], *case["block"], kernel["shared"]]
        driver.call("cuLaunchKernel", function, *launch, None, packed, None)
        driver.call("cuCtxSynchronize")
        return [
            memory.read(pointer, arrays[b["key"]].size)
            for pointer, b in zip(pointers, case["buffers"], strict=True)
            if b["is_output"]
        ]
    finally:
        memory.free()


def _argument(arg: list[Any], pointers: list[ctypes.c_uint64], memory: Memory) -> Any:
    kind, value = arg[0], arg[1]
    if kind == "buffer":
        return pointers[value]
    if kind == "zeros":
        return memory.zeros(value)
    return {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32, 8: ctypes.c_uint64}[arg[2]](value)


def compared(case: dict[str, Any], ours: list[Any], theirs: list[Any]) -> str:
    """ "equal", "equal but for NaNs", or where two runs differ."""
    verdict = "equal"
    written = [b for b in case["buffers"] if b["is_output"]]
    for buffer, a, b in zip(written, ours, theirs, strict=True):
        if np.array_equal(a, b):
            continue
        infinity = FLOAT_EXPONENTS.get(buffer["type"])
        size = FLOAT_BYTES.get(buffer["type"], 1)
        words = np.dtype(f"u{size}")
        x, y = a.view(words), b.view(words)
        unequal = x != y
        if infinity is not None:
            magnitude = words.type((1 << (8 * size - 1)) - 1)
            unequal &= ~(((x & magnitude) > infinity) & ((y & magnitude) > infinity))
        places = np.flatnonzero(unequal)
        if len(places):
            at = places[0]
            return f"@{buffer['name']}[{at}]: ours 0x{x[at]:x}, theirs 0x{y[at]:x} ({len(places)} of {x.size} differ)"
        verdict = "equal but for NaNs"
    return verdict


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=8, metavar="N", help="texts that are assembled at a time")
    options = parser.parse_args()
    records = json.loads(gzip.decompress((options.folder / "cases.json.gz").read_bytes()))
    driver = Driver()
    started = time.monotonic()

    def load(case: dict[str, Any]) -> Any:
        driver.make_current()
        try:
            return [driver.load(case[side]["ptx"]) for side in ("ours", "theirs")]
        except DriverError as error:
            return error

    verdicts: Counter[str] = Counter()
    with np.load(options.folder / "arrays.npz") as arrays, ThreadPoolExecutor(options.jobs) as pool:
        for case, loaded in zip(records, pool.map(load, records), strict=True):
            verdict = _verdict(driver, case, loaded, arrays)
            known = verdict if verdict.startswith("equal") else "different"
            verdicts[known] += 1
            if known == "different":
                print(f"{case['name']}: {verdict}", flush=True)
            if "ILLEGAL" in verdict or "LAUNCH_FAILED" in verdict or "ASSERT" in verdict:
                print("the GPU's context is lost with that; what follows was not run")
                break
    total = ", ".join(f"{count} {what}" for what, count in sorted(verdicts.items()))
    print(
        f"{len(records)} programs on {driver.device_name}, ours and mlir-opt's PTX: {total}; {time.monotonic() - started:.0f} s"
    )
    return int(sum(verdicts.values()) != len(records) or verdicts["different"] > 0)


def _verdict(driver: Driver, case: dict[str, Any], loaded: Any, arrays: Any) -> str:
    if isinstance(loaded, DriverError):
        return f"does not load: {loaded}"
    try:
        results = [
            outputs(driver, case, case[side], module, arrays)
            for side, module in zip(("ours", "theirs"), loaded, strict=True)
        ]
    except DriverError as error:
        return f"does not run: {error}"
    finally:
        for module in loaded:
            driver.lib.cuModuleUnload(module)
    return compared(case, *results)


if __name__ == "__main__":
    sys.exit(main())
