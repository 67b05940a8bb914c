"""Kernels on the rows of arrays, each a program of slices in Python of a few lines, as functions on arrays.

norms     layer_norm, rms_norm, and what their gradients are
losses    log_sum_exp, cross_entropy
attention softmax(q k^T) v
on_rows   what the functions share: arrays as rows, results like them

`vyre_opt.kernels` has the functions.  There is no other code for these kernels: lanes, vectors, and how a row is shared, are `lower_slices`'
for the rows of a call and its target.
"""
