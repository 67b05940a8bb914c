"""Work of a launch: bytes of memory, arithmetic, and bytes that a lane has in flight.

Bytes count each element that the launch touches once: the traffic of memory behind perfect caches.  Bytes and arithmetic
are those of the original program; `LaneAccesses` are those of the rewritten program that runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property
from math import prod

from ..analysis.footprint import Footprints
from ..analysis.touched import Touched, touched
from ..execution.params import value_of_word
from ..execution.plans.steps import LaunchStep
from ..fusion.bound_program import BoundPrograms
from ..ir.access_extents import moved_type
from ..ir.grids import lengths_by_dimension
from ..ir.loops import trip_count
from ..ir.ops import SUBGROUP_SIZE
from ..ir.pipeline import Launch, LaunchParam
from ..ir.program import AccessMode, Block, Buffer, Module, Op, Program, Value
from ..ir.types import DataType
from ..records import dataclass

__all__ = ["LaneAccesses", "LaunchWork", "launch_work"]

_ARITHMETIC = ("unary", "binary", "ternary", "reduce", "matrix_mul_add")
MOST_OPERATIONS = 1 << 100
_ACCESSES = ("load", "store", "matrix_load", "matrix_store", "atomic")


@dataclass(frozen=True, slots=True)
class LaneAccesses:
    """Memory accesses of a lane.

    `loads`, `stores`: sizes of accesses in bytes, largest first.  `in_flight`: the most bytes of independent loads, which
    the lane requests before it waits for one.
    """

    loads: tuple[int, ...]
    stores: tuple[int, ...]
    in_flight: int


@dataclass(frozen=True)
class LaunchWork:
    """`reads`, `writes`: elements by the names of the program's buffers; `sizes`: bytes of an element.

    `operations`: float operations of all invocations, by unit: a type, or `matrix` and a type.  `is_counted`: False if a
    loop has an unknown trip count; it then counts once.
    """

    invocations: int
    reads: Mapping[str, Touched]
    writes: Mapping[str, Touched]
    sizes: Mapping[str, int]
    operations: Mapping[str, int]
    is_counted: bool
    lane: LaneAccesses

    def bytes_of(self, touched_by_name: Mapping[str, Touched]) -> int:
        return sum(self.sizes[name] * each.elements for name, each in touched_by_name.items())

    @cached_property
    def moved(self) -> int:
        """Bytes read and written."""
        return self.bytes_of(self.reads) + self.bytes_of(self.writes)

    @property
    def is_exact(self) -> bool:
        """Whether `moved` is exact; otherwise it is an upper bound."""
        return all(each.is_exact for each in (*self.reads.values(), *self.writes.values()))


def launch_work(
    step: LaunchStep, buffers: Mapping[str, Buffer], params: Mapping[str, int], module: Module
) -> LaunchWork:
    """The work of a launch of a plan.  `params`: words of the plan's runtime scalars, as far as they are known."""
    program = _bind(step.original or step, buffers, params)
    footprints = Footprints(program)
    reads: dict[str, Touched] = {}
    writes: dict[str, Touched] = {}
    for buffer in _in_memory(program):
        accesses, shape = footprints.accesses(buffer.name), [extent or 0 for extent in buffer.shape]
        for touched_by_name, selected in (
            (
                reads,
                [
                    per_invocation
                    for per_invocation in accesses
                    if per_invocation.is_atomic or not per_invocation.is_write
                ],
            ),
            (writes, [per_invocation for per_invocation in accesses if per_invocation.is_write]),
        ):
            if selected:
                touched_by_name[buffer.name] = touched(footprints, selected, shape)
        if footprints.kernels and buffer.access is not AccessMode.WRITE:
            reads[buffer.name] = Touched(prod(shape), is_exact=False)
        if footprints.kernels and buffer.access is not AccessMode.READ:
            writes[buffer.name] = Touched(prod(shape), is_exact=False)
    sizes = {buffer.name: buffer.dtype.element_bytes or 0 for buffer in _in_memory(program)}
    trips = {
        per_invocation.symbol.identity: per_invocation.max_trips
        for per_invocation in footprints.affine.counters.values()
    }
    counter = _Arithmetic(module, trips, not footprints.kernels)
    invocations = prod(program.grid or (1,)) * program.lanes
    per_invocation = counter.block(program.body)
    operations = {unit: min(count * invocations, MOST_OPERATIONS) for unit, count in per_invocation.items()}
    lane = _lane_accesses(step.program)
    return LaunchWork(invocations, reads, writes, sizes, operations, counter.is_counted, lane)


def _in_memory(program: Program) -> Iterator[Buffer]:
    return (buffer for buffer in program.buffers.values() if not buffer.is_workgroup)


def _bind(step: LaunchStep, buffers: Mapping[str, Buffer], params: Mapping[str, int]) -> Program:
    """The program with the lengths, integer params and grid of a launch."""
    program = step.program
    bound = zip(program.bound_buffers, step.buffers, strict=True)
    # a program with a buffer of one dimension takes all rows of a matrix as one
    shapes = {
        formal.name: buffers[name].shape if formal.dimensions > 1 else (buffers[name].count,)
        for formal, name in bound
    }
    lengths = {
        key: length
        for name in step.buffers
        for key, length in {
            name: buffers[name].count,
            **lengths_by_dimension(name, buffers[name].shape),
        }.items()
    }
    numbers: dict[str, LaunchParam] = {}
    for name, word in zip(sorted(program.params), step.params, strict=True):
        value = params.get(word) if isinstance(word, str) else word
        is_known = value is not None and program.params[name].dtype.is_int
        numbers[name] = ("int", str(value_of_word(value or 0, program.params[name]))) if is_known else name
    launch = Launch(program.name, step.grid, step.buffers, params=numbers)
    bound_program = BoundPrograms().of(program, launch, lengths).program
    shaped = {name: replace(program.buffers[name], shape=shape, sizes=()) for name, shape in shapes.items()}
    return replace(bound_program, grid=step.grid, buffers=bound_program.buffers | shaped)


@dataclass
class _Arithmetic:
    """Counts float operations of an invocation.  `trips`: loop -> most iterations; `is_counted`: see `LaunchWork`."""

    module: Module
    trips: Mapping[object, int]
    is_counted: bool
    _functions: dict[str, Counter[str]] = field(default_factory=dict)

    def block(self, block: Block) -> Counter[str]:
        return sum(map(self.op, block.ops), Counter())

    def op(self, op: Op) -> Counter[str]:
        if op.name == "call":
            name = op.attrs["callee"]
            if name not in self._functions:
                self._functions[name] = self.block(self.module.funcs[name].body)
            return self._functions[name]
        arms = [self.block(region) for region in op.regions]
        if op.name == "if":
            return arms[0] | arms[1] if len(arms) > 1 else arms[0]
        if op.name in ("for", "while"):
            times = self.times(op)
            return Counter({unit: times * n for unit, n in sum(arms, Counter()).items()})
        if op.regions:
            return sum(arms, Counter())
        return _operations(op)

    def times(self, loop: Op) -> int:
        """The most iterations of a loop in any invocation; 1 if unknown."""
        count = trip_count(loop) if loop.name == "for" else None
        count = self.trips.get(loop) if count is None else count
        self.is_counted = self.is_counted and count is not None
        return 1 if count is None else count


def _operations(op: Op) -> Counter[str]:
    if op.definition.format not in _ARITHMETIC:
        return Counter()
    dtype: DataType = op.results[0].type
    if dtype.is_matrix:
        factor, other = op.operands[0].type, op.operands[1].type
        products = factor.shape[0] * factor.shape[1] * other.shape[1]
        return Counter({f"matrix {factor.element.name}": 2 * products // SUBGROUP_SIZE})
    if not dtype.element.is_float:
        return Counter()
    return Counter({dtype.element.name: dtype.lanes * (2 if op.name == "fma" else 1)})


def _lane_accesses(program: Program) -> LaneAccesses:
    names = {buffer.name for buffer in _in_memory(program)}
    loads: set[int] = set()
    stores: set[int] = set()
    for op in program.walk():
        is_access = op.definition.format in _ACCESSES
        if is_access and op.attrs["buffer"] in names:
            is_read = op.definition.format.endswith("load")
            (loads if is_read else stores).add(moved_type(op).size_bytes or 0)
    in_flight = _in_flight(program.body, names)
    return LaneAccesses(tuple(sorted(loads, reverse=True)), tuple(sorted(stores, reverse=True)), in_flight)


def _in_flight(block: Block, names: set[str]) -> int:
    """The most bytes of loads in a block that do not depend on each other."""
    rounds: dict[Value, int] = {}
    round_bytes: Counter[int] = Counter()
    most = 0
    for op in block.ops:
        most = max([most, *(_in_flight(region, names) for region in op.regions)])
        round = max((rounds.get(operand, 0) for operand in op.operands), default=0)
        if op.definition.format in ("load", "matrix_load") and op.attrs["buffer"] in names:
            round_bytes[round] += moved_type(op).size_bytes or 0
            round += 1
        rounds |= dict.fromkeys(op.results, round)
    return max([most, *round_bytes.values()])
