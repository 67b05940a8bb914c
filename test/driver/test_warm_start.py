"""What a process loads whose code is in the cache: no LLVM, no translation of kernels in Python, no passes and no lowering."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import numpy as np
import pytest

KERNELS = """
import sys
import numpy as np
import vyre_opt as vyre
from vyre_opt import Read, Write, f32

@vyre.program
def scale(x: Read[f32], y: Write[f32]):
    i = vyre.global_id(0)
    if i < len(x):
        y[i] = 2.0 * x[i] + 1.0

@vyre.program
def centred(x: Read[f32[:, :]], y: Write[f32[:, :]]):
    row = x[vyre.workgroup_id(0), :]
    y[vyre.workgroup_id(0), :] = row - vyre.max(row)

@vyre.pipeline
def both(x: Read[f32], y: Write[f32]):
    t = vyre.buffer(f32, len(x))
    scale[vyre.ceil_div(len(x), 256)](x, t)
    scale[vyre.ceil_div(len(x), 256)](t, y)

x = np.arange(1000, dtype=np.float32)
y = np.zeros_like(x)
"""

CALLS = {
    "program": "scale[4](x, y)\nassert (y == 2 * x + 1).all()\n",
    "slices": "z = np.zeros((4, 250), np.float32)\ncentred[4](x.reshape(4, 250), z)\nassert (z[:, -1] == 0).all()\n",
    "pipeline": "both(x, y)\nassert (y == 4 * x + 3).all()\n",
    "fault": """
try:
    scale[4](x, y[:10])
except vyre.ProgramError as error:
    print(error)
else:
    raise AssertionError
""",
    "text": "vyre.run(TEXT, {'x': x[:960].astype(np.uint32)}, 30, lengths={'y': 960})['y']\n",
}

TEXT = '''
TEXT = """vyre 1
program @copy workgroup(32) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1) live_out
  %i = global_id x
  %v = load @x[%i] : u32
  store %v, @y[%i] : u32
}
"""
'''

LISTED = "print(*sorted(name for name in sys.modules if name.startswith(('llvmlite', 'lark', 'vyre_opt'))), file=sys.stderr)\n"


def modules(script: Path, cache: Path, *calls: str) -> tuple[str, list[str]]:
    """What a process prints that makes calls, and the modules that it has loaded."""
    known = {name: value for name, value in os.environ.items() if name != "VYRE_REFUSED_RESULT"}
    known["VYRE_CACHE_DIR"] = str(cache)
    ran = subprocess.run([sys.executable, script, *calls], capture_output=True, text=True, env=known)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout, ran.stderr.split()


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with a cache that all calls have filled, and what they printed."""
    folder = tmp_path_factory.mktemp("warm")
    calls = [f'if "{name}" in sys.argv:\n{indent(call, "    ")}' for name, call in CALLS.items()]
    (folder / "kernels.py").write_text(KERNELS + TEXT + "".join(calls) + LISTED)
    printed, before = modules(folder / "kernels.py", folder / "cache", *CALLS)
    assert {"llvmlite", "vyre_opt.passes.cse", "vyre_opt.lang.statements"} <= {*before}
    return folder, printed


@pytest.mark.parametrize("call", CALLS)
def test_a_call_from_the_cache_loads_no_compiler(warm: tuple[Path, str], call: str) -> None:
    folder, printed = warm
    again, after = modules(folder / "kernels.py", folder / "cache", call)
    assert again == (printed if call == "fault" else "")
    unwanted = ["llvmlite", "lark", "vyre_opt.lowering.host.program", "vyre_opt.targets.cpu.jit"]
    unwanted += ["vyre_opt.lang.statements", "vyre_opt.lang.pipeline_translation"]
    if call != "slices":
        unwanted += ["vyre_opt.passes.cse", "vyre_opt.fusion", "vyre_opt.scheduling"]
    if call != "text":
        unwanted += ["vyre_opt.ir.verifier"]
    assert [name for name in after if name.startswith(tuple(unwanted))] == []


RUN = """
import sys
from vyre_opt.cli.run import main
try:
    main()
finally:
    print(*sorted(name for name in sys.modules if name.startswith("vyre_opt")), file=sys.stderr)
"""

WARNED = """vyre 1
program @copy workgroup(32) {
  buffer @x : u32[32] read binding(0)
  buffer @y : u32[32] write binding(1) live_out
  %i = global_id x
  %zero = const 0 : u32
  %more = ge %i, %zero : u32
  assert %more, "it is never less"
  %v = load @x[%i] : u32
  store %v, @y[%i] : u32
}
"""


def test_a_text_of_the_cache_is_not_parsed_again(tmp_path: Path) -> None:
    (tmp_path / "warned.vyre").write_text(WARNED)
    (tmp_path / "placed.vyre").write_text(
        WARNED.replace("read binding(0)", 'read binding(0) loc("other.py":1:1)')
    )
    np.save(tmp_path / "x.npy", np.arange(32, dtype=np.uint32))

    def ran(name: str, *options: str) -> tuple[str, list[str]]:
        """What is printed, and the modules of the parser and the verifier that are loaded."""
        done = subprocess.run(
            [sys.executable, "-c", RUN, name, "--grid=1", "--in", "x=x.npy", *options],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "VYRE_CACHE_DIR": str(tmp_path / "cache")},
        )
        *messages, loaded = done.stderr.splitlines()
        assert done.returncode == 0, done.stderr
        readers = [
            m for m in loaded.split() if m.startswith(("vyre_opt.syntax.parser", "vyre_opt.ir.verifier"))
        ]
        return "\n".join([done.stdout, *messages]), readers

    first, readers = ran("warned.vyre")
    assert readers
    assert "is not below 0" in first
    assert ran("warned.vyre") == (first, [])
    for name, *options in (("warned.vyre", "--no-cache"), ("placed.vyre",), ("placed.vyre",)):
        assert ran(name, *options)[1]
    (tmp_path / "warned.vyre").write_text(WARNED.replace("store %v", "store %i"))
    assert ran("warned.vyre")[1]
