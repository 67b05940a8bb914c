"""The kernels on text as functions: base64 and hexadecimal text to bytes.

Text is a str of ASCII characters, bytes, or an array of u8.  `dispatcher=` and the arrays that are
returned are as in numeric_kernels; text on a GPU stays there, except for the last two characters
of base64, which determine the length of the result.

Text in main memory may have blanks and line breaks, as MIME has, and every other character that encodes nothing is an error
with its place.  What is on a GPU is not looked at: there such a character counts as zero bits.
"""

from __future__ import annotations

import re
import string
from functools import partial
from typing import Any

import numpy as np

from ..execution import output_memory
from ..execution.array_backend import is_torch
from ..execution.dispatcher import BadInputs
from ..execution.target import as_target
from ..ir.program import Program
from ..kernels.checked_decode import BLOCK, INVOCATIONS, checked_base64, checked_hex
from ..records import dataclass
from .direct_launch import launch
from .operands import A, DispatcherLike, Octets, array_backend_of, as_octets
from .planned_function import PlannedFunction, kernel_function
from .torch_calls import is_recorded, record, traced_as

__all__ = ["base64_decode", "hex_decode"]

BLANKS = b" \t\r\n\v\f"
MANY = 1 << 18
"""Characters that are decoded by a program that checks them; fewer are checked before."""


@dataclass(frozen=True, slots=True)
class _Text:
    """`characters`: those that hold bits, of which `unit` hold `octets` bytes."""

    name: str
    characters: bytes
    unit: int
    octets: int
    checked: Program
    decode: PlannedFunction


_BASE64 = _Text(
    "base64",
    (string.ascii_letters + string.digits + "+/").encode(),
    4,
    3,
    checked_base64(),
    kernel_function("base64_decode", "decode.base64", as_octets),
)
_HEX = _Text(
    "hex",
    string.hexdigits.encode(),
    2,
    1,
    checked_hex(),
    kernel_function("hex_decode", "decode.hex", as_octets),
)


@traced_as("base64_decode")
def base64_decode(text: A, *, dispatcher: DispatcherLike | None = None) -> Octets[A]:
    """The bytes that base64 text encodes.

    Args:
        text: a str of ASCII, bytes, or a 1-dimensional array of u8; padding may be left out.  In main memory blanks and line
            breaks are skipped; on a GPU each character outside of the alphabet counts as A, six zero bits.
        dispatcher: a target's name or a dispatcher; left out, cpu for arrays in main memory and cuda for those on a GPU.

    Returns:
        An array of u8 of 3 bytes for 4 characters: of NumPy for str and bytes, else of the library and memory of `text`.

    Raises:
        BadInputs: for what is no text, and for the first character in main memory that encodes nothing, with its place.

    Example:
        >>> bytes(kernels.base64_decode("dnlyZQ=="))
        b'vyre'
    """
    if is_recorded(text):
        return record(
            "base64_decode", partial(base64_decode, dispatcher=dispatcher), (text,), dispatcher, None
        )
    return _decoded(_BASE64, text, dispatcher)


def _decoded(kind: _Text, text: Any, dispatcher: DispatcherLike | None) -> Any:
    octets = _host_octets(text)
    if octets is not None and len(octets) >= MANY:
        decoded = _checked(kind, octets, dispatcher)
        if decoded is not None:
            return decoded
    if octets is not None:
        text = _without_blanks(kind, octets, text)
    if kind is _BASE64:
        return kind.decode((_planned_for(text),), ("text",), dispatcher, None, _padding(text, dispatcher))
    return kind.decode((_planned_for(text),), ("text",), dispatcher, None)


def _host_octets(text: Any) -> np.ndarray[Any, Any] | None:
    """The characters of text in main memory; None for what is elsewhere, or is no text."""
    if isinstance(text, str):
        text = text.encode("ascii") if text.isascii() else None
    if isinstance(text, (bytes, bytearray)):
        return np.frombuffer(text, np.uint8)
    is_octets = isinstance(text, np.ndarray) and text.dtype == np.uint8 and text.ndim == 1
    return np.ascontiguousarray(text) if is_octets else None


def _checked(kind: _Text, octets: np.ndarray[Any, Any], dispatcher: DispatcherLike | None) -> Any:
    """The bytes of text whose blocks all hold bits; None for other text."""
    backend = array_backend_of(dispatcher, {"text": octets})
    whole = (len(octets) - 1) // BLOCK * BLOCK  # the last characters may be padding
    rest = octets[whole:].tobytes()
    if backend.on_gpu:
        return None
    try:
        last = _decoded(kind, rest, dispatcher)
    except BadInputs:  # which the whole text names the place of
        return None
    size, first_bad = whole // kind.unit * kind.octets, np.full(1, 0xFFFFFFFF, np.uint32)
    decoded = output_memory.empty(size + len(last), np.dtype(np.uint8))
    arrays = [octets[:whole], decoded[:size], first_bad]
    launch(as_target(backend.dispatcher), kind.checked, arrays, -(-whole // (BLOCK * INVOCATIONS)))
    if int(first_bad[0]) < whole:
        return None
    decoded[size:] = last
    return decoded


def _without_blanks(kind: _Text, octets: np.ndarray[Any, Any], text: Any) -> Any:
    """The text itself if it has no blanks.  Raises BadInputs for the first character that encodes nothing."""
    written = octets.tobytes()
    others = written.translate(None, kind.characters)
    bare = written if not others.strip(b"=") else written.translate(None, BLANKS)
    padding = _padding_of(bare) if kind is _BASE64 else 0
    if len(others.translate(None, BLANKS)) == padding <= 2:
        rest = (len(bare) - padding) % kind.unit
        if rest == 1 or padding > -rest % kind.unit:
            raise BadInputs(f"the text ends within a group of {kind.unit} characters of {kind.name}")
        return text if bare is written else bare
    body = written.rstrip(BLANKS)
    for _ in range(2 * (kind is _BASE64)):
        body = body.removesuffix(b"=").rstrip(BLANKS)
    wrong = re.search(b"[^%s%s]" % (re.escape(kind.characters), BLANKS), body)
    assert wrong is not None
    help = ""
    if kind is _HEX and re.match(rb"\s*0[xX]", body):
        help = "; leave 0x out, text[2:]" if wrong.start() == 1 else "; leave 0x out"
    elif kind is _BASE64 and wrong[0] in b"-_":
        help = "; of text that is safe in URLs pass text.replace('-', '+').replace('_', '/')"
        if isinstance(text, (bytes, bytearray)):
            help = help.replace("('", "(b'").replace(", '", ", b'")
    raise BadInputs(
        f"at character {wrong.start()}: {chr(wrong[0][0])!a} is no character of {kind.name}{help}"
    )


def _planned_for(text: Any) -> Any:
    """Bytes as an array, which has plans."""
    return np.frombuffer(text, np.uint8) if type(text) is bytes and text else text


def _padding(text: Any, dispatcher: DispatcherLike | None) -> int:
    """Number of `=` at the end of a base64 text."""
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
        text: a str of ASCII, bytes, or a 1-dimensional array of u8, digits in either case.  In main memory blanks and line breaks are
            skipped; on a GPU a character that is no digit counts as 0, and a last odd digit is left out.
        dispatcher: a target's name or a dispatcher; left out, cpu for arrays in main memory and cuda for those on a GPU.

    Returns:
        An array of u8 of a byte for 2 digits: of NumPy for str and bytes, else of the library and memory of `text`.

    Raises:
        BadInputs: for what is no text, and for the first character in main memory that encodes nothing, with its place.

    Example:
        >>> bytes(kernels.hex_decode("76797265"))
        b'vyre'
    """
    return _decoded(_HEX, text, dispatcher)
