"""Mistakes about launches that become one."""

from __future__ import annotations

from dataclasses import replace

from mutants.mutant import Mutant

from .mistake import mistake

__all__ = ["MISTAKES"]

PAIRS = "fusion/pair_legality.py"
DEPENDENCE = "analysis/dependence.py"
HALO = "fusion/halo_recompute.py"
REGRID = "fusion/regrid.py"
WORKGROUP_IDS = "fusion/workgroup_ids.py"
ORDER = "fusion/launch_order.py"
JOIN = "launch_fusion"


def program(name: str, buffers: str, body: str, lanes: int = 4, params: str = "") -> str:
    """`buffers`: as `x:r m:w`, of u32, in binding order; r, w or b for both."""
    access = {"r": "read", "w": "write", "b": "read_write live_in live_out"}
    lines = [f"program @{name} workgroup({lanes}) {{"]
    for place, word in enumerate(buffers.split()):
        buffer, kind = word.split(":")
        lines.append(f"  buffer @{buffer} : u32[?] {access[kind]} binding({place})")
    lines += [f"  param {each}" for each in params.split(", ") if each]
    ids = "  %g = global_id x\n  %l = local_id x\n  %w = workgroup_id x"
    return "\n".join([*lines, ids, body.strip("\n"), "}", ""])


def pipeline(buffers: str, *launches: str, params: str = "") -> str:
    lines = [f"  buffer @{each}" for each in buffers.split(", ")]
    lines += [f"  param {each}" for each in params.split(", ") if each]
    lines += [f"  {each}" if each.startswith("host") else f"  launch {each}" for each in launches]
    return "\n".join(["pipeline @main {", *lines, "}", ""])


def text(*parts: str) -> str:
    return "vyre 2\n\n" + "".join(parts)


PUT = program("put", "x:r m:w", "  %v = load @x[%g]\n  store %v, @m[%g]")
GET_ACROSS = program("get", "m:r y:w", "  %i = xor %g, 4\n  %v = load @m[%i]\n  store %v, @y[%g]")
GET_MIRRORED = program("get", "m:r y:w", "  %i = xor %g, 3\n  %v = load @m[%i]\n  store %v, @y[%g]")
READ_ACROSS = program("get", "m:b y:w", "  %i = xor %g, 4\n  %v = load @m[%i]\n  store %v, @y[%g]")
PUT_ACROSS = program("across", "x:r m:w", "  %i = xor %g, 4\n  %v = load @x[%g]\n  store %v, @m[%i]")
BUFFERS = "x : u32[8] read, m : u32[8] live_in live_out, y : u32[8] write"

ACROSS = text(PUT, GET_ACROSS, pipeline(BUFFERS, "@put grid(2) (@x, @m)", "@get grid(2) (@m, @y)"))
MIRRORED = text(PUT, GET_MIRRORED, pipeline(BUFFERS, "@put grid(2) (@x, @m)", "@get grid(2) (@m, @y)"))
OVERWRITTEN = text(GET_ACROSS, PUT, pipeline(BUFFERS, "@get grid(2) (@m, @y)", "@put grid(2) (@x, @m)"))
TWICE = text(PUT, PUT_ACROSS, pipeline(BUFFERS, "@put grid(2) (@x, @m)", "@across grid(2) (@x, @m)"))

LONGER = "x : u32[12] read, m : u32[12] live_in live_out, y : u32[12] write"
DOUBLE = program("double", "m:r y:w", "  %v = load @m[%g]\n  %s = add %v, %v\n  store %s, @y[%g]")
GRIDS = text(PUT, DOUBLE, pipeline(LONGER, "@put grid(2) (@x, @m)", "@double grid(3) (@m, @y)"))
DEEPER = text(
    PUT,
    program("deep", "m:r y:b", "  %o = atomic_add<relaxed> @y[%g], 1 : u32"),
    pipeline("x : u32[8] read, m : u32[8] live_in live_out, y : u32[8] live_in live_out",
             "@put grid(2) (@x, @m)", "@deep grid(2, 2) (@m, @y)"),
)  # fmt: skip

SHIFT_PUT = program("put", "x:r m:w", "  %k = param @k\n  %i = add %g, %k\n  %v = load @x[%g]\n  store %v, @m[%i]", params="@k : u32 = 4")  # fmt: skip
SHIFT_GET = program("get", "m:r y:w", "  %j = param @j\n  %i = add %g, %j\n  %v = load @m[%i]\n  store %v, @y[%g]", params="@j : u32 = 4")  # fmt: skip
WIDE = "x : u32[8] read, m : u32[16] live_in live_out, y : u32[8] write"


def shifted(put: str, get: str, params: str = "") -> str:
    launches = f"@put grid(2) (@x, @m) {put}", f"@get grid(2) (@m, @y) {get}"
    return text(SHIFT_PUT, SHIFT_GET, pipeline(WIDE, *launches, params=params))


SQUARE = program("square", "x:r m:w", "  %v = load @x[%g]\n  %s = mul %v, %v\n  store %s, @m[%g]", 64)
SMOOTH = program("smooth", "m:r y:w", """
  %n = len @m
  %last = sub %n, 1
  %a = sub_sat %g, 1
  %b = add %g, 1
  %c = min %b, %last
  %v = load @m[%a]
  %u = load @m[%c]
  %s = add %v, %u
  store %s, @y[%g]""", 64)  # fmt: skip
NUMBERED = program("square", "x:r m:w", """
  %v = load @x[%g]
  %a = mul %w, 1000
  %b = mul %l, 7
  %c = add %a, %b
  %s = add %v, %c
  store %s, @m[%g]""", 64)  # fmt: skip
TILED = pipeline("x : u32[256] read, m : u32[256], y : u32[256] write", "@square grid(4) (@x, @m)", "@smooth grid(4) (@m, @y)")  # fmt: skip
HALVES = text(SQUARE, SMOOTH, TILED)
NUMBERS = text(NUMBERED, SMOOTH, TILED)

BEFORE = program("before", "m:r y:w", "  %i = sub_sat %g, 1\n  %v = load @m[%i]\n  store %v, @y[%g]", 64)
GUARDED = program("guarded", "y:r z:w", "  %n = len @y\n  %p = lt %g, %n\n  if %p { %v = load @y[%g] store %v, @z[%g] }", 64)  # fmt: skip
FOUR = "x : u32[513] read, m : u32[512], y : u32[512], z : u32[512] write"
CHAIN = "@square grid(8) (@x, @m)", "@before grid(8) (@m, @y)", "@guarded grid(8) (@y, @z)"
HALO_LENGTH = text(SQUARE, BEFORE, GUARDED, pipeline(FOUR, *CHAIN))

GUARDED_PUT = program("put", "x:r m:w", "  %n = len @x\n  %p = lt %g, %n\n  if %p {\n    %v = load @x[%g]\n    store %v, @m[%g]\n  }")  # fmt: skip
GUARDED_GET = program("get", "m:r z:r y:w", "  %n = len @z\n  %p = lt %g, %n\n  if %p {\n    %v = load @m[%g]\n    store %v, @y[%g]\n  }")  # fmt: skip
OPEN = "x : u32[?] read, z : u32[?] read, m : u32[64] live_in live_out, y : u32[64] write"
LENGTHS = text(GUARDED_PUT, GUARDED_GET, pipeline(OPEN, "@put grid(4) (@x, @m)", "@get grid(4) (@m, @z, @y)"))

BLOCKS = program("blocks", "x:r m:w", """
  %i = mul %g, 2
  %j = add %i, 1
  %a = load @x[%i]
  %b = load @x[%j]
  store %a, @m[%i]
  store %b, @m[%j]""")  # fmt: skip
ONES = program("ones", "m:r y:w", "  %v = load @m[%g]\n  %s = add %v, 1\n  store %s, @y[%g]")
TURNS = text(BLOCKS, ONES, pipeline("x : u32[32] read, m : u32[32] live_in live_out, y : u32[32] write",
                                    "@blocks grid(4) (@x, @m)", "@ones grid(8) (@m, @y)"))  # fmt: skip
ODD_TURNS = text(
    program("blocks", "x:r m:w", """
  %n = len @m
  %i = mul %g, 2
  %j = add %i, 1
  %p = lt %i, %n
  if %p { %a = load @x[%i] store %a, @m[%i] }
  %q = lt %j, %n
  if %q { %b = load @x[%j] store %b, @m[%j] }"""),
    program("ones", "m:r y:w", "  %n = len @m\n  %p = lt %g, %n\n  if %p { %v = load @m[%g] store %v, @y[%g] }"),
    pipeline("m : u32[?] live_in live_out, x : u32[len(@m)] read, y : u32[len(@m)] write",
             "@blocks grid(ceil_div(len(@m), 8)) (@x, @m)", "@ones grid(ceil_div(len(@m), 4)) (@m, @y)"),
)  # fmt: skip
WHERE = text(
    BLOCKS,
    program("ones", "m:r y:w", """
  %s = global_size x
  %n = num_workgroups x
  %v = load @m[%g]
  %a = add %v, %w
  %b = add %a, %s
  %c = add %b, %n
  store %c, @y[%g]"""),
    pipeline("x : u32[32] read, m : u32[32] live_in live_out, y : u32[32] write",
             "@blocks grid(4) (@x, @m)", "@ones grid(8) (@m, @y)"),
)  # fmt: skip

HOST = text(PUT, DOUBLE, pipeline("x : u32[8] read, m : u32[8], y : u32[8] write", "@put grid(2) (@x, @m)", "@double grid(2) (@m, @y)", "host_read @m"))  # fmt: skip

APART = "x : u32[8] read, z : u32[8] read, m : u32[8] live_in live_out, y : u32[8] live_in live_out"
PAIRED = program("paired", "z:r o:w", "  %v = load @z[%g]\n  store %v, @o[%g]", lanes=2)


def between(buffers: str) -> str:
    """A launch of other workgroups, between two that could be one."""
    return text(PUT, PAIRED, DOUBLE, pipeline(APART, "@put grid(2) (@x, @m)", f"@paired grid(4) ({buffers})", "@double grid(2) (@m, @y)"))  # fmt: skip


MISTAKES = [
    mistake("launches that write one buffer change places", ORDER, "shared = (first.writes & second.buffers) | (second.writes & first.buffers)", "shared = frozenset[str]()", JOIN, between("@z, @y")),
    mistake("a launch comes before one that writes what it reads", ORDER, " | (second.writes & first.buffers)", "", JOIN, between("@z, @m")),
    mistake("a launch comes before one that reads what it writes", ORDER, "(first.writes & second.buffers) | ", "", JOIN, between("@y, @z").replace("z : u32[8] read", "z : u32[8] write")),
    mistake("reading what another workgroup wrote is no hazard", PAIRS, '("raw", raw_hazard), ', "", JOIN, ACROSS),
    mistake("overwriting what another workgroup reads is no hazard", PAIRS, '("war", war_hazard), ', "", JOIN, OVERWRITTEN),
    mistake("writing what another workgroup wrote is no hazard", PAIRS, ', ("waw", waw_hazard))', ")", JOIN, TWICE),
    mistake("no launch needs a barrier before it", PAIRS, "q):\n                    return True", "q):\n                    return False", JOIN, MIRRORED),
    mistake("all that is read is covered", PAIRS, "return access.op in cache[0]", "return True", JOIN, ACROSS),
    mistake("all grids are equal", PAIRS, "if first == second:\n        return None", "if True:\n        return None", JOIN, GRIDS),
    mistake("grids of one depth more are equal", PAIRS, "if first == second:\n        return None", "if first[0] == second[0]:\n        return None", JOIN, DEEPER),
    mistake("workgroups never meet", DEPENDENCE, "return self.disjoint(p, q) or self._element_determines_ids(p, q, self.groups)", "return True", JOIN, ACROSS),
    mistake("lanes never meet", DEPENDENCE, "        if self.disjoint(p, q):\n            return True", "        if True:\n            return True", JOIN, MIRRORED),
    mistake("a param is its default", "fusion/bound_program.py", "param.default if value is None else encode(value, param.dtype)", "param.default", JOIN, shifted("params(@k = 0)", "")),
    mistake("all literals of a launch are one", "fusion/bound_program.py", "param.default if value is None else encode(value, param.dtype)", "0", JOIN, shifted("params(@k = 0)", "params(@j = 4)")),
    mistake("all params of a pipeline are the first one", "fusion/bound_program.py", 'op.attrs = {"param": value}', 'op.attrs = {"param": "p"}', JOIN, shifted("params(@k = @p)", "params(@j = @q)", "@p : u32, @q : u32")),
    mistake("all lengths that are open are equal", "analysis/equal_lengths.py", "numbers.setdefault((name, axis), len(numbers)) if extent is None", "0 if extent is None", "default", LENGTHS),
    mistake("a halo lacks its last invocation", HALO, '"upper": tile.count,', '"upper": tile.count - 1,', JOIN, HALVES),
    mistake("a halo begins one invocation early", HALO, "outer.const(tile.first)", "outer.const(tile.first - 1)", JOIN, HALVES),
    mistake("a halo is of the ids before its first", HALO, 'inner.op("add", "id", start, counter)', 'inner.op("sub", "id", start, counter)', JOIN, HALVES),
    mistake("a tile of a halo begins one element late", HALO, "emit.const(tile.low, dtype)", "emit.const(tile.low + 1, dtype)", JOIN, HALVES),
    mistake("a tile's base is added to its indices", HALO, 'emit.op("sub", f"{index.name}_tile"', 'emit.op("add", f"{index.name}_tile"', JOIN, HALVES),
    mistake("the workgroup of a halo's invocation is its local id", HALO, 'if name == "workgroup_id":\n            return self._part("div"', 'if name == "workgroup_id":\n            return self._part("rem"', JOIN, NUMBERS),
    mistake("the local id of a halo's invocation is its global id", HALO, 'return self._part("rem", self.global_id, self.lanes)', "return self.global_id", JOIN, NUMBERS),
    mistake("ids of a halo are those of the lane", HALO, "if op.name in _IDS:", 'if op.name in _IDS and op.name != "local_id":', JOIN, NUMBERS),
    mistake("a halo has twice the invocations", HALO, "ids = outer.const(tile.invocations)", "ids = outer.const(2 * tile.invocations)", JOIN, HALVES),
    mistake("the last workgroup in turn is left out", REGRID, '"upper": plan.factor,', '"upper": plan.factor - 1,', JOIN, TURNS),
    mistake("a number of workgroups is rounded down", HALO, 'self.op("add", "more", x, less), y)', "x, y)", JOIN, ODD_TURNS),
    mistake("a workgroup in turn has the number of the group", REGRID, "replace_ids(body, ids)", 'replace_ids(body, ids | {("workgroup_id", "x"): workgroup})', JOIN, WHERE),
    mistake("a workgroup in turn is the last one", WORKGROUP_IDS, '("num_workgroups", axis): workgroups,', '("num_workgroups", axis): workgroup,', JOIN, WHERE),
    mistake("a workgroup in turn has the size of the grid of all", WORKGROUP_IDS, '("global_size", axis): emit.op("mul", "size", workgroups, emit.const(lanes)),', '("global_size", axis): emit.op("mul", "size", workgroups, workgroups),', JOIN, WHERE),
    replace(
        mistake("the lengths of launches are those of their tiles", "fusion/bound_program.py", "            if length is not None:", "            if False:", JOIN, HALO_LENGTH),
        also=(Mutant("a length is that of any buffer", "vyre_opt/passes/launch_fusion.py", "{**permanent, **names}", "names", ""),),
    ),
]  # fmt: skip
