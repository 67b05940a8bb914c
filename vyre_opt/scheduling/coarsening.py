"""Programs whose invocations do the work of several neighbours, so that a lane moves more bytes at a time.

    program @p, over n workgroups             over ceil_div(n, 4); it knows n

      %i = global_id x                          %i0 = 4 * global_id x      %i1 = %i0 + 1 ...
      if %i < %n {                              if %i0 < %n and ... and %i3 < %n {
        %v = load @x[%i]                          %v0 = load @x[%i0]  ...  %v3 = load @x[%i3]
        store %v, @y[%i]                          store %v0, @y[%i0]  ...  store %v3, @y[%i3]
      }                                         } else {
                                                  if %i0 < %n { ... }  ...  if %i3 < %n { ... }
                                                }

Each op stands there once for each of the neighbours, side by side (`vectorize_access` joins such loads), or once for
all of them where it is the same for all.  Invocations are in no order as long as nothing makes them meet, so steps of
neighbours may take turns in any way; each neighbour's own steps keep their order.  Where they part, at a branch that
some take, at a loop of other lengths, they go on one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ..analysis.alignment import Alignment
from ..analysis.effects import effects_of
from ..analysis.linear import LinearAnalysis, Terms
from ..analysis.refusal import Refusal
from ..fusion.group_count import GroupCount
from ..fusion.halo_recompute import OpEmitter
from ..fusion.workgroup_ids import ids_of, replace_ids
from ..ir.loops import inits
from ..ir.ops import OPS
from ..ir.program import Block, Op, Program, Value
from ..ir.rewrite import clone, splittable
from ..ir.types import DataType

__all__ = ["coarsen", "coarsen_refusal", "strided_access"]

MAX_OPS = 2048
"""Of a coarsened program: what LLVM takes to compile grows with it."""

_IDS = ("global_id", "local_id")


def coarsen_refusal(program: Program, by: int) -> Refusal | None:
    """Why an invocation may not do the work of `by` neighbours; None if it may."""

    def refuse(message: str, op: Op | None = None) -> Refusal:
        return Refusal("coarsen", f"@{program.name} {message}", loc=program.loc if op is None else op.loc)

    if by < 1 or by & (by - 1):
        return refuse(f"cannot have {by} neighbours as one: that is no power of two")
    if program.workgroup[0] % by:
        return refuse(f"has a workgroup of {program.workgroup[0]} along x, no multiple of {by}")
    if program.cluster is not None:
        return refuse("has clusters")
    if any(buffer.is_workgroup for buffer in program.buffers.values()):
        return refuse("has workgroup memory, which its invocations share")
    has_while = any(op.name == "while" for op in program.walk())
    for op in program.walk():
        effects = effects_of(op)
        if op.definition.kernel:
            return refuse(f"is the named kernel {op.name}", op)
        if effects.atomics and effects.orders:
            return refuse(
                f"has an {op.name} of order {op.attrs['order']}, by which invocations may wait for each other",
                op,
            )
        if effects.orders or effects.waits or "subgroup" in op.definition.effects:
            return refuse(f"has an op at which invocations meet: {op.name}", op)
        if effects.atomics and has_while:
            return refuse("has an atomic and a while, so that its invocations may wait for each other", op)
        if effects.prints:
            return refuse("prints, in the order of its invocations", op)
        if op.definition.format == "size" and op.name not in _IDS:
            return refuse(f"asks for its {op.name}", op)
    return None


def strided_access(program: Program) -> Op | None:
    """A load or store of storage whose neighbours touch neither neighbouring elements nor the same one; None if there is
    none.  If one lane did those of several, lanes beside each other would touch memory far apart."""
    linear, varying = LinearAnalysis(program, Alignment(program)), _varying(program)
    for op in program.walk():
        if op.definition.format in ("load", "store"):
            *rows, index = op.indices
            if any(row in varying for row in rows) or _step(linear.of(index)[0], varying) not in (0, 1):
                return op
    return None


def _step(terms: Terms, varying: set[Value]) -> int | None:
    """By how much the sum of terms grows from neighbour to neighbour; None where that is not known."""
    total = 0
    for term, coefficient in terms:
        if term in (("global_id", "x"), ("local_id", "x")):
            total += coefficient
        elif isinstance(term, tuple) and term[0] == "cast":
            inner = _step(term[2], varying)
            if inner is None:
                return None
            total += coefficient * inner
        elif isinstance(term, Value) and term in varying:
            return None
    return total


def coarsen(program: Program, by: int, count: GroupCount) -> Program | Refusal:
    """The program over ceil_div(n, by) workgroups along x that does what `program` does over n of them.

    `by`: a power of two.  `count`: where it has n from.
    """
    refusal = coarsen_refusal(program, by)
    if refusal is not None:
        return refusal
    lanes, loc = program.workgroup[0], program.loc
    emit = OpEmitter([], loc)
    groups = count.emit(emit, program)
    if isinstance(groups, Refusal):
        return groups
    # workgroup w of the new ones has the invocations of `by` old ones from by * w on
    local = emit.op("mul", "local", emit.identity("local_id", "lane"), emit.const(by))
    turn, lane = (emit.op(kind, kind, local, emit.const(lanes)) for kind in ("div", "rem"))
    first = emit.op("mul", "first", emit.identity("workgroup_id", "coarse"), emit.const(by))
    group = emit.op("add", "group", first, turn)
    exists = emit.op("lt", "exists", group, groups, dtype=DataType.BOOL)
    inner = OpEmitter([], loc)
    jam = _Jam(program, by, inner)
    ids = ids_of(inner, group, groups, lanes, lane)
    jam.neighbours = {
        "local_id": jam.counted(lane, "local"),
        "global_id": jam.counted(ids.pop("global_id"), "id"),
    }
    jam.common = ids
    try:
        inner.ops += jam.ops(program.body.ops)
    except _TooLarge:
        return Refusal("coarsen", f"@{program.name} would have more than {MAX_OPS} ops", loc=loc)
    emit.ops.append(Op(OPS["if"], (exists,), (), regions=(Block((), inner.ops),), loc=loc))
    buffers = {name: replace(buffer) for name, buffer in program.buffers.items()}
    grid = None if program.grid is None else (-(-program.grid[0] // by), *program.grid[1:])
    return replace(
        program, grid=grid, buffers=buffers, params=count.params(program), body=Block((), emit.ops)
    )


class _TooLarge(Exception):
    """The program has more than MAX_OPS ops."""


class _Jam:
    """Writes ops for all neighbours at once.

    `neighbours`: ids of which each neighbour has its own; `common`: those that are the same for all.  `maps`: for each
    neighbour, the values that stand for those of the program.
    """

    def __init__(self, program: Program, by: int, outer: OpEmitter) -> None:
        self.by, self.outer = by, outer
        self.neighbours: Mapping[str, Sequence[Value]] = {}
        self.common: Mapping[str, Value] = {}
        self.maps: list[dict[Value, Value]] = [{} for _ in range(by)]
        self.varying = _varying(program)
        self.size = 0

    def counted(self, first: Value, name: str) -> Sequence[Value]:
        """`first`, `first` + 1 and so on."""
        rest = [self.outer.op("add", name, first, self.outer.const(k)) for k in range(1, self.by)]
        return (first, *rest)

    def of(self, value: Value, neighbour: int) -> Value:
        return self.maps[neighbour].get(value, value)

    def copies(self, pattern: Sequence[Value], values: Sequence[Value]) -> tuple[Value, ...]:
        """The values, each for every neighbour where the one of `pattern` varies, else once."""
        pairs = zip(pattern, values, strict=True)
        return tuple([self.of(v, k) for p, v in pairs for k in range(self.by if p in self.varying else 1)])

    def new(self, values: Sequence[Value]) -> tuple[Value, ...]:
        """New values in their places, one for every neighbour where one varies."""
        made: list[Value] = []
        for value in values:
            own = [Value(value.name, value.type) for _ in range(self.by if value in self.varying else 1)]
            for k, mapping in enumerate(self.maps):
                mapping[value] = own[k if len(own) > 1 else 0]
            made += own
        return tuple(made)

    def ops(self, ops: Iterable[Op]) -> list[Op]:
        out: list[Op] = []
        for op in ops:
            self.op(op, out)
        return out

    def op(self, op: Op, out: list[Op]) -> None:
        is_along_x = op.attrs.get("axis") == "x"
        if is_along_x and op.name in self.neighbours:
            for mapping, value in zip(self.maps, self.neighbours[op.name], strict=True):
                mapping[op.result] = value
        elif is_along_x and op.name in self.common:
            for mapping in self.maps:
                mapping[op.result] = self.common[op.name]
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
        out += self.cloned(op, 0)
        for mapping in self.maps[1:]:
            mapping.update((result, self.of(result, 0)) for result in op.results)

    def in_turn(self, op: Op, out: list[Op]) -> None:
        """The op for one neighbour after the other."""
        for k in range(self.by):
            out += self.cloned(op, k)

    def cloned(self, op: Op, neighbour: int) -> list[Op]:
        """The op as one neighbour runs it, with all that is in its regions."""
        (made,) = clone([op], self.maps[neighbour])
        ids = {name: values[neighbour] for name, values in self.neighbours.items()} | dict(self.common)
        for block in made.regions:
            replace_ids(block, ids)
        self.size += sum(1 for _ in made.walk())
        if self.size > MAX_OPS:
            raise _TooLarge
        return [made]

    def together(self, op: Op, out: list[Op]) -> None:
        """An op with blocks that all neighbours enter and leave together."""
        control = tuple(self.of(v, 0) for v in _control(op))
        operands = (*control, *self.copies(op.results, _carried(op))) if _carried(op) else control
        regions = tuple(self.block(block, op.results, self.new(block.args)) for block in op.regions)
        out.append(Op(op.definition, operands, self.new(op.results), op.attrs, regions, op.loc))

    def block(self, block: Block, results: Sequence[Value], args: tuple[Value, ...] = ()) -> Block:
        """The block for all neighbours, which yields values for so many results."""
        ops, yielded = splittable(block)
        made = self.ops(ops)
        if yielded:
            made.append(Op(OPS["yield"], self.copies(results, yielded), loc=block.ops[-1].loc))
        return Block(args, made)

    def branch(self, op: Op, out: list[Op]) -> None:
        """A branch that neighbours may take differently: one block for where all take the longer side, else one by one."""
        emit = OpEmitter(out, op.loc)
        sides = [sum(1 for _ in block.walk()) for block in op.regions]
        longer = sides.index(max(sides))
        agreed = self.of(op.operands[0], 0)
        for k in range(1, self.by):
            agreed = emit.op("or" if longer else "and", "agreed", agreed, self.of(op.operands[0], k))
        together = self.block(op.regions[longer], op.results)
        apart = Block()
        self.in_turn(op, apart.ops)
        if op.results:
            apart.ops.append(Op(OPS["yield"], self.copies(op.results, op.results), loc=op.loc))
        regions = (apart, together) if longer else (together, apart)
        out.append(Op(op.definition, (agreed,), self.new(op.results), op.attrs, regions, op.loc))


def _carried(op: Op) -> tuple[Value, ...]:
    return inits(op) if op.name in ("for", "while") else ()


def _control(op: Op) -> tuple[Value, ...]:
    """The operands that say which blocks run, and how often."""
    return op.operands[: len(op.operands) - len(_carried(op))]


def _varying(program: Program) -> set[Value]:
    """The values that may differ between neighbours where all of them have one: a fixed point, since loops carry values."""
    varying: set[Value] = set()
    known = -1
    while known != len(varying):
        known = len(varying)
        _spread(program.body, varying)
    return varying


def _spread(block: Block, varying: set[Value]) -> None:
    for op in block.ops:
        for inner in op.regions:
            _spread(inner, varying)
        differs = op.name == "while" or any(v in varying for v in _control(op))
        if not op.regions:
            is_own = op.name in _IDS and op.attrs["axis"] == "x"
            if is_own or differs or "atomic" in op.definition.effects:
                varying.update(op.results)
            continue
        carried = _carried(op)
        for number, result in enumerate(op.results):
            ends = [
                yielded[number]
                for _, yielded in map(splittable, op.regions)
                if op.name != "while" and yielded
            ]
            same = {result}
            if carried:
                ends.append(carried[number])
                same |= {block.args[len(block.args) - len(carried) + number] for block in op.regions}
            if differs or any(v in varying for v in (*same, *ends)):
                varying |= same
