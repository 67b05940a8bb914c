"""Memory of a process that compiles many programs for the cpu, without a cache:  python bench/compile_memory.py

Prints the resident memory after each number of different small programs, and once they are dropped.  Linux only.
"""

from __future__ import annotations

import argparse
import gc
import os
from pathlib import Path

import numpy as np

import vyre_opt
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher

TEXT = """vyre 1
program @p workgroup(64) {{
  buffer @x : u32[64] read binding(0)
  buffer @y : u32[64] write binding(1)
  %i = global_id x
  %v = load @x[%i] : u32
  %c = const {number} : u32
  %sum = add %v, %c : u32
  %product = mul %sum, %v : u32
  store %product, @y[%i] : u32
}}
"""


def resident() -> float:
    """Resident memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("counts", type=int, nargs="*", default=[1, 500, 1000, 2000], metavar="PROGRAMS")
    counts = parser.parse_args().counts
    target = CpuDispatcher(cache=False)
    x = np.arange(64, dtype=np.uint32)
    done = 0
    for count in sorted(counts):
        for number in range(done, count):
            program = vyre_opt.compile(TEXT.format(number=number), target=target)
            assert program({"x": x}, grid=1)["y"][1] == number + 1
        done = count
        gc.collect()
        print(f"{count:6} programs  {resident():7.1f} MB")
    del program, target
    gc.collect()
    print(f"       dropped   {resident():7.1f} MB")


if __name__ == "__main__":
    main()
