"""Atomics in workgroup memory: each workgroup counts for itself, and adds what it has counted once.

    program @p, over n workgroups             over fewer; it knows n

      body                                      @private = 0 for all elements
      atomic_add @bins[%b], %v                  barrier
                                                for %g = workgroup_id to %groups step num_workgroups {
                                                  body as workgroup %g, with atomic_add @private[%b], %v
                                                }
                                                barrier
                                                atomic_add @bins[%k], @private[%k] for all elements

A buffer may be private if the program uses it only by one kind of atomic that may be regrouped (see analysis/regrouping.py),
with unused results.  Then the order and number of its updates cannot be observed.

A copy begins with the neutral element that changes no bit of any element: -0.0 for a sum of floats, a NaN for a minimum.
Only elements that differ from it, bit by bit, are added to the buffer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..analysis.buffer_layout import BufferLayout
from ..analysis.refusal import Refusal
from ..analysis.regrouping import counted_buffers, may_regroup
from ..fusion.group_count import GroupCount
from ..fusion.halo_recompute import OpEmitter
from ..fusion.independence import order_refusal
from ..fusion.workgroup_ids import ids_of, replace_ids
from ..ir import arith
from ..ir.builder import Builder
from ..ir.program import AccessMode, Block, Op, Program, Value
from ..ir.rewrite import clone, fresh_name
from ..ir.types import DataType
from ..rewriting.walker import Walker

__all__ = ["MAX_PRIVATE_BYTES", "privatize"]

MAX_PRIVATE_BYTES = 1 << 14
"""The most bytes of a workgroup's copies: eight such workgroups fit a multiprocessor."""

_NO_BUFFER = (
    "has no buffer of one dimension and of a known length with which it does nothing but one relaxed atomic at unsigned "
    "indices, of integers or a minimum, a maximum or a sum with fastmath<reassoc> of floats, whose old values nobody takes"
)


def privatize(
    program: Program, counts: Mapping[str, int], groups: GroupCount, in_order: bool = False
) -> Program | Refusal:
    """A program over any number of workgroups along x that is equivalent to `program` over n of them.

    `counts`: elements of the bound buffers, as far as they are known.  `groups`: source of n.  `in_order`: a workgroup
    takes consecutive original workgroups, so that a target which runs its workgroups in sequence touches memory in order.
    Otherwise concurrent workgroups take adjacent ones.
    """
    refusal = order_refusal(program, "privatize")
    if refusal is not None:
        return refusal
    kinds = {name: kind for name, kind in _kinds(program).items() if name in counts}
    size = sum(counts[name] * (program.buffers[name].dtype.bits or 0) // 8 for name in kinds)
    shared_memory = any(buffer.is_workgroup for buffer in program.buffers.values())
    if shared_memory:
        size += BufferLayout(program).workgroup
    if not kinds or size > MAX_PRIVATE_BYTES:
        reason = (
            f"would have {size} bytes in workgroup memory, more than {MAX_PRIVATE_BYTES}"
            if kinds
            else _NO_BUFFER
        )
        return Refusal("privatize", f"@{program.name} {reason}", loc=program.loc)
    copies = {name: replace(buffer) for name, buffer in program.buffers.items()}
    b = Builder.on(replace(program, grid=None, buffers=copies, params=groups.params(program), body=Block()))
    b.loc = program.loc
    number = groups.emit(OpEmitter(b.program.body.ops, program.loc), program)
    if isinstance(number, Refusal):
        return number
    lane = _lane(b)
    private = _add_copies(b, kinds, counts, lane)
    b.barrier()
    lower, upper, step = _turns(b, number, in_order)
    with b.for_(lower, upper, step) as loop:
        turn = loop.blocks[0].ops
        body = _body(program, loop.index, number, turn)
        _Redirector(b, counts, private).walk_block(body)
        turn += body.ops
        if any(op.name == "copy_async" for op in program.walk()):
            b.copy_wait(0)
        if in_order or shared_memory:  # the next turn reuses the workgroup memory
            b.barrier()
    b.barrier()
    _merge_copies(b, kinds, private, counts, lane)
    return b.program


def _add_copies(
    b: Builder, kinds: Mapping[str, str], counts: Mapping[str, int], lane: Value
) -> dict[str, str]:
    """Add a copy of each buffer in workgroup memory, filled with the neutral element; return their names."""
    private: dict[str, str] = {}
    for shared, kind in kinds.items():
        private[shared] = fresh_name(f"{shared}.private", b.program.buffers)
        dtype = b.program.buffers[shared].dtype
        b.buffer(private[shared], dtype, counts[shared], AccessMode.WORKGROUP.value)
        with b.for_(lane, counts[shared], b.program.lanes) as loop:
            neutral = _neutral(kind, dtype)
            start = arith.decode_float(neutral, dtype) if dtype.is_float else neutral
            b.store(b.const(start, dtype), private[shared], loop.index)
    return private


def _merge_copies(
    b: Builder, kinds: Mapping[str, str], private: Mapping[str, str], counts: Mapping[str, int], lane: Value
) -> None:
    """Add the elements of the copies that differ from the neutral element to the buffers, by atomics."""
    for shared, kind in kinds.items():
        dtype = b.program.buffers[shared].dtype
        with b.for_(lane, counts[shared], b.program.lanes) as loop:
            total = b.load(private[shared], loop.index)
            bits = DataType.of(f"u{dtype.bits}")
            neutral = b.const(arith.to_bits(_neutral(kind, dtype), dtype), bits)
            with b.if_(b.ne(b.bitcast(total, bits), neutral)):
                flags = {"fastmath": ("reassoc",)} if kind == "atomic_add" and dtype.is_float else {}
                getattr(b, kind)(shared, loop.index, total, **flags)


def _neutral(kind: str, dtype: DataType) -> int:
    return arith.neutral(kind.removeprefix("atomic_"), dtype)


def _kinds(program: Program) -> dict[str, str]:
    """Buffers that may be private, each with its kind of atomic."""
    signed = {op.attrs["buffer"] for op in program.walk() if may_regroup(op) and op.index.type.is_signed}
    return {
        name: kind
        for name, kind in counted_buffers(program).items()
        if name not in signed
        and program.buffers[name].binding is not None
        and program.buffers[name].dimensions == 1
    }


def _lane(b: Builder) -> Value:
    """The linear local id."""
    width, height, depth = b.program.workgroup
    lane: Value = b.local_id("x")
    if height > 1:
        lane = b.add(lane, b.mul(b.local_id("y"), width))
    return b.add(lane, b.mul(b.local_id("z"), width * height)) if depth > 1 else lane


def _turns(b: Builder, groups: Value, in_order: bool) -> tuple[Value, Value, Value | int]:
    """Lower bound, upper bound and step of the original workgroups that a workgroup takes."""
    number, workgroups = b.workgroup_id("x"), b.num_workgroups("x")
    if not in_order:
        return number, groups, workgroups
    each = b.div(b.add(groups, b.sub(workgroups, 1)), workgroups)
    first = b.mul(number, each)
    return first, b.min(b.add(first, each), groups), 1


def _body(program: Program, group: Value, groups: Value, out: list[Op]) -> Block:
    """The body of the program, run as workgroup `group`; ops for its ids go to `out`."""
    emit = OpEmitter(out, program.loc)
    local = emit.identity("local_id", "local")
    body = Block((), clone(program.body.ops, {}))
    replace_ids(body, ids_of(emit, group, groups, program.workgroup[0], local))
    return body


class _Redirector(Walker):
    """Redirects atomics to private copies, with a bounds check that reports the original buffer and op."""

    def __init__(self, b: Builder, counts: Mapping[str, int], private: Mapping[str, str]) -> None:
        super().__init__()
        self.b, self.counts, self.private = b, counts, private

    def visit(self, op: Op, out: list[Op]) -> None:
        name = str(op.attrs.get("buffer"))
        if name not in self.private or op.name == "len":
            out.append(op)
            return
        b, block = self.b, Block()
        b.loc = op.loc
        with b.at(block):
            index = b.cast(op.index, DataType.U64)
            b.check_bounds(op.name, name, index, self.counts[name])
        op.attrs = {**op.attrs, "buffer": self.private[name]}
        out += [*block.ops, op]
