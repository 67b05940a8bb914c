"""The store on disk: it gives what was put there or nothing, whatever happens to its files."""

from __future__ import annotations

import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
from blake3 import blake3
from support.quick import quick

from vyre_opt.cache_files.entry import HEAD_BYTES, Damaged, pack, unpack
from vyre_opt.cache_files.folder import open_folder
from vyre_opt.cache_files.secret import KEY_FILE, read_key
from vyre_opt.execution.cache.inventory import Finding, check, survey
from vyre_opt.execution.cache.store import (
    ABANDONED_SECONDS,
    DEFAULT_LIMIT,
    SHARDS,
    Store,
    default_store,
    limit_of,
)
from vyre_opt.ir.bounded_read import read_size

HERE = Path(__file__).parent


def key(number: int) -> bytes:
    return blake3(number.to_bytes(8, "little")).digest()


def secret_of(store: Store) -> bytes:
    """The secret of a store's folder, made if there is none."""
    with open_folder(store.root, create=True) as folder:
        return read_key(folder, create=True)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache")


def test_gives_what_was_put(store: Store) -> None:
    """Bytes of any length, by key and kind; a later put replaces; another kind is not an answer."""
    assert store.get(key(1), "cpu") is None
    for payload in (b"", b"\0", os.urandom(100_000)):
        assert store.put(key(1), "cpu", payload)
        assert store.get(key(1), "cpu") == payload
    assert store.get(key(2), "cpu") is None
    assert store.get(key(1), "ptx") is None
    assert not [entry for entry in store.entries() if entry.is_partial]


def test_500_damaged_entries(store: Store) -> None:
    """Flipped bits, cuts, additions and swapped files, all over the entry: a miss, and the file goes."""
    rng = random.Random(5)
    secret = secret_of(store)
    whole = pack(secret, key(1), "cpu", os.urandom(300))
    other = pack(secret, key(2), "cpu", os.urandom(300))
    strange = pack(os.urandom(32), key(1), "cpu", os.urandom(300))
    path = Path(store.path(key(1)))
    path.parent.mkdir(parents=True)
    for number in range(500):
        damaged = bytearray(whole)
        if number % 5 < 3:
            damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        elif number % 5 == 3:
            del damaged[rng.randrange(len(whole)) :]
        else:
            damaged = bytearray(rng.choice((whole + b"\0", other, strange, b"", b"vyrecch1", whole * 2)))
        path.write_bytes(damaged)
        assert store.get(key(1), "cpu") is None
        assert not path.exists()
    path.write_bytes(whole)
    assert store.get(key(1), "cpu") == whole[HEAD_BYTES:-32]


def test_every_bit_of_an_entry_counts() -> None:
    """No byte of the file is outside of the seal, the seal's own included."""
    secret = os.urandom(32)
    whole = pack(secret, key(1), "ptx", b"body")
    for place in range(len(whole) * 8):
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        with pytest.raises(Damaged):
            unpack(secret, bytes(damaged), key(1))


@pytest.mark.parametrize("what", ["a file", "a folder in the entry's place", "the null device"])
def test_places_that_cannot_hold_entries(what: str, tmp_path: Path) -> None:
    """A store there misses and refuses, and raises nothing."""
    store = Store(tmp_path / "x")
    if what == "a file":
        (tmp_path / "x").write_text("in the way")
    elif what == "the null device":
        store = Store(Path(os.devnull))
    else:
        Path(store.path(key(1))).mkdir(parents=True)
    assert not store.put(key(1), "cpu", b"body")
    assert store.get(key(1), "cpu") is None
    assert not [entry for entry in store.entries() if entry.is_partial]


def test_full_disk(store: Store) -> None:
    """A write that stops half way leaves nothing: here, by the largest size that a file may have."""
    script = f"""
        import resource
        from pathlib import Path
        from vyre_opt.execution.cache.store import Store
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        store = Store(Path({str(Path(store.folder).parent)!r}))
        print(store.put(bytes(32), "cpu", bytes(5000)), store.get(bytes(32), "cpu"))
        print(store.put(bytes(32), "cpu", bytes(500)), len(store.get(bytes(32), "cpu")))
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert (ran.stdout, ran.stderr) == ("False None\nTrue 500\n", "")
    assert len(list(store.entries())) == 1
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_read_only_folder() -> None:
    """Entries are read from a folder that this user may not write; new ones are not kept."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        store = Store(folder)
        store.put(key(1), "cpu", b"body")
        for path in (folder, Path(store.folder), Path(store.path(key(1))).parent):
            path.chmod(0o555)
        for path in (Path(store.path(key(1))), folder / KEY_FILE):
            path.chmod(0o444)
        script = f"""
            import os
            from pathlib import Path
            import blake3
            from vyre_opt.execution.cache.store import Store
            if os.geteuid() == 0:  # who may write anywhere
                os.setuid(65534)
            store = Store(Path({str(folder)!r}))
            other = bytes([{key(1)[0]}]) + bytes(31)
            print(store.get(bytes.fromhex({key(1).hex()!r}), "cpu"), store.put(other, "cpu", b""))
        """
        ran = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (ran.stdout, ran.stderr) == ("b'body' False\n", "")
    finally:
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755)
        shutil.rmtree(folder)


@pytest.mark.parametrize(("limit", "count"), quick([(20_000, 200), (160_000, 600)]))
def test_limit_holds(tmp_path: Path, limit: int, count: int) -> None:
    """Whatever is put, the files never pass the limit, and what was used last stays."""
    store = Store(tmp_path, limit)
    favourite = key(0)
    store.put(favourite, "cpu", b"favourite")
    for number in range(1, count):
        os.utime(Path(store.path(favourite)), (time.time() + number,) * 2)
        assert store.put(key(number), "cpu", bytes(number))
        if number % 50 == 0:
            assert sum(entry.size for entry in store.entries()) <= limit
    assert store.get(favourite, "cpu") == b"favourite"
    assert store.get(key(count - 1), "cpu") == bytes(count - 1)
    assert count / 6 < sum(1 for _ in store.entries()) < count * 5 / 6


def test_reading_keeps_an_entry_young(tmp_path: Path) -> None:
    """Of three entries of one folder that holds two, the one not used for longest goes."""
    same = [bytes([16]) + bytes([n]) * 31 for n in range(3)]
    store = Store(tmp_path, len(SHARDS) * 2200)
    for age, name in ((200, same[0]), (100, same[1])):
        store.put(name, "cpu", bytes(900))
        os.utime(Path(store.path(name)), (time.time() - age,) * 2)
    assert store.get(same[0], "cpu") is not None
    store.put(same[2], "cpu", bytes(900))
    assert [store.get(name, "cpu") is not None for name in same] == [True, False, True]


def test_too_large_for_the_limit(tmp_path: Path) -> None:
    """An entry beyond its share is not kept, and pushes nothing out; a limit of 0 keeps nothing."""
    store = Store(tmp_path, len(SHARDS) * 1000)
    assert store.put(key(1), "cpu", bytes(500))
    assert not store.put(key(2), "cpu", bytes(1000))
    assert store.get(key(1), "cpu") == bytes(500)
    none = Store(tmp_path, 0)
    assert not none.put(key(3), "cpu", b"")
    assert none.get(key(1), "cpu") is None
    assert store.get(key(1), "cpu") == bytes(500)


def test_partial_files_of_the_dead_go(store: Store) -> None:
    """What a killed writer left goes after a while; what one writes now is let alone."""
    store.put(key(1), "cpu", b"body")
    folder = Path(store.path(key(1))).parent
    left, fresh = (folder / f"{key(1).hex()}.{name}.partial" for name in ("aa", "bb"))
    for path in (left, fresh):
        path.write_bytes(b"half")
    old = time.time() - ABANDONED_SECONDS - 1
    os.utime(left, (old, old))
    store.put(key(1), "cpu", b"body")
    assert not left.exists()
    assert fresh.exists()


def test_clear_removes_entries_only(store: Store) -> None:
    """A folder may hold what is not ours."""
    store.put(key(1), "cpu", b"body")
    stranger = Path(store.path(key(1))).with_name("README")
    stranger.write_text("mine")
    assert store.clear()[0] == 1
    assert stranger.read_text() == "mine"
    stranger.unlink()
    store.put(key(1), "cpu", b"body")
    store.clear()
    assert not Path(store.folder).exists()


def test_survey_and_check(store: Store) -> None:
    """What people are shown: kinds, bytes, and which file is damaged and why."""
    store.put(key(1), "cpu", b"body")
    store.put(key(2), "ptx", b"text")
    store.put(key(3), "ptx", b"text")
    contents = survey(store)
    assert {kind: count for kind, (count, _) in contents.kinds.items()} == {"cpu": 1, "ptx": 2}
    assert contents.size == sum(entry.size for entry in store.entries())
    Path(store.path(key(3))).write_bytes(Path(store.path(key(2))).read_bytes())
    whole, damaged = check(store)
    assert whole == 2
    assert damaged == [Finding(str(Path(store.path(key(3)))), "it belongs under another name")]


def test_sizes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What VYRE_CACHE_SIZE may say; nonsense is as if it were not set, with a warning."""
    sizes = {"0": 0, "100": 100, "64K": 65536, "64kb": 65536, "512M": 512 << 20, " 2G ": 2 << 30}
    assert {text: read_size(text) for text in sizes} == sizes
    for text in ("", "M", "-1", "1T", "1.5G", "٣", "9" * 20):
        with pytest.raises(ValueError, match="is not a size"):
            read_size(text)
        with (
            pytest.warns(match="VYRE_CACHE_SIZE: .* is not a size, such as 512M; the limit is 512M")
            if text
            else nullcontext([])
        ) as warned:
            assert limit_of(text) == DEFAULT_LIMIT
        assert all(each.filename == __file__ for each in warned), "at the line of the caller"
    monkeypatch.setenv("VYRE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("VYRE_CACHE_SIZE", "16M")
    assert (Path(default_store().folder).parent, default_store().limit) == (tmp_path, 16 << 20)


@pytest.mark.campaign
def test_many_processes(tmp_path: Path) -> None:
    """A short campaign; VYRE_CACHE_CAMPAIGN=60 makes it as long as the claim in docs/reference/cache.md."""
    seconds = os.environ.get("VYRE_CACHE_CAMPAIGN", "3")
    processes = "8" if float(seconds) >= 60 else "3"
    command = [sys.executable, str(HERE / "cache_campaign.py"), "--folder", str(tmp_path)]
    ran = subprocess.run(
        [*command, "--seconds", seconds, "--processes", processes],
        capture_output=True,
        text=True,
        timeout=float(seconds) + 60,
    )
    assert ran.returncode == 0, ran.stderr
    counts = {
        name.strip(): int(count) for count, name in (line.split(None, 1) for line in ran.stdout.splitlines())
    }
    assert counts["hits"] > 100
    assert counts["written"] > 20
    assert counts["flipped"] + counts["cut"] > 10
    assert counts["bytes at the end"] < 6 << 20
