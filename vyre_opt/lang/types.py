"""The types of array arguments of kernels in Python, by the access that a kernel has.

    def saxpy(a: f32, x: Read[f32], y: ReadWrite[f32]): ...
    def transpose(x: Read[f32[:, :]], y: Write[f32[:, :]], scale: Read[f32[64]]): ...

Scalar types are in scalars.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from ..ir.program import AccessMode
from ..ir.tracebacks import CallTypeError, public

__all__ = ["Array", "Read", "ReadWrite", "Write"]

T = TypeVar("T")


class Array(Generic[T]):
    """An array argument.  `access`: what the kernel may do with it."""

    access: ClassVar[AccessMode]

    @public
    def __class_getitem__(cls, elements: Any) -> Any:
        if isinstance(elements, tuple) and len(elements) != 1:
            name = cls.__name__
            raise CallTypeError(
                f"{name} takes the type of an element: write {name}[f32], or {name}[f32[:, :]] for two dimensions"
            )
        return super().__class_getitem__(elements)  # type: ignore[misc]

    if TYPE_CHECKING:  # what kernels do with it
        dtype: Any
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
