"""Runs of asynchronous copies by the engine for bulk copies (see copy_runs.py), and waits for them.

A group of copies, which a copy_wait ends, has an mbarrier object that lets go when each subgroup has ended the group and all
bytes have come.  Groups take the objects of a ring by turns:

    copy_async     the first invocation of the run announces its bytes to the group's object, and begins the copy
    copy_wait 1    the first lane of each subgroup arrives at the object; all invocations wait for the group before

There are more objects than groups that a wait leaves, so a group finds its object let go of by the one that had it before.
An invocation that is late still sees that: the object cannot let go of another group until its subgroup has arrived there, too.
"""

from __future__ import annotations

from ...ir.ops import SUBGROUP_SIZE
from ...ir.program import Op
from ..common.lane_shape import SCALAR
from .copy_runs import CopyRuns, Run
from .function_emitter import FunctionEmitter
from .mbarriers import FENCE_OF_PROXIES, address, initialise, inline_ptx, object_at, slots, wait
from .memory import address as pointer_to
from .memory import locate
from .subgroup_ops import lane_mask
from .targets import OBJECT_BYTES
from .values import lane, linear_id

__all__ = ["begin", "copy_run", "drain", "fence", "ring_bytes", "wait_for_groups"]

ENDED, WAITED = "%ended", "%waited"
"""The groups that this invocation has ended, and those of them that it has waited for."""


def ring_bytes(runs: CopyRuns) -> int:
    return _objects(runs) * OBJECT_BYTES


def _objects(runs: CopyRuns) -> int:
    """A power of two, so that numbers of groups wrap as the ring does."""
    return 1 << runs.pending.bit_length()


def begin(emitter: FunctionEmitter) -> None:
    """Set up the objects, for all to see."""
    context = emitter.context
    assert context.runs is not None
    slots(emitter, ENDED, WAITED)
    subgroups = -(-context.program.lanes // SUBGROUP_SIZE)
    initialise(emitter, context.ring, _objects(context.runs), subgroups, FENCE_OF_PROXIES)
    emitter.w.call("llvm.nvvm.barrier.cta.sync.all", "void", [("i32", "0")])


def copy_run(emitter: FunctionEmitter, op: Op, run: Run) -> None:
    """Begin the run of a copy_async, if this invocation has its first piece."""
    w, load = emitter.w, op.operands[0].owner
    assert isinstance(load, Op)
    number, kind = linear_id(emitter), "i32"
    if run.counter is not None:
        number, kind = emitter.scalar(run.counter), SCALAR.type(run.counter.type)
    first, after = w.label("run"), w.label("begun")
    position = w.emit(f"urem {kind} {number}, {run.pieces}")
    w.branch_if(w.emit(f"icmp eq {kind} {position}, 0"), first, after)
    w.start(first)
    moved = op.operands[0].type
    accesses = (locate(emitter, each, each.index, moved) for each in (op, load))
    target, origin = (pointer_to(emitter, access, moved.element, 1, 0) for access in accesses)
    text = (
        "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [$3], $2; "
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], $2, [$3];"
    )
    values = [
        ("i32", address(emitter, target)),
        ("i64", address(emitter, origin, "ptr addrspace(1)", "i64")),
        ("i32", str(run.size)),
        ("i32", address(emitter, _object(emitter, w.emit(f"load i32, ptr {ENDED}")))),
    ]
    inline_ptx(emitter, text, "r,l,r,r", values)
    w.fall_into(after)


def wait_for_groups(emitter: FunctionEmitter, pending: int) -> None:
    """End a group, and wait for all groups but the last `pending`."""
    w = emitter.w
    # a lane may arrive for its subgroup when all lanes have announced their bytes, and waited for the groups before
    w.call("llvm.nvvm.bar.warp.sync", "void", [("i32", lane_mask(emitter))])
    group = w.emit(f"load i32, ptr {ENDED}")
    arriving, ended = w.label("arriving"), w.label("ended")
    w.branch_if(w.emit(f"icmp eq i32 {lane(emitter)}, 0"), arriving, ended)
    w.start(arriving)
    object_ = address(emitter, _object(emitter, group))
    inline_ptx(emitter, "mbarrier.arrive.shared::cta.b64 _, [$0];", "r", [("i32", object_)])
    w.fall_into(ended)
    count = w.emit(f"add i32 {group}, 1")
    w.line(f"store i32 {count}, ptr {ENDED}")
    head, body, done = w.label("groups"), w.label("group"), w.label("copied")
    w.fall_into(head)
    waited = w.emit(f"load i32, ptr {WAITED}")
    under_way = w.emit(f"sub i32 {count}, {waited}")  # which is right when both have wrapped, too
    w.branch_if(w.emit(f"icmp ugt i32 {under_way}, {pending}"), body, done)
    w.start(body)
    turns = w.emit(f"lshr i32 {waited}, {_index_bits(emitter)}")
    wait(emitter, _object(emitter, waited), w.emit(f"and i32 {turns}, 1"))
    w.line(f"store i32 {w.emit(f'add i32 {waited}, 1')}, ptr {WAITED}")
    w.branch(head)
    w.start(done)


def drain(emitter: FunctionEmitter) -> None:
    """Wait for all copies at the end: the memory is another workgroup's then."""
    assert emitter.context.runs is not None
    if emitter.context.runs.drains:
        wait_for_groups(emitter, 0)


def fence(emitter: FunctionEmitter) -> None:
    """Order this invocation's stores to workgroup memory before copies that follow a barrier."""
    inline_ptx(emitter, FENCE_OF_PROXIES, "", [])


def _object(emitter: FunctionEmitter, group: str) -> str:
    assert emitter.context.runs is not None
    number = emitter.w.emit(f"and i32 {group}, {_objects(emitter.context.runs) - 1}")
    return object_at(emitter, emitter.context.ring, number)


def _index_bits(emitter: FunctionEmitter) -> int:
    assert emitter.context.runs is not None
    return _objects(emitter.context.runs).bit_length() - 1
