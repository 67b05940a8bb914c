"""`@tunable`: kernels and pipelines with choices of their schedule, which the tuner makes by measuring.

    @vyre.tunable(lanes=(64, 128, 256), rows=(1, 2, 4))
    def scaling(lanes, rows):
        @vyre.program(workgroup=lanes)
        def scale(x: Read[f32], y: Write[f32]):
            for k in range(rows):
                ...

        @vyre.pipeline
        def run(x: Read[f32], y: Write[f32]):
            scale[vyre.ceil_div(len(x), lanes * rows)](x, y)

        return run

    scaling(x, y)                        # lanes=64, rows=1: the first of each
    scaling.autotune(x, y).config        # measured on copies of these arrays
    scaling(x, y)                        # what was best for such sizes there

The function makes a program or a pipeline for each choice; the choices are constants of its closure.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..execution.arguments import in_order
from ..ir.tracebacks import CallTypeError, public
from .functions import Kernel, needs_grid
from .python_source import check_function
from .variants import Variant, Variants

if TYPE_CHECKING:
    from ..tuning.result import Tuning
    from ..tuning.space import Config, Space

__all__ = ["Tunable", "tunable"]

MAX_KNOWN = 256


@public
def tunable(
    *, constraints: Sequence[Callable[[Mapping[str, Any]], Any]] = (), **factors: Sequence[Any]
) -> Callable[[Callable[..., Any]], Tunable]:
    """A function of choices, by name, that returns a program or a pipeline: `@tunable(rows=(1, 2, 4))`.

    `constraints`: functions of the values of many configurations, an array for each name, that say which are legal
    (see `Space`).  Raises BadInputs for choices that make no space, TypeError where the function has other parameters.
    """

    @public
    def decorate(factory: Callable[..., Any]) -> Tunable:
        check_function(factory, "@tunable")
        names = list(inspect.signature(factory).parameters)
        if sorted(names) != sorted(factors):
            raise CallTypeError(
                f"{factory.__name__}() takes {', '.join(names) or 'nothing'}, and is tuned by {', '.join(factors) or 'nothing'}"
            )
        return Tunable(factory, factors, constraints)

    return decorate


class Tunable:
    """Result of `@tunable`.  It is called as its function's results are; for a program, `name[grid](arguments)`.

    A call takes the choice of an `autotune` for arrays of such sizes on that target, or else the first legal choice.
    """

    def __init__(
        self, factory: Callable[..., Any], factors: Mapping[str, Sequence[Any]], constraints: Sequence[Any]
    ) -> None:
        functools.update_wrapper(self, factory)
        self.variants = Variants(factory, factors, constraints)
        self._choices: dict[tuple[str, str], Config] = {}
        """Tuned choices by target, and by the class of sizes."""
        self._known: dict[Any, Config] = {}

    def __repr__(self) -> str:
        return f"<tunable {self.variants.factory.__qualname__}>"

    @property
    def space(self) -> Space:
        """All legal choices."""
        return self.variants.space

    @public
    def at(self, **config: Any) -> Variant:
        """The program or pipeline of a choice.  Raises BadInputs for one that is not legal."""
        return self.variants.at(**config)

    @public
    def __call__(self, *args: Any, **kwargs: Any) -> None:
        variant = self.at(**self._config_for(args, kwargs))
        if isinstance(variant, Kernel) and variant.grid is None:
            raise needs_grid(self.variants.factory, variant.workgroup[0])
        variant(*args, **kwargs)

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        """A program over a grid, which is a number, a tuple, or a function of the choice: `name[lambda c: n // c["rows"]](x)`."""

        @public
        def launch(*args: Any, **kwargs: Any) -> None:
            config = self._config_for(args, kwargs)
            self.variants.over(config, grid)(*args, **kwargs)

        return launch

    @public
    def autotune(self, *args: Any, grid: Any = None, **options: Any) -> Tuning:
        """Measure choices on copies of these arguments, and take the best for calls with such sizes.

        `grid`: of a program, see `__getitem__`.  `options`: those of `vyre_opt.autotune`.  Outputs of each choice are compared
        with those of the default.
        """
        from ..tuning.tuner import autotune
        from .tunable_call import TunableCall

        call = TunableCall(self.variants, in_order(self.variants.function, args, {}), grid)
        tuning = autotune(call, **options)
        self._choices[call.dispatcher.name, call.shape] = tuning.config
        self._known.clear()
        return tuning

    def _config_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Config:
        """The choice for arguments of these types and sizes."""
        if not self._choices:
            return self.variants.default
        if kwargs:
            args = in_order(self.variants.function, args, kwargs)
        from ..execution.signatures import signature_of
        from .tunable_call import is_array, shape_of

        key = tuple([signature_of(a) if is_array(a) else () for a in args])
        if key in self._known:
            return self._known[key]
        from ..driver.placement import target_of_arrays

        target = target_of_arrays([a for a in args if is_array(a)])
        config = self._choices.get((target, shape_of(args)), self.variants.default)
        if None not in key:  # as it is for arrays that share nothing with others
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[key] = config
        return config
