"""Use of llvmlite for the CPU: LLVM IR becomes machine code, and is linked where the linker of this package cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING

from ...linker.library import Library
from ...lowering.common.llvm_passes import run_passes
from ...lowering.common.llvm_worker import LLVM, on_llvm
from .host import Host
from .llvm_names import initialize

if TYPE_CHECKING:
    import llvmlite.binding as llvm

__all__ = ["assembly", "compile_object", "link"]

_NUMBERS = count()
LINKS_PER_JIT = 64


@lru_cache(maxsize=8)
def _machine(host: Host, is_jit: bool = True) -> llvm.TargetMachine:
    import llvmlite.binding as llvm

    if host.system is None:
        initialize()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(host.triple)
    return target.create_target_machine(
        cpu=host.name,
        features=host.attributes,
        opt=host.codegen_level,
        reloc="pic",
        codemodel="small",
        jit=is_jit,
    )


def _optimised(text: str, host: Host, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(text)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=host.opt)
    options.slp_vectorization = False  # lanes are vectors already
    run_passes(module, machine, options, host.passes)
    return module


@on_llvm
def compile_object(text: str, host: Host) -> bytes:
    """An object file.  Raises RuntimeError if the text is not LLVM IR, which is a bug of the lowering."""
    machine = _machine(host)
    with _optimised(text, host, machine) as module:
        object_file: bytes = machine.emit_object(module)
        return object_file


@on_llvm
def assembly(text: str, host: Host) -> str:
    """The same as text."""
    machine = _machine(host, is_jit=False)
    with _optimised(text, host, machine) as module:
        return str(machine.emit_assembly(module))


@lru_cache(maxsize=1)
def _linker(generation: int) -> llvm.LLJIT:
    """The JIT for `LINKS_PER_JIT` object files.

    What is unloaded leaves 7 KB in its JIT.  An old JIT goes when the last of its functions is unloaded; one for each
    object file would take a millisecond and 150 KB.
    """
    import llvmlite.binding as llvm

    initialize()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(jit=True)
    # JITLink puts the sections of an object side by side; the older linker does not, and aborts the
    # process where they come to lie more than 2 GiB apart.
    return llvm.create_lljit_compiler(machine, use_jit_link=True)


@on_llvm
def link(object_file: bytes, symbols: Sequence[str], addresses: Mapping[str, int]) -> Library:
    """See `linking.link`."""
    import llvmlite.binding as llvm

    number = next(_NUMBERS)
    builder = llvm.JITLibraryBuilder().add_object_img(object_file).add_current_process()
    for name, address in addresses.items():
        builder.import_symbol(name, address)
    for symbol in symbols:
        builder.export_symbol(symbol)
    tracker = builder.link(_linker(number // LINKS_PER_JIT), f"vyre.{number}")
    library = Library({symbol: tracker[symbol] for symbol in symbols})
    LLVM.own(library, tracker)
    return library
