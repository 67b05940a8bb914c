"""A call of what `@tunable` made, as the tuner measures it: in place, on copies of the arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..execution.dispatcher import Dispatcher, shared_dispatcher
from ..ir.program import AccessMode, Buffer
from ..records import dataclass
from ..syntax.fingerprint import fingerprint
from ..tuning.call import Call
from ..tuning.runner import on_host
from ..tuning.shape_class import size_class
from ..tuning.space import Config, Space
from ..tuning.workload import close
from .generics import for_arrays
from .variants import Variant, Variants

__all__ = ["TunableCall", "is_array", "shape_of"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class TunableCall(Call):
    """`arguments`: in the order of the function's; they are copied."""

    variants: Variants
    arguments: tuple[Any, ...]
    grid: Any

    @property
    def name(self) -> str:
        return f"{self.variants.factory.__name__}({self.shape})"

    @cached_property
    def family(self) -> str:
        default = self._default
        return f"{self.variants.factory.__qualname__} of {fingerprint(default.module).hex()}"

    @cached_property
    def _default(self) -> Variant:
        """The first choice, for the types of the arrays."""
        variant = self.variants.at(**self.variants.default)
        return for_arrays(variant, dict(zip(variant.parameters, self.arguments, strict=True)))

    @cached_property
    def shape(self) -> str:
        return shape_of(self.arguments)

    @cached_property
    def dispatcher(self) -> Dispatcher:
        from ..driver.placement import target_of_arrays

        return shared_dispatcher(target_of_arrays([a for a in self.arguments if is_array(a)]))

    def space(self, target: str) -> Space:
        return self.variants.space

    def default(self, target: str) -> Config:
        return self.variants.default

    def call(self, config: Mapping[str, Any]) -> Callable[[], Sequence[Any]]:
        return self._in_place(dict(config), "default")

    def check(self) -> None:
        _ = self.expected

    def fault(self, outputs: Sequence[Array]) -> str:
        for buffer, expected, output in zip(self._written, self.expected, outputs, strict=True):
            if expected.tobytes() == output.tobytes():
                continue
            dtype = buffer.dtype.element
            fault = close(output.reshape(-1), expected.reshape(-1), dtype)
            if fault or not dtype.is_float:
                return f"{buffer.name}: {fault or 'other bits'}"
        return ""

    @cached_property
    def expected(self) -> list[Array]:
        """Contents that the default leaves in the arrays that it writes, without passes."""
        outputs = self._in_place(self.variants.default, None)()
        self.wait()
        return [on_host(array) for array in outputs]

    def _in_place(self, config: Config, passes: str | None) -> Callable[[], Sequence[Any]]:
        """A call on copies of its own, which returns those that are written; the first finds them as they were given."""
        parameters = self.variants.at(**config).parameters
        copies = [_copy(a) if is_array(a) else a for a in self.arguments]
        written = [copies[parameters.index(buffer.name)] for buffer in self._written]
        run = self.variants.over(config, self.grid, passes)

        def call() -> Sequence[Any]:
            run(*copies)
            return written

        return call

    @cached_property
    def _written(self) -> list[Buffer]:
        variant = self._default
        name, module = variant.function.__name__, variant.module
        owner = module.pipelines.get(name) or module.programs[name]
        buffers = [buffer for buffer in owner.buffers.values() if buffer.name in variant.parameters]
        return [buffer for buffer in buffers if buffer.access is not AccessMode.READ]


def shape_of(arguments: Sequence[Any]) -> str:
    """The classes of the sizes of arrays; numbers may be any."""
    return ", ".join(
        f"{str(a.dtype).removeprefix('torch.')} {' x '.join(map(size_class, a.shape))}"
        for a in arguments
        if is_array(a)
    )


def is_array(argument: Any) -> bool:
    """Whether it is no number: NumPy's scalars have a type and a shape, too."""
    return hasattr(argument, "dtype") and hasattr(argument, "shape") and not isinstance(argument, np.generic)


def _copy(array: Any) -> Any:
    return array.clone() if hasattr(array, "clone") else array.copy()
