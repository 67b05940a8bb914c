"""Kernels in Python: the types and functions that they are written with.

    import vyre_opt as vyre
    from vyre_opt.lang import f32, Read, ReadWrite

    @vyre.program(workgroup=256)
    def saxpy(a: f32, x: Read[f32], y: ReadWrite[f32]):
        i = vyre.global_id(0)
        if i < len(y):
            y[i] = a * x[i] + y[i]

    saxpy[vyre.ceil_div(n, 256)](2.0, x, y)

scalars, types        f32, u8, ...; Read, Write, ReadWrite
array_types           what an annotation says of an array: its access, elements and extents
generics, defaults    types that arrays of a call decide; numbers that a call leaves out
intrinsics, ops       what kernels call by name
functions, pipelines  @program and @func, @pipeline; calls on arrays; translated_function: what both share
tunable, variants      @tunable: choices of a schedule, and what is made of them; tunable_call: how one is measured
lost_results          copies that a call stores to, and nobody sees
arguments             the order of arguments, and numbers as words
python_source         the syntax tree of a function, and places in its file
inference, bindings   types of literals; what names stand for
foreign_words         names of other languages and libraries, and what to write for them
named_tuples          tuples whose parts have names
local_arrays          arrays of an invocation's own, as values; held_asserts: their checks that are proven
constants             objects of Python that are known, and how they are computed with
emitter               ops, with types that are resolved at the end
tiles                 copies and products of tiles, written in kernels' own language
philox                random numbers, written so too; random_draws: those that come more than once
expressions, calls, call_arguments, copies, matrices, slices, slice_calls, statements, inlining, printing, integer_division, unsupported
                      the translation, from the syntax tree to ops
decoration            what is checked of a function when it is decorated
translation_key       all that a translation reads, by which the cache keeps it
program_translation   a function as a program
pipeline_translation  a function as a pipeline
"""

import builtins
import sys
from typing import Any

from ..worker import import_module as _import
from . import ops
from .functions import Func, Kernel, func, program
from .intrinsics import ceil_div, static
from .ops import *  # noqa: F403 - one name an op
from .pipelines import PipelineFunction, pipeline
from .scalars import (
    Float,
    Int,
    Scalar,
    bf16,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)
from .tunable import Tunable, tunable
from .types import Array, Read, ReadWrite, Write

_LATE = {
    **dict.fromkeys(("copy_tile", "dot", "matrix_load", "matrix_store"), "tiles"),
    **dict.fromkeys(("rand", "randint"), "philox"),
}
"""Names of modules that are imported when they are asked for: they are written in kernels' own language."""

copy_tile: Any
dot: Any
rand: Any
randint: Any
for _name in _LATE:
    globals().pop(_name, None)  # the op of that name is in `ops`

__all__ = [
    "PipelineFunction",
    "pipeline",
    "Array", "Float", "Func", "Int", "Kernel", "Read", "ReadWrite", "Scalar", "Tunable", "Write",
    "bf16", "ceil_div", "copy_tile", "dot", "f16", "f32", "f64", "func", "i16", "i32", "i64", "i8", "matrix_load", "matrix_store", "program", "rand", "randint", "static", "tunable",  # noqa: F405 - some are of _LATE
    "u16", "u32", "u64", "u8",
    # but those that Python has: `import *` leaves abs, min, max and pow as they are, and kernels know them; nor does it
    # hide modules, math and select, which are vyre.math and vyre.select
    *(name for name in ops.__all__ if not (hasattr(builtins, name) or name in sys.stdlib_module_names or name in _LATE)),
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    value = globals()[name] = getattr(_import(f"{__name__}.{_LATE[name]}"), name)
    return value
