"""Errors of the mathematical functions on all numbers of 16 bits, millions of f32 and thousands of f64:

    PYTHONPATH=test python -m support.math_campaign --json docs/results/math_functions.json

Results are the cpu target's; the interpreter must give the same bits, on all of 16 bits and a part of the others.
The oracle is mpmath, but for the millions, where it is NumPy and the C library in f64, whose own error is measured
against mpmath on a sample: it must be far below an ulp of f32.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from vyre_opt import dispatcher
from vyre_opt.ir import OPS, Builder, DataType, Program
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher

from .math_oracle import FUNCTIONS, LARGEST, LEAST, UNARY, Array, arguments, errors, in_domain, numbers
from .op_programs.maker import differs

WORKGROUP = 256
CHUNK = 200_000
"""About a fifth of the arguments that are tried at once."""

WIDE_ARGUMENTS = 20_000
"""Of f64, with mpmath, about a fifth."""

ORACLE_SAMPLE = 400

FAST: dict[str, Callable[..., Array]] = {
    "rsqrt": lambda x: 1 / np.sqrt(x), "rcp": lambda x: 1 / x, "cbrt": np.cbrt, "exp": np.exp, "exp2": np.exp2,
    "exp10": lambda x: np.power(10.0, x), "expm1": np.expm1, "log": np.log, "log2": np.log2, "log1p": np.log1p,
    "pow": np.power, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "atan2": np.arctan2, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "erf": lambda x: np.fromiter(map(math.erf, x.tolist()), np.float64, len(x)),
    "erfc": lambda x: np.fromiter(map(math.erfc, x.tolist()), np.float64, len(x)),
}  # fmt: skip


def program_of(name: str, dtype: DataType) -> Program:
    """Applies a function to arrays."""
    b = Builder(name, WORKGROUP)
    sources = [b.buffer(f"x{k}", dtype, None, "read", k) for k in range(_arity(name))]
    result = b.buffer("y", dtype, None, "write", len(sources), live_out=True)
    i = b.global_id("x")
    with b.if_(b.lt(i, b.len(sources[0]))):
        b.store(getattr(b, name)(*(b.load(source, i) for source in sources)), result, i)
    return b.finish()


def _arity(name: str) -> int:
    return 2 if OPS[name].format == "binary" else 1


class Evaluator:
    """A function at a type, on the cpu target; `differences` counts results whose bits the interpreter has not."""

    def __init__(self, name: str, dtype: DataType) -> None:
        self.program, self.dtype = program_of(name, dtype), dtype
        self.cpu, self.ref = CpuDispatcher(), dispatcher("ref")
        self.compared = self.differences = 0

    def __call__(self, operands: list[Array], compared: int) -> Array:
        """The results; those of the first `compared` arguments are compared."""
        result = self._on(self.cpu, operands)
        first = [operand[:compared] for operand in operands]
        wrong = differs(result[:compared], self._on(self.ref, first), self.dtype)
        self.compared, self.differences = self.compared + len(wrong), self.differences + int(wrong.sum())
        return result

    def _on(self, target: Any, operands: list[Array]) -> Array:
        count = len(operands[0])
        space = np.zeros_like(operands[0])
        result: Array = target.dispatch(self.program, [*operands, space], -(-count // WORKGROUP))[0]
        return result


def all_arguments(name: str, dtype: DataType) -> list[Array]:
    """Every number of a 16-bit type in the function's domain."""
    words = np.arange(1 << 16, dtype=np.uint16)
    column = words if dtype is DataType.BF16 else words.view(np.float16)
    return [column[in_domain(name, numbers(column, dtype))]]


def fast_errors(
    name: str, operands: list[Array], results: Array, oracle: Callable[..., Array] | None = None
) -> Array:
    """As `math_oracle.errors` for f32, by an oracle in f64."""
    with np.errstate(all="ignore"):
        exact = (oracle or FAST[name])(*(operand.astype(np.float64) for operand in operands))
        exponent = np.frexp(np.where(np.isfinite(exact), exact, 1.0))[1]
        unit = np.ldexp(1.0, np.maximum(exponent - 24, LEAST["f32"]))
        largest = 2.0 ** LARGEST["f32"]
        unit = np.where(abs(exact) >= largest, 2.0 ** (LARGEST["f32"] - 24), unit)
        got, expected = (np.clip(v, -largest, largest) for v in (results.astype(np.float64), exact))
        off: Array = abs(got - expected) / unit
    return np.where(np.isnan(off), math.inf, off)


def oracle_error(name: str, operands: list[Array]) -> float:
    """The error of the oracle in f64, in ulp of f32, on a sample."""
    step = max(1, len(operands[0]) // ORACLE_SAMPLE)
    sample = [operand[::step].astype(np.float64) for operand in operands]
    with np.errstate(all="ignore"):
        got = FAST[name](*sample)
    off = errors(name, DataType.F64, sample, got)
    # an error in ulp of f64 is 2^-29 of one in ulp of f32
    return float(off[np.isfinite(got)].max()) * 2.0**-29


def figures(name: str, dtype: DataType, count: int) -> dict[str, Any]:
    """The largest error of a function at a type, and where it is."""
    evaluate = Evaluator(name, dtype)
    tried, worst, place, oracle = 0, -1.0, [0.0], 0.0
    for operands in _batches(name, dtype, count):
        is_fast = dtype is DataType.F32
        results = evaluate(operands, len(operands[0]) if not is_fast else len(operands[0]) // 10)
        off = fast_errors(name, operands, results) if is_fast else errors(name, dtype, operands, results)
        if is_fast:
            oracle = max(oracle, oracle_error(name, operands)) if tried < 2 * CHUNK else oracle
        tried, at = tried + len(off), int(off.argmax())
        if off[at] > worst:
            worst, place = float(off[at]), [float(numbers(operand, dtype)[at]) for operand in operands]
    return {
        "function": name, "dtype": dtype.name, "arguments": tried, "error": worst, "bound": OPS[name].ulp,
        "at": [value.hex() for value in place], "oracle": oracle,
        "compared": evaluate.compared, "differences": evaluate.differences,
    }  # fmt: skip


def _batches(name: str, dtype: DataType, count: int) -> Iterator[list[Array]]:
    if dtype.bits == 16 and name in UNARY:
        yield all_arguments(name, dtype)
        return
    if dtype is not DataType.F32:
        yield arguments(name, dtype, WIDE_ARGUMENTS, seed=1)
        return
    seed = 1
    while count > 0:
        operands = arguments(name, dtype, CHUNK, seed)
        operands = [operand[:count] for operand in operands]
        yield operands
        count -= len(operands[0])
        seed += 1


def main() -> None:
    parser = argparse.ArgumentParser(description="Errors of the mathematical functions.")
    parser.add_argument("--json", type=Path, help="where the figures go")
    parser.add_argument("--count", type=int, default=10_000_000, help="arguments of f32 for each function")
    parser.add_argument("names", nargs="*", default=list(FUNCTIONS))
    options = parser.parse_args()
    began, rows = time.monotonic(), []
    for name in options.names:
        for dtype in (DataType.F16, DataType.BF16, DataType.F32, DataType.F64):
            row = figures(name, dtype, options.count)
            rows.append(row)
            print(f"{name} {dtype}: {row['error']:.3f} ulp of {row['arguments']} at {row['at']}, "
                  f"oracle {row['oracle']:.1g}, {row['differences']} of {row['compared']} differ", flush=True)  # fmt: skip
    if options.json:
        minutes = round((time.monotonic() - began) / 60)
        record = {
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "minutes": minutes,
            "rows": rows,
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
