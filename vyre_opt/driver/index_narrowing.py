"""Converts indices on a GPU to u32, and checks there that they are below a limit: no copy to the host."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..execution.array_backend import ArrayBackend, Operand
from ..execution.dispatcher import BadInputs, ProgramError
from ..execution.kernel_call import run_call
from ..ir.builder import Builder
from ..ir.program import Program
from ..ir.types import DataType
from ..kernels.call import KernelCall, OutputAlloc
from ..kernels.collective import as_type

__all__ = ["narrow_to_u32", "narrowing_program"]

LANES = 256


@lru_cache(maxsize=16)
def narrowing_program(dtype: DataType) -> Program:
    """The program `narrow`: @numbers = @given as u32.

    It traps where an element of @given is negative, or not below the u64 in @limit (at most 2^32).
    """
    b = Builder("narrow", workgroup=LANES)
    source = b.buffer("given", dtype, None, "read", 0)
    limit = b.buffer("limit", DataType.U64, 1, "read", 1)
    numbers = b.buffer("numbers", DataType.U32, None, "write", 2, live_out=True)
    index = b.global_id("x")
    with b.if_(b.lt(index, b.len(source))):
        # a negative number becomes one beyond any limit
        wide = as_type(b, b.load(source, index), DataType.U64)
        with b.if_(b.ge(wide, b.load(limit, 0))):
            b.trap("a number is out of range")
        with b.if_(b.lt(index, b.len(numbers))):
            b.store(b.cast(wide, DataType.U32), numbers, index)
    return b.finish(verify=False)


def narrow_to_u32(backend: ArrayBackend, operand: Operand, name: str, limit: int, message: str) -> Operand:
    """The operand as u32 numbers.  Raises BadInputs with `message` if one is negative or not below `limit`."""
    if not operand.count:
        return Operand(operand.array, operand.shape, "uint32", operand.owner)
    if backend.access([operand]).is_recording():
        raise BadInputs(
            f"{name}: {operand.kind} numbers are checked one by one, which waits for the GPU, and a graph is being "
            "recorded; convert them to u32 before"
        )
    dtype = DataType.of(operand.kind.replace("uint", "u").replace("int", "i"))
    limits = backend.constant(np.array([limit], np.uint64))
    count = operand.count
    call = KernelCall(narrowing_program(dtype), -(-count // LANES), (0, 1, OutputAlloc(count)), operand.shape)
    try:
        numbers = run_call(backend, call, [operand, limits])
        backend.synchronize()
    except ProgramError as error:
        if error.kind != "trap":
            raise
        raise BadInputs(f"{name}: {message.format('out of range')}") from None
    return Operand(numbers, operand.shape, "uint32", operand.owner)
