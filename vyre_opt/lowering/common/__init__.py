"""Shared by the lowerings for the CPU and for GPUs.

llvm_text        writes the text of a module: declarations, functions, blocks, instructions
intrinsics       the LLVM intrinsics that may be called, and no others
lane_shape       the LLVM types of a value: a scalar, or a vector of lanes
elementwise      arithmetic and comparison, exactly as the language defines them
math_functions   exp, sin, pow and the like, from vyre_opt/math_functions
fmod             the remainder of floats
conversions      casts, rounding to f16 and bf16, bits, and the types in memory
guards           which divisions and shifts need guards against undefined results
atomics          which atomics only read
llvm_worker      the thread that calls LLVM
llvm_passes      LLVM's passes over a module
spec_values      the values of a program's specialization constants
"""
