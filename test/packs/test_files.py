"""Packs as files: damage is found, forgeries are refused where there is something to trust, and equal packs are equal bytes."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from blake3 import blake3
from support.packed_kernels import FUNCTIONS, LEVEL
from support.quick import quick
from support.tools_inside import call_pack

import vyre_opt as vyre
from vyre_opt.pack_files import compare, trust
from vyre_opt.pack_files.format import Pack, PackError, Part, Signature, pack_bytes, read_pack
from vyre_opt.packs import load

PRIVATE_KEY = bytes(range(32))
PARTS = [
    Part("a", "text", b"one"),
    Part("b/empty", "text", b""),
    Part("b/object", "object", bytes(range(100)), {"level": "x"}),
]
SMALL = pack_bytes(PARTS, {"abi": 1})


def test_a_pack_is_read_as_it_was_written() -> None:
    pack = Pack(SMALL, "small")
    assert pack.parts() == PARTS
    assert pack.names("object") == ["b/object"]
    assert pack.about_part("b/object") == {"level": "x"}
    pack.check()
    assert pack_bytes(reversed(pack.parts()), {"abi": 1}) == SMALL
    with pytest.raises(PackError, match="two parts"):
        pack_bytes([*PARTS, PARTS[0]], {})


def test_the_bytes_are_those_of_the_document() -> None:
    """docs/packs.md, read anew by hand."""
    size = int.from_bytes(SMALL[16:24], "little")
    assert SMALL[:16] == b"vyrepack" + (1).to_bytes(4, "little") + bytes(4)
    assert SMALL[24:56] == blake3(SMALL[56 : 56 + size]).digest()
    assert SMALL[56:].startswith(b'{"about":{"abi":1},"parts":[{"about":{},"digest":"')
    assert Pack(SMALL, "").digest == blake3(SMALL[: 56 + size]).hexdigest()
    first = -(-(56 + size) // 64) * 64
    assert SMALL[first : first + 3] == b"one"
    assert SMALL[first + 64 :] == bytes(range(100))


def test_every_damaged_byte_is_found() -> None:
    signed = pack_bytes(PARTS, {"abi": 1}, Signature(bytes(32), bytes(64)))
    for at in range(len(SMALL)):
        damaged = bytearray(signed)
        damaged[at] ^= 1 << at % 8
        with pytest.raises(PackError):
            Pack(bytes(damaged), "damaged").check()
    for end in range(len(SMALL)):
        with pytest.raises(PackError):
            Pack(SMALL[:end], "cut").check()
    with pytest.raises(PackError, match="something behind its last part"):
        Pack(SMALL + b"\0", "longer")


WRONG_INDICES = [
    b"[]",
    b'{"about":{},"parts":{}}',
    b'{"about":{},"parts":[{}]}',
    b'{"about":[],"parts":[]}',
    b'{"about":{}, "parts":[]}',
    b'{"about":{},"parts":[{"about":{},"digest":"","kind":"text","name":"a","size":-1}]}',
    b'{"about":{},"parts":[{"about":{},"digest":"","kind":"text","name":"a","size":99}]}',
    b'{"about":{},"parts":[{"about":{},"digest":"","kind":"text","name":"a\x1b[2J","size":0}]}',
    b"[" * 100_000,
    b'{"about":{"a":NaN},"parts":[]}',
    b"\xff",
]


@pytest.mark.parametrize("index", WRONG_INDICES, ids=range(len(WRONG_INDICES)))
def test_an_index_is_not_believed_for_its_digest(index: bytes) -> None:
    head = b"vyrepack" + (1).to_bytes(4, "little") + bytes(4) + len(index).to_bytes(8, "little")
    with pytest.raises(PackError):
        Pack(head + blake3(index).digest() + index, "forged").check()


@pytest.fixture(scope="module")
def packs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two packs of the same kernels at two levels of the optimiser."""
    folder = tmp_path_factory.mktemp("packs")
    paths = [folder / "one.vyrepack", folder / "other.vyrepack"]
    for opt, path in enumerate(paths):
        vyre.pack(path, FUNCTIONS[:1], LEVEL, opt=opt)
    return paths


def test_the_same_functions_are_the_same_bytes(packs: list[Path], tmp_path: Path) -> None:
    digest = vyre.pack(tmp_path / "again", FUNCTIONS[:1], LEVEL, opt=0)
    assert (tmp_path / "again").read_bytes() == packs[0].read_bytes()
    assert digest == read_pack(packs[0]).digest != read_pack(packs[1]).digest


def test_packs_are_compared_and_merged(packs: list[Path], tmp_path: Path) -> None:
    one, other = map(read_pack, packs)
    assert compare.differences(one, one) == []
    assert {line[0] for line in compare.differences(one, other)} == {"!"}
    assert compare.merged([one, one]) == packs[0].read_bytes()
    more = Pack(pack_bytes(PARTS, one.about), "more")
    assert Pack(compare.merged([one, more]), "merged").names() == sorted(one.names() + more.names())
    assert {line[0] for line in compare.differences(one, more)} == {"-", "+"}
    with pytest.raises(PackError, match="differs from that of another pack"):
        compare.merged([one, other])
    heat = Path(__file__).parents[2] / "examples" / "heat.vyre"
    vyre.pack(tmp_path / "heat", [heat], LEVEL, opt=0)
    (tmp_path / "merged").write_bytes(compare.merged([one, read_pack(tmp_path / "heat")]))
    assert list(load(tmp_path / "merged")) == ["main", "scale", "start", "step"]
    own, given = vyre.compile(heat)(), load(tmp_path / "merged")["main"]()
    assert {name: array.tobytes() for name, array in given.items()} == {
        n: a.tobytes() for n, a in own.items()
    }


def test_trust_is_in_digests_and_keys(packs: list[Path], tmp_path: Path) -> None:
    pack = read_pack(packs[0])
    signed = tmp_path / "signed"
    signed.write_bytes(trust.signed(pack, PRIVATE_KEY))
    key = trust.public_key(PRIVATE_KEY)
    for path, trusted in (
        (packs[0], pack.digest),
        (signed, pack.digest.upper()),
        (signed, [key]),
        (signed, [64 * "0", key]),
    ):
        assert list(load(path, trusted)) == ["scale"]
    other = trust.public_key(bytes(32))
    for path, trusted in ((packs[0], key), (signed, other), (signed, 64 * "0"), (signed, [])):
        with pytest.raises(PackError, match="is not trusted, and nothing of it is run"):
            load(path, trusted)
    with pytest.raises(PackError, match="trusted= has digests"):
        load(signed, "yes")
    moved = pack_bytes(read_pack(packs[1]).parts(), pack.about, read_pack(signed).signature)
    signed.write_bytes(moved)
    with pytest.raises(PackError, match="its signature is not of this pack"):
        load(signed, key)


# --- a campaign of bad packs


def _flipped(rng: random.Random, one: bytes, other: bytes) -> bytes:
    bad = bytearray(one)
    for _ in range(rng.choice((1, 1, 2, 8))):
        bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
    return bytes(bad)


def _cut(rng: random.Random, one: bytes, other: bytes) -> bytes:
    at = rng.randrange(len(one))
    return one[:at] if rng.random() < 0.5 else one[:at] + other[at:]


def _swapped(rng: random.Random, one: bytes, other: bytes) -> bytes:
    """Bytes of a part in the place of another's, under the old digests."""
    size = rng.choice((8, 64, 512))
    a, b = (rng.randrange(len(one) - size) for _ in range(2))
    return one[:a] + one[b : b + size] + one[a + size :]


def _forged(rng: random.Random, one: bytes, other: bytes) -> bytes:
    """A part of another pack, or a changed one, under a new digest: a whole pack, by somebody else."""
    pack, source = Pack(one, "one"), Pack(other, "other")
    parts = pack.parts()
    at = rng.randrange(len(parts))
    of_kind = [part for part in source.parts() if part.kind == parts[at].kind]
    content = (
        rng.choice(of_kind).content
        if rng.random() < 0.5 and of_kind
        else _flipped(rng, parts[at].content or b"\0", b"")
    )
    parts[at] = Part(parts[at].name, parts[at].kind, content, parts[at].about)
    if rng.random() < 0.3:
        del parts[rng.randrange(len(parts))]
    return pack_bytes(
        parts, pack.about, Signature(rng.randbytes(32), rng.randbytes(64)) if rng.random() < 0.3 else None
    )


BAD: dict[str, Callable[[random.Random, bytes, bytes], bytes]] = {
    "flipped": _flipped,
    "cut": _cut,
    "swapped": _swapped,
    "forged": _forged,
}
SEEDS = [(kind, seed) for kind in BAD for seed in range(100)]
CASES_A_SEED = 50


@pytest.mark.parametrize(("kind", "seed"), quick(SEEDS, lambda case: case[0]))
def test_bad_packs_run_nothing(packs: list[Path], tmp_path: Path, kind: str, seed: int) -> None:
    """Damage is an error of the part that is read, or is found by trust; forgeries are found by trust alone.

    What is run, is run with the right result.
    """
    rng = random.Random(f"{kind} {seed}")
    one, other = (path.read_bytes() for path in packs)
    digest = Pack(one, "one").digest
    path = tmp_path / "bad.vyrepack"
    x = np.arange(300, dtype=np.float32)
    for _ in range(CASES_A_SEED):
        bad = BAD[kind](rng, one, other)
        path.write_bytes(bad)
        y, told = np.zeros_like(x), ""
        try:
            load(path, trusted=digest)["scale"][2](x, y)
        except PackError as error:
            told = str(error)
        if told:
            assert str(path) in told
            assert not y.any()
        else:
            assert kind != "forged" or Pack(bad, "bad").digest == digest
            assert (y == 2 * x + 1).all()


# --- vyre-pack


def test_the_tool(packs: list[Path], tmp_path: Path) -> None:
    one, other = map(str, packs)
    digest = read_pack(one).digest
    listed = call_pack("list", one)
    assert listed.returncode == 0
    assert f"digest   {digest}" in listed.stdout
    assert "functions/scale" in listed.stdout
    assert call_pack("verify", one, "--trusted", digest).returncode == 0
    assert call_pack("diff", one, one).stdout == ""
    assert call_pack("diff", one, other).returncode == 1
    assert call_pack("merge", one, one, "-o", str(tmp_path / "merged")).returncode == 0
    assert (tmp_path / "merged").read_bytes() == packs[0].read_bytes()
    (tmp_path / "bad").write_bytes(packs[0].read_bytes()[:-1])
    (tmp_path / "key").write_bytes(b"short")
    failures = {
        ("list", str(tmp_path / "none")): "cannot read",
        ("verify", str(tmp_path / "bad")): "is no pack: it is cut off before the end of the part",
        ("verify", one, "--trusted", 64 * "0"): "is not trusted",
        ("merge", one, other, "-o", str(tmp_path / "merged")): "differs from that of another pack",
        ("sign", one, "--key", str(tmp_path / "none"), "-o", str(tmp_path / "signed")): "cannot read",
    }
    for command, message in failures.items():
        failed = call_pack(*command)
        assert failed.returncode == 1
        assert message in failed.stderr
        assert "Traceback" not in failed.stderr


def test_the_tool_extracts_a_part(packs: list[Path], tmp_path: Path) -> None:
    pack = read_pack(packs[0])
    (name,) = pack.names("function")
    assert call_pack("extract", packs[0], name, "-o", tmp_path / "part").returncode == 0
    assert (tmp_path / "part").read_bytes() == pack.read(name)
    failed = call_pack("extract", packs[0], "functions/none", "-o", tmp_path / "part")
    assert (failed.returncode, failed.stderr.strip()) == (
        1,
        f"error: {packs[0]}: there is no part functions/none",
    )


CHECKER = """
from types import SimpleNamespace

def check(written, optimised, certificate):
    return SimpleNamespace(is_refused=certificate != written + optimised, summary=lambda: f"of {certificate}\\n")
"""


def test_the_tool_has_certificates_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By whatever checker is there, on the texts of its function and no others."""
    (tmp_path / "stand_in_checker.py").write_text(CHECKER)
    monkeypatch.syspath_prepend(str(tmp_path))

    def parts(name: str, written: bytes, certificate: bytes) -> list[Part]:
        return [
            Part(f"functions/{name}", "function", b"{}"),
            Part(f"texts/{name}", "text", written),
            Part(f"optimised/{name}", "text", b"two"),
            Part(f"certificates/{name}", "certificate", certificate),
        ]

    right = parts("c", b"one", b"onetwo")
    # the certificate of another function, with the texts of its own
    wrong = [*right, *parts("d", b"three", b"onetwo"), Part("functions/e", "function", b"{}")]
    (tmp_path / "right").write_bytes(pack_bytes(right, {}))
    (tmp_path / "wrong").write_bytes(pack_bytes(wrong, {}))
    (tmp_path / "lost").write_bytes(pack_bytes([right[0], right[1], right[3]], {}))
    (tmp_path / "stranger").write_bytes(pack_bytes([*right, Part("x", "certificate", b"onetwo")], {}))
    monkeypatch.setattr("vyre_opt.cli.pack.CHECKER", "stand_in_checker")
    assert call_pack("verify", tmp_path / "right").stdout.splitlines()[-1] == "c: of onetwo"
    ran = call_pack("verify", tmp_path / "wrong")
    assert ran.stdout.splitlines()[-3:] == [
        "c: of onetwo",
        "d: of onetwo",
        "e: trusted only: it has no certificate",
    ]
    assert ran.returncode == 1
    assert "there is no part optimised/c" in call_pack("verify", tmp_path / "lost").stderr
    assert "x: a certificate of no function" in call_pack("verify", tmp_path / "stranger").stderr
    monkeypatch.setattr("vyre_opt.cli.pack.CHECKER", "no_checker")
    missing = call_pack("verify", tmp_path / "right")
    assert (missing.returncode, "has no no_checker" in missing.stderr) == (1, True)
