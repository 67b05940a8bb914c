"""Lines of findings in documents that come in parts."""

from __future__ import annotations

import random

import pytest

from vyre_scan.tool import output
from vyre_scan.tool.output import TextWindow


@pytest.mark.parametrize("seed", range(20))
def test_a_place_has_its_line(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In any order, also after parts of which few bytes stay."""
    rng = random.Random(seed)
    monkeypatch.setattr(output, "MOST_BEFORE", rng.choice((0, 5, 50)))
    document = bytes(rng.choice(b"ab\n") for _ in range(400))
    window, known = TextWindow(), 0
    while known < len(document):
        part = document[known : known + rng.randrange(1, 90)]
        assert window.add(part) == known
        known += len(part)
        for _ in range(rng.randrange(6)):
            place = rng.randrange(window.base, known)
            begin = document.rfind(b"\n", 0, place) + 1
            line, column, _ = window.line_of(place)
            assert line == document.count(b"\n", 0, begin) + 1
            if begin >= window.base:
                assert column == place - begin + 1
