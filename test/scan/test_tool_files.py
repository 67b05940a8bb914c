"""Which files vyre-scan searches in folders, and what it reads of compressed files and archives."""

from __future__ import annotations

import base64
import bz2
import gzip
import json
import lzma
import subprocess
import zipfile
from pathlib import Path

import pytest
from support.tools_inside import call_scan


def names(folder: Path, *args: str) -> list[str]:
    ran = call_scan("-l", *args, cwd=folder)
    assert ran.stderr == ""
    return ran.stdout.splitlines()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", tmp_path], check=True, timeout=20)
    for name in (
        "a.py", "a.log", "keep.log", ".env", "build/x.py", "src/b.py", "src/c.txt", "src/gen/d.py", "src/gen/keep/e.py",
        "doc/f.md", "doc/g.log", ".github/h.yml",
    ):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("needle\n")
    (tmp_path / ".gitignore").write_text("*.log\n!keep.log\n/build/\n")
    (tmp_path / "src/.gitignore").write_text("gen/*\n!gen/keep\n")
    (tmp_path / "doc/.ignore").write_text("f.md\n!g.log\n")
    return tmp_path


def test_a_folder_is_searched_as_by_ripgrep(repository: Path) -> None:
    """What git ignores in the folder and above it, and hidden files, are left out; a named file never is."""
    expected = ["a.py", "doc/g.log", "keep.log", "src/b.py", "src/c.txt", "src/gen/keep/e.py"]
    assert [name.removeprefix("./") for name in sorted(names(repository, "needle", "."))] == expected
    assert names(repository / "src", "needle", ".") == ["./b.py", "./c.txt", "./gen/keep/e.py"]
    assert names(repository, "needle", "a.log", ".env") == ["a.log", ".env"]
    hidden = {name.removeprefix("./") for name in names(repository, "--hidden", "needle", ".")}
    assert {".env", ".github/h.yml"} < hidden
    assert "a.log" not in hidden
    ignored = {name.removeprefix("./") for name in names(repository, "--no-ignore", "needle", ".")}
    assert {"a.log", "build/x.py", "src/gen/d.py", "doc/f.md"} < ignored
    assert ".env" not in ignored


def test_all_files_as_by_grep(repository: Path) -> None:
    assert len(names(repository, "-r", "needle")) == 12
    assert names(repository, "-r", "--include=*.py", "--exclude=b*", "--exclude-dir=gen", "needle") == [
        "a.py",
        "build/x.py",
    ]


def test_globs_and_types(repository: Path) -> None:
    """A glob brings back what git ignores, as with ripgrep; of several the last that fits decides."""
    assert names(repository, "-g", "*.log", "needle", ".") == ["./a.log", "./keep.log", "./doc/g.log"]
    assert names(repository, "-t", "py", "-g", "!gen", "needle", ".") == ["./a.py", "./src/b.py"]
    assert "./a.py" not in names(repository, "-T", "py", "needle", ".")
    assert "py: *.py, *.pyi\n" in call_scan("--type-list").stdout


def test_compressed_files_and_archives(tmp_path: Path) -> None:
    content = b"one\na needle\n"
    for name, module in (("a.gz", gzip), ("b.bz2", bz2), ("c.xz", lzma)):
        (tmp_path / name).write_bytes(module.compress(content))
    with zipfile.ZipFile(tmp_path / "d.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("pkg/m.py", content * 2)
        archive.writestr("pkg/key", base64.b64encode(b"the key is a needle, too"))
    ran = call_scan("-rzn", "--blobs", "needle", cwd=tmp_path)
    assert ran.stdout.splitlines() == [
        "a.gz:2:a needle", "b.bz2:2:a needle", "c.xz:2:a needle", "d.whl/pkg/m.py:2:a needle", "d.whl/pkg/m.py:4:a needle",
        "d.whl/pkg/key:1:17:base64:needle",
    ]  # fmt: skip
    assert "a.gz:0\n" in call_scan("-rc", "needle", cwd=tmp_path).stdout


def test_archives_that_are_damaged(tmp_path: Path) -> None:
    """Each is an error that names it; the others are searched."""
    whole = gzip.compress(b"a needle\n" * 1000)
    (tmp_path / "a.gz").write_bytes(whole[:-20])
    (tmp_path / "b.gz").write_bytes(whole)
    (tmp_path / "c.zip").write_bytes(b"PK\x03\x04" + b"x" * 50)
    ran = call_scan("-zc", "needle", "a.gz", "b.gz", "c.zip", cwd=tmp_path)
    assert ran.returncode == 2
    assert "b.gz:1000\n" in ran.stdout
    assert [line.split(":")[1] for line in ran.stderr.splitlines()] == [
        " cannot read a.gz",
        " cannot read c.zip",
    ]


def test_binary_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\0\n a needle\n")
    assert call_scan("needle", "a", cwd=tmp_path).stdout == "a: binary file matches\n"
    assert call_scan("-a", "needle", "a", cwd=tmp_path).stdout == " a needle\n"
    assert call_scan("-c", "needle", "a", cwd=tmp_path).stdout == "1\n"


def test_text_and_blobs_in_one_run(tmp_path: Path) -> None:
    secret = b"AKIAIOSFODNN7EXAMPLE"
    quoted = base64.b64encode(b"\xff\xef~>>?" + secret).replace(b"+", b"%2B").replace(b"/", b"%2F")
    content = b"key = %s\nurl = /?k=%s&x\nhex %s\n" % (secret, quoted, secret.hex().encode())
    (tmp_path / "a").write_bytes(content)
    ran = call_scan("-n", "--blobs", "-E", "AKIA[0-9A-Z]{16}", "a", cwd=tmp_path)
    lines = ran.stdout.splitlines()
    assert lines[0] == f"1:key = {secret.decode()}"
    assert [line.split(":")[::2] for line in lines[1:]] == [["2", "base64"], ["3", "hex"]]
    ran = call_scan("--json", "--blobs", "-E", "AKIA[0-9A-Z]{16}", "a", cwd=tmp_path)
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [(row["line"], row.get("encoding")) for row in rows] == [(1, None), (2, "base64"), (3, "hex")]
    for row in rows:
        assert row["match"] == secret.decode()
        assert content.splitlines()[row["line"] - 1].decode() == row["text"]
        assert row["text"][row["column"] - 1 :].encode().startswith(content[row["start"] : row["end"]])


def test_many_small_files_and_large_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is searched together is found as if alone: nothing spans two files."""
    from vyre_scan.tool import command, documents

    parts = [
        b"nee",
        b"dle",
        b"needle",
        b"x" * 30,
        base64.b64encode(b"needle" * 4),
        base64.b64encode(b"nee" * 7),
        b"",
    ]
    for number in range(60):
        (tmp_path / f"{number:02}").write_bytes(parts[number % 7])
    outputs = set()
    for small, batch in ((1 << 20, 1 << 22), (10, 1 << 22), (1 << 20, 50)):
        monkeypatch.setattr(documents, "SMALL", small)
        monkeypatch.setattr(command, "BATCH_BYTES", batch)
        outputs.add(call_scan("-r", "--blobs", "-E", r"ne+dle", cwd=tmp_path).stdout)
    (output,) = outputs
    assert output.count("needle") == 9 + 4 * 8
