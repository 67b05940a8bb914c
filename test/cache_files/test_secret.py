"""The key of a folder: one for all processes, whole, and made again when it is lost."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cache_processes import in_processes, key_of_folder

from vyre_opt.cache_files import secret
from vyre_opt.cache_files.folder import Folder, Unsafe, open_folder
from vyre_opt.cache_files.secret import KEY_FILE, open_cache, read_key
from vyre_opt.execution.cache.store import Store


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Folder]:
    with open_folder(tmp_path) as opened:
        yield opened


def test_is_made_once(opened: Folder, tmp_path: Path) -> None:
    """Of 32 bytes, for its user alone; readers that are not to make one do not."""
    with pytest.raises(FileNotFoundError):
        read_key(opened)
    key = read_key(opened, create=True)
    assert len(key) == 32
    assert read_key(opened, create=True) == read_key(opened) == key
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == [KEY_FILE]


@pytest.mark.parametrize("damage", ["empty", "short", "long", "link", "fifo"])
def test_damaged_key_is_replaced(damage: str, opened: Folder, tmp_path: Path) -> None:
    """By one who may write; what a link points to is left."""
    path = tmp_path / KEY_FILE
    outside = tmp_path / "outside"
    outside.write_bytes(bytes(32))
    if damage == "link":
        path.symlink_to(outside)
    elif damage == "fifo":
        os.mkfifo(path)
    else:
        path.write_bytes({"empty": b"", "short": bytes(31), "long": bytes(33)}[damage])
    with pytest.raises(OSError):  # noqa: PT011, its text depends on the damage
        read_key(opened)
    key = read_key(opened, create=True)
    assert read_key(opened) == key
    assert outside.read_bytes() == bytes(32) != key


def test_eight_processes_agree(tmp_path: Path) -> None:
    """All start at an empty folder at once, and get the same key."""
    keys = in_processes(8, key_of_folder, tmp_path / "cache")
    assert len(set(keys)) == 1
    assert os.listdir(tmp_path / "cache") == [KEY_FILE]


def test_entries_of_another_folder_are_misses(tmp_path: Path) -> None:
    """Guards against code that was planted: a whole entry is believed only with this folder's key."""
    ours, theirs = Store(tmp_path / "ours"), Store(tmp_path / "theirs")
    key = bytes(32)
    theirs.put(key, "cpu", b"their code")
    ours.put(key, "cpu", b"our code")
    shutil.copy(theirs.path(key), ours.path(key))
    assert ours.get(key, "cpu") is None
    assert not Path(ours.path(key)).exists()


def test_warns_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is wrong, a process says one thing, once."""
    monkeypatch.setattr(secret, "_has_warned", False)
    tmp_path.chmod(0o777)
    store = Store(tmp_path)
    with pytest.warns(UserWarning, match="nothing is cached: others may write to ") as caught:
        assert store.get(bytes(32), "cpu") is None
    assert len(caught) == 1
    assert not store.put(bytes(32), "cpu", b"body")  # a second warning would be an error here
    with pytest.raises(Unsafe), open_cache(tmp_path, create=True):
        pass
    assert os.listdir(tmp_path) == []
