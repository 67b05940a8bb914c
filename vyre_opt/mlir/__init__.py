"""MLIR: programs as kernels of the gpu dialect, and such kernels as programs.

    program @scale ...   ->  gpu.module @scale { gpu.func @scale(...) kernel { ... } }     emit
    gpu.func ... kernel  ->  program                                                       read

spelling      types, constants and names, as MLIR writes them
op_map        which op of ours is which op of MLIR; both directions take it from there
helper_key    the names of helper functions, and what they stand for
helpers       their bodies: what our ops mean where MLIR has no op for it, or leaves the result open
code          the text of one function, line by line
emit          a module; emit_ops, emit_memory and emit_control write its ops
read          a module of MLIR as one of ours; syntax is what xdsl's parser lacks, and typed_values says which type a
              signless integer has
"""
