"""Random programs from a seed.  The same seed and settings give the same program."""

from __future__ import annotations

import random

from vyre_opt.ir import Builder, DataType, Module, Param, Program

from .expressions import SCALARS, Expressions, Settings
from .memory import MemoryGenerator
from .sample import Sample, random_bits
from .statements import Statements

__all__ = ["Settings", "random_program"]

WORKGROUPS: tuple[tuple[int, ...], ...] = (
    (1,),
    (4,),
    (8,),
    (16,),
    (32,),
    (33,),
    (64,),
    (4, 2),
    (8, 8),
    (2, 2, 2),
)
GRIDS: tuple[tuple[int, ...], ...] = ((1,), (1,), (2,), (3,), (2, 2))


def random_program(seed: int, settings: Settings | None = None) -> Sample:
    """A sound program of its own module, its functions before it, and its grid."""
    settings = settings or Settings()
    rng = random.Random(seed)
    workgroup, size = rng.choice(WORKGROUPS), rng.choice(GRIDS)
    b = Builder("main", settings.workgroup or workgroup, settings.grid or size, Module())
    for number in range(rng.choice((0, 0, 1, 2))):
        _function(b, rng, settings, number)
    e = Expressions(b, rng, settings)
    _specs(b, rng)
    _params(b, random.Random(f"params {seed}"))
    grid = b.program.grid
    assert grid is not None
    memory = MemoryGenerator(e, grid[0] * grid[1] * grid[2], random.Random(f"shapes {seed}"))
    statements = Statements(e, memory)
    statements.several(settings.statements)
    for storage in memory.owned:
        memory.store_own(storage)
    memory.add_to_digest(statements.digest(16))
    if rng.random() < 0.5:
        b.program.grid = None
    _rename(b.program, rng)
    return Sample(b.module, b.finish(verify=False), grid, seed)


def _function(b: Builder, rng: random.Random, settings: Settings, number: int) -> None:
    """A pure function; it may call those before it."""
    params = [rng.choice(SCALARS) for _ in range(rng.randrange(1, 4))]
    results = [rng.choice(SCALARS) for _ in range(rng.randrange(1, 3))]
    e = Expressions(b, rng, settings, in_function=True)
    with b.func(f"helper{number}", *params) as func:
        for param in func.args:
            e.pool.add(param)
        Statements(e, None).several(rng.randrange(1, 5))
        func.yield_(*[e.value(dtype) for dtype in results])


def _specs(b: Builder, rng: random.Random) -> None:
    """Specialization constants of several types, all with defaults."""
    for number in range(rng.randrange(0, 3)):
        dtype = rng.choice((DataType.U32, DataType.BOOL, *SCALARS))
        value = b.spec(f"spec{number}", dtype, False if dtype.is_bool else 0)
        assert value.owner is not None
        b.program.specs[f"spec{number}"].default = random_bits(dtype, rng)


def _params(b: Builder, rng: random.Random) -> None:
    """Runtime scalars of several types, all with defaults, in a quarter of the programs."""
    for number in range(rng.choice((0, 0, 0, 2))):
        dtype = rng.choice((DataType.U32, DataType.BOOL, *SCALARS))
        b.program.params[f"param{number}"] = Param(f"param{number}", dtype, random_bits(dtype, rng))


def _rename(program: Program, rng: random.Random) -> None:
    """Give some values names that clash, so that the printer has to tell them apart."""
    if rng.random() < 0.5:
        return
    names = ("x", "x_1", "sum", "a.b", "i$", "7")
    for op in program.walk():
        for value in (*op.results, *(arg for block in op.regions for arg in block.args)):
            if rng.random() < 0.3:
                value.name = rng.choice(names)
