"""Functions as parts of a pack: how they are called, their plans for each target, and what passes did to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..driver.compile import compile_module
from ..driver.pass_pipeline import Passes
from ..driver.pipeline import PipelineExecutable
from ..driver.program import ProgramExecutable
from ..execution.arrays import storage_type
from ..execution.dispatcher import BadInputs
from ..ir.program import Module
from ..pack_files.format import Part, canonical
from ..packs.ir_data import Encoder, Unpackable
from .array_functions import ARRAYS, taken_as
from .artifacts import Code
from .decisions import Decisions
from .plans import PlanWriter

__all__ = ["FunctionPacker", "Shapes"]

Shapes = Sequence[Sequence[Any] | Mapping[str, Any]]
"""The arrays of calls, in the order of a function's or by name."""

Row = dict[str, Any]


class FunctionPacker:
    """Collects the parts of functions.  `names`: of the functions; `parts`: by name.  `codes`: the code that programs get."""

    def __init__(self, encoder: Encoder, codes: Sequence[Code]) -> None:
        self.encoder, self.names = encoder, set[str]()
        self.parts: dict[str, Part] = {}
        self._writers = [PlanWriter(code, encoder, self._put) for code in codes]

    def add(self, name: str, module: Module, passes: Passes, shapes: Shapes, call: Mapping[str, Any]) -> None:
        """Add the function `name` of a module; `call`: how it is called.  Raises BadInputs, DiagnosticError."""
        self._add_name(name)
        for writer in self._writers:
            target, decisions = writer.code.target, Decisions()
            executable = compile_module(module, name, target, {}, passes, observers=[decisions])
            try:
                plan = writer.plan(executable, self._lengths(executable, shapes))
                signature = self.encoder.signature(
                    executable.program
                    if isinstance(executable, ProgramExecutable)
                    else module.pipelines[name]
                )
            except Unpackable as error:
                raise BadInputs(f"{name} cannot be packed: {error}") from None
            self._put_json(f"plans/{name}/{writer.code.name}", "plan", plan)
            own = name if target.name == "cpu" else f"{name}/{writer.code.name}"
            for part in decisions.parts(own, module, passes, target.schedules):
                self._put(part)
        row = {
            **call,
            "kind": "pipeline" if name in module.pipelines else "program",
            "name": name,
            "signature": signature,
        }
        self._put_json(f"functions/{name}", "function", row)

    def _add_name(self, name: str) -> None:
        if name in self.names:
            raise BadInputs(f"two functions are named {name}; a pack has one of each name")
        self.names.add(name)

    def add_array_function(self, function: Any, name: str, calls: Sequence[Any]) -> None:
        """Add a function on arrays for some calls.  Raises BadInputs."""
        self._add_name(name)
        if not calls:
            raise BadInputs(
                f"{name} is packed for the shapes of calls; say them: shapes={{{name!r}: [({ARRAYS},)]}}, with its arrays"
            )
        for writer in self._writers:
            rows = [writer.call(function, arguments) for arguments in calls]
            self._put_json(f"plans/{name}/{writer.code.name}", "plan", {"calls": rows})
        row = {"kind": "arrays", "name": name, "take": taken_as(function)}
        self._put_json(f"functions/{name}", "function", row)

    def _put(self, part: Part) -> None:
        self.parts[part.name] = part

    def _put_json(self, name: str, kind: str, value: Row) -> None:
        self._put(Part(name, kind, canonical(value)))

    # --- lengths

    def _lengths(
        self, executable: ProgramExecutable | PipelineExecutable, shapes: Shapes
    ) -> list[dict[str, int]]:
        """The lengths of the buffers of each call."""
        return [self._lengths_of_call(executable, arrays) for arrays in shapes]

    def _lengths_of_call(
        self, executable: ProgramExecutable | PipelineExecutable, arrays: Sequence[Any] | Mapping[str, Any]
    ) -> dict[str, int]:
        buffers = executable.signature.parameters
        if not isinstance(arrays, Mapping):
            if len(arrays) != len(buffers):
                listed = ", ".join(buffer.name for buffer in buffers)
                raise BadInputs(f"shapes[{executable.name!r}]: a call has {len(buffers)} arrays, {listed}")
            arrays = {buffer.name: array for buffer, array in zip(buffers, arrays, strict=True)}
        unknown = sorted(arrays.keys() - {buffer.name for buffer in buffers})
        if unknown:
            listed = ", ".join(buffer.name for buffer in buffers)
            raise BadInputs(
                f"shapes[{executable.name!r}]: {unknown[0]} is no array of a call, which has {listed}"
            )
        given = {
            buffer.name: np.empty(np.shape(arrays[buffer.name]), storage_type(buffer.dtype))
            for buffer in buffers
            if buffer.name in arrays
        }
        return executable.lengths_of_call(given)
