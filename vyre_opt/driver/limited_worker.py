"""The child process of a `LimitedExecutable`: compiles one program or pipeline, and calls it on each request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..execution.confine import Parent, confine
from ..execution.debug_prints import on_debug_print
from ..execution.dispatcher import BadInputs
from ..execution.environment import chosen_target
from ..execution.limits import compiling, memory_error
from ..ir import plugins
from ..ir.diagnostics import Source
from ..ir.verifier import check
from ..mlir.file_kind import parse_either
from .compile import compile as compile_text
from .compile import compile_module
from .limited_answers import MAX_ANSWER, contents, write_array, write_error
from .pipeline import PipelineExecutable
from .program import ProgramExecutable

__all__ = ["main", "warm_up"]

_SMALL = """vyre 1
program @p workgroup(1) grid(1) {
  buffer @y : u32[1] write binding(0) live_out
  %i = global_id x
  store %i, @y[%i] : u32
}
"""


def warm_up(runs: bool) -> None:
    """Load the parser and LLVM; with `runs`, also have LLVM reserve what it does at its first use."""
    small = compile_text(_SMALL)
    if runs:
        small()


def main(start: Mapping[str, Any]) -> None:
    """Answer requests until the parent has no more."""
    parent = confine(start, warm_up)
    if not parent.limits.plugins:
        plugins.refuse()
    worker = _Worker(parent)
    while worker.answer_next():
        pass


class _Worker:
    def __init__(self, parent: Parent) -> None:
        self.parent = parent
        self.source = Source("")
        self.executable: ProgramExecutable | PipelineExecutable | None = None

    def answer_next(self) -> bool:
        """Whether there may be another request."""
        try:
            what, arguments = self.parent.receive()
        except EOFError:
            return False
        except MemoryError as error:  # the rest of the request is still in the pipe
            self._send(write_error(memory_error(error) or error, self.source), [])
            return False
        except (
            Exception
        ) as error:  # unpickling raises nearly anything, for a class of the caller's script for one
            refusal = BadInputs(f"an argument cannot be passed to a process of its own: {error}")
            self._send(write_error(refusal, self.source), [])
            return True
        arrays: list[np.ndarray] = []
        try:
            answer, arrays = self.compile(**arguments) if what == "compile" else self.call(**arguments)
        except Exception as error:
            answer = write_error(memory_error(error) or error, self.source)
        self._send(answer, arrays)
        return True

    def compile(
        self, text: str, name: str, entry: str | None, target: str, specs: Mapping[str, Any], passes: Any
    ) -> tuple[dict[str, Any], list[np.ndarray]]:
        self.source = Source(text, name)
        with compiling():
            module = parse_either(self.source)
            check(module)
            self.executable = compile_module(module, entry, chosen_target(target), specs, passes)
        return {"owner": self.executable.signature.owner, "name": self.executable.name}, []

    def call(
        self, inputs: Any, grid: Any, lengths: Any, params: Any, reads: bool
    ) -> tuple[dict[str, Any], list[np.ndarray]]:
        """The outputs of a call.  `reads`: whether each host read is sent when it comes, as each printed line is."""
        assert self.executable is not None
        with on_debug_print(self._send_print):
            return self._outputs(inputs, grid, lengths, params, reads)

    def _outputs(
        self, inputs: Any, grid: Any, lengths: Any, params: Any, reads: bool
    ) -> tuple[dict[str, Any], list[np.ndarray]]:
        assert self.executable is not None
        if reads and isinstance(self.executable, PipelineExecutable):
            outputs = self.executable(
                inputs, grid, lengths=lengths, params=params, on_host_read=self._send_read
            )
        else:
            outputs = self.executable(inputs, grid, lengths=lengths, params=params)
        return {"outputs": [write_array(name, a) for name, a in outputs.items()]}, [*outputs.values()]

    def _send_read(self, name: str, array: np.ndarray) -> None:
        self._send({"read": [write_array(name, array)]}, [array])

    def _send_print(self, line: str) -> None:
        self._send({"print": line}, [])

    def _send(self, answer: dict[str, Any], arrays: list[np.ndarray]) -> None:
        raw = json.dumps(answer).encode()
        if len(raw) > MAX_ANSWER:
            message = str(answer.get("message", ""))[:1000]
            raw = json.dumps({"error": "BackendError", "message": message}).encode()
        self.parent.send(b"j", raw)
        for array in arrays:
            self.parent.send(b"d", contents(array))
