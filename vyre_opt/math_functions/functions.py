"""Name -> function: the mathematical functions, and parts of them that are rarely needed.

`graph` records one for a format.  A part's name has a dot, which no op of the language has.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache

from . import error_function, exponentials, inverse_trigonometry, logarithms, power, roots, trigonometry
from .expression import Format, Graph, Real

__all__ = ["FUNCTIONS", "graph"]

FUNCTIONS: dict[str, Callable[..., Real]] = {
    "exp": exponentials.exp,
    "exp2": exponentials.exp2,
    "exp10": exponentials.exp10,
    "expm1": exponentials.expm1,
    "sinh": exponentials.sinh,
    "cosh": exponentials.cosh,
    "tanh": exponentials.tanh,
    "log": logarithms.log,
    "log2": logarithms.log2,
    "log1p": logarithms.log1p,
    "sin": trigonometry.sin,
    "sin.large": trigonometry.sin_large,
    "cos": trigonometry.cos,
    "cos.large": trigonometry.cos_large,
    "tan": trigonometry.tan,
    "tan.large": trigonometry.tan_large,
    "asin": inverse_trigonometry.asin,
    "acos": inverse_trigonometry.acos,
    "atan": inverse_trigonometry.atan,
    "atan2": inverse_trigonometry.atan2,
    "pow": power.power,
    "cbrt": roots.cbrt,
    "rsqrt": roots.rsqrt,
    "rcp": roots.rcp,
    "erf": error_function.erf,
    "erfc": error_function.erfc,
}


@cache
def graph(name: str, format: Format) -> Graph:
    """The code of a function of the table, with its operands as parameters."""
    function, code = FUNCTIONS[name], Graph(format)
    operands = [code.param() for _ in inspect.signature(function).parameters]
    return code.finish(function(*operands))
