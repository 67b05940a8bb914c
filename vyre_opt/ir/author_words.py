"""Words that messages tell an author to write, in the language of the source: that of `.vyre` files, or Python.

put `barrier workgroup` between them          put `vyre.barrier()` between them
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from ..records import dataclass
from . import python_lines

__all__ = ["PYTHON", "VYRE", "Spelling"]


@dataclass(frozen=True, slots=True)
class Spelling:
    """`name`: that of the constant.  `barrier`: of a scope.  `extent`: how long a buffer is, along a dimension if it has several.  `grid`: of a launch of a
    program, for extents as text.  `parameter`: one of a named kernel.  `input`: what makes a buffer begin with contents of the
    caller, of its name and the flags that say so.  `wide_length`: how to take the length of one of more than 2^32 elements.  `workgroup_memory`: what a workgroup shares.
    `buffer`: the name of one.  `fill`: what sets all of its elements to 0; `zeroed`: those of
    workgroup memory, of its name, its length and the invocations of a workgroup.  `loop_as_id`: an element of each invocation instead of a loop, of its text.  `of_two`: an op of the table, a
    comparison or another, of two values, which are names or numbers.  `debugger`: how to stop at breakpoints.  `id`: an op
    with an axis.  `atomic`: the usual one.  `update`: an atomic instead of a store, of its name, buffer, texts of its indices and its value, type and
    text.  `element`: one of a buffer, of texts of indices.  `target`: the element that the text of a store names, "" where it says none.
    `guard`: how an access is guarded, of its text, the buffer, the name of the index, what is before that for a signed one, the length, and the dimension.  `workgroups`: number of
    workgroups for the elements of an array along a dimension, or for all, of the array, the dimension or None, the number of dimensions, and the elements of a workgroup.  `lanes_name`: the name of the number of invocations in the head of a program, of the source and the place of the program in it.  `stepped`: the head of a loop of
    a text with another step.  `widened`: what computes a text in a wider type, of the text, that type, its own, and the name of a number in it.  `lanes`: so many invocations of a workgroup, in a program's head.
    `apart`: what keeps accesses of a buffer apart that no barrier can order, of its name, its type, the number of its dimensions, the text of a store, or "" for a load,
    and whether that is done in rounds.  `tail`: what goes over the elements behind the last whole vector, of the source, the place of an access in it, the array, and
    the width.  `begun`: the place of the 0 that a value begins with, and how it begins with another number, of the places of what combines it and of the
    constant, names that it may have, and the number.  `refilled`: a block of a text with another number beyond the edge, "" where it does not say it.  `own_memory`: an array of each invocation's own instead of one of a workgroup, of the name, the type and the extents.  `swapped`: a launch of a text with two arguments exchanged, "" where it does not say them.  `exchanged`: the element or the block of an array with its last two indices exchanged, of the text of an access and the array, "" where it does not say it.  `pairs`: the number of an invocation that has two elements, of the name of its own.  `part`: what is passed where the first elements of a buffer are all
    that is meant, of its name and their number.  `longer`: workgroup memory of a name and a type with so many elements.  `bound`: what is wrong with the bound of an index, of the source, the place of the
    access in it, the buffer, its extents and the dimension."""

    name: str
    copy_wait: str
    barrier: Callable[[str], str]
    extent: Callable[[str, int | None], str]
    grid: Callable[[str, str], str]
    parameter: Callable[[str], str]
    input: Callable[[str, str], str]
    wide_length: Callable[[str], str]
    workgroup_memory: str
    buffer: Callable[[str], str]
    fill: Callable[[str], str]
    zeroed: Callable[[str, int, int], str]
    loop_as_id: Callable[[str], str]
    filled: Callable[[str], str]
    of_two: Callable[[str, str, str], str]
    debugger: str
    id: Callable[[str, int], str]
    atomic: str
    update: Callable[[str, str, Sequence[str], str, object, str], str]
    element: Callable[[str, Sequence[str]], str]
    target: Callable[[str], str]
    lanes: Callable[[int], str]
    guard: Callable[[str, str, str, str, str, int], str]
    workgroups: Callable[[str, int | None, int, int | str], str]
    lanes_name: Callable[[str, int], str]
    stepped: Callable[[str, str], str]
    widened: Callable[[str, str, str, str], str]
    apart: Callable[[str, str, int, str, bool], str]
    pairs: Callable[[str], str]
    tail: Callable[[str, int, int, str, int], str]
    exchanged: Callable[[str, str], str]
    swapped: Callable[[str, Sequence[str]], str]
    begun: Callable[[Any, Any, Sequence[str], str], tuple[Any, str]]
    refilled: Callable[[str, str], str]
    own_memory: Callable[[str, str, Sequence[int]], str]
    part: Callable[[str, int], str]
    longer: Callable[[str, str, int], str]
    bound: Callable[[str, int, int, str, Sequence[str], int], str]

    def __reduce__(self) -> str:
        """Pickled as the constant that it is, since functions are not: errors cross process boundaries."""
        return self.name


VYRE = Spelling(
    "VYRE",
    copy_wait="copy_wait",
    barrier=lambda scope: f"barrier {scope}",
    extent=lambda name, dimension: f"len @{name}" if dimension is None else f"len @{name}, {dimension}",
    grid=lambda program, extents: f"grid({extents})",
    parameter=lambda name: f"{{{name} = N}}",
    input=lambda name, flags: f"declare @{name} {flags}",
    wide_length=lambda name: "take `len` as a u64 and run without -O",
    workgroup_memory="a workgroup buffer",
    buffer=lambda name: f"@{name}",
    fill=lambda name: f"fill(@{name}, 0)",
    zeroed=lambda name, count, lanes: (
        f"write %l = local_id x, store 0, @{name}[%l] and barrier workgroup at the start"
        if count == lanes
        else f"store 0 to every element of @{name} at the start, and write barrier workgroup behind that"
    ),
    loop_as_id=lambda loop: "write %i = global_id x instead of the loop, for an element of each invocation",
    filled=lambda name: f"write slice_load<filled> @{name}[...], 0.0, which is 0 beyond the edge",
    of_two=lambda op, a, b: f"{op} {', '.join(v if v.isdigit() else f'%{v}' for v in (a, b))}",
    debugger="run it under vyre-run --debug to stop there",
    id=lambda op, axis: f"{op} {'xyz'[axis]}",
    atomic="such as atomic_add",
    update=lambda op, buffer, indices, value, dtype, source: (
        f"{op} {_in_text(buffer, indices)}, {value} : {dtype}"
    ),
    element=lambda buffer, indices: _in_text(buffer, indices),
    target=lambda source: "",
    lanes=lambda count: f"workgroup({count})",
    workgroups=lambda name, dimension, rank, each: _divided(
        f"len(@{name})" if dimension is None else f"len(@{name}, {dimension})", "ceil_div", each
    ),
    lanes_name=lambda source, start: "",
    stepped=lambda source, step: "",
    widened=lambda source, wide, narrow, name: (
        f"compute in {wide}: begin with %{name}_{wide} = cast %{name} : {narrow or 'u32'} -> {wide}"
    ),
    apart=lambda name, dtype, dimensions, source, is_round: (
        f"store to another buffer, buffer @out : {dtype}[{', '.join('?' * dimensions)}] write live_out"
        + (f", and launch a round at a time, with @{name} and @out exchanged" if is_round else "")
        if source
        else f"load from @{name} in another program, and launch that behind this one"
    ),
    pairs=lambda name: (
        f"%twice = mul %{name.removeprefix('%')}, 2 : u32, and %twice for %{name.removeprefix('%')}"
    ),
    tail=lambda source, start, end, name, width: (
        f"make @{name} a multiple of {width} long, or go over the others one by one"
    ),
    exchanged=lambda source, name: "",
    swapped=lambda source, names: "",
    own_memory=lambda name, dtype, extents: (
        "store to an element of each one's own: memory of a workgroup is one for all of its invocations"
    ),
    begun=lambda at, zero, names, number: (zero, f"write {number} for the 0"),
    refilled=lambda source, number: re.sub(r", [\d.]+$", f", {number}", source),
    part=lambda name, count: f"make @{name} {count} long",
    longer=lambda name, dtype, count: (
        f"declare more elements, at least buffer @{name} : {dtype}[{count}] workgroup"
    ),
    bound=lambda source, start, end, buffer, lengths, dimension: "",
    guard=lambda text, buffer, index, below, length, dimension: (
        ""
        if below or not length.startswith("len ")
        else f": write %extent = {length}, %inside = lt %{index}, %extent : u32, and if %inside {{ before it, }} behind it"
    ),
)


def _divided(length: str, divide: str, by: int | str) -> str:
    return length if by == 1 else f"{divide}({length}, {by})"


def _in_text(buffer: str, indices: Sequence[str]) -> str:
    return f"@{buffer}[{', '.join(indices)}]"


_OPERATORS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}

PYTHON = Spelling(
    "PYTHON",
    copy_wait="vyre.copy_wait()",
    barrier=lambda scope: "vyre.barrier()" if scope == "workgroup" else f'vyre.barrier("{scope}")',
    extent=lambda name, dimension: f"len({name})" if dimension is None else f"{name}.shape[{dimension}]",
    grid=lambda program, extents: f"{program}[{extents}](...)",
    parameter=lambda name: f"{name}=N",
    input=lambda name, flags: "make it an argument",
    wide_length=lambda name: f"take u64(len({name})) and run with options(passes=None)",
    workgroup_memory="shared memory: vyre.shared(f32, 256)",
    buffer=lambda name: name,
    fill=lambda name: f"vyre.fill({name}, 0)",
    zeroed=lambda name, count, lanes: (
        "below its line write "
        + (
            f"for k in range(vyre.local_id(0), {count}, {lanes}): {name}[k]"
            if count != lanes
            else f"{name}[vyre.local_id(0)]"
        )
        + " = 0, then vyre.barrier(): shared memory begins with anything, and is one for all rounds of a loop"
    ),
    loop_as_id=python_lines.loop_as_id,
    filled=lambda name: f"read {name}.filled(0)[...], which is 0 beyond the edge",
    of_two=lambda op, a, b: f"{a} {_OPERATORS[op]} {b}" if op in _OPERATORS else f"vyre.{op}({a}, {b})",
    debugger="call vyre.debug(kernel)[grid](...) to stop there",
    id=lambda op, axis: f"vyre.{op}({axis})",
    atomic="such as vyre.atomic_add(x, i, 1) for x[i] += 1",
    update=lambda op, buffer, indices, value, dtype, source: python_lines.update(op, source, value),
    element=lambda buffer, indices: f"{buffer}[{', '.join(index.removeprefix('%') for index in indices)}]",
    target=lambda source: python_lines.target_text(source),
    lanes=lambda count: f"@vyre.program(workgroup={count})",
    workgroups=lambda name, dimension, rank, each: _divided(
        f"{name}.shape[{dimension}]"
        if dimension is not None
        else f"len({name})"
        if rank == 1
        else " * ".join(f"{name}.shape[{d}]" for d in range(rank)),
        "vyre.ceil_div",
        each,
    ),
    lanes_name=python_lines.lanes_name,
    stepped=python_lines.stepped,
    widened=lambda source, wide, narrow, name: python_lines.widened(source, wide, narrow),
    apart=lambda name, dtype, dimensions, source, is_round: (
        python_lines.stored_apart(source, name, dtype, dimensions, is_round)
        if source
        else f"read {name} in another kernel, and launch that behind this one"
    ),
    pairs=lambda name: f"{name} = 2 * vyre.global_id(0)",
    tail=python_lines.tail,
    exchanged=python_lines.exchanged,
    swapped=python_lines.swapped,
    own_memory=python_lines.own_memory,
    begun=python_lines.begun,
    refilled=lambda source, number: re.sub(r"\.filled\([^()]*\)", f".filled({number})", source, count=1),
    part=lambda name, count: f"pass {name}[:{count}]",
    longer=lambda name, dtype, count: (
        f"write {name} = vyre.shared({dtype}, {count}), of as many elements at least"
    ),
    bound=python_lines.bound,
    guard=lambda text, buffer, index, below, length, dimension: python_lines.guard(
        text, buffer, below, length, dimension
    ),
)
