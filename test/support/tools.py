"""The command-line tools as processes, forked from one that has imported them.

Starting Python and importing takes ten times as long as what most tests have a tool do.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, NoReturn

__all__ = ["become", "modules", "processes", "run_tool"]

MODULES = {
    f"vyre-{name}": f"vyre_opt.cli.{name}" for name in ("opt", "run", "cache", "lsp", "pack", "reduce")
}
MODULES["vyre-scan"] = "vyre_scan.tool.command"
"""The module with the `main` of each tool."""

TIMEOUT = 120
STREAMS = {"stdin": os.O_RDONLY, "stdout": os.O_WRONLY, "stderr": os.O_WRONLY}


def run_tool(
    tool: str, args: Sequence[str], stdin: bytes, cwd: Path | None, env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a tool to its end; stdout, stderr and the exit code come apart.  Raises TimeoutError."""
    with tempfile.TemporaryDirectory() as folder:
        for name in STREAMS:
            Path(folder, name).write_bytes(stdin if name == "stdin" else b"")
        process = processes().Process(target=_become, args=(tool, args, folder, cwd, dict(env)))
        process.start()
        process.join(TIMEOUT)
        if process.exitcode is None:
            process.kill()
            raise TimeoutError(f"{tool} did not end within {TIMEOUT} seconds")
        stdout, stderr = (Path(folder, name).read_bytes().decode() for name in ("stdout", "stderr"))
        return subprocess.CompletedProcess([tool, *args], process.exitcode, stdout, stderr)


@cache
def processes() -> Any:
    """What makes processes that have numpy, LLVM and all of vyre_opt from the start."""
    context = get_context("forkserver")
    context.set_forkserver_preload(modules())
    return context


def modules() -> list[str]:
    """All that tools import when they come to need it."""
    import vyre_opt

    names = [module.name for module in walk_packages(vyre_opt.__path__, "vyre_opt.")]
    own = [name for name in names if name not in ("vyre_opt.torch", "vyre_opt.__main__")]
    return ["numpy", "llvmlite.binding", *own]


def become(main: Callable[[], object], args: Sequence[str], env: Mapping[str, str]) -> NoReturn:
    """Be a tool to its end, in a fork whose folder and streams are those that the tool is to have.

    `args`: with its name as the first.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = [*args]
    os.environ.clear()
    os.environ.update(env)
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace")
    code: object = 1
    try:
        code = main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


def _become(tool: str, args: Sequence[str], folder: str, cwd: Path | None, env: Mapping[str, str]) -> None:
    """Make this process the tool: its arguments, environment and folder, and files for its streams."""
    for number, (name, flags) in enumerate(STREAMS.items()):
        os.dup2(os.open(Path(folder, name), flags), number)
    sys.stdin = os.fdopen(0)  # multiprocessing has closed the one from the start
    sys.argv = [tool, *args]
    os.environ.clear()
    os.environ.update(env)
    if cwd is not None:
        os.chdir(cwd)
    sys.exit(import_module(MODULES[tool]).main())
