"""The extents that launches demand of a pipeline's buffers.

    program @p { buffer @x : u32[37] ... }     launch @p grid(1) (@m)     @m has 37 elements, or the call is an error

A pass that takes @m out of the launch would take the error with it.  So what is demanded is declared before: of the buffer, and
of that whose length it has.  Where an expression says the length, it cannot be declared, and the buffer has to stay.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from ..ir.grids import GridCall, length_key
from ..ir.pipeline import Launch, Pipeline
from ..ir.program import Module

__all__ = ["declare_demands", "demands", "undeclared_demands"]

_Axis = tuple[str, int]
"""A buffer and a dimension."""


def declare_demands(module: Module) -> bool:
    """Declare what launches demand, where that can be.  Returns whether a declaration changed."""
    changed = False
    for pipeline in module.pipelines.values():
        chains: dict[_Axis, set[_Axis]] = defaultdict(set)
        numbers: dict[_Axis, set[int]] = defaultdict(set)
        for name, dimension, number in demands(pipeline, module):
            *chain, root = _chain(pipeline, (name, dimension))
            chains[root] |= {*chain, root}
            numbers[root].add(number)
        for root, axes in chains.items():
            extent = pipeline.buffers[root[0]].extents[root[1]]
            if len(numbers[root]) == 1 and not isinstance(extent, GridCall):
                changed |= _declare(pipeline, axes, *numbers[root])
    return changed


def undeclared_demands(pipeline: Pipeline, module: Module) -> set[str]:
    """Buffers with an extent that a launch demands and their declarations leave open."""
    lengths = pipeline.static_lengths
    return {
        name
        for name, dimension, number in demands(pipeline, module)
        if lengths[length_key(name, dimension)] != number
    }


def demands(pipeline: Pipeline, module: Module) -> Iterator[tuple[str, int, int]]:
    """A buffer, a dimension, and the extent that a launch demands there."""
    for stage in pipeline.walk():
        if isinstance(stage, Launch):
            formals = module.programs[stage.program].bound_buffers
            for formal, name in zip(formals, stage.buffers, strict=True):
                for dimension, extent in enumerate(formal.shape):
                    if extent is not None:
                        yield name, dimension, extent


def _chain(pipeline: Pipeline, axis: _Axis) -> list[_Axis]:
    """The extent, that which it is the length of, and so on, to one that is no length of another."""
    chain = [axis]
    while True:
        name, dimension = chain[-1]
        extent = pipeline.buffers[name].extents[dimension]
        if not isinstance(extent, GridCall) or extent.name != "len":
            return chain
        other, *dimensions = extent.args
        if not dimensions and pipeline.buffers[str(other)].dimensions > 1:
            return chain  # the number of all its elements
        chain.append((str(other), int(str(dimensions[0])) if dimensions else 0))


def _declare(pipeline: Pipeline, axes: Iterable[_Axis], number: int) -> bool:
    changed = False
    for name, at in axes:
        buffer = pipeline.buffers[name]
        if isinstance(buffer.extents[at], int):
            continue  # the launches say whether it is this one
        buffer.shape = (*buffer.shape[:at], number, *buffer.shape[at + 1 :])
        sizes = (*buffer.sizes[:at], None, *buffer.sizes[at + 1 :]) if buffer.sizes else ()
        buffer.sizes = sizes if any(size is not None for size in sizes) else ()
        changed = True
    return changed
