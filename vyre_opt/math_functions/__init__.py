"""Mathematical functions, each written once as straight-line code that every target computes alike.

expression             what the code is made of, and the graph that records it
double_word            sums of two floats
constants              pi, ln 2 and ln 10 to any precision
coefficients           those of all polynomials; generated
exponentials           exp, exp2, exp10, expm1, sinh, cosh, tanh
logarithms             log, log2, log1p
power                  pow
roots                  cbrt, rsqrt, rcp
trigonometry           sin, cos, tan
pi_reduction           an argument of those, modulo pi/2
inverse_trigonometry   asin, acos, atan, atan2
error_function         erf, erfc
approximations         short forms of some, which fastmath<afn> allows
functions              the table of all

lowering/common/math_functions.py writes a graph as LLVM IR, targets/ref/math_functions.py evaluates it on arrays.
"""
