"""Op formats: how many operands, results and blocks the ops of a row of the op table have.

`OpDef.format` names a row of FORMATS, at the end of this file.  Ops of a format are checked alike (op_rules.py), built alike
(op_builders.py), and written alike (syntax/op_syntax.py, which shows each).
"""

from __future__ import annotations

from collections.abc import Callable

from ..records import dataclass
from .loops import BOUND_NAMES
from .program import Op, Value
from .types import DataType

__all__ = [
    "FORMATS",
    "MAX_PENDING",
    "OpFormat",
    "lacks_else",
    "mask_type",
    "no_mask",
    "sum_type",
    "type_list",
]


@dataclass(frozen=True, slots=True)
class OpFormat:
    """A row of FORMATS.

    `operands`, `results`, `blocks`: how many an op has; None is any number, and its rule looks.
    `shape` gives what is wrong with the number of parts beyond the three counts.
    """

    name: str
    operands: int | None
    results: int | None
    blocks: int | None
    shape: Callable[[Op], str | None] | None = None


def type_list(values: tuple[Value, ...]) -> str:
    """The types of values."""
    return ", ".join([v.type.name for v in values])


_MASK_TYPES = {8: DataType.U8, 16: DataType.U16, 32: DataType.U32, 64: DataType.U64}


def mask_type(dtype: DataType) -> DataType | None:
    """The unsigned integer with a bit for each lane of a vector of bools; None where there is none."""
    return _MASK_TYPES.get(dtype.lanes) if dtype.element.is_bool else None


def no_mask(dtype: DataType) -> str:
    """The message on a type without one."""
    return f"takes a vector of {', '.join(map(str, _MASK_TYPES))} bools, not {dtype}"


def sum_type(dtype: DataType) -> DataType:
    """The type in which products of a type are added."""
    if dtype.is_float:
        return DataType.F64 if dtype.bits == 64 else DataType.F32
    if dtype.bits == 64:
        return dtype
    return DataType.I32 if dtype.kind == "int" else DataType.U32


def _shape_load(op: Op) -> str | None:
    return None if op.operands else "takes an index for each dimension of its buffer"


def _shape_store(op: Op) -> str | None:
    return None if len(op.operands) > 1 else "takes a value, and an index for each dimension of its buffer"


def _shape_atomic(op: Op) -> str | None:
    values = op.definition.atomic_values
    if len(op.operands) > values:
        return None
    return f"takes an index for each dimension of its buffer, and {values} value{'s' * (values > 1)}"


def _shape_slice_load(op: Op) -> str | None:
    filled = op.attrs.get("edge") == "filled"
    if len(op.operands) > filled:
        return None
    return f"takes an index for each dimension of its buffer{', and what is beyond it' if filled else ''}"


def _shape_slice_broadcast(op: Op) -> str | None:
    return (
        None if len(op.operands) in (1, 2) else "takes a value, and a slice of the extents if they are open"
    )


def _shape_slice_gather(op: Op) -> str | None:
    return None if op.operands else "takes an index for each dimension of its buffer"


def _shape_slice_iota(op: Op) -> str | None:
    return None if len(op.operands) in (1, 2) else "takes where it starts, and its extent if that is open"


def _shape_slice_dot(op: Op) -> str | None:
    return (
        None if len(op.operands) in (2, 3) else "takes two blocks, and one that their products are added to"
    )


MAX_PENDING = 64
"""Groups of copies that a wait may leave."""


def _shape_for(op: Op) -> str | None:
    if not op.regions[0].args:
        return "has a block whose first argument is the counter"
    dynamic = sum(op.attrs.get(name) is None for name in BOUND_NAMES)
    if len(op.operands) < dynamic:
        plural, operands = "s" * (dynamic != 1), "s" * (len(op.operands) != 1)
        return f"has {dynamic} dynamic bound{plural}, but {len(op.operands)} operand{operands}"
    return None


def lacks_else(op: Op | None) -> bool:
    """Whether this is an `if` that gives values and has one block, which may hold what was meant for two."""
    return op is not None and op.name == "if" and len(op.regions) == 1 and bool(op.results)


def _shape_if(op: Op) -> str | None:
    if len(op.regions) not in (1, 2):
        return f"has 1 or 2 blocks, not {len(op.regions)}"
    return _shape_region(op)


def _shape_region(op: Op) -> str | None:
    return "has blocks without arguments" if any(block.args for block in op.regions) else None


# --- the table ----------------------------------------------------------------------------

# A table reads by its columns: name; operands, results, blocks; the rest by name.
# fmt: off
FORMATS: dict[str, OpFormat] = {row.name: row for row in (
    OpFormat("const", 0, 1, 0),
    OpFormat("spec", 0, 1, 0),
    OpFormat("param", 0, 1, 0),
    OpFormat("id", 0, 1, 0),
    OpFormat("size", 0, 1, 0),
    OpFormat("len", 0, 1, 0),
    OpFormat("unary", 1, 1, 0),
    OpFormat("binary", 2, 1, 0),
    OpFormat("ternary", 3, 1, 0),
    OpFormat("compare", 2, 1, 0),
    OpFormat("select", 3, 1, 0),
    OpFormat("convert", 1, 1, 0),
    OpFormat("splat", 1, 1, 0),
    OpFormat("vector", None, 1, 0),
    OpFormat("extract", 1, 1, 0),
    OpFormat("insert", 2, 1, 0),
    OpFormat("permute", 2, 1, 0),
    OpFormat("movemask", 1, 1, 0),
    OpFormat("load", None, 1, 0, shape=_shape_load),
    OpFormat("store", None, 0, 0, shape=_shape_store),
    OpFormat("copy_wait", 0, 0, 0),
    OpFormat("atomic", None, 1, 0, shape=_shape_atomic),
    OpFormat("barrier", 0, 0, 0),
    OpFormat("shuffle", 2, 1, 0),
    OpFormat("reduce", 1, 1, 0),
    OpFormat("scan", 1, 1, 0),
    OpFormat("ballot", 1, 1, 0),
    OpFormat("matrix_load", None, 1, 0, shape=_shape_load),
    OpFormat("matrix_store", None, 0, 0, shape=_shape_store),
    OpFormat("matrix_mul_add", 3, 1, 0),
    OpFormat("matrix_unpack", 1, 1, 0),
    OpFormat("matrix_pack", 1, 1, 0),
    OpFormat("slice_load", None, 1, 0, shape=_shape_slice_load),
    OpFormat("slice_gather", None, 1, 0, shape=_shape_slice_gather),
    OpFormat("slice_store", None, 0, 0, shape=_shape_store),
    OpFormat("slice_broadcast", None, 1, 0, shape=_shape_slice_broadcast),
    OpFormat("slice_iota", None, 1, 0, shape=_shape_slice_iota),
    OpFormat("slice_reduce", 1, 1, 0),
    OpFormat("slice_scan", 1, 1, 0),
    OpFormat("slice_transpose", 1, 1, 0),
    OpFormat("slice_dot", None, 1, 0, shape=_shape_slice_dot),
    OpFormat("slice_len", 1, 1, 0),
    OpFormat("for", None, None, 1, shape=_shape_for),
    OpFormat("while", None, None, 2),
    OpFormat("if", 1, None, None, shape=_shape_if),
    OpFormat("region", 0, None, 1, shape=_shape_region),
    OpFormat("yield", None, 0, 0),
    OpFormat("condition", None, 0, 0),
    OpFormat("call", None, None, 0),
    OpFormat("trap", 0, 0, 0),
    OpFormat("assert", 1, 0, 0),
    OpFormat("check_bounds", 2, 0, 0),
    OpFormat("debug_print", None, 0, 0),
    OpFormat("breakpoint", 0, 0, 0),
    OpFormat("kernel", 0, 0, 0),
)}
# fmt: on
