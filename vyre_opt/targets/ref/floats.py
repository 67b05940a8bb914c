"""Float ops on arrays.  Each takes the operands and the scalar type, and rounds once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...ir.ops import OPS
from ...ir.types import DataType
from ...math_functions.expression import F32, F64
from .fma import fma
from .math_functions import evaluate
from .rounding import narrow, widen

Array = np.ndarray
FloatOp = Callable[..., Array]


def rounded(compute: Callable[..., Array]) -> FloatOp:
    """An op computed by `compute` in the wide type (see `rounding`), correctly rounded, then rounded once more."""

    def run(*arguments: Array | DataType) -> Array:
        *operands, t = arguments
        assert isinstance(t, DataType)
        return narrow(compute(*(widen(a, t) for a in operands)), t)  # type: ignore[arg-type]

    return run


def function(name: str) -> FloatOp:
    """A mathematical function: f16 and bf16 are computed in f32 and rounded once more, as on every target."""

    def run(*arguments: Array | DataType) -> Array:
        *operands, t = arguments
        assert isinstance(t, DataType)
        format = F64 if t.name == "f64" else F32
        wide = np.float64 if format is F64 else np.float32
        arrays = np.broadcast_arrays(*(a.astype(wide) for a in operands))  # type: ignore[union-attr]
        return narrow(evaluate(name, format, arrays), t)

    return run


def exact(compute: Callable[..., Array]) -> FloatOp:
    """An op whose result is always a value of the type, so that nothing is rounded."""

    def run(*arguments: Array | DataType) -> Array:
        result: Array = compute(*arguments[:-1])
        return result

    return run


def minimum(a: Array, b: Array, t: DataType) -> Array:
    """Ignores a NaN operand, even a signalling one, which np.fmin does not; -0.0 is smaller than 0.0."""
    return np.where((a < b) | ((a == b) & np.signbit(a)) | np.isnan(b), a, b)


def maximum(a: Array, b: Array, t: DataType) -> Array:
    """Ignores a NaN operand, even a signalling one; 0.0 is larger than -0.0."""
    return np.where((a > b) | ((a == b) & ~np.signbit(a)) | np.isnan(b), a, b)


FLOAT_OPS: dict[str, FloatOp] = {
    "add": rounded(np.add),
    "sub": rounded(np.subtract),
    "mul": rounded(np.multiply),
    "div": rounded(np.divide),
    "rem": rounded(np.fmod),
    "abs_diff": rounded(lambda a, b: np.abs(a - b)),
    "min": minimum,
    "max": maximum,
    "neg": exact(np.negative),
    "abs": exact(np.abs),
    "fma": fma,
    "sqrt": rounded(np.sqrt),
    "floor": exact(np.floor),
    "ceil": exact(np.ceil),
    "trunc": exact(np.trunc),
    "round_even": exact(np.rint),
    **{row.name: function(row.name) for row in OPS.values() if row.ulp},
}
