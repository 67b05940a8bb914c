"""Features of a program without a counterpart in MLIR that mlir-opt 16 and 19 both read."""

from __future__ import annotations

from ..ir.diagnostics import Diagnostic
from ..ir.lowered_ops import LOWERED_OPS
from ..ir.program import Buffer, Module, Op, Program
from .helpers.arithmetic import ARITHMETIC
from .op_map import direct_op

__all__ = ["refusals"]

_MOVED_BYTES = (1, 2, 4, 8)


def refusals(program: Program, module: Module) -> list[Diagnostic]:
    """An error, located at its op or buffer, for each thing that cannot be written."""
    errors = [e for buffer in program.buffers.values() for e in _of_buffer(program, buffer)]
    if program.cluster is not None:
        message = f"program @{program.name}: the gpu dialect of LLVM 16 has no clusters of workgroups"
        errors.append(Diagnostic("error", message, program.loc, help="emit ptx"))
    for op in program.walk():
        reason = _reason(op)
        if reason is not None:
            message, help = reason
            errors.append(Diagnostic("error", f"program @{program.name}: {message}", op.loc, help=help))
    return errors


def _of_buffer(program: Program, buffer: Buffer) -> list[Diagnostic]:
    if buffer.dtype.element.size_bytes in _MOVED_BYTES:
        return []
    message = f"program @{program.name}: buffer @{buffer.name}: no memref has elements of {buffer.dtype}"
    return [Diagnostic("error", message, buffer.loc)]


def _reason(op: Op) -> tuple[str, str | None] | None:
    """Why an op cannot be written, and what to do about it; None if it can."""
    if op.definition.kernel is not None:
        return (
            f"the named kernel {op.name} is not one op of MLIR",
            "run the pass expand_kernels first; it writes the kernel out at a schedule",
        )
    if any(value.type.is_slice for value in (*op.operands, *op.results)):
        return (
            f"{op.name} works on a row of a whole workgroup, which is no value of the gpu dialect",
            "run the pass lower_slices first; it says what invocations do",
        )
    is_lowered = op.name in LOWERED_OPS or op.definition.format.startswith("matrix_")
    if is_lowered or any(value.type.is_matrix for value in (*op.operands, *op.results)):
        return (
            f"{op.name} works on a matrix, whose lanes the gpu dialect lays out otherwise",
            "emit ptx, or write the product without matrices",
        )
    if op.definition.format in ("unary", "binary", "ternary") and not _is_known(op):
        return (
            f"{op.name} of {op.result.type} has neither an op of MLIR nor a helper",
            "see op_map.py and helpers/arithmetic.py",
        )
    if op.name == "debug_print":
        return (
            "debug_print has no op of MLIR: gpu.printf knows neither its directives nor its order",
            "leave it out",
        )
    if op.name == "breakpoint":
        return "MLIR has no breakpoints", "leave it out"
    if op.name == "barrier" and op.attrs["scope"] == "grid":
        return (
            "MLIR has no barrier of the whole grid",
            "end the program there, and launch what follows as a second one",
        )
    return None


def _is_known(op: Op) -> bool:
    return op.name in ARITHMETIC or direct_op(op.name, op.result.type) is not None
