"""NOTICE names what is installed beside the project."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOT_TO_RUN = {"dev", "docs", "examples", "notebook", "plot", "test"}
"""Extras for work on the project, its documents and examples."""


def test_all_that_is_needed_to_run_has_its_licence() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = set(project["dependencies"])
    for extra, requirements in project["optional-dependencies"].items():
        needed |= set(requirements) - ({*requirements} if extra in NOT_TO_RUN else set())
    names = {re.match(r"[\w-]+", requirement)[0] for requirement in needed}  # type: ignore[index]
    lines = re.findall(r"^    ([\w-]+)(?: \(\w+\))?  +\S", (ROOT / "NOTICE").read_text(), re.MULTILINE)
    assert names <= {*lines}
    assert "NOTICE" in project["license-files"]
