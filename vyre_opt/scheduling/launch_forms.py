"""Other forms of launches, which do the same and are faster, chosen by lengths and by what runs them.

coarse    an invocation does the work of several neighbours, so that each lane moves 16 bytes at a time (coarsening):
          on a GPU, where their accesses become vectors, and invocations enough for all multiprocessors are left;
          of several blocks of neighbours where it computes so long that too few bytes would be on their way
counting  a workgroup does the work of many, and has its own memory for what atomics count (privatization): where it
          then adds to the buffers that all share fewer times than before
wide      workgroups of a subgroup or less become one, several at a time: where there are more than a multiprocessor begins in time
narrow    workgroups are of fewer invocations, so that there is one for each multiprocessor: where invocations loop, and do
          not know of workgroups
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from math import prod

from ..analysis.refusal import Refusal
from ..execution.plans.neighbours import Neighbours
from ..fusion.group_count import GroupCount
from ..fusion.remark_sink import CollectedRemarks, Silent
from ..ir.diagnostics import Location
from ..ir.grids import Grid
from ..ir.loops import bounds, with_bounds
from ..ir.ops import SUBGROUP_SIZE
from ..ir.program import Block, Buffer, Dim3, Program, Shape, Value
from ..ir.rewrite import become, clone, constant_value
from ..lowering.host.row_runs import counts_in_registers
from ..records import dataclass
from .access_vectors import WIDTH, vectorize
from .arithmetic import instructions
from .batched_loads import batch_loads, iterations
from .carried_atomics import carry_atomics
from .coarsening import access_axes, coarsen, coarsen_refusal, repeats_along_y
from .combined_atomics import combine_atomics
from .invariant_loads import hoist_loads
from .kept_loads import keep_loads, rows, trips
from .loop_facts import op_numbers
from .privatization import privatize
from .wide_workgroups import is_in_subgroup, widen

__all__ = ["Coarse", "Counting", "LaunchForms", "LaunchSite", "Narrow", "Rewritten", "Wide"]

MOST = 8
"""Invocations that become one, at most."""
MOST_ALONG_Y = 4
"""Neighbours along y that become one, at most, and of those along x where others are along y."""
TILES = ((4, 8), (8, 4), (16, 2))
"""Tiles of lanes of a subgroup in which neighbours along both axes are together, best first."""
LOADS = 2
"""Vectors that an invocation loads of a buffer, at most, so that what it stores is one as well: stores of a few bytes take
longer (10^8 elements on an H200: f32 to u8 126 us by 4 and 116 by 8, f32 to bf16 147 and 140, f64 to f32 286 by 2 and 276 by 4), and
stores of two vectors leave gaps between lanes (u8 to f32 128 us by 4, 197 by 8)."""
MOST_OPS = 512
"""Most ops of a program, times its neighbours: with more, arithmetic for each access leaves vectors nothing to gain."""
BLOCKS = ((2, 112), (4, 168))
"""Blocks of neighbours that an invocation has, from so many instructions for each on: with one, memory waits for arithmetic
from there on.  (10^8 elements of f32 on an H200, 4 a block, with 28, 40, 48 and 64 dependent fma's each: 197, 226, 241 and
286 us with one block, 197, 195, 211, 250 with 2 and 198, 200, 202, 238 with 4; 191, 197, 198 with none.)"""
MOST_IN_FLIGHT = 128
"""Bytes that an invocation of several blocks loads, at most."""
MOST_INSTRUCTIONS = 1536
"""Instructions of such an invocation, at most: they are compiled, and stand there once more for the last workgroup."""
RESIDENT = 2048
"""Invocations that a multiprocessor holds at a time."""
INVOCATIONS, INVOCATIONS_OF_BLOCKS = RESIDENT // 2, 4 * RESIDENT
"""Least invocations of a multiprocessor that a coarse launch leaves, with one block of neighbours and with several: the last
workgroups leave some multiprocessors idle, so a launch of long ones needs more of them than run at a time."""
MOST_TOGETHER = 8 * SUBGROUP_SIZE
"""Invocations of a workgroup that several of a subgroup or less become, at most."""
WIDE = 4
"""Workgroups for each multiprocessor that a wide launch leaves, at least."""
SHARES = 4
"""Workgroups that a thread of the cpu takes, one after the other, so that threads end at the same time."""
LEAST_COUNTING = 1 << 14
"""Invocations of a launch that counts by workgroups, at least: faults of smaller ones name the invocation."""
LEAST_COUNTED = 4
"""Elements that a workgroup adds to each element of its copy, at least, on average."""


@dataclass(frozen=True, slots=True)
class LaunchSite:
    """A launch of a program.  `shapes`: of its bound buffers, with extents of None where they are open.

    `counts`: where another form has the numbers of its workgroups along x and y from.  `processors`: threads of the cpu,
    multiprocessors of a GPU.  `neighbours`: invocations as written that one is by now.
    """

    program: Program
    shapes: Mapping[str, Shape]
    counts: tuple[GroupCount, GroupCount]
    processors: int
    on_gpu: bool
    neighbours: int = 1

    @property
    def lengths(self) -> dict[str, int]:
        """The elements of the buffers whose extents are known."""
        return {name: prod(n or 0 for n in shape) for name, shape in self.shapes.items() if None not in shape}


@dataclass(frozen=True, slots=True)
class Coarse:
    """`program`, one of whose invocations does the work of `by`; `vectorized`: the same with accesses of vectors."""

    program: Program
    vectorized: Program
    by: Neighbours


@dataclass(frozen=True, slots=True)
class Wide:
    """`program`, a workgroup of which does the work of `by`."""

    program: Program
    by: int


@dataclass(frozen=True, slots=True)
class Narrow:
    """`program`, with smaller workgroups, of which there are so many along x."""

    program: Program
    workgroups: int


@dataclass(frozen=True, slots=True)
class Rewritten:
    """`program`, whose loops load in another way, or as it was; `remarks`: of each of its loops."""

    program: Program
    remarks: Sequence[tuple[str, str, Location | None]]


@dataclass(frozen=True, slots=True)
class Counting:
    """`program`, whose workgroups take turns, over so many of them."""

    program: Program
    workgroups: int


class LaunchForms:
    """Forms of launches; a program that several of them share is made once."""

    def __init__(self) -> None:
        self._choices, self._rows = cache(_choices), cache(rows)
        self._hoisted, self._carried = cache(_hoisted), cache(_carried)
        self._of_grid, self._counts_in_registers = cache(_of_grid), cache(counts_in_registers)
        self._coarse: dict[object, Coarse | Refusal] = {}
        self._counting: dict[object, Program | Refusal] = {}
        self._is_in_subgroup = cache(is_in_subgroup)
        self._widen = cache(partial(widen, groups=GroupCount(None, {})))
        self._narrow, self._is_divisible = cache(_narrow), cache(_is_divisible)
        self._batched: dict[object, Rewritten] = {}

    def coarse(self, site: LaunchSite, grid: Dim3) -> Coarse | Refusal:
        """A launch over a grid by fewer invocations, as many in one as pays."""
        program, invocations = site.program, prod(grid) * site.program.lanes
        choices = self._choices(program)
        if isinstance(choices, Refusal):
            return choices
        refusal = _refuse(
            program, f"has {invocations} invocations, and 2 as one would leave multiprocessors idle"
        )
        for by in choices:
            each = INVOCATIONS if by.blocks == 1 else INVOCATIONS_OF_BLOCKS
            if invocations >= by.count * site.processors * each:
                coarse = self.by(site, by)
                if isinstance(coarse, Coarse):
                    return coarse
                refusal = coarse
        return refusal

    def by(self, site: LaunchSite, by: Neighbours) -> Coarse | Refusal:
        """The launch with such neighbours in one, where their accesses become vectors."""
        program = site.program
        rows = [row for b in program.bound_buffers if (row := _row(b, site.shapes[b.name], by)) is not None]
        key = program, by, tuple(row.shape for row in rows), *(count.key for count in site.counts)
        if key not in self._coarse:
            fixed = replace(program, buffers=program.buffers | {row.name: row for row in rows})
            self._coarse[key] = _coarse(fixed, by, site.counts)
        return self._coarse[key]

    def hoisted(self, program: Program) -> Rewritten:
        """The program whose loops load once, before them, what each iteration would load."""
        return self._hoisted(program)

    def carried(self, program: Program) -> Rewritten:
        """The program whose loops do atomics on one element once, behind them."""
        return self._carried(program)

    def batched(
        self, program: Program, shapes: Mapping[str, Shape], workgroups: int | None = None
    ) -> Rewritten:
        """The program with loops that keep what they load, or load for several iterations at once, where they have so
        many.  `workgroups`: in the launch along x, where other launches of the program have as many."""
        if workgroups is not None:
            program = self._of_grid(program, workgroups)
        steps = trips(program, self._rows(program), shapes)
        key = program, steps, iterations(program, shapes)
        if key not in self._batched:
            copy, sink = _copied(program), CollectedRemarks()
            changed = keep_loads(copy, sink, rows(copy), steps, op_numbers(copy))
            changed += batch_loads(copy, sink, iterations(copy, shapes))
            self._batched[key] = Rewritten(copy if changed else program, sink.remarks)
        return self._batched[key]

    def narrow(self, site: LaunchSite, grid: Dim3) -> Narrow | None:
        """A launch over more workgroups, none smaller than a subgroup, where it has fewer than there are multiprocessors."""
        lanes, groups = site.program.lanes, prod(grid)
        parts = 1
        while groups * parts < site.processors and lanes % (2 * parts * SUBGROUP_SIZE) == 0:
            parts *= 2
        if parts == 1 or not self._is_divisible(site.program):
            return None
        return Narrow(self._narrow(site.program, parts), grid[0] * parts)

    def wide(self, site: LaunchSite, grid: Dim3) -> Wide | None:
        """A launch over fewer workgroups of several subgroups, where enough for all multiprocessors are left."""
        by = max(1, MOST_TOGETHER // site.program.lanes)
        least = SUBGROUP_SIZE // site.program.lanes  # that fill a subgroup, however few are left
        while by > max(1, least) and grid[0] < by * WIDE * site.processors:
            by //= 2
        if by == 1 or grid[1:] != (1, 1) or not self._is_in_subgroup(site.program):
            return None
        made = self._widen(site.program, by)
        return None if isinstance(made, Refusal) else Wide(made, by)

    def counting(self, site: LaunchSite, grid: Dim3) -> Counting | Refusal | None:
        """A launch over a grid with atomics in memory of workgroups, of which there are as many as run at a time.

        None for a program without atomics.
        """
        program = site.program
        atomics = {op.attrs["buffer"] for op in program.walk() if "atomic" in op.definition.effects}
        if not atomics:
            return None
        held = max(1, RESIDENT // program.lanes) if site.on_gpu else SHARES
        if not site.on_gpu and self._counts_in_registers(program):
            return _refuse(program, "combines what it counts in registers")
        workgroups, invocations = min(site.processors * held, grid[0]), grid[0] * program.lanes
        shared = sum(site.lengths.get(name, 0) for name in atomics)
        if (
            invocations < LEAST_COUNTING
            or invocations * site.neighbours < LEAST_COUNTED * workgroups * shared
        ):
            return _refuse(program, f"has {invocations} invocations, too few to count by workgroups")
        return self.by_turns(site, grid, workgroups)

    def by_turns(self, site: LaunchSite, grid: Grid, workgroups: int) -> Counting | Refusal:
        """The same with so many workgroups."""
        if grid[1:] != (1, 1):
            return _refuse(site.program, "runs over a grid of several dimensions")
        if workgroups * site.program.workgroup[0] > 1 << 32:
            return _refuse(site.program, f"would pass 2^32 invocations along x with {workgroups} workgroups")
        key = site.program, tuple(sorted(site.lengths.items())), site.on_gpu, site.counts[0].key
        if key not in self._counting:
            self._counting[key] = privatize(
                site.program, site.lengths, site.counts[0], in_order=not site.on_gpu
            )
        made = self._counting[key]
        return made if isinstance(made, Refusal) else Counting(made, workgroups)


def _coarse(program: Program, by: Neighbours, counts: Sequence[GroupCount]) -> Coarse | Refusal:
    coarse = coarsen(program, by, counts)
    if isinstance(coarse, Refusal):
        return coarse
    vectorized = _copied(coarse)
    combine_atomics(vectorized)
    if not vectorize(vectorized, Silent()) and by.count > 1:
        return _refuse(program, f"has no accesses that become vectors where {by} invocations are one")
    return Coarse(coarse, vectorized, by)


def _copied(program: Program) -> Program:
    return replace(program, body=Block((), clone(program.body.ops, {})))


def _hoisted(program: Program) -> Rewritten:
    copy, sink = _copied(program), CollectedRemarks()
    changed = hoist_loads(copy, sink, op_numbers(copy))
    return Rewritten(copy if changed else program, sink.remarks)


def _carried(program: Program) -> Rewritten:
    copy, sink = _copied(program), CollectedRemarks()
    changed = carry_atomics(copy, sink)
    return Rewritten(copy if changed else program, sink.remarks)


def _narrow(program: Program, parts: int) -> Program:
    grid = None if program.grid is None else (program.grid[0] * parts, *program.grid[1:])
    return replace(program, workgroup=(program.workgroup[0] // parts, 1, 1), grid=grid)


def _is_divisible(program: Program) -> bool:
    """Whether invocations loop, each for itself, and none asks for more than its place in the grid."""
    if program.workgroup[1:] != (1, 1) or any(buffer.is_on_chip for buffer in program.buffers.values()):
        return False
    ops = [*program.walk()]
    asks = (op.definition.format in ("id", "size") and not op.name.startswith("global_") for op in ops)
    meets = (op.definition.effects & {"sync", "wait", "subgroup", "workgroup", "print"} for op in ops)
    return any(op.name in ("for", "while") for op in ops) and not any(asks) and not any(meets)


def _of_grid(program: Program, workgroups: int) -> Program:
    """A copy that has its number of workgroups along x, and steps of loops by it, as constants."""
    copy = _copied(program)
    for op in copy.walk():
        if op.name == "num_workgroups" and op.attrs["axis"] == "x":
            become(op, "const", (), {"value": workgroups})
        elif op.name == "for":
            lower, upper, step = bounds(op)
            known = constant_value(step) if isinstance(step, Value) else None
            with_bounds(op, lower, upper, step if known is None else known)
    return copy


def _refuse(program: Program, message: str) -> Refusal:
    return Refusal("form", f"@{program.name} {message}", loc=program.loc)


def _row(formal: Buffer, shape: Shape, by: Neighbours) -> Buffer | None:
    """A buffer of several dimensions, with rows of the call's length where that is open and whole vectors."""
    if formal.dimensions == 1:
        return None
    length = shape[-1]
    fits = formal.shape[-1] is None and length is not None and length % max(by.x, by.y) == 0
    return replace(formal, shape=(*formal.shape[:-1], length)) if fits else formal


def _most_blocks(program: Program, by: int) -> int:
    """Blocks of so many neighbours that keep memory busy while one is computed, see `BLOCKS`."""
    each = by * instructions(program)
    loads = [op for op in program.walk() if op.definition.format == "load"]
    loaded = by * sum((op.result.type.bits or 0) // 8 for op in loads)
    fitting = [
        blocks
        for blocks, least in BLOCKS
        if each >= least and blocks * loaded <= MOST_IN_FLIGHT and blocks * each <= MOST_INSTRUCTIONS
    ]
    return max(fitting, default=1)


def _several(program: Program, by: int, many: int) -> Neighbours:
    """Vectors of so many neighbours, `many` for an invocation: in rows below each other where these load the same, or else apart along x
    (a bias of columns and gelu, 10^8 elements of f32 on an H200: 208 us below each other, 217 apart)."""
    below = Neighbours(by, many)
    if many > 1 and coarsen_refusal(program, below) is None and repeats_along_y(program):
        return below
    return Neighbours(by, blocks=many)


def _choices(program: Program) -> Sequence[Neighbours] | Refusal:
    """Choices of neighbours that may become one, best first: as many as make a vector of the widest type that is stored, where neighbours touch
    neighbours.  Where some of them do so along y, lanes in tiles serve both (of 8192 x 8192 f32 on an H100 a transpose takes
    1,153 us as written, 267 in tiles, 193 with 4 along y as one, 202 with 4 along x, 461 with both)."""
    refusal = coarsen_refusal(program)
    if refusal is not None:
        return refusal
    widest = {"load": 1, "store": 0}
    for op in program.walk():
        if op.definition.format not in widest:
            continue
        value = op.result.type if op.definition.format == "load" else op.operands[0].type
        if value.is_vec or value.bits is None:
            return Refusal("form", f"@{program.name} accesses {value} already", loc=op.loc)
        widest[op.definition.format] = max(widest[op.definition.format], value.bits // 8)
    loaded, stored = widest["load"], widest["store"] or widest["load"]
    limit = min(MOST, MOST_OPS // max(1, sum(1 for _ in program.walk())))
    vector = min(limit, WIDTH // max(loaded, stored))
    nothing = _refuse(program, "has no 2 neighbours that make a vector and are worth one")
    if vector < 2:
        return nothing
    axes = access_axes(program)
    apart = next((op for op, along in axes.items() if not along), None)
    if apart is not None:
        return Refusal("form", f"neighbours of @{program.name} touch elements apart", loc=apart.loc)
    if all("x" in along for along in axes.values()):
        vector = min(limit, WIDTH // stored, LOADS * WIDTH // loaded)
        sizes = [by for by in (8, 4, 2) if by <= vector and program.workgroup[0] % by == 0]
        most = {by: _most_blocks(program, by) for by in sizes}
        rows = [_several(program, by, many) for by in sizes for many in (4, 2, 1) if many <= most[by]]
        return rows or nothing
    side = 1 << (max(1, min(vector, MOST_ALONG_Y)).bit_length() - 1)
    choices = [
        Neighbours(1, side, (8, 4)),
        Neighbours(side, 1, (4, 8)),
        *(Neighbours(1, 1, t) for t in TILES),
    ]
    fitting = [by for by in choices if coarsen_refusal(program, by) is None]
    return fitting or _refuse(program, "has a workgroup that is not made of tiles")
