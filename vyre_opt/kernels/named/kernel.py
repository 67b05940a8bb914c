"""Declarations of named kernels: `NamedKernel`, with a subclass in a file of its own for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cached_property
from math import prod
from typing import Any, Protocol

from ...ir.ops import OPS, KernelDef
from ...ir.program import AccessMode, Buffer
from ...ir.types import DataType
from ...records import dataclass
from ..call import Call, EmptyResult, KernelCall, Steps, launch
from ..expansion import Expansion, ExpansionRequest
from ..targets import is_gpu

__all__ = [
    "FINE", "KERNELS", "LANES", "MAX_ELEMENTS", "Array", "TargetDevice", "NamedKernel", "OperandLike", "Products", "Tensor",
    "element_type", "factors", "numbers",
]  # fmt: skip

Array = Any
"""numpy.ndarray; NumPy is imported by the functions that need it."""

Tensor = Any
"""torch.Tensor; torch is imported by the functions that need more than its methods."""

Products = Sequence[Mapping[str, Sequence[int]]]
"""A space of schedules: a union of products over their fields."""

LANES = (32, 64, 128, 256, 512, 1024)
FINE = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
"""Values of fields that many schedules have."""

MAX_ELEMENTS = (1 << 32) - 1

_BY_NAME = {
    "float64": "f64",
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "uint64": "u64",
    "int64": "i64",
    "uint32": "u32",
    "int32": "i32",
    "uint8": "u8",
}

KERNELS: dict[str, NamedKernel] = {}
"""Kernels whose files are imported; see `named.named_kernel`."""


class OperandLike(Protocol):
    """`shape`: of the array; `count`: its elements; `kind`: their type, by NumPy's name."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def kind(self) -> str: ...

    @property
    def count(self) -> int: ...


@dataclass(frozen=True)
class TargetDevice:
    """`target`: ref, cpu or cuda, by which schedules are chosen; `architecture`: of a GPU, such as sm_90, or "".

    `workers`: threads, or the multiprocessors of a GPU.
    """

    target: str
    workers: int
    architecture: str
    on_gpu: bool


class NamedKernel:
    """All there is of a named kernel beside its row in the op table and the builder of its programs.

    `name`: of the op.  `gpu`, `cpu`: the schedules that the tuner tries, which `expand` may refuse; without `cpu`, the same.
    `any_length`: a stage is the same program for all lengths, over a grid that is an expression of these.
    `any_lanes`: the lanes of a workgroup hardly matter: each has a run of its own, and they exchange nothing.
    `operator`: its function on arrays with the tensors it takes, of which `cores[]` is a list, if that is an operator of torch.
    `keeps`: what its gradient needs, "inputs", "result" or "nothing"; "" for a kernel without one.
    """

    name: str
    gpu: Products = ()
    cpu: Products = ()
    any_length = False
    any_lanes = False
    operator = ""
    keeps = ""

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            KERNELS[cls.name] = cls()

    @cached_property
    def row(self) -> KernelDef:
        row = OPS[self.name].kernel
        assert row is not None
        return row

    def buffers(self, types: Sequence[DataType], counts: Sequence[int]) -> tuple[Buffer, ...]:
        """Buffers for its roles, of elements of such types."""
        operands = zip(self.row.with_roles(types), counts, strict=True)
        return tuple(
            Buffer(role.name, dtype, count, role.access, binding=number)
            for number, ((dtype, role), count) in enumerate(operands)
        )

    def expand(self, r: ExpansionRequest) -> Expansion:
        """The program of a use, with its schedule, grid and scratch.  Raises ValueError saying what rules it out."""
        raise NotImplementedError

    def reference(self, *arrays: Any, **params: Any) -> Array:
        """The elements that it writes, from the first on, of the buffers that it reads, in NumPy.

        Raises ValueError if sizes or contents do not fit.
        """
        raise NotImplementedError

    # --- tuning

    def space(self, target: str) -> Products:
        """The schedules that the tuner tries on cpu, ref, cuda or a GPU's architecture."""
        return self.gpu if is_gpu(target) or not self.cpu else self.cpu

    def sample(self, rng: Any, reads: Sequence[Buffer], params: Mapping[str, int]) -> list[Array]:
        """Random contents of each buffer that it reads, in the types that `reference` takes.

        The time depends little on numbers, but much on the cells that a lookup or an automaton reads; indices are
        drawn over the whole table.  No number is NaN, so that the result can be checked.  Floats are not rounded to
        their type yet.  Raises ValueError if there are no valid inputs of these sizes.
        """
        return [numbers(rng, buffer) for buffer in reads]

    # --- the function on arrays

    def call(self, device: TargetDevice, arrays: Sequence[OperandLike], *options: Any) -> Call | Steps:
        """Call of the function on arrays.  Raises ValueError for arrays that do not fit.

        `options`: the name of the element type, if anything.
        """
        types: dict[str, DataType] = {}
        reads = (role for role in self.row.roles if role.access is AccessMode.READ)
        for role, array in zip(reads, arrays, strict=True):
            accepted = (types[role.like], *role.also) if role.like else role.types
            types[role.name] = element_type(array, role.name, accepted, *options)
        shape = self.shape(*arrays)
        assert shape is not None
        if 0 in shape:
            return EmptyResult(shape)
        sizes = [array.count for array in arrays]
        return self.one_launch(device, [*types.values()], sizes, shape, self.params(*arrays))

    def shape(self, *arrays: Any) -> tuple[int, ...] | None:
        """The shape of the result, for arrays or tensors; None if their contents decide it.

        Raises ValueError for shapes that do not fit.
        """
        return tuple(arrays[0].shape)

    def params(self, *arrays: Any) -> dict[str, int]:
        """The op's parameters.  Raises ValueError for sizes out of range."""
        return {}

    def one_launch(
        self,
        device: TargetDevice,
        types: Sequence[DataType],
        sizes: Sequence[int],
        shape: tuple[int, ...],
        params: Mapping[str, int] | None = None,
    ) -> KernelCall:
        """The call that is one launch, of the program and the grid that `expand` gives.

        `types`, `sizes`: of the buffers that it reads; the result, of `shape`, comes last and holds the first type.
        """
        buffers = self.buffers([*types, types[0]], [*sizes, prod(shape)])
        request = ExpansionRequest(
            self.name, buffers, params or {}, device.target, True, workers=device.workers, is_shared=True
        )
        return _launch(self.expand(request), shape)

    # --- the operator of torch; `call` is the operator, which takes its tensors one after the other

    def gradient(
        self, call: Any, kept: Sequence[Tensor], g: Tensor, needed: Sequence[bool]
    ) -> Sequence[Tensor | None]:
        """The gradients of the tensors, None where one is not `needed`, in torch's own operations, so that they can be
        differentiated once more.  `g`: the gradient of the result.  `kept`: what `keeps` says.
        """
        raise NotImplementedError

    def tangent(self, call: Any, kept: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> Tensor:
        """The tangent of the result from tangents of the tensors, None for a constant one; by default for a multilinear kernel."""
        present = [(k, tangent) for k, tangent in enumerate(tangents) if tangent is not None]
        first, *rest = (call(*kept[:k], tangent, *kept[k + 1 :]) for k, tangent in present)
        return sum(rest, first)

    def batch(self, call: Any, in_dims: Any, *arguments: Any) -> Tensor | None:
        """The results of a batch along axis 0, by one call; None where it takes no such batch.

        `in_dims`: of each argument, the axis that is the batch, or None.
        """
        return None


def _launch(e: Expansion, shape: tuple[int, ...]) -> KernelCall:
    general = None if e.general is None else lambda general=e.general: _launch(general(), shape)
    assert isinstance(e.grid, int)
    return launch(e.program, e.grid, shape, e.scratch, e.fresh, general=general)


def element_type(
    operand: OperandLike, name: str, accepted: Sequence[DataType], type_name: str | None = None
) -> DataType:
    """The element type of an array, or the one of `type_name`.  Raises ValueError if it is not `accepted`.

    bf16 elements are of the type bfloat16 of ml_dtypes or torch, or uint16 with the type name "bf16".
    """
    actual = _BY_NAME.get(operand.kind, operand.kind)
    if type_name is not None:
        if not isinstance(type_name, str):
            raise ValueError(f"{name}: dtype is a name, such as 'bf16', not {type(type_name).__name__}")
        if (operand.kind, type_name) == ("uint16", "bf16"):
            actual = type_name
        elif type_name != actual:
            actual = ""
    for dtype in accepted:
        if dtype.name == actual:
            return dtype
    known = ", ".join(dtype.name for dtype in accepted)
    wanted = "" if type_name is None else f" of dtype {type_name!r}"
    by_numpy = next((wide for wide, short in _BY_NAME.items() if short == accepted[0].name), "")
    convert = f"; convert it, {name}.astype({by_numpy!r})" if by_numpy and type_name is None else ""
    if convert and not any(dtype.is_float for dtype in accepted) and operand.kind.startswith("float"):
        convert = f"; convert it to 16.16 fixed point, ({name} * 65536).astype('int32'), and the result back, / 65536"
    raise ValueError(f"{name} holds {known}, not {operand.kind}{wanted}{convert}")


def factors(schedule: type, **varied: Sequence[int]) -> dict[str, Sequence[int]]:
    """The product of the `varied` fields of a schedule; all others have their defaults."""
    fixed = {
        f.name: (int(f.default),)
        for f in fields(schedule)
        if f.default is not MISSING and f.name != "strided"
    }
    return fixed | varied


def numbers(rng: Any, buffer: Buffer, count: int | None = None, scale: float = 1.0) -> Array:
    """Elements of a buffer, all or `count`: integers uniform over all bit patterns, floats normal with a deviation of `scale`."""
    count = (buffer.count or 0) if count is None else count
    if buffer.dtype.is_float:
        return (rng.standard_normal(count) * scale).astype("float32")
    words = rng.integers(0, 1 << 32, count, dtype="uint32")
    return words.view("int32") if buffer.dtype is DataType.I32 else words
