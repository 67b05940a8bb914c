"""The kernels on text as functions: decode, and decode and search in one launch.

Text is a str of ASCII characters, bytes, or an array of u8.  Each function takes `dispatcher=`
as those in arrays.py do.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..ir.program import Module, Program
from ..ir.types import DataType
from ..runtime.dispatcher import BadInputs
from .automaton import Match, build_automaton, matches_of
from .operands import Target, as_octets, room, target

__all__ = ["base64_decode", "decode_scan", "hex_decode"]


def base64_decode(text: Any, *, dispatcher: Target = "cpu") -> Any:
    """The bytes that base64 text stands for, as u8; padding may be left out.

    Characters that are not of the alphabet count as 0 bits: take line breaks out before.
    """
    from .decode import DecodeSchedule, base64, decode_grid

    octets = as_octets(text, "text")
    size = decoded_size(octets, "base64")
    if size == 0:
        return np.zeros(0, np.uint8)
    schedule = DecodeSchedule()
    inputs = [octets, room(size, DataType.U8)]
    (out,) = target(dispatcher).dispatch(base64(schedule), inputs, decode_grid(schedule, octets.size))
    return out


def hex_decode(text: Any, *, dispatcher: Target = "cpu") -> Any:
    """The bytes of hexadecimal text in either case, as u8; a last odd digit is left out."""
    from .decode import DecodeSchedule, decode_grid, hex_text

    octets = as_octets(text, "text")
    size = decoded_size(octets, "hex")
    if size == 0:
        return np.zeros(0, np.uint8)
    schedule = DecodeSchedule()
    inputs = [octets, room(size, DataType.U8)]
    (out,) = target(dispatcher).dispatch(hex_text(schedule), inputs, decode_grid(schedule, octets.size))
    return out


def decode_scan(
    text: Any, patterns: Sequence[bytes | str], encoding: str = "base64", *, dispatcher: Target = "cpu"
) -> list[Match]:
    """Where the decoded bytes of `text` hold `patterns`: (place of the last byte, number), sorted.

    `encoding`: base64, hex, or raw for bytes as they are.  Decoding and search are one launch,
    the decoded bytes staying in workgroup memory.
    """
    from .dfa import SOURCES, dfa_grid, dfa_schedule

    if encoding not in SOURCES:
        raise BadInputs(f"unknown encoding {encoding!r}; there are {', '.join(SOURCES)}")
    if isinstance(patterns, (str, bytes)):
        raise BadInputs("patterns is a list of patterns, not one")
    try:
        automaton = build_automaton([p.encode() if isinstance(p, str) else bytes(p) for p in patterns])
    except ValueError as wrong:
        raise BadInputs(str(wrong)) from None
    octets = as_octets(text, "text")
    size = decoded_size(octets, encoding)
    if size == 0 or not automaton.sets:
        return []
    schedule = dfa_schedule(automaton.warmup)
    program = fused_decode_scan(encoding, automaton.warmup)
    inputs = [octets, automaton.table, automaton.accept, room(size, DataType.U32)]
    (found,) = target(dispatcher).dispatch(program, inputs, dfa_grid(schedule, size))
    return matches_of(np.asarray(found), automaton)


@lru_cache(maxsize=64)
def fused_decode_scan(encoding: str, warmup: int) -> Program:
    """The program `decode_scan` with its hand-off in workgroup memory.  Raises BadInputs."""
    from ..passes.decode_scan_fuse import DecodeScanFuse, FuseOptions
    from ..passes.manager import PassManager
    from .dfa import MAX_SLAB, decode_scan, dfa_schedule

    program = decode_scan(encoding, warmup, dfa_schedule(warmup))
    module = Module()
    module.add(program)
    remarks = PassManager([DecodeScanFuse(FuseOptions(budget=MAX_SLAB))]).run(module).remarks
    if not program.buffers["decoded"].is_workgroup:
        said = "; ".join(remark.message for remark in remarks if "@decoded" in remark.message)
        raise BadInputs(f"patterns of {warmup + 1} bytes are too long to search for in one launch: {said}")
    return program


def decoded_size(octets: Any, encoding: str) -> int:
    """Bytes that a text decodes to."""
    from .decode import base64_lengths

    count = int(octets.size)
    if encoding == "raw":
        return count
    if encoding == "hex":
        return count // 2
    tail = bytes(np.asarray(octets[-2:])) if count else b""
    return base64_lengths(count - (len(tail) - len(tail.rstrip(b"="))))
