"""Drawings of the figures of benchmarks, as SVG: the same figures and the same matplotlib give the same bytes.

A drawing has no date, and its ids are hashes with a fixed salt.  Its description has the digest of the figures, by which
a test sees, without matplotlib, that the drawing is that of the results.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["digest", "drawing"]


def digest(figures: Any) -> str:
    """Description of a drawing of these figures."""
    return "figures " + hashlib.sha256(json.dumps(figures, sort_keys=True).encode()).hexdigest()


@contextmanager
def drawing(path: Path, figures: Any, size: tuple[float, float]) -> Iterator[Any]:
    """Yield the axes of a figure of `size` inches, and write it to `path` at the end."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    # text stays text: it is small, and searchable
    settings: Any = {"svg.hashsalt": "vyre-opt", "svg.fonttype": "none", "font.family": "sans-serif"}
    with matplotlib.rc_context(settings):
        figure, axes = pyplot.subplots(figsize=size)
        yield axes
        figure.tight_layout()
        figure.savefig(path, format="svg", metadata={"Date": None, "Description": digest(figures)})
        pyplot.close(figure)
