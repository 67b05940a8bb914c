"""examples/pipelines/: as many launches as each says, and the same results before and after.

test/lit/pipelines/ has which launches are left, and the reasons.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from support.pipeline_runs import PASSES, check_example
from support.quick import quick

import vyre_opt
from vyre_opt import parse_file, verify

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "examples" / "pipelines").glob("*.vyre"))


def test_there_are_twelve_and_each_has_its_lit_file() -> None:
    """A kind without a check of its launches and reasons would prove nothing."""
    checked = {path.stem for path in (ROOT / "test" / "lit" / "pipelines").glob("*.vyre")}
    assert len(FILES) >= 12
    assert {path.stem for path in FILES} == checked


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_verifies_without_a_warning(path: Path) -> None:
    assert verify(parse_file(path)) == []


@pytest.mark.parametrize(("target", "seed"), quick([("ref", 1), ("ref", 2), ("cpu", 1), ("cpu", 2)]))
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_same_before_and_after(path: Path, target: str, seed: int) -> None:
    """Bit by bit on a target, and as ref has it before; as many launches as the text says."""
    text = path.read_text()
    said = re.search(r"`vyre-opt -O` leaves (\d+) launch(?:es)? of (\d+)", text)
    assert said is not None
    before, after = check_example(text, target, seed)
    assert (after.launches, before.launches) == (int(said[1]), int(said[2]))


# --- what the examples say that they compute, by NumPy


def main_of(name: str, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    return vyre_opt.run(ROOT / "examples" / "pipelines" / f"{name}.vyre", inputs, passes=PASSES)


def softmax(rows: np.ndarray) -> np.ndarray:
    powers = np.exp(rows - rows.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def test_decode_scan_finds_characters() -> None:
    text = ("naïve café, über 100 €, " * 99).encode()[:2048]
    flags = main_of("decode_scan", text=np.frombuffer(text.hex().encode(), np.uint8))["found"]
    data = np.frombuffer(text, np.uint8)
    follows = np.append(data[1:] & 0xC0 == 0x80, False)
    assert np.array_equal(flags, ((data >= 0xC0) & follows).astype(np.uint32))
    assert flags.sum() > 200


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
    expected = mean + (rows.reshape(16, 64) - mean) / 2.0**20
    outputs = main_of("repeated_stages", rows=rows)
    np.testing.assert_allclose(outputs["rows"].reshape(16, 64), expected, rtol=1e-4, atol=1e-4)
    assert np.array_equal(outputs["out"], outputs["rows"].astype(np.int32))


def test_unequal_grids_sum() -> None:
    x = np.arange(1024, dtype=np.uint32)
    assert main_of("unequal_grids", **{"in": x})["sum"].tolist() == [int(x.sum())]
