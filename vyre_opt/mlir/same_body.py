"""Whether a helper function of an MLIR text has the body that its name says, so that a call of it is the op.

The text of a helper is the one that is written for it, or it differs in names and in what other tools print otherwise:
constants in another order, attributes that have the value they have when they are left out.
"""

from __future__ import annotations

import re
from typing import Any

from ..ir.diagnostics import DiagnosticError, Source
from .syntax import parse_mlir

__all__ = ["is_same_function"]

_NEUTRAL = {
    "overflowFlags", "fastmath", "fastmathFlags", "nontemporal", "sym_name", "sym_visibility", "passthrough",
    "llvm.linkage", "operandSegmentSizes", "op_bundle_sizes", "arg_attrs", "res_attrs", "operand_segment_sizes",
    "op_name__",
}  # fmt: skip
"""Attributes of ops that do not change what a helper computes; helpers have no fastmath flags of their own."""


def is_same_function(function: Any, text: str, helper_text: str) -> bool:
    """`function`: an op of xdsl; `text`: its text in the source; `helper_text`: text of the helper of its name."""
    if "".join(text.split()) == "".join(helper_text.split()):
        return True
    if _has_flags(function):
        return False
    try:
        module = parse_mlir(Source(f"builtin.module {{ {helper_text} }}", "<helper>"))
    except DiagnosticError:
        return False
    (expected,) = module.op.body.block.ops
    return _shape(function) == _shape(expected)


def _has_flags(function: Any) -> bool:
    """Whether an op has fastmath flags."""
    for op in function.walk():
        for name in ("fastmath", "fastmathFlags"):
            flags = op.properties.get(name) or op.attributes.get(name)
            if flags is not None and "none" not in str(flags):
                return True
    return False


def _shape(function: Any) -> list[Any]:
    """The ops of a function with their operands by number; constants count where they are used."""
    numbers: dict[Any, Any] = {}
    rows: list[Any] = []

    def block_rows(block: Any) -> None:
        for argument in block.args:
            numbers[argument] = len(numbers)
        rows.append([str(argument.type) for argument in block.args])
        for op in block.ops:
            if op.name == "arith.constant":
                value = op.properties.get("value") or op.attributes.get("value")
                numbers[op.results[0]] = str(value)
                continue
            attributes = {
                name: _plain(str(value))
                for name, value in (*op.properties.items(), *op.attributes.items())
                if name not in _NEUTRAL
            }
            rows.append((_name(op), [numbers.get(o, "?") for o in op.operands], attributes))
            for region in op.regions:
                for inner in region.blocks:
                    block_rows(inner)
            rows.append("end")
            for result in op.results:
                numbers[result] = len(numbers)
                rows.append(str(result.type))

    for block in function.body.blocks if hasattr(function, "body") else function.regions[0].blocks:
        block_rows(block)
    return rows


_WORD = re.compile(r"#\w+<\w+ (\w+)>")


def _plain(text: str) -> str:
    """An attribute's text; one that is a word is alike in both forms: `#gpu<dim x>` and `"x"`."""
    word = _WORD.fullmatch(text)
    return word[1] if word else text.strip('"')


def _name(op: Any) -> str:
    unregistered = op.attributes.get("op_name__")
    return unregistered.data if unregistered is not None else str(op.name)
