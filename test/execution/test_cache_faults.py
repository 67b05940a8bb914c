"""Whatever happens to a cache folder, what is computed is right, and nothing outside of it is touched."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cache_faults import FILE_FAULTS, SYSTEM_CALLS, SYSTEM_ERRORS, FailingSystem, fail_with
from support.cache_processes import put_and_die
from support.quick import quick

from vyre_opt import parse
from vyre_opt.cache_files import folder
from vyre_opt.execution.cache.inventory import check, remove_own_files, survey
from vyre_opt.execution.cache.store import Store, default_store
from vyre_opt.syntax.parser import tables
from vyre_opt.targets.cpu import compiler
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="modes, links, FIFOs"),
    pytest.mark.filterwarnings("ignore:(nothing is cached|an entry of the cache is not used)"),
]

TEXT = """vyre 1

program @p workgroup(8) {
  buffer @y : u32[8] write binding(0)
  spec @k : u32 = 7
  %i = global_id x
  %k = spec @k : u32
  %v = mul %i, %k : u32
  store %v, @y[%i] : u32
}
"""

FACTORS = (7, 9, 10)
"""Values of @k, each with an entry of its own: code under another's key would compute a wrong multiple."""


def use_cache() -> None:
    """Do what new processes would, with the folder of the environment: parse, compile or read, and compute."""
    tables.load.cache_clear()
    compiler._LOADED.clear()
    module = parse(TEXT)
    for factor in FACTORS:
        target = CpuDispatcher(workers=1, opt=0)
        (y,) = target.dispatch(
            module.programs["p"], [np.zeros(8, np.uint32)], 1, module=module, specs={"k": factor}
        )
        assert y.tolist() == [factor * n for n in range(8)]


# Lark takes longer than all the rest; its answer is always the same
_compile_grammar = cache(tables.compile_grammar)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A whole cache folder, which is not changed."""
    path = tmp_path_factory.mktemp("filled") / "cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VYRE_CACHE_DIR", str(path))
        patch.setattr(tables, "compile_grammar", _compile_grammar)
        use_cache()
    whole, damaged = check(Store(path))
    assert whole > len(FACTORS) + 1  # the tables, and what LLVM calls this machine among others
    assert not damaged
    yield path
    tables.load.cache_clear()


@pytest.fixture
def case(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A copy of that folder, which is the cache, and a folder outside."""
    root, outside = tmp_path / "cache", tmp_path / "outside"
    shutil.copytree(filled, root)
    outside.mkdir()
    (outside / "file").write_bytes(b"not ours")
    monkeypatch.setenv("VYRE_CACHE_DIR", str(root))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tables, "compile_grammar", _compile_grammar)
    return root, outside


def snapshot(outside: Path) -> dict[str, tuple[Any, ...]]:
    """Names, modes, owners, times and contents of all that is outside."""
    seen = {}
    for path in sorted((outside, *outside.rglob("*"))):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        seen[str(path)] = (status.st_mode, status.st_uid, status.st_mtime_ns, status.st_size, content)
    return seen


def seeds(kinds: Any, count: int) -> list[Any]:
    """Each kind `count` times with another seed; the first of each is quick."""
    return quick([(kind, seed) for kind in kinds for seed in range(count)], lambda case: case[0])


@pytest.mark.parametrize(("kind", "seed"), seeds(FILE_FAULTS, 20))
def test_faults_of_files(kind: str, seed: int, case: tuple[Path, Path]) -> None:
    """440 of them: programs compute what they should, and so do the commands of vyre-cache what they say."""
    root, outside = case
    FILE_FAULTS[kind](root, outside, random.Random(seed))
    before = snapshot(outside)
    use_cache()
    use_cache()
    store = default_store()
    survey(store)
    check(store)
    check(store, remove=True)
    use_cache()
    store.clear()
    remove_own_files(store)
    use_cache()
    assert snapshot(outside) == before


@pytest.mark.parametrize(("name", "seed"), seeds(sorted(SYSTEM_CALLS), 12))
def test_faults_of_calls(
    name: str, seed: int, case: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """168 of them: a call fails once, or from some time on; a full disk is `write` that fails."""
    root, outside = case
    rng = random.Random(f"{name} {seed}")
    if seed % 2:  # else there is nothing to write
        shutil.rmtree(root)
    before = snapshot(outside)
    failing = FailingSystem(
        rng.randrange(8 if seed else 1),
        fail_with(rng.choice(SYSTEM_ERRORS)),
        float("inf") if rng.random() < 0.5 else None,
        frozenset({name}),
    )
    with monkeypatch.context() as patch:
        patch.setattr(folder, "os", failing)
        use_cache()
        check(default_store(), remove=True)
        default_store().clear()
    use_cache()
    assert check(default_store())[1] == []
    assert snapshot(outside) == before


@pytest.mark.parametrize("count", [1, 7, 100])
def test_short_writes(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write may take fewer bytes than it is given, and a read give fewer."""

    class Short(FailingSystem):
        def write(self, fd: int, content: memoryview) -> int:
            return os.write(fd, content[:count])

        def read(self, fd: int, most: int) -> bytes:
            return os.read(fd, min(most, count))

    monkeypatch.setattr(folder, "os", Short(-1, lambda: None))
    store, payload = Store(tmp_path), os.urandom(1000)
    assert store.put(bytes(32), "cpu", payload)
    assert store.get(bytes(32), "cpu") == payload


@pytest.mark.parametrize(
    ("state", "call"),
    quick(
        [(state, call) for state in ("no folder", "an old entry") for call in (25, *range(60))],
        lambda case: case[0],
    ),
)
def test_killed_while_writing(state: str, call: int, tmp_path: Path) -> None:
    """At each call of the file system: the entry is the old one, the new one or none, and can be written anew."""
    key, old, new = bytes(32), b"old" * 100, b"new" * 1000
    store = Store(tmp_path / "cache")
    if state == "an old entry":
        store.put(key, "cpu", old)
    put_and_die(store.root, key, new, call)
    assert store.get(key, "cpu") in ((old, new) if state == "an old entry" else (None, new))
    assert check(store)[1] == []
    assert store.put(key, "cpu", new)
    assert store.get(key, "cpu") == new


def test_a_fault_is_noticed(case: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against faults that change nothing: without seals, swapped entries compute wrong multiples."""

    def believe(secret: bytes, content: bytes, key: bytes) -> tuple[str, bytes]:
        return "cpu", content[64:-32]

    root, _ = case
    entries = sorted(root.glob("compiled-1/*/*"))
    seven, nine = [path for path in entries if path.read_bytes()[8:12] == b"cpu\0"][:2]
    content = seven.read_bytes()
    seven.write_bytes(nine.read_bytes())
    nine.write_bytes(content)
    monkeypatch.setattr("vyre_opt.execution.cache.store.unpack", believe)
    with pytest.raises(AssertionError):
        use_cache()
