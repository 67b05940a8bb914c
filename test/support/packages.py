"""vyre-opt with packages that lie in a folder, in a process forked from one that has imported it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from .tools import TIMEOUT, processes

__all__ = ["run_opt_with"]


def run_opt_with(folder: Path, *commands: Sequence[str]) -> list[tuple[int, str]]:
    """Run command lines of vyre-opt, one after the other, in a folder whose packages it finds.

    Gives the exit code and what is printed, both streams, of each.  Raises TimeoutError.
    """
    process = processes().Process(target=_become, args=(folder, commands, dict(os.environ)))
    process.start()
    process.join(TIMEOUT)
    if process.exitcode is None:
        process.kill()
        raise TimeoutError(f"vyre-opt did not end within {TIMEOUT} seconds")
    assert process.exitcode == 0
    ends = [_printed(number).with_suffix(".code") for number in range(len(commands))]
    return [
        (int((folder / end).read_text()), (folder / end.with_suffix(".txt")).read_text("utf-8"))
        for end in ends
    ]


def _printed(number: int) -> Path:
    return Path(f"printed-{number}.txt")


def _become(folder: Path, commands: Sequence[Sequence[str]], environment: dict[str, str]) -> None:
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    os.environ.clear()
    os.environ.update(environment, NO_COLOR="1")
    from vyre_opt.cli.opt import main

    for number, args in enumerate(commands):
        file = os.open(_printed(number), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(file, stream)
        os.close(file)
        code = main(list(args))
        for written in (sys.stdout, sys.stderr):
            written.flush()
        _printed(number).with_suffix(".code").write_text(str(code))
