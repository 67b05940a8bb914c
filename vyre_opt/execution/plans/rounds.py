"""Place of a failed step in its plan: its stage, and the rounds of the repeats around it."""

from __future__ import annotations

from ...ir.declarations import Buffer
from ...ir.diagnostics import written_name
from ...ir.joined_locations import MemberLocation, launch_at
from ...ir.pipeline import Launch
from ...ir.python_lines import counts_workgroups, lengthened
from ..dispatcher import ProgramError
from .steps import LaunchStep, PipelinePlan

__all__ = ["Rounds", "in_round", "located"]

Rounds = tuple[tuple[int, int], ...]
"""(round, number of rounds) of each repeat around a step, from the outermost in; rounds count from 1."""


def located(fault: ProgramError, plan: PipelinePlan, step: LaunchStep, rounds: Rounds = ()) -> ProgramError:
    """The fault, with a note that says which launch of a pipeline it happened in."""
    if step.launch is not None:
        launch = launch_at(step.launch, fault.diagnostic.loc)
        formal, buffer = _passed(fault, plan, step, launch)
        actual = "" if buffer is None else written_name(buffer.name, buffer.loc)
        passed = f", with @{actual} for @{formal}" if actual not in ("", formal) else ""
        fault.diagnostic.note(f"launched here by {plan.title}{in_round(rounds)}{passed}", launch.loc)
        if fault.kind == "bounds" and buffer is not None:
            _tell_of_memory(fault, launch, buffer)
    return fault


def in_round(rounds: Rounds) -> str:
    return "".join(f", round {number} of {times}" for number, times in rounds)


def _passed(
    fault: ProgramError, plan: PipelinePlan, step: LaunchStep, launch: Launch
) -> tuple[str | None, Buffer | None]:
    """The name that the program of `launch` has for the buffer that a fault is about, and the pipeline's that is passed for it."""
    loc, formal, actual = fault.diagnostic.loc, fault.buffer, None
    if isinstance(loc, MemberLocation) and loc.buffer is not None:
        formal = loc.buffer.name
        actual = dict(enumerate(launch.buffers)).get(-1 if loc.argument is None else loc.argument)
    else:
        names = zip((b.name for b in step.program.bound_buffers), step.buffers, strict=False)
        actual = dict(names).get(formal or "")
    return formal, plan.buffers.get(actual or "") or plan.pipeline.removed.get(actual or "")


def _tell_of_memory(fault: ProgramError, launch: Launch, buffer: Buffer) -> None:
    """Tell of memory of a pipeline's own that is shorter than what its launch goes over, in Python: where it is made, and how long it is to be."""
    if buffer.live_in or buffer.live_out or buffer.loc is None or launch.loc is None:
        return
    made, launched = (loc.text for loc in (buffer.loc, launch.loc))
    loc = fault.diagnostic.loc
    by_workgroup = loc is not None and counts_workgroups(loc.source.text, loc.start, loc.end)
    longer = lengthened(made, launched, by_workgroup) if buffer.dimensions == 1 else ""
    if not longer:
        return
    fault.diagnostic.note(f"{buffer.name} is made here, with {buffer.count} elements", buffer.loc)
    fault.diagnostic.help = f"write {buffer.name} = {longer}, which is as long as the launch"
