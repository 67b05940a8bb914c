"""The types of kernels in Python: scalars, and arrays of them by the access that a kernel has.

    def saxpy(a: f32, x: Read[f32], y: ReadWrite[f32]): ...
    def transpose(x: Read[f32[:, :]], y: Write[f32[:, :]], scale: Read[f32[64]]): ...

A scalar type is a class, so that it may stand in an annotation; in a kernel, `f32(n)` converts a value.
`f32[:, 64]` is `typing.Annotated[f32, :, 64]`, the form in which mypy takes slices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, NoReturn, TypeVar, cast

from ..ir.program import AccessMode
from ..ir.types import DataType

__all__ = [
    "Array",
    "Read",
    "ReadWrite",
    "Scalar",
    "Write",
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
    "u16",
    "u32",
    "u64",
    "u8",
]

T = TypeVar("T")


if TYPE_CHECKING:
    _Number = Any  # a value of a kernel has all operators, of which type checkers know nothing
else:
    _Number = object


_SCALARS: dict[DataType, type[Scalar]] = {}


class Scalar(_Number):  # type: ignore[misc]
    """A scalar type.  `dtype`: that of the IR.  `itemsize`: bytes of an element, as NumPy says it."""

    dtype: ClassVar[DataType]
    itemsize: ClassVar[int]

    def __init_subclass__(cls) -> None:
        cls.itemsize = cls.dtype.size_bytes or 0
        _SCALARS[cls.dtype] = cls

    def __new__(cls, value: Any = None) -> NoReturn:
        raise TypeError(f"{cls.__name__}(...) converts a value inside of a kernel; outside, NumPy does")

    def __class_getitem__(cls, extents: Any) -> Any:
        """The elements of an array of these extents: `f32[:, 64]`."""
        form: Any = Annotated  # as a value: type checkers want its arguments to be known
        return form[(cls, *extents) if isinstance(extents, tuple) and extents else (cls, extents)]


def scalar_type(value: object) -> DataType | None:
    """The type of the IR that `f32`, `u8` or Python's `bool` stands for; None for anything else."""
    if value is bool:
        return DataType.BOOL
    if isinstance(value, type) and issubclass(value, Scalar) and value is not Scalar:
        return cast(type[Scalar], value).dtype
    return None


def python_type(dtype: DataType) -> type[Scalar] | None:
    """What stands for a type of the IR in Python; None for one that nothing does."""
    return _SCALARS.get(dtype)


class u8(Scalar):
    dtype = DataType.U8


class u16(Scalar):
    dtype = DataType.U16


class u32(Scalar):
    dtype = DataType.U32


class u64(Scalar):
    dtype = DataType.U64


class i8(Scalar):
    dtype = DataType.I8


class i16(Scalar):
    dtype = DataType.I16


class i32(Scalar):
    dtype = DataType.I32


class i64(Scalar):
    dtype = DataType.I64


class f16(Scalar):
    dtype = DataType.F16


class bf16(Scalar):
    dtype = DataType.BF16


class f32(Scalar):
    dtype = DataType.F32


class f64(Scalar):
    dtype = DataType.F64


class Array(Generic[T]):
    """An array argument.  `access`: what the kernel may do with it."""

    access: ClassVar[AccessMode]

    if TYPE_CHECKING:  # what kernels do with it
        shape: tuple[Any, ...]
        size: Any
        ndim: int

        def __getitem__(self, index: Any) -> Any: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...
        def __len__(self) -> int: ...
        def vec(self, lanes: int) -> Any: ...
        def filled(self, value: Any) -> Any: ...


class Read(Array[T]):
    """An array that is only read."""

    access = AccessMode.READ


class Write(Array[T]):
    """An array that is only written."""

    access = AccessMode.WRITE


class ReadWrite(Array[T]):
    """An array that is read and written."""

    access = AccessMode.READ_WRITE
