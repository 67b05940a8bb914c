"""Whole processes: parse, verify, cse and print, beside xdsl-opt and mlir-opt; and what of it is parsing.

    python bench/frontend.py [--repetitions N] [--mlir-opt NAME] [--out FILE]

Each tool reads a file with the same ops in its own language and writes to nowhere.
The runs of all tools interleave.  How long parsing took, the tools say themselves, in runs of their own.  A peer that is not installed is reported as absent:
`pip install xdsl` gives xdsl-opt; mlir-opt comes with an LLVM built with MLIR.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from frontend_inputs import CASES, write
from measure import ProcessCost, interleaved, machine, medians, save, today

RESULT = Path(__file__).parent / "results" / "frontend.json"
MLIR_NAMES = ("mlir-opt", *(f"mlir-opt-{n}" for n in range(24, 14, -1)))
LARGEST, LARGE, SMALL = "straight 50k", "straight 10k", "five lines"
PARSE_TIMES = {
    "vyre-opt": ("--timing", re.compile(r"([\d.]+) +[\d.]+%  parse")),
    "mlir-opt": ("--mlir-timing", re.compile(r"([\d.]+) \( *[\d.]+%\)  +Parser")),
}
"""The option with which a tool says how long its steps take, and what it says of parsing, in seconds.  mlir-opt counts
its first verification as parsing; xdsl-opt times passes only."""


def find_tool(*names: str) -> str | None:
    """The first of `names` beside this Python, else on the PATH."""
    for name in names:
        beside = Path(sys.executable).parent / name
        if beside.exists():
            return str(beside)
        path = shutil.which(name)
        if path:
            return path
    return None


def tools(mlir_names: Sequence[str]) -> dict[str, list[str] | None]:
    """Tool -> the start of its command, None if it is absent."""
    vyre, xdsl, mlir = find_tool("vyre-opt"), find_tool("xdsl-opt"), find_tool(*mlir_names)
    if vyre is None:
        sys.exit("vyre-opt is not installed beside this Python: pip install .")
    return {
        "vyre-opt": [vyre, "--pass=cse"],
        "xdsl-opt": [xdsl, "-p", "cse"] if xdsl else None,
        "mlir-opt": [mlir, "--cse"] if mlir else None,
    }


def versions(by_tool: dict[str, list[str] | None]) -> dict[str, str]:
    shown = {"vyre-opt": version("vyre-opt")}
    if by_tool["xdsl-opt"]:
        shown["xdsl-opt"] = version("xdsl")
    if by_tool["mlir-opt"]:
        said = subprocess.run([by_tool["mlir-opt"][0], "--version"], capture_output=True, text=True).stdout
        number = re.search(r"version (\S+)", said)
        shown["mlir-opt"] = f"LLVM {number.group(1)}" if number else "unknown"
    return shown


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repetitions", type=int, default=5, help="counted rounds of each case (5)")
    parser.add_argument("--out", type=Path, default=RESULT, help="the JSON file to write")
    parser.add_argument("--mlir-opt", metavar="NAME", help="which mlir-opt; the newest if not given")
    args = parser.parse_args(arguments)
    by_tool = tools([args.mlir_opt] if args.mlir_opt else MLIR_NAMES)
    present = {name: command for name, command in by_tool.items() if command}
    samples: dict[str, dict[str, list[ProcessCost]]] = {}
    left: dict[str, dict[str, int]] = {}
    parsing: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        for case in CASES:
            commands = {
                name: [*command, f"{folder}/{case}.{'vyre' if name == 'vyre-opt' else 'mlir'}"]
                for name, command in present.items()
            }
            left[case] = {name: values_printed(command) for name, command in commands.items()}
            print(case, file=sys.stderr)
            samples[case] = interleaved(commands, args.repetitions, say)
            parsing[case] = parse_seconds(commands, args.repetitions)
    result: dict[str, Any] = {
        "name": "frontend",
        "title": "Front end: parse, verify, cse, print",
        "about": (
            "Whole processes on a file, output discarded. Each tool reads the same ops in its own language "
            f"({', '.join(' '.join([name, *command[1:]]) for name, command in present.items())}), verifies them, "
            "removes common subexpressions and prints the rest. The tools run in turn within a round. The figures "
            f"are medians of {args.repetitions} rounds after one round that is not counted."
        ),
        "date": today(),
        "machine": machine(),
        "versions": versions(by_tool),
        "absent": [name for name, command in by_tool.items() if not command],
        "tables": tables(samples, left, parsing, list(present)),
        "targets": targets(samples),
        "samples": {
            case: {
                name: [[round(s.seconds, 4), round(s.cpu, 4), s.rss] for s in runs]
                for name, runs in row.items()
            }
            for case, row in samples.items()
        },
    }
    save(args.out, result)
    for target in result["targets"]:
        print(f"{'met   ' if target['met'] else 'NOT MET'} {target['what']}: {target['measured']}")


def say(line: str) -> None:
    print(f"  {line}", file=sys.stderr)


def values_printed(command: Sequence[str]) -> int:
    """How many ops with results the tool prints: those that cse left."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        return sum(" = " in line and line.lstrip().startswith("%") for line in child.stdout)


def parse_seconds(commands: Mapping[str, Sequence[str]], repetitions: int) -> dict[str, float]:
    """Wall time of parsing alone, the median of what each tool says of it; without the tools that do not."""
    said: dict[str, list[float]] = {name: [] for name in commands if name in PARSE_TIMES}
    for _ in range(repetitions):
        for name, times in said.items():
            option, line = PARSE_TIMES[name]
            ran = subprocess.run(
                [*commands[name], option],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                check=True,
            )
            times += [float(match[1]) for match in line.finditer(ran.stderr)]
    return {name: median(times) for name, times in said.items()}


Runs = dict[str, dict[str, list[ProcessCost]]]


def memory_per_op(samples: Runs, tool: str, case: str = LARGEST) -> float:
    """Bytes of peak memory an op costs: what a case takes beyond the small file, over its ops."""
    extra = medians(samples[case][tool]).rss - medians(samples[SMALL][tool]).rss
    return extra / CASES[case]


def growth(samples: Runs, tool: str) -> float:
    """Time for 50k ops over time for 10k, both less the start-up: 5.0 is linear."""
    base = medians(samples[SMALL][tool]).cpu
    return (medians(samples[LARGEST][tool]).cpu - base) / (medians(samples[LARGE][tool]).cpu - base)


def tables(
    samples: Runs, left: dict[str, dict[str, int]], parsing: dict[str, dict[str, float]], names: list[str]
) -> list[dict[str, Any]]:
    peers = [name for name in names if name != "vyre-opt"]
    time_rows, memory_rows = [], []
    for case, by_tool in samples.items():
        middle = {name: medians(by_tool[name]) for name in names}
        ours = middle["vyre-opt"].seconds
        time_rows.append(
            [case, f"{CASES[case]:,}"]
            + [f"{middle[name].seconds:.3f}" for name in names]
            + [f"{middle[name].seconds / ours:.2f}" for name in peers]
        )
        memory_rows.append([case] + [f"{middle[name].rss / 2**20:.0f}" for name in names])
    per_op = ["an op at 50k, in bytes"] + [f"{memory_per_op(samples, name):,.0f}" for name in names]
    return [
        {
            "caption": "Wall time in seconds, and each peer's time over vyre-opt's",
            "columns": ["Case", "Ops", *names, *(f"{name} / vyre-opt" for name in peers)],
            "rows": time_rows,
        },
        {
            "caption": "Parsing alone, in seconds of wall time, as the tools time it; mlir-opt's has its first verification",
            "columns": ["Case", *(name for name in names if name in PARSE_TIMES)],
            "rows": [
                [case, *(f"{seconds:.4f}" for seconds in row.values())] for case, row in parsing.items()
            ],
        },
        {
            "caption": "Peak memory of the process in MiB, and what an op adds to it",
            "columns": ["Case", *names],
            "rows": [*memory_rows, per_op],
        },
        {
            "caption": "Growth: processor time of 50k ops over that of 10k, start-up subtracted; 5.0 is linear",
            "columns": names,
            "rows": [[f"{growth(samples, name):.2f}" for name in names]],
        },
        {
            "caption": "Values printed: what cse left, as a check that the tools do the same work",
            "columns": ["Case", *names],
            "rows": [[case, *(f"{row[name]:,}" for name in names)] for case, row in left.items()],
        },
    ]


def targets(samples: Runs) -> list[dict[str, Any]]:
    """What the project holds itself to; those that need xdsl-opt only where it is present."""
    rows: list[tuple[str, str, bool]] = []
    if "xdsl-opt" in samples[LARGEST]:
        ratio = {
            case: medians(samples[case]["xdsl-opt"]).seconds / medians(samples[case]["vyre-opt"]).seconds
            for case in (LARGEST, SMALL)
        }
        rows.append(
            (
                "50k ops at least 4 times faster than xdsl-opt",
                f"{ratio[LARGEST]:.1f} times",
                ratio[LARGEST] >= 4,
            )
        )
        rows.append(
            ("start-up less than half of xdsl-opt's", f"{1 / ratio[SMALL]:.2f} of it", ratio[SMALL] > 2)
        )
    if "mlir-opt" in samples[LARGEST]:
        over = medians(samples[LARGEST]["vyre-opt"]).seconds / medians(samples[LARGEST]["mlir-opt"]).seconds
        rows.append(("50k ops in at most 2.8 times the time of mlir-opt", f"{over:.2f} times", over <= 2.8))
    grown, memory = growth(samples, "vyre-opt"), memory_per_op(samples, "vyre-opt")
    rows.append(
        ("time grows linearly: at most 6 times from 10k to 50k ops", f"{grown:.2f} times", grown <= 6)
    )
    rows.append(("less than 1.5 KB of memory an op", f"{memory / 1000:.2f} KB", memory < 1500))
    return [{"what": what, "measured": measured, "met": met} for what, measured, met in rows]


if __name__ == "__main__":
    main()
