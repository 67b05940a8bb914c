"""Programs whose invocations meet on few elements by atomics, and arrays for them, in storage or in workgroup memory."""

from __future__ import annotations

import numpy as np

from vyre_opt import parse
from vyre_opt.ir import Program

__all__ = ["CELLS", "FLOATS", "INTEGERS", "LANES", "array", "atomic_program", "numbers"]

INTEGERS = ("u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64")
FLOATS = ("f16", "bf16", "f32", "f64")
CELLS = 8
LANES = 64


def atomic_program(
    op: str, dtype: str, in_workgroup: bool = False, order: str = "relaxed", flags: str = ""
) -> Program:
    """Does the op with the elements of @v, on the @cells that @place names; @old gets what it gives.

    `in_workgroup`: each workgroup has cells of its own, a row of @cells.
    """
    values = "%v, %w" if op == "compare_exchange" else "%v"
    atomic = f"%o = atomic_{op}<{order}> @{{}}[%i], {values}{flags} : {dtype}"
    body = atomic.format("cells")
    memory = ""
    if in_workgroup:
        memory = f"buffer @tile : {dtype}[{CELLS}] workgroup"
        body = f"""
          %l = local_id x
          %group = workgroup_id x
          %first = mul %group, {CELLS}
          %own = add %first, %l
          %is_cell = lt %l, {CELLS}
          if %is_cell {{
            %start = load @cells[%own]
            store %start, @tile[%l]
          }}
          barrier workgroup
          {atomic.format("tile")}
          barrier workgroup
          if %is_cell {{
            %end = load @tile[%l]
            store %end, @cells[%own]
          }}"""
    text = f"""vyre 2
    program @p workgroup({LANES}) {{
      buffer @place : u32[?] read binding(0)
      buffer @v : {dtype}[?] read binding(1)
      buffer @w : {dtype}[?] read binding(2)
      buffer @cells : {dtype}[?] read_write binding(3) live_in live_out
      buffer @old : {dtype}[?] write binding(4) live_out
      {memory}
      %g = global_id x
      %i = load @place[%g]
      %v = load @v[%g]
      %w = load @w[%g]
      {body}
      store %o, @old[%g] : {dtype}
    }}"""
    return parse(text).programs["p"]


def array(values: object, dtype: str) -> np.ndarray:
    """Storage of a type; a bf16 is its 16 bits.  Of floats only what bf16 has is given."""
    if dtype == "bf16":
        return (np.asarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    kinds = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
    return np.asarray(values).astype(kinds.get(dtype) or f"{dtype[0]}{int(dtype[1:]) // 8}")


def numbers(stored: np.ndarray, dtype: str) -> np.ndarray:
    """What `array` took."""
    if dtype == "bf16":
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored
