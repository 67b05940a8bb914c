"""Writes programs as our PTX and as that of mlir-opt, with inputs, for run.py."""

from __future__ import annotations

import argparse
import gzip
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from vyre_opt.ir.diagnostics import DiagnosticError
from vyre_opt.ir.program import Program
from vyre_opt.lowering.nvptx.abi import RECORD_BYTES, EntryPoint, KernelParam, Unit, storage_buffers
from vyre_opt.lowering.nvptx.kernel import lower
from vyre_opt.lowering.nvptx.ptx import emit_ptx
from vyre_opt.lowering.nvptx.targets import GPUS, STATIC_SHARED_BYTES
from vyre_opt.mlir.emit import emit_mlir
from vyre_opt.runtime.arrays import storage_type

from .assembly import assembly
from .cases import Case, cases

BATCH = 64
"""Modules of one call of mlir-opt."""

PIPELINE = "--gpu-lower-to-nvvm-pipeline=cubin-chip={chip} cubin-features=+ptx80 cubin-format=isa"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m support.mlir_device", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--random", type=int, default=0, metavar="N", help="random programs, by seed from 0 on"
    )
    parser.add_argument("--ops", type=int, default=0, metavar="N", help="every N-th program of one op")
    parser.add_argument(
        "--kernels", type=int, default=0, metavar="N", help="every N-th case of the shipped kernels"
    )
    parser.add_argument("--chip", default="sm_90")
    parser.add_argument("--mlir-opt", default="mlir-opt-19", metavar="PROGRAM")
    options = parser.parse_args()
    if shutil.which(options.mlir_opt) is None:
        print(f"error: there is no {options.mlir_opt} on the PATH", file=sys.stderr)
        return 1
    left_out: Counter[str] = Counter()
    chosen: list[tuple[Case, str]] = []
    for case in cases(options.random, options.ops, options.kernels):
        reason = _why_not(case)
        if not reason:
            try:
                chosen.append((case, emit_mlir(case.module)))
                continue
            except DiagnosticError as error:
                reason = error.diagnostics[0].message.partition(": ")[2]
        left_out[reason] += 1
    theirs = _assembled([text for _, text in chosen], options.mlir_opt, options.chip)
    options.folder.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    records = []
    for number, ((case, _), ptx) in enumerate(zip(chosen, theirs, strict=True)):
        records.append(_record(case, ptx, options.chip, number, arrays))
    (options.folder / "cases.json.gz").write_bytes(gzip.compress(json.dumps(records).encode()))
    np.savez_compressed(options.folder / "arrays.npz", **arrays)  # type: ignore[arg-type]
    print(f"{len(records)} programs in {options.folder}")
    for reason, count in left_out.most_common():
        print(f"{count} left out: {reason}")
    return 0


def _why_not(case: Case) -> str:
    """Why a program cannot run from both texts; "" if it can."""
    tiles = sum(b.size_bytes or 0 for b in case.program.buffers.values() if b.is_workgroup)
    if tiles > STATIC_SHARED_BYTES:
        return "workgroup memory above 48 KiB, which mlir-opt allocates statically"
    if any(p.default is None and p.name not in case.params for p in case.program.params.values()):
        return "a runtime scalar without a value"
    return ""


def _assembled(texts: list[str], mlir_opt: str, chip: str) -> list[str]:
    """The PTX that mlir-opt makes of each module."""
    results: list[str] = []
    for start in range(0, len(texts), BATCH):
        batch = texts[start : start + BATCH]
        command = [mlir_opt, "--split-input-file", PIPELINE.format(chip=chip), "-"]
        done = subprocess.run(
            command, input="// -----\n".join(batch), capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{mlir_opt} failed:\n{done.stderr[:2000]}")
        found = assembly(done.stdout)
        assert len(found) == len(batch), f"{len(found)} kernels of {len(batch)} modules"
        results += found
    return results


# --- what run.py reads


def _record(
    case: Case, theirs: str, chip: str, number: int, arrays: dict[str, np.ndarray[Any, Any]]
) -> dict[str, Any]:
    """A case: its texts, the launch, and the arguments of each kernel."""
    program = case.program
    target = GPUS[chip]
    lowered = lower([Unit(program, case.module)], target)
    (entry,) = lowered.kernels
    ours = emit_ptx(lowered, target, (8, 1))
    by_name = dict(zip([b.name for b in program.bound_buffers], case.arrays, strict=True))
    storage, buffers = storage_buffers(program), []
    for place, buffer in enumerate(storage):
        dtype = storage_type(buffer.dtype)
        assert dtype is not None
        array = by_name.get(buffer.name)
        if array is None:
            array = np.zeros((buffer.count or 0) * buffer.dtype.lanes, dtype)
        key = f"{number}.{place}"
        arrays[key] = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
        element = buffer.dtype.element
        buffers.append({"name": buffer.name, "key": key, "is_output": buffer.is_output, "type": element.name})
    shapes = {b.name: _shape(b.shape, b.dtype.lanes, by_name.get(b.name)) for b in storage}
    words = {p.name: case.params.get(p.name, p.default or 0) for p in program.params.values()}
    return {
        "name": case.name,
        "grid": list(program.grid or case.grid),
        "block": list(program.workgroup),
        "buffers": buffers,
        "ours": {
            "ptx": ours,
            "symbol": entry.symbol,
            "shared": entry.dynamic_shared,
            "args": [_own_argument(param, entry, shapes, words) for param in entry.params],
        },
        "theirs": {
            "ptx": theirs,
            "symbol": re.findall(r"\.visible \.entry (\w+)", theirs)[0],
            "shared": 0,
            "args": _their_arguments(program, shapes, words),
        },
    }


def _shape(
    declared: tuple[int | None, ...], lanes: int, array: np.ndarray[Any, Any] | None
) -> tuple[int, ...]:
    """The extents of a buffer in elements, of which the array tells the open ones."""
    if None not in declared:
        return tuple(extent for extent in declared if extent is not None)
    assert array is not None
    if len(declared) == 1:
        return (array.size // lanes,)
    return tuple(array.shape[number] if extent is None else extent for number, extent in enumerate(declared))


def _own_argument(
    param: KernelParam, entry: EntryPoint, shapes: dict[str, tuple[int, ...]], words: dict[str, int]
) -> list[Any]:
    """An argument: ["buffer", number], ["zeros", bytes], or ["word", value, bytes]."""
    if param.kind == "buffer":
        return ["buffer", list(shapes).index(param.name)] if param.name in shapes else ["zeros", 1 << 22]
    if param.kind == "length":
        return ["word", int(np.prod(shapes[param.name])), 8]
    if param.kind == "scalar":
        if param.name.startswith("~"):  # the open extent of a buffer of several dimensions
            buffer, _, dimension = param.name[1:].rpartition(".")
            return ["word", shapes[buffer][int(dimension)], 8]
        return ["word", words[param.name] % (1 << 64), 8]
    if param.kind == "status":
        return ["zeros", RECORD_BYTES]
    assert param.kind == "call", param.kind
    return ["word", 1, 8]


def _their_arguments(
    program: Program, shapes: dict[str, tuple[int, ...]], words: dict[str, int]
) -> list[list[Any]]:
    """A descriptor for each memref: two pointers, an offset, extents and strides; then the scalars by name."""
    args: list[list[Any]] = []
    for place, buffer in enumerate(storage_buffers(program)):
        extents = [*shapes[buffer.name], *([buffer.dtype.lanes] if buffer.dtype.is_vec else [])]
        strides = [int(np.prod(extents[number + 1 :])) for number in range(len(extents))]
        args += [["buffer", place], ["buffer", place], ["word", 0, 8]]
        args += [["word", int(number), 8] for number in (*extents, *strides)]
    for name in sorted(program.params):
        dtype = program.params[name].dtype
        size = dtype.size_bytes or 1
        args.append(["word", words[name] % (1 << 8 * size), size])
    return args


if __name__ == "__main__":
    sys.exit(main())
