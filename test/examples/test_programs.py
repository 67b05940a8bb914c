"""The other programs of examples/, each against NumPy, and what holds of all of them."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from support.quick import quick

import vyre_opt
from vyre_opt import PassManager, dispatcher, parse, parse_file, print_program, verify

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(EXAMPLES.glob("*.vyre"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_verifies_without_a_warning_and_prints_back(path: Path) -> None:
    module = parse_file(path)
    assert verify(module) == []
    printed = print_program(module)
    assert print_program(parse(printed)) == printed


@pytest.mark.parametrize("passes", ["", "decode_scan_fuse"])
@pytest.mark.parametrize("size", quick([1, 1025, 5001, 3, 1023, 1024], keep=3))
def test_hex_sum_is_a_prefix_sum_of_each_tile(size: int, passes: str) -> None:
    module = parse_file(EXAMPLES / "hex_sum.vyre")
    PassManager(passes).run(module)
    program = module.programs["hex_sum"]
    decoded_in = program.buffers["decoded"]
    assert (decoded_in.access, decoded_in.count) == (
        ("workgroup", 1024) if passes else ("read_write", 1 << 20)
    )
    decoded = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    text = decoded.tobytes().hex().encode()
    (sums,) = dispatcher("ref").dispatch(program, [text, np.zeros(size, np.uint32)], (-(-size // 1024), 1, 1))
    tiles = [np.cumsum(decoded[at : at + 1024], dtype=np.uint32) for at in range(0, size, 1024)]
    assert (sums == np.concatenate(tiles)).all()


@pytest.mark.parametrize("columns", [1, 31, 255, 256, 1000])
def test_softmax_rows(columns: int) -> None:
    program = parse_file(EXAMPLES / "softmax_rows.vyre").programs["softmax_rows"]
    x = (np.random.default_rng(columns).normal(size=(5, columns)) * 5).astype(np.float32)
    (y,) = dispatcher("ref").dispatch(
        program, [x, np.zeros(x.size, np.float32)], (5, 1, 1), specs={"columns": columns}
    )
    exact = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    exact /= exact.sum(1, keepdims=True)
    np.testing.assert_allclose(y.reshape(x.shape), exact, rtol=1e-5)


def test_tour_counts_letters() -> None:
    module = parse_file(EXAMPLES / "tour.vyre")
    text = (EXAMPLES / "tour.vyre").read_bytes()
    letters = Counter(text.lower())
    expected = np.array([letters[97 + letter] for letter in range(26)])
    ref = dispatcher("ref")
    inputs = [text, np.zeros(208, np.uint32)]
    (counts,) = ref.dispatch(module.programs["count_letters"], inputs, (8, 1, 1), module=module)
    assert (counts.reshape(8, 26).sum(0) == expected).all()
    (shares,) = ref.dispatch(module.programs["per_mille"], [counts, np.zeros(26, np.float32)], (1, 1, 1))
    np.testing.assert_allclose(shares, expected * 1000.0 / expected.sum(), rtol=1e-6)


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_tour_as_a_pipeline(target: str) -> None:
    text = (EXAMPLES / "tour.vyre").read_bytes()
    letters = Counter(text.lower())
    expected = np.array([letters[97 + letter] for letter in range(26)])
    outputs = vyre_opt.run(EXAMPLES / "tour.vyre", {"text": text}, target=target)
    np.testing.assert_allclose(outputs["shares"], expected * 1000.0 / expected.sum(), rtol=1e-6)


@pytest.mark.parametrize("target", quick(["cpu", "ref"]))
def test_heat_spreads_as_numpy_says(target: str) -> None:
    seen: list[np.ndarray] = []
    compiled = vyre_opt.compile(EXAMPLES / "heat.vyre", target=target)
    compiled(on_host_read=lambda name, array: seen.append(array))
    rod = np.zeros(1024, np.float32)
    rod[0] = 1000
    assert len(seen) == 3
    for array in seen:
        for _ in range(500):
            left, right = np.concatenate([rod[:1], rod[:-1]]), np.concatenate([rod[1:], rod[-1:]])
            rod = rod + np.float32(0.25) * ((left + right) - 2 * rod)
        assert np.array_equal(array, rod)
    np.testing.assert_allclose(rod.sum(), 1000, rtol=1e-4)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the tables that automaton.py writes."""
    folder = tmp_path_factory.mktemp("tables")
    script = EXAMPLES / "automaton.py"
    subprocess.run([sys.executable, script, EXAMPLES / "patterns.txt", "--into", folder], check=True)
    return folder


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_decode_scan_counts_what_bytes_find(target: str, tables: Path) -> None:
    """A text of the patterns themselves, some overlapping."""
    plain = (EXAMPLES / "patterns.txt").read_bytes() * 3
    patterns = plain.splitlines()
    inputs = {name: np.load(tables / f"{name}.npy") for name in ("table", "accept")}
    inputs["text"] = np.frombuffer(base64.b64encode(plain), np.uint8)
    lengths = {"bytes": len(plain), "matches": len(plain)}
    outputs = vyre_opt.run(EXAMPLES / "decode_scan.vyre", inputs, target=target, lengths=lengths)
    ends = {at + len(p) - 1 for p in patterns for at in range(len(plain)) if plain.startswith(p, at)}
    assert np.flatnonzero(outputs["matches"]).tolist() == sorted(ends)
    assert outputs["total"].tolist() == [len(ends)]


def test_automaton_says_what_is_wrong_with_patterns(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("a" * 66)
    script = EXAMPLES / "automaton.py"
    ran = subprocess.run([sys.executable, script, tmp_path / "long.txt"], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (1, "Error: pattern 1 has 66 bytes; the programs take 1 to 65\n")
