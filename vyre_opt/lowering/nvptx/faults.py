"""Faults on a GPU: the invocation writes a fault record and exits, and the host reads a copy of the record.

`llvm.trap` would stop the kernel too, but it poisons the whole CUDA context: every later call of
the process fails, and the fault's location is lost.  The first invocation to fault writes
the record (its layout is in abi.py); later ones only exit.  Barriers do not wait for invocations
that have exited.

The record is in GPU memory, since loops that wait for other invocations read it at every turn: from the
host's memory that read would take microseconds.  The copy is in the host's memory, so that the host need
not wait for the GPU to see that there is a fault.
"""

from __future__ import annotations

from ..common.llvm_text import Writer
from .function_emitter import FunctionEmitter

__all__ = ["fault_blocks", "poll"]

_WORDS = ("ctaid.x", "ctaid.y", "ctaid.z", "tid.x", "tid.y", "tid.z")
THIRD, INDEX, LENGTH, CALL, EXTENTS, COPY, FLAG = 28, 32, 40, 48, 56, 72, 80
"""Offsets in a record; see abi.py."""

POINTER = "ptr addrspace(1)"
RECORD = "vyre.record_fault"
RECORD_SHAPE = "vyre.record_fault_of_shape"
"""The same with the open extents of a buffer of several dimensions."""
MAX_OPEN = 3


def fault_blocks(emitter: FunctionEmitter) -> None:
    """Write the blocks in which the faults of a function end, one for each.

    Each calls the function that records and then exits.  Were it one block for all, the ways of all faults would
    meet there, and the driver's compiler (ptxas 12.8 and 13.0) would take it for the place where lanes that left a
    loop at different turns meet again: they would do shuffles and barriers behind the loop apart, with wrong results.
    """
    w = emitter.w
    for label, site, index, length, last, extents, loc in emitter.faults:
        record = RECORD_SHAPE if extents else RECORD
        _define_record(emitter, record)
        w.start(label)
        w.at(loc)
        values = [
            (POINTER, "%status"),
            ("i64", "%call"),
            ("i32", site),
            ("i64", index),
            ("i64", length),
            ("i64", last),
        ]
        if extents:
            values += [("i64", extent) for extent in (*extents, *["0"] * (MAX_OPEN - len(extents)))]
        w.line(f"call void @{record}({', '.join(f'{kind} {value}' for kind, value in values)})")
        _exit(w)


def _exit(w: Writer) -> None:
    w.call("llvm.nvvm.exit", "void", [])
    w.line("unreachable")


def _define_record(emitter: FunctionEmitter, name: str) -> None:
    """The function that writes the fault record, if it is the first, and its copy.  `name`: one of the two."""
    text = emitter.context.text
    if text.defines(name):
        return
    extents = [f"%extent{k}" for k in range(MAX_OPEN)] if name == RECORD_SHAPE else []
    w = Writer(text)
    pair = w.emit(f'cmpxchg {POINTER} %status, i32 0, i32 %site syncscope("device") monotonic monotonic')
    first = w.emit(f"extractvalue {{ i32, i1 }} {pair}, 1")
    w.branch_if(first, "record", "end")
    w.start("record")
    ids = [w.call(f"llvm.nvvm.read.ptx.sreg.{name}", "i32", []) for name in _WORDS]
    fields = [("i32", word, 4 * number) for number, word in enumerate(ids, 1)]
    third = w.emit("trunc i64 %last to i32")
    fields += [("i32", third, THIRD)]
    fields += [("i64", "%index", INDEX), ("i64", "%length", LENGTH), ("i64", "%call", CALL)]
    words = [w.emit(f"trunc i64 {extent} to i32") for extent in extents]
    fields += [("i32", word, EXTENTS + 4 * number) for number, word in enumerate(words)]
    _write(w, "%status", fields)
    copy, flag = (w.emit(f"load i64, {POINTER} {_at(w, '%status', at)}, align 8") for at in (COPY, FLAG))
    w.branch_if(w.emit(f"icmp ne i64 {copy}, 0"), "copy", "end")
    w.start("copy")
    target, word = (w.emit(f"inttoptr i64 {address} to {POINTER}") for address in (copy, flag))
    _write(w, target, fields)
    # The site and the flag come last: a host that sees the flag sees the whole copy
    w.line("fence seq_cst")
    w.line(f"store volatile i32 %site, {POINTER} {target}, align 4")
    w.line("fence seq_cst")
    w.line(f"store volatile i32 1, {POINTER} {word}, align 4")
    w.fall_into("end")
    w.line("ret void")
    body = "\n".join(w.lines)
    params = f"{POINTER} %status, i64 %call, i32 %site, i64 %index, i64 %length, i64 %last"
    params += "".join(f", i64 {extent}" for extent in extents)
    text.define(name, f"define internal void @{name}({params}) noinline cold {{\nentry:\n{body}\n}}")


def _write(w: Writer, record: str, fields: list[tuple[str, str, int]]) -> None:
    for kind, value, offset in fields:
        align = 4 if kind == "i32" else 8
        w.line(f"store {kind} {value}, {POINTER} {_at(w, record, offset)}, align {align}")


def _at(w: Writer, record: str, offset: int) -> str:
    return w.emit(f"getelementptr i8, {POINTER} {record}, i64 {offset}")


def poll(emitter: FunctionEmitter) -> None:
    """Exit if some invocation has faulted, in a loop that may be waiting for that invocation."""
    w = emitter.w
    word = w.emit(f'load atomic i32, {POINTER} %status syncscope("device") monotonic, align 4')
    failed = w.emit(f"icmp ne i32 {word}, 0")
    leaving, staying = w.label("leave"), w.label("stay")
    w.branch_if(failed, leaving, staying)
    w.start(leaving)
    _exit(w)
    w.start(staying)
