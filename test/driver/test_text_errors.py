"""Text that encodes nothing is an error of the functions on text, which names the place."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vyre_opt import BadInputs, kernels


@pytest.mark.parametrize("kind", [bytes, bytearray, bytes.decode, lambda text: np.frombuffer(text, np.uint8)])
def test_line_breaks_are_skipped(kind: Callable[[bytes], Any]) -> None:
    """Also in text that is long enough for the program that checks, whose last characters are none of a block."""
    for count in (12, 40_000):
        content = b"a needle, " * count
        mime = base64.encodebytes(content)
        for text in (mime, mime.replace(b"\n", b"")):
            assert bytes(kernels.base64_decode(kind(text))) == content
            assert len(kernels.decode_scan(kind(text), [b"needle"])) == count
    assert bytes(kernels.hex_decode(kind(b"61 62\n"))) == b"ab"


@pytest.mark.parametrize("size", [0, 100, 1 << 18])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"YW-j", r"at character {2}: '-' is no character of base64"),
        (b"YQ==YWJj", r"at character {2}: '=' is no character"),
        (b"YQ===", r"at character {2}: '=' is no character"),
        (b"Y\xe9", r"at character {1}: '\\xe9' is no character"),
        (b"Q", "ends within a group of 4"),
        (b"YWJj=", "ends within a group of 4"),
    ],
)
def test_other_characters_in_base64(text: bytes, message: str, size: int) -> None:
    with pytest.raises(BadInputs, match=re.sub(r"\{(\d)\}", lambda m: str(size + int(m[1])), message)):
        kernels.base64_decode(b"A" * size + text)


@pytest.mark.parametrize(
    ("text", "message"),
    [(b"61zz", "at character 2: 'z'"), (b"6 1 6", "within a group of 2"), (b"61=", "at character 2: '='")],
)
def test_other_characters_in_hex(text: bytes, message: str) -> None:
    with pytest.raises(BadInputs, match=message):
        kernels.hex_decode(text)


@pytest.mark.parametrize(
    ("text", "encoding", "message"),
    [
        (b"YW-j", "base64", "at character 2: '-' is no character of base64"),
        (b"YQ==YWJj", "base64", "at character 4: 'Y' behind the padding"),
        (b"A" * (1 << 20) + b"\xe9", "base64", r"at character 1048576: '\\xe9'"),
        (b"61zz", "hex", "at character 2: 'z' is no character of hex"),
    ],
)
def test_other_characters_in_a_search(text: bytes, encoding: str, message: str) -> None:
    with pytest.raises(BadInputs, match=message):
        kernels.decode_scan(text, [b"a"], encoding)
    assert kernels.decode_scan(text, [b"zzz"], "raw") == []
