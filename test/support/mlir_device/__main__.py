"""Writes programs as our PTX and as that of mlir-opt, with inputs, for run.py."""

from __future__ import annotations

import argparse
import json
import lzma
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from support.mlir_texts import alone
from vyre_opt.ir import DiagnosticError, Program
from vyre_opt.lowering.nvptx.targets import STATIC_SHARED_BYTES
from vyre_opt.mlir.emit import emit_mlir

from .assembly import assembly
from .cases import RANDOM, Case, ProgramLaunch, cases
from .record import record

BATCH = 64
"""Cases of one call of mlir-opt."""

PIPELINE = "--gpu-lower-to-nvvm-pipeline=cubin-chip={chip} cubin-features=+ptx80 cubin-format=isa"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m support.mlir_device", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--random", type=int, default=0, metavar="N", help="N random programs that MLIR has the ops for"
    )
    parser.add_argument("--ops", type=int, default=0, metavar="N", help="every N-th program of one op")
    parser.add_argument(
        "--kernels", type=int, default=0, metavar="N", help="every N-th case of the shipped kernels"
    )
    parser.add_argument(
        "--pipelines", action="store_true", help="the examples' pipelines, as written and after the passes"
    )
    parser.add_argument("--chip", default="sm_90")
    parser.add_argument("--mlir-opt", default="mlir-opt-19", metavar="PROGRAM")
    options = parser.parse_args()
    if shutil.which(options.mlir_opt) is None:
        print(f"error: there is no {options.mlir_opt} on the PATH", file=sys.stderr)
        return 1
    left_out: Counter[str] = Counter()
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    records: list[dict[str, Any]] = []
    missing = options.random
    for case, theirs in _compiled(options, left_out):
        if case.kind == RANDOM:
            missing -= 1
            if missing < 0:
                break
        records.append(record(case, theirs, options.chip, str(len(records)), arrays))
    options.folder.mkdir(parents=True, exist_ok=True)
    (options.folder / "cases.json.xz").write_bytes(lzma.compress(json.dumps(records).encode()))
    np.savez_compressed(options.folder / "arrays.npz", **arrays)  # type: ignore[arg-type]
    for kind, count in Counter(written["kind"] for written in records).items():
        print(f"{count} of the kind {kind} in {options.folder}")
    for reason, count in left_out.most_common():
        print(f"{count} left out: {reason}")
    return 0


def _compiled(options: argparse.Namespace, left_out: Counter[str]) -> Iterator[tuple[Case, dict[str, str]]]:
    """The cases with mlir-opt's PTX of each of their programs, random ones without end if there are any.

    Counts in `left_out` those that have none, by the reason.
    """
    written = _written(options, left_out)
    size = min(BATCH, options.random or BATCH)
    while batch := list(islice(written, size)):
        texts = [text for _, by_program in batch for text in by_program.values()]
        assembled = iter(_assembled(texts, options.mlir_opt, options.chip))
        for case, by_program in batch:
            theirs = {name: next(assembled) for name in by_program}
            failures = [ptx for ptx in theirs.values() if isinstance(ptx, Failure)]
            if failures:
                left_out[f"{case.kind}: {options.mlir_opt} ends with {failures[0].message!r}"] += 1
            else:
                yield case, {name: str(ptx) for name, ptx in theirs.items()}


def _written(options: argparse.Namespace, left_out: Counter[str]) -> Iterator[tuple[Case, dict[str, str]]]:
    """The cases with MLIR's text of each of their programs."""
    for case in cases(options.ops, options.kernels, options.pipelines, options.random > 0):
        reason = next(filter(None, map(_why_not, case.launches)), "")
        if not reason:
            try:
                programs = {launch.program.name: launch.program for launch in case.launches}
                texts = {name: emit_mlir(alone(case.module, program)) for name, program in programs.items()}
            except DiagnosticError as error:
                reason = error.diagnostics[0].message.partition(": ")[2]
        if reason:
            left_out[f"{case.kind}: {reason}"] += 1
        else:
            yield case, texts


def _why_not(launch: ProgramLaunch) -> str:
    """Why a program cannot run from both texts; "" if it can."""
    program: Program = launch.program
    tiles = sum(b.size_bytes or 0 for b in program.buffers.values() if b.is_workgroup)
    if tiles > STATIC_SHARED_BYTES:
        return "workgroup memory above 48 KiB, which mlir-opt allocates statically"
    if any(p.default is None and p.name not in launch.params for p in program.params.values()):
        return "a runtime scalar without a value"
    return ""


@dataclass(frozen=True, slots=True)
class Failure:
    """mlir-opt does not compile a module."""

    message: str


def _assembled(texts: list[str], mlir_opt: str, chip: str) -> list[str | Failure]:
    """The PTX that mlir-opt makes of each module.  Of modules that it fails at, halves are tried."""
    command = [mlir_opt, "--split-input-file", PIPELINE.format(chip=chip), "-"]
    done = subprocess.run(
        command, input="// -----\n".join(texts), capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        kernels = assembly(done.stdout)
        assert len(kernels) == len(texts), f"{len(kernels)} kernels of {len(texts)} modules"
        return [*kernels]
    if len(texts) == 1:
        words = re.search(r"(?:LLVM ERROR|error): (.*)", done.stderr)
        what = re.sub(r"0x\w+: ", "", words[1]) if words else f"exit code {done.returncode}"
        return [Failure(what)]
    half = len(texts) // 2
    return _assembled(texts[:half], mlir_opt, chip) + _assembled(texts[half:], mlir_opt, chip)


if __name__ == "__main__":
    sys.exit(main())
