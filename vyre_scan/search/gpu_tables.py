"""Program and tables of a search on a GPU: a program of programs/tiled_search, and tables for it.

Few literals, and expressions, are found by a walk through all bytes; many literals by their grams, whose bitmap leaves a walk
where one may begin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from typing import Any

import numpy as np

from vyre_opt.ir.program import Program
from vyre_opt.ir.types import DataType
from vyre_opt.records import dataclass

from ..arrays import Array
from ..patterns.automaton import Automaton
from ..programs.pattern_grams import GRAM
from ..programs.tiled_search import STRIDES, GramSchedule, WalkSchedule, tiled_grams, tiled_walk
from .encodings import Encoding
from .prefilter import FOLD, gram_bitmap, prefixes_of

__all__ = ["GpuTables"]

WARMUPS = (63, 255, 1023, 4095)
"""The reaches that programs are made for: a longer one costs some bytes of the slab."""

MOST_WALKED_CELLS = 1 << 21
"""Cells of a dense table from which on grams are faster: 4 MiB.  Measured on an H200, in tables of literals."""
MOST_CELLS = 1 << 27
"""Most cells of any dense table."""

WALK = WalkSchedule(512, 84)
GRAMS = GramSchedule(1024, 12, 1 << 13, 4)
MANY_GRAMS = GramSchedule(1024, 12, 1 << 14, 4)
LEAST_BITS_OF_A_GRAM = 12
"""Least bits of a bitmap for each gram, which sets two of them."""


@dataclass(frozen=True, eq=False)
class GpuTables:
    """Tables of a program, as `arrays` of its buffers and `params`, by their names.

    `program_of`: gives the program for the name of an encoding.  `tile`: decoded bytes of its tiles.  `memory`: the arrays on
    devices, by the number of the device, and by name, and for `values` the name of the encoding.
    """

    automaton: Automaton
    program_of: Callable[[str], Program]
    tile: int
    arrays: dict[str, Array]
    params: dict[str, int]
    memory: dict[int, dict[tuple[str, str], Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, search: Automaton, literals: Sequence[bytes], caseless: bool) -> GpuTables | None:
        """The tables of an automaton; None for one that a GPU does not walk: of long literals, or a very large one."""
        warmup = next((common for common in WARMUPS if search.warmup <= common), None)
        if warmup is None:
            return None
        cells, shortest = search.num_states * 256, min(map(len, literals), default=0)
        if cells > MOST_WALKED_CELLS and shortest >= GRAM:
            schedule = GRAMS if len(literals) <= _most_grams(GRAMS) else MANY_GRAMS
            strides = min(shortest - GRAM + 1, max(1, _most_grams(schedule) // len(literals)))
            stride = max(stride for stride in STRIDES if stride <= strides)
            fold = FOLD if caseless else 0
            prefixes = prefixes_of(literals, stride + GRAM - 1)
            bitmap = gram_bitmap(prefixes, stride, schedule.bitmap_words, fold, 2)
            arrays = {"bitmap": bitmap, "columns": search.columns, "rows": search.cells}
            program_of = partial(tiled_grams, warmup=warmup, stride=stride, schedule=schedule)
            return cls(search, program_of, schedule.tile, arrays, search.params | {"fold": fold})
        if cells > MOST_CELLS:
            return None
        is_narrow = search.num_states <= 1 << 16
        dtype = DataType.U16 if is_narrow else DataType.U32
        table = search.transitions.astype(np.uint16 if is_narrow else np.uint32)[:, search.classes].reshape(
            -1
        )
        arrays = {"table": table, "depth": search.depth.astype(np.uint16)}
        program_of = partial(tiled_walk, warmup=warmup, schedule=WALK, table_dtype=dtype)
        return cls(search, program_of, WALK.tile, arrays, {"first_accepting": search.first_accepting})

    def program(self, encoding: Encoding) -> Program:
        """The program for text in an encoding."""
        return self.program_of("base64" if encoding.last_two else encoding.name)  # alphabets are data

    def sorted_unique(self, hits: Array) -> Array:
        """Hits in the order of their places, each place once, with the state that shows most there."""
        hits = np.sort(hits)
        places = (hits >> np.uint64(32)).astype(np.uint32)
        if not (places[1:] == places[:-1]).any():
            return hits
        order = np.lexsort((self.automaton.num_patterns[hits.astype(np.uint32)], places))
        is_last = np.append(places[1:] != places[:-1], True)
        return np.asarray(hits[order][is_last])


def _most_grams(schedule: GramSchedule) -> int:
    return schedule.bitmap_words * 32 // LEAST_BITS_OF_A_GRAM
