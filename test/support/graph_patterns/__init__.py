"""Programs over small graphs, with and without a planted mistake, and what an execution of each must show.

    graphs.py    the shapes           variants.py   pattern, spread over lanes, mistake
    programs.py  a variant's text     model.py      its lanes in Python, run by lanes.py, which finds what is wrong
    oracle.py    clean outputs        cases.py      a variant on a graph
    outcome.py   what a target makes of a case

`PYTHONPATH=test python -m support.graph_patterns` prints the table of docs/explanation/reliability.md.
"""

from __future__ import annotations

from .cases import ERRORS, Case, cases
from .outcome import Outcome, complaint, module_of, outcome
from .variants import KINDS

__all__ = ["ERRORS", "KINDS", "Case", "Outcome", "cases", "complaint", "module_of", "outcome"]
