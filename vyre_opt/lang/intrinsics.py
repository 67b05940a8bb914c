"""Names that kernels call: the ops of the table, shared memory, named kernels, and functions of numbers.

In plain Python most have no meaning and say so; `ceil_div` and `static` compute there too.
"""

from __future__ import annotations

import inspect
from typing import Any, NoReturn, TypeVar

from ..ir.ops import NAMED_KERNELS, OPS, OpDef
from ..ir.tracebacks import CallTypeError, public

__all__ = [
    "ARGUMENTS",
    "INTRINSICS",
    "Intrinsic",
    "KernelNamespace",
    "KernelIntrinsic",
    "ceil_div",
    "kernel_arguments",
    "namespaces",
    "static",
]

T = TypeVar("T")

ARGUMENTS = {
    "unary": "a",
    "binary": "a, b",
    "ternary": "a, b, c",
    "compare": "a, b",
    "select": "condition, a, b",
    "id": "axis=0",
    "size": "",
    "atomic": "array, index, value, order='relaxed'",
    "shuffle": "x, lane, mode='idx'",
    "reduce": "x, combine='add'",
    "scan": "x, mode='inclusive', combine='add'",
    "ballot": "predicate",
    "splat": "x, lanes",
    "vector": "*values",
    "permute": "table, index",
    "movemask": "flags",
    "matrix_load": "array, index, rows, columns, use='acc', layout='row_major'",
    "matrix_store": "array, index, value, layout='row_major'",
    "matrix_mul_add": "a, b, c",
    "copy_wait": "pending=0",
    "barrier": "scope='workgroup'",
    "trap": "message",
    "debug_print": "format, *values",
}
"""The arguments of the ops that are called by their names, by format."""


class Intrinsic:
    """A function that only kernels call; `arguments`: those of its signature, as text."""

    def __init__(self, name: str, arguments: str, doc: str) -> None:
        self.__name__ = name
        self.__doc__ = doc
        self.arguments = arguments

    @property
    def __signature__(self) -> inspect.Signature:
        """Signature that `help` and editors show."""
        return inspect.signature(eval(f"lambda {self.arguments}: None"))

    def __repr__(self) -> str:
        return f"vyre_opt.{self.__name__}"

    @public
    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise CallTypeError(
            f"{self!r} has a meaning inside of a kernel only: in a function with @vyre_opt.program or @vyre_opt.func"
        )


class KernelIntrinsic(Intrinsic):
    """A named kernel, which pipelines launch: `vyre_opt.decode.hex(text, decoded)`."""


def kernel_arguments(row: OpDef) -> str:
    """The buffers of a named kernel, and its parameters, of which those are required that have no default and that no extent
    says."""
    assert row.kernel is not None
    roles = [f"{role.name}=None" if role.optional else role.name for role in row.kernel.roles]
    said = {role.row for role in row.kernel.roles}
    params = [
        name if default is None and name not in said else f"{name}={default}"
        for name, default in row.kernel.params.items()
    ]
    return ", ".join([*roles, *(["*", *params] if params else [])])


class KernelNamespace:
    """The named kernels whose names begin alike, as attributes."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __repr__(self) -> str:
        return f"vyre_opt.{self.__name__}"

    def __getattr__(self, name: str) -> KernelIntrinsic:
        full = f"{self.__name__}.{name}"
        if full not in NAMED_KERNELS:
            known = ", ".join(sorted(k for k in NAMED_KERNELS if k.startswith(f"{self.__name__}.")))
            raise AttributeError(f"there is no kernel {full}; there are {known}")
        kernel = KernelIntrinsic(full, kernel_arguments(OPS[full]), OPS[full].doc)
        setattr(self, name, kernel)
        return kernel

    def __dir__(self) -> list[str]:
        return [k.split(".", 1)[1] for k in NAMED_KERNELS if k.startswith(f"{self.__name__}.")]


def _named(name: str) -> str:
    """The name in Python: a keyword has an underscore behind it."""
    return f"{name}_" if name in ("and", "or", "not") else name


_OWN = {
    "shared": (
        "dtype, size, scope='workgroup'",
        "shared(f32, 256), shared(f32, (16, 17)): memory that the invocations of a workgroup share, or with 'cluster' those of a cluster.",
    ),
    "local": (
        "dtype, size",
        "local(f32, 8), local(f32, (4, 4)): an array of an invocation's own, of zeros, in registers; at most 64 elements.",
    ),
    "buffer": ("dtype, size", "buffer(f32, n), buffer(f32, (rows, columns)): a buffer of a pipeline."),
    "zeros": (
        "shape, dtype",
        "zeros((64, 64), f32): a block of zeros; in a pipeline a buffer, zeros(n, u32), whose elements are 0 from here on.",
    ),
    "full": ("shape, value, dtype", "full((64, 64), 1.5, f32): a block of one value."),
    "arange": (
        "start, stop=None",
        "arange(64), arange(1, 65), arange(len(x)): the numbers up to the last one, without it, as u32; from a negative one as i32.",
    ),
    "where": (
        "condition, a, b",
        "where(row > 0, row, 0): the elements of a where a condition holds, else those of b.",
    ),
    "transpose": ("x", "transpose(block), block.T: the columns of a block as rows."),
    "fill": ("array, value", "fill(x, 0): sets all elements of a buffer of a pipeline to a value."),
    "host_read": (
        "array",
        "host_read(x): hands the contents of a buffer of a pipeline to the caller at this point.",
    ),
    "copy_async": (
        "tile, at, array, start, elements=1",
        "copy_async(tile, i, x, j, 4): copies elements of an array to shared memory by the copy_wait that waits for it.",
    ),
    "matrix": (
        "rows, columns, dtype, value=0, use='acc'",
        "matrix(16, 16, f32): a matrix of a subgroup, of one value.",
    ),
    "matrix_cast": (
        "x, dtype, use=None",
        "matrix_cast(x, bf16, 'a'): a matrix of another type, or for another use.",
    ),
    "sum": (
        "x, axis=None, keepdims=False",
        "sum(x[r, :]): of a slice, in one order on every target; of f16 and bf16 in f32.",
    ),
    "prod": ("x, axis=None, keepdims=False", "prod(x[r, :]): the product of a slice."),
    "any": ("x, axis=None, keepdims=False", "any(x[r, :] > 0): whether one of the bools of a slice is true."),
    "all": ("x, axis=None, keepdims=False", "all(x[r, :] > 0): whether all bools of a slice are true."),
    "argmax": (
        "x, axis=None, keepdims=False",
        "argmax(x[r, :]): the first index of the largest element; NaN is none, and 0 where there are no others.",
    ),
    "argmin": ("x, axis=None, keepdims=False", "argmin(x[r, :]): the same of the smallest element."),
    "cumsum": (
        "x, axis=None, exclusive=False",
        "cumsum(x[r, :]): the sums of the elements up to each, in one order on every target; of f16 and bf16 in f32.",
    ),
    "cumprod": (
        "x, axis=None, exclusive=False",
        "cumprod(x[r, :]): the products of the elements up to each.",
    ),
    "cummax": ("x, axis=None, exclusive=False", "cummax(x[r, :]): the largest of the elements up to each."),
    "cummin": ("x, axis=None, exclusive=False", "cummin(x[r, :]): the smallest of the elements up to each."),
    "bitcast": (
        "x, dtype",
        "bitcast(x, u32): the same bits as another type, or as a vector of it that is as large.",
    ),
}


def _arguments(row: OpDef) -> str:
    if row.format == "atomic" and row.name.endswith("compare_exchange"):
        return "array, index, expected, value, order='relaxed'"
    takes_fastmath = bool(row.fastmath) and row.types in ("float", "num")
    arguments = ARGUMENTS[row.format]
    if row.name in ("min", "max"):  # of a slice, too
        arguments = "a, b=None, axis=None, keepdims=False"
    return arguments + ", fastmath=()" * takes_fastmath


INTRINSICS: dict[str, Intrinsic] = {
    **{
        _named(name): Intrinsic(_named(name), _arguments(row), row.doc)
        for name, row in OPS.items()
        if row.format in ARGUMENTS
    },
    **{name: Intrinsic(name, arguments, doc) for name, (arguments, doc) in _OWN.items()},
}
"""Intrinsics by their names in Python."""


def namespaces() -> dict[str, KernelNamespace]:
    """Namespaces by their names: decode, scan, math, tt."""
    return {name: KernelNamespace(name) for name in dict.fromkeys(k.split(".")[0] for k in NAMED_KERNELS)}


def ceil_div(a: int, b: int) -> int:
    """a / b rounded up, of integers.  In kernels and in plain Python."""
    return -(-a // b)


def static(value: T) -> T:
    """`value`, which a kernel knows when it is translated; a loop over `static(range(4))` is unrolled."""
    return value


def instead_of(value: object) -> str:
    """Remedy for an object that is no number."""
    if isinstance(value, Intrinsic):
        row = OPS.get(value.__name__)
        return f"call it: vyre.{value.__name__}({'0' if row is not None and row.format == 'id' else '...'})"
    return "a kernel computes with numbers and bools"
