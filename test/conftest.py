"""Fixtures that any test may use: running the two tools as a shell does."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Ran = subprocess.CompletedProcess
SCRIPTS = Path(sys.executable).parent


def _runner(tool: str) -> Callable[..., Ran]:
    def run(*args: object, text: str | bytes = "", **rest) -> Ran:
        """Run the tool with `text` on stdin; stdout, stderr and the exit code come apart."""
        given = text if isinstance(text, bytes) else text.encode()
        command = [str(SCRIPTS / tool), *map(str, args)]
        done = subprocess.run(command, input=given, capture_output=True, check=False, timeout=120, **rest)
        return Ran(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture(scope="session")
def run_opt() -> Callable[..., Ran]:
    """`run_opt("--pass=cse", path)`: vyre-opt in a process of its own."""
    return _runner("vyre-opt")


@pytest.fixture(scope="session")
def run_run() -> Callable[..., Ran]:
    """`run_run(path, "--grid=4")`: vyre-run in a process of its own."""
    return _runner("vyre-run")
