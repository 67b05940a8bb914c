"""Debuggers and profilers that are told of code with line tables: gdb and perf."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from vyre_opt.targets.cpu.jit import Host

LINES = """vyre 2

program @lines workgroup(64) {
  buffer @x : f32[?] read  binding(0)
  buffer @y : f32[?] write binding(1)
  %i = global_id x
  %v = load @x[%i] : f32
  %r = sqrt %v : f32
  store %r, @y[%i] : f32
}
"""

SCRIPT = """
import numpy, vyre_opt
from pathlib import Path
x = numpy.linspace(0, 4, 256, dtype=numpy.float32)
lines = vyre_opt.compile(Path("lines.vyre"), debug_info=True)
lines({"x": x}, 4, lengths={"y": 256})
"""


@pytest.mark.skipif(shutil.which("gdb") is None, reason="there is no gdb")
def test_gdb_stops_at_a_line(tmp_path: Path) -> None:
    (tmp_path / "lines.vyre").write_text(LINES)
    (tmp_path / "script.py").write_text(SCRIPT)
    commands = ["set breakpoint pending on", "break lines.vyre:9", "run", "backtrace 1", "kill"]
    options = [word for command in commands for word in ("-ex", command)]
    gdb = ["gdb", "-q", "-nx", "-batch", *options, "--args", sys.executable, "script.py"]
    done = subprocess.run(gdb, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert re.search(r"#0 .*\blines \(\) at .*lines\.vyre:9", done.stdout), done.stdout + done.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="perf is Linux's")
def test_perf_is_told_the_names_of_kernels(tmp_path: Path) -> None:
    (tmp_path / "lines.vyre").write_text(LINES)
    # the code is as long as the table says: it begins and ends where functions do
    script = SCRIPT + (
        "import ctypes, os\n"
        "names = Path(f'/tmp/perf-{os.getpid()}.map')\n"
        "for line in names.read_text().splitlines():\n"
        "    start, size, name = line.split(' ', 2)\n"
        "    print(name, ctypes.string_at(int(start, 16), int(size, 16))[-1:].hex())\n"
        "names.unlink()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "VYRE_PERF": "1", "VYRE_DEBUG_INFO": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    names = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())
    assert "vyre::lines [groups]" in names
    if "x86" in Host.this().triple:
        assert set(names.values()) == {"c3"}  # ret
