"""Programs of one launch each, to be put together to pipelines.

Over workgroups of 64 and elements of u32; `%g`, `%l`, `%w` are the ids, `%base` is `64 * %w`.
"""

from __future__ import annotations

__all__ = ["BUMP", "COUNT", "LANES", "MIRROR", "PROGRAMS", "REVERSE", "TRIPLE", "pipeline", "stage", "window"]

LANES = 64

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


BACKWARD = stage(
    "backward",
    "x:read y:write",
    """
  %n = len @y
  %last = sub %n, %c1 : u32
  %i = sub %last, %g : u32
  %v = load @x[%g] : u32
  store %v, @y[%i] : u32""",
)

TRIPLE_32 = TRIPLE.replace("workgroup(64)", "workgroup(32)").replace("program @triple", "program @triple32")

_TEXTS = (
    ADD, BACKWARD, BETWEEN_PAIRS, BUMP, CLAMPED, COUNT, MIRROR, ONE_LANE, PAIRS, REVERSE, ROW_SUM,
    SHUFFLED, TRIPLE, TRIPLE_32, TWO_OUTPUTS, VECTOR_PAIRS, WIDE_INDEX, WITH_MEMORY,
)  # fmt: skip

PROGRAMS = {text.partition("@")[2].split()[0]: text for text in _TEXTS}
"""The texts by their programs' names; `window` makes more."""
