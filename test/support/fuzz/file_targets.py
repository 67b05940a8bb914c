"""Files that the compiler reads: .npy inputs, entries of the compile cache, tables of the grammar."""

from __future__ import annotations

import io
import os
import random
import re
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from vyre_opt.cache_files.entry import pack
from vyre_opt.cache_files.secret import KEY_FILE
from vyre_opt.cli import run_buffers
from vyre_opt.cli.errors import ToolError
from vyre_opt.execution import BadInputs
from vyre_opt.execution.arrays import storage_type
from vyre_opt.execution.cache.store import LAYOUT, Store
from vyre_opt.ir import parse
from vyre_opt.syntax.parser import tables
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher

from .byte_mutations import BYTES, mutate
from .target import Target, Wrong, shape_of
from .text_mutations import ALL_EDITS
from .text_mutations import mutate as mutate_text

__all__ = ["CACHE", "NPY", "TABLES"]

# --- .npy

READERS = ("f32[?]", "bool[?]", "vec<4 x u8>[?]", "bf16[?]", "i64[3]")
"""Buffers that a file is read for."""
ARRAYS: tuple[Any, ...] = (
    np.arange(12, dtype="<f4"),
    np.arange(12, dtype=">f4").reshape(3, 4),
    np.array([True, False]),
    np.zeros((2, 4), "u1"),
    np.asfortranarray(np.arange(6, dtype="u2").reshape(2, 3)),
    np.array([1, 2, 3]),
    np.zeros((0, 5), "f8"),
    np.array(7, "i8"),
    np.zeros(2, "c8"),
    np.zeros(2, "M8[s]"),
    np.zeros(2, "S3"),
    np.zeros(1, [("a", "i4"), ("b", "f8")]),
)
MAGIC = b"\x93NUMPY"


@cache
def _readers() -> list[Any]:
    """A program for each of READERS."""
    texts = (
        f"vyre 1 program @read workgroup(1) {{ buffer @x : {buffer} read binding(0) }}" for buffer in READERS
    )
    return [run_buffers.compile_entry(parse(text), None, "ref", ()) for text in texts]


def _npy_seeds() -> list[bytes]:
    seeds = []
    for array in ARRAYS:
        for version in ((1, 0), (2, 0), (3, 0)):
            file = io.BytesIO()
            np.lib.format.write_array(file, array, version)
            seeds.append(file.getvalue())
    return seeds


def _mutate_npy(case: bytes, other: bytes, rng: random.Random) -> bytes:
    """Its bytes changed, or its header as the text of Python that it is."""
    if rng.random() < 0.5 or not case.startswith(MAGIC) or b"\n" not in case:
        return mutate(case, other, rng, BYTES)
    wide = case[6:7] != b"\x01"
    start, end = 12 if wide else 10, case.index(b"\n") + 1
    header = mutate_text(case[start:end].decode("latin1"), other[:200].decode("latin1"), rng, ALL_EDITS)
    content = header.encode("latin1", "replace")
    if not wide:
        content = content[: 2**16 - 1]
    size = len(content).to_bytes(4 if wide else 2, "little")
    return case[:8] + size + content + case[end:]


def _run_npy(case: bytes) -> str:
    """An array as the buffer has it, or an error in words, for each type of buffer."""
    path = Path("case.npy")
    path.write_bytes(case)
    answers = []
    for executable in _readers():
        (buffer,) = executable.signature.parameters
        try:
            files = run_buffers.read_inputs(executable, [("x", str(path))])
            (array,) = run_buffers.arguments(executable, files, (), ())
        except (ToolError, BadInputs) as error:
            answers.append(shape_of(str(error)))
            continue
        if array.dtype != storage_type(buffer.dtype) or not array.flags.aligned:
            raise Wrong(f"{buffer.dtype} is read as {array.dtype}")
        answers.append("read")
    return ("" if "read" in answers else "refused: ") + " / ".join(answers)[:300]


NPY = Target("npy", ".npy", "a .npy file through --in", _npy_seeds, _mutate_npy, _run_npy, is_text=False)


# --- entries of the cache

SECRET = bytes(range(32))
KEY = bytes(range(64, 96))
PAYLOAD = bytes(range(200))
DOUBLE = """vyre 1
program @double workgroup(4) {
  buffer @x : u32[4] read binding(0)
  buffer @y : u32[4] write binding(1)
  %i = global_id x
  %v = load @x[%i] : u32
  %twice = add %v, %v : u32
  store %twice, @y[%i] : u32
}
"""


@cache
def _cache_folder() -> Path:
    """A cache folder whose secret is SECRET, so that cases are the same in each run."""
    folder = Path("cache").absolute()
    folder.mkdir(mode=0o700, exist_ok=True)
    file = os.open(folder / KEY_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(file, SECRET)
    os.close(file)
    return folder


def _write(path: Path, content: bytes) -> None:
    """As the cache itself would: for this user alone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(file, content)
    os.close(file)


@cache
def _compiled() -> tuple[Path, bytes, Any, Any]:
    """The file of @double's code, its content, its module, and its inputs."""
    folder = _cache_folder()
    module = parse(DOUBLE)
    inputs = [np.arange(4, dtype=np.uint32), np.zeros(4, np.uint32)]
    before = _entries(folder)
    CpuDispatcher(workers=1).dispatch(module.programs["double"], inputs, 1, module=module)
    (path,) = [path for path in _entries(folder) - before if path.stat().st_size > 1000][:1]
    return path, path.read_bytes(), module, inputs


def _entries(folder: Path) -> set[Path]:
    return set((folder / LAYOUT).glob("?/*"))


def _cache_seeds() -> list[bytes]:
    """Entries of each kind, one under another key, one sealed with another secret, and code for this machine."""
    kinds = [pack(SECRET, KEY, kind, PAYLOAD) for kind in ("cpu", "ptx", "tuning", "parser")]
    return [
        *kinds,
        pack(SECRET, PAYLOAD[:32], "cpu", PAYLOAD),
        pack(KEY, KEY, "cpu", PAYLOAD),
        _compiled()[1],
    ]


def _mutate_bytes(case: bytes, other: bytes, rng: random.Random) -> bytes:
    return mutate(case, other, rng, BYTES)


def _run_cache(case: bytes) -> str:
    """The store gives what was put there or nothing; a program whose entry is damaged is compiled again."""
    store = Store(_cache_folder())
    _write(Path(store.path(KEY)), case)
    payload = store.get(KEY, "cpu")
    if payload is not None and payload != PAYLOAD:
        raise Wrong("the store gives other bytes than were put there")
    path, _, module, inputs = _compiled()
    _write(path, case)
    (doubled,) = CpuDispatcher(workers=1).dispatch(module.programs["double"], inputs, 1, module=module)
    if doubled.tolist() != [0, 2, 4, 6]:
        raise Wrong(f"a damaged entry computes {doubled.tolist()}")
    return "refused: a miss" if payload is None else "a hit"


CACHE = Target(
    "cache",
    ".bin",
    "an entry of the compile cache",
    _cache_seeds,
    _mutate_bytes,
    _run_cache,
    batch=4000,
    is_text=False,
)


# --- the tables of the grammar


@cache
def _grammar() -> tuple[Path, bytes, dict[str, Any], Any]:
    """The file of the tables, its key, the tables as JSON values, and in memory."""
    text = tables.grammar_text()
    key = tables.table_key(text)
    encoded = tables.compile_grammar(text)
    return _cache_folder() / f"grammar-{key.hex()}.tables", key, encoded, tables._decode(encoded)


def _tables_seeds() -> list[bytes]:
    path, *_ = _grammar()
    _write(path, b"")
    with patch.object(tables, "compile_grammar", lambda text: _grammar()[2]):
        tables.load.__wrapped__()
    return [path.read_bytes(), pack(SECRET, KEY, "parser", PAYLOAD)]


def _mutate_tables(case: bytes, other: bytes, rng: random.Random) -> bytes:
    """Bytes of the file, or numbers and names of the JSON in it."""
    if rng.random() < 0.7:
        return mutate(case, other, rng, BYTES)
    numbers = list(re.finditer(rb"\d+|\w+|[\[\]{}\",:]", case))
    chosen = rng.choice(numbers) if numbers else None
    if chosen is None:
        return case
    return (
        case[: chosen.start()]
        + rng.choice((b"", b"0", b"-1", b"999999", b"[]", b"null"))
        + case[chosen.end() :]
    )


def _run_tables(case: bytes) -> str:
    """What loads is the grammar's tables, whatever the file holds; a sealed file of wrong JSON is no error."""
    path, key, encoded, right = _grammar()
    load = tables.load.__wrapped__
    with patch.object(tables, "compile_grammar", lambda text: encoded):
        _write(path, case)
        loaded = load()
        for name in ("terminals", "keywords", "actions", "gotos", "start", "accept"):
            if getattr(loaded, name) != getattr(right, name):
                raise Wrong(f"a damaged file gives other {name}")
        _write(path, pack(SECRET, key, "parser", case[72:-32]))
        load()
    return "loaded"


TABLES = Target(
    "tables",
    ".bin",
    "the cached tables of the grammar",
    _tables_seeds,
    _mutate_tables,
    _run_tables,
    batch=3000,
    is_text=False,
)
