"""The types of the values that names mean at a place, by an analysis that may be older than the text."""

from __future__ import annotations

from collections.abc import Collection

from ..ir.program import Func, Program
from ..ir.types import DataType
from .analysis import DocumentAnalysis

__all__ = ["offset_before", "types_of_values"]


def offset_before(old: str, new: str, offset: int) -> int:
    """Offset in an older text of the place at `offset`, if one part of it has been replaced by another."""
    most = min(len(old), len(new))
    same = next((n for n in range(0, most, 1024) if old[n : n + 1024] != new[n : n + 1024]), most)
    while same < most and old[same] == new[same]:
        same += 1
    return offset if offset <= same else max(same, offset - len(new) + len(old))


def types_of_values(
    analysis: DocumentAnalysis | None, text: str, offset: int, names: Collection[str]
) -> dict[str, DataType]:
    """The type of each of the `%names` that has one: of values that a name means in turn, the last before `offset`."""
    if analysis is None or not names:
        return {}
    place = offset_before(analysis.text, text, offset)
    _, items = analysis.item_at(place)
    wanted = set(names)
    types: dict[str, DataType] = {}
    for item in items:
        if not isinstance(item, Program | Func):
            continue
        types.update({name: arg.type for arg in item.body.args if (name := f"%{arg.name}") in wanted})
        for op in item.walk():
            if op.loc is not None and analysis.span(op.loc).start >= place and types.keys() >= wanted:
                break
            for value in (*op.results, *(argument for block in op.regions for argument in block.args)):
                name = f"%{value.name}"
                if name in wanted and (
                    op.loc is None or name not in types or analysis.span(op.loc).start < place
                ):
                    types[name] = value.type
    return types
