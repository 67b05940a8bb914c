"""Programs -> LLVM IR -> PTX for NVIDIA GPUs.

abi                the parameters of a kernel, and its fault record
targets            GPU architectures and PTX versions
kernel             programs as a module of kernels
function_emitter   one LLVM function being written: values, phis, faults
control            if, for, while, region, trap and assert
calls              functions of the language and calls of them
values             constants, ids, arithmetic, casts and vectors
byte_permutes      permute, four bytes at a time
memory             loads and stores
atomics            atomic ops
subgroup_ops       reduce, scan, ballot and shuffle
matrices           products of matrices, by mma.sync
copies             asynchronous copies; copy_runs finds those that bulk_copies does by one instruction for many
barriers           barriers of a subgroup, a workgroup and a grid
replicas           which buffers a cluster has in the memory of each workgroup, and exchange how it hands them on
owned_rows         of which of them a workgroup loads its own row only
pending_stores     whether two stores to them that are under way may meet
mbarriers          the objects on which invocations wait for bytes
faults             what a faulting invocation does
ptx                optimises a module and emits PTX
low_bits           stores of a float's low bits in it, which ptxas misreads
"""
