"""The image of an object in memory: where its sections lie, and what is in them once it is linked.

    pages of code         | pages that are read      | pages that are written
    text, stubs           | constants, offset table  | data, zeroed data

Nothing is written anywhere: an image is bytes.  So it can be made for other machines, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from ..records import dataclass
from .elf import MAX_BYTES, LinkError, Object, Relocation, Section, Symbol
from .relocations import KINDS, STUBS, Kind, Place

__all__ = ["Layout"]

ENTRY_BYTES, STUB_BYTES = 8, 16
CODE, READ, WRITTEN = range(3)


@dataclass(frozen=True, slots=True)
class _Sizes:
    """`offsets`: of sections, by their index; `stubs`, `entries`: of the first; `ends`: of the three kinds of pages."""

    offsets: dict[int, int]
    stubs: int
    entries: int
    ends: tuple[int, int, int]


class Layout:
    """An object laid out for pages of a size."""

    def __init__(self, parts: Object, page: int) -> None:
        self.parts, self.page = parts, page
        kinds = KINDS[parts.machine]
        self._relocations: list[tuple[Relocation, Kind]] = []
        self._numbers: dict[Symbol, int] = {}
        """Symbols that have an entry of the offset table, and a stub, numbered."""
        for relocation in parts.relocations:
            kind = kinds.get(relocation.kind)
            if kind is None:
                raise LinkError(f"a relocation of the unknown kind {relocation.kind}")
            self._relocations.append((relocation, kind))
            if kind.needs == "G" or (kind.needs == "L" and relocation.symbol.section is None):
                self._numbers.setdefault(relocation.symbol, len(self._numbers))

    @cached_property
    def externals(self) -> list[str]:
        """The names that the object takes from elsewhere."""
        named = {r.symbol.name: None for r, _ in self._relocations if r.symbol.section is None}
        return list(named)

    @cached_property
    def _sizes(self) -> _Sizes:
        at, offsets, ends = 0, dict[int, int](), list[int]()
        stubs = entries = 0
        for part in (CODE, READ, WRITTEN):
            for number, section in self.parts.sections.items():
                if _part_of(section) == part:
                    offsets[number] = at = _aligned(at, section.alignment)
                    at += section.size
            if part == CODE:
                stubs = at = _aligned(at, STUB_BYTES)
                at += STUB_BYTES * len(self._numbers)
            elif part == READ:
                entries = at = _aligned(at, ENTRY_BYTES)
                at += ENTRY_BYTES * len(self._numbers)
            at = _aligned(at, self.page)
            ends.append(at)
        if at > 2 * MAX_BYTES:
            raise LinkError("the object is too large")
        return _Sizes(offsets, stubs, entries, (ends[0], ends[1], ends[2]))

    @property
    def ends(self) -> tuple[int, int, int]:
        """The offsets behind the pages of code, those that are read, and those that are written, which is the size of all."""
        return self._sizes.ends

    def offset(self, name: str) -> int:
        """Offset of a symbol of the object.  Raises LinkError for an unknown name."""
        for symbol in self.parts.symbols:
            if symbol.name == name and symbol.section is not None:
                return self._sizes.offsets[symbol.section] + symbol.value
        raise LinkError(f"the object has no @{name}")

    def image(self, base: int, address_of: Callable[[str], int | None]) -> bytearray:
        """The bytes from address `base` on.  `address_of`: of a name of `externals`, None if it has none."""
        sizes = self._sizes
        memory = bytearray(sizes.ends[-1])
        externals = {name: address_of(name) for name in self.externals}

        def address(symbol: Symbol) -> int:
            if symbol.section is not None:
                return base + sizes.offsets[symbol.section] + symbol.value
            found = externals[symbol.name] if symbol.name else None
            if found is None and not symbol.is_weak:
                raise LinkError(f"nothing is named {symbol.name}")
            return found or 0

        stub_code = STUBS[self.parts.machine]
        for symbol, number in self._numbers.items():
            entry, stub = sizes.entries + ENTRY_BYTES * number, sizes.stubs + STUB_BYTES * number
            memory[entry : entry + ENTRY_BYTES] = address(symbol).to_bytes(ENTRY_BYTES, "little")
            code = stub_code(base + entry, base + stub)
            memory[stub : stub + len(code)] = code
        contents = {number: bytearray(s.content) for number, s in self.parts.sections.items()}
        for relocation, kind in self._relocations:
            symbol, content = relocation.symbol, contents[relocation.section]
            number = self._numbers.get(symbol, 0)
            target = address(symbol)
            place = Place(
                target,
                base + sizes.stubs + STUB_BYTES * number if symbol.section is None else target,
                base + sizes.entries + ENTRY_BYTES * number,
                base + sizes.offsets[relocation.section] + relocation.offset,
                relocation.addend,
            )
            kind.field(content, relocation.offset, kind.formula(place))
        for number, content in contents.items():
            at = sizes.offsets[number]
            memory[at : at + len(content)] = content
        return memory


def _part_of(section: Section) -> int:
    if section.is_code:
        return CODE
    return WRITTEN if section.is_writable else READ


def _aligned(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment
