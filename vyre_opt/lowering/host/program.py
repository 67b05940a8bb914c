"""Program -> LLVM IR for the host: SPMD on SIMD.

The module has one function to call,

    void vyre_run(ptr args, i64 first, i64 last, ptr scratch, ptr status)

which runs the workgroups `first` to `last`, last not included and larger than first.
`args` are 64-bit words: the address of each buffer of `HostCode.buffers`, their element
counts, the grid along x, y, z, and a 0.  `scratch` is the thread's own, aligned to 64 bytes,
`HostCode.scratch_bytes` long (times the workgroups of the grid if `whole_grid`).
`status` are the words of host_frame.FAULT_WORDS, zero before, which a fault fills in; and what a
loop that may wait for another workgroup looks at: the address of a word that is not 0 once the run
is to be given up, because of a fault elsewhere or by the caller; a word of its own; and the address
of a function to call now and then, `i32 ()`, that lets other threads run.

    host_flatten   calls and regions go
    host_facts     what the lanes of a chunk have in common
    host_plan      segments between barriers
    host_segments  loops over workgroups and chunks
    host_outline   long blocks in functions of their own
    host_chunk     ops that compute; host_memory, host_subgroup, host_control: the others
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...ir.program import Op, Program
from ..common.llvm_text import ModuleText, Writer
from .abi import ENTRY, HostCode
from .barrier_split import split_at_barriers
from .function_builder import FunctionBuilder, SimdFeatures
from .lane_facts import LaneFacts
from .outline import weigh
from .runtime_functions import define_fault, define_half_conversions
from .segment_emitter import SegmentEmitter

__all__ = ["UnloweredKernel", "lower"]


class UnloweredKernel(Exception):
    """The program still has a named kernel; `op` is it."""

    def __init__(self, op: Op) -> None:
        super().__init__(op.name)
        self.op = op


def lower(
    program: Program, specs: Mapping[str, Any], triple: str, layout: str, features: SimdFeatures
) -> HostCode:
    """`program` is flat (see host_flatten); `specs` are encoded.  Raises UnloweredKernel."""
    ops = list(program.walk())
    for op in ops:
        if op.definition.kernel is not None:
            raise UnloweredKernel(op)
    module = ModuleText(triple, layout)
    define_fault(module)
    if not features.half:
        define_half_conversions(module)
    buffers = [b for b in program.buffers.values() if not b.is_workgroup]
    pointers = {b.name: f"%b{place}" for place, b in enumerate(buffers)}
    counts = {b.name: str(b.count) for b in program.buffers.values() if b.count is not None}
    counts.update({b.name: f"%n{place}" for place, b in enumerate(buffers) if b.count is None})
    written = frozenset(op.attrs["buffer"] for op in ops if "write" in op.definition.effects)
    facts = LaneFacts(program, specs)
    builder = FunctionBuilder(
        program,
        facts,
        specs,
        module,
        features,
        pointers,
        counts,
        Writer(module),
        {op: number for number, op in enumerate(ops)},
        weigh(ops, facts.proven),
    )
    if program.grid is not None:
        builder.extents = (str(program.grid[0]), str(program.grid[1]), str(program.grid[2]))
    emitter = SegmentEmitter(builder, split_at_barriers(program))
    emitter.write()
    builder.w.branch("exit")
    names = [b.name for b in buffers]
    _define_groups(builder, names, written, emitter.bytes)
    _define_entry(module, len(names))
    whole = emitter.plan.has_grid_barrier
    return HostCode(module.text(), tuple(names), written, emitter.bytes, whole)


def _params(count: int) -> list[tuple[str, str]]:
    """Type and name of what both functions work on."""
    pointers = [("ptr", f"%b{place}") for place in range(count)]
    lengths = [("i64", f"%n{place}") for place in range(count)]
    return [*pointers, *lengths, ("i32", "%gx"), ("i32", "%gy"), ("i32", "%gz"), ("i32", "%zero")]


_RANGE = [("i64", "%first"), ("i64", "%last"), ("ptr", "%scratch"), ("ptr", "%status")]


def _define_groups(builder: FunctionBuilder, names: list[str], written: frozenset[str], context: int) -> None:
    """No two buffers overlap, and neither do they with the scratch memory."""
    params = []
    for kind, name in [*_params(len(names)), *_RANGE]:
        attributes = " noalias" if kind == "ptr" else ""
        if name.startswith("%b") and names[int(name[2:])] not in written:
            attributes += " readonly"
        params.append(f"{kind}{attributes} {name}")
    lines = [
        f"define internal void @vyre.groups({', '.join(params)}) nounwind {{",
        "entry:",
        f"  %context.bytes = add i64 0, {context}",
        *builder.slots,
        *builder.w.lines,
        "exit:",
        "  ret void",
        "}",
    ]
    builder.module.define("vyre.groups", "\n".join(lines))


def _define_entry(module: ModuleText, count: int) -> None:
    lines = [f"define void @{ENTRY}(ptr %args, {', '.join(f'{k} {n}' for k, n in _RANGE)}) nounwind {{"]
    given = []
    for place, (kind, name) in enumerate(_params(count)):
        lines.append(f"  {name}.at = getelementptr i64, ptr %args, i64 {place}")
        lines.append(f"  {name} = load {kind}, ptr {name}.at")
        given.append(f"{kind} {name}")
    given += [f"{kind} {name}" for kind, name in _RANGE]
    lines += [f"  call void @vyre.groups({', '.join(given)})", "  ret void", "}"]
    module.define(ENTRY, "\n".join(lines))
