"""The functions and the lines of the code in an object file of ELF, as LLVM writes it with line tables of DWARF 4."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from ...records import dataclass

if TYPE_CHECKING:
    import llvmlite.binding as llvm

__all__ = ["ElfCode", "Line"]

FUNCTION = 2
"""STT_FUNC."""

_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_TABLE = struct.Struct("<IHIBBBbBB")
"""The head of a line table: length, version, length of the rest of the head, smallest instruction, operations, is_stmt, the
first line and the range of lines of special opcodes, and the first of these."""

END_SEQUENCE, SET_ADDRESS = 1, 2
COPY, ADVANCE_PC, ADVANCE_LINE, SET_FILE, CONST_ADD_PC, FIXED_ADVANCE_PC = 1, 2, 3, 4, 8, 9


@dataclass(frozen=True, slots=True)
class Line:
    """Line of the instructions from `offset` in the code on; 0 for those without one."""

    offset: int
    file: str
    line: int


class ElfCode:
    """The code of the section that has the function `symbol`; none in other formats than ELF."""

    def __init__(self, image: llvm.ObjectFileRef, symbol: str) -> None:
        wanted = {b".strtab", b".symtab", b".debug_line", b".rela.debug_line"}
        self._sections = {s.name(): s.data() for s in image.sections() if s.name() in wanted}
        self._symbols = list(_SYMBOL.iter_unpack(self._sections.get(b".symtab", b"")))
        by_section: dict[int, dict[str, tuple[int, int]]] = {}
        for name, kind, _, section, offset, size in self._symbols:
            if kind & 15 == FUNCTION and size:
                by_section.setdefault(section, {})[self._name(name)] = offset, size
        found = ((number, functions) for number, functions in by_section.items() if symbol in functions)
        self._section, self.functions = next(found, (-1, {}))
        """`functions`: offset and size of each."""

    def _name(self, at: int) -> str:
        names: bytes = self._sections[b".strtab"]
        return names[at : names.index(b"\0", at)].decode()

    @cached_property
    def lines(self) -> list[Line]:
        """The lines of the code, in the order of their offsets."""
        table = self._sections.get(b".debug_line", b"")
        return sorted(_lines(table, self._targets(), self._section), key=lambda line: line.offset)

    def _targets(self) -> dict[int, tuple[int, int]]:
        """Section and offset that each address in the line table names, by its place there."""
        targets = {}
        for at, kind, addend in _RELOCATION.iter_unpack(self._sections.get(b".rela.debug_line", b"")):
            *_, section, offset, _ = self._symbols[kind >> 32]
            targets[at] = section, offset + addend
        return targets


def _lines(table: bytes, targets: dict[int, tuple[int, int]], wanted: int) -> Iterator[Line]:
    reader = _Reader(table)
    while reader.at < len(table):
        start = reader.at
        length, version, rest, smallest, _, _, base, span, first = reader.unpack(_TABLE)
        if version != 4:
            return
        program, end = start + 10 + rest, start + 4 + length
        operands = [0, *reader.bytes(first - 1)]
        files = [*reader.files()]
        reader.at = program
        section, address, file, line = -1, 0, 1, 1
        while reader.at < end:
            opcode = reader.byte()
            is_row = opcode >= first or opcode == COPY
            if opcode >= first:
                advance, lines = divmod(opcode - first, span)
                address, line = address + advance * smallest, line + base + lines
            elif opcode == 0:
                size, at = reader.uleb(), reader.at
                extended = reader.byte()
                if extended == SET_ADDRESS:
                    section, address = targets.get(reader.at, (-1, 0))
                elif extended == END_SEQUENCE:
                    address, file, line = 0, 1, 1
                reader.at = at + size
            elif opcode == ADVANCE_PC:
                address += reader.uleb() * smallest
            elif opcode == ADVANCE_LINE:
                line += reader.sleb()
            elif opcode == SET_FILE:
                file = reader.uleb()
            elif opcode == CONST_ADD_PC:
                address += (255 - first) // span * smallest
            elif opcode == FIXED_ADVANCE_PC:
                address += int.from_bytes(reader.bytes(2), "little")
            else:
                for _ in range(operands[opcode]):
                    reader.uleb()
            if is_row and section == wanted:
                yield Line(address, files[file - 1], line)
        reader.at = end


class _Reader:
    """Reads bytes one after the other; `at`: where it is."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def unpack(self, form: struct.Struct) -> tuple[int, ...]:
        return form.unpack(self.bytes(form.size))

    def bytes(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]

    def byte(self) -> int:
        return self.bytes(1)[0]

    def text(self) -> str:
        text = self.bytes(self.data.index(b"\0", self.at) - self.at)
        self.at += 1
        return text.decode(errors="replace")

    def files(self) -> Iterator[str]:
        """Paths of the files of a table."""
        folders = [""]
        while folder := self.text():
            folders.append(folder)
        while name := self.text():
            folder = folders[self.uleb()]
            self.uleb(), self.uleb()  # times and sizes, which LLVM leaves at 0
            yield f"{folder}/{name}" if folder else name

    def uleb(self) -> int:
        """A number in groups of 7 bits."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def sleb(self) -> int:
        """The same with a sign."""
        at, value = self.at, self.uleb()
        bits = 7 * (self.at - at)
        return value - (1 << bits) if value >> (bits - 1) else value
