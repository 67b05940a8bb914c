"""The LLVM IR that each lowering writes for small programs, as functions from bits to bits.

Loads become parameters and the store becomes what is returned; all between is written by the
lowering's own emitters, with the guards that it finds necessary.

    nvptx    scalars, for a GPU that rounds to bf16 by an instruction, and for one that does not
    lanes    vectors of 32 lanes, as the CPU target holds values that differ between lanes
    scalar   what the CPU target holds once for all lanes
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from vyre_opt.analysis.alignment import Alignment
from vyre_opt.analysis.value_forms import ValueForms
from vyre_opt.ir import OPS, DataType, Op, Program, Source, parse_source
from vyre_opt.lowering.common import conversions
from vyre_opt.lowering.common.lane_shape import SCALAR, LaneShape
from vyre_opt.lowering.common.llvm_text import ModuleText, Writer
from vyre_opt.lowering.host.function_builder import FunctionBuilder, SimdFeatures
from vyre_opt.lowering.host.lane_facts import LaneFacts
from vyre_opt.lowering.host.lane_major_layout import lane_major_layout
from vyre_opt.lowering.host.subgroup_emitter import COMPUTE_OPS, SubgroupEmitter
from vyre_opt.lowering.nvptx.function_emitter import FunctionEmitter, KernelContext
from vyre_opt.lowering.nvptx.targets import gpu
from vyre_opt.lowering.nvptx.values import VALUE_OPS

__all__ = ["LOWERINGS", "Lowering", "op_program", "parsed", "program_text"]

Lowering = Callable[[Program], str]
"""The text of a module with a function `f`."""

_ARITY = {"unary": 1, "binary": 2, "ternary": 3, "compare": 2}


def program_text(types: Sequence[DataType], lines: str, result: DataType, index: str = "global_id x") -> str:
    """A program that computes %r by `lines` from %a, %b, ..., one element of a buffer of each type."""
    names = "abcdef"[: len(types)]
    buffers = [
        f"  buffer @{n} : {t}[256] read binding({k})"
        for k, (n, t) in enumerate(zip(names, types, strict=True))
    ]
    loads = [f"  %{n} = load @{n}[%g] : {t}" for n, t in zip(names, types, strict=True)]
    out = f"  buffer @out : {result}[256] write binding({len(types)})"
    body = "\n".join([*buffers, out, f"  %g = {index}", *loads, lines, f"  store %r, @out[%g] : {result}"])
    return f"vyre 1\nprogram @p workgroup(64) grid(4) {{\n{body}\n}}\n"


def parsed(text: str) -> Program:
    return parse_source(Source(text)).programs["p"]


def op_program(
    name: str, dtype: DataType, source: DataType | None = None
) -> tuple[list[DataType], str, DataType]:
    """The types of an op's operands, the op as text, and the type of its result; `dtype` as in `op_terms.term`."""
    row = OPS[name]
    if name == "select":
        return [DataType.BOOL, dtype, dtype], f"  %r = select %a, %b, %c : {dtype}", dtype
    if source is not None:
        return [source], f"  %r = {name} %a : {source} -> {dtype}", dtype
    count = _ARITY[row.format]
    operands = ", ".join(f"%{n}" for n in "abc"[:count])
    result = DataType.BOOL if row.format == "compare" else dtype
    return [dtype] * count, f"  %r = {name} {operands} : {dtype}", result


def _pieces(program: Program) -> Iterator[tuple[str, Op]]:
    """What becomes of each op: a parameter, the result, or an op to write."""
    for op in program.body.ops:
        if op.name not in ("global_id", "local_id"):
            yield {"load": "parameter", "store": "result"}.get(op.name, "op"), op


def _function(
    module: ModuleText, w: Writer, shape: LaneShape, parameters: list[Op], result: DataType, value: str
) -> str:
    params = ", ".join(f"{shape.of(f'i{op.result.type.bits}')} %{op.result.name}" for op in parameters)
    kind = shape.of(f"i{result.bits}")
    lines = "\n".join(w.lines)
    module.define("f", f"define {kind} @f({params}) {{\nentry:\n{lines}\n  ret {kind} {value}\n}}")
    return "\n".join(line for line in module.text().splitlines() if not line.startswith("target "))


def _nvptx(architecture: str) -> Lowering:
    def write(program: Program) -> str:
        target = gpu(architecture)
        module = ModuleText("", "", target.rounds_to_bf16)
        context = KernelContext(
            program=program, funcs={}, specs={}, target=target, bounds="none", text=module, symbol="f",
            proven=set(), aggregated=set(), bases={}, alignment=Alignment(program), forms=ValueForms(program),
            may_fault=False, is_cluster=False, replicas=None,
        )  # fmt: skip
        emitter = FunctionEmitter(context)
        w, parameters = emitter.w, []
        for role, op in _pieces(program):
            if role == "parameter":
                parameters.append(op)
                emitter.set(op, conversions.from_bits(w, SCALAR, op.result.type, f"%{op.result.name}"))
            elif role == "op":
                VALUE_OPS[op.name if op.name in VALUE_OPS else op.definition.format](emitter, op)
            else:
                stored = op.operands[0]
                bits = conversions.bits_of(w, SCALAR, stored.type, emitter.scalar(stored))
                return _function(module, w, SCALAR, parameters, stored.type, bits)
        raise AssertionError("a program without a store")

    return write


def _host(arithmetic: str) -> Lowering:
    def write(program: Program) -> str:
        module = ModuleText("", "")
        features = SimdFeatures(arithmetic=arithmetic)
        facts = LaneFacts(program)
        vectors = lane_major_layout(program, facts, features.register_bytes)
        builder = FunctionBuilder(program, facts, {}, {}, module, features, vectors, {}, {}, {}, {})
        emitter = SubgroupEmitter(builder, None, COMPUTE_OPS)
        w, parameters = builder.w, []
        for role, op in _pieces(program):
            if role == "parameter":
                parameters.append(op)
                shape = emitter.shape(op.result)
                bits = conversions.from_bits(w, shape, op.result.type, f"%{op.result.name}")
                emitter.define(op.result, [bits])
            elif role == "op":
                emitter.op(op)
            else:
                stored = op.operands[0]
                shape = emitter.shape(stored)
                bits = conversions.bits_of(w, shape, stored.type, emitter.get(stored, shape)[0])
                return _function(module, w, shape, parameters, stored.type, bits)
        raise AssertionError("a program without a store")

    return write


LOWERINGS: dict[str, tuple[Lowering, str]] = {
    "nvptx": (_nvptx("sm_90"), "global_id x"),
    "nvptx sm_75": (_nvptx("sm_75"), "global_id x"),
    "cpu lanes": (_host("host"), "global_id x"),
    "cpu scalar": (_host("host"), "const 0 : u32"),
}
"""Name -> the lowering, and the index of the loads: it decides whether the CPU holds scalars."""
