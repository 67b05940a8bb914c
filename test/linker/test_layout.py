"""What the linker writes, byte by byte: for aarch64, which need not be this machine, and for damaged objects."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest
from support.linked_objects import AARCH64, EVERYTHING, X86_64, compiled

from vyre_opt.linker import elf, relocations
from vyre_opt.linker.elf import LinkError, read_object
from vyre_opt.linker.layout import Layout

BASE = 0x7F12_3456_0000
FAR = {"far_variable": 0x7FFF_1111_2228, "far_function": 0x0000_5555_AAAA_0010}
PAGE = 1 << 14


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


class Processor:
    """Steps through code of aarch64 as the manual of its instructions says: those that addresses go through."""

    def __init__(self, memory: bytes) -> None:
        self.memory = memory
        self.registers: dict[int, int] = {}

    def word(self, address: int) -> int:
        (word,) = struct.unpack_from("<I", self.memory, address - BASE)
        return int(word)

    def step(self, at: int) -> tuple[str, int] | None:
        """What an instruction does with an address: its kind and the address; None for others."""
        word, registers = self.word(at), self.registers
        to, source = word & 31, word >> 5 & 31
        if word >> 26 in (0b000101, 0b100101):  # b, bl
            return "branch", at + 4 * signed(word & 0x3FFFFFF, 26)
        if word >> 24 & 0x9F == 0x90:  # adrp
            pages = signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
            registers[to] = (at & ~0xFFF) + (pages << 12)
        elif word >> 22 == 0b1001000100:  # add of a constant
            registers[to] = registers.get(source, 0) + (word >> 10 & 0xFFF)
            return "address", registers[to]
        elif word >> 24 & 0x3F == 0x39 or word >> 24 & 0x3F == 0x3D:  # loads and stores at an offset
            is_vector = word >> 26 & 1
            scale = 4 if is_vector and word >> 23 & 1 else word >> 30
            address = registers.get(source, 0) + ((word >> 10 & 0xFFF) << scale)
            if not is_vector and word >> 22 & 3 == 1 and BASE <= address < BASE + len(self.memory) - 8:
                (registers[to],) = struct.unpack_from("<Q", self.memory, address - BASE)
            return "access", address
        elif word & 0xFFFFFC1F == 0xD61F0000:  # br
            return "branch", registers[source]
        return None


def linked(text: str = EVERYTHING, triple: str = AARCH64) -> tuple[Layout, bytes]:
    layout = Layout(read_object(compiled(text, triple)), PAGE)
    return layout, bytes(layout.image(BASE, FAR.get))


def named(layout: Layout, name: str) -> int:
    return BASE + layout.offset(name)


def body(layout: Layout, memory: bytes, name: str) -> list[tuple[str, int]]:
    """What the instructions of a function do with addresses, in order; it ends where the next function begins."""
    start = layout.offset(name)
    starts = {layout.offset(n) for n in ("inner", "count", "sizes", "all", "jump")}
    end = min((s for s in starts if s > start), default=start + 16)
    processor = Processor(memory)
    steps = [processor.step(at) for at in range(BASE + start, BASE + end, 4)]
    return [step for step in steps if step is not None]


def test_addresses_that_code_of_aarch64_computes() -> None:
    layout, memory = linked()
    counter, numbers = named(layout, "counter"), named(layout, "numbers")
    accesses = [address for kind, address in body(layout, memory, "count") if kind != "branch"]
    assert {*accesses} == {counter}
    assert numbers in [address for _, address in body(layout, memory, "inner")]
    wanted = {named(layout, "bytes") + offset for offset in (0, 2, 8, 16)}
    assert wanted <= {address for _, address in body(layout, memory, "sizes")}


def test_calls_of_aarch64_reach_near_functions_and_stubs_of_far_ones() -> None:
    layout, memory = linked()
    targets = [address for kind, address in body(layout, memory, "all") if kind == "branch"]
    assert named(layout, "inner") in targets
    (stub,) = (address for address in targets if address != named(layout, "inner"))
    processor = Processor(memory)
    steps = [processor.step(stub + 4 * number) for number in range(3)]
    assert steps[-1] == ("branch", FAR["far_function"])
    assert body(layout, memory, "jump")[0] == ("branch", stub)


def test_the_variable_of_another_library_is_read_through_the_offset_table() -> None:
    layout, memory = linked()
    accesses = [address for kind, address in body(layout, memory, "all") if kind == "access"]
    entries = [
        a for a in accesses if memory[a - BASE : a - BASE + 8] == FAR["far_variable"].to_bytes(8, "little")
    ]
    assert len(entries) == 1
    assert FAR["far_variable"] in accesses


@pytest.mark.parametrize("triple", [AARCH64, X86_64])
def test_tables_of_addresses(triple: str) -> None:
    layout, memory = linked(triple=triple)
    at = layout.offset("table")
    assert struct.unpack_from("<QQ", memory, at) == (named(layout, "inner"), named(layout, "counter"))


ENCODINGS = [
    # kind, the instruction, the value, and the instruction that it becomes (all from an assembler's listing)
    (263, 0xD2800000, 0x1234, 0xD2824680),  # movz x0, #0x1234
    (266, 0xF2A00000, 0x5678_1234, 0xF2AACF00),  # movk x0, #0x5678, lsl 16
    (269, 0xF2E00000, 0x9ABC_0000_0000_0000, 0xF2F35780),  # movk x0, #0x9abc, lsl 48
    (273, 0x58000000, 8, 0x58000040),  # ldr x0, .+8
    (274, 0x10000000, 5, 0x30000020),  # adr x0, .+5
    (275, 0x90000000, 0x1000, 0xB0000000),  # adrp x0, .+1 page
    (275, 0x90000000, 0x4000, 0x90000020),
    (275, 0x90000000, -0x1000, 0xF0FFFFE0),
    (277, 0x91000000, 0xABC123, 0x91048C00),  # add x0, x0, #0x123
    (278, 0x39400000, 0x123, 0x39448C00),  # ldrb w0, [x0, #0x123]
    (284, 0x79400000, 0x124, 0x79424800),  # ldrh w0, [x0, #0x124]
    (285, 0xB9400000, 0x124, 0xB9412400),  # ldr w0, [x0, #0x124]
    (286, 0xF9400000, 0x18, 0xF9400C00),  # ldr x0, [x0, #0x18]
    (299, 0x3DC00000, 0x30, 0x3DC00C00),  # ldr q0, [x0, #0x30]
    (279, 0x36000000, 8, 0x36000040),  # tbz w0, #0, .+8
    (280, 0x54000000, 8, 0x54000040),  # b.eq .+8
    (280, 0x54000000, -4, 0x54FFFFE0),
    (282, 0x14000000, 4, 0x14000001),  # b .+4
    (283, 0x94000000, -4, 0x97FFFFFF),  # bl .-4
    (312, 0xF9400000, 0x5018, 0xF9400C00),
]


@pytest.mark.parametrize(("kind", "before", "value", "after"), ENCODINGS)
def test_fields_of_instructions(kind: int, before: int, value: int, after: int) -> None:
    memory = bytearray(struct.pack("<III", 0xFFFFFFFF, before, 0xFFFFFFFF))
    relocations.KINDS[elf.AARCH64][kind].field(memory, 4, value)
    assert struct.unpack("<III", memory) == (0xFFFFFFFF, after, 0xFFFFFFFF)


TOO_FAR = [
    (elf.AARCH64, 283, 1 << 27),
    (elf.AARCH64, 283, -(1 << 27) - 4),
    (elf.AARCH64, 283, 2),
    (elf.AARCH64, 275, 1 << 32),
    (elf.AARCH64, 286, 4),
    (elf.AARCH64, 263, 1 << 16),
    (elf.AARCH64, 280, 1 << 20),
    (elf.AARCH64, 261, 1 << 31),
    (elf.X86_64, 2, 1 << 31),
    (elf.X86_64, 2, -(1 << 31) - 1),
    (elf.X86_64, 10, -1),
    (elf.X86_64, 11, 1 << 31),
]


@pytest.mark.parametrize(("machine", "kind", "value"), TOO_FAR)
def test_values_that_do_not_fit_are_errors(machine: int, kind: int, value: int) -> None:
    memory = bytearray(8)
    with pytest.raises(LinkError):
        relocations.KINDS[machine][kind].field(memory, 0, value)
    assert memory == bytes(8)


def outcome(file: bytes) -> Any:
    """The size of an image, or that the object is refused; anything else is an error of the linker."""
    try:
        layout = Layout(read_object(file), PAGE)
        image = layout.image(BASE, lambda name: FAR.get(name, 1 << 40))
    except LinkError:
        return None
    assert len(image) == layout.ends[-1]
    return len(image)


@pytest.mark.parametrize("triple", [AARCH64, X86_64])
def test_damaged_objects_are_errors_or_images_of_their_size(triple: str) -> None:
    whole, chance = compiled(EVERYTHING, triple), random.Random(triple)
    outcomes = {outcome(whole)}
    for _ in range(1500):
        damaged = bytearray(whole)
        for _ in range(chance.choice((1, 1, 2, 8))):
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        outcomes.add(outcome(bytes(damaged)))
    for _ in range(300):  # numbers of the headers, which are few among the bits
        damaged = bytearray(whole)
        at = chance.choice((chance.randrange(64), chance.randrange(len(whole) - 640, len(whole))))
        damaged[at : at + 8] = chance.choice((0, 1, 255, 1 << 31, (1 << 64) - 1)).to_bytes(8, "little")
        outcomes.add(outcome(bytes(damaged)[: len(whole)]))
    for size in range(0, len(whole), 97):
        outcomes.add(outcome(whole[:size]))
    assert None in outcomes
    assert len(outcomes) > 1


HUGE = [(8, 1 << 40), (8, 0xFFFF_FFFF_FFFF)]


@pytest.mark.parametrize(("kind", "size"), HUGE)
def test_a_section_that_says_it_is_huge_takes_no_memory(kind: int, size: int) -> None:
    file = bytearray(compiled(EVERYTHING, X86_64))
    (table,) = struct.unpack_from("<Q", file, 40)
    count = struct.unpack_from("<H", file, 60)[0]
    for number in range(count):
        at = table + 64 * number
        if struct.unpack_from("<I", file, at + 4)[0] == kind:
            struct.pack_into("<Q", file, at + 32, size)
    with pytest.raises(LinkError, match="more than"):
        read_object(bytes(file))
