"""The command-line tools called within the test's own process, for tables of many command lines.

A call takes a tenth of what a process takes.  What is about start-up, exit, signals or plugins needs a process.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import tempfile
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, chdir, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from subprocess import CompletedProcess
from unittest.mock import patch

from vyre_opt.execution import dispatcher as dispatchers
from vyre_opt.targets.cpu import compiler

from .tools import MODULES, STREAMS

__all__ = [
    "call_cache", "call_opt", "call_pack", "call_reduce", "call_run", "call_scan", "own_state", "streams",
]  # fmt: skip


def _call(tool: str, *args: object, text: str | bytes = "", cwd: Path | None = None) -> CompletedProcess[str]:
    """Call the `main` of a tool with `text` on stdin; stdout, stderr and the exit code come apart."""
    main = import_module(MODULES[tool]).main
    with tempfile.TemporaryDirectory() as folder:
        for name in STREAMS:
            stdin = text if isinstance(text, bytes) else text.encode()
            Path(folder, name).write_bytes(stdin if name == "stdin" else b"")
        with ExitStack() as stack:
            files = [os.open(Path(folder, name), flags) for name, flags in STREAMS.items()]
            for file in files:
                stack.callback(os.close, file)
            stack.enter_context(streams(files))
            stack.enter_context(own_state())
            stack.enter_context(chdir(cwd or os.getcwd()))
            code = main([*map(str, args)])
        stdout, stderr = (
            Path(folder, name).read_bytes().decode(errors="surrogateescape") for name in ("stdout", "stderr")
        )
        return CompletedProcess([tool, *map(str, args)], code, stdout, stderr)


call_opt, call_run, call_cache, call_pack, call_reduce, call_scan = (
    partial(_call, tool)
    for tool in ("vyre-opt", "vyre-run", "vyre-cache", "vyre-pack", "vyre-reduce", "vyre-scan")
)


@contextmanager
def streams(files: Sequence[int]) -> Iterator[None]:
    """Open files as the standard streams, for Python and for what writes to their numbers."""
    with ExitStack() as stack:
        for number, (name, file) in enumerate(zip(STREAMS, files, strict=True)):
            saved = os.dup(number)
            stack.callback(os.close, saved)
            stack.callback(os.dup2, saved, number)
            os.dup2(file, number)
            stream = stack.enter_context(os.fdopen(os.dup(number), "r" if number == 0 else "w"))
            stack.enter_context(patch.object(sys, name, stream))
        yield


@contextmanager
def own_state() -> Iterator[None]:
    """Undo what a tool does to its process, which has no dispatcher and no code of earlier calls: `--no-cache` compiles."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGPIPE)}
    try:
        with (
            patch.object(atexit, "register"),
            patch.object(compiler, "_LOADED", OrderedDict()),
            patch.object(dispatchers, "_shared", {}),
            warnings.catch_warnings(),
        ):
            yield
    finally:
        gc.enable()
        for number, handler in handlers.items():
            signal.signal(number, handler)
