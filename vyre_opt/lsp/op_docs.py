"""The documentation of an op, from its row in the op table."""

from __future__ import annotations

from collections.abc import Iterator

from ..ir.ops import SCHEDULE, OpDef
from ..syntax.op_syntax import SYNTAX

__all__ = ["op_documentation"]

_TAKES = {
    "int": "integers",
    "float": "floats",
    "num": "integers or floats",
    "bits": "integers or bools",
    "any": "any type that fits",
}


def op_documentation(row: OpDef) -> str:
    """Markdown: how the op is written, what it does, and what is known of it."""
    return "\n\n".join([f"```vyre\n{_written(row)}\n```", row.doc, *_notes(row)])


def _written(row: OpDef) -> str:
    if row.kernel is not None:
        buffers = ", ".join(f"@{role.name}" for role in row.kernel.roles)
        params = [f"{key} = {'...' if value is None else value}" for key, value in row.kernel.params.items()]
        return f"{row.name}({buffers})" + (f" {{{', '.join(params)}}}" if params else "")
    if row.name == "atomic_compare_exchange":
        return "%r = atomic_compare_exchange<relaxed> @b[%i], %a, %b : T"
    return SYNTAX[row.format].example.format(name=row.name, type="T")


def _notes(row: OpDef) -> Iterator[str]:
    if row.kernel is not None:
        for role in row.kernel.roles:
            optional = ", may be left out" if role.optional else ""
            yield f"- `@{role.name}`: {role.access}, {' or '.join(map(str, role.types))}{optional}"
        if row.kernel.schedule:
            yield f"Schedule: {', '.join(f'`{SCHEDULE}{name}`' for name in row.kernel.schedule)}"
        return
    if SYNTAX[row.format].has_type:
        yield f"T: {_TAKES[row.types]}"
    for attr in row.attrs:
        if attr.choices:
            yield f"{attr.name.capitalize()}: {', '.join(attr.choices)}"
    notes = ["commutative"] * row.commutative + ["folds"] * (
        row.fold_int is not None or row.fold_float is not None
    )
    notes += [f"{row.ulp:g} ulp"] * bool(row.ulp)
    notes += [f"{row.approximate_ulp:g} ulp with afn"] * bool(row.approximate_ulp)
    notes += [f"not pure: {' '.join(sorted(row.effects))}"] * (not row.is_pure)
    if notes:
        yield f"*{', '.join(notes)}*"
