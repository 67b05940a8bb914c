"""The page of planted mistakes, made from the tables and from the record of the last run of all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from .mutant import Mutant
from .tables import AREAS

__all__ = ["LAST_RUN", "page"]

LAST_RUN = Path(__file__).with_name("last_run.json")
"""When all mistakes were planted last, how long that took, and what became of them."""

_INTRO = """\
# Planted mistakes

Do the tests notice a mistake in the code?  Each row is a plausible one: an operand swapped, a rounding or a width
slipped, a condition of a proof left out.  `make mutants` plants them one at a time in a copy of the code and runs
one test for each, which must fail.  `python test/mutants WORD` plants those with a word in their title or file,
`--jobs N` so many side by side.

A mistake is *equivalent* if no program can tell the difference; the words after its table say why.  Its test must
pass, lest those words be wrong.
"""


def page() -> str:
    return "\n".join([_INTRO, _last_run(), *(_area(name, table) for name, table in AREAS.items())])


def _last_run() -> str:
    run = json.loads(LAST_RUN.read_text(encoding="utf-8"))
    return (
        f"Last run of all: {run['began']}, in {run['minutes']} minutes on a machine with {run['cores']} cores. "
        f"{run['noticed']} were noticed, none was missed, {run['equivalent']} are equivalent.\n"
    )


def _area(name: str, mutants: Sequence[Mutant]) -> str:
    return "\n".join([f"## {name}\n", *_rows(mutants), "", *_reasons(mutants)])


def _rows(mutants: Sequence[Mutant]) -> Iterator[str]:
    yield "| The mistake | In | Noticed by |"
    yield "|---|---|---|"
    for mutant in mutants:
        test = "equivalent" if mutant.equivalent else f"`{mutant.test.removeprefix('test/')}`"
        yield f"| {mutant.title} | `{mutant.file}` | {test} |"


def _reasons(mutants: Sequence[Mutant]) -> Iterator[str]:
    for mutant in mutants:
        if mutant.equivalent:
            yield f"*{mutant.title}* is equivalent: {mutant.equivalent}\n"
