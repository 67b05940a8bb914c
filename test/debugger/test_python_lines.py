"""Random kernels, line by line: where the debugger stops, CPython comes in the same order, with the same values of names."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.modules import written_module
from support.python_kernels import python_kernel, shapes_of
from support.python_oracle import run_as_python
from support.quick import quick

from vyre_opt.debugger.session import Proceed, Session, Step, Stop
from vyre_opt.debugger.view import Expression, ExpressionError, View
from vyre_opt.execution import ProgramExecutable
from vyre_opt.lang import Kernel

pytestmark = pytest.mark.filterwarnings("ignore::vyre_opt.ProgramWarning")

MOST_STEPS = 400


@dataclass(frozen=True, slots=True)
class Line:
    """A line that is about to run, with the numbers that names have."""

    function: str
    number: int
    values: dict[str, Any]


def arguments(seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    ints = [rng.integers(-50, 50, 24).astype(np.int32) for _ in range(2)]
    floats = [(rng.integers(-80, 80, 24) / 8).astype(np.float32) for _ in range(2)]
    arrays = [ints[0], floats[0], ints[1], floats[1]]
    shaped = [array.reshape(s) for array, s in zip(arrays, shapes_of(seed).values(), strict=True)]
    return [int(rng.integers(-9, 9)), float(rng.integers(-9, 9)) / 2, *shaped]


def lines_of_python(kernel: Kernel, args: Sequence[Any], invocation: int) -> list[Line]:
    """The lines that CPython runs for an invocation, those of functions that it calls too."""
    calls: list[list[Line]] = []
    file = kernel.function.__code__.co_filename

    def trace(frame: Any, event: str, argument: Any) -> Any:
        code = frame.f_code
        if code.co_filename != file:
            return None
        if event == "call" and code is kernel.function.__code__:
            calls.append([])
        if event == "line":
            numbers = {n: v for n, v in frame.f_locals.items() if isinstance(v, (int, float, np.generic))}
            calls[-1].append(Line(code.co_name, frame.f_lineno, numbers))
        return trace

    sys.settrace(trace)
    try:
        run_as_python(kernel, (3,), args)
    finally:
        sys.settrace(None)
    return calls[invocation]


def lines_of_debugger(kernel: Kernel, args: Sequence[Any], invocation: int) -> list[Line]:
    """The lines at which steps of an invocation stop."""
    lines: list[Line] = []

    def stop(stop: Stop) -> Any:
        view = stop.view
        if stop.is_end or len(lines) >= MOST_STEPS:
            return Proceed()
        assert view.op is not None
        assert view.op.loc is not None
        assert view.invocation is not None
        places = session.places(view.machine)  # type: ignore[arg-type]
        place = places.of[view.op]
        scope = view.op.loc.scope  # type: ignore[attr-defined]
        lines.append(Line(scope.calls[-1], place.line, dict(values(view))))
        return Step(session.launch, view.invocation, place.statement, place.number)

    session = Session(stop, workgroup=invocation // 8, local=invocation % 8, on_print=lambda line: None)
    module = kernel.debug_module()
    executable = ProgramExecutable(module, "kernel", session.dispatcher)
    executable.transform(None)
    names = [buffer.name for buffer in executable.signature.parameters]
    given = executable.arguments(dict(zip(names, args[2:], strict=True)), {})
    session.run(lambda: executable.run(given, 3, None, session.watch, {"p": args[0], "q": args[1]}))
    return lines


def values(view: View) -> list[tuple[str, Any]]:
    found = []
    for name in view.names():
        try:
            value = Expression(name).value(view)
        except ExpressionError:
            continue
        if isinstance(value, (int, float, np.generic)):
            found.append((name, value))
    return found


def is_like(line: Line, other: Line, with_values: bool) -> bool:
    """Whether two lines are one, and the names that both know have the same values."""
    if (line.function, line.number) != (other.function, other.number):
        return False
    names = line.values.keys() & other.values.keys() if with_values else ()
    pairs = ((line.values[name], other.values[name]) for name in names)
    return all(a == b or (a != a and b != b) for a, b in pairs)


@pytest.mark.parametrize("seed", quick(range(200), keep=4))
def test_lines_and_values_are_those_of_python(seed: int, tmp_path: Path) -> None:
    """Python has lines more: of constants, and the heads of loops in each round.  The debugger stops again in a line that a function
    returns to, and at the head of a loop that was left by break or return."""
    kernel: Kernel = written_module(tmp_path, python_kernel(seed), f"kernel_{seed}").kernel
    text = Path(kernel.function.__code__.co_filename).read_text().splitlines()
    compared = 0
    for invocation in (1, 13):
        python = lines_of_python(kernel, arguments(seed), invocation)
        at, before = 0, None
        for line in lines_of_debugger(kernel, arguments(seed), invocation):
            is_for = text[line.number - 1].strip().startswith("for ")
            is_head = is_for or text[line.number - 1].strip().startswith("while ")
            # Python comes to the head of a for in each round, the debugger before the first
            fits = (n for n in range(at, len(python)) if is_like(line, python[n], with_values=is_for))
            where = next(fits, None)
            returns = before is not None and before.function not in (line.function, "kernel")
            before = line
            if returns or (is_head and where is None):
                continue
            assert where is not None, (seed, invocation, line)
            assert is_like(line, python[where], with_values=True), (seed, invocation, line, python[where])
            compared += len(line.values.keys() & python[where].values.keys())
            at = where + 1
    assert compared > 20
