"""Table of helpers with their operands, results and bodies."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.formats import mask_type
from ...ir.ops import OPS
from ...ir.types import DataType
from ...records import dataclass
from ..code import Code, HelperSet
from ..helper_key import HelperKey
from ..spelling import mlir_type
from . import atomics, control, conversions, functions, ids, subgroups, vectors
from .arithmetic import ARITHMETIC, arithmetic

__all__ = ["HelperSignature", "define", "signature", "word_count"]

Body = Callable[[Code, HelperKey, list[str]], str | None]

U32, BOOL = DataType.U32, DataType.BOOL


@dataclass(frozen=True, slots=True)
class HelperSignature:
    """`operands`: an index of a memory access is None.  `result`: None for an op without a result."""

    operands: tuple[DataType | None, ...]
    result: DataType | None


def signature(key: HelperKey) -> HelperSignature:
    """The types of ours that a helper takes and gives; an atomic's buffer is not among the operands."""
    row, types = OPS.get(key.name), key.types
    if key.name in ("trip_count", "counter"):
        return HelperSignature(types * 3, types[0])
    if key.name == functions.PART:
        return HelperSignature(types, types[0])
    assert row is not None
    if row.format in ("id", "size"):
        return HelperSignature((), U32)
    if row.format == "atomic":
        dimensions = len([part for part in key.memory.split("x") if part != "w"])
        return HelperSignature((*(None,) * dimensions, *types * row.atomic_values), types[0])
    special: dict[str, HelperSignature] = {
        "vector": HelperSignature(
            (types[0].element,) * types[0].lanes if types else (), types[0] if types else None
        ),
        "shuffle": HelperSignature((*types, U32), types[0] if types else None),
        "ballot": HelperSignature((BOOL,), U32),
        "barrier": HelperSignature((), None),
        "assert": HelperSignature((BOOL,), None),
        "check_bounds": HelperSignature(types * 2, None),
        "movemask": HelperSignature(types, mask_type(types[0]) if types else None),
        "permute": HelperSignature(types, types[-1] if types else None),
        "convert": HelperSignature(types[:1], types[-1] if types else None),
    }
    if row.format in special:
        return special[row.format]
    return HelperSignature(
        types * {"unary": 1, "reduce": 1, "scan": 1, "ternary": 3}.get(row.format, 2), types[0]
    )


def word_count(name: str) -> int:
    """Number of words in the symbol of a helper for the op, at least."""
    row = OPS.get(name)
    return sum(attr.kind == "word" for attr in row.attrs) if row is not None else 0


_BODIES: dict[str, Body] = {
    **dict.fromkeys(ARITHMETIC, arithmetic),
    **dict.fromkeys(ids.IDS, ids.id_or_size),
    functions.PART: functions.part,
    "cast": conversions.cast,
    "bitcast": conversions.bitcast,
    "vector": vectors.vector,
    "permute": vectors.permute,
    "movemask": vectors.movemask,
    "subgroup_shuffle": subgroups.shuffle,
    "subgroup_reduce": subgroups.reduce,
    "subgroup_scan": subgroups.scan,
    "subgroup_ballot": subgroups.ballot,
    "barrier": subgroups.barrier,
    "trip_count": control.trip_count,
    "counter": control.counter,
    "assert": control.assert_,
    "check_bounds": control.check_bounds,
    **{name: atomics.atomic for name, row in OPS.items() if row.format == "atomic"},
}

_CONVERGENT = frozenset(
    {"subgroup_shuffle", "subgroup_reduce", "subgroup_scan", "subgroup_ballot", "barrier"}
)
"""Helpers whose lanes meet, so that no optimisation may move a call of one into a branch."""

_WHOLE = frozenset({"bitcast", "vector", "permute", "movemask", "subgroup_shuffle"})
"""Helpers that take vectors as they are, not lane by lane."""


def define(key: HelperKey, helpers: HelperSet) -> str:
    """The text of a helper function."""
    code = Code(helpers, "      ")
    types = signature(key)
    params = [
        (f"%a{number}", mlir_type(t) if t is not None else "index") for number, t in enumerate(types.operands)
    ]
    if key.memory:
        params.insert(0, ("%memory", atomics.memory_type(key.memory, key.types[0], helpers.space)))
    is_vector = bool(key.types) and key.types[0].is_vec and key.name not in _WHOLE
    body: Body = vectors.lane_by_lane if is_vector else _BODIES[key.name]
    result = body(code, key, [name for name, _ in params])
    parameters = ", ".join(f"{name}: {kind}" for name, kind in params)
    traits = ["convergent"] if key.name in _CONVERGENT else []
    passthrough = ", ".join(f'"{trait}"' for trait in [*traits, "alwaysinline"])
    head = f"func.func private @{key.symbol}({parameters})"
    if types.result is not None:
        head += f" -> {mlir_type(types.result)}"
        code.line(f"func.return {result} : {mlir_type(types.result)}")
    else:
        code.line("func.return")
    head += f" attributes {{llvm.linkage = #llvm.linkage<internal>, passthrough = [{passthrough}]}}"
    return "\n".join([f"    {head} {{", *code.lines, "    }"])
