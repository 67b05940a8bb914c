"""The machine code of the thread pool, as LLVM IR: how threads share a job, and how they wait for one.

A *job* is a dispatch that several threads share: a range of workgroups, of which each thread takes a
chunk at a time until none is left.  A *slot* is where a worker thread waits for jobs.

    caller                                          worker thread, in vyre_worker
    ------                                          -----------------------------
    vyre_start:                                     spin on slot.JOB, then sleep on slot.WAKE
      slot.JOB: FREE -> CLAIMED  (each slot)
      job.RUNNING = 1 + slots claimed
      slot.JOB: CLAIMED -> job -------------------> slot.JOB: job -> job | BEGUN
      post slot.WAKE of those that sleep ---------> (one that spins needs no post)
    vyre_work: run chunks                           vyre_work: run chunks
    vyre_finish:                                    slot.JOB: job | BEGUN -> FREE
      slot.JOB: job -> FREE of each worker          job.RUNNING -= 1
        that has not begun                          if it is 0 now: post job.DONE
      job.RUNNING -= 1 + slots taken back                 |
      if it is 0 now: done                                |
      spin on job.RUNNING, then wait for job.DONE <-------+

So the caller never waits for a thread that is still asleep: it takes the job back, and the thread wakes
up for nothing.

A caller that does no part itself lets go of nothing before a worker has come to the end: it waits for
job.FIRST, which each worker posts when it leaves, and then for the others as above.

Code that runs on for long is broken off: a signal to the worker's thread makes it jump out of the code, to where
it called it.  That is safe since such code holds nothing: no lock, no memory of its own.

    vyre_abandon:                                   vyre.guarded: setjmp, then vyre_work
      job.STOP = 1, wait a while                        |
      slot.BREAK = job, signal to slot.THREAD ----> vyre_break: if slot.BREAK is the job of slot.JOB, longjmp
      until job.RUNNING is 0

Both structures are arrays of 64-bit words.  A job (words that threads change at the same time lie in
cache lines of their own):

    END              the workgroup behind the last; behind the first chunk with a fault, once there is one
    LEAST, MAX_CHUNK the fewest and the most workgroups in a chunk
    SPREAD           a chunk is at most 1/SPREAD of the workgroups taken so far of its range (at least LEAST), so that
                     chunks stay small at first, when nobody knows how long a workgroup takes
    RANGES, PARTS    the address of the ranges, and how many there are: one if chunks have to be taken in order, else one for
                     each thread.  A thread takes what is left of its own one, then of the next ones: so it has the
                     same part of all buffers in each run, and finds it in its caches.
    CODE, ARGS       the function of the program (see lowering.host) and its arguments
    SCRATCH, STRIDE  scratch memory of the first thread; bytes from one thread's to the next one's
    RECORDS          fault records, RECORD_WORDS a thread: what lowering.host calls status
    STOP             not 0 once no more chunks are to be taken: a fault, or the caller gave up
    RUNNING          the number of threads that may touch the job, the caller among them
    DONE             a semaphore, posted by the last of them unless that is the caller
    YIELD            the address of a function that lets other threads run
    STATE            ALONE, SHARED (between start and finish) or LEFT (the caller's own part is done);
                     only the caller reads or writes it
    WORKERS_ONLY     not 0 if the caller does no part, and waits for FIRST
    SPENT            nanoseconds that a worker was in the job, the last to leave
    FIRST            a semaphore, posted by each worker that leaves a job that is WORKERS_ONLY
    COUNT, MEMBERS   the slots of the workers that share the job: member k is its thread k + 1

A range, RANGE_WORDS words:

    NEXT             its first workgroup that no thread has taken; chunks of a range are taken in order
    FIRST_OF, END_OF its first workgroup, and the one behind its last

The caller, thread 0, goes from range to range in order: whatever is before a chunk in which it finds a fault has been taken.

A slot:

    JOB              FREE, CLAIMED (a caller is about to publish a job), the address of a job, or that
                     address | BEGUN (jobs are 8-byte aligned, so the bits are free)
    NUMBER           the number of its thread in the job
    QUIT             not 0 once its thread is to return
    ASLEEP           1 from before its thread waits for WAKE until somebody exchanges it for 0: a waker,
                     which then posts WAKE, or the thread itself
    WAKE             a semaphore; one post for each sleep, so that none is left over
    THREAD           the pthread_t of its thread
    BREAK            the job that its thread is to jump out of
    INSIDE           1 while there is a place to jump to: LANDING, a jmp_buf
"""

from __future__ import annotations

from ...lowering.host.abi import STOP_WORD, YIELD_WORD

__all__ = ["GROUP_BYTES", "linux_ir", "worker_ir"]

END, MAX_CHUNK, SPREAD, CODE, ARGS, SCRATCH, STRIDE, RECORDS = range(8)
# 8 words apart is 64 bytes: a cache line each.  A sem_t takes 32 bytes, so it fits behind DONE and WAKE.
RANGES, PARTS, STOP, RUNNING, DONE = 8, 9, 16, 24, 32
YIELD, STATE, COUNT, WORKERS_ONLY, SPENT, LEAST = range(40, 46)
FIRST, MEMBERS = 48, 52
NEXT, FIRST_OF, END_OF = range(3)
RANGE_WORDS = 8
RECORD_WORDS = 16
ALONE, SHARED, LEFT = range(3)

JOB, NUMBER, QUIT, ASLEEP, WAKE = range(5)
THREAD, BREAK, INSIDE, LANDING = 9, 10, 11, 12
# no address of a job: those are multiples of 8, so BEGUN can be a bit of one
FREE, BEGUN, CLAIMED = range(3)
# whole cache lines: a thread that spins on its slot does not slow down its neighbours; and a jmp_buf, which takes 200
# bytes on x86-64 and 312 on aarch64
SLOT_BYTES = 1024

GROUP_BYTES = 1 << 16
"""Bytes that `vyre_copy` and `vyre_clear` take as one workgroup."""

SA_SIGINFO, SA_ONSTACK, SA_RESTART, SA_NODEFER = 0x4, 0x08000000, 0x10000000, 0x40000000
SIGACTION_BYTES, SIGACTION_FLAGS = 160, 136
"""Size of glibc's struct sigaction, or more, and offset of its flags, behind a handler and a mask of 128 bytes."""
SIGINFO_VALUE = 24
"""Offset in a siginfo_t of the value that was sent."""

GRACE_NS = 10_000_000
"""Time that a caller which gives up waits before it breaks code off, and before it tries again."""

LINGER_NS = 50_000
"""Time that a caller spins until the workers are done, before it sleeps."""


def worker_ir(triple: str, layout: str) -> str:
    """The functions that every system has:

    vyre_work(job, thread, most): run up to `most` chunks as that thread; 1 if nothing is left to take.
    vyre_run(jobs, count): run jobs whole, one after the other, as thread 0 of each; `jobs` are their addresses.
        Gives the index of the first that is at fault, after which none is run, or `count`.
    vyre_copy(args, first, last, ...): a function such as lowering.host makes, which copies memory;
        its arguments are the target, the source, and the number of bytes.
    vyre_clear(args, first, last, ...): one that sets memory to 0; its arguments are the target, and the bytes.
    """
    return f'''target datalayout = "{layout}"
target triple = "{triple}"

declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
{_work()}
{_run()}
{_copy()}
{_clear()}'''


def linux_ir(triple: str) -> str:
    """The functions for Linux, whose C library has semaphores and clocks; to be appended to `worker_ir`:

    vyre_init_slot(slot): prepare it; not 0 if there is no semaphore.
    vyre_quit_slot(slot): let its thread return.
    vyre_worker(slot, spin): what its thread does; it looks for jobs for `spin` ns before it sleeps.
    vyre_start(job, slots, count, wanted): give the job to up to `wanted` of the first `count` slots.
    vyre_finish(job, ns): to be called after the caller's part: 1 when all workers have left the job,
        0 after so many ns, or a signal.  ns < 1e9; 0 waits for as long as it takes.
    vyre_share(job, slots, count, wanted, ns): vyre_start, the caller's part, and vyre_finish: 1 when all is done, 0 after
        so many ns in one of the two; then the caller goes on with vyre_work and vyre_finish.
    vyre_first(job, ns): 1 once a worker has come to the end of a job that is WORKERS_ONLY, 0 after so many ns, or a signal.
    vyre_abandon(job): stop all workers, break off the code that they are in, and wait until they have left; nothing
        where they have.
    vyre_install(signal): the signal that breaks code off; 0, or -1 if it has no handler now.
    """
    waiting = _libc() + _spin(triple) + _init_and_quit() + _guarded() + _worker() + _sleep()
    return (
        waiting
        + _start()
        + _wake()
        + _reclaim()
        + _timed_wait()
        + _finish()
        + _share()
        + _first()
        + _abandon()
        + _install()
    )


def _address(name: str, word: int, base: str = "job") -> str:
    """LLVM IR for the address %<name>.at of a word of %<base>."""
    return f"  %{name}.at = getelementptr i64, ptr %{base}, i64 {word}"


def _load(name: str, kind: str, word: int) -> str:
    """LLVM IR for the value %<name> of a word of %job that no thread changes."""
    return f"{_address(name, word)}\n  %{name} = load {kind}, ptr %{name}.at"


# --- running chunks


def _work() -> str:
    return f"""
define i64 @vyre_work(ptr %job, i64 %thread, i64 %most) nounwind {{
entry:
{_thread_setup()}
  br label %find
find:
  ; ranges from the thread's own one on
  %turn = phi i64 [ 0, %entry ], [ %turn.next, %next.range ]
  %found = phi i64 [ 0, %entry ], [ %count, %next.range ]
  %number.sum = add i64 %thread, %turn
  %number = urem i64 %number.sum, %parts
  %range.offset = mul i64 %number, {RANGE_WORDS}
  %range = getelementptr i64, ptr %ranges, i64 %range.offset
{_address("next", NEXT, "range")}
{_address("first.of", FIRST_OF, "range")}
  %first.of = load i64, ptr %first.of.at
{_address("end.of", END_OF, "range")}
  %end.of = load i64, ptr %end.of.at
  br label %head
head:
  %count = phi i64 [ %found, %find ], [ %count.next, %following ]
  %enough = icmp uge i64 %count, %most
  br i1 %enough, label %some.left, label %look
look:
  %stop = load atomic i64, ptr %stop.at monotonic, align 8
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %none.left, label %measure
measure:
  %end.all = load atomic i64, ptr %end.at monotonic, align 8
  %end = call i64 @llvm.umin.i64(i64 %end.all, i64 %end.of)
  ; another thread may take a chunk between this load and the addition: the size is only a guide
  %so.far = load atomic i64, ptr %next.at monotonic, align 8
  %any = icmp ult i64 %so.far, %end
  br i1 %any, label %take, label %next.range
take:
  %max.chunk = load atomic i64, ptr %max.chunk.at monotonic, align 8
  %taken = sub i64 %so.far, %first.of
  %part = udiv i64 %taken, %spread
  %capped = call i64 @llvm.umin.i64(i64 %part, i64 %max.chunk)
  %size = call i64 @llvm.umax.i64(i64 %capped, i64 %least)
  %first = atomicrmw add ptr %next.at, i64 %size monotonic
  %some = icmp ult i64 %first, %end
  br i1 %some, label %run, label %next.range
next.range:
  %turn.next = add i64 %turn, 1
  %more = icmp ult i64 %turn.next, %parts
  br i1 %more, label %find, label %none.left
run:
  %sum = add i64 %first, %size
  %last = call i64 @llvm.umin.i64(i64 %sum, i64 %end)
  call void %code(ptr %args, i64 %first, i64 %last, ptr %scratch, ptr %record)
  %kind = load i64, ptr %record
  %faulty = icmp ne i64 %kind, 0
  br i1 %faulty, label %fault, label %following
following:
  %count.next = add i64 %count, 1
  br label %head
fault:
  %was.end = atomicrmw umin ptr %end.at, i64 %last monotonic
  ; what is before it in other ranges may be at fault, too; in a single range all that is before it is taken
  %in.order = icmp eq i64 %parts, 1
  br i1 %in.order, label %stop.all, label %none.left
stop.all:
  store atomic i64 1, ptr %stop.at monotonic, align 8
  ret i64 1
some.left:
  ret i64 0
none.left:
  ret i64 1
}}
"""


def _run() -> str:
    return f"""
define i64 @vyre_run(ptr %jobs, i64 %count) nounwind {{
entry:
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %k.next, %following ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %run, label %end
run:
  %job.at = getelementptr ptr, ptr %jobs, i64 %k
  %job = load ptr, ptr %job.at
{_load("last", "i64", END)}
{_load("code", "ptr", CODE)}
{_load("args", "ptr", ARGS)}
{_load("scratch", "ptr", SCRATCH)}
{_load("record", "ptr", RECORDS)}
  call void %code(ptr %args, i64 0, i64 %last, ptr %scratch, ptr %record)
  %kind = load i64, ptr %record
  %faulty = icmp ne i64 %kind, 0
  br i1 %faulty, label %end, label %following
following:
  %k.next = add i64 %k, 1
  br label %head
end:
  ret i64 %k
}}
"""


def _thread_setup() -> str:
    """Loads the words of %job that the chunk loop uses, and finds this thread's %scratch and %record; the
    program's code polls STOP and calls YIELD through addresses in the record, which are stored here."""
    return f"""\
{_address("end", END)}
{_load("ranges", "ptr", RANGES)}
{_load("parts", "i64", PARTS)}
{_address("max.chunk", MAX_CHUNK)}
{_load("spread", "i64", SPREAD)}
{_load("least", "i64", LEAST)}
{_load("code", "ptr", CODE)}
{_load("args", "ptr", ARGS)}
{_load("scratches", "ptr", SCRATCH)}
{_load("stride", "i64", STRIDE)}
{_load("records", "ptr", RECORDS)}
{_address("stop", STOP)}
  %scratch.offset = mul i64 %thread, %stride
  %scratch = getelementptr i8, ptr %scratches, i64 %scratch.offset
  %record.offset = mul i64 %thread, {RECORD_WORDS}
  %record = getelementptr i64, ptr %records, i64 %record.offset
{_address("record.stop", STOP_WORD, "record")}
  store ptr %stop.at, ptr %record.stop.at
{_load("yield", "ptr", YIELD)}
{_address("record.yield", YIELD_WORD, "record")}
  store ptr %yield, ptr %record.yield.at"""


def _memory_range(bytes_word: int) -> str:
    """LLVM IR for %target and %length of the workgroups from %first to %last, and %start, where they begin."""
    return f"""\
  %to = load ptr, ptr %args
  %bytes.at = getelementptr i64, ptr %args, i64 {bytes_word}
  %bytes = load i64, ptr %bytes.at
  %start = mul i64 %first, {GROUP_BYTES}
  %beyond = mul i64 %last, {GROUP_BYTES}
  %end = call i64 @llvm.umin.i64(i64 %beyond, i64 %bytes)
  %length = sub i64 %end, %start
  %target = getelementptr i8, ptr %to, i64 %start"""


def _clear() -> str:
    return f"""
define void @vyre_clear(ptr %args, i64 %first, i64 %last, ptr %scratch, ptr %record) nounwind {{
{_memory_range(1)}
  call void @llvm.memset.p0.i64(ptr %target, i8 0, i64 %length, i1 false)
  ret void
}}
"""


def _copy() -> str:
    return f"""
define void @vyre_copy(ptr %args, i64 %first, i64 %last, ptr %scratch, ptr %record) nounwind {{
{_memory_range(2)}
  %from.at = getelementptr i64, ptr %args, i64 1
  %from = load ptr, ptr %from.at
  %source = getelementptr i8, ptr %from, i64 %start
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %length, i1 false)
  ret void
}}
"""


# --- waiting for jobs


def _libc() -> str:
    """Declares functions of the C library, and defines vyre.now(): nanoseconds of CLOCK_MONOTONIC (1)."""
    return """
declare i32 @sched_yield()
declare i32 @sem_init(ptr, i32, i32)
declare i32 @sem_post(ptr)
declare i32 @sem_wait(ptr)
declare i32 @sem_timedwait(ptr, ptr)
declare i32 @clock_gettime(i32, ptr)
declare i64 @pthread_self()
declare i32 @pthread_sigqueue(i64, i32, ptr)
declare i32 @sigaction(i32, ptr, ptr)
declare i32 @_setjmp(ptr) returns_twice
declare void @longjmp(ptr, i32) noreturn

@vyre.signal = internal global i32 0

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
    """vyre.spin(word, other, until_zero, ns): for up to `ns`, until the word is 0 if `until_zero`,
    else until it is neither 0 nor `other`.  In every 32nd round it looks at the clock, and lets others have the CPU: on a
    busy machine that may be the thread that it waits for."""
    declaration, pause = _pause(triple)
    return f"""
{declaration}
define internal void @vyre.spin(ptr %word, i64 %other, i1 %until.zero, i64 %ns) nounwind {{
entry:
  %none = icmp eq i64 %ns, 0
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
  %zero = icmp eq i64 %value, 0
  %met = select i1 %until.zero, i1 %zero, i1 %both
  br i1 %met, label %end, label %rest
rest:
{pause}
  %round = add i64 %rounds, 1
  %long = icmp uge i64 %round, 32
  br i1 %long, label %clock, label %again
again:
  br label %look
clock:
  %yielded = call i32 @sched_yield()
  %now = call i64 @vyre.now()
  %elapsed = sub i64 %now, %start
  %late = icmp uge i64 %elapsed, %ns
  br i1 %late, label %end, label %look
end:
  ret void
}}
"""


def _pause(triple: str) -> tuple[str, str]:
    """The CPU's hint that a thread only spins: its declaration, and the call."""
    if triple.startswith(("x86", "i686")):
        return "declare void @llvm.x86.sse2.pause()", "  call void @llvm.x86.sse2.pause()"
    if triple.startswith(("aarch64", "arm64")):
        return "declare void @llvm.aarch64.hint(i32)", "  call void @llvm.aarch64.hint(i32 1)"
    return "", "  fence acquire"


def _init_and_quit() -> str:
    return f"""
define i64 @vyre_init_slot(ptr %slot) nounwind {{
{_address("wake", WAKE, "slot")}
  %failed = call i32 @sem_init(ptr %wake.at, i32 0, i32 0)
  %wide = sext i32 %failed to i64
  ret i64 %wide
}}

define void @vyre_quit_slot(ptr %slot) nounwind {{
{_address("quit", QUIT, "slot")}
{_address("wake", WAKE, "slot")}
  store atomic i64 1, ptr %quit.at release, align 8
  %failed = call i32 @sem_post(ptr %wake.at)
  ret void
}}
"""


def _guarded() -> str:
    """vyre.guarded(slot, job, thread): vyre_work, out of which a signal may jump; vyre_break: its handler."""
    return f"""
define internal void @vyre.guarded(ptr %slot, ptr %job, i64 %thread) noinline nounwind {{
entry:
{_address("inside", INSIDE, "slot")}
{_address("landing", LANDING, "slot")}
  %again = call i32 @_setjmp(ptr %landing.at) returns_twice
  %broken = icmp ne i32 %again, 0
  br i1 %broken, label %end, label %run
run:
  store atomic i64 1, ptr %inside.at seq_cst, align 8
  %over = call i64 @vyre_work(ptr %job, i64 %thread, i64 -1)
  store atomic i64 0, ptr %inside.at seq_cst, align 8
  br label %end
end:
  ret void
}}

define internal void @vyre_break(i32 %signal, ptr %info, ptr %context) nounwind {{
entry:
  %value.at = getelementptr i8, ptr %info, i64 {SIGINFO_VALUE}
  %slot = load ptr, ptr %value.at
{_address("inside", INSIDE, "slot")}
  %inside = load atomic i64, ptr %inside.at seq_cst, align 8
  %is.inside = icmp ne i64 %inside, 0
  br i1 %is.inside, label %look, label %stay
look:
{_address("job", JOB, "slot")}
{_address("break", BREAK, "slot")}
  %word = load atomic i64, ptr %job.at seq_cst, align 8
  %wanted = load atomic i64, ptr %break.at seq_cst, align 8
  %begun = or i64 %wanted, {BEGUN}
  %is.meant = icmp eq i64 %word, %begun
  br i1 %is.meant, label %jump, label %stay
jump:
  store atomic i64 0, ptr %inside.at seq_cst, align 8
{_address("landing", LANDING, "slot")}
  call void @longjmp(ptr %landing.at, i32 1)
  unreachable
stay:
  ret void
}}
"""


def _install() -> str:
    flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART | SA_NODEFER
    return f"""
define i64 @vyre_install(i64 %number) nounwind {{
  %action = alloca [{SIGACTION_BYTES} x i8], align 16
  call void @llvm.memset.p0.i64(ptr %action, i8 0, i64 {SIGACTION_BYTES}, i1 false)
  store ptr @vyre_break, ptr %action
  %flags.at = getelementptr i8, ptr %action, i64 {SIGACTION_FLAGS}
  store i32 {flags}, ptr %flags.at
  %signal = trunc i64 %number to i32
  store i32 %signal, ptr @vyre.signal
  %failed = call i32 @sigaction(i32 %signal, ptr %action, ptr null)
  %wide = sext i32 %failed to i64
  ret i64 %wide
}}
"""


def _worker() -> str:
    return f"""
define void @vyre_worker(ptr %slot, i64 %spin) nounwind {{
entry:
{_address("job", JOB, "slot")}
{_address("number", NUMBER, "slot")}
{_address("quit", QUIT, "slot")}
{_address("own", THREAD, "slot")}
  %self = call i64 @pthread_self()
  store atomic i64 %self, ptr %own.at release, align 8
  br label %head
head:
  %word = load atomic i64, ptr %job.at acquire, align 8
  switch i64 %word, label %begin [ i64 {FREE}, label %idle  i64 {CLAIMED}, label %idle ]
begin:
  ; fails if the caller has taken the job back
  %begun = or i64 %word, {BEGUN}
  %pair = cmpxchg ptr %job.at, i64 %word, i64 %begun acq_rel acquire
  %ours = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %ours, label %run, label %head
run:
  %job = inttoptr i64 %word to ptr
  %thread = load i64, ptr %number.at
  %came = call i64 @vyre.now()
  call void @vyre.guarded(ptr %slot, ptr %job, i64 %thread)
  %left = call i64 @vyre.now()
  %spent = sub i64 %left, %came
{_address("spent", SPENT)}
  store atomic i64 %spent, ptr %spent.at monotonic, align 8
{_load("workers.only", "i64", WORKERS_ONLY)}
  %caller.waits = icmp ne i64 %workers.only, 0
  store atomic i64 {FREE}, ptr %job.at release, align 8
  br i1 %caller.waits, label %tell, label %go
tell:
{_address("first", FIRST)}
  %told = call i32 @sem_post(ptr %first.at)
  br label %go
go:
{_address("running", RUNNING)}
{_address("done", DONE)}
  ; the job may be gone after this, unless this thread is the last: then its caller waits for the post
  %before = atomicrmw sub ptr %running.at, i64 1 acq_rel
  %last = icmp eq i64 %before, 1
  br i1 %last, label %post, label %head
post:
  %failed = call i32 @sem_post(ptr %done.at)
  br label %head
idle:
  %quit = load atomic i64, ptr %quit.at acquire, align 8
  %quits = icmp ne i64 %quit, 0
  br i1 %quits, label %leave, label %wait
wait:
  call void @vyre.spin(ptr %job.at, i64 {CLAIMED}, i1 false, i64 %spin)
  %again = load atomic i64, ptr %job.at acquire, align 8
  switch i64 %again, label %head [ i64 {FREE}, label %sleep  i64 {CLAIMED}, label %sleep ]
sleep:
  call void @vyre.sleep(ptr %slot)
  br label %head
leave:
  ret void
}}
"""


def _sleep() -> str:
    """vyre.sleep(slot): wait for a post to WAKE, or return at once if a job has come meanwhile."""
    return f"""
define internal void @vyre.sleep(ptr %slot) nounwind {{
entry:
{_address("job", JOB, "slot")}
{_address("asleep", ASLEEP, "slot")}
{_address("wake", WAKE, "slot")}
  store atomic i64 1, ptr %asleep.at monotonic, align 8
  fence seq_cst
  %word = load atomic i64, ptr %job.at acquire, align 8
  switch i64 %word, label %awake [ i64 {FREE}, label %doze  i64 {CLAIMED}, label %doze ]
awake:
  ; if a waker was faster, its post is on the way, and must be used up here
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


# --- the caller of a job


def _start() -> str:
    """vyre_start (see `linux_ir`).

    All slots are claimed before the first one gets the job: a worker that has it reads MEMBERS and
    decrements RUNNING, so both must be complete by then.
    """
    return f"""
define i64 @vyre_start(ptr %job, ptr %slots, i64 %count, i64 %wanted) nounwind {{
entry:
{_address("members", MEMBERS)}
{_address("count", COUNT)}
{_address("running", RUNNING)}
{_address("state", STATE)}
{_address("done", DONE)}
  %failed = call i32 @sem_init(ptr %done.at, i32 0, i32 0)
{_address("first", FIRST)}
  %also = call i32 @sem_init(ptr %first.at, i32 0, i32 0)
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %k.next, %step ]
  %n = phi i64 [ 0, %entry ], [ %n.next, %step ]
  %more = icmp ult i64 %k, %count
  %short = icmp ult i64 %n, %wanted
  %going = and i1 %more, %short
  br i1 %going, label %ask, label %claimed
ask:
  %offset = mul i64 %k, {SLOT_BYTES}
  %slot = getelementptr i8, ptr %slots, i64 %offset
  %pair = cmpxchg ptr %slot, i64 {FREE}, i64 {CLAIMED} acq_rel monotonic
  %ours = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %ours, label %claim, label %step
claim:
  %member.at = getelementptr i64, ptr %members.at, i64 %n
  store ptr %slot, ptr %member.at
  %thread = add i64 %n, 1
{_address("number", NUMBER, "slot")}
  store i64 %thread, ptr %number.at
  br label %step
step:
  %n.next = phi i64 [ %n, %ask ], [ %thread, %claim ]
  %k.next = add i64 %k, 1
  br label %head
claimed:
  store i64 %n, ptr %count.at
  %all = add i64 %n, 1
  store atomic i64 %all, ptr %running.at monotonic, align 8
  store i64 {SHARED}, ptr %state.at
  %job.word = ptrtoint ptr %job to i64
  br label %next
next:
  %m = phi i64 [ 0, %claimed ], [ %m.next, %publish ]
  %left = icmp ult i64 %m, %n
  br i1 %left, label %publish, label %published
publish:
  %one.at = getelementptr i64, ptr %members.at, i64 %m
  %one = load ptr, ptr %one.at
  store atomic i64 %job.word, ptr %one release, align 8
  %m.next = add i64 %m, 1
  br label %next
published:
  call void @vyre.wake(ptr %job)
  ret i64 %n
}}
"""


def _wake() -> str:
    """vyre.wake(job): post WAKE of those that sleep of the workers that share a job.

    The fence comes between the stores to JOB and the loads of ASLEEP; in vyre.sleep one comes between the store to
    ASLEEP and the load of JOB.  So one of the two sees the other's store.
    """
    return f"""
define internal void @vyre.wake(ptr %job) nounwind {{
entry:
  fence seq_cst
{_load("count", "i64", COUNT)}
{_address("members", MEMBERS)}
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %k.next, %step ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %look, label %done
look:
  %member.at = getelementptr i64, ptr %members.at, i64 %k
  %slot = load ptr, ptr %member.at
{_address("asleep", ASLEEP, "slot")}
  %asleep = load atomic i64, ptr %asleep.at monotonic, align 8
  %sleeps = icmp ne i64 %asleep, 0
  br i1 %sleeps, label %claim, label %step
claim:
  %was = atomicrmw xchg ptr %asleep.at, i64 0 acq_rel
  %ours = icmp ne i64 %was, 0
  br i1 %ours, label %post, label %step
post:
{_address("wake", WAKE, "slot")}
  %failed = call i32 @sem_post(ptr %wake.at)
  br label %step
step:
  %k.next = add i64 %k, 1
  br label %head
done:
  ret void
}}
"""


def _reclaim() -> str:
    """vyre.reclaim(job): free the slots of workers that have not begun; their number, plus 1 for the caller."""
    return f"""
define internal i64 @vyre.reclaim(ptr %job) nounwind {{
entry:
{_address("members", MEMBERS)}
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
  %slot = load ptr, ptr %member.at
  %pair = cmpxchg ptr %slot, i64 %job.word, i64 {FREE} acq_rel monotonic
  %ours = extractvalue {{ i64, i1 }} %pair, 1
  %one = zext i1 %ours to i64
  %out.next = add i64 %out, %one
  %k.next = add i64 %k, 1
  br label %head
end:
  ret i64 %out
}}
"""


def _timed_wait() -> str:
    """vyre.wait(semaphore, ns): 1 once it was posted, 0 after so many ns, or a signal."""
    return """
define internal i64 @vyre.wait(ptr %semaphore, i64 %ns) nounwind {
  %time = alloca [2 x i64], align 16
  ; sem_timedwait takes a time of CLOCK_REALTIME (0): now plus ns, in seconds and nanoseconds
  %no.clock = call i32 @clock_gettime(i32 0, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %sum = add i64 %rest, %ns
  %carry = icmp uge i64 %sum, 1000000000
  %carried = zext i1 %carry to i64
  %whole = add i64 %seconds, %carried
  %excess = select i1 %carry, i64 1000000000, i64 0
  %left = sub i64 %sum, %excess
  store i64 %whole, ptr %time
  store i64 %left, ptr %rest.at
  %late = call i32 @sem_timedwait(ptr %semaphore, ptr %time)
  %met = icmp eq i32 %late, 0
  %result = zext i1 %met to i64
  ret i64 %result
}
"""


def _first() -> str:
    return f"""
define i64 @vyre_first(ptr %job, i64 %ns) nounwind {{
entry:
{_load("count", "i64", COUNT)}
{_address("running", RUNNING)}
  %all = add i64 %count, 1
  ; until another number of threads may touch the job than at its start
  call void @vyre.spin(ptr %running.at, i64 %all, i1 false, i64 {LINGER_NS})
{_address("first", FIRST)}
  %met = call i64 @vyre.wait(ptr %first.at, i64 %ns)
  ret i64 %met
}}
"""


def _finish() -> str:
    """vyre_finish (see `linux_ir`).

    After RUNNING has reached 0 it still waits for DONE: the last worker posts it in the job's memory,
    which must not be freed before.
    """
    return f"""
define i64 @vyre_finish(ptr %job, i64 %ns) nounwind {{
entry:
{_address("state", STATE)}
{_address("running", RUNNING)}
{_address("done", DONE)}
  %state = load i64, ptr %state.at
  switch i64 %state, label %gone [ i64 {SHARED}, label %leave  i64 {LEFT}, label %wait ]
leave:
  %out = call i64 @vyre.reclaim(ptr %job)
  %before = atomicrmw sub ptr %running.at, i64 %out acq_rel
  store i64 {LEFT}, ptr %state.at
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
  %posted = call i64 @vyre.wait(ptr %done.at, i64 %ns)
  %met = icmp ne i64 %posted, 0
  br i1 %met, label %end, label %not.yet
not.yet:
  ret i64 0
end:
  store i64 {ALONE}, ptr %state.at
  ret i64 1
gone:
  ret i64 1
}}
"""


def _share() -> str:
    return """
define i64 @vyre_share(ptr %job, ptr %slots, i64 %count, i64 %wanted, i64 %ns) nounwind {
entry:
  %given = call i64 @vyre_start(ptr %job, ptr %slots, i64 %count, i64 %wanted)
  %begun = call i64 @vyre.now()
  br label %work
work:
  %done = call i64 @vyre_work(ptr %job, i64 0, i64 1)
  %is.done = icmp ne i64 %done, 0
  br i1 %is.done, label %finish, label %clock
clock:
  %now = call i64 @vyre.now()
  %elapsed = sub i64 %now, %begun
  %late = icmp uge i64 %elapsed, %ns
  br i1 %late, label %left, label %work
finish:
  %finished = call i64 @vyre_finish(ptr %job, i64 %ns)
  ret i64 %finished
left:
  ret i64 0
}
"""


def _abandon() -> str:
    return f"""
define void @vyre_abandon(ptr %job) nounwind {{
{_load("state", "i64", STATE)}
  %alone = icmp eq i64 %state, {ALONE}
  br i1 %alone, label %end, label %stop
stop:
{_address("stop", STOP)}
{_address("members", MEMBERS)}
{_load("count", "i64", COUNT)}
  %signal = load i32, ptr @vyre.signal
  %breaks = icmp ne i32 %signal, 0
  %patience = select i1 %breaks, i64 {GRACE_NS}, i64 0
  %job.word = ptrtoint ptr %job to i64
  %begun = or i64 %job.word, {BEGUN}
  store atomic i64 1, ptr %stop.at monotonic, align 8
  br label %wait
wait:
  %finished = call i64 @vyre_finish(ptr %job, i64 %patience)
  %is.finished = icmp ne i64 %finished, 0
  br label %each
each:
  ; those that are still in the job are to leave it; once all have left, no late signal may find a job to leave
  %k = phi i64 [ 0, %wait ], [ %k.next, %next ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %ask, label %round
ask:
  %member.at = getelementptr i64, ptr %members.at, i64 %k
  %slot = load ptr, ptr %member.at
{_address("job", JOB, "slot")}
{_address("break", BREAK, "slot")}
{_address("own", THREAD, "slot")}
  %k.next = add i64 %k, 1
  br i1 %is.finished, label %forget, label %look
forget:
  %was = cmpxchg ptr %break.at, i64 %job.word, i64 0 seq_cst seq_cst
  br label %next
look:
  %word = load atomic i64, ptr %job.at seq_cst, align 8
  %is.in = icmp eq i64 %word, %begun
  br i1 %is.in, label %send, label %next
send:
  store atomic i64 %job.word, ptr %break.at seq_cst, align 8
  %thread = load atomic i64, ptr %own.at acquire, align 8
  %unsent = call i32 @pthread_sigqueue(i64 %thread, i32 %signal, ptr %slot)
  br label %next
next:
  br label %each
round:
  br i1 %is.finished, label %end, label %wait
end:
  ret void
}}
"""
