"""Schedules of slices: lanes of a workgroup by the lengths of rows, and products on matrix units."""

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
from .layout import FOLDED, GROUP, MAX_COLUMNS, STRIP, MatrixLayout
from .row_lengths import Bounds, Row, asserted_lengths

__all__ = [
    "SliceMachine",
    "SliceSchedule",
    "factor_tile",
    "is_for_units",
    "slice_schedule",
    "with_open_extents",
]

MAX_LANES = 1024
"""The most lanes of a workgroup."""
OPEN_LANES = 256
"""Lanes for rows of unknown length."""
WORKGROUPS = (1, 2, 4, 8, 16)
"""Numbers of workgroups that may share a row."""
WIDE = 8192
"""The fewest elements of a row that workgroups share."""
SHARES = {1: 48, 2: 32, 4: 32, 8: 48, 16: 64}
"""Number of workgroups -> the most elements of a lane before more workgroups are better (softmax on an H200: of 40,001
columns by 4 workgroups 71 us, by 8 64; of 77,777 by 8 117, by 16 126)."""
REGISTERS = {32: 16, 64: 16, 128: 16, 256: 48, 512: 48, 1024: 64}
"""Number of lanes -> the most elements of a lane before more lanes are better."""
REGISTERS_ON_GPU = REGISTERS | {64: 40, 128: 48}
"""The same on a GPU, where lanes with few elements overlap little computation with loads (30,000 rows of 2,300 bf16 on an H200 by 64, 128 and 256
lanes: softmax 100, 112, 139 us, cross entropy 71, 86, 121; 10,000 of 3,000 f32: softmax 63.2 us by 64, 61.7 by 128)."""
REGISTERS_ON_CPU = dict.fromkeys((32, 64, 128, 256, 512), 8) | {1024: 64}
"""The same on the CPU, where more are spilled (16 x 10^6 f32 on 16 cores with AVX-512, softmax: rows of 2,048 by 256 lanes 1,448 us, by 128
1,773; of 4,096 by 512 1,531, by 256 1,666; of 7,264 by 1,024 1,541, by 256 2,003)."""
REGISTERS_OF_SHORT, MIN_LANES = 8, 4
"""The most elements of a lane, and for unaligned rows of a GPU the fewest lanes, if a row has a part of a subgroup, see
`wide_workgroups` (softmax on an H200: 2^20 rows of 32 f32 by 32 lanes 159 us, by 8
and by 4 67, by 2 81; of 32 bf16 172, 47, 39, 41; of 7 f32 by 32 lanes 116 us, by 2 22, by 1 40.  10^6 elements of f32 on 2 cores with
AVX-512: rows of 8 by 32 lanes 2,592 us, by 1 491; of 64 by 32 459, by 8 375)."""
APART = 256
"""The most elements of a row on the CPU whose neighbours are in different lanes: only long rows are worth the shuffles that gather vectors of
neighbours (10^6 elements of f32 on 2 cores with AVX-512: softmax of 256 by 32 lanes 372 us apart, 848 together; of 1,024 558 and 468)."""
REGISTERS_OF_PRODUCTS = REGISTERS | {128: 32}
"""The same for programs with products, in which a lane reuses each loaded element for all its sums in a row or column
(4,096^3 of f32 on an H200 by blocks of 64 x 64 x 32: 3,740 us by 128 lanes, 4,120 by 256, 4,820 by 64)."""


REGISTERS_OF_TILES = {32: 4, 64: 8, 128: 64, 256: 64, 512: 64, 1024: 64}
"""The same for the sums of products on a GPU that copies factors ahead (333 x 77 x 4,097 of f32 on an H200 by blocks of 32 x 32 x 32: 134 us by 64 lanes,
84 by 128, 85 by 256; of 16 x 16 x 64 41 by 64, 84 by 128)."""
TILE_STAGES = ((3, 3), (1, 2))
"""(part of workgroup memory, the most stages) of such factors: 3 stages in a third of the memory, so that several workgroups
fit a multiprocessor, or 2 stages in all of it (4,096^3 of f32 on an H200:
by blocks of 64 x 64 x 32 3,510 us by 2 stages, 3,360 by 3; of 128 x 64 x 32 3,230 by 2, of 128 x 128 x 32 3,325 by 2, 3,480 by 3)."""


UNITS = ("none", "subgroups", "warpgroups")
DEPTH = 16
"""Depth of a product of two matrices; the extents of factors are multiples of it."""
PAD_BYTES = 16
"""Padding of the rows of a tile, so that 8 consecutive rows lie in different banks."""
PANEL = 64
"""Elements of a line in which warpgroups read a right factor; such lines need no padding."""
STRIP_PAD = 4
"""Padding elements of a row of sums, so that rows lie in different banks."""
MAX_STAGES = 4
SUBGROUPS = (1, 2, 4, 8, 16)
MAX_SUBGROUPS, WARPGROUP = 8, 4
SUMS, MAX_SUMS = 64, 128
"""Elements of sums of a lane in matrices: preferred, and at most."""


@dataclass(frozen=True)
class SliceMachine:
    """Machine that slices are scheduled for.  `processors`: multiprocessors of a GPU with clusters, otherwise 0.  `units`: one
    of UNITS.  `memory`: bytes of a workgroup's memory."""

    processors: int = 0
    units: str = "none"
    memory: int = 0
    is_gpu: bool = False


@dataclass(frozen=True)
class SliceSchedule:
    """`lanes`: invocations of a workgroup, a power of two.  `neighbours`: adjacent elements of a lane at a time, 4 if vectors
    of them are aligned, otherwise 1.  `workgroups`: workgroups of a cluster, which share the rows.  `units`: what multiplies
    blocks of f16 and bf16 on matrix units: `none`, `subgroups`, or `warpgroups` of four subgroups.  `stages`: tiles of each
    factor in a loop that copies ahead; 1 for no copies."""

    lanes: int = OPEN_LANES
    neighbours: int = GROUP
    workgroups: int = 1
    units: str = "none"
    stages: int = 1

    def __post_init__(self) -> None:
        if self.units not in UNITS:
            raise ValueError(
                f"products on matrix units are of {', '.join(UNITS[:-1])} or {UNITS[-1]}, not {self.units}"
            )
        if not 1 <= self.stages <= 2 * MAX_STAGES:
            raise ValueError(f"stages are 1 to {2 * MAX_STAGES}, not {self.stages}")
        if self.workgroups not in WORKGROUPS or self.lanes * self.workgroups * self.neighbours > FOLDED:
            raise ValueError(
                f"workgroups that share a row are {', '.join(map(str, WORKGROUPS[:-1]))} or {WORKGROUPS[-1]}, and together have up to "
                f"{FOLDED} elements at a time, not {self.workgroups} of {self.lanes} lanes with {self.neighbours}"
            )
        if self.neighbours not in (1, GROUP):
            raise ValueError(f"neighbours are 1 or {GROUP}, not {self.neighbours}")
        if not 1 <= self.lanes <= MAX_LANES or self.lanes & (self.lanes - 1):
            raise ValueError(f"lanes are a power of two from 1 to {MAX_LANES}, not {self.lanes}")


def slice_schedule(program: Program, machine: SliceMachine | None = None) -> SliceSchedule:
    """Return a schedule with the fewest lanes that hold the longest slice in registers, or the sums of products on units."""
    machine = machine or SliceMachine()
    on_units = unit_schedule(program, machine)
    if on_units is not None:
        return on_units
    dots = [op for op in program.walk() if op.name == "slice_dot"]
    neighbours = GROUP if _are_aligned(program) else 1
    if dots and machine.memory:
        lanes = _fewest_lanes(REGISTERS_OF_TILES, longest_slice(program, _factors(program)))
        # with several stages tiles are padded, which `_stages` counts
        schedule = SliceSchedule(lanes, neighbours, stages=MAX_STAGES)
        stages = (
            _stages(program, schedule, machine.memory // part, registers) for part, registers in TILE_STAGES
        )
        return replace(schedule, stages=max(stages))
    registers = REGISTERS_OF_PRODUCTS if dots else REGISTERS_ON_GPU if machine.is_gpu else REGISTERS_ON_CPU
    longest, processors = longest_slice(program, registers=registers), machine.processors
    lanes = _fewest_lanes(registers, longest)
    if not machine.is_gpu and not dots and longest <= APART:
        neighbours = 1
    if longest <= SUBGROUP_SIZE // 2 * REGISTERS_OF_SHORT and is_in_part(program):
        minimum = max(1, -(-longest // REGISTERS_OF_SHORT))
        if machine.is_gpu and neighbours == 1:
            minimum = max(minimum, min(longest, MIN_LANES))
        lanes = 1 << (minimum - 1).bit_length()
    schedule = SliceSchedule(lanes, neighbours)
    if not processors or program.grid is None or longest < WIDE or not may_share(program):
        return schedule
    return _share_rows(schedule, longest, prod(program.grid), processors)


def _fewest_lanes(registers_of: Mapping[int, int], elements: int) -> int:
    return next(
        (lanes for lanes, registers in registers_of.items() if elements <= lanes * registers), MAX_LANES
    )


# --- matrix units


def is_for_units(op: Op, schedule: SliceSchedule) -> bool:
    """Whether an op is a product for matrix units, with sums that split into whole matrices for each subgroup."""
    if (
        schedule.units == "none"
        or op.name != "slice_dot"
        or op.operands[0].type.element not in (DataType.F16, DataType.BF16)
    ):
        return False
    (rows, columns), depth = _sums_of(op), op.operands[0].type.extents[1] or 0
    return depth > 0 and depth % DEPTH == 0 and MatrixLayout.fits(rows, columns, schedule.lanes)


def factor_tile(op: Op, side: int, source: Value, schedule: SliceSchedule) -> tuple[int, int]:
    """The rows and columns of workgroup memory for a factor of a product.  `source`: the factor, or its untransposed block."""
    rows, columns = (extent or 0 for extent in source.type.extents)
    pad = PAD_BYTES // (source.type.element.size_bytes or 1)
    # lanes read along rows of the right factor, which need no padding, but down many rows of the left one
    if not is_for_units(op, schedule):
        return rows, columns + pad * (1 - side)
    is_panelled = (
        schedule.units == "warpgroups"
        and schedule.lanes % (WARPGROUP * SUBGROUP_SIZE) == 0
        and columns % PANEL == 0
    )
    if side == 0:  # warpgroups read a left factor from its tile if each subgroup has 16 rows of it
        is_panelled = (
            is_panelled and source is op.operands[0] and rows * SUBGROUP_SIZE == STRIP * schedule.lanes
        )
    return rows, columns if is_panelled else columns + pad


def _sums_of(op: Op) -> tuple[int, int]:
    rows, columns = op.result.type.extents
    return rows or 0, columns or 0


def unit_schedule(program: Program, machine: SliceMachine) -> SliceSchedule | None:
    """Return a schedule with the fewest subgroups that hold the sums of all products; None without products for units."""
    dots = [op for op in program.walk() if op.name == "slice_dot"]
    if machine.units == "none" or not dots:
        return None
    neighbours, sums_per_lane = GROUP if _are_aligned(program) else 1, dict[int, int]()
    sums = _sums_together(program)
    for subgroups in SUBGROUPS:
        schedule = SliceSchedule(subgroups * SUBGROUP_SIZE, neighbours, units=machine.units)
        if all(is_for_units(op, schedule) for op in dots):
            sums_per_lane[subgroups] = sums // schedule.lanes
    fitting = [subgroups for subgroups, count in sums_per_lane.items() if count <= MAX_SUMS]
    if not fitting:
        return None
    candidates = [each for each in fitting if each <= MAX_SUBGROUPS] or fitting[:1]
    preferred = [
        each for each in candidates if sums_per_lane[each] <= SUMS and each >= min(WARPGROUP, candidates[-1])
    ]
    schedule = SliceSchedule(
        (preferred or candidates[-1:])[0] * SUBGROUP_SIZE, neighbours, units=machine.units
    )
    return replace(schedule, stages=_stages(program, schedule, machine.memory, MAX_STAGES))


def _sums_together(program: Program) -> int:
    """The most elements of sums that are live at a time: the sum over a block, but a product may add to another's sums."""
    peak, pending = 0, [program.body]
    while pending:
        block = pending.pop()
        dots = [op for op in block.ops if op.name == "slice_dot"]
        results = {op.result for op in dots}
        peak = max(peak, sum(prod(_sums_of(op)) for op in dots if results.isdisjoint(op.operands[2:])))
        pending += [region for op in block.ops for region in op.regions]
    return peak


def _stages(program: Program, schedule: SliceSchedule, memory: int, limit: int) -> int:
    """Number of stages that fit workgroup memory, up to `limit`, beside factors from outside of loops and the strips through
    which sums leave the matrices."""
    staged_bytes, outer_bytes, widest = dict[Value, int](), dict[Value, int](), 0
    pending = [(program.body, False)]
    while pending:
        block, is_round = pending.pop()
        loaded_in_round = (
            {op.result for op in block.ops if op.name == "slice_load"} if is_round else set[Value]()
        )
        for op in block.ops:
            pending += [(region, op.name == "for") for region in op.regions]
            for side, factor in enumerate(op.operands[:2] if op.name == "slice_dot" else ()):
                source = _untransposed(factor)
                size = source.type.element.size_bytes or 1
                tile = prod(factor_tile(op, side, source, schedule)) * size
                (staged_bytes if source in loaded_in_round else outer_bytes)[source] = tile
                widest = max(widest, min(MAX_COLUMNS, _sums_of(op)[1]))
    strips = schedule.lanes // SUBGROUP_SIZE * STRIP * (widest + STRIP_PAD) * 4
    if schedule.units == "none":
        strips = 0
    else:  # computed factors go to units from registers
        outer_bytes = {source: tile for source, tile in outer_bytes.items() if _is_loaded(source)}
    stages = (memory - strips - sum(outer_bytes.values())) // max(sum(staged_bytes.values()), 1)
    return max(1, min(limit, stages))


def _untransposed(value: Value) -> Value:
    owner = value.owner
    return owner.operands[0] if isinstance(owner, Op) and owner.name == "slice_transpose" else value


def _is_loaded(value: Value) -> bool:
    return isinstance(value.owner, Op) and value.owner.name == "slice_load"


# --- rows that several workgroups share


def _share_rows(schedule: SliceSchedule, longest: int, rows: int, processors: int) -> SliceSchedule:
    """Schedule with enough workgroups a row to hold it and occupy all multiprocessors; unchanged if one is enough."""
    limit = FOLDED // (OPEN_LANES * schedule.neighbours)
    neighbours = schedule.neighbours if longest <= OPEN_LANES * limit * SHARES[limit] else 1
    limit, workgroups = FOLDED // (OPEN_LANES * neighbours), 1
    while workgroups < limit and (
        longest > OPEN_LANES * workgroups * SHARES[workgroups] or rows * workgroups * 2 <= processors
    ):
        workgroups *= 2
    if workgroups == 1 or longest > OPEN_LANES * workgroups * SHARES[workgroups]:
        return schedule
    return SliceSchedule(OPEN_LANES, neighbours, workgroups)


def may_share(program: Program) -> bool:
    """Whether clusters can share rows: sums of 4 or 8 bytes, all before any write, and no buffer both read and written."""
    if not _is_of_rows(program, {"trap"}, ("slice_gather",)):
        return False
    read_buffers: set[str] = set()
    written_buffers: set[str] = set()
    for op in program.body.ops:
        effects = op.definition.effects
        is_small = op.definition.format == "slice_reduce" and (op.operands[0].type.element.bits or 0) < 32
        if is_small or (written_buffers and op.definition.format == "slice_reduce"):
            return False
        if "read" in effects:
            read_buffers.add(op.attrs["buffer"])
        if "write" in effects:
            written_buffers.add(op.attrs["buffer"])
    return not read_buffers & written_buffers


def is_in_part(program: Program) -> bool:
    """Whether the lanes of a row exchange values by shuffles alone, so that several rows may share a subgroup."""
    return _is_of_rows(program, {"workgroup"})


def _is_of_rows(program: Program, effects: Set[str], formats: Sequence[str] = ()) -> bool:
    """Whether a program is straight-line code on rows and scalars, without ops of these effects or formats, and needs nothing of
    a whole row but reductions."""
    forbidden = {"atomic", "print", "wait", "sync", "subgroup", *effects}
    return not any(
        op.regions
        or op.definition.effects & forbidden
        or op.definition.format in ("slice_scan", "slice_transpose", "slice_dot", *formats)
        or any(len(value.type.extents) > 1 for value in (*op.operands, *op.results))
        for op in program.body.ops
    )


def _factors(program: Program) -> set[Value]:
    """Slices that are loaded only as factors of products."""
    factors = {op.result for op in program.walk() if op.name == "slice_load"}
    for op in program.walk():
        factors.difference_update(op.operands[2:] if op.name == "slice_dot" else op.operands)
    return factors


def longest_slice(
    program: Program,
    excluded: AbstractSet[Value] = frozenset(),
    registers: Mapping[int, int] = REGISTERS,
) -> int:
    """Elements of the longest slice of a program that is not in `excluded`; an open row counts as what it may have, or
    OPEN_LANES lanes hold."""
    longest, known = 0, asserted_lengths(program)
    for op in program.walk():
        if not op.definition.format.startswith("slice_") or not op.results or op.result in excluded:
            continue
        extents = op.result.type.extents
        if op.name == "slice_load":
            name, shape = op.attrs["buffer"], program.buffers[op.attrs["buffer"]].shape
            first = len(shape) - len(extents)
            most = (known.get(Row(name, axis), Bounds()).most for axis in range(first, len(shape)))
            extents = tuple(
                next((each for each in known_extents if each is not None), None)
                for known_extents in zip(extents, shape[first:], most, strict=True)
            )
        if None not in extents:
            longest = max(longest, prod(extent or 0 for extent in extents))
        elif op.name == "slice_load":
            longest = max(longest, OPEN_LANES * registers[OPEN_LANES])
    return longest


def _are_aligned(program: Program) -> bool:
    """Whether GROUP adjacent elements of each slice are an aligned vector of a buffer."""
    alignment = Alignment(program)
    for op in program.walk():
        if op.definition.format not in ("slice_load", "slice_store"):
            continue
        rows = program.buffers[op.attrs["buffer"]].shape[1:]
        if (rows and (rows[-1] or 1) % GROUP) or 1 << alignment.of(op.indices[-1]) < GROUP:
            return False
    return True


def with_open_extents(program: Program, shapes: Mapping[str, Shape]) -> dict[str, Shape]:
    """Shapes of buffers with a call's lengths along open extents of slices.

    In a program with products also with the lengths of rows of blocks, which decide the alignment of copies."""
    fixed_shapes: dict[str, Shape] = {}
    has_products = any(op.name == "slice_dot" for op in program.walk())
    for op in program.walk():
        if op.definition.format not in ("slice_load", "slice_store"):
            continue
        name = op.attrs["buffer"]
        extents = (op.operands[0] if op.name == "slice_store" else op.result).type.extents
        buffer = program.buffers[name]
        shape = list(fixed_shapes.get(name, buffer.shape))
        first = len(shape) - len(extents)
        for axis, extent in enumerate(extents):
            length = shapes[name][first + axis] if name in shapes else None
            is_open = extent is None and constant_value(op.indices[first + axis]) is not None
            if length is not None and (is_open or (has_products and axis == 1)):
                shape[first + axis] = length
        if shape != [*buffer.shape]:
            fixed_shapes[name] = tuple(shape)
    return fixed_shapes
