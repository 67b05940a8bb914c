"""Mistakes of the tables in test/mutants, each with a text of which it makes a pass write a wrong program."""

from __future__ import annotations

from pathlib import Path

from .mistake import known

__all__ = ["MISTAKES"]

TEXTS = Path(__file__).with_name("texts")


def _text(name: str) -> str:
    return (TEXTS / f"{name}.vyre").read_text(encoding="utf-8")


MISTAKES = [
    known("`disjoint` divides without the modulus", "launch_fusion", _text("disjoint_divides_without_the_modulus")),
    known("`disjoint` divides without the widths", "launch_fusion", _text("disjoint_divides_without_the_widths")),
    known("a barrier before the last access of a round parts the rounds", "decode_scan_fuse", _text("a_barrier_before_the_last_access_of_a_round_parts_the_rounds")),
    known("a cast to a wider type leaves one bit too many outside", "vectorize_access{width=16}", _text("a_cast_to_a_wider_type_leaves_one_bit_too_many_outside")),
    known("a counter of 64 bits is divided in 32", "decode_scan_fuse", _text("a_counter_of_64_bits_is_divided_in_32")),
    known("a counter's lower bound is added instead of taken off", "decode_scan_fuse", _text("a_counter_s_lower_bound_is_added_instead_of_taken_off")),
    known("a digit of a local id is not cut off", "decode_scan_fuse", _text("a_digit_of_a_local_id_is_not_cut_off")),
    known("a fixed digit of a local id fixes the id", "launch_fusion", _text("a_fixed_digit_of_a_local_id_fixes_the_id")),
    known("a group that rewrites a halo's inputs may begin before the writer", "launch_fusion", _text("a_group_that_rewrites_a_halo_s_inputs_may_begin_before_the_writer")),
    known("a guard's predicate is without its type", "launch_fusion", _text("a_guard_s_predicate_is_without_its_type")),
    known("a halo has the first element of a vector only", "launch_fusion", _text("a_halo_has_the_first_element_of_a_vector_only")),
    known("a launch overwrites what a halo is computed from again", "launch_fusion", _text("a_launch_overwrites_what_a_halo_is_computed_from_again")),
    known("a negative constant is widened with zeros", "vectorize_access{width=16}", _text("a_negative_constant_is_widened_with_zeros")),
    known("a pipeline's `write` buffer is not given back", "launch_fusion", _text("a_pipeline_s_write_buffer_is_not_given_back")),
    known("a stride as large as the rest tells workgroups apart", "launch_fusion", _text("a_stride_as_large_as_the_rest_tells_workgroups_apart")),
    known("a tile begins at its base, not at its first element", "decode_scan_fuse", _text("a_tile_begins_at_its_base_not_at_its_first_element")),
    known("accesses at different bases share a tile", "decode_scan_fuse", _text("accesses_at_different_bases_share_a_tile")),
    known("after a loop, the most rounds that may have run are written", "launch_fusion", _text("after_a_loop_the_most_rounds_that_may_have_run_are_written")),
    known("an `or` is a sum whatever its bits", "vectorize_access{width=16}", _text("an_or_is_a_sum_whatever_its_bits")),
    known("an expression fits a type that its largest value passes", "launch_fusion", _text("an_expression_fits_a_type_that_its_largest_value_passes")),
    known("any stride of the workgroups is that of their lanes", "launch_fusion", _text("any_stride_of_the_workgroups_is_that_of_their_lanes")),
    known("barrier_elim forgets what a removed barrier parted", "barrier_elim", _text("barrier_elim_forgets_what_a_removed_barrier_parted")),
    known("coverage compares expressions as integers", "launch_fusion", _text("coverage_compares_expressions_as_integers")),
    known("grids are equal if they are along x", "launch_fusion", _text("grids_are_equal_if_they_are_along_x")),
    known("lanes that read what others write need no barrier", "launch_fusion", _text("lanes_that_read_what_others_write_need_no_barrier")),
    known("negative values fit an unsigned type", "decode_scan_fuse", _text("negative_values_fit_an_unsigned_type")),
    known("over a loop, only the rounds that surely run are read", "launch_fusion", _text("over_a_loop_only_the_rounds_that_surely_run_are_read")),
    known("rows of a matrix lie in the workgroup of the first", "launch_fusion", _text("rows_of_a_matrix_lie_in_the_workgroup_of_the_first")),
    known("smaller strides are not added to what a larger one must exceed", "launch_fusion", _text("smaller_strides_are_not_added_to_what_a_larger_one_must_exceed")),
    known("specs of one name and different defaults are one", "launch_fusion", _text("specs_of_one_name_and_different_defaults_are_one")),
    known("the dependence test bounds an access without its width", "launch_fusion", _text("the_dependence_test_bounds_an_access_without_its_width")),
    known("the dependence test bounds the other access without its width", "launch_fusion", _text("the_dependence_test_bounds_the_other_access_without_its_width")),
    known("the dependence test tells workgroups apart without regard to wrap", "launch_fusion", _text("the_dependence_test_tells_workgroups_apart_without_regard_to_wrap")),
    known("the first barrier of all is the one between two launches", "launch_fusion", _text("the_first_barrier_of_all_is_the_one_between_two_launches")),
    known("the lane of an invocation is its subgroup", "launch_fusion", _text("the_lane_of_an_invocation_is_its_subgroup")),
    known("two members' own buffers of one name are one", "launch_fusion", _text("two_members_own_buffers_of_one_name_are_one")),
    known("two writes of one element are no hazard", "launch_fusion", _text("two_writes_of_one_element_are_no_hazard")),
    known("what a lane wrote under its own condition is published to the group", "launch_fusion", _text("what_a_lane_wrote_under_its_own_condition_is_published_to_the_group")),
    known("what a member only reads is not taken from before", "launch_fusion", _text("what_a_member_only_reads_is_not_taken_from_before")),
    known("what has wrapped is widened as if it had not", "decode_scan_fuse", _text("what_has_wrapped_is_widened_as_if_it_had_not")),
    known("what holds for a launch holds with other params", "launch_fusion", _text("what_holds_for_a_launch_holds_with_other_params")),
    known("workgroups in turn share workgroup memory without a barrier", "default", _text("workgroups_in_turn_share_workgroup_memory_without_a_barrier")),
]  # fmt: skip
