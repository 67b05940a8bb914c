"""Workgroup memory that a program may read before it is written, and so may show what others left there."""

from __future__ import annotations

from dataclasses import replace

from ...analysis.coverage import CoverageWalk
from ...analysis.footprint import Footprints
from ...ir.builder import Builder
from ...ir.program import Block, Program
from ...ir.rewrite import clone

__all__ = ["uncovered_tiles", "with_zeroed_tiles"]

WORTH_A_PROOF = 1 << 10
"""Bytes of workgroup memory from which on zeroing them costs more, over the runs, than a proof that they need not be."""


def uncovered_tiles(program: Program) -> set[str]:
    """Workgroup buffers with a read that may precede its workgroup's write, and all cluster buffers."""
    clusters = {buffer.name for buffer in program.buffers.values() if buffer.is_cluster}
    tiles = [buffer for buffer in program.buffers.values() if buffer.is_workgroup]
    names = {tile.name for tile in tiles} | clusters
    has_calls = any(op.name == "call" for op in program.walk())  # which the analysis does not look into
    if has_calls or sum(tile.size_bytes or 0 for tile in tiles) < WORTH_A_PROOF:
        return names
    walk = CoverageWalk(Footprints(program), names - clusters)
    walk.run()
    return clusters | names & (walk.refused.keys() | walk.failed.keys())


def with_zeroed_tiles(program: Program) -> Program:
    """The program, or a copy of it that begins by zeroing its `uncovered_tiles` of workgroup memory."""
    tiles = {name for name in uncovered_tiles(program) if program.buffers[name].is_workgroup}
    if not tiles:
        return program
    b = Builder(program.name, program.workgroup, program.grid)
    b.program.buffers = program.buffers
    width, height, _ = program.workgroup
    row = b.add(b.mul(b.local_id("z"), height), b.local_id("y"))
    lane = b.add(b.mul(row, width), b.local_id("x"))
    for name in sorted(tiles):
        tile = program.buffers[name]
        with b.for_(lane, tile.count or 0, program.lanes) as loop:
            b.store(b.const(False if tile.dtype.element.is_bool else 0, tile.dtype), tile, loop.index)
    b.barrier("workgroup")
    return replace(program, body=Block((), [*b.program.body.ops, *clone(program.body.ops, {})]))
