"""Products of matrices by mma.sync, which a subgroup does together.

A matrix is tiles of what the instruction takes, see matrix_fragments.MMA:

    a       16 rows x 256 bits      4 words of a lane     2 of its first 128 bits, then 2 of the others
    b      256 bits x  8 columns    2 words               1 and 1
    acc     16 rows x  8 columns    4 elements            2 of the upper 8 rows, then 2 of the lower

GPUs before sm_80 have instructions for half of the depth, and for 8 rows of integers; these take the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.program import Op
from ...ir.types import DataType
from .function_emitter import FunctionEmitter
from .memory import address, locate
from .targets import GpuTarget

__all__ = ["FIRST", "MATRIX_OPS", "why_no_product"]

_NAMES = {
    DataType.BF16: "m16n8k16.row.col.bf16",
    DataType.F16: "m16n8k16.row.col.f32.f32",
    DataType.TF32: "m16n8k8.row.col.tf32",
    DataType.I8: "m16n8k32.row.col.s8",
}
_HALVES = {DataType.F16: "m16n8k8.row.col.f32.f32", DataType.I8: "m8n8k16.row.col.s8"}
FIRST, FIRST_WITH_ALL = 75, 80
"""The architectures from which on there are such instructions, and all of these."""


def why_no_product(element: DataType, target: GpuTarget) -> str:
    """Why a target multiplies no matrices of these elements; "" if it does."""
    first = FIRST if element in _HALVES else FIRST_WITH_ALL
    return (
        "" if target.number >= first else f"matrices of {element} need sm_{first} or later, not {target.name}"
    )


def _mul_add(emitter: FunctionEmitter, op: Op) -> None:
    (rows, depth, columns), element = op.attrs["shape"], op.attrs["element"]
    instruction = _Instruction(emitter, element)
    a, b = (instruction.words(emitter.get(value)) for value in op.operands[:2])
    c = list(emitter.get(op.operands[2]))
    deep, wide = depth * (element.bits or 0) // 256, columns // 8
    for row in range(rows // 16):
        for column in range(wide):
            at = 4 * (row * wide + column)
            for k in range(deep):
                left, right = 4 * (row * deep + k), 2 * (column * deep + k)
                c[at : at + 4] = instruction.of_tiles(
                    a[left : left + 4], b[right : right + 2], c[at : at + 4]
                )
    emitter.set(op, *c)


Registers = Sequence[str]


class _Instruction:
    """mma.sync for factors of a type.  `factor`, `total`: the LLVM types of its words and of its sums."""

    def __init__(self, emitter: FunctionEmitter, element: DataType) -> None:
        self.w, self.element = emitter.w, element
        self.factor = "<2 x half>" if element is DataType.F16 else "i32"
        self.total = "i32" if element.is_int else "float"
        self.is_whole = emitter.context.target.number >= FIRST_WITH_ALL

    def words(self, held: Registers) -> list[str]:
        """Words of a factor that a lane holds, as the intrinsics take them."""
        source = "float" if self.element is DataType.TF32 else "i32"
        if source == self.factor:
            return list(held)
        return [self.w.emit(f"bitcast {source} {word} to {self.factor}") for word in held]

    def of_tiles(self, a: Registers, b: Registers, c: Registers) -> Registers:
        """a * b + c of one tile each."""
        if self.is_whole:
            return self.call(_NAMES[self.element], a, b, c)
        # the half of the depth that the first word of b has, then the other one
        for left, right in ((a[:2], b[:1]), (a[2:], b[1:])):
            if self.element is DataType.F16:
                c = self.call(_HALVES[self.element], left, right, c)
            else:  # and the upper 8 rows, then the lower
                pairs = zip(left, (c[:2], c[2:]), strict=True)
                c = [
                    each
                    for word, tile_word in pairs
                    for each in self.call(_HALVES[self.element], [word], right, tile_word)
                ]
        return c

    def call(self, name: str, a: Registers, b: Registers, c: Registers) -> list[str]:
        result = f"{{ {', '.join([self.total] * len(c))} }}"
        args = [*((self.factor, word) for word in (*a, *b)), *((self.total, value) for value in c)]
        results = self.w.call(f"llvm.nvvm.mma.{name}", result, args)
        return [self.w.emit(f"extractvalue {result} {results}, {k}") for k in range(len(c))]


def _load_rows(emitter: FunctionEmitter, op: Op) -> None:
    """ldmatrix; see matrix_fragments.py."""
    (index,) = op.operands
    element = emitter.context.program.buffers[op.attrs["buffer"]].dtype
    access = locate(emitter, op, index, DataType.vec(element, op.attrs["covers"]))
    pointer = address(emitter, access, element, 1, 0)
    count = op.results[0].type.lanes
    result = f"{{ {', '.join(['i32'] * count)} }}"
    name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{count}{'' if op.attrs['layout'] == 'row_major' else '.trans'}.b16.p3"
    loaded = emitter.w.call(name, result, [("ptr addrspace(3)", pointer)])
    emitter.set(op, *(emitter.w.emit(f"extractvalue {result} {loaded}, {k}") for k in range(count)))


MATRIX_OPS: dict[str, Callable[[FunctionEmitter, Op], None]] = {
    "matrix_load": _load_rows,
    "matrix_mul_add": _mul_add,
}
