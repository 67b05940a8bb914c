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
from dataclasses import field

from ...ir.lowered_ops import PROXY_FENCE, WARPGROUP_MUL_ADD, WARPGROUP_WAIT
from ...ir.program import Op, Value
from ...ir.types import DataType
from ...records import dataclass
from .function_emitter import FunctionEmitter
from .mbarriers import FENCE_OF_PROXIES, inline_ptx
from .warpgroups import ATOM_BYTES, PANEL_BYTES, STEP

__all__ = ["WARPGROUP_OPS"]

_NAMES = {DataType.F16: "f16", DataType.BF16: "bf16"}
UNIT = 16  # bytes, of what a descriptor counts
SWIZZLED = 1 << 62
SIZE = 2  # bytes of an element


@dataclass
class _Chain:
    """Products that are written as one piece of PTX, so that ptxas finds them beside each other: what it puts between, copies of sums,
    would make them wait for one another.

    `sums`: in registers of a lane, of which `is_first` says that they begin at 0; `texts`: instructions, where $0 and on are these sums, and after
    them `args`.
    """

    sums: list[str]
    is_first: bool = False
    texts: list[str] = field(default_factory=list)
    constraints: str = ""
    args: list[tuple[str, str]] = field(default_factory=list)

    def place(self, kind: str, value: str) -> str:
        """The name of an argument in the text."""
        self.args.append((kind, value))
        self.constraints += "l" if kind == "i64" else "r"
        return f"${len(self.sums) + len(self.args) - 1}"

    def issue(self, emitter: FunctionEmitter) -> list[str]:
        """Write the products; returns the sums after them."""
        count, inputs = len(self.sums), [] if self.is_first else [("float", value) for value in self.sums]
        constraints = [*["=f"] * count, *self.constraints, *(str(k) for k in range(len(inputs)))]
        kind = f"{{ {', '.join(['float'] * count)} }}"
        results = inline_ptx(
            emitter, " ".join(self.texts), ",".join(constraints), [*self.args, *inputs], kind
        )
        return [emitter.w.emit(f"extractvalue {kind} {results}, {k}") for k in range(count)]


def _mul_add(emitter: FunctionEmitter, op: Op) -> None:
    (rows, depth, columns), element = op.attrs["shape"], _NAMES[op.attrs["element"]]
    totals, left_tile = op.operands[2:], op.attrs.get("left_tile")
    chain = emitter.chains.pop(totals[0], None)
    is_first = bool(op.attrs.get("is_first"))
    if chain is None:
        chain = _Chain([part for total in totals for part in emitter.get(total)], is_first)
    if op.attrs["fence"]:
        chain.texts.append("wgmma.fence.sync.aligned;")
    per_lane, steps, by_rows = columns // 2 // len(totals), depth // STEP, int(op.attrs["is_deep_by_rows"])
    factors = _descriptors(emitter, op, steps)
    if left_tile is None:
        left = emitter.get(op.operands[0])
    else:
        first = _descriptor(emitter, left_tile, op.operands[0], 1)
        lefts = _steps(emitter, first, STEP * SIZE, steps)
    shape, size = f"m64n{columns}k16.f32.{element}.{element}", len(chain.sums) // len(totals)
    for strip in range(rows // 16):
        own_numbers = [
            total * size + strip * per_lane + k for total in range(len(totals)) for k in range(per_lane)
        ]
        registers = ", ".join(f"${k}" for k in own_numbers)
        for step, factor in enumerate(factors):
            if left_tile is None:
                words = left[4 * (strip * steps + step) :][:4]
                place, orders = f"{{{', '.join(chain.place('i32', word) for word in words)}}}", f"{by_rows}"
            else:
                place, orders = chain.place("i64", lefts[step]), f"0, {by_rows}"
            right = chain.place("i64", factor)
            adds = "ne" if is_first and step == 0 else "eq"
            chain.texts.append(
                f"{{ .reg .pred adds; setp.{adds}.u32 adds, 0, 0; "
                f"wgmma.mma_async.sync.aligned.{shape} {{{registers}}}, {place}, {right}, adds, 1, 1, {orders}; }}"
            )
    if op.attrs.get("is_followed"):
        emitter.chains[op.results[0]] = chain
        return
    _give(emitter, op.results, chain.issue(emitter))


def _give(emitter: FunctionEmitter, results: Sequence[Value], parts: Sequence[str]) -> None:
    """Set results that have as many parts each."""
    count = len(parts) // len(results)
    for number, result in enumerate(results):
        emitter.values[result] = tuple(parts[number * count : (number + 1) * count])


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
    constant_bits = SWIZZLED | ATOM_BYTES // UNIT << 32 | to_next_panel << 16
    return w.emit(f"or i64 {w.emit(f'lshr i64 {address}, 4')}, {constant_bits}")


def _steps(emitter: FunctionEmitter, first: str, size: int, steps: int) -> list[str]:
    """The descriptors of factors that lie so many bytes apart."""
    return [first, *(emitter.w.emit(f"add i64 {first}, {k * size // UNIT}") for k in range(1, steps))]


def _wait(emitter: FunctionEmitter, op: Op) -> None:
    count = len(op.results)
    chain = emitter.chains.pop(op.operands[0], None)
    if chain is None:
        chain = _Chain([part for value in op.operands[:count] for part in emitter.get(value)])
    chain.texts.append(
        f"wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned {op.attrs['pending']};"
    )
    for word in (part for value in op.operands[count:] for part in emitter.get(value)):
        chain.place("i32", word)
    _give(emitter, op.results, chain.issue(emitter))


def _proxy_fence(emitter: FunctionEmitter, op: Op) -> None:
    inline_ptx(emitter, FENCE_OF_PROXIES, "", [])


WARPGROUP_OPS: dict[str, Callable[[FunctionEmitter, Op], None]] = {
    WARPGROUP_MUL_ADD.name: _mul_add,
    WARPGROUP_WAIT.name: _wait,
    PROXY_FENCE.name: _proxy_fence,
}
