"""`permute` in whole registers: for each byte of an index the byte of a table at that index, 0 beyond the table.

A chunk has the vectors of some lanes, one after the other.  What the machine has decides how it is written:

    constant index    a shufflevector, for which LLVM finds the instructions
    vpermb            up to 64 bytes of table in a register: one instruction, and a mask for an index that is too large
    pshufb            16 bytes of table for each 16 bytes of index: one instruction for each 16 entries of a table.
                      A byte of index from 128 on gives 0, so adding 112, saturated, gives 0 for all from 16 on
    tbl               of AArch64: 16 bytes of index, up to 64 bytes of table, and 0 for all beyond
    none of these     a loop over the bytes
"""

from __future__ import annotations

from collections.abc import Sequence

from ...records import dataclass
from .function_builder import FunctionBuilder

__all__ = ["ByteShuffle"]

SECTION = 16
"""The bytes among which pshufb moves: a vector that is longer has several such sections."""

_PSHUFB = {16: "ssse3.pshuf.b.128", 32: "avx2.pshuf.b", 64: "avx512.pshuf.b.512"}

_LOOP = """define internal {kind} @{name}({tables} %table, {kind} %index) noinline nounwind {{
entry:
  %tables = alloca {tables}
  %places = alloca {kind}
  %found = alloca {kind}
  store {tables} %table, ptr %tables
  store {kind} %index, ptr %places
  br label %byte
byte:
  %number = phi i64 [ 0, %entry ], [ %next, %byte ]
  %place.at = getelementptr i8, ptr %places, i64 %number
  %place = load i8, ptr %place.at
  %wide = zext i8 %place to i64
  %inside = icmp ult i64 %wide, {entries}
  %lane = udiv i64 %number, {indices}
  %start = mul i64 %lane, {stride}
  %own = add i64 %start, %wide
  %at = select i1 %inside, i64 %own, i64 0
  %from = getelementptr i8, ptr %tables, i64 %at
  %entry.byte = load i8, ptr %from
  %result = select i1 %inside, i8 %entry.byte, i8 0
  %to = getelementptr i8, ptr %found, i64 %number
  store i8 %result, ptr %to
  %next = add i64 %number, 1
  %more = icmp ult i64 %next, {count}
  br i1 %more, label %byte, label %done
done:
  %all = load {kind}, ptr %found
  ret {kind} %all
}}"""
"""Its tables and indices are those of all lanes of a chunk."""


@dataclass(frozen=True, slots=True)
class ByteShuffle:
    """Writes permutes of a chunk.

    `lanes`: of a chunk; each has a table of `entries` bytes and an index of `indices` bytes.  `one_table`: a chunk of
    tables is one table, for all lanes.  `is_inside`: no byte of an index is `entries` or more.
    """

    builder: FunctionBuilder
    lanes: int
    entries: int
    indices: int
    one_table: bool
    is_inside: bool

    def write(self, table: str, index: str) -> str:
        """The result, as long as the index."""
        if self.builder.features.has_tbl:
            return self._by_sections(table, index, SECTION)
        if self.builder.features.shuffled_bytes == 0:
            return self._by_loop(table, index)
        if self._reach() <= 64 and self.entries > SECTION and self.builder.features.has_vpermb:
            return self._by_vpermb(table, index)
        if self.entries > SECTION:
            return self._by_function(table, index)
        return self._by_sections(table, index, self.builder.features.shuffled_bytes)

    def write_constant(self, table: str, index: Sequence[int]) -> str:
        """The result for an index that is the same in all lanes and known now."""
        total = self.entries * (1 if self.one_table else self.lanes)
        starts = [0 if self.one_table else lane * self.entries for lane in range(self.lanes)]
        return self._taken(
            table, total, [start + at if at < self.entries else total for start in starts for at in index]
        )

    # --- vpermb

    def _room(self) -> int:
        """The bytes that each table takes in a register."""
        return 1 << (self.entries - 1).bit_length()

    def _reach(self) -> int:
        """The bytes of the register that holds all tables of a chunk."""
        return max(self._room() * (1 if self.one_table else self.lanes), self.lanes * self.indices)

    def _by_vpermb(self, table: str, index: str) -> str:
        w, room, count = self.builder.w, self._room(), self.lanes * self.indices
        tables = 1 if self.one_table else self.lanes
        padded = self._spread(table, tables, self.entries, room, 64)
        at = index
        if not self.one_table:  # an index that is too large may not reach the next lane's table, or beyond 64
            if not self.is_inside:
                at = w.emit(f"and <{count} x i8> {at}, splat (i8 {room - 1})")
            starts = [lane * room for lane in range(self.lanes) for _ in range(self.indices)]
            at = w.emit(f"or <{count} x i8> {at}, {_bytes(starts)}")
        at = self._spread(at, 1, count, count, 64)
        kind = "<64 x i8>"
        moved = w.call("llvm.x86.avx512.permvar.qi.512", kind, [(kind, padded), (kind, at)])
        result = self._taken(moved, 64, range(count))
        if self.is_inside:
            return result
        return self._zeroed(index, result)

    def _zeroed(self, index: str, result: str) -> str:
        """0 where the index is too large."""
        kind = f"<{self.lanes * self.indices} x i8>"
        inside = self.builder.w.emit(f"icmp ult {kind} {index}, splat (i8 {self.entries})")
        flags = f"<{self.lanes * self.indices} x i1>"
        return self.builder.w.emit(f"select {flags} {inside}, {kind} {result}, {kind} zeroinitializer")

    # --- pshufb and tbl

    def _by_sections(self, table: str, index: str, longest: int) -> str:
        """Shuffle in pieces of a register, of up to `longest` bytes; each lane's index begins a section."""
        padded_indices = -(-self.indices // SECTION) * SECTION
        total = self.lanes * padded_indices
        width = min(longest, 1 << (total - 1).bit_length())
        whole = -(-total // width) * width
        padded = self._spread(index, self.lanes, self.indices, padded_indices, whole)
        pieces = []
        for start in range(0, whole, width):
            piece = self._taken(padded, whole, range(start, start + width))
            lanes = [min(at // padded_indices, self.lanes - 1) for at in range(start, start + width, SECTION)]
            piece_of = self._by_tbl if self.builder.features.has_tbl else self._by_pshufb
            pieces.append(piece_of(table, piece, lanes))
        result = self.builder.concatenate("i8", width, pieces)
        joined = width << (len(pieces) - 1).bit_length()
        order = [lane * padded_indices + at for lane in range(self.lanes) for at in range(self.indices)]
        return self._taken(result, joined, order)

    def _by_function(self, table: str, index: str) -> str:
        """A call of what pshufb does for longer tables, which is too much code to be written for each chunk."""
        w, module = self.builder.w, self.builder.module
        tables, count = self.entries * (1 if self.one_table else self.lanes), self.lanes * self.indices
        kinds = f"<{tables} x i8>", f"<{count} x i8>"
        name = f"vyre.permute.{self.lanes}.{self.entries}.{self.indices}" + ".one" * self.one_table
        if not module.defines(name):
            lines = len(w.lines)
            result = self._by_sections("%table", "%index", self.builder.features.shuffled_bytes)
            body = w.lines[lines:]
            del w.lines[lines:]
            head = f"define internal {kinds[1]} @{name}({kinds[0]} %table, {kinds[1]} %index) noinline nounwind {{"
            module.define(name, "\n".join([head, *body, f"  ret {kinds[1]} {result}", "}"]))
        return w.emit(f"call {kinds[1]} @{name}({kinds[0]} {table}, {kinds[1]} {index})")

    def _by_tbl(self, table: str, index: str, lanes: Sequence[int]) -> str:
        """The bytes of one register, which is one section of one lane."""
        groups = [self._section(table, lanes, first) for first in range(0, self.entries, SECTION)]
        kind = "<16 x i8>"
        name = f"llvm.aarch64.neon.tbl{len(groups)}.v16i8"
        return self.builder.w.call(name, kind, [*((kind, group) for group in groups), (kind, index)])

    def _by_pshufb(self, table: str, index: str, lanes: Sequence[int]) -> str:
        """The bytes of one register, whose sections are of these lanes."""
        w, width = self.builder.w, len(lanes) * SECTION
        kind = f"<{width} x i8>"
        result = ""
        for first in range(0, self.entries, SECTION):
            at = w.emit(f"sub {kind} {index}, splat (i8 {first})") if first else index
            if not (self.is_inside and self.entries <= SECTION):
                args = [(kind, at), (kind, "splat (i8 112)")]
                at = w.call(f"llvm.uadd.sat.v{width}i8", kind, args)
            group = self._section(table, lanes, first)
            bytes_of_group = w.call(f"llvm.x86.{_PSHUFB[width]}", kind, [(kind, group), (kind, at)])
            result = w.emit(f"or {kind} {result}, {bytes_of_group}") if result else bytes_of_group
        return result

    def _section(self, table: str, lanes: Sequence[int], first: int) -> str:
        """Table of 16 entries of each section's lane from `first` on, with zeros behind its end."""
        total = self.entries * (1 if self.one_table else self.lanes)
        order = []
        for lane in lanes:
            start = 0 if self.one_table else lane * self.entries
            entries = range(first, first + SECTION)
            order += [start + entry if entry < self.entries else total for entry in entries]
        return self._taken(table, total, order)

    # --- without either

    def _by_loop(self, table: str, index: str) -> str:
        """A call of a loop over the bytes: written out, 64 entries would be thousands of instructions."""
        tables, count = self.entries * (1 if self.one_table else self.lanes), self.lanes * self.indices
        name = f"vyre.permute.bytes.{self.lanes}.{self.entries}.{self.indices}" + ".one" * self.one_table
        kinds = f"<{tables} x i8>", f"<{count} x i8>"
        if not self.builder.module.defines(name):
            stride = 0 if self.one_table else self.entries
            self.builder.module.define(name, _LOOP.format(
                name=name, tables=kinds[0], kind=kinds[1], count=count, indices=self.indices,
                stride=stride, entries=self.entries,
            ))  # fmt: skip
        return self.builder.w.emit(f"call {kinds[1]} @{name}({kinds[0]} {table}, {kinds[1]} {index})")

    # --- moving bytes to positions that are known now

    def _spread(self, vector: str, parts: int, length: int, room: int, whole: int) -> str:
        """Parts of so many bytes, each at a multiple of `room`, in a vector of `whole` bytes with zeros between."""
        total = parts * length
        order = [total] * whole
        for part in range(parts):
            order[part * room : part * room + length] = range(part * length, (part + 1) * length)
        return self._taken(vector, total, order)

    def _taken(self, vector: str, total: int, order: Sequence[int]) -> str:
        """The bytes of a vector of `total` at the indices of `order`; 0 for the index `total`."""
        if list(order) == list(range(total)):
            return vector
        kind = f"<{total} x i8>"
        indices = ", ".join(f"i32 {index}" for index in order)
        return self.builder.w.emit(
            f"shufflevector {kind} {vector}, {kind} zeroinitializer, <{len(order)} x i32> <{indices}>"
        )


def _bytes(values: Sequence[int]) -> str:
    return f"<{', '.join(f'i8 {value}' for value in values)}>"
