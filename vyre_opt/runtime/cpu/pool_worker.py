"""What a thread does of a job: it takes stretches of workgroups until none is left, as LLVM IR."""

from __future__ import annotations

from ...lowering.host.abi import STOP_WORD, YIELD_WORD
from .pool_layout import (
    ARGS,
    CODE,
    END,
    NEXT,
    RECORD_WORDS,
    RECORDS,
    ROOMS,
    SIZE,
    SPREAD,
    STOP,
    STRIDE,
    YIELD,
    at,
    load,
)

__all__ = ["COPIED_BYTES", "working_text"]

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
{_work()}
{_copy()}'''


def _work() -> str:
    return f"""
define i64 @vyre_work(ptr %job, i64 %thread, i64 %most) nounwind {{
entry:
{load("end", "i64", END)}
{at("largest", SIZE)}
{load("spread", "i64", SPREAD)}
{load("code", "ptr", CODE)}
{load("args", "ptr", ARGS)}
{load("rooms", "ptr", ROOMS)}
{load("stride", "i64", STRIDE)}
{load("records", "ptr", RECORDS)}
{at("stop", STOP)}
{at("next", NEXT)}
  %away = mul i64 %thread, %stride
  %room = getelementptr i8, ptr %rooms, i64 %away
  %place = mul i64 %thread, {RECORD_WORDS}
  %record = getelementptr i64, ptr %records, i64 %place
{at("told", STOP_WORD, "record")}
  store ptr %stop.at, ptr %told.at
{load("yield", "ptr", YIELD)}
{at("other", YIELD_WORD, "record")}
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
"""


def _copy() -> str:
    return f"""
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
"""
