"""Program -> LLVM IR for the host: one function whose lanes are the invocations of a subgroup.

The body is cut at its barriers into segments.  Each segment is a loop over the subgroups of a
workgroup, which runs all 32 invocations of a subgroup at once, as the lanes of vectors.  abi.py
describes the function; the package's docstring lists the files in the order of the work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...ir.program import Op, Program
from ..common.compile_cost import HOST, check_compile_cost
from ..common.line_tables import LineTable
from ..common.llvm_text import ModuleText, Writer
from ..common.zeroed_tiles import uncovered_tiles
from .abi import ENTRY, HostCode
from .barrier_split import split_at_barriers
from .function_builder import FunctionBuilder, SimdFeatures
from .lane_facts import LaneFacts
from .lane_major_layout import lane_major_layout
from .live_values import values_in_memory
from .outline import weigh_ops
from .row_emitter import BATCHES, QUICK, define_batches
from .row_runs import row_runs
from .runtime_functions import define_fault, define_half_conversions
from .segment_emitter import TABLE, SegmentEmitter
from .signature import RANGE, Signature

__all__ = ["UnloweredKernel", "lower"]

_GROUPS = "vyre.groups"


class UnloweredKernel(Exception):
    """The program still has a named kernel, `op`."""

    def __init__(self, op: Op) -> None:
        super().__init__(op.name)
        self.op = op


def lower(
    program: Program,
    specs: Mapping[str, Any],
    triple: str,
    layout: str,
    features: SimdFeatures,
    debug_info: bool = False,
) -> HostCode:
    """The code of a flat program (see flatten.py) for the machine of an LLVM triple and data layout.

    `specs`: encoded values of all specialization constants.  `debug_info`: whether to emit line tables.  Raises
    UnloweredKernel, TooManyLive, DiagnosticError for a program that would take too long to compile, and DivergentBarrier
    for one that would not verify.
    """
    ops = list(program.walk())
    for op in ops:
        if op.definition.kernel is not None:
            raise UnloweredKernel(op)
    check_compile_cost(program, {}, HOST)
    module = _new_module(triple, layout, features, debug_info)
    buffers = [b for b in program.buffers.values() if not b.is_on_chip]
    pointers = {b.name: f"%b{number}" for number, b in enumerate(buffers)}
    counts = {b.name: str(b.count) for b in program.buffers.values() if b.count is not None}
    counts.update({b.name: f"%n{number}" for number, b in enumerate(buffers) if b.count is None})
    written_buffers = frozenset(op.attrs["buffer"] for op in ops if "write" in op.definition.effects)
    facts = LaneFacts(program, specs)
    in_memory = values_in_memory(program, lambda value: facts.row_stride(value) is None)
    params = {name: f"%p{number}" for number, name in enumerate(sorted(program.params))}

    def builder_for(program: Program, facts: LaneFacts) -> FunctionBuilder:
        vectors = lane_major_layout(program, facts, features.register_bytes)
        numbers = {op: number for number, op in enumerate(program.walk())}
        weights = weigh_ops([*numbers], facts.proven, vectors.values)
        builder = FunctionBuilder(
            program, facts, specs, params, module, features, vectors, pointers, counts, numbers, weights
        )
        if program.grid is not None:
            gx, gy, gz = program.grid
            builder.extents = (str(gx), str(gy), str(gz))
        return builder

    builder = builder_for(program, facts)
    plan = split_at_barriers(program)
    emitter = SegmentEmitter(builder, plan, uncovered_tiles(program), in_memory)
    emitter.write()
    builder.w.branch("exit")
    names = tuple(b.name for b in buffers)
    signature = Signature(names, written_buffers, len(params))
    runs = row_runs(program, specs, facts.proven)
    _define_groups(builder, signature, emitter.context_bytes, "" if runs is None else QUICK)
    if runs is not None:
        define_batches(
            runs,
            signature,
            program.workgroup,
            lambda: replace(builder_for(runs.program, runs.facts), tiles=runs.tiles),
            TABLE,
        )
    _define_entry(module, program, signature, _GROUPS if runs is None else BATCHES)
    return HostCode(module.text(), names, written_buffers, emitter.context_bytes, plan.has_grid_barrier)


def _new_module(triple: str, layout: str, features: SimdFeatures, debug_info: bool) -> ModuleText:
    """A module with the functions that all programs share."""
    module = ModuleText(triple, layout, lines=LineTable("FullDebug") if debug_info else None)
    define_fault(module)
    if not features.half:
        define_half_conversions(module)
    return module


def _define_groups(
    builder: FunctionBuilder, signature: Signature, context_bytes: int, attributes: str
) -> None:
    """The function that runs workgroups, one after the other."""
    lines = [
        f"  %context.bytes = add i64 0, {context_bytes}",
        *builder.slots,
        *builder.w.lines,
        "exit:",
        "  ret void",
    ]
    text = signature.define(_GROUPS, RANGE, lines, attributes=attributes)
    builder.module.define(_GROUPS, text, builder.program.name)


def _define_entry(module: ModuleText, program: Program, signature: Signature, callee: str) -> None:
    """The function that unpacks `args` for the one that does the work."""
    w = Writer(module)
    w.at(program.loc)
    for number, (kind, name) in enumerate(signature.words):
        w.line(f"{name}.at = getelementptr i64, ptr %args, i64 {number}")
        w.line(f"{name} = load {kind}, ptr {name}.at")
    w.line(f"call void @{callee}({signature.passed(RANGE)})")
    head = f"define void @{ENTRY}(ptr %args, {', '.join(f'{k} {n}' for k, n in RANGE)}) nounwind {{"
    module.define(ENTRY, "\n".join([head, *w.lines, "  ret void", "}"]), program.name)
