"""base64_blocks.vyre against Python's base64: every byte at every place of a block, and texts of any length."""

from __future__ import annotations

import base64
import string
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from vyre_opt import dispatcher, parse_file
from vyre_opt.ir import Program

SOURCE = Path(__file__).parents[2] / "examples/base64_blocks.vyre"
ALPHABET = (string.ascii_letters + string.digits + "+/").encode()
BLOCK, NONE = 32, 2**32 - 1


@cache
def program() -> Program:
    return parse_file(SOURCE).programs["base64_blocks"]


def decode(target: str, text: np.ndarray) -> tuple[bytes, int]:
    """The bytes of the whole blocks of a text, and the place of the first wrong character."""
    blocks = len(text) // BLOCK
    inputs = [text, np.zeros(24 * blocks, np.uint8), np.array([NONE], np.uint32)]
    decoded, first_bad = dispatcher(target).dispatch(program(), inputs, -(-blocks // 256) or 1)
    return decoded.tobytes(), int(first_bad[0])


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_every_byte_at_every_place(target: str) -> None:
    """Blocks of `A` with one other byte: what is decoded where that is a character, else where it is."""
    text = np.full((256 * BLOCK, BLOCK), ord("A"), np.uint8)
    for block, row in enumerate(text):
        row[block % BLOCK] = block // BLOCK
    is_character = np.isin(np.arange(256), list(ALPHABET))
    good = text[np.repeat(is_character, BLOCK)].reshape(-1)
    decoded, first_bad = decode(target, good)
    assert (decoded, first_bad) == (base64.b64decode(good.tobytes()), NONE)
    bad = text[np.repeat(~is_character, BLOCK)]
    for start in (0, 100, 5000):
        _, first_bad = decode(target, bad[start:].reshape(-1))
        assert first_bad == start % BLOCK
    good = good[-300 * BLOCK :]  # more than a workgroup has
    for block in range(0, len(bad), 61):
        _, first_bad = decode(target, np.concatenate([good, bad[block]]))
        assert first_bad == len(good) + (bad[block] != ord("A")).argmax()


@pytest.mark.parametrize("size", [0, 31, 32, 33, 32 * 256 - 1, 32 * 256, 32 * 300 + 20, 32 * 1000])
def test_texts_of_any_length(size: int) -> None:
    """The last blocks are those of lanes that do not fill a subgroup, and what is behind is left alone."""
    text = np.random.default_rng(size).choice(np.frombuffer(ALPHABET, np.uint8), size)
    whole = text[: size // BLOCK * BLOCK].tobytes()
    assert decode("cpu", text) == (base64.b64decode(whole), NONE)
