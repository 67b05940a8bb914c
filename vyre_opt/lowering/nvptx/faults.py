"""Faults on a GPU: the invocation writes a fault record and exits, and the host reads the record.

`llvm.trap` would stop the kernel too, but it poisons the whole CUDA context: every later call of
the process fails, and the fault's location is lost.  The first invocation to fault writes
the record (its layout is in abi.py); later ones only exit.  Barriers do not wait for invocations
that have exited.
"""

from __future__ import annotations

from .function_emitter import FunctionEmitter

__all__ = ["fault_block", "poll"]

_WORDS = ("ctaid.x", "ctaid.y", "ctaid.z", "tid.x", "tid.y", "tid.z")
# Behind eight 32-bit words: the site, six ids and one that pads; see abi.py
INDEX_OFFSET, LENGTH_OFFSET = 32, 40
STATUS = "ptr addrspace(1)"


def fault_block(emitter: FunctionEmitter) -> None:
    """Write the block that all faults of a function branch to, unless it has none."""
    if not emitter.faults:
        return
    w = emitter.w
    w.start("faulted")
    site = w.phi("i32", [(str(number), block) for block, number, _, _ in emitter.faults])
    index = w.phi("i64", [(index, block) for block, _, index, _ in emitter.faults])
    length = w.phi("i64", [(length, block) for block, _, _, length in emitter.faults])
    pair = w.emit(f'cmpxchg {STATUS} %status, i32 0, i32 {site} syncscope("device") monotonic monotonic')
    first = w.emit(f"extractvalue {{ i32, i1 }} {pair}, 1")
    w.branch_if(first, "record", "end")
    w.start("record")
    for number, name in enumerate(_WORDS, 1):
        word = w.call(f"llvm.nvvm.read.ptx.sreg.{name}", "i32", [])
        _write(emitter, "i32", word, 4 * number)
    _write(emitter, "i64", index, INDEX_OFFSET)
    _write(emitter, "i64", length, LENGTH_OFFSET)
    w.fall_into("end")
    w.call("llvm.nvvm.exit", "void", [])
    w.line("unreachable")


def _write(emitter: FunctionEmitter, kind: str, value: str, offset: int) -> None:
    pointer = emitter.w.emit(f"getelementptr i8, {STATUS} %status, i64 {offset}")
    emitter.w.line(f"store {kind} {value}, {STATUS} {pointer}, align {4 if kind == 'i32' else 8}")


def poll(emitter: FunctionEmitter) -> None:
    """Exit if some invocation has faulted, in a loop that may be waiting for that invocation."""
    w = emitter.w
    word = w.emit("load volatile i32, ptr addrspace(1) %status, align 4")
    failed = w.emit(f"icmp ne i32 {word}, 0")
    leaving, staying = w.label("leave"), w.label("stay")
    w.branch_if(failed, leaving, staying)
    w.start(leaving)
    w.call("llvm.nvvm.exit", "void", [])
    w.line("unreachable")
    w.start(staying)
