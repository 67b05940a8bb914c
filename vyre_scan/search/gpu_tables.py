"""Program and tables of a search on a GPU: a program of programs/tiled_search, and tables for it.

Few literals, and expressions, are found by a walk through all bytes; many literals by their grams, whose bitmap leaves a walk
where one may begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
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

    `num_patterns`: how many matches each accepting state shows.  `memory`: the arrays on devices, by the number of the device,
    and by name, and for `values` the name of the encoding.
    """

    reach: int
    arrays: dict[str, Array]
    params: dict[str, int]
    num_patterns: Array
    stride: int = 0
    grams: GramSchedule = GRAMS
    memory: dict[int, dict[tuple[str, str], Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, search: Automaton, literals: Sequence[bytes], caseless: bool) -> GpuTables | None:
        """The tables of an automaton; None for one that a GPU does not walk: of long literals, or a very large one."""
        warmup = search.warmup
        if warmup > WARMUPS[-1]:
            return None
        cells = search.num_states * 256
        if cells > MOST_WALKED_CELLS and literals and min(map(len, literals)) >= GRAM:
            return cls._of_grams(search, literals, caseless)
        if cells > MOST_CELLS:
            return None
        dtype = np.uint16 if search.num_states <= 1 << 16 else np.uint32
        table = search.transitions.astype(dtype)[:, search.classes].reshape(-1)
        arrays = {"table": table, "depth": search.depth.astype(np.uint16)}
        params = {"first_accepting": search.first_accepting}
        return cls(warmup, arrays, params, search.num_patterns)

    @classmethod
    def _of_grams(cls, search: Automaton, literals: Sequence[bytes], caseless: bool) -> GpuTables:
        few, many = (schedule.bitmap_words * 32 // LEAST_BITS_OF_A_GRAM for schedule in (GRAMS, MANY_GRAMS))
        count, shortest = len(literals), min(map(len, literals))
        schedule = GRAMS if count <= few else MANY_GRAMS
        bits = few if schedule is GRAMS else many
        stride = max(s for s in STRIDES if s == 1 or (s + GRAM - 1 <= shortest and s * count <= bits))
        fold = FOLD if caseless else 0
        prefixes = prefixes_of(literals, stride + GRAM - 1)
        arrays = {
            "bitmap": gram_bitmap(prefixes, stride, schedule.bitmap_words, fold, 2),
            "columns": search.columns,
            "rows": search.cells,
        }
        return cls(
            search.warmup, arrays, search.params | {"fold": fold}, search.num_patterns, stride, schedule
        )

    def program(self, encoding: Encoding) -> Program:
        """The program for text in an encoding."""
        name = "base64" if encoding.last_two else encoding.name  # alphabets are data
        warmup = next(common for common in WARMUPS if self.reach <= common)
        if self.stride:
            return tiled_grams(name, warmup, self.stride, self.grams)
        is_narrow = self.arrays["table"].dtype == np.uint16
        return tiled_walk(name, warmup, WALK, DataType.U16 if is_narrow else DataType.U32)

    @property
    def tile(self) -> int:
        """Decoded bytes of a tile of the program."""
        return self.grams.tile if self.stride else WALK.tile

    def sorted_unique(self, hits: Array) -> Array:
        """Hits in the order of their places, each place once, with the state that shows most there."""
        hits = np.sort(hits)
        places = (hits >> np.uint64(32)).astype(np.uint32)
        if not (places[1:] == places[:-1]).any():
            return hits
        order = np.lexsort((self.num_patterns[hits.astype(np.uint32)], places))
        is_last = np.append(places[1:] != places[:-1], True)
        return np.asarray(hits[order][is_last])
