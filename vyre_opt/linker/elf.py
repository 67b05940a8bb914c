"""Relocatable objects in ELF, as LLVM writes them for 64-bit little-endian machines.

    64 bytes   file header       machine; where the table of sections is
    ...        sections          bytes, symbols, names of symbols, relocations
    n * 64     section headers

Every number of the file is checked before it is used: an object may be damaged.
"""

from __future__ import annotations

import struct

from ..records import dataclass

__all__ = ["AARCH64", "X86_64", "LinkError", "Object", "Relocation", "Section", "Symbol", "read_object"]

X86_64, AARCH64 = 62, 183
"""Machines, as e_machine names them."""

MAX_BYTES = 1 << 28
"""More than this is no object of a program; a damaged size is found before memory is asked for."""

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QIIq")
_IDENT = b"\x7fELF\x02\x01\x01"
"""64 bits, little-endian, version 1."""
_RELOCATABLE = 1
_SYMTAB, _RELA, _NOBITS, _REL = 2, 4, 8, 9
_WRITE, _ALLOC, _EXECUTE, _TLS = 1, 2, 4, 0x400
_UNDEFINED, _RESERVED, _ABSOLUTE = 0, 0xFF00, 0xFFF1
_IS_TLS, _IS_INDIRECT = 6, 10
_LOCAL, _WEAK = 0, 2


class LinkError(ValueError):
    """An object is damaged, or has what this linker does not know; the message says what."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of memory.  `content`: shorter than `size` where the rest is zero."""

    name: str
    content: bytes
    size: int
    alignment: int
    is_writable: bool
    is_code: bool


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name for a place.  `section`: the index of the section that it lies in, None for a name of another object.

    `is_weak`: may stay without a place, which is address 0 then.
    """

    name: str
    section: int | None
    value: int
    is_weak: bool


@dataclass(frozen=True, slots=True)
class Relocation:
    """A field of a section that depends on the address of a symbol.  `kind`: as the machine numbers them."""

    section: int
    offset: int
    kind: int
    symbol: Symbol
    addend: int


@dataclass(frozen=True, slots=True)
class Object:
    """`sections`: those that are in memory, by their index."""

    machine: int
    sections: dict[int, Section]
    symbols: list[Symbol]
    relocations: list[Relocation]


_Header = tuple[int, ...]
_NAME, _TYPE, _FLAGS, _ADDRESS, _OFFSET, _SIZE, _LINK, _INFO, _ALIGN, _ENTRY = range(10)


def read_object(file: bytes) -> Object:
    """The parts of an object that are linked.  Raises LinkError."""
    try:
        return _read(file)
    except LinkError:
        raise
    except (
        struct.error,
        IndexError,
        ValueError,
    ) as error:  # a name without end, or of no characters, is a ValueError
        raise LinkError(f"a damaged object: {error}") from None


def _read(file: bytes) -> Object:
    ident, kind, machine, *_, table, _, _, _, _, size, count, names_index = _HEADER.unpack_from(file)
    if not ident.startswith(_IDENT) or kind != _RELOCATABLE or machine not in (X86_64, AARCH64):
        raise LinkError("no relocatable object for x86-64 or aarch64")
    if size != _SECTION.size or table + count * size > len(file):
        raise LinkError("the table of sections is cut off")
    headers = [_SECTION.unpack_from(file, table + number * size) for number in range(count)]
    names = _content(file, headers[names_index])
    sections = _sections(file, headers, names)
    symbols: dict[int, list[Symbol]] = {}
    for number, header in enumerate(headers):
        if header[_TYPE] == _SYMTAB:
            symbols[number] = _symbols(file, header, headers, sections)
    relocations: list[Relocation] = []
    for header in headers:
        if header[_TYPE] == _RELA and header[_INFO] in sections:
            relocations += _relocations(file, header, symbols, sections[header[_INFO]])
        elif header[_TYPE] == _REL and header[_INFO] in sections:
            raise LinkError("relocations without addends")
    return Object(machine, sections, [each for table in symbols.values() for each in table], relocations)


def _sections(file: bytes, headers: list[_Header], names: bytes) -> dict[int, Section]:
    sections: dict[int, Section] = {}
    total = 0
    for number, header in enumerate(headers):
        flags, size, name = header[_FLAGS], header[_SIZE], _name(names, header[_NAME])
        # tables for unwinding, which nothing asks for: no exception passes through this code, and what breaks it off is longjmp
        if not flags & _ALLOC or name == ".eh_frame":
            continue
        if flags & _TLS:
            raise LinkError(f"{name} is memory of a thread")
        alignment = header[_ALIGN] or 1
        if alignment & (alignment - 1) or alignment > 4096:
            raise LinkError(f"{name} is aligned to {alignment}")
        total += size + alignment
        if total > MAX_BYTES:
            raise LinkError(f"more than {MAX_BYTES} bytes")
        content = b"" if header[_TYPE] == _NOBITS else _content(file, header)
        is_writable, is_code = bool(flags & _WRITE), bool(flags & _EXECUTE)
        if is_writable and is_code:
            raise LinkError(f"{name} is writable and code at once")
        sections[number] = Section(name, content, size, alignment, is_writable, is_code)
    return sections


def _symbols(
    file: bytes, header: _Header, headers: list[_Header], sections: dict[int, Section]
) -> list[Symbol]:
    table, names = _content(file, header), _content(file, headers[header[_LINK]])
    symbols = []
    for at, binding_and_kind, _, index, value, _ in _SYMBOL.iter_unpack(table):
        name, binding, kind = _name(names, at), binding_and_kind >> 4, binding_and_kind & 15
        is_weak = binding == _WEAK
        if index == _UNDEFINED:
            symbols.append(Symbol(name, None, 0, is_weak))
        elif kind in (_IS_TLS, _IS_INDIRECT):
            raise LinkError(f"@{name} is no plain function or variable")
        elif index in sections:
            if value > sections[index].size:
                raise LinkError(f"@{name} is outside of its section")
            symbols.append(Symbol(name, index, value, is_weak))
        else:  # a file's name, or what is in no memory: an error where a relocation names it
            symbols.append(Symbol("", None, 0, is_weak=False))
    return symbols


def _relocations(
    file: bytes, header: _Header, symbols: dict[int, list[Symbol]], section: Section
) -> list[Relocation]:
    table = symbols.get(header[_LINK])
    if table is None:
        raise LinkError("relocations without symbols")
    found = []
    for offset, kind, symbol, addend in _RELOCATION.iter_unpack(_content(file, header)):
        if offset >= section.size:
            raise LinkError(f"a relocation is outside of {section.name}")
        found.append(Relocation(header[_INFO], offset, kind, table[symbol], addend))
    return found


def _content(file: bytes, header: _Header) -> bytes:
    start, end = header[_OFFSET], header[_OFFSET] + header[_SIZE]
    if end > len(file):
        raise LinkError("a section is cut off")
    return file[start:end]


def _name(names: bytes, at: int) -> str:
    return names[at : names.index(b"\0", at)].decode() if at else ""
