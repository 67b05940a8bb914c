"""Data cut into parts anywhere."""

from __future__ import annotations

import random
from collections.abc import Sequence

__all__ = ["in_parts"]


def in_parts(rng: random.Random, data: bytes, counts: Sequence[int]) -> list[bytes]:
    """The parts between as many cuts as one of `counts` says, some of which may be empty."""
    cuts = sorted(rng.choices(range(len(data) + 1), k=rng.choice(counts)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
