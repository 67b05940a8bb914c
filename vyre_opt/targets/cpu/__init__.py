"""The cpu target: programs compiled for this machine, lanes across its vector unit.

A workgroup runs in one thread, 32 invocations at a time; workgroups are spread over the
threads.  Bounds, traps and the steps of loops are checked; races and reads of uninitialised
memory are not: `ref` finds them.

dispatcher, compiler, host, jit    compile programs, or find them compiled; LLVM is loaded where it is needed
loaded_plan, launch, threads       run what is compiled, and need no compiler
"""
