"""Program -> LLVM IR, as text, and from there to PTX or machine code by llvmlite.

text         writes LLVM IR: names, blocks, declarations
shape        one value a lane, or a vector of lanes: the types of both
elementwise  arithmetic and comparison; the same text for scalars and vectors
conversions  from type to type, to bits, to memory and back
mathfuncs    exp, log and the like
intrinsics   the LLVM functions that may be called, and no others
nvptx        a thread is one lane; blocks and branches
host         a subgroup is one vector; masks
"""
