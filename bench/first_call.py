"""The first result of a process whose code is in the cache, or in a pack:  python bench/first_call.py [--before FOLDER]

Whole processes: one that calls a kernel in Python, `vyre-run` and `vyre-opt -O` on a text, and `vyre-scan` on a small file, beside
one that imports NumPy alone.  With `--before` the same of another checkout, in the same rounds.  The least of the rounds is shown, of wall and of
CPU time, since a machine that others use makes all of them longer and none shorter.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from measure import interleaved, machine, save, today

RESULT = Path(__file__).parent / "results" / "first_call.json"
HERE = Path(__file__).resolve().parents[1]

KERNEL = """
import numpy as np
import vyre_opt as vyre
from vyre_opt import Read, Write, f32

@vyre.program
def scale(x: Read[f32], y: Write[f32]):
    i = vyre.global_id(0)
    if i < len(x):
        y[i] = 2.0 * x[i] + 1.0

x = np.ones(1000, np.float32)
y = np.zeros_like(x)
scale[4](x, y)
assert (y == 3).all()
"""
PACK = """
import sys
sys.path.insert(0, {folder!r})
from kernel import scale
import vyre_opt
vyre_opt.pack({path!r}, [scale])
"""
PACKED = """
import numpy as np
from vyre_opt.packs import load

x = np.ones(1000, np.float32)
y = np.zeros_like(x)
load({path!r})["scale"][4](x, y)
assert (y == 3).all()
"""
TOOL = "import sys; from {} import {}; sys.exit({}())\n"
"""In a file, since `python -c` finds the package of the working directory first."""
ENV = ("env", "-u", "PYTHONDONTWRITEBYTECODE")
"""Modules are compiled once, as they are for a user; else each process takes three times as long."""


def commands(checkout: Path, folder: Path, name: str) -> dict[str, list[str]]:
    """What is measured of a checkout, with a cache folder of its own."""
    process = [*ENV, f"PYTHONPATH={checkout}", f"VYRE_CACHE_DIR={folder / name}", sys.executable]
    text = str(HERE / "examples" / "heat.vyre")
    return {
        "a kernel in Python": [*process, str(folder / "kernel.py")],
        **({"a kernel of a pack": [*process, str(folder / "packed.py")]} if name == "now" else {}),
        "vyre-run": [*process, str(folder / "run.py"), text],
        "vyre-opt -O": [*process, str(folder / "opt.py"), "-O", text],
        "vyre-scan": [*process, str(folder / "scan.py"), "-c", "needle", str(folder / "hay.txt")],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--before", type=Path, help="another checkout, to compare with")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    checkouts = {"before": arguments.before.resolve()} if arguments.before else {}
    checkouts["now"] = HERE
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "kernel.py").write_text(KERNEL)
        path = str(folder / "kernels.vyrepack")
        (folder / "pack.py").write_text(PACK.format(folder=place, path=path))
        (folder / "packed.py").write_text(PACKED.format(path=path))
        environment = {**os.environ, "PYTHONPATH": str(HERE)}
        subprocess.run([sys.executable, folder / "pack.py"], check=True, env=environment)
        for tool, module, name in (
            ("run", "vyre_opt.cli.start", "vyre_run"),
            ("opt", "vyre_opt.cli.start", "vyre_opt"),
            ("scan", "vyre_scan.start", "main"),
        ):
            (folder / f"{tool}.py").write_text(TOOL.format(module, name, name))
        (folder / "hay.txt").write_text("hay\n" * 1000 + "needle\n")
        all_commands = {("NumPy", ""): [*ENV, sys.executable, "-c", "import numpy"]}
        for name, checkout in checkouts.items():
            for what, command in commands(checkout, folder, name).items():
                all_commands[what, name] = command
        keyed = {" ".join(key): command for key, command in all_commands.items()}
        samples = interleaved(keyed, arguments.rounds, lambda line: print(line, file=sys.stderr))
    least = {
        key: (min(s.seconds for s in each), min(s.cpu for s in each))
        for key, each in zip(all_commands, samples.values(), strict=True)
    }
    rows = [
        [what, name, *(f"{1e3 * figure:.0f}" for figure in figures)]
        for (what, name), figures in least.items()
    ]
    for row in rows:
        print(*row)
    save(
        RESULT,
        {
            "name": "first_call",
            "title": "The first call of a process",
            "about": "Whole processes from start to end, whose code is in the compile cache: a kernel in Python (`import numpy` "
            "included), `vyre-run` and `vyre-opt -O` on examples/heat.vyre, and `vyre-scan -c` on a file of 4 KB; the least of "
            f"{arguments.rounds} rounds.  "
            + ("Before: a checkout of an earlier commit, in the same rounds.  " if arguments.before else "")
            + f"Other processes used the {os.cpu_count()} cores of the machine meanwhile.",
            "date": today(),
            "machine": machine(),
            "versions": {name: version(name) for name in ("llvmlite", "numpy")},
            "absent": [],
            "tables": [
                {"caption": "Milliseconds", "columns": ["", "", "wall", "CPU"], "rows": rows},
            ],
            "targets": [],
            "samples": {key: [[s.seconds, s.cpu] for s in each] for key, each in samples.items()},
        },
    )


if __name__ == "__main__":
    main()
