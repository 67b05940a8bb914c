"""Which programs the checker takes for the same, and which it does not."""

from __future__ import annotations

import pytest

from vyre_opt import parse
from vyre_opt.certificates.writer import findings, generic_text

PROGRAM = """
vyre 2

program @p workgroup(64) {{
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] read_write binding(1) live_in live_out
  buffer @f : f32[?] read_write binding(2) live_in live_out
  buffer @t : u32[64] workgroup
  param @n : u32
  %g = global_id x
  %l = local_id x
  %n = param @n : u32
  %m = sub 63, %l : u32
  %c = lt %g, %n : u32
  {body}
}}
"""

SAME = {
    "loads are merged": (
        "%a = load @x[%g]\n  %b = load @x[%g]\n  %s = add %a, %b\n  store %s, @y[%g]",
        "%a = load @x[%g]\n  %s = shl %a, 1 : u32\n  store %s, @y[%g]",
    ),
    "a loaded value is forwarded": (
        "store %n, @y[%g]\n  %a = load @y[%g]\n  store %a, @y[%l]",
        "store %n, @y[%g]\n  store %n, @y[%l]",
    ),
    "past a store of a neighbour": (
        "%k = add %g, 1 : u32\n  %a = load @y[%k]\n  store %n, @y[%g]\n  %b = load @y[%k]\n  %s = add %a, %b\n  store %s, @y[%l]",
        "%k = add %g, 1 : u32\n  %a = load @y[%k]\n  store %n, @y[%g]\n  %s = shl %a, 1 : u32\n  store %s, @y[%l]",
    ),
    "an overwritten store goes": ("store 1, @y[%g]\n  store 2, @y[%g]", "store 2, @y[%g]"),
    "a store of what is there goes": (
        "%a = load @y[%g]\n  store %a, @y[%g]\n  store 1, @f[0]",
        "store 1, @f[0]",
    ),
    "a store that nobody reads goes": ("store 1, @t[%l]\n  store 2, @y[%g]", "store 2, @y[%g]"),
    "stores become one of a vector": (
        "%i = mul %g, 2 : u32\n  %j = add %i, 1 : u32\n  store %l, @y[%i]\n  store %n, @y[%j]",
        "%i = mul %g, 2 : u32\n  %v = vector %l, %n : vec<2 x u32>\n  store %v, @y[%i] : vec<2 x u32>",
    ),
    "loads become one of a vector": (
        "%i = mul %g, 2 : u32\n  %j = add %i, 1 : u32\n  %a = load @x[%i]\n  %b = load @x[%j]\n  %s = sub %a, %b\n  store %s, @y[%g]",
        "%i = mul %g, 2 : u32\n  %v = load @x[%i] : vec<2 x u32>\n  %a = extract %v[0] : vec<2 x u32>\n"
        "  %b = extract %v[1] : vec<2 x u32>\n  %s = sub %a, %b\n  store %s, @y[%g]",
    ),
    "a loop of one iteration": (
        "%s = for %k = 3 to 4 step 1 iter(%a = %n : u32) {\n    %b = add %a, %k\n    yield %b\n  }\n  store %s, @y[%g]",
        "%s = add %n, 3 : u32\n  store %s, @y[%g]",
    ),
    "a loop that never runs": (
        "for %k = 3 to 3 step 1 {\n    store %k, @y[%g]\n  }\n  store 1, @y[%g]",
        "store 1, @y[%g]",
    ),
    "what is invariant stands before the loop": (
        "for %k = 0 to %n step 1 : u32 {\n    %d = mul %g, 3 : u32\n    %i = add %d, %k\n    store %k, @y[%i]\n  }",
        "%d = mul %g, 3 : u32\n  for %k = 0 to %n step 1 : u32 {\n    %i = add %d, %k\n    store %k, @y[%i]\n  }",
    ),
    "the arms change places": (
        "if %c {\n    store 1, @y[%g]\n  } else {\n    store 2, @y[%g]\n  }",
        "%o = ge %g, %n : u32\n  if %o {\n    store 2, @y[%g]\n  } else {\n    store 1, @y[%g]\n  }",
    ),
    "branches of one condition are merged": (
        "if %c {\n    store 1, @y[%g]\n  }\n  %a = load @x[%g]\n  if %c {\n    store %a, @y[%l]\n  } else {\n    store 2, @y[%g]\n  }",
        "%a = load @x[%g]\n  if %c {\n    store 1, @y[%g]\n    store %a, @y[%l]\n  } else {\n    store 2, @y[%g]\n  }",
    ),
    "a branch whose way is known": (
        "%o = lt %l, 64 : u32\n  if %o {\n    store 1, @y[%g]\n  }",
        "store 1, @y[%g]",
    ),
    "factors of floats change places": (
        "%a = load @f[0]\n  %s = mul 2.0, %a : f32\n  store %s, @f[%g]",
        "%a = load @f[0]\n  %s = mul %a, 2.0 : f32\n  store %s, @f[%g]",
    ),
    "a division is a shift": (
        "%q = div %g, 16 : u32\n  %r = rem %g, 16 : u32\n  store %q, @y[%r]",
        "%q = shr %g, 4 : u32\n  %r = and %l, 15 : u32\n  store %q, @y[%r]",
    ),
    "a barrier between accesses of one lane": (
        "store %n, @t[%l]\n  barrier workgroup\n  %a = load @t[%l]\n  store %a, @y[%g]",
        "store %n, @t[%l]\n  %a = load @t[%l]\n  store %a, @y[%g]",
    ),
}

OTHER = {
    "a load that nobody uses is of another element": (
        "%a = load @y[%g]\n  store 1, @y[%g]",
        "%a = load @y[0]\n  store 1, @y[%g]",
    ),
    "a store that nobody reads is of another element": (
        "store 1, @t[%l]\n  store 2, @y[%g]",
        "store 1, @t[0]\n  store 2, @y[%g]",
    ),
    "another constant": ("store 1, @y[%g]", "store 2, @y[%g]"),
    "another place": ("store 1, @y[%g]", "store 1, @y[%l]"),
    "stores that may meet change places": (
        "store 1, @y[%g]\n  store 2, @y[%n]",
        "store 2, @y[%n]\n  store 1, @y[%g]",
    ),
    "a load moves past a store that may be of it": (
        "store 1, @y[%n]\n  %a = load @y[%g]\n  store %a, @y[%l]",
        "%a = load @y[%g]\n  store 1, @y[%n]\n  store %a, @y[%l]",
    ),
    "a load moves past a barrier": (
        "store %l, @t[%l]\n  barrier workgroup\n  %a = load @t[%m]\n  store %a, @y[%g]",
        "store %l, @t[%l]\n  %a = load @t[%m]\n  barrier workgroup\n  store %a, @y[%g]",
    ),
    "a barrier between lanes goes": (
        "store %l, @t[%l]\n  barrier workgroup\n  %a = load @t[%m]\n  store %a, @y[%g]",
        "store %l, @t[%l]\n  %a = load @t[%m]\n  store %a, @y[%g]",
    ),
    "a barrier goes that orders the iterations of a loop": (
        "store %l, @t[%l]\n  for %k = 0 to 4 step 1 {\n    barrier workgroup\n    %i = add %l, %k\n    %j = and %i, 63 : u32\n"
        "    %a = load @t[%j]\n    store %a, @y[%g]\n    barrier workgroup\n    store %k, @t[%l]\n  }",
        "store %l, @t[%l]\n  for %k = 0 to 4 step 1 {\n    barrier workgroup\n    %i = add %l, %k\n    %j = and %i, 63 : u32\n"
        "    %a = load @t[%j]\n    store %a, @y[%g]\n    store %k, @t[%l]\n  }",
    ),
    "a store goes that another lane reads": (
        "store 1, @t[%l]\n  barrier workgroup\n  %a = load @t[%m]\n  store %a, @y[%g]\n  barrier workgroup\n  store 2, @t[%l]",
        "%a = load @t[%m]\n  store %a, @y[%g]\n  barrier workgroup\n  store 2, @t[%l]",
    ),
    "a store goes that is read before it is overwritten": (
        "store 1, @y[%g]\n  %a = load @y[%n]\n  store 2, @y[%g]\n  store %a, @y[%l]",
        "%a = load @y[%n]\n  store 2, @y[%g]\n  store %a, @y[%l]",
    ),
    "the lanes of a vector change places": (
        "%i = mul %g, 2 : u32\n  %j = add %i, 1 : u32\n  store %l, @y[%i]\n  store %n, @y[%j]",
        "%i = mul %g, 2 : u32\n  %v = vector %n, %l : vec<2 x u32>\n  store %v, @y[%i] : vec<2 x u32>",
    ),
    "a vector moves past a store between": (
        "%i = mul %g, 2 : u32\n  %j = add %i, 1 : u32\n  store %l, @y[%i]\n  store 7, @y[%n]\n  store %n, @y[%j]",
        "%i = mul %g, 2 : u32\n  %v = vector %l, %n : vec<2 x u32>\n  store 7, @y[%n]\n  store %v, @y[%i] : vec<2 x u32>",
    ),
    "a vector stores more": (
        "%i = mul %g, 2 : u32\n  %b = load @y[%i]\n  store %l, @y[%i]",
        "%i = mul %g, 2 : u32\n  %j = add %i, 1 : u32\n  %b = load @y[%j]\n  %v = vector %l, %b : vec<2 x u32>\n"
        "  store %v, @y[%i] : vec<2 x u32>",
    ),
    "a load leaves its branch": (
        "if %c {\n    %a = load @x[%g]\n    store %a, @y[%g]\n  }",
        "%a = load @x[%g]\n  if %c {\n    store %a, @y[%g]\n  }",
    ),
    "floats are added in another order": (
        "%a = load @f[0]\n  %b = load @f[1]\n  %c1 = load @f[2]\n  %s = add %a, %b\n  %r = add %s, %c1\n  store %r, @f[%g]",
        "%a = load @f[0]\n  %b = load @f[1]\n  %c1 = load @f[2]\n  %s = add %b, %c1\n  %r = add %a, %s\n  store %r, @f[%g]",
    ),
    "a signed division is a shift": (
        "%a = load @x[%g]\n  %i = bitcast %a : u32 -> i32\n  %q = div %i, 2 : i32\n  %r = bitcast %q : i32 -> u32\n  store %r, @y[%g]",
        "%a = load @x[%g]\n  %i = bitcast %a : u32 -> i32\n  %q = shr %i, 1 : i32\n  %r = bitcast %q : i32 -> u32\n  store %r, @y[%g]",
    ),
    "a sum that may wrap is widened": (
        "%a = load @x[%g]\n  %s = add %a, 1 : u32\n  %w = cast %s : u32 -> u64\n  %h = shr %w, 32 : u64\n  %r = cast %h : u64 -> u32\n"
        "  store %r, @y[%g]",
        "%a = load @x[%g]\n  %v = cast %a : u32 -> u64\n  %w = add %v, 1 : u64\n  %h = shr %w, 32 : u64\n  %r = cast %h : u64 -> u32\n"
        "  store %r, @y[%g]",
    ),
    "a loop has another bound": (
        "for %k = 0 to %n step 1 : u32 {\n    store %k, @y[%k]\n  }",
        "for %k = 1 to %n step 1 : u32 {\n    store %k, @y[%k]\n  }",
    ),
    "a loop carries another value": (
        "%s = for %k = 0 to %n step 1 iter(%a = 0 : u32) : u32 {\n    %b = add %a, %k\n    yield %b\n  }\n  store %s, @y[%g]",
        "%s = for %k = 0 to %n step 1 iter(%a = 0 : u32) : u32 {\n    %b = add %a, 1 : u32\n    yield %b\n  }\n  store %s, @y[%g]",
    ),
    "the arms change places and the condition does not": (
        "if %c {\n    store 1, @y[%g]\n  } else {\n    store 2, @y[%g]\n  }",
        "if %c {\n    store 2, @y[%g]\n  } else {\n    store 1, @y[%g]\n  }",
    ),
    "branches are merged past a load of what one stores": (
        "if %c {\n    store 1, @y[%g]\n  }\n  %a = load @y[%g]\n  if %c {\n    store %a, @y[%l]\n  }",
        "%a = load @y[%g]\n  if %c {\n    store 1, @y[%g]\n    store %a, @y[%l]\n  }",
    ),
    "branches are merged past a store": (
        "if %c {\n    store 1, @y[%g]\n  }\n  store 2, @y[%n]\n  if %c {\n    store 3, @y[%l]\n  }",
        "store 2, @y[%n]\n  if %c {\n    store 1, @y[%g]\n    store 3, @y[%l]\n  }",
    ),
    "branches of two conditions are merged": (
        "%d = le %g, %n : u32\n  if %c {\n    store 1, @y[%g]\n  }\n  if %d {\n    store 2, @y[%l]\n  }",
        "%d = le %g, %n : u32\n  if %d {\n    store 1, @y[%g]\n    store 2, @y[%l]\n  }",
    ),
    "another store stands in a branch": (
        "store 1, @y[%g]",
        "if %c {\n    store 1, @y[%g]\n  }",
    ),
    "what an atomic gives is read again": (
        "%a = atomic_add @y[0], 1\n  %b = atomic_add @y[0], 1\n  %s = add %a, %b\n  store %s, @y[%g]",
        "%a = atomic_add @y[0], 1\n  %s = add %a, %a\n  store %s, @y[%g]",
    ),
}


def is_same(before: str, after: str) -> bool:
    texts = (generic_text(parse(PROGRAM.format(body=body))) for body in (before, after))
    found = findings(next(texts), next(texts), "a_pass", [{"claim": "same", "program": "p"}])
    return all(finding.status == "proven" for finding in found)


@pytest.mark.parametrize("name", SAME)
def test_the_same(name: str) -> None:
    assert is_same(*SAME[name])


@pytest.mark.parametrize("name", OTHER)
def test_others(name: str) -> None:
    assert not is_same(*OTHER[name])
