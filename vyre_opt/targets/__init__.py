"""The targets: where programs run, each behind the same two methods, `dispatch` and `load` (see execution/target.py).

ref     an interpreter, plainly right, which checks every access
cpu     machine code by LLVM, for vectors of invocations and several threads
cuda    PTX by LLVM, loaded and launched by PyCUDA
"""
