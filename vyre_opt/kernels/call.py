"""A function on arrays as data: the launches that a call comes to, with their arguments by their positions in the call.

What is in them depends on the shapes and types of the arrays only, so they serve all calls with like arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import count
from math import prod
from typing import TYPE_CHECKING

from ..records import dataclass

if TYPE_CHECKING:  # the dispatcher protocol, which every start-up imports, has OutputAlloc from here
    from ..ir.program import Module, Program
    from ..ir.types import DataType

__all__ = [
    "Call",
    "CopiedInput",
    "EmptyResult",
    "KernelCall",
    "OutputAlloc",
    "InputSlice",
    "CopyOfInput",
    "Steps",
    "ScratchArgument",
    "launch",
]


@dataclass(frozen=True, slots=True)
class OutputAlloc:
    """Stands for an input of `count` elements without contents, which the backend allocates.

    It saves copying contents that no program may read, and fits any buffer that is neither
    `read` nor `live_in`.  Elements of an output that the program does not write are 0 on the cpu, and on a GPU if
    its dispatcher zeroes memory, else undefined; `ref` fills them with bytes of 1, so that nobody takes them for zeros.
    `shape`: the extents, for a buffer of several dimensions.
    """

    count: int
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ScratchArgument:
    """An argument that is neither input nor result; what is in it at first is not known unless it `is_zeroed`."""

    count: int
    dtype: DataType
    is_zeroed: bool


@dataclass(frozen=True, slots=True)
class CopiedInput:
    """An argument that is a copy of an input, since the program writes it; a result if it `is_result`."""

    input: int
    is_result: bool


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A launch of a program.

    `arguments`: one for each bound buffer, in order: the number of an input, or what is allocated.
    `shape`: of the only result; `like`: the input whose library and element type it has.
    `general`: gives the same by code that takes all lengths, where `program` is for one; slower.
    `clears`: whether new results are zeroed, since the program may not write every element of them.
    `words`: of the last of the runtime scalars, in the order of their names; the others are those of each call.
    """

    program: Program
    grid: int | Sequence[int]
    arguments: tuple[int | OutputAlloc | ScratchArgument | CopiedInput, ...]
    shape: tuple[int, ...] | None = None
    like: int = 0
    module: Module | None = None
    general: Callable[[], KernelCall] | None = None
    clears: bool = False
    words: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class EmptyResult:
    """A call whose result has no elements, so that nothing runs; of the input's element type, or of `kind`."""

    shape: tuple[int, ...]
    like: int = 0
    kind: str = ""


@dataclass(frozen=True, slots=True)
class CopyOfInput:
    """A call whose result is a copy of an input."""

    like: int = 0


@dataclass(frozen=True, slots=True)
class InputSlice:
    """The elements of a flat input from `start` up to and excluding `stop`."""

    input: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Steps:
    """A call that is several launches, each with its inputs; the result is that of the last.

    An input is the number of one of the call, or behind these of an earlier step's result.
    """

    steps: tuple[tuple[KernelCall, tuple[int | InputSlice, ...]], ...]


Call = KernelCall | EmptyResult | CopyOfInput


def launch(
    program: Program,
    grid: int,
    shape: tuple[int, ...],
    scratch: Mapping[str, int] | None = None,
    fresh: Collection[str] = (),
    words: tuple[int, ...] = (),
    general: Callable[[], KernelCall] | None = None,
) -> KernelCall:
    """The launch of a program whose `read` buffers are the inputs in their order, and whose other one is a result of `shape`.

    `scratch`: elements of the buffers that are neither, which are zero when it starts but for those in `fresh`.
    """
    from ..ir.program import AccessMode

    sizes, numbers = scratch or {}, count()
    arguments: list[int | OutputAlloc | ScratchArgument] = []
    for buffer in program.bound_buffers:
        if buffer.name in sizes:
            arguments.append(ScratchArgument(sizes[buffer.name], buffer.dtype, buffer.name not in fresh))
        elif buffer.access is AccessMode.READ:
            arguments.append(next(numbers))
        else:
            arguments.append(OutputAlloc(prod(shape)))
    return KernelCall(program, grid, tuple(arguments), shape, words=words, general=general)
