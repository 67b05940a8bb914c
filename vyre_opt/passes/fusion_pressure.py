"""Fusion pressure: how strongly the launches of a pipeline are tied, and whether to fuse them.

An *edge* is two launches, one right after the other, of which the first writes what the second
reads; its *rank* is the count of elements of those buffers, summed.  Edges in a row make a chain:

    launch @a (@x, @m)           rank 4096      @m : u8[4096]
    launch @b (@m, @n)                                            pressure 4096 * 1024 = 4194304
    launch @c (@n, @y)           rank 1024      @n : u8[1024]

What launches read and write is taken from the ops of their programs.  A chain ends at another stage,
at a launch that takes nothing from the one before, and at a buffer of open size.  The pressure of a
chain is the product of its ranks.  It is computed in closed form, or by a dispatcher: a dispatch of
tt.contract_step for each rank, unless the pressure or the cores are too large for that; one that gives
another product is an error.  A chain is to be fused if its pressure is at most threshold^links
(docs/explanation/fusion.md).

The second launch of an edge gets notes: `rank`, `pressure`, `fuse` and a finite `threshold`, which
describe the chain, and `bytes`, which go through memory only because the launches are apart: the
hand-off written and read, and what both launches read.  It is `least_bytes` if buffers of open size
are among them.  Notes do not change what is computed: launch_fusion proves what is correct, keeps
apart what is noted `fuse = false`, and removes the notes that it did not carry out.

`fuse = false` is a veto.  One with a `threshold` was written by this pass: a run without `threshold=`
decides again with that threshold, so the veto survives when the text is piped to another run.  One
without was written by hand, and stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from math import inf
from typing import Any

from ..analysis.launch_flow import LaunchDataflow, RunDataflow
from ..fusion.liveness_plan import PipelineStage, bytes_at_cuts
from ..fusion.veto import NOTES, veto_of
from ..ir.diagnostics import Diagnostic, DiagnosticError
from ..ir.pipeline import Launch, Note, Pipeline
from ..ir.program import Module
from ..records import dataclass
from .manager import PassContext
from .registry import ANALYSES, Pass, register

__all__ = ["Edge", "FusionPressure"]

DISPATCHERS = ("cpu", "ref", "cuda", "closed")
U32_MAX = (1 << 32) - 1
SHOWN_BITS = 64
"""The most bits of a pressure that a note gives exactly: a chain of n launches has n notes, with digits
that grow with n."""


@dataclass(frozen=True)
class PressureOptions:
    """`threshold`: elements per link, in the geometric mean of a chain.  By default that of the chain's
    notes, and without notes there is no limit: fused launches hand over a workgroup's tile, however
    large the buffer was.  `dispatcher`: closed for the closed form; cpu, ref or cuda to run the
    contraction there.
    """

    threshold: float | None = None
    dispatcher: str = "closed"

    def __post_init__(self) -> None:
        if self.threshold is not None and not self.threshold > 0:
            raise ValueError(f"threshold is a number above zero, not {self.threshold}")
        if self.dispatcher not in DISPATCHERS:
            raise ValueError(f"dispatcher is {', '.join(DISPATCHERS)}, not {self.dispatcher}")


@dataclass(slots=True, eq=False)
class Edge:
    """Two launches in a row, and the hand-off from the first to the second.

    `cut_bytes`: memory traffic that a cut here costs, a lower bound if `is_least`.  `end_reason`: why the chain ends
    here; then there is no rank.  `computed_by`: the dispatcher that computed the pressure, or `closed`;
    `fallback_reason`: why it is `closed` although the options name a dispatcher.
    """

    first: Launch
    second: Launch
    buffers: tuple[str, ...]
    cut_bytes: int
    is_least: bool
    rank: int = 0
    end_reason: str = ""
    pressure: int = 0
    fuse: bool = False
    threshold: int | float = inf
    computed_by: str = ""
    fallback_reason: str = ""

    @property
    def is_vetoed(self) -> bool:
        return _has_user_veto(self.second)

    def notes(self) -> dict[str, Note]:
        if self.end_reason:
            return {}
        key = "least_bytes" if self.is_least else "bytes"
        notes: dict[str, Note] = {
            "rank": self.rank,
            "pressure": _pressure_note(self.pressure),
            key: self.cut_bytes,
        }
        if self.is_vetoed:
            return {**notes, "fuse": False}
        return {**notes, "fuse": self.fuse, **_threshold_note(self.threshold)}

    def facts(self) -> dict[str, Note | list[str]]:
        edge: dict[str, Note | list[str]] = {
            "first": self.first.program,
            "second": self.second.program,
            "buffers": list(self.buffers),
            "least_bytes" if self.is_least else "bytes": self.cut_bytes,
        }
        if self.end_reason:
            return {**edge, "reason": self.end_reason}
        return {**edge, **self.notes(), "computed": self.computed_by} | (
            {"why": self.fallback_reason} if self.fallback_reason else {}
        )


@register
class FusionPressure(Pass):
    name = "fusion_pressure"
    summary = "Note at each launch how strongly it is tied to the one before, and whether fusing pays."
    requires = ("expand_kernels",)
    preserves = tuple(ANALYSES)  # notes are all that it changes
    needs_core_ops = True
    Options = PressureOptions

    options: PressureOptions

    def run(self, module: Module, ctx: PassContext) -> bool:
        if not module.pipelines:
            return False
        flows = ctx.analyses.get(LaunchDataflow, module)
        contraction = _Contraction(self.options, ctx)
        changed = False
        for pipeline in module.pipelines.values():
            edges = _edges(pipeline, flows)
            for chain in _chains(edges):
                contraction.judge(chain, pipeline)
                ctx.count("chains")
                ctx.count("edges to fuse", sum(edge.fuse for edge in chain))
            changed |= _annotate(pipeline, edges)
            if edges:
                _remark(ctx, pipeline, edges)
        return changed


# --- edges


def _edges(pipeline: Pipeline, flows: LaunchDataflow) -> list[list[Edge]]:
    """The edges of each run of launches, in order."""
    counts = flows.counts(pipeline)
    sizes: dict[str, int | None] = {}
    for name, buffer in pipeline.buffers.items():
        count, size = counts[name], buffer.dtype.size_bytes
        sizes[name] = None if count is None or size is None else count * size
    runs = [run for run in flows.runs(pipeline) if len(run.launches) > 1]
    return [_edges_of(run, counts, sizes) for run in runs]


def _edges_of(run: RunDataflow, counts: dict[str, int | None], sizes: dict[str, int | None]) -> list[Edge]:
    stages = [PipelineStage(i, flow.reads, flow.writes) for i, flow in enumerate(run.effects)]
    closed_sizes = {name: size or 0 for name, size in sizes.items()}
    open_sizes = {name: int(size is None) for name, size in sizes.items()}
    cut_bytes = bytes_at_cuts(stages, closed_sizes, host_visible=run.escaping)
    open_counts = bytes_at_cuts(stages, open_sizes, host_visible=run.escaping)  # of size 1: this counts them
    edges = []
    for i, second in enumerate(run.launches[1:]):
        reads = set(run.effects[i + 1].reads)
        buffers = tuple(name for name in run.effects[i].writes if name in reads)
        edge = Edge(run.launches[i], second, buffers, cut_bytes[i], open_counts[i] > 0)
        _set_rank(edge, counts)
        edges.append(edge)
    return edges


def _set_rank(edge: Edge, counts: dict[str, int | None]) -> None:
    ranks = [counts[name] for name in edge.buffers]
    edge.rank = sum(rank for rank in ranks if rank is not None)
    if not edge.buffers:
        edge.end_reason = "no-hand-off"
    elif None in ranks:
        edge.end_reason = "open-size"
    elif edge.rank > U32_MAX:
        edge.end_reason = "beyond-u32"


def _chains(runs: Iterable[Sequence[Edge]]) -> Iterable[list[Edge]]:
    """Consecutive edges that have a rank."""
    for edges in runs:
        for has_rank, chain in groupby(edges, lambda edge: not edge.end_reason):
            if has_rank:
                yield list(chain)


# --- pressure


class _Contraction:
    """Sets the pressure and the decision of chains; equal ranks are contracted once."""

    def __init__(self, options: PressureOptions, ctx: PassContext) -> None:
        self.options = options
        self.ctx = ctx
        self.results: dict[tuple[Any, ...], tuple[int, bool, str]] = {}

    def judge(self, chain: Sequence[Edge], pipeline: Pipeline) -> None:
        ranks = tuple(edge.rank for edge in chain)
        threshold = self.options.threshold
        if threshold is None:  # the strictest threshold in the notes
            threshold = min(_noted_threshold(edge.second) for edge in chain)
        if (ranks, threshold) not in self.results:
            self.results[ranks, threshold] = self._contract(ranks, threshold, pipeline)
        pressure, fuse, why = self.results[ranks, threshold]
        for edge in chain:
            edge.pressure, edge.fallback_reason, edge.threshold = pressure, why, threshold
            edge.fuse = fuse and not edge.is_vetoed
            edge.computed_by = "closed" if why else self.options.dispatcher

    def _contract(
        self, ranks: tuple[int, ...], threshold: int | float, pipeline: Pipeline
    ) -> tuple[int, bool, str]:
        """The pressure, the decision, and why the closed form replaced the dispatcher, if it did."""
        from ..execution.dispatcher import BadInputs, DispatchError
        from ..fusion.pressure import fusion_pressure, is_within_threshold, pressure_of, should_fuse_chain

        product, dispatcher = pressure_of(ranks), self.options.dispatcher
        if dispatcher == "closed":
            return product, should_fuse_chain(ranks, threshold), ""
        try:
            pressure = int(fusion_pressure(ranks, dispatcher=self.ctx.dispatcher(dispatcher)))
        except BadInputs as too_large:
            return product, should_fuse_chain(ranks, threshold), str(too_large)
        except DispatchError as error:
            raise _failure(f"fusion_pressure cannot dispatch on {dispatcher}: {error}", pipeline) from None
        if pressure != product:
            message = (
                f"{dispatcher} contracts ranks of @{pipeline.name} to {pressure}; their product is {product}"
            )
            raise _failure(message, pipeline)
        return pressure, is_within_threshold([pressure], len(ranks), threshold), ""


def _failure(message: str, pipeline: Pipeline) -> DiagnosticError:
    """The error of a dispatcher that does not run, or is wrong."""
    help = "choose another: --pass='fusion_pressure{dispatcher=closed}'"
    return DiagnosticError([Diagnostic("error", message, pipeline.loc, help=help)])


def _pressure_note(pressure: int) -> Note:
    bits = pressure.bit_length()
    return pressure if bits <= SHOWN_BITS else f"at least 2^{bits - 1}"


def _threshold_note(threshold: int | float) -> dict[str, Note]:
    """The note of a threshold: an int, or a float's digits; none for infinity."""
    if threshold == inf:
        return {}
    return {"threshold": int(threshold) if threshold == int(threshold) else repr(threshold)}


def _noted_threshold(launch: Launch) -> int | float:
    """The threshold in the notes of a launch; infinity without one.  Raises DiagnosticError."""
    note = launch.notes.get("threshold", inf)
    try:
        threshold = note if isinstance(note, int) else float(note)
        if not isinstance(note, bool) and threshold > 0:
            return threshold
    except ValueError:
        pass
    message = f"the note threshold of @{launch.program} is a number above zero, not {note}"
    raise DiagnosticError([Diagnostic("error", message, launch.loc)])


def _has_user_veto(launch: Launch) -> bool:
    veto = veto_of(launch)
    return veto is not None and veto.is_from_user


# --- notes and remarks


def _annotate(pipeline: Pipeline, runs: Iterable[Sequence[Edge]]) -> bool:
    """Replace the notes of each edge; return whether any changed."""
    notes = {id(edge.second): edge.notes() for edges in runs for edge in edges}
    has_changed = False
    for stage in pipeline.walk():
        if isinstance(stage, Launch):
            new = notes.get(id(stage)) or ({"fuse": False} if _has_user_veto(stage) else {})
            old = {key: stage.notes[key] for key in stage.notes if key in NOTES}
            # compare types too: 1 == True, but their texts differ
            if [(k, type(v), v) for k, v in old.items()] != [(k, type(v), v) for k, v in new.items()]:
                has_changed = True
                stage.notes = {k: v for k, v in stage.notes.items() if k not in old} | new
    return has_changed


def _remark(ctx: PassContext, pipeline: Pipeline, runs: Sequence[Sequence[Edge]]) -> None:
    flat = [edge for edges in runs for edge in edges]
    for edge in flat:
        if edge.end_reason in _MISSING:
            missing = _MISSING[edge.end_reason].format(", ".join(f"@{name}" for name in edge.buffers))
            message = f"@{edge.first.program} -> @{edge.second.program}: {missing}; the chain ends here"
            facts = edge.facts()
            ctx.remark("refused", message, edge.second.loc, pipeline=pipeline.name, at="edge", **facts)
    fuse_count = sum(edge.fuse for edge in flat)
    threshold = min(edge.threshold for edge in flat)
    digits = threshold if isinstance(threshold, int) else f"{threshold:.17g}"
    head = f"@{pipeline.name}: {fuse_count} of {len(flat)} links to fuse, at a threshold of {digits} a link"
    reasons = [
        f"in closed form: {why}"
        for why in dict.fromkeys(edge.fallback_reason for edge in flat if edge.fallback_reason)
    ]
    ctx.remark(
        "note",
        "\n  ".join([head, *_table(flat), *reasons]),
        pipeline.loc,
        pipeline=pipeline.name,
        threshold=threshold if threshold < inf else "inf",
        edges=[edge.facts() for edge in flat],
    )


_MISSING = {
    "open-size": "{} is handed over, and its size is open",
    "beyond-u32": "{} has more elements than a u32 counts",
}

_DECISIONS = {
    "no-hand-off": "nothing is handed over",
    "open-size": "unknown: open size",
    "beyond-u32": "unknown: beyond u32",
}

_HEAD = ("launches", "buffers", "rank", "pressure", "by", "bytes at a cut", "decision")
_RIGHT = frozenset((2, 3, 5))
MAX_CELL = 48


def _table(edges: Sequence[Edge]) -> list[str]:
    rows = [_HEAD, *map(_row, edges)]
    rows = [tuple(c if len(c) <= MAX_CELL else f"{c[: MAX_CELL - 3]}..." for c in row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if i in _RIGHT else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def _row(edge: Edge) -> tuple[str, ...]:
    buffers = " ".join(f"@{name}" for name in edge.buffers) or "-"
    cut_bytes = f">={edge.cut_bytes}" if edge.is_least else str(edge.cut_bytes)
    launches = f"@{edge.first.program} -> @{edge.second.program}"
    if edge.end_reason:
        return launches, buffers, "-", "-", "-", cut_bytes, _DECISIONS[edge.end_reason]
    decision = "fuse" if edge.fuse else "vetoed" if edge.is_vetoed else "leave"
    pressure = str(_pressure_note(edge.pressure))
    return launches, buffers, str(edge.rank), pressure, edge.computed_by, cut_bytes, decision
