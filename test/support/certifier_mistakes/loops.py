"""Mistakes about loops that load for several iterations at once, or once what they would load again."""

from __future__ import annotations

from .mistake import mistake

__all__ = ["MISTAKES"]

BATCHED = "scheduling/batched_loads.py"
KEPT = "scheduling/kept_loads.py"
INVARIANT = "scheduling/invariant_loads.py"
BATCH = "batch_loads{always=true}"
KEEP = "keep_loads{always=true}"


def program(body: str, x: str = "u32[?] read", lanes: int = 4, before: str = "") -> str:
    return f"""vyre 2
program @p workgroup({lanes}) grid(1) {{
  buffer @x : {x} binding(0)
  buffer @y : u32[64] read_write binding(1) live_in live_out
  buffer @z : u32[16] read_write binding(2) live_in live_out
  %l = local_id x
  %n = len @x
{before}
  {body}
  store %sum, @z[%l]
}}
"""


def loop(body: str, bounds: str = "%l to %n step 4", counter: str = "u32") -> str:
    return f"""%sum = for %c = {bounds} iter(%acc = 1 : u32) : {counter} {{
    %m = mul %acc, 3
{body}
    %next = add %m, %v
    yield %next
  }}"""


LOAD = "    %v = load @x[%c]"
SUM = program(loop(LOAD, "0 to %n step 2"), "u32[45] read", 1)
WRAPS = program(
    loop("    %b = load @x[%c]\n    %v = cast %b : u8 -> u32", "%one to %end step 9", "u8"),
    "u8[256] read", 1, "  %one = const 241 : u8\n  %end = const 255 : u8",
)  # fmt: skip
STORED = program(loop("    store %acc, @y[%c]\n    %v = load @y[%c]", "0 to 12 step 1"), lanes=1)
COPIED = program(loop(f"{LOAD}\n    store %v, @y[%c]", "0 to %n step 2"), "u32[45] read", 1)
SHIFTED = program(
    loop("    %v = load @y[%c]\n    %d = add %c, 1\n    store %m, @y[%d]", "0 to 12 step 1"), lanes=1
)
PAIRS = program(
    loop(
        "    %v = load @y[%c]\n    %two = splat %m : vec<2 x u32>\n    store %two, @y[%c]", "0 to 12 step 1"
    ),
    lanes=1,
)
TURNS = program(
    loop(
        "    %at = add %c, %l\n    %v = load @y[%at]\n    %t = add %v, %m\n    store %t, @y[%at]\n    barrier workgroup",
        "0 to 6 step 1",
    )
)
SIGNED = program(
    loop(
        "    %u = bitcast %c : i8 -> u8\n    %p = load @x[%u]\n    %w = add %u, 1\n    %q = load @x[%w]\n"
        "    %s = sub %p, %q\n    %v = cast %s : u64 -> u32",
        "%low to %high step 40",
        "i8",
    ),
    "u64[256] read", 1, "  %low = const -128 : i8\n  %high = const 127 : i8",
)  # fmt: skip

SQUARES = """
  %kept = for %c = {bounds} iter(%most = %sum : u32) {{
    %w = load @x[%c]
    %s = mul %w, %most
    %o = add %s, 5
    yield %o
  }}
  %place = add %l, 8
  store %kept, @z[%place]"""


def row(first: str = "%l to %n step 4", second: str = "", x: str = "u32[14] read", between: str = "") -> str:
    """Two loops over one row.  Lanes have 4 iterations of 4 elements each, 3, or 2."""
    return program(loop(LOAD, first) + between + SQUARES.format(bounds=second or first), x, 8)


ROW = row()
SHORT_ROW = row(x="u32[6] read")
TWO_ROWS = row(second="%l to 10 step 4")
OVERWRITTEN_ROW = row(
    "%l to %n step 8", x="u32[14] read_write live_in live_out", between="\n  store %sum, @x[%l]"
)
WHOLE_ROW = row("0 to 12 step 4")

OWN_ROW = """vyre 2
program @p workgroup(32) grid(1) {
  buffer @x : u32[32, 45] read binding(0)
  buffer @z : u32[32] read_write binding(1) live_in live_out
  %l = local_id x
  %n = len @x, 1
  %one = const 1 : u32
  %sum = for %c = 0 to %n step 1 iter(%acc = %one : u32) {
    %m = mul %acc, 3
    %v = load @x[%l, %c]
    %next = add %m, %v
    yield %next
  }
  store %sum, @z[%l]
}
"""

COUNTED = program(
    loop("    %at = sub %count, 1\n    %v = load @x[%at]", "0 to %count step 1"),
    before="  %count = load @z[%l]",
)
REWRITTEN = program(
    loop("    %v = load @z[%l]\n    store %m, @z[%l]", "0 to %n step 1"),
)

ABSENT = """            block = Block()
            values = from_iteration(k + 1, ends, block.ops)
            out.append(conditional(fits[k], block, values, Block(), ends, loop))
            return out[-1].results"""
CARRIED = """            carried = [mapping.get(value, value) for value in yielded]
        return carried"""
OWN = "name = next((name for name in sorted(names) if name in written_before), None)"
OTHERS = "name = next((name for name in sorted(names) if name in self.summary[1][loop].writes), None)"
IN_TURN = """        for mapping in maps:
            mapping.update("""
ALL_LOADED = """            condition = last if k == self.count - 1 else None
            values = list("""
ALL_COMPUTED = """            condition = last if k == self.count - 1 else None
            return _branch("""

MISTAKES = [
    mistake("a batch is one step too long", BATCHED, "upper, step * by)", "upper, step * (by + 1))", BATCH, SUM),
    mistake("a batch begins at each iteration", BATCHED, "upper, step * by)", "upper, step)", BATCH, SUM),
    mistake("iterations of a batch are at neighbours", BATCHED, "emit.const(k * step, counter.type) for", "emit.const(k, counter.type) for", BATCH, SUM),
    mistake("the last but one of a batch is asked for", BATCHED, "last = fits(self.by - 1, emit)", "last = fits(self.by - 2, emit)", BATCH, SUM),
    mistake("a counter that wraps is below its bound", BATCHED, 'emit.op("and", "fits", room, below)', 'emit.op("and", "fits", below, below)', BATCH, WRAPS),
    mistake("a batch is whole where it is not", BATCHED, "regions=(full, partial)", "regions=(partial, full)", BATCH, SUM),
    mistake("iterations that are missing count the first once more", BATCHED, "[emit.select(fit, *pair) for pair in zip(ends, carried, strict=True)]", "ends", BATCH, SUM),
    mistake("a missing iteration is loaded", BATCHED, "emit.select(fits[k - 1], value, counters[0])", "value", BATCH, SUM),
    mistake("an iteration is loaded where it is missing only", BATCHED, "emit.select(fits[k - 1], value, counters[0])", "emit.select(fits[k - 1], counters[0], value)", BATCH, SUM),
    mistake("each missing iteration is the last one", BATCHED, "enumerate(fits, 1)", "enumerate(fits, 0)", BATCH, SUM),
    mistake("iterations that are missing store what the first one does", BATCHED, ABSENT, "            return from_iteration(k + 1, ends, out)", BATCH, COPIED),
    mistake("each iteration of a batch begins with what the first one does", BATCHED, CARRIED, "            first = [mapping.get(value, value) for value in yielded]\n        return first", BATCH, SUM),
    mistake("a batch runs from its last iteration to its first", BATCHED, IN_TURN, IN_TURN.replace("in maps", "in maps[::-1]"), BATCH, SUM),
    mistake("all but the last iteration of a batch are lost", BATCHED, CARRIED, CARRIED.replace("yielded]\n        return carried", "yielded]\n        return [maps[0].get(value, value) for value in yielded]"), BATCH, SUM),
    mistake("a load passes the store of its own element", BATCHED, OWN, OWN.replace("in written_before", "in ()"), BATCH, STORED),
    mistake("a load passes the store of a neighbour", BATCHED, "if self.linear.of(index) != (terms, const) or", "if self.linear.of(index)[0] != terms or", BATCH, SHIFTED),
    mistake("a load passes any store of an earlier iteration", BATCHED, OTHERS, OTHERS.replace("in self.summary[1][loop].writes", "in ()"), BATCH, SHIFTED),
    mistake("a vector is stored to one element", BATCHED, "op.result).type is not load.result.type:", "op.result).type is None:", BATCH, PAIRS),
    mistake("a load passes the barrier behind which others have written", BATCHED, "if meets and any(", "if not meets and any(", BATCH, TURNS),
    mistake("the distance of signed bounds fits in their type", BATCHED, "if counter.is_signed and not", "if counter.is_float and not", BATCH, SIGNED),
    mistake("a vector of a row begins one element further", BATCHED, "{load.indices[-1]: maps[0][load.indices[-1]]}", "{load.indices[-1]: maps[1][load.indices[-1]]}", BATCH, OWN_ROW),
    mistake("the elements of a row are in reverse", BATCHED, "for lane, mapping in enumerate(maps):", "for lane, mapping in enumerate(maps[::-1]):", BATCH, OWN_ROW),
    mistake("what is left over of rows begins with what the loop does", BATCHED, 'OPS["for"], tuple(carried), results', 'OPS["for"], self.loop.operands[-1:], results', BATCH, OWN_ROW),
    mistake("what is left over of rows has each second element", BATCHED, "with_bounds(loop, first, end, bounds(self.loop)[2])", "with_bounds(loop, first, end, 2)", BATCH, OWN_ROW),
    mistake("a row is written out if it begins", KEPT, "if self.count < 3:", "if self.count:", KEEP, ROW),
    mistake("two iterations of a row may be missing", KEPT, "(self.count - 2) * step", "(self.count - 3) * step", KEEP, ROW),
    mistake("the last iteration of a row is always there", KEPT, 'return counters, emit.op("lt", "last", counters[-1], end, dtype=DataType.BOOL)', "return counters, None", KEEP, ROW),
    mistake("the last iteration of a row counts zeros", KEPT, ALL_COMPUTED, ALL_COMPUTED.replace("last if k == self.count - 1 else None", "None"), KEEP, ROW),
    mistake("the last iteration of a row is loaded where it is missing", KEPT, ALL_LOADED, ALL_LOADED.replace("last if k == self.count - 1 else None", "None"), KEEP, ROW),
    mistake("the last iteration of a row is asked for by the one before", KEPT, '"last", counters[-1], end', '"last", counters[-2], end', KEEP, ROW),
    mistake("what is kept is of the iteration before", KEPT, "self.kept[key][k]", "self.kept[key][k - 1]", KEEP, ROW),
    mistake("loops of one lower bound are over one row", KEPT, "by_bounds.setdefault(tuple(map(_bound, bounds(op)))", "by_bounds.setdefault(tuple(map(_bound, bounds(op)[:1]))", KEEP, TWO_ROWS),
    mistake("what the program writes is kept", KEPT, "program.bound_buffers} - effects_of_program.writes", "program.bound_buffers}", KEEP, OVERWRITTEN_ROW),
    mistake("a row is written out where it does not fit", KEPT, "_branch(self.fits, unrolled, values, fallback, fallback_values, loop, out)", "_branch(self.fits, fallback, fallback_values, unrolled, values, loop, out)", KEEP, ROW),
    mistake("a row has one iteration less", KEPT, "return count if fits else 0", "return count - 1 if fits else 0", KEEP, ROW),
    mistake("a row has one iteration more", KEPT, "return count if fits else 0", "return count + 1 if fits else 0", KEEP, WHOLE_ROW),
    mistake("each iteration of a row begins with what the loop does", KEPT, "carried = compute(k, carried)", "carried = compute(k, inits(loop))", KEEP, ROW),
    mistake("a row begins at its end", KEPT, 'emit.op("lt", "begins", first, end', 'emit.op("le", "begins", first, end', KEEP, SHORT_ROW),
    mistake("a row of constant length is loaded a neighbour further", KEPT, "emit.const(lower + k * step, dtype)", "emit.const(lower + k * step + 1, dtype)", KEEP, WHOLE_ROW),
    mistake("a load stands before a loop that does not begin", INVARIANT, "conditional(condition, block, values, zeros, zero_values, loop)", "conditional(condition, zeros, zero_values, block, values, loop)", KEEP, COUNTED),
    mistake("a loop begins at its end", INVARIANT, 'emit.op("lt", "begins", *ends', 'emit.op("le", "begins", *ends', KEEP, COUNTED),
    mistake("a load of what the loop writes stands before it", INVARIANT, "program.bound_buffers} - written_buffers", "program.bound_buffers}", KEEP, REWRITTEN),
]  # fmt: skip
