"""Functions on arrays that decide once what like calls share: checks, schedule, code, grid, memory.

    call --signatures of the arrays--> plan of an earlier call --pointers--> launch
             no plan yet, or arrays that none fits  --operands--> KernelCall --> dispatch

A plan holds no array of a caller.

Where code is made for one length, and so for each again, a function has code for its first length only and code for
all of them; any other length gets its own when it comes often (`CodeChoice`).
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ..execution.array_backend import ArrayBackend, Operand
from ..execution.bound_call import BoundCall, bind
from ..execution.dispatcher import BadInputs, Dispatcher, DispatcherLike
from ..execution.kernel_call import load_call, results_of, run_call
from ..execution.params import Words
from ..execution.plans.call_plan import CallPlan, Loaded
from ..execution.signatures import SIGNATURES, guard_of
from ..execution.target import Target, as_target
from ..ir.program import Program
from ..ir.tracebacks import CallerError, hide_own_frames
from ..ir.types import DataType
from ..kernels.call import Call, InputSlice, KernelCall, Steps
from ..records import dataclass
from ..worker import import_module
from .placement import array_backend_of
from .plans import remember
from .torch_calls import is_recorded, record

if TYPE_CHECKING:
    from ..kernels.named.kernel import TargetDevice

__all__ = ["PlannedCall", "PlannedFunction", "device_of", "kernel_function", "planned", "take_array"]

OWN_CODES = 1
CALLS_IN_A_ROW, CALLS_IN_ALL = 8, 256
"""Code that is made at once, for the first lengths; and the calls with a length after which it gets its own.

Compiling takes as long as thousands of calls, so lengths that come in turn are better served by general code.
"""

Plan = Callable[..., Call | Steps]
"""`plan(backend, operands, *options)`: what a call with such operands comes to.  Raises ValueError."""

Take = Callable[[ArrayBackend, Any, str], Operand]


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """Plan of a call of a function on arrays; `operands`: the arrays of it; `names`: theirs."""

    call: Call | Steps
    operands: Sequence[Operand]
    names: Sequence[str]


class PlannedFunction:
    """`function(arrays, names, dispatcher, out, *options)`: the result.  Options are hashable.

    `name`: of the function for callers.  `plan` gives the call for operands, as which `take` reads arrays.
    """

    def __init__(self, name: str, plan: Plan, take: Take) -> None:
        self.name, self.plan, self.take = name, plan, take
        self._choice = CodeChoice()
        self._bound: OrderedDict[Any, BoundCall] = OrderedDict()
        self._latest: tuple[Any, Any, Callable[..., bool], BoundCall] | None = None
        """The latest call on tensors: its dispatcher, its options, and what tells whether another is like it."""
        self._loaded: OrderedDict[Any, tuple[CallPlan, Loaded, Dispatcher]] = OrderedDict()
        self._calls: OrderedDict[Any, tuple[Call | _Prepared, Dispatcher]] = OrderedDict()
        """Planned calls by the types of their operands, for arrays that no plan fits, too.

        A dispatcher need have no hash, so it is in these keys by its id, and kept in the values while that stands for it.
        """

    def __call__(
        self,
        arrays: Sequence[Any],
        names: Sequence[str],
        dispatcher: DispatcherLike | None,
        out: Any,
        *options: Any,
    ) -> Any:
        key: Any
        bound: BoundCall | None
        latest = self._latest
        try:
            if latest and latest[0] is dispatcher and latest[1] == options and latest[2](*arrays):
                key, bound = None, latest[3]
            else:
                key = (dispatcher, options, *[SIGNATURES[type(array)](array) for array in arrays])
                bound = self._bound.get(key)
        except (KeyError, TypeError, RuntimeError, AttributeError, ValueError):
            key, bound = None, None  # no array, or one that has no signature
        try:
            if bound is None:
                return self._first(arrays, names, dispatcher, out, options, key)
            if key is not None and type(bound) is BoundCall:
                if bound.is_like is None:
                    bound.is_like = guard_of(arrays) or False
                if bound.is_like:
                    self._latest = dispatcher, options, bound.is_like, bound
            if out is None:
                return bound.run(arrays)[0]
            results = bound.into(arrays, out)
            if results is not None:
                return results[0]
            return array_backend_of(dispatcher, dict(zip(names, arrays, strict=True))).copy_to(
                out, bound.run(arrays)[0]
            )
        except CallerError as error:
            hide_own_frames(error)
            raise

    def _first(
        self, arrays: Sequence[Any], names: Sequence[str], dispatcher: Any, out: Any, options: Any, key: Any
    ) -> Any:
        """A call without a plan; makes one for the next call with like arrays, if they allow it."""
        if any(map(is_recorded, arrays)):

            def again(*arrays: Any) -> Any:
                return self(arrays, names, dispatcher, None, *options)

            return record(self.name, again, arrays, dispatcher, out, *options)
        if isinstance(dispatcher, Target) and dispatcher.plans_only:
            return self.plan_of(arrays, names, dispatcher, *options)
        backend, operands = self._taken(arrays, names, dispatcher)
        planned = self._call(backend, operands, options)
        if isinstance(planned, list):
            several: Any = _SeveralLaunches(planned, dispatcher)
            if key is not None:
                remember(self._bound, key, several)
            return several.into(arrays, out)[0]
        call = self._choice.of(planned, backend.target)
        if not isinstance(call, KernelCall):
            result = run_call(backend, call, operands)
        else:
            plan, loaded = self._load(backend, call, operands)
            results = results_of(backend, call, operands)
            bound, owners = bind(backend, plan, loaded, operands, results)
            result = bound.fill(owners, (), results)[0]
            if key is not None and bound.is_lasting:
                lasting: Any = bound
                if call is not planned:
                    assert isinstance(planned, KernelCall)

                    def replan(arrays: Sequence[Any], out: Any) -> list[Any]:
                        return [self._first(arrays, names, dispatcher, out, options, key)]

                    lasting = _GeneralCall(bound, partial(self._choice.is_due, planned), replan)
                remember(self._bound, key, lasting)
        return result if out is None else backend.copy_to(out, result)

    def _load(
        self, backend: ArrayBackend, call: KernelCall, operands: Sequence[Operand]
    ) -> tuple[CallPlan, Loaded]:
        """The plan of a call, compiled; from an earlier call if it was for like operands."""
        launch = call.program, call.grid, call.arguments, call.words
        key = (launch, id(backend.dispatcher), backend.on_gpu, *[operand.shape for operand in operands])
        known = self._loaded.get(key)
        if known is None:
            known = *load_call(backend, call, operands), backend.dispatcher
            remember(self._loaded, key, known)
        return known[:2]

    def plan_of(
        self, arrays: Sequence[Any], names: Sequence[str], dispatcher: DispatcherLike | None, *options: Any
    ) -> PlannedCall:
        """Plan of a call, which is not run.  Raises BadInputs for arrays that do not fit."""
        backend, operands = self._taken(arrays, names, dispatcher)
        return PlannedCall(self._planned(backend, operands, options), operands, names)

    def _taken(
        self, arrays: Sequence[Any], names: Sequence[str], dispatcher: DispatcherLike | None
    ) -> tuple[ArrayBackend, list[Operand]]:
        backend = array_backend_of(dispatcher, dict(zip(names, arrays, strict=True)))
        return backend, [self.take(backend, array, name) for array, name in zip(arrays, names, strict=True)]

    def _planned(self, backend: ArrayBackend, operands: Sequence[Operand], options: Any) -> Call | Steps:
        try:
            return self.plan(backend, operands, *options)
        except ValueError as error:
            raise BadInputs(str(error)) from None

    def _call(self, backend: ArrayBackend, operands: Sequence[Operand], options: Any) -> Call | _Prepared:
        types = tuple((operand.shape, operand.kind) for operand in operands)
        key = (id(backend.dispatcher), backend.on_gpu, backend.workers, types, options)
        try:
            known = self._calls.get(key)
        except TypeError:
            raise BadInputs(f"{self.name}: an option is of no type that it may have: {options}") from None
        if known is None:
            call = self._planned(backend, operands, options)
            prepared = _prepared(self, call, len(operands)) if isinstance(call, Steps) else call
            known = prepared, backend.dispatcher
            remember(self._calls, key, known)
        return known[0]


_Prepared = list[tuple[PlannedFunction, tuple[int | InputSlice, ...], list[str]]]
"""The launches of a call that is several: a function for each, its inputs as `Steps` has them, and their names."""


class CodeChoice:
    """Choice between code of a call's own and `general` code."""

    def __init__(self) -> None:
        self._given: Counter[tuple[str | DataType, ...]] = Counter()
        """Number of lengths that were given code at once, by the target and the types of the buffers."""
        self._calls: OrderedDict[Program, int] = OrderedDict()
        """Number of calls of a length, by the program that would be its own; -1 for one that has its code."""
        self._last: Program | None = None
        self._in_a_row = 0

    def of(self, call: Call, target: str) -> Call:
        """The call itself, or the general one in its place."""
        if not isinstance(call, KernelCall) or call.general is None:
            return call
        if self._calls.get(call.program) == -1 or self.is_due(call):
            return call
        kind: tuple[str | DataType, ...] = (target, *(b.dtype for b in call.program.bound_buffers))
        if self._given[kind] < OWN_CODES:
            self._given[kind] += 1
            remember(self._calls, call.program, -1)
            return call
        return call.general()

    def is_due(self, call: KernelCall) -> bool:
        """Count a call that is about to be run by general code; whether its length has come often enough."""
        program = call.program
        self._in_a_row = self._in_a_row + 1 if program is self._last else 1
        self._last = program
        calls = self._calls.get(program, 0) + 1
        is_due = calls == 0 or self._in_a_row > CALLS_IN_A_ROW or calls > CALLS_IN_ALL
        remember(self._calls, program, -1 if is_due else calls)
        return is_due


class _GeneralCall:
    """A plan by general code, see `BoundCall`.  `replan(arrays, out)`: a call without a plan, which makes another."""

    def __init__(
        self, plan: BoundCall, is_due: Callable[[], bool], replan: Callable[[Sequence[Any], Any], list[Any]]
    ) -> None:
        self._plan, self._is_due, self._replan = plan, is_due, replan

    def may_plan(self) -> bool:
        return self._plan.may_plan()

    def run(self, arrays: Sequence[Any], words: Words = ()) -> list[Any]:
        changes = self._is_due() and self.may_plan()
        return self._replan(arrays, None) if changes else self._plan.run(arrays, words)

    def into(self, arrays: Sequence[Any], out: Any) -> list[Any] | None:
        changes = self._is_due() and self.may_plan()
        return self._replan(arrays, out) if changes else self._plan.into(arrays, out)


def _prepared(function: PlannedFunction, call: Steps, count: int) -> _Prepared:
    """A function for each launch of a call of `function` with `count` arrays, and so a plan."""

    def take(backend: ArrayBackend, array: Any, name: str) -> Operand:
        return function.take(backend, array, name) if name.startswith("input") else backend.take(array, name)

    prepared: _Prepared = []
    for step, inputs in call.steps:
        names = [f"{'input' if k in range(count) else 'result'} {n}" for n, k in enumerate(inputs)]
        prepared.append((PlannedFunction(function.name, lambda *_, step=step: step, take), inputs, names))
    return prepared


class _SeveralLaunches:
    """A plan that is several launches, each of which has a plan of its own, see `BoundCall`."""

    def __init__(self, steps: _Prepared, dispatcher: DispatcherLike | None) -> None:
        self._steps, self._dispatcher = steps, dispatcher

    def may_plan(self) -> bool:
        return True

    def run(self, arrays: Sequence[Any], words: Words = ()) -> list[Any]:
        return self.into(arrays, None)

    def into(self, arrays: Sequence[Any], out: Any) -> list[Any]:
        values, last = list(arrays), len(self._steps) - 1
        for number, (function, inputs, names) in enumerate(self._steps):
            parts = [values[k] if isinstance(k, int) else values[k.input][k.start : k.stop] for k in inputs]
            values.append(function(parts, names, self._dispatcher, out if number == last else None))
        return values[-1:]


def take_array(backend: ArrayBackend, array: Any, name: str) -> Operand:
    return backend.take(array, name)


def planned(name: str, take: Take = take_array) -> Callable[[Plan], PlannedFunction]:
    """Decorates a `Plan`, which becomes the `PlannedFunction` behind the function `name`."""
    return lambda plan: PlannedFunction(name, plan, take)


def device_of(backend: ArrayBackend) -> TargetDevice:
    """Device that runs a backend's calls, for the declaration of a kernel."""
    from ..kernels.named.kernel import TargetDevice

    architecture = as_target(backend.dispatcher).architecture
    return TargetDevice(backend.target, backend.workers, architecture, backend.on_gpu)


def kernel_function(name: str, kernel: str, take: Take = take_array) -> PlannedFunction:
    """The `PlannedFunction` behind the function `name`, of a named kernel, whose declaration says what a call comes to."""

    def plan(backend: ArrayBackend, operands: Sequence[Operand], *options: Any) -> Call | Steps:
        import_module("vyre_opt.kernels.named")
        from ..kernels.named import named_kernel

        return named_kernel(kernel).call(device_of(backend), operands, *options)

    return PlannedFunction(name, plan, take)
