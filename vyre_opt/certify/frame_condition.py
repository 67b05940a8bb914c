"""Frame condition: a pass changed nothing but its decisions.

The program after is the one before, op by op, except for

barriers, and stores that are overwritten         which are not there any more
loads of what is known, stores of what is there   the value is that of another access
accesses that are one of a vector                 the first of the loads, or the last of the stores, is the vector's
accesses of what became a tile                    at another index, of a narrower type
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

import z3

from ..ir.grids import Extent, GridCall, fold, length_key, lengths_by_dimension
from ..ir.pipeline import Launch
from ..ir.program import Op, Program, Value
from .bodies import Body, BodyMatch, Special
from .lengths import LengthTerms
from .mismatch import Mismatch
from .obligations import Obligation, not_seen

__all__ = ["is_rest_unchanged", "match_declarations", "replaced", "vanished", "vectorized"]


def is_rest_unchanged(
    before: Program,
    after: Program,
    special: Mapping[Op, Special],
    moved: Collection[str],
    launches: Sequence[tuple[LengthTerms, Launch]] = (),
) -> Obligation:
    """`special`: ops that are not the same in the program after.  `moved`: buffers that became tiles.  `launches`: those of
    the program before, with the lengths of their pipelines."""
    what = f"the rest of @{before.name} is as it was"
    names = {name: name for name in before.buffers}
    lengths: dict[str, int | None] = {}
    for name, buffer in before.buffers.items():
        lengths[name] = buffer.count
        lengths.update(lengths_by_dimension(name, buffer.shape))
    kept = {
        other.name: buffer.name
        for other in after.buffers.values()
        for buffer in before.buffers.values()
        if other.name not in before.buffers and other.binding == buffer.binding is not None
    }
    match = BodyMatch(
        after,
        [Body(before, names)],
        names,
        lengths,
        special=special,
        moved=frozenset(moved),
        agree=partial(_agree, before, launches),
        kept=kept,
    )
    try:
        match_declarations(before, after, moved)
        match.match()
    except Mismatch as mismatch:
        return not_seen(what, str(mismatch), mismatch.ops)
    return Obligation(what, [], [], [], z3.BoolVal(True))


def _agree(
    program: Program, launches: Sequence[tuple[LengthTerms, Launch]], one: Extent, other: Extent
) -> bool:
    """Whether two expressions of lengths of a program's buffers are equal in each launch of it."""
    for terms, launch in launches:
        lengths = {
            length_key(formal.name, *dimensions): GridCall("len", (name, *dimensions))
            for formal, name in zip(program.bound_buffers, launch.buffers, strict=True)
            for dimensions in ((), *((dimension,) for dimension in range(formal.dimensions)))
        }
        if not terms.agree(fold(one, lengths), fold(other, lengths)):
            return False
    return bool(launches) or LengthTerms({}).agree(one, other)


def match_declarations(before: Program, after: Program, moved: Collection[str]) -> None:
    """Raises Mismatch unless the programs have equal buffers, except buffers that became tiles."""
    if (before.workgroup, before.cluster, before.grid, before.specs) != (
        after.workgroup,
        after.cluster,
        after.grid,
        after.specs,
    ):
        raise Mismatch("its workgroup, grid or constants are declared otherwise")
    if before.params != after.params:
        raise Mismatch("its params are declared otherwise")
    others = before.buffers.keys() ^ after.buffers.keys()
    if any(name in before.buffers or not _is_for_length(before, after, name, moved) for name in others):
        raise Mismatch("it has other buffers")
    for name, buffer in before.buffers.items():
        is_same = after.buffers[name].is_workgroup if name in moved else after.buffers[name] == buffer
        if not is_same:
            raise Mismatch(f"@{name} is declared otherwise")


def _is_for_length(before: Program, after: Program, name: str, moved: Collection[str]) -> bool:
    """Whether a buffer is the storage of one that became a tile, which stays for its length and is not accessed."""
    storage = after.buffers[name]
    is_accessed = any(op.attrs.get("buffer") == name and op.name != "len" for op in after.walk())
    return not is_accessed and any(replace(before.buffers[was], name=name) == storage for was in moved)


def vanished(match: BodyMatch, op: Op, after: Sequence[Op], at: int) -> int:
    """The op is not there any more, and its results are not used."""
    return at


def replaced(source: Op) -> Special:
    """A load gives what `source` has stored or loaded, a store stores that once more."""

    def special(match: BodyMatch, op: Op, after: Sequence[Op], at: int) -> int:
        (value,) = match.after([source.operands[0] if source.name == "store" else source.result])
        if op.name == "load":
            match.values[op.result] = value
        elif match.after(op.operands[:1]) != (value,):
            raise Mismatch(f"this {op.name} stores another value", op, source)
        return at

    return special


def vectorized(lanes: Sequence[Sequence[Op]]) -> dict[Op, Special]:
    """Counterparts of accesses that became one of a vector; `lanes`: the accesses that each element stands for, in order."""
    members = [op for same in lanes for op in same]
    one = _vector_store(lanes) if members[0].name == "store" else _vector_load(lanes)
    return dict.fromkeys(members, one)


def _vector_load(lanes: Sequence[Sequence[Op]]) -> Special:
    def special(match: BodyMatch, op: Op, after: Sequence[Op], at: int) -> int:
        if op.result in match.values:  # the vector is the first of the loads
            return at
        other = _vector_access(match, op, after, at, "load", lanes[0][0].indices)
        if other.result.type.lanes != len(lanes) or other.result.type.element is not op.result.type:
            raise Mismatch(f"this vector has not {len(lanes)} elements of {op.result.type}", other, op)
        at = match.pure(after, at + 1)
        for lane, same in enumerate(lanes):
            for load in same:
                match.values[load.result] = match.result_of(
                    "extract", [other.result], load.result.type, index=lane
                )
        return at

    return special


def _vector_store(lanes: Sequence[Sequence[Op]]) -> Special:
    members = {op for same in lanes for op in same}

    def special(match: BodyMatch, op: Op, after: Sequence[Op], at: int) -> int:
        match.stored[op] = match.after(op.operands[:1])[0]
        if members - match.stored.keys():  # the vector is the last of the stores
            return at
        other = _vector_access(match, op, after, at, "store", lanes[0][0].indices)
        order = list(match.stored)
        values = [match.stored[max(same, key=order.index)] for same in lanes]
        vector = match.result_of("vector", values, other.operands[0].type)
        if match.first(other.operands[:1]) != (vector,):
            raise Mismatch("this vector has other elements", other, op)
        return at + 1

    return special


def _vector_access(
    match: BodyMatch, op: Op, after: Sequence[Op], at: int, name: str, indices: Sequence[Value]
) -> Op:
    """The next op, which is to be an access of a vector where `indices` were."""
    if at == len(after) or after[at].name != name or after[at].attrs["buffer"] != op.attrs["buffer"]:
        raise Mismatch(f"here should be the {name} of a vector", *after[at : at + 1], op)
    other = after[at]
    if match.first(other.indices) != match.after(indices):
        raise Mismatch("this vector begins at another index", other, op)
    return other
