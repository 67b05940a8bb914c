"""Whether the stored values of a hand-off fit a narrower type than the declared one."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir import arith
from ..ir.program import Buffer, Value
from ..ir.types import DataType
from .affine import Range
from .locality import TileProof

__all__ = ["narrow_element"]


def narrow_element(buffer: Buffer, proof: TileProof, ranges: Mapping[Value, Range]) -> DataType | None:
    """u8 or u16 if every stored value fits it and it is narrower than the buffer's type, else None.

    `ranges`: those of the program's values; a value without one may have any value of its type.
    """
    if not buffer.dtype.is_int or any(access.width != 1 for access in proof.accesses):
        return None
    stores = [access.op for access in proof.accesses if access.is_write]
    if not stores:
        return None
    low, high = 0, 0
    for store in stores:
        value = store.operands[0]
        lowest, highest = ranges.get(value) or arith.int_range(value.type)
        low, high = min(low, lowest), max(high, highest)
    for narrow in (DataType.U8, DataType.U16):
        bits, wide = narrow.bits or 0, buffer.dtype.bits or 0
        if bits < wide and low >= 0 and high < 1 << bits:
            return narrow
    return None
