"""Mistakes about launches that get another program over another grid."""

from __future__ import annotations

from .launches import WORKGROUP_IDS, pipeline, program, text
from .mistake import mistake

__all__ = ["MISTAKES"]

COARSENING = "scheduling/coarsening.py"
PRIVATIZATION = "scheduling/privatization.py"
FORMS = "scheduling/launch_forms.py"
REGROUPING = "analysis/regrouping.py"
RELAUNCH = "scheduling/relaunch.py"
COARSEN = "coarsen{by=4}"
BLOCKED = "coarsen{by=2 blocks=2}"
PRIVATIZE = "privatize{workgroups=3}"

COPY = program("copy", "x:r y:w", "  %v = load @x[%g]\n  store %v, @y[%g]", 8)
GUARDED = program("guarded", "x:r y:w", "  %n = len @y\n  %p = lt %g, %n\n  if %p { %v = load @x[%g] store %v, @y[%g] }", 8)  # fmt: skip
EITHER = program("either", "x:r y:w", """
  %v = load @x[%g]
  %p = lt %v, 2
  if %p {
    store %v, @y[%g]
  } else {
    %a = add %v, %g
    %b = mul %a, %v
    store %b, @y[%g]
  }""", 8)  # fmt: skip
WHERE = program("where", "x:r y:w", """
  %v = load @x[%g]
  %s = global_size x
  %n = num_workgroups x
  %a = mul %v, 64
  %b = add %a, %w
  %c = mul %b, 64
  %d = add %c, %s
  %e = mul %d, 64
  %f = add %e, %n
  %h = add %f, %l
  store %h, @y[%g]""", 8)  # fmt: skip
LANES = program(
    "lanes", "x:r y:w", "  %v = load @x[%g]\n  %k = lane_id\n  %s = add %v, %k\n  store %s, @y[%g]", 8
)
ROUNDS = program("rounds", "x:r y:w", """
  %v = load @x[%g]
  %n = rem %v, 4
  %s = for %k = 0 to %n step 1 iter(%a = %g : u32) {
    %b = add %a, %v
    yield %b
  }
  store %s, @y[%g]""", 8)  # fmt: skip
CARRIED = program("carried", "x:r y:w", """
  %v = load @x[%g]
  %s = for %k = 0 to 3 step 1 iter(%a = 7 : u32) {
    %b = add %a, %v
    yield %b
  }
  store %s, @y[%g]""", 8)  # fmt: skip
TOTAL = program("total", "x:r y:w n:b", "  %v = load @x[%g]\n  store %v, @y[%g]\n  %o = atomic_add<relaxed> @n[0], 1 : u32", 8)  # fmt: skip

BUFFERS = "x : u32[40] read, y : u32[40] write"
SHORTER = "x : u32[40] read, y : u32[38] write"
OF_TOTAL = pipeline(f"{BUFFERS}, n : u32[1] live_in live_out", "@total grid(5) (@x, @y, @n)")
TWO_GRIDS = "x : u32[40] read, y : u32[40] write, a : u32[72] read, b : u32[72] write"


def coarse(of: str, name: str) -> str:
    return text(of, pipeline(BUFFERS, f"@{name} grid(5) (@x, @y)"))


def counts(kind: str, rest: str = "", lanes: int = 8) -> str:
    body = f"  %v = load @x[%g]\n  %k = rem %v, 12\n  %o = {kind}<relaxed> @bins[%k], %g : u32{rest}"
    count = program("count", "x:r bins:b", body, lanes)
    bins = "x : u32[40] read, bins : u32[12] live_in live_out"
    return text(count, pipeline(bins, f"@count grid({40 // lanes}) (@x, @bins)"))


MISTAKES = [
    mistake("a neighbour does what the one before it does", COARSENING, "self.outer.const(k)) for k in", "self.outer.const(k - 1)) for k in", COARSEN, coarse(COPY, "copy")),
    mistake("every other workgroup is left out", COARSENING, 'emit.op("mul", "first", group, emit.const(groups))', 'emit.op("mul", "first", group, emit.const(2 * groups))', COARSEN, coarse(COPY, "copy")),
    mistake("local ids of neighbours go on beyond the workgroup", COARSENING, 'emit.const(groups)), turn), lane', 'emit.const(groups)), turn), local', COARSEN, coarse(WHERE, "where")),
    mistake("where neighbours part, the first one does nothing", COARSENING, "self.in_turn(op, divergent.ops)", "divergent.ops += [each for k in range(1, self.by) for each in self.clone_for(op, k)]", COARSEN, text(GUARDED, pipeline(SHORTER, "@guarded grid(5) (@x, @y)"))),
    mistake("one workgroup beyond the grid exists", COARSENING, 'emit.op("lt", "exists"', 'emit.op("le", "exists"', COARSEN, coarse(COPY, "copy")),
    mistake("the last workgroups of a coarse launch are left out", "passes/coarsen.py", '(ceil_divided(x, by.groups_along_x),', '(int(x) // by.groups_along_x,', COARSEN, coarse(COPY, "copy")),
    mistake("the second block of neighbours is the first one's", COARSENING, 'after(ids["global_id", "x"], by.x * lanes * block + k)', 'after(ids["global_id", "x"], k)', BLOCKED, coarse(COPY, "copy")),
    mistake("blocks of neighbours overlap by a workgroup", COARSENING, 'after(ids["global_id", "x"], by.x * lanes * block + k)', 'after(ids["global_id", "x"], (by.x - 1) * lanes * block + k)', BLOCKED, coarse(COPY, "copy")),
    mistake("all blocks of neighbours exist where the first does", COARSENING, "return branch(existing[-1], jam_blocks(block_ids)", "return branch(existing[0], jam_blocks(block_ids)", BLOCKED, coarse(COPY, "copy")),
    mistake("blocks but the last are left out behind the last whole workgroup", COARSENING, "Block((), separate))", "Block())", BLOCKED, coarse(COPY, "copy")),
    mistake("a block of neighbours has the workgroup of the first", COARSENING, 'after(ids["workgroup_id", "x"], by.x * block)', 'after(ids["workgroup_id", "x"], 0)', BLOCKED, coarse(WHERE, "where")),
    mistake("neighbours agree if one of them does", COARSENING, '"or" if longer else "and"', '"and" if longer else "or"', COARSEN, coarse(EITHER, "either")),
    mistake("neighbours that part are those that agree", COARSENING, "(divergent, together) if longer else (together, divergent)", "(together, divergent) if longer else (divergent, together)", COARSEN, coarse(EITHER, "either")),
    mistake("neighbours are of the first of the workgroups that became one", COARSENING, 'ids_of(inner, group, number,', 'ids_of(inner, emit.identity("workgroup_id", "coarse", axis), number,', COARSEN, coarse(WHERE, "where")),
    mistake("sizes of a coarse launch are its own", COARSENING, '        self.common |= common\n', '', COARSEN, coarse(WHERE, "where")),
    mistake("neighbours are in the last workgroup of all", WORKGROUP_IDS, '("workgroup_id", axis): workgroup,', '("workgroup_id", axis): workgroups,', COARSEN, coarse(WHERE, "where")),
    mistake("a neighbour has the lane id of its invocation", COARSENING, 'op.definition.format == "size" and op.name not in _IDS', "False", COARSEN, coarse(LANES, "lanes")),
    mistake("all neighbours run as many rounds as the first", COARSENING, '(op.name == "for" and any(v in self.varying for v in _control(op)))', "False", COARSEN, coarse(ROUNDS, "rounds")),
    mistake("loops carry the values of the first neighbour", COARSENING, "if is_varying or any(v in varying for v in (*same, *ends)):", "if is_varying:", COARSEN, coarse(CARRIED, "carried")),
    mistake("neighbours count once for all", COARSENING, "        is_common = not any(v in self.varying for v in (*op.operands, *op.results))\n        if not is_common or effects.writes or effects.stops:", "        if any(v in self.varying for v in op.operands):", COARSEN, text(TOTAL, OF_TOTAL)),
    mistake("coarse programs are the same over all grids", FORMS, 'tuple(row.shape for row in rows), *(count.key for count in site.counts)', 'tuple(row.shape for row in rows)', COARSEN, text(COPY, pipeline(TWO_GRIDS, "@copy grid(5) (@x, @y)", "@copy grid(9) (@a, @b)"))),
    mistake("a launch in another form has one workgroup", RELAUNCH, 'program.name, form.grid', 'program.name, (1, 1, 1)', COARSEN, coarse(COPY, "copy")),
    mistake("copies begin with 0 whatever their atomics do", PRIVATIZATION, 'b.store(b.const(start, dtype), private', 'b.store(b.const(0, dtype), private', PRIVATIZE, counts("atomic_min")),
    mistake("elements of copies that are 0 are not added", PRIVATIZATION, 'b.const(arith.to_bits(_neutral(kind, dtype), dtype), bits)', 'b.const(0, bits)', PRIVATIZE, counts("atomic_and")),
    mistake("copies lack their last element", PRIVATIZATION, "b.buffer(private[shared], dtype, counts[shared],", "b.buffer(private[shared], dtype, counts[shared] - 1,", PRIVATIZE, counts("atomic_add")),
    mistake("a workgroup counts before its copy is filled", PRIVATIZATION, "    b.barrier()\n    lower, upper", "    lower, upper", PRIVATIZE, counts("atomic_add")),
    mistake("a workgroup adds before all have counted", PRIVATIZATION, "    b.barrier()\n    _merge_copies(", "    _merge_copies(", PRIVATIZE, counts("atomic_add")),
    mistake("every lane adds all elements of a copy", PRIVATIZATION, "            total = b.load(private[shared], loop.index)", "            total = b.mul(b.load(private[shared], loop.index), 2)", PRIVATIZE, counts("atomic_add")),
    mistake("turns are of all workgroups that follow", PRIVATIZATION, "return number, groups, workgroups", "return number, groups, 1", PRIVATIZE, counts("atomic_add")),
    mistake("workgroups in turn begin with the second", PRIVATIZATION, "return number, groups, workgroups", "return b.add(number, 1), groups, workgroups", PRIVATIZE, counts("atomic_xor")),
    mistake("a workgroup in turn is the last one of all", PRIVATIZATION, "_body(program, loop.index, number, turn)", "_body(program, b.sub(number, 1), number, turn)", PRIVATIZE, counts("atomic_add")),
    mistake("copies take atomics of several kinds", REGROUPING, "or names.setdefault(buffer, op.name) != op.name", "or names.setdefault(buffer, op.name) == ''", PRIVATIZE, counts("atomic_add", "\n  %m = atomic_max<relaxed> @bins[%k], 900 : u32")),
    mistake("counting programs are the same over all grids", FORMS, 'site.on_gpu, site.counts[0].key', 'site.on_gpu', PRIVATIZE, text(
        program("count", "x:r bins:b", "  %v = load @x[%g]\n  %o = atomic_add<relaxed> @bins[0], %v : u32", 8),
        pipeline("x : u32[72] read, bins : u32[1] live_in live_out", "@count grid(5) (@x, @bins)", "@count grid(9) (@x, @bins)"),
    )),
]  # fmt: skip
