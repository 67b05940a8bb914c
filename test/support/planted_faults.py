"""Random pipelines with an access that may be out of bounds: what faults as written faults after passes, and nothing else.

Of a sound pipeline one thing is changed at random:

    an index is moved     load @x[%i]                 ->   load @x[%i + 1]
    a buffer is shorter   buffer @mid : u32[128]      ->   buffer @mid : u32[127]
    a grid is larger      launch @p grid(4) (...)     ->   launch @p grid(5) (...)

The interpreter says what that does as it is written: nothing, or a fault of bounds.  A fault may be lost only with a load
whose value nobody uses: where it is any constant, outputs are those that are left.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from vyre_opt import parse, print_program
from vyre_opt.execution import DispatchError, ProgramError
from vyre_opt.execution.dispatcher import Dispatcher
from vyre_opt.ir import OPS, Block, Launch, Module, Op, Value, errors_of
from vyre_opt.ir.rewrite import become
from vyre_opt.rewriting.cloning import copy_module

from .pipeline_runs import Arrays, Kind, Observation, any_inputs, difference, observe, seed_pipeline

__all__ = ["PlantedFaults", "compare_faults", "planted"]

MOVES = (1, 1, -1, 3, -7, 64, 1000)
MOST_LOADS = 8


@dataclass(slots=True)
class PlantedFaults:
    """`outcomes` as written: clean, or of which kind the fault is.  `elsewhere`: faults that another op reports after the
    passes, `unused`: those of loads whose values nobody uses.  `failures`: seed, what differs, and the text."""

    outcomes: Counter[str] = field(default_factory=Counter)
    unused: int = 0
    elsewhere: int = 0
    failures: list[tuple[int, str, str]] = field(default_factory=list)

    def summary(self) -> str:
        outcomes = ", ".join(f"{count} {kind}" for kind, count in sorted(self.outcomes.items()))
        return f"{outcomes}; {self.unused} of unused loads, {self.elsewhere} at another op; {len(self.failures)} differ"


def planted(seed: int, kind: Kind = "mixed") -> Module:
    """The pipeline of a seed with one thing changed."""
    rng = random.Random(seed)
    _, module, _ = seed_pipeline(seed, kind)
    for _ in range(100):
        changed = parse(print_program(module))
        choice = rng.random()
        if choice < 0.5:
            _move_index(changed, rng)
        elif choice < 0.85:
            _shorten(changed, rng)
        else:
            _enlarge(changed, rng)
        if not errors_of(changed):
            return changed
    raise RuntimeError(f"seed {seed}: nothing can be changed")


def _move_index(module: Module, rng: random.Random) -> None:
    blocks = [
        (block, op)
        for program in module.programs.values()
        for block in _blocks(program.body)
        for op in block.ops
        if "buffer" in op.attrs and op.operands
    ]
    if not blocks:
        return
    block, op = rng.choice(blocks)
    index = rng.choice(op.indices)
    dtype, by = index.type, rng.choice(MOVES)
    distance = Value("planted_by", dtype)
    moved = Value("planted", dtype)
    encoded = by if dtype.is_signed else by % (1 << (dtype.bits or 32))
    if dtype.is_signed and (dtype.bits or 32) == 8:
        encoded = max(-128, min(by, 127))
    new = [
        Op(OPS["const"], (), (distance,), {"value": encoded}),
        Op(OPS["add"], (index, distance), (moved,)),
    ]
    at = block.ops.index(op)
    op.operands = tuple(moved if value is index else value for value in op.operands)
    block.ops = [*block.ops[:at], *new, *block.ops[at:]]


def _blocks(block: Block) -> list[Block]:
    return [block, *(inner for op in block.ops for region in op.regions for inner in _blocks(region))]


def _shorten(module: Module, rng: random.Random) -> None:
    buffers = [b for b in module.pipelines["main"].buffers.values() if any(b.shape)]
    if not buffers:
        return
    buffer = rng.choice(buffers)
    dimension = rng.choice([at for at, extent in enumerate(buffer.shape) if extent])
    extents = list(buffer.shape)
    extents[dimension] = max(1, (extents[dimension] or 1) - rng.choice((1, 1, 2, 31, 64)))
    buffer.shape = tuple(extents)


def _enlarge(module: Module, rng: random.Random) -> None:
    stages = [
        s for s in module.pipelines["main"].walk() if isinstance(s, Launch) and isinstance(s.grid[0], int)
    ]
    if stages:
        launch = rng.choice(stages)
        x = launch.grid[0]
        assert isinstance(x, int)
        launch.grid = (x + rng.choice((1, 1, 2)), *launch.grid[1:])


def compare_faults(
    seeds: Sequence[int], target: Dispatcher | str = "ref", kind: Kind = "mixed", passes: str = "default"
) -> PlantedFaults:
    """The planted pipelines of seeds, as they are on the interpreter and after passes on a target."""
    total = PlantedFaults()
    for seed in seeds:
        module = planted(seed, kind)
        text = print_program(module)
        inputs = any_inputs(text, seed)
        before = _run(module, "ref", inputs, "")
        total.outcomes[_kind(before)] += 1
        if isinstance(before, Observation):
            after = _run(module, target, inputs, passes)
            what = difference(before, after) if isinstance(after, Observation) else f"faults anew: {after}"
        elif isinstance(before, ProgramError) and before.kind == "bounds":
            after = _run(module, target, inputs, passes)
            what = ""
            if isinstance(after, ProgramError) and after.kind == "bounds":
                total.elsewhere += _place(before) != _place(after)
            elif _is_unused(module, before, inputs, after):
                total.unused += 1
            else:
                shown = "no fault" if isinstance(after, Observation) else after
                what = f"{before}\nis after the passes {shown}"
        else:
            continue
        if what:
            total.failures.append((seed, what, text))
    return total


def _kind(outcome: Observation | DispatchError) -> str:
    if isinstance(outcome, Observation):
        return "clean"
    return outcome.kind if isinstance(outcome, ProgramError) else "refused"


def _is_unused(
    module: Module, error: ProgramError, inputs: Arrays, left: Observation | DispatchError
) -> bool:
    """Whether a fault is of a load whose value changes nothing, and so is whatever fault of its kind comes then: without them the
    program leaves what is `left`, or is at fault in the same way, as by a race."""
    for value in (0, 1):
        changed = copy_module(module)
        outcome: Observation | DispatchError = error
        for _ in range(MOST_LOADS):
            if not isinstance(outcome, ProgramError) or outcome.kind != "bounds":
                break
            loc = outcome.diagnostic.loc
            load = next(
                (
                    op
                    for p in changed.programs.values()
                    for op in p.walk()
                    if op.name == "load" and op.loc == loc
                ),
                None,
            )
            if load is None:
                break
            become(load, "const", (), {"value": value})
            outcome = _run(changed, "ref", inputs, "")
        if isinstance(outcome, ProgramError) and isinstance(left, ProgramError):
            if outcome.kind != left.kind:
                return False
        elif (
            not isinstance(outcome, Observation)
            or not isinstance(left, Observation)
            or difference(outcome, left)
        ):
            return False
    return True


def _place(error: ProgramError) -> tuple[object, ...]:
    loc = error.diagnostic.loc
    return (loc.line, loc.column) if loc is not None else ()


def _run(
    module: Module, target: Dispatcher | str, inputs: Arrays, passes: str
) -> Observation | DispatchError:
    try:
        return observe(module, target, inputs, passes)
    except DispatchError as error:
        return error
