"""Place of a failed step in its plan: its stage, and the rounds of the repeats around it."""

from __future__ import annotations

import re

from ...ir.python_lines import lengthened
from ..dispatcher import ProgramError
from .steps import LaunchStep, PipelinePlan

__all__ = ["Rounds", "in_round", "located"]

Rounds = tuple[tuple[int, int], ...]
"""(round, number of rounds) of each repeat around a step, from the outermost in; rounds count from 1."""


def located(fault: ProgramError, plan: PipelinePlan, step: LaunchStep, rounds: Rounds = ()) -> ProgramError:
    """The fault, with a note that says which launch of a pipeline it happened in."""
    if step.launch is not None:
        fault.diagnostic.note(f"launched here by {plan.title}{in_round(rounds)}", step.loc)
        if fault.kind == "bounds":
            _tell_of_memory(fault, plan, step)
    return fault


def in_round(rounds: Rounds) -> str:
    return "".join(f", round {number} of {times}" for number, times in rounds)


_NAME = re.compile(r"out of bounds of @([\w.$]+):")


def _tell_of_memory(fault: ProgramError, plan: PipelinePlan, step: LaunchStep) -> None:
    """Tell of memory of a pipeline's own that is shorter than what its launch goes over, in Python: where it is made, and how long it is to be."""
    found = _NAME.search(fault.diagnostic.message)
    names = dict(zip([b.name for b in step.program.bound_buffers], step.buffers, strict=False))
    buffer = plan.buffers.get(names.get(found[1], found[1])) if found is not None else None
    if buffer is None or buffer.live_in or buffer.live_out or buffer.loc is None or step.loc is None:
        return
    made, launch = (loc.source.text[loc.start : loc.end] for loc in (buffer.loc, step.loc))
    longer = lengthened(made, launch) if buffer.dimensions == 1 else ""
    if not longer:
        return
    fault.diagnostic.note(f"{buffer.name} is made here, with {buffer.count} elements", buffer.loc)
    others = fault.diagnostic.help or ""
    fault.diagnostic.help = f"write {buffer.name} = {longer}, which is as long as the launch"
    if others.startswith("guard"):
        fault.diagnostic.help += f", or {others}"
