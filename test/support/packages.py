"""vyre-opt with packages that lie in a folder, as a process forked from one that has imported it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from .tools import TIMEOUT, processes

__all__ = ["run_opt_with"]

OUTPUT = "printed"
"""The file in the folder for what the tool prints."""


def run_opt_with(folder: Path, args: Sequence[str]) -> tuple[int, str]:
    """Run vyre-opt in a folder whose packages it finds; the exit code and what it prints, both streams.

    Raises TimeoutError.
    """
    process = processes().Process(target=_become, args=(folder, args, dict(os.environ)))
    process.start()
    process.join(TIMEOUT)
    if process.exitcode is None:
        process.kill()
        raise TimeoutError(f"vyre-opt did not end within {TIMEOUT} seconds")
    return process.exitcode, (folder / OUTPUT).read_text("utf-8")


def _become(folder: Path, args: Sequence[str], environment: dict[str, str]) -> None:
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    os.environ.clear()
    os.environ.update(environment, NO_COLOR="1")
    file = os.open(OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number in (1, 2):
        os.dup2(file, number)
    from vyre_opt.cli.opt import main

    sys.argv = ["vyre-opt", *args]
    sys.exit(main())
