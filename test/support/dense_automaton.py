"""The automaton of examples/automaton.py, for tests and benchmarks of programs that walk one."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))

from automaton import DenseAutomaton, Match, build_automaton, matches_of_hits

__all__ = ["DenseAutomaton", "Match", "build_automaton", "matches_of_hits"]
