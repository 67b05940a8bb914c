"""What kernels call by name: the ops of the table, shared memory, named kernels, and functions of numbers.

In plain Python most have no meaning and say so; `ceil_div` and `static` compute there too.
"""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

from ..ir.ops import NAMED_KERNELS, OPS

__all__ = ["INTRINSICS", "Intrinsic", "KernelNamespace", "NamedKernel", "ceil_div", "namespaces", "static"]

T = TypeVar("T")

ELEMENTWISE = ("unary", "binary", "ternary", "compare")
CALLED = (
    *ELEMENTWISE,
    "select",
    "id",
    "size",
    "atomic",
    "shuffle",
    "reduce",
    "scan",
    "ballot",
    "splat",
    "vector",
    "barrier",
    "trap",
    "debug_print",
)
"""The formats whose ops are called by their names."""


class Intrinsic:
    """A function that only kernels call."""

    def __init__(self, name: str, doc: str) -> None:
        self.__name__ = name
        self.__doc__ = doc

    def __repr__(self) -> str:
        return f"vyre_opt.{self.__name__}"

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            f"{self!r} has a meaning inside of a kernel only: in a function with @vyre_opt.program or @vyre_opt.func"
        )


class NamedKernel(Intrinsic):
    """A named kernel, which pipelines launch: `vyre_opt.decode.hex(text, decoded)`."""


class KernelNamespace:
    """The named kernels whose names begin alike, as attributes."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __repr__(self) -> str:
        return f"vyre_opt.{self.__name__}"

    def __getattr__(self, name: str) -> NamedKernel:
        full = f"{self.__name__}.{name}"
        if full not in NAMED_KERNELS:
            known = ", ".join(sorted(k for k in NAMED_KERNELS if k.startswith(f"{self.__name__}.")))
            raise AttributeError(f"there is no kernel {full}; there are {known}")
        kernel = NamedKernel(full, OPS[full].doc)
        setattr(self, name, kernel)
        return kernel

    def __dir__(self) -> list[str]:
        return [k.split(".", 1)[1] for k in NAMED_KERNELS if k.startswith(f"{self.__name__}.")]


def _named(name: str) -> str:
    """The name in Python: a keyword has an underscore behind it."""
    return f"{name}_" if name in ("and", "or", "not") else name


_OWN = {
    "shared": "shared(f32, 256): memory that the invocations of a workgroup share.",
    "buffer": "buffer(f32, n): a buffer of a pipeline, of n elements.",
    "host_read": "host_read(x): hands the contents of a buffer of a pipeline to the caller at this point.",
    "bitcast": "bitcast(x, u32): the same bits as another type.",
}

INTRINSICS: dict[str, Intrinsic] = {
    **{_named(name): Intrinsic(_named(name), row.doc) for name, row in OPS.items() if row.format in CALLED},
    **{name: Intrinsic(name, doc) for name, doc in _OWN.items()},
}
"""By their names in Python."""


def namespaces() -> dict[str, KernelNamespace]:
    """By their names: decode, scan, math, tt."""
    return {name: KernelNamespace(name) for name in dict.fromkeys(k.split(".")[0] for k in NAMED_KERNELS)}


def ceil_div(a: int, b: int) -> int:
    """a / b rounded up, of integers.  In kernels and in plain Python."""
    return -(-a // b)


def static(value: T) -> T:
    """`value`, which a kernel knows when it is translated; a loop over `static(range(4))` is unrolled."""
    return value
