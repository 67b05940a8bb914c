"""mbarrier objects in workgroup memory, and PTX that LLVM has no intrinsic for.

An object counts arrivals and announced bytes of a phase; those who wait go on when both have come (PTX ISA, "Parallel
Synchronization and Communication Instructions: mbarrier").
"""

from __future__ import annotations

from collections.abc import Sequence

from .function_emitter import FunctionEmitter
from .targets import OBJECT_BYTES
from .values import linear_id

__all__ = [
    "FENCE_OF_PROXIES", "SHARED", "address", "initialise", "inline_ptx", "object_at", "slots", "wait",
]  # fmt: skip

SHARED = "ptr addrspace(3)"
FENCE_OF_PROXIES = "fence.proxy.async.shared::cta;"
"""Orders what this invocation stored to workgroup memory before what the engines for copies and products do there."""


def slots(emitter: FunctionEmitter, *names: str) -> None:
    """Numbers (i32) that this invocation counts from 0, in registers once ptxas has seen them."""
    for name in names:
        emitter.w.line(f"{name} = alloca i32")
        emitter.w.line(f"store i32 0, ptr {name}")


def initialise(emitter: FunctionEmitter, objects: str, count: int, arrivals: int, fences: str = "") -> None:
    """Set up `count` objects that wait for so many arrivals, by the first invocation; a barrier has to follow."""
    w = emitter.w
    first, ready = w.label("first"), w.label("ready")
    w.branch_if(w.emit(f"icmp eq i32 {linear_id(emitter)}, 0"), first, ready)
    w.start(first)
    inits = (f"mbarrier.init.shared::cta.b64 [$0+{k * OBJECT_BYTES}], $1;" for k in range(count))
    text = " ".join([*inits, "fence.mbarrier_init.release.cluster;", fences]).rstrip()
    inline_ptx(emitter, text, "r,n", [("i32", address(emitter, objects)), ("i32", str(arrivals))])
    w.fall_into(ready)


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
    arguments = ", ".join(f"{kind} {value}" for kind, value in args)
    clobbers = ",".join(filter(None, (constraints, "~{memory}")))
    call = f'call {result} asm sideeffect "{text}", "{clobbers}"({arguments})'
    if result == "void":
        emitter.w.line(call)
        return ""
    return emitter.w.emit(call)
