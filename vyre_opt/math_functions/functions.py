"""Name -> function: the mathematical functions, and parts of them that are rarely needed.

`graph` records one for a format, and `approximation` the short form of one.  A part's name has a dot, which no op of the
language has.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache

from . import error_function, exponentials, inverse_trigonometry, logarithms, power, roots, trigonometry
from .approximations import APPROXIMATIONS
from .expression import F32, Format, Graph, Real

__all__ = ["FUNCTIONS", "approximation", "graph"]

FUNCTIONS: dict[str, Callable[..., Real]] = {
    "exp": exponentials.exp,
    "exp2": exponentials.exp2,
    "exp10": exponentials.exp10,
    "expm1": exponentials.expm1,
    "sinh": exponentials.sinh,
    "cosh": exponentials.cosh,
    "tanh": exponentials.tanh,
    "log": logarithms.log,
    "log.special": logarithms.log_special,
    "log2": logarithms.log2,
    "log2.special": logarithms.log2_special,
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
    "pow.special": power.power_special,
    "cbrt": roots.cbrt,
    "rsqrt": roots.rsqrt,
    "rcp": roots.rcp,
    "erf": error_function.erf,
    "erfc": error_function.erfc,
}


@cache
def graph(name: str, format: Format) -> Graph:
    """The code of a function of the table, with its operands as parameters."""
    return _recorded(FUNCTIONS[name], Graph(format))


@cache
def approximation(name: str, has_instructions: bool) -> Graph:
    """The short form of a function of f32; `has_instructions`: see `Graph`."""
    return _recorded(APPROXIMATIONS[name], Graph(F32, has_instructions))


def _recorded(function: Callable[..., Real], code: Graph) -> Graph:
    operands = [code.param() for _ in inspect.signature(function).parameters]
    return code.finish(function(*operands))
