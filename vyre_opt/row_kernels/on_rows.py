"""Functions on rows of arrays: results and launches of a call are planned once, for all calls with like arrays.

call --signatures of the arrays--> plan of an earlier call --arrays--> results, launches
         no plan yet  --operands--> RowsCall, which the function's rule checks and fills
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, TypeVar

from ..driver.operands import DispatcherLike, Operand, array_backend_of
from ..driver.plans import remember
from ..driver.torch_calls import is_recorded, record
from ..execution.dispatcher import BadInputs
from ..execution.signatures import SIGNATURES
from ..execution.target import Target, as_target
from ..lang import bf16, f16, f32
from ..lang.functions import ConfiguredKernel, Kernel

__all__ = ["Element", "Place", "RowsCall", "as_line", "as_rows", "on_rows"]

Element = TypeVar("Element", f16, bf16, f32)
"""Elements of rows; sums of all of them are of f32."""
TYPES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}


@dataclass(frozen=True, slots=True)
class Place:
    """An array of a call, by its number: first those that are passed, then results.  `shape`: that of its elements for a launch."""

    number: int
    shape: tuple[int, ...]
    is_reshaped: bool = False

    def reshaped(self, *shape: int) -> Place:
        """The same elements in another shape."""
        return Place(self.number, shape, self.is_reshaped or shape != self.shape)

    def of(self, arrays: Sequence[Any]) -> Any:
        array = arrays[self.number]
        return array.reshape(self.shape) if self.is_reshaped else array


def as_rows(array: Place) -> Place:
    """An array of two dimensions on the same memory."""
    return array.reshaped(prod(array.shape[:-1]), array.shape[-1])


def as_line(array: Place) -> Place:
    """An array of one dimension on the same memory."""
    return array.reshaped(prod(array.shape))


class RowsCall:
    """A call of the function `name` on arrays, of which the first one has the rows; `call[name]` is an array of it.

    A rule says what the call comes to by `result` and `launch`, in order.  Raises BadInputs for arrays on several sides, for one that is no
    array of f16, bf16 or f32 with an axis at least, and for tensors that need a gradient.
    """

    def __init__(
        self, name: str, names: Sequence[str], arrays: Sequence[Any], dispatcher: DispatcherLike | None
    ) -> None:
        if any(map(is_recorded, arrays)):
            record(name, None, [*arrays], dispatcher, None)
        self.name, self.dispatcher = name, dispatcher
        by_name = dict(zip(names, arrays, strict=True))
        self.backend = array_backend_of(dispatcher, by_name)
        self.operands: dict[str, Operand] = {
            each: self.backend.take(array, each) for each, array in by_name.items()
        }
        for each, array in by_name.items():
            if not hasattr(array, "shape"):
                kind = type(array).__name__
                help = f"pass np.asarray({each})"
                if isinstance(array, (tuple, int)) and each != names[0]:
                    help = (
                        f"leave {array} out, rows lie along the last axis: write {name}({', '.join(names)})"
                    )
                raise BadInputs(f"{name}: {each} is {kind}, no array: {help}")
        self.first, self.rows_name = self.operands[names[0]], names[0]
        if self.first.kind not in TYPES:
            raise BadInputs(
                f"{name}: {self.rows_name} holds {', '.join(TYPES.values())}, not {self.first.kind}"
            )
        if not self.first.shape:
            raise BadInputs(f"{name}: {self.rows_name} is a single number; it has rows along its last axis")
        self.columns = self.first.shape[-1]
        self.shape = self.first.shape[:-1]
        self.rows = prod(self.shape)
        self.is_for_gpu = bool(as_target(self.backend.dispatcher).architecture)
        self._places = {
            each: Place(number, tuple(operand.shape))
            for number, (each, operand) in enumerate(self.operands.items())
        }
        self.results: list[tuple[tuple[int, ...], str]] = []
        """Shapes and kinds of the results, and of what launches hand to one another."""
        self.launches: list[tuple[ConfiguredKernel, Sequence[Any]]] = []
        self.checks: list[tuple[Place, Callable[[Any], None]]] = []

    def __getitem__(self, name: str) -> Place:
        return self._places[name]

    def need(self, name: str, shape: Sequence[int], of_kind: bool = True) -> None:
        """Raise BadInputs for an array of another shape or type than what goes with the rows."""
        operand = self.operands[name]
        own, wanted = list(operand.shape), list(shape)
        if own != wanted:
            axes = [axis for axis, (has, want) in enumerate(zip(own, wanted, strict=False)) if has != want]
            swapped = [own[axis] for axis in axes[::-1]] == [wanted[axis] for axis in axes] and len(axes) == 2
            help = f": pass {name}.swapaxes({', '.join(map(str, axes))})"
            raise BadInputs(
                f"{self.name}: {name} is of shape {tuple(own)}, and {tuple(wanted)} goes with "
                f"{self.rows_name} of shape {tuple(self.first.shape)}{help if swapped and len(own) == len(wanted) else ''}"
            )
        if of_kind and operand.kind != self.first.kind:
            raise BadInputs(
                f"{self.name}: {name} holds {operand.kind}, and {self.rows_name} {self.first.kind}: convert one of them"
            )

    def check(self, array: Place, check: Callable[[Any], None]) -> None:
        """Have each call look at the elements of an array, which is in main memory, before anything runs."""
        self.checks.append((array, check))

    def result(self, shape: Sequence[int], kind: str = "") -> Place:
        """An array of a shape, by default of the type of the rows.  The first one is what `out` takes."""
        self.results.append((tuple(shape), kind or self.first.kind))
        return Place(len(self.operands) + len(self.results) - 1, tuple(shape))

    def launch(self, kernel: Kernel, grid: Any, *arguments: Any) -> None:
        """Launch a kernel on arrays and numbers, unless there is nothing to do."""
        if self.rows and self.columns:
            chosen = kernel if self.dispatcher is None else kernel.options(target=self.dispatcher)
            self.launches.append((chosen[grid], arguments))

    def takes(self, out: Any) -> bool:
        """Whether launches can write into `out` where it is.  Raises BadInputs for one of another shape or type than the result."""
        (shape, kind), given = self.results[0], self.backend.take(out, "out")
        if tuple(given.shape) != shape or given.kind != kind:
            raise BadInputs(
                f"{self.name}: out is of {given.kind} and shape {tuple(given.shape)}, and the result of {kind} and shape {shape}"
            )
        return self.backend.is_in_place(given)


Rule = Callable[..., None]
"""`rule(call, *options)` says what a call comes to."""


def on_rows(name: str, *names: str) -> Callable[[Rule], RowsFunction]:
    """Decorates a rule, which becomes what runs the function `name` on arrays of these names."""
    return lambda rule: RowsFunction(name, names, rule)


class RowsFunction:
    """`function(arrays, dispatcher, out, *options)`: the results, or the call alone for a target that only plans.  Options are hashable."""

    def __init__(self, name: str, names: Sequence[str], rule: Rule) -> None:
        self.name, self.names, self.rule = name, names, rule
        self._plans: OrderedDict[Any, _Plan] = OrderedDict()

    def __call__(
        self, arrays: Sequence[Any], dispatcher: DispatcherLike | None, out: Any, *options: Any
    ) -> Sequence[Any]:
        key: Any
        try:
            taken = arrays if out is None else (*arrays, out)
            key = (dispatcher, options, *map(type, options), *[SIGNATURES[type(a)](a) for a in taken])
            plan = self._plans.get(key)
        except (KeyError, TypeError, RuntimeError, AttributeError, ValueError):
            key = plan = None  # no array, or one that has no signature
        if plan is not None:
            return plan.run(arrays, out)
        call = RowsCall(self.name, self.names, arrays, dispatcher)
        self.rule(call, *options)
        if isinstance(dispatcher, Target) and dispatcher.plans_only:
            return [call]
        plan = _Plan(call, out)
        results = plan.run(arrays, out)
        if key is not None and call.backend.is_lasting([*call.operands.values()]):
            plan.forget(call, results)
            remember(self._plans, key, plan)
        return results


class _Plan:
    """Checks, results and launches of all calls with like arrays."""

    def __init__(self, call: RowsCall, out: Any) -> None:
        self.checks, self.launches = call.checks, call.launches
        self.names, self.dispatcher = [*call.operands], call.dispatcher
        self.takes_out = out is not None and call.takes(out)
        self.makers: list[Callable[[], Any]] = [
            partial(call.backend.new_result, shape, kind, call.first.owner) for shape, kind in call.results
        ]

    def run(self, arrays: Sequence[Any], out: Any) -> Sequence[Any]:
        for array, check in self.checks:
            check(array.of(arrays))
        results = [make() for make in self.makers[self.takes_out :]]
        if self.takes_out:
            results.insert(0, out)
        values = [*arrays, *results]
        for launch, arguments in self.launches:
            launch(*[each.of(values) if type(each) is Place else each for each in arguments])
        if out is not None and not self.takes_out:
            backend = array_backend_of(self.dispatcher, dict(zip(self.names, arrays, strict=True)))
            results[0] = backend.copy_to(out, results[0])
        return results

    def forget(self, call: RowsCall, results: Sequence[Any]) -> None:
        """Hold no array of a caller any more."""
        self.makers = [call.backend.maker_of(each) for each in results]
