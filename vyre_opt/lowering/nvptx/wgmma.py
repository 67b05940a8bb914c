"""Products of warpgroups as PTX: wgmma, with the left factor and the sums in registers; see warpgroups.py.

The right factor is named by a descriptor of 64 bits (PTX ISA, "Matrix Descriptor Format"):

    bits  0 .. 13    address / 16
    bits 16 .. 29    bytes / 16 to the next panel, where the depth goes along rows
    bits 32 .. 45    bytes / 16 to the next 8 rows
    bits 62 .. 63    1: pieces of 16 bytes are exchanged in panels of 128

LLVM has no intrinsic for it.  What is computed with sums stays behind the wait, since that gives them again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.lowered_ops import PROXY_FENCE, WARPGROUP_MUL_ADD, WARPGROUP_WAIT
from ...ir.program import Op
from ...ir.types import DataType
from .function_emitter import FunctionEmitter
from .mbarriers import FENCE_OF_PROXIES, inline_ptx
from .warpgroups import ATOM_BYTES, PANEL_BYTES, STEP

__all__ = ["WARPGROUP_OPS"]

_NAMES = {DataType.F16: "f16", DataType.BF16: "bf16"}
UNIT = 16  # bytes, of what a descriptor counts
SWIZZLED = 1 << 62
SIZE = 2  # bytes of an element


def _mul_add(emitter: FunctionEmitter, op: Op) -> None:
    (rows, depth, columns), element = op.attrs["shape"], _NAMES[op.attrs["element"]]
    left, total = emitter.get(op.operands[0]), list(emitter.get(op.operands[2]))
    if op.attrs["fence"]:
        inline_ptx(emitter, "wgmma.fence.sync.aligned;", "", [])
    held, steps = columns // 2, depth // STEP  # sums of a lane in 16 rows
    factors = _descriptors(emitter, op, steps)
    for strip in range(rows // 16):
        sums = total[strip * held : (strip + 1) * held]
        for step, factor in enumerate(factors):
            words = left[4 * (strip * steps + step) :][:4]
            sums = _multiply(
                emitter,
                f"m64n{columns}k16.f32.{element}.{element}",
                sums,
                words,
                factor,
                op.attrs["is_deep_by_rows"],
            )
        total[strip * held : (strip + 1) * held] = sums
    emitter.set(op, *total)


def _descriptors(emitter: FunctionEmitter, op: Op, steps: int) -> list[str]:
    """Of the right factors of all steps along the depth."""
    w, by_rows = emitter.w, op.attrs["is_deep_by_rows"]
    kind, pointer = "ptr addrspace(3)", emitter.context.buffers[op.attrs["tile"]].pointer
    offset = emitter.scalar(op.operands[1])
    start = w.emit(f"getelementptr i16, {kind} {pointer}, i32 {offset}")
    address = w.emit(f"zext i32 {w.emit(f'ptrtoint {kind} {start} to i32')} to i64")
    fixed = (
        SWIZZLED
        | ATOM_BYTES // UNIT << 32
        | (op.attrs["rows"] * PANEL_BYTES // UNIT << 16 if by_rows else 1 << 16)
    )
    first = w.emit(f"or i64 {w.emit(f'lshr i64 {address}, 4')}, {fixed}")
    stride = STEP * (PANEL_BYTES if by_rows else SIZE) // UNIT
    return [first, *(w.emit(f"add i64 {first}, {k * stride}") for k in range(1, steps))]


def _multiply(
    emitter: FunctionEmitter,
    shape: str,
    sums: Sequence[str],
    words: Sequence[str],
    factor: str,
    by_rows: bool,
) -> list[str]:
    count = len(sums)
    registers = ", ".join(f"${k}" for k in range(count))
    left = ", ".join(f"${count + k}" for k in range(4))
    text = (
        "{ .reg .pred adds; setp.eq.u32 adds, 0, 0; "
        f"wgmma.mma_async.sync.aligned.{shape} {{{registers}}}, {{{left}}}, ${count + 4}, adds, 1, 1, {int(by_rows)}; }}"
    )
    return _in_place(emitter, text, sums, "rrrrl", [*(("i32", word) for word in words), ("i64", factor)])


def _wait(emitter: FunctionEmitter, op: Op) -> None:
    sums = [element for value in op.operands for element in emitter.get(value)]
    done = _in_place(emitter, "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;", sums)
    for operand, result in zip(op.operands, op.results, strict=True):
        count = len(emitter.get(operand))
        emitter.values[result], done = tuple(done[:count]), done[count:]


def _proxy_fence(emitter: FunctionEmitter, op: Op) -> None:
    inline_ptx(emitter, FENCE_OF_PROXIES, "", [])


def _in_place(
    emitter: FunctionEmitter,
    text: str,
    sums: Sequence[str],
    inputs: Sequence[str] = (),
    args: Sequence[tuple[str, str]] = (),
) -> list[str]:
    """PTX that changes `sums`, $0 and on, and reads `args`, which follow, by the constraints `inputs`; returns the sums
    after it."""
    constraints = [*("=f" for _ in sums), *inputs, *(str(k) for k in range(len(sums)))]
    kind = f"{{ {', '.join(['float'] * len(sums))} }}"
    values = [*args, *(("float", value) for value in sums)]
    results = inline_ptx(emitter, text, ",".join(constraints), values, kind)
    return [emitter.w.emit(f"extractvalue {kind} {results}, {k}") for k in range(len(sums))]


WARPGROUP_OPS: dict[str, Callable[[FunctionEmitter, Op], None]] = {
    WARPGROUP_MUL_ADD.name: _mul_add,
    WARPGROUP_WAIT.name: _wait,
    PROXY_FENCE.name: _proxy_fence,
}
