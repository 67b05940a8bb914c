"""What all parts of a host function share: its writer, buffers, stack slots and fault exits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..ir.ops import SUBGROUP_SIZE
from ..ir.program import Op, Program
from .host_facts import Facts
from .shape import Shape
from .text import ModuleText, Writer

__all__ = ["ALL", "FLAGS", "WIDE", "Features", "Frame", "is_literal"]

WIDE = Shape(SUBGROUP_SIZE)
"""A value in every lane of a chunk."""

ALL = WIDE.splat("i1", "true")
FLAGS = WIDE.of("i1")
_LANE_NUMBERS = "<" + ", ".join(f"i32 {lane}" for lane in range(SUBGROUP_SIZE)) + ">"


@dataclass(frozen=True, slots=True)
class Features:
    """What the host's vector unit does at once, by element widths in bits; `half`: converts f16."""

    masked_moves: frozenset[int] = frozenset()
    gathers: frozenset[int] = frozenset()
    scatters: frozenset[int] = frozenset()
    half: bool = True


def is_literal(value: str) -> bool:
    return not value.startswith("%")


@dataclass(slots=True, eq=False)
class Frame:
    """The function that runs workgroups `%first` to `%last` of a dispatch.

    `%zero` is a 0 that LLVM does not know of.  What lanes know of their place starts from it, so
    that flags for each lane are never constants: LLVM 22 gets shuffles of those wrong on AVX-512.

    `linear` is the chunk's first linear local id (i32); `group` the workgroup's linear
    number (i64), `group_ids` its place along x, y, z (i32), `extents` the grid's (i32).
    """

    program: Program
    facts: Facts
    specs: Mapping[str, Any]
    module: ModuleText
    features: Features
    pointers: dict[str, str]
    counts: dict[str, str]
    w: Writer
    numbers: dict[Op, int]
    extents: tuple[str, str, str] = ("%gx", "%gy", "%gz")
    linear: str = "%zero"
    group: str = "%group"
    group_ids: tuple[str, str, str] = ("0", "0", "0")
    slots: list[str] = field(default_factory=list)

    def slot(self, kind: str) -> str:
        """Room on the stack for a value of an LLVM type."""
        name = self.w.fresh("slot")
        self.slots.append(f"  {name} = alloca {kind}")
        return name

    def load(self, kind: str, slot: str) -> str:
        return self.w.emit(f"load {kind}, ptr {slot}")

    def store(self, kind: str, value: str, slot: str) -> None:
        self.w.line(f"store {kind} {value}, ptr {slot}")

    def fault(self, op: Op, lane: str, index: str = "0") -> None:
        """Note that `op` is at fault in `lane` (i64, of the chunk) and leave; ends the block."""
        w = self.w
        base = w.emit(f"zext i32 {self.linear} to i64")
        local = w.emit(f"add i64 {base}, {lane}")
        number = self.numbers[op]
        w.line(
            f"call void @vyre.fault(ptr %status, i64 {number}, i64 {self.group}, i64 {local}, i64 {index})"
        )
        w.branch("exit")

    def splat(self, kind: str, value: str) -> str:
        """A scalar of an LLVM type in every lane."""
        if is_literal(value):
            return f"splat ({kind} {value})"
        wide, w = WIDE.of(kind), self.w
        first = w.emit(f"insertelement {wide} poison, {kind} {value}, i64 0")
        return w.emit(f"shufflevector {wide} {first}, {wide} poison, {WIDE.of('i32')} zeroinitializer")

    def lane_numbers(self, base: str = "%zero") -> str:
        """base + 0, base + 1, ..., as i32."""
        return self.w.emit(f"add {WIDE.of('i32')} {self.splat('i32', base)}, {_LANE_NUMBERS}")

    def bits(self, flags: str) -> str:
        """A flag for each lane as an i32, lane 0 lowest."""
        if flags == ALL:
            return "-1"
        return self.w.emit(f"bitcast {FLAGS} {flags} to i32")

    def any(self, flags: str) -> str:
        return self.w.emit(f"icmp ne i32 {self.bits(flags)}, 0")

    def first_lane(self, bits: str) -> str:
        """The lowest lane whose bit is set, as an i64."""
        found = self.w.call("llvm.cttz.i32", "i32", [("i32", bits), ("i1", "false")])
        return self.w.emit(f"zext i32 {found} to i64")

    def both(self, mask: str | None, flags: str) -> str:
        """`flags` in the lanes of `mask`; what the others hold, poison even, is masked away."""
        if mask is None:
            return flags
        return self.w.emit(f"select {FLAGS} {mask}, {FLAGS} {flags}, {FLAGS} zeroinitializer")

    def neither(self, mask: str | None, flags: str) -> str:
        """The lanes of `mask` without those of `flags`."""
        return self.both(mask, self.w.emit(f"xor {FLAGS} {flags}, {ALL}"))

    def blend(self, mask: str | None, kind: str, new: str, old: str) -> str:
        """`new` in the lanes of `mask`, `old` in the others; `kind` is an element type."""
        if mask is None or new == old:
            return new
        wide = WIDE.of(kind)
        return self.w.emit(f"select {FLAGS} {mask}, {wide} {new}, {wide} {old}")
