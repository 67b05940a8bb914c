"""Mistakes in passes."""

from __future__ import annotations

from .mutant import Mutant, lit

__all__ = ["MUTANTS"]

PLANTED_MISTAKES = "test/passes/test_planted_mistakes.py"
ORDINARY = "test/passes/test_ordinary.py"
DECODE_SCAN_FUSE = "test/passes/test_decode_scan_fuse.py"
STORE_FORWARD = "test/passes/test_store_forward.py"
VECTORIZE_ACCESS = "test/passes/test_vectorize_access.py"
UNROLL = "test/passes/test_unroll.py"

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
        "a load moves in front of a trap",
        "vyre_opt/passes/licm.py",
        'if not is_pure and "trap" in op.definition.effects:',
        "if False:",
        lit("passes/licm"),
    ),
    Mutant(
        "a load of what is written moves too",
        "vyre_opt/passes/licm.py",
        "b.access is AccessMode.READ}",
        "b.access is not AccessMode.WRITE}",
        lit("passes/licm"),
    ),
    Mutant(
        "a load moves in front of a loop that may not end",
        "vyre_opt/passes/licm.py",
        'if op.name == "while" or loop.load_floor == _STOPPED:',
        "if False:",
        f"{PLANTED_MISTAKES}::test_a_load_behind_a_loop_that_may_stop_the_program_stays_there",
    ),
    Mutant(
        "an op in a branch moves out of it",
        "vyre_opt/passes/licm.py",
        'elif op.name == "if":\n            self.floor = here',
        'elif op.name == "if":\n            pass',
        lit("passes/licm"),
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
    Mutant(
        "what an earlier if accesses may pass what lies between",
        "vyre_opt/passes/simplify_cf.py",
        "shared = moved.writes & (passed.reads | passed.writes) | moved.reads & passed.writes",
        "shared = moved.writes & passed.writes",
        lit("passes/simplify_cf_merge"),
    ),
    Mutant(
        "an earlier if passes a barrier",
        "vyre_opt/passes/simplify_cf.py",
        "if passed.orders and self.is_ordered(moved):",
        "if False:",
        lit("passes/simplify_cf_merge"),
    ),
    Mutant(
        "an earlier if passes a trap",
        "vyre_opt/passes/simplify_cf.py",
        "if passed.stops and (moved.writes or moved.stops or moved.prints):",
        "if False:",
        lit("passes/simplify_cf_merge"),
    ),
    Mutant(
        "the barrier of an earlier if passes accesses",
        "vyre_opt/passes/simplify_cf.py",
        "if moved.orders and self.is_ordered(passed):",
        "if False:",
        lit("passes/simplify_cf_merge"),
    ),
    Mutant(
        "an offset does not wrap with its index",
        "vyre_opt/passes/store_forward.py",
        "at = at % place.modulus if place.wraps else at",
        "at = at + 0",
        f"{STORE_FORWARD}::test_memory_holds_the_same",
    ),
    Mutant(
        "a vector that begins before an element does not hold it",
        "vyre_opt/passes/store_forward.py",
        "(distance >= 0 or notes[at][0] > -distance)",
        "distance >= 0",
        lit("passes/store_forward"),
    ),
    Mutant(
        "an index of another base is another element",
        "vyre_opt/passes/store_forward.py",
        "self.by_base = {place.base: notes}",
        "pass",
        f"{STORE_FORWARD}::test_memory_holds_the_same",
    ),
    Mutant(
        "what is known is known behind a barrier",
        "vyre_opt/passes/store_forward.py",
        "if effects.orders:\n            for name in list(self.known):",
        "if False:\n            for name in list(self.known):",
        lit("passes/store_forward"),
    ),
    Mutant(
        "an index minus a constant is one plus it",
        "vyre_opt/passes/store_forward.py",
        '(offset if op.name == "add" else -offset)',
        "offset",
        f"{STORE_FORWARD}::test_memory_holds_the_same",
    ),
    Mutant(
        "a load between two stores reads neither",
        "vyre_opt/passes/store_forward.py",
        "self.unread[buffer].touch(place)",
        "pass",
        lit("passes/store_forward"),
    ),
    Mutant(
        "a vector begins at any index",
        "vyre_opt/passes/vectorize_access.py",
        "lanes > 1 << self.linear.zeros(first.op.indices[-1])",
        "False",
        lit("passes/vectorize_access_refuse"),
    ),
    Mutant(
        "a load moves up past a store of its element",
        "vyre_opt/passes/vectorize_access.py",
        "group.blocked.add(offset)",
        "pass",
        lit("passes/vectorize_access_refuse"),
    ),
    Mutant(
        "a store moves down past one of its element",
        "vyre_opt/passes/vectorize_access.py",
        "elif other.is_store and offset in group.by_offset:",
        "elif False:",
        lit("passes/vectorize_access_refuse"),
    ),
    Mutant(
        "an index may be computed after the vector",
        "vyre_opt/passes/vectorize_access.py",
        "return block is not access.block or definition < place",
        "return True",
        lit("passes/vectorize_access_refuse"),
    ),
    Mutant(
        "a vector is stored at the place of its first store",
        "vyre_opt/passes/vectorize_access.py",
        "last = max((same[0] for same in accesses)",
        "last = min((same[0] for same in accesses)",
        f"{VECTORIZE_ACCESS}::test_random_accesses",
    ),
    Mutant(
        "a copy of the body counts by one, not by the step",
        "vyre_opt/passes/unroll.py",
        "constant(lower + trip * step, counter.type",
        "constant(lower + trip, counter.type",
        f"{UNROLL}::test_all_rounds_run_once_and_in_order",
    ),
    Mutant(
        "the rest of a loop begins as if the loop began at 0",
        "vyre_opt/passes/unroll.py",
        "(upper, False) if whole == trips * step else (lower + whole, True)",
        "(upper, False) if whole == trips * step else (whole, True)",
        f"{UNROLL}::test_all_rounds_run_once_and_in_order",
    ),
    Mutant(
        "a copy inside a turn is off by its step",
        "vyre_opt/passes/unroll.py",
        'constant(trip * step, counter.type, "offset", loop)',
        'constant(trip, counter.type, "offset", loop)',
        f"{UNROLL}::test_all_rounds_run_once_and_in_order",
    ),
    Mutant(
        "whole turns end above the bound",
        "vyre_opt/passes/unroll.py",
        'return binary("sub", end, rest), True',
        'return binary("add", end, rest), True',
        f"{UNROLL}::test_all_rounds_run_once_and_in_order",
    ),
    Mutant(
        "the distance of signed bounds always fits",
        "vyre_opt/passes/unroll.py",
        "if trip_count(loop) is None and counter.is_signed:",
        "if False:",
        f"{UNROLL}::test_bounds_whose_distance_may_not_fit_keep_their_loop",
    ),
    Mutant(
        "what is printed is dead",
        "vyre_opt/passes/dce.py",
        'not effects <= {"read", "subgroup", "control"}',
        'not effects <= {"read", "subgroup", "control", "print"}',
        lit("passes/debug_print"),
    ),
    Mutant(
        "an assert of what is not known to hold goes",
        "vyre_opt/passes/canonicalize.py",
        'elif op.name == "assert" and constant_value(op.operands[0]):',
        'elif op.name == "assert" and constant_value(op.operands[0]) is not None:',
        lit("passes/canonicalize"),
    ),
)
