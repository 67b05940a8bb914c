"""Runs every op program and some random ones under compute-sanitizer, which comes with the CUDA toolkit.

    python test/cuda/sanitize.py [memcheck racecheck synccheck]

Exits with 1 if a tool finds anything, and shows what; or if memcheck does not find an
access out of bounds that is planted first.  Bounds are not checked by the kernels
themselves here, so that memcheck sees every access.
"""

from __future__ import annotations

import subprocess
import sys

TOOLS = ("memcheck", "racecheck", "synccheck")
RANDOM_PROGRAMS = 100
BATCH = 64


def run_programs() -> None:
    """Dispatch them; what they compute is of no interest here."""
    from vyre_opt.cuda import CudaDispatcher
    from vyre_opt.lowering.nvptx import Unit
    from vyre_opt.testing.generator import random_program
    from vyre_opt.testing.op_programs import op_programs
    from vyre_opt.testing.sample import random_inputs

    gpu = CudaDispatcher(bounds="none")
    cases = [(p.program, p.module, p.grid) for p in op_programs() if _is_new(p.name)]
    samples = [random_program(seed) for seed in range(RANDOM_PROGRAMS)]
    cases += [(s.program, s.module, s.grid) for s in samples]
    for start in range(0, len(cases), BATCH):
        batch = cases[start : start + BATCH]
        gpu.preload([Unit(program, module) for program, module, _ in batch])
        for program, module, grid in batch:
            gpu.dispatch(program, random_inputs(program, grid, 1), grid, module=module)
    print(f"{len(cases)} programs ran")


PLANTED = """vyre 1
program @planted workgroup(32) {
  buffer @x : u32[32] read binding(0)
  buffer @y : u32[32] write binding(1)
  %l = local_id x
  %far = const 1073741824 : u32
  %i = add %l, %far : u32
  %v = load @x[%i] : u32
  store %v, @y[%l] : u32
}
"""


def run_planted() -> None:
    """Read 4 GiB past the end of a buffer."""
    import numpy as np

    from vyre_opt import parse
    from vyre_opt.cuda import CudaDispatcher

    x = np.zeros(32, np.uint32)
    CudaDispatcher(bounds="none").dispatch(parse(PLANTED).programs["planted"], [x, x], 1)


def _is_new(name: str) -> bool:
    """Leaves out the many programs that touch memory as others do: casts and plain arithmetic."""
    return not name.startswith(("cast ", "bitcast ")) and (" " not in name or hash_of(name) % 2 == 0)


def hash_of(name: str) -> int:
    return sum(name.encode())


def sanitized(tool: str, mode: str) -> subprocess.CompletedProcess[str]:
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", sys.executable, __file__, mode]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def main(tools: list[str]) -> int:
    planted = sanitized("memcheck", "--planted")
    if "Invalid __global__ read" not in planted.stdout:
        print("memcheck does not find the planted access:", planted.stdout[-2000:], planted.stderr[-2000:])
        return 1
    failed = False
    for tool in tools or TOOLS:
        done = sanitized(tool, "--run")
        lines = done.stdout.splitlines()
        ran = next((line for line in lines if line.endswith("programs ran")), "no program ran")
        print(f"{tool}: {ran}, exit {done.returncode}; {lines[-1] if lines else done.stderr[-500:]}")
        if done.returncode:
            failed = True
            print("\n".join(lines[:60]), done.stderr[-2000:])
    return int(failed)


if __name__ == "__main__":
    if sys.argv[1:] == ["--run"]:
        run_programs()
    elif sys.argv[1:] == ["--planted"]:
        run_planted()
    else:
        sys.exit(main(sys.argv[1:]))
