"""Mistakes in the proofs of fusion, in its plans, and in the programs that it writes."""

from __future__ import annotations

from .mutant import Mutant

__all__ = ["MUTANTS"]

PLANTED_MISTAKES = "test/passes/test_planted_mistakes.py"

MUTANTS = (
    Mutant(
        "the contents of a transient buffer are taken for kept",
        "vyre_opt/fusion/pair_legality.py",
        "if formal.is_transient and (other.access is AccessMode.READ or other.live_in):",
        "if False:",
        f"{PLANTED_MISTAKES}::test_the_contents_of_a_transient_buffer_are_nobodys",
    ),
    Mutant(
        "a launch between two others is not looked for",
        "vyre_opt/fusion/group_legality.py",
        "if at < len(writers) and writers[at] < j:",
        "if False:",
        f"{PLANTED_MISTAKES}::test_a_launch_between_makes_a_new_version",
    ),
)
