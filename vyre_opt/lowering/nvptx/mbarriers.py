"""mbarrier objects in workgroup memory, and PTX that LLVM has no intrinsic for.

An object counts arrivals and announced bytes of a phase; those who wait go on when both have come (PTX ISA, "Parallel
Synchronization and Communication Instructions: mbarrier").
"""

from __future__ import annotations

from collections.abc import Sequence

from .function_emitter import FunctionEmitter

__all__ = ["OBJECT_BYTES", "SHARED", "address", "inline_ptx", "object_at", "wait"]

SHARED = "ptr addrspace(3)"
OBJECT_BYTES = 8


def object_at(emitter: FunctionEmitter, objects: str, number: str) -> str:
    """The pointer to an object of an array of them."""
    at = emitter.w.emit(f"mul i32 {number}, {OBJECT_BYTES}")
    return emitter.w.emit(f"getelementptr i8, {SHARED} {objects}, i32 {at}")


def address(emitter: FunctionEmitter, pointer: str, kind: str = SHARED, integer: str = "i32") -> str:
    return emitter.w.emit(f"ptrtoint {kind} {pointer} to {integer}")


def wait(emitter: FunctionEmitter, object_: str, parity: str) -> None:
    """Wait for the phase of this parity (i32), 0 for the first, to be complete."""
    w = emitter.w
    turn, done = w.label("turn"), w.label("complete")
    w.fall_into(turn)
    text = (
        "{ .reg .pred done; mbarrier.try_wait.parity.shared::cta.b64 done, [$1], $2; "
        "selp.u32 $0, 1, 0, done; }"
    )
    has_come = inline_ptx(
        emitter, text, "=r,r,r", [("i32", address(emitter, object_)), ("i32", parity)], "i32"
    )
    w.branch_if(w.emit(f"icmp ne i32 {has_come}, 0"), done, turn)
    w.start(done)


def inline_ptx(
    emitter: FunctionEmitter,
    text: str,
    constraints: str,
    args: Sequence[tuple[str, str]],
    result: str = "void",
) -> str:
    """PTX that may touch any memory; `args`: types and values."""
    given = ", ".join(f"{kind} {value}" for kind, value in args)
    clobbers = ",".join(filter(None, (constraints, "~{memory}")))
    call = f'call {result} asm sideeffect "{text}", "{clobbers}"({given})'
    if result == "void":
        emitter.w.line(call)
        return ""
    return emitter.w.emit(call)
