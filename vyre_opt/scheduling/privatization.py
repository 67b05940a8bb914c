"""Atomics in workgroup memory: each workgroup counts for itself, and adds what it has counted once.

    program @p, over n workgroups             over fewer; it knows n

      body                                      @private = 0 for all elements
      atomic_add @bins[%b], %v                  barrier
                                                for %g = workgroup_id to %groups step num_workgroups {
                                                  body as workgroup %g, with atomic_add @private[%b], %v
                                                }
                                                barrier
                                                atomic_add @bins[%k], @private[%k] for all elements

A buffer may be so if all that a program does with it is one atomic that may be regrouped (see analysis/regrouping.py), whose
old values nobody takes.  Then nobody can tell in which order, and in how many steps, its elements came to be.

A copy begins with what changes no bit of any element: -0.0 for a sum of floats, a NaN for a minimum of them.  Only what is no
longer that, bit by bit, is added to the buffer.
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
"""Most bytes of a workgroup's copies: eight such workgroups fit a multiprocessor."""

_NO_BUFFER = (
    "has no buffer of one dimension and of a known length with which it does nothing but one relaxed atomic at unsigned "
    "indices, of integers or a minimum, a maximum or a sum with fastmath<reassoc> of floats, whose old values nobody takes"
)


def privatize(
    program: Program, counts: Mapping[str, int], groups: GroupCount, in_order: bool = False
) -> Program | Refusal:
    """The program over any number of workgroups along x that does what `program` does over n of them.

    `counts`: the elements of the bound buffers, as far as they are known.  `groups`: where it has n from.  `in_order`: each does the work of neighbouring
    workgroups, turn by turn for all its invocations, as it is best for a target that runs them one after the other: memory is
    touched in its order.  Otherwise neighbours work on neighbours at a time.
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
        why = (
            f"would have {size} bytes in workgroup memory, more than {MAX_PRIVATE_BYTES}"
            if kinds
            else _NO_BUFFER
        )
        return Refusal("privatize", f"@{program.name} {why}", loc=program.loc)
    copies = {name: replace(buffer) for name, buffer in program.buffers.items()}
    b = Builder.on(replace(program, grid=None, buffers=copies, params=groups.params(program), body=Block()))
    b.loc = program.loc
    number = groups.emit(OpEmitter(b.program.body.ops, program.loc), program)
    if isinstance(number, Refusal):
        return number
    lane = _lane(b)
    private: dict[str, str] = {}
    for shared, kind in kinds.items():
        private[shared] = fresh_name(f"{shared}.private", copies)
        dtype = copies[shared].dtype
        b.buffer(private[shared], dtype, counts[shared], AccessMode.WORKGROUP.value)
        with b.for_(lane, counts[shared], program.lanes) as loop:
            neutral = _neutral(kind, dtype)
            start = arith.decode_float(neutral, dtype) if dtype.is_float else neutral
            b.store(b.const(start, dtype), private[shared], loop.index)
    b.barrier()
    lower, upper, step = _turns(b, number, in_order)
    with b.for_(lower, upper, step) as loop:
        turn = loop.blocks[0].ops
        body = _body(program, loop.index, number, turn)
        _Redirected(b, counts, private).walk_block(body)
        turn += body.ops
        if any(op.name == "copy_async" for op in program.walk()):
            b.copy_wait(0)
        if in_order or shared_memory:  # of which the next turn makes use, too
            b.barrier()
    b.barrier()
    for shared, kind in kinds.items():
        dtype = copies[shared].dtype
        with b.for_(lane, counts[shared], program.lanes) as loop:
            counted = b.load(private[shared], loop.index)
            bits = DataType.of(f"u{dtype.bits}")
            untouched = b.const(arith.to_bits(_neutral(kind, dtype), dtype), bits)
            with b.if_(b.ne(b.bitcast(counted, bits), untouched)):
                flags = {"fastmath": ("reassoc",)} if kind == "atomic_add" and dtype.is_float else {}
                getattr(b, kind)(shared, loop.index, counted, **flags)
    return b.program


def _neutral(kind: str, dtype: DataType) -> int:
    return arith.neutral(kind.removeprefix("atomic_"), dtype)


def _kinds(program: Program) -> dict[str, str]:
    """The buffers that may be private, each with its atomic."""
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
    """The bounds and the step of the workgroups that one does the work of."""
    number, workgroups = b.workgroup_id("x"), b.num_workgroups("x")
    if not in_order:
        return number, groups, workgroups
    each = b.div(b.add(groups, b.sub(workgroups, 1)), workgroups)
    first = b.mul(number, each)
    return first, b.min(b.add(first, each), groups), 1


def _body(program: Program, group: Value, groups: Value, out: list[Op]) -> Block:
    """The body of the program as another workgroup, whose ids go to `out`."""
    emit = OpEmitter(out, program.loc)
    local = emit.identity("local_id", "local")
    body = Block((), clone(program.body.ops, {}))
    replace_ids(body, ids_of(emit, group, groups, program.workgroup[0], local))
    return body


class _Redirected(Walker):
    """Lets atomics go to the workgroup's own memory; one out of bounds is the fault of what the program says."""

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
