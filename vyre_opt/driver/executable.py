"""What is common to programs and pipelines that can be called, and their arguments and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..ir.diagnostics import Diagnostic, DiagnosticError
from ..ir.program import Buffer, Module, Op
from ..runtime.array_backend import ArrayBackend, Operand
from ..runtime.dispatcher import (
    BackendError,
    BadInputs,
    Dispatcher,
    DispatcherLike,
    OutputAlloc,
    shared_dispatcher,
)
from .binding import PYTHON, Wording

__all__ = ["Executable", "Grid", "Inputs", "in_kind", "taken"]

Inputs = Mapping[str, Any] | Sequence[Any]
Grid = int | Sequence[int] | None


class Executable:
    """What is common to programs and pipelines that can be called.

    `module`: its own, after passes, constants and expansion, which nobody changes after the first
    call; `name`: of the entry.
    """

    def __init__(self, module: Module, name: str, given: DispatcherLike, words: Wording = PYTHON) -> None:
        self.module = module
        self.name = name
        self.words = words
        self.dispatcher: Dispatcher = shared_dispatcher(given)
        self._given = given

    @property
    def target(self) -> str:
        """The name of the target."""
        return self.dispatcher.name

    def transform(self, passes: Any) -> None:
        """Run a pipeline of passes, and expand the kernels that are programs, unless ref is to run them.

        Before the first call only.
        Raises BadInputs for a wrong pipeline, DiagnosticError for a kernel that has no program.
        """
        from ..passes.manager import PassManager
        from ..passes.registry import PassError

        if passes:
            try:
                manager = PassManager(passes, target=self.schedules_for)
            except PassError as wrong:
                raise BadInputs(str(wrong)) from None
            manager.run(self.module)
        if self.target == "ref" or not _kernels(self.module):
            return
        done = PassManager("expand_kernels", target=self.schedules_for).run(self.module)
        reasons = {id(remark.loc): remark.message for remark in done.remarks if remark.kind == "refused"}
        errors = [
            Diagnostic("error", f"program @{name}: {reasons.get(id(op.loc), op.name)}", op.loc)
            for name, op in _kernels(self.module)
        ]
        if errors:
            raise DiagnosticError(errors)

    @property
    def schedules_for(self) -> str:
        """What schedules are chosen for: the GPU's architecture ("sm_90") where there is one, or the target."""
        return self._gpu() or self.target

    def _gpu(self) -> str:
        """The architecture of the GPU; empty for other targets, and where there is none."""
        try:
            facts = getattr(self.dispatcher, "facts", None)
        except BackendError:
            return ""
        return "" if facts is None else str(facts.target.name)


def _kernels(module: Module) -> list[tuple[str, Op]]:
    """The kernels that are programs, with the programs' names."""
    return [
        (program.name, op)
        for program in module.programs.values()
        for op in program.body.ops
        if op.definition.kernel is not None
    ]


def taken(place: ArrayBackend, buffer: Buffer, given: Any) -> Any:
    """An argument as a place's dispatcher takes it; what NumPy has, it checks itself."""
    if isinstance(given, OutputAlloc) or place.on_gpu or isinstance(given, (bytes, bytearray, memoryview)):
        return given
    if isinstance(given, (np.ndarray, np.generic)) and given.dtype.kind != "V":
        return given
    return place.take(given, f"inputs[{buffer.name!r}]")


def in_kind(place: ArrayBackend, buffer: Buffer, given: Any, made: Any, owner: Any) -> Any:
    """An output in the shape of the array given for it, and as a tensor where one was given."""
    shape = getattr(given, "shape", None) or made.shape
    is_bf16 = buffer.dtype.element.name == "bf16"
    if owner is None and not is_bf16:
        return made if made.shape == shape else made.reshape(shape)
    kind = "bfloat16" if is_bf16 else made.dtype.name
    like = owner if owner is not None or isinstance(given, OutputAlloc) else given
    return place.result(made, tuple(shape), Operand(made, tuple(shape), kind, like))
