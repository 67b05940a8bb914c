"""Place of a failed step in its plan: its stage, and the rounds of the repeats around it."""

from __future__ import annotations

from ..dispatcher import ProgramError
from .steps import LaunchStep, PipelinePlan

__all__ = ["Rounds", "in_round", "located"]

Rounds = tuple[tuple[int, int], ...]
"""(round, number of rounds) of each repeat around a step, from the outermost in; rounds count from 1."""


def located(fault: ProgramError, plan: PipelinePlan, step: LaunchStep, rounds: Rounds = ()) -> ProgramError:
    """The fault, with a note that says which launch of a pipeline it happened in."""
    if step.launch is not None:
        fault.diagnostic.note(f"launched here by {plan.title}{in_round(rounds)}", step.loc)
    return fault


def in_round(rounds: Rounds) -> str:
    return "".join(f", round {number} of {times}" for number, times in rounds)
