"""A fault record that compiled code filled in, as the error that the interpreter would raise."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.program import Dim3, Op, Program
from ..dispatcher import ProgramError
from ..ref.faults import fault, invocation_name

__all__ = ["error_of"]


def error_of(
    program: Program, flat: Program, record: Sequence[int], grid: Dim3, counts: dict[str, int]
) -> ProgramError:
    """`record`: the words named in lowering.host.abi.FAULT_WORDS.  `flat`: the program as it was lowered,
    whose ops the record numbers.  `counts`: elements of each buffer."""
    _, number, group, lane, index = record
    op = next(op for place, op in enumerate(flat.walk()) if place == number)
    invocation = invocation_name(group * program.lanes + lane, program.workgroup, grid)
    if op.name == "trap":
        return fault("trap", program, op, f"trap: {op.attrs['message']}; reached by {invocation}")
    if op.name == "for":
        return fault(
            "step",
            program,
            op,
            f"the step of this for is {_signed(index)}, by {invocation}",
            help="a for counts up: its step is at least 1",
        )
    return _out_of_bounds(program, op, index, invocation, counts)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def _out_of_bounds(
    program: Program, op: Op, word: int, invocation: str, counts: dict[str, int]
) -> ProgramError:
    name = op.attrs["buffer"]
    value, at = (op.operands[0], op.operands[1]) if op.name == "store" else (op.results[0], op.operands[0])
    index = _signed(word) if at.type.is_signed else word
    covered = value.type.lanes // program.buffers[name].dtype.lanes
    extent = f"elements {index} to {index + covered - 1}" if covered > 1 else f"index {index}"
    return fault(
        "bounds",
        program,
        op,
        f"{op.name} out of bounds of @{name}: {extent}, length {counts[name]}, by {invocation}",
        help=f"guard the access with a comparison against len @{name}",
    )
