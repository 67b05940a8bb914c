"""Program -> LLVM IR, as text; llvmlite makes PTX or machine code of it.

common/   LLVM text, arithmetic and proofs that both targets share
host/     for the CPU: a subgroup is one vector, whose lanes are its invocations
nvptx/    for NVIDIA GPUs: an invocation is a thread
"""
