"""Mistakes by which passes would lose a fault, or add one."""

from __future__ import annotations

from .mutant import Mutant

__all__ = ["MUTANTS"]

FAULTS = "test/passes/test_faults_stay.py"
STAY = f"{FAULTS}::test_faults_stay"
LENGTHS = f"{FAULTS}::test_a_length_is_its_expression"

MUTANTS = (
    Mutant(
        "a store that nobody reads leaves no check",
        "vyre_opt/passes/dce.py",
        "if isinstance(item, Program) and marks.unread:",
        "if False:",
        STAY,
    ),
    Mutant(
        "a for that nobody uses goes, whatever its step",
        "vyre_opt/passes/dce.py",
        "return number is None or number < 1",
        "return False",
        STAY,
    ),
    Mutant(
        "a store that is overwritten leaves no check",
        "vyre_opt/passes/store_forward.py",
        'ctx.count("checks of bounds", add_checks(program, forwarder.dead_stores))',
        "pass",
        STAY,
    ),
    Mutant(
        "stores to a tile are not checked",
        "vyre_opt/passes/decode_scan_fuse.py",
        "if access.is_write or not has_one_type",
        "if not has_one_type",
        STAY,
    ),
    Mutant(
        "accesses to a halo are not checked",
        "vyre_opt/fusion/join.py",
        'accesses = {op for op in body.walk() if op.operands and op.attrs.get("buffer") in tile_names}',
        "accesses = set[Op]()",
        STAY,
    ),
    Mutant(
        "an invocation that no neighbour needs is not run for a halo",
        "vyre_opt/fusion/halo_plan.py",
        "last = max((max(elements) - low) // stride, lanes - 1)",
        "last = (max(elements) - low) // stride",
        STAY,
    ),
    Mutant(
        "a load stands for the check of a store behind it",
        "vyre_opt/fusion/bounds_checks.py",
        'if is_checked or "write" in op.definition.effects:',
        "if True:",
        STAY,
    ),
    Mutant(
        "the first element of a vector is checked",
        "vyre_opt/fusion/bounds_checks.py",
        "if width > 1:",
        "if False:",
        STAY,
    ),
    Mutant(
        "any check of bounds holds",
        "vyre_opt/fusion/bounds_checks.py",
        "proven_ops = {op for check, ops in checks.ops.items() if check in proven for op in ops}",
        "proven_ops = {op for check, ops in checks.ops.items() for op in ops}",
        STAY,
    ),
    Mutant(
        "a check is of another dimension",
        "vyre_opt/fusion/bounds_checks.py",
        "index, extent = op.indices[dimension], buffer.shape[dimension]",
        "index, extent = op.indices[dimension], buffer.shape[0]",
        STAY,
    ),
    Mutant(
        "a length is that of any buffer that stays",
        "vyre_opt/analysis/launched_lengths.py",
        "if numbers[actual][axis] == numbers[name][dimension]:",
        "if True:",
        STAY,
    ),
    Mutant(
        "a size below 0 is computed without a sign",
        "vyre_opt/analysis/launched_lengths.py",
        "and (limits[0] >= 0 or (part is not extent and not is_divided))",
        "and True",
        LENGTHS,
    ),
    Mutant(
        "a length is computed however large",
        "vyre_opt/analysis/launched_lengths.py",
        "and max(map(abs, limits)) < MAX_NUMBER",
        "and True",
        LENGTHS,
    ),
    Mutant(
        "a length that is divided rounds up as it rounds down",
        "vyre_opt/fusion/halo_recompute.py",
        'self.op("add", "more", x, less), y)',
        "x, y)",
        LENGTHS,
    ),
    Mutant(
        "a check that is proven for a count is proven for one less",
        "vyre_opt/analysis/bounds.py",
        "index, width = last.operands[0], more.const + 1",
        "index, width = last.operands[0], more.const - 3",
        STAY,
    ),
    Mutant(
        "a GPU looks at a check though accesses are not checked",
        "vyre_opt/lowering/nvptx/control.py",
        'if emitter.context.bounds != "trap" or op in emitter.context.proven:',
        "if op in emitter.context.proven:",
        f"{FAULTS}::test_a_check_is_code_only_where_accesses_are_checked",
    ),
    Mutant(
        "the machine checks the first lane only",
        "vyre_opt/lowering/host/control.py",
        "if all(map(emitter.facts.is_uniform, op.operands)):",
        "if True:",
        f"{FAULTS}::test_a_check_ends_in_a_fault_at_its_first_lane",
    ),
)
