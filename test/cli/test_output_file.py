"""-o: the target is whole, old or new, whatever happens."""

import os
import stat

import pytest
from support.tools_inside import call_opt

from vyre_opt.cli.text_files import write_file

EMPTY = "vyre 1\n\nprogram @p workgroup(1) {\n}\n"


def test_failed_run_leaves_the_old_file(tmp_path):
    target = tmp_path / "out.vyre"
    target.write_text("old")
    for args in (["--spec", "x=1"], ["--emit=ptx", "--target=cpu"], ["--pass=nothing"]):
        assert call_opt("-", "-o", target, *args, text=EMPTY).returncode != 0
    assert call_opt("-", "-o", target, text="vyre 1\nfoo").returncode == 1
    split = EMPTY + "// -----\nfoo\n"
    assert call_opt("-", "-o", target, "--split-input-file", text=split).returncode == 1
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.vyre"]


def test_in_place(tmp_path):
    path = tmp_path / "a.vyre"
    path.write_text(EMPTY + "// gone\n")
    assert call_opt(path, "-o", path).returncode == 0
    assert path.read_text() == EMPTY


@pytest.mark.skipif(os.name != "posix", reason="modes and links")
def test_mode_is_kept_and_a_link_is_followed(tmp_path):
    target, link = tmp_path / "real.vyre", tmp_path / "link.vyre"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to("real.vyre")
    assert call_opt("-", "-o", link, text=EMPTY).returncode == 0
    assert link.is_symlink()
    assert target.read_text() == EMPTY
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_device_is_written_not_replaced():
    before = os.stat(os.devnull).st_mode
    assert call_opt("-", "-o", os.devnull, text=EMPTY).returncode == 0
    assert os.stat(os.devnull).st_mode == before


def test_dash_is_stdout():
    assert call_opt("-", "-o", "-", text=EMPTY).stdout == EMPTY


@pytest.mark.parametrize("place", ["none/out.vyre", "."])
def test_unwritable_target(place, tmp_path):
    ran = call_opt("-", "-o", tmp_path / place, text=EMPTY)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith(f"error: cannot write {tmp_path / place}: ")
    assert os.listdir(tmp_path) == []


def test_partial_file_of_another_process(tmp_path, monkeypatch):
    """Whatever lies there with the name of a partial file is left, and another name is taken."""
    stale = tmp_path / f".vyre-{bytes(6).hex()}.partial"
    stale.write_bytes(b"stale")
    numbers = iter((bytes(6), bytes(6), b"other!"))
    monkeypatch.setattr(os, "urandom", lambda count: next(numbers))
    write_file(b"new", str(tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == b"new"
    assert stale.read_bytes() == b"stale"
    assert sorted(os.listdir(tmp_path)) == [stale.name, "out"]


def test_longest_name(tmp_path):
    """The partial file's name does not grow with the target's."""
    target = tmp_path / ("o" * 255)
    assert call_opt("-", "-o", target, text=EMPTY).returncode == 0
    assert target.read_text() == EMPTY
