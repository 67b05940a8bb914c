"""A program or a pipeline in a process of its own, which has limits; `vyre_opt.compile(..., limits=)` returns it.

The child process (`limited_worker`) parses, verifies, transforms, compiles and runs; this process reads the
text, and hands arrays over and back.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..execution.array_backend import is_torch
from ..execution.arrays import number_of
from ..execution.debug_prints import hand_over
from ..execution.dispatcher import BackendError, BadInputs, DispatcherLike
from ..execution.limits import LimitError, Limits
from ..ir.bounded_read import MOST_BYTES, TooLarge, read_file
from ..ir.diagnostics import Source, decode
from ..ir.program import Module, Program
from ..syntax.parser import tables
from ..syntax.printer import print_program
from .binding import wrong_source
from .executable import Grid, Inputs
from .limited_answers import MAX_ANSWER, MalformedAnswer, nbytes_of, read_array, read_error, text

if TYPE_CHECKING:
    from ..execution.child_process import ChildProcess
    from .pass_pipeline import Passes

__all__ = ["LimitedExecutable"]

TARGETS = ("ref", "cpu")
_MODULE = "vyre_opt.driver.limited_worker"

HostReader = Callable[[str, np.ndarray], None]


class LimitedExecutable:
    """A program or a pipeline that is compiled in a child process and can be called.

    `name`: the program's or pipeline's; `target`: ref or cpu; `limits`: what each call is held to.  There are no
    `program`, `llvm()` and `ptx()`, which the child alone has.

    The process stays from call to call.  One that has broken a limit, or ended, is replaced at the next call,
    which then compiles again.  Calls of several threads run one after the other.  `close` ends the process; so do
    the end of a `with` and of this object.
    """

    def __init__(
        self,
        source: str | Path | Module | Program,
        entry: str | None,
        target: DispatcherLike,
        specs: Mapping[str, Any],
        passes: Passes,
        limits: Limits,
    ) -> None:
        if not isinstance(limits, Limits):
            raise BadInputs(f"limits is a vyre_opt.Limits, not {type(limits).__name__}")
        if sys.platform != "linux":
            raise BackendError("limits need Linux")
        if target not in TARGETS:
            raise BadInputs(f"limits hold for the targets {' and '.join(TARGETS)}, not for {target!r}")
        self.limits = limits
        self.target = str(target)
        self.name = ""
        self._owner = ""
        self._source = _read(source, limits)
        self._compilation = {
            "text": self._source.text,
            "name": self._source.name,
            "entry": entry,
            "target": target,
            "specs": dict(specs) if type(specs) is dict else specs,  # the caller may change it later
            # a pass is passed as its text
            "passes": passes if passes is None or isinstance(passes, str) else [str(p) for p in passes],
        }
        self._lock = RLock()
        self._is_busy = False
        self._child: ChildProcess | None = None
        with self._lock:
            self._guarded(self._ready_child)

    def __repr__(self) -> str:
        return f"<{self._owner} @{self.name} for {self.target}, in a process of its own>"

    def __call__(
        self,
        inputs: Inputs = (),
        grid: Grid = None,
        *,
        lengths: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        on_host_read: HostReader | None = None,
    ) -> dict[str, np.ndarray]:
        """Run, and return the outputs by name; see `ProgramExecutable` and `PipelineExecutable`.

        Arrays are NumPy's, or what NumPy makes one of.  Raises LimitError, a BackendError, for a limit that was
        broken; whatever else goes wrong raises what it does without limits, and BackendError if the process ended.
        """
        if on_host_read is not None and self._owner == "program":
            raise BadInputs("on_host_read is of pipelines")
        if on_host_read is not None and not callable(on_host_read):
            raise BadInputs(
                f"on_host_read is a function of a name and an array, not {type(on_host_read).__name__}"
            )
        arguments = {
            "inputs": _plain_inputs(inputs),
            "grid": grid,
            "lengths": None if lengths is None else _as_dict(lengths),
            "params": {k: number_of(v) for k, v in params.items()} if isinstance(params, Mapping) else params,
            "reads": on_host_read is not None,
        }
        with self._lock:
            outputs: dict[str, np.ndarray] = self._guarded(lambda: self._call(arguments, on_host_read))
            return outputs

    def close(self) -> None:
        """End the process; a later call starts another."""
        with self._lock:
            self._guarded(self._drop_child)

    def __enter__(self) -> LimitedExecutable:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _guarded(self, work: Callable[[], Any]) -> Any:
        """`work()`, under the lock; the child is ended unless it is idle again and within its limits."""
        if self._is_busy:
            raise BadInputs(
                "a handler of host reads or prints may not call or close the executable whose run it sees"
            )
        self._is_busy = True
        try:
            return work()
        except _Answered as answered:
            error = answered.error
            if isinstance(error, LimitError) and error.limit == "memory":
                self._drop_child()  # it has what was in its way
            raise error from None
        except MalformedAnswer as malformed:
            assert self._child is not None
            error = self._child.nonsense(str(malformed))
            self._child = None
            raise error from None
        except BaseException:  # also Ctrl-C, and what `on_host_read` raises
            self._drop_child()
            raise
        finally:
            self._is_busy = False

    def _drop_child(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child = None

    def _ready_child(self) -> ChildProcess:
        """A child that has compiled: the present one or a new one."""
        if self._child is not None and self._child.owner == os.getpid():
            return self._child
        from ..execution.child_process import ChildProcess  # which only Linux has all the parts of

        tables.load()  # which keeps them in the cache, where the child may not write
        self._child = child = ChildProcess(_MODULE, self.limits)
        child.begin()
        try:
            self._send("compile", self._compilation)
            answer = self._answer()
        except _Answered:
            self._drop_child()
            raise
        self._owner, self.name = text(answer.get("owner")), text(answer.get("name"))
        return child

    def _call(self, arguments: Mapping[str, Any], on_host_read: HostReader | None) -> dict[str, np.ndarray]:
        child = self._ready_child()
        child.begin()
        self._send("call", arguments)
        total = 0
        while True:
            answer = self._answer()
            if "print" in answer:
                line = text(answer["print"])
                total += len(line)
                self._check_output(total)
                hand_over([line])
                continue
            is_read = "read" in answer
            descriptions = answer.get("read" if is_read else "outputs")
            if not isinstance(descriptions, list):
                raise MalformedAnswer("neither an error nor outputs")
            total += sum(map(nbytes_of, descriptions))
            self._check_output(total)
            arrays = dict([read_array(d, child.receive(b"d", nbytes_of(d))) for d in descriptions])
            if not is_read:
                return arrays
            if on_host_read is None:
                raise MalformedAnswer("a host read that nobody asked for")
            for name, array in arrays.items():
                on_host_read(name, array)

    def _check_output(self, total: int) -> None:
        """Raises LimitError for more bytes than `output`."""
        if self.limits.output is not None and total > self.limits.output:
            raise self.limits.error("output", f"outputs, host reads and prints take {total} bytes")

    def _send(self, what: str, arguments: Mapping[str, Any]) -> None:
        assert self._child is not None
        try:
            self._child.send((what, arguments))
        except (BackendError, OSError):
            raise
        # pickle raises nearly anything for what it cannot write, before any is sent
        except Exception as error:
            refusal = BadInputs(f"an argument cannot be passed to a process of its own: {error}")
            raise _Answered(refusal) from None

    def _answer(self) -> dict[str, Any]:
        """The next answer.  Raises _Answered for an error, MalformedAnswer for what is none."""
        assert self._child is not None
        raw = self._child.receive(b"j", MAX_ANSWER)
        try:
            answer = json.loads(bytes(raw))
        except (ValueError, RecursionError):
            raise MalformedAnswer("no JSON") from None
        if not isinstance(answer, dict):
            raise MalformedAnswer("JSON of another type")
        if "error" in answer:
            raise _Answered(read_error(answer, self._source, self.limits))
        return answer


class _Answered(Exception):
    """An error of the request, after which the child waits for another."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def _read(source: str | Path | Module | Program, limits: Limits) -> Source:
    """The text of a source.  Raises OSError, DiagnosticError, BadInputs, LimitError."""
    if isinstance(source, Path):
        try:
            raw = read_file(source, limits.input or MOST_BYTES)
        except TooLarge:
            if limits.input is None:
                raise
            raise limits.error("input", f"{source} has more bytes") from None
        return Source(decode(raw, str(source)), str(source))
    if isinstance(source, str):
        if source.endswith(".vyre") and "\n" not in source:
            raise BadInputs(f"{source!r} is the name of a file; pass pathlib.Path({source!r}), or its text")
        return Source(source)
    if isinstance(source, (Module, Program)):
        return Source(print_program(source))
    raise wrong_source(source)


def _plain_inputs(inputs: Any) -> Any:
    """Inputs as they can be passed on.  Raises BadInputs for an array that is not NumPy's."""
    if isinstance(inputs, Mapping):
        return {name: _plain(array, name) for name, array in inputs.items()}
    if isinstance(inputs, (list, tuple)):
        return [_plain(array, index) for index, array in enumerate(inputs)]
    return inputs


def _plain(array: Any, name: Any) -> Any:
    if isinstance(array, memoryview):
        return bytes(array)
    if is_torch(array) or hasattr(array, "__cuda_array_interface__"):
        raise BadInputs(f"inputs[{name!r}]: with limits, arrays are NumPy's, not of {type(array).__module__}")
    return array


def _as_dict(values: Any) -> Any:
    return dict(values) if isinstance(values, Mapping) else values
