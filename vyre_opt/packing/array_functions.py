"""Functions on arrays, `vyre_opt.kernels.softmax` and the like, as parts of a pack: what they come to for some arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import unwrap
from typing import Any

from ..driver import numeric_kernels
from ..driver.planned_function import PlannedCall
from ..execution.dispatcher import BadInputs
from ..execution.target import Target
from ..row_kernels.attention import attention
from ..row_kernels.losses import cross_entropy, log_sum_exp
from ..row_kernels.norms import layer_norm, rms_norm
from ..row_kernels.on_rows import RowsCall
from .row_functions import kernel_call

__all__ = ["ARRAYS", "PACKED", "is_array_function", "name_of", "planned_call", "taken_as"]

_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        numeric_kernels.softmax,
        numeric_kernels.softmax_step,
        numeric_kernels.prefix_scan,
        numeric_kernels.matvec_fixed,
        numeric_kernels.matmul,
        numeric_kernels.tt_contract_step,
        numeric_kernels.tt_chain,
        layer_norm,
        rms_norm,
        log_sum_exp,
        cross_entropy,
        attention,
    )
}
"""Functions that are one planned call, and nothing before or after it."""
PACKED = tuple(_FUNCTIONS)
ARRAYS = "np.zeros((64, 100), np.float32)"
"""An array of a call, as an example."""


def is_array_function(function: Any) -> bool:
    return any(unwrap(function) is known for known in _FUNCTIONS.values())


def name_of(function: Any) -> str:
    return next(name for name, known in _FUNCTIONS.items() if unwrap(function) is known)


def taken_as(function: Any) -> str:
    """Kind of the arrays that a function takes: "u32" for whole numbers, "arrays" for others."""
    return "u32" if name_of(function) == "softmax_step" else "arrays"


def planned_call(
    function: Callable[..., Any], arguments: Sequence[Any], planner: Target, target: Target
) -> tuple[PlannedCall, dict[str, Any]]:
    """Plan of a call, and its options, which are a dict behind the arrays.  `planner`: plans only, for `target`.  Raises BadInputs."""
    has_options = bool(arguments) and isinstance(arguments[-1], dict)
    arrays, options = (arguments[:-1], arguments[-1]) if has_options else (arguments, {})
    name = name_of(function)
    if any(isinstance(each, int) for each in arrays):
        shape = f"np.zeros(({', '.join(map(str, arrays))}), np.float32)"
        raise BadInputs(
            f"shapes[{name!r}] has numbers where the arrays of a call are wanted: write shapes={{{name!r}: [({shape},)]}}"
        )
    try:
        planned: PlannedCall | RowsCall = unwrap(function)(*arrays, dispatcher=planner, **options)
    except TypeError as error:
        raise BadInputs(f"shapes[{name!r}]: {error}") from None
    if isinstance(planned, RowsCall):
        call = kernel_call(planned, target)
        planned = PlannedCall(call, [*planned.operands.values()], [*planned.operands])
    return planned, options
