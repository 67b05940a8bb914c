"""Stores of several invocations to one element, each of its own value, which are races whatever the program is run on.

    %v = load @x[%i] : f32            %i = global_id x
    %s = load @total[%zero] : f32
    %t = add %s, %v : f32
    store %t, @total[%zero] : f32     all invocations of a workgroup add at once, and one of them stays

Told are only stores that surely run in several: at the top of a program, in loops and conditions that the group has together, and
behind a comparison of an id with a bound, `lt %i, %n`.  A store of one value by all of them is let pass: which one stays is all one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from .diagnostics import Diagnostic, Location, spelling_at
from .grids import Extent
from .literals import show
from .program import Block, Op, Program, Value
from .rewrite import constant_value
from .uniformity import Level, Uniformity

__all__ = ["racing_launches", "racing_stores", "unordered_reads"]

_UPDATES = {
    "add": "atomic_add",
    "min": "atomic_min",
    "max": "atomic_max",
    "and": "atomic_and",
    "or": "atomic_or",
    "xor": "atomic_xor",
}
"""Ops that an atomic does in one."""


def racing_stores(program: Program) -> Iterator[Diagnostic]:
    """The warnings of stores that race within a workgroup."""
    stores = [op for op in program.walk() if op.name == "store"]
    if program.lanes == 1 or not any(all(map(_may_be_alike, op.indices)) or _counts(op) for op in stores):
        return
    uniformity = Uniformity(program)
    for op in _repeated(program.body, uniformity, Level.WORKGROUP):
        if _counts(op):
            yield _warning(program, op, "several invocations may")
        if _races(op, uniformity, Level.WORKGROUP):
            yield _warning(program, op, f"all {program.lanes} invocations of a workgroup")


def racing_launches(program: Program, grid: Sequence[Extent], loc: Location | None) -> Iterator[Diagnostic]:
    """The warnings of stores that race between the workgroups of a launch at `loc`, where they do not within one."""
    if all(not isinstance(extent, int) or extent <= 1 for extent in grid) or 0 in grid:
        return
    if not any(op.name == "store" and all(map(_may_be_alike, op.indices)) for op in program.walk()):
        return
    uniformity = Uniformity(program)
    within = [] if program.lanes == 1 else [*_repeated(program.body, uniformity, Level.WORKGROUP)]
    for op in _repeated(program.body, uniformity, Level.GRID):
        buffer = program.buffers.get(op.attrs["buffer"])
        if buffer is None or buffer.is_on_chip or (op in within and _races(op, uniformity, Level.WORKGROUP)):
            continue
        if _races(op, uniformity, Level.GRID):
            yield _warning(program, op, "all workgroups of this launch").note("it is launched here", loc)


def _may_be_alike(index: Value) -> bool:
    """Whether an index may be the same for a workgroup, as far as the ops say that compute it from ids."""
    return not _asks(index, "global_id", "local_id", "lane_id", "subgroup_id")


def _repeated(block: Block, uniformity: Uniformity, group: Level) -> Iterator[Op]:
    """Stores of a block that all invocations of a group come to, or all that are below a bound."""
    for op in block.ops:
        if op.name == "store":
            yield op
        elif op.name == "if":
            condition = op.operands[0]
            is_shared = uniformity.level(condition) <= group
            for region, holds in zip(op.regions, (True, False), strict=False):
                if is_shared or (group is Level.GRID and _is_alike(condition)) or _is_bound(condition, holds):
                    yield from _repeated(region, uniformity, group)
        elif op.regions and all(uniformity.level(value) <= group for value in op.operands[:3]):
            for region in op.regions[-1:] if op.name == "for" else ():
                yield from _repeated(region, uniformity, group)


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


def _counts(op: Op) -> bool:
    """Whether a store adds a constant to an element whose index is read from memory: a histogram, whose elements several may add to."""
    update = _updated(op)
    if update is None or constant_value(update[1]) is None:
        return False
    origins = [each for index in op.indices for each in _origins(index)]
    loads = [each for each in origins if each.name == "load"]
    ids = [index for index in op.indices if _asks_directly(index)]
    return bool(loads) and not ids


def _asks_directly(value: Value) -> bool:
    """Whether a value is computed from an id, but for what it loads at one."""
    pending = [value]
    while pending:
        op = pending.pop().owner
        if isinstance(op, Op) and op.name != "load":
            if op.definition.format == "id" or op.name in ("lane_id", "subgroup_id"):
                return True
            pending += op.operands
    return False


def _races(op: Op, uniformity: Uniformity, group: Level) -> bool:
    value = op.operands[0]
    if any(uniformity.level(index) > group for index in op.indices) or value.type.is_slice:
        return False
    return (
        uniformity.level(value) > max(group, Level.WORKGROUP)
        or _updated(op) is not None
        or (group is Level.GRID and _asks(value, "workgroup_id", "global_id"))
    )


def _asks(value: Value, *ids: str) -> bool:
    """Whether a value is computed from an id."""
    return any(op.name in ids for op in _origins(value))


def _is_alike(condition: Value) -> bool:
    """Whether the same invocations of each workgroup pass a condition: it asks for places in a workgroup only."""
    known = ("const", "param", "spec", "len")
    return all(
        op.definition.format == "size"
        or op.name in ("local_id", "lane_id", "subgroup_id", *known)
        or (op.operands and op.definition.is_pure)
        for op in _origins(condition)
    )


def _origins(value: Value) -> Iterator[Op]:
    """The ops that a value is computed by."""
    pending, seen = [value], set()
    while pending:
        each = pending.pop()
        if each in seen or not isinstance(each.owner, Op):
            continue
        seen.add(each)
        yield each.owner
        pending += each.owner.operands


def _updated(op: Op) -> tuple[Op, Value] | None:
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
            and [*map(_identity, read.indices)] == [*map(_identity, op.indices)]
        ):
            return change, change.operands[1 - number]
    return None


def _identity(value: Value) -> object:
    known = constant_value(value)
    return value if known is None else known


def _shown(value: Value) -> str:
    """A value of a text: its name, or the constant in its place."""
    known = constant_value(value)
    return (
        show(known, value.type) if value.is_unnamed_constant and isinstance(known, int) else f"%{value.name}"
    )


def _warning(program: Program, op: Op, who: str) -> Diagnostic:
    spelling = spelling_at(op.loc)
    buffer, indices = program.buffers[op.attrs["buffer"]], [*map(_shown, op.indices)]
    source = "" if op.loc is None else op.loc.source.text[op.loc.start : op.loc.end]
    element = spelling.target(source) or spelling.element(buffer.name, indices)
    update = _updated(op)
    atomic = None if update is None else _UPDATES.get(update[0].name)
    word = "global_id" if "invocations" in who else "workgroup_id"
    named = [
        each.result.name for each in program.walk() if each.name == word and not each.result.name.isdigit()
    ]
    own = (
        spelling.element(buffer.name, [f"%{named[0]}"]) if named else f"{buffer.name}[{spelling.id(word, 0)}]"
    )
    if update is not None and atomic is not None:
        help = (
            f"write {spelling.update(atomic, buffer.name, indices, _shown(update[1]), buffer.dtype, source)}"
        )
    elif buffer.dimensions > 1 or (not named and spelling.name != "PYTHON"):
        help = f"store to an element of each one's own, or add to one by an atomic, {spelling.atomic}"
    else:
        help = f"write {source.replace(element, own, 1)}, an element of each one's own"
    message = f"{who} store to {element}, each its own value: this is a race, and one of them stays"
    if who.endswith(" may"):
        message = f"{who} add to {element} at once, where they read the same index: this is a race, and one of the sums stays"
    return Diagnostic("warning", message, op.loc, help=help).note(
        f"{program.name} is declared here", program.loc
    )


# --- workgroup memory that others write, without a barrier between


def unordered_reads(program: Program) -> Iterator[Diagnostic]:
    """The warning of the first load of workgroup memory that surely reads what another invocation stores, with no barrier between them.

    Told are stores and loads at the top of a program, at indices that are computed from local_id along x and constants.  It is
    cheap, and for kernels that are translated; the pass verify finds more.
    """
    if (
        program.lanes == 1
        or program.lanes != program.workgroup[0]
        or not any(b.is_on_chip for b in program.buffers.values())
    ):
        return
    stored: dict[str, tuple[Op, list[tuple[int, ...]]]] = {}
    for op in program.body.ops:
        buffer = program.buffers.get(op.attrs.get("buffer", ""))
        if "scope" in op.attrs or op.regions or "sync" in op.definition.effects:
            stored.clear()
        elif buffer is not None and buffer.is_on_chip and op.name in ("load", "store"):
            places = _places(program, op)
            if places is None:
                stored.pop(buffer.name, None)
            elif op.name == "store":
                stored[buffer.name] = op, places
            elif buffer.name in stored:
                store, written = stored[buffer.name]
                own = {place: lane for lane, place in enumerate(written)}
                if any(own.get(place, lane) != lane for lane, place in enumerate(places)):
                    yield _unordered(program, op, store)
                    return


def _places(program: Program, op: Op) -> list[tuple[int, ...]] | None:
    """The elements that an op accesses, of each invocation of a workgroup; None where they are not known."""
    known: dict[Value, list[int] | None] = {}
    columns = [_by_lane(index, program.workgroup[0], known) for index in op.indices]
    if any(column is None for column in columns):
        return None
    return list(zip(*[column for column in columns if column is not None], strict=True))


_BY_LANE: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "xor": lambda a, b: a ^ b, "and": lambda a, b: a & b,
    "or": lambda a, b: a | b, "shl": lambda a, b: a << (b & 31), "shr": lambda a, b: a >> (b & 31), "div": lambda a, b: a // b if b else a, "rem": lambda a, b: a % b if b else 0,
}  # fmt: skip


def _by_lane(value: Value, lanes: int, known: dict[Value, list[int] | None]) -> list[int] | None:
    """An unsigned number of each invocation; None where it is not computed from its local_id."""
    if value in known:
        return known[value]
    op, column = value.owner, None
    constant = constant_value(value)
    if isinstance(constant, int):
        column = [constant] * lanes
    elif isinstance(op, Op) and op.name == "local_id" and value.type.is_int:
        column = list(range(lanes)) if op.attrs["axis"] == "x" else [0] * lanes
    elif isinstance(op, Op) and op.name in _BY_LANE and str(value.type) == "u32":
        operands = [_by_lane(operand, lanes, known) for operand in op.operands]
        if None not in operands:
            a, b = operands
            column = [_BY_LANE[op.name](x, y) & 0xFFFFFFFF for x, y in zip(a or (), b or (), strict=True)]
    known[value] = column
    return column


def _unordered(program: Program, op: Op, store: Op) -> Diagnostic:
    spelling = spelling_at(op.loc)
    name = spelling.buffer(op.attrs["buffer"])
    message = f"this reads elements of {name} that other invocations store, and nothing orders the two"
    line = "" if op.loc is None else f" before line {op.loc.line}"
    warning = Diagnostic(
        "warning", message, op.loc, help=f"put {spelling.barrier('workgroup')}{line}, behind the store"
    )
    return warning.note("the store is here", store.loc)
