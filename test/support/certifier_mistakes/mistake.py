"""A mistake in an analysis or a pass, and a text of which it makes the pass write a wrong program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from mutants.in_process import planted
from mutants.mutant import Mutant
from mutants.tables import MUTANTS

from ..unchecked_results import unchecked_results

__all__ = ["Mistake", "known", "mistake"]

_BY_TITLE = {mutant.title: mutant for mutant in MUTANTS}


@dataclass(frozen=True)
class Mistake:
    """`passes`: what the text is given to; `lowering` for what the lowering takes for proven of the text as it is.
    `also`: what else has to be wrong, where one place makes up for another."""

    mutant: Mutant
    passes: str
    text: str
    also: tuple[Mutant, ...] = ()

    @contextmanager
    def is_made(self) -> Iterator[None]:
        """Passes make it within the block, and keep what they make."""
        with ExitStack() as stack:
            for mutant in (self.mutant, *self.also):
                stack.enter_context(planted(mutant))
            stack.enter_context(unchecked_results())
            yield

    @property
    def title(self) -> str:
        return self.mutant.title


def known(title: str, passes: str, text: str) -> Mistake:
    """One of the table in test/mutants."""
    return Mistake(_BY_TITLE[title], passes, text)


def mistake(title: str, path: str, old: str, new: str, passes: str, text: str) -> Mistake:
    return Mistake(Mutant(title, f"vyre_opt/{path}", old, new, ""), passes, text)
