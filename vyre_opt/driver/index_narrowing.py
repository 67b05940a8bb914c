"""Integers on a GPU as u32 numbers below a limit: checked there, since looking from here is a copy."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..ir.builder import Builder
from ..ir.program import Program
from ..ir.types import DataType
from ..runtime.array_backend import ArrayBackend, Operand
from ..runtime.dispatcher import BadInputs, OutputAlloc, ProgramError

__all__ = ["narrow", "narrowed"]

LANES = 256


@lru_cache(maxsize=16)
def narrow(dtype: DataType) -> Program:
    """The program `narrow`: @given of an integer type into @numbers of u32; traps at one that is
    negative or not below the u64 in @limit, which is at most 2^32."""
    b = Builder("narrow", workgroup=LANES)
    given = b.buffer("given", dtype, None, "read", 0)
    limit = b.buffer("limit", DataType.U64, 1, "read", 1)
    numbers = b.buffer("numbers", DataType.U32, None, "write", 2, live_out=True)
    place = b.global_id("x")
    with b.if_(b.lt(place, b.len(given))):
        number = b.load(given, place)
        wide = number if dtype is DataType.U64 else b.cast(number, DataType.U64)  # negative: beyond any limit
        with b.if_(b.ge(wide, b.load(limit, 0))):
            b.trap("a number is out of range")
        with b.if_(b.lt(place, b.len(numbers))):
            b.store(b.cast(wide, DataType.U32), numbers, place)
    return b.finish(verify=False)


def narrowed(place: ArrayBackend, operand: Operand, name: str, below: int, wrong: str) -> Operand:
    """Raises BadInputs for numbers that are not from 0 to the limit."""
    if not operand.count:
        return Operand(operand.array, operand.shape, "uint32", operand.owner)
    dtype = DataType.of(operand.kind.replace("uint", "u").replace("int", "i"))
    limit = place.constant(np.array([below], np.uint64))
    arguments = [operand, limit, OutputAlloc(operand.count)]
    try:
        (numbers,) = place.run(narrow(dtype), arguments, -(-operand.count // LANES))
    except ProgramError as fault:
        if fault.kind != "trap":
            raise
        raise BadInputs(f"{name}: {wrong.format('out of range')}") from None
    return Operand(numbers, operand.shape, "uint32", operand.owner)
