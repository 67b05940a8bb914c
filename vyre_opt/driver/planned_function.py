"""Functions on arrays that decide once what like calls share: checks, schedule, code, grid, memory.

    call --signatures of the arrays--> plan of an earlier call --pointers--> launch
             no plan yet, or arrays that none fits  --operands--> KernelCall --> dispatch

A plan holds no array of a caller.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from ..runtime.array_backend import ArrayBackend, Operand
from ..runtime.dispatcher import BadInputs, DispatcherLike
from ..runtime.kernel_call import Call, FastCall, KernelCall, run_call
from ..runtime.signatures import SIGNATURES
from .placement import array_backend_of
from .torch_calls import is_recorded, record

__all__ = ["MAX_PLANS", "PlannedFunction", "planned", "remember"]

MAX_PLANS = 1024
"""Of a function; a plan takes some hundred bytes, and its code is cached by the dispatcher."""

Plan = Callable[..., Call]
"""`plan(backend, operands, *options)`: what a call with such operands comes to.  Raises BadInputs."""

Take = Callable[[ArrayBackend, Any, str], Operand]


class PlannedFunction:
    """`function(arrays, names, dispatcher, out, *options)`: the result.  Options are hashable.

    `name`: of the function for callers.  `plan` gives the call for operands, as which `take` reads arrays.
    """

    def __init__(self, name: str, plan: Plan, take: Take) -> None:
        self.name, self.plan, self.take = name, plan, take
        self._fast: OrderedDict[Any, FastCall] = OrderedDict()
        self._calls: OrderedDict[Any, Call] = OrderedDict()
        """What calls come to, by the types of their operands: for arrays that no plan fits, too."""

    def __call__(
        self,
        arrays: Sequence[Any],
        names: Sequence[str],
        dispatcher: DispatcherLike | None,
        out: Any,
        *options: Any,
    ) -> Any:
        key: Any
        try:
            key = (dispatcher, options, *[SIGNATURES[type(array)](array) for array in arrays])
            fast = self._fast.get(key)
        except (KeyError, TypeError, RuntimeError, AttributeError):  # no array, or one that has no signature
            key, fast = None, None
        if fast is None:
            return self._first(arrays, names, dispatcher, out, options, key)
        if out is None:
            return fast.run(arrays)[0]
        if fast.fits(arrays, out):
            return fast.into(arrays, out)[0]
        return array_backend_of(dispatcher, dict(zip(names, arrays, strict=True))).copy_to(
            out, fast.run(arrays)[0]
        )

    def _first(
        self, arrays: Sequence[Any], names: Sequence[str], dispatcher: Any, out: Any, options: Any, key: Any
    ) -> Any:
        """A call without a plan; makes one for the next call with like arrays, if they allow it."""
        if any(map(is_recorded, arrays)):
            return record(self.name, arrays, dispatcher, out, *options)
        backend = array_backend_of(dispatcher, dict(zip(names, arrays, strict=True)))
        operands = [self.take(backend, array, name) for array, name in zip(arrays, names, strict=True)]
        call = self._call(backend, operands, options)
        result = run_call(backend, call, operands)
        if key is not None and isinstance(call, KernelCall):
            fast = backend.fast_call(call, operands, [result])
            if fast is not None:
                remember(self._fast, key, fast)
        return result if out is None else backend.copy_to(out, result)

    def _call(self, backend: ArrayBackend, operands: Sequence[Operand], options: Any) -> Call:
        types = tuple((operand.shape, operand.kind) for operand in operands)
        key = (backend.target, backend.workers, types, options)
        try:
            call = self._calls.get(key)
        except TypeError:
            raise BadInputs(f"{self.name}: an option is of no type that it may have: {options}") from None
        if call is None:
            call = self.plan(backend, operands, *options)
            remember(self._calls, key, call)
        return call


def remember(plans: OrderedDict[Any, Any], key: Any, plan: Any) -> None:
    """Add a plan; the oldest goes where there are too many."""
    plans[key] = plan
    if len(plans) > MAX_PLANS:
        plans.popitem(last=False)


def _take(backend: ArrayBackend, array: Any, name: str) -> Operand:
    return backend.take(array, name)


def planned(name: str, take: Take = _take) -> Callable[[Plan], PlannedFunction]:
    """Decorates a `Plan`, which becomes the `PlannedFunction` behind the function `name`."""
    return lambda plan: PlannedFunction(name, plan, take)
