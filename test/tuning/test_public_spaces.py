"""Search spaces of others are read in both formats, and random search is what it is expected to be."""

from __future__ import annotations

import gzip
import itertools
import json
import math
from pathlib import Path

import pytest
from public_spaces import PublicBench, load_public_space, public_spaces

from vyre_opt import BadInputs

TIMES = {(16, 1): 3.0, (16, 2): 1.0, (32, 1): "InvalidConfig", (64, 2): 2.5, (64, 1): 4.0}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One space in both formats, the second with other times."""
    cache = {f"{x},{y}": {"x": x, "y": y, "time": time} for (x, y), time in TIMES.items()}
    results = [
        {
            "configuration": {"x": x, "y": y},
            "invalidity": "correct" if isinstance(time, float) else "compile",
            "measurements": [{"name": "time", "value": 2 * time}] if isinstance(time, float) else [],
        }
        for (x, y), time in TIMES.items()
    ]
    own = tmp_path / "gemm_milo"
    own.mkdir()
    for name, content in (
        ("A100", {"tune_params_keys": ["x", "y"], "cache": cache}),
        ("A100_T4", {"results": results}),
    ):
        (own / f"{name}.json.gz").write_bytes(gzip.compress(json.dumps(content).encode()))
    return tmp_path


def test_both_formats(folder: Path) -> None:
    (public,) = public_spaces(folder)
    other = load_public_space(folder / "gemm_milo" / "A100_T4.json.gz")
    assert (public.name, len(public.space), public.optimum) == ("gemm on A100", 5, 1.0)
    for (x, y), time in TIMES.items():
        place = public.space.find({"x": x, "y": y})
        assert place is not None
        assert public.costs[place] == (time if isinstance(time, float) else math.inf)
    assert other.costs.tolist() == (2 * public.costs).tolist()
    assert public.space.find({"x": 32, "y": 2}) is None
    bench = PublicBench(public)
    failed = public.space.find({"x": 32, "y": 1})
    assert bench.samples([failed, 0], 3) == [[], [3.0] * 3]
    assert list(bench.failures) == [failed]


def test_random_search(folder: Path) -> None:
    """The mean of the least over all choices of three."""
    (public,) = public_spaces(folder)
    least = [min(choice) for choice in itertools.combinations(public.costs.tolist(), 3)]
    expected = sum(least) / len(least)
    assert public.best_of_random(3) == pytest.approx(expected)
    assert public.score(expected, 3) == pytest.approx(0)
    assert public.score(1.0, 3) == 1.0
    assert public.score(math.inf, 3) < 0


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"results": [{}]}', '{"cache": {"1": 3}, "tune_params_keys": []}']
)
def test_what_is_none(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadInputs, match="has no files"):
        public_spaces(tmp_path)
    path = tmp_path / "A100.json"
    path.write_text(text)
    with pytest.raises(BadInputs, match=r"A100\.json: not recorded costs"):
        load_public_space(path)
