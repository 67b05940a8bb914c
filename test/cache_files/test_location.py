"""Where the cache is: never in the working directory by accident."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vyre_opt.cache_files.location import cache_folder

linux = pytest.mark.skipif(not Path("/proc").exists(), reason="XDG_CACHE_HOME is Linux's")


@linux
@pytest.mark.parametrize("relative", ["cache", "./cache", "~/cache", ""])
def test_relative_xdg_folder_is_ignored(
    relative: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the XDG specification says of its variables."""
    monkeypatch.delenv("VYRE_CACHE_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", relative)
    assert Path(cache_folder()) == tmp_path / ".cache" / "vyre-opt"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert Path(cache_folder()) == tmp_path / "xdg" / "vyre-opt"


@linux
def test_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative home folder is none; then nothing is cached."""
    monkeypatch.delenv("VYRE_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "home")
    assert Path(cache_folder()) == Path(os.devnull, "vyre-opt")


def test_relative_folder_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts from the working directory at its first use, and does not move with the process."""
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    name = f"cache of {tmp_path.name}"
    monkeypatch.setenv("VYRE_CACHE_DIR", name)
    assert Path(cache_folder()) == tmp_path / name
    monkeypatch.chdir(tmp_path / "other")
    assert Path(cache_folder()) == tmp_path / name


def test_working_directory_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative folder is nowhere then, an absolute one where it says."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setenv("VYRE_CACHE_DIR", "cache below nothing")
    assert Path(cache_folder()) == Path(os.devnull, "cache below nothing")
    monkeypatch.setenv("VYRE_CACHE_DIR", str(tmp_path))
    assert Path(cache_folder()) == tmp_path
