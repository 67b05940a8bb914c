"""The message of an op whose slices turn out to have other extents when it runs."""

from __future__ import annotations

import re

from .program import Op, Value

__all__ = ["unlike_extents"]


def unlike_extents(op: Op, extents: str = "") -> str:
    """Name what an op takes, the texts of its operands where they are loads, and what to pass or write.  `extents`: those of a run, in words."""
    texts = [text for operand in op.operands if operand.type.is_slice and (text := _text(operand))]
    both = (
        f", {' and '.join(texts[:2])} differ{extents}:" if len(texts) > 1 else f"{extents and ','}{extents}:"
    )
    message = (
        f"{op.name} takes slices of the same extents{both} pass arrays whose rows are as long as each other"
    )
    whole = next((text for text in texts if re.fullmatch(r"\w+\[:\]", text)), None)
    row = next((m[1] for text in texts if (m := re.fullmatch(r"\w+\[(\w+), :\]", text))), None)
    if whole is not None and row is not None:
        message += f", or, for one element of {whole[:-3]} a row, write {whole[:-3]}[{row}]"
    return message


def _text(value: Value) -> str:
    """The text that a slice is loaded by."""
    op = value.owner
    if not isinstance(op, Op) or op.loc is None or op.name not in ("slice_load", "slice_gather"):
        return ""
    text = " ".join(op.loc.text.split())
    return text if len(text) <= 60 else ""
