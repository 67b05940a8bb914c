"""Text that encodes nothing is an error of the functions on text, which names the place."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vyre_opt import BadInputs, kernels

MIME = base64.encodebytes(b"a needle, " * 12)


@pytest.mark.parametrize("kind", [bytes, bytearray, bytes.decode, lambda text: np.frombuffer(text, np.uint8)])
def test_line_breaks(kind: Callable[[bytes], Any]) -> None:
    for call in (kernels.base64_decode, lambda text: kernels.decode_scan(text, [b"needle"])):
        with pytest.raises(
            BadInputs, match=r"at character 76: '\\n' is no character of base64; remove blanks"
        ):
            call(kind(MIME))
    with pytest.raises(BadInputs, match="at character 2: ' ' is no character of hexadecimal text"):
        kernels.hex_decode(kind(b"61 62"))
    joined = MIME.replace(b"\n", b"")
    assert len(kernels.decode_scan(kind(joined), [b"needle"])) == 12
    assert bytes(kernels.base64_decode(kind(joined))) == base64.b64decode(MIME)


@pytest.mark.parametrize(
    ("text", "encoding", "message"),
    [
        (b"YW-j", "base64", "at character 2: '-' is no character of base64"),
        (b"YQ==YWJj", "base64", "at character 2: '='"),
        (b"A" * (1 << 20) + b"\xe9", "base64", r"at character 1048576: '\\xe9'"),
        (b"61zz", "hex", "at character 2: 'z' is no character of hex"),
    ],
)
def test_other_characters_in_a_search(text: bytes, encoding: str, message: str) -> None:
    with pytest.raises(BadInputs, match=message):
        kernels.decode_scan(text, [b"a"], encoding)
    assert kernels.decode_scan(text, [b"zzz"], "raw") == []
