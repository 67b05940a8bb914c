"""The grammar's cache may be missing, damaged or impossible: the answer is the same."""

import os

import pytest
from support.quick import quick

TEXT = "vyre 1\n\nprogram @p workgroup(1) {\n}\n"
DAMAGED = [b"", b"\xff\xfe", b"[1]", b'{"pattern": "("}', b"[" * 100_000]


@pytest.mark.parametrize("content", quick(DAMAGED, ids=map(str, range(len(DAMAGED)))))
def test_damaged_cache_is_made_anew(content, run_opt, tmp_path):
    environment = {**os.environ, "VYRE_CACHE_DIR": str(tmp_path)}
    assert run_opt(text=TEXT, env=environment).stdout == TEXT
    (cache,) = tmp_path.glob("grammar-*.tables")
    cache.write_bytes(content)
    ran = run_opt(text=TEXT, env=environment)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, TEXT, "")
    assert b'"rules"' in cache.read_bytes()


@pytest.mark.parametrize("folder", quick(["none/x", os.devnull]))
def test_cache_that_cannot_be_written(folder, run_opt, tmp_path):
    (tmp_path / "none").write_text("a file where the folder should be")
    ran = run_opt(text=TEXT, cwd=tmp_path, env={**os.environ, "VYRE_CACHE_DIR": folder})
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, TEXT, "")
