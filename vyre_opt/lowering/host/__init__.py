"""Program -> LLVM IR for the CPU.  In the order of the work:

abi                 the function to call, its arguments and fault record
program             a flat program as a module
flatten             inlines calls and regions
lane_facts          which values are uniform over a subgroup, or arithmetic progressions
live_values         which values are too large, or live for too long, to be left to LLVM
lane_major_layout   which vectors are held lane after lane, for ops on their bytes
barrier_split       cuts a body at its barriers into segments
segment_emitter     loops over workgroups and subgroups, and values that cross segments
held_values         values as LLVM values, or in memory
subgroup_emitter    the ops of a subgroup as vectors, with masks; here those that only compute
lane_major          the ops on vectors that are held lane after lane
byte_shuffles       permute, by the instructions that the machine has
control             if, for and while, uniform or divergent
memory              loads, stores and atomics
subgroup_ops        reduce, scan, ballot and shuffle
matrices            loads, stores and products of matrices
outline             moves parts of long blocks into functions
function_builder    the function being written: buffers, stack slots, masks, fault exits
runtime_functions   functions that a module brings along: faults, gathers, atomics, f16
"""
