"""Loops that load, and carry what they compute of it: texts of programs, and random ones.

SUM         a loop over elements of @x, with a body of SUM_BODIES
row_text    loops of ROW_LOOPS over one row
OWN_ROWS    a loop of OWN_ROW_BODIES in which each lane goes along a row of its own
REPEATING   a loop of REPEATING_LOOPS with a body that loads the same in each iteration
"""

from __future__ import annotations

import random

from .aliasing_loops import aliasing_loop

__all__ = [
    "KINDS",
    "MEETING",
    "OWN_ROWS",
    "OWN_ROW_BODIES",
    "REPEATING",
    "REPEATING_BODIES",
    "REPEATING_LOOPS",
    "ROW_HEAD",
    "ROW_LOOPS",
    "SUM",
    "SUM_BODIES",
    "row_text",
]

SUM = """vyre 2
program @p workgroup(8) {{
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] read_write binding(1) live_in live_out
  buffer @z : f32[?] write binding(2) live_out
  buffer @k : u32[?] read binding(3)
  %l = local_id x
  %n = len @x
  %zero = const 0.0 : f32
  %sum = for %c = {lower} to {upper} step {step} iter(%acc = %zero : f32) {{
{body}
    yield %next
  }}
  %i = global_id x
  store %sum, @z[%i]
}}
"""

SUM_BODIES = {
    "sum": """    %v = load @x[%c]
    %next = add %acc, %v""",
    "gather": """    %at = load @k[%c]
    %v = load @x[%at]
    %w = mul %v, %acc
    %next = add %w, %v""",
    "in place": """    %v = load @y[%c]
    %w = load @x[%c]
    %u = add %v, %w
    store %u, @y[%c]
    %next = max %acc, %u""",
    "guard": """    %is = lt %c, 40
    %v = if %is -> f32 {
      %a = load @x[%c]
      %b = load @k[%c]
      %f = cast %b : u32 -> f32
      %p = mul %a, %f
      yield %p
    } else {
      yield 0.5
    }
    %next = sub %acc, %v""",
    "branch": """    %v = load @x[%c]
    %big = gt %v, 0.5
    %next = if %big -> f32 {
      %t = mul %acc, %v
      yield %t
    } else {
      %s = sub %acc, %v
      yield %s
    }""",
}


MEETING = """    %at = add %c, %l
    %is = lt %at, %n
    %v = if %is -> f32 {
      %u = load @x[%at]
      yield %u
    } else {
      yield 0.25
    }
    %most = workgroup_reduce<max> %v
    %next = sub %most, %acc"""
"""The body of a loop in which invocations meet, behind a branch of loads."""

ROW_HEAD = """vyre 2
program @p workgroup(8) {{
  buffer @x : f32[{length}] read binding(0)
  buffer @w : f32[{length}] read binding(1)
  buffer @y : f32[{length}] read_write binding(2) live_in live_out
  buffer @z : f32[8] write binding(3) live_out
  %l = local_id x
  %n = len @x
  %total_0 = const 0.0 : f32
"""

ROW_LOOPS = {
    "sum": """  %total_{next} = for %c = {bounds} iter(%a = %total_{last} : f32) {{
    %v = load @x[%c]
    %b = add %a, %v
    yield %b
  }}
""",
    "squares": """  %total_{next} = for %c = {bounds} iter(%a = %total_{last} : f32) {{
    %v = load @x[%c]
    %d = sub %v, %total_{last}
    %s = mul %d, %d
    %w = load @w[%c]
    %t = mul %s, %w
    %b = sub %a, %t
    yield %b
  }}
""",
    "in place": """  for %c = {bounds} {{
    %v = load @x[%c]
    %o = load @y[%c]
    %s = mul %v, %total_{last}
    %b = add %o, %s
    store %b, @y[%c]
  }}
  %total_{next} = add %total_{last}, 1.0
""",
    "branch": """  %total_{next} = for %c = {bounds} iter(%a = %total_{last} : f32) {{
    %w = load @w[%c]
    %is = gt %w, 0.5
    %b = if %is -> f32 {{
      %v = load @x[%c]
      %t = sub %a, %v
      yield %t
    }} else {{
      %t = mul %a, %w
      yield %t
    }}
    yield %b
  }}
""",
    "newest": """  %total_{next} = for %c = {bounds} iter(%a = %total_{last} : f32) {{
    %v = load @x[%c]
    yield %v
  }}
""",
}


def row_text(kinds: list[str], length: int | str, bounds: str) -> str:
    text = ROW_HEAD.format(length=length)
    for number, kind in enumerate(kinds):
        text += ROW_LOOPS[kind].format(next=number + 1, last=number, bounds=bounds)
    return text + f"  store %total_{len(kinds)}, @z[%l]\n}}\n"


OWN_ROWS = """vyre 2
program @p workgroup(32) {{
  buffer @x : {dtype}[?, {columns}] read_write binding(0) live_in live_out
  buffer @w : {dtype}[?] read binding(1)
  buffer @z : {dtype}[?] write binding(2) live_out
  %row = {row} x
  %rows = len @x, 0
  %n = len @x, 1
  %is = lt %row, %rows
  if %is {{
    %zero = const 0 : {dtype}
    %sum = for %c = {lower} to {upper} step {step} iter(%a = %zero : {dtype}) {{
{body}
      yield %next
    }}
    store %sum, @z[%row]
  }}
}}
"""

OWN_ROW_BODIES = {
    "sum": "      %v = load @x[%row, %c]\n      %next = add %a, %v",
    "product": "      %v = load @x[%row, %c]\n      %u = load @w[%c]\n      %t = mul %v, %u\n      %next = sub %t, %a",
    "in place": "      %v = load @x[%row, %c]\n      %t = add %v, %a\n      store %t, @x[%row, %c]\n      %next = max %t, %v",
    "two rows": "      %v = load @x[%row, %c]\n      %u = load @x[0, %c]\n      %t = sub %v, %u\n      %next = sub %t, %a",
}

REPEATING = """vyre 2
program @p workgroup(8) {{
  buffer @x : f32[?] read binding(0)
  buffer @k : u32[?] read binding(1)
  buffer @y : f32[8] read_write binding(2) live_in live_out
  %l = local_id x
  %n = load @k[%l]
  %start = load @y[%l]
{loop}
  store %sum, @y[%l]
}}
"""

REPEATING_LOOPS = {
    "for": """  %sum = for %c = 0 to %n iter(%a = %start : f32) {{
{body}
    yield %next
  }}""",
    "while": """  %zero = const 0 : u32
  %sum, %end = while iter(%a = %start : f32, %c = %zero : u32) {{
    %more = lt %c, %n
    condition %more
  }} do {{
{body}
    %one = add %c, 1
    yield %next, %one
  }}""",
}

REPEATING_BODIES = {
    "one": "    %at = add %n, 3\n    %v = load @x[%at]\n    %next = add %a, %v",
    "gather": "    %at = load @k[8]\n    %v = load @x[%at]\n    %next = sub %v, %a",
    "inner": """    %next = for %d = 0 to %c iter(%b = %a : f32) {
      %v = load @x[%n]
      %w = load @x[%c]
      %t = mul %v, %w
      %s = sub %t, %b
      yield %s
    }""",
    "store": "    store %a, @y[%l]\n    %at = load @k[8]\n    %v = load @x[%at]\n    %u = load @y[%l]\n    %next = sub %v, %u",
}


def _sum_text(seed: int) -> str:
    rng = random.Random(seed)
    body = rng.choice([*SUM_BODIES])
    in_turn = body == "in place" or rng.random() < 0.6
    lower, step = ("%l", 8) if in_turn else (str(rng.randrange(4)), rng.choice((1, 1, 2, 3, 7)))
    upper = rng.choice(("%n", str(rng.randrange(1, 100))))
    return SUM.format(lower=lower, upper=upper, step=step, body=SUM_BODIES[body])


def _random_row_text(seed: int) -> str:
    rng = random.Random(seed)
    kinds = [rng.choice([*ROW_LOOPS]) for _ in range(rng.randint(2, 4))]
    length = rng.choice([1, 5, 8, 9, 23, 64, 100, 512])
    bounds = rng.choice(
        (
            "%l to %n step 8",
            "%l to %n step 8",
            f"%l to {length} step 8",
            f"0 to {length} step 8",
            "3 to %n step 8",
        )
    )
    return row_text(kinds, length, bounds)


def _own_row_text(seed: int) -> str:
    rng = random.Random(seed)
    upper = rng.choice(["%n", *map(str, range(14, 70, 5))])
    body = OWN_ROW_BODIES[rng.choice([*OWN_ROW_BODIES])]
    return OWN_ROWS.format(
        dtype="f32",
        row="global_id",
        columns="?" if upper == "%n" else 70,
        lower=rng.randrange(4),
        upper=upper,
        step=1,
        body=body,
    )


def _repeating_text(seed: int) -> str:
    rng = random.Random(seed)
    kind, body = rng.choice([*REPEATING_LOOPS]), rng.choice([*REPEATING_BODIES])
    return REPEATING.format(loop=REPEATING_LOOPS[kind].format(body=REPEATING_BODIES[body]))


KINDS = {
    "sums": (_sum_text, "batch_loads{always=true}"),
    "shared elements": (lambda seed: aliasing_loop(seed).text, "batch_loads{always=true}"),
    "rows": (_random_row_text, "keep_loads{always=true}"),
    "own rows": (_own_row_text, "batch_loads{always=true}"),
    "repeated loads": (_repeating_text, "keep_loads{always=true}"),
}
"""A random text for each seed, and the passes that rewrite its loops."""
