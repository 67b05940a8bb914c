"""Values of relocations, as the psABI of each machine defines them.

    S   the address of the symbol            G   the address of its entry in the global offset table
    L   the address of a stub that jumps     P   the address of the field
        to it, or S where that is near       A   the addend
    page(x)   x without its last 12 bits

A kind of relocation is a formula and a field: the bits of it that hold the value.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from ..records import dataclass
from .elf import AARCH64, X86_64, LinkError

__all__ = ["KINDS", "STUBS", "Kind", "Place"]

_WORD = 1 << 64


@dataclass(frozen=True, slots=True)
class Place:
    """The addresses that formulas are of; `symbol` is S, `stub` L, `entry` G, `field` P, `addend` A."""

    symbol: int
    stub: int
    entry: int
    field: int
    addend: int


Formula = Callable[[Place], int]
Field = Callable[[bytearray, int, int], None]
"""(memory, offset, value): writes the value into the bits of a field.  Raises LinkError if it does not fit."""


@dataclass(frozen=True, slots=True)
class Kind:
    """`needs`: "G" for an entry of the global offset table, "L" for a stub where the symbol is far, "" for neither."""

    formula: Formula
    field: Field
    needs: str = ""


def _page(address: int) -> int:
    return address & ~0xFFF


def _absolute(p: Place) -> int:
    return p.symbol + p.addend


def _relative(p: Place) -> int:
    return p.symbol + p.addend - p.field


def _call(p: Place) -> int:
    return p.stub + p.addend - p.field


def _entry_relative(p: Place) -> int:
    return p.entry + p.addend - p.field


def _entry(p: Place) -> int:
    return p.entry + p.addend


def _page_relative(p: Place) -> int:
    return _page(p.symbol + p.addend) - _page(p.field)


def _entry_page_relative(p: Place) -> int:
    return _page(p.entry + p.addend) - _page(p.field)


def _fits(value: int, bits: int, is_signed: bool = True) -> bool:
    return -(1 << bits - 1) <= value < 1 << bits - 1 if is_signed else 0 <= value < 1 << bits


def _number(bytes_: int, is_signed: bool | None = True) -> Field:
    """A whole number; `is_signed`: None if it wraps."""

    def write(memory: bytearray, at: int, value: int) -> None:
        if is_signed is not None and not _fits(value, 8 * bytes_, is_signed):
            raise LinkError(f"{value:#x} does not fit into {bytes_} bytes")
        if at + bytes_ > len(memory):
            raise LinkError("a field is outside of its section")
        memory[at : at + bytes_] = (value % (1 << 8 * bytes_)).to_bytes(bytes_, "little")

    return write


def _instruction(encode: Callable[[int], tuple[int, int]]) -> Field:
    """A part of an instruction of 32 bits; `encode`: value -> mask of the part, its bits."""

    def write(memory: bytearray, at: int, value: int) -> None:
        if at % 4 or at + 4 > len(memory):
            raise LinkError("a relocation stands at no instruction")
        mask, bits = encode(value)
        (old,) = struct.unpack_from("<I", memory, at)
        struct.pack_into("<I", memory, at, (old & ~mask) | bits)

    return write


def _branch(low: int, width: int) -> Field:
    """A distance in instructions, in `width` bits from bit `low` on."""

    def encode(value: int) -> tuple[int, int]:
        if value % 4 or not _fits(value, width + 2):
            raise LinkError(f"{value:#x} is no distance of a branch")
        mask = (1 << width) - 1
        return mask << low, (value >> 2 & mask) << low

    return _instruction(encode)


def _adr(shift: int) -> Field:
    """The 21 bits of `adr` (of a byte) or `adrp` (of a page)."""

    def encode(value: int) -> tuple[int, int]:
        count = value >> shift
        if not _fits(count, 21):
            raise LinkError(f"{value:#x} is too far")
        return 0x60FFFFE0, (count & 3) << 29 | (count >> 2 & 0x7FFFF) << 5

    return _instruction(encode)


def _low_12(shift: int) -> Field:
    """The low 12 bits of an address, for `add` or for an access of 2^shift bytes."""

    def encode(value: int) -> tuple[int, int]:
        low = value & 0xFFF
        if low % (1 << shift):
            raise LinkError(f"{value:#x} is not aligned to {1 << shift}")
        return 0xFFF << 10, low >> shift << 10

    return _instruction(encode)


def _mov(part: int, is_checked: bool) -> Field:
    """16 bits of an address, for `movz` and `movk`; `is_checked`: nothing is above them."""

    def encode(value: int) -> tuple[int, int]:
        if is_checked and not _fits(value, 16 * (part + 1), is_signed=False):
            raise LinkError(f"{value:#x} is too large")
        return 0xFFFF << 5, (value >> 16 * part & 0xFFFF) << 5

    return _instruction(encode)


def _x86_stub(entry: int, stub: int) -> bytes:
    distance = entry - (stub + 6)
    return b"\xff\x25" + distance.to_bytes(4, "little", signed=True)  # jmp *distance(%rip)


def _aarch64_stub(entry: int, stub: int) -> bytes:
    stub_code = bytearray(
        struct.pack("<III", 0x90000010, 0xF9400210, 0xD61F0200)
    )  # adrp x16; ldr x16; br x16
    _adr(12)(stub_code, 0, _page(entry) - _page(stub))
    _low_12(3)(stub_code, 4, entry)
    return bytes(stub_code)


STUBS: dict[int, Callable[[int, int], bytes]] = {X86_64: _x86_stub, AARCH64: _aarch64_stub}
"""Code of a stub for an entry of the table by machine, from the addresses of both.  At most 16 bytes."""

KINDS: dict[int, dict[int, Kind]] = {
    X86_64: {
        1: Kind(_absolute, _number(8, None)),  # R_X86_64_64
        2: Kind(_relative, _number(4)),  # PC32
        4: Kind(_call, _number(4), "L"),  # PLT32
        9: Kind(_entry_relative, _number(4), "G"),  # GOTPCREL
        10: Kind(_absolute, _number(4, False)),  # 32
        11: Kind(_absolute, _number(4)),  # 32S
        24: Kind(_relative, _number(8)),  # PC64
        41: Kind(_entry_relative, _number(4), "G"),  # GOTPCRELX
        42: Kind(_entry_relative, _number(4), "G"),  # REX_GOTPCRELX
    },
    AARCH64: {
        257: Kind(_absolute, _number(8, None)),  # R_AARCH64_ABS64
        258: Kind(_absolute, _number(4, False)),  # ABS32
        260: Kind(_relative, _number(8)),  # PREL64
        261: Kind(_relative, _number(4)),  # PREL32
        263: Kind(_absolute, _mov(0, True)),  # MOVW_UABS_G0
        264: Kind(_absolute, _mov(0, False)),  # MOVW_UABS_G0_NC
        265: Kind(_absolute, _mov(1, True)),
        266: Kind(_absolute, _mov(1, False)),
        267: Kind(_absolute, _mov(2, True)),
        268: Kind(_absolute, _mov(2, False)),
        269: Kind(_absolute, _mov(3, True)),
        273: Kind(_relative, _branch(5, 19)),  # LD_PREL_LO19
        274: Kind(_relative, _adr(0)),  # ADR_PREL_LO21
        275: Kind(_page_relative, _adr(12)),  # ADR_PREL_PG_HI21
        277: Kind(_absolute, _low_12(0)),  # ADD_ABS_LO12_NC
        278: Kind(_absolute, _low_12(0)),  # LDST8_ABS_LO12_NC
        279: Kind(_relative, _branch(5, 14)),  # TSTBR14
        280: Kind(_relative, _branch(5, 19)),  # CONDBR19
        282: Kind(_call, _branch(0, 26), "L"),  # JUMP26
        283: Kind(_call, _branch(0, 26), "L"),  # CALL26
        284: Kind(_absolute, _low_12(1)),  # LDST16_ABS_LO12_NC
        285: Kind(_absolute, _low_12(2)),  # LDST32_ABS_LO12_NC
        286: Kind(_absolute, _low_12(3)),  # LDST64_ABS_LO12_NC
        299: Kind(_absolute, _low_12(4)),  # LDST128_ABS_LO12_NC
        311: Kind(_entry_page_relative, _adr(12), "G"),  # ADR_GOT_PAGE
        312: Kind(_entry, _low_12(3), "G"),  # LD64_GOT_LO12_NC
        314: Kind(_call, _number(4), "L"),  # PLT32
    },
}
"""Known kinds of relocations by machine, by their numbers."""
