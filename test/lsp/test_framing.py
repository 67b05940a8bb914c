"""Messages on stdin: whole ones out of any pieces, and streams that are none or never end."""

from __future__ import annotations

import io
from collections.abc import Callable
from itertools import repeat

import pytest

from vyre_opt.lsp import framing
from vyre_opt.lsp.framing import NoHeader, messages


def framed(*bodies: bytes) -> bytes:
    return b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(body), body) for body in bodies)


def in_pieces(content: bytes, size: int) -> Callable[[int], bytes]:
    stream = io.BytesIO(content)
    return lambda most: stream.read(min(size, most))


BODIES = [b"{}", b"", b"\r\n\r\n", b"x" * 100]


@pytest.mark.parametrize("size", [1, 7, 1 << 16])
def test_messages_in_pieces(size: int) -> None:
    assert [*messages(in_pieces(framed(*BODIES), size), 100)] == BODIES


@pytest.mark.parametrize("size", [1, 7, 1 << 16])
def test_a_message_of_too_many_bytes_is_skipped(size: int) -> None:
    assert [*messages(in_pieces(framed(*BODIES), size), 99)] == [*BODIES[:3], None]
    assert [*messages(in_pieces(framed(BODIES[3], b"{}"), size), 99)] == [None, b"{}"]


@pytest.mark.parametrize("head", [b"content-length:2", b"Content-Type: a/b\r\nContent-Length: 2 "])
def test_headers_as_clients_write_them(head: bytes) -> None:
    assert [*messages(in_pieces(head + b"\r\n\r\n{}", 3), 99)] == [b"{}"]


@pytest.mark.parametrize("head", [b"", b"Length: 2", b"Content-Length: two", b"Content-Length: -2"])
def test_a_header_that_is_none(head: bytes) -> None:
    with pytest.raises(NoHeader, match="without Content-Length"):
        [*messages(in_pieces(head + b"\r\n\r\n{}", 3), 99)]


def test_a_message_that_is_cut_is_none() -> None:
    content = framed(b"{}")
    assert [[*messages(in_pieces(content[:end], 3), 99)] for end in range(len(content))] == [[]] * len(
        content
    )


def test_streams_without_an_end_take_no_memory() -> None:
    """Zeros are no header; of a message that never ends nothing is kept."""
    with pytest.raises(NoHeader, match="no header within"):
        next(messages(bytes, 99))
    pieces = iter([b"Content-Length: 999999999999\r\n\r\n", *repeat(bytes(framing.PIECE), 1000), b""])
    assert [*messages(lambda size: next(pieces), 99)] == []
