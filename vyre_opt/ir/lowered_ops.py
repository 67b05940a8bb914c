"""Parts of lowered programs that no text has: attributes, three ops, and the operands of a trap.

A program is lowered from the first rewrite of a target on that leaves any of these (see `Program.lowered_for` and
passes/legalize.py).  Their rules are in lowered_rules.py.  From then on

    buffers         have one dimension
    params          may be open extents of what had several, which have names that no text has
    in_bounds       of an access: it is checked.  Of a cast: its operand is an index in bounds in every active lane
    trap            of an access that is out of bounds has the indices as its operands; `access`: that access, in the
                    program as it was before; `shape`: the extents of its buffer, or the names of their params
    matrix_load     has one more operand, the elements of a row, of a buffer that had several dimensions; and so matrix_store
    on vectors      what each lane holds of a matrix, ops on matrices have its `shape`, products also the `element` of their
                    factors; `covers`: the elements that each lane names for all, of a load by rows
"""

from __future__ import annotations

from collections.abc import Mapping

from .formats import FORMATS, OpFormat
from .ops import Attr, OpDef
from .program import Op

__all__ = [
    "LOWERED_ATTRS",
    "LOWERED_FORMATS",
    "LOWERED_OPS",
    "PROXY_FENCE",
    "WARPGROUP_MUL_ADD",
    "WARPGROUP_WAIT",
    "lowered_attrs",
]

_IN_BOUNDS = Attr("in_bounds", "flag", optional=True)
_SHAPE = Attr("shape", "shape", optional=True)

LOWERED_ATTRS: Mapping[str, tuple[Attr, ...]] = {
    "convert": (_IN_BOUNDS,),
    "load": (_IN_BOUNDS,),
    "store": (_IN_BOUNDS,),
    "atomic": (_IN_BOUNDS,),
    "trap": (Attr("access", "op", optional=True), _SHAPE),
    "matrix_load": (_IN_BOUNDS, _SHAPE, Attr("covers", "int", optional=True)),
    "matrix_store": (_IN_BOUNDS, _SHAPE),
    "matrix_mul_add": (_SHAPE, Attr("element", "type", optional=True)),
    "matrix_unpack": (_SHAPE,),
    "matrix_pack": (_SHAPE,),
}
"""Attributes that an op of the language may have in a lowered program, by its format."""


def _shape_warpgroup_mul_add(op: Op) -> str | None:
    count = len(op.results)
    return (
        None
        if count and len(op.operands) == 2 + count
        else "takes its factors, and a sum for each that it gives"
    )


WARPGROUP_MUL_ADD = OpDef(
    "warpgroup_mul_add",
    "warpgroup_mul_add",
    "a * b + c, begun",
    effects=frozenset({"read", "subgroup"}),
    attrs=(
        Attr("tile", "symbol"),
        Attr("shape", "shape"),
        Attr("element", "type"),
        Attr("is_deep_by_rows", "flag"),
        Attr("rows", "int"),
        Attr("fence", "flag"),
        Attr("left_tile", "symbol", optional=True),
        Attr("is_followed", "flag", optional=True),
        Attr("is_first", "flag", optional=True),
    ),
)
"""%a, %offset, %c, ...: sums side by side, each of as many columns; `tile`, the buffer of the right factor, that begins at element `offset`; `left_tile`: the buffer of the left one, of
which %a is the element where the warpgroup's rows begin, else %a are the factors in registers; `shape`, `element`: as of the
product that it was; `is_deep_by_rows`: the depth goes along the buffer's `rows`, not its columns; `fence`: factors or sums
were made since the product before; `is_followed`: nothing but the next product, or a wait, takes the sums, and all between is pure;
`is_first`: they begin at 0."""
WARPGROUP_WAIT = OpDef(
    "warpgroup_wait",
    "warpgroup_wait",
    "Wait for products",
    effects=frozenset({"subgroup"}),
    attrs=(Attr("pending", "int"),),
)
"""Its results are its first operands, when the products that make them are done; the others are left factors of these, which nothing
may write over before.  `pending`: groups of products that may go on, 1: what was begun since the wait before this one."""
PROXY_FENCE = OpDef("proxy_fence", "proxy_fence", "Show writes to products", effects=frozenset({"sync"}))
"""Makes writes of this invocation to workgroup memory visible to the products of all that it meets at the next barrier."""

LOWERED_OPS = {row.name: row for row in (WARPGROUP_MUL_ADD, WARPGROUP_WAIT, PROXY_FENCE)}

# A table reads by its columns: name; operands, results, blocks.
LOWERED_FORMATS = FORMATS | {
    row.name: row
    for row in (
        OpFormat("trap", None, 0, 0),
        OpFormat("warpgroup_mul_add", None, None, 0, shape=_shape_warpgroup_mul_add),
        OpFormat("warpgroup_wait", None, None, 0),
        OpFormat("proxy_fence", 0, 0, 0),
    )
}
"""The formats of all ops that a lowered program may have."""


def lowered_attrs(row: OpDef) -> tuple[Attr, ...]:
    """The attributes that an op of a row has in lowered programs alone."""
    return row.attrs if row.name in LOWERED_OPS else LOWERED_ATTRS.get(row.format, ())
