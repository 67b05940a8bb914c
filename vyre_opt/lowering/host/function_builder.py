"""The state shared while the host function is written: buffers, stack slots, masks and fault exits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any

from ...ir.ops import SUBGROUP_SIZE
from ...ir.program import MAX_DIMENSIONS, Op, Program, Value
from ...records import dataclass
from ..common.lane_shape import SCALAR, LaneShape
from ..common.llvm_text import ModuleText, Writer
from .abi import PATIENCE, ROUNDS_WORD, STOP_WORD, YIELD_WORD
from .lane_facts import LaneFacts
from .lane_major_layout import LaneMajorLayout
from .loop_tiles import LoopTiles

__all__ = ["ALL", "FLAGS", "WIDE", "SimdFeatures", "FunctionBuilder", "is_literal"]

WIDE = LaneShape(SUBGROUP_SIZE)
"""A vector with a value for each lane of a subgroup."""

ALL = WIDE.splat("i1", "true")
FLAGS = WIDE.of("i1")


@dataclass(frozen=True, slots=True)
class SimdFeatures:
    """The operations for which the host's vector unit has instructions.

    `masked_moves`, `gathers`, `scatters`: element widths in bits.  `half`: conversions of f16.
    `arithmetic`: the `target` of `elementwise.apply`.  `shuffled_bytes`: of the longest vector that pshufb takes, 0
    without it; `has_vpermb`: whether vpermb takes 64 bytes; `has_tbl`: whether there is AArch64's tbl;
    `register_bytes`: of a vector register.
    """

    masked_moves: frozenset[int] = frozenset()
    gathers: frozenset[int] = frozenset()
    scatters: frozenset[int] = frozenset()
    half: bool = True
    arithmetic: str = "host"
    shuffled_bytes: int = 0
    has_vpermb: bool = False
    has_tbl: bool = False
    register_bytes: int = 16


def is_literal(value: str) -> bool:
    return not value.startswith("%")


@dataclass(slots=True, eq=False)
class FunctionBuilder:
    """Builds the function that runs the workgroups `%first` to `%last` of a dispatch.

    `%zero` is a 0 that LLVM cannot know.  All lane ids are computed from it, so that i1 vectors are
    never constants: LLVM 22 miscompiles shuffles of constant ones on AVX-512.

    `params`: the LLVM name of the word (i64) of each runtime scalar.
    `pointers` and `counts`: by buffer name, LLVM names or numbers.  `numbers`: of the ops in
    `Program.walk()`; `weights`: see outline.py.  Names of what is being run: `linear`, the subgroup's
    first linear local id (i32); `group`, the workgroup's linear id (i64); `group_ids`, its id along
    x, y and z (i32); `extents`, the grid's size along them (i32); `context`, its part of the scratch memory (ptr).
    `totals`: atomics whose operands are combined in a stack slot, see memory.py.
    `tiles`: see loop_tiles.py.  `fetches_ahead`: whether loads begin to fetch what is next in memory.
    `has_plain_loops`: whether LLVM leaves the program's loops as they are, which takes less time to compile.
    """

    program: Program
    facts: LaneFacts
    specs: Mapping[str, Any]
    params: Mapping[str, str]
    module: ModuleText
    features: SimdFeatures
    layout: LaneMajorLayout
    pointers: dict[str, str]
    counts: dict[str, str]
    numbers: dict[Op, int]
    weights: dict[Op, int]
    extents: tuple[str, str, str] = ("%gx", "%gy", "%gz")
    linear: str = "%zero"
    group: str = "%group"
    group_ids: tuple[str, str, str] = ("0", "0", "0")
    context: str = "%scratch"
    tiles: LoopTiles = field(default_factory=dict)
    totals: dict[Op, str] = field(default_factory=dict)
    fetches_ahead: bool = False
    has_plain_loops: bool = False
    slots: list[str] = field(default_factory=list)
    unused_slots: dict[str, list[str]] = field(default_factory=dict)
    last_uses: dict[Value, int] = field(default_factory=dict)
    w: Writer = field(init=False)
    rows: LaneShape = field(init=False)

    def __post_init__(self) -> None:
        self.w = Writer(self.module)
        self.w.at(self.program.loc)
        self.rows = LaneShape(SUBGROUP_SIZE // self.facts.row) if self.facts.has_rows else WIDE

    def shape(self, value: Value) -> LaneShape:
        """The shape in which `value` is held: its value in lane 0, in the first lane of each row, or in all lanes."""
        if self.facts.stride(value) is not None:
            return SCALAR
        return self.rows if self.facts.row_stride(value) is not None else WIDE

    def last_use(self, value: Value) -> int:
        """The number of the last op with `value` as an operand; -1 for an unused value."""
        if not self.last_uses:
            self.last_uses.update((operand, n) for op, n in self.numbers.items() for operand in op.operands)
        return self.last_uses.get(value, -1)

    def slot(self, kind: str) -> str:
        """A new stack slot for a value of an LLVM type."""
        name = self.w.fresh("slot")
        self.slots.append(f"  {name} = alloca {kind}")
        return name

    def borrow_slot(self, kind: str) -> str:
        """A stack slot to be given back by `return_slots`: frames must not grow with the length of a program."""
        unused = self.unused_slots.get(kind)
        return unused.pop() if unused else self.slot(kind)

    def return_slots(self, slots: Iterable[tuple[str, str]]) -> None:
        """Let others borrow slots; each is given with its type."""
        for kind, slot in slots:
            self.unused_slots.setdefault(kind, []).append(slot)

    def load(self, kind: str, slot: str) -> str:
        return self.w.emit(f"load {kind}, ptr {slot}")

    def store(self, kind: str, value: str, slot: str) -> None:
        self.w.line(f"store {kind} {value}, ptr {slot}")

    @contextmanager
    def each_part(self, count: int) -> Iterator[str]:
        """A loop over the parts of a value in memory, which LLVM does not unroll; yields the part's number."""
        zero = self.w.emit("zext i32 %zero to i64")
        with self.counting("part", "i64", "0", self.w.emit(f"add i64 {zero}, {count}")) as number:
            yield number

    @contextmanager
    def counting(
        self, name: str, kind: str, first: str, last: str, step: int = 1, *, is_plain: bool = False
    ) -> Iterator[str]:
        """A loop whose counter goes from `first` up to `last`, which must be larger; yields the counter.

        `is_plain`: LLVM leaves the loop as it is, which takes less time to compile.
        """
        w, slot = self.w, self.slot(kind)
        self.store(kind, first, slot)
        body, end = w.label(name), w.label(f"end{name}")
        w.fall_into(body)
        counter = self.load(kind, slot)
        yield counter
        next_value = w.emit(f"add {kind} {counter}, {step}")
        self.store(kind, next_value, slot)
        note = f", !llvm.loop {self.module.plain_loop()}" if is_plain else ""
        w.branch_if(w.emit(f"icmp ult {kind} {next_value}, {last}"), body, end + note)
        w.start(end)

    def fault(self, op: Op, lane: str, *indices: str) -> None:
        """Record that `op` faulted in `lane` of the subgroup (i64), with indices (i64), and return; ends the block."""
        w = self.w
        base = w.emit(f"zext i32 {self.linear} to i64")
        local = w.emit(f"add i64 {base}, {lane}")
        words = (*indices, *["0"] * (MAX_DIMENSIONS - len(indices)))
        index = ", ".join(f"i64 {word}" for word in words)
        where = f"i64 {self.numbers[op]}, i64 {self.group}, i64 {local}, {index}"
        w.line(f"call void @vyre.fault(ptr %status, {where})")
        w.branch("exit")

    def exit_if_stopped(self, loop: Op) -> None:
        """Written into each round of a loop with atomics, which may be waiting for another workgroup.

        Exits if the run is being given up, and now and then yields the CPU: the other workgroup may
        have faulted, or its thread may have no CPU.
        """
        if not any("atomic" in op.definition.effects for op in loop.walk()):
            return
        w = self.w
        running, continuing, yields = w.label("going"), w.label("patient"), w.label("yields")
        stop_address, rounds_address, yield_address = (
            w.emit(f"getelementptr i64, ptr %status, i64 {word}")
            for word in (STOP_WORD, ROUNDS_WORD, YIELD_WORD)
        )
        word = w.emit(f"load ptr, ptr {stop_address}")
        # Relaxed: no data is read on the strength of this word
        stop = w.emit(f"load atomic i64, ptr {word} monotonic, align 8")
        w.branch_if(w.emit(f"icmp ne i64 {stop}, 0"), "exit", running)
        w.start(running)
        count = w.emit(f"add i64 {w.emit(f'load i64, ptr {rounds_address}')}, 1")
        w.line(f"store i64 {count}, ptr {rounds_address}")
        remainder = w.emit(f"urem i64 {count}, {PATIENCE}")
        w.branch_if(w.emit(f"icmp eq i64 {remainder}, 0"), yields, continuing)
        w.start(yields)
        w.emit(f"call i32 {w.emit(f'load ptr, ptr {yield_address}')}()")
        w.fall_into(continuing)

    def splat(self, kind: str, value: str, shape: LaneShape = WIDE) -> str:
        """The vector with a scalar of an LLVM type in every lane."""
        if is_literal(value):
            return f"splat ({kind} {value})"
        wide, w = shape.of(kind), self.w
        first = w.emit(f"insertelement {wide} poison, {kind} {value}, i64 0")
        return w.emit(f"shufflevector {wide} {first}, {wide} poison, {shape.of('i32')} zeroinitializer")

    def of_rows(self, kind: str, value: str) -> list[str]:
        """The elements of a vector that has one for each row."""
        wide = self.rows.of(kind)
        return [
            self.w.emit(f"extractelement {wide} {value}, i64 {number}") for number in range(self.rows.lanes)
        ]

    def shuffle(
        self, kind: str, lanes: int, values: tuple[str, str] | tuple[str], order: Iterable[int]
    ) -> str:
        """The lanes of one or two vectors of so many lanes in a new order."""
        wide = f"<{lanes} x {kind}>"
        mask = [f"i32 {lane}" for lane in order]
        first, second = (*values, "poison")[:2]
        return self.w.emit(
            f"shufflevector {wide} {first}, {wide} {second}, <{len(mask)} x i32> <{', '.join(mask)}>"
        )

    def concatenate(self, kind: str, lanes: int, vectors: Sequence[str]) -> str:
        """Vectors of so many lanes one after the other; filled up to a power of two of them with poison."""
        vectors = list(vectors)
        while len(vectors) & (len(vectors) - 1):  # joining in pairs needs a power of two
            vectors.append("poison")
        while len(vectors) > 1:
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            vectors = [self.shuffle(kind, lanes, pair, range(2 * lanes)) for pair in pairs]
            lanes *= 2
        return vectors[0]

    def lane_indices(self, base: str = "%zero", shape: LaneShape = WIDE) -> str:
        """base + 0, base + 1, ..., as i32; of the first lanes of rows alone, in their shape."""
        numbers = ", ".join(f"i32 {lane}" for lane in range(0, SUBGROUP_SIZE, SUBGROUP_SIZE // shape.lanes))
        return self.w.emit(f"add {shape.of('i32')} {self.splat('i32', base, shape)}, <{numbers}>")

    def mask_bits(self, flags: str) -> str:
        """An i1 vector as the bits of an i32, lane 0 lowest."""
        if flags == ALL:
            return "-1"
        return self.w.emit(f"bitcast {FLAGS} {flags} to i32")

    def any_lane(self, flags: str) -> str:
        return self.w.emit(f"icmp ne i32 {self.mask_bits(flags)}, 0")

    def first_lane(self, bits: str) -> str:
        """The lowest lane whose bit is set, as an i64."""
        lane = self.w.call("llvm.cttz.i32", "i32", [("i32", bits), ("i1", "false")])
        return self.w.emit(f"zext i32 {lane} to i64")

    def mask_and(self, mask: str | None, flags: str) -> str:
        """The lanes of `mask` with `flags`.  A select and not an `and`: `flags` may be poison elsewhere."""
        if mask is None:
            return flags
        return self.w.emit(f"select {FLAGS} {mask}, {FLAGS} {flags}, {FLAGS} zeroinitializer")

    def mask_and_not(self, mask: str | None, flags: str) -> str:
        """The lanes of `mask` without `flags`."""
        return self.mask_and(mask, self.w.emit(f"xor {FLAGS} {flags}, {ALL}"))

    def blend(self, mask: str | None, kind: str, new: str, old: str) -> str:
        """`new` in the lanes of `mask`, `old` in the others; `kind` is an element type."""
        if mask is None or new == old:
            return new
        wide = WIDE.of(kind)
        return self.w.emit(f"select {FLAGS} {mask}, {wide} {new}, {wide} {old}")
