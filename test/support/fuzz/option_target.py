"""Command lines of vyre-opt and vyre-run, and of vyre-cache: one argument a line, the tool first."""

from __future__ import annotations

import os
import random
import re
import signal
from functools import cache
from pathlib import Path

import click
import numpy as np

from vyre_opt.cli import cache as cache_tool
from vyre_opt.cli import opt, run
from vyre_opt.cli.errors import ToolError
from vyre_opt.cli.time_limit import TimedOut
from vyre_opt.ir import DiagnosticError
from vyre_opt.passes.registry import BUILTIN

from .header import bytes_of, text_of
from .target import Target, shape_of
from .text_mutations import ALL_EDITS, EXTREMES, mutate

__all__ = ["OPTIONS"]

TOOLS = {"vyre-opt": opt.command, "vyre-run": run.command, "vyre-cache": cache_tool.command}
LEFT_OUT = frozenset({"--load-pass-plugin", "--autotune", "--measure", "--plot"})
"""Options that import what they name, or measure for seconds."""

PROGRAM = """vyre 1
program @scale workgroup(4) grid(2) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[8] write binding(1)
  spec @factor : f32 = 2.0
  spec @needle : u8 = 10
  %i = global_id x
  %f = spec @factor : f32
  %v = load @x[%i] : f32
  %s = mul %v, %f : f32
  store %s, @y[%i] : f32
}
"""
TRAP = """vyre 1
program @stop workgroup(1) {
  buffer @x : u32[?] read binding(0)
  buffer @y : vec<2 x u16>[?] write binding(1)
  spec @T : dtype = f32
  trap "here it ends, whatever the grid"
}
"""
PIPELINE = """vyre 1
program @one workgroup(8) {
  buffer @a : u32[?] read binding(0)
  buffer @b : u32[?] write binding(1)
  %i = global_id x
  %v = load @a[%i] : u32
  store %v, @b[%i] : u32
}
pipeline @main {
  buffer @x : u32[8] read
  buffer @t : u32[8]
  buffer @y : u32[?] write
  launch @one grid(1) (@x, @t)
  host_read @t
  launch @one grid(1) (@t, @y)
}
"""
SEEDS = """
vyre-opt p.vyre --pass=cse --pass=dce --remarks=cse
vyre-opt p.vyre --pass-pipeline=unroll{factor=4},cse --print-ir-after=cse --print-ir-before=unroll
vyre-opt pipe.vyre -O --fusion-threshold=64 --max-group-bytes=1000000 --remarks
vyre-opt pipe.vyre -O --opt-bisect-limit=7 --debug-only --print-locations --print-op-stats=json
vyre-opt p.vyre --pass=cse,licm --debug-only=cse,licm --remarks-file=remarks.yaml --print-ir-before-all
vyre-opt p.vyre --pass=cse --print-ir-tree-dir=tree --print-ir-after-failure --no-crash-reproducer
vyre-opt p.vyre --spec factor=0.5 --spec @needle=0x1f --pass=specialize
vyre-opt stop.vyre --spec T=f16 --print-generic -o out.vyre
vyre-opt p.vyre --emit=json --timing --stats
vyre-opt pipe.vyre -O --emit=html -o report.html
vyre-opt pipe.vyre --emit=dot --verify-roundtrip
vyre-opt p.vyre --emit=llvm --target=cpu
vyre-opt p.vyre --emit=ptx --target=sm_90 --ptx-version=8.6 --bounds=trap
vyre-opt p.vyre --verify-diagnostics --split-input-file --color=always
vyre-opt p.vyre --print-ir-after-all --print-ir-after-change --dump-pass-pipeline --no-verify-each --pass=licm
vyre-opt --list-passes
vyre-opt --completion bash
vyre-opt - --run-reproducer --crash-reproducer=crash.vyre --timeout=3
vyre-run p.vyre --in x=x.npy --out y=y.npy
vyre-run p.vyre --in x=x.bin --out y=- --spec factor=3 --check
vyre-run p.vyre --in=@x=x.npy --check-against=ref --tolerance=1e-6 --entry scale --time
vyre-run stop.vyre --in x=x.npy --len y=1024 --grid=4,4,2 --spec T=bf16
vyre-run stop.vyre --len x=3 --len y=7 --grid 65535 --target=ref --no-cache
vyre-run stop.vyre --in x=x.bin --len=y=1 --grid=4294967295,1,1
vyre-run pipe.vyre --in x=i.npy --len y=8 --out t=t.npy
vyre-run pipe.vyre --in x=x.bin --len y=9 -O --target=cpu
vyre-run pipe.vyre --in x=i.npy --len y=8 --target=cuda --grid 1
vyre-cache info
vyre-cache verify --remove
vyre-cache clear
"""


@cache
def _files() -> dict[str, bytes]:
    """The files that command lines name."""
    files = {"p.vyre": PROGRAM, "stop.vyre": TRAP, "pipe.vyre": PIPELINE}
    contents = {name: text.encode() for name, text in files.items()}
    contents["x.bin"] = np.arange(8, dtype=np.float32).tobytes()
    for name, dtype in (("x.npy", np.float32), ("i.npy", np.uint32)):
        np.save(name, np.arange(8, dtype=dtype))
        contents[name] = Path(name).read_bytes()
    return contents


@cache
def _inodes() -> dict[str, int]:
    """By the names of the files, which are written at the first call."""
    for name, content in _files().items():
        Path(name).write_bytes(content)
    return {name: os.stat(name).st_ino for name in _files()}


@cache
def _words() -> tuple[str, ...]:
    """Options of the tools, their choices, and values."""
    words = ["=", ",", "x=", "y=", "@x=", "factor=", "-", "--", "{", "}", *BUILTIN, *EXTREMES]
    for tool in TOOLS.values():
        for param in tool.params:
            words += [*param.opts, *param.secondary_opts] if isinstance(param, click.Option) else ()
            words += getattr(param.type, "choices", ())
    return tuple(word for word in words if word not in LEFT_OUT)


def _seeds() -> list[bytes]:
    return [bytes_of("\n".join(line.split())) for line in SEEDS.split("\n") if line]


def _mutate(case: bytes, other: bytes, rng: random.Random) -> bytes:
    """Arguments changed, or added from the words of all tools, or taken from another command line."""
    lines = text_of(case).split("\n")
    for _ in range(rng.choice((0, 1, 1, 2))):
        at = rng.randrange(1, len(lines) + 1)
        words = _words()
        joined = rng.choice((rng.choice(words), f"{rng.choice(words)}={rng.choice(words)}"))
        lines[at:at] = [joined] if rng.random() < 0.7 else [joined, rng.choice(words)]
    text = "\n".join(lines)
    if rng.random() < 0.8:
        head, _, rest = text.partition("\n")
        text = f"{head}\n{mutate(rest, text_of(other), rng, ALL_EDITS, _words())}"
    return bytes_of(text)


def _arguments(case: bytes) -> tuple[str, list[str]]:
    """The tool and its arguments, none of which leads out of the folder or to what is left out.

    A command line holds no NUL.
    """
    tool, *arguments = re.sub(r"[/\\\0]", "", text_of(case)).split("\n")
    return tool if tool in TOOLS else "vyre-opt", [
        a for a in arguments if a.partition("=")[0] not in LEFT_OUT and a != ""
    ]


def _run(case: bytes) -> str:
    """The tool does it or says what is wrong, as `run_tool` does for a user."""
    tool, arguments = _arguments(case)
    _inodes()
    try:
        code = TOOLS[tool].main(arguments, prog_name=tool, standalone_mode=False)
    except click.ClickException as error:
        return f"refused: usage: {shape_of(error.format_message())}"
    except (ToolError, DiagnosticError) as error:
        return f"refused: error: {shape_of(str(error))}"
    except (click.Abort, TimedOut) as ended:
        return type(ended).__name__
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        _restore_files()
    return f"{tool} {code}"


def _restore_files() -> None:
    """Remove what the tool has written, which another case must not find."""
    for entry in os.scandir():
        if entry.name not in _files():
            if entry.is_file():
                os.unlink(entry.name)
        elif entry.stat().st_ino != _inodes()[entry.name]:  # the tools replace files, and change none
            Path(entry.name).write_bytes(_files()[entry.name])
            _inodes()[entry.name] = os.stat(entry.name).st_ino


OPTIONS = Target("options", ".args", "a command line of the three tools", _seeds, _mutate, _run, batch=3000)
