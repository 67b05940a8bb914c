"""Program -> LLVM IR for the host: one function whose lanes are the invocations of a subgroup.

The body is cut at its barriers into segments.  Each segment is a loop over the subgroups of a
workgroup, which runs all 32 invocations of a subgroup at once, as the lanes of vectors.  abi.py
describes the function; the package's docstring lists the files in the order of the work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...ir.program import Op, Program
from ..common.llvm_text import ModuleText
from ..common.zeroed_tiles import uncovered_tiles
from .abi import ENTRY, HostCode
from .barrier_split import split_at_barriers
from .function_builder import FunctionBuilder, SimdFeatures
from .lane_facts import LaneFacts
from .lane_major_layout import lane_major_layout
from .live_values import values_in_memory
from .outline import weigh_ops
from .runtime_functions import define_fault, define_half_conversions
from .segment_emitter import SegmentEmitter

__all__ = ["UnloweredKernel", "lower"]


class UnloweredKernel(Exception):
    """The program still has a named kernel, `op`."""

    def __init__(self, op: Op) -> None:
        super().__init__(op.name)
        self.op = op


def lower(
    program: Program, specs: Mapping[str, Any], triple: str, layout: str, features: SimdFeatures
) -> HostCode:
    """The code of a flat program (see flatten.py) for the machine of an LLVM triple and data layout.

    `specs`: encoded values of all specialization constants.  Raises UnloweredKernel, and
    TooManyLive, and DivergentBarrier for a program that would not verify.
    """
    ops = list(program.walk())
    for op in ops:
        if op.definition.kernel is not None:
            raise UnloweredKernel(op)
    module = ModuleText(triple, layout)
    define_fault(module)
    if not features.half:
        define_half_conversions(module)
    buffers = [b for b in program.buffers.values() if not b.is_on_chip]
    pointers = {b.name: f"%b{number}" for number, b in enumerate(buffers)}
    counts = {b.name: str(b.count) for b in program.buffers.values() if b.count is not None}
    counts.update({b.name: f"%n{number}" for number, b in enumerate(buffers) if b.count is None})
    written = frozenset(op.attrs["buffer"] for op in ops if "write" in op.definition.effects)
    facts = LaneFacts(program, specs)
    numbers = {op: number for number, op in enumerate(ops)}
    in_memory = values_in_memory(program, lambda value: facts.row_stride(value) is None)
    params = {name: f"%p{number}" for number, name in enumerate(sorted(program.params))}
    vectors = lane_major_layout(program, facts, features.register_bytes)
    weights = weigh_ops(ops, facts.proven, vectors.values)
    builder = FunctionBuilder(
        program, facts, specs, params, module, features, vectors, pointers, counts, numbers, weights
    )
    if program.grid is not None:
        gx, gy, gz = program.grid
        builder.extents = (str(gx), str(gy), str(gz))
    plan = split_at_barriers(program)
    emitter = SegmentEmitter(builder, plan, uncovered_tiles(program), in_memory)
    emitter.write()
    builder.w.branch("exit")
    names = tuple(b.name for b in buffers)
    _define_groups(builder, names, written, emitter.context_bytes)
    _define_entry(module, len(names), len(params))
    return HostCode(module.text(), names, written, emitter.context_bytes, plan.has_grid_barrier)


def _params(buffers: int, scalars: int) -> list[tuple[str, str]]:
    """Type and name of the function's parameters; `args` holds them in this order."""
    pointers = [("ptr", f"%b{number}") for number in range(buffers)]
    lengths = [("i64", f"%n{number}") for number in range(buffers)]
    grid = [("i32", "%gx"), ("i32", "%gy"), ("i32", "%gz"), ("i32", "%zero")]
    return [*pointers, *lengths, *grid, *(("i64", f"%p{number}") for number in range(scalars))]


_RANGE = [("i64", "%first"), ("i64", "%last"), ("ptr", "%scratch"), ("ptr", "%status")]


def _define_groups(
    builder: FunctionBuilder, names: Sequence[str], written: frozenset[str], context_bytes: int
) -> None:
    """The function that does the work, behind the entry's unpacking of `args`.

    All pointers are `noalias`: no two buffers overlap, nor does one overlap the scratch memory.
    """
    params = []
    for kind, name in [*_params(len(names), len(builder.params)), *_RANGE]:
        attributes = " noalias" if kind == "ptr" else ""
        if name.startswith("%b") and names[int(name[2:])] not in written:
            attributes += " readonly"
        params.append(f"{kind}{attributes} {name}")
    lines = [
        f"define internal void @vyre.groups({', '.join(params)}) nounwind {{",
        "entry:",
        f"  %context.bytes = add i64 0, {context_bytes}",
        *builder.slots,
        *builder.w.lines,
        "exit:",
        "  ret void",
        "}",
    ]
    builder.module.define("vyre.groups", "\n".join(lines))


def _define_entry(module: ModuleText, buffers: int, scalars: int) -> None:
    lines = [f"define void @{ENTRY}(ptr %args, {', '.join(f'{k} {n}' for k, n in _RANGE)}) nounwind {{"]
    args = []
    for number, (kind, name) in enumerate(_params(buffers, scalars)):
        lines.append(f"  {name}.at = getelementptr i64, ptr %args, i64 {number}")
        lines.append(f"  {name} = load {kind}, ptr {name}.at")
        args.append(f"{kind} {name}")
    args += [f"{kind} {name}" for kind, name in _RANGE]
    lines += [f"  call void @vyre.groups({', '.join(args)})", "  ret void", "}"]
    module.define(ENTRY, "\n".join(lines))
