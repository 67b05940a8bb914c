"""Outlines parts of long blocks into functions, so that compile time grows linearly with their length.

Some of LLVM's passes take quadratic time in the length of a function, and worse in the number of
checked accesses, each of which may exit it and all loops around.  So a long block is cut
into parts; a part's function returns whether it ended in a fault.

    store <32 x float> %t7, ptr %slot.9              what the part reads, where it is wide
    %t12 = call i1 @vyre.part.11(ptr %b0, i64 %n0, ..., ptr %slot.9, ptr %slot.10)
    br i1 %t12, label %exit, label %next.13
  next.13:
    %t14 = load <32 x float>, ptr %slot.10           what others read of it
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence

from ...ir.program import Op, Value
from ...ir.rewrite import operands_within
from .function_builder import FLAGS
from .subgroup_emitter import SubgroupEmitter

__all__ = ["is_heavy", "weigh_ops", "write_block"]

CHECKED, LANES = 16, 8
"""Weight of a checked access or an assert, which may exit; and elements of an op's longest vector for a weight of 1."""

INSTRUCTIONS = 16
"""Instructions of weight 1, of an op on vectors that are held lane after lane."""

HEAVY = 16
"""The weight of one element of an op that is long code: a function, or one that vector units lack."""

_SHORT_FUNCTIONS = frozenset({"rcp", "rsqrt"})
_LONG_ON_INTEGERS = frozenset({"div", "rem", "mul_hi", "mul_sat"})

PART = 32 * CHECKED
"""The most that a part weighs; a block of up to twice as much stays whole."""

_NAME_USE = re.compile(r"%[A-Za-z][\w.]*")
_DEFINITION = re.compile(r"^  (%[\w.]+) = |^([\w.]+):$", re.MULTILINE)


def weigh_ops(ops: Sequence[Op], proven: Container[Op], registers: Mapping[Value, int]) -> dict[Op, int]:
    """The weight of each op with the ops nested in it; `ops` in the order of `Program.walk()`.

    `registers`: of the vectors that are held lane after lane, see lane_major_layout.
    """
    weights: dict[Op, int] = {}
    for op in reversed(ops):
        checked = op.name in ("assert", "check_bounds") or (
            "buffer" in op.attrs and op.operands and op not in proven
        )
        inside = sum(weights[inner] for block in op.regions for inner in block.ops)
        weights[op] = (CHECKED if checked else 0) + _own_weight(op, registers) + inside
    return weights


def _own_weight(op: Op, registers: Mapping[Value, int]) -> int:
    values = (*op.operands, *op.results)
    lanes = max([1, *(value.type.lanes for value in values)])
    together = max((registers.get(value, 0) for value in values), default=0)
    if op.name == "permute":  # some instructions for each 16 bytes of the table
        together *= 2 * -(-op.operands[0].type.lanes // 16)
    if is_heavy(op):
        return HEAVY * lanes
    return -(-together // INSTRUCTIONS) or -(-lanes // LANES)


def is_heavy(op: Op) -> bool:
    """Whether an op is long code for each element."""
    if op.name in _LONG_ON_INTEGERS:
        return op.results[0].type.element.is_int or op.name == "rem"
    return op.definition.ulp > 0 and op.name not in _SHORT_FUNCTIONS


def write_block(emitter: SubgroupEmitter, ops: Sequence[Op]) -> tuple[Value, ...]:
    """Write a block's ops; returns the operands of its terminator."""
    end = ops[-1] if ops and ops[-1].definition.is_terminator else None
    for is_part, run in _cut_block(emitter.builder.weights, ops if end is None else ops[:-1]):
        if is_part:
            _write_part(emitter, run)
        else:
            for op in run:
                emitter.op(op)
    emitter.lane_major.flush()
    return end.operands if end is not None else ()


def _cut_block(weights: Mapping[Op, int], ops: Sequence[Op]) -> list[tuple[bool, Sequence[Op]]]:
    """The ops of a block as consecutive runs, and whether each is to be outlined."""
    if sum(weights[op] for op in ops) <= 2 * PART:
        return [(False, ops)]
    runs: list[tuple[bool, Sequence[Op]]] = []
    run: list[Op] = []
    weight = 0
    for op in ops:
        if run and weight + weights[op] > PART:
            runs.append((True, run))
            run, weight = [], 0
        if weights[op] > PART:
            runs.append((not op.regions, [op]))  # blocks of its own are cut themselves
        else:
            run.append(op)
            weight += weights[op]
    return [*runs, (True, run)] if run else runs


def _write_part(emitter: SubgroupEmitter, ops: Sequence[Op]) -> None:
    """Write ops into a function of their own and call it: written in place first, then moved."""
    emitter.lane_major.flush()
    builder, w, on_define = emitter.builder, emitter.w, emitter.on_define
    lines, slots, block = len(w.lines), len(builder.slots), w.block
    # What the part defines can be stored only once it is back here, at the end
    emitter.on_define = lambda value: None
    # Phis in the part name the block that they are reached from
    w.block = "entry"
    unused_slots, builder.unused_slots = builder.unused_slots, {}  # those of the part's own frame
    for op in ops:
        emitter.op(op)
    emitter.lane_major.flush()
    emitter.on_define, w.block, builder.unused_slots = on_define, block, unused_slots
    body, allocas = w.lines[lines:], builder.slots[slots:]
    del w.lines[lines:], builder.slots[slots:]
    # Numbers follow the program, so any later use is outside of the part
    last = max(builder.numbers[op] for op in ops[-1].walk())
    results = [value for op in ops for value in op.results if builder.last_use(value) > last]
    in_registers = [value for value in results if emitter.held(value) is not None]  # the others are in memory
    _OutlinedPart(emitter, ops, [*allocas, *body]).call(in_registers)
    for value in results:
        on_define(value)


class _OutlinedPart:
    """A part with the lines `body`.  Names in them that are defined elsewhere become parameters."""

    def __init__(self, emitter: SubgroupEmitter, ops: Sequence[Op], body: list[str]) -> None:
        self.emitter, self.builder, self.w = emitter, emitter.builder, emitter.w
        self.body = body
        text = "\n".join(body)
        self.defined = {value or f"%{label}" for value, label in _DEFINITION.findall(text)} | {"%exit"}
        self.types = _types(emitter, ops)
        self.params: list[str] = []
        self.args: list[str] = []
        self.prologue: list[str] = []
        self.borrowed: list[tuple[str, str]] = []
        for name in dict.fromkeys(_NAME_USE.findall(text)):
            if name not in self.defined:
                self._add_input(name, self.types[name])

    def _param(self, kind: str, name: str, arg: str) -> None:
        attributes = " noalias" if name.startswith("%b") and kind == "ptr" else ""
        self.params.append(f"{kind}{attributes} {name}")
        self.args.append(f"{kind} {arg}")

    def _borrow(self, kind: str) -> str:
        slot = self.builder.borrow_slot(kind)
        self.borrowed.append((kind, slot))
        return slot

    def _add_input(self, name: str, kind: str) -> None:
        """Pass a value in: an i1 vector as one i32, other vectors through memory."""
        w = self.w
        if kind == FLAGS:
            word = w.fresh("in")
            self._param("i32", word, self.builder.mask_bits(name))
            self.prologue.append(f"  {name} = bitcast i32 {word} to {FLAGS}")
        elif kind.startswith("<"):
            slot = self._borrow(kind)
            self.builder.store(kind, name, slot)
            self._param("ptr", slot, slot)
            self.prologue.append(f"  {name} = load {kind}, ptr {slot}")
        else:
            self._param(kind, name, name)

    def _add_output(self, name: str, kind: str) -> str:
        """Pass a value out, through the stack slot that is returned."""
        word, stored_kind = self.w.fresh("out"), kind
        if kind == FLAGS:
            self.body.append(f"  {word} = bitcast {FLAGS} {name} to i32")
            name, stored_kind = word, "i32"
        slot = self._borrow(stored_kind)
        self.body.append(f"  store {stored_kind} {name}, ptr {slot}")
        self._param("ptr", slot, slot)
        return slot

    def call(self, results: Sequence[Value]) -> None:
        """Define the function and call it; `results` are the values that ops behind it use."""
        emitter, builder, w = self.emitter, self.builder, self.w
        held = {value: names for value in results if (names := emitter.held(value)) is not None}
        kinds = {value: emitter.held_kind(value) for value in held}
        slots = {
            name: self._add_output(name, kinds[value])
            for value, names in held.items()
            for name in names
            if name in self.defined
        }
        symbol = w.label("vyre.part")
        lines = [
            f"define internal i1 @{symbol}({', '.join(self.params)}) noinline nounwind {{",
            *("entry:", *self.prologue, *self.body, "  ret i1 false"),
            *("exit:", "  ret i1 true", "}"),
        ]
        builder.module.define(symbol, "\n".join(lines), builder.program.name)
        faulted, next_label = w.emit(f"call i1 @{symbol}({', '.join(self.args)})"), w.label("next")
        w.branch_if(faulted, "exit", next_label)
        w.start(next_label)
        for value, names in held.items():
            emitter.hold(
                value, [self._result(kinds[value], slots[name]) if name in slots else name for name in names]
            )
        builder.return_slots(self.borrowed)

    def _result(self, kind: str, slot: str) -> str:
        if kind != FLAGS:
            return self.builder.load(kind, slot)
        return self.w.emit(f"bitcast i32 {self.builder.load('i32', slot)} to {FLAGS}")


def _types(emitter: SubgroupEmitter, ops: Sequence[Op]) -> dict[str, str]:
    """LLVM types of the names that a part may use from outside."""
    builder = emitter.builder
    types = {"%status": "ptr", builder.context: "ptr", "%zero": "i32"}
    types |= {builder.linear: "i32", builder.group: "i64"}
    types.update(dict.fromkeys((*builder.group_ids, *builder.extents), "i32"))
    types.update(dict.fromkeys((*builder.pointers.values(), *builder.totals.values()), "ptr"))
    types.update(dict.fromkeys((*builder.counts.values(), *builder.params.values()), "i64"))
    if emitter.mask is not None:
        types[emitter.mask] = FLAGS
    for op in ops:
        for value in operands_within(op):
            for name in emitter.held(value) or ():
                types[name] = emitter.held_kind(value)
    return types
