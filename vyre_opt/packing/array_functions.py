"""Functions on arrays, `vyre_opt.kernels.softmax` and the like, as parts of a pack: what they come to for some arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..driver import numeric_kernels
from ..execution.dispatcher import BadInputs
from ..kernels.call import Call, Steps
from ..kernels.named.kernel import OperandLike
from ..targets.cpu.dispatcher import CpuDispatcher

__all__ = ["is_array_function", "name_of", "planned_call", "taken_as"]

_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    name: getattr(numeric_kernels, name)
    for name in (
        "softmax",
        "softmax_step",
        "prefix_scan",
        "matvec_fixed",
        "matmul",
        "tt_contract_step",
        "tt_chain",
    )
}
"""Functions that are one planned call, and nothing before or after it."""

WORKERS = 8
"""Threads that schedules are chosen for: a pack is the same wherever it is made."""


class _Planned(Exception):
    """Ends a call whose plan is known.  `call`, `operands`, `names`: see `Target.on_call`."""

    def __init__(self, call: Call | Steps, operands: Sequence[OperandLike], names: Sequence[str]) -> None:
        super().__init__()
        self.call, self.operands, self.names = call, operands, names


class _Planner(CpuDispatcher):
    def on_call(self, call: Call | Steps, operands: Sequence[OperandLike], names: Sequence[str]) -> None:
        raise _Planned(call, operands, names)


def is_array_function(function: Any) -> bool:
    return any(function is known for known in _FUNCTIONS.values())


def name_of(function: Any) -> str:
    return next(name for name, known in _FUNCTIONS.items() if function is known)


def taken_as(function: Any) -> str:
    """Kind of the arrays that a function takes: "u32" for whole numbers, "arrays" for others."""
    return "u32" if name_of(function) == "softmax_step" else "arrays"


def planned_call(
    function: Callable[..., Any], arguments: Sequence[Any]
) -> tuple[Call | Steps, Sequence[OperandLike], Sequence[str], dict[str, Any]]:
    """Plan of a call, its operands, their names and its options, which are a dict behind the arrays.  Raises BadInputs."""
    has_options = bool(arguments) and isinstance(arguments[-1], dict)
    arrays, options = (arguments[:-1], arguments[-1]) if has_options else (arguments, {})
    try:
        function(*arrays, dispatcher=_Planner(WORKERS, cache=False), **options)
    except _Planned as planned:
        return planned.call, planned.operands, planned.names, options
    except TypeError as error:
        raise BadInputs(f"shapes[{name_of(function)!r}]: {error}") from None
    raise BadInputs(f"{name_of(function)}: a call on such arrays runs nothing, and is not packed")
