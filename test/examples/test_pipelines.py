"""examples/pipelines/ and the named kinds: as many launches as said, the same results, before and after.

test/lit/pipelines/ has which launches are left, and the reasons.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import vyre_opt
from vyre_opt import parse_file, verify
from vyre_opt.testing.launch_kinds import KINDS, Kind
from vyre_opt.testing.pipeline_runs import (
    PASSES,
    Seen,
    any_inputs,
    compare_pipelines,
    difference,
    plain_inputs,
    see,
)

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "examples" / "pipelines").glob("*.vyre"))
APPROXIMATE = {"softmax_of_scale", "attention_row"}
"""Those with an `exp2`, of which each target may be 2 ulp off."""


def close(wanted: Seen, found: Seen) -> bool:
    """Whether two runs agree up to what an approximate op may be off, summed over a row."""
    pairs = zip(wanted.arrays, found.arrays, strict=True)
    return all(a[0] == b[0] and np.allclose(a[2], b[2], rtol=1e-5, atol=1e-6) for a, b in pairs)


def test_there_are_twelve_and_each_has_its_lit_file() -> None:
    """A kind without a check of its launches and reasons would prove nothing."""
    checked = {path.stem for path in (ROOT / "test" / "lit" / "pipelines").glob("*.vyre")}
    assert len(FILES) >= 12
    assert {path.stem for path in FILES} == checked


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_verifies_without_a_warning(path: Path) -> None:
    assert verify(parse_file(path)) == []


@pytest.mark.parametrize("target", ["ref", "cpu"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_same_before_and_after(path: Path, target: str) -> None:
    """Bit by bit on one target, bit by bit or within the bound against ref; as many launches as the text says."""
    text = path.read_text()
    said = re.search(r"`vyre-opt -O` leaves (\d+) launch(?:es)? of (\d+)", text)
    assert said is not None
    for seed in (1, 2):
        inputs = plain_inputs(text, seed)
        before, after = see(text, target, inputs), see(text, target, inputs, PASSES)
        assert difference(before, after) == ""
        assert (after.launches, before.launches) == (int(said[1]), int(said[2]))
        wanted = before if target == "ref" else see(text, "ref", inputs)
        assert close(wanted, after) if path.stem in APPROXIMATE else difference(wanted, after) == ""


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_kind_on_cpu(kind: Kind) -> None:
    """The kinds of test/passes on compiled code: launch_fusion and all that follows it."""
    inputs = any_inputs(kind.text, 3)
    wanted = see(kind.text, "ref", inputs)
    for passes in ("", PASSES):
        assert difference(wanted, see(kind.text, "cpu", inputs, passes)) == ""


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_random_pipelines(target: str) -> None:
    """`python -m vyre_opt.testing --pipelines 2000 --target cpu` runs more of them."""
    done = compare_pipelines(target, range(24), jobs=1)
    assert not done.found, "\n\n".join(f"seed {seed}: {what}\n{text}" for seed, what, text in done.found)
    assert done.pipelines == 24
    assert done.joined > 10


# --- what the examples say that they compute, by NumPy


def main_of(name: str, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    return vyre_opt.run(ROOT / "examples" / "pipelines" / f"{name}.vyre", inputs, passes=PASSES)


def softmax(rows: np.ndarray) -> np.ndarray:
    powers = np.exp(rows - rows.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def test_decode_scan_finds_characters() -> None:
    text = ("naïve café, über 100 €, " * 99).encode()[:2048]
    found = main_of("decode_scan", text=np.frombuffer(text.hex().encode(), np.uint8))["found"]
    data = np.frombuffer(text, np.uint8)
    follows = np.append(data[1:] & 0xC0 == 0x80, False)
    assert np.array_equal(found, ((data >= 0xC0) & follows).astype(np.uint32))
    assert found.sum() > 200


def test_attention_row_is_softmax_times_values() -> None:
    rng = np.random.default_rng(4)
    scores, values = (rng.normal(size=n).astype(np.float32) * 8 for n in (1024, 64))
    weights = softmax(scores.reshape(16, 64).astype(np.float64) / 8)
    np.testing.assert_allclose(
        main_of("softmax_of_scale", scores=scores)["weights"], weights.ravel(), rtol=1e-5
    )
    out = main_of("attention_row", scores=scores, values=values)["out"]
    np.testing.assert_allclose(out, weights @ values.astype(np.float64), rtol=1e-4, atol=1e-5)


def test_repeated_stages_settle() -> None:
    rows = np.random.default_rng(5).normal(size=1024).astype(np.float32) * 100
    mean = rows.reshape(16, 64).mean(1, keepdims=True, dtype=np.float64)
    wanted = mean + (rows.reshape(16, 64) - mean) / 2.0**20
    made = main_of("repeated_stages", rows=rows)
    np.testing.assert_allclose(made["rows"].reshape(16, 64), wanted, rtol=1e-4, atol=1e-4)
    assert np.array_equal(made["out"], made["rows"].astype(np.int32))


def test_unequal_grids_sum() -> None:
    x = np.arange(1024, dtype=np.uint32)
    assert main_of("unequal_grids", **{"in": x})["sum"].tolist() == [int(x.sum())]
