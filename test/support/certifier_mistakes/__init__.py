"""Mistakes planted in analyses and passes, which the certifier must not prove: it has a witness for each.

mistake     a mistake, and a text of which it makes a pass write a wrong program
launches    about launches that become one
relaunches  about launches that get another program over another grid
programs    about what passes do within a program
loops       about loops that load at other places
of_tables   those of the tables in test/mutants
edits       random edits of a module
recorder    what an observer of passes is told
judge       what a mistake leads to, by the interpreter, and what the certifier says of it

PYTHONPATH=test python -m support.certifier_mistakes               all of them; exit code 1 unless all are refuted
PYTHONPATH=test python -m support.certifier_mistakes --json FILE   and keeps the results
"""

from __future__ import annotations

from collections.abc import Sequence

from . import launches, loops, of_tables, programs, relaunches
from .mistake import Mistake

__all__ = ["MISTAKES", "Mistake"]

MISTAKES: Sequence[Mistake] = [
    *launches.MISTAKES,
    *relaunches.MISTAKES,
    *programs.MISTAKES,
    *loops.MISTAKES,
    *of_tables.MISTAKES,
]
