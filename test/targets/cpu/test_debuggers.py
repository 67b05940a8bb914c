"""Debuggers and profilers that are told of code with line tables: gdb and perf."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from vyre_opt.ir import parse
from vyre_opt.targets.cpu.compiler import LegalForm
from vyre_opt.targets.cpu.elf_code import ElfCode
from vyre_opt.targets.cpu.host import Host
from vyre_opt.targets.cpu.host_code import host_code
from vyre_opt.targets.cpu.jit import assembly, compile_object

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


def object_file() -> tuple[bytes, str]:
    """That of `LINES`, and the assembly of the same code."""
    module, host = parse(LINES, "folder/lines.vyre"), Host.this(debug_info=True)
    text = host_code(LegalForm(module.programs["lines"], module).program, {}, host).text
    return compile_object(text, host), assembly(text, host)


on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="perf and ELF are Linux's")


@on_linux
def test_lines_in_an_object_file_are_those_of_the_assembly(tmp_path: Path) -> None:
    import llvmlite.binding as llvm

    content, text = object_file()
    code = ElfCode(llvm.ObjectFileRef.from_data(content), "vyre_run")
    assert {"vyre_run", "vyre.groups", "vyre.rows"} <= code.functions.keys()
    assert {line.file for line in code.lines} == {f"{os.getcwd()}/folder/lines.vyre"}
    written = [int(number) for number in re.findall(r"\.loc\s+1\s+(\d+)\s", text)]
    assert {line.line for line in code.lines} == {*written}
    spans = sorted(code.functions.values())
    end = spans[-1][0] + spans[-1][1]
    assert all(0 <= line.offset <= end for line in code.lines)
    if shutil.which("objdump"):
        (tmp_path / "lines.o").write_bytes(content)
        dump = subprocess.run(
            ["objdump", "--dwarf=decodedline", str(tmp_path / "lines.o")],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        rows = re.findall(r"^lines\.vyre\s+(\d+)\s+(0x[0-9a-f]+|0)\b", dump, re.MULTILINE)
        assert {(int(at, 16), int(line)) for line, at in rows} <= {
            (line.offset, line.line) for line in code.lines
        }
        assert len(rows) > 10


@on_linux
def test_perf_is_told_names_code_and_lines(tmp_path: Path) -> None:
    (tmp_path / "lines.vyre").write_text(LINES)
    # while the code is loaded: it ends where functions do
    script = SCRIPT + (
        "import ctypes, os\n"
        "names = Path(f'/tmp/perf-{os.getpid()}.map')\n"
        "for line in names.read_text().splitlines():\n"
        "    start, size, name = line.split(' ', 2)\n"
        "    print(start, ctypes.string_at(int(start, 16), int(size, 16)).hex(), name)\n"
        "names.unlink()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "VYRE_PERF": "1", "JITDUMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    told = [line.split(" ", 2) for line in done.stdout.splitlines()]
    functions = {name: (int(start, 16), bytes.fromhex(code)) for start, code, name in told}
    assert "vyre::lines [groups]" in functions
    if "x86" in Host.this().triple:
        assert {code[-1:] for _, code in functions.values()} == {b"\xc3"}  # ret
    (dump,) = tmp_path.glob("jit-*.dump")
    loaded, lines = parsed_dump(dump.read_bytes())
    assert loaded == functions
    for start, found in lines.items():
        (size,) = (len(code) for at, code in functions.values() if at == start)
        assert all(start <= address < start + size for address, _, _ in found)
        assert {file for *_, file in found} <= {str(tmp_path / "lines.vyre")}
    assert {line for found in lines.values() for _, line, _ in found} >= {7, 9}


def parsed_dump(
    dump: bytes,
) -> tuple[dict[str, tuple[int, bytes]], dict[int, list[tuple[int, int, str]]]]:
    """Of a dump for perf the functions by name, and by their addresses the lines: address, number, file."""
    magic, version, at, *_ = struct.unpack_from("<IIIIIIQQ", dump)
    assert (magic, version) == (int.from_bytes(b"JiTD", "big"), 1)
    loaded, lines = {}, {}
    while at < len(dump):
        kind, size, _ = struct.unpack_from("<IIQ", dump, at)
        content, at = dump[at + 16 : at + size], at + size
        if kind == 0:
            _, _, _, address, length, _ = struct.unpack_from("<IIQQQQ", content)
            name, _, code = content[40:].partition(b"\0")
            assert len(code) == length
            loaded[name.decode()] = address, code
        else:
            assert kind == 2
            address, count = struct.unpack_from("<QQ", content)
            rest, lines[address] = content[16:], []
            for _ in range(count):
                place, number, _ = struct.unpack_from("<QII", rest)
                file, _, rest = rest[16:].partition(b"\0")
                lines[address].append((place, number, file.decode()))
            assert not rest
    return loaded, lines
