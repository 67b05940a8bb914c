"""The delta passes by name, in their order: what drops much comes first."""

from __future__ import annotations

from . import constants, control_flow, items, ops, shapes, stages, types
from .variants import DeltaPass

__all__ = ["DELTA_PASSES"]

DELTA_PASSES: dict[str, DeltaPass] = {
    "items": items.drop_items,
    "stages": stages.drop_stages,
    "ops": ops.drop_ops,
    "dead-ops": ops.drop_dead_ops,
    "unused": items.drop_unused,
    "bodies": control_flow.inline_bodies,
    "calls": control_flow.inline_calls,
    "carried-values": control_flow.drop_carried_values,
    "operands": ops.forward_operands,
    "buffers": items.drop_buffers,
    "repeats": stages.unroll_repeats,
    "parameters": items.fix_parameters,
    "loops": control_flow.shorten_loops,
    "attributes": ops.drop_attributes,
    "launches": stages.drop_launch_parts,
    "liveness": shapes.drop_liveness,
    "zeros": constants.zero_constants,
    "ones": constants.one_constants,
    "types": types.simplify_types,
    "extents": shapes.single_extents,
    "half-extents": shapes.halve_extents,
    "halves": constants.halve_constants,
    "bindings": items.renumber_bindings,
}
"""Each is documented where it is written; docs/guides/reduce.md lists them."""
