"""Cases that have failed once: test/corpus/TARGET/KIND.SUFFIX.  They stay, and are run with the tests."""

from __future__ import annotations

import re
from pathlib import Path

from .target import Target

__all__ = ["CORPUS", "cases_of", "write_case"]

CORPUS = Path(__file__).parents[2] / "corpus"


def cases_of(target: Target, corpus: Path = CORPUS) -> list[Path]:
    """The files of a target, in order."""
    return sorted((corpus / target.name).glob(f"*{target.suffix}"))


def write_case(target: Target, kind: str, case: bytes, corpus: Path = CORPUS) -> Path:
    """Write a case under a name that says what kind of failure it was."""
    name = re.sub(r"\W+", "-", kind.lower()).strip("-")[:80]
    path = corpus / target.name / f"{name}{target.suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(case)
    return path
