"""lit, as `lit` runs it, but for the tools of its tests: they are forks of a process that has imported them.

Starting Python and importing takes ten times as long as what most of the tests have a tool do.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

from vyre_opt.ir.parser import tables

__all__ = ["main"]

MAINS = {
    "vyre-opt": "vyre_opt.cli.opt",
    "vyre-run": "vyre_opt.cli.run",
    "filecheck": "filecheck.main",
}
"""The module with the `main` of each tool."""

PACKAGES = ("vyre_opt.analysis", "vyre_opt.cli", "vyre_opt.ir", "vyre_opt.lowering", "vyre_opt.passes")
"""What tools import when they come to need it."""


def main() -> None:
    """Run lit with the arguments of this process."""
    from lit.main import main as run_lit

    for name in MAINS.values():
        import_module(name)
    for package in PACKAGES:
        for module in walk_packages(import_module(package).__path__, f"{package}."):
            import_module(module.name)
    tables.load()
    subprocess.Popen = _Popen  # type: ignore[assignment, misc]
    run_lit()


class _Popen(subprocess.Popen):  # type: ignore[type-arg]
    """A process, of a tool a fork that runs its `main` where another would begin its program."""

    def __init__(
        self,
        args: Any,
        *,
        executable: str | None = None,
        env: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        name = Path(executable or "").name
        if name in MAINS:
            options["preexec_fn"] = partial(_become, import_module(MAINS[name]).main, args, env or os.environ)
        super().__init__(args, executable=executable, env=env, **options)


def _become(tool: Callable[[], int | None], args: Sequence[str], env: Mapping[str, str]) -> None:
    """Run a tool in this process, whose folder and streams are those that it is to have, and end with its exit code."""
    os.closerange(3, 1024)  # Popen waits until the pipe is closed by which it would hear of an error
    sys.argv = [*args]
    os.environ.clear()
    os.environ.update(env)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
    code = 1
    try:
        code = tool() or 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
