"""What threads that share a dispatch have in common in memory, in words of 64 bits.

A *job* is a dispatch that several threads share (what threads change at the same time lies in
cache lines of its own):

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

A *seat* is where a thread waits for jobs:

    JOB              0 -> CLAIMED -> job -> job | BEGUN -> 0.  A caller takes a seat that has not
                     begun back, so that it never waits for a thread that is still asleep; the
                     thread then wakes up for nothing, and sleeps again
    SLOT             its number in the job
    QUIT             not 0 once its thread is to return
    ASLEEP           1 from before its thread waits for WAKE until somebody takes the 1 away: who
                     does posts WAKE, or is the thread itself
    WAKE             a semaphore; a post for each sleep, so that none is left for later
"""

from __future__ import annotations

END, SIZE, SPREAD, CODE, ARGS, ROOMS, STRIDE, RECORDS = range(8)
NEXT, STOP, RUNNING, DONE, YIELD, STATE, COUNT, MEMBERS = 8, 16, 24, 32, 40, 41, 42, 43
RECORD_WORDS = 8

JOB, SLOT, QUIT, ASLEEP, WAKE = range(5)
CLAIMED, BEGUN = 2, 1
SEAT_BYTES = 128


def at(name: str, word: int, base: str = "job") -> str:
    """LLVM IR for the address %<name>.at of a word."""
    return f"  %{name}.at = getelementptr i64, ptr %{base}, i64 {word}"


def load(name: str, kind: str, word: int) -> str:
    """LLVM IR for the value %<name> of a word of %job that no thread changes."""
    return f"{at(name, word)}\n  %{name} = load {kind}, ptr %{name}.at"
