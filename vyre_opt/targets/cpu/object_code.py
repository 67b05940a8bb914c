"""A program's code in this process, and what a run needs to know of it."""

from __future__ import annotations

from dataclasses import dataclass

from ...lowering.host.abi import HostCode
from .linking import LoadedFunction

__all__ = ["ObjectCode", "RunFacts"]


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts that hold for all runs of a program: see `loop_analysis`, whose functions have these names."""

    has_ticket_loop: bool
    has_fixed_trip_counts: bool
    is_bounded: bool
    may_wait: bool


@dataclass(frozen=True, slots=True)
class ObjectCode:
    host_code: HostCode
    facts: RunFacts
    loaded: LoadedFunction
