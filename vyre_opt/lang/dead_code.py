"""Removes what the translation wrote and nothing uses: flags of blocks that are left early, constants, unused names.

Loads and everything with an effect stay, since a fault of theirs is the program's.
"""

from __future__ import annotations

from collections import Counter

from ..ir.program import Block, Op, Value
from ..ir.rewrite import keep_results

__all__ = ["remove_dead_code"]


def remove_dead_code(body: Block) -> None:
    uses = Counter(operand for op in body.walk() for operand in op.operands)
    _sweep(body, uses)


def _sweep(block: Block, uses: Counter[Value]) -> None:
    """Users come before what they use, so that chains go in one sweep."""
    kept: list[Op] = []
    for op in reversed(block.ops):
        used = [bool(uses[result]) for result in op.results]
        if op.definition.is_pure and not op.regions and not any(used):
            uses.subtract(op.operands)
            continue
        if op.name == "if" and op.results and not all(used):
            for region in op.regions:
                end = region.terminator
                if end is not None:
                    uses.subtract(v for v, is_used in zip(end.operands, used, strict=True) if not is_used)
            keep_results(op, used)
        for region in reversed(op.regions):
            _sweep(region, uses)
        if op.name == "if":
            _drop_empty(op, uses)
        if op.name != "if" or op.regions:
            kept.append(op)
    block.ops = kept[::-1]


def _drop_empty(op: Op, uses: Counter[Value]) -> None:
    """Drop an else without ops from an `if` without results, and the whole `if` if neither branch has any."""
    if op.results:
        return
    if len(op.regions) == 2 and not op.regions[1].ops:
        op.regions = op.regions[:1]
    if len(op.regions) == 1 and not op.regions[0].ops:
        op.regions = ()
        uses.subtract(op.operands)
