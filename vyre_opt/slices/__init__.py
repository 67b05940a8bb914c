"""Slices, the rows that a workgroup computes with, as what its invocations do.

schedule    how many invocations a workgroup gets
nodes       slices that are not computed yet: each knows how to make its elements
groups      the elements that an invocation has at a time, and which of them are there
sums        elements combined over a workgroup, in one order for all schedules
lowering    programs with slices as programs without
"""
