"""Random pipelines of launches over rows: of which some may be one, and others look at rows of their neighbours."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["RowPipeline", "row_pipeline"]

ROWS = 4
BUFFERS = ("x", "y", "m0", "m1")
"""Of which the last two are the pipeline's own, and undefined at first."""


@dataclass(frozen=True)
class RowPipeline:
    text: str
    arrays: dict[str, np.ndarray[Any, Any]]


def row_pipeline(seed: int) -> RowPipeline:
    rng = random.Random(seed)
    columns = rng.choice((1, 7, 64, 100, 257, 1100))
    programs: list[str] = []
    launches: list[str] = []
    defined = {"x", "y", "w"}
    for number in range(rng.randrange(2, 6)):
        sources = [rng.choice(sorted(defined - {"w"})) for _ in range(2)]
        target = rng.choice(BUFFERS)
        if target not in defined:
            is_whole, grid = True, "len(@x, 0)"
        else:
            is_whole, grid = rng.random() < 0.8, rng.choice(("len(@x, 0)", "len(@x, 0)", "len(@x, 0)", "2"))
        passed = [*dict.fromkeys([*sources, target]), "w"]
        programs.append(_program(rng, number, sources, target, passed, is_whole))
        launches.append(f"  launch @p{number} grid({grid}) ({', '.join(f'@{name}' for name in passed)})")
        defined.add(target)
    own = "\n".join(f"  buffer @{name} : f32[len(@x, 0), len(@x, 1)]" for name in BUFFERS[2:])
    text = f"""vyre 2
{chr(10).join(programs)}
pipeline @main {{
  buffer @x : f32[?, ?] read_write live_in live_out
  buffer @y : f32[?, ?] read_write live_in live_out
  buffer @w : f32[?] read
{own}
{chr(10).join(launches)}
}}
"""
    numbers = np.random.default_rng(seed)
    arrays = {
        "x": numbers.integers(-9, 9, (ROWS, columns)).astype(np.float32),
        "y": numbers.integers(-9, 9, (ROWS, columns)).astype(np.float32),
        "w": numbers.integers(-9, 9, columns).astype(np.float32),
    }
    return RowPipeline(text, arrays)


def _program(
    rng: random.Random, number: int, sources: list[str], target: str, passed: list[str], is_whole: bool
) -> str:
    """The target's row of a workgroup from rows of the sources: its own, or the one above where nobody writes it."""
    buffers = []
    for binding, name in enumerate(passed):
        kind = (
            "read_write binding({}) live_in live_out"
            if name == target and name in sources
            else ("write binding({}) live_out" if name == target else "read binding({})")
        )
        if name == target and not is_whole and name not in sources:
            kind = "read_write binding({}) live_in live_out"
        shape = "?" if name == "w" else "?, ?"
        buffers.append(f"  buffer @{name} : f32[{shape}] {kind.format(binding)}")
    rows = ["%r" if name == target or rng.random() < 0.75 else "%above" for name in sources]
    value = rng.choice(
        (
            ["%v = add %a, %b"],
            ["%v = max %a, %b"],
            [
                "%s = slice_reduce<max> %a[0] : f32",
                "%t = slice_broadcast %s, %a : slice<?xf32>",
                "%v = sub %b, %t",
            ],
            ["%u = add %a, %w", "%v = sub %u, %b"],
        )
    )
    store = (
        f"slice_store %v, @{target}[%r, 0] : slice<?xf32>"
        if is_whole
        else f"%s0 = slice_reduce<add> %v[0] : f32\n  store %s0, @{target}[%r, 0]"
    )
    body = "\n  ".join(value)
    return f"""program @p{number} workgroup(1) {{
{chr(10).join(buffers)}
  %r = workgroup_id x
  %one = min %r, 1
  %above = sub %r, %one
  %a = slice_load @{sources[0]}[{rows[0]}, 0] : slice<?xf32>
  %b = slice_load @{sources[1]}[{rows[1]}, 0] : slice<?xf32>
  %w = slice_load @w[0] : slice<?xf32>
  {body}
  {store}
}}"""
