"""Makes a module small that a test finds interesting, by steps that each leave a module that verifies.

reducer        all delta passes in turn, until none of them changes anything
delta_passes   their names and order
delta          delta debugging of one pass: what it can drop in halves, quarters, ... and one by one
oracle         asks the test, about each text once
variants       what may be dropped of a module, or of a text in parts
removal        ops and buffers taken out with their uses
items, ops, control_flow, stages, shapes, constants, types   the passes
"""

from __future__ import annotations

from .delta import minimise
from .delta_passes import DELTA_PASSES
from .oracle import FunctionTest, InterestingnessTest, Oracle, RunningTest
from .reducer import module_of, reduce_text
from .variants import PartsVariant

__all__ = [
    "DELTA_PASSES",
    "InterestingnessTest",
    "Oracle",
    "PartsVariant",
    "FunctionTest",
    "RunningTest",
    "minimise",
    "module_of",
    "reduce_text",
]
