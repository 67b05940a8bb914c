"""Programs whose invocations do the work of several neighbours, so that a lane moves more bytes at a time.

    program @p, over n workgroups             over ceil_div(n, 4); it knows n

      %i = global_id x                          %i0 = 4 * global_id x      %i1 = %i0 + 1 ...
      if %i < %n {                              if %i0 < %n and ... and %i3 < %n {
        %v = load @x[%i]                          %v0 = load @x[%i0]  ...  %v3 = load @x[%i3]
        store %v, @y[%i]                          store %v0, @y[%i0]  ...  store %v3, @y[%i3]
      }                                         } else {
                                                  if %i0 < %n { ... }  ...  if %i3 < %n { ... }
                                                }

Each op is copied once for each neighbour, side by side (`vectorize_access` joins such loads), or stands once if its value
is the same for all.  Invocations that do not meet are unordered, so steps of neighbours may interleave; each neighbour's
own steps keep their order.  Where neighbours diverge, at a branch or a loop of different lengths, they run in sequence.

An invocation may have several blocks of neighbours, a workgroup's reach of elements apart, so that adjacent lanes still
touch adjacent elements, while more loads are in flight:

      over ceil_div(n, 8)       if the last block's workgroup exists { all blocks side by side } else { existing blocks in sequence }
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ..analysis.alignment import Alignment
from ..analysis.effects import effects_of
from ..analysis.linear import LinearAnalysis, Terms
from ..analysis.refusal import Refusal
from ..execution.plans.neighbours import ITSELF, Neighbours
from ..fusion.group_count import GroupCount
from ..fusion.halo_recompute import OpEmitter
from ..fusion.independence import order_refusal
from ..fusion.workgroup_ids import Ids, ids_of, replace_ids
from ..ir.loops import inits
from ..ir.ops import OPS
from ..ir.program import Block, Op, Program, Value
from ..ir.rewrite import clone, splittable
from ..ir.types import DataType

__all__ = ["access_axes", "coarsen", "coarsen_refusal", "repeats_along_y"]

MAX_OPS = 2048
"""Most ops of a coarse program: LLVM's compile time grows with them."""

_IDS = ("global_id", "local_id")


def coarsen_refusal(program: Program, by: Neighbours = ITSELF) -> Refusal | None:
    """Why an invocation may not do the work of such neighbours; None if it may."""

    def refuse(message: str, op: Op | None = None) -> Refusal:
        return Refusal("coarsen", f"@{program.name} {message}", loc=program.loc if op is None else op.loc)

    for axis, factor, lanes in zip("xy", (by.x, by.y), program.workgroup, strict=False):
        if factor < 1 or factor & (factor - 1):
            return refuse(f"cannot have {factor} neighbours as one: that is no power of two")
        if lanes % factor:
            return refuse(f"has a workgroup of {lanes} along {axis}, no multiple of {factor}")
    if by.blocks > 1 and (by.x == 1 or by.y > 1 or by.tile is not None):
        return refuse("cannot have several blocks of one neighbour, along y or in tiles")
    if by.tile is not None and any(n % of for n, of in zip(program.workgroup, by.tile, strict=False)):
        return refuse(f"has a workgroup of {program.workgroup}, which is not made of tiles of {by.tile}")
    refusal = order_refusal(program, "coarsen")
    if refusal is not None:
        return refusal
    if any(buffer.is_workgroup for buffer in program.buffers.values()):
        return refuse("has workgroup memory, which its invocations share")
    for op in program.walk():
        effects = effects_of(op)
        if effects.orders or effects.waits or "subgroup" in op.definition.effects:
            return refuse(f"has an op at which invocations meet: {op.name}", op)
        if op.definition.format == "size" and op.name not in _IDS:
            return refuse(f"asks for its {op.name}", op)
    return None


def access_axes(program: Program) -> dict[Op, str]:
    """Loads and stores of storage, each with the axes along which adjacent lanes touch adjacent elements: "x", "y", "xy".

    Along x the same element counts as well.  "" if neither axis has adjacent elements.
    """
    linear = LinearAnalysis(program, Alignment(program))
    varying = {axis: _varying(program, axis) for axis in "xy"}
    unit = {"x": (0, 1), "y": (1,)}

    def axes_of(op: Op) -> Iterator[str]:
        *rows, index = op.indices
        terms = linear.of(index)[0]
        for axis in "xy":
            step = _step(terms, varying[axis], axis)
            if step in unit[axis] and not any(row in varying[axis] for row in rows):
                yield axis

    return {op: "".join(axes_of(op)) for op in program.walk() if op.definition.format in ("load", "store")}


def repeats_along_y(program: Program) -> bool:
    """Whether neighbours along y store elements of their own, and load one that is the same for all."""
    varying = _varying(program, "y")

    def are_same(kind: str) -> list[bool]:
        return [varying.isdisjoint(op.indices) for op in program.walk() if op.definition.format == kind]

    return any(are_same("load")) and not any(are_same("store"))


def _step(terms: Terms, varying: set[Value], axis: str) -> int | None:
    """Difference of the sum of terms between neighbours; None if unknown."""
    total = 0
    for term, coefficient in terms:
        if term in (("global_id", axis), ("local_id", axis)):
            total += coefficient
        elif isinstance(term, tuple) and term[0] == "cast":
            inner = _step(term[2], varying, axis)
            if inner is None:
                return None
            total += coefficient * inner
        elif isinstance(term, Value) and term in varying:
            return None
    return total


def coarsen(program: Program, by: Neighbours, counts: Sequence[GroupCount]) -> Program | Refusal:
    """A program over the grid `by.grid(n)` that is equivalent to `program` over the grid n.

    `by`: powers of two.  `counts`: sources of n along x, and along y if needed.
    """
    refusal = coarsen_refusal(program, by)
    if refusal is not None:
        return refusal
    if _ops(program.body, by.count)[1] * (2 if by.blocks > 1 else 1) > MAX_OPS:
        message = f"@{program.name} may have more than {MAX_OPS} ops where {by} invocations are one"
        return Refusal("coarsen", message, loc=program.loc)
    loc, factors = program.loc, {"x": by.groups_along_x, "y": by.y}
    emit = OpEmitter([], loc)
    groups: dict[str, Value] = {}
    needed_counts = [count for count in counts if factors[count.axis] > 1]
    for count in needed_counts:
        number = count.emit(emit, program)
        if isinstance(number, Refusal):
            return number
        groups[count.axis] = number
    if by.blocks > 1:
        emit.ops.append(_blocks(program, by, emit, groups["x"]))
    else:
        jam = _Jam(program, by, inner := OpEmitter([], loc))
        existing = _place(program, by, emit, inner, groups, jam)
        inner.ops += jam.ops(program.body.ops)
        if existing is None:
            emit.ops += inner.ops
        else:
            emit.ops.append(Op(OPS["if"], (existing,), (), regions=(Block((), inner.ops),), loc=loc))
    buffers = {name: replace(buffer) for name, buffer in program.buffers.items()}
    params = dict(program.params)
    for count in needed_counts:
        params |= count.params(program)
    grid = None if program.grid is None else by.grid(program.grid)
    return replace(program, grid=grid, buffers=buffers, params=params, body=Block((), emit.ops))


def _ops(block: Block, by: int) -> tuple[int, int]:
    """Number of ops of a block, and the most ops for `by` neighbours, which may diverge at each `if`."""
    count = most = 0
    for op in block.ops:
        inner = [_ops(region, by) for region in op.regions]
        size = 1 + sum(each for each, _ in inner)
        count += size
        most += by * (size if op.name == "if" else 1) + sum(each for _, each in inner)
    return count, most


def _place(
    program: Program,
    by: Neighbours,
    emit: OpEmitter,
    inner: OpEmitter,
    groups: Mapping[str, Value],
    jam: _Jam,
) -> Value | None:
    """Set the ids of the jam's neighbours; return whether their workgroup exists, or None if it surely does."""
    existing: Value | None = None
    lanes = dict(zip("xy", program.workgroup, strict=False))
    places = _lane_position(program, by, emit)
    for axis, factor in (("x", by.x), ("y", by.y)):
        if factor == 1 and by.tile is None:
            continue
        lane, group = places[axis], emit.identity("workgroup_id", "coarse", axis)
        if factor > 1:
            group, lane = _first_neighbour(emit, group, lane, lanes[axis], factor, factor)
            exists = _exists(emit, group, groups[axis])
            existing = exists if existing is None else emit.op("and", "exists", existing, exists)
        number = groups[axis] if factor > 1 else inner.identity("num_workgroups", "groups", axis)
        ids = ids_of(inner, group, number, lanes[axis], lane, axis)
        jam.place(axis, {"local_id": lane, "global_id": ids.pop(("global_id", axis))}, ids)
    return existing


def _blocks(program: Program, by: Neighbours, emit: OpEmitter, groups: Value) -> Op:
    """The work of several blocks of neighbours: side by side if the workgroups of all exist, otherwise in sequence."""
    lanes = program.workgroup[0]
    lane, group = emit.identity("local_id", "lane"), emit.identity("workgroup_id", "coarse")
    group, lane = _first_neighbour(emit, group, lane, lanes, by.x, by.groups_along_x)
    ids = ids_of(emit, group, groups, lanes, lane)

    def after(value: Value, number: int) -> Value:
        return emit.op("add", value.name, value, emit.const(number)) if number else value

    block_ids = [
        {
            "workgroup_id": [after(ids["workgroup_id", "x"], by.x * block)] * by.x,
            "global_id": [after(ids["global_id", "x"], by.x * lanes * block + k) for k in range(by.x)],
        }
        for block in range(by.blocks)
    ]
    lane_ids = [after(lane, k) for k in range(by.x)]
    common = {key: ids[key] for key in (("num_workgroups", "x"), ("global_size", "x"))}

    def jam_blocks(blocks: Sequence[Mapping[str, Sequence[Value]]]) -> Block:
        jam = _Jam(program, replace(by, blocks=len(blocks)), emit)
        jam.common |= common
        jam.neighbours["local_id", "x"] = lane_ids * len(blocks)
        for name in ("workgroup_id", "global_id"):
            jam.neighbours[name, "x"] = [value for block in blocks for value in block[name]]
        return Block((), jam.ops(program.body.ops))

    def branch(condition: Value, *regions: Block) -> Op:
        return Op(OPS["if"], (condition,), (), regions=regions, loc=program.loc)

    existing = [_exists(emit, block["workgroup_id"][0], groups) for block in block_ids]
    separate = [
        branch(exists, jam_blocks([block])) for exists, block in zip(existing, block_ids[:-1], strict=False)
    ]
    return branch(existing[-1], jam_blocks(block_ids), Block((), separate))


def _first_neighbour(
    emit: OpEmitter, group: Value, lane: Value, lanes: int, by: int, groups: int
) -> tuple[Value, Value]:
    """The original workgroup and local id of the first of `by` neighbours of an invocation.

    New workgroup w does the work of original workgroups groups * w to groups * (w + 1) - 1, of `lanes` lanes each.
    """
    local = emit.op("mul", "local", lane, emit.const(by))
    turn, lane = (emit.op(kind, kind, local, emit.const(lanes)) for kind in ("div", "rem"))
    return emit.op("add", "group", emit.op("mul", "first", group, emit.const(groups)), turn), lane


def _exists(emit: OpEmitter, group: Value, groups: Value) -> Value:
    return emit.op("lt", "exists", group, groups, dtype=DataType.BOOL)


def _lane_position(program: Program, by: Neighbours, emit: OpEmitter) -> dict[str, Value]:
    """Position of an invocation in its workgroup; see `Neighbours.place`."""
    if by.tile is None:
        return {
            axis: emit.identity("local_id", "lane", axis) for axis, n in (("x", by.x), ("y", by.y)) if n > 1
        }
    (a, b), width = by.tile, program.workgroup[0]

    def part(kind: str, value: Value, number: int) -> Value:
        return emit.op(kind, "lane", value, emit.const(number))

    row = part("mul", emit.identity("local_id", "lane", "y"), width)
    linear = emit.op("add", "lane", emit.identity("local_id", "lane"), row)
    subgroup = part("div", linear, a * b)
    return {
        "x": emit.op(
            "add", "lane", part("rem", linear, a), part("mul", part("rem", subgroup, width // a), a)
        ),
        "y": emit.op(
            "add",
            "lane",
            part("rem", part("div", linear, a), b),
            part("mul", part("div", subgroup, width // a), b),
        ),
    }


class _Jam:
    """Writes ops for all neighbours at once (unroll and jam).

    `neighbours`: ids that differ between neighbours.  `common`: ids that are the same for all.  `maps`: for each
    neighbour, values of the program -> their replacements.
    """

    def __init__(self, program: Program, by: Neighbours, outer: OpEmitter) -> None:
        self.by, self.factors, self.outer = by.count, by, outer
        self.neighbours: dict[tuple[str, str], Sequence[Value]] = {}
        self.common: dict[tuple[str, str], Value] = {}
        self.maps: list[dict[Value, Value]] = [{} for _ in range(self.by)]
        axes = "".join(axis for axis, factor in (("x", by.x * by.blocks), ("y", by.y)) if factor > 1)
        self.varying = _varying(program, axes, (*_IDS, "workgroup_id") if by.blocks > 1 else _IDS)

    def place(self, axis: str, first: Mapping[str, Value], common: Ids) -> None:
        """Set the ids of the neighbours along an axis.  `first`: ids of the first neighbour; `common`: ids that all share."""
        self.common |= common
        factor = self.factors.x if axis == "x" else self.factors.y
        for name, value in first.items():
            if factor == 1:
                self.common[name, axis] = value
                continue
            later = [self.outer.op("add", value.name, value, self.outer.const(k)) for k in range(1, factor)]
            ids = (value, *later)
            numbers = (k % self.factors.x if axis == "x" else k // self.factors.x for k in range(self.by))
            self.neighbours[name, axis] = [ids[number] for number in numbers]

    def of(self, value: Value, neighbour: int) -> Value:
        return self.maps[neighbour].get(value, value)

    def copies(self, pattern: Sequence[Value], values: Sequence[Value]) -> tuple[Value, ...]:
        """The values, repeated for every neighbour where the value of `pattern` varies, otherwise once."""
        pairs = zip(pattern, values, strict=True)
        return tuple([self.of(v, k) for p, v in pairs for k in range(self.by if p in self.varying else 1)])

    def new(self, values: Sequence[Value]) -> tuple[Value, ...]:
        """Fresh values, one for every neighbour where a value varies, otherwise one for all."""
        new_values: list[Value] = []
        for value in values:
            copies = [Value(value.name, value.type) for _ in range(self.by if value in self.varying else 1)]
            for k, mapping in enumerate(self.maps):
                mapping[value] = copies[k if len(copies) > 1 else 0]
            new_values += copies
        return tuple(new_values)

    def ops(self, ops: Iterable[Op]) -> list[Op]:
        out: list[Op] = []
        for op in ops:
            self.op(op, out)
        return out

    def op(self, op: Op, out: list[Op]) -> None:
        identity = op.name, op.attrs.get("axis", "")
        if identity in self.neighbours:
            for mapping, value in zip(self.maps, self.neighbours[identity], strict=True):
                mapping[op.result] = value
        elif identity in self.common:
            for mapping in self.maps:
                mapping[op.result] = self.common[identity]
        elif not op.regions:
            self.single(op, out)
        elif op.name == "while" or (op.name == "for" and any(v in self.varying for v in _control(op))):
            self.in_turn(op, out)
        elif op.name == "if" and op.operands[0] in self.varying:
            self.branch(op, out)
        else:
            self.together(op, out)

    def single(self, op: Op, out: list[Op]) -> None:
        effects = effects_of(op)
        is_common = not any(v in self.varying for v in (*op.operands, *op.results))
        if not is_common or effects.writes or effects.stops:
            self.in_turn(op, out)
            return
        out += self.clone_for(op, 0)
        for mapping in self.maps[1:]:
            mapping.update((result, self.of(result, 0)) for result in op.results)

    def in_turn(self, op: Op, out: list[Op]) -> None:
        """The op for one neighbour after the other."""
        for k in range(self.by):
            out += self.clone_for(op, k)

    def clone_for(self, op: Op, neighbour: int) -> list[Op]:
        """A copy of the op and its regions for one neighbour."""
        (copy,) = clone([op], self.maps[neighbour])
        ids = {each: values[neighbour] for each, values in self.neighbours.items()} | self.common
        for block in copy.regions:
            replace_ids(block, ids)
        return [copy]

    def together(self, op: Op, out: list[Op]) -> None:
        """An op with blocks that all neighbours enter and leave together."""
        control = tuple(self.of(v, 0) for v in _control(op))
        operands = (*control, *self.copies(op.results, _inits(op))) if _inits(op) else control
        regions = tuple(self.block(block, op.results, self.new(block.args)) for block in op.regions)
        out.append(Op(op.definition, operands, self.new(op.results), op.attrs, regions, op.loc))

    def block(self, block: Block, results: Sequence[Value], args: tuple[Value, ...] = ()) -> Block:
        """The block for all neighbours, which yields values for `results`."""
        ops, yielded = splittable(block)
        new_ops = self.ops(ops)
        if yielded:
            new_ops.append(Op(OPS["yield"], self.copies(results, yielded), loc=block.ops[-1].loc))
        return Block(args, new_ops)

    def branch(self, op: Op, out: list[Op]) -> None:
        """A branch that neighbours may take differently: jammed if all take the longer side, otherwise in sequence."""
        emit = OpEmitter(out, op.loc)
        sides = [sum(1 for _ in block.walk()) for block in op.regions]
        longer = sides.index(max(sides))
        uniform = self.of(op.operands[0], 0)
        for k in range(1, self.by):
            uniform = emit.op("or" if longer else "and", "agreed", uniform, self.of(op.operands[0], k))
        together = self.block(op.regions[longer], op.results)
        divergent = Block()
        self.in_turn(op, divergent.ops)
        if op.results:
            divergent.ops.append(Op(OPS["yield"], self.copies(op.results, op.results), loc=op.loc))
        regions = (divergent, together) if longer else (together, divergent)
        out.append(Op(op.definition, (uniform,), self.new(op.results), op.attrs, regions, op.loc))


def _inits(op: Op) -> tuple[Value, ...]:
    return inits(op) if op.name in ("for", "while") else ()


def _control(op: Op) -> tuple[Value, ...]:
    """Operands that decide which blocks run, and how often."""
    return op.operands[: len(op.operands) - len(_inits(op))]


def _varying(program: Program, axes: str, ids: Sequence[str] = _IDS) -> set[Value]:
    """Values that may differ between neighbours along `axes`: a fixed point, since loops carry values.

    `ids`: ops whose result differs between neighbours."""
    varying: set[Value] = set()
    size = -1
    while size != len(varying):
        size = len(varying)
        _propagate(program.body, varying, axes, ids)
    return varying


def _propagate(block: Block, varying: set[Value], axes: str, ids: Sequence[str]) -> None:
    for op in block.ops:
        for inner in op.regions:
            _propagate(inner, varying, axes, ids)
        is_varying = op.name == "while" or any(v in varying for v in _control(op))
        if not op.regions:
            is_own = op.name in ids and op.attrs["axis"] in axes
            if is_own or is_varying or "atomic" in op.definition.effects:
                varying.update(op.results)
            continue
        initial = _inits(op)
        for number, result in enumerate(op.results):
            ends = [
                yielded[number]
                for _, yielded in map(splittable, op.regions)
                if op.name != "while" and yielded
            ]
            same = {result}
            if initial:
                ends.append(initial[number])
                same |= {block.args[len(block.args) - len(initial) + number] for block in op.regions}
            if is_varying or any(v in varying for v in (*same, *ends)):
                varying |= same
