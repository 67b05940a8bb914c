"""Mistakes about what passes do within a program."""

from __future__ import annotations

from .mistake import known, mistake

__all__ = ["MISTAKES"]

FORWARD = "passes/store_forward.py"
FLOW = "passes/simplify_cf.py"
DEAD = "passes/dce.py"
BARRIER = "passes/barrier_elim.py"
PLACES = "fusion/workgroup_tile.py"
BOUNDS = "analysis/bounds.py"


def program(body: str, buffers: str = "", lanes: int = 64, grid: int = 4) -> str:
    return f"""vyre 2
program @p workgroup({lanes}) grid({grid}) {{
  buffer @x : u32[256] read binding(0)
  buffer @y : u32[256] read_write binding(1) live_in live_out
  {buffers}
  %g = global_id x
  %l = local_id x
  %w = workgroup_id x
  %base = sub %g, %l
  %a = load @x[%g]
  %odd = and %a, 1
  %is = eq %odd, 1
  {body}
}}
"""


TILE = "buffer @t : u32[64] workgroup"
HANDED = "buffer @h : u32[256] read_write"

BRANCH_STORE = program(
    "store %a, @y[%g]\n  if %is { store %l, @y[%g] }\n  %v = load @y[%g]\n  %s = add %v, 1\n  store %s, @y[%g]"
)
OTHER_STORE = program(
    "%i = sub %g, %odd\n  %j = max %i, %base\n  store %a, @t[%l]\n  %k = sub %j, %base\n  store 7, @t[%k] : u32\n  %v = load @t[%l]\n  store %v, @y[%g]",
    TILE,
    1,
    4,
)
SAME_PLACE = program("store %a, @y[%g]\n  %s = add %a, 1\n  store %s, @y[%g]")
READ_BETWEEN = program(
    "store %a, @y[%g]\n  %n = if %is -> (u32) { %v = load @y[%g] yield %v } else { yield 5 }\n  store %n, @y[%g]"
)
LOOP = program(
    "store %a, @y[%g]\n  for %k = 0 to 3 step 1 {\n    %v = load @y[%g]\n    %s = add %v, %k\n    store %s, @y[%g]\n  }"
)
MIRROR = program(
    "store %a, @t[%l]\n  barrier workgroup\n  %m = xor %l, 63\n  %u = load @t[%m]\n  store %u, @y[%g]", TILE
)
REUSED = program(
    "store %a, @t[%l]\n  barrier workgroup\n  %m = xor %l, 63\n  %u = load @t[%m]\n  barrier workgroup\n  store %u, @t[%l]\n  barrier workgroup\n  %v = load @t[%m]\n  store %v, @y[%g]",
    TILE,
)

TWO_IFS = program("if %is { store 1, @y[%g] : u32 }\n  %c = gt %a, 9\n  if %c { store 2, @y[%g] : u32 }")
THREE_STEPS = program(
    "if %is { store 1, @y[%g] : u32 }\n  %v = load @y[%g]\n  %s = add %v, 4\n  store %s, @y[%g]\n  if %is { %u = load @y[%g] %q = mul %u, 2 store %q, @y[%g] }"
)
IN_ORDER = program("if %is { store 1, @y[%g] : u32 }\n  if %is { store 2, @y[%g] : u32 }")
FALSE = program("if false { store 1, @y[%g] : u32 } else { store 2, @y[%g] : u32 }")
TWO_ROUNDS = program("for %k = 0 to 2 step 1 { %v = load @y[%g] %s = add %v, %a store %s, @y[%g] }")
CARRIED = program(
    "%n = for %k = 0 to 3 step 1 iter(%s = %a : u32) { %t = add %s, %k yield %t }\n  store %n, @y[%g]"
)
ELSE_ONLY = program("if %is { } else { store 5, @y[%g] : u32 }")
CHOSEN = program(
    "%n = if %is -> (u32) { %b = add %a, 1 yield %b } else { %b = mul %a, 3 yield %b }\n  store %n, @y[%g]"
)
EQUAL_YIELDS = program(
    "%b = mul %a, 3\n  %n = if %is -> (u32) { store 1, @y[%g] : u32 yield %a } else { yield %b }\n  %v = load @y[%g]\n  %s = add %v, %n\n  store %s, @y[%g]"
)
EMPTY = program("for %k = 3 to 4 step 1 { store %k, @y[%g] }")

WRITE = """vyre 2
program @p workgroup(64) grid(4) {
  buffer @x : u32[256] read binding(0)
  buffer @y : u32[256] write binding(1) live_out
  %g = global_id x
  %v = load @x[%g]
  %s = add %v, 1
  store %s, @y[%g]
}
"""
UNREAD = program("store %a, @h[%g]\n  %v = load @h[%g]\n  store %v, @y[%g]", HANDED)
COUNTED = program("%o = atomic_add<relaxed> @y[%l], %a")

TILES = program(
    "store %a, @h[%g]\n  barrier workgroup\n  %m = xor %g, 3\n  %v = load @h[%m]\n  store %v, @y[%g]", HANDED
)
LENGTH = program(
    "store %a, @h[%g]\n  barrier workgroup\n  %m = xor %g, 3\n  %v = load @h[%m]\n  %n = len @h\n  %s = add %v, %n\n  store %s, @y[%g]",
    HANDED,
)
LARGE = program(
    "%b = min %a, 256\n  store %b, @h[%g]\n  barrier workgroup\n  %m = xor %g, 3\n  %v = load @h[%m]\n  store %v, @y[%g]",
    HANDED,
)
DIGITS = program(
    "%d = div %l, 8\n  %e = rem %l, 8\n  %f = mul %e, 8\n  %i = add %f, %d\n  %j = add %base, %i\n  store %a, @h[%j]\n  barrier workgroup\n  %m = xor %g, 3\n  %v = load @h[%m]\n  store %v, @y[%g]",
    HANDED,
)
ROWS = """vyre 2
program @p workgroup(8, 4) grid(4) {
  buffer @x : u32[128] read binding(0)
  buffer @y : u32[128] read_write binding(1) live_in live_out
  buffer @h : u32[128] read_write
  %w = workgroup_id x
  %c = local_id x
  %r = local_id y
  %b = mul %w, 32
  %o = mul %r, 8
  %s = add %b, %o
  %i = add %s, %c
  %v = load @x[%i]
  store %v, @h[%i]
  barrier workgroup
  %m = xor %c, 7
  %j = add %s, %m
  %u = load @h[%j]
  store %u, @y[%i]
}
"""


def bounded(body: str) -> str:
    return f"""vyre 2
program @p workgroup(64) {{
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1) live_out
  %g = global_id x
  %n = len @x
  {body}
  store %v, @y[%g]
}}
"""


OTHERWISE = bounded("%c = lt %g, %n\n  %v = if %c -> (u32) { yield 0 } else { %v = load @x[%g] yield %v }")
UP_TO = bounded("%c = le %g, %n\n  %v = if %c -> (u32) { %v = load @x[%g] yield %v } else { yield 0 }")
NEGATIVE = program("%i = cast %l : u32 -> i32\n  %j = sub %i, 5\n  %v = load @x[%j]\n  store %v, @y[%g]")
COUNTER = program(
    "%v = for %k = 0 to 257 step 1 iter(%s = 0 : u32) { %u = load @x[%k] %t = add %s, %u yield %t }\n  store %v, @y[%g]"
)

MISTAKES = [
    mistake("what is known before a branch is known behind it", FORWARD, "        self.clobber(self.by_op[op])\n", "", "store_forward", BRANCH_STORE),
    mistake("any store of a place that is known changes nothing", FORWARD, "if available is not None and available.value is value:", "if available is not None:", "store_forward", SAME_PLACE),
    mistake("a store of another place changes nothing that is known", FORWARD, "            self.by_base = {}\n            return\n", "            return\n", "store_forward", OTHER_STORE),
    mistake("what is known before a loop is known in it", FORWARD, "self.available, self.unread_stores = {}, {}\n        out", "self.unread_stores = {}\n        out", "store_forward", LOOP),
    mistake("what is stored before a branch is not read in it", FORWARD, "        for name in effects.reads:\n            self.unread_stores.pop(name, None)\n", "", "store_forward", READ_BETWEEN),
    mistake("no barrier orders anything", BARRIER, "not before.conflicts(after):", "True:", "barrier_elim", MIRROR),
    mistake("a barrier is between stores only", BARRIER, "return any(name in accesses and (writes or accesses[name]) for", "return any(name in accesses and (writes and accesses[name]) for", "barrier_elim", REUSED),
    mistake("each workgroup is one lane", BARRIER, "has_one_lane = program.lanes == 1", "has_one_lane = program.lanes <= 64", "barrier_elim", MIRROR),
    mistake("ifs of all conditions are one", FLOW, "earlier = open_ifs.pop(op.operands[0], None)", "earlier = open_ifs.popitem()[1] if open_ifs else None", "simplify_cf", TWO_IFS),
    mistake("an if moves past all that is between", FLOW, "if (reason := self.conflict(effects_of_earlier, effects)) is not None:", "if (reason := None) is not None:", "simplify_cf", THREE_STEPS),
    mistake("the parts of an if are in the order of their ends", FLOW, "later.regions[index].ops = block.ops\n", "later.regions[index].ops += block.ops[: -len(later.regions[index].ops)]\n", "simplify_cf", IN_ORDER),
    mistake("the first side of an if always runs", FLOW, "side = op.regions[0] if condition else", "side = op.regions[0] if True else", "simplify_cf", FALSE),
    mistake("a loop of two rounds runs once", FLOW, "upper - lower > step:", "upper - lower > 2 * step:", "simplify_cf", TWO_ROUNDS),
    mistake("a loop that runs once never runs", FLOW, "lower >= upper):", "lower + 1 >= upper):", "simplify_cf", EMPTY),
    mistake("what a loop carries never changes", FLOW, "is_fixed = yielded is body.args[skipped + i] or", "is_fixed = True or", "simplify_cf", CARRIED),
    mistake("the other side runs under the condition of the first", FLOW, "op.operands, op.regions = negation.results, op.regions[1:]", "op.regions = op.regions[1:]", "simplify_cf", ELSE_ONLY),
    mistake("the values of two sides are swapped", FLOW, "(op.operands[0], a, b), (result,)", "(op.operands[0], b, a), (result,)", "simplify_cf", CHOSEN),
    mistake("the sides of an if yield one value", FLOW, "if then is otherwise:", "if True:", "simplify_cf", EQUAL_YIELDS),
    mistake("what a program gives back, nobody reads", DEAD, "buffer.access is AccessMode.WRITE and buffer.binding is None and not buffer.live_out", "buffer.access is AccessMode.WRITE", "dce", WRITE),
    mistake("a load of a hidden buffer needs no store", DEAD, '            self.pending += self.unread.pop(op.attrs["buffer"], ())', "            pass", "dce", UNREAD),
    mistake("an atomic whose value nobody uses is dead", DEAD, 'not effects <= UNOBSERVED or', 'not effects - {"write", "atomic"} <= UNOBSERVED or', "dce", COUNTED),
    mistake("a place in a tile is one element late", PLACES, "- AffineExpr(local.extent.low)", "- AffineExpr(local.extent.low - 1)", "decode_scan_fuse", TILES),
    mistake("a place in a tile has rows for columns", PLACES, "(self.local_id(axis, emit), c) for", '(self.local_id({"x": "y", "y": "x"}.get(axis, axis), emit), c) for', "decode_scan_fuse", ROWS),
    mistake("a place in a tile is that of its first digit", PLACES, "terms.append((digit(symbol.digit, emit), coefficient))", "terms.append((digit(symbol.digit, emit), 1))", "decode_scan_fuse", DIGITS),
    known("`len` of a tile is that of the tile", "decode_scan_fuse", LENGTH),
    known("a tile lacks its last element", "decode_scan_fuse", TILES),
    known("an element is narrowed to a type that lacks its largest value", "decode_scan_fuse", LARGE),
    mistake("the side that a condition leads to is either", BOUNDS, "number == 0)", "True)", "lowering", OTHERWISE),
    mistake("an index may be the length", BOUNDS, "count - AffineExpr(width) - expr", "count - expr", "lowering", UP_TO),
    mistake("an index is never negative", BOUNDS, "low = self._sum_for(expr, facts)", "low = ()", "lowering", NEGATIVE),
    mistake("a counter is below its bound by two", BOUNDS, "upper - expr - AffineExpr(1)", "upper - expr - AffineExpr(2)", "lowering", COUNTER),
    mistake("what is not so is so", BOUNDS, "relation = op.name if holds else _NEGATION[op.name]", "relation = op.name", "lowering", OTHERWISE),
]  # fmt: skip
