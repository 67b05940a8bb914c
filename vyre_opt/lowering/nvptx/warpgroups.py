"""Products that four subgroups make together, a warpgroup: which of a program's are.

The instruction wgmma (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions"; sm_90a) multiplies 64 rows, 16 of
each of four subgroups, by one right factor in workgroup memory, beside whatever else these do.  A subgroup has its rows
and sums as for mma.sync.  So subgroups that multiply by the same matrix of a workgroup buffer need not load it:

    %y = matrix_load @t[%s, %k, %n]                %p = where the matrix begins in @t, which lies in panels
         : matrix<16x128xbf16, b>             ->
    %z = matrix_mul_add %x, %y, %c                 %z = warpgroup_mul_add %x, %p, %c
    if %more { copy_async %v, @t[%e, %i, %j] }     if %more { copy_async %v, @t[...] }     runs meanwhile
    barrier workgroup                              %w = warpgroup_wait %z
                                                   proxy_fence
                                                   barrier workgroup

A left factor, too, is read where it is, if the subgroups have 64 rows that follow each other, and its buffer can lie in panels.

A buffer lies in panels of 128 bytes of each row, in which the 8 pieces of row r are exchanged, so that lanes meet in no
bank, neither along a row nor down a column.  Nobody sees where the elements of workgroup memory lie.

    @t[r, c] of 16 bits    ->    element  (c / 64 * rows + r) * 64 + ((c / 8) ^ r) % 8 * 8 + c % 8

It does for a buffer whose accesses are all products as above, at indices that are the same in the workgroup, and moves of
at most 16 bytes that stay within a piece.  A product reads the right factor until the wait, which stands before

- the first use of its sums by anything else but the next product, or if two products add to them,
- the end of the block, and a second barrier; the first one, too, unless all writes to the buffer up to the one that comes next are as
  follows; then the sums of a loop are waited for in its next round, before the barrier, and behind the loop,
- a write to the buffer, unless to another place along a dimension that is no row or column: another stage.

Until a barrier other invocations do not write what is being read: that would race with the `matrix_load`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from math import prod

from ...analysis.alignment import Alignment
from ...analysis.bounds import BoundsProofs
from ...ir.access_extents import access_extents
from ...ir.builder import Builder
from ...ir.lowered_ops import PROXY_FENCE, WARPGROUP_MUL_ADD, WARPGROUP_WAIT
from ...ir.ops import SUBGROUP_SIZE
from ...ir.program import Block, Buffer, Op, Program, Value
from ...ir.rewrite import clone, constant_value, substitute
from ...ir.types import DataType
from ...ir.uniformity import Level, Uniformity
from ...records import dataclass

__all__ = ["ATOM_BYTES", "PANEL_BYTES", "STEP", "panelled", "with_warpgroups"]

WARPGROUP = 128
PANEL_BYTES, PIECE_BYTES = 128, 16
ATOM_ROWS = PANEL_BYTES // PIECE_BYTES  # in which the pieces of each row lie in another order
ATOM_BYTES = ATOM_ROWS * PANEL_BYTES
"""Alignment of a buffer in panels, in bytes."""

ELEMENTS = {DataType.F16, DataType.BF16}
SIZE = 2  # bytes of one
PIECE, PANEL = PIECE_BYTES // SIZE, PANEL_BYTES // SIZE
STEP = 16  # of the depth, of an instruction
ROWS = 16  # of a subgroup, of an instruction
MOST_COLUMNS = 256

NEGATIVE_ZERO = 1 << 31
"""Bits of -0.0."""

_U32 = DataType.U32


def with_warpgroups(program: Program, bounds: str) -> Program:
    """The program, or a copy of it with products of warpgroups, whose right factors' buffers have one dimension."""
    if program.lanes % WARPGROUP:
        return program
    if not any(op.name == "matrix_mul_add" and op.result.type.is_matrix for op in program.walk()):
        return program
    copy = replace(program, body=Block((), clone(program.body.ops, {})))
    facts = _Facts(copy, bounds)
    tiles = {
        name: buffer
        for name, buffer in copy.buffers.items()
        if facts.can_be_panelled(buffer, facts.is_factor)
    }
    if not tiles:
        return program
    lefts = {
        name: buffer
        for name, buffer in copy.buffers.items()
        if name not in tiles and facts.can_be_panelled(buffer, lambda load: facts.is_left_factor(load, tiles))
    }
    tiles |= lefts
    _WarpgroupRewrite(copy, facts, tiles).block(copy.body)
    copy.buffers = {
        name: replace(buffer, shape=(buffer.count,)) if name in tiles else buffer
        for name, buffer in copy.buffers.items()
    }
    return copy


def panelled(program: Program) -> set[str]:
    """The buffers of a program that lie in panels."""
    products = [op.attrs for op in program.walk() if op.definition is WARPGROUP_MUL_ADD]
    return {attrs[key] for attrs in products for key in ("tile", "left_tile") if key in attrs}


class _Facts:
    """Known facts of the ops of a program.

    `uses`: the ops that have a matrix as an operand.  `sections`: the block of each op, and how many ops of it before that one
    write, wait or have blocks.
    """

    def __init__(self, program: Program, bounds: str) -> None:
        self.program = program
        self.uniformity = Uniformity(program)
        self.alignment = Alignment(program)
        self.proofs = BoundsProofs(program)
        self.checks = bounds != "none"
        self.accesses: dict[str, list[Op]] = {}
        self.uses: dict[Value, list[Op]] = {}
        self.sections: dict[Op, tuple[Block, int]] = {}
        self.parents: dict[Block, tuple[Op, Block]] = {}
        self._block(program.body)

    def _block(self, block: Block) -> None:
        ends = 0
        for op in block.ops:
            self.sections[op] = block, ends
            ends += bool(op.regions or op.definition.effects - {"read", "subgroup"})
            if "buffer" in op.attrs and op.operands:
                self.accesses.setdefault(op.attrs["buffer"], []).append(op)
            for operand in op.operands:
                if operand.type.is_matrix:
                    self.uses.setdefault(operand, []).append(op)
            for inner in op.regions:
                self.parents[inner] = op, block
                self._block(inner)

    def can_be_panelled(self, buffer: Buffer, is_factor: Callable[[Op], bool]) -> bool:
        if not buffer.is_workgroup or buffer.dtype not in ELEMENTS or buffer.dimensions < 2:
            return False
        rows, columns = buffer.shape[-2:]
        if rows is None or columns is None or rows % ATOM_ROWS or columns % PANEL:
            return False
        accesses = self.accesses.get(buffer.name, [])
        factors = [op for op in accesses if op.name == "matrix_load"]
        return (
            bool(factors)
            and all(not self.checks or op in self.proofs.proven for op in accesses)
            and all(map(is_factor, factors))
            and all(self.stays_in_piece(op, buffer) for op in accesses if op not in factors)
        )

    def is_factor(self, load: Op) -> bool:
        """Whether products can read a loaded factor directly from shared memory."""
        (depth, columns), uses = load.result.type.shape, self.uses.get(load.result, [])
        indices = load.indices
        if load.result.type.use != "b" or not uses or columns > MOST_COLUMNS:
            return False
        if any(self.uniformity.level(index) > Level.WORKGROUP for index in indices):
            return False
        if self.uniformity.control.get(load, (Level.GRID,))[0] > Level.WORKGROUP:
            return False
        row, column = map(self.alignment.of, indices[-2:])
        by_rows = load.attrs["layout"] == "row_major"
        unit = PANEL if by_rows else depth
        if row < _log2(ATOM_ROWS) or column < _log2(unit) or (by_rows and columns % PANEL) or depth > PANEL:
            return False
        return all(self.is_product(op, load) for op in uses)

    def is_left_factor(self, load: Op, tiles: Mapping[str, Buffer]) -> bool:
        """Whether a warpgroup's four subgroups load 64 rows one after the other, for products by what lies in panels."""
        uses, shape = self.uses.get(load.result, []), load.result.type.shape
        *outer, row, column = load.indices
        if (
            load.result.type.use != "a"
            or shape != (ROWS, STEP)
            or load.attrs["layout"] != "row_major"
            or not uses
        ):
            return False
        if any(self.uniformity.level(index) > Level.WORKGROUP for index in (*outer, column)):
            return False
        if (
            self.uniformity.control.get(load, (Level.GRID,))[0] > Level.WORKGROUP
            or _subgroup_of_row(row) is None
        ):
            return False
        if self.alignment.of(row) < _log2(ATOM_ROWS) or self.alignment.of(column) < _log2(STEP):
            return False
        for op in uses:
            right = (
                op.operands[1].owner
                if op.name == "matrix_mul_add" and op.operands[0] is load.result
                else None
            )
            if (
                not isinstance(right, Op)
                or right.attrs.get("buffer") not in tiles
                or self.sections[op] != self.sections[load]
            ):
                return False
        return True

    def follows(self, load: Op, first: Op, columns: int) -> bool:
        """Whether a right factor lies so many columns behind another one of the same rows."""
        if load.attrs != first.attrs or load.result.type is not first.result.type:
            return False
        forms = self.proofs.forms
        by_rows = load.attrs["layout"] == "row_major"
        distances = [forms.expr(x) - forms.expr(y) for x, y in zip(load.indices, first.indices, strict=True)]
        apart = -1 if by_rows else -2
        expected = [columns if k == len(distances) + apart else 0 for k in range(len(distances))]
        return all(
            each.is_const and each.const == distance
            for each, distance in zip(distances, expected, strict=True)
        )

    def is_product(self, op: Op, load: Op) -> bool:
        """Whether an op multiplies by a matrix loaded in its block, with nothing between that writes or waits."""
        if op.name != "matrix_mul_add" or op.operands[1] is not load.result:
            return False
        return op.result.type.element is DataType.F32 and self.sections[op] == self.sections[load]

    def stays_in_piece(self, op: Op, buffer: Buffer) -> bool:
        if op.name not in ("load", "store", "copy_async"):
            return False
        width = access_extents(op, buffer)[-1]
        is_power = width & (width - 1) == 0
        return is_power and width <= PIECE and self.alignment.of(op.indices[-1]) >= _log2(width)

    def may_pass(self, loads: Sequence[Op], block: Block, number: int) -> bool:
        """Whether products may be under way behind a barrier, op `number` of a block: those that have passed it write to the buffers
        at other stages only, up to the next barrier."""
        buffers = {load.attrs["buffer"] for load in loads}

        def writes(ops: Sequence[Op]) -> Iterator[Op]:
            """Writes to the buffers."""
            for op in ops:
                for each in op.walk():
                    if "write" in each.definition.effects and each.attrs.get("buffer") in buffers:
                        yield each

        behind, is_end = _to_barrier(block.ops[number + 1 :])
        if not all(
            self.are_apart(write, load)
            for write in writes(behind)
            for load in loads
            if load.attrs["buffer"] == write.attrs["buffer"]
        ):
            return False
        while not is_end and block in self.parents:  # the next round, and what follows the loop
            parent, outer = self.parents[block]
            if parent.name in ("for", "while") and any(
                next(writes(_to_barrier(region.ops)[0]), None) for region in parent.regions
            ):
                return False
            behind, is_end = _to_barrier(outer.ops[outer.ops.index(parent) + 1 :])
            if next(writes(behind), None):
                return False
            block = outer
        return True

    def are_apart(self, op: Op, load: Op) -> bool:
        """Whether two accesses of a buffer surely differ along a dimension that is no row or column."""
        return any(map(self._differ, op.indices[:-2], load.indices[:-2]))

    def _differ(self, x: Value, y: Value) -> bool:
        """%x and %y, or %i % 3 and (%i + 2) % 3, of numbers that do not wrap."""
        forms = self.proofs.forms
        if x.type.is_signed or y.type.is_signed:
            return False
        difference = forms.expr(x) - forms.expr(y)
        if difference.is_const and difference.const:
            return True
        left, right = self._remainder(x), self._remainder(y)
        if left is None or right is None or left[1] != right[1]:
            return False
        difference = forms.expr(left[0]) - forms.expr(right[0])
        return difference.is_const and difference.const % left[1] != 0

    def _remainder(self, value: Value) -> tuple[Value, int] | None:
        """Dividend and divisor of a value that is a remainder: %i % 3, or %i & 3 for 4."""
        op = value.owner
        if not isinstance(op, Op) or op.name not in ("rem", "and"):
            return None
        by = self.proofs.forms.expr(op.operands[1])
        size = by.const + (op.name == "and")
        is_number = by.is_const and size > 0 and (op.name == "rem" or size & (size - 1) == 0)
        return (op.operands[0], size) if is_number else None


@dataclass(slots=True)
class _PendingProducts:
    """The products of a block that may not be done yet.

    `sums`: their results, but for those that another one adds to; `factors`, `lefts`: what they read; `fresh`: the values that
    were made since the last fence; `has_passed`: whether a barrier stands behind them, `begins_behind`: but
    not behind all; `origins`: of each sum, what the first
    of its products was added to.
    """

    sums: list[Value] = field(default_factory=list)
    factors: list[Op] = field(default_factory=list)
    lefts: list[Value] = field(default_factory=list)
    fresh: set[Value] = field(default_factory=set)
    has_passed: bool = False
    begins_behind: bool = False
    origins: dict[Value, Value] = field(default_factory=dict)


class _WarpgroupRewrite:
    """Rewrites a program in place; `facts` are of the ops as they were."""

    def __init__(self, program: Program, facts: _Facts, tiles: dict[str, Buffer]) -> None:
        self.facts, self.tiles = facts, tiles
        self.b = Builder.on(program)
        self.replaced: dict[Value, Value] = {}
        """Sums, with what they are after the wait."""
        self.factors_of: dict[Op, list[Op]] = {}
        """Values that the products read and that a loop hands on."""

    def block(self, block: Block, loop: Op | None = None) -> list[int]:
        """`loop`: the `for` that the block is the body of.  Returns the numbers of its sums that are not done at its end."""
        carried_numbers: list[int] = []
        out: list[Op] = []
        pending = _PendingProducts()
        multiplied: set[Op] = set()
        for number, op in enumerate(block.ops):
            substitute(op, self.replaced)
            if op in multiplied:
                continue
            products = self.side_by_side(block.ops, number)
            if products:
                multiplied.update(each for each, _ in products)
                totals = [each.operands[2] for each, _ in products]
                if any(total in pending.sums and len(self.facts.uses[total]) > 1 for total in totals):
                    pending = self.wait(
                        pending, out
                    )  # it adds in place, so the others' sums are copied first
                for each, _ in products:
                    substitute(each, self.replaced)
                self.multiply(products, pending, out)
                continue
            if pending.sums and _is_barrier(op) and not pending.has_passed:
                pending.has_passed = self.go_round(pending, loop) and self.facts.may_pass(
                    pending.factors, block, number
                )
                pending = self.wait(pending, out, int(pending.has_passed))
            elif pending.sums and op.name == "yield" and (places := self.carried_sums(pending, op, loop)):
                substitute(op, self.replaced)
                carried_numbers, pending = places, _PendingProducts()
            elif pending.sums and self.ends(pending, op):
                pending = self.wait(pending, out)
                substitute(op, self.replaced)
            places = [
                each for inner in op.regions for each in self.block(inner, op if op.name == "for" else None)
            ]
            if _is_barrier(op):
                out.append(Op(PROXY_FENCE, (), (), {}, (), op.loc))
            if op.attrs.get("buffer") not in self.tiles or op.name == "len":
                out.append(op)
            elif op.name != "matrix_load":
                self.move(op, out)
            if places:
                sums = _PendingProducts([op.results[place] for place in places])
                sums.factors = self.factors_of[op]
                self.wait(sums, out)
            pending.fresh.update(op.results)
        self.wait(pending, out)
        block.ops = out
        _mark_followed(out)
        return carried_numbers

    def go_round(self, pending: _PendingProducts, loop: Op | None) -> bool:
        """Whether pending sums add to what a loop carries: others would be copied to where the next round finds them."""
        return loop is not None and all(
            pending.origins[total] in loop.regions[0].args for total in pending.sums
        )

    def carried_sums(self, pending: _PendingProducts, end: Op, loop: Op | None) -> list[int]:
        """The numbers of sums that a loop hands on to its next round before they are done; none unless all that are pending only go
        through it."""
        if loop is None or not pending.has_passed or pending.begins_behind or pending.lefts:
            return []
        args, places = loop.regions[0].args[1:], list[int]()
        values = [self.replaced.get(value, value) for value in end.operands]
        for total in pending.sums:
            origin = pending.origins[total]
            if values.count(total) != 1 or origin not in args or len(self.facts.uses.get(origin, [])) != 1:
                return []
            if args.index(origin) != values.index(total):
                return []
            places.append(values.index(total))
        self.factors_of[loop] = pending.factors
        return places

    # --- products

    def right_factor(self, op: Op) -> Op | None:
        """Source of the right factor of an op that is a product of a warpgroup."""
        factor = op.operands[1].owner if op.name == "matrix_mul_add" else None
        is_load = isinstance(factor, Op) and factor.name == "matrix_load"
        return factor if is_load and factor.attrs["buffer"] in self.tiles else None  # type: ignore[union-attr, return-value]

    def side_by_side(self, ops: Sequence[Op], number: int) -> list[tuple[Op, Op]]:
        """Product `number` of a block, and those behind it that multiply the same rows by the columns that follow, as far as one
        instruction does, each with the load of its right factor; nothing for an op that is no product of a warpgroup."""
        first, load = ops[number], self.right_factor(ops[number])
        if load is None:
            return []
        products, width = [(first, load)], load.result.type.shape[1]
        for op in ops[number + 1 :]:
            if op.name == "matrix_load" or op.definition.format == "const":
                continue
            behind, columns = self.right_factor(op), len(products) * width
            if behind is None or op.operands[0] is not first.operands[0] or columns + width > MOST_COLUMNS:
                break
            if any(op.operands[2] is each.result for each, _ in products):  # it adds to one of them
                break
            if not self.facts.follows(behind, load, columns):
                break
            products.append((op, behind))
        return products

    def multiply(self, products: Sequence[tuple[Op, Op]], pending: _PendingProducts, out: list[Op]) -> None:
        op, factor = products[0]
        left, right, _ = op.operands
        totals = [each.operands[2] for each, _ in products]
        is_next = all(total in pending.sums for total in totals)
        is_fenced = bool(pending.sums) and pending.fresh.isdisjoint((left,) if is_next else (left, *totals))
        if not is_fenced:
            pending.fresh.clear()
        attrs = {
            "tile": factor.attrs["buffer"],
            "shape": (left.type.shape[0], right.type.shape[0], len(products) * right.type.shape[1]),
            "element": left.type.element,
            "is_deep_by_rows": factor.attrs["layout"] == "row_major",
            "rows": self.tiles[factor.attrs["buffer"]].shape[-2],
            "fence": not is_fenced,
        }
        if all(map(_is_zero, totals)):
            attrs["is_first"] = True
        offset = self.element_offset(factor, out)
        loaded = left.owner
        if isinstance(loaded, Op) and loaded.attrs.get("buffer") in self.tiles:
            attrs["left_tile"] = loaded.attrs["buffer"]
            left = self.element_offset(loaded, out)
            pending.factors.append(loaded)
        else:
            pending.lefts.append(left)
        results = tuple(each.result for each, _ in products)
        out.append(Op(WARPGROUP_MUL_ADD, (left, offset, *totals), results, attrs, (), op.loc))
        pending.sums = [*(each for each in pending.sums if each not in totals), *results]
        for total, result in zip(totals, results, strict=True):
            pending.origins[result] = pending.origins.get(total, total)
        pending.factors += [load for _, load in products]
        pending.begins_behind = pending.has_passed

    def ends(self, pending: _PendingProducts, op: Op) -> bool:
        """Whether products have to be done before an op."""
        return op.definition.is_terminator or any(self._ends(pending, each) for each in op.walk())

    def _ends(self, pending: _PendingProducts, op: Op) -> bool:
        if (
            op.name in ("barrier", "call")
            or self.right_factor(op)
            or not set(op.operands).isdisjoint(pending.sums)
        ):
            return True
        return "write" in op.definition.effects and any(
            op.attrs.get("buffer") == load.attrs["buffer"] and not self.facts.are_apart(op, load)
            for load in pending.factors
        )

    def wait(self, pending: _PendingProducts, out: list[Op], groups: int = 0) -> _PendingProducts:
        """Wait for all pending products except the last groups; return those that are still pending."""
        if pending.sums:
            results = tuple(Value(value.name, value.type) for value in pending.sums)
            # a loop may load the next ones meanwhile, and hand them on in the same registers
            lefts = dict.fromkeys(pending.lefts) if pending.has_passed else ()
            operands = *pending.sums, *lefts
            out.append(
                Op(WARPGROUP_WAIT, operands, results, {"pending": groups}, (), pending.factors[-1].loc)
            )
            self.replaced.update(zip(pending.sums, results, strict=True))
            if groups:
                origins = {new: pending.origins[old] for old, new in zip(pending.sums, results, strict=True)}
                uses = self.facts.uses
                uses |= {new: uses.get(old, []) for old, new in zip(pending.sums, results, strict=True)}
                return replace(pending, sums=[*results], origins=origins)
        return _PendingProducts()

    # --- offsets of elements

    def move(self, op: Op, out: list[Op]) -> None:
        """The same access, at the offset where its elements are."""
        offset = self.element_offset(op, out)
        op.operands = (*op.operands[: len(op.operands) - len(op.indices)], offset)
        op.attrs = {**op.attrs, "in_bounds": True}
        out.append(op)

    def element_offset(self, op: Op, out: list[Op]) -> Value:
        """The element where an access begins."""
        b, shape = self.b, self.tiles[op.attrs["buffer"]].shape
        b.loc = op.loc
        with b.at(Block()) as block:
            *outer, row, column = (b.cast(index, _U32) for index in op.indices)
            base, down = self.facts.proofs.bases.get(op, {}).get(-2, (row, 0))
            if down % ATOM_ROWS == 0:  # pieces of such rows are in the same order
                row = b.cast(base, _U32)
            else:
                down = 0
            subgroup = _subgroup_of_row(op.indices[-2]) if op.results and op.result.type.use == "a" else None
            if subgroup is not None:  # where the rows of its warpgroup begin
                row = b.sub(row, b.mul(b.and_(subgroup, WARPGROUP // SUBGROUP_SIZE - 1), ROWS))
            line = b.add(b.mul(b.shr(column, _log2(PANEL)), shape[-2] or 0), row)
            piece = b.shr(column, _log2(PIECE))
            if op.name != "matrix_load":  # which begins where rows and pieces are in order
                piece = b.xor(piece, row)
            offset = b.add(b.mul(line, PANEL), b.mul(b.and_(piece, PANEL // PIECE - 1), PIECE))
            if self.facts.alignment.of(op.indices[-1]) < _log2(PIECE):
                offset = b.add(offset, b.and_(column, PIECE - 1))
            for number, index in enumerate(outer):
                size = prod(extent or 0 for extent in shape[number + 1 :])
                offset = b.add(offset, b.mul(index, size))
            if down:
                offset = b.add(offset, down * PANEL)
        out += block.ops
        return offset


def _subgroup_of_row(row: Value) -> Value | None:
    """The number of the subgroup, of a row that is 16 times it, and some constant more."""
    op = row.owner
    while isinstance(op, Op) and op.name == "add" and constant_value(op.operands[1]) is not None:
        op = op.operands[0].owner
    if not isinstance(op, Op) or op.name not in ("mul", "shl"):
        return None
    number, factor = op.operands
    is_number = isinstance(number.owner, Op) and number.owner.name == "subgroup_id"
    return (
        number
        if is_number and constant_value(factor) == (ROWS if op.name == "mul" else _log2(ROWS))
        else None
    )


def _is_zero(value: Value) -> bool:
    op = value.owner
    return isinstance(op, Op) and op.name == "const" and op.attrs["value"] in (0, NEGATIVE_ZERO)


def _mark_followed(ops: Sequence[Op]) -> None:
    """Mark the products whose sums the next product of a block takes, or a wait for all that is begun."""
    before: Op | None = None
    for op in ops:
        is_product = op.definition is WARPGROUP_MUL_ADD
        if before is not None and (
            is_product or (op.definition is WARPGROUP_WAIT and not op.attrs["pending"])
        ):
            followed = op.operands[2:] if is_product else op.operands[: len(op.results)]
            if followed == before.results:
                before.attrs["is_followed"] = True
        if is_product:
            before = op
        elif not op.definition.is_pure:
            before = None


def _is_barrier(op: Op) -> bool:
    return op.name == "barrier" and op.attrs["scope"] != "subgroup"


def _to_barrier(ops: Sequence[Op]) -> tuple[Sequence[Op], bool]:
    """The ops up to a barrier, and whether there is one."""
    number = next((number for number, op in enumerate(ops) if _is_barrier(op)), None)
    return (ops, False) if number is None else (ops[:number], True)


def _log2(number: int) -> int:
    return number.bit_length() - 1
