"""Runs what compute-sanitizer, which comes with the CUDA toolkit, is to look at.

    compute-sanitizer --tool memcheck --report-api-errors no python test/targets/cuda/sanitize.py
    python test/targets/cuda/sanitize.py --tools memcheck racecheck initcheck synccheck

The first runs every kernel case, the op programs that touch memory in ways of their own,
and some random programs under one tool.  The second does that for each tool, shows what
one finds, and exits with 1 then; or if memcheck does not find an access out of bounds
that is planted first.

Bounds are not checked by the kernels themselves here, so that memcheck sees every access;
and each buffer is an allocation of exactly its size, so that memcheck sees where it ends.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
RANDOM_PROGRAMS = 100
BATCH = 64

PLANTED = """vyre 1
program @planted workgroup(32) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[32] write binding(1)
  %l = local_id x
  %one = const 1 : u32
  %i = add %l, %one : u32
  %v = load @x[%i] : u32
  store %v, @y[%l] : u32
}
"""
"""Reads one element past the end of 32."""


def exact_gpu() -> Any:
    """A dispatcher that checks no bounds and takes memory from the driver, not from a pool that rounds up."""
    from vyre_opt.targets.cuda import CudaDispatcher

    gpu = CudaDispatcher(bounds="none")
    device = gpu.device
    device.allocate = lambda size: device.cuda.mem_alloc(max(1, size))
    return gpu


def programs() -> Iterator[tuple[str, Any, Any, Any, Any]]:
    """Name, program, module, grid, inputs."""
    sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a script, without PYTHONPATH
    from support.differential import random_cases
    from support.kernel_cases import kernel_cases
    from support.op_programs import op_programs

    for case in kernel_cases():
        use = case.make()
        yield case.name, use.program, None, use.grid, use.inputs
    for sample in (*filter(_is_new, op_programs()), *random_cases(range(RANDOM_PROGRAMS))):
        yield sample.name, sample.program, sample.module, sample.grid, sample.inputs(1)


def _is_new(sample: Any) -> bool:
    """Leaves out the many programs that touch memory as others do: casts, and half of plain arithmetic."""
    name = sample.name
    return not name.startswith(("cast ", "bitcast ")) and (" " not in name or sum(name.encode()) % 2 == 0)


def run_all() -> None:
    """Dispatch them; that the results are right, other tests see to."""
    from vyre_opt.lowering.nvptx.abi import Unit

    gpu = exact_gpu()
    waiting = list(programs())
    for start in range(0, len(waiting), BATCH):
        batch = waiting[start : start + BATCH]
        gpu.preload([Unit(program, module) for _, program, module, _, _ in batch])
        for _, program, module, grid, inputs in batch:
            gpu.dispatch(program, inputs, grid, module=module)
    print(f"{len(waiting)} programs ran")


def run_planted() -> None:
    import numpy as np

    from vyre_opt import parse

    x = np.zeros(32, np.uint32)
    exact_gpu().dispatch(parse(PLANTED).programs["planted"], [x, x], 1)


def sanitized(tool: str, *mode: str) -> subprocess.CompletedProcess[str]:
    # libraries ask the driver for functions that it may not have; that is no error of ours
    quiet = ["--report-api-errors", "no"] if tool == "memcheck" else []
    command = ["compute-sanitizer", "--tool", tool, *quiet, "--error-exitcode", "9"]
    command += [sys.executable, __file__, *mode]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def run_tools(tools: list[str]) -> int:
    planted = sanitized("memcheck", "--planted")
    if "Invalid __global__ read" not in planted.stdout:
        print("memcheck does not find the planted access:", planted.stdout[-2000:], planted.stderr[-2000:])
        return 1
    failed = False
    for tool in tools or TOOLS:
        done = sanitized(tool)
        lines = done.stdout.splitlines()
        ran = next((line for line in lines if line.endswith("programs ran")), None)
        print(f"{tool}: {ran or 'no program ran'}, exit {done.returncode}; {lines[-1] if lines else ''}")
        if done.returncode or ran is None:
            failed = True
            print("\n".join(lines[:60]), done.stderr[-2000:])
    return int(failed)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--tools"]:
        sys.exit(run_tools(sys.argv[2:]))
    elif sys.argv[1:] == ["--planted"]:
        run_planted()
    elif len(sys.argv) > 1:
        sys.exit(f"usage: {sys.argv[0]} [--tools [{' | '.join(TOOLS)}]...]")
    else:
        run_all()
