"""Values of a subgroup or a workgroup that are taken for those of more invocations, or of one.

%t = subgroup_reduce<add> %v            32 invocations together, and the workgroup has 256
if %first { store %t, @out[%w] }        one of them stores, so the other sums are lost

%t = workgroup_reduce<add> %v           the sum of all, which each of them has
atomic_add @out[%w], %t                 all of them add it

%s = subgroup_shuffle<idx> %v, 16       lane 16 of the subgroup: a tree of sums goes down by 16, 8, 4, 2, 1 lanes
%v1 = add %v, %s

%t = add %v4, (shuffle<down> %v4, 1)    the root of such a tree, which lane 0 has
store %t, @out[%i]                      all lanes store what they have
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..diagnostics import Diagnostic, source_text, spelling_at
from ..loops import inits, trip_count
from ..ops import SUBGROUP_SIZE
from ..program import Block, Op, Program, Value
from ..rewrite import constant_value
from ..uniformity import Level, Uniformity
from .racing_stores import written

__all__ = ["subgroup_values"]

_MOST_TERMS = 50
"""Ops that a value is computed from which are looked at."""
_LAST_LANES = {"down": "lane 0", "up": "the last lane"}
"""Modes of shuffles, and which lane has the root of a tree of them."""
_SUMS = ("add", "mul", "xor")
"""Ops by which other lanes than that one get what nobody wants; a maximum of the lanes from each one on may be meant."""
_DISTANCES = {1 << number for number in range(SUBGROUP_SIZE.bit_length() - 1)}
"""Distances of the shuffles of a tree over a whole subgroup."""


def subgroup_values(program: Program) -> Iterator[Diagnostic]:
    """The warnings of reductions and shuffles of subgroups in a program."""
    ops = [*program.walk()]
    if any(op.name == "subgroup_reduce" for op in ops) and program.lanes > SUBGROUP_SIZE:
        yield from _partial_sums(program, ops)
    if any(op.name == "workgroup_reduce" for op in ops) and program.lanes > 1:
        yield from _repeated_sums(program)
    if any(op.name == "subgroup_scan" for op in ops) and program.lanes > SUBGROUP_SIZE:
        yield from _partial_scans(program, ops)
    modes = {op.attrs["mode"] for op in ops if op.name == "subgroup_shuffle"}
    if "idx" in modes:
        yield from _trees(ops)
    if modes & _LAST_LANES.keys():
        yield from _roots(program, ops)


def _partial_sums(program: Program, ops: list[Op]) -> Iterator[Diagnostic]:
    """The warnings of sums of a subgroup that the first invocation of a workgroup alone stores."""
    users: dict[Value, list[Op]] = {}
    for op in ops:
        for operand in op.operands:
            users.setdefault(operand, []).append(op)
    of_first = {
        inner for op in ops if op.name == "if" and _is_first(op.operands[0]) for inner in op.regions[0].ops
    }
    for op in ops:
        stores = users.get(op.result, []) if op.name == "subgroup_reduce" else []
        if not stores or not all(
            store.name in ("store", "atomic_add")
            and store in of_first
            and not program.buffers[store.attrs["buffer"]].is_on_chip
            for store in stores
        ):
            continue
        if _is_of_all(op.operands[0], program):
            text = source_text(op.loc)
            spelling = spelling_at(op.loc)
            stored = spelling.target(source_text(stores[0].loc)) or spelling.buffer(stores[0].attrs["buffer"])
            message = f"this combines the {SUBGROUP_SIZE} invocations of a subgroup, and a workgroup has {program.lanes}: {stored} has what the first {SUBGROUP_SIZE} give"
            help = f"write {text.replace('subgroup_reduce', 'workgroup_reduce', 1)}"
            warning = Diagnostic("warning", message, op.loc, help=help)
            yield warning.note("one invocation of a workgroup stores it here", stores[0].loc)


def _repeated_sums(program: Program) -> Iterator[Diagnostic]:
    """The warnings of sums of a workgroup that all of its invocations add to one element."""
    uniformity = Uniformity(program)
    for op in _of_all(program.body, uniformity):
        total = op.operands[-1].owner
        is_sum = isinstance(total, Op) and total.name == "workgroup_reduce"
        if (
            op.name != "atomic_add"
            or not is_sum
            or any(uniformity.level(i) > Level.WORKGROUP for i in op.indices)
        ):
            continue
        spelling, text = spelling_at(op.loc), source_text(op.loc)
        first = spelling.id("local_id", 0)
        message = f"all {program.lanes} invocations of a workgroup add its sum here, each once: it counts {program.lanes} times"
        is_python = spelling.name == "PYTHON"
        help = (
            f"write if {first} == 0: {text}"
            if is_python
            else f"put it behind an eq of {first} and 0, in an if"
        )
        yield Diagnostic("warning", message, op.loc, help=help)


def _of_all(block: Block, uniformity: Uniformity) -> Iterator[Op]:
    """The atomics that all invocations of a workgroup come to."""
    for op in block.ops:
        if op.definition.format == "atomic":
            yield op
        elif op.name == "if" and uniformity.level(op.operands[0]) <= Level.WORKGROUP:
            for region in op.regions:
                yield from _of_all(region, uniformity)
        elif op.name == "for" and all(
            uniformity.level(value) <= Level.WORKGROUP for value in op.operands[:3]
        ):
            yield from _of_all(op.regions[0], uniformity)


def _partial_scans(program: Program, ops: list[Op]) -> Iterator[Diagnostic]:
    """The warning of a scan of a subgroup that is all that a larger workgroup stores."""
    asked = {op.name for op in ops}
    whole = {
        "subgroup_id",
        "lane_id",
        "local_id",
        "workgroup_id",
        "subgroup_reduce",
        "subgroup_shuffle",
        "barrier",
        "workgroup_reduce",
    }
    if asked & whole or any(b.is_on_chip for b in program.buffers.values()):
        return
    for op in ops:
        stores = (each for each in ops if each.name == "store" and each.operands[0] in op.results)
        stored = next(stores, None) if op.name == "subgroup_scan" else None
        if stored is not None:
            message = f"this goes over the {SUBGROUP_SIZE} invocations of a subgroup, and begins anew in the next one: a workgroup has {program.lanes}"
            help = f"write {source_text(op.loc).replace('subgroup_scan', 'workgroup_scan', 1)}"
            yield Diagnostic("warning", message, op.loc, help=help).note("it is stored here", stored.loc)
            return


def _is_first(condition: Value) -> bool:
    """Whether a condition is `eq local_id x, 0`: one invocation of a workgroup passes."""
    op = condition.owner
    if not isinstance(op, Op) or op.name != "eq":
        return False
    ids = [v.owner for v in op.operands if constant_value(v) is None]
    return len(ids) == 1 and isinstance(ids[0], Op) and ids[0].name == "local_id"


def _is_of_all(value: Value, program: Program) -> bool:
    """Whether a value is computed from memory that the workgroup does not share, by each of its invocations alike."""
    pending = [value]
    for _ in range(_MOST_TERMS):
        if not pending:
            return True
        op = pending.pop().owner
        if not isinstance(op, Op) or op.name in ("local_id", "lane_id", "subgroup_id"):
            return False
        if op.name == "load":
            if program.buffers[op.attrs["buffer"]].is_on_chip:
                return False
        elif op.name == "if":
            pending += (
                op.operands[0],
                *(v for block in op.regions if block.terminator for v in block.terminator.operands),
            )
        elif op.definition.is_pure and not op.regions:
            pending += op.operands
        else:
            return False
    return False


def _trees(ops: list[Op]) -> Iterator[Diagnostic]:
    """The warning of the first shuffle of a tree whose steps are taken for lanes."""
    combined: dict[Value, Value] = {}
    """Results of `op v, shuffle v`, with the v."""
    for op in ops:
        if op.definition.commutative and len(op.operands) == 2:
            for shuffled, other in (op.operands, op.operands[::-1]):
                source = shuffled.owner
                if isinstance(source, Op) and _is_step(source) and source.operands[0] is other:
                    combined[op.result] = other
    for op in ops:
        again = [op.operands[0]] if _is_step(op) else []
        found = next((value for value in (*again, *_carried(op, combined)) if value in combined), None)
        if found is not None and isinstance(found.owner, Op):
            shuffle = next(
                v.owner
                for v in found.owner.operands
                if isinstance(v.owner, Op) and v.owner.name == "subgroup_shuffle"
            )
            text, is_python = source_text(shuffle.loc), spelling_at(shuffle.loc).name == "PYTHON"
            written = re.sub(r"\bidx\b", "down", text)
            if written == text and is_python:
                written = f'{text.rstrip(")")}, "down")'
            message = "each lane gets the value of one and the same lane here: the second operand of a shuffle is a lane, not a distance"
            yield Diagnostic("warning", message, shuffle.loc, help=f"write {written}")
            return


def _is_step(op: Op) -> bool:
    return op.name == "subgroup_shuffle" and op.attrs["mode"] == "idx"


def _carried(op: Op, combined: dict[Value, Value]) -> Iterator[Value]:
    """Values that a loop has combined with what it began a round with, and goes on with."""
    for block in op.regions if op.name in ("for", "while") else ():
        end = block.terminator
        yield from (v for v in (end.operands if end else ()) if combined.get(v) in block.args)


def _roots(program: Program, ops: list[Op]) -> Iterator[Diagnostic]:
    """The warning of the first tree of shuffles over a subgroup whose root, which one lane has, all lanes store or add."""
    roots = {value: leaf for op in ops for value in op.results if (leaf := _leaf(value)) is not None}
    uniformity = Uniformity(program) if roots else None
    derived = dict(zip(roots, roots, strict=True))
    """Values that are computed from roots."""
    for op, conditions in _with_conditions(program.body, ()):
        root = next((derived[operand] for operand in op.operands if operand in derived), None)
        if root is None or uniformity is None:
            continue
        is_atomic, level = op.definition.format == "atomic", max(map(uniformity.level, op.indices), default=0)
        is_stored = op.name == "store" and level > Level.SUBGROUP
        if (is_stored or is_atomic) and not program.buffers[op.attrs["buffer"]].is_on_chip:
            if all(_is_of_many(condition, uniformity) for condition in conditions):
                yield _root(roots[root], op, _combiner(root))
                return
        elif op.definition.is_pure and not op.regions and op.definition.format != "select":
            derived.update(dict.fromkeys(op.results, root))


def _leaf(root: Value) -> tuple[Value, Op] | None:
    """Value that a tree of shuffles over a whole subgroup begins with, and its first shuffle; None for what is no root of one."""
    op, distances, shuffle = root.owner, set[object](), None
    if isinstance(op, Op) and op.name in ("for", "while"):
        body, number = op.regions[-1], op.results.index(root)
        end, begin = body.terminator, inits(op)
        inner = None if end is None else _shuffled(end.operands[number])
        is_whole = (
            trip_count(op) == len(_DISTANCES)
            if op.name == "for"
            else max(_DISTANCES) in map(constant_value, begin)
        )
        own = body.args[number - len(op.results)]
        return (begin[number], inner[1]) if is_whole and inner is not None and inner[0] is own else None
    value = root
    while (step := _shuffled(value)) is not None and (
        shuffle is None or step[1].attrs["mode"] == shuffle.attrs["mode"]
    ):
        value, shuffle = step
        distances.add(constant_value(shuffle.operands[1]))
    return (value, shuffle) if shuffle is not None and distances == _DISTANCES else None


def _combiner(root: Value) -> str:
    op = root.owner
    end = op.regions[-1].terminator if isinstance(op, Op) and op.regions else None
    inner = root if end is None or not isinstance(op, Op) else end.operands[op.results.index(root)]
    return inner.owner.name if isinstance(inner.owner, Op) else ""


def _shuffled(value: Value) -> tuple[Value, Op] | None:
    """The v and the shuffle of `op v, shuffle v`."""
    op = value.owner
    if isinstance(op, Op) and op.name in _SUMS:
        for shuffled, other in (op.operands, op.operands[::-1]):
            source = shuffled.owner
            is_shuffle = isinstance(source, Op) and source.name == "subgroup_shuffle"
            if is_shuffle and source.attrs["mode"] in _LAST_LANES and source.operands[0] is other:  # type: ignore[union-attr]
                return other, source  # type: ignore[return-value]
    return None


def _with_conditions(block: Block, conditions: tuple[Value, ...]) -> Iterator[tuple[Op, tuple[Value, ...]]]:
    """The ops of a block, with the conditions that they are behind."""
    for op in block.ops:
        yield op, conditions
        for region in op.regions:
            yield from _with_conditions(
                region, (*conditions, op.operands[0]) if op.name == "if" else conditions
            )


def _is_of_many(condition: Value, uniformity: Uniformity) -> bool:
    """Whether a condition keeps no lanes of a subgroup out but those behind a bound that is not known, the end of an array."""
    op = condition.owner
    if uniformity.level(condition) <= Level.SUBGROUP:
        return True
    if not isinstance(op, Op):
        return False
    if op.name == "and":
        return all(_is_of_many(operand, uniformity) for operand in op.operands)
    ends = [value for value in op.operands if uniformity.level(value) <= Level.SUBGROUP]
    return op.name in ("lt", "le", "gt", "ge") and any(constant_value(end) is None for end in ends)


def _root(leaf: tuple[Value, Op], use: Op, combine: str) -> Diagnostic:
    """The warning of a store, or an atomic, of the root of a tree that combines values by an op."""
    value, shuffle = leaf
    mode, spelling = shuffle.attrs["mode"], spelling_at(use.loc)
    does = "add" if use.definition.format == "atomic" else "store"
    message = f"{_LAST_LANES[mode]} of each subgroup alone has what a tree of shuffles combines, and all lanes {does} theirs here"
    op = "subgroup_reduce" if mode == "down" else "subgroup_scan"
    whole = "gives it to all lanes" if mode == "down" else "gives each lane what is combined up to it"
    shown = f"{op} of {written(value, shuffle)}"
    if spelling.name == "PYTHON":
        shown = f'vyre.{op}({written(value, shuffle)}, combine="{combine}")'
    help = f"write {shown}, which {whole}"
    if use.definition.format == "atomic" and mode == "down":
        first = "vyre.lane_id()" if spelling.name == "PYTHON" else "lane_id"
        help = f"let lane 0 alone {does} it, behind a comparison of {first} with 0"
        if spelling.name == "PYTHON":
            help = f"write if {first} == 0: {source_text(use.loc)}"
    return Diagnostic("warning", message, use.loc, help=help).note("a shuffle is here", shuffle.loc)
