"""Drops control flow: ifs become one of their arms, loops one round of their body, calls the body of the function."""

from __future__ import annotations

from ..ir.loops import bounds, inits, trip_count, with_bounds
from ..ir.ops import OPS
from ..ir.program import Block, Module, Op, Value
from ..ir.rewrite import bodies, clone, keep_results, splittable
from .removal import replace_values, zero
from .variants import Selection

__all__ = ["drop_carried_values", "inline_bodies", "inline_calls", "shorten_loops"]

Inlined = tuple[list[Op], tuple[Value, ...]]
"""The ops that stand for a structured op, and the values that stand for its results."""


def inline_bodies(module: Module, selection: Selection) -> None:
    """Replaces structured ops by the ops of a region; for an if, of either arm."""
    for body in bodies(module):
        replaced: dict[Value, Value] = {}
        _inline_in(body, selection, replaced)
        replace_values(body, replaced)


def _inline_in(block: Block, selection: Selection, replaced: dict[Value, Value]) -> None:
    out: list[Op] = []
    for op in block.ops:
        chosen = [arm for arm in range(_arms(op)) if selection.drops()]
        for region in op.regions:
            _inline_in(region, selection, replaced)
        if not chosen:
            out.append(op)
            continue
        ops, values = _inlined(op, chosen[0], replaced)
        out += ops
        replaced.update(zip(op.results, values, strict=True))
    block.ops = out


def _arms(op: Op) -> int:
    return (2 if op.name == "if" else 1) if op.regions else 0


def _inlined(op: Op, arm: int, replaced: dict[Value, Value]) -> Inlined:
    if op.name == "if":
        if arm < len(op.regions):
            return _split(op.regions[arm])
        return [], ()
    ops, values = _split(op.regions[-1])
    if op.name == "region":
        return ops, values
    starts = inits(op)
    if op.name == "for":
        counter, *carried = op.regions[0].args
        lower = bounds(op)[0]
        if isinstance(lower, int):
            first = Op(OPS["const"], (), (Value(counter.name, counter.type),), {"value": lower}, (), op.loc)
            ops, lower = [first, *ops], first.result
        replaced[counter] = lower
        replaced.update(zip(carried, starts, strict=True))
        return ops, values
    for region in op.regions:
        replaced.update(zip(region.args, starts, strict=True))
    condition, _ = _split(op.regions[0])
    return [*condition, *ops], values


def _split(block: Block) -> Inlined:
    ops, values = splittable(block)
    return [*ops], values


def inline_calls(module: Module, selection: Selection) -> None:
    """Calls, in whose place stands a copy of the function's body."""
    copies = {name: func.body for name, func in module.funcs.items()}
    for body in bodies(module):
        replaced: dict[Value, Value] = {}

        def inline_in(block: Block, replaced: dict[Value, Value] = replaced) -> None:
            out: list[Op] = []
            for op in block.ops:
                for region in op.regions:
                    inline_in(region)
                callee = copies.get(op.attrs["callee"]) if op.name == "call" else None
                if callee is None or not selection.drops():
                    out.append(op)
                    continue
                mapping = dict(zip(callee.args, op.operands, strict=True))
                ops, values = splittable(callee)
                out += clone(ops, mapping)
                replaced.update(zip(op.results, [mapping[value] for value in values], strict=True))
            block.ops = out

        inline_in(body)
        replace_values(body, replaced)


def drop_carried_values(module: Module, selection: Selection) -> None:
    """Results of structured ops, replaced: of a loop by its initial values, of an if by zero."""
    for body in bodies(module):
        replaced: dict[Value, Value] = {}
        for op in [op for op in body.walk() if op.regions]:
            keep = [not selection.drops() for _ in op.results]
            if all(keep):
                continue
            starts = inits(op) if op.name in ("for", "while") else ()
            for number, result in enumerate(op.results):
                if keep[number]:
                    continue
                replaced[result] = starts[number] if starts else zero(result.type, body)
                if starts:
                    for region in op.regions:
                        carried = region.args[len(region.args) - len(op.results) :]
                        replaced[carried[number]] = starts[number]
            keep_results(op, keep)
        replace_values(body, replaced)


def shorten_loops(module: Module, selection: Selection) -> None:
    """Rounds of a `for` but the first, and bounds that are values."""
    for body in bodies(module):
        for op in body.walk():
            if op.name == "for" and trip_count(op) != 1 and selection.drops():
                lower, _, step = bounds(op)
                start = lower if isinstance(lower, int) else 0
                with_bounds(op, start, start + 1, step if isinstance(step, int) else 1)
