"""The kernels of slice_kernels by other libraries, a module for each; a function takes the same arguments, and writes or returns
the result."""
