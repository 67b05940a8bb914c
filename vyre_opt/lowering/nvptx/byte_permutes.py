"""`permute` by the instruction prmt, which takes any four of eight bytes: those of two registers, by four digits.

A word has four bytes of the index.  For each eight entries of the table one prmt moves four bytes; those whose index
is none of the eight are cleared:

    index           0x11 0x03 0x0a 0x00      lowest byte last
    digits          0x  1    3    2    0     the low three bits of each, side by side
    entries 0..7    .... moved .... moved    kept where index >> 3 is 0
    entries 8..15   .... .... moved ....     kept where it is 1
"""

from __future__ import annotations

from collections.abc import Sequence

from ..common.llvm_text import Writer

__all__ = ["permute_bytes"]

GROUP = 8
"""The entries of a table among which one prmt chooses."""

SIGNS = 0xBA98
"""The digits by which prmt fills each byte of its first operand with that byte's highest bit."""


def permute_bytes(w: Writer, table: Sequence[str], index: Sequence[str], is_inside: bool) -> list[str]:
    """The bytes (i8) of the table at the indices; 0 for an index beyond the table.

    `is_inside`: no byte of the index is as large as the table's length.
    """
    words = _words(w, table)
    words += ["0"] * (len(words) % 2)
    result: list[str] = []
    for word in _words(w, index):
        result += _bytes(w, _permute_words(w, words, word, is_inside and len(table) <= GROUP))
    return result[: len(index)]


def _permute_words(w: Writer, words: Sequence[str], index: str, is_inside: bool) -> str:
    digits = _digits(w, index)
    result = ""
    for number in range(len(words) // 2):
        permuted = _prmt(w, words[2 * number], words[2 * number + 1], digits)
        if not is_inside:
            permuted = w.emit(f"and i32 {permuted}, {_of_group(w, index, number)}")
        result = w.emit(f"or i32 {result}, {permuted}") if result else permuted
    return result


def _digits(w: Writer, index: str) -> str:
    """The low three bits of each byte as the digits of prmt, four bits each."""
    low = w.emit(f"and i32 {index}, {0x07070707}")
    pairs = w.emit(f"or i32 {low}, {w.emit(f'lshr i32 {low}, 4')}")  # two digits each in bytes 0 and 2
    return _prmt(w, pairs, "0", str(0x4420))


def _of_group(w: Writer, index: str, number: int) -> str:
    """255 in each byte of the index that is an entry of group `number`, 0 in the others."""
    other = w.emit(f"xor i32 {index}, {number * GROUP * 0x01010101}")
    high = w.emit(f"and i32 {other}, {0xF8F8F8F8}")
    # the highest bit of each byte: whether another is set, by a carry that stays within the byte
    carry = w.emit(f"add i32 {w.emit(f'and i32 {high}, {0x7F7F7F7F}')}, {0x7F7F7F7F}")
    is_other = _prmt(w, w.emit(f"or i32 {carry}, {high}"), "0", str(SIGNS))
    return w.emit(f"xor i32 {is_other}, -1")


def _prmt(w: Writer, low: str, high: str, digits: str) -> str:
    return w.call("llvm.nvvm.prmt", "i32", [("i32", low), ("i32", high), ("i32", digits)])


def _words(w: Writer, elements: Sequence[str]) -> list[str]:
    """Bytes as words of four, the first lowest; filled up with zeros."""
    words = []
    for start in range(0, len(elements), 4):
        four = "zeroinitializer"
        for position, element in enumerate(elements[start : start + 4]):
            four = w.emit(f"insertelement <4 x i8> {four}, i8 {element}, i32 {position}")
        words.append(w.emit(f"bitcast <4 x i8> {four} to i32"))
    return words


def _bytes(w: Writer, word: str) -> list[str]:
    four = w.emit(f"bitcast i32 {word} to <4 x i8>")
    return [w.emit(f"extractelement <4 x i8> {four}, i32 {position}") for position in range(4)]
