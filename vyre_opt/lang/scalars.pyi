"""The scalar types, as type checkers see them: values of kernels have all operators, of which checkers know nothing.

In an annotation mypy lets only a name of type Any have slices, `f32[:, 64]`; pyright lets only a class with
`__class_getitem__`.  Numbers of Python are values of that class, `alpha: f32 = 1.0`, as it is a protocol that asks for nothing, and since
the name is of a `type[...]` it may be called.
"""

from typing import Any, Final, Protocol

from ..ir.types import DataType

MYPY: Final = False  # mypy takes a name MYPY to be true

if not MYPY:
    class _Number(Any, Protocol):  # type: ignore
        def __class_getitem__(cls, extents: Any) -> Any: ...

    class _Classes:
        class Scalar(_Number, Protocol):
            """Any number."""
        class Int(_Number, Protocol):
            """A whole number of any size."""
        class Float(_Number, Protocol):
            """A floating-point number of any size."""
        class u8(_Number, Protocol):
            """A whole number of 8 bits, from 0 to 255."""
        class u16(_Number, Protocol):
            """A whole number of 16 bits, from 0 to 65,535."""
        class u32(_Number, Protocol):
            """A whole number of 32 bits, from 0 to 4,294,967,295."""
        class u64(_Number, Protocol):
            """A whole number of 64 bits, from 0 to 2^64 - 1."""
        class i8(_Number, Protocol):
            """A whole number of 8 bits, from -128 to 127."""
        class i16(_Number, Protocol):
            """A whole number of 16 bits, from -32,768 to 32,767."""
        class i32(_Number, Protocol):
            """A whole number of 32 bits, from -2,147,483,648 to 2,147,483,647."""
        class i64(_Number, Protocol):
            """A whole number of 64 bits, from -2^63 to 2^63 - 1."""
        class f16(_Number, Protocol):
            """A floating-point number of 16 bits, as of IEEE 754."""
        class bf16(_Number, Protocol):
            """A floating-point number of 16 bits with the range of f32."""
        class f32(_Number, Protocol):
            """A floating-point number of 32 bits, as of IEEE 754."""
        class f64(_Number, Protocol):
            """A floating-point number of 64 bits, as of IEEE 754."""

class _Names:
    if MYPY:
        Scalar: Any
        Int: Any
        Float: Any
        u8: Any
        u16: Any
        u32: Any
        u64: Any
        i8: Any
        i16: Any
        i32: Any
        i64: Any
        f16: Any
        bf16: Any
        f32: Any
        f64: Any
    else:
        Scalar: type[_Classes.Scalar]
        Int: type[_Classes.Int]
        Float: type[_Classes.Float]
        u8: type[_Classes.u8]
        u16: type[_Classes.u16]
        u32: type[_Classes.u32]
        u64: type[_Classes.u64]
        i8: type[_Classes.i8]
        i16: type[_Classes.i16]
        i32: type[_Classes.i32]
        i64: type[_Classes.i64]
        f16: type[_Classes.f16]
        bf16: type[_Classes.bf16]
        f32: type[_Classes.f32]
        f64: type[_Classes.f64]

Scalar = _Names.Scalar
Int = _Names.Int
Float = _Names.Float
u8 = _Names.u8
u16 = _Names.u16
u32 = _Names.u32
u64 = _Names.u64
i8 = _Names.i8
i16 = _Names.i16
i32 = _Names.i32
i64 = _Names.i64
f16 = _Names.f16
bf16 = _Names.bf16
f32 = _Names.f32
f64 = _Names.f64

def scalar_type(value: object) -> DataType | None:
    """The type of the IR that `f32`, `u8` or Python's `bool` stands for; None for anything else."""

def types_of(family: Any) -> list[DataType]:
    """The types of a family: of `Int`, u8 to i64."""

def python_type(dtype: DataType) -> Any:
    """What stands for a type of the IR in Python; None for one that nothing does."""
