"""Base64 decoding and pattern search as one workload, whose schedule has the threshold of fusion besides.

The decoded bytes of a workgroup lie in a slab.  `threshold` is the size, in bytes, up to which
decode_scan_fuse moves the slab into workgroup memory; with 0, it stays in storage.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from support.decode_scan_program import MAX_SLAB, SearchSchedule, decode_scan, search_grid, search_schedule
from support.dense_automaton import DenseAutomaton, build_automaton, matches_of_hits
from vyre_opt.analysis.buffer_layout import BufferLayout
from vyre_opt.execution import BadInputs, OutputAlloc
from vyre_opt.ir import Module
from vyre_opt.kernels.named.kernel import LANES, Products
from vyre_opt.kernels.targets import is_gpu
from vyre_opt.tuning import Space
from vyre_opt.tuning.shape_class import size_class
from vyre_opt.tuning.space import Config
from vyre_opt.tuning.workload import Trial
from vyre_scan.programs.text_units import ENCODINGS

__all__ = ["SearchWorkload"]

Array = np.ndarray[Any, Any]
FUSED = MAX_SLAB
"""The default threshold, which every slab is below."""


@dataclass(frozen=True, eq=False)
class SearchWorkload:
    """Base64 text of `size` decoded bytes, searched for `patterns`, one of them in each 4 KiB."""

    size: int
    patterns: tuple[bytes, ...] = (b"AKIA0123456789ABCDEF", b"-----BEGIN", b"ghp_", b"xoxb-", b"secret")

    @property
    def name(self) -> str:
        longest = self.automaton.longest
        return f"decode_scan(base64 of u8[{self.size}]) {len(self.patterns)} patterns up to {longest} bytes"

    @property
    def family(self) -> str:
        return "decode_scan(base64)"

    @property
    def shape(self) -> str:
        automaton = self.automaton
        return (
            f"{size_class(self.size)}, {size_class(len(automaton.table))} states, warmup {automaton.warmup}"
        )

    def space(self, target: str) -> Space:
        default = {name: (value,) for name, value in self.default(target).items()}
        return Space([*_products(target), default], self.why_not)

    def why_not(self, config: Config) -> str | None:
        try:
            schedule = _schedule(config)
        except ValueError as error:
            return str(error)
        slab = schedule.slab(ENCODINGS["base64"], self.automaton.warmup)
        if 0 < config["threshold"] < slab:
            return f"a slab of {slab} bytes is over the threshold, which is what 0 says too"
        return None

    def default(self, target: str) -> Config:
        schedule = asdict(search_schedule(target, self.size, self.automaton.warmup))
        return {name: int(value) for name, value in schedule.items()} | {"threshold": FUSED}

    def trial(self, config: Mapping[str, Any], target: str) -> Trial:
        from vyre_opt.passes import PassManager
        from vyre_opt.passes.decode_scan_fuse import DecodeScanFuse, FuseOptions

        schedule = _schedule(config)
        grid = search_grid(schedule, self.size)
        program = decode_scan("base64", self.automaton.warmup, schedule, grid)
        if config["threshold"]:
            module = Module()
            module.add(program)
            workgroup_memory = BufferLayout(program).workgroup + config["threshold"]
            program.grid = grid, 1, 1  # by which stores to the hand-off need no check
            PassManager([DecodeScanFuse(FuseOptions(budget=workgroup_memory))]).run(module)
            program.grid = None
            if not program.buffers["decoded"].is_workgroup:
                raise ValueError(f"its hand-off does not fit into {config['threshold']} bytes")
        automaton = self.automaton
        tables = [automaton.table, automaton.accepting, automaton.depth]
        arguments = [self.text, *tables, OutputAlloc(self.max_hits), np.zeros(1, np.uint64)]
        return Trial(program, arguments, grid, cleared=(5,))

    def fault(self, outputs: Sequence[Array]) -> str:
        hits, count = outputs
        written = np.asarray(hits)[: int(np.asarray(count)[0])]
        matches = matches_of_hits(written, self.automaton)
        if matches == self.expected:
            return ""
        if len(matches) != len(self.expected):
            return f"{len(matches)} matches, not {len(self.expected)}"
        return "matches elsewhere than they are"

    @cached_property
    def automaton(self) -> DenseAutomaton:
        try:
            return build_automaton(list(self.patterns))
        except ValueError as error:
            raise BadInputs(str(error)) from None

    @cached_property
    def bytes(self) -> bytes:
        """Random bytes with a pattern planted in each 4 KiB."""
        rng = np.random.default_rng(0)
        octets = rng.integers(0, 256, self.size, dtype=np.uint8)
        for number, start in enumerate(range(0, self.size - 64, 4096)):
            pattern = np.frombuffer(self.patterns[number % len(self.patterns)], np.uint8)
            octets[start : start + len(pattern)] = pattern
        return octets.tobytes()

    @cached_property
    def text(self) -> Array:
        return np.frombuffer(base64.b64encode(self.bytes), np.uint8)

    @property
    def max_hits(self) -> int:
        return 4096 + 4 * len(self.expected)

    @cached_property
    def expected(self) -> list[tuple[int, int]]:
        """(end, pattern) of every match, by bytes.find."""
        matches = []
        for number, pattern in enumerate(self.patterns):
            at = self.bytes.find(pattern)
            while at >= 0:
                matches.append((at + len(pattern) - 1, number))
                at = self.bytes.find(pattern, at + 1)
        return sorted(matches)


def _products(target: str) -> Products:
    """The configurations that the tuner tries, of which `why_not` says which are none."""
    lanes = (128, 256, 512) if is_gpu(target) else LANES[:4]
    fields = {
        "chunk": (12, 36, 60, 84),
        "decode_by_table": (0, 1),
        "rows_in_shared": (0, 32),
        "threshold": (0, 49152),
    }
    return ({"lanes": lanes, **fields},)


def _schedule(config: Mapping[str, Any]) -> SearchSchedule:
    return SearchSchedule(
        config["lanes"], config["chunk"], bool(config["decode_by_table"]), config["rows_in_shared"]
    )
