"""vyre-cache, and what vyre-run keeps and finds, as a shell sees them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest
from support.tools_inside import call_cache, call_run

PROGRAM = """vyre 1

program @p workgroup(8) {
  buffer @y : u32[8] write binding(0)
  spec @k : u32 = 7
  %i = global_id x
  %k = spec @k : u32
  %v = mul %i, %k : u32
  store %v, @y[%i] : u32
}
"""


@pytest.fixture(scope="module")
def tables(run_opt: Callable, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that has the parser's tables, which take long to make, and no compiled code."""
    folder = tmp_path_factory.mktemp("tables") / "cache"
    run_opt(text=PROGRAM, env={**os.environ, "VYRE_CACHE_DIR": str(folder)})
    return folder


@pytest.fixture
def run_cache() -> Callable[..., subprocess.CompletedProcess]:
    """vyre-cache within this process."""

    def run(*args: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess:
        with patch.dict(os.environ, env or {}):
            return call_cache(*args)

    return run


@pytest.fixture
def environment(tables: Path, tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "VYRE_CACHE_DIR": str(shutil.copytree(tables, tmp_path / "cache"))}


def test_second_run_takes_no_compile(run_run: Callable, run_cache: Callable, environment: dict) -> None:
    """--timing, or --time, shows where the code came from; --no-cache and another --spec compile."""

    def run(*options: str) -> tuple[str, str]:
        ran = run_run("-", "--grid=1", "--timing", *options, text=PROGRAM, env=environment)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout, ran.stderr

    first, times = run()
    assert "compile @p" in times
    assert "from the cache" not in times
    second, times = run()
    assert "read @p from the cache" in times
    assert "compile @p" not in times
    assert first == second
    assert "compile @p" in run("--no-cache")[1]
    assert "compile @p" in run("--spec=k=8")[1]
    # two of @p, and the copy that launches are compared with; on some machines that is two as well
    entries = re.search(r"cpu +(\d+) entries", run_cache("info", env=environment).stdout)
    assert entries is not None
    assert int(entries[1]) in (3, 4)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("kk=1", "3:9: error: program @p has no spec @kk; it has @k; did you mean @k?"),
        ("k=true", "5:8: error: spec @k is u32: true is a bool, not a u32"),
        ("k=-1", "5:8: error: spec @k is u32: -1 does not fit in u32"),
    ],
)
def test_wrong_specs_are_located(spec: str, message: str) -> None:
    """vyre-run points at the declaration that a --spec does not fit, as vyre-opt does."""
    ran = call_run("-", "--grid=1", "--spec", spec, text=PROGRAM)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert f"<stdin>:{message}" in ran.stderr


def object_entry(folder: Path) -> Path:
    """The entry of the object code of a program, in a folder with one."""
    entries = [path for path in (folder / "compiled-1").glob("*/*") if path.read_bytes()[8:12] == b"cpu\0"]
    (entry,) = entries
    return entry


def test_no_cache_leaves_nothing(run_run: Callable, run_cache: Callable, environment: dict) -> None:
    ran = run_run("-", "--grid=1", "--no-cache", text=PROGRAM, env=environment)
    assert ran.returncode == 0
    assert "total    0 entries, 0 B" in run_cache("info", env=environment).stdout


def test_verify_and_clear(run_run: Callable, run_cache: Callable, environment: dict) -> None:
    """A damaged entry is named, with exit code 1; a run over it is right and repairs it."""
    folder = Path(environment["VYRE_CACHE_DIR"])
    good = run_run("-", "--grid=1", text=PROGRAM, env=environment).stdout
    files = 1 + len(list((folder / "compiled-1").glob("*/*")))
    assert run_cache("verify", env=environment).stdout == f"{files} files are whole, 0 damaged\n"
    entry = object_entry(folder)
    content = bytearray(entry.read_bytes())
    content[200] ^= 1
    entry.write_bytes(content)
    ran = run_cache("verify", env=environment)
    assert (ran.returncode, ran.stdout) == (1, f"{files - 1} files are whole, 1 damaged\n")
    assert ran.stderr == f"error: {entry}: its seal does not match\n"
    ran = run_run("-", "--grid=1", text=PROGRAM, env=environment)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, good, "")
    assert run_cache("verify", env=environment).returncode == 0
    entry.write_bytes(content)
    assert run_cache("verify", "--remove", env=environment).stderr.endswith("match; removed\n")
    assert not entry.exists()
    stranger = folder / "notes.txt"
    stranger.write_text("mine")
    run_run("-", "--grid=1", text=PROGRAM, env=environment)
    ran = run_cache("clear", env=environment)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith(f"removed {files - 1} entries, ")
    assert list(folder.iterdir()) == [stranger]


def test_usage(run_cache: Callable, environment: dict) -> None:
    """No command and a wrong one are usage errors; a folder that is none is an empty cache."""
    assert run_cache(env=environment).returncode == 2
    assert "Did you mean 'info'?" in run_cache("inf", env=environment).stderr
    missing = {**environment, "VYRE_CACHE_DIR": os.devnull}
    for command in ("info", "verify", "clear"):
        ran = run_cache(command, env=missing)
        assert (ran.returncode, ran.stderr) == (0, "")
    assert "_VYRE_CACHE_COMPLETE" in run_cache("--completion=bash").stdout


@pytest.mark.campaign
def test_size_of_the_cache(run_run: Callable, run_cache: Callable, environment: dict) -> None:
    """VYRE_CACHE_SIZE bounds it; 0 keeps nothing."""
    for size, total in (("0", "total    0 entries"), ("64M", "cpu      1 entry,")):
        run_run("-", "--grid=1", text=PROGRAM, env={**environment, "VYRE_CACHE_SIZE": size})
        assert total in run_cache("info", env=environment).stdout


@pytest.mark.filterwarnings("default")  # as in a process of its own
def test_a_size_that_is_none(run_cache: Callable, environment: dict) -> None:
    """It is not taken, and says so."""
    ran = run_cache("info", env={**environment, "VYRE_CACHE_SIZE": "abc"})
    assert ran.stderr == "warning: VYRE_CACHE_SIZE: 'abc' is not a size, such as 512M; the limit is 512M\n"
    assert ran.returncode == 0


posix = pytest.mark.skipif(os.name != "posix", reason="modes, links, FIFOs")


@posix
def test_links_and_fifos(run_run: Callable, run_cache: Callable, environment: dict, tmp_path: Path) -> None:
    """Guards against a FIFO that hangs every command, and against removing files behind a linked folder."""
    folder = Path(environment["VYRE_CACHE_DIR"])
    good = run_run("-", "--grid=1", text=PROGRAM, env=environment).stdout
    entry = object_entry(folder)
    entry.unlink()
    os.mkfifo(entry)
    assert "other    1 entry" in run_cache("info", env=environment).stdout
    ran = run_cache("verify", env=environment)
    assert (ran.returncode, ran.stderr) == (1, f"error: {entry}: it is no file\n")
    assert run_run("-", "--grid=1", text=PROGRAM, env=environment).stdout == good

    outside = tmp_path / "outside"
    entry.parent.rename(outside)
    damaged = outside / entry.name
    damaged.write_bytes(b"damaged, but not ours")
    entry.parent.symlink_to(outside)
    assert run_run("-", "--grid=1", text=PROGRAM, env=environment).stdout == good
    assert run_cache("clear", env=environment).returncode == 0
    assert run_cache("verify", env=environment).stderr.startswith(f"error: {entry.parent}: it is no folder")
    assert run_cache("verify", "--remove", env=environment).stderr.endswith("; removed\n")
    assert damaged.read_bytes() == b"damaged, but not ours"
    run_run("-", "--grid=1", text=PROGRAM, env=environment)
    assert entry.is_file()
    assert run_cache("verify", env=environment).returncode == 0


@posix
def test_folder_that_others_may_write_to(run_run: Callable, run_cache: Callable, environment: dict) -> None:
    """Said once, on stderr; the run is right, nothing is read or written, and vyre-cache says why."""
    folder = Path(environment["VYRE_CACHE_DIR"])
    good = run_run("-", "--grid=1", text=PROGRAM, env=environment).stdout
    folder.chmod(0o777)
    before = sorted((path, path.stat().st_mtime_ns) for path in folder.rglob("*"))
    ran = run_run("-", "--grid=1", text=PROGRAM, env=environment)
    reason = f"others may write to {folder} (mode 0777); "
    assert (ran.returncode, ran.stdout) == (0, good)
    assert ran.stderr.startswith(f"warning: nothing is cached: {reason}")
    assert ran.stderr.count("\n") == 1
    assert f"\nnot used {reason}" in run_cache("info", env=environment).stdout
    for command in ("verify", "clear"):
        ran = run_cache(command, env=environment)
        assert (ran.returncode, ran.stdout) == (1, "")
        assert ran.stderr.startswith(f"error: the cache is not used: {reason}")
    assert sorted((path, path.stat().st_mtime_ns) for path in folder.rglob("*")) == before
    folder.chmod(0o700)
    assert run_run("-", "--grid=1", text=PROGRAM, env=environment).stderr == ""


@pytest.mark.campaign
@posix
def test_folder_that_is_not_utf8(run_run: Callable, run_cache: Callable, tmp_path: Path) -> None:
    """Its name is written as the bytes that it is."""
    folder = os.fsdecode(bytes(tmp_path) + b"/\xc3\xbc\xe2\x82")
    environment = {**os.environ, "VYRE_CACHE_DIR": folder}
    assert run_run("-", "--grid=1", text=PROGRAM, env=environment).returncode == 0
    script = "import sys; from vyre_opt.cli.cache import main; sys.exit(main(['info']))"
    ran = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True)
    assert ran.stdout.startswith(b"folder   " + os.fsencode(folder) + b"\n")
    assert run_cache("clear", env=environment).returncode == 0
    assert os.listdir(folder) == []


@pytest.mark.campaign
def test_tables_are_verified(run_run: Callable, run_cache: Callable, environment: dict) -> None:
    """The parser's tables decide what a text means: any byte of them counts, and `verify` looks at them."""
    folder = Path(environment["VYRE_CACHE_DIR"])
    good = run_run("-", "--grid=1", text=PROGRAM, env=environment).stdout
    (tables,) = folder.glob("grammar-*.tables")
    files = 1 + len(list((folder / "compiled-1").glob("*/*")))
    content = bytearray(tables.read_bytes())
    content[len(content) // 2] ^= 1
    tables.write_bytes(content)
    ran = run_cache("verify", env=environment)
    assert (ran.returncode, ran.stdout) == (1, f"{files - 1} files are whole, 1 damaged\n")
    assert ran.stderr == f"error: {tables}: its seal does not match\n"
    assert run_run("-", "--grid=1", text=PROGRAM, env=environment).stdout == good
    assert run_cache("verify", env=environment).returncode == 0
    tables.write_bytes(content)
    assert run_cache("verify", "--remove", env=environment).stderr.endswith("; removed\n")
    assert not tables.exists()


@pytest.mark.campaign
def test_lost_key(run_run: Callable, run_cache: Callable, environment: dict) -> None:
    """Without the key no entry is believed; the next run makes another."""
    folder = Path(environment["VYRE_CACHE_DIR"])
    good = run_run("-", "--grid=1", text=PROGRAM, env=environment).stdout
    files = 1 + len(list((folder / "compiled-1").glob("*/*")))
    (folder / "vyre-cache.key").unlink()
    ran = run_cache("verify", env=environment)
    assert (ran.returncode, ran.stdout) == (1, f"0 files are whole, {files} damaged\n")
    assert ran.stderr.count("the key that it was sealed with is gone") == files
    assert run_run("-", "--grid=1", text=PROGRAM, env=environment).stdout == good
    assert run_cache("verify", env=environment).stdout == f"{files} files are whole, 0 damaged\n"


def test_results_of_the_tuner_are_passed_on(
    run_run: Callable, run_cache: Callable, tables: Path, tmp_path: Path
) -> None:
    """From one cache to another, by a file; wrong files are told, and take nothing."""
    here, there = (
        {**os.environ, "VYRE_CACHE_DIR": str(shutil.copytree(tables, tmp_path / name))}
        for name in ("here", "there")
    )
    tuned = run_run("-", "--grid=1", "--autotune", text=PROGRAM, env=here)
    assert tuned.returncode == 0, tuned.stderr
    file = tmp_path / "team.json"
    assert run_cache("export-tuning", str(file), env=here).stdout == "1 result\n"
    assert run_cache("export-tuning", "-", env=here).stdout == file.read_text()
    assert run_cache("import-tuning", str(file), env=there).stdout == "1 new result\n"
    assert run_cache("import-tuning", str(file), env=there).stdout == "0 new results\n"
    assert "(kept from before)" in run_run("-", "--grid=1", "--autotune", text=PROGRAM, env=there).stderr
    file.write_text("{}")
    wrong = run_cache("import-tuning", str(file), env=there)
    assert (wrong.returncode, wrong.stderr) == (
        1,
        f"error: {file}: not results of the tuner: it has no 'format'\n",
    )
    missing = run_cache("import-tuning", str(tmp_path / "none.json"), env=there)
    assert (missing.returncode, missing.stderr) == (
        1,
        f"error: cannot read {tmp_path / 'none.json'}: No such file or directory\n",
    )
