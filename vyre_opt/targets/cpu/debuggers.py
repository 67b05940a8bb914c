"""Code in this process that debuggers and profilers know: gdb its lines, perf its names.

LLVM's older JIT, MCJIT, tells gdb of each object that it links, by gdb's interface for compilers (LLVM exports no other way
to it).  perf reads the names of functions from /tmp/perf-PID.map, to which Python's own `-X perf` adds too; this LLVM writes
no jitdump.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

from ...lowering.common.llvm_worker import LLVM, on_llvm
from .jit import Library, LoadedFunction

if TYPE_CHECKING:
    import llvmlite.binding as llvm

__all__ = ["load_for_debuggers"]

FUNCTION = 2
"""STT_FUNC of ELF."""
_SYMBOL = struct.Struct("<IBBHQQ")


@on_llvm
def load_for_debuggers(object_file: bytes, symbol: str, name: str) -> LoadedFunction:
    """A function of an object file, which belongs to the program `name`."""
    import llvmlite.binding as llvm

    # of the same kind of code as `jit.compile_object` makes
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        reloc="pic", codemodel="small", jit=True
    )
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    image = llvm.ObjectFileRef.from_data(object_file)
    functions = _functions(image, symbol)
    engine.add_object_file(image)
    engine.finalize_object()
    address = engine.get_function_address(symbol)
    library = Library({symbol: address})
    LLVM.own(library, engine)
    if functions and os.environ.get("VYRE_PERF", "") not in ("", "0"):
        start = address - functions[symbol][0]
        with open(f"/tmp/perf-{os.getpid()}.map", "a") as names:
            for own, (offset, size) in functions.items():
                part = own.removeprefix("vyre.")
                names.write(f"{start + offset:x} {size:x} vyre::{name} [{part}]\n")
    return LoadedFunction(library, symbol)


def _functions(image: llvm.ObjectFileRef, symbol: str) -> dict[str, tuple[int, int]]:
    """The functions in a section of an ELF object, that of one of them, each with its offset there and its size.

    None of other formats.
    """
    tables = {b".strtab": b"", b".symtab": b""}
    for section in image.sections():
        if section.name() in tables:
            tables[section.name()] = section.data()
    names, symbols = tables.values()
    found: dict[int, dict[str, tuple[int, int]]] = {}
    for at, kind, _, section, offset, size in _SYMBOL.iter_unpack(symbols):
        if kind & 15 == FUNCTION and size:
            name = names[at : names.index(b"\0", at)].decode()
            found.setdefault(section, {})[name] = offset, size
    return next((functions for functions in found.values() if symbol in functions), {})
