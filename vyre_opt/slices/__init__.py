"""Slices, the rows and blocks that a workgroup computes with, as what its invocations do.

schedule    how many invocations a workgroup gets, and for which lengths
layout      which elements each of them has
nodes       slices that are not computed yet: each knows what its elements are made of
elements    their elements, in registers or in a loop
memory      what invocations hand one another
sums        elements combined over a workgroup, in one order for all layouts
scans       the same for those up to each element
products    of blocks, by lanes
units       the same on matrix units
copies_ahead  factors that loops copy to workgroup memory before they are multiplied
forwarding  a slice that is loaded where it was stored
lowering    programs with slices as programs without
"""
