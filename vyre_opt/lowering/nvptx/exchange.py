"""Hand-offs within a cluster by replicas of a buffer, without a fence.

Each workgroup has two mbarrier objects (see mbarriers.py): such an object lets go when every workgroup of the cluster has
arrived and all announced bytes have come.

    store            st.async to each replica, which tells the object there of its bytes; the lane counts its words
    barrier          all lanes add up their words; lane r arrives at the object of workgroup r and announces the bytes;
                     then all wait for their own object

A store to a row that one workgroup owns (see owned_rows.py) goes to this one alone.  A lane counts the words for one owner at a time; when
it stores to another one, and at the barrier, it adds them to the owner's count in workgroup memory.

So nothing waits for the loads of the workgroup, and a value is there after one way through the cluster.

Barriers take the objects by turns.  A workgroup that a barrier has let go may store before the last one has come to
others; with one object these bytes would count for the barrier where the others still wait.  It cannot be two barriers
ahead, since the next one waits for the others.

Arrivals and waits have the scope of a workgroup, which is the default: a wider one makes ptxas write a fence for all memory.  What
crosses workgroups is ordered by the objects themselves: the bytes of a store are complete when the value is there.
"""

from __future__ import annotations

from .function_emitter import FunctionEmitter
from .mbarriers import SHARED, address, initialise, inline_ptx, object_at, slots, wait
from .replicas import TURNS, WORD, own_bytes
from .targets import OBJECT_BYTES
from .values import linear_id

__all__ = ["arrive_and_wait", "begin", "send"]

CLUSTER = "ptr addrspace(7)"
SENT, PASSED = "%sent", "%passed"
"""The words that this lane has stored to all since the last barrier; the number of barriers before."""
OWNER, OWNED = "%owner", "%owned"
"""The owner that this lane has stored to last; the words for it that are in no count yet."""


def begin(emitter: FunctionEmitter) -> None:
    """Set up this workgroup's objects, zero its replicas, and wait until all workgroups have."""
    w, context = emitter.w, emitter.context
    replicas = context.replicas
    assert replicas is not None
    slots(emitter, SENT, PASSED, *((OWNER, OWNED) if replicas.rows else ()))
    lane = linear_id(emitter)
    for name in sorted(replicas.buffers):
        words = own_bytes(context.program.buffers[name], replicas.rows) // WORD
        _zero(emitter, context.buffers[name].pointer, words, lane)
    if replicas.rows:
        _zero(emitter, _count(emitter, "0", "0"), TURNS * replicas.workgroups, lane)
    initialise(emitter, context.mailbox, TURNS, replicas.workgroups)
    for step in ("arrive", "wait"):
        w.call(f"llvm.nvvm.barrier.cluster.{step}", "void", [])


def _zero(emitter: FunctionEmitter, pointer: str, words: int, lane: str) -> None:
    w = emitter.w
    before, head, body, done = w.block, w.label("zero"), w.label("zeroing"), w.label("zeroed")
    following = w.fresh()
    w.fall_into(head)
    index = w.phi("i32", [(lane, before), (following, body)])
    w.branch_if(w.emit(f"icmp ult i32 {index}, {words}"), body, done)
    w.start(body)
    target = w.emit(f"getelementptr i32, {SHARED} {pointer}, i32 {index}")
    w.line(f"store i32 0, {SHARED} {target}, align {WORD}")
    w.line(f"{following} = add i32 {index}, {emitter.context.program.lanes}")
    w.branch(head)
    w.start(done)


def send(emitter: FunctionEmitter, pointer: str, words: list[str], owner: str = "") -> None:
    """Store 32-bit words, one behind the other and 1, 2 or 4 of them aligned to their size, to the place of every replica
    that `pointer` is in this workgroup's; with an `owner` (i32), to the one of that workgroup."""
    w, context = emitter.w, emitter.context
    assert context.replicas is not None
    count = len(words)
    shape = ".b32" if count == 1 else f".v{count}.b32"
    operands = [f"${k}" for k in range(1, count + 1)]
    value = operands[0] if count == 1 else f"{{{', '.join(operands)}}}"
    text = f"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes{shape} [$0], {value}, [${count + 1}];"
    barrier = _object(emitter, w.emit(f"load i32, ptr {PASSED}"))
    for workgroup in [owner] if owner else map(str, range(context.replicas.workgroups)):
        there, object_ = (_in_workgroup(emitter, at, workgroup) for at in (pointer, barrier))
        values = [("i32", word) for word in words]
        inline_ptx(emitter, text, ",".join("r" * (count + 2)), [("i32", there), *values, ("i32", object_)])
    if owner:
        _count_for(emitter, owner, count)
    else:
        _add(emitter, SENT, count)


def _add(emitter: FunctionEmitter, slot: str, count: int) -> None:
    w = emitter.w
    before = w.emit(f"load i32, ptr {slot}")
    w.line(f"store i32 {w.emit(f'add i32 {before}, {count}')}, ptr {slot}")


def _count_for(emitter: FunctionEmitter, owner: str, count: int) -> None:
    """Count words for an owner.  LLVM sees where it is the one of the last store, and leaves out the branch."""
    w = emitter.w
    other, same = w.label("other"), w.label("same")
    last = w.emit(f"load i32, ptr {OWNER}")
    w.branch_if(w.emit(f"icmp eq i32 {last}, {owner}"), same, other)
    w.start(other)
    _hand_over(emitter)
    w.fall_into(same)
    w.line(f"store i32 {owner}, ptr {OWNER}")
    _add(emitter, OWNED, count)


def _hand_over(emitter: FunctionEmitter) -> None:
    """Add the words for the last owner to its count."""
    w = emitter.w
    some, none = w.label("some"), w.label("none")
    words = w.emit(f"load i32, ptr {OWNED}")
    w.branch_if(w.emit(f"icmp ne i32 {words}, 0"), some, none)
    w.start(some)
    turn = _turn(emitter, w.emit(f"load i32, ptr {PASSED}"))
    pointer = _count(emitter, turn, w.emit(f"load i32, ptr {OWNER}"))
    w.emit(f'atomicrmw add {SHARED} {pointer}, i32 {words} syncscope("block") monotonic, align {WORD}')
    w.line(f"store i32 0, ptr {OWNED}")
    w.fall_into(none)


def arrive_and_wait(emitter: FunctionEmitter) -> None:
    """The barrier: what was sent before is in all replicas after it."""
    w, replicas = emitter.w, emitter.context.replicas
    assert replicas is not None
    passed = w.emit(f"load i32, ptr {PASSED}")
    barrier = _object(emitter, passed)
    if replicas.rows:
        _hand_over(emitter)
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
    if replicas.rows:
        # nobody counts in this turn again before the next barrier, which waits for this lane
        count = _count(emitter, _turn(emitter, passed), lane)
        total = w.emit(f"add i32 {total}, {w.emit(f'load i32, {SHARED} {count}, align {WORD}')}")
        w.line(f"store i32 0, {SHARED} {count}, align {WORD}")
    announced = w.emit(f"mul i32 {total}, {WORD}")
    text = "mbarrier.arrive.expect_tx.shared::cluster.b64 _, [$0], $1;"
    inline_ptx(emitter, text, "r,r", [("i32", _in_workgroup(emitter, barrier, lane)), ("i32", announced)])
    w.fall_into(waiting)
    parity = w.emit(f"and i32 {w.emit(f'lshr i32 {passed}, 1')}, 1")
    wait(emitter, barrier, parity)
    w.line(f"store i32 {w.emit(f'add i32 {passed}, 1')}, ptr {PASSED}")


def _count(emitter: FunctionEmitter, turn: str, owner: str) -> str:
    """The pointer to the words for an owner that were counted in a turn; they lie behind the objects."""
    w, context = emitter.w, emitter.context
    assert context.replicas is not None
    before = w.emit(f"mul i32 {turn}, {context.replicas.workgroups}")
    at = w.emit(f"add i32 {before}, {owner}")
    first = w.emit(f"getelementptr i8, {SHARED} {context.mailbox}, i32 {TURNS * OBJECT_BYTES}")
    return w.emit(f"getelementptr i32, {SHARED} {first}, i32 {at}")


def _turn(emitter: FunctionEmitter, passed: str) -> str:
    return emitter.w.emit(f"and i32 {passed}, {TURNS - 1}")


def _object(emitter: FunctionEmitter, passed: str) -> str:
    """The pointer to this workgroup's object of the barrier after so many."""
    return object_at(emitter, emitter.context.mailbox, _turn(emitter, passed))


def _in_workgroup(emitter: FunctionEmitter, pointer: str, workgroup: str) -> str:
    """The address, in the memory of a workgroup of the cluster, of the place that `pointer` is in this one's."""
    there = emitter.w.call("llvm.nvvm.mapa.shared.cluster", CLUSTER, [(SHARED, pointer), ("i32", workgroup)])
    return address(emitter, there, CLUSTER)
