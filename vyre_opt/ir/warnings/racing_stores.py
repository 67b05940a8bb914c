"""Stores of several invocations to one element, each of its own value, which are races whatever the program is run on.

    %v = load @x[%i] : f32            %i = global_id x
    %s = load @total[%zero] : f32
    %t = add %s, %v : f32
    store %t, @total[%zero] : f32     all invocations of a workgroup add at once, and one of them stays

Told are only stores that surely run in several: at the top of a program, in loops and conditions that the group has together, and
behind a comparison of an id with a bound, `lt %i, %n`.  A store of one value by all of them is let pass: which one stays is all one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..diagnostics import Diagnostic, Location, source_text, spelling_at
from ..grids import Extent
from ..literals import show
from ..loops import bounds
from ..ops import AXES
from ..program import Block, Op, Program, Value
from ..rewrite import constant_value
from ..uniformity import Level, Uniformity

__all__ = [
    "UPDATES",
    "identity",
    "indices_shown",
    "plain_counts",
    "racing_launches",
    "racing_stores",
    "updated",
    "written",
]

UPDATES = {
    "add": "atomic_add",
    "min": "atomic_min",
    "max": "atomic_max",
    "and": "atomic_and",
    "or": "atomic_or",
    "xor": "atomic_xor",
}
"""Ops that an atomic does in one."""


_MOST_TERMS = 50
"""Ops of a value that are looked at."""
_LANES, _GROUPS, _IDS, _LOADS, _OTHERS = (1 << number for number in range(5))
"""Bits for what a value is computed from: ids of invocations, and of workgroups; an id of any kind, but for what is loaded at one; loads; and
what may differ between workgroups."""


_STORES = ("store", "slice_store")


class _Origins:
    """Facts of what the values of a program are computed from, found in one walk.  `names`: of the first value of each id that has one."""

    def __init__(self, program: Program) -> None:
        self._bits: dict[Value, int] = {}
        self.names: dict[str, str] = {}
        for op in program.walk():
            bits = _own_bits(op)
            for operand in op.operands:
                bits |= self._bits.get(operand, 0)
            if op.name == "load":
                bits &= ~_IDS
            for result in op.results:
                self._bits[result] = bits
            if op.name in ("global_id", "workgroup_id") and not op.result.name.isdigit():
                self.names.setdefault(op.name, op.result.name)

    def has(self, value: Value, bits: int) -> bool:
        return bool(self._bits.get(value, 0) & bits)

    def may_be_alike(self, op: Op) -> bool:
        """Whether the element of an access may be the same for a workgroup, as far as the ops say that compute its indices."""
        return not any(self.has(index, _LANES) for index in op.indices)

    def counts(self, op: Op) -> bool:
        """Whether a store adds a constant to an element whose index is read from memory: a histogram, whose elements several may add to."""
        update = updated(op)
        if update is None or constant_value(update[1]) is None:
            return False
        return any(self.has(index, _LOADS) for index in op.indices) and not any(
            self.has(index, _IDS) for index in op.indices
        )

    def races(self, op: Op, uniformity: Uniformity, group: Level) -> bool:
        value = op.operands[0]
        if any(uniformity.level(index) > group for index in op.indices):
            return False
        if value.type.is_slice:  # of which all invocations of a workgroup have parts
            return group is Level.GRID and self.has(value, _GROUPS)
        return (
            uniformity.level(value) > max(group, Level.WORKGROUP)
            or updated(op) is not None
            or (group is Level.GRID and self.has(value, _GROUPS))
        )


def _own_bits(op: Op) -> int:
    name, format = op.name, op.definition.format
    bits = _LANES if name in ("global_id", "local_id", "lane_id", "subgroup_id") else 0
    bits |= _GROUPS if name in ("workgroup_id", "global_id") else 0
    bits |= _IDS if format == "id" or name in ("lane_id", "subgroup_id") else 0
    bits |= _LOADS if name == "load" else 0
    is_alike = format == "size" or name in (
        "local_id",
        "lane_id",
        "subgroup_id",
        "const",
        "param",
        "spec",
        "len",
    )
    return bits if is_alike or (op.operands and op.definition.is_pure) else bits | _OTHERS


def racing_stores(program: Program) -> Iterator[Diagnostic]:
    """The warnings of stores that race within a workgroup."""
    stores = [] if program.lanes == 1 else [op for op in program.walk() if op.name == "store"]
    if not stores:
        return
    origins = _Origins(program)
    if not any(origins.may_be_alike(op) or origins.counts(op) for op in stores):
        return
    uniformity = Uniformity(program)
    for op in _repeated(program.body, origins, uniformity, Level.WORKGROUP):
        if origins.counts(op):
            yield _warning(program, op, origins, "several invocations may")
        if origins.races(op, uniformity, Level.WORKGROUP):
            yield _warning(program, op, origins, f"all {program.lanes} invocations of a workgroup")


def overlapping_blocks(program: Program) -> Iterator[Diagnostic]:
    """The warnings of blocks that begin at the number of their workgroup, one element after another: `y[w : w + 64] = ...`."""
    for op in program.walk():
        extents = op.operands[0].type.extents if op.name == "slice_store" else ()
        for index, extent in zip(op.indices[-len(extents) :] if extents else (), extents, strict=False):
            owner = index.owner
            if isinstance(owner, Op) and owner.name == "workgroup_id" and extent is not None and extent > 1:
                spelling = spelling_at(op.loc)
                id = spelling.id("workgroup_id", AXES.index(owner.attrs["axis"]))
                message = f"each workgroup stores {extent} elements from that of its number on, and its neighbours store most of them, too"
                is_python = spelling.name == "PYTHON"
                help = (
                    f"write {id} * {extent} for its first element"
                    if is_python
                    else f"begin at mul {id}, {extent}"
                )
                yield Diagnostic("warning", message, op.loc, help=help)
                return


def plain_counts(program: Program) -> Iterator[Diagnostic]:
    """The warnings of plain loads of an element that the same block counts by an atomic, for a place to store at: `at = count[0]` beside
    `atomic_add(count, 0, 1)`, which several invocations get alike."""
    ops = [*program.walk()]
    if not any(op.definition.format == "atomic" for op in ops):
        return
    used = {operand for op in ops for operand in op.operands}
    places = {index for op in ops if op.name == "store" for index in op.indices}
    places |= {op.operands[0] for op in ops if op.name == "cast" and op.result in places}
    for block in (program.body, *(block for op in ops for block in op.regions)):
        loads: dict[object, Op] = {}
        for op in block.ops:
            if op.regions or op.definition.effects & {"sync", "subgroup"}:
                loads = {}
            elif op.name == "load" and op.result in places:
                loads[(op.attrs["buffer"], *map(identity, op.indices))] = op
            elif op.definition.format == "atomic" and op.result not in used:
                load = loads.get((op.attrs["buffer"], *map(identity, op.indices)))
                if load is not None:
                    yield _plain_count(load, op)


def _plain_count(load: Op, atomic: Op) -> Diagnostic:
    spelling = spelling_at(load.loc)
    texts = [source_text(op.loc) for op in (load, atomic)]
    element = (
        texts[0] if spelling.name == "PYTHON" else spelling.element(load.attrs["buffer"], indices_shown(load))
    )
    name = load.result.name if spelling.name == "PYTHON" else f"%{load.result.name}"
    text = texts[1].partition(" = ")[2] or texts[1]
    message = (
        f"several invocations read {element} before one of them counts it on, and store at the same place"
    )
    help = f"write {name} = {text}, which gives the number before, in the place of both"
    warning = Diagnostic("warning", message, load.loc, help=help)
    return warning.note("it is counted here", atomic.loc)


def racing_launches(program: Program, grid: Sequence[Extent], loc: Location | None) -> Iterator[Diagnostic]:
    """The warnings of stores that race between the workgroups of a launch at `loc`, where they do not within one."""
    if all(not isinstance(extent, int) or extent <= 1 for extent in grid) or 0 in grid:
        return
    origins = _Origins(program)
    if not any(op.name in _STORES and origins.may_be_alike(op) for op in program.walk()):
        return
    uniformity, within = Uniformity(program), set[Op]()
    if program.lanes > 1:
        within = {
            op
            for op in _repeated(program.body, origins, uniformity, Level.WORKGROUP)
            if origins.races(op, uniformity, Level.WORKGROUP)
        }
    for op in _repeated(program.body, origins, uniformity, Level.GRID):
        buffer = program.buffers.get(op.attrs["buffer"])
        if buffer is None or buffer.is_on_chip or op in within:
            continue
        if origins.races(op, uniformity, Level.GRID):
            yield _warning(program, op, origins, "all workgroups of this launch").note(
                "it is launched here", loc
            )


def _repeated(block: Block, origins: _Origins, uniformity: Uniformity, group: Level) -> Iterator[Op]:
    """Stores of a block that all invocations of a group come to, or all that are below a bound."""
    for op in block.ops:
        if op.name in _STORES:
            yield op
        elif op.name == "if":
            condition = op.operands[0]
            is_shared = uniformity.level(condition) <= group
            for region, holds in zip(op.regions, (True, False), strict=False):
                is_alike = group is Level.GRID and not origins.has(
                    condition, _OTHERS
                )  # in each workgroup the same ones pass
                if is_shared or is_alike or _is_bound(condition, holds):
                    yield from _repeated(region, origins, uniformity, group)
        elif op.regions and all(uniformity.level(value) <= group for value in op.operands[:3]):
            for region in op.regions[-1:] if op.name == "for" else ():
                yield from _repeated(region, origins, uniformity, group)


def _is_bound(condition: Value, holds: bool) -> bool:
    """Whether a condition lets all invocations pass whose id is below a bound of more than one."""
    op = condition.owner
    if not isinstance(op, Op):
        return False
    if op.name == "and" and holds:
        return all(_is_bound(operand, True) for operand in op.operands)
    if op.name == "not":
        return _is_bound(op.operands[0], not holds)
    if op.name not in ("lt", "le", "gt", "ge"):
        return False
    below, bound = op.operands if (op.name in ("lt", "le")) is holds else op.operands[::-1]
    first = below.owner
    known = constant_value(bound)
    return (
        isinstance(first, Op)
        and first.name in ("global_id", "local_id")
        and not (isinstance(known, int) and known < 2)
    )


def updated(op: Op) -> tuple[Op, Value] | None:
    """The op that changes the element that is stored, and its other operand; None for a store of another value."""
    change = op.operands[0].owner
    if not isinstance(change, Op) or len(change.operands) != 2 or change.regions:
        return None
    for number, operand in enumerate(change.operands):
        read = operand.owner
        if (
            isinstance(read, Op)
            and read.name == "load"
            and read.attrs["buffer"] == op.attrs["buffer"]
            and [*map(identity, read.indices)] == [*map(identity, op.indices)]
        ):
            return change, change.operands[1 - number]
    return None


def identity(value: Value, depth: int = 4) -> object:
    """Key that two values share which are the same: constants, elements of one array at the same indices, and ops of the same."""
    known, op = constant_value(value), value.owner
    if known is not None:
        return known
    if depth == 0 or not isinstance(op, Op) or not (op.name == "load" or op.definition.is_pure) or op.regions:
        return value
    return (op.name, *op.attrs.items(), *[identity(operand, depth - 1) for operand in op.operands])


def shown(value: Value) -> str:
    """A value of a text: its name, or the constant in its place."""
    known = constant_value(value)
    return (
        show(known, value.type) if value.is_unnamed_constant and isinstance(known, int) else f"%{value.name}"
    )


def written(value: Value, op: Op) -> str:
    """A value of an op as its author would write it beside it: a name, an expression of Python, or a constant."""
    owner, loc = value.owner, op.loc
    is_python = spelling_at(loc).name == "PYTHON" and constant_value(value) is None
    if not is_python or not isinstance(owner, Op) or owner.loc is None or loc is None:
        return shown(value)
    is_named = re.search(rf"(?<![\w.]){re.escape(value.name)}(?!\w)", loc.source.text) is not None
    is_far = is_named and not value.name.isdigit() and owner.loc not in loc
    return value.name if is_far else owner.loc.text


def indices_shown(op: Op) -> list[str]:
    """The indices of an access as a text has them."""
    return [*map(shown, op.indices)]


def _same_block(program: Program, op: Op, who: str) -> Diagnostic:
    """The warning of a row or a block that all workgroups store."""
    spelling, text = (
        spelling_at(op.loc),
        source_text(op.loc),
    )
    shown = spelling.target(text) or spelling.buffer(op.attrs["buffer"])
    id, name = spelling.id("workgroup_id", 0), op.attrs["buffer"]
    message = f"{who} store to {shown}, each its own values: this is a race, and those of one stay"
    help = f"store to rows or blocks of each one's own, at {id}"
    pending, is_sum = [op.operands[0]], False
    for _ in range(_MOST_TERMS):
        if not pending:
            break
        each = pending.pop().owner
        if isinstance(each, Op) and each.definition.is_pure:
            pending += each.operands
        is_sum |= isinstance(each, Op) and each.name == "slice_load" and each.attrs["buffer"] == name
    if is_sum:
        help += ", and add these up in a second launch"
    return Diagnostic("warning", message, op.loc, help=help).note(
        f"{program.name} is declared here", program.loc
    )


def _partial_of(value: Value) -> str | None:
    """Op that combines the rounds of a loop that gives a value, where each invocation of a workgroup has rounds of its own; None for another value."""
    loop = value.owner
    if not isinstance(loop, Op) or loop.name != "for":
        return None
    first, end = bounds(loop)[0], loop.regions[0].terminator
    is_own = isinstance(first, Value) and isinstance(first.owner, Op) and first.owner.name == "local_id"
    round_ = end.operands[loop.results.index(value)].owner if end is not None else None
    is_one = is_own and isinstance(round_, Op) and round_.name in ("add", "mul", "min", "max")
    return round_.name if is_one else None  # type: ignore[union-attr]


def _warning(program: Program, op: Op, origins: _Origins, who: str) -> Diagnostic:
    spelling = spelling_at(op.loc)
    if op.name == "slice_store":
        return _same_block(program, op, who)
    buffer, indices = program.buffers[op.attrs["buffer"]], indices_shown(op)
    source = source_text(op.loc)
    element = spelling.target(source) or spelling.element(buffer.name, indices)
    update = updated(op)
    atomic = None if update is None else UPDATES.get(update[0].name)
    word = "global_id" if "invocations" in who else "workgroup_id"
    named = origins.names.get(word)
    own = spelling.element(buffer.name, [f"%{named}"]) if named else f"{buffer.name}[{spelling.id(word, 0)}]"
    if update is not None and atomic is not None:
        help = f"write {spelling.update(atomic, buffer.name, indices, written(update[1], op), buffer.dtype, source)}"
    elif buffer.is_on_chip and any(isinstance(index.owner, Block) for index in op.indices):
        help = spelling.own_memory(buffer.name, str(buffer.dtype), [extent or 0 for extent in buffer.shape])
    elif (
        (combine := _partial_of(op.operands[0])) is not None and spelling.name == "PYTHON" and " = " in source
    ):
        word = "" if combine == "add" else f', "{combine}"'
        help = f"write {element} = vyre.workgroup_reduce({source.partition(' = ')[2]}{word}), since each invocation has a part of it"
    elif buffer.dimensions > 1 or (named is None and spelling.name != "PYTHON"):
        help = f"store to an element of each one's own, or add to one by an atomic, {spelling.atomic}"
    else:
        help = f"write {source.replace(element, own, 1)}, an element of each one's own"
    message = f"{who} store to {element}, each its own value: this is a race, and one of them stays"
    if who.endswith(" may"):
        message = f"{who} add to {element} at once, where they read the same index: this is a race, and one of the sums stays"
    return Diagnostic("warning", message, op.loc, help=help).note(
        f"{program.name} is declared here", program.loc
    )
