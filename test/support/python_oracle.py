"""Runs kernels as Python: the function itself, once for each invocation, on NumPy's scalars.

Nothing of the translation takes part: CPython evaluates the function's own code, with NumPy's types in the place of the
kernel types, and functions that know the invocation in the place of ids.  NumPy's scalars have the sizes, the wrapping
and the rounding of the language, and Python's numbers take the type of what they meet.

Kernels without barriers only, since invocations run one after another.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any

import numpy as np

from vyre_opt.lang import Func, Kernel, ceil_div, static
from vyre_opt.lang.scalars import scalar_type

__all__ = ["run_as_python"]

NUMPY = {
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "f16": np.float16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip


class _Invocation:
    """What stands for the module `vyre_opt` in a kernel."""

    def __init__(self) -> None:
        self.ids: dict[str, tuple[int, ...]] = {}
        self.ceil_div, self.static = ceil_div, static

    def __getattr__(self, name: str) -> Any:
        if name in self.ids:
            return lambda axis=0: np.uint32(self.ids[name][axis])
        if name == "select":
            return lambda c, a, b: a if c else b
        if name == "atomic_add":
            return _atomic_add
        if name == "fma":
            return lambda a, b, c: type(a)(np.float64(a) * np.float64(b) + np.float64(c))
        raise AttributeError(name)


def _atomic_add(array: Any, index: Any, value: Any) -> Any:
    old = array[index]
    array[index] = old + array.dtype.type(value)
    return old


def run_as_python(kernel: Kernel, grid: Sequence[int], args: Sequence[Any]) -> None:
    """Run a kernel in place on arrays; numbers among the arguments are of the types of the annotations."""
    vyre = _Invocation()
    function = _bound(kernel.function, vyre)
    annotations = list(kernel.function.__annotations__.values())
    values = [_value(arg, annotation, kernel) for arg, annotation in zip(args, annotations, strict=False)]
    x, y, z = (*grid, 1, 1)[:3]
    with np.errstate(all="ignore"), _weak_numbers():
        for group in product(range(z), range(y), range(x)):
            for local in product(*map(range, kernel.workgroup[::-1])):
                w, i = group[::-1], local[::-1]
                vyre.ids = {
                    "workgroup_id": w,
                    "local_id": i,
                    "global_id": tuple(a * s + b for a, s, b in zip(w, kernel.workgroup, i, strict=True)),
                    "num_workgroups": (x, y, z),
                    "workgroup_size": kernel.workgroup,
                    "global_size": tuple(n * s for n, s in zip((x, y, z), kernel.workgroup, strict=True)),
                }
                function(*values)


@contextmanager
def _weak_numbers() -> Iterator[None]:
    """Python's numbers take the type of what they meet; NumPy before 2 has to be told so, or f32 * 0.5 is of 64 bits."""
    if int(np.__version__.partition(".")[0]) >= 2:
        yield
        return
    numpy: Any = np  # these two functions are of NumPy 1 alone
    before = numpy._get_promotion_state()
    numpy._set_promotion_state("weak")
    try:
        yield
    finally:
        numpy._set_promotion_state(before)


def _value(arg: Any, annotation: Any, kernel: Kernel) -> Any:
    if isinstance(annotation, str):
        annotation = eval(annotation, kernel.function.__globals__)
    return NUMPY[annotation.__name__](arg) if scalar_type(annotation) is not None else arg


def _bound(function: Callable[..., Any], vyre: _Invocation, seen: Mapping[Any, Any] | None = None) -> Any:
    """The function with the names of its module replaced: kernel types, the module, functions of kernels."""
    replaced: dict[str, Any] = dict(function.__globals__)
    result = types.FunctionType(
        function.__code__, replaced, function.__name__, function.__defaults__, function.__closure__
    )
    known = {**(seen or {}), function: result}
    for name in function.__code__.co_names:
        value = replaced.get(name)
        if scalar_type(value) is not None and value is not bool:
            replaced[name] = _converter(NUMPY[str(scalar_type(value))])
        elif isinstance(value, Func):
            replaced[name] = known.get(value.function) or _bound(value.function, vyre, known)
        elif isinstance(value, types.ModuleType) and value.__name__ == "vyre_opt":
            replaced[name] = vyre
        elif name == "len":
            replaced[name] = lambda array: (
                np.uint32(len(array)) if isinstance(array, np.ndarray) else len(array)
            )
        elif name in ("min", "max"):
            replaced[name] = min if name == "min" else max
    if "len" in function.__code__.co_names:
        replaced["len"] = lambda array: (
            np.uint32(array.shape[0]) if isinstance(array, np.ndarray) else len(array)
        )
    return result


def _converter(target: Any) -> Callable[[Any], Any]:
    """A conversion as the language has it: integers wrap, floats saturate, NaN is 0."""

    def convert(value: Any) -> Any:
        if not issubclass(target, np.integer) or not isinstance(value, (float, np.floating)):
            return np.asarray(value).astype(target)[()]
        limits = np.iinfo(target)
        if np.isnan(value):
            return target(0)
        if np.isinf(value):
            return target(limits.max if value > 0 else limits.min)
        return target(min(max(int(value), limits.min), limits.max))

    return convert
