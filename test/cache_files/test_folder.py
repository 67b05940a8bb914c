"""Folders and files are used if nobody else can have written them, and nothing is done through a link."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from vyre_opt.cache_files import folder
from vyre_opt.cache_files.folder import Folder, Irregular, Unsafe, open_folder

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes, owners, links")

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture(params=[0, 0o022, 0o777], ids=lambda mask: f"umask {mask:03o}")
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_modes_whatever_the_umask(umask: int, tmp_path: Path) -> None:
    """Every folder that is made is its user's alone, not the last one only, and so is every file."""
    with (
        open_folder(tmp_path / "a" / "b" / "c", create=True) as opened,
        opened.child("d", create=True) as inner,
    ):
        inner.replace("file", b"1")
        inner.create("other", b"2")
    made = tmp_path / "a"
    assert {mode(path) for path in (made, *made.rglob("*")) if path.is_dir()} == {0o700}
    assert {mode(path) for path in made.rglob("*") if path.is_file()} == {0o600}
    assert sorted(os.listdir(made / "b" / "c" / "d")) == ["file", "other"]


@pytest.mark.parametrize("writable", [0o777, 0o770, 0o720, 0o702, 0o1777], ids=oct)
@pytest.mark.parametrize("place", ["folder", "child", "parent"])
def test_folders_that_others_may_write_to(place: str, writable: int, tmp_path: Path) -> None:
    """Refused, and nothing is made there.  Only in a parent the sticky bit helps."""
    (tmp_path / "parent" / "folder" / "child").mkdir(parents=True)
    path = next(path for path in tmp_path.rglob("*") if path.name == place)
    path.chmod(writable)

    def open_child() -> None:
        with open_folder(tmp_path / "parent" / "folder", create=True) as opened:
            opened.child("child", create=True).__exit__(None, None, None)

    if (place, writable) == ("parent", 0o1777):
        open_child()
        return
    with pytest.raises(Unsafe) as caught:
        open_child()
    assert str(caught.value).startswith(f"others may write to {path} (mode {writable:04o}); ")


def test_missing_folder_below_an_unsafe_one_is_not_made(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(Unsafe):
        open_folder(tmp_path / "a" / "b", create=True)
    assert os.listdir(tmp_path) == []


@as_root
@pytest.mark.parametrize("place", ["parent", "parent/folder", "parent/folder/file"])
def test_what_belongs_to_another_user(place: str, tmp_path: Path) -> None:
    """Refused, whatever its mode, and so by root."""
    (tmp_path / "parent" / "folder").mkdir(parents=True)
    (tmp_path / "parent" / "folder" / "file").write_bytes(b"theirs")
    os.chown(tmp_path / place, NOBODY, NOBODY)
    message = f"{place} belongs to user {NOBODY}, and this is user 0;"
    with pytest.raises(Unsafe, match=message), open_folder(tmp_path / "parent" / "folder") as opened:
        opened.read("file", 10)


@as_root
def test_sandbox_that_maps_user_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There root's folders seem to be nobody's, `/` among them; those above the cache's are used then."""
    (tmp_path / "home" / "cache").mkdir(parents=True)
    os.chown(tmp_path / "home", NOBODY, NOBODY)
    with pytest.raises(Unsafe):
        open_folder(tmp_path / "home" / "cache")
    os.chown(tmp_path / "home" / "cache", NOBODY, NOBODY)
    owner_of_root = tmp_path / "home"  # what `/` is in the sandbox
    real = os.lstat
    monkeypatch.setattr(os, "lstat", lambda path: real(owner_of_root if path == "/" else path))
    with pytest.raises(Unsafe):  # but the cache's own folder must be ours
        open_folder(tmp_path / "home" / "cache")
    os.chown(tmp_path / "home" / "cache", 0, 0)
    open_folder(tmp_path / "home" / "cache").__exit__(None, None, None)


@as_root
def test_link_of_another_user_in_a_sticky_folder(tmp_path: Path) -> None:
    """Its owner may point it anywhere; one of our own is followed."""
    (tmp_path / "real").mkdir()
    tmp_path.chmod(0o1777)
    link = tmp_path / "link"
    link.symlink_to("real")
    open_folder(link).__exit__(None, None, None)
    os.lchown(link, NOBODY, NOBODY)
    with pytest.raises(Unsafe, match="link belongs to user"):
        open_folder(link)


def test_links_on_the_way(tmp_path: Path) -> None:
    """A link to the folder is followed, and the folders above its target are checked, too; one to itself ends."""
    target = tmp_path / "open" / "target"
    target.mkdir(parents=True)
    (tmp_path / "link").symlink_to("open/../open/./target")
    (tmp_path / "absolute").symlink_to(tmp_path / "link")
    with open_folder(tmp_path / "absolute") as opened:
        opened.replace("file", b"1")
    assert (target / "file").read_bytes() == b"1"
    target.parent.chmod(0o777)
    with pytest.raises(Unsafe):
        open_folder(tmp_path / "absolute")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="symbolic links"):
        open_folder(tmp_path / "loop")


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Folder]:
    with open_folder(tmp_path) as opened:
        yield opened


def test_what_is_no_file_is_not_read(opened: Folder, tmp_path: Path) -> None:
    """Guards against a FIFO, which would wait for its writer, and a link to /dev/zero, which has no end."""
    (tmp_path / "file").write_bytes(b"12345")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "folder").mkdir()
    for name in ("fifo", "link", "zero", "folder"):
        for read in (opened.read, opened.read_start):
            with pytest.raises(Irregular):
                read(name, 100)
    assert opened.read("file", 5) == b"12345"
    assert opened.read_start("file", 3) == b"123"
    with pytest.raises(Irregular, match="5 bytes, more than 4"):
        opened.read("file", 4)


@pytest.mark.parametrize("writable", [0o666, 0o620, 0o602], ids=oct)
def test_files_that_others_may_write(writable: int, opened: Folder, tmp_path: Path) -> None:
    """Not read; a write replaces them by a file of our own."""
    path = tmp_path / "file"
    path.write_bytes(b"theirs")
    path.chmod(writable)
    with pytest.raises(Unsafe):
        opened.read("file", 100)
    opened.replace("file", b"ours")
    assert opened.read("file", 100) == b"ours"


def test_nothing_is_done_through_a_link(opened: Folder, tmp_path: Path) -> None:
    """Writing and removing what is a link leaves what it points to; a folder behind a link is not opened."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(b"not ours")
    os.utime(outside / "file", (1, 1))
    for name in ("touched", "written", "removed"):
        (tmp_path / name).symlink_to(outside / "file")
    (tmp_path / "linked").symlink_to(outside)
    opened.touch("touched")
    opened.replace("written", b"ours")
    assert opened.remove("removed")
    with pytest.raises(OSError):  # noqa: PT011, the error number is the system's
        opened.child("linked", create=True)
    assert not opened.remove_folder("linked")
    assert (outside / "file").read_bytes() == b"not ours"
    assert (outside / "file").stat().st_mtime == 1
    assert opened.read("written", 10) == b"ours"


def test_create_does_not_replace(opened: Folder, tmp_path: Path) -> None:
    """The first process wins, and leaves no partial file; without hard links the file is made all the same."""
    opened.create("file", b"first")
    with pytest.raises(FileExistsError):
        opened.create("file", b"second")
    assert os.listdir(tmp_path) == ["file"]
    assert opened.read("file", 10) == b"first"


def test_without_hard_links(opened: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **more: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    opened.create("file", b"first")
    assert os.listdir(tmp_path) == ["file"]


def test_by_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where folders cannot be opened and there are no modes, as on Windows, paths do the same."""
    monkeypatch.setattr(folder, "_IS_POSIX", False)
    monkeypatch.setattr(folder, "_NO_LINK", 0)
    (tmp_path / "outside").mkdir()
    with open_folder(tmp_path / "a" / "b", create=True) as opened, opened.child("c", create=True) as inner:
        assert inner.fd is None
        inner.create("file", b"1")
        inner.replace("file", b"12")
        inner.touch("file")
        assert inner.read("file", 2) == b"12"
        assert [(name, status.st_size) for name, status in inner.scan()] == [("file", 2)]
        (tmp_path / "a" / "b" / "c" / "link").symlink_to("file")
        with pytest.raises(Irregular):
            inner.read("link", 2)
        (tmp_path / "a" / "b" / "linked").symlink_to(tmp_path / "outside")
        with pytest.raises(NotADirectoryError):
            opened.child("linked")
        assert inner.remove("link")
        assert inner.remove("file")
        assert opened.remove_folder("c")
