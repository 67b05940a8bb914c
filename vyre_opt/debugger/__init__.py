"""The interpreter as a debugger: of kernels and pipelines in Python, of `.vyre` files, and of faults that were recorded.

session      one run that stops: ticks, breakpoints, steps, and steps back, which are runs up to an earlier tick
op_places    where each op of a program is: its line, its number, its functions
view         what names stand for at a stop, and expressions of them
prompt       the commands
kernels      `vyre_opt.debug`
"""

from __future__ import annotations
