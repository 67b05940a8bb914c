"""The located errors of a program that is at fault, in the same words whichever target ran it."""

from __future__ import annotations

from ..ir.diagnostics import Diagnostic
from ..ir.program import Dim3, Op, Program
from .dispatcher import ProgramError

__all__ = [
    "asserted",
    "bad_step",
    "describe",
    "fault",
    "invocation_name",
    "out_of_bounds",
    "signed",
    "trapped",
]


def invocation_name(invocation: int, workgroup: Dim3, grid: Dim3) -> str:
    """Linear id of an invocation -> `workgroup (3,0,0) local id (7,0,0)`."""
    row, local = divmod(invocation, workgroup[0] * workgroup[1] * workgroup[2])
    return f"workgroup {_dims(row, grid)} local id {_dims(local, workgroup)}"


def _dims(linear: int, extents: Dim3) -> str:
    x, rest = linear % extents[0], linear // extents[0]
    return f"({x},{rest % extents[1]},{rest // extents[1]})"


def fault(
    kind: str, program: Program, op: Op, message: str, other: Op | None = None, help: str | None = None
) -> ProgramError:
    """An error of `program` at `op`; `other` is the op that it collides with."""
    diagnostic = Diagnostic("error", f"program @{program.name}: {message}", op.loc, help=help)
    if other is not None and other is not op:
        diagnostic.note(f"the other access, {describe(other)}, is here", other.loc)
    buffer = program.buffers.get(op.attrs.get("buffer", ""))
    if buffer is not None:
        diagnostic.note(f"@{buffer.name} is declared here", buffer.loc)
    return ProgramError(kind, diagnostic)


def describe(op: Op) -> str:
    """An op in words, such as `store @y`."""
    name = op.attrs.get("buffer")
    return f"{op.name} @{name}" if name else op.name


def out_of_bounds(
    program: Program, op: Op, index: int, covered: int, length: int, invocation: str
) -> ProgramError:
    """The error of an access to `covered` elements from `index` on, in a buffer of `length` elements."""
    name = op.attrs["buffer"]
    extent = f"elements {index} to {index + covered - 1}" if covered > 1 else f"index {index}"
    message = f"{op.name} out of bounds of @{name}: {extent}, length {length}, by {invocation}"
    help = f"guard the access with a comparison against len @{name}"
    return fault("bounds", program, op, message, help=help)


def bad_step(program: Program, op: Op, step: int, invocation: str) -> ProgramError:
    """The error of a `for` whose step is not positive."""
    message = f"the step of this for is {step}, by {invocation}"
    return fault("step", program, op, message, help="a for counts up: its step is at least 1")


def trapped(program: Program, op: Op, invocation: str) -> ProgramError:
    """The error of a `trap` that was reached."""
    return fault("trap", program, op, f"trap: {op.attrs['message']}; reached by {invocation}")


def asserted(program: Program, op: Op, invocation: str) -> ProgramError:
    """The error of an `assert` whose condition is false."""
    return fault("assert", program, op, f"assert: {op.attrs['message']}; false in {invocation}")


def signed(word: int) -> int:
    """The 64 bits of a fault record's word as a signed integer."""
    return word - (1 << 64) if word >> 63 else word
