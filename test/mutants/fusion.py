"""Mistakes in the proofs of fusion, in its plans, and in the programs that it writes."""

from __future__ import annotations

from .mutant import Mutant, lit

__all__ = ["MUTANTS"]

PLANTED_MISTAKES = "test/passes/test_planted_mistakes.py"
LAUNCH_SOUNDNESS = "test/passes/test_launch_soundness.py"
LAUNCH_FUSION = "test/passes/test_launch_fusion.py"
DECODE_SCAN_FUSE = "test/passes/test_decode_scan_fuse.py"
FUSION_SOUNDNESS = "test/passes/test_fusion_soundness.py"
LIVENESS_PLAN = "test/fusion/test_liveness_plan.py"
PARTITION = "test/fusion/test_partition.py"
FUSION_PRESSURE = "test/passes/test_fusion_pressure.py"

MUTANTS = (
    Mutant(
        "the contents of a transient buffer are taken for kept",
        "vyre_opt/fusion/pair_legality.py",
        "if formal.is_transient and (other.access is AccessMode.READ or other.live_in):",
        "if False:",
        f"{PLANTED_MISTAKES}::test_the_contents_of_a_transient_buffer_are_nobodys",
    ),
    Mutant(
        "a write after a read of another workgroup is no hazard",
        "vyre_opt/fusion/pair_legality.py",
        '("war", war_hazard), ',
        "",
        lit("passes/launch_fusion_refuse"),
    ),
    Mutant(
        "two writes of one element are no hazard",
        "vyre_opt/fusion/pair_legality.py",
        ', ("waw", waw_hazard)):',
        "):",
        f"{PLANTED_MISTAKES}::test_the_later_of_two_writes_stays",
    ),
    Mutant(
        "lanes that read what others write need no barrier",
        "vyre_opt/fusion/pair_legality.py",
        "(p.is_write or q.is_write)",
        "(p.is_write and q.is_write)",
        f"{LAUNCH_SOUNDNESS}::test_random_pipelines",
    ),
    Mutant(
        "specs of one name and different defaults are one",
        "vyre_opt/fusion/pair_legality.py",
        "(other.dtype, other.default) != (spec.dtype, spec.default)",
        "other.dtype is not spec.dtype",
        f"{LAUNCH_FUSION}::test_specs_must_agree",
    ),
    Mutant(
        "a buffer may be passed twice",
        "vyre_opt/fusion/pair_legality.py",
        "member.buffers.count(name) > 1",
        "member.buffers.count(name) > 2",
        lit("passes/launch_fusion_refuse"),
    ),
    Mutant(
        "the first barrier of all is the one between two launches",
        "vyre_opt/fusion/pair_legality.py",
        'before = sum(op.name == "barrier" for op in self.members[0].program.body.ops)',
        "before = 0",
        f"{PLANTED_MISTAKES}::test_a_store_behind_a_barrier_of_its_own_launch_is_one_of_that_launch",
    ),
    Mutant(
        "atomics are joined as loads and stores are",
        "vyre_opt/fusion/pair_legality.py",
        "if access.is_atomic:",
        "if False:",
        lit("passes/launch_fusion_refuse"),
    ),
    Mutant(
        "grids are equal if they are along x",
        "vyre_opt/fusion/pair_legality.py",
        "if first == second:",
        "if first[0] == second[0]:",
        f"{PLANTED_MISTAKES}::test_grids_of_other_depths_are_two",
    ),
    Mutant(
        "a launch between two others is not looked for",
        "vyre_opt/fusion/group_legality.py",
        "if at < len(writers) and writers[at] < j:",
        "if False:",
        f"{PLANTED_MISTAKES}::test_a_launch_between_makes_a_new_version",
    ),
    Mutant(
        "a halo is computed of what the host sees",
        "vyre_opt/fusion/group_legality.py",
        "if visibility is not None:",
        "if False:",
        f"{PLANTED_MISTAKES}::test_what_the_host_sees_is_made_once_and_written",
    ),
    Mutant(
        "a group that rewrites a halo's inputs may begin before the writer",
        "vyre_opt/fusion/group_legality.py",
        "max(self._earliest[j], k + 1)",
        "self._earliest[j]",
        f"{LAUNCH_SOUNDNESS}::test_nearly_joinable",
    ),
    Mutant(
        "a group has one launch more than it may",
        "vyre_opt/fusion/group_legality.py",
        "if last - first >= self.max_group:",
        "if last - first > self.max_group:",
        f"{LAUNCH_FUSION}::test_max_group",
    ),
    Mutant(
        "tiles of halos take no memory",
        "vyre_opt/fusion/group_legality.py",
        " + sum(tiles)",
        "",
        f"{PLANTED_MISTAKES}::test_the_tiles_of_all_halos_are_within_the_budget",
    ),
    Mutant(
        "a launch overwrites what a halo is computed from again",
        "vyre_opt/fusion/group_legality.py",
        "overwritten = b.writes & a.reads",
        "overwritten = a.reads - a.reads",
        f"{LAUNCH_SOUNDNESS}::test_nearly_joinable",
    ),
    Mutant(
        "a halo has the first element of a vector only",
        "vyre_opt/fusion/halo_plan.py",
        "return low, high + access.width - 1",
        "return low, high",
        f"{PLANTED_MISTAKES}::test_a_halo_has_all_elements_of_a_vector",
    ),
    Mutant(
        "any stride of the workgroups is that of their lanes",
        "vyre_opt/fusion/halo_plan.py",
        " or stride != moves or None in access.loops",
        " or None in access.loops",
        f"{PLANTED_MISTAKES}::test_a_halo_is_of_invocations_and_not_of_rows_far_apart",
    ),
    Mutant(
        "a producer with memory of its own is run again",
        "vyre_opt/fusion/halo_plan.py",
        "if any(b.binding is None for b in producer.program.buffers.values()):",
        "if False:",
        f"{LAUNCH_FUSION}::test_kind",
    ),
    Mutant(
        "a halo larger than the tile's own part is worth it",
        "vyre_opt/fusion/halo_plan.py",
        "return cost.extra <= cost.own and ",
        "return ",
        lit("passes/launch_fusion_refuse"),
    ),
    Mutant(
        "the halo begins one invocation too late",
        "vyre_opt/fusion/halo_plan.py",
        "first = -((high - min(needed)) // stride)",
        "first = 1 - ((high - min(needed)) // stride)",
        f"{LAUNCH_FUSION}::test_kind",
    ),
    Mutant(
        "an invocation beyond the last computes its element too",
        "vyre_opt/fusion/halo_recompute.py",
        'inner.op("lt", "exists", global_id, ids',
        'inner.op("le", "exists", global_id, ids',
        f"{LAUNCH_FUSION}::test_kind",
    ),
    Mutant(
        "an index is moved away from its tile",
        "vyre_opt/fusion/halo_recompute.py",
        'emit.op("sub", f"{index.name}_tile", index, start)',
        'emit.op("add", f"{index.name}_tile", index, start)',
        f"{LAUNCH_FUSION}::test_kind",
    ),
    Mutant(
        "the lane of an invocation is its subgroup",
        "vyre_opt/fusion/halo_recompute.py",
        'part = "rem" if name == "lane_id" else "div"',
        'part = "div" if name == "lane_id" else "rem"',
        f"{PLANTED_MISTAKES}::test_an_invocation_of_a_halo_has_its_own_ids",
    ),
    Mutant(
        "the local id of an invocation is its workgroup",
        "vyre_opt/fusion/halo_recompute.py",
        'return self._part("rem", self.global_id, self.lanes)',
        'return self._part("div", self.global_id, self.lanes)',
        f"{LAUNCH_FUSION}::test_kind",
    ),
    Mutant(
        "ids in branches stay those of the lane that computes",
        "vyre_opt/fusion/halo_recompute.py",
        "_rename_ids(block.ops, ids, replaced)",
        "pass",
        f"{PLANTED_MISTAKES}::test_an_invocation_of_a_halo_has_its_own_ids",
    ),
    Mutant(
        "a counter's lower bound is added instead of taken off",
        "vyre_opt/fusion/workgroup_tile.py",
        "return counter.lower.scaled(-times)",
        "return counter.lower.scaled(times)",
        f"{DECODE_SCAN_FUSE}::test_promotes_and_keeps_the_outputs",
    ),
    Mutant(
        "a digit of a local id is not cut off",
        "vyre_opt/fusion/workgroup_tile.py",
        "if digit.stride * digit.radix < digit.size:",
        "if False:",
        f"{FUSION_SOUNDNESS}::test_digits_of_a_local_id_are_followed",
    ),
    Mutant(
        "a tile begins at its base, not at its first element",
        "vyre_opt/fusion/workgroup_tile.py",
        " - AffineExpr(local.extent.low)",
        "",
        f"{DECODE_SCAN_FUSE}::test_a_tile_begins_at_the_first_element_that_is_touched",
    ),
    Mutant(
        "`len` of a tile is that of the tile",
        "vyre_opt/fusion/workgroup_tile.py",
        "rewrite.counts[buffer.name] = buffer.count",
        "pass",
        f"{DECODE_SCAN_FUSE}::test_len_of_a_promoted_buffer_stays_what_it_was",
    ),
    Mutant(
        "a counter of 64 bits is divided in 32",
        "vyre_opt/fusion/workgroup_tile.py",
        "dtype = DataType.U64 if rest and counter.value.type.bits == 64 else DataType.U32",
        "dtype = DataType.U32",
        f"{FUSION_SOUNDNESS}::test_a_step_past_32_bits_is_divided_as_it_is",
    ),
    Mutant(
        "what a member only reads is not taken from before",
        "vyre_opt/fusion/join.py",
        "live_in, live_out = is_input or (reads and not is_initialized), is_output",
        "live_in, live_out = is_input, is_output",
        f"{LAUNCH_FUSION}::test_kind",
    ),
    Mutant(
        "two members' own buffers of one name are one",
        "vyre_opt/fusion/join.py",
        "fresh_name(buffer.name, program.buffers))",
        "buffer.name)",
        f"{PLANTED_MISTAKES}::test_workgroup_memory_of_one_name_and_two_sizes_is_two",
    ),
    Mutant(
        "a hand-off that the host sees is elided",
        "vyre_opt/fusion/liveness_plan.py",
        "if read > written and name not in visible:",
        "if read > written:",
        f"{LIVENESS_PLAN}::test_a_hand_off_is_elided_unless_the_host_sees_it",
    ),
    Mutant(
        "a version ends at its first reader",
        "vyre_opt/fusion/liveness_plan.py",
        "version[name] = (version[name][0], number)",
        "version[name] = (version[name][0], version[name][1] if version[name][1] > version[name][0] else number)",
        f"{LIVENESS_PLAN}::test_a_later_reader_keeps_the_hand_off_in_memory",
    ),
    Mutant(
        "stages of different layouts are joined",
        "vyre_opt/fusion/liveness_plan.py",
        "if stages[last].layout_hash != stages[last - 1].layout_hash:",
        "if False:",
        f"{LIVENESS_PLAN}::test_stages_of_different_layouts_stay_apart",
    ),
    Mutant(
        "a span is counted at all cuts behind it",
        "vyre_opt/fusion/liveness_plan.py",
        "changes[last] -= moved",
        "pass",
        FUSION_PRESSURE,
    ),
    Mutant(
        "a span from the last candidate does not close",
        "vyre_opt/fusion/partition.py",
        "if first >= self.level[-1]:",
        "if first > self.level[-1]:",
        PARTITION,
        equivalent="to add to all candidates up to the last is to add to all of them, which is what the offset does.",
    ),
    Mutant(
        "of equal plans the shortest leading groups are taken",
        "vyre_opt/fusion/partition.py",
        "number * count + count - 1 - position",
        "number * count + position",
        f"{PARTITION}::test_best_of_all_partitions",
    ),
    Mutant(
        "a cut between neighbours costs nothing",
        "vyre_opt/fusion/partition.py",
        "self.cost[cut] = cost + self.offset + adjacent",
        "self.cost[cut] = cost + self.offset",
        f"{PARTITION}::test_best_of_all_partitions",
    ),
)
