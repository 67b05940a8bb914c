"""Schedules of slices: invocations of a workgroup by the lengths of rows, and products on matrix units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from collections.abc import Set as AbstractSet
from dataclasses import replace
from math import prod

from ..analysis.alignment import Alignment
from ..ir.ops import SUBGROUP_SIZE
from ..ir.program import Op, Program, Shape, Value
from ..ir.rewrite import constant_value
from ..ir.types import DataType
from ..records import dataclass
from .layout import FOLDED, GROUP, MOST_WIDE, STRIP, MatrixLayout

__all__ = [
    "SliceMachine",
    "SliceSchedule",
    "factor_tile",
    "is_for_units",
    "slice_schedule",
    "with_open_extents",
]

MOST = 1024
"""Lanes of a workgroup."""
MANY = 256
"""Lanes for rows whose length is not known."""
SHARED = (1, 2, 4, 8, 16)
"""Workgroups that may share a row."""
WIDE = 8192
"""Elements of rows that are shared, at least."""
SHARES = {1: 48, 2: 32, 4: 32, 8: 48, 16: 64}
"""Elements that each lane of so many workgroups holds, at most, where fewer workgroups do (softmax on an H200: of 40,001 columns by 4
workgroups 71 us, by 8 64; of 77,777 by 8 117, by 16 126)."""
HELD = {32: 16, 64: 16, 128: 16, 256: 48, 512: 48, 1024: 64}
"""Elements that each lane of so many holds, at most, where fewer lanes do."""
HELD_ON_GPU = HELD | {64: 40, 128: 48}
"""The same on a GPU, where few elements a lane are computed while none is loaded (30,000 rows of 2,300 bf16 on an H200 by 64, 128 and 256
lanes: softmax 100, 112, 139 us, cross entropy 71, 86, 121; 10,000 of 3,000 f32: softmax 63.2 us by 64, 61.7 by 128)."""
HELD_OF_SHORT, LEAST_APART = 8, 4
"""Elements that each lane of less than a subgroup holds at most, where it has parts for several short rows, see `wide_workgroups`; and lanes
of rows that are read element by element, at least where there are so many (softmax on an H200: 2^20 rows of 32 f32 by 32 lanes 159 us, by 8
and by 4 67, by 2 81; of 32 bf16 172, 47, 39, 41; of 7 f32 by 32 lanes 116 us, by 2 22, by 1 40)."""
HELD_OF_PRODUCTS = HELD | {128: 32}
"""The same of programs with products, in which each element that is loaded is multiplied by all that a lane has in its row or column
(4,096^3 of f32 on an H200 by blocks of 64 x 64 x 32: 3,740 us by 128 lanes, 4,120 by 256, 4,820 by 64)."""


HELD_OF_TILES = {32: 4, 64: 8, 128: 64, 256: 64, 512: 64, 1024: 64}
"""The same on a GPU that copies factors ahead, of sums (333 x 77 x 4,097 of f32 on an H200 by blocks of 32 x 32 x 32: 134 us by 64 lanes,
84 by 128, 85 by 256; of 16 x 16 x 64 41 by 64, 84 by 128)."""
TILE_STAGES = ((3, 3), (1, 2))
"""Stages of such factors, up to 3 in a third of the memory, so that others have room beside a workgroup, or 2 (4,096^3 of f32 on an H200:
by blocks of 64 x 64 x 32 3,510 us by 2 stages, 3,360 by 3; of 128 x 64 x 32 3,230 by 2, of 128 x 128 x 32 3,325 by 2, 3,480 by 3)."""


UNITS = ("none", "subgroups", "warpgroups")
DEPTH = 16
"""Multiple that the extents of a factor have in a product of two matrices."""
PAD_BYTES = 16
"""Bytes that pad the lines of a tile, so that 8 of them lie in different banks."""
PANEL = 64
"""Elements of the lines in which warpgroups read a right factor, which needs no pad."""
STRIP_PAD = 4
"""Elements of a line of sums, so that lines lie in different banks."""
MOST_STAGES = 4
SUBGROUPS = (1, 2, 4, 8, 16)
ENOUGH, WARPGROUP = 8, 4
SUMS, MOST_SUMS = 64, 128
"""Elements of sums that a lane holds in matrices: where there are subgroups enough, and at most."""


@dataclass(frozen=True)
class SliceMachine:
    """Machine that slices are scheduled for.  `processors`: multiprocessors of a GPU that has clusters, else 0.  `units`: who multiplies
    matrices together.  `memory`: bytes of a workgroup's memory."""

    processors: int = 0
    units: str = "none"
    memory: int = 0
    is_gpu: bool = False


@dataclass(frozen=True)
class SliceSchedule:
    """`lanes`: invocations of a workgroup, a power of two.  `neighbours`: elements side by side that each has at a time, 4 where
    vectors of them are aligned, or 1.  `workgroups`: of a cluster, which share the rows.  `units`: who multiplies blocks of f16 and
    bf16 on matrix units: `none`, `subgroups`, or `warpgroups`, four of these together.  `stages`: places of workgroup memory that
    factors go through in a loop, copied ahead; 1 where none is."""

    lanes: int = MANY
    neighbours: int = GROUP
    workgroups: int = 1
    units: str = "none"
    stages: int = 1

    def __post_init__(self) -> None:
        if self.units not in UNITS:
            raise ValueError(
                f"products on matrix units are of {', '.join(UNITS[:-1])} or {UNITS[-1]}, not {self.units}"
            )
        if not 1 <= self.stages <= 2 * MOST_STAGES:
            raise ValueError(f"stages are 1 to {2 * MOST_STAGES}, not {self.stages}")
        if self.workgroups not in SHARED or self.lanes * self.workgroups * self.neighbours > FOLDED:
            raise ValueError(
                f"workgroups that share a row are {', '.join(map(str, SHARED[:-1]))} or {SHARED[-1]}, and together have up to "
                f"{FOLDED} elements at a time, not {self.workgroups} of {self.lanes} lanes with {self.neighbours}"
            )
        if self.neighbours not in (1, GROUP):
            raise ValueError(f"neighbours are 1 or {GROUP}, not {self.neighbours}")
        if not 1 <= self.lanes <= MOST or self.lanes & (self.lanes - 1):
            raise ValueError(f"lanes are a power of two from 1 to {MOST}, not {self.lanes}")


def slice_schedule(program: Program, machine: SliceMachine | None = None) -> SliceSchedule:
    """Return a schedule of as few lanes as hold the longest slice in registers, or the sums of products on matrix units."""
    machine = machine or SliceMachine()
    on_units = unit_schedule(program, machine)
    if on_units is not None:
        return on_units
    dots = [op for op in program.walk() if op.name == "slice_dot"]
    neighbours = GROUP if _are_aligned(program) else 1
    if dots and machine.memory:
        lanes = _fewest_lanes(HELD_OF_TILES, longest_slice(program, _factors(program)))
        # with several stages tiles are padded, which `_stages` counts
        schedule = SliceSchedule(lanes, neighbours, stages=MOST_STAGES)
        stages = (_stages(program, schedule, machine.memory // part, most) for part, most in TILE_STAGES)
        return replace(schedule, stages=max(stages))
    longest, processors = longest_slice(program), machine.processors
    most = HELD_OF_PRODUCTS if dots else HELD_ON_GPU if machine.is_gpu else HELD
    lanes = _fewest_lanes(most, longest)
    if machine.is_gpu and longest <= SUBGROUP_SIZE // 2 * HELD_OF_SHORT and is_in_part(program):
        least = max(1, -(-longest // HELD_OF_SHORT), min(longest, LEAST_APART) if neighbours == 1 else 1)
        lanes = 1 << (least - 1).bit_length()
    schedule = SliceSchedule(lanes, neighbours)
    if not processors or program.grid is None or longest < WIDE or not may_share(program):
        return schedule
    return _shared(schedule, longest, prod(program.grid), processors)


def _fewest_lanes(most: Mapping[int, int], elements: int) -> int:
    return next((lanes for lanes, held in most.items() if elements <= lanes * held), MOST)


# --- matrix units


def is_for_units(op: Op, schedule: SliceSchedule) -> bool:
    """Whether an op is a product that matrix units make, whose sums a subgroup has whole matrices of."""
    if (
        schedule.units == "none"
        or op.name != "slice_dot"
        or op.operands[0].type.element not in (DataType.F16, DataType.BF16)
    ):
        return False
    (rows, columns), depth = _sums_of(op), op.operands[0].type.extents[1] or 0
    return depth > 0 and depth % DEPTH == 0 and MatrixLayout.fits(rows, columns, schedule.lanes)


def factor_tile(op: Op, side: int, source: Value, schedule: SliceSchedule) -> tuple[int, int]:
    """The rows and columns of workgroup memory for a factor of a product; `source`: the factor, or what it is the transpose of."""
    rows, columns = (extent or 0 for extent in source.type.extents)
    pad = PAD_BYTES // (source.type.element.size_bytes or 1)
    if not is_for_units(
        op, schedule
    ):  # lanes read rows of the right factor, and of the left one from many rows
        return rows, columns + pad * (1 - side)
    is_panelled = (
        schedule.units == "warpgroups"
        and schedule.lanes % (WARPGROUP * SUBGROUP_SIZE) == 0
        and columns % PANEL == 0
    )
    if side == 0:  # warpgroups read a left factor where it is, if each subgroup has 16 rows of it
        is_panelled = (
            is_panelled and source is op.operands[0] and rows * SUBGROUP_SIZE == STRIP * schedule.lanes
        )
    return rows, columns if is_panelled else columns + pad


def _sums_of(op: Op) -> tuple[int, int]:
    rows, columns = op.result.type.extents
    return rows or 0, columns or 0


def unit_schedule(program: Program, machine: SliceMachine) -> SliceSchedule | None:
    """Return a schedule of as few subgroups as hold the sums of all products; None for a program without products that units make."""
    dots = [op for op in program.walk() if op.name == "slice_dot"]
    if machine.units == "none" or not dots:
        return None
    neighbours, held = GROUP if _are_aligned(program) else 1, dict[int, int]()
    together = _sums_together(program)
    for subgroups in SUBGROUPS:
        schedule = SliceSchedule(subgroups * SUBGROUP_SIZE, neighbours, units=machine.units)
        if all(is_for_units(op, schedule) for op in dots):
            held[subgroups] = together // schedule.lanes
    fitting = [subgroups for subgroups, count in held.items() if count <= MOST_SUMS]
    if not fitting:
        return None
    few = [each for each in fitting if each <= ENOUGH] or fitting[:1]
    roomy = [each for each in few if held[each] <= SUMS and each >= min(WARPGROUP, few[-1])]
    schedule = SliceSchedule((roomy or few[-1:])[0] * SUBGROUP_SIZE, neighbours, units=machine.units)
    return replace(schedule, stages=_stages(program, schedule, machine.memory, MOST_STAGES))


def _sums_together(program: Program) -> int:
    """Elements of the sums of products that are held at a time, at most: those of a block, but that products add to one another's."""
    most, pending = 0, [program.body]
    while pending:
        block = pending.pop()
        dots = [op for op in block.ops if op.name == "slice_dot"]
        results = {op.result for op in dots}
        most = max(most, sum(prod(_sums_of(op)) for op in dots if results.isdisjoint(op.operands[2:])))
        pending += [region for op in block.ops for region in op.regions]
    return most


def _stages(program: Program, schedule: SliceSchedule, memory: int, most: int) -> int:
    """Number of stages that there may be memory for, beside factors that come from outside of a loop, and the strips by which sums leave
    the matrices; `most`, at most."""
    staged, kept, widest = dict[Value, int](), dict[Value, int](), 0
    pending = [(program.body, False)]
    while pending:
        block, is_round = pending.pop()
        beside = {op.result for op in block.ops if op.name == "slice_load"} if is_round else set[Value]()
        for op in block.ops:
            pending += [(region, op.name == "for") for region in op.regions]
            for side, factor in enumerate(op.operands[:2] if op.name == "slice_dot" else ()):
                source = _untransposed(factor)
                size = source.type.element.size_bytes or 1
                tile = prod(factor_tile(op, side, source, schedule)) * size
                (staged if source in beside else kept)[source] = tile
                widest = max(widest, min(MOST_WIDE, _sums_of(op)[1]))
    strips = schedule.lanes // SUBGROUP_SIZE * STRIP * (widest + STRIP_PAD) * 4
    if schedule.units == "none":
        strips = 0
    else:  # what is computed goes to units from registers
        kept = {source: tile for source, tile in kept.items() if _is_loaded(source)}
    fitting = (memory - strips - sum(kept.values())) // max(sum(staged.values()), 1)
    return max(1, min(most, fitting))


def _untransposed(value: Value) -> Value:
    owner = value.owner
    return owner.operands[0] if isinstance(owner, Op) and owner.name == "slice_transpose" else value


def _is_loaded(value: Value) -> bool:
    return isinstance(value.owner, Op) and value.owner.name == "slice_load"


# --- rows that several workgroups share


def _shared(schedule: SliceSchedule, longest: int, rows: int, processors: int) -> SliceSchedule:
    """Schedule with as many workgroups a row as hold it and occupy all multiprocessors; the schedule itself where one is enough."""
    most = FOLDED // (MANY * schedule.neighbours)
    neighbours = schedule.neighbours if longest <= MANY * most * SHARES[most] else 1
    most, workgroups = FOLDED // (MANY * neighbours), 1
    while workgroups < most and (
        longest > MANY * workgroups * SHARES[workgroups] or rows * workgroups * 2 <= processors
    ):
        workgroups *= 2
    if workgroups == 1 or longest > MANY * workgroups * SHARES[workgroups]:
        return schedule
    return SliceSchedule(MANY, neighbours, workgroups)


def may_share(program: Program) -> bool:
    """Whether clusters can compute with the rows: each once, their sums before anything is written, of 4 or 8 bytes."""
    if not _is_of_rows(program, {"trap"}, ("slice_gather",)):
        return False
    read: set[str] = set()
    written: set[str] = set()
    for op in program.body.ops:
        effects = op.definition.effects
        is_small = op.definition.format == "slice_reduce" and (op.operands[0].type.element.bits or 0) < 32
        if is_small or (written and op.definition.format == "slice_reduce"):
            return False
        if "read" in effects:
            read.add(op.attrs["buffer"])
        if "write" in effects:
            written.add(op.attrs["buffer"])
    return not read & written


def is_in_part(program: Program) -> bool:
    """Whether the lanes of a row need no memory between them, and hand nothing to others: several rows are parts of a subgroup then."""
    return _is_of_rows(program, {"workgroup"})


def _is_of_rows(program: Program, effects: Set[str], formats: Sequence[str] = ()) -> bool:
    """Whether a program computes with rows and numbers, without branches and loops, and no op has one of these effects or formats, or
    needs more of a row at once than its sums."""
    refused = {"atomic", "print", "wait", "sync", "subgroup", *effects}
    return not any(
        op.regions
        or op.definition.effects & refused
        or op.definition.format in ("slice_scan", "slice_transpose", "slice_dot", *formats)
        or any(len(value.type.extents) > 1 for value in (*op.operands, *op.results))
        for op in program.body.ops
    )


def _factors(program: Program) -> set[Value]:
    """The slices that are loaded as factors of products, and for nothing else."""
    factors = {op.result for op in program.walk() if op.name == "slice_load"}
    for op in program.walk():
        factors.difference_update(op.operands[2:] if op.name == "slice_dot" else op.operands)
    return factors


def longest_slice(program: Program, others: AbstractSet[Value] = frozenset()) -> int:
    """Elements of the longest slice of a program but `others`; of one whose length is not known, as many as MANY lanes hold."""
    longest = 0
    for op in program.walk():
        if not op.definition.format.startswith("slice_") or not op.results or op.result in others:
            continue
        extents = op.result.type.extents
        if op.name == "slice_load":
            shape = program.buffers[op.attrs["buffer"]].shape
            extents = tuple(
                total if extent is None else extent
                for extent, total in zip(extents, shape[len(shape) - len(extents) :], strict=True)
            )
        if None not in extents:
            longest = max(longest, prod(extent or 0 for extent in extents))
        elif op.name == "slice_load":
            longest = max(longest, MANY * HELD[MANY])
    return longest


def _are_aligned(program: Program) -> bool:
    """Whether GROUP neighbours of each slice are a vector of a buffer."""
    alignment = Alignment(program)
    for op in program.walk():
        if op.definition.format not in ("slice_load", "slice_store"):
            continue
        rows = program.buffers[op.attrs["buffer"]].shape[1:]
        if (rows and (rows[-1] or 1) % GROUP) or 1 << alignment.of(op.indices[-1]) < GROUP:
            return False
    return True


def with_open_extents(program: Program, shapes: Mapping[str, Shape]) -> dict[str, Shape]:
    """The shapes of buffers that rows of open extents are taken from, along these dimensions as a call has them; where blocks
    are multiplied, also how long the rows are that these are of, which tells what can be moved at a time."""
    fixed: dict[str, Shape] = {}
    has_products = any(op.name == "slice_dot" for op in program.walk())
    for op in program.walk():
        if op.definition.format not in ("slice_load", "slice_store"):
            continue
        name = op.attrs["buffer"]
        extents = (op.operands[0] if op.name == "slice_store" else op.result).type.extents
        buffer = program.buffers[name]
        shape = list(fixed.get(name, buffer.shape))
        first = len(shape) - len(extents)
        for axis, extent in enumerate(extents):
            known = shapes[name][first + axis] if name in shapes else None
            is_open = extent is None and constant_value(op.indices[first + axis]) is not None
            if known is not None and (is_open or (has_products and axis == 1)):
                shape[first + axis] = known
        if shape != [*buffer.shape]:
            fixed[name] = tuple(shape)
    return fixed
