"""A case as run.py reads it: both PTX texts of each program, and what each of its launches passes to them.

    {"kind": ..., "name": ...,
     "buffers": [{"name": ..., "key": of its bytes in arrays.npz, "type": of an element, "is_output": ...,
                  "tolerance": key of the largest differences, as f64, or null}, ...],
     "ours": {"ptx": [text, ...], "launches": [{"ptx": number, "symbol": ..., "grid": [x, y, z], "block": [x, y, z],
                                                "shared": bytes, "args": [...]}, ...]},
     "theirs": the same}

An argument is ["buffer", number], ["zeros", bytes] or ["word", value, bytes].
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from vyre_opt.lowering.nvptx.abi import RECORD_BYTES, EntryPoint, KernelParam, Unit, storage_buffers
from vyre_opt.lowering.nvptx.kernel import lower
from vyre_opt.lowering.nvptx.ptx import emit_ptx
from vyre_opt.lowering.nvptx.targets import GPUS

from .cases import Case, ProgramLaunch

__all__ = ["PTX_VERSION", "record"]

Array = np.ndarray[Any, Any]
Argument = list[Any]

PTX_VERSION = (8, 1)
SCRATCH_BYTES = 1 << 22
"""For a pointer of ours that is to no buffer of the program."""


def record(
    case: Case, theirs: dict[str, str], chip: str, key: str, arrays: dict[str, Array]
) -> dict[str, Any]:
    """`theirs`: mlir-opt's PTX by program.  The contents of buffers go into `arrays`, by keys that begin with `key`."""
    buffers = []
    for number, storage in enumerate(case.storage.values()):
        tolerance = None if storage.tolerance is None else f"{key}.{number}.tolerance"
        buffers.append(
            {
                "name": storage.name,
                "key": f"{key}.{number}",
                "is_output": storage.is_output,
                "type": storage.dtype.element.name,
                "tolerance": tolerance,
            }
        )
        if tolerance is not None:
            arrays[tolerance] = np.asarray(storage.tolerance, np.float64)
        arrays[f"{key}.{number}"] = storage.contents.view(np.uint8).reshape(-1)
    programs = {launch.program.name: launch.program for launch in case.launches}
    order = list(programs)
    target = GPUS[chip]
    lowered = {name: lower([Unit(program, case.module)], target) for name, program in programs.items()}
    return {
        "kind": case.kind,
        "name": case.name,
        "buffers": buffers,
        "ours": {
            "ptx": [emit_ptx(lowered[name], target, PTX_VERSION) for name in order],
            "launches": [
                _own_launch(case, launch, lowered[launch.program.name].kernels[0], order)
                for launch in case.launches
            ],
        },
        "theirs": {
            "ptx": [theirs[name] for name in order],
            "launches": [
                _their_launch(case, launch, theirs[launch.program.name], order) for launch in case.launches
            ],
        },
    }


def _launch(launch: ProgramLaunch, order: list[str]) -> dict[str, Any]:
    """What is the same on both sides."""
    number = order.index(launch.program.name)
    return {"ptx": number, "grid": list(launch.grid), "block": list(launch.program.workgroup)}


def _words(launch: ProgramLaunch) -> dict[str, int]:
    return {p.name: launch.params.get(p.name, p.default or 0) for p in launch.program.params.values()}


# --- ours


def _own_launch(case: Case, launch: ProgramLaunch, entry: EntryPoint, order: list[str]) -> dict[str, Any]:
    return _launch(launch, order) | {
        "symbol": entry.symbol,
        "shared": entry.dynamic_shared,
        "args": [_own_argument(case, launch, param) for param in entry.params],
    }


def _own_argument(case: Case, launch: ProgramLaunch, param: KernelParam) -> Argument:
    names = dict(zip([b.name for b in storage_buffers(launch.program)], launch.storage, strict=True))
    if param.kind == "buffer":
        if param.name not in names:
            return ["zeros", SCRATCH_BYTES]
        return ["buffer", list(case.storage).index(names[param.name])]
    if param.kind == "length":
        return ["word", int(np.prod(case.storage[names[param.name]].shape)), 8]
    if param.kind == "scalar":
        if param.name.startswith("~"):  # the open extent of a buffer of several dimensions
            buffer, _, dimension = param.name[1:].rpartition(".")
            return ["word", case.storage[names[buffer]].shape[int(dimension)], 8]
        return ["word", _words(launch)[param.name] % (1 << 64), 8]
    if param.kind == "status":
        return ["zeros", RECORD_BYTES]
    assert param.kind == "call", param.kind
    return ["word", 1, 8]


# --- mlir-opt's


def _their_launch(case: Case, launch: ProgramLaunch, ptx: str, order: list[str]) -> dict[str, Any]:
    return _launch(launch, order) | {
        "symbol": re.findall(r"\.visible \.entry (\w+)", ptx)[0],
        "shared": 0,
        "args": _their_arguments(case, launch),
    }


def _their_arguments(case: Case, launch: ProgramLaunch) -> list[Argument]:
    """A descriptor for each memref: two pointers, an offset, extents and strides; then the scalars by name."""
    args: list[Argument] = []
    for name, buffer in zip(launch.storage, storage_buffers(launch.program), strict=True):
        place = list(case.storage).index(name)
        shape = case.storage[name].shape
        extents = [*shape, *([buffer.dtype.lanes] if buffer.dtype.is_vec else [])]
        strides = [int(np.prod(extents[number + 1 :])) for number in range(len(extents))]
        args += [["buffer", place], ["buffer", place], ["word", 0, 8]]
        args += [["word", int(number), 8] for number in (*extents, *strides)]
    words = _words(launch)
    for name in sorted(launch.program.params):
        size = launch.program.params[name].dtype.size_bytes or 1
        args.append(["word", words[name] % (1 << 8 * size), size])
    return args
