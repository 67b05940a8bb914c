"""Arrays and numbers of the caller that no op of a program uses.

    buffer @bias : f32[?] read binding(1)       no op has @bias: what the caller passes changes nothing

A name that begins with an underscore is meant to be unused.  Kernels in Python are told by their own text (lang/unused_names.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from ..diagnostics import Diagnostic, spelling_at
from ..program import Program

__all__ = ["unused_buffers"]


def unused_buffers(program: Program) -> Iterator[Diagnostic]:
    """The warnings of a program, one for each buffer with a binding and each parameter."""
    ops = [*program.walk()]
    if not ops or spelling_at(program.loc).name == "PYTHON":
        return
    used = {op.attrs.get("buffer") for op in ops} | {
        name for op in ops for name in op.attrs.get("buffers", ())
    }
    read = {op.attrs["param"] for op in ops if op.definition.format == "param"}
    buffers = [(each.name, each.loc) for each in program.bound_buffers if each.name not in used]
    params = [(each.name, each.loc) for each in program.params.values() if each.name not in read]
    for name, loc in (*buffers, *params):
        if not name.startswith("_"):
            message = f"no op of @{program.name} uses @{name}: what the caller passes for it changes nothing"
            help = f"use it, or leave it out; where it is not to be used, name it @_{name}"
            yield Diagnostic("warning", message, loc, help=help)
