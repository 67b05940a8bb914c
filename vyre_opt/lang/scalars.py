"""The scalar types of kernels in Python: `f32`, `u8`, ..., and the families that they belong to.

Each is a class, so that it may stand in an annotation; in a kernel, `f32(n)` converts a value.
`f32[:, 64]` is `typing.Annotated[f32, :, 64]`.

Type checkers read scalars.pyi instead, where they are such that `f32[:, 64]` and `alpha: f32 = 1.0` are right.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, NoReturn, cast

from ..ir.tracebacks import CallTypeError, public
from ..ir.types import DataType

__all__ = [
    "Float",
    "Int",
    "Scalar",
    "bf16",
    "f16",
    "f32",
    "f64",
    "i16",
    "i32",
    "i64",
    "i8",
    "python_type",
    "scalar_type",
    "types_of",
    "u16",
    "u32",
    "u64",
    "u8",
]

_SCALARS: dict[DataType, type[Scalar]] = {}


class Scalar:
    """Any number.  `dtype`: the type of the IR, which the families `Scalar`, `Int` and `Float` have none of.  `itemsize`: bytes of an
    element, as NumPy says it."""

    dtype: ClassVar[DataType]
    itemsize: ClassVar[int]

    def __init_subclass__(cls) -> None:
        if "dtype" in vars(cls):
            cls.itemsize = cls.dtype.size_bytes or 0
            _SCALARS[cls.dtype] = cls

    @public
    def __new__(cls, value: Any = None) -> NoReturn:
        raise CallTypeError(f"{cls.__name__}(...) converts a value inside of a kernel; outside, NumPy does")

    def __class_getitem__(cls, extents: Any) -> Any:
        """The elements of an array of these extents: `f32[:, 64]`."""
        form: Any = Annotated  # as a value: type checkers want its arguments to be known
        return form[(cls, *extents) if isinstance(extents, tuple) and extents else (cls, extents)]


class Int(Scalar):
    """A whole number of any size."""


class Float(Scalar):
    """A floating-point number of any size."""


def scalar_type(value: object) -> DataType | None:
    """The type of the IR that `f32`, `u8` or Python's `bool` stands for; None for anything else."""
    if value is bool:
        return DataType.BOOL
    if isinstance(value, type) and issubclass(value, Scalar) and "dtype" in vars(value):
        return cast(type[Scalar], value).dtype
    return None


def types_of(family: type[Scalar]) -> list[DataType]:
    """The types of a family: of `Int`, u8 to i64."""
    return [dtype for dtype, scalar in _SCALARS.items() if issubclass(scalar, family)]


def python_type(dtype: DataType) -> type[Scalar] | None:
    """Python's name of a type of the IR; None for one without."""
    return _SCALARS.get(dtype)


class u8(Int):
    dtype = DataType.U8


class u16(Int):
    dtype = DataType.U16


class u32(Int):
    dtype = DataType.U32


class u64(Int):
    dtype = DataType.U64


class i8(Int):
    dtype = DataType.I8


class i16(Int):
    dtype = DataType.I16


class i32(Int):
    dtype = DataType.I32


class i64(Int):
    dtype = DataType.I64


class f16(Float):
    dtype = DataType.F16


class bf16(Float):
    dtype = DataType.BF16


class f32(Float):
    dtype = DataType.F32


class f64(Float):
    dtype = DataType.F64
