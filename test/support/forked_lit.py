"""lit, as `lit` runs it, but for the tools of its tests: they are forks of a process that has imported them.

Starting Python and importing takes ten times as long as what most of the tests have a tool do.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from vyre_opt.syntax.parser import tables

from .tools import become, modules

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
            options["preexec_fn"] = partial(
                _be_tool, import_module(MAINS[name]).main, args, env or os.environ
            )
        super().__init__(args, executable=executable, env=env, **options)


def _be_tool(main: Callable[[], object], args: Sequence[str], env: Mapping[str, str]) -> None:
    os.closerange(3, 1024)  # Popen waits until the pipe is closed by which it would hear of an error
    become(main, args, env)
