"""Mistakes in the code for the CPU."""

from __future__ import annotations

from .mutant import Mutant

__all__ = ["MUTANTS"]

CPU_MEMORY = "test/runtime/cpu/test_memory.py"
CPU_GROUPS = "test/runtime/cpu/test_groups.py"
HOST = "test/lowering/test_host.py"

MUTANTS = (
    Mutant(
        "an index may be one beyond the last",
        "vyre_opt/lowering/host/memory.py",
        "str(max(0, int(access.length) - reach + 1))",
        "str(max(0, int(access.length) - reach + 2))",
        f"{CPU_MEMORY}::test_out_of_bounds_is_reported",
    ),
    Mutant(
        "a wide access reaches one lane less",
        "vyre_opt/lowering/host/memory.py",
        "reach = access.stride * SUBGROUP_SIZE",
        "reach = access.stride * (SUBGROUP_SIZE - 1)",
        f"{CPU_MEMORY}::test_nothing_outside_is_written",
    ),
    Mutant(
        "an index of a narrow type does not wrap between lanes",
        "vyre_opt/lowering/host/memory.py",
        "if bits >= 63 or (access.length.isdigit() and int(access.length) <= 1 << bits):",
        "if True:",
        f"{CPU_MEMORY}::test_an_index_that_wraps_between_lanes",
    ),
    Mutant(
        "the parts of a vector are stored part by part",
        "vyre_opt/lowering/host/memory.py",
        "for lane in range(SUBGROUP_SIZE) for part in range(access.parts)]",
        "for part in range(access.parts) for lane in range(SUBGROUP_SIZE)]",
        f"{CPU_MEMORY}::test_vectors_of_any_width",
    ),
    Mutant(
        "a shuffled load takes each lane's first scalar",
        "vyre_opt/lowering/host/memory.py",
        "i32 {lane * scalar_stride + part}",
        "i32 {lane * scalar_stride}",
        f"{CPU_MEMORY}::test_vectors_of_any_width",
    ),
    Mutant(
        "lanes that take no part are checked too",
        "vyre_opt/lowering/host/memory.py",
        'outside = builder.mask_and(emitter.mask, w.emit(f"icmp uge {wide} {indices}, {limit}"))',
        'outside = w.emit(f"icmp uge {wide} {indices}, {limit}")',
        f"{CPU_MEMORY}::test_every_pattern",
    ),
    Mutant(
        "lanes that take no part are stored too",
        "vyre_opt/lowering/host/memory.py",
        "if emitter.mask is not None and not masked:",
        "if False:",
        f"{CPU_MEMORY}::test_lanes_that_do_not_take_part_store_nothing",
    ),
    Mutant(
        "a negative index is widened with zeros",
        "vyre_opt/lowering/host/memory.py",
        'verb = "sext" if dtype.is_signed else "zext"',
        'verb = "zext"',
        f"{CPU_MEMORY}::test_out_of_bounds_is_reported",
    ),
    Mutant(
        "what a split branches on is not stored",
        "vyre_opt/lowering/host/barrier_split.py",
        "stored.update(control_operands(item.op))",
        "pass",
        f"{CPU_GROUPS}::test_values_live_across_barriers",
    ),
    Mutant(
        "later assignments of a segment take the place of earlier ones",
        "vyre_opt/lowering/host/barrier_split.py",
        " and not items[-1].assigns:",
        ":",
        CPU_GROUPS,
        equivalent="a segment with assignments holds the initial values of a loop, and the loop itself comes next in the list, so the last segment of a list never has any.",
    ),
    Mutant(
        "assignments read no values from other segments",
        "vyre_opt/lowering/host/barrier_split.py",
        "seen.update(dict.fromkeys(source for _, source in self.assigns))",
        "pass",
        f"{CPU_GROUPS}::test_values_live_across_barriers",
    ),
    Mutant(
        "the stride of a difference is that of a sum",
        "vyre_opt/lowering/host/lane_facts.py",
        'return strides[0] + strides[1] if name == "add" else strides[0] - strides[1]',
        "return strides[0] + strides[1]",
        f"{HOST}::test_strides",
    ),
    Mutant(
        "a shuffle from the first lane that is absent is uniform",
        "vyre_opt/lowering/host/lane_facts.py",
        'bool(lane.attrs["value"] < last)',
        'bool(lane.attrs["value"] <= last)',
        f"{CPU_GROUPS}::test_shuffles_and_ballot",
    ),
    Mutant(
        "a loop's value keeps the stride that it begins with",
        "vyre_opt/lowering/host/lane_facts.py",
        "stride if stride == self.stride(value) else None for stride, value in pairs",
        "stride for stride, value in pairs",
        f"{HOST}::test_counters_and_carried_values_keep_their_stride",
    ),
    Mutant(
        "the rows of any workgroup begin at whole subgroups",
        "vyre_opt/lowering/host/lane_facts.py",
        "extent % SUBGROUP_SIZE == 0 or extent == program.lanes",
        "extent > 0",
        f"{HOST}::test_strides",
    ),
    Mutant(
        "a widened value does not wrap",
        "vyre_opt/lowering/host/lane_facts.py",
        "return stride if small and self.affine.exact(op.operands[0]) is not None else None",
        "return stride if small else None",
        f"{HOST}::test_strides",
    ),
    Mutant(
        "a vector at the last element is proven in bounds",
        "vyre_opt/lowering/host/lane_facts.py",
        "min(count - access.width,",
        "min(count - 1,",
        f"{CPU_MEMORY}::test_a_vector_that_begins_at_the_last_element_is_reported",
    ),
    Mutant(
        "all lanes of an atomic get one old value",
        "vyre_opt/lowering/host/lane_facts.py",
        "if not op.definition.is_pure:\n            return None",
        "if False:\n            return None",
        f"{CPU_GROUPS}::test_lanes_that_a_short_subgroup_lacks_never_take_part",
    ),
)
