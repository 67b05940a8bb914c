"""The manual pages say what the commands are today, and man(1) reads them without a warning."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import click
import man_pages
import pytest

PAGES = man_pages.PAGES


@pytest.mark.parametrize("tool", PAGES)
def test_pages_are_up_to_date(tool: str) -> None:
    written = (man_pages.FOLDER / f"{tool}.1").read_text(encoding="utf-8")
    assert written == man_pages.manual(tool), "run: python docs/man_pages.py"


def test_every_command_has_a_page_that_a_wheel_installs(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    assert sorted(project["project"]["scripts"]) == list(PAGES)
    assert sorted(path.stem for path in man_pages.FOLDER.iterdir()) == list(PAGES)
    shared = project["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    assert root / next(folder for folder, to in shared.items() if to == "share/man/man1") == man_pages.FOLDER


@pytest.mark.skipif(shutil.which("man") is None, reason="no man")
@pytest.mark.parametrize("tool", PAGES)
def test_man_shows_every_option_and_command(tool: str) -> None:
    ran = subprocess.run(
        ["man", "--warnings", "-l", man_pages.FOLDER / f"{tool}.1"],
        env={**os.environ, "MANWIDTH": "400", "MAN_KEEP_FORMATTING": "", "LC_ALL": "C.UTF-8"},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert ran.stderr == ""
    command = man_pages.command_of(tool)
    commands = [command, *(command.commands.values() if isinstance(command, click.Group) else ())]
    for each in commands:
        for param in each.params:
            if isinstance(param, click.Option):
                assert all(name in ran.stdout for name in param.opts + param.secondary_opts)
                assert " ".join((param.help or "").split()) in " ".join(ran.stdout.split())
    assert all(each.name in ran.stdout for each in commands)
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "SEE ALSO"):
        assert f"\n{section}\n" in ran.stdout
