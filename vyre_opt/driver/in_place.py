"""Programs and pipelines as functions that work on the caller's own arrays, and return nothing.

A call checks types, layout and places of the arrays once for all calls with like arrays; later ones take pointers and
launch.  Arrays that are read are not copied either, unless they share memory with one that is written: then the
program sees what they held before the call.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from ..runtime.bound_call import BoundCall
from ..runtime.signatures import SIGNATURES
from .executable import Executable, Grid
from .plans import remember

__all__ = ["InPlace"]


class InPlace:
    """`call(arrays, grid, words)` runs a program or a pipeline on an array for each parameter, in order.

    `words`: of the runtime scalars by name (see runtime/params.py); those that grids use and the grid are what a plan is
    for.  Arrays are NumPy's or torch's in main memory, or of any library on a GPU.  Raises BadInputs before anything runs, and
    ProgramError for a fault of a program.
    """

    def __init__(self, executable: Executable) -> None:
        self.executable = executable
        self._bound: OrderedDict[Any, BoundCall] = OrderedDict()

    def __call__(self, arrays: Sequence[Any], grid: Grid, words: Mapping[str, int]) -> None:
        executable = self.executable
        key = _key(arrays, grid, executable.settled_words(words) if words else ())
        bound = None if key is None else self._bound.get(key)
        if bound is None:
            bound, arrays = executable.bind_in_place(arrays, grid, words)
            if key is not None and bound.is_lasting:
                remember(self._bound, key, bound)
        bound.run(arrays, tuple(words.values()))


def _key(arrays: Sequence[Any], *rest: Any) -> Any:
    """What a plan is for; None for arrays that no plan fits."""
    try:
        return (*rest, *[SIGNATURES[type(array)](array) for array in arrays])
    except (KeyError, TypeError, RuntimeError, AttributeError, ValueError):
        return None
