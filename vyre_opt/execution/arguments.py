"""The arguments of a call of a kernel or a pipeline: their order, where the arrays are, numbers as words."""

from __future__ import annotations

import functools
import inspect
import struct
from collections.abc import Callable, Mapping
from typing import Any

from ..ir import arith
from ..ir.program import Param
from ..ir.tracebacks import CallTypeError
from ..ir.types import DataType

__all__ = ["Encoder", "encoder_of", "in_order", "some_by_name"]

Encoder = Callable[[Any], int]


def in_order(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Arguments in the order of the function's, with defaults for those left out.  Raises TypeError as a call of a function does."""
    bound = _bound(function, _signature(function).bind, args, kwargs)
    bound.apply_defaults()
    return tuple(bound.arguments.values())


def some_by_name(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Mapping[str, Any]:
    """Arguments, of which some may be missing, by the names of the function's.  Raises TypeError as `in_order`."""
    return _bound(function, _signature(function).bind_partial, args, kwargs).arguments


_signature = functools.lru_cache(256)(inspect.signature)


def _bound(
    function: Callable[..., Any],
    bind: Callable[..., inspect.BoundArguments],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> inspect.BoundArguments:
    try:
        return bind(*args, **kwargs)
    except TypeError as error:
        parameters = _signature(function).parameters
        unknown = [name for name in kwargs if name not in parameters]  # rather than what they leave missing
        message = f"got an unexpected keyword argument {unknown[0]!r}" if unknown else str(error)
        wrong = CallTypeError(f"{function.__name__}(): {message}")
        help = f"it is {function.__name__}({', '.join(parameters)})"
        missing = [*parameters][len(args) :]
        missing = [
            name
            for name in missing
            if name not in kwargs and parameters[name].default is inspect.Parameter.empty
        ]
        if len(unknown) == 1 and len(missing) == 1:
            help = f"write {missing[0]}= for {unknown[0]}=; {help}"
        elif not unknown and len(missing) == 1 and "Write[" in str(parameters[missing[0]].annotation):
            help += f"; pass an array for {missing[0]}, which it writes, such as {missing[0]}=np.zeros_like({next(iter(parameters))})"
        wrong.add_note(f"help: {help}")
        raise wrong from None


def _why(value: Any, param: Param, error: Exception) -> str:
    """Mistake in the number that a call passes, and the remedy."""
    from ..execution.arrays import number_of

    name, dtype = param.name, param.dtype
    if getattr(value, "ndim", 0):
        shown = " x ".join(map(str, value.shape))
        extents = f"[{', '.join(':' * value.ndim)}]" if value.ndim > 1 else ""
        declared = f"{name}: Read[{dtype}{extents}]"
        element = f"{name}[{', '.join('ijk'[: value.ndim])}]"
        return (
            f"an array ({shown}) is not a number; pass one number, such as {name}={2.0 if dtype.is_float else 2}, in the order of the "
            f"head or by its name; for one of each element declare {declared} and write {element}"
        )
    value = number_of(value)
    if isinstance(value, float) and dtype.is_int and value.is_integer():
        return f"{error}; pass int({name}), which is {int(value)}"
    if isinstance(value, float) and dtype.is_int:
        whole = (
            f", such as {name}={int(value)}, which // gives where / gave this"
            if value == value and abs(value) < 2**62
            else ""
        )
        return f"{error}; pass a whole number{whole}, or declare {name}: f32"
    if type(value) is int and dtype.is_int:
        low, high = arith.int_range(dtype)
        ranges = {
            each: arith.int_range(each) for each in (DataType.I32, DataType.U32, DataType.I64, DataType.U64)
        }
        wider = next((each for each, (least, most) in ranges.items() if least <= value <= most), None)
        limit = f"from {low} on" if value < low else f"up to {high}"
        return f"{error}; {'' if wider is None else f'declare {name}: {wider}, or '}pass a number {limit}"
    if str(error).endswith("is not a number"):
        return (
            f"{error}; pass {'float' if dtype.is_float else 'int'}({name})"
            if isinstance(value, str)
            else f"{error}; pass one"
        )
    return str(error)


_F32, _F64 = struct.Struct("<f"), struct.Struct("<d")


def encoder_of(owner: str, param: Param) -> Encoder:
    """Encoder of a number as a word.  Raises BadInputs for a number that the type does not hold."""
    from .arrays import encode_spec
    from .dispatcher import BadInputs
    from .params import word

    dtype = param.dtype

    def general(value: Any) -> int:
        try:
            return word(encode_spec(value, dtype), param)
        except (ValueError, OverflowError) as error:
            raise BadInputs(f"{owner}: {param.name} is {dtype}: {_why(value, param, error)}") from None

    if dtype is DataType.F32 or dtype is DataType.F64:
        pack = (_F32 if dtype is DataType.F32 else _F64).pack

        def of_float(value: Any) -> int:
            if type(value) is float and value == value:
                try:
                    return int.from_bytes(pack(value), "little")
                except OverflowError:  # beyond the largest, which is told
                    pass
            return general(value)

        return of_float
    if dtype.is_int and not dtype.is_signed:
        limit = 1 << (dtype.bits or 0)
        return lambda value: value if type(value) is int and 0 <= value < limit else general(value)
    return general
