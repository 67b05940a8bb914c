"""Taking ops and buffers out of a module, with zeros in the place of results that are still used."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..ir.ops import OPS
from ..ir.pipeline import Fill, HostRead, KernelStage, Launch, Pipeline, Repeat, Stage
from ..ir.program import Block, Buffer, Module, Op, Program, Value
from ..ir.rewrite import bodies, substitute
from ..ir.types import DataType

__all__ = [
    "buffers_of",
    "is_shared_zero",
    "leading_constants",
    "remove_argument",
    "remove_ops",
    "remove_stages",
    "replace_values",
    "buffers_of_stage",
    "called_functions",
    "zero",
]


def leading_constants(body: Block) -> list[Op]:
    """The constants with which a body begins: they can be used anywhere in it."""
    count = next((at for at, op in enumerate(body.ops) if op.name != "const"), len(body.ops))
    return body.ops[:count]


def is_shared_zero(op: Op, body: Block) -> bool:
    """Whether it is the constant that `zero` gives for its type."""
    return op.name == "const" and op is _shared_zero(op.result.type, body)


def zero(dtype: DataType, body: Block) -> Value:
    """A constant zero at the beginning of a body; there is one for each type."""
    op = _shared_zero(dtype, body)
    if op is None:
        op = Op(OPS["const"], (), (Value("zero", dtype),), {"value": 0})
        body.ops.insert(0, op)
    return op.result


def _shared_zero(dtype: DataType, body: Block) -> Op | None:
    constants = (op for op in leading_constants(body) if op.result.type is dtype)
    return next((op for op in constants if op.attrs["value"] == 0), None)


def remove_ops(body: Block, removed: Iterable[Op]) -> None:
    """Take out ops with all that is in them; zeros stand for results that others use."""
    gone = {inner for op in removed for inner in op.walk()}
    if not gone:
        return
    _prune(body, gone)
    needed = {operand for op in body.walk() for operand in op.operands}
    results = [result for op in gone for result in op.results if result in needed]
    results.sort(key=lambda value: value.type.name)  # sets have no order; the zeros of a text should
    replace_values(body, {result: zero(result.type, body) for result in results})


def replace_values(body: Block, replaced: dict[Value, Value]) -> None:
    """Replace operands.  What stands for a value may be replaced itself."""
    if not replaced:
        return
    ends = {}
    for value in replaced:
        end = value
        while end in replaced:
            end = replaced[end]
        ends[value] = end
    for op in body.walk():
        substitute(op, ends)


def _prune(block: Block, gone: Collection[Op]) -> None:
    block.ops = [op for op in block.ops if op not in gone]
    for op in block.ops:
        for region in op.regions:
            _prune(region, gone)


def buffers_of(op: Op) -> tuple[str, ...]:
    """The buffers that an op names."""
    named = op.attrs.get("buffers", ()) if op.attrs else ()
    return (*named, *([op.attrs["buffer"]] if "buffer" in op.attrs else []))


def remove_argument(module: Module, program: Program, buffer: Buffer) -> None:
    """Remove what launches pass for a bound buffer of a program."""
    if buffer.binding is None:
        return
    index = program.bound_buffers.index(buffer)
    for pipeline in module.pipelines.values():
        for stage in pipeline.walk():
            if isinstance(stage, Launch) and stage.program == program.name:
                stage.buffers = stage.buffers[:index] + stage.buffers[index + 1 :]


def remove_stages(pipeline: Pipeline, removed: Collection[int]) -> None:
    """Remove stages, by the ids of their objects, and repeats that have none left."""

    def rest(stages: list[Stage]) -> list[Stage]:
        left: list[Stage] = []
        for stage in stages:
            if isinstance(stage, Repeat):
                stage.stages = rest(stage.stages)
                if not stage.stages:
                    continue
            if id(stage) not in removed:
                left.append(stage)
        return left

    pipeline.stages = rest(pipeline.stages)


def buffers_of_stage(stage: Stage) -> tuple[str, ...]:
    """The buffers that a stage is passed or reads."""
    if isinstance(stage, HostRead):
        return (stage.buffer,)
    return stage.buffers if isinstance(stage, Launch | KernelStage | Fill) else ()


def called_functions(module: Module) -> set[str]:
    """The functions that are called."""
    return {op.attrs["callee"] for body in bodies(module) for op in body.walk() if op.name == "call"}
