"""Kernels and pipelines of Python as functions that work on the caller's own arrays, and return nothing.

A call checks types, layout and positions of the arrays once for all calls with like arrays; later ones take pointers and
launch.  Arrays that are read are not copied either, unless they share memory with one that is written: then the
program sees what they held before the call.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ..execution.bound_call import BoundCall
from ..execution.dispatcher import BadInputs, DispatcherLike
from ..execution.environment import chosen_target
from ..execution.params import value_as_passed
from ..execution.signatures import SIGNATURES, guard_of
from ..worker import import_module
from .executable import Executable, Grid
from .placement import any_on_gpu
from .plans import remember

if TYPE_CHECKING:
    from .call_report import CallReport

__all__ = ["InPlace"]

Scalar = tuple[str, int, Callable[[Any], int]]
"""A number among the arguments: its name, its position, and what makes a word of it."""


class InPlace:
    """`call(args, grid)` runs a program or a pipeline on the arguments of a function of Python.

    `compile(target)`: the program or pipeline for a target.  `target`: None for that of the arrays of each call.
    `places`: of the arrays among the arguments, in the order of the signature's parameters.  `scalars`: in the order of
    their names.  `warn`: hears of the grid, the arrays, and the whole numbers by "@name", of each call that none before it was like.  Arrays are NumPy's or torch's in main memory, or of any library on a GPU.  Raises BadInputs before
    anything runs, and ProgramError for a fault of a program.
    """

    def __init__(
        self,
        compile: Callable[[DispatcherLike], Executable],
        target: DispatcherLike | None,
        positions: Sequence[int],
        scalars: Sequence[Scalar],
        warn: Callable[[Grid, Sequence[Any], Mapping[str, int]], None] = lambda grid, arrays, params: None,
    ) -> None:
        self._compile, self._target, self._warn = compile, target, warn
        self._positions, self._scalars = positions, scalars
        self._is_plain = not scalars and list(positions) == list(range(len(positions)))
        self._executables: dict[str, Executable] = {}
        """Executables by the name of a target; "" for the dispatcher `target`, which need have no hash."""
        self._bound: OrderedDict[Any, BoundCall] = OrderedDict()
        self._latest: tuple[Grid, Callable[..., bool], BoundCall] | None = None
        """The latest call on tensors, and what tells whether another is like it: most are, and this is faster than a key."""
        self._shape_params: tuple[int, ...] = ()
        """The scalars that grids and sizes depend on, by their numbers: calls with others of these are no like calls."""

    def __call__(self, args: Sequence[Any], grid: Grid) -> None:
        words: tuple[int, ...] = ()
        if self._is_plain:
            arrays = args
        else:
            arrays = [args[position] for position in self._positions]
            try:
                words = tuple([encode(args[position]) for _, position, encode in self._scalars])
            except BadInputs as error:
                raise self._all_wrong(error, args, arrays) from None
        latest = self._latest
        key: Any
        # a grid of another type may compare to no bool
        if latest is not None and latest[0] is grid and latest[1](*arrays):
            latest[2].run(arrays, words)
            return
        try:
            key = (grid, *[SIGNATURES[type(array)](array) for array in arrays])
            if self._shape_params:
                key = (*key, *[words[number] for number in self._shape_params])
            bound = self._bound.get(key)
        except (
            KeyError,
            TypeError,
            RuntimeError,
            AttributeError,
            ValueError,
        ):  # arrays that have no signature
            bound, key = None, None
        if bound is None:
            self._first(arrays, grid, words, key)
            return
        if bound.is_like is None:
            bound.is_like = guard_of(arrays) or False
        if bound.is_like and not self._shape_params:
            self._latest = grid, bound.is_like, bound
        bound.run(arrays, words)

    def _all_wrong(self, error: BadInputs, args: Sequence[Any], arrays: Sequence[Any]) -> BadInputs:
        """The error of a number that does not fit, with those of the other arguments."""
        from .in_place_arrays import all_wrong, in_place_operands

        def check_arrays() -> None:
            executable = self.executable(arrays)
            in_place_operands(executable.signature, executable.name, executable.dispatcher, arrays)

        numbers = [partial(encode, args[position]) for _, position, encode in self._scalars]
        return all_wrong(error, [*numbers, check_arrays])

    def executable(self, arrays: Sequence[Any]) -> Executable:
        """The program or pipeline for the target of a call on arrays."""
        target = chosen_target(self._target, self._target is None and any_on_gpu(arrays))
        name = target if isinstance(target, str) else ""
        known = self._executables.get(name)
        if known is None:
            known = self._executables.setdefault(name, self._compile(target))
        return known

    def report(
        self, args: Sequence[Any], grid: Grid, machine: str | None = None, is_timed: bool = False
    ) -> CallReport:
        """See `Executable.report` and `Executable.time`; `machine`: see `MachineTarget`.  The arrays stay as they are."""
        arrays = [args[position] for position in self._positions]
        if machine is None:
            executable = self.executable(arrays)
        else:
            import_module("vyre_opt.driver.machine_target")
            from .machine_target import MachineTarget

            executable = self._compile(MachineTarget(machine))
            if any_on_gpu(arrays):
                raise BadInputs(
                    "arrays on a GPU are of that one; for another pass arrays of NumPy of the same shapes"
                )
        signature = executable.signature
        inputs = dict(zip((buffer.name for buffer in signature.parameters), arrays, strict=True))
        words = {name: encode(args[position]) for name, position, encode in self._scalars}
        params = {name: value_as_passed(word, signature.params[name]) for name, word in words.items()}
        return (executable.time if is_timed else executable.report)(inputs, grid, params=params)

    def _first(self, arrays: Sequence[Any], grid: Grid, words: tuple[int, ...], key: Any) -> None:
        """A call that none before it was like."""
        executable = self.executable(arrays)
        names = [name for name, _, _ in self._scalars]
        params = dict(zip(names, words, strict=True))
        bound, owners = executable.bind_in_place(arrays, grid, params)
        self._warn(grid, arrays, executable.extent_params(params))
        shape_params = tuple(number for number, name in enumerate(names) if name in executable.shape_params)
        if key is not None and bound.is_lasting:
            if shape_params != self._shape_params:  # the key is that of calls before the first
                self._shape_params, key = shape_params, (*key, *[words[number] for number in shape_params])
            remember(self._bound, key, bound)
        bound.run(owners, words)
