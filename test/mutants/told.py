"""Mistakes in what is told of a program before it runs, and in its remedy, the fill."""

from __future__ import annotations

from .mutant import Mutant

__all__ = ["MUTANTS"]

WARNINGS, WARNINGS_TEST = "vyre_opt/ir/warnings/program_warnings.py", "test/ir/test_program_warnings.py"
USES, RULES = "vyre_opt/ir/buffer_uses.py", "vyre_opt/ir/pipeline_rules.py"
EXPAND, FILL = "vyre_opt/passes/expand_kernels.py", "vyre_opt/kernels/fill.py"
FILLS, VALUES = "test/passes/test_fills.py", "test/ir/test_fills.py"

MUTANTS = (
    Mutant(
        "the last element is out of bounds",
        WARNINGS,
        "0 <= first <= extent - moved",
        "0 <= first < extent - moved",
        f"{WARNINGS_TEST}::test_indices",
    ),
    Mutant(
        "a vector is one element",
        WARNINGS,
        "0 <= first <= extent - moved",
        "0 <= first <= extent - 1",
        f"{WARNINGS_TEST}::test_indices",
    ),
    Mutant(
        "what never runs is warned of",
        WARNINGS,
        "return op.regions[:1] if condition else op.regions[1:]",
        "return op.regions",
        f"{WARNINGS_TEST}::test_indices",
    ),
    Mutant(
        "signed numbers are never below 0",
        WARNINGS,
        'number.type.element.kind != "uint" or ',
        "",
        f"{WARNINGS_TEST}::test_comparisons",
    ),
    Mutant(
        "an exchange reads only",
        USES,
        'return op.name == "atomic_exchange"',
        "return False",
        f"{WARNINGS_TEST}::test_reads_of_a_program",
    ),
    Mutant(
        "a loop stores after it reads",
        USES,
        "if is_loop and not is_repeated:",
        "if False:",
        f"{WARNINGS_TEST}::test_reads_of_a_program",
    ),
    Mutant(
        "a fill writes nothing",
        RULES,
        "self.write(stage.buffer)",
        "pass",
        f"{WARNINGS_TEST}::test_reads_of_a_pipeline",
    ),
    Mutant(
        "a launch reads what it writes",
        RULES,
        "self.unwritten.discard(name)\n            if formal.is_transient:",
        "pass\n            if formal.is_transient:",
        f"{WARNINGS_TEST}::test_reads_of_a_pipeline",
    ),
    Mutant(
        "all fills of a type store one value",
        EXPAND,
        "key = like.dtype, like.shape, value, ",
        "key = like.dtype, like.shape, ",
        f"{FILLS}::test_results_and_launches",
    ),
    Mutant(
        "a fill passes what used its buffer before",
        EXPAND,
        "elif stage.buffer not in used_buffers:",
        "else:",
        f"{FILLS}::test_results_and_launches",
    ),
    Mutant(
        "a fill passes a read of the host",
        EXPAND,
        "        yield stage.buffer\n",
        "        yield from ()\n",
        f"{FILLS}::test_random_pipelines",
    ),
    Mutant(
        "rows along x are as many as columns",
        FILL,
        "dimension = buffer.dimensions - 1 - axis\n    known",
        "dimension = axis\n    known",
        f"{VALUES}::test_values_and_shapes",
    ),
    Mutant(
        "each invocation fills one row",
        FILL,
        "frozenset(axis for axis in (1, 2) if not _fits(grid[axis], MAX_GRID[axis]))",
        "frozenset[int]()",
        f"{VALUES}::test_an_extent_beyond_a_grid",
    ),
)
