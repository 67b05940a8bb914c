"""How many operands, results and blocks an op has, and which attributes: a row for each form.

The short form of the text gives these by its syntax; the generic form and programs
built in Python may have any, so the verifier looks here before it looks at types.
"""

from __future__ import annotations

from .loops import BOUND_NAMES
from .ops import OpDef
from .program import Op

# form -> (operands, results, blocks); None is any number, checked by the form's type rule
_COUNTS: dict[str, tuple[int | None, int | None, int | None]] = {
    **dict.fromkeys(("const", "spec", "id", "size", "len"), (0, 1, 0)),
    **dict.fromkeys(("unary", "convert", "splat", "extract", "load", "reduce", "scan", "ballot"), (1, 1, 0)),
    **dict.fromkeys(("binary", "compare", "insert", "shuffle"), (2, 1, 0)),
    **dict.fromkeys(("ternary", "select"), (3, 1, 0)),
    "vector": (None, 1, 0),
    "store": (2, 0, 0),
    "atomic": (2, 1, 0),
    **dict.fromkeys(("barrier", "trap", "kernel"), (0, 0, 0)),
    **dict.fromkeys(("yield", "condition"), (None, 0, 0)),
    "call": (None, None, 0),
    "for": (None, None, 1),
    "while": (None, None, 2),
    "if": (1, None, None),
    "region": (0, None, 1),
}

ARITY = {form: operands for form, (operands, _, _) in _COUNTS.items() if operands is not None}
"""Operands of an op, by form, where the form fixes them (an exchange that compares has one more)."""

_FLAGGED = ("unary", "binary", "ternary", "compare", "select")
"""The forms that take fastmath flags, on floats."""


def misshapen(op: Op) -> str | None:
    """What is wrong with the number of an op's parts, or with its attributes."""
    row = op.definition
    operands, results, blocks = _COUNTS[row.format]
    if row.name == "atomic_compare_exchange":
        operands = 3
    if operands is not None and len(op.operands) != operands:
        return f"takes {_several(operands, 'operand')}, {len(op.operands)} given"
    if results is not None and len(op.results) != results:
        return f"gives {_several(results, 'result')}, not {len(op.results)}"
    if blocks is not None and len(op.regions) != blocks:
        return f"has {_several(blocks, 'block')}, not {len(op.regions)}"
    if op.regions or blocks != 0:
        problem = _blocks(op)
        if problem is not None:
            return problem
    return _attributes(row, op) if op.attrs or row.attrs or row.kernel else None


def lacks_else(op: Op | None) -> bool:
    """Whether this is an `if` that gives values and has one block, which may hold what was meant for two."""
    return op is not None and op.name == "if" and len(op.regions) == 1 and bool(op.results)


def _several(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _blocks(op: Op) -> str | None:
    form = op.definition.format
    if form == "if" and len(op.regions) not in (1, 2):
        return f"has 1 or 2 blocks, not {len(op.regions)}"
    if form in ("if", "region") and any(block.args for block in op.regions):
        return "has blocks without arguments"
    if form == "for":
        if not op.regions[0].args:
            return "has a block whose first argument is the counter"
        dynamic = sum(op.attrs.get(name) is None for name in BOUND_NAMES)
        if len(op.operands) < dynamic:
            return f"has {_several(dynamic, 'dynamic bound')}, but {_several(len(op.operands), 'operand')}"
    return None


def _attributes(row: OpDef, op: Op) -> str | None:
    attrs = op.attrs
    if row.kernel is not None:
        return None if {"buffers", "params"} <= attrs.keys() else "needs its buffers and params"
    for attr in row.attrs:
        if attr.name not in attrs:
            return f"attribute {attr.name} is missing"
        value = attrs[attr.name]
        if attr.choices is not None and value not in attr.choices:
            return f"{attr.name} is {', '.join(attr.choices)}, not {value}"
        if attr.kind == "int" and not isinstance(value, int) and not (value is None and row.format == "for"):
            return f"{attr.name} is an integer, not {'dynamic' if value is None else value}"
    if len(attrs) == len(row.attrs):
        return None
    known = {attr.name for attr in row.attrs}
    extra = next((name for name in attrs if name not in known and name != "fastmath"), None)
    if extra is not None:
        return f"has no attribute {extra}"
    if row.format not in _FLAGGED or not op.operands[-1].type.element.is_float:
        return "takes no fastmath flags; they are for ops on floats"
    return None
