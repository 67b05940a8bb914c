"""Hand-offs within a cluster by replicas of a buffer, without a fence.

Each workgroup has two mbarrier objects (see mbarriers.py): such an object lets go when every workgroup of the cluster has
arrived and all announced bytes have come.

    store            st.async to each replica, which tells the object there of its bytes; the lane counts its words
    barrier          all lanes add up their words; lane r arrives at the object of workgroup r and announces the bytes;
                     then all wait for their own object

So nothing waits for the loads of the workgroup, and a value is there after one way through the cluster.

Barriers take the objects by turns.  A workgroup that a barrier has let go may store before the last one has come to
others; with one object these bytes would count for the barrier where the others still wait.  It cannot be two barriers
ahead, since the next one waits for the others.

Arrivals and waits have the scope of a workgroup, which is the default: a wider one makes ptxas write a fence for all memory.  What
crosses workgroups is ordered by the objects themselves: the bytes of a store are complete when the value is there.
"""

from __future__ import annotations

from ...ir.program import Program
from .function_emitter import FunctionEmitter
from .mbarriers import SHARED, address, initialise, inline_ptx, object_at, slots, wait
from .replicas import WORD
from .values import linear_id

__all__ = ["arrive_and_wait", "begin", "send"]

CLUSTER = "ptr addrspace(7)"
SENT, PASSED = "%sent", "%passed"
"""The words that this lane has stored since the last barrier; the number of barriers before."""


def begin(emitter: FunctionEmitter) -> None:
    """Set up this workgroup's objects, zero its replicas, and wait until all workgroups have."""
    w, context = emitter.w, emitter.context
    assert context.replicas is not None
    slots(emitter, SENT, PASSED)
    lane = linear_id(emitter)
    for name in sorted(context.replicas.buffers):
        _zero(emitter, context.buffers[name].pointer, _words(context.program, name), lane)
    initialise(emitter, context.mailbox, 2, context.replicas.workgroups)
    for step in ("arrive", "wait"):
        w.call(f"llvm.nvvm.barrier.cluster.{step}", "void", [])


def _words(program: Program, name: str) -> int:
    return (program.buffers[name].size_bytes or 0) // WORD


def _zero(emitter: FunctionEmitter, pointer: str, words: int, lane: str) -> None:
    w = emitter.w
    before, head, body, done = w.block, w.label("zero"), w.label("zeroing"), w.label("zeroed")
    following = w.fresh()
    w.fall_into(head)
    place = w.phi("i32", [(lane, before), (following, body)])
    w.branch_if(w.emit(f"icmp ult i32 {place}, {words}"), body, done)
    w.start(body)
    target = w.emit(f"getelementptr i32, {SHARED} {pointer}, i32 {place}")
    w.line(f"store i32 0, {SHARED} {target}, align {WORD}")
    w.line(f"{following} = add i32 {place}, {emitter.context.program.lanes}")
    w.branch(head)
    w.start(done)


def send(emitter: FunctionEmitter, pointer: str, words: list[str]) -> None:
    """Store 32-bit words, one behind the other and 1, 2 or 4 of them aligned to their size, to the place of every replica
    that `pointer` is in this workgroup's."""
    w, context = emitter.w, emitter.context
    assert context.replicas is not None
    count = len(words)
    shape = ".b32" if count == 1 else f".v{count}.b32"
    places = [f"${k}" for k in range(1, count + 1)]
    value = places[0] if count == 1 else f"{{{', '.join(places)}}}"
    text = f"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes{shape} [$0], {value}, [${count + 1}];"
    own = _object(emitter, w.emit(f"load i32, ptr {PASSED}"))
    for workgroup in range(context.replicas.workgroups):
        there, object_ = (_in_workgroup(emitter, at, str(workgroup)) for at in (pointer, own))
        values = [("i32", word) for word in words]
        inline_ptx(emitter, text, ",".join("r" * (count + 2)), [("i32", there), *values, ("i32", object_)])
    sent = w.emit(f"load i32, ptr {SENT}")
    w.line(f"store i32 {w.emit(f'add i32 {sent}, {count}')}, ptr {SENT}")


def arrive_and_wait(emitter: FunctionEmitter) -> None:
    """The barrier: what was sent before is in all replicas after it."""
    w, replicas = emitter.w, emitter.context.replicas
    assert replicas is not None
    passed = w.emit(f"load i32, ptr {PASSED}")
    own = _object(emitter, passed)
    sent, total = w.emit(f"load i32, ptr {SENT}"), "0"
    # This also is the barrier of the workgroup.  Without stores before it there is nothing to add up, but to wait for
    for bit in replicas.bits:
        has_bit = w.emit(f"trunc i32 {w.emit(f'lshr i32 {sent}, {bit}')} to i1")
        lanes = w.call("llvm.nvvm.barrier.cta.red.popc.all", "i32", [("i32", "0"), ("i1", has_bit)])
        total = w.emit(f"add i32 {total}, {w.emit(f'shl i32 {lanes}, {bit}')}")
    w.line(f"store i32 0, ptr {SENT}")
    lane = linear_id(emitter)
    arriving, waiting = w.label("arriving"), w.label("waiting")
    w.branch_if(w.emit(f"icmp ult i32 {lane}, {replicas.workgroups}"), arriving, waiting)
    w.start(arriving)
    announced = w.emit(f"mul i32 {total}, {WORD}")
    text = "mbarrier.arrive.expect_tx.shared::cluster.b64 _, [$0], $1;"
    inline_ptx(emitter, text, "r,r", [("i32", _in_workgroup(emitter, own, lane)), ("i32", announced)])
    w.fall_into(waiting)
    parity = w.emit(f"and i32 {w.emit(f'lshr i32 {passed}, 1')}, 1")
    wait(emitter, own, parity)
    w.line(f"store i32 {w.emit(f'add i32 {passed}, 1')}, ptr {PASSED}")


def _object(emitter: FunctionEmitter, passed: str) -> str:
    """The pointer to this workgroup's object of the barrier after so many."""
    return object_at(emitter, emitter.context.mailbox, emitter.w.emit(f"and i32 {passed}, 1"))


def _in_workgroup(emitter: FunctionEmitter, pointer: str, workgroup: str) -> str:
    """The address, in the memory of a workgroup of the cluster, of the place that `pointer` is in this one's."""
    there = emitter.w.call("llvm.nvvm.mapa.shared.cluster", CLUSTER, [(SHARED, pointer), ("i32", workgroup)])
    return address(emitter, there, CLUSTER)
