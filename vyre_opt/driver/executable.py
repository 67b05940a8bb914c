"""The base of `ProgramExecutable` and `PipelineExecutable`, and the conversion of arguments and outputs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.core_form import core_module
from ..ir.diagnostics import Diagnostic, DiagnosticError
from ..ir.program import Buffer, Module, Op
from ..runtime.array_backend import ArrayBackend, Operand
from ..runtime.dispatcher import (
    BadInputs,
    Dispatcher,
    DispatcherLike,
    OutputAlloc,
    Scratch,
    shared_dispatcher,
)
from ..runtime.kernel_call import PlannedCall
from ..runtime.limits import LimitError
from ..runtime.params import NO_PARAMS, param_words, value_of_word
from ..runtime.signatures import SIGNATURES, exact
from .binding import PYTHON, CallSyntax, Signature, bind
from .placement import architecture_of

if TYPE_CHECKING:
    from ..passes.bisect import BisectLimit
    from ..passes.registry import Pass

__all__ = ["Executable", "Grid", "Inputs", "Passes", "output_like", "take_argument"]

Inputs = Mapping[str, Any] | Sequence[Any]
Grid = int | Sequence[int] | None
Passes = str | Sequence["str | Pass"] | None
"""A pipeline of passes, as text or as a list of passes, each as text too."""


class Executable:
    """What programs and pipelines that can be called have in common.

    `module`: a copy for this executable, after passes, constants and expansion, which must not be changed
    after the first call; `name`: the program or pipeline in it.
    """

    signature: Signature

    def __init__(
        self, module: Module, name: str, dispatcher: DispatcherLike, syntax: CallSyntax = PYTHON
    ) -> None:
        self.module = module
        self.name = name
        self.syntax = syntax
        self.dispatcher: Dispatcher = shared_dispatcher(dispatcher)
        self._target = dispatcher
        self._fast: OrderedDict[Any, PlannedCall] = OrderedDict()
        """Plans of calls with like arguments."""

    @property
    def target(self) -> str:
        """The name of the target."""
        return self.dispatcher.name

    def arguments(
        self, inputs: Inputs, lengths: Mapping[str, Any], params: Mapping[str, int] = NO_PARAMS
    ) -> list[Any]:
        """The array for each buffer of the signature, or `OutputAlloc`.  Raises BadInputs.

        `params`: the words of the runtime scalars, on which sizes of buffers may depend.
        """
        return bind(self.signature, inputs, lengths, self.syntax, self.extent_params(params))

    def extent_params(self, params: Mapping[str, int]) -> dict[str, int]:
        """The whole numbers among the runtime scalars, as expressions of sizes and grids name them."""
        declared = self.signature.params
        return {
            f"@{name}": value_of_word(bits, declared[name])
            for name, bits in params.items()
            if declared[name].dtype.is_int
        }

    def param_words(self, params: Mapping[str, Any] | None) -> dict[str, int]:
        """The words of the runtime scalars, by name in order (see runtime/params.py).  Raises BadInputs."""
        declared = self.signature.params
        if not declared and not params:
            return {}
        return param_words(self.signature.title, declared, params, self.syntax.give_param)

    @staticmethod
    def _check_options(lengths: Any, scratch: Any) -> None:
        if lengths is not None and not isinstance(lengths, Mapping):
            raise BadInputs(f"lengths are numbers by the names of buffers, not {type(lengths).__name__}")
        if scratch is not None and not isinstance(scratch, Scratch):
            raise BadInputs(f"scratch is a vyre_opt.Scratch, not {type(scratch).__name__}")

    def _planned(
        self, inputs: Inputs, grid: Grid, lengths: Mapping[str, Any] | None, words: tuple[int, ...] = ()
    ) -> tuple[PlannedCall | None, Any, Any, Any]:
        """The plan of an earlier call with like arguments, their key, and the names and arrays of the inputs.

        There are no names if the arrays are in order, and no key for inputs that no plan fits, such as bytes.
        `words`: what else a plan is for.
        """
        try:
            kind = type(inputs)
            if kind is not dict and kind is not list and kind is not tuple:
                return None, None, (), ()
            arrays: Any = [*inputs.values()] if kind is dict else inputs  # type: ignore[union-attr]
            names: Any = inputs if kind is dict else ()
            # the types, as of what is `exact`
            key = (grid, type(grid), *names, *[SIGNATURES[type(array)](array) for array in arrays])
            if isinstance(grid, tuple):
                key += exact(grid)
            if lengths:
                key = (*key, *lengths, *map(exact, lengths.values()))
            if words:
                key = (*key, words)
            return self._fast.get(key), key, names, arrays
        except (KeyError, TypeError, RuntimeError, AttributeError, ValueError):
            return None, None, (), ()

    def _named(self, names: Any, arrays: Any) -> dict[str, Any]:
        """The arrays of a call by the names of their buffers."""
        if not names:
            read, parameters = self.signature.read, self.signature.parameters
            names = [buffer.name for buffer in (read if len(arrays) == len(read) else parameters)]
        return {name.removeprefix("@"): array for name, array in zip(names, arrays, strict=True)}

    def outputs(self, arrays: Sequence[Any]) -> dict[str, Any]:
        """The outputs that `run` returned, by name."""
        names = self._output_names
        if len(names) == 1:  # half a microsecond faster than zip
            return {names[0]: arrays[0]}
        return dict(zip(names, arrays, strict=True))

    @cached_property
    def _output_names(self) -> tuple[str, ...]:
        return tuple(buffer.name for buffer in self.signature.outputs)

    def transform(self, passes: Passes, bisect: BisectLimit | None = None) -> None:
        """Run a pipeline of passes, then expand ops of other packages, and the kernels that are programs.

        The interpreter runs the kernels of this package as they are.

        Before the first call only.  `bisect`: leaves out executions of passes.
        Raises BadInputs for a wrong pipeline, DiagnosticError for a kernel that has no program.
        """
        from ..ir.verifier import check
        from ..kernels.expansion import is_of_plugin
        from ..passes.manager import PassManager
        from ..passes.registry import BUILTIN, PassError, PluginRefused

        if passes:
            try:
                manager = PassManager(passes, target=self.schedules_for, bisect=bisect)
            except PluginRefused as error:
                raise LimitError("plugins", False, str(error)) from None
            except PassError as error:
                raise BadInputs(str(error)) from None
            # those of this package are held to what they report by tests, and verifying once is enough
            manager.verify_each = any(running.name not in BUILTIN for running in manager.passes)
            manager.run(self.module)
            check(self.module)
        self.module = core_module(self.module)
        native = self.target == "ref"
        kernels = [op for _, op in _kernels(self.module) if not native or is_of_plugin(op.name)]
        if not kernels:
            return
        expansion = f"expand_kernels{{native={str(native).lower()}}}"
        result = PassManager(expansion, target=self.schedules_for).run(self.module)
        reasons = {id(remark.loc): remark.message for remark in result.remarks if remark.kind == "refused"}
        errors = [
            Diagnostic("error", f"program @{name}: {reasons.get(id(op.loc), op.name)}", op.loc)
            for name, op in _kernels(self.module)
            if op in kernels
        ]
        if errors:
            raise DiagnosticError(errors)

    @property
    def schedules_for(self) -> str:
        """What schedules are chosen for: the architecture of the GPU ("sm_90"), or the name of the target."""
        return architecture_of(self.dispatcher) or self.target


def _kernels(module: Module) -> list[tuple[str, Op]]:
    """The named kernels in programs, each with the name of its program."""
    return [
        (program.name, op)
        for program in module.programs.values()
        for op in program.body.ops
        if op.definition.kernel is not None
    ]


def take_argument(backend: ArrayBackend, buffer: Buffer, argument: Any) -> Any:
    """An argument as the backend's dispatcher takes it, which checks bytes and NumPy arrays itself."""
    if backend.on_gpu or isinstance(argument, (OutputAlloc, bytes, bytearray, memoryview)):
        return argument
    # kind V: of a type that NumPy does not know, such as bfloat16 of ml_dtypes
    if isinstance(argument, (np.ndarray, np.generic)) and argument.dtype.kind != "V":
        return argument
    return backend.take(argument, f"inputs[{buffer.name!r}]")


def output_like(backend: ArrayBackend, buffer: Buffer, argument: Any, output: Any, owner: Any) -> Any:
    """An output in the shape of the array passed for it, if one was; as a torch tensor if there is an `owner`.

    `owner`: the first tensor among the arguments of the call; None if there is none.
    """
    is_text = isinstance(argument, memoryview)  # bytes, whatever their shape
    is_array = not is_text and not isinstance(argument, OutputAlloc)
    shape = getattr(argument, "shape", output.shape) if is_array else output.shape
    is_bf16 = buffer.dtype.element.name == "bf16"
    if owner is None and not is_bf16:
        return output if output.shape == shape else output.reshape(shape)
    kind = "bfloat16" if is_bf16 else output.dtype.name
    like = owner if owner is not None or isinstance(argument, OutputAlloc) else argument
    return backend.result(output, tuple(shape), Operand(output, tuple(shape), kind, like))
