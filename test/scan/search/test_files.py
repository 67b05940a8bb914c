"""Files searched in pieces, here and by workers, some of which die."""

from __future__ import annotations

import base64
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from support.search_oracle import literal_matches, regex_matches

from vyre_opt import BadInputs, EncodingError, Scanner
from vyre_scan.search import files

LITERALS = [b"needle", b"ed", b"pin" * 30]


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Of two processes on this machine."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
        Client(cluster) as connected,
    ):
        yield connected


def rows(table: pyarrow.Table) -> list[tuple[int, ...]]:
    return [tuple(row.values()) for row in table.select(["start", "end", "pattern"]).to_pylist()]


def some_data(rng: random.Random, size: int) -> bytes:
    data = bytearray(rng.choices(b"abedn \n", k=size))
    for _ in range(size // 200):
        literal = rng.choice(LITERALS)
        place = rng.randrange(max(1, size - len(literal)))
        data[place : place + len(literal)] = literal
    return bytes(data)


def written(folder: Path, encoding: str | None, breaks: bool = False) -> dict[str, bytes]:
    """Data by path."""
    rng = random.Random(2)
    result = {}
    for size in (0, 1, 3, 1000, 1024, 30_011, 70_000):
        path, data = folder / f"{size} ü.dat", some_data(rng, size)
        text = data if encoding is None else base64.b64encode(data)
        path.write_bytes(
            text if not breaks else b"\n".join(text[k : k + 76] for k in range(0, len(text), 76))
        )
        result[str(path)] = data
    return result


@pytest.mark.parametrize("on_workers", [False, True])
@pytest.mark.parametrize("encoding", [None, "base64"])
def test_pieces_of_files(tmp_path: Path, client: Any, encoding: str | None, on_workers: bool) -> None:
    expected = {path: literal_matches(LITERALS, data) for path, data in written(tmp_path, encoding).items()}
    scanner = Scanner(LITERALS, encoding)
    tables = scanner.scan_files(expected, client if on_workers else None, piece=1 << 10)
    assert {path: rows(table) for path, table in tables.items()} == expected
    for path, table in tables.items():
        if encoding:
            first, last = Scanner(LITERALS, encoding).scan(Path(path).read_bytes()).encoded_spans()
            assert table["encoded_start"].to_pylist() == first.tolist()
            assert table["encoded_end"].to_pylist() == last.tolist()


def test_files_that_are_not_cut(tmp_path: Path, client: Any) -> None:
    """Expressions of different lengths, and text with line breaks."""
    paths = written(tmp_path, "base64", breaks=True)
    assert all(
        rows(table) == literal_matches(LITERALS, paths[path])
        for path, table in Scanner(LITERALS, "base64", strict=False).scan_files(paths, client).items()
    )
    path = tmp_path / "text"
    path.write_bytes(b"abb ab\nabbb b")
    tables = Scanner([rb"ab+$", rb"\bb"], regex=True).scan_files([path], client)
    assert rows(tables[str(path)]) == regex_matches([rb"ab+$", rb"\bb"], path.read_bytes())


def test_anchors_look_across_pieces(tmp_path: Path) -> None:
    path = tmp_path / "text"
    data = b"ab ba\n" * 1000
    path.write_bytes(data)
    expressions = [rb"(?m:^ab\b)", rb"a\Z", rb"(?m:ba$)", rb"\n\Z"]
    tables = Scanner(expressions, regex=True).scan_files([path], piece=1 << 10)
    assert rows(tables[str(path)]) == [tuple(m) for m in Scanner(expressions, regex=True).scan(data)]


def test_a_worker_that_dies(tmp_path: Path, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pieces are searched again: the same matches, none lost and none twice."""
    rng = random.Random(5)
    path = tmp_path / "data"
    data = some_data(rng, 1_000_000)
    path.write_bytes(data)
    scanner = Scanner(LITERALS)
    yielded = files._on_workers

    def killing(*arguments: Any) -> Iterator[Any]:
        parts = yielded(*arguments)
        yield next(parts)
        before = client.run(os.getpid, on_error="ignore")
        os.kill(min(before.values()), signal.SIGKILL)
        yield from parts
        deadline = time.monotonic() + 30
        while len(after := client.run(os.getpid, on_error="ignore")) < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert set(after.values()) != set(before.values())

    monkeypatch.setattr(files, "BATCH", 4)
    monkeypatch.setattr(files, "_on_workers", killing)
    tables = scanner.scan_files([path], client, piece=1 << 14)
    assert rows(tables[str(path)]) == literal_matches(LITERALS, data)


@pytest.mark.parametrize(("left", "on_workers"), [(900, False), (1900, True), (4000, False)])
def test_a_file_that_becomes_shorter(
    left: int, on_workers: bool, tmp_path: Path, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a piece begins, in the bytes before one, and in the last one: an error that names the file."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for path in (whole, cut):
        path.write_bytes(b"needle " * 700)
    cut_to_pieces = files._pieces

    def truncate(scanner: Any, path: str, *rest: Any) -> list[files.Piece]:
        pieces = cut_to_pieces(scanner, path, *rest)
        if path == str(cut):
            os.truncate(path, left)
        return pieces

    monkeypatch.setattr(files, "_pieces", truncate)
    errors: dict[str, Exception] = {}
    scanner = Scanner([b"needle"])
    tables = scanner.scan_files([whole, cut], client if on_workers else None, errors=errors, piece=1 << 10)
    assert len(tables[str(whole)]) == 700
    assert [*errors] == [str(cut)]
    assert str(errors[str(cut)]).endswith(f"it has become shorter while it was searched: {str(cut)!r}")


def test_an_error_of_reading_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR)
    with pytest.raises(OSError, match="fifo"):  # which cannot be read from a place on
        Scanner([b"needle"]).scan_files([path])
    os.close(writer)


def test_files_that_cannot_be_searched(tmp_path: Path) -> None:
    good, bad, cut, missing = (tmp_path / name for name in ("good", "bad", "cut", "missing"))
    good.write_bytes(base64.b64encode(b"a needle"))
    bad.write_bytes(b"AAAA" * 2000 + b"AA!A" + b"AAAA" * 500)
    cut.write_bytes(b"AAAA" * 255 + b"AA==" + b"AAAA" * 500)  # padding where a piece ends
    scanner = Scanner(LITERALS, "base64")
    errors: dict[str, Exception] = {}
    tables = scanner.scan_files([good, bad, cut, missing, tmp_path, good], errors=errors, piece=1 << 10)
    assert [*tables] == [str(good)]
    assert rows(tables[str(good)]) == literal_matches(LITERALS, b"a needle")
    assert {path: type(error) for path, error in errors.items()} == {
        str(bad): EncodingError,
        str(cut): EncodingError,
        str(missing): FileNotFoundError,
        str(tmp_path): IsADirectoryError,
    }
    assert "at character 8002: '!'" in str(errors[str(bad)])
    with pytest.raises(EncodingError, match="bad: at character 8002"):
        scanner.scan_files([good, bad])
    with pytest.raises(FileNotFoundError):
        scanner.scan_files([missing])
    with pytest.raises(BadInputs, match=r"write \[path\]"):
        scanner.scan_files(str(good))
    assert scanner.scan_files([]) == {}


def test_workers_with_a_gpu(gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One beside a worker without; both in this process, so that they see the GPU in its memory."""
    from distributed import Client, LocalCluster
    from distributed.worker import get_worker

    searched: list[tuple[Any, str | None]] = []
    scanned = files._scanned

    def seen(scanner: Scanner, piece: files.Piece) -> Any:
        searched.append((get_worker().name, scanner.target))
        return scanned(scanner, piece)

    async def has_gpu(dask_worker: Any) -> None:
        await dask_worker.set_resources(GPU=1)

    monkeypatch.setattr(files, "_scanned", seen)
    wanted = written(tmp_path, "base64")
    settings = {"processes": False, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(n_workers=1, **settings) as cluster, Client(cluster) as connected:
        cluster.scale(2)
        connected.wait_for_workers(2)
        with_gpu = connected.scheduler_info()["workers"]
        first = next(iter(with_gpu))
        connected.run(has_gpu, workers=[first])
        tables = Scanner(LITERALS, "base64").scan_files(wanted, connected, piece=4096)
    names = {name for name, _ in searched}
    assert len(names) == 2
    assert {name for name, target in searched if target == "cuda"} == {with_gpu[first]["name"]}
    for path, data in wanted.items():
        assert rows(tables[path]) == [tuple(match) for match in literal_matches(LITERALS, data)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"paths": 5}, "paths is a list of paths, not int"),
        ({"paths": ["a", None]}, "path 1 is a str or a Path, not NoneType"),
        ({"paths": [b"a"]}, "path 0 is a str or a Path, not bytes"),
        ({"paths": ["a"], "piece": 0}, "piece is a number from 1 on, not 0"),
        ({"paths": ["a"], "piece": "x"}, "piece is a number from 1 on, not 'x'"),
        ({"paths": ["a"], "client": "tcp://a:1"}, "client is a distributed.Client, or None, not str"),
        ({"paths": ["a"], "errors": []}, "errors is a dict, or None, not list"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInputs, match=message):
        Scanner([b"a"]).scan_files(**arguments)
