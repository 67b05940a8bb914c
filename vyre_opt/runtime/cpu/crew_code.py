"""What threads do between workgroups, as LLVM IR: take stretches of a job, and wait for the next.

A *job* is a dispatch that several threads share.  Its words (64 bits each; those that threads
change at the same time lie in cache lines of their own):

    END, SIZE        workgroups in all, and of a stretch at most
    SPREAD           one SPREADth of what was taken so far is the most in a stretch, or 1: where
                     workgroups take long, stretches stay short
    CODE, ARGS       the function of the program (see lowering.host) and its arguments
    ROOMS, STRIDE    scratch memory, STRIDE bytes a thread
    RECORDS          RECORD_WORDS a thread: what lowering.host calls status
    NEXT             the first workgroup that nobody has taken; stretches are taken in order
    STOP             not 0 once no more is to be taken: a fault, or the caller gave up
    RUNNING          threads that may touch the job, the caller among them
    DONE             a semaphore, posted by the last of them unless that is the caller
    YIELD            a function that lets other threads run
    STATE            the caller's: 0 alone, 1 others were told, 2 its own part is done
    COUNT, MEMBERS   the seats of the others: member k is thread k + 1

A *seat* is where a thread waits for jobs: JOB, SLOT (its number in the job), QUIT, WAKE (a
semaphore).  JOB goes 0 -> CLAIMED -> job -> job | BEGUN -> 0.  A caller takes a seat that has not
begun back, so that it never waits for a thread that is still asleep; the thread then wakes up for
nothing, and sleeps again.

Waking a sleeping thread is dear, so the caller wakes FAN of them and each of those wakes FAN more.
"""

from __future__ import annotations

from ...lowering.host_frame import STOP_WORD, YIELD_WORD

__all__ = [
    "ARGS",
    "CODE",
    "COPIED_BYTES",
    "END",
    "MEMBERS",
    "NEXT",
    "RECORDS",
    "RECORD_WORDS",
    "ROOMS",
    "SEAT_BYTES",
    "SIZE",
    "SPREAD",
    "STOP",
    "STRIDE",
    "YIELD",
    "waiting_text",
    "working_text",
]

END, SIZE, SPREAD, CODE, ARGS, ROOMS, STRIDE, RECORDS = range(8)
NEXT, STOP, RUNNING, DONE, YIELD, STATE, COUNT, MEMBERS = 8, 16, 24, 32, 40, 41, 42, 43
JOB, SLOT, QUIT, WAKE = 0, 1, 2, 4
SEAT_BYTES = 128
RECORD_WORDS = 8
FAN = 2
CLAIMED, BEGUN = 2, 1

COPIED_BYTES = 1 << 16
"""What `vyre_copy` takes for a workgroup."""


def working_text(triple: str, layout: str) -> str:
    """vyre_work(job, thread, most) -> whether nothing is left to take; else it has run `most` stretches.
    vyre_copy(args, first, last, ...): a program's function; the arguments are to, from, bytes."""
    return f'''target datalayout = "{layout}"
target triple = "{triple}"

declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define i64 @vyre_work(ptr %job, i64 %thread, i64 %most) nounwind {{
entry:
{_load("end", "i64", END)}
{_at("largest", SIZE)}
{_load("spread", "i64", SPREAD)}
{_load("code", "ptr", CODE)}
{_load("args", "ptr", ARGS)}
{_load("rooms", "ptr", ROOMS)}
{_load("stride", "i64", STRIDE)}
{_load("records", "ptr", RECORDS)}
{_at("stop", STOP)}
{_at("next", NEXT)}
  %away = mul i64 %thread, %stride
  %room = getelementptr i8, ptr %rooms, i64 %away
  %place = mul i64 %thread, {RECORD_WORDS}
  %record = getelementptr i64, ptr %records, i64 %place
{_at("told", STOP_WORD, "record")}
  store ptr %stop.at, ptr %told.at
{_load("yield", "ptr", YIELD)}
{_at("other", YIELD_WORD, "record")}
  store ptr %yield, ptr %other.at
  br label %head
head:
  %count = phi i64 [ 0, %entry ], [ %more, %following ]
  %enough = icmp uge i64 %count, %most
  br i1 %enough, label %left, label %look
look:
  %stop = load atomic i64, ptr %stop.at monotonic, align 8
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %over, label %take
take:
  %largest = load atomic i64, ptr %largest.at monotonic, align 8
  %so.far = load atomic i64, ptr %next.at monotonic, align 8
  %part = udiv i64 %so.far, %spread
  %capped = call i64 @llvm.umin.i64(i64 %part, i64 %largest)
  %size = call i64 @llvm.umax.i64(i64 %capped, i64 1)
  %first = atomicrmw add ptr %next.at, i64 %size monotonic
  %some = icmp ult i64 %first, %end
  br i1 %some, label %run, label %over
run:
  %sum = add i64 %first, %size
  %last = call i64 @llvm.umin.i64(i64 %sum, i64 %end)
  call void %code(ptr %args, i64 %first, i64 %last, ptr %room, ptr %record)
  %found = load i64, ptr %record
  %bad = icmp ne i64 %found, 0
  br i1 %bad, label %fault, label %following
following:
  %more = add i64 %count, 1
  br label %head
fault:
  store atomic i64 1, ptr %stop.at monotonic, align 8
  ret i64 1
left:
  ret i64 0
over:
  ret i64 1
}}

define void @vyre_copy(ptr %args, i64 %first, i64 %last, ptr %room, ptr %record) nounwind {{
  %to = load ptr, ptr %args
  %from.at = getelementptr i64, ptr %args, i64 1
  %from = load ptr, ptr %from.at
  %bytes.at = getelementptr i64, ptr %args, i64 2
  %bytes = load i64, ptr %bytes.at
  %start = mul i64 %first, {COPIED_BYTES}
  %beyond = mul i64 %last, {COPIED_BYTES}
  %end = call i64 @llvm.umin.i64(i64 %beyond, i64 %bytes)
  %length = sub i64 %end, %start
  %target = getelementptr i8, ptr %to, i64 %start
  %source = getelementptr i8, ptr %from, i64 %start
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %length, i1 false)
  ret void
}}
'''


def waiting_text(triple: str) -> str:
    """Functions for Linux, whose C library gives semaphores and clocks; after `working_text`.

    vyre_seat(seat): make it.                 vyre_quit(seat): its thread returns.
    vyre_worker(seat, spin): what its thread does; it looks for jobs for `spin` ns before it sleeps.
    vyre_start(job, seats, count, wanted): tell up to `wanted` of the first `count` seats.
    vyre_finish(job, ns): after the caller's part: 1 when all have left, 0 after so many ns
        or a signal.  ns < 1e9; with 0 it waits for as long as it takes.
    vyre_abandon(job): stop all, and wait until they have left; nothing where they have.
    """
    declared, pause = _pause(triple)
    return f"""
{declared}
declare i32 @sem_init(ptr, i32, i32)
declare i32 @sem_post(ptr)
declare i32 @sem_wait(ptr)
declare i32 @sem_timedwait(ptr, ptr)
declare i32 @clock_gettime(i32, ptr)

define internal i64 @vyre.now() nounwind {{
  %time = alloca [2 x i64], align 16
  %failed = call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  ret i64 %now
}}

; wait until the word is none of 0 and `other` (or is 0, if `until.zero`), for `spin` ns at most
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

define i64 @vyre_seat(ptr %seat) nounwind {{
{_at("wake", WAKE, "seat")}
  %failed = call i32 @sem_init(ptr %wake.at, i32 0, i32 0)
  %wide = sext i32 %failed to i64
  ret i64 %wide
}}

define void @vyre_quit(ptr %seat) nounwind {{
{_at("quit", QUIT, "seat")}
{_at("wake", WAKE, "seat")}
  store atomic i64 1, ptr %quit.at release, align 8
  %failed = call i32 @sem_post(ptr %wake.at)
  ret void
}}

define internal void @vyre.wake(ptr %job, i64 %thread) nounwind {{
entry:
{_load("count", "i64", COUNT)}
  %base = mul i64 %thread, {FAN}
  %full = add i64 %base, {FAN}
  %end = call i64 @llvm.umin.i64(i64 %full, i64 %count)
{_at("members", MEMBERS)}
  br label %head
head:
  %k = phi i64 [ %base, %entry ], [ %following, %post ]
  %more = icmp ult i64 %k, %end
  br i1 %more, label %post, label %done
post:
  %member.at = getelementptr i64, ptr %members.at, i64 %k
  %seat = load ptr, ptr %member.at
{_at("wake", WAKE, "seat")}
  %failed = call i32 @sem_post(ptr %wake.at)
  %following = add i64 %k, 1
  br label %head
done:
  ret void
}}

define void @vyre_worker(ptr %seat, i64 %spin) nounwind {{
entry:
{_at("job", JOB, "seat")}
{_at("slot", SLOT, "seat")}
{_at("quit", QUIT, "seat")}
{_at("wake", WAKE, "seat")}
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
{_at("running", RUNNING)}
{_at("done", DONE)}
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
  %failed = call i32 @sem_wait(ptr %wake.at)
  br label %head
leave:
  ret void
}}

define i64 @vyre_start(ptr %job, ptr %seats, i64 %count, i64 %wanted) nounwind {{
entry:
{_at("members", MEMBERS)}
{_at("count", COUNT)}
{_at("running", RUNNING)}
{_at("state", STATE)}
{_at("done", DONE)}
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
{_at("slot", SLOT, "seat")}
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

; take back those that have not begun; how many threads are out with that, the caller included
define internal i64 @vyre.take_back(ptr %job) nounwind {{
entry:
{_at("members", MEMBERS)}
{_load("count", "i64", COUNT)}
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

define i64 @vyre_finish(ptr %job, i64 %ns) nounwind {{
entry:
  %time = alloca [2 x i64], align 16
{_at("state", STATE)}
{_at("running", RUNNING)}
{_at("done", DONE)}
  %state = load i64, ptr %state.at
  switch i64 %state, label %gone [ i64 1, label %leave  i64 2, label %wait ]
leave:
  %out = call i64 @vyre.take_back(ptr %job)
  %before = atomicrmw sub ptr %running.at, i64 %out acq_rel
  store i64 2, ptr %state.at
  %last = icmp eq i64 %before, %out
  br i1 %last, label %end, label %watch
watch:
  call void @vyre.spin(ptr %running.at, i64 0, i1 true, i64 50000)
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

define void @vyre_abandon(ptr %job) nounwind {{
{_load("state", "i64", STATE)}
  %alone = icmp eq i64 %state, 0
  br i1 %alone, label %end, label %stop
stop:
{_at("stop", STOP)}
  store atomic i64 1, ptr %stop.at monotonic, align 8
  %left = call i64 @vyre_finish(ptr %job, i64 0)
  br label %end
end:
  ret void
}}
"""


def _at(name: str, word: int, base: str = "job") -> str:
    return f"  %{name}.at = getelementptr i64, ptr %{base}, i64 {word}"


def _load(name: str, kind: str, word: int) -> str:
    return f"{_at(name, word)}\n  %{name} = load {kind}, ptr %{name}.at"


def _pause(triple: str) -> tuple[str, str]:
    """What tells the CPU that this thread only waits: its declaration, and the call."""
    if triple.startswith(("x86", "i686")):
        return "declare void @llvm.x86.sse2.pause()", "  call void @llvm.x86.sse2.pause()"
    if triple.startswith(("aarch64", "arm64")):
        return "declare void @llvm.aarch64.hint(i32)", "  call void @llvm.aarch64.hint(i32 1)"
    return "", "  fence acquire"
