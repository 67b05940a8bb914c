"""Runs both PTX texts of each program that was written to a folder, and compares their outputs bit by bit.

    python test/support/mlir_device/run.py FOLDER [--jobs 12]

Needs NumPy and the GPU's driver, which it calls by ctypes.  A line for each case says whether the two agree; those that
do not come last, before the totals.  Exit code 1 if any case differs in more than the bits of a NaN, which the language
leaves open, or does not load or run.  Kernels whose sums are added in an order that depends on timing, so that two runs of
one text differ, too, agree if they differ by no more than rounding allows; they are counted apart.

Cases run in processes of their own, some tens in each: one that loses the GPU's context, or takes too long, ends
its process, and those after it go on in the next.  It is tried once more, alone.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import lzma
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

LOG_BYTES = 4096
FLOAT_EXPONENTS = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF0000000000000}
"""The bits of an infinity; a larger magnitude is a NaN."""

FLOAT_BYTES = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}

BATCH = 24
"""Cases of one process."""

SECONDS = 45
"""The most that one case may take."""

SIDES = ("ours", "theirs")

SAME = "agree in every bit"
SAME_NUMBERS = "agree but for the bits of NaNs"
SAME_BUT_ROUNDING = "agree but for the rounding of sums whose order depends on timing"
AGREEING = (SAME, SAME_NUMBERS, SAME_BUT_ROUNDING)
DIFFERENT = "differ"
FAILED = "fail"
LOST = "took its process with it"

Array = np.ndarray[Any, Any]
Verdict = tuple[str, str]
"""One of the words above, and more about it."""


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
        self.call("cuCtxSetCurrent", self.context)
        name = ctypes.create_string_buffer(128)
        self.call("cuDeviceGetName", name, 128, device)
        self.device_name = name.value.decode()

    def call(self, name: str, *args: Any) -> None:
        code = getattr(self.lib, name)(*args)
        if code:
            text = ctypes.c_char_p()
            self.lib.cuGetErrorName(code, ctypes.byref(text))
            raise DriverError(f"{name}: {(text.value or b'').decode() or code}")

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
        self.pointers.append(pointer)
        self.driver.call("cuMemsetD8_v2", pointer, ctypes.c_ubyte(0), ctypes.c_size_t(max(size, 16)))
        return pointer

    def copy(self, contents: Array) -> ctypes.c_uint64:
        pointer = self.zeros(contents.size)
        if contents.size:
            source = ctypes.c_void_p(contents.ctypes.data)
            self.driver.call("cuMemcpyHtoD_v2", pointer, source, ctypes.c_size_t(contents.size))
        return pointer

    def read(self, pointer: ctypes.c_uint64, size: int) -> Array:
        contents = np.empty(size, np.uint8)
        if size:
            target = ctypes.c_void_p(contents.ctypes.data)
            self.driver.call("cuMemcpyDtoH_v2", target, pointer, ctypes.c_size_t(size))
        return contents

    def free(self) -> None:
        for pointer in self.pointers:
            self.driver.lib.cuMemFree_v2(pointer)


# --- one case


def verdict(
    driver: Driver, case: dict[str, Any], contents: list[Array], tolerances: list[Array | None]
) -> Verdict:
    """What comes of a case.  `contents`: of each buffer before the first launch; `tolerances` as for `compared`."""
    after: list[list[Array]] = []
    for side in SIDES:
        try:
            after.append(outputs(driver, case[side], contents))
        except DriverError as error:
            return FAILED, f"{side}: {error}"
    ours, theirs = after
    result = compared(case["buffers"], ours, theirs, tolerances)
    written = any(
        buffer["is_output"] and not np.array_equal(a, before)
        for buffer, a, before in zip(case["buffers"], after[0], contents, strict=True)
    )
    return result if written else (result[0], (result[1] + " (it changed no output)").strip())


def outputs(driver: Driver, side: dict[str, Any], contents: list[Array]) -> list[Array]:
    """The bytes of each buffer after all launches of one side."""
    modules: list[ctypes.c_void_p] = []
    memory = Memory(driver)
    try:
        modules += map(driver.load, side["ptx"])
        pointers = [memory.copy(array) for array in contents]
        for launch in side["launches"]:
            run(driver, launch, modules[launch["ptx"]], pointers, memory)
        driver.call("cuCtxSynchronize")
        return [memory.read(pointer, array.size) for pointer, array in zip(pointers, contents, strict=True)]
    finally:
        memory.free()
        for module in modules:
            driver.lib.cuModuleUnload(module)


def run(
    driver: Driver, launch: dict[str, Any], module: ctypes.c_void_p, pointers: list[Any], memory: Memory
) -> None:
    """Begin one launch."""
    function, shared = ctypes.c_void_p(), launch["shared"]
    driver.call("cuModuleGetFunction", ctypes.byref(function), module, launch["symbol"].encode())
    if shared:  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        driver.call("cuFuncSetAttribute", function, 8, shared)
    args = [argument(arg, pointers, memory) for arg in launch["args"]]
    packed = (ctypes.c_void_p * max(len(args), 1))(*(ctypes.addressof(arg) for arg in args))
    driver.call("cuLaunchKernel", function, *launch["grid"], *launch["block"], shared, None, packed, None)


def argument(arg: list[Any], pointers: list[Any], memory: Memory) -> Any:
    kind, value = arg[0], arg[1]
    if kind == "buffer":
        return pointers[value]
    if kind == "zeros":
        return memory.zeros(value)
    return {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32, 8: ctypes.c_uint64}[arg[2]](value)


def compared(
    buffers: list[dict[str, Any]], ours: list[Array], theirs: list[Array], tolerances: list[Array | None]
) -> Verdict:
    """Whether two runs left the same in the outputs, or the first place where they differ.

    `tolerances`: of each buffer the largest difference of each element, None where every bit counts.
    """
    result = SAME
    for buffer, a, b, tolerance in zip(buffers, ours, theirs, tolerances, strict=True):
        if not buffer["is_output"] or np.array_equal(a, b):
            continue
        infinity = FLOAT_EXPONENTS.get(buffer["type"])
        size = FLOAT_BYTES.get(buffer["type"], 1)
        words = np.dtype(f"u{size}")
        x, y = a.view(words), b.view(words)
        unequal = x != y
        if infinity is not None:
            magnitude = words.type((1 << (8 * size - 1)) - 1)
            unequal &= ~(((x & magnitude) > infinity) & ((y & magnitude) > infinity))
        word = SAME_NUMBERS
        if tolerance is not None and unequal.any():
            word = SAME_BUT_ROUNDING
            floats = np.dtype(f"f{size}")
            with np.errstate(invalid="ignore"):  # of two infinities
                unequal &= ~(np.abs(a.view(floats).astype("f8") - b.view(floats)) <= tolerance)
        places = np.flatnonzero(unequal)
        if len(places):
            at = places[0]
            what = f"ours 0x{x[at]:x}, theirs 0x{y[at]:x} ({len(places)} of {x.size})"
            return DIFFERENT, f"@{buffer['name']}[{at}]: {what}"
        result = max(result, word, key=AGREEING.index)
    return result, ""


# --- the process of a batch


def work(folder: Path, numbers: list[int]) -> None:
    """Print a line of JSON before each case and one after it: [number] and [number, verdict]."""
    records = read_cases(folder)
    driver = Driver()
    print(json.dumps(driver.device_name), flush=True)
    with np.load(folder / "arrays.npz") as arrays:
        for number in numbers:
            print(json.dumps([number]), flush=True)
            signal.alarm(SECONDS)  # ends this process, also in a call of the driver
            contents = [np.ascontiguousarray(arrays[b["key"]]) for b in records[number]["buffers"]]
            tolerances = [
                arrays[b["tolerance"]] if b["tolerance"] else None for b in records[number]["buffers"]
            ]
            result = verdict(driver, records[number], contents, tolerances)
            print(json.dumps([number, result]), flush=True)
            if result[0] == FAILED:  # its context may be lost, which later calls would report for others
                return


def batch_verdicts(folder: Path, numbers: list[int]) -> Iterator[tuple[int, Verdict]]:
    """The verdicts of some cases, by as many processes one after another as that takes."""
    missing = list(numbers)
    while missing:
        command = [sys.executable, __file__, str(folder), "--cases", ",".join(map(str, missing))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
        results = {line[0]: (line[1][0], line[1][1]) for line in lines if len(line) == 2}
        yield from results.items()
        missing = [number for number in missing if number not in results]
        if missing and (not results or [missing[0]] in lines):
            words = (done.stderr.strip().splitlines() or [""])[-1]
            yield missing.pop(0), (LOST, f"{'too slow' if done.returncode == -signal.SIGALRM else words}")


# --- all of them


def read_cases(folder: Path) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads(lzma.decompress((folder / "cases.json.xz").read_bytes()))
    return cases


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=12, metavar="N", help="processes at a time")
    parser.add_argument("--cases", metavar="N,N", help="in this process, those of these numbers")
    options = parser.parse_args()
    if options.cases:
        work(options.folder, [int(number) for number in options.cases.split(",")])
        return 0
    started = time.monotonic()
    records = read_cases(options.folder)
    try:
        device = Driver().device_name
    except (OSError, DriverError) as error:
        print(f"error: no GPU can be used: {error}", file=sys.stderr)
        return 1
    batches = [list(range(len(records)))[at : at + BATCH] for at in range(0, len(records), BATCH)]
    verdicts: dict[int, Verdict] = {}
    with ThreadPoolExecutor(options.jobs) as pool:
        for results in pool.map(lambda batch: list(batch_verdicts(options.folder, batch)), batches):
            verdicts.update(results)
        suspects = [[number] for number, (word, _) in verdicts.items() if word in (FAILED, LOST)]
        for results in pool.map(lambda batch: list(batch_verdicts(options.folder, batch)), suspects):
            verdicts.update(results)
    return report(records, verdicts, f"{device}, {time.monotonic() - started:.0f} s")


def report(records: list[dict[str, Any]], verdicts: dict[int, Verdict], where: str) -> int:
    """Print a line for each case, those that agree first, and totals; the exit code."""
    order = sorted(verdicts, key=lambda number: (verdicts[number][0] not in AGREEING, number))
    totals: dict[str, Counter[str]] = {}
    for number in order:
        case, (word, more) = records[number], verdicts[number]
        totals.setdefault(case["kind"], Counter())[word] += 1
        word = "ok" if word == SAME else word
        print(f"{word}: {case['kind']} {case['name']}{': ' * bool(more)}{more}")
    for kind, counts in totals.items():
        parts = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
        print(f"{counts.total()} of the kind {kind}, ours and mlir-opt's PTX: {parts}")
    agree = sum(word in AGREEING for word, _ in verdicts.values())
    print(f"{agree} of {len(records)} agree; {where}")
    return int(agree != len(records))


if __name__ == "__main__":
    sys.exit(main())
