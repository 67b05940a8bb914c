"""Asynchronous copies in kernels.

vyre.copy_async(tile, (s, i), x, (row, k), 4)       tile[s, i : i + 4] = x[row, k : k + 4], some time
vyre.copy_wait(1)                                   for all copies but those since the last copy_wait before this one
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..ir.formats import MAX_PENDING
from ..ir.ops import OpDef
from ..ir.types import DataType, TypeNameError
from .bindings import Binding, BufferView, Static
from .call_arguments import array_of, by_name, positional
from .python_source import Unsupported

if TYPE_CHECKING:
    from .expressions import Expressions

__all__ = ["FORMATS", "OWN", "copied_between"]


def copied_between(t: Expressions, given: dict[str, ast.expr]) -> tuple[BufferView, BufferView]:
    """The `tile` of a copy, which is shared memory, and the `array` that it is from, of one element type.  Raises
    Unsupported."""
    tile, source = array_of(t, given["tile"], "written"), array_of(t, given["array"], "read")
    name, element = t.source.text(given["tile"]), tile.buffer.dtype
    if not tile.buffer.is_workgroup:
        raise Unsupported(given["tile"], f"{name} is no shared memory, which is what copies go to")
    if source.buffer.dtype is not element:
        text = t.source.text(given["array"])
        raise Unsupported(given["array"], f"{text} holds {source.buffer.dtype}, and {name} {element}")
    return tile, source


def _copy_async(t: Expressions, node: ast.Call) -> Binding:
    given = by_name(t, node, "tile", "at", "array", "start", "elements", optional=1)
    tile, source = copied_between(t, given)
    element = tile.buffer.dtype
    count = t.static(given["elements"], "the number of elements") if "elements" in given else 1
    try:
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise TypeNameError(f"a copy is of 1 to 64 elements, not {count!r}")
        moved = element if count == 1 else DataType.vec(element, count)
    except TypeNameError as error:
        raise Unsupported(given.get("elements", node), str(error)) from None
    start = t.indices(given["start"], source)
    value = t.emitter.value("load", start, moved, {"buffer": source.buffer.name})
    indices = t.indices(given["at"], tile)
    t.emitter.op("copy_async", (value, *indices), attrs={"buffer": tile.buffer.name})
    return Static(None)


def _copy_wait(t: Expressions, node: ast.Call, row: OpDef) -> Binding:
    arguments = positional(t, node, "pending", optional=1)
    pending = t.static(arguments[0], "what copy_wait leaves pending") if arguments else 0
    if not isinstance(pending, int) or isinstance(pending, bool) or not 0 <= pending <= MAX_PENDING:
        message = f"copy_wait leaves 0 to {MAX_PENDING} groups of copies, not {pending!r}"
        raise Unsupported(arguments[0], message)
    t.emitter.op(row.name, attrs={"pending": int(pending)})
    return Static(None)


FORMATS: dict[str, Callable[[Expressions, ast.Call, OpDef], Binding]] = {"copy_wait": _copy_wait}
OWN: dict[str, Callable[[Expressions, ast.Call], Binding]] = {"copy_async": _copy_async}
