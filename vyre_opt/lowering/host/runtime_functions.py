"""LLVM functions that a host module brings along: fault reports, accesses lane by lane, f16 conversions.

A gather or scatter that the vector unit has is one instruction; any other calls a function
with a loop over the active lanes, so that code stays small.  Each function is written into a
module at its first use.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.ops import SUBGROUP_SIZE
from ...ir.program import Op
from ...ir.types import DataType
from ..common import conversions
from ..common.atomics import exchange_loop, integer_verb, is_atomic_read, updated
from ..common.lane_shape import CARRIER_BYTES, SCALAR, carrier
from ..common.llvm_text import ModuleText, Writer
from .abi import FAULT_WORDS
from .function_builder import ALL, FLAGS, WIDE, FunctionBuilder

__all__ = [
    "atomic",
    "atomic_of_one",
    "count_alone",
    "define_fault",
    "define_half_conversions",
    "fault_lane",
    "gather",
    "is_outside",
    "move_lanes",
    "permute",
    "progression",
    "scatter",
]


def define_fault(module: ModuleText) -> None:
    """Define `vyre.fault`, which takes a record and the words of FAULT_WORDS after the first, and fills it in."""
    names = [f"%{word}" for word in FAULT_WORDS[1:]]
    lines = ["  store i64 1, ptr %record"]
    for number, name in enumerate(names, 1):
        lines.append(f"  %at{number} = getelementptr i64, ptr %record, i64 {number}")
        lines.append(f"  store i64 {name}, ptr %at{number}")
    params = ", ".join(["ptr %record", *(f"i64 {name}" for name in names)])
    body = "\n".join(lines)
    module.define(
        "vyre.fault",
        f"define internal void @vyre.fault({params}) cold noinline nounwind {{\n{body}\n  ret void\n}}",
    )


def fault_lane(builder: FunctionBuilder, op: Op, indices: str, bits: str) -> None:
    """Record a fault of the first lane of `bits` (i32), with its index, and return; ends the block."""
    wide, name = WIDE.of("i64"), "vyre.fault.lane"
    if not builder.module.defines(name):
        builder.module.declare("llvm.cttz.i32", "i32", ["i32", "i1"])
        builder.module.define(
            name,
            f"""define internal void @{name}(ptr %record, i64 %op, i64 %workgroup, i32 %linear, {wide} %indices, i32 %bits) cold noinline nounwind {{
  %low = call i32 @llvm.cttz.i32(i32 %bits, i1 false)
  %index = extractelement {wide} %indices, i32 %low
  %at = add i32 %linear, %low
  %lane = zext i32 %at to i64
  call void @vyre.fault(ptr %record, i64 %op, i64 %workgroup, i64 %lane, i64 %index, i64 0, i64 0)
  ret void
}}""",
        )
    builder.w.line(
        f"call void @{name}(ptr %status, i64 {builder.numbers[op]}, i64 {builder.group}, "
        f"i32 {builder.linear}, {wide} {indices}, i32 {bits})"
    )
    builder.w.branch("exit")


def is_outside(builder: FunctionBuilder, op: Op, indices: str, limit: str, bits: str) -> str:
    """An i1: whether the index of any lane of `bits` is not below `limit`.  The first such lane is recorded."""
    wide, name = WIDE.of("i64"), "vyre.check"
    if not builder.module.defines(name):
        step = """  %bad = icmp uge i64 %place, %limit
  br i1 %bad, label %found, label %step
found:
  %lane32 = trunc i64 %lane to i32
  %at = add i32 %linear, %lane32
  %who = zext i32 %at to i64
  call void @vyre.fault(ptr %record, i64 %op, i64 %workgroup, i64 %who, i64 %place, i64 0, i64 0)
  ret i1 true"""
        loop = _lane_loop("  ret i1 false", step, branches=True)
        builder.module.declare("llvm.cttz.i32", "i32", ["i32", "i1"])
        builder.module.define(
            name,
            f"""define internal i1 @{name}(ptr %record, i64 %op, i64 %workgroup, i32 %linear, {wide} %indices, i64 %limit, i32 %bits) cold noinline nounwind {{
entry:{_SPILL_INDICES}{loop}""",
        )
    return builder.w.emit(
        f"call i1 @{name}(ptr %status, i64 {builder.numbers[op]}, i64 {builder.group}, "
        f"i32 {builder.linear}, {wide} {indices}, i64 {limit}, i32 {bits})"
    )


def progression(builder: FunctionBuilder, dtype: DataType, first: str, stride: int) -> str:
    """The indices first + stride * lane, computed in an integer type that may wrap, as an i64 vector.

    A call, which is small but slow: for rare cases.
    """
    kind, wide = carrier(dtype), WIDE.of("i64")
    name = f"vyre.indices.{dtype.name}"
    if not builder.module.defines(name):
        narrow = WIDE.of(kind)
        numbers = "<" + ", ".join(f"{kind} {lane}" for lane in range(SUBGROUP_SIZE)) + ">"
        zeros = f"{WIDE.of('i32')} zeroinitializer"
        lines = []
        for operand in ("first", "stride"):
            lines += [
                f"  %{operand}.one = insertelement {narrow} poison, {kind} %{operand}, i64 0",
                f"  %{operand}.all = shufflevector {narrow} %{operand}.one, {narrow} poison, {zeros}",
            ]
        lines += [
            f"  %steps = mul {narrow} %stride.all, {numbers}",
            f"  %narrow = add {narrow} %first.all, %steps",
        ]
        if dtype.bits != 64:
            verb = "sext" if dtype.is_signed else "zext"
            lines.append(f"  %wide = {verb} {narrow} %narrow to {wide}")
        lines.append(f"  ret {wide} {'%narrow' if dtype.bits == 64 else '%wide'}")
        body = "\n".join(lines)
        builder.module.define(
            name,
            f"define internal {wide} @{name}({kind} %first, {kind} %stride) cold noinline nounwind {{\n{body}\n}}",
        )
    return builder.w.emit(f"call {wide} @{name}({kind} {first}, {kind} {stride})")


def _lane_loop(result: str, step: str, branches: bool = False) -> str:
    """The text of a loop over the lanes whose bit is set in %bits, to the end of the function.

    `step` is the loop's body, and finds the lane's number in %lane and its index in %place, both i64.
    `branches`: it ends in a branch to the label `step` already.  `result`: what returns at the end.
    """
    following = "" if branches else "\n  br label %step"
    return f"""
  br label %head
head:
  %rest = phi i32 [ %bits, %entry ], [ %after, %step ]
  %done = icmp eq i32 %rest, 0
  br i1 %done, label %end, label %one
one:
  %low = call i32 @llvm.cttz.i32(i32 %rest, i1 true)
  %lane = zext i32 %low to i64
  %minus = add i32 %rest, -1
  %after = and i32 %rest, %minus
  %place.at = getelementptr i64, ptr %places, i64 %lane
  %place = load i64, ptr %place.at
{step}{following}
step:
  br label %head
end:
{result}
}}"""


_SPILL_INDICES = f"""
  %places = alloca {WIDE.of("i64")}
  store {WIDE.of("i64")} %indices, ptr %places"""


def _type_suffix(memory: str) -> str:
    return {"float": "f32", "double": "f64", "half": "f16"}.get(memory, memory)


# --- gather and scatter

_POINTERS = WIDE.of("ptr")


def gather(
    builder: FunctionBuilder,
    dtype: DataType,
    pointer: str,
    offsets: str,
    mask: str | None,
    *,
    parts: int = 1,
    cold: bool = False,
) -> str:
    """Scalar number `offsets[lane]` of memory for each active lane, 0 in the others.

    `parts`: scalars from that number on; several are one integer of 32 or 64 bits, the first in its low bits.
    `cold`: the code runs rarely, so it is a call even where there is an instruction.
    """
    memory, bits, w = conversions.memory_type(dtype), dtype.bits or 0, builder.w
    loaded = memory if parts == 1 else f"i{bits * parts}"
    wide, indices, align = WIDE.of(loaded), WIDE.of("i64"), max(1, bits // 8)
    if bits * parts in builder.features.gathers and not cold:
        at = w.emit(f"getelementptr {memory}, ptr {pointer}, {indices} {offsets}")
        name = f"llvm.masked.gather.{WIDE.suffix(loaded)}.v{SUBGROUP_SIZE}p0"
        args = [(_POINTERS, at), ("i32", str(align)), (FLAGS, mask or ALL), (wide, "zeroinitializer")]
        return w.call(name, wide, args)
    name = f"vyre.gather.{_type_suffix(loaded)}{f'.of.{_type_suffix(memory)}' if parts > 1 else ''}"
    if not builder.module.defines(name):
        _define_gather(builder.module, name, memory, loaded, align)
    return w.emit(
        f"call {wide} @{name}(ptr {pointer}, {indices} {offsets}, i32 {builder.mask_bits(mask or ALL)})"
    )


def _define_gather(module: ModuleText, name: str, memory: str, loaded: str, align: int) -> None:
    """Define a gather of 32 lanes: values of the type `loaded`, at offsets that count scalars of the type `memory`.

    With all lanes active it has no loop, so the loads are independent.
    """
    wide, indices = WIDE.of(loaded), WIDE.of("i64")
    module.declare("llvm.cttz.i32", "i32", ["i32", "i1"])
    body, result = _load_lanes(loaded, "%base", "i64", "%indices", "%i", memory, align)
    step = f"""  %from = getelementptr {memory}, ptr %base, i64 %place
  %found = load {loaded}, ptr %from, align {align}
  %to = getelementptr {loaded}, ptr %out, i64 %lane
  store {loaded} %found, ptr %to"""
    # The block before the loop is `some` here
    loop = _lane_loop(f"  %all = load {wide}, ptr %out\n  ret {wide} %all", step).replace("%entry", "%some")
    module.define(
        name,
        f"""define internal {wide} @{name}(ptr %base, {indices} %indices, i32 %bits) noinline nounwind {{
entry:
  %out = alloca {wide}{_SPILL_INDICES}
  %full = icmp eq i32 %bits, -1
  br i1 %full, label %every, label %some
every:
{body}
  ret {wide} {result}
some:
  store {wide} zeroinitializer, ptr %out{loop}""",
    )


def _load_lanes(
    memory: str, base: str, kind: str, indices: str, index: str, unit: str, align: int
) -> tuple[str, str]:
    """Straight-line text that loads a value of the type `memory` at `base[indices[lane]]` for each lane, and the name of the vector.

    `kind`: the type of an index, which counts scalars of the type `unit`.  `index`: the prefix of the names of indices in the text.
    """
    lines, vector = [], "poison"
    for lane in range(SUBGROUP_SIZE):
        lines.append(f"  {index}{lane} = extractelement {WIDE.of(kind)} {indices}, i64 {lane}")
        lines.append(f"  %p{lane} = getelementptr {unit}, ptr {base}, {kind} {index}{lane}")
        lines.append(f"  %e{lane} = load {memory}, ptr %p{lane}, align {align}")
        lines.append(f"  %v{lane} = insertelement {WIDE.of(memory)} {vector}, {memory} %e{lane}, i64 {lane}")
        vector = f"%v{lane}"
    return "\n".join(lines), vector


def scatter(
    builder: FunctionBuilder,
    dtype: DataType,
    pointer: str,
    offsets: str,
    value: str,
    mask: str | None,
    *,
    cold: bool,
) -> None:
    """Store each active lane's value to scalar number `offsets[lane]`; `cold` as for `gather`."""
    memory, bits = conversions.memory_type(dtype), dtype.bits or 0
    w, wide = builder.w, WIDE.of(memory)
    if bits in builder.features.scatters and not cold:
        at = w.emit(f"getelementptr {memory}, ptr {pointer}, {WIDE.of('i64')} {offsets}")
        name = f"llvm.masked.scatter.{WIDE.suffix(memory)}.v{SUBGROUP_SIZE}p0"
        align = ("i32", str(bits // 8))
        w.call(name, "void", [(wide, value), (_POINTERS, at), align, (FLAGS, mask or ALL)])
        return
    name = f"vyre.scatter.{_type_suffix(memory)}"
    indices = WIDE.of("i64")
    if not builder.module.defines(name):
        builder.module.declare("llvm.cttz.i32", "i32", ["i32", "i1"])
        step = f"""  %from = getelementptr {memory}, ptr %values, i64 %lane
  %found = load {memory}, ptr %from
  %to = getelementptr {memory}, ptr %base, i64 %place
  store {memory} %found, ptr %to"""
        builder.module.define(
            name,
            f"""define internal void @{name}(ptr %base, {indices} %indices, {wide} %value, i32 %bits) noinline nounwind {{
entry:
  %values = alloca {wide}
  store {wide} %value, ptr %values{_SPILL_INDICES}{_lane_loop("  ret void", step)}""",
        )
    bits_text = builder.mask_bits(mask or ALL)
    w.line(f"call void @{name}(ptr {pointer}, {indices} {offsets}, {wide} {value}, i32 {bits_text})")


def move_lanes(
    builder: FunctionBuilder,
    memory: str,
    count: int,
    align: int,
    pointer: str,
    offsets: str,
    slot: str,
    mask: str | None,
    *,
    is_load: bool,
) -> None:
    """Copy `count` scalars of each active lane from scalar number `offsets[lane]` of memory on to a slot that has them
    lane after lane, or (not `is_load`) from there."""
    vector, indices = f"<{count} x {memory}>", WIDE.of("i64")
    name = f"vyre.{'collect' if is_load else 'spread'}.{count}.{_type_suffix(memory)}"
    if not builder.module.defines(name):
        builder.module.declare("llvm.cttz.i32", "i32", ["i32", "i1"])
        source, target = ("%far", "%near") if is_load else ("%near", "%far")
        step = f"""  %far = getelementptr {memory}, ptr %base, i64 %place
  %near = getelementptr [{count} x {memory}], ptr %slot, i64 %lane
  %moved = load {vector}, ptr {source}, align {align}
  store {vector} %moved, ptr {target}, align {align}"""
        builder.module.define(
            name,
            f"define internal void @{name}(ptr %base, {indices} %indices, ptr %slot, i32 %bits) noinline nounwind {{\n"
            f"entry:{_SPILL_INDICES}{_lane_loop('  ret void', step)}",
        )
    bits = builder.mask_bits(mask or ALL)
    builder.w.line(f"call void @{name}(ptr {pointer}, {indices} {offsets}, ptr {slot}, i32 {bits})")


# --- atomics

_ORDERS = {"relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}
_FAILURES = {"release": "monotonic", "acq_rel": "acquire"}
"""Order of a compare-and-exchange that finds another value, where it is not the order of the exchange."""


def atomic(
    builder: FunctionBuilder,
    op: Op,
    pointer: str,
    offsets: str,
    values: Sequence[str],
    bits: str,
    is_alone: bool,
    takes_old: bool,
) -> str | None:
    """The old values of an atomic op that the lanes of `bits` do one after the other, lowest first.

    `is_alone`: no other thread has the memory.  `takes_old`: whether they are asked for.
    """
    name, dtype = op.name.removeprefix("atomic_"), op.results[0].type
    kind, indices = carrier(dtype), WIDE.of("i64")
    wide, ordering = WIDE.of(kind), "alone" if is_alone else _ORDERS.get(op.attrs["order"], "seq_cst")
    if is_atomic_read(op):
        name, values = "load", []
    symbol = f"vyre.atomic.{name}.{dtype.name}.{ordering}{'.old' if takes_old else ''}"
    if not builder.module.defines(symbol):
        builder.module.declare("llvm.cttz.i32", "i32", ["i32", "i1"])
        text = _atomic_function(builder.module, symbol, name, dtype, ordering, len(values), takes_old)
        builder.module.define(symbol, text)
    operands = "".join(f", {wide} {value}" for value in values)
    args = f"(ptr {pointer}, {indices} {offsets}{operands}, i32 {bits})"
    if takes_old:
        return builder.w.emit(f"call {wide} @{symbol}{args}")
    builder.w.line(f"call void @{symbol}{args}")
    return None


def atomic_of_one(builder: FunctionBuilder, op: Op, pointer: str, value: str, is_alone: bool) -> None:
    """An atomic op by one invocation, whose old value nobody takes; `pointer`: to its element."""
    name, dtype = op.name.removeprefix("atomic_"), op.results[0].type
    ordering = "alone" if is_alone else _ORDERS[op.attrs["order"]]
    symbol = f"vyre.atomic.one.{name}.{dtype.name}.{ordering}"
    if not builder.module.defines(symbol):
        w = Writer(builder.module)
        _update(w, name, dtype, ordering, "ptr %at", ["%value"])
        text = [f"define internal void @{symbol}(ptr %at, {carrier(dtype)} %value) nounwind {{", "entry:"]
        builder.module.define(symbol, "\n".join([*text, *w.lines, "  ret void", "}"]))
    builder.w.line(f"call void @{symbol}(ptr {pointer}, {carrier(dtype)} {value})")


def _atomic_function(
    module: ModuleText, symbol: str, name: str, dtype: DataType, order: str, count: int, takes_old: bool
) -> str:
    kind, indices = carrier(dtype), WIDE.of("i64")
    wide = WIDE.of(kind)
    lines = [f"  %old = alloca {wide}", f"  store {wide} zeroinitializer, ptr %old"] if takes_old else []
    for number in range(count):
        lines += [f"  %values{number} = alloca {wide}", f"  store {wide} %v{number}, ptr %values{number}"]
    w = Writer(module)
    w.block = "one"  # of the loop
    pointer = f"ptr {w.emit(f'getelementptr {conversions.memory_type(dtype)}, ptr %base, i64 %place')}"
    operands = []
    for number in range(count):
        at = w.emit(f"getelementptr {kind}, ptr %values{number}, i64 %lane")
        operands.append(w.emit(f"load {kind}, ptr {at}"))
    old = _update(w, name, dtype, order, pointer, operands)
    result = f"  %all = load {wide}, ptr %old\n  ret {wide} %all" if takes_old else "  ret void"
    if takes_old:
        w.line(f"store {kind} {old}, ptr {w.emit(f'getelementptr {kind}, ptr %old, i64 %lane')}")
    params = "".join(f", {wide} %v{number}" for number in range(count))
    head = "\n".join(lines)
    loop = _lane_loop(result, "\n".join(w.lines))
    return (
        f"define internal {wide if takes_old else 'void'} @{symbol}(ptr %base, {indices} %indices{params}, i32 %bits) noinline nounwind {{\n"
        f"entry:\n{head}{_SPILL_INDICES}{loop}"
    )


def count_alone(
    builder: FunctionBuilder, op: Op, pointer: str, index: DataType, indices: str, values: str
) -> None:
    """An atomic op of all lanes on memory that no other thread has, whose old values nobody takes.

    `indices`: in bounds, of the type `index`.  They are passed as words, so that each is cut out of a register: to take
    elements of a vector one by one, or from memory, takes twice as long.
    """
    name, dtype, bits = op.name.removeprefix("atomic_"), op.results[0].type, index.bits or 0
    kind, words = WIDE.of(carrier(dtype)), range(SUBGROUP_SIZE * bits // 64)
    symbol = f"vyre.count.{name}.{dtype.name}.{index.name}"
    if not builder.module.defines(symbol):
        w = Writer(builder.module)
        for lane in range(SUBGROUP_SIZE):
            number, low = divmod(lane * bits, 64)
            place = f"%word{number}"
            if bits < 64:
                place = w.emit(f"trunc i64 {w.emit(f'lshr i64 {place}, {low}')} to i{bits}")
                place = w.emit(f"{'sext' if index.is_signed else 'zext'} i{bits} {place} to i64")
            at = w.emit(f"getelementptr {conversions.memory_type(dtype)}, ptr %base, i64 {place}")
            operand = w.emit(f"extractelement {kind} %values, i64 {lane}")
            _update(w, name, dtype, "alone", f"ptr {at}", [operand])
        params = ", ".join(["ptr %base", f"{kind} %values", *(f"i64 %word{number}" for number in words)])
        head = f"define internal void @{symbol}({params}) noinline nounwind {{"
        builder.module.define(symbol, "\n".join([head, "entry:", *w.lines, "  ret void", "}"]))
    w, joined = builder.w, f"<{len(words)} x i64>"
    whole = w.emit(f"bitcast {WIDE.type(index)} {indices} to {joined}")
    parts = ", ".join(f"i64 {w.emit(f'extractelement {joined} {whole}, i64 {n}')}" for n in words)
    w.line(f"call void @{symbol}(ptr {pointer}, {kind} {values}, {parts})")


def _update(w: Writer, name: str, dtype: DataType, order: str, pointer: str, operands: list[str]) -> str:
    """Writes what one lane does to the element at a pointer; returns the old value."""
    kind, align = f"i{dtype.bits}", f"align {dtype.size_bytes}"
    if order == "alone":
        memory = conversions.memory_type(dtype)
        old = conversions.load_value(w, SCALAR, dtype, w.emit(f"load {memory}, {pointer}, {align}"))
        if name != "load":
            new = conversions.store_value(w, SCALAR, dtype, updated(w, name, dtype, old, operands))
            w.line(f"store {memory} {new}, {pointer}, {align}")
        return old
    if name == "load":
        return w.emit(f"load atomic {kind}, {pointer} {order}, {align}")
    orders = order, _FAILURES.get(order, order)
    if name == "compare_exchange":
        pair = w.emit(f"cmpxchg {pointer}, {kind} {operands[0]}, {kind} {operands[1]} {' '.join(orders)}")
        return w.emit(f"extractvalue {{ {kind}, i1 }} {pair}, 0")
    if dtype.is_float and name != "exchange":
        return exchange_loop(w, pointer, dtype, orders, lambda old: updated(w, name, dtype, old, operands))
    bits = conversions.bits_of(w, SCALAR, dtype, operands[0])
    old = w.emit(f"atomicrmw {integer_verb(name, dtype.is_signed)} {pointer}, {kind} {bits} {order}")
    return conversions.from_bits(w, SCALAR, dtype, old)


# --- moving values between lanes


def permute(builder: FunctionBuilder, kind: str, value: str, source: str) -> str:
    """Lane `source[lane]` (an i32 below 32) of `value`, for each lane."""
    wide, lanes, name = WIDE.of(kind), WIDE.of("i32"), f"vyre.permute.{_type_suffix(kind)}"
    if not builder.module.defines(name):
        memory = "i8" if kind == "i1" else kind
        memory_vector = WIDE.of(memory)
        body, result = _load_lanes(memory, "%room", "i32", "%source", "%s", memory, CARRIER_BYTES[memory])
        grown, cut = "", ""
        stored_value = "%value"
        if kind == "i1":
            grown, stored_value = f"  %grown = zext {wide} %value to {memory_vector}\n", "%grown"
            cut, result = f"\n  %cut = trunc {memory_vector} {result} to {wide}", "%cut"
        builder.module.define(
            name,
            f"define internal {wide} @{name}({wide} %value, {lanes} %source) noinline nounwind {{\n"
            f"  %room = alloca {memory_vector}\n{grown}  store {memory_vector} {stored_value}, ptr %room\n{body}{cut}\n  ret {wide} {result}\n}}",
        )
    return builder.w.emit(f"call {wide} @{name}({wide} {value}, {lanes} {source})")


# --- conversions of f16, where the machine has no instruction for them

# 112 << 23 takes the exponent from f16's bias of 15 to 127; 2^-24 scales a subnormal, an integer, instead.
_WIDEN = """define float @__extendhfsf2(half %h) nounwind {
  %short = bitcast half %h to i16
  %bits = zext i16 %short to i32
  %signed = and i32 %bits, 32768
  %sign = shl i32 %signed, 16
  %rest = and i32 %bits, 32767
  %moved = shl i32 %rest, 13
  %rebiased = add i32 %moved, 939524096
  %infinite = or i32 %moved, 2139095040
  %large = icmp uge i32 %rest, 31744
  %finite = select i1 %large, i32 %infinite, i32 %rebiased
  %number = uitofp i32 %rest to float
  %scaled = fmul float %number, 0x3E70000000000000
  %subnormal = bitcast float %scaled to i32
  %small = icmp ult i32 %rest, 1024
  %magnitude = select i1 %small, i32 %subnormal, i32 %finite
  %all = or i32 %magnitude, %sign
  %result = bitcast i32 %all to float
  ret float %result
}"""

# Adding 0.5, whose last place is 2^-24, rounds a float to the subnormals of f16.
# It lies between 2^-14 (947912704) and 2^16 (1199570944) if normal; what rounds up to 2^16 carries to inf.
_NARROW = """define half @__truncsfhf2(float %x) nounwind {
  %bits = bitcast float %x to i32
  %high = lshr i32 %bits, 16
  %sign = and i32 %high, 32768
  %rest = and i32 %bits, 2147483647
  %rebiased = sub i32 %rest, 939524096
  %cut = lshr i32 %rebiased, 13
  %odd = and i32 %cut, 1
  %bias = add i32 %odd, 4095
  %up = add i32 %rebiased, %bias
  %normal = lshr i32 %up, 13
  %positive = bitcast i32 %rest to float
  %sum = fadd float %positive, 5.000000e-01
  %sum.bits = bitcast float %sum to i32
  %subnormal = sub i32 %sum.bits, 1056964608
  %small = icmp ult i32 %rest, 947912704
  %finite = select i1 %small, i32 %subnormal, i32 %normal
  %large = icmp uge i32 %rest, 1199570944
  %bounded = select i1 %large, i32 31744, i32 %finite
  %nan = icmp ugt i32 %rest, 2139095040
  %magnitude = select i1 %nan, i32 32256, i32 %bounded
  %all = or i32 %magnitude, %sign
  %short = trunc i32 %all to i16
  %result = bitcast i16 %short to half
  ret half %result
}"""


def define_half_conversions(module: ModuleText) -> None:
    module.define("__extendhfsf2", _WIDEN)
    module.define("__truncsfhf2", _NARROW)
