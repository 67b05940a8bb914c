"""Lowering of slices, the rows and blocks that a workgroup computes with, to ops of its invocations.

schedule    number of invocations of a workgroup, by lengths of rows
layout      elements of each invocation
nodes       slices that are not computed yet, as expressions
elements    their elements, in registers or in a loop
memory      workgroup memory through which invocations exchange elements
sums        reductions over a workgroup, in one order for all layouts
scans       prefix reductions, in one order for all layouts
products    products of blocks, by lanes
units       products of blocks on matrix units
copies_ahead  factors that loops copy to workgroup memory before they are multiplied
forwarding  a slice that is loaded where it was stored
lowering    programs with slices as programs without
"""
