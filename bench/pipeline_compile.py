"""How the time to compile a pipeline grows with its stages:  python bench/pipeline_compile.py

Each stage is a program of its own and reads what the one before it wrote.  The kinds differ in what launch_fusion finds:

    chain      own elements: all are joined, 32 to a launch
    guarded    the same, each under a bound
    in place   all stages on one buffer, so that each pair of launches shares one
    stencil    a neighbour's element too: each second hand-off is a halo that is computed again
    apart      elements from all over the buffer: nothing is joined
    repeated   a chain within a repeat

Measured is processor time of this process, the least of some rounds: parse and the default passes; LLVM IR of all that
is launched then; and `vyre_opt.compile` with the first call, without a cache.  The exponent is the slope of the line
through the logarithms.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from math import log
from pathlib import Path
from typing import Any

import numpy as np
from measure import machine, save, today

import vyre_opt
from vyre_opt.ir.program import Module
from vyre_opt.lowering.host.legalization import legal_program
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher
from vyre_opt.targets.cpu.host import Host
from vyre_opt.targets.cpu.host_code import host_code

RESULT = Path(__file__).parent / "results" / "pipeline_compile.json"
COUNT, LANES = 4096, 256
SIZES = (8, 16, 32, 64, 128, 256)
STEPS = ("passes", "LLVM IR", "compile and first call")
TARGET = 1.2

OWN = """  %v = load @x[%g] : f32
  %c = const {number}.5 : f32
  %s = fma %v, %c, %c : f32
"""
NEIGHBOUR = """  %one = const 1 : u32
  %i = sub_sat %g, %one : u32
  %u = load @x[%i] : f32
  %v = load @x[%g] : f32
  %c = const {number}.5 : f32
  %s = fma %v, %c, %u : f32
"""
FAR = """  %last = const {last} : u32
  %i = sub %last, %g : u32
  %v = load @x[%i] : f32
  %c = const {number}.5 : f32
  %s = fma %v, %c, %c : f32
"""
STORE = "  store %s, @y[%g] : f32\n"
BODIES = {
    "chain": OWN + STORE,
    "guarded": "  %n = len @y\n  %inside = lt %g, %n : u32\n  if %inside {{\n" + OWN + STORE + "  }}\n",
    "in place": OWN + STORE.replace("@y", "@x"),
    "stencil": NEIGHBOUR + STORE,
    "apart": FAR + STORE,
    "repeated": OWN + STORE,
}


def pipeline(kind: str, stages: int, variant: int = 0) -> str:
    """The text of a pipeline of this kind; its variants compute with other constants."""
    is_in_place = kind == "in place"
    formals = "  buffer @x : f32[?] read binding(0)\n  buffer @y : f32[?] write binding(1) live_out\n"
    if is_in_place:
        formals = "  buffer @x : f32[?] read_write binding(0) live_in live_out\n"
    programs = ""
    for number in range(stages):
        body = BODIES[kind].format(number=number % 7 + 10 * variant, last=COUNT - 1)
        programs += (
            f"program @stage{number} workgroup({LANES}) {{\n{formals}  %g = global_id x\n"
            f"  %mark = const {number} : u32\n{body}}}\n"
        )
    names = ["a", *(f"t{number}" for number in range(1, stages)), "z"]
    buffers = f"  buffer @a : f32[{COUNT}] " + ("read_write live_in live_out\n" if is_in_place else "read\n")
    if not is_in_place:
        buffers += "".join(f"  buffer @{name} : f32[{COUNT}]\n" for name in names[1:-1])
        buffers += f"  buffer @z : f32[{COUNT}] write live_out\n"
    launches = ""
    for number in range(stages):
        passed = "@a" if is_in_place else f"@{names[number]}, @{names[number + 1]}"
        launches += f"  launch @stage{number} grid({COUNT // LANES}) ({passed})\n"
    if kind == "repeated":
        launches = f"  repeat 4 {{\n{launches}  }}\n"
    return f"vyre 1\n{programs}pipeline @main {{\n{buffers}{launches}}}\n"


def run_passes(text: str) -> Module:
    module = vyre_opt.parse(text)
    vyre_opt.PassManager("default").run(module)
    return module


def steps(kind: str, stages: int) -> dict[str, Callable[[int], Any]]:
    """What is measured of a pipeline, by name; each takes the number of the round."""
    text = pipeline(kind, stages)
    module, host = run_passes(text), Host.this()
    data = np.arange(COUNT, dtype=np.float32) / COUNT

    def first_call(number: int) -> None:
        # a process keeps the code of programs that it has compiled
        other, target = pipeline(kind, stages, 1 + number), CpuDispatcher(cache=False)
        vyre_opt.compile(other, target=target, passes="default")({"a": data})

    return {
        "passes": lambda number: run_passes(text),
        "LLVM IR": lambda number: [
            host_code(legal_program(program, module), {}, host) for program in module.programs.values()
        ],
        "compile and first call": first_call,
    }


def least_time(action: Callable[[int], Any], rounds: int) -> float:
    """Seconds of processor time, the least of some rounds."""
    times = []
    for number in range(rounds):
        gc.collect()
        started = time.process_time()
        action(number)
        times.append(time.process_time() - started)
    return min(times)


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """The slope of the least-squares line through the logarithms."""
    slope, _ = np.polyfit([log(n) for n in sizes], [log(t) for t in seconds], 1)
    return float(slope)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="of which the least time counts (3)")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES, metavar="STAGES")
    parser.add_argument("--kinds", nargs="*", default=list(BODIES), choices=list(BODIES))
    parser.add_argument("--out", type=Path, default=RESULT, help="the JSON file to write")
    args = parser.parse_args(arguments)
    samples: dict[str, dict[str, list[float]]] = {}
    for kind in args.kinds:
        samples[kind] = {step: [] for step in STEPS}
        for stages in args.sizes:
            for step, action in steps(kind, stages).items():
                samples[kind][step].append(least_time(action, args.rounds))
            print(kind, stages, *(f"{samples[kind][step][-1]:.3f}" for step in STEPS), file=sys.stderr)
    save(args.out, result(args.sizes, samples, args.rounds))
    for target in targets(args.sizes, samples):
        print(f"{'met   ' if target['met'] else 'NOT MET'} {target['what']}: {target['measured']}")


def targets(sizes: Sequence[int], samples: dict[str, dict[str, list[float]]]) -> list[dict[str, Any]]:
    fits = {(kind, step): exponent(sizes, row[step]) for kind, row in samples.items() for step in STEPS}
    return [
        {
            "what": f"{kind}, {step}: grows no faster than n^{TARGET}",
            "measured": f"n^{fit:.2f}",
            "met": fit <= TARGET,
        }
        for (kind, step), fit in fits.items()
    ]


def result(sizes: Sequence[int], samples: dict[str, dict[str, list[float]]], rounds: int) -> dict[str, Any]:
    tables = [
        {
            "caption": f"{step}, in ms by stages",
            "columns": ["Kind", *map(str, sizes), "Exponent"],
            "rows": [
                [kind, *(f"{1000 * t:.0f}" for t in row[step]), f"{exponent(sizes, row[step]):.2f}"]
                for kind, row in samples.items()
            ],
        }
        for step in STEPS
    ]
    return {
        "name": "pipeline_compile",
        "title": "Pipelines of many stages: how the time to compile grows",
        "about": (
            "Each stage is a program of its own and reads what the one before it wrote. `chain`: own elements; "
            "`guarded`: under a bound; `in place`: all on one buffer; `stencil`: a neighbour's element too; `apart`: "
            "elements from all over, so that nothing is joined; `repeated`: a chain in a repeat. Processor time of "
            f"one process without a cache, the least of {rounds} rounds; the exponent is the slope of the line "
            "through the logarithms."
        ),
        "date": today(),
        "machine": machine(),
        "versions": {name: version(name) for name in ("vyre-opt", "llvmlite")},
        "tables": tables,
        "targets": targets(sizes, samples),
        "samples": {"stages": list(sizes), **samples},
    }


if __name__ == "__main__":
    main()
