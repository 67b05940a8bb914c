"""Which pipelines become one launch, which must not, and why: a row for each kind.

A row's stages are `PROGRAM BUFFERS`, `host_read BUFFER`, `repeat N {` and `}`, with `;` between.  A
program's grid has an invocation for each element of the row's first buffer, where `grid(...)` does not
say otherwise.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from .programs import LANES, PROGRAMS, pipeline, window

__all__ = ["KINDS", "Kind"]

_LAUNCH = re.compile(r"(\w+)(?: grid\((.*)\))?((?: \w+)+)")


@dataclass(frozen=True)
class Kind:
    """A pipeline, and what launch_fusion must make of it.

    `launches`: how many remain.  `internal`: buffers that are gone from the pipeline.
    `reasons`: of the refusals in its remarks.
    """

    name: str
    text: str
    launches: int
    internal: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name


def _kind(
    name: str,
    buffers: str,
    stages: str,
    launches: int,
    internal: str = "",
    reasons: str = "",
    reach: int = 1,
) -> Kind:
    """`buffers` as `pipeline` takes them; `reach` is of the program `window`, where it is used."""
    texts = {**PROGRAMS, "window": window(reach)}
    groups = int(buffers.partition("[")[2].partition("]")[0]) // LANES
    programs: dict[str, str] = {}
    lines: list[str] = []
    for written in stages.split("; "):
        launch = _LAUNCH.fullmatch(written)
        if launch is None:
            lines.append(written)
        elif launch[1] == "host_read":
            lines.append(f"host_read @{launch[3].strip()}")
        else:
            programs[launch[1]] = texts[launch[1]]
            passed = ", ".join(f"@{buffer}" for buffer in launch[3].split())
            lines.append(f"launch @{launch[1]} grid({launch[2] or groups}) ({passed})")
    text = "vyre 1\n" + "".join(programs.values()) + pipeline(buffers, "\n".join(lines))
    return Kind(name, text, launches, tuple(internal.split()), tuple(reasons.split()))


def _chain(length: int) -> Kind:
    names = ["x", *(f"m{k}" for k in range(length - 1)), "y"]
    stages = "; ".join(f"triple {a} {b}" for a, b in itertools.pairwise(names))
    buffers = " ".join(["x[256]r", *(f"{m}[256]" for m in names[1:-1]), "y[256]w"])
    return _kind(f"elementwise chain of {length}", buffers, stages, 1, " ".join(names[1:-1]))


KINDS = [
    *(_chain(length) for length in (2, 3, 4, 5)),
    _kind("rows", "x[256]r m[256] y[256]w", "triple x m; row_sum m y", 1, internal="m"),
    _kind(
        "three over rows",
        "x[256]r m[256] n[256] y[256]w",
        "triple x m; row_sum m n; mirror n y",
        1,
        internal="m n",
    ),
    _kind(
        "diamond",
        "x[256]r a[256] b[256] c[256] y[256]w",
        "triple x a; triple a b; mirror a c; plus b c y",
        1,
        internal="a b c",
    ),
    _kind(
        "two consumers in one group",
        "x[256]r m[256] y[256]w z[256]w",
        "triple x m; triple m y; mirror m z",
        1,
        internal="m",
    ),
    _kind(
        "a third consumer that cannot join",
        "x[256]r m[256] y[256]w z[256]w",
        "triple x m; mirror m y; reverse m z",
        2,
        reasons="third-consumer raw",
    ),
    _kind(
        "a host read in the middle",
        "x[256]r m[256] y[256]w",
        "triple x m; host_read m; triple m y",
        2,
        reasons="host-read",
    ),
    _kind(
        "a host read after the consumer",
        "x[256]r m[256] y[256]w",
        "triple x m; triple m y; host_read m",
        1,
        reasons="host-read",
    ),
    _kind("an output between", "x[256]r m[256]w y[256]w", "triple x m; triple m y", 1, reasons="live-out"),
    _kind("fewer workgroups", "x[256]r m[256] y[256]w", "triple x m; triple grid(2) m y", 1, internal="m"),
    _kind("unequal grids", "x[256]r m[256] y[256]w", "triple x m; reverse grid(2) m y", 2, reasons="grid"),
    _kind(
        "grids of equal value",
        "x[256]r m[256] y[256]w",
        "triple grid(ceil_div(len(@x), 64)) x m; triple grid(div(len(@m), 64)) m y",
        1,
        internal="m",
    ),
    _kind(
        "unequal workgroups",
        "x[256]r m[256] y[256]w",
        "triple x m; triple32 grid(8) m y",
        2,
        reasons="workgroup",
    ),
    _kind("a halo of 1", "x[256]r m[256] y[256]w", "triple x m; window m y", 1, internal="m"),
    _kind("a halo of 16", "x[1024]r m[1024] y[1024]w", "triple x m; window m y", 1, internal="m", reach=16),
    _kind(
        "a halo wider than the tile",
        "x[1024]r m[1024] y[1024]w",
        "triple x m; window m y",
        2,
        reasons="halo-cost",
        reach=65,
    ),
    _kind("a halo of pairs", "x[256]r m[512] y[256]w", "pairs x m; between_pairs m y", 1, internal="m"),
    _kind(
        "a halo clamped at the edges", "x[256]r m[256] y[256]w", "triple x m; clamped m y", 1, internal="m"
    ),
    _kind(
        "a halo clamped at the edges of a long line",
        "x[131072]r m[131072] y[131072]w",
        "triple x m; clamped m y",
        1,
        internal="m",
    ),
    _kind(
        "a halo in vectors and wide indices",
        "x[256]r m[512] y[256]w",
        "vector_pairs x m; wide_index m y",
        1,
        internal="m",
    ),
    _kind(
        "a halo with another consumer",
        "x[256]r m[256] y[256]w z[256]w",
        "triple x m; window m y; mirror m z",
        2,
        reasons="raw",
    ),
    _kind(
        "a halo of what is made by local ids",
        "x[256]r m[256] y[256]w",
        "mirror x m; window m y",
        1,
        internal="m",
    ),
    _kind(
        "a halo of a sum over a subgroup",
        "x[256]r m[256] y[256]w",
        "shuffled x m; window m y",
        2,
        reasons="halo-producer",
    ),
    _kind(
        "a halo of one that makes two buffers",
        "x[256]r m[256] u[256]w y[256]w",
        "two_outputs x m u; window m y",
        2,
        reasons="halo-producer",
    ),
    _kind(
        "a halo of one with memory of its own",
        "x[256]r m[256] y[256]w",
        "with_memory x m; window m y",
        2,
        reasons="halo-producer",
    ),
    _kind(
        "a halo with another consumer far away",
        "x[256]r m[256] y[256]w z[256]w",
        "triple x m; window m y; reverse m z",
        2,
        reasons="raw",
    ),
    _kind(
        "a halo whose producer reads what its consumer writes",
        "x[256]io m[256]",
        "triple x m; window m x",
        2,
        reasons="halo-producer",
    ),
    _kind(
        "a halo behind the writer of its producer's input",
        "x[256]r k[256] m[256] y[256]w",
        "triple x k; triple k m; window m y",
        2,
        internal="k",
        reasons="halo-producer",
    ),
    _kind(
        "a later writer of a halo's input",
        "x[256]io m[256] y[256]w",
        "triple x m; window m y; bump x",
        2,
        internal="m",
        reasons="halo-producer",
    ),
    _kind("in place", "x[256]io y[256]w", "bump x; bump x; triple x y", 1, reasons="live-out"),
    _kind("in place between", "x[256]r m[256] y[256]w", "triple x m; bump m; triple m y", 1, internal="m"),
    _kind(
        "overwriting what others read", "x[256]io z[256]r y[256]w", "window x y; triple z x", 2, reasons="war"
    ),
    _kind(
        "overwriting what the same workgroup read", "x[256]io z[256]r y[256]w", "mirror x y; triple z x", 1
    ),
    _kind("two writers", "x[256]r y[256]w", "triple x y; backward x y", 2, reasons="waw"),
    _kind(
        "a repeat",
        "x[256]io m[256] y[256]w",
        "repeat 3 {; triple x m; triple m x; }; triple x y",
        2,
        internal="m",
    ),
    _kind(
        "carried around a repeat",
        "x[256]r k[256] y[256]w",
        "triple x k; repeat 3 {; triple k y; bump k; }",
        2,
    ),
    _kind(
        "a buffer used again",
        "x[256]r m[256] k[256] y[256]w",
        "triple x m; triple m k; reverse k m; triple m y",
        2,
        internal="m",
        reasons="raw",
    ),
    _kind("one buffer for two", "x[256]r m[256] y[256]w", "triple x m; plus m m y", 2, reasons="aliasing"),
    _kind("one read buffer for two", "x[256]r m[256] y[256]w", "plus x x m; triple m y", 1, internal="m"),
    _kind("atomics", "x[256]r h[256]io y[256]w", "count x h; triple h y", 2, reasons="atomic"),
    _kind(
        "a partial hand-off", "x[256]r m[256]io y[256]w", "one_lane x m; row_sum m y", 1, reasons="live-out"
    ),
    _kind("launches that share nothing", "x[256]r z[256]r y[256]w u[256]w", "triple x y; triple z u", 1),
]
