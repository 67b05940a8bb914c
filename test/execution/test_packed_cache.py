"""Packs of cache entries: `vyre-cache export` writes them, and VYRE_PACKS has processes with an empty folder find them."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from support.tools_inside import call_cache

from vyre_opt.execution import compile
from vyre_opt.execution.cache.store import default_store
from vyre_opt.pack_files.format import read_pack
from vyre_opt.targets.cpu import compiler
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher

TEXT = """vyre 1
program @copy workgroup(32) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1) live_out
  %i = global_id x
  %v = load @x[%i] : u32
  store %v, @y[%i] : u32
}
"""


def outcomes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Whether a new process would compile the program."""
    monkeypatch.setattr(compiler, "_LOADED", type(compiler._LOADED)())
    target = CpuDispatcher(opt=0)
    x = np.arange(64, dtype=np.uint32)
    y = compile(TEXT, target=target)({"x": x}, 2, lengths={"y": 64})["y"]
    assert (y == x).all()
    return ["found" if each.cached else "compiled" for each in target.compilations]


@pytest.fixture
def pack(own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a pack of what the program uses; the cache folder is empty."""
    default_store().put(bytes(32), "tuning", b"a result of the tuner")
    assert outcomes(monkeypatch) == ["compiled"]
    assert outcomes(monkeypatch) == ["found"]
    folder = tmp_path / "packs"
    folder.mkdir(mode=0o700)
    assert call_cache("export", folder / "used.vyrepack").returncode == 0
    default_store().clear()
    assert outcomes(monkeypatch) == ["compiled"]
    default_store().clear()
    return folder


def test_what_a_program_used_is_found_elsewhere(pack: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exported = read_pack(pack / "used.vyrepack")
    kinds = {exported.about_part(name)["kind"] for name in exported.names("cache")}
    assert {"cpu", "tuning"} <= kinds <= {"cpu", "ir", "parser", "patterns", "ptx", "tuning"}
    monkeypatch.setenv("VYRE_PACKS", f"{pack}-none:{pack}")
    with pytest.warns(UserWarning, match="VYRE_PACKS: cannot read"):
        assert outcomes(monkeypatch) == ["found"]
    assert default_store().get(bytes(32), "tuning") == b"a result of the tuner"
    assert default_store().get(bytes(32), "cpu") is None


def test_what_others_may_write_and_what_is_damaged_is_not_used(
    pack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VYRE_PACKS", str(pack))
    pack.chmod(0o777)
    with pytest.warns(UserWarning, match="VYRE_PACKS: .*others may write"):
        assert outcomes(monkeypatch) == ["compiled"]
    default_store().clear()
    pack.chmod(0o700)
    file = pack / "used.vyrepack"
    file.write_bytes(file.read_bytes()[:-1])
    monkeypatch.setenv("VYRE_PACKS", f"{pack}:{pack}")
    with pytest.warns(UserWarning, match="is no pack: it is cut off"):
        assert outcomes(monkeypatch) == ["compiled"]


def test_an_empty_cache_is_an_error_of_export(own_cache: Path, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        failed = call_cache("export", tmp_path / "none.vyrepack")
    assert failed.returncode == 1
    assert "there is nothing in" in failed.stderr
