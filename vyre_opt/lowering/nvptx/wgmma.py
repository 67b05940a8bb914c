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
from ...ir.program import Op, Value
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
    totals, left_tile = [list(emitter.get(total)) for total in op.operands[2:]], op.attrs.get("left_tile")
    if op.attrs["fence"]:
        inline_ptx(emitter, "wgmma.fence.sync.aligned;", "", [])
    held, steps = columns // 2 // len(totals), depth // STEP  # sums of a lane in 16 rows
    factors = _descriptors(emitter, op, steps)
    if left_tile is None:
        left = emitter.get(op.operands[0])
    else:
        first = _descriptor(emitter, left_tile, op.operands[0], 1)
        lefts = _steps(emitter, first, STEP * SIZE, steps)
    for strip in range(rows // 16):
        own = slice(strip * held, (strip + 1) * held)
        sums = [each for total in totals for each in total[own]]
        for step, factor in enumerate(factors):
            words = left[4 * (strip * steps + step) :][:4] if left_tile is None else [lefts[step]]
            sums = _multiply(
                emitter,
                f"m64n{columns}k16.f32.{element}.{element}",
                sums,
                words,
                factor,
                op.attrs["is_deep_by_rows"],
            )
        for number, total in enumerate(totals):
            total[own] = sums[number * held : (number + 1) * held]
    for result, total in zip(op.results, totals, strict=True):
        emitter.values[result] = tuple(total)


def _descriptors(emitter: FunctionEmitter, op: Op, steps: int) -> list[str]:
    """Descriptors of the right factors of all steps along the depth."""
    by_rows = op.attrs["is_deep_by_rows"]
    first = _descriptor(
        emitter, op.attrs["tile"], op.operands[1], op.attrs["rows"] * PANEL_BYTES // UNIT if by_rows else 1
    )
    return _steps(emitter, first, STEP * (PANEL_BYTES if by_rows else SIZE), steps)


def _descriptor(emitter: FunctionEmitter, tile: str, offset: Value, to_next_panel: int) -> str:
    """Descriptor of the factor that begins at an element of a tile."""
    w, kind = emitter.w, "ptr addrspace(3)"
    pointer, number = emitter.context.buffers[tile].pointer, emitter.scalar(offset)
    start = w.emit(f"getelementptr i16, {kind} {pointer}, i32 {number}")
    address = w.emit(f"zext i32 {w.emit(f'ptrtoint {kind} {start} to i32')} to i64")
    fixed = SWIZZLED | ATOM_BYTES // UNIT << 32 | to_next_panel << 16
    return w.emit(f"or i64 {w.emit(f'lshr i64 {address}, 4')}, {fixed}")


def _steps(emitter: FunctionEmitter, first: str, size: int, steps: int) -> list[str]:
    """The descriptors of factors that lie so many bytes apart."""
    return [first, *(emitter.w.emit(f"add i64 {first}, {k * size // UNIT}") for k in range(1, steps))]


def _multiply(
    emitter: FunctionEmitter,
    shape: str,
    sums: Sequence[str],
    words: Sequence[str],
    factor: str,
    by_rows: bool,
) -> list[str]:
    """`words`: the left factor in registers, or its descriptor."""
    count, held = len(sums), len(words)
    registers = ", ".join(f"${k}" for k in range(count))
    is_descriptor = held == 1
    left = f"${count}" if is_descriptor else f"{{{', '.join(f'${count + k}' for k in range(held))}}}"
    orders = f"0, {int(by_rows)}" if is_descriptor else f"{int(by_rows)}"
    text = (
        "{ .reg .pred adds; setp.eq.u32 adds, 0, 0; "
        f"wgmma.mma_async.sync.aligned.{shape} {{{registers}}}, {left}, ${count + held}, adds, 1, 1, {orders}; }}"
    )
    kind = "i64" if is_descriptor else "i32"
    constraints = "ll" if is_descriptor else "rrrrl"
    return _in_place(emitter, text, sums, constraints, [*((kind, word) for word in words), ("i64", factor)])


def _wait(emitter: FunctionEmitter, op: Op) -> None:
    count = len(op.results)
    sums, lefts = (
        [part for value in some for part in emitter.get(value)]
        for some in (op.operands[:count], op.operands[count:])
    )
    text = f"wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned {op.attrs['pending']};"
    done = _in_place(emitter, text, sums, "r" * len(lefts), [("i32", word) for word in lefts])
    for operand, result in zip(op.operands, op.results, strict=False):
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
