"""Code in this process that debuggers and profilers know: gdb its lines, perf its names and lines.

LLVM's older JIT, MCJIT, tells gdb of each object that it links, by gdb's interface for compilers; LLVM exports no other way
to it.  Other code does not go there: sections may lie apart, and beyond 2 GiB LLVM aborts the process (see jit.py).
"""

from __future__ import annotations

import warnings

from ...lowering.common.llvm_worker import LLVM, on_llvm
from ...observers import tells_perf
from .elf_code import ElfCode
from .linking import Library, LoadedFunction
from .perf import tell_perf

__all__ = ["load_for_debuggers"]


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
    code = ElfCode(image, symbol)
    engine.add_object_file(image)
    engine.finalize_object()
    address = engine.get_function_address(symbol)
    library = Library({symbol: address})
    LLVM.own(library, engine)
    if code.functions and tells_perf():
        try:
            tell_perf(code, address - code.functions[symbol][0], name)
        except OSError as error:
            warnings.warn(f"VYRE_PERF: perf is not told of @{name}: {error}", stacklevel=2)
    return LoadedFunction(library, symbol)
