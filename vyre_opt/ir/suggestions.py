"""Suggestions for misspelt names: the candidate that is most like it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Reversible
from itertools import islice, takewhile

from ..worker import import_module
from .diagnostics import Replacement

__all__ = ["last", "suggest", "suggest_later"]

MAX_CANDIDATES = 500
LONGEST_NAME = 80
"""Bounds on the work of a suggestion, which is some milliseconds at most."""


def suggest_later(name: str, candidates: Iterable[str], sigil: str = "") -> Callable[[], Replacement | None]:
    """Result of `suggest`, computed when it is wanted, from the candidates at hand."""
    names = last(candidates)
    return lambda: suggest(name, names, sigil)


def last(candidates: Iterable[str]) -> list[str]:
    """Last of many candidates: the ones declared right before."""
    if not isinstance(candidates, Reversible):
        candidates = list(candidates)
    return list(islice(reversed(candidates), MAX_CANDIDATES))[::-1]


def suggest(name: str, candidates: Iterable[str], sigil: str = "") -> Replacement | None:
    """`did you mean @text?` for the nearest of the last MAX_CANDIDATES candidates, or None.

    Names of more than LONGEST_NAME characters are not compared, since that takes time by the product of their lengths.
    """
    import_module("difflib")  # not on the path of a run without mistakes
    import difflib

    names = [] if len(name) > LONGEST_NAME else [n for n in last(candidates) if len(n) <= LONGEST_NAME]
    matches = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    if not matches:
        return None

    def likeness(candidate: str) -> tuple[float, int]:
        """Similarity, then the length of the common prefix."""
        first = takewhile(lambda pair: pair[0] == pair[1], zip(candidate, name, strict=False))
        return difflib.SequenceMatcher(None, candidate, name).ratio(), len(list(first))

    best = f"{sigil}{max(matches, key=likeness)}"
    return Replacement.of(f"did you mean {best}?", f"{sigil}{name}", best)
