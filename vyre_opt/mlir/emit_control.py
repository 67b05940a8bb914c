"""Control flow as MLIR: the scf dialect, calls, traps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir import arith
from ..ir.loops import Bound, bounds, inits
from ..ir.program import Block, Op, Value
from ..ir.types import DataType
from .function_code import FunctionCode, type_hint
from .helper_key import HelperKey
from .spelling import attributes, mlir_type, quoted

__all__ = ["CONTROL_OPS"]

RunBlock = Callable[[FunctionCode, Block], None]
"""Writes the ops of a block without its terminator."""


def _results(f: FunctionCode, op: Op) -> tuple[str, str]:
    """`%a, %b = ` and the types of the results."""
    if not op.results:
        return "", ""
    names = ", ".join(f.bind(result) for result in op.results)
    return f"{names} = ", ", ".join(mlir_type(result.type) for result in op.results)


def _yield(f: FunctionCode, values: Sequence[Value]) -> None:
    if values:
        names, kinds = f.all(tuple(values))
        f.code.line(f"scf.yield {names} : {kinds}")


def _if(f: FunctionCode, op: Op, run: RunBlock) -> None:
    condition = f.get(op.operands[0])
    names, kinds = _results(f, op)
    f.open(f"{names}scf.if {condition}" + (f" -> ({kinds})" if kinds else ""))
    for number, block in enumerate(op.regions):
        if number:
            f.next_region("else")
        run(f, block)
        f.code.at(op.loc)
        _yield(f, f.yielded(block))
    f.close()


def _region(f: FunctionCode, op: Op, run: RunBlock) -> None:
    names, kinds = _results(f, op)
    f.open(f"{names}scf.execute_region" + (f" -> ({kinds})" if kinds else ""))
    (block,) = op.regions
    run(f, block)
    f.code.at(op.loc)
    _yield(f, f.yielded(block))
    if not f.yielded(block):
        f.code.line("scf.yield")
    f.close(attributes([("vyre.region", quoted(op.attrs["label"]))]))


# --- loops


def _for(f: FunctionCode, op: Op, run: RunBlock) -> None:
    dtype = op.regions[0].args[0].type
    if dtype.bits == 64 and not _is_small(f, op):
        _counted_loop(f, op, run)
        return
    limits = [f.code.integer(b, "index") if isinstance(b, int) else f.index(b) for b in bounds(op)]
    kind = mlir_type(dtype)
    verb = "arith.index_cast" if dtype.is_signed else "arith.index_castui"

    def count(turn: str, name: str) -> str:
        return f.code.emit(f"{verb} {turn}{type_hint(dtype)} : index to {kind}", name)

    _loop(f, op, run, limits, count)


def _is_small(f: FunctionCode, op: Op) -> bool:
    """Whether the counter stays below 2^63, as a signed number, so that scf.for counts alike."""
    limits = bounds(op)
    ranges = [(b, b) if isinstance(b, int) else f.forms.range(b) for b in limits]
    (lower, _), (_, upper), (_, step) = ranges
    return lower >= -(1 << 62) and upper <= 1 << 62 and step <= 1 << 62


def _counted_loop(f: FunctionCode, op: Op, run: RunBlock) -> None:
    """A loop over the number of its rounds; see helpers/control.py."""
    dtype = op.regions[0].args[0].type
    lower, upper, step = (_word(f, bound, dtype) for bound in bounds(op))
    words = [(lower, "i64"), (upper, "i64"), (step, "i64")]
    rounds = f.code.call(HelperKey("trip_count", (), (dtype,)), words, "i64")
    most = f.code.convert("arith.index_cast", "i64", "index", rounds)

    def count(turn: str, name: str) -> str:
        turn = f.code.convert("arith.index_cast", "index", "i64", turn)
        operands = [(lower, "i64"), (turn, "i64"), (step, "i64")]
        return f.code.call(HelperKey("counter", (), (dtype,)), operands, "i64", name=name)

    _loop(f, op, run, [f.code.integer(0, "index"), most, f.code.integer(1, "index")], count)


def _word(f: FunctionCode, bound: Bound, dtype: DataType) -> str:
    if isinstance(bound, int):
        return f.code.integer(arith.wrap(bound, dtype), "i64")
    return f.get(bound)


def _loop(
    f: FunctionCode, op: Op, run: RunBlock, limits: Sequence[str], count: Callable[[str, str], str]
) -> None:
    """`count`: writes the counter, given the loop's index and a name."""
    (block,) = op.regions
    counter, *args = block.args
    lower, upper, step = limits
    carried = ""
    initial = [f.get(value) for value in inits(op)]
    names, kinds = _results(f, op)
    turn = f.code.name(f"{counter.name}.index")
    if args:
        pairs = ", ".join(f"{f.bind(arg)} = {start}" for arg, start in zip(args, initial, strict=True))
        carried = f" iter_args({pairs}) -> ({kinds})"
    f.open(f"{names}scf.for {turn} = {lower} to {upper} step {step}{carried}")
    f.names[counter] = count(turn, counter.name)
    run(f, block)
    f.code.at(op.loc)
    _yield(f, f.yielded(block))
    f.close(type_hint(counter.type))


def _while(f: FunctionCode, op: Op, run: RunBlock) -> None:
    condition, block = op.regions
    initial = [f.get(value) for value in op.operands]
    names, kinds = _results(f, op)
    pairs = ", ".join(f"{f.bind(arg)} = {start}" for arg, start in zip(condition.args, initial, strict=True))
    head = f" ({pairs})" if pairs else ""
    f.open(f"{names}scf.while{head} : ({kinds}) -> ({kinds})")
    run(f, condition)
    f.code.at(op.loc)
    (flag,) = f.yielded(condition)
    values, _ = f.all(condition.args)
    f.code.line(f"scf.condition({f.get(flag)})" + (f" {values} : {kinds}" if values else ""))
    args = ", ".join(f"{f.bind(arg)}: {mlir_type(arg.type)}" for arg in block.args)
    f.next_region("do", f"^bb0({args})" if args else "")
    run(f, block)
    f.code.at(op.loc)
    _yield(f, f.yielded(block))
    if not f.yielded(block):
        f.code.line("scf.yield")
    f.close()


# --- calls and traps


def _call(f: FunctionCode, op: Op, run: RunBlock) -> None:
    operands, kinds = f.all(op.operands)
    names, results = _results(f, op)
    arrow = f"({results})" if len(op.results) != 1 else results
    f.code.line(f"{names}func.call @{f.symbols[op.attrs['callee']]}({operands}) : ({kinds}) -> {arrow}")


def _message(op: Op) -> str:
    return attributes([("vyre.message", quoted(op.attrs["message"]))])


def _trap(f: FunctionCode, op: Op, run: RunBlock) -> None:
    f.code.line(f'"llvm.intr.trap"(){_message(op)} : () -> ()')


def _assert(f: FunctionCode, op: Op, run: RunBlock) -> None:
    f.code.call(HelperKey("assert"), [(f.get(op.operands[0]), "i1")], attributes=_message(op))


def _check_bounds(f: FunctionCode, op: Op, run: RunBlock) -> None:
    """A call of a helper that does nothing: MLIR leaves open what an access out of bounds does."""
    dtype = op.operands[0].type
    key = HelperKey("check_bounds", (op.attrs["access"],), (dtype,))
    operands = [(f.get(value), mlir_type(dtype)) for value in op.operands]
    f.code.call(key, operands, attributes=attributes([("vyre.of", quoted(op.attrs["of"]))]))


CONTROL_OPS: dict[str, Callable[[FunctionCode, Op, RunBlock], None]] = {
    "if": _if,
    "region": _region,
    "for": _for,
    "while": _while,
    "call": _call,
    "trap": _trap,
    "assert": _assert,
    "check_bounds": _check_bounds,
}
