"""Pipelines for launch_fusion: what becomes one launch, what must not, and why.

Programs are of workgroups of 64, over u32; `%g`, `%l`, `%w` are the ids, `%base` is `64 * %w`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

PRELUDE = """
  %g = global_id x
  %l = local_id x
  %w = workgroup_id x
  %c0 = const 0 : u32
  %c1 = const 1 : u32
  %c2 = const 2 : u32
  %c63 = const 63 : u32
  %c64 = const 64 : u32
  %base = mul %w, %c64 : u32
"""


def stage(name: str, buffers: str, body: str) -> str:
    """A program; `buffers` are `name:access` words, u32 of open size, bound in order."""
    declared = ""
    for place, word in enumerate(buffers.split()):
        buffer, access = word.split(":")
        flags = {"write": "write binding({}) live_out", "both": "read_write binding({}) live_in live_out"}
        declared += (
            f"  buffer @{buffer} : u32[?] " + flags.get(access, "read binding({})").format(place) + "\n"
        )
    return f"program @{name} workgroup(64) {{\n{declared}{PRELUDE}{body}\n}}\n"


def pipeline(buffers: str, stages: str, name: str = "main") -> str:
    """Words `name[count]flags`, flags of r (read), w (write live_out); one stage a line."""
    text = f"pipeline @{name} {{\n"
    for word in buffers.split():
        head, flags = word.split("]")
        buffer, count = head.split("[")
        access = {"r": " read", "w": " write live_out", "io": " read_write live_in live_out"}.get(flags, "")
        text += f"  buffer @{buffer} : u32[{count}]{access}\n"
    return text + "".join(f"  {line.strip()}\n" for line in stages.strip().splitlines()) + "}\n"


TRIPLE = stage(
    "triple",
    "x:read y:write",
    """
  %v = load @x[%g] : u32
  %d = add %v, %v : u32
  %s = add %d, %v : u32
  store %s, @y[%g] : u32""",
)

MIRROR = stage(
    "mirror",
    "x:read y:write",
    """
  %m = sub %c63, %l : u32
  %i = add %base, %m : u32
  %v = load @x[%i] : u32
  %s = add %v, %c1 : u32
  store %s, @y[%g] : u32""",
)

ADD = stage(
    "plus",
    "x:read z:read y:write",
    """
  %v = load @x[%g] : u32
  %u = load @z[%g] : u32
  %s = add %v, %u : u32
  store %s, @y[%g] : u32""",
)

BUMP = stage(
    "bump",
    "x:both",
    """
  %v = load @x[%g] : u32
  %s = add %v, %c1 : u32
  store %s, @x[%g] : u32""",
)

ROW_SUM = stage(
    "row_sum",
    "x:read y:write",
    """
  %sum = for %k = 0 to 64 step 1 iter(%a = %c0 : u32) {
    %i = add %base, %k : u32
    %v = load @x[%i] : u32
    %n = add %a, %v : u32
    yield %n
  }
  %mine = load @x[%g] : u32
  %s = sub %sum, %mine : u32
  store %s, @y[%g] : u32""",
)


def window(reach: int, name: str = "window") -> str:
    """The sum of the elements `reach` before and behind, where there are any."""
    return stage(
        name,
        "x:read y:write",
        f"""
  %r = const {reach} : u32
  %n = len @x
  %has_left = ge %g, %r : u32
  %far = add %g, %r : u32
  %has_right = lt %far, %n : u32
  %a = if %has_left -> u32 {{ %i = sub %g, %r : u32 %v = load @x[%i] : u32 yield %v }} else {{ yield %c1 }}
  %b = if %has_right -> u32 {{ %v = load @x[%far] : u32 yield %v }} else {{ yield %c2 }}
  %s = add %a, %b : u32
  store %s, @y[%g] : u32""",
    )


VECTOR_PAIRS = stage(
    "vector_pairs",
    "x:read y:write",
    """
  %v = load @x[%g] : u32
  %t = add %v, %c1 : u32
  %pair = vector %v, %t : vec<2 x u32>
  %i = mul %g, %c2 : u32
  store %pair, @y[%i] : vec<2 x u32>""",
)

WIDE_INDEX = stage(
    "wide_index",
    "x:read y:write",
    """
  %wide = cast %g : u32 -> u64
  %two = const 2 : u64
  %one = const 1 : u64
  %own = mul %wide, %two : u64
  %before = sub %own, %one : u64
  %has = ge %g, %c1 : u32
  %b = load @x[%own] : vec<2 x u32>
  %last = extract %b[1] : vec<2 x u32>
  %a = if %has -> u32 { %v = load @x[%before] : u32 yield %v } else { yield %c2 }
  %s = sub %last, %a : u32
  store %s, @y[%g] : u32""",
)

CLAMPED = stage(
    "clamped",
    "x:read y:write",
    """
  %n = len @x
  %last = sub %n, %c1 : u32
  %up = max %g, %c2 : u32
  %i = sub %up, %c2 : u32
  %next = add %g, %c1 : u32
  %j = min %next, %last : u32
  %k = sub_sat %g, %c1 : u32
  %is = eq %g, %c0 : u32
  %h = sub %g, %c1 : u32
  %q = select %is, %g, %h : u32
  %a = load @x[%i] : u32
  %b = load @x[%j] : u32
  %c = load @x[%k] : u32
  %d = load @x[%q] : u32
  %ab = sub %a, %b : u32
  %cd = mul %c, %d : u32
  %s = add %ab, %cd : u32
  store %s, @y[%g] : u32""",
)

REVERSE = stage(
    "reverse",
    "x:read y:write",
    """
  %n = len @x
  %last = sub %n, %c1 : u32
  %i = sub %last, %g : u32
  %v = load @x[%i] : u32
  store %v, @y[%g] : u32""",
)

PAIRS = stage(
    "pairs",
    "x:read y:write",
    """
  %v = load @x[%g] : u32
  %i = mul %g, %c2 : u32
  %j = add %i, %c1 : u32
  %t = add %v, %c1 : u32
  store %v, @y[%i] : u32
  store %t, @y[%j] : u32""",
)

BETWEEN_PAIRS = stage(
    "between_pairs",
    "x:read y:write",
    """
  %i = mul %g, %c2 : u32
  %j = add %i, %c2 : u32
  %n = len @x
  %in = lt %j, %n : u32
  %a = load @x[%i] : u32
  %b = if %in -> u32 { %v = load @x[%j] : u32 yield %v } else { yield %c1 }
  %s = sub %b, %a : u32
  store %s, @y[%g] : u32""",
)

ONE_LANE = stage(
    "one_lane",
    "x:read y:write",
    """
  %is = eq %l, %c0 : u32
  if %is {
    %v = load @x[%base] : u32
    store %v, @y[%base] : u32
  }""",
)

COUNT = stage(
    "count",
    "x:read y:both",
    """
  %v = load @x[%g] : u32
  %slot = and %v, %c63 : u32
  %old = atomic_add<relaxed> @y[%slot], %c1 : u32""",
)

TWO_OUTPUTS = stage(
    "two_outputs",
    "x:read y:write z:write",
    """
  %v = load @x[%g] : u32
  %s = add %v, %c1 : u32
  store %v, @y[%g] : u32
  store %s, @z[%g] : u32""",
)

WITH_MEMORY = stage(
    "with_memory",
    "x:read y:write",
    """
  %v = load @x[%g] : u32
  store %v, @own[%l] : u32
  %u = load @own[%l] : u32
  store %u, @y[%g] : u32""",
).replace("workgroup(64) {\n", "workgroup(64) {\n  buffer @own : u32[64] workgroup\n")

SHUFFLED = stage(
    "shuffled",
    "x:read y:write",
    """
  %s = subgroup_reduce<add> %g : u32
  %v = load @x[%g] : u32
  %t = add %v, %s : u32
  store %t, @y[%g] : u32""",
)


def _small(text: str) -> str:
    """The same over 32 lanes, under another name."""
    return text.replace("workgroup(64)", "workgroup(32)").replace("program @triple", "program @triple32")


@dataclass(frozen=True)
class Kind:
    """`launches` that are left, buffers that are `internal`, and the `reasons` of refusals."""

    name: str
    text: str
    launches: int
    internal: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name


def _kind(
    name: str, programs: str, buffers: str, stages: str, launches: int, internal: str = "", reasons: str = ""
) -> Kind:
    text = "vyre 1\n" + programs + pipeline(buffers, stages)
    return Kind(name, text, launches, tuple(internal.split()), tuple(reasons.split()))


def _chain(length: int) -> Kind:
    middle = [f"m{k}" for k in range(length - 1)]
    names = ["x", *middle, "y"]
    stages = "\n".join(f"launch @triple grid(4) (@{a}, @{b})" for a, b in itertools.pairwise(names))
    buffers = " ".join(["x[256]r", *(f"{m}[256]" for m in middle), "y[256]w"])
    return _kind(f"elementwise chain of {length}", TRIPLE, buffers, stages, 1, " ".join(middle))


KINDS = [
    *(_chain(length) for length in (2, 3, 4, 5)),
    _kind(
        "rows",
        TRIPLE + ROW_SUM,
        "x[256]r m[256] y[256]w",
        """
        launch @triple grid(4) (@x, @m)
        launch @row_sum grid(4) (@m, @y)""",
        1,
        "m",
    ),
    _kind(
        "three over rows",
        TRIPLE + ROW_SUM + MIRROR,
        "x[256]r m[256] n[256] y[256]w",
        """
        launch @triple grid(4) (@x, @m)
        launch @row_sum grid(4) (@m, @n)
        launch @mirror grid(4) (@n, @y)""",
        1,
        "m n",
    ),
    _kind(
        "diamond",
        TRIPLE + MIRROR + ADD,
        "x[256]r a[256] b[256] c[256] y[256]w",
        """
        launch @triple grid(4) (@x, @a)
        launch @triple grid(4) (@a, @b)
        launch @mirror grid(4) (@a, @c)
        launch @plus grid(4) (@b, @c, @y)""",
        1,
        "a b c",
    ),
    _kind(
        "two consumers in one group",
        TRIPLE + MIRROR,
        "x[256]r m[256] y[256]w z[256]w",
        """
        launch @triple grid(4) (@x, @m)
        launch @triple grid(4) (@m, @y)
        launch @mirror grid(4) (@m, @z)""",
        1,
        "m",
    ),
    _kind(
        "a third consumer that cannot join",
        TRIPLE + MIRROR + REVERSE,
        "x[256]r m[256] y[256]w z[256]w",
        """
        launch @triple grid(4) (@x, @m)
        launch @mirror grid(4) (@m, @y)
        launch @reverse grid(4) (@m, @z)""",
        2,
        "",
        "third-consumer raw",
    ),
    _kind(
        "a host read in the middle",
        TRIPLE,
        "x[256]r m[256] y[256]w",
        """
        launch @triple grid(4) (@x, @m)
        host_read @m
        launch @triple grid(4) (@m, @y)""",
        2,
        "",
        "host-read",
    ),
    _kind(
        "a host read after the consumer",
        TRIPLE,
        "x[256]r m[256] y[256]w",
        """
        launch @triple grid(4) (@x, @m)
        launch @triple grid(4) (@m, @y)
        host_read @m""",
        1,
        "",
        "host-read",
    ),
    _kind(
        "an output between",
        TRIPLE,
        "x[256]r m[256]w y[256]w",
        """
        launch @triple grid(4) (@x, @m)
        launch @triple grid(4) (@m, @y)""",
        1,
        "",
        "live-out",
    ),
    _kind(
        "unequal grids",
        TRIPLE,
        "x[256]r m[256] y[256]w",
        """
        launch @triple grid(4) (@x, @m)
        launch @triple grid(2) (@m, @y)""",
        2,
        "",
        "grid",
    ),
    _kind(
        "grids of equal value",
        TRIPLE,
        "x[256]r m[256] y[256]w",
        """
        launch @triple grid(ceil_div(len(@x), 64)) (@x, @m)
        launch @triple grid(div(len(@m), 64)) (@m, @y)""",
        1,
        "m",
    ),
    _kind(
        "unequal workgroups",
        TRIPLE + _small(TRIPLE),
        "x[256]r m[256] y[256]w",
        """
        launch @triple grid(4) (@x, @m)
        launch @triple32 grid(8) (@m, @y)""",
        2,
        "",
        "workgroup",
    ),
    _kind(
        "a halo of 1",
        TRIPLE + window(1),
        "x[256]r m[256] y[256]w",
        """
        launch @triple grid(4) (@x, @m)
        launch @window grid(4) (@m, @y)""",
        1,
        "m",
    ),
    _kind(
        "a halo of 16",
        TRIPLE + window(16),
        "x[1024]r m[1024] y[1024]w",
        """
        launch @triple grid(16) (@x, @m)
        launch @window grid(16) (@m, @y)""",
        1,
        "m",
    ),
    _kind(
        "a halo wider than the tile",
        TRIPLE + window(65),
        "x[1024]r m[1024] y[1024]w",
        """
        launch @triple grid(16) (@x, @m)
        launch @window grid(16) (@m, @y)""",
        2,
        "",
        "halo-cost",
    ),
    _kind(
        "a halo of pairs",
        PAIRS + BETWEEN_PAIRS,
        "x[256]r m[512] y[256]w",
        """
        launch @pairs grid(4) (@x, @m)
        launch @between_pairs grid(4) (@m, @y)""",
        1,
        "m",
    ),
    _kind(
        "a halo clamped at the edges",
        TRIPLE + CLAMPED,
        "x[256]r m[256] y[256]w",
        """
        launch @triple grid(4) (@x, @m)
        launch @clamped grid(4) (@m, @y)""",
        1,
        "m",
    ),
    _kind(
        "a halo clamped at the edges of a long line",
        TRIPLE + CLAMPED,
        "x[131072]r m[131072] y[131072]w",
        """
        launch @triple grid(2048) (@x, @m)
        launch @clamped grid(2048) (@m, @y)""",
        1,
        "m",
    ),
    _kind(
        "a halo in vectors and wide indices",
        VECTOR_PAIRS + WIDE_INDEX,
        "x[256]r m[512] y[256]w",
        """
        launch @vector_pairs grid(4) (@x, @m)
        launch @wide_index grid(4) (@m, @y)""",
        1,
        "m",
    ),
    _kind(
        "a halo with another consumer",
        TRIPLE + window(1) + MIRROR,
        "x[256]r m[256] y[256]w z[256]w",
        """
        launch @triple grid(4) (@x, @m)
        launch @window grid(4) (@m, @y)
        launch @mirror grid(4) (@m, @z)""",
        2,
        "",
        "raw",
    ),
    _kind(
        "a halo of what is made by local ids",
        MIRROR + window(1),
        "x[256]r m[256] y[256]w",
        """
        launch @mirror grid(4) (@x, @m)
        launch @window grid(4) (@m, @y)""",
        1,
        "m",
    ),
    _kind(
        "a halo of a sum over a subgroup",
        SHUFFLED + window(1),
        "x[256]r m[256] y[256]w",
        """
        launch @shuffled grid(4) (@x, @m)
        launch @window grid(4) (@m, @y)""",
        2,
        "",
        "halo-producer",
    ),
    _kind(
        "a halo of one that makes two buffers",
        TWO_OUTPUTS + window(1),
        "x[256]r m[256] u[256]w y[256]w",
        """
        launch @two_outputs grid(4) (@x, @m, @u)
        launch @window grid(4) (@m, @y)""",
        2,
        "",
        "halo-producer",
    ),
    _kind(
        "a halo of one with memory of its own",
        WITH_MEMORY + window(1),
        "x[256]r m[256] y[256]w",
        """
        launch @with_memory grid(4) (@x, @m)
        launch @window grid(4) (@m, @y)""",
        2,
        "",
        "halo-producer",
    ),
    _kind(
        "a halo with another consumer far away",
        TRIPLE + window(1) + REVERSE,
        "x[256]r m[256] y[256]w z[256]w",
        """
        launch @triple grid(4) (@x, @m)
        launch @window grid(4) (@m, @y)
        launch @reverse grid(4) (@m, @z)""",
        2,
        "",
        "raw",
    ),
    _kind(
        "a halo whose producer reads what its consumer writes",
        TRIPLE + window(1),
        "x[256]io m[256]",
        """
        launch @triple grid(4) (@x, @m)
        launch @window grid(4) (@m, @x)""",
        2,
        "",
        "halo-producer",
    ),
    _kind(
        "a halo behind the writer of its producer's input",
        TRIPLE + window(1),
        "x[256]r k[256] m[256] y[256]w",
        """
        launch @triple grid(4) (@x, @k)
        launch @triple grid(4) (@k, @m)
        launch @window grid(4) (@m, @y)""",
        2,
        "k",
        "halo-producer",
    ),
    _kind(
        "a later writer of a halo's input",
        TRIPLE + window(1) + BUMP,
        "x[256]io m[256] y[256]w",
        """
        launch @triple grid(4) (@x, @m)
        launch @window grid(4) (@m, @y)
        launch @bump grid(4) (@x)""",
        2,
        "m",
        "halo-producer",
    ),
    _kind(
        "in place",
        BUMP + TRIPLE,
        "x[256]io y[256]w",
        """
        launch @bump grid(4) (@x)
        launch @bump grid(4) (@x)
        launch @triple grid(4) (@x, @y)""",
        1,
        "",
        "live-out",
    ),
    _kind(
        "in place between",
        BUMP + TRIPLE,
        "x[256]r m[256] y[256]w",
        """
        launch @triple grid(4) (@x, @m)
        launch @bump grid(4) (@m)
        launch @triple grid(4) (@m, @y)""",
        1,
        "m",
    ),
    _kind(
        "overwriting what others read",
        window(1) + TRIPLE,
        "x[256]io z[256]r y[256]w",
        """
        launch @window grid(4) (@x, @y)
        launch @triple grid(4) (@z, @x)""",
        2,
        "",
        "war",
    ),
    _kind(
        "overwriting what the same workgroup read",
        MIRROR + TRIPLE,
        "x[256]io z[256]r y[256]w",
        """
        launch @mirror grid(4) (@x, @y)
        launch @triple grid(4) (@z, @x)""",
        1,
    ),
    _kind(
        "two writers",
        TRIPLE
        + stage(
            "backward",
            "x:read y:write",
            """
  %n = len @y
  %last = sub %n, %c1 : u32
  %i = sub %last, %g : u32
  %v = load @x[%g] : u32
  store %v, @y[%i] : u32""",
        ),
        "x[256]r y[256]w",
        """
        launch @triple grid(4) (@x, @y)
        launch @backward grid(4) (@x, @y)""",
        2,
        "",
        "waw",
    ),
    _kind(
        "a repeat",
        TRIPLE + BUMP,
        "x[256]io m[256] y[256]w",
        """
        repeat 3 {
          launch @triple grid(4) (@x, @m)
          launch @triple grid(4) (@m, @x)
        }
        launch @triple grid(4) (@x, @y)""",
        2,
        "m",
    ),
    _kind(
        "carried around a repeat",
        TRIPLE + BUMP,
        "x[256]r k[256] y[256]w",
        """
        launch @triple grid(4) (@x, @k)
        repeat 3 {
          launch @triple grid(4) (@k, @y)
          launch @bump grid(4) (@k)
        }""",
        2,
    ),
    _kind(
        "a buffer used again",
        TRIPLE + REVERSE,
        "x[256]r m[256] k[256] y[256]w",
        """
        launch @triple grid(4) (@x, @m)
        launch @triple grid(4) (@m, @k)
        launch @reverse grid(4) (@k, @m)
        launch @triple grid(4) (@m, @y)""",
        2,
        "m",
        "raw",
    ),
    _kind(
        "one buffer for two",
        TRIPLE + ADD,
        "x[256]r m[256] y[256]w",
        """
        launch @triple grid(4) (@x, @m)
        launch @plus grid(4) (@m, @m, @y)""",
        2,
        "",
        "aliasing",
    ),
    _kind(
        "one read buffer for two",
        ADD + TRIPLE,
        "x[256]r m[256] y[256]w",
        """
        launch @plus grid(4) (@x, @x, @m)
        launch @triple grid(4) (@m, @y)""",
        1,
        "m",
    ),
    _kind(
        "atomics",
        COUNT + TRIPLE,
        "x[256]r h[256]io y[256]w",
        """
        launch @count grid(4) (@x, @h)
        launch @triple grid(4) (@h, @y)""",
        2,
        "",
        "atomic",
    ),
    _kind(
        "a partial hand-off",
        ONE_LANE + ROW_SUM,
        "x[256]r m[256]io y[256]w",
        """
        launch @one_lane grid(4) (@x, @m)
        launch @row_sum grid(4) (@m, @y)""",
        1,
        "",
        "live-out",
    ),
    _kind(
        "launches that share nothing",
        TRIPLE,
        "x[256]r z[256]r y[256]w u[256]w",
        """
        launch @triple grid(4) (@x, @y)
        launch @triple grid(4) (@z, @u)""",
        1,
    ),
]
