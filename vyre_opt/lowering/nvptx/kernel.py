"""Programs -> LLVM IR for NVIDIA GPUs: one kernel a program, many in a module.

This file has what surrounds the ops: checks against the GPU's limits, parameters, workgroup memory
and symbols.  The package's docstring lists the files that write the ops.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import prod

from ...analysis.alignment import Alignment
from ...analysis.bounds import BoundsProofs
from ...ir.call_graph import call_order, check_inlined_ops
from ...ir.diagnostics import Diagnostic, DiagnosticError
from ...ir.lowered_ops import WARPGROUP_MUL_ADD
from ...ir.program import Block, Buffer, Func, Op, Program, Value
from ...records import dataclass
from ..common import conversions
from ..common.compile_cost import GPU, check_compile_cost, inlined_costs
from ..common.line_tables import LineTable
from ..common.llvm_text import ModuleText
from ..common.spec_values import spec_values
from . import bulk_copies
from .abi import ALIGNMENT, EntryPoint, KernelParam, Unit, storage_buffers
from .atomics import ATOMIC_OPS
from .barriers import BARRIER_OPS
from .checks import check_ahead
from .control import CONTROL_OPS, has_positive_step
from .copies import COPY_OPS
from .copy_runs import FIRST as FIRST_WITH_BULK_COPIES
from .copy_runs import copy_runs
from .exchange import begin
from .faults import fault_blocks
from .function_emitter import BufferRef, Elements, FunctionEmitter, KernelContext
from .legalization import legal_unit
from .matrices import FIRST, MATRIX_OPS, why_no_product
from .memory import MEMORY_OPS
from .replicas import NeedsFence, Replicas, object_bytes, own_bytes, own_elements, replicas
from .subgroup_atomics import aggregated
from .subgroup_loads import declare_tile
from .subgroup_ops import SUBGROUP_OPS
from .targets import STATIC_SHARED_BYTES, GpuTarget
from .values import VALUE_OPS
from .warpgroups import ATOM_BYTES, panelled
from .wgmma import WARPGROUP_OPS

__all__ = ["LoweredModule", "lower"]

TRIPLE = "nvptx64-nvidia-cuda"
LAYOUT = "e-p3:32:32-p4:32:32-p5:32:32-p6:32:32-p7:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"

LONG_CHAIN = 64
"""Integer ops that follow from one another, beyond which code is generated without LLVM's combination of instructions.
Its time grows with the square of such a chain: 13 s for 2,098 `mul_hi`, 35 s for 1,000 sums.  ptxas combines them itself."""

MUCH_ARITHMETIC = 2048
"""Elements of integer ops beyond which the same holds of shorter chains, side by side."""

_INTEGER_FORMATS = frozenset({"binary", "unary", "select", "convert"})
"""Formats of the ops that both limits count."""

MAX_WORKGROUP = (1024, 1024, 64)


@dataclass(frozen=True, slots=True)
class LoweredModule:
    """The LLVM IR of a module and its kernels, in the order of the units.

    `is_flat`: no program has nested loops, calls or products of matrices.  `is_straight`: none has any loop, and no atomic, which may
    be one.  `combines_slowly`: code has to be generated without LLVM's combination of instructions.
    """

    text: str
    kernels: tuple[EntryPoint, ...]
    is_flat: bool
    is_straight: bool
    combines_slowly: bool


def lower(
    units: Sequence[Unit], target: GpuTarget, bounds: str = "none", debug_info: bool = False
) -> LoweredModule:
    """One LLVM module with a kernel for each unit.  `bounds` is one of `BOUNDS`.  `debug_info`: with line tables.

    What prints gets a buffer for its records; see `common.print_records`.  Raises DiagnosticError for what no GPU can
    run, located at the op or buffer to blame.
    """
    for module in {unit.module for unit in units if unit.module is not None}:
        check_inlined_ops([unit.program for unit in units if unit.module is module], module.funcs)
    units = [legal_unit(unit, target, bounds) for unit in units]
    for unit in units:
        check_compile_cost(unit.program, unit.module.funcs if unit.module else {}, GPU)
    lines = LineTable("DebugDirectivesOnly") if debug_info else None
    text = ModuleText(TRIPLE, LAYOUT, target.rounds_to_bf16, lines)
    text.metadata.append("!0 = !{}")
    symbols: set[str] = set()
    # All kernels get their symbols first, so that shared memory never takes a kernel's name
    names = [_symbol(unit.program.name, symbols) for unit in units]
    kernels = [
        _kernel(unit, target, bounds, text, name, symbols) for unit, name in zip(units, names, strict=True)
    ]
    is_flat = all(_is_flat(unit.program.body) for unit in units)
    loops = (
        op.name in ("for", "while") or "atomic" in op.definition.effects
        for unit in units
        for op in unit.program.walk()
    )
    is_straight = is_flat and not any(loops)
    combines_slowly = any(_combines_slowly(unit) for unit in units)
    return LoweredModule(text.text(), tuple(kernels), is_flat, is_straight, combines_slowly)


def _combines_slowly(unit: Unit) -> bool:
    """Whether the combination of integer instructions would take LLVM seconds.

    Much arithmetic beside products of warpgroups is combined in spite of that: without it LLVM leaves copies of sums between the products,
    which then wait for one another (4096^3 of bf16 with gelu on an H200: 277 us, and 210).
    """
    funcs = unit.module.funcs if unit.module else {}
    if _longest_chain(unit.program, funcs) > LONG_CHAIN:
        return True
    elements = inlined_costs(unit.program, funcs, _integer_elements)
    is_much = sum(n for _, n in elements) > MUCH_ARITHMETIC
    return is_much and not any(op.name == WARPGROUP_MUL_ADD.name for op in unit.program.walk())


def _integer_elements(op: Op) -> int:
    """The number of integers that an op computes, 0 for other ops."""
    is_counted = op.definition.format in _INTEGER_FORMATS and op.result.type.element.is_int
    return op.result.type.lanes if is_counted else 0


def _longest_chain(program: Program, funcs: Mapping[str, Func]) -> int:
    """The most integer ops that follow from one another, through calls and out of blocks."""
    of_funcs: dict[str, int] = {}
    depths: dict[Value, int] = {}

    def visit(block: Block) -> int:
        longest = 0
        for op in block.ops:
            depth = max((depths.get(value, 0) for value in op.operands), default=0)
            if op.name == "call":
                depth += of_funcs[op.attrs["callee"]]
            elif _integer_elements(op):
                depth += 1
            depth = max([depth, *map(visit, op.regions)])
            depths.update(dict.fromkeys(op.results, depth))
            longest = max(longest, depth)
        return longest

    for func in call_order(funcs)[0]:
        of_funcs[func.name] = visit(func.body)
    return visit(program.body)


def _is_flat(block: Block, in_loop: bool = False) -> bool:
    for op in block.ops:
        is_loop = op.name in ("for", "while")
        if op.name in ("call", "matrix_mul_add", WARPGROUP_MUL_ADD.name) or (is_loop and in_loop):
            return False
        if not all(_is_flat(region, in_loop or is_loop) for region in op.regions):
            return False
    return True


def _symbol(name: str, symbols: set[str]) -> str:
    """A valid PTX identifier for `name` that is not in `symbols` yet, to which it is added."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    if not plain[:1].isalpha() or plain == "WARP_SZ":  # the one word that PTX keeps for itself
        plain = f"k{plain}"
    symbol, number = plain, 1
    while symbol in symbols:
        number += 1
        symbol = f"{plain}_{number}"
    symbols.add(symbol)
    return symbol


# --- a kernel


def _kernel(
    unit: Unit, target: GpuTarget, bounds: str, text: ModuleText, symbol: str, symbols: set[str]
) -> EntryPoint:
    program = unit.program
    _check(program, target)
    funcs = unit.module.funcs if unit.module is not None else {}
    specs = spec_values(program, unit.specs)
    # accesses of cluster memory must be proven in any case: an element of a row goes to its owner alone
    proofs = BoundsProofs(program, specs, proves=bounds != "none" or _has_cluster_memory(program))
    faulting = frozenset(_faults(program, funcs, bounds, proofs))
    context = KernelContext(
        program=program,
        funcs=funcs,
        specs=specs,
        target=target,
        bounds=bounds,
        text=text,
        symbol=symbol,
        proven=proofs.proven,
        aggregated=aggregated(program) if target.has_redux else frozenset(),
        bases=proofs.bases,
        alignment=Alignment(program, specs),
        forms=proofs.forms,
        may_fault=bool(faulting),
        is_cluster=_is_cluster(program, target),
        replicas=_replicas(program, target, faulting, proofs),
    )
    if target.number >= FIRST_WITH_BULK_COPIES and not faulting:
        context.runs = copy_runs(program, proofs, context.alignment, clamps=bounds == "clamp")
    # `sites` is one list for both: it fills while the ops are written
    kernel = EntryPoint(program, symbol, sites=context.sites)
    params = _declare(context, kernel)
    _workgroup_memory(context, kernel, symbols)
    emitter = FunctionEmitter(context)
    emitter.w.at(program.loc)
    if context.replicas is not None:
        begin(emitter)
    if context.runs is not None:
        bulk_copies.begin(emitter)
    _run_block(emitter, program.body)
    if context.runs is not None:
        bulk_copies.drain(emitter)
    emitter.w.line("ret void")
    fault_blocks(emitter)
    declare_tile(emitter)
    x, y, z = program.workgroup
    attributes = f'"nvvm.reqntid"="{x},{y},{z}"'
    if program.cluster or context.is_cluster:
        shape = (program.cluster, 1, 1) if program.cluster else program.grid or ()
        attributes += f' "nvvm.cluster_dim"="{",".join(map(str, shape))}"'
    text.define(
        symbol,
        f"define ptx_kernel void @{symbol}({', '.join(params)}) {attributes} {{\nentry:\n{emitter}\n}}",
        program.name,
    )
    return kernel


def _is_cluster(program: Program, target: GpuTarget) -> bool:
    """Whether the whole grid can be launched as one cluster: it is fixed, small enough, and has a grid
    barrier, which is then an instruction, and the hardware makes all workgroups resident at once."""
    if program.cluster is not None:
        return program.grid == (program.cluster, 1, 1)
    return _has_grid_barrier(program) and program.grid is not None and prod(program.grid) <= target.cluster


def _replicas(
    program: Program, target: GpuTarget, faulting: Collection[Op], proofs: BoundsProofs
) -> Replicas | None:
    has_cluster_memory = _has_cluster_memory(program)
    if not has_cluster_memory and (program.cluster is not None or not _is_cluster(program, target)):
        return None
    try:
        return replicas(program, target, faulting, proofs)
    except NeedsFence as reason:
        if not has_cluster_memory:
            return None
        is_access = isinstance(reason.at, Op) and reason.at in faulting and "buffer" in reason.at.attrs
        help = "make it one that surely is in bounds, or run with bounds clamped" if is_access else None
        raise _error(program, str(reason), reason.at, help) from None


def _has_cluster_memory(program: Program) -> bool:
    return any(buffer.is_cluster for buffer in program.buffers.values())


def _has_grid_barrier(program: Program) -> bool:
    return any(op.attrs.get("scope") == "grid" for op in program.walk())


def _error(
    program: Program, message: str, at: Program | Buffer | Op, help: str | None = None
) -> DiagnosticError:
    return DiagnosticError([Diagnostic("error", f"program @{program.name}: {message}", at.loc, help=help)])


def _check(program: Program, target: GpuTarget) -> None:
    for size, limit, axis in zip(program.workgroup, MAX_WORKGROUP, "xyz", strict=True):
        if size > limit:
            message = f"a workgroup of {size} along {axis}; a GPU takes up to {limit}"
            raise _error(program, message, program)
    if program.lanes > 1024:
        message = f"a workgroup of {program.lanes} invocations; a GPU takes up to 1024"
        raise _error(program, message, program)
    for buffer in program.buffers.values():
        if buffer.dtype.element.size_bytes not in (1, 2, 4, 8):
            message = f"buffer @{buffer.name}: no kernel moves elements of {buffer.dtype}"
            raise _error(program, message, buffer)
    if (program.cluster or 1) > target.cluster:
        has = f"of up to {target.cluster} workgroups" if target.cluster > 1 else "none"
        message = f"clusters of {program.cluster} workgroups; {target.name} has {has}"
        raise _error(program, message, program)
    for op in program.walk():
        if (
            program.cluster is not None
            and program.grid != (program.cluster, 1, 1)
            and op.attrs.get("scope") == "grid"
        ):
            raise _error(
                program, "a grid barrier in a program of several clusters is not lowered for GPUs", op
            )
        if op.definition.kernel is not None:
            help = "run the pass expand_kernels first; it writes the kernel out at a schedule"
            raise _error(program, f"the named kernel {op.name} is not lowered as it is", op, help)
        if op.name == "matrix_load" and target.number < FIRST:
            raise _error(
                program, f"matrices in workgroup memory need sm_{FIRST} or later, not {target.name}", op
            )
        if op.name == "matrix_mul_add" and (reason := why_no_product(op.attrs["element"], target)):
            raise _error(program, reason, op)


def _faults(program: Program, funcs: Mapping[str, Func], bounds: str, proofs: BoundsProofs) -> Iterator[Op]:
    """The ops in which an invocation may end in a fault: if there are any, the kernel takes a status record."""
    checks = bounds == "trap"
    for block in (program.body, *(func.body for func in funcs.values())):
        for op in block.walk():
            is_checked = "fault" in op.definition.effects or ("buffer" in op.attrs and bool(op.operands))
            is_unproven = is_checked and op not in proofs.proven
            is_unsure_step = op.name == "for" and not has_positive_step(op, proofs.forms)
            if "trap" in op.definition.effects or (checks and (is_unproven or is_unsure_step)):
                yield op


# --- parameters


def _declare(context: KernelContext, kernel: EntryPoint) -> list[str]:
    """The parameters as LLVM text; fills in `kernel.params` and the storage buffers of `context.buffers`."""
    program = context.program
    ops = list(program.walk())
    written_buffers = {
        op.attrs["buffer"] for op in ops if "write" in op.definition.effects and "buffer" in op.attrs
    }
    has_barrier = any(op.name == "barrier" for op in ops)
    kernel.is_cooperative = _has_grid_barrier(program) and not context.is_cluster
    pointers: list[str] = []
    lengths: list[str] = []
    params: list[KernelParam] = []
    for number, buffer in enumerate(storage_buffers(program)):
        is_constant = buffer.name not in written_buffers
        attributes = _attributes(is_constant, has_barrier)
        pointers.append(f"ptr addrspace(1) {attributes} %b{number}")
        params.append(KernelParam("buffer", buffer.name))
        count = str(buffer.count)
        if buffer.count is None:
            count = f"%n{number}"
            lengths.append(f"i64 {count}")
        context.buffers[buffer.name] = BufferRef(f"%b{number}", 1, count, is_constant)
    params += [KernelParam("length", b.name) for b in storage_buffers(program) if b.count is None]
    for number, name in enumerate(sorted(program.params)):
        context.params[name] = f"%p{number}"
        params.append(KernelParam("scalar", name))
    extra: list[str] = []
    if context.may_fault:
        extra.append("ptr addrspace(1) align 16 %status")
        extra.append("i64 %call")
        params += [KernelParam("status"), KernelParam("call")]
    if kernel.is_cooperative:
        extra.append("ptr addrspace(1) align 16 %arrivals")
        params.append(KernelParam("arrivals"))
    kernel.params = tuple(params)
    scalars = [f"i64 {name}" for name in context.params.values()]
    return [*pointers, *lengths, *scalars, *extra]


def _attributes(is_constant: bool, has_barrier: bool) -> str:
    """Parameter attributes of a storage buffer.

    The launcher guarantees that buffers never overlap.  But LLVM assumes that no callee, a barrier
    included, touches memory behind a `noalias` pointer, and would keep a value in a register across
    a barrier while another invocation changes it.  So a written buffer is `noalias` only in a
    program without barriers.
    """
    if is_constant:
        return f"noalias readonly align {ALIGNMENT}"
    return f"align {ALIGNMENT}" if has_barrier else f"noalias align {ALIGNMENT}"


# --- workgroup memory


def _workgroup_memory(context: KernelContext, kernel: EntryPoint, symbols: set[str]) -> None:
    """Allocate the workgroup buffers and the replicas, 16-byte aligned or more: statically up to 48 KiB in all, dynamically above.

    Raises DiagnosticError, located at the largest one, if the GPU has less.
    """
    replicas = context.replicas
    replicated = replicas.buffers if replicas is not None else frozenset()
    rows = replicas.rows if replicas is not None else {}
    tiles = [b for b in context.program.buffers.values() if b.is_workgroup or b.name in replicated]
    in_panels = panelled(context.program)
    alignments = [ATOM_BYTES if tile.name in in_panels else ALIGNMENT for tile in tiles]
    offsets: list[int] = []
    total = 0
    for tile, alignment in zip(tiles, alignments, strict=True):
        offsets.append(-(-total // alignment) * alignment)  # each starts aligned, for wide accesses
        total = offsets[-1] + own_bytes(tile, rows)
    if total > context.target.shared_bytes:
        limit = f"{context.target.name} has {context.target.shared_bytes} for a workgroup"
        message = f"its workgroup buffers take {total} bytes; {limit}"
        largest = max(tiles, key=lambda tile: own_bytes(tile, rows))
        help = "keep less at a time: smaller tiles, or blocks of less depth in a loop"
        raise _error(context.program, message, largest, help)
    objects = 0
    if replicas is not None:
        objects = object_bytes(replicas.workgroups, bool(rows))
        context.mailbox = _objects(context, "mailbox", objects)
    ring_bytes = 0 if context.runs is None else bulk_copies.ring_bytes(context.runs)
    if total + objects + ring_bytes > context.target.shared_bytes:
        context.runs = None
    elif context.runs is not None:
        context.ring, objects = _objects(context, "ring", ring_bytes), objects + ring_bytes
    context.free_shared = max(0, STATIC_SHARED_BYTES - total - objects)
    base = ""
    if total + objects > STATIC_SHARED_BYTES:
        base = f"@{_symbol(f'{context.symbol}_shared', symbols)}"  # external: LLVM leaves the name as it is
        kernel.dynamic_shared = total
        context.text.globals.append(
            f"{base} = external addrspace(3) global [0 x i8], align {max(alignments)}"
        )
    for number, (tile, offset, alignment) in enumerate(zip(tiles, offsets, alignments, strict=True)):
        pointer = f"getelementptr (i8, ptr addrspace(3) {base}, i32 {offset})" if offset else base
        if not base:
            pointer = f"@{context.symbol}.tile.{number}"
            kind = f"[{_scalars(tile, rows)} x {conversions.memory_type(tile.dtype.element)}]"
            context.text.globals.append(
                f"{pointer} = internal addrspace(3) global {kind} undef, align {alignment}"
            )
        has_replicas, row = tile.name in replicated, rows.get(tile.name, 0)
        context.buffers[tile.name] = BufferRef(pointer, 3, str(tile.count or 0), False, has_replicas, row)


def _objects(context: KernelContext, name: str, size: int) -> str:
    """The pointer to `size` bytes of objects on which invocations wait."""
    pointer = f"@{context.symbol}.{name}"
    kind = f"[{size} x i8]"
    context.text.globals.append(f"{pointer} = internal addrspace(3) global {kind} undef, align {ALIGNMENT}")
    return pointer


def _scalars(tile: Buffer, rows: Mapping[str, int]) -> int:
    """Scalars of a tile that a workgroup has."""
    return own_elements(tile, rows) * tile.dtype.lanes


# --- ops

_OPS: dict[str, Callable[[FunctionEmitter, Op], None]]
_OPS = {
    **VALUE_OPS,
    **MEMORY_OPS,
    **ATOMIC_OPS,
    **SUBGROUP_OPS,
    **BARRIER_OPS,
    **COPY_OPS,
    **MATRIX_OPS,
    **WARPGROUP_OPS,
}


def _run_block(emitter: FunctionEmitter, block: Block) -> list[Elements]:
    """Write the ops of a block; returns the values that it yields."""

    def write(op: Op) -> None:
        w.at(op.loc)
        (_OPS.get(op.name) or _OPS[op.definition.format])(emitter, op)

    w, emitted = emitter.w, set[Op]()
    around = w.at(None)
    for index, op in enumerate(block.ops):
        row = op.definition
        if row.is_terminator:
            w.at(around)
            return [emitter.get(value) for value in op.operands]
        w.at(op.loc)
        if row.name in CONTROL_OPS:
            CONTROL_OPS[row.name](emitter, op, _run_block)
        elif op not in emitted:
            if op.name == "load":
                emitted |= check_ahead(emitter, block, index, write)
            write(op)
    w.at(around)
    return []
