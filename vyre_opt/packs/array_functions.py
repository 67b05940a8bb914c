"""Functions on arrays of a pack, such as `vyre_opt.kernels.softmax`: a call for each set of shapes and types they were packed for.

The pack has what each call comes to, with all its numbers (see `vyre_opt.kernels.call`); what is done with it is the compiler's own
`PlannedFunction`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..driver.operands import as_u32
from ..driver.planned_function import PlannedFunction, take_array
from ..execution.array_backend import ArrayBackend, Operand
from ..execution.dispatcher import BadInputs
from ..ir.tracebacks import CallTypeError, public
from ..kernels.call import (
    Call,
    CopiedInput,
    CopyOfInput,
    EmptyResult,
    InputSlice,
    KernelCall,
    OutputAlloc,
    ScratchArgument,
    Steps,
)
from ..pack_files.format import canonical
from .decoding import decoding, number, numbers, text, texts, truth
from .ir_data import Decoder, Encoder
from .pack_target import PackTarget
from .targets import PackTargets

if TYPE_CHECKING:
    from .gpu import PackedGpu
    from .target import PackedTarget

__all__ = ["PackedArrayFunction", "encoded_call", "flat"]

Row = Mapping[str, Any]


class PackedArrayFunction:
    """A function on arrays of a pack: `function(x, out=None)`, with the options that it was packed with."""

    def __init__(self, row: Row, targets: PackTargets) -> None:
        self._name, self._targets = row["name"], targets
        self._calls: dict[PackTarget[Any], tuple[str, list[_PackedCall]]] = {}
        take = _as_u32 if row["take"] == "u32" else take_array
        self._function = PlannedFunction(self._name, self._plan, take)

    def __repr__(self) -> str:
        return f"<packed function {self._name}>"

    @public
    def __call__(self, *args: Any, out: Any = None, **options: Any) -> Any:
        """The result, or `out` with it.  Raises BadInputs for arrays, or options, that it was not packed for."""
        arrays = flat(args)
        target = self._targets.of(arrays)
        _, calls = self._calls_on(target)
        named = [each.names for each in calls if len(each.names) == len(arrays)]
        if not named:
            counts = sorted({len(each.names) for each in calls})
            raise CallTypeError(
                f"{self._name}() takes {' or '.join(map(str, counts))} arrays, not {len(arrays)}"
            )
        return self._function(arrays, named[0], target, out, canonical(options).decode())

    def start(self) -> None:
        """Raises PackError where there is no code for this machine."""
        self._calls_on(self._targets.cpu)

    def _calls_on(self, target: PackedTarget | PackedGpu) -> tuple[str, list[_PackedCall]]:
        """The calls that it is packed for on a target, and the part that has them."""
        known = self._calls.get(target)
        if known is None:
            part = target.plan_of(self._name)
            row = self._targets.pack.read_json(part)
            with decoding(self._targets.pack, part):
                known = self._calls[target] = part, [_PackedCall(each) for each in row["calls"]]
        return known

    def _plan(self, backend: ArrayBackend, operands: Sequence[Operand], options: str) -> Call | Steps:
        """Plan of a call.  Raises ValueError for one that is not packed."""
        target: Any = backend.dispatcher
        part, calls = self._calls_on(target)
        own = [[list(operand.shape), operand.kind] for operand in operands]
        for call in calls:
            if call.operands == own and call.options == options:
                with decoding(self._targets.pack, part):
                    return _call(call.row, target, part, self._targets.decoder)
        packed = " or ".join(_shown(call.operands, call.options) for call in calls)
        shapes = ", ".join(
            _arrays(*call) for call in (*((c.operands, c.options) for c in calls), (own, options))
        )
        raise BadInputs(
            f"{self._name} is packed for {packed}, and this call has {_shown(own, options)}; "
            f"pack it for these, too: shapes={{{self._name!r}: [{shapes}]}}"
        )


class _PackedCall:
    """A call that a function is packed for: names, shapes and types of its arrays, and its options.  `row`: what it comes to."""

    def __init__(self, row: Row) -> None:
        self.names, self.row = texts(row["names"]), row["call"]
        self.operands = [[numbers(shape), text(kind)] for shape, kind in row["operands"]]
        self.options = canonical(row["options"]).decode()


def _as_u32(backend: ArrayBackend, values: Any, name: str) -> Operand:
    """See `as_u32`; on a GPU of arrays of u32 alone, since others are made so by a program."""
    if not backend.on_gpu:
        return as_u32(backend, values, name)
    operand = backend.take(values, name)
    if operand.kind != "uint32":
        raise BadInputs(f"{name} on a GPU holds uint32 for code of a pack, not {operand.kind}; convert it")
    return operand


def flat(args: Sequence[Any]) -> list[Any]:
    """The arrays of arguments, some of which may be lists of arrays."""
    arrays: list[Any] = []
    for arg in args:
        is_listed = isinstance(arg, (list, tuple)) and bool(arg) and hasattr(arg[0], "shape")
        arrays += arg if is_listed else [arg]
    return arrays


def _arrays(operands: Sequence[Any], options: str) -> str:
    """The arguments of a call as `pack` takes them: `(np.zeros((64, 100), 'float32'),)`, with its options behind them."""
    arguments = [f"np.zeros({tuple(shape)}, {kind!r})" for shape, kind in operands]
    arguments += [repr(json.loads(options))] * (options != "{}")
    return f"({', '.join(arguments)}{',' * (len(arguments) == 1)})"


def _shown(operands: Sequence[Any], options: str) -> str:
    text = ", ".join(f"{kind}{shape}" for shape, kind in operands)
    return text if options == "{}" else f"{text} with {options}"


def encoded_call(call: Call | Steps, encoder: Encoder, key_of: Any) -> dict[str, Any]:
    """A call as plain values; `key_of(kernel_call)`: the part of its program."""
    if isinstance(call, Steps):
        steps = [
            {
                "call": encoded_call(each, encoder, key_of),
                "inputs": [k if isinstance(k, int) else [k.input, k.start, k.stop] for k in inputs],
            }
            for each, inputs in call.steps
        ]
        return {"kind": "steps", "steps": steps}
    if isinstance(call, EmptyResult):
        return {"kind": "empty", "like": call.like, "shape": list(call.shape), "type": call.kind}
    if isinstance(call, CopyOfInput):
        return {"kind": "copy", "like": call.like}
    return {
        "arguments": [_encoded_argument(each, encoder) for each in call.arguments],
        "clears": call.clears,
        "grid": call.grid if isinstance(call.grid, int) else list(call.grid),
        "kind": "launch",
        "like": call.like,
        "program": key_of(call),
        "shape": None if call.shape is None else list(call.shape),
        "words": list(call.words),
    }


def _encoded_argument(argument: Any, encoder: Encoder) -> Any:
    if isinstance(argument, OutputAlloc):
        return {"count": argument.count, "shape": list(argument.shape)}
    if isinstance(argument, ScratchArgument):
        return {"count": argument.count, "type": encoder.dtype(argument.dtype), "zeroed": argument.is_zeroed}
    if isinstance(argument, CopiedInput):
        return {"copied": argument.input, "result": argument.is_result}
    return argument


def _call(row: Row, target: PackTarget[Any], part: str, decoder: Decoder) -> Call | Steps:
    if row["kind"] == "steps":
        return Steps(
            tuple((_launch(each["call"], target, part, decoder), _inputs(each)) for each in row["steps"])
        )
    if row["kind"] == "empty":
        return EmptyResult(tuple(numbers(row["shape"])), number(row["like"]), text(row["type"]))
    if row["kind"] == "copy":
        return CopyOfInput(number(row["like"]))
    return _launch(row, target, part, decoder)


def _inputs(row: Row) -> tuple[int | InputSlice, ...]:
    return tuple(number(k) if isinstance(k, int) else InputSlice(*numbers(k)) for k in row["inputs"])


def _launch(row: Row, target: PackTarget[Any], part: str, decoder: Decoder) -> KernelCall:
    program = target.program(row["program"]["key"])
    target.set_forms(program, part, row["program"]["whole_writes"])
    grid = row["grid"]
    return KernelCall(
        program,
        number(grid) if isinstance(grid, int) else tuple(numbers(grid)),
        tuple(_argument(each, decoder) for each in row["arguments"]),
        None if row["shape"] is None else tuple(numbers(row["shape"])),
        number(row["like"]),
        clears=truth(row["clears"]),
        words=tuple(numbers(row["words"])),
    )


def _argument(value: Any, decoder: Decoder) -> int | OutputAlloc | ScratchArgument | CopiedInput:
    if isinstance(value, int):
        return number(value)
    if "copied" in value:
        return CopiedInput(number(value["copied"]), truth(value["result"]))
    if "type" in value:
        return ScratchArgument(number(value["count"]), decoder.dtype(value["type"]), truth(value["zeroed"]))
    return OutputAlloc(number(value["count"]), tuple(numbers(value["shape"])))
