"""Random programs, and the properties that every program must keep.

A generated program is well-typed, ends, stays in bounds, reads only what was
written and has no race, all by construction; so whatever differs between two runs
of it is a bug of a pass or a backend.  `PYTHONPATH=test python -m support --programs N`
runs a campaign.
"""

from __future__ import annotations

from .generator import Settings, random_program
from .handoff import handoff_program
from .sample import Sample, random_inputs

__all__ = ["Sample", "Settings", "handoff_program", "random_inputs", "random_program"]
