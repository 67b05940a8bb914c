"""The kernels on text as functions: decode, and decode and search in one launch.

Text is a str of ASCII characters, bytes, or an array of u8.  `dispatcher=` and the arrays that are
returned are as in numeric_kernels; text on a GPU stays there, except for the last two characters
of base64, which determine the length of the result.

Of text in main memory, blanks and line breaks are errors (`Scanner(..., strict=False)` skips them), and for a search all other
characters that encode nothing; what is on a GPU is not looked at.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..execution.array_backend import is_torch
from ..execution.dispatcher import BadInputs, OutputAlloc
from ..execution.kernel_call import run_all
from ..ir.program import Module, Program
from ..kernels.automaton import DenseAutomaton, Match, build_automaton, matches_of_hits
from ..kernels.call import CopiedInput, KernelCall
from .operands import A, ArrayBackend, DispatcherLike, Octets, Operand, array_backend_of, as_octets, listed
from .planned_function import kernel_function
from .torch_calls import is_recorded, record, traced_as

if TYPE_CHECKING:
    from ..kernels.search import SearchSchedule

COMMON_WARMUPS = (127, 1023, 8191)

BLOCK = 1 << 20
"""Characters that are checked at once."""
_LETTERS = string.ascii_letters + string.digits
_ALPHABETS = {"base64": f"{_LETTERS}+/", "hex": string.hexdigits}

__all__ = ["base64_decode", "decode_scan", "hex_decode"]

_base64 = kernel_function("base64_decode", "decode.base64", as_octets)
_hex = kernel_function("hex_decode", "decode.hex", as_octets)


@traced_as("base64_decode")
def base64_decode(text: A, *, dispatcher: DispatcherLike | None = None) -> Octets[A]:
    """The bytes that base64 text encodes.

    Args:
        text: a str of ASCII, bytes, or a 1-dimensional array of u8; padding may be left out.  A blank or a line break is an
            error; another character outside of the alphabet counts as A, six zero bits: use `Scanner` for text that may be wrong.
        dispatcher: a target's name or a dispatcher; left out, cpu for arrays in main memory and cuda for those on a GPU.

    Returns:
        An array of u8 of 3 bytes for 4 characters: of NumPy for str and bytes, else of the library and memory of `text`.

    Raises:
        BadInputs: for what is no text, has blanks, or is a str with other characters than ASCII, before anything runs.

    Example:
        >>> bytes(kernels.base64_decode("dnlyZQ=="))
        b'vyre'
    """
    if is_recorded(text):
        return record(
            "base64_decode", partial(base64_decode, dispatcher=dispatcher), (text,), dispatcher, None
        )
    _refuse_blanks(text, "base64")
    padding = _padding(text, dispatcher)
    return _base64((_planned_for(text),), ("text",), dispatcher, None, padding)


def _host_octets(text: Any) -> np.ndarray[Any, Any] | None:
    """The characters of text in main memory; None for what is elsewhere, or is no text."""
    if isinstance(text, str):
        text = text.encode("utf-8", "surrogatepass")
    if isinstance(text, (bytes, bytearray)):
        return np.frombuffer(text, np.uint8)
    is_octets = isinstance(text, np.ndarray) and text.dtype == np.uint8 and text.ndim == 1
    return np.ascontiguousarray(text) if is_octets else None


def _refuse_blanks(text: Any, what: str) -> None:
    """Raise BadInputs for text with blanks or line breaks."""
    octets = _host_octets(text)
    if octets is None:
        return
    if len(octets) and octets.min() <= ord(" "):  # which takes a twentieth of the time of decoding
        raise _no_character(octets, int((octets <= ord(" ")).argmax()), what)


def _check_alphabet(text: Any, encoding: str) -> None:
    """Raise BadInputs for text with a character that encodes nothing."""
    octets = _host_octets(text)
    if octets is None or encoding not in _ALPHABETS:
        return
    is_wrong = np.ones(256, bool)
    is_wrong[list(_ALPHABETS[encoding].encode())] = False
    end = len(octets) - (_padding_of(octets[-2:].tobytes()) if encoding == "base64" else 0)
    for first in range(0, end, BLOCK):
        wrong = is_wrong[octets[first : min(first + BLOCK, end)]]
        if wrong.any():
            raise _no_character(octets, first + int(wrong.argmax()), encoding)


def _no_character(octets: np.ndarray[Any, Any], place: int, what: str) -> BadInputs:
    shown = ascii(chr(octets[place]))
    advice = "; remove blanks and line breaks, or search with Scanner(..., strict=False)" * (
        shown[1] in "\\ "
    )
    return BadInputs(f"at character {place}: {shown} is no character of {what}{advice}")


def _planned_for(text: Any) -> Any:
    """Bytes as an array, which has plans."""
    return np.frombuffer(text, np.uint8) if type(text) is bytes and text else text


def _padding(text: Any, dispatcher: DispatcherLike | None) -> int:
    """How many `=` a base64 text ends in."""
    if isinstance(text, str):
        return _padding_of(text[-2:].encode())
    if isinstance(text, (bytes, bytearray)):
        return _padding_of(bytes(text[-2:]))
    if is_torch(text) and text.ndim == 1 and str(text.dtype) == "torch.uint8":
        return _padding_of(bytes(text[-2:].tolist()))  # on a GPU three times as fast as our own copy
    backend = array_backend_of(dispatcher, {"text": text})
    return _padding_of(bytes(backend.tail(as_octets(backend, text, "text"), 2)))


def _padding_of(tail: bytes) -> int:
    return len(tail) - len(tail.rstrip(b"="))


def hex_decode(text: A, *, dispatcher: DispatcherLike | None = None) -> Octets[A]:
    """The bytes that hexadecimal text encodes.

    Args:
        text: a str of ASCII, bytes, or a 1-dimensional array of u8, digits in either case; a last odd one is left out.  A blank or a
            line break is an error; another character that is no digit counts as 0.
        dispatcher: a target's name or a dispatcher; left out, cpu for arrays in main memory and cuda for those on a GPU.

    Returns:
        An array of u8 of a byte for 2 digits: of NumPy for str and bytes, else of the library and memory of `text`.

    Raises:
        BadInputs: for what is no text, has blanks, or is a str with other characters than ASCII, before anything runs.

    Example:
        >>> bytes(kernels.hex_decode("76797265"))
        b'vyre'
    """
    _refuse_blanks(text, "hexadecimal text")
    return _hex((_planned_for(text),), ("text",), dispatcher, None)


def decode_scan(
    text: Any,
    patterns: Sequence[bytes | str],
    encoding: str = "base64",
    *,
    dispatcher: DispatcherLike | None = None,
) -> list[Match]:
    """Find byte strings in encoded text: decodes and searches in one launch, and stores the decoded bytes nowhere.

    Args:
        text: a str of ASCII, bytes, or a 1-dimensional array of u8, of less than 2^32 - 2^16 characters.
        patterns: byte strings of at least one byte; a str is taken in UTF-8.
        encoding: "base64", "hex", or "raw" for bytes as they are.
        dispatcher: a target's name or a dispatcher; left out, cpu for arrays in main memory and cuda for those on a GPU.

    Returns:
        A list of (index of the last decoded byte, number of the pattern), sorted; matches may overlap.

    Raises:
        BadInputs: for an empty pattern, patterns that are too long for one launch, or what is no text, before anything runs.

    Example:
        >>> kernels.decode_scan("76797265", [b"yr", b"e"], "hex")
        [(2, 0), (3, 1)]
    """
    from ..kernels.search import MAX_TEXT
    from ..kernels.text_units import ENCODINGS

    if not isinstance(encoding, str) or encoding not in ENCODINGS:
        raise BadInputs(f"unknown encoding {encoding!r}; there are {', '.join(ENCODINGS)}")
    if isinstance(patterns, (str, bytes)):
        raise BadInputs("patterns is a list of patterns, not one")
    try:
        automaton = _automaton(tuple(map(_pattern, listed(patterns, "patterns"))))
    except ValueError as error:
        raise BadInputs(str(error)) from None
    _check_alphabet(text, encoding)
    backend = array_backend_of(dispatcher, {"text": text})
    octets = as_octets(backend, text, "text")
    size = decoded_size(backend, octets, encoding)
    if size == 0 or not automaton.sets:
        return []
    if octets.count > MAX_TEXT:
        raise BadInputs(f"text of {octets.count} characters; at most {MAX_TEXT} are searched in one launch")
    return _search(backend, octets, size, automaton, encoding)


def _pattern(pattern: Any) -> bytes:
    if isinstance(pattern, str):
        return pattern.encode()
    if isinstance(pattern, (bytes, bytearray, memoryview)):
        return bytes(pattern)
    octets = getattr(pattern, "dtype", None)
    if octets is not None and str(octets).endswith("uint8"):
        return np.ascontiguousarray(pattern).tobytes()
    raise BadInputs(f"a pattern is text, bytes or an array of uint8, not {type(pattern).__name__}")


@lru_cache(maxsize=8)
def _automaton(patterns: tuple[bytes, ...]) -> DenseAutomaton:
    return build_automaton(patterns)


def common_warmup(warmup: int) -> int:
    """The warm-up of a program that serves `warmup` and others: a longer halo costs next to nothing.

    A walk still ends where no match is under way, so it is not longer.
    """
    return next((common for common in COMMON_WARMUPS if warmup <= common), warmup)


def _search(
    backend: ArrayBackend, octets: Operand, size: int, automaton: DenseAutomaton, encoding: str
) -> list[Match]:
    """Search with space for a number of hits that is rarely exceeded; if it is, once more with enough."""
    from ..kernels.search import search_grid, search_schedule

    schedule = search_schedule(backend.target, size, automaton.warmup, multiprocessors=backend.workers)
    program = fused_decode_scan(encoding, common_warmup(automaton.warmup), schedule)
    tables = [backend.constant(table) for table in (automaton.table, automaton.accepting, automaton.depth)]
    grid, max_hits = search_grid(schedule, size), max(4096, size // 1024)
    while True:
        zero = backend.constant(np.zeros(1, np.uint64))
        call = KernelCall(program, grid, (0, 1, 2, 3, OutputAlloc(max_hits), CopiedInput(4, is_result=True)))
        hits, total = run_all(backend, call, [octets, *tables, zero])
        count = int(backend.to_host(total)[0])
        if count <= max_hits:
            return matches_of_hits(backend.to_host(hits)[:count], automaton)
        max_hits = count  # a search always counts all hits, also those that it has no space for


@lru_cache(maxsize=64)
def fused_decode_scan(encoding: str, warmup: int, schedule: SearchSchedule) -> Program:
    """The program `decode_scan` with its hand-off in workgroup memory.  Raises BadInputs."""
    from ..kernels.search import MAX_SLAB, decode_scan
    from ..kernels.text_units import ENCODINGS
    from ..passes.decode_scan_fuse import DecodeScanFuse, FuseOptions
    from ..passes.manager import PassManager

    program = decode_scan(encoding, warmup, schedule)
    module = Module()
    module.add(program)
    # no text has more tiles than the hand-off has slabs, so that no store to it needs a check
    slabs = (program.buffers["decoded"].count or 0) // (schedule.slab(ENCODINGS[encoding], warmup) // 4)
    program.grid = slabs, 1, 1
    remarks = PassManager([DecodeScanFuse(FuseOptions(budget=MAX_SLAB))]).run(module).remarks
    program.grid = None
    if not program.buffers["decoded"].is_workgroup:
        reason = "; ".join(remark.message for remark in remarks if "@decoded" in remark.message)
        raise BadInputs(f"patterns of {warmup + 1} bytes are too long to search for in one launch: {reason}")
    return program


def decoded_size(backend: ArrayBackend, octets: Operand, encoding: str) -> int:
    """The number of bytes that a text decodes to."""
    from ..ir.ops import base64_length

    count = octets.count
    if encoding == "raw":
        return count
    if encoding == "hex":
        return count // 2
    return base64_length(count - _padding_of(bytes(backend.tail(octets, 2))))
