"""How a caller shares a job with threads that wait, as LLVM IR: it tells them, and waits until they have left."""

from __future__ import annotations

from .pool_layout import CLAIMED, COUNT, DONE, MEMBERS, RUNNING, SEAT_BYTES, SLOT, STATE, STOP, at, load

__all__ = ["sharing_text"]

LINGER_NS = 50_000
"""How long a caller looks whether the others are done before it sleeps."""


def sharing_text() -> str:
    """Functions after `waiting_text`.

    vyre_start(job, seats, count, wanted): tell up to `wanted` of the first `count` seats.
    vyre_finish(job, ns): after the caller's part: 1 when all have left, 0 after so many ns
        or a signal.  ns < 1e9; with 0 it waits for as long as it takes.
    vyre_abandon(job): stop all, and wait until they have left; nothing where they have.
    """
    return "".join((_start(), _take_back(), _finish(), _abandon()))


def _start() -> str:
    return f"""
define i64 @vyre_start(ptr %job, ptr %seats, i64 %count, i64 %wanted) nounwind {{
entry:
{at("members", MEMBERS)}
{at("count", COUNT)}
{at("running", RUNNING)}
{at("state", STATE)}
{at("done", DONE)}
  %failed = call i32 @sem_init(ptr %done.at, i32 0, i32 0)
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %k.next, %step ]
  %n = phi i64 [ 0, %entry ], [ %n.next, %step ]
  %more = icmp ult i64 %k, %count
  %short = icmp ult i64 %n, %wanted
  %going = and i1 %more, %short
  br i1 %going, label %ask, label %told
ask:
  %away = mul i64 %k, {SEAT_BYTES}
  %seat = getelementptr i8, ptr %seats, i64 %away
  %pair = cmpxchg ptr %seat, i64 0, i64 {CLAIMED} acq_rel monotonic
  %ours = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %ours, label %claim, label %step
claim:
  %member.at = getelementptr i64, ptr %members.at, i64 %n
  store ptr %seat, ptr %member.at
  %thread = add i64 %n, 1
{at("slot", SLOT, "seat")}
  store i64 %thread, ptr %slot.at
  br label %step
step:
  %n.next = phi i64 [ %n, %ask ], [ %thread, %claim ]
  %k.next = add i64 %k, 1
  br label %head
told:
  store i64 %n, ptr %count.at
  %all = add i64 %n, 1
  store atomic i64 %all, ptr %running.at monotonic, align 8
  store i64 1, ptr %state.at
  %job.word = ptrtoint ptr %job to i64
  br label %next
next:
  %m = phi i64 [ 0, %told ], [ %m.next, %publish ]
  %left = icmp ult i64 %m, %n
  br i1 %left, label %publish, label %wake
publish:
  %one.at = getelementptr i64, ptr %members.at, i64 %m
  %one = load ptr, ptr %one.at
  store atomic i64 %job.word, ptr %one release, align 8
  %m.next = add i64 %m, 1
  br label %next
wake:
  call void @vyre.wake(ptr %job, i64 0)
  ret i64 %n
}}
"""


def _take_back() -> str:
    """vyre.take_back(job): take back the seats that have not begun; how many threads are out with
    that, the caller included."""
    return f"""
define internal i64 @vyre.take_back(ptr %job) nounwind {{
entry:
{at("members", MEMBERS)}
{load("count", "i64", COUNT)}
  %job.word = ptrtoint ptr %job to i64
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %k.next, %ask ]
  %out = phi i64 [ 1, %entry ], [ %out.next, %ask ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %ask, label %end
ask:
  %member.at = getelementptr i64, ptr %members.at, i64 %k
  %seat = load ptr, ptr %member.at
  %pair = cmpxchg ptr %seat, i64 %job.word, i64 0 acq_rel monotonic
  %ours = extractvalue {{ i64, i1 }} %pair, 1
  %one = zext i1 %ours to i64
  %out.next = add i64 %out, %one
  %k.next = add i64 %k, 1
  br label %head
end:
  ret i64 %out
}}
"""


def _finish() -> str:
    return f"""
define i64 @vyre_finish(ptr %job, i64 %ns) nounwind {{
entry:
  %time = alloca [2 x i64], align 16
{at("state", STATE)}
{at("running", RUNNING)}
{at("done", DONE)}
  %state = load i64, ptr %state.at
  switch i64 %state, label %gone [ i64 1, label %leave  i64 2, label %wait ]
leave:
  %out = call i64 @vyre.take_back(ptr %job)
  %before = atomicrmw sub ptr %running.at, i64 %out acq_rel
  store i64 2, ptr %state.at
  %last = icmp eq i64 %before, %out
  br i1 %last, label %end, label %watch
watch:
  call void @vyre.spin(ptr %running.at, i64 0, i1 true, i64 {LINGER_NS})
  br label %wait
wait:
  %forever = icmp eq i64 %ns, 0
  br i1 %forever, label %sleep, label %slice
sleep:
  %failed = call i32 @sem_wait(ptr %done.at)
  %signal = icmp ne i32 %failed, 0
  br i1 %signal, label %sleep, label %end
slice:
  %no.clock = call i32 @clock_gettime(i32 0, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %sum = add i64 %rest, %ns
  %carry = icmp uge i64 %sum, 1000000000
  %carried = zext i1 %carry to i64
  %whole = add i64 %seconds, %carried
  %taken = select i1 %carry, i64 1000000000, i64 0
  %left = sub i64 %sum, %taken
  store i64 %whole, ptr %time
  store i64 %left, ptr %rest.at
  %late = call i32 @sem_timedwait(ptr %done.at, ptr %time)
  %unmet = icmp ne i32 %late, 0
  br i1 %unmet, label %not.yet, label %end
not.yet:
  ret i64 0
end:
  store i64 0, ptr %state.at
  ret i64 1
gone:
  ret i64 1
}}
"""


def _abandon() -> str:
    return f"""
define void @vyre_abandon(ptr %job) nounwind {{
{load("state", "i64", STATE)}
  %alone = icmp eq i64 %state, 0
  br i1 %alone, label %end, label %stop
stop:
{at("stop", STOP)}
  store atomic i64 1, ptr %stop.at monotonic, align 8
  %left = call i64 @vyre_finish(ptr %job, i64 0)
  br label %end
end:
  ret void
}}
"""
