"""Why a proof fails: what every analysis and planner gives instead of its result."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from ..ir.diagnostics import Location
from ..records import dataclass

__all__ = ["Refusal"]


@dataclass(slots=True)
class Refusal:
    """The fact that is missing.

    `reason` is a stable code, for tests and tools; docs/explanation/footprints.md and docs/explanation/fusion.md list the codes.
    `facts` go into the remark's JSON.  Where a proof is cached for launches that pass other buffers,
    `buffer`, `message` and `facts` have placeholders (see fusion.pair_legality).
    """

    reason: str
    message: str
    buffer: str | None = None
    loc: Location | None = None
    facts: dict[str, Any] = field(default_factory=dict)
