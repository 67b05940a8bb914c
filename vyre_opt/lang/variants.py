"""The programs or pipelines that a function makes of choices, each made once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ..execution.dispatcher import BadInputs
from ..ir.tracebacks import CallTypeError
from .functions import Kernel
from .pipelines import PipelineFunction

if TYPE_CHECKING:
    from ..tuning.space import Config, Space

__all__ = ["Variant", "Variants"]

Variant: TypeAlias = Kernel | PipelineFunction


class Variants:
    """`factory`: of choices by name, gives a program or a pipeline.  `factors`: their values, those of the default first;
    `constraints`: see `Space`."""

    def __init__(
        self, factory: Callable[..., Any], factors: Mapping[str, Sequence[Any]], constraints: Sequence[Any]
    ) -> None:
        self.factory, self.factors, self.constraints = factory, dict(factors), list(constraints)
        self._made: dict[Any, Variant] = {}

    @functools.cached_property
    def space(self) -> Space:
        """All legal choices."""
        from ..tuning.space import Space

        return Space(self.factors, constraints=self.constraints)

    @functools.cached_property
    def default(self) -> Config:
        """The first legal choice, in the order in which values are written."""
        import numpy as np

        space = self.space
        ranks = [
            np.array([list(self.factors[name]).index(value) for value in levels])[column]
            for (name, levels), column in zip(space.factors.items(), space.rows.T, strict=True)
        ]
        return space.config(int(np.lexsort(ranks[::-1])[0]))

    @property
    def function(self) -> Callable[..., Any]:
        """Function of the default, which has the arguments of all."""
        return self.at(**self.default).function

    def at(self, **config: Any) -> Variant:
        """The program or pipeline of a choice.  Raises BadInputs for one that is not legal."""
        key = tuple(sorted(config.items()))
        if key not in self._made:
            number = self.space.find(config)
            if number is None:
                shown = ", ".join(f"{name}={value!r}" for name, value in config.items())
                values = "; ".join(
                    f"{name} is one of {', '.join(map(repr, v))}" for name, v in self.factors.items()
                )
                raise BadInputs(f"{self.factory.__name__}: {shown or 'nothing'} is no legal choice: {values}")
            # of the values of the space, since 1, 1.0 and True are the same key, as 0.0 and -0.0 are
            variant = self.factory(**self.space.config(number))
            if not isinstance(variant, Variant):
                raise CallTypeError(
                    f"{self.factory.__name__}() returns a program or a pipeline, not {type(variant).__name__}"
                )
            self._made[key] = variant
        return self._made[key]

    def over(self, config: Config, grid: Any, passes: str | None = "default") -> Callable[..., None]:
        """A choice as a function of its arguments; of a program over `grid`, which may be a function of the choice."""
        variant = self.at(**config)
        if passes != "default":
            variant = variant.options(passes=passes)
        if grid is None:
            return variant
        if not isinstance(variant, Kernel):
            raise CallTypeError(
                f"{variant.function.__name__} is a pipeline, whose launches have their own grids"
            )
        return variant[grid(config) if callable(grid) else grid]
