"""Barriers of a subgroup, a workgroup, a cluster and a grid.

A grid barrier is a cluster barrier where the whole grid is one cluster, and that has no fence where the buffers that it
orders have replicas (see exchange.py).  Elsewhere it waits on a counter in global memory (`%arrivals`), and the kernel needs a cooperative launch.

None is of the kind `aligned`, which takes all lanes of a warp to arrive together.  Lanes that left a loop at
different turns need not have met again, above all where an access in the loop may fault: with an aligned barrier
some of them went on before the others had stored (ptxas 12.8 and 13.0, sm_90).
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.program import Op
from .bulk_copies import fence
from .exchange import arrive_and_wait
from .faults import poll
from .function_emitter import FunctionEmitter
from .subgroup_ops import lane_mask
from .values import linear_id, register

__all__ = ["BARRIER_OPS"]


def _barrier(emitter: FunctionEmitter, op: Op) -> None:
    scope = op.attrs["scope"]
    if scope == "subgroup":
        emitter.w.call("llvm.nvvm.bar.warp.sync", "void", [("i32", lane_mask(emitter))])
        return
    runs = emitter.context.runs
    if runs is not None and op in runs.fences:
        fence(emitter)
    is_of_cluster = scope == "cluster" or (scope == "grid" and emitter.context.is_cluster)
    if is_of_cluster and emitter.context.replicas is not None:
        arrive_and_wait(emitter)
        return
    _workgroup_barrier(emitter)
    if is_of_cluster:
        _wait_for_cluster(emitter)
    elif scope == "grid":
        # One invocation waits for its whole workgroup: the barrier before collects what the others wrote,
        # the one behind holds them until the grid is there
        _wait_for_grid(emitter)
        _workgroup_barrier(emitter)


def _workgroup_barrier(emitter: FunctionEmitter) -> None:
    emitter.w.call("llvm.nvvm.barrier.cta.sync.all", "void", [("i32", "0")])


ARRIVALS = "ptr addrspace(1)"
TURN = 1 << 31


def _wait_for_grid(emitter: FunctionEmitter) -> None:
    """The first invocation of each workgroup adds to the counter, and waits until its highest bit flips.

    One workgroup adds 2^31 - (workgroups - 1), the others 1: the sum is 2^31, so the
    low bits are back at 0 for the next barrier.  (CUDA's cooperative groups do the same.)
    """
    w = emitter.w
    ids = [register(emitter, "ctaid", axis, None) for axis in range(3)]
    sizes = [register(emitter, "nctaid", axis, None) for axis in range(3)]
    locals_ = [register(emitter, "tid", axis, None) for axis in range(3)]
    leader, waiting, done = w.label("leader"), w.label("waiting"), w.label("together")
    w.branch_if(_all_zero(emitter, locals_), leader, done)
    w.start(leader)
    w.line('fence syncscope("device") seq_cst')
    total = w.emit(f"mul i32 {w.emit(f'mul i32 {sizes[0]}, {sizes[1]}')}, {sizes[2]}")
    other_workgroups = w.emit(f"sub i32 {total}, 1")
    last = w.emit(f"sub i32 {-TURN}, {other_workgroups}")
    increment = w.emit(f"select i1 {_all_zero(emitter, ids)}, i32 {last}, i32 1")
    old = w.emit(f'atomicrmw add {ARRIVALS} %arrivals, i32 {increment} syncscope("device") acq_rel, align 4')
    w.fall_into(waiting)
    # A workgroup whose leader has faulted never arrives
    if emitter.context.may_fault:
        poll(emitter)
    now = w.emit(f'load atomic i32, {ARRIVALS} %arrivals syncscope("device") acquire, align 4')
    changed = w.emit(f"xor i32 {old}, {now}")
    is_flipped = w.emit(f"icmp slt i32 {changed}, 0")
    w.branch_if(is_flipped, done, waiting)
    w.start(done)


def _wait_for_cluster(emitter: FunctionEmitter) -> None:
    """The hardware's cluster barrier.

    Only the first subgroup arrives with release order: a workgroup barrier came before, so its arrival
    publishes what the whole workgroup wrote.  The others arrive relaxed, since each release fence
    would wait for the loads of its subgroup.
    """
    w = emitter.w
    first, others, arrived = w.label("first"), w.label("others"), w.label("arrived")
    w.branch_if(w.emit(f"icmp ult i32 {linear_id(emitter)}, 32"), first, others)
    w.start(first)
    w.call("llvm.nvvm.barrier.cluster.arrive", "void", [])
    w.branch(arrived)
    w.start(others)
    w.call("llvm.nvvm.barrier.cluster.arrive.relaxed", "void", [])
    w.fall_into(arrived)
    w.call("llvm.nvvm.barrier.cluster.wait", "void", [])


def _all_zero(emitter: FunctionEmitter, words: list[str]) -> str:
    w = emitter.w
    joined = w.emit(f"or i32 {w.emit(f'or i32 {words[0]}, {words[1]}')}, {words[2]}")
    return w.emit(f"icmp eq i32 {joined}, 0")


BARRIER_OPS: dict[str, Callable[[FunctionEmitter, Op], None]] = {"barrier": _barrier}
