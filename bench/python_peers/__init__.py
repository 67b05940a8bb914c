"""The kernels of examples/python in Triton and CUDA, for python_lines and python_kernels to compare with.

Each file has `run`, which takes the arguments that the example takes, on a GPU.
"""
