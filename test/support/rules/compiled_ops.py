"""Ops whose lowering z3 does not decide, compiled for the CPU and run beside the interpreter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import vyre_opt
from vyre_opt.ir import DataType, Source, parse_source

from .lowered_ops import op_program
from .lowerings import LoweredOp
from .values import EXPONENT_BITS, FRACTION_BITS, Bits, interpreted_bits, samples

__all__ = ["compare_with_interpreter"]


def compare_with_interpreter(op: LoweredOp, any_nan: bool = True) -> tuple[int, int]:
    """How many operands of an op were tried, and for how many the two differ.

    A first operand is every pattern of its type, of one of more than 16 bits samples and as many random
    ones, with each row of samples for the others.  `any_nan`: a NaN is equal to any other.
    """
    types, line, result = op_program(op.name, op.type, op.source)
    every = np.arange(1 << min(types[0].bits or 0, 16), dtype=np.uint64)
    known = samples(op.type)
    rng = np.random.default_rng(2)
    if (types[0].bits or 0) > 16:
        every = rng.integers(0, 1 << (types[0].bits or 0), len(every), dtype=np.uint64)
        edges_of_first = [value & ((1 << (types[0].bits or 0)) - 1) for value in samples(types[0])]
        every[: len(edges_of_first)] = edges_of_first
    rows = [[known[place] for place in rng.permutation(len(known))] for _ in types[1:]]
    count = len(known) if rows else 1
    columns = [np.tile(every, count), *(np.repeat(_patterns(row, op.type), len(every)) for row in rows)]
    patterns = [c.astype(f"<u{(t.bits or 8) // 8}") for c, t in zip(columns, types, strict=True)]
    got = _run(types, line, result, patterns)
    expected = interpreted_bits(op.name, patterns, types, result)
    differs = got != expected
    if any_nan:
        differs &= ~(_nan(got, result) & _nan(expected, result))
    return len(expected), int(np.count_nonzero(differs))


def _patterns(values: Sequence[int], dtype: DataType) -> Bits:
    return np.array([int(value) & ((1 << (dtype.bits or 0)) - 1) for value in values], np.uint64)


def _nan(patterns: Bits, dtype: DataType) -> Bits:
    if not dtype.is_float:
        return np.zeros(len(patterns), bool)
    sign = 1 << ((dtype.bits or 0) - 1)
    infinity = ((1 << EXPONENT_BITS[dtype.name]) - 1) << FRACTION_BITS[dtype.name]
    return np.asarray((patterns & (sign - 1)) > infinity)


def _run(types: list[DataType], line: str, result: DataType, patterns: list[Bits]) -> Bits:
    """The cpu target's results; integers go in and come out, so that the bits are those given."""
    bits = [DataType.of(f"u{t.bits}") if not t.is_bool else t for t in (*types, result)]
    names = "abc"[: len(types)]
    buffers = [
        f"buffer @{n} : {t}[?] read binding({k})" for k, (n, t) in enumerate(zip(names, bits, strict=False))
    ]
    loads = []
    for name, stored, t in zip(names, bits, types, strict=False):
        loads.append(f"%{name}{'_bits' if stored is not t else ''} = load @{name}[%g] : {stored}")
        if stored is not t:
            loads.append(f"%{name} = bitcast %{name}_bits : {stored} -> {t}")
    text = f"""vyre 1
    program @p workgroup(64) {{
      {chr(10).join(buffers)}
      buffer @out : {bits[-1]}[{len(patterns[0])}] write binding({len(types)})
      %g = global_id x
      {chr(10).join(loads)}
      {line}
      {f"%out = bitcast %r : {result} -> {bits[-1]}" if bits[-1] is not result else ""}
      store {"%out" if bits[-1] is not result else "%r"}, @out[%g] : {bits[-1]}
    }}"""
    outputs = vyre_opt.run(
        parse_source(Source(text)), dict(zip(names, patterns, strict=True)), len(patterns[0]) // 64
    )
    return np.asarray(outputs["out"])
