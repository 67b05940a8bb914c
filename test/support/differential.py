"""A target against the interpreter, program by program: every op, and random programs by seed.

All must agree bit by bit, but for which NaN an op gives.

The work is distributed over processes: compiling takes most of the time, and each process
of the cuda target has its own context.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from vyre_opt import dispatcher
from vyre_opt.execution import DispatchError, ProgramError, on_debug_print
from vyre_opt.execution.dispatcher import Dispatcher
from vyre_opt.execution.processors import available
from vyre_opt.ir import parse, print_program
from vyre_opt.reduce import FunctionTest, Oracle, reduce_text

from .generator import Settings, random_program
from .op_programs import OpProgram, op_programs
from .printed import differing_lines

__all__ = [
    "OPTIONS",
    "Comparison",
    "Difference",
    "compare_ops",
    "compare_random",
    "distribute",
    "random_cases",
    "smallest",
]

OPTIONS: dict[str, tuple[dict[str, Any], ...]] = {
    "ref": ({},),
    "cpu": ({"workers": 1, "opt": 0}, {"workers": 1, "opt": 3}),
    "cuda": (
        {"bounds": "trap", "opt_level": 0},
        {"bounds": "none", "opt_level": 3},
        {"bounds": "clamp", "opt_level": 2},
    ),
}
"""By target: with no and with full optimisation, and what else changes the code."""

REDUCTION_TESTS = 3000
"""The most runs that making one failure small may take."""

BATCH = 64
"""Programs of one task; a GPU loads them as one module, since loading each alone would dominate."""

INPUTS = 1
"""The seed of every program's inputs."""

MAX_STEPS = 500_000
"""Far more than a generated program takes; reduction may remove what ends a loop."""


class Difference(NamedTuple):
    """`name` of a program, the `options` of the target, and in words `what` differs from the interpreter."""

    name: str
    options: dict[str, Any]
    what: str

    def __str__(self) -> str:
        options = ", ".join(f"{key}={value}" for key, value in self.options.items() if key != "workers")
        return f"{self.name} at {options}: {self.what}"


@dataclass(slots=True)
class Comparison:
    """`programs` compared, `runs` of them on the target, and the `differences` from the interpreter."""

    programs: int = 0
    runs: int = 0
    differences: list[Difference] = field(default_factory=list)

    def add(self, other: Comparison) -> None:
        self.programs += other.programs
        self.runs += other.runs
        self.differences += other.differences

    def summary(self, target: str) -> str:
        return f"{self.programs} programs, {self.runs} runs on {target} against ref: {len(self.differences)} differ"


def random_cases(seeds: Sequence[int], settings: Settings | None = None) -> list[OpProgram]:
    """The random programs of `seeds`."""
    samples = [random_program(seed, settings or Settings()) for seed in seeds]
    return [OpProgram(f"seed {s.seed}", s.program, s.module, s.grid) for s in samples]


def compare_random(
    target: str,
    seeds: Sequence[int],
    settings: Settings | None = None,
    *,
    in_turn: bool = False,
    jobs: int | None = None,
) -> Comparison:
    """The programs of `seeds` with each of the target's OPTIONS; `in_turn`: each with only one of them.

    `jobs`: processes, one for each CPU by default.
    """
    batches = [list(seeds[at : at + BATCH]) for at in range(0, len(seeds), BATCH)]
    return _total(distribute(_random_batch, [(target, batch, settings, in_turn) for batch in batches], jobs))


def compare_ops(
    target: str, *, per_op: int | None = None, in_turn: bool = False, jobs: int | None = None
) -> Comparison:
    """Every op at every type it takes, with each of the target's OPTIONS; `per_op`: so many programs of each.

    `in_turn`: each program with only one of the OPTIONS.
    """
    starts = range(0, len(_op_cases(per_op)), BATCH)
    return _total(distribute(_op_batch, [(target, start, per_op, in_turn) for start in starts], jobs))


def _op_cases(per_op: int | None) -> list[OpProgram]:
    cases = list(op_programs())
    if per_op is None:
        return cases
    by_op: dict[str, list[OpProgram]] = {}
    for case in cases:
        by_op.setdefault(case.name.split()[0], []).append(case)
    # from the first to the last, so that types of every kind and width are among them
    return [case for group in by_op.values() for case in group[:: max(1, len(group) // per_op)]]


def smallest(target: str, seed: int, options: dict[str, Any], settings: Settings | None = None) -> str:
    """The smallest text found of a random program that differs; its whole text if it no longer differs."""
    (case,) = random_cases([seed], settings)
    inputs = dict(zip([b.name for b in case.program.bound_buffers], case.inputs(INPUTS), strict=True))

    def differs(text: str) -> bool:
        module = parse(text)
        program = module.programs.get(case.program.name)
        if program is None:
            return False
        reduced_case = OpProgram(case.name, program, module, case.grid)
        arrays = [inputs[b.name] for b in program.bound_buffers]
        ref = dispatcher("ref", max_steps=MAX_STEPS)
        lines: list[str] = []
        try:
            with on_debug_print(lines.append):
                expected = ref.dispatch(program, arrays, case.grid, module=module)
        except DispatchError:  # no longer sound
            return False
        return bool(_mismatch(dispatcher(target, **options), reduced_case, arrays, expected, lines))

    return reduce_text(print_program(case.module), Oracle(FunctionTest(differs), REDUCTION_TESTS))


# --- one target, one program after the other


def _differing(target: Dispatcher, cases: Sequence[OpProgram]) -> Iterator[tuple[str, str]]:
    """Names of programs whose results on a target differ from the interpreter's, and how."""
    _preload(target, cases)
    for case in cases:
        inputs = case.inputs(INPUTS)
        lines: list[str] = []
        try:
            with on_debug_print(lines.append):
                expected = dispatcher("ref").dispatch(case.program, inputs, case.grid, module=case.module)
        except ProgramError as fault:
            what = f"at fault on ref: {fault}"
        else:
            what = _mismatch(target, case, inputs, expected, lines)
        if what:
            yield case.name, what


def _mismatch(
    target: Dispatcher, case: OpProgram, inputs: list[Any], expected: list[Any], printed: list[str]
) -> str:
    lines: list[str] = []
    try:
        with on_debug_print(lines.append):
            actual = target.dispatch(case.program, inputs, case.grid, module=case.module)
    except DispatchError as failed:
        return str(failed)
    return case.mismatch(expected, actual) or differing_lines(printed, lines)


def _preload(target: Dispatcher, cases: Sequence[OpProgram]) -> None:
    """Compile all of them as one module, where the target can."""
    preload = getattr(target, "preload", None)
    if preload is None:
        return
    from vyre_opt.lowering.nvptx.abi import Unit

    try:
        preload([Unit(case.program, case.module) for case in cases])
    except DispatchError:
        pass  # one by one, so that the program to blame is named


# --- in a process of the pool


def _random_batch(target: str, seeds: list[int], settings: Settings | None, in_turn: bool) -> Comparison:
    total = Comparison(len(seeds))
    options = OPTIONS[target]
    for number, choice in enumerate(options):
        selected = [seed for seed in seeds if not in_turn or seed % len(options) == number]
        _compare(total, target, choice, random_cases(selected, settings))
    return total


def _op_batch(target: str, start: int, per_op: int | None, in_turn: bool) -> Comparison:
    cases = _op_cases(per_op)[start : start + BATCH]
    total = Comparison(len(cases))
    options = OPTIONS[target]
    for number, choice in enumerate(options):
        _compare(total, target, choice, cases[number :: len(options)] if in_turn else cases)
    return total


def _compare(total: Comparison, target: str, options: dict[str, Any], cases: Sequence[OpProgram]) -> None:
    total.runs += len(cases)
    runner = dispatcher(target, **options)
    total.differences += [Difference(name, options, what) for name, what in _differing(runner, cases)]


def _total(parts: Iterable[Comparison]) -> Comparison:
    total = Comparison()
    for part in parts:
        total.add(part)
    return total


def distribute(task: Any, arguments: Sequence[tuple[Any, ...]], jobs: int | None) -> Iterator[Any]:
    """`task(*args)` for each tuple of `arguments`, in order, computed by fresh processes.

    `jobs`: how many processes, one for each CPU by default; with one, this process does the work.
    """
    processes = min(jobs or available(), len(arguments))
    if processes <= 1:
        for args in arguments:
            yield task(*args)
        return
    spawn = multiprocessing.get_context("spawn")  # a forked process cannot use the GPU
    with ProcessPoolExecutor(processes, mp_context=spawn) as pool:
        yield from pool.map(task, *zip(*arguments, strict=True))
