"""Remedies for a store that races with a load of its buffer, by what the program does with both.

if v > best[0]: best[0] = v                        an atomic, which keeps the larger one
if a > b: x[i] = b; x[i + 1] = a                   pairs without an element in common
for t in range(n): x[i] = x[i - 1] + x[i + 1]      a launch for each round
x[i] = x[i + 1]                                    a store to another buffer
"""

from __future__ import annotations

from collections.abc import Sequence

from ..diagnostics import source_text, spelling_at
from ..program import Block, Buffer, Op, Value
from .racing_stores import identity, indices_shown, written

__all__ = ["extreme", "instead_of_store"]

_MOST_TERMS = 50
"""Ops of a condition or an index that are looked at."""
_EXTREMES = {"gt": "atomic_max", "ge": "atomic_max", "lt": "atomic_min", "le": "atomic_min"}
"""Atomics that keep a value which compares so with an element."""
_OPPOSITES = {"gt": "lt", "ge": "lt", "lt": "gt", "le": "gt"}


def instead_of_store(buffer: Buffer, store: Op, load: Op, around: Sequence[Op]) -> str:
    """Remedy for a store; `around`: the ifs and loops around the store, the innermost last."""
    spelling = spelling_at(store.loc)
    text = source_text(store.loc)
    body = next((block.ops for op in around[-1:] for block in op.regions if store in block.ops), [])
    stores = [op for op in body if op.definition.format == "store"]
    of_buffer = [op for op in stores if op.attrs["buffer"] == buffer.name]
    if len(of_buffer) > 1 and (pair := _pair(of_buffer)) is not None:
        return (
            f"write {spelling.pairs(written(pair, store))}, a pair of each invocation's own, and launch another kernel with 1 more "
            "for the other pairs"
        )
    atomic = extreme(store, around)
    if atomic is not None:
        value = written(store.operands[0], store)
        update = spelling.update(atomic, buffer.name, indices_shown(store), value, buffer.dtype, text)
        if len(stores) == 1:
            return f"write {update}"
        return f"write {update}, and store what belongs to that in a second launch, where the value is equal to it: no atomic stores two things at once"
    is_round = _is_round(store, load, around)
    return spelling.apart(buffer.name, str(buffer.dtype), buffer.dimensions, text, is_round)


def extreme(store: Op, around: Sequence[Op]) -> str | None:
    """The atomic that a store behind a comparison of its value with its element is: `if v > best[0]: best[0] = v`."""
    is_data = any(isinstance(index.owner, Op) and index.owner.name == "load" for index in store.indices)
    if not is_data and _is_of(store.operands[0], set(), store.attrs["buffer"]):
        return None
    value = identity(store.operands[0])
    places = [*map(identity, store.indices)]

    def is_element(operand: Value) -> bool:
        load = operand.owner
        is_load = (
            isinstance(load, Op) and load.name == "load" and load.attrs["buffer"] == store.attrs["buffer"]
        )
        return is_load and [*map(identity, load.indices)] == places  # type: ignore[union-attr]

    pending = [(op.operands[0], store in op.regions[0].walk()) for op in around if op.name == "if"]
    for _ in range(_MOST_TERMS):
        if not pending:
            break
        condition, holds = pending.pop()
        op = condition.owner
        if not isinstance(op, Op):
            continue
        if op.name in _EXTREMES:
            first, second = op.operands
            if identity(second) == value and is_element(first):
                first, second, holds = second, first, not holds
            if identity(first) == value and is_element(second):
                return _EXTREMES[op.name] if holds else _EXTREMES[_OPPOSITES[op.name]]
        elif op.name in ("and", "or", "not"):
            pending += [(operand, holds is not (op.name == "not")) for operand in op.operands]
        elif op.name == "if":
            ends = [o for r in op.regions if r.terminator for o in r.terminator.operands]
            pending += [(operand, holds) for operand in (*op.operands, *ends)]
    return None


def _pair(stores: Sequence[Op]) -> Value | None:
    """The number of an invocation that two stores are at, with and without 1 more."""
    for store in stores:
        for index in store.indices:
            owner = index.owner
            if isinstance(owner, Op) and owner.name == "global_id":
                return index
    return None


def _is_round(store: Op, load: Op, around: Sequence[Op]) -> bool:
    """Whether the innermost loop around both accesses does the same to the same elements in each round."""
    loop = next((op for op in reversed(around) if op.name in ("for", "while")), None)
    if loop is None or load not in loop.walk():
        return False
    blocks = {block for op in (loop, *loop.walk()) for block in op.regions}
    return not any(_is_of(index, blocks) for op in (store, load) for index in op.indices)


def _is_of(value: Value, blocks: set[Block], buffer: str = "") -> bool:
    """Whether a value is computed from arguments of blocks, or from elements of a buffer."""
    pending = [value]
    for _ in range(_MOST_TERMS):
        if not pending:
            return False
        owner = pending.pop().owner
        if isinstance(owner, Block) and owner in blocks:
            return True
        if isinstance(owner, Op):
            if owner.attrs.get("buffer") == buffer:
                return True
            pending += owner.operands
    return True
