"""How threads wait for jobs, as LLVM IR, where there are POSIX semaphores.

Waking a sleeping thread is dear, so the caller wakes FAN of them and each of those wakes FAN more;
one that is awake is looking at its seat, and is left alone.
"""

from __future__ import annotations

from .pool_layout import (
    ASLEEP,
    BEGUN,
    CLAIMED,
    COUNT,
    DONE,
    JOB,
    MEMBERS,
    QUIT,
    RUNNING,
    SLOT,
    WAKE,
    at,
    load,
)

__all__ = ["waiting_text"]

FAN = 2


def waiting_text(triple: str) -> str:
    """Functions for Linux, whose C library gives semaphores and clocks; after `working_text`.

    vyre_seat(seat): make it.                 vyre_quit(seat): its thread returns.
    vyre_worker(seat, spin): what its thread does; it looks for jobs for `spin` ns before it sleeps.
    """
    return "".join((_system(), _spin(triple), _seat(), _wake(), _worker()))


def _system() -> str:
    return """
declare i32 @sem_init(ptr, i32, i32)
declare i32 @sem_post(ptr)
declare i32 @sem_wait(ptr)
declare i32 @sem_timedwait(ptr, ptr)
declare i32 @clock_gettime(i32, ptr)

define internal i64 @vyre.now() nounwind {
  %time = alloca [2 x i64], align 16
  %failed = call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  ret i64 %now
}
"""


def _spin(triple: str) -> str:
    """vyre.spin(word, other, until_zero, ns): wait until the word is none of 0 and `other` (or is 0)."""
    declared, pause = _pause(triple)
    return f"""
{declared}
define internal void @vyre.spin(ptr %word, i64 %other, i1 %until.zero, i64 %spin) nounwind {{
entry:
  %none = icmp eq i64 %spin, 0
  br i1 %none, label %end, label %begin
begin:
  %start = call i64 @vyre.now()
  br label %look
look:
  %rounds = phi i64 [ 0, %begin ], [ %round, %again ], [ 0, %clock ]
  %value = load atomic i64, ptr %word acquire, align 8
  %some = icmp ne i64 %value, 0
  %changed = icmp ne i64 %value, %other
  %both = and i1 %some, %changed
  %none.left = icmp eq i64 %value, 0
  %met = select i1 %until.zero, i1 %none.left, i1 %both
  br i1 %met, label %end, label %rest
rest:
{pause}
  %round = add i64 %rounds, 1
  %long = icmp uge i64 %round, 32
  br i1 %long, label %clock, label %again
again:
  br label %look
clock:
  %now = call i64 @vyre.now()
  %took = sub i64 %now, %start
  %late = icmp uge i64 %took, %spin
  br i1 %late, label %end, label %look
end:
  ret void
}}
"""


def _pause(triple: str) -> tuple[str, str]:
    """What tells the CPU that this thread only waits: its declaration, and the call."""
    if triple.startswith(("x86", "i686")):
        return "declare void @llvm.x86.sse2.pause()", "  call void @llvm.x86.sse2.pause()"
    if triple.startswith(("aarch64", "arm64")):
        return "declare void @llvm.aarch64.hint(i32)", "  call void @llvm.aarch64.hint(i32 1)"
    return "", "  fence acquire"


def _seat() -> str:
    return f"""
define i64 @vyre_seat(ptr %seat) nounwind {{
{at("wake", WAKE, "seat")}
  %failed = call i32 @sem_init(ptr %wake.at, i32 0, i32 0)
  %wide = sext i32 %failed to i64
  ret i64 %wide
}}

define void @vyre_quit(ptr %seat) nounwind {{
{at("quit", QUIT, "seat")}
{at("wake", WAKE, "seat")}
  store atomic i64 1, ptr %quit.at release, align 8
  %failed = call i32 @sem_post(ptr %wake.at)
  ret void
}}
"""


def _wake() -> str:
    """vyre.wake(job, thread): post for those of the thread's FAN members that are asleep.

    The fence comes between the JOB of a seat and its ASLEEP, as in the seat's own thread, so that
    one of the two sees what the other wrote.
    """
    return f"""
define internal void @vyre.wake(ptr %job, i64 %thread) nounwind {{
entry:
  fence seq_cst
{load("count", "i64", COUNT)}
  %base = mul i64 %thread, {FAN}
  %full = add i64 %base, {FAN}
  %end = call i64 @llvm.umin.i64(i64 %full, i64 %count)
{at("members", MEMBERS)}
  br label %head
head:
  %k = phi i64 [ %base, %entry ], [ %following, %step ]
  %more = icmp ult i64 %k, %end
  br i1 %more, label %look, label %done
look:
  %member.at = getelementptr i64, ptr %members.at, i64 %k
  %seat = load ptr, ptr %member.at
{at("asleep", ASLEEP, "seat")}
  %asleep = load atomic i64, ptr %asleep.at monotonic, align 8
  %sleeps = icmp ne i64 %asleep, 0
  br i1 %sleeps, label %ask, label %step
ask:
  %was = atomicrmw xchg ptr %asleep.at, i64 0 acq_rel
  %ours = icmp ne i64 %was, 0
  br i1 %ours, label %post, label %step
post:
{at("wake", WAKE, "seat")}
  %failed = call i32 @sem_post(ptr %wake.at)
  br label %step
step:
  %following = add i64 %k, 1
  br label %head
done:
  ret void
}}
"""


def _worker() -> str:
    return f"""
define void @vyre_worker(ptr %seat, i64 %spin) nounwind {{
entry:
{at("job", JOB, "seat")}
{at("slot", SLOT, "seat")}
{at("quit", QUIT, "seat")}
  br label %head
head:
  %word = load atomic i64, ptr %job.at acquire, align 8
  switch i64 %word, label %begin [ i64 0, label %idle  i64 {CLAIMED}, label %idle ]
begin:
  %begun = or i64 %word, {BEGUN}
  %pair = cmpxchg ptr %job.at, i64 %word, i64 %begun acq_rel acquire
  %ours = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %ours, label %run, label %head
run:
  %job = inttoptr i64 %word to ptr
  %thread = load i64, ptr %slot.at
  call void @vyre.wake(ptr %job, i64 %thread)
  %over = call i64 @vyre_work(ptr %job, i64 %thread, i64 -1)
  store atomic i64 0, ptr %job.at release, align 8
{at("running", RUNNING)}
{at("done", DONE)}
  %before = atomicrmw sub ptr %running.at, i64 1 acq_rel
  %last = icmp eq i64 %before, 1
  br i1 %last, label %tell, label %head
tell:
  %told = call i32 @sem_post(ptr %done.at)
  br label %head
idle:
  %quit = load atomic i64, ptr %quit.at acquire, align 8
  %quits = icmp ne i64 %quit, 0
  br i1 %quits, label %leave, label %wait
wait:
  call void @vyre.spin(ptr %job.at, i64 {CLAIMED}, i1 false, i64 %spin)
  %again = load atomic i64, ptr %job.at acquire, align 8
  switch i64 %again, label %head [ i64 0, label %sleep  i64 {CLAIMED}, label %sleep ]
sleep:
  call void @vyre.sleep(ptr %seat)
  br label %head
leave:
  ret void
}}

; until somebody posts; at once if a job has come meanwhile
define internal void @vyre.sleep(ptr %seat) nounwind {{
entry:
{at("job", JOB, "seat")}
{at("asleep", ASLEEP, "seat")}
{at("wake", WAKE, "seat")}
  store atomic i64 1, ptr %asleep.at monotonic, align 8
  fence seq_cst
  %word = load atomic i64, ptr %job.at acquire, align 8
  switch i64 %word, label %take [ i64 0, label %doze  i64 {CLAIMED}, label %doze ]
take:
  %was = atomicrmw xchg ptr %asleep.at, i64 0 acq_rel
  %ours = icmp ne i64 %was, 0
  br i1 %ours, label %end, label %doze
doze:
  %failed = call i32 @sem_wait(ptr %wake.at)
  %signal = icmp ne i32 %failed, 0
  br i1 %signal, label %doze, label %end
end:
  ret void
}}
"""
