"""Files for perf about code in this process: names in /tmp/perf-PID.map, and code with its lines in jit-PID.dump.

    perf record -k mono ...; perf inject --jit -i perf.data -o with_lines.data; perf annotate -i with_lines.data

The dump has records of `tools/perf/Documentation/jitdump-specification.txt` in the sources of Linux; perf knows that it is there by
a page of it that is mapped as code.  LLVM could write it, but not that of llvmlite.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import struct
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import BinaryIO

from .elf_code import ElfCode, Line

__all__ = ["tell_perf"]

MAGIC, VERSION = 0x4A695444, 1
CODE_LOAD, DEBUG_INFO = 0, 2
MACHINES = {"x86_64": 62, "aarch64": 183}
"""EM_X86_64, EM_AARCH64."""

_HEADER = struct.Struct("<IIIIIIQQ")
_RECORD = struct.Struct("<IIQ")
_LOCK = threading.Lock()
_NUMBERS = count()
_MARKS: list[mmap.mmap] = []


def tell_perf(code: ElfCode, address: int, title: str) -> None:
    """Tell perf of code at an address, which belongs to the program `title`."""
    names = {name: f"vyre::{title} [{name.removeprefix('vyre.')}]" for name in code.functions}
    with _LOCK:
        with open(f"/tmp/perf-{os.getpid()}.map", "a", opener=_open_no_link) as table:
            for name, (offset, size) in code.functions.items():
                table.write(f"{address + offset:x} {size:x} {names[name]}\n")
        dump = _dump(os.getpid())
        if dump is not None:
            for record in _records(code, address, names):
                dump.write(record)
            dump.flush()


def _open_no_link(path: str, flags: int) -> int:
    """Others may foretell these names, and put links there."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o644)


@cache
def _dump(process: int) -> BinaryIO | None:
    """The dump of this process, in the folder JITDUMPDIR; None on a machine that perf has no number for."""
    machine = MACHINES.get(platform.machine())
    if machine is None:
        return None
    path = Path(os.environ.get("JITDUMPDIR", "/tmp"), f"jit-{process}.dump")
    dump = open(path, "w+b", opener=_open_no_link)  # noqa: SIM115  to the end of the process
    dump.write(_HEADER.pack(MAGIC, VERSION, _HEADER.size, machine, 0, process, time.monotonic_ns(), 0))
    dump.flush()
    # the mark, which perf records; it stays to the end of the process
    mark = mmap.mmap(dump.fileno(), _HEADER.size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
    _MARKS.append(mark)
    return dump


def _records(code: ElfCode, address: int, names: Mapping[str, str]) -> Iterator[bytes]:
    """Records of each function: its lines, and then its code."""
    for name, (offset, size) in code.functions.items():
        lines = [line for line in code.lines if offset <= line.offset < offset + size and line.line]
        start = address + offset
        yield _record(DEBUG_INFO, struct.pack("<QQ", start, len(lines)) + _entries(lines, address))
        numbers = start, start, size, next(_NUMBERS)
        where = struct.pack("<IIQQQQ", os.getpid(), threading.get_native_id(), *numbers)
        yield _record(CODE_LOAD, where + names[name].encode() + b"\0" + ctypes.string_at(start, size))


def _entries(lines: Sequence[Line], address: int) -> bytes:
    return b"".join(
        struct.pack("<QII", address + line.offset, line.line, 0) + line.file.encode() + b"\0"
        for line in lines
    )


def _record(kind: int, content: bytes) -> bytes:
    return _RECORD.pack(kind, _RECORD.size + len(content), time.monotonic_ns()) + content
