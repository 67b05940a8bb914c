"""Faster equivalent forms of launches, chosen by lengths and by the processor.

coarse    an invocation does the work of several neighbours, so that each lane moves 16 bytes at a time (coarsening):
          on a GPU, if accesses become vectors, and enough invocations for all multiprocessors remain; with several
          blocks of neighbours if it computes so long that too few bytes would be in flight
counting  a workgroup does the work of many, and counts in its own memory (privatization): if that lowers the number
          of atomics on shared buffers
wide      several workgroups of a subgroup or less become one: if a GPU would spend its time beginning workgroups
narrow    workgroups have fewer invocations, so that there is one for each multiprocessor: if invocations loop and are
          independent of workgroups
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

MAX_NEIGHBOURS = 8
"""The most invocations that become one."""
MAX_ALONG_Y = 4
"""The most neighbours along y that become one, and the most along x if some accesses are adjacent along y."""
TILES = ((4, 8), (8, 4), (16, 2))
"""Arrangements of a subgroup's lanes in tiles, for accesses adjacent along either axis; best first."""
LOADS = 2
"""The most vectors that an invocation loads of a buffer, so that its store is a vector as well: stores of a few bytes take
longer (10^8 elements on an H200: f32 to u8 126 us by 4 and 116 by 8, f32 to bf16 147 and 140, f64 to f32 286 by 2 and 276 by 4), and
stores of two vectors leave gaps between lanes (u8 to f32 128 us by 4, 197 by 8)."""
MAX_OPS = 512
"""Most ops of a program, times its neighbours: with more, arithmetic for each access leaves vectors nothing to gain."""
BLOCKS = ((2, 112), (4, 168))
"""(blocks of neighbours of an invocation, least instructions of a block): with one block of so many instructions, memory
would wait for arithmetic.  (10^8 elements of f32 on an H200, 4 a block, with 28, 40, 48 and 64 dependent fma's each: 197, 226, 241 and
286 us with one block, 197, 195, 211, 250 with 2 and 198, 200, 202, 238 with 4; 191, 197, 198 with none.)"""
MAX_IN_FLIGHT = 128
"""The most bytes that an invocation of several blocks loads."""
MAX_INSTRUCTIONS = 1536
"""The most instructions of such an invocation: they are compiled twice, once more for the last workgroup."""
RESIDENT = 2048
"""Invocations that a multiprocessor holds at a time."""
INVOCATIONS, INVOCATIONS_OF_BLOCKS = RESIDENT // 2, 4 * RESIDENT
"""The fewest invocations of a multiprocessor that a coarse launch leaves, with one block of neighbours and with several: at
the end of a launch some multiprocessors are idle, so long invocations need more of them than run at a time."""
MAX_LANES = 8 * SUBGROUP_SIZE
"""The most invocations of a wide workgroup."""
WIDE = 4
"""The fewest workgroups for each multiprocessor that a wide launch leaves."""
SHARES = 4
"""Workgroups that a thread of the cpu runs in sequence: several, so that threads end at the same time."""
MIN_INVOCATIONS = 1 << 14
"""The fewest invocations of a launch that counts by workgroups: faults of smaller launches name the invocation."""
MIN_COUNTS = 4
"""The fewest additions of a workgroup to each element of its copy, on average."""


@dataclass(frozen=True, slots=True)
class LaunchSite:
    """A launch of a program.  `shapes`: shapes of its bound buffers, with None for open extents.

    `counts`: sources of the launch's number of workgroups along x and y, for other forms.  `processors`: threads of the
    cpu, multiprocessors of a GPU.  `neighbours`: original invocations that one invocation of `program` does.
    """

    program: Program
    shapes: Mapping[str, Shape]
    counts: tuple[GroupCount, GroupCount]
    processors: int
    on_gpu: bool
    neighbours: int = 1

    @property
    def lengths(self) -> dict[str, int]:
        """Elements of the buffers whose extents are known."""
        return {name: prod(n or 0 for n in shape) for name, shape in self.shapes.items() if None not in shape}


@dataclass(frozen=True, slots=True)
class Coarse:
    """`program`, whose invocations do the work of `by` original ones; `vectorized`: the same with vector accesses."""

    program: Program
    vectorized: Program
    by: Neighbours


@dataclass(frozen=True, slots=True)
class Wide:
    """`program`, whose workgroups do the work of `by` original ones each."""

    program: Program
    by: int


@dataclass(frozen=True, slots=True)
class Narrow:
    """`program`, with smaller workgroups; `workgroups`: their number along x."""

    program: Program
    workgroups: int


@dataclass(frozen=True, slots=True)
class Rewritten:
    """`program` with rewritten loops, or unchanged; `remarks`: a remark on each of its loops."""

    program: Program
    remarks: Sequence[tuple[str, str, Location | None]]


@dataclass(frozen=True, slots=True)
class Counting:
    """`program`, whose workgroups take turns at the original ones; `workgroups`: their number."""

    program: Program
    workgroups: int


class LaunchForms:
    """Forms of launches; programs are cached, so that launches share them."""

    def __init__(self) -> None:
        self._choices, self._rows = cache(_choices), cache(rows)
        self._hoisted, self._carried = cache(_hoist), cache(_carry)
        self._of_grid, self._counts_in_registers = cache(_of_grid), cache(counts_in_registers)
        self._coarse: dict[object, Coarse | Refusal] = {}
        self._counting: dict[object, Program | Refusal] = {}
        self._is_in_subgroup = cache(is_in_subgroup)
        self._widen = cache(partial(widen, groups=GroupCount(None, {})))
        self._narrow, self._is_divisible = cache(_narrow), cache(_is_divisible)
        self._batched: dict[object, Rewritten] = {}

    def coarse(self, site: LaunchSite, grid: Dim3) -> Coarse | Refusal:
        """A launch with as many neighbours in one invocation as pays."""
        program, invocations = site.program, prod(grid) * site.program.lanes
        choices = self._choices(program)
        if isinstance(choices, Refusal):
            return choices
        refusal = _refuse(
            program, f"has {invocations} invocations, and 2 as one would leave multiprocessors idle"
        )
        for by in choices:
            per_processor = INVOCATIONS if by.blocks == 1 else INVOCATIONS_OF_BLOCKS
            if invocations >= by.count * site.processors * per_processor:
                coarse = self.by(site, by)
                if isinstance(coarse, Coarse):
                    return coarse
                refusal = coarse
        return refusal

    def by(self, site: LaunchSite, by: Neighbours) -> Coarse | Refusal:
        """The launch with the neighbours `by` in one invocation, if their accesses become vectors."""
        program = site.program
        rows = [row for b in program.bound_buffers if (row := _row(b, site.shapes[b.name], by)) is not None]
        key = program, by, tuple(row.shape for row in rows), *(count.key for count in site.counts)
        if key not in self._coarse:
            shaped = replace(program, buffers=program.buffers | {row.name: row for row in rows})
            self._coarse[key] = _coarse(shaped, by, site.counts)
        return self._coarse[key]

    def hoisted(self, program: Program) -> Rewritten:
        """The program with invariant loads moved before its loops."""
        return self._hoisted(program)

    def carried(self, program: Program) -> Rewritten:
        """The program with atomics of a loop on one element moved after the loop."""
        return self._carried(program)

    def batched(
        self, program: Program, shapes: Mapping[str, Shape], workgroups: int | None = None
    ) -> Rewritten:
        """The program with loops that keep loaded values, or load for several iterations at once, for these shapes.

        `workgroups`: workgroups along x, if other launches of the program have as many."""
        if workgroups is not None:
            program = self._of_grid(program, workgroups)
        steps = trips(program, self._rows(program), shapes)
        key = program, steps, iterations(program, shapes)
        if key not in self._batched:
            copy, sink = _copy(program), CollectedRemarks()
            changed = keep_loads(copy, sink, rows(copy), steps, op_numbers(copy))
            changed += batch_loads(copy, sink, iterations(copy, shapes))
            self._batched[key] = Rewritten(copy if changed else program, sink.remarks)
        return self._batched[key]

    def narrow(self, site: LaunchSite, grid: Dim3) -> Narrow | None:
        """A launch over more workgroups, none smaller than a subgroup, if it has fewer than there are processors."""
        lanes, groups = site.program.lanes, prod(grid)
        parts = 1
        while groups * parts < site.processors and lanes % (2 * parts * SUBGROUP_SIZE) == 0:
            parts *= 2
        if parts == 1 or not self._is_divisible(site.program):
            return None
        return Narrow(self._narrow(site.program, parts), grid[0] * parts)

    def wide(self, site: LaunchSite, grid: Dim3) -> Wide | None:
        """A launch over fewer workgroups of several subgroups, if enough for all multiprocessors remain."""
        by = max(1, MAX_LANES // site.program.lanes)
        # fill at least a subgroup, however few workgroups remain
        full_subgroup = SUBGROUP_SIZE // site.program.lanes
        while by > max(1, full_subgroup) and grid[0] < by * WIDE * site.processors:
            by //= 2
        if by == 1 or grid[1:] != (1, 1) or not self._is_in_subgroup(site.program):
            return None
        program = self._widen(site.program, by)
        return None if isinstance(program, Refusal) else Wide(program, by)

    def counting(self, site: LaunchSite, grid: Dim3) -> Counting | Refusal | None:
        """A launch over as many workgroups as run at a time, with atomics in workgroup memory.

        None for a program without atomics.
        """
        program = site.program
        atomics = {op.attrs["buffer"] for op in program.walk() if "atomic" in op.definition.effects}
        if not atomics:
            return None
        resident = max(1, RESIDENT // program.lanes) if site.on_gpu else SHARES
        if not site.on_gpu and self._counts_in_registers(program):
            return _refuse(program, "combines what it counts in registers")
        workgroups, invocations = min(site.processors * resident, grid[0]), grid[0] * program.lanes
        shared_elements = sum(site.lengths.get(name, 0) for name in atomics)
        if (
            invocations < MIN_INVOCATIONS
            or invocations * site.neighbours < MIN_COUNTS * workgroups * shared_elements
        ):
            return _refuse(program, f"has {invocations} invocations, too few to count by workgroups")
        return self.by_turns(site, grid, workgroups)

    def by_turns(self, site: LaunchSite, grid: Grid, workgroups: int) -> Counting | Refusal:
        """The form of `counting` over a given number of workgroups."""
        if grid[1:] != (1, 1):
            return _refuse(site.program, "runs over a grid of several dimensions")
        if workgroups * site.program.workgroup[0] > 1 << 32:
            return _refuse(site.program, f"would pass 2^32 invocations along x with {workgroups} workgroups")
        key = site.program, tuple(sorted(site.lengths.items())), site.on_gpu, site.counts[0].key
        if key not in self._counting:
            self._counting[key] = privatize(
                site.program, site.lengths, site.counts[0], in_order=not site.on_gpu
            )
        program = self._counting[key]
        return program if isinstance(program, Refusal) else Counting(program, workgroups)


def _coarse(program: Program, by: Neighbours, counts: Sequence[GroupCount]) -> Coarse | Refusal:
    coarse = coarsen(program, by, counts)
    if isinstance(coarse, Refusal):
        return coarse
    vectorized = _copy(coarse)
    combine_atomics(vectorized)
    if not vectorize(vectorized, Silent()) and by.count > 1:
        return _refuse(program, f"has no accesses that become vectors where {by} invocations are one")
    return Coarse(coarse, vectorized, by)


def _copy(program: Program) -> Program:
    return replace(program, body=Block((), clone(program.body.ops, {})))


def _hoist(program: Program) -> Rewritten:
    copy, sink = _copy(program), CollectedRemarks()
    changed = hoist_loads(copy, sink, op_numbers(copy))
    return Rewritten(copy if changed else program, sink.remarks)


def _carry(program: Program) -> Rewritten:
    copy, sink = _copy(program), CollectedRemarks()
    changed = carry_atomics(copy, sink)
    return Rewritten(copy if changed else program, sink.remarks)


def _narrow(program: Program, parts: int) -> Program:
    grid = None if program.grid is None else (program.grid[0] * parts, *program.grid[1:])
    return replace(program, workgroup=(program.workgroup[0] // parts, 1, 1), grid=grid)


def _is_divisible(program: Program) -> bool:
    """Whether invocations loop independently, and use no id but the global one."""
    if program.workgroup[1:] != (1, 1) or any(buffer.is_on_chip for buffer in program.buffers.values()):
        return False
    ops = [*program.walk()]
    asks = (op.definition.format in ("id", "size") and not op.name.startswith("global_") for op in ops)
    meets = (op.definition.effects & {"sync", "wait", "subgroup", "workgroup", "print"} for op in ops)
    return any(op.name in ("for", "while") for op in ops) and not any(asks) and not any(meets)


def _of_grid(program: Program, workgroups: int) -> Program:
    """A copy with the number of workgroups along x, and loop steps that depend on it, as constants."""
    copy = _copy(program)
    for op in copy.walk():
        if op.name == "num_workgroups" and op.attrs["axis"] == "x":
            become(op, "const", (), {"value": workgroups})
        elif op.name == "for":
            lower, upper, step = bounds(op)
            constant = constant_value(step) if isinstance(step, Value) else None
            with_bounds(op, lower, upper, step if constant is None else constant)
    return copy


def _refuse(program: Program, message: str) -> Refusal:
    return Refusal("form", f"@{program.name} {message}", loc=program.loc)


def _row(formal: Buffer, shape: Shape, by: Neighbours) -> Buffer | None:
    """A buffer of several dimensions; an open row length becomes the call's length if that is a multiple of vectors."""
    if formal.dimensions == 1:
        return None
    length = shape[-1]
    fits = formal.shape[-1] is None and length is not None and length % max(by.x, by.y) == 0
    return replace(formal, shape=(*formal.shape[:-1], length)) if fits else formal


def _fitting_blocks(program: Program, by: int) -> int:
    """The most blocks of `by` neighbours that pay, see `BLOCKS`."""
    per_block = by * instructions(program)
    loads = [op for op in program.walk() if op.definition.format == "load"]
    load_bytes = by * sum((op.result.type.bits or 0) // 8 for op in loads)
    fitting = [
        blocks
        for blocks, minimum in BLOCKS
        if per_block >= minimum
        and blocks * load_bytes <= MAX_IN_FLIGHT
        and blocks * per_block <= MAX_INSTRUCTIONS
    ]
    return max(fitting, default=1)


def _several(program: Program, by: int, vectors: int) -> Neighbours:
    """Neighbours that load `vectors` vectors of `by` elements.

    Vectors of one invocation lie in rows below each other where these load the same element, else apart along x (a bias of columns
    and gelu, 10^8 elements of f32 on an H200: 208 us below each other, 217 apart).
    """
    below = Neighbours(by, vectors)
    if vectors > 1 and coarsen_refusal(program, below) is None and repeats_along_y(program):
        return below
    return Neighbours(by, blocks=vectors)


def _choices(program: Program) -> Sequence[Neighbours] | Refusal:
    """Choices of neighbours that may become one invocation, best first.

    If all accesses are adjacent along x: as many as make a vector of the widest stored type.  If some are adjacent along y:
    lanes in tiles, which serve both axes.  (Transposing 8192 x 8192 f32 on an H100 takes 1,153 us as written, 267 in
    tiles, 193 with 4 along y as one, 202 with 4 along x, 461 with both.)
    """
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
    load_bytes, store_bytes = widest["load"], widest["store"] or widest["load"]
    limit = min(MAX_NEIGHBOURS, MAX_OPS // max(1, sum(1 for _ in program.walk())))
    vector = min(limit, WIDTH // max(load_bytes, store_bytes))
    no_vectors = _refuse(program, "has no 2 neighbours that make a vector and are worth one")
    if vector < 2:
        return no_vectors
    axes = access_axes(program)
    apart_op = next((op for op, along in axes.items() if not along), None)
    if apart_op is not None:
        return Refusal("form", f"neighbours of @{program.name} touch elements apart", loc=apart_op.loc)
    if all("x" in along for along in axes.values()):
        vector = min(limit, WIDTH // store_bytes, LOADS * WIDTH // load_bytes)
        sizes = [by for by in (8, 4, 2) if by <= vector and program.workgroup[0] % by == 0]
        most_blocks = {by: _fitting_blocks(program, by) for by in sizes}
        rows = [
            _several(program, by, blocks) for by in sizes for blocks in (4, 2, 1) if blocks <= most_blocks[by]
        ]
        return rows or no_vectors
    side = 1 << (max(1, min(vector, MAX_ALONG_Y)).bit_length() - 1)
    choices = [
        Neighbours(1, side, (8, 4)),
        Neighbours(side, 1, (4, 8)),
        *(Neighbours(1, 1, t) for t in TILES),
    ]
    fitting = [by for by in choices if coarsen_refusal(program, by) is None]
    return fitting or _refuse(program, "has a workgroup that is not made of tiles")
