"""LLVM's names for this machine."""

from __future__ import annotations

from functools import cache

from ...lowering.common.llvm_worker import on_llvm

__all__ = ["initialize", "this_machine"]


@cache
def initialize() -> None:
    """Make LLVM's back end for this machine ready; LLVM's worker calls this."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@on_llvm
def this_machine() -> tuple[str, str, str, str]:
    """The name of this machine's CPU, its features, the triple, and the data layout."""
    import llvmlite.binding as llvm

    initialize()
    triple = llvm.get_process_triple()
    machine = llvm.Target.from_triple(triple).create_target_machine(reloc="pic", codemodel="small", jit=True)
    features = llvm.get_host_cpu_features().flatten()
    return llvm.get_host_cpu_name(), features, str(triple), str(machine.target_data)
