"""Decode-scan fusion: a hand-off between phases of a program moves from DRAM to workgroup memory.

A transient `read_write` buffer need not be in storage if every read is covered by the
same workgroup's earlier writes (see analysis/locality): each workgroup has a tile of its
own.  The tile is the range of elements that one workgroup accesses, so a hand-off of any
size fits if a workgroup's share does.  Indices are rebased to the tile, and elements whose
values are proven to fit get a narrower type.  A store that is not proven to be in bounds of the
storage leaves a check of its index there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from ..analysis.buffer_layout import BufferLayout
from ..analysis.effects import summarize
from ..analysis.footprint import Footprints
from ..analysis.launched_lengths import LaunchedLengths
from ..analysis.locality import TileProof, prove_local, stores_overlap
from ..analysis.narrowing import narrow_element
from ..analysis.pipeline_uses import PipelineUses, is_host_visible
from ..analysis.refusal import Refusal
from ..fusion.bounds_checks import add_checks
from ..fusion.result_check import check_tiles, refuse_result
from ..fusion.workgroup_memory import DEFAULT_BUDGET, workgroup_budget
from ..fusion.workgroup_tile import promote_to_tile
from ..ir.grids import Extent
from ..ir.ops import BEYOND_WORKGROUP
from ..ir.program import AccessMode, Buffer, Module, Op, Program
from ..ir.rewrite import fresh_name
from ..ir.types import DataType
from ..records import dataclass
from ..rewriting.cloning import copy_program
from ..rewriting.demanded_extents import declare_demands
from .manager import Analyses, PassContext
from .registry import Pass, register

__all__ = [
    "DecodeScanFuse",
    "HandoffDecision",
    "analyze",
    "candidate_handoffs",
    "count_opportunities",
    "decide",
    "run",
]


@dataclass(frozen=True)
class FuseOptions:
    """`budget`: bytes of workgroup memory a program may use in all; 0 asks the target (16 KiB by default).

    `narrow`: keep elements in a narrower type where every stored value fits it.
    """

    budget: int = 0
    narrow: bool = True

    def __post_init__(self) -> None:
        if self.budget < 0:
            raise ValueError(f"budget is a number of bytes, not {self.budget}")


@dataclass(slots=True)
class HandoffDecision:
    """The outcome for one buffer: a tile (`local` is None if no op uses the buffer), or a refusal."""

    buffer: Buffer
    local: TileProof | None = None
    refusal: Refusal | None = None
    dtype: DataType | None = None
    count: int = 0
    is_unordered: bool = False
    """Whether several workgroups store to one element, as the program is written."""

    @property
    def promoted(self) -> bool:
        return self.refusal is None

    @property
    def bytes(self) -> int:
        """Bytes of the tile."""
        size = self.dtype.element_bytes if self.dtype is not None else None
        return self.count * (size or 0)


def analyze(program: Program) -> Literal["run", "skip"]:
    """Whether `decode_scan_fuse` may do anything: `skip` if no buffer's declaration allows a hand-off.

    Ops are not examined, so `run` promises nothing.
    """
    may_be = (_declaration_refusal(buffer, program, None) is None for buffer in _read_write_buffers(program))
    return "run" if any(may_be) else "skip"


def run(program: Program) -> Program:
    """A copy of a program with its hand-offs in workgroup memory; the program itself, as it was, if it has none."""
    if analyze(program) == "skip":
        return program
    copy, module = copy_program(program, None)
    return copy if DecodeScanFuse().run(module, PassContext()) else program


def count_opportunities(program: Program) -> int:
    """The number of buffers that `decode_scan_fuse` would move to workgroup memory."""
    return len(candidate_handoffs(program))


def candidate_handoffs(program: Program) -> dict[str, int]:
    """The buffers `decode_scan_fuse` would move, with the element count of each one's tile."""
    return {d.buffer.name: d.count for d in decide(program) if d.promoted}


def decide(
    program: Program,
    uses: PipelineUses | None = None,
    budget: int = DEFAULT_BUDGET,
    narrow: bool = True,
    analyses: Analyses | None = None,
) -> list[HandoffDecision]:
    """A decision for every buffer that may be a hand-off, in the order of declaration.

    These are the `read_write` buffers.  One that the host or another launch sees is left out unless the program both
    writes and reads it: otherwise it hands nothing over from one phase of the program to another.

    `budget`: the most bytes that the program's workgroup buffers may take in all; buffers
    declared first get theirs first.  `uses`: the pipelines that use the program.
    """
    decisions = [
        HandoffDecision(b, refusal=_declaration_refusal(b, program, uses))
        for b in _read_write_buffers(program)
    ]
    if not all(d.promoted for d in decisions):
        effects, _ = summarize(program.body)
        handoffs = effects.reads & effects.writes
        decisions = [d for d in decisions if d.promoted or d.buffer.name in handoffs]
    candidates = [d for d in decisions if d.promoted]
    if not candidates:
        return decisions
    analyses = analyses or Analyses()
    footprints = analyses.get(Footprints, program)
    verdicts = prove_local(footprints, [d.buffer.name for d in candidates])
    used_bytes = analyses.get(BufferLayout, program).on_chip
    for decision in candidates:
        _decide_buffer(decision, program, footprints, verdicts.get(decision.buffer.name), narrow)
        if not decision.promoted:
            continue
        if used_bytes + decision.bytes > budget:
            decision.refusal = Refusal(
                "over-budget",
                f"@{decision.buffer.name}: its tile of {decision.bytes} bytes and the {used_bytes} in use pass the "
                f"budget of {budget}",
                decision.buffer.name,
                decision.buffer.loc,
                {"tile_bytes": decision.bytes, "used_bytes": used_bytes, "budget_bytes": budget},
            )
        else:
            used_bytes += decision.bytes
    return decisions


def _read_write_buffers(program: Program) -> list[Buffer]:
    """The buffers that a program both reads and writes, by their declarations."""
    return [buffer for buffer in program.buffers.values() if buffer.access is AccessMode.READ_WRITE]


def _declaration_refusal(buffer: Buffer, program: Program, uses: PipelineUses | None) -> Refusal | None:
    """Why a buffer is ruled out whatever its accesses: its declaration, or its use in a pipeline."""
    name = f"@{buffer.name}"
    if buffer.live_in or buffer.live_out:
        flag = "live_in" if buffer.live_in else "live_out"
        reason = "the host sees it"
        if uses is not None and uses.launches[program.name] and not _is_seen_by_host(buffer, program, uses):
            reason = (
                f"what it holds {'before' if buffer.live_in else 'after'} a launch of @{program.name} counts"
            )
        return Refusal(flag.replace("_", "-"), f"{name} is {flag}: {reason}", buffer.name, buffer.loc)
    if buffer.dimensions > 1:
        message = f"{name} has {buffer.dimensions} dimensions: tiles are made of buffers of one"
        return Refusal("dimensions", message, buffer.name, buffer.loc)
    if buffer.dtype.element_bytes is None:
        return Refusal("unsized", f"elements of {buffer.dtype} have no static size", buffer.name, buffer.loc)
    if buffer.count is None and not _is_sized_by_pipelines(buffer, program, uses):
        return Refusal(
            "open-size", f"{name} has an open size, and its length is used", buffer.name, buffer.loc
        )
    if buffer.size_bytes == 0:
        return Refusal("empty", f"{name} has no elements", buffer.name, buffer.loc)
    return _pipeline_refusal(buffer, program, uses) if uses is not None else None


def _is_sized_by_pipelines(buffer: Buffer, program: Program, uses: PipelineUses | None) -> bool:
    """Whether pipelines fix the length of a buffer of open size, and the program has no `len` of it."""
    if buffer.binding is None or uses is None or not uses.launches[program.name]:
        return False
    return not any(op.name == "len" and op.attrs["buffer"] == buffer.name for op in program.walk())


def _is_seen_by_host(buffer: Buffer, program: Program, uses: PipelineUses) -> bool:
    """Whether a pipeline passes a buffer that its caller sees or that the host reads."""
    argument = program.bound_buffers.index(buffer)
    arguments = ((pipeline, launch.buffers[argument]) for pipeline, launch in uses.launches[program.name])
    return any(
        is_host_visible(pipeline.buffers[name]) or name in uses.host[pipeline] for pipeline, name in arguments
    )


def _pipeline_refusal(buffer: Buffer, program: Program, uses: PipelineUses) -> Refusal | None:
    """A refusal if the host or another launch uses the pipeline's buffer that is passed for `buffer`."""
    if buffer.binding is None:
        return None
    argument = program.bound_buffers.index(buffer)
    for pipeline, launch in uses.launches[program.name]:
        name = launch.buffers[argument]
        if name in uses.demanded[pipeline]:
            message = f"@{buffer.name} is @{name} in pipeline @{pipeline.name}, whose length may be another than is demanded"
            return Refusal("demanded", message, buffer.name, launch.loc)
        host_visible = is_host_visible(pipeline.buffers[name])
        if host_visible or uses.counts[pipeline][name] > 1:
            host = host_visible or name in uses.host[pipeline]
            user = "the host reads" if host else "another launch uses"
            message = f"@{buffer.name} is @{name} in pipeline @{pipeline.name}, which {user}"
            return Refusal("host-use" if host else "shared", message, buffer.name, launch.loc)
    return None


def _decide_buffer(
    decision: HandoffDecision,
    program: Program,
    footprints: Footprints,
    verdict: TileProof | Refusal | None,
    narrow: bool,
) -> None:
    """Set the tile of a transient buffer, or the refusal if its accesses do not allow one."""
    buffer = decision.buffer
    kernel = next((op for op in footprints.kernels if buffer.name in op.attrs["buffers"]), None)
    if kernel is not None:
        message = f"@{buffer.name} is used by {kernel.name}; run expand_kernels first"
        decision.refusal = Refusal("named-kernel", message, buffer.name, kernel.loc)
        return
    if verdict is None:  # no op uses it
        decision.dtype, decision.count = buffer.dtype, buffer.count or 0
        if buffer.count is None:
            decision.refusal = Refusal("unused", f"no op uses @{buffer.name}", buffer.name, buffer.loc)
        return
    sync = _grid_sync(program)
    if sync is not None:
        message = (
            f"@{buffer.name}: the program synchronises its whole grid, so workgroups may exchange values"
        )
        decision.refusal = Refusal("grid-wide", message, buffer.name, sync.loc)
    elif isinstance(verdict, Refusal):
        decision.refusal = verdict
    else:
        decision.local = verdict
        narrowed = narrow_element(buffer, verdict, footprints.affine.ranges) if narrow else None
        decision.dtype = narrowed or buffer.dtype
        decision.count = verdict.extent.high - verdict.extent.low + 1 if verdict.extent else buffer.count or 0
        decision.is_unordered = stores_overlap(verdict, program.grid)


def _grid_sync(program: Program) -> Op | None:
    return next(
        (op for op in program.walk() if op.name == "barrier" and op.attrs["scope"] in BEYOND_WORKGROUP),
        None,
    )


@register
class DecodeScanFuse(Pass):
    name = "decode_scan_fuse"
    summary = "Move a hand-off that stays within each workgroup from storage to a workgroup tile."
    per_item = True
    invalidates = ("buffer_layout", "fusion")
    needs_core_ops = True
    Options = FuseOptions

    def run(self, module: Module, ctx: PassContext) -> bool:
        budget = self.options.budget or workgroup_budget(ctx.target)
        changed = declare_demands(module)
        uses = PipelineUses(module)
        for program in ctx.programs(module):
            decisions = decide(program, uses, budget, self.options.narrow, ctx.analyses)
            names = ", ".join(f"@{d.buffer.name}" for d in decisions) or "none"
            ctx.debug(
                "buffers that may hand over: {}; {} bytes of tiles allowed", names, budget, loc=program.loc
            )
            promoted = [d for d in decisions if d.promoted]
            before = [
                replace(d, buffer=replace(d.buffer)) for d in decisions
            ]  # `_promote` changes the buffers
            if promoted and not _promote(ctx, program, promoted, uses):
                promoted, before = [], [d for d in before if not d.promoted]
            for decision in before:
                _remark(ctx, program, decision)
            changed |= bool(promoted)
            ctx.count("buffers promoted", len(promoted))
        return changed


def _promote(
    ctx: PassContext,
    program: Program,
    promoted: Sequence[HandoffDecision],
    uses: PipelineUses,
) -> bool:
    """Make tiles of buffers, and drop them from the launches; False if the check of the result fails."""
    bound = program.bound_buffers
    before, _ = copy_program(program, None)
    checks, storage = _add_checks(program, promoted, uses)
    dropped_buffers = [d.buffer for d in promoted if d.buffer.name not in storage]
    arguments = sorted((bound.index(buffer) for buffer in dropped_buffers if buffer in bound), reverse=True)
    tiles = [(d.buffer, d.local, d.dtype or d.buffer.dtype, d.count) for d in promoted]
    promote_to_tile(program, tiles, ctx.analyses.get(Footprints, program))
    refusal = check_tiles(program, [d.buffer.name for d in promoted])
    if refusal is not None:
        refuse_result(ctx, [program.name], refusal, program.loc)
        ctx.put_back(program, before)
        return False
    for argument in arguments:
        uses.drop(program, argument)
    ctx.count("checks of bounds", checks)
    return True


def _add_checks(
    program: Program, promoted: Sequence[HandoffDecision], uses: PipelineUses
) -> tuple[int, dict[str, Buffer]]:
    """Keep the faults of accesses out of bounds of the storage.

    A load needs no check if all indices have one type: a store to the same index has faulted before it.  A buffer whose
    length no other buffer has keeps its storage for `len` alone; nothing accesses it.

    Returns the number of checks, and the remaining storage by the buffers' names.
    """
    lengths = LaunchedLengths(program, uses)
    accesses: set[Op] = set()
    for proof in (d.local for d in promoted if d.local is not None):
        has_one_type = len({access.op.index.type for access in proof.accesses}) == 1
        accesses |= {access.op for access in proof.accesses if access.is_write or not has_one_type}
    storage_buffers: dict[str, Buffer] = {}

    def length(buffer: Buffer, dimension: int) -> Extent:
        source = lengths(buffer, dimension)
        if source != buffer.length(dimension):
            return source
        if buffer.name not in storage_buffers:
            name = fresh_name(f"{buffer.name}_storage", program.buffers)
            storage_buffers[buffer.name] = program.buffers[name] = replace(buffer, name=name, binding=None)
        return storage_buffers[buffer.name].length(dimension)

    checks = add_checks(program, accesses, length)
    measured = {op.attrs["buffer"] for op in program.walk() if op.name == "len"}
    for name, storage in list(storage_buffers.items()):
        if storage.name in measured:
            storage.binding = program.buffers[name].binding
        else:  # all checks that needed its length were proven
            del program.buffers[storage.name], storage_buffers[name]
    return checks, storage_buffers


def _remark(ctx: PassContext, program: Program, decision: HandoffDecision) -> None:
    buffer, refusal = decision.buffer, decision.refusal
    facts: dict[str, Any] = {"program": program.name, "buffer": buffer.name}
    if refusal is not None:
        facts |= {"reason": refusal.reason, **refusal.facts}
        ctx.remark("refused", refusal.message, refusal.loc or buffer.loc, **facts)
        return
    storage = (
        "storage of open size becomes"
        if buffer.count is None
        else f"{buffer.size_bytes} bytes of storage become"
    )
    saving = f"{storage} a tile of {decision.bytes} bytes a workgroup"
    facts |= {
        "claim": "tile",
        "storage_bytes": buffer.size_bytes,
        "tile_bytes": decision.bytes,
        "tile_count": decision.count,
    }
    if decision.local is None:
        ctx.remark("applied", f"@{buffer.name}: {saving}; no op touches it", buffer.loc, **facts)
        return
    facts |= decision.local.certificate()
    orders = sorted(set(decision.local.order.values()))
    proof = f"each read is covered by its workgroup's own writes ({', '.join(orders) or 'no reads'})"
    narrowed = f", as {decision.dtype}" if decision.dtype is not buffer.dtype else ""
    base = f"base {decision.local.base}" if decision.local.base.terms else "base 0"
    ctx.remark("applied", f"@{buffer.name}: {saving}{narrowed} ({base}); {proof}", buffer.loc, **facts)
    if decision.is_unordered and decision.local is not None:
        store = next(access for access in decision.local.accesses if access.is_write)
        message = (
            f"@{buffer.name}: as written, workgroups store to the same elements ({store.describe()}) with no "
            "order between them, which is a race if there is more than one; now each has its own"
        )
        facts = {"program": program.name, "buffer": buffer.name, "reason": "unordered-stores"}
        ctx.remark("note", message, store.op.loc, **facts)
