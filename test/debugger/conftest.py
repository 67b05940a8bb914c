"""Runs kernels under the debugger with commands from a text."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

import vyre_opt as vyre


@pytest.fixture
def debugged() -> Callable[..., list[str]]:
    """`debugged(kernel, "n; p i", grid, *arguments, **options)`: the lines that the debugger writes."""

    def run(kernel: Any, commands: str, grid: Any, *args: Any, **options: Any) -> list[str]:
        out = io.StringIO()
        lines = io.StringIO("".join(f"{command.strip()}\n" for command in commands.split(";")))
        debugging = vyre.debug(kernel, stdin=lines, stdout=out, **options)
        (debugging if grid is None else debugging[grid])(*args)
        return out.getvalue().splitlines()

    return run
