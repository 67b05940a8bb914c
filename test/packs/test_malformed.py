"""Packs whose parts are whole, and wrong: each is an error that names the part, as whoever loads a pack without `trusted=` gets it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_gpu import Fake, FakeFunction, cupy, install, install_packs
from support.packed_kernels import FUNCTIONS, LEVEL
from support.quick import quick
from support.tools_inside import call_pack

import vyre_opt as vyre
from vyre_opt import kernels
from vyre_opt.execution import DispatchError
from vyre_opt.ir.tracebacks import CallerError
from vyre_opt.pack_files.compare import differences
from vyre_opt.pack_files.format import Pack, PackError, Part, canonical, pack_bytes
from vyre_opt.packs import load
from vyre_opt.packs import target as packed_target
from vyre_opt.targets.cuda import device

SEEDS = list(range(400))
JSON_KINDS = ("function", "plan", "program", "kernel", "faults", "remarks", "certificate")
ROWS = np.ones((3, 40), np.float32)


@pytest.fixture(scope="module")
def gpu() -> Any:
    with pytest.MonkeyPatch.context() as monkeypatch:
        fake = install(monkeypatch)
        install_packs(monkeypatch, fake)
        monkeypatch.setattr(device, "_devices", {0: fake.gpu})
        yield fake


@pytest.fixture(scope="module")
def whole(gpu: Fake, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("packs") / "whole.vyrepack"
    used = ("scale", "centred", "asserted", "both")
    functions = [each for each in FUNCTIONS if each.function.__name__ in used]
    shapes = {"centred": [(ROWS, ROWS)], "softmax": [(ROWS,)]}
    vyre.pack(path, [*functions, kernels.softmax], [LEVEL, "sm_80"], shapes, opt=0, cubins=False)
    return path.read_bytes()


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code is linked, and not run: what a forged pack says of the code of another is nothing to run."""

    class Linked:
        piece_bytes, pieces, kept_bytes = 0, (), 0

        def __init__(self, target: Any, call: Any) -> None:
            for form in target._by_source.values():
                target._object_code(form)

        def run(self, stream: int, *words: int) -> int:
            return 0

    monkeypatch.setattr(packed_target, "CpuPlan", Linked)
    monkeypatch.setattr(FakeFunction, "prepared_async_call", lambda *launch, **options: None)


# --- ways to change a part


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Containers and keys of all values within a value of JSON."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for key in keys for place in ((value, key), *_places(value[key]))]


VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    7,
    1 << 70,
    1.5,
    "",
    "x",
    "f32",
    [],
    [0],
    ["x", 1],
    {},
    {"x": 1},
)


def _changed_json(rng: random.Random, content: bytes, other: bytes) -> bytes:
    try:
        value = json.loads(content)
    except ValueError:
        return _flipped(rng, content, other)
    for _ in range(rng.choice((1, 1, 2))):
        places = _places(value)
        if not places:
            return canonical(rng.choice(VALUES))
        container, key = rng.choice(places)
        if rng.random() < 0.25:
            del container[key]
        elif rng.random() < 0.3:
            other_container, other_key = rng.choice(places)
            container[key] = (
                json.loads(json.dumps(other_container[other_key]))
                if other_key in _keys(other_container)
                else 0
            )
        else:
            container[key] = rng.choice(VALUES)
    return canonical(value)


def _keys(container: Any) -> Any:
    return container if isinstance(container, dict) else range(len(container))


def _flipped(rng: random.Random, content: bytes, other: bytes) -> bytes:
    bad = bytearray(content or b"\0")
    for _ in range(rng.choice((1, 2, 8))):
        bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
    return bytes(bad)


def _truncated(rng: random.Random, content: bytes, other: bytes) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _swapped(rng: random.Random, content: bytes, other: bytes) -> bytes:
    return other


CHANGES: tuple[Callable[[random.Random, bytes, bytes], bytes], ...] = (
    _changed_json,
    _changed_json,
    _changed_json,
    _flipped,
    _truncated,
    _swapped,
)


def _bad(rng: random.Random, whole: bytes) -> bytes:
    pack = Pack(whole, "whole")
    parts = [part for part in pack.parts() if part.kind not in ("pool", "launcher")]
    shared = [part for part in pack.parts() if part.kind in ("pool", "launcher")]
    at = rng.randrange(len(parts))
    part, about = parts[at], dict(parts[at].about)
    if rng.random() < 0.1:
        del parts[at]
    else:
        if about and rng.random() < 0.2:
            about[rng.choice(list(about))] = rng.choice(VALUES)
        content = rng.choice(CHANGES)(rng, part.content, rng.choice(parts).content)
        parts[at] = Part(part.name, part.kind, content, about)
    return pack_bytes([*parts, *shared], pack.about)


# --- what is made of them


def _called(pack: Any, name: str, on_gpu: bool) -> None:
    to = cupy if on_gpu else np.array
    x, y = to(np.ones(300, np.float32)), to(np.zeros(300, np.float32))
    rows, out = to(ROWS), to(np.zeros_like(ROWS))
    function = pack[name]
    if name == "softmax":
        function(rows)
    elif name == "both":
        function(x, y, 1.0)
    else:
        function[3](*((rows, out) if name == "centred" else (x, y)))


@pytest.mark.parametrize("seed", quick(SEEDS, lambda seed: seed % 4))
def test_malformed_parts_are_named(gpu: Fake, planned: None, whole: bytes, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    path = tmp_path / "bad.vyrepack"
    for _ in range(25):
        path.write_bytes(_bad(rng, whole))
        told = [_told(lambda: load(path))]
        if not told[0]:
            pack = load(path)
            told = [_told(lambda c=(pack, name, on): _called(*c)) for name in pack for on in (False, True)]
        assert all(str(path) in message for message in told if message)


def _told(call: Callable[[], object]) -> str:
    """The message of a pack's error, "" without one; other arguments than the code is for, or a fault, are errors of the call."""
    try:
        call()
    except PackError as error:
        return str(error)
    except (DispatchError, CallerError):
        pass
    return ""


@pytest.mark.parametrize("seed", quick(SEEDS[:40], lambda seed: seed % 2))
def test_the_tool_names_them(whole: bytes, tmp_path: Path, seed: int) -> None:
    rng = random.Random(f"tool {seed}")
    path, good = tmp_path / "bad.vyrepack", tmp_path / "good.vyrepack"
    content = (
        _bad(rng, whole) if seed % 2 else bytes(_flipped(rng, whole, b""))[: rng.choice((None, -1, 300))]
    )
    path.write_bytes(content)
    good.write_bytes(whole)
    part = rng.choice(Pack(whole, "").names())
    for command in (
        ("list", path),
        ("verify", path),
        ("diff", good, path),
        ("extract", path, part, "-o", tmp_path / "part"),
    ):
        ran = call_pack(*command)
        assert ran.returncode in (0, 1), ran.stderr
        assert "Traceback" not in ran.stderr
        assert "bug" not in ran.stderr, ran.stderr
    if seed % 2:
        assert differences(Pack(whole, ""), Pack(content, ""))
