"""scan.dfa: the accepting number of the state of a byte automaton after each byte, 0 if that state accepts nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ...ir.program import Buffer
from ...ir.types import DataType
from .. import dfa as k
from ..expansion import Expansion, ExpansionRequest
from .kernel import LANES, Array, NamedKernel, factors

_factors = partial(factors, k.DfaSchedule)
_CHUNKS = (12, 20, 28, 44, 60, 76, 92, 108, 124, 188, 252, 380, 508, 764, 1020)
"""Bytes of a chunk, each an odd number of words."""


class Dfa(NamedKernel):
    name = "scan.dfa"
    any_length = True
    gpu = (_factors(lanes=LANES[:5], chunk=(4, *_CHUNKS), in_shared=(0, 1)),)
    cpu = (_factors(lanes=LANES[:4], chunk=_CHUNKS),)

    def expand(self, r: ExpansionRequest) -> Expansion:
        warmup = r.params["warmup"]
        schedule = r.at(k.dfa_schedule(warmup, r.target, strided=not r.owns_grid))
        if "in_shared" not in r.schedule and sum(k.memory_bytes(warmup, r.dtype(1), schedule)) > k.MAX_SLAB:
            schedule = replace(schedule, in_shared=False)  # for lanes and a chunk that the text fixes
        return Expansion(r.build(k.dfa, warmup, r.dtype(1), schedule), schedule, r.tiles(schedule.tile))

    def reference(self, text: Array, table: Array, accept: Array, warmup: int) -> Array:
        """States of a DFA that starts in state 0 `warmup` bytes before each byte; `table[state * 256 + byte]` is the next state."""
        import numpy as np

        if warmup < 0:
            raise ValueError(f"warmup is {warmup}, not a number of bytes")
        states = len(table) // 256
        if len(table) % 256 or states == 0 or len(accept) < states:
            raise ValueError(
                f"a table of {len(table)} entries and {len(accept)} accepting numbers; there are 256 entries and "
                "one number for each state"
            )
        if len(table) and int(table.max()) >= states:
            raise ValueError(f"the table leads to state {int(table.max())}, there are {states}")
        state = np.zeros(len(text), np.int64)
        for back in range(min(warmup, max(0, len(text) - 1)), -1, -1):
            state[back:] = table[state[back:] * 256 + text[: len(text) - back]]
        return accept[state]

    def sample(self, rng: Any, reads: Sequence[Buffer], params: Mapping[str, int]) -> list[Array]:
        """An automaton whose next state depends on the byte alone, and is the root for three bytes of four."""
        import numpy as np

        length, entries, count = (buffer.count or 0 for buffer in reads)
        text, states = rng.integers(0, 256, length, dtype=np.uint8), entries // 256
        if entries % 256 or not states or count < states:
            raise ValueError(f"a table of {entries} entries and {count} numbers is no automaton")
        bytes_ = np.arange(256)
        after = np.where(bytes_ < 64, bytes_ % states, 0) if params["warmup"] else np.zeros(256, np.int64)
        table = np.tile(after, states).astype("uint16" if reads[1].dtype is DataType.U16 else "uint32")
        return [text, table, np.arange(count, dtype=np.uint32)]
