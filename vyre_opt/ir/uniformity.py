"""Uniformity: whether a value is the same in the whole grid, a workgroup, a subgroup, or one invocation only.

    GRID < WORKGROUP < SUBGROUP < INVOCATION

A value's level is the widest group in which it is the same.  A load is uniform if its index
and its control flow are: in a program without races, no other invocation of
the group writes the element between the barriers around the load.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from .access_extents import is_matrix_access
from .diagnostics import Diagnostic
from .ops import SUBGROUP_SIZE
from .program import Block, Func, Op, Program, Value

__all__ = ["Level", "Uniformity", "check_sync"]


class Level(IntEnum):
    GRID = 0
    WORKGROUP = 1
    SUBGROUP = 2
    INVOCATION = 3


_IDS = {
    "global_id": Level.INVOCATION,
    "local_id": Level.INVOCATION,
    "lane_id": Level.INVOCATION,
    "subgroup_id": Level.SUBGROUP,
    "workgroup_id": Level.WORKGROUP,
}


class Uniformity:
    """Levels of the values of a program, and of the control flow around its ops.

    `control` has an entry only for an op whose control flow is not uniform in the grid:
    its level, and the op (if, for or while) that makes it so.
    """

    name = "uniformity"

    def __init__(self, program: Program | Func) -> None:
        self.levels: dict[Value, Level] = {}
        self.control: dict[Op, tuple[Level, Op]] = {}
        if isinstance(program, Func):
            for arg in program.params:
                self.levels[arg] = Level.INVOCATION
        self._buffers = program.buffers if isinstance(program, Program) else {}
        self._lanes = program.lanes if isinstance(program, Program) else 0
        self._block(program.body, Level.GRID, None)

    def level(self, value: Value) -> Level:
        return self.levels.get(value, Level.GRID)

    def _join(self, values: tuple[Value, ...]) -> Level:
        levels = self.levels
        level = Level.GRID
        for value in values:
            operand_level = levels.get(value)
            if operand_level is not None and operand_level > level:
                level = operand_level
        return level

    def _block(self, block: Block, control: Level, cause: Op | None) -> None:
        levels = self.levels
        for op in block.ops:
            if control and cause is not None:
                self.control[op] = (control, cause)
            if op.regions:
                self._structured(op, control, cause)
                continue
            level = self._join(op.operands)
            if not op.definition.is_pure:
                level = self._effect(op, level, control)
            elif op.definition.format in ("id", "size"):
                level = self._id(op)
            if level:
                for result in op.results:
                    levels[result] = level

    def _id(self, op: Op) -> Level:
        if self._lanes == 1 and op.name != "workgroup_id":
            return Level.WORKGROUP if op.name == "global_id" else Level.GRID
        return _IDS.get(op.name, Level.GRID)

    def _effect(self, op: Op, level: Level, control: Level) -> Level:
        effects = op.definition.effects
        if "atomic" in effects:
            return Level.INVOCATION  # each takes its turn, and gets what the one before it left
        if op.name in ("subgroup_reduce", "subgroup_ballot", "workgroup_reduce"):
            is_whole = op.name == "workgroup_reduce" or self._lanes <= SUBGROUP_SIZE
            # a last subgroup of fewer lanes reduces a uniform value to another result than the full ones
            alike = level <= Level.WORKGROUP and self._lanes % SUBGROUP_SIZE == 0
            return Level.WORKGROUP if is_whole or alike else Level.SUBGROUP
        if "subgroup" in effects:
            return Level.INVOCATION
        if op.name == "load":
            buffer = self._buffers.get(op.attrs["buffer"])
            if buffer is not None and buffer.is_on_chip:
                level = max(level, Level.WORKGROUP)
            if buffer is None or buffer.access != "read":
                # Other groups may write it before or after, unordered with this read
                level = max(level, control, Level.WORKGROUP)
        return level

    def _structured(self, op: Op, control: Level, cause: Op | None) -> None:
        if op.name == "for":
            self._loop(op, control, cause)
        elif op.name == "while":
            self._while(op, control, cause)
        else:
            inner = max(control, self._join(op.operands))
            blame = op if inner > control else cause
            for block in op.regions:
                self._block(block, inner, blame)
            self._results(op, self._join(op.operands), [b.terminator for b in op.regions])

    def _results(self, op: Op, base: Level, ends: list[Op | None]) -> None:
        for index, result in enumerate(op.results):
            level = base
            for end in ends:
                if end is not None and index < len(end.operands):
                    level = max(level, self.level(end.operands[index]))
            if level:
                self.levels[result] = level

    def _loop(self, op: Op, control: Level, cause: Op | None) -> None:
        body = op.regions[0]
        counter, *carried = body.args
        bounds = op.operands[: len(op.operands) - len(carried)]
        trip = self._join(bounds)
        inner = max(control, trip)
        blame = op if inner > control else cause
        if trip:
            self.levels[counter] = trip
        initial = op.operands[len(bounds) :]
        for arg, value in zip(carried, initial, strict=False):
            self.levels[arg] = self.level(value)
        while True:  # levels only rise, and there are four, so this reaches a fixed point
            self._block(body, inner, blame)
            if not self._raise(tuple(carried), body.terminator):
                break
        for result, arg in zip(op.results, carried, strict=False):
            # who leaves after another number of iterations leaves with another iteration's value
            self.levels[result] = max(self.level(arg), trip)

    def _while(self, op: Op, control: Level, cause: Op | None) -> None:
        condition, body = op.regions
        for arg, value in zip(condition.args, op.operands, strict=False):
            self.levels[arg] = self.level(value)
        inner = control
        while True:
            for arg, outer in zip(body.args, condition.args, strict=False):
                self.levels[arg] = self.level(outer)
            blame = op if inner > control else cause
            self._block(condition, inner, blame)
            end = condition.terminator
            trip = self._join(end.operands) if end is not None else Level.INVOCATION
            # Only invocations for which the condition held come to it again, so from the second
            # iteration on its own control flow is no more uniform than its value.
            lowered = max(inner, trip)
            self._block(body, lowered, op if lowered > control else cause)
            changed = self._raise(condition.args, body.terminator)
            if lowered == inner and not changed:
                break
            inner = lowered
        for result, arg in zip(op.results, condition.args, strict=False):
            self.levels[result] = max(self.level(arg), trip)

    def _raise(self, args: tuple[Value, ...], end: Op | None) -> bool:
        """Raise the levels of loop arguments to those of the yielded values; returns whether one changed."""
        changed = False
        for arg, value in zip(args, end.operands if end is not None else (), strict=False):
            level = max(self.level(arg), self.level(value))
            if level > self.level(arg):
                self.levels[arg] = level
                changed = True
        return changed


# On a CPU the workgroups of all clusters meet at a cluster barrier
_NEEDED = {
    "subgroup": Level.SUBGROUP,
    "workgroup": Level.WORKGROUP,
    "cluster": Level.GRID,
    "grid": Level.GRID,
}


# --- a barrier or subgroup op must be reached by all invocations of its scope together


def check_sync(program: Program, diagnostics: list[Diagnostic]) -> None:
    """Append an error for every barrier, subgroup op or op on matrices in control flow that is not uniform in its scope,
    and for every scalar of an op on matrices that is not the same for its subgroup."""
    uniformity = Uniformity(program)
    for op in program.walk():
        for value, role in _shared_scalars(op):
            if uniformity.level(value) > Level.SUBGROUP:
                diagnostics.append(_scattered(op, value, role))
    for op, (level, cause) in uniformity.control.items():
        if "scope" in op.attrs:
            needed = _NEEDED[op.attrs["scope"]]
        elif "workgroup" in op.definition.effects:
            needed = Level.WORKGROUP
        elif "subgroup" in op.definition.effects or _has_matrix(op):
            needed = Level.SUBGROUP
        else:
            continue
        if level <= needed:
            continue
        group = needed.name.lower()
        what = f"a {op.attrs['scope']} barrier" if op.name == "barrier" else op.name
        if _has_matrix(op) and "subgroup" not in op.definition.effects:
            what = f"{what} of a matrix"
        error = Diagnostic("error", f"{what} in control flow that may differ within a {group}", op.loc)
        error.note(f"this {cause.name} may go different ways for invocations of one {group}", cause.loc)
        error.help = f"move it out of the {cause.name}, or make the condition the same for the whole {group}"
        diagnostics.append(error)


def _has_matrix(op: Op) -> bool:
    return any(value.type.is_matrix for value in (*op.operands, *op.results))


def _shared_scalars(op: Op) -> Iterator[tuple[Value, str]]:
    """The scalars that a subgroup has to agree on for an op on matrices, and what each of them is."""
    if is_matrix_access(op) and "covers" not in op.attrs:  # where each lane names elements of its own
        yield from ((index, "index") for index in op.indices)
    elif op.definition.format in ("splat", "select") and op.results[0].type.is_matrix:
        role = "element" if op.definition.format == "splat" else "condition"
        yield from ((value, role) for value in op.operands if not value.type.is_matrix)


def _scattered(op: Op, value: Value, role: str) -> Diagnostic:
    where = op.loc.find(f"%{value.name}") if op.loc else None
    error = Diagnostic("error", f"the {role} %{value.name} may differ within a subgroup", where or op.loc)
    if isinstance(value.owner, Op):
        error.note(f"%{value.name} is defined here", value.owner.loc)
    error.help = "a subgroup has a matrix together: make this from workgroup_id, subgroup_id, loop counters and arguments"
    return error
