"""Assembling PTX where ptxas is on the PATH; elsewhere the run says at its end what it left out."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

PTXAS = shutil.which("ptxas")
_LEFT_OUT: pytest.StashKey[int] = pytest.StashKey()


@pytest.fixture
def assemble(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str, str], None]:
    """`assemble(ptx, "sm_90")` fails the test if ptxas refuses the text."""

    def run(ptx: str, target: str) -> None:
        if PTXAS is None:
            stash = request.config.stash
            stash[_LEFT_OUT] = stash.get(_LEFT_OUT, 0) + 1
            return
        source = tmp_path / "kernels.ptx"
        source.write_text(ptx)
        command = [PTXAS, f"-arch={target}", "-O1", str(source), "-o", str(tmp_path / "kernels.cubin")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.fail(f"ptxas refuses it for {target}:\n{done.stderr[:2000]}", pytrace=False)

    return run


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    left_out = config.stash.get(_LEFT_OUT, 0)
    if left_out:
        terminalreporter.write_line(
            f"LEFT OUT: {left_out} PTX texts were made but not assembled: no ptxas on the PATH", yellow=True
        )
