"""Spelling of our types, constants and names in MLIR.

MLIR's integers have no sign, so a u32 and an i32 are both i32.  A bool is an i1 as a value and an i8, 0 or 1, in memory.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from ..ir import arith
from ..ir.folding import lanes_of
from ..ir.program import Buffer
from ..ir.types import DataType

__all__ = [
    "WORKGROUP",
    "attributes",
    "constant",
    "is_finite",
    "memory_element",
    "memref_type",
    "mlir_type",
    "name_of",
    "quoted",
    "symbol_of",
]

WORKGROUP = "#gpu.address_space<workgroup>"

_BARE_NAME = re.compile(r"[A-Za-z_$.][A-Za-z0-9_$.]*|[0-9]+")
_BARE_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*")


def mlir_type(dtype: DataType) -> str:
    """The MLIR type of a value."""
    if dtype.is_vec:
        return f"vector<{dtype.lanes}x{mlir_type(dtype.element)}>"
    if dtype.is_bool:
        return "i1"
    return dtype.name if dtype.is_float else f"i{dtype.bits}"


def memory_element(dtype: DataType) -> str:
    """The MLIR type of a scalar in memory; a type without arithmetic becomes an integer of its size."""
    return dtype.name if dtype.is_float else f"i{dtype.bits}"


def memref_type(buffer: Buffer, space: str = "") -> str:
    """The MLIR type of a buffer.  The lanes of elements that are vectors are one dimension more, so none is padded.

    `space`: the memory space of storage; workgroup memory has its own.
    """
    extents = ["?" if extent is None else str(extent) for extent in buffer.shape]
    if buffer.dtype.is_vec:
        extents.append(str(buffer.dtype.lanes))
    space = WORKGROUP if buffer.is_workgroup else space
    shape = "x".join([*extents, memory_element(buffer.dtype.element)])
    return f"memref<{shape}, {space}>" if space else f"memref<{shape}>"


def constant(value: Any, dtype: DataType) -> str:
    """An encoded constant, as `arith.constant` writes it before its type.  One that is not finite is not for vectors."""
    if not dtype.is_vec:
        return _scalar(value, dtype)
    lanes = [_scalar(lane, dtype.element) for lane in lanes_of(value, dtype)]
    return f"dense<{lanes[0] if len(set(lanes)) == 1 else '[' + ', '.join(lanes) + ']'}>"


def is_finite(value: Any, dtype: DataType) -> bool:
    """Whether no lane of an encoded constant is infinite or NaN."""
    if not dtype.element.is_float:
        return True
    return all(math.isfinite(arith.decode_float(lane, dtype.element)) for lane in lanes_of(value, dtype))


def _scalar(value: int, dtype: DataType) -> str:
    if dtype.is_bool:
        return "true" if value else "false"
    bits = dtype.bits or 0
    if not dtype.is_float:
        return str(value - (1 << bits) if value >= 1 << (bits - 1) else value)
    number = arith.decode_float(value, dtype)
    if not math.isfinite(number):
        return f"0x{value:0{bits // 4}X}"
    # The shortest decimal that names the number among doubles; MLIR wants a point before the exponent
    digits, exponent, power = repr(number).partition("e")
    return f"{digits}{'' if '.' in digits else '.0'}{exponent}{power}"


# --- names


def name_of(name: str) -> str:
    """A name of ours as one that MLIR takes after `%`."""
    if _BARE_NAME.fullmatch(name):
        return name
    plain = re.sub(r"[^A-Za-z0-9_$.]", "_", name)
    return plain if _BARE_NAME.fullmatch(plain) else f"v{plain}"


def symbol_of(name: str, used: set[str]) -> str:
    """A symbol for `name` that is valid in PTX too and not in `used`, to which it is added."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    if not _BARE_SYMBOL.fullmatch(plain) or plain == "WARP_SZ":  # the one word that PTX keeps for itself
        plain = f"k{plain}"
    symbol, number = plain, 1
    while symbol in used:
        number += 1
        symbol = f"{plain}_{number}"
    used.add(symbol)
    return symbol


def quoted(text: str) -> str:
    """A string literal."""
    return '"' + "".join(map(_escaped, text.encode("utf-8", "surrogateescape"))) + '"'


def _escaped(byte: int) -> str:
    character = chr(byte)
    if character in '"\\':
        return f"\\{character}"
    # Bytes beyond ASCII are written as they are in UTF-8, each by its number
    return character if 32 <= byte < 127 else f"\\{byte:02X}"


def attributes(entries: Sequence[tuple[str, str]]) -> str:
    """An attribute dictionary with a space before it; "" if it is empty."""
    return f" {{{', '.join(f'{key} = {value}' for key, value in entries)}}}" if entries else ""
