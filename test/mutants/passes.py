"""Mistakes in passes."""

from __future__ import annotations

from .mutant import Mutant, lit

__all__ = ["MUTANTS"]

PLANTED_MISTAKES = "test/passes/test_planted_mistakes.py"
ORDINARY = "test/passes/test_ordinary.py"
DECODE_SCAN_FUSE = "test/passes/test_decode_scan_fuse.py"

MUTANTS = (
    Mutant(
        "barrier_elim forgets what a removed barrier parted",
        "vyre_opt/passes/barrier_elim.py",
        "before.merge(after)",
        "pass",
        f"{PLANTED_MISTAKES}::test_what_a_removed_barrier_parted_is_one_segment",
    ),
    Mutant(
        "a barrier is kept only between writes",
        "vyre_opt/passes/barrier_elim.py",
        "(writes or own[name])",
        "(writes and own[name])",
        lit("passes/barrier_elim"),
    ),
    Mutant(
        "atomics publish nothing",
        "vyre_opt/passes/barrier_elim.py",
        "self.is_open |= effects.atomics",
        "pass",
        lit("passes/barrier_elim"),
    ),
    Mutant(
        "the last segment of a loop's block ends with it",
        "vyre_opt/passes/barrier_elim.py",
        "segments[-1].is_open |= is_open",
        "pass",
        lit("passes/barrier_elim"),
    ),
    Mutant(
        "a workgroup of one subgroup is one invocation",
        "vyre_opt/passes/barrier_elim.py",
        "has_one_lane = program.lanes == 1",
        "has_one_lane = program.lanes <= 32",
        f"{ORDINARY}::test_programs_compute_the_same",
    ),
    Mutant(
        "licm takes every loop for one that surely runs",
        "vyre_opt/passes/licm.py",
        'sure = op.name == "for" and (trip_count(op) or 0) > 0',
        "sure = True",
        f"{PLANTED_MISTAKES}::test_a_load_that_a_loop_may_not_reach_stays_in_it",
    ),
    Mutant(
        "the budget is of each buffer alone",
        "vyre_opt/passes/decode_scan_fuse.py",
        "if used + decision.bytes > budget:",
        "if decision.bytes > budget:",
        f"{DECODE_SCAN_FUSE}::test_the_budget_is_of_the_whole_program",
    ),
    Mutant(
        "a buffer that another launch uses moves into a tile",
        "vyre_opt/passes/decode_scan_fuse.py",
        " or uses.counts[pipeline][name] > 1:",
        ":",
        f"{DECODE_SCAN_FUSE}::test_pipelines_that_use_the_buffer",
    ),
    Mutant(
        "a grid barrier hands nothing over",
        "vyre_opt/passes/decode_scan_fuse.py",
        "if sync is not None:",
        "if False:",
        f"{DECODE_SCAN_FUSE}::test_refuses_with_its_own_reason",
    ),
    Mutant(
        "a tile lacks its last element",
        "vyre_opt/passes/decode_scan_fuse.py",
        "decision.count = verdict.extent.high - verdict.extent.low + 1",
        "decision.count = verdict.extent.high - verdict.extent.low",
        lit("passes/decode_scan_fuse"),
    ),
)
