"""A processor of aarch64 in this process: an emulator that shares its memory, for object code that this machine cannot run.

The package's own linker places the code at addresses where this process has nothing.  Buffers, scratch memory
and status words stay where they are: a page of the process appears in the emulator at the first access to it.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from unicorn import (
    UC_ARCH_ARM64,
    UC_ERR_FETCH_UNMAPPED,
    UC_HOOK_MEM_READ_UNMAPPED,
    UC_HOOK_MEM_WRITE_UNMAPPED,
    UC_MODE_ARM,
    UC_PROT_READ,
    UC_PROT_WRITE,
    Uc,
    UcError,
)
from unicorn.arm64_const import (
    UC_ARM64_REG_SP,
    UC_ARM64_REG_X0,
    UC_ARM64_REG_X1,
    UC_ARM64_REG_X2,
    UC_ARM64_REG_X3,
    UC_ARM64_REG_X4,
    UC_ARM64_REG_X30,
    UC_CPU_ARM64_A72,
)

from vyre_opt.linker.elf import AARCH64, read_object
from vyre_opt.linker.layout import Layout
from vyre_opt.linker.library import Library, LinkError

__all__ = ["failures", "link"]

PAGE, CHUNK = 1 << 12, 1 << 20
BASE, STACK, C_LIBRARY, END = 0x1000_0000, 0x3000_0000, 0x4000_0000, 0x5000_0000
"""Addresses of the code, of the stack, of the C library and of the caller: a process of Linux on x86-64 has no memory there."""
STACK_BYTES = 1 << 20
FUNCTION_BYTES = 32
C_FUNCTIONS = {
    # mov x3, x0 | 1: cbz x2, 2f | strb w1, [x3], #1 | sub x2, x2, #1 | b 1b | 2: ret
    "memset": (0xAA0003E3, 0xB4000082, 0x38001461, 0xD1000442, 0x17FFFFFD, 0xD65F03C0),
    # mov x3, x0 | 1: cbz x2, 2f | ldrb w4, [x1], #1 | strb w4, [x3], #1 | sub x2, x2, #1 | b 1b | 2: ret
    "memcpy": (0xAA0003E3, 0xB40000A2, 0x38401424, 0x38001464, 0xD1000442, 0x17FFFFFC, 0xD65F03C0),
}
"""Instructions of the functions of C that LLVM calls by itself."""
PARAMETERS = (UC_ARM64_REG_X0, UC_ARM64_REG_X1, UC_ARM64_REG_X2, UC_ARM64_REG_X3, UC_ARM64_REG_X4)
SIGNATURE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
)

failures: list[BaseException] = []
"""What calls raised, since nothing raises through a caller in C."""


class _EmulatedLibrary(Library):
    """`functions`: the callbacks behind the addresses."""

    def __init__(self, functions: dict[str, Any]) -> None:
        super().__init__({name: ctypes.cast(f, ctypes.c_void_p).value or 0 for name, f in functions.items()})
        self.functions = functions


def link(object_file: bytes, symbols: Sequence[str]) -> Library:
    """Addresses of functions of an object of aarch64, as the linker's `link` gives them of one for this machine."""
    parts = read_object(object_file)
    if parts.machine != AARCH64:
        raise LinkError("the object is not for aarch64")
    layout = Layout(parts, PAGE)
    image = bytes(layout.image(BASE, _c_function))
    return _EmulatedLibrary(
        {symbol: SIGNATURE(partial(_call, image, BASE + layout.offset(symbol))) for symbol in symbols}
    )


def _c_function(name: str) -> int | None:
    """Address of a function of C."""
    return C_LIBRARY + FUNCTION_BYTES * list(C_FUNCTIONS).index(name) if name in C_FUNCTIONS else None


def _call(image: bytes, entry: int, *args: int | None) -> None:
    try:
        _run(image, entry, args)
    except BaseException as error:
        failures.append(error)


def _run(image: bytes, entry: int, args: Sequence[int | None]) -> None:
    processor = Uc(UC_ARCH_ARM64, UC_MODE_ARM, UC_CPU_ARM64_A72)
    processor.mem_map(BASE, len(image))
    processor.mem_write(BASE, image)
    processor.mem_map(STACK, STACK_BYTES)
    processor.mem_map(C_LIBRARY, PAGE)
    for name, code in C_FUNCTIONS.items():
        processor.mem_write(_c_function(name) or 0, struct.pack(f"<{len(code)}I", *code))
    processor.hook_add(UC_HOOK_MEM_READ_UNMAPPED | UC_HOOK_MEM_WRITE_UNMAPPED, _share)
    for register, value in zip(PARAMETERS, args, strict=True):
        processor.reg_write(register, value or 0)
    processor.reg_write(UC_ARM64_REG_SP, STACK + STACK_BYTES)
    processor.reg_write(UC_ARM64_REG_X30, END)
    at = entry
    while at != END:
        try:
            processor.emu_start(at, END)
            break
        except UcError as error:
            if error.errno != UC_ERR_FETCH_UNMAPPED:
                raise
        processor.reg_write(UC_ARM64_REG_X0, 0)  # the status words' function that lets other threads run
        at = processor.reg_read(UC_ARM64_REG_X30)


def _share(processor: Uc, _access: int, address: int, size: int, _value: int, _: Any) -> bool:
    """Map the memory of this process around an access into the emulator, a piece from a multiple of CHUNK on."""
    is_new = False
    for byte in (address, address + size - 1):
        for first, last in _mapped():
            begin, end = max(first, byte & -CHUNK), min(last, (byte & -CHUNK) + CHUNK)
            if begin <= byte < end and not any(
                one <= byte <= other for one, other, _ in processor.mem_regions()
            ):
                processor.mem_map_ptr(begin, end - begin, UC_PROT_READ | UC_PROT_WRITE, begin)
                is_new = True
    return is_new


def _mapped() -> Iterator[tuple[int, int]]:
    """First address and end of all memory of this process that may be read."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, access, *_ = line.split()
        if "r" in access:
            first, last = addresses.split("-")
            yield int(first, 16), int(last, 16)
