"""The features of programs and pipelines, in one table: what each is, and with which others the language excludes it.

A program of the campaign has two to eight stages, which may have different features, so the language excludes few pairs:
only what cannot be written in one file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations

__all__ = ["EFFECTS", "FEATURES", "PAIRS", "Feature", "excluded"]


@dataclass(frozen=True, slots=True)
class Feature:
    """`meaning`: what a program or pipeline with it has.  `excludes`: other features, and why no file has both."""

    name: str
    meaning: str
    excludes: Mapping[str, str] = field(default_factory=dict)


_TEXT_ONLY = "kernels and pipelines written in Python have none"
_FIXED_ACCESS = "an array argument of Python is read, written, or both: none is live_in alone"

_ALL = (
    # params and launches
    Feature("literal param", "a launch passes a number for a param"),
    Feature("scalar param", "a launch passes a scalar of the pipeline for a param"),
    Feature("default param", "a launch leaves a param to its default", {"python": _TEXT_ONLY}),
    Feature("other params", "one program is launched again with other params"),
    Feature("other buffers", "one program is launched again with other buffers"),
    Feature("array twice", "a launch passes one array for two buffers that are read"),
    # buffers
    Feature("two dimensions", "a buffer of two dimensions"),
    Feature("three dimensions", "a buffer of three dimensions"),
    Feature("computed size", "a buffer of the pipeline is sized by the lengths of others"),
    Feature("open size", "a program's buffer of open size"),
    Feature("fixed size", "a program's buffer of a fixed size"),
    Feature("length 0", "a buffer without elements"),
    Feature("length 1", "a buffer of one element"),
    Feature("odd length", "a buffer of an odd length above 1"),
    Feature("read and written", "a program that reads and writes one buffer"),
    Feature("live_in", "a buffer that is live_in alone", {"python": _FIXED_ACCESS}),
    Feature("live_out", "a buffer that later stages read is an output, too"),
    Feature("scratch", "storage that a launch has for itself", {"python": _TEXT_ONLY}),
    # who reads what
    Feature("same lane", "an element is read by the lane that will write its successor"),
    Feature("neighbours", "elements of neighbours, a halo"),
    Feature("within workgroup", "elements that other lanes of the workgroup wrote"),
    Feature("across workgroups", "elements that other workgroups wrote"),
    Feature("gather", "an index that is loaded"),
    Feature("scatter", "a store at an index that is loaded"),
    Feature(
        "loaded offset",
        "an index, or the condition of a store, that rests on a loaded number which launches may change",
    ),
    Feature("moved store", "a store at another element than the lane's own"),
    Feature("narrow index", "an index computed in 8 or 16 bits, which wraps"),
    Feature("wrapping index", "an index that passes 2^32"),
    Feature("other grid", "workgroups that take more or fewer elements than those of the stage before"),
    Feature("grid stride", "a loop by global_size"),
    # types
    Feature("narrow type", "elements of 8 or 16 bits"),
    Feature("64 bits", "elements of u64 or i64"),
    Feature("f16", "elements of f16"),
    Feature("bf16", "elements of bf16"),
    Feature("f64", "elements of f64"),
    Feature("bool", "elements of bool"),
    Feature("vector", "loads and stores of vectors"),
    Feature("spec", "a specialization constant", {"python": _TEXT_ONLY}),
    Feature("type parameter", "a type that is a parameter", {"python": _TEXT_ONLY}),
    # control flow and functions
    Feature("loop by lane", "a for whose rounds depend on the lane"),
    Feature("while", "a while whose rounds depend on data"),
    Feature("conditional store", "a store under a condition on data"),
    Feature("length as value", "a length that is computed with"),
    Feature("function", "a call of a function"),
    Feature("region", "a named region", {"python": _TEXT_ONLY}),
    Feature("assert", "an assert, which holds"),
    Feature("print", "a debug_print"),
    # lanes together
    Feature("barrier", "memory of the workgroup and a barrier"),
    Feature("workgroup scan", "a prefix sum within each workgroup"),
    Feature("subgroup op", "reductions, scans, and shuffles of a subgroup"),
    Feature("atomic", "atomics on elements that lanes share"),
    Feature("while with atomics", "a while around atomics: lanes that take work from a counter"),
    Feature("grid barrier", "a barrier of the grid"),
    Feature("async copy", "copy_async and copy_wait"),
    Feature("matrix", "products of matrices"),
    Feature("cluster", "cluster memory and its barrier"),
    # pipelines
    Feature("named kernel", "a named kernel beside stages of its own"),
    Feature("fill", "a buffer that a stage fills with a constant"),
    Feature("repeat", "stages that are repeated"),
    Feature("host read", "a host_read between stages"),
    Feature(
        "near 2^32 on paper",
        "a second pipeline over almost 2^32 elements, which passes see and nobody runs",
        {"python": "a function of Python is one pipeline"},
    ),
    Feature("python", "programs and pipeline are functions of Python"),
)

FEATURES = {feature.name: feature for feature in _ALL}

EFFECTS = ("changed", "joined", "together", "tile", "halo", "regrid", "forward")
"""What passes did of a program: anything; joined launches, both features in launches that became one, a buffer that became
a tile, a halo that is computed again, a grid that was chosen, a load or a store that `store_forward` removed."""


def excluded(a: str, b: str) -> str:
    """Why no file has both features; "" if one may."""
    return FEATURES[a].excludes.get(b, "") or FEATURES[b].excludes.get(a, "")


PAIRS = [pair for pair in combinations(FEATURES, 2) if not excluded(*pair)]
"""The pairs that the language allows."""
