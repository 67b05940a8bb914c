"""Atomics that leave the same behind in any order and grouping of their operands.

Integers do, and minima and maxima of floats: these ignore NaNs and put -0.0 below 0.0, and which NaN is left of several is not
specified.  A float sum depends on its order, and may be another one where the program says so: fastmath<reassoc>.
"""

from __future__ import annotations

from ..ir.program import Op, Program

__all__ = ["counted_buffers", "may_regroup", "regrouped_atomics"]

_COMBINING = ("atomic_add", "atomic_and", "atomic_or", "atomic_xor", "atomic_min", "atomic_max")


def may_regroup(op: Op) -> bool:
    """Whether this is such an atomic, and relaxed.  What it gives still depends on the order."""
    if op.name not in _COMBINING or op.attrs["order"] != "relaxed":
        return False
    is_float_sum = op.name == "atomic_add" and op.result.type.is_float
    return not is_float_sum or "reassoc" in op.attrs.get("fastmath", ())


def regrouped_atomics(program: Program) -> set[Op]:
    """Atomics of that kind in a program whose old values nobody takes: the number of their steps cannot be observed."""
    atomics = {op for op in program.walk() if may_regroup(op)}
    used_values = {value for op in program.walk() for value in op.operands} if atomics else set()
    return {op for op in atomics if op.result not in used_values}


def counted_buffers(program: Program) -> dict[str, str]:
    """The buffers with which a program does nothing but `regrouped_atomics` of one name; and the name."""
    atomics = regrouped_atomics(program)
    names: dict[str, str] = {}
    excluded: set[str] = set()
    for op in program.walk():
        buffer = op.attrs.get("buffer")
        if buffer is None or op.name == "len":
            continue
        if op not in atomics or names.setdefault(buffer, op.name) != op.name:
            excluded.add(buffer)
    return {buffer: name for buffer, name in names.items() if buffer not in excluded}
