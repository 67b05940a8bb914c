"""A target against the interpreter, program by program: every op, and random programs by seed.

Integers and exact floats must agree bit by bit; an op program says by how many ulp an
approximate op may be off.  Random programs have no approximate ops, since what follows
from an ulp may be anything.

The work is dealt out over processes: compiling takes most of the time, and each process
of the cuda target has its own context.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from vyre_opt.ir.printer import print_program
from vyre_opt.ir.program import Module
from vyre_opt.runtime.cpu.threads import available
from vyre_opt.runtime.dispatcher import Dispatcher, DispatchError, ProgramError, dispatcher

from .generator import Settings, random_program
from .op_programs import OpProgram, op_programs
from .reduce import reduce_text

__all__ = [
    "OPTIONS",
    "Comparison",
    "Difference",
    "compare_ops",
    "compare_random",
    "deal",
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

SHARE = 64
"""Programs of one task; a GPU loads them as one module, since one by one would take most of the time."""

INPUTS = 1
"""The seed of every program's inputs."""

MAX_STEPS = 500_000
"""Far more than a generated program runs; a reduced one may have lost what ends its loops."""


class Difference(NamedTuple):
    """`name` of a program, the `options` of the target, and `what` is not as the interpreter has it."""

    name: str
    options: dict[str, Any]
    what: str

    def __str__(self) -> str:
        named = ", ".join(f"{key}={value}" for key, value in self.options.items() if key != "workers")
        return f"{self.name} at {named}: {self.what}"


@dataclass(slots=True)
class Comparison:
    """`programs` compared, `runs` of them on the target, and what differs."""

    programs: int = 0
    runs: int = 0
    found: list[Difference] = field(default_factory=list)

    def add(self, other: Comparison) -> None:
        self.programs += other.programs
        self.runs += other.runs
        self.found += other.found

    def summary(self, target: str) -> str:
        return f"{self.programs} programs, {self.runs} runs on {target} against ref: {len(self.found)} differ"


def random_cases(seeds: Sequence[int], settings: Settings | None = None) -> list[OpProgram]:
    """The random programs of `seeds`, without approximate ops."""
    samples = [random_program(seed, replace(settings or Settings(), exact=True)) for seed in seeds]
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
    shares = [list(seeds[at : at + SHARE]) for at in range(0, len(seeds), SHARE)]
    return _total(deal(_random_share, [(target, share, settings, in_turn) for share in shares], jobs))


def compare_ops(target: str, *, jobs: int | None = None) -> Comparison:
    """Every op at every type it takes, with each of the target's OPTIONS."""
    count = len(list(op_programs()))
    return _total(deal(_op_share, [(target, start) for start in range(0, count, SHARE)], jobs))


def smallest(target: str, seed: int, options: dict[str, Any], settings: Settings | None = None) -> str:
    """The smallest text found of a random program that differs; the whole text, if it does not any more."""
    (case,) = random_cases([seed], settings)
    inputs = dict(zip([b.name for b in case.program.bound_buffers], case.inputs(INPUTS), strict=True))

    def differs(module: Module) -> bool:
        program = module.programs[case.program.name]
        left = OpProgram(case.name, program, module, case.grid)
        given = [inputs[b.name] for b in program.bound_buffers]
        ref = dispatcher("ref", max_steps=MAX_STEPS)
        try:
            wanted = ref.dispatch(program, given, case.grid, module=module)
        except DispatchError:  # no longer sound
            return False
        return bool(_mismatch(dispatcher(target, **options), left, given, wanted))

    return reduce_text(print_program(case.module), differs)


# --- one target, one program after the other


def _differing(target: Dispatcher, cases: Sequence[OpProgram]) -> Iterator[tuple[str, str]]:
    """Names of programs of which a target makes something else than the interpreter, and what."""
    _preload(target, cases)
    for case in cases:
        inputs = case.inputs(INPUTS)
        try:
            wanted = dispatcher("ref").dispatch(case.program, inputs, case.grid, module=case.module)
        except ProgramError as fault:
            what = f"at fault on ref: {fault}"
        else:
            what = _mismatch(target, case, inputs, wanted)
        if what:
            yield case.name, what


def _mismatch(target: Dispatcher, case: OpProgram, inputs: list[Any], wanted: list[Any]) -> str:
    try:
        given = target.dispatch(case.program, inputs, case.grid, module=case.module)
    except DispatchError as failed:
        return str(failed)
    return case.mismatch(wanted, given)


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


def _random_share(target: str, seeds: list[int], settings: Settings | None, in_turn: bool) -> Comparison:
    done = Comparison(len(seeds))
    options = OPTIONS[target]
    for number, chosen in enumerate(options):
        mine = [seed for seed in seeds if not in_turn or seed % len(options) == number]
        _compare(done, target, chosen, random_cases(mine, settings))
    return done


def _op_share(target: str, start: int) -> Comparison:
    cases = list(op_programs())[start : start + SHARE]
    done = Comparison(len(cases))
    for chosen in OPTIONS[target]:
        _compare(done, target, chosen, cases)
    return done


def _compare(done: Comparison, target: str, options: dict[str, Any], cases: Sequence[OpProgram]) -> None:
    done.runs += len(cases)
    made = dispatcher(target, **options)
    done.found += [Difference(name, options, what) for name, what in _differing(made, cases)]


def _total(parts: Iterable[Comparison]) -> Comparison:
    total = Comparison()
    for part in parts:
        total.add(part)
    return total


def deal(task: Any, arguments: Sequence[tuple[Any, ...]], jobs: int | None) -> Iterator[Any]:
    """What `task` makes of each of `arguments`, in order, by processes that share nothing with this one.

    `jobs`: how many, one for each CPU by default; a single one is this process.
    """
    wanted = min(jobs or available(), len(arguments))
    if wanted <= 1:
        for given in arguments:
            yield task(*given)
        return
    fresh = multiprocessing.get_context("spawn")  # a forked process cannot use the GPU
    with ProcessPoolExecutor(wanted, mp_context=fresh) as pool:
        yield from pool.map(task, *zip(*arguments, strict=True))
