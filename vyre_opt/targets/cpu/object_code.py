"""A program's code in this process, and what a run needs to know of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ...ir.program import Program
from ...lowering.host.abi import HostCode
from ...records import dataclass
from .linking import LoadedFunction

__all__ = ["ObjectCode", "RunFacts", "checked_code", "checked_facts"]


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts that hold for all runs of a program: see `loop_analysis`, whose functions have these names."""

    has_ticket_loop: bool
    has_fixed_trip_counts: bool
    is_bounded: bool
    may_wait: bool


def checked_code(facts: Mapping[str, Any], program: Program) -> HostCode:
    """Code of a program as its calls see it, read from a file.  Raises ValueError, TypeError or KeyError for what is none."""
    buffers, written = facts["buffers"], facts["written"]
    scratch_bytes, whole_grid = facts["scratch_bytes"], facts["whole_grid"]
    # their order is in no fingerprint, so it may be that of another declaration
    if sorted(buffers) != sorted(b.name for b in program.buffers.values() if not b.is_on_chip):
        raise ValueError("the buffers of an entry are those of its program")
    if type(written) is not list or not all(type(name) is str for name in written):
        raise ValueError("what an entry writes is a list of buffers")
    if type(scratch_bytes) is not int or not 0 <= scratch_bytes < 1 << 40 or type(whole_grid) is not bool:
        raise ValueError("an entry has a number of bytes and a truth value")
    return HostCode("", tuple(buffers), frozenset(written), scratch_bytes, whole_grid)


def checked_facts(facts: Mapping[str, Any]) -> RunFacts:
    """Facts of runs, read from a file.  Raises ValueError or TypeError for what are none."""
    run = RunFacts(**facts)
    if not all(type(value) is bool for value in asdict(run).values()):
        raise ValueError("what an entry says of runs are truth values")
    return run


@dataclass(frozen=True, slots=True)
class ObjectCode:
    host_code: HostCode
    facts: RunFacts
    loaded: LoadedFunction
