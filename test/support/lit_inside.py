"""lit, as `lit` runs it, but for the tools of its tests: they are called within its own processes.

A call takes a tenth of what a process takes.  What is about start-up, exit or signals is tested elsewhere.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, chdir
from importlib import import_module
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch

from vyre_opt.syntax.parser import tables

from .tools import modules
from .tools_inside import own_state, streams

__all__ = ["main"]

MAINS = {
    "vyre-opt": "vyre_opt.cli.opt",
    "vyre-run": "vyre_opt.cli.run",
    "filecheck": "filecheck.main",
}
"""The module with the `main` of each tool."""


def main() -> None:
    """Run lit with the arguments of this process."""
    from lit.main import main as run_lit

    for name in (*MAINS.values(), *modules()):
        import_module(name)
    tables.load()
    subprocess.Popen = _popen  # type: ignore[assignment, misc]
    run_lit()


_Process = subprocess.Popen


def _popen(args: Sequence[str], *, executable: str | None = None, **options: Any) -> Any:
    """A process, or the call of a tool."""
    name = Path(executable or "").name
    if name not in MAINS:
        return _Process(args, executable=executable, **options)
    return _Call(name, args, **{key: options[key] for key in ("cwd", "env", "stdin", "stdout", "stderr")})


class _Call:
    """The call of a tool, which is over when it is made; for lit it is a process whose output can be read."""

    def __init__(
        self,
        name: str,
        args: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        stdin: Any,
        stdout: Any,
        stderr: Any,
    ) -> None:
        self.stdin = io.BytesIO()
        self.stdout = _pipe() if stdout == subprocess.PIPE else None
        self.stderr = _pipe() if stderr == subprocess.PIPE else None
        files = [
            _pipe() if stdin == subprocess.PIPE else stdin,
            self.stdout or stdout,
            (self.stdout or stdout) if stderr == subprocess.STDOUT else self.stderr or stderr,
        ]
        main = import_module(MAINS[name]).main
        with streams([file.fileno() for file in files]), own_state(), ExitStack() as stack:
            stack.enter_context(chdir(cwd))
            stack.enter_context(patch.object(sys, "argv", [*args]))
            stack.enter_context(patch.dict(os.environ, env, clear=True))
            try:
                code = main()
            except SystemExit as end:
                code = end.code
        self.returncode = code if isinstance(code, int) else int(code is not None)
        for file in (self.stdout, self.stderr):
            if file is not None:
                file.seek(0)

    def communicate(self) -> tuple[str | None, str | None]:
        out, err = (None if file is None else file.read() for file in (self.stdout, self.stderr))
        return out, err

    def wait(self) -> int:
        return self.returncode


def _pipe() -> IO[str]:
    return tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace", newline="")
