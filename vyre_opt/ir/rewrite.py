"""Tools of rewrites: the bodies of a module, substitution, constants, names, cloning, removing results."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from .loops import inits
from .ops import OPS
from .program import NO_ATTRS, Block, Func, Module, Op, Program, Unnamed, Value
from .types import DataType


def bodies(module: Module) -> Iterator[Block]:
    """The bodies of programs and functions, in the order of the text."""
    for item in module.order:
        if isinstance(item, Program | Func):
            yield item.body


def substitute(op: Op, replaced: Mapping[Value, Value]) -> None:
    """Replace the operands of `op` that `replaced` names; not those of ops in its regions."""
    operands = op.operands
    for operand in operands:
        if operand in replaced:
            op.operands = tuple([replaced.get(v, v) for v in operands])
            return


def constant(value: Any, dtype: DataType, name: str, like: Op) -> Op:
    """A `const` of an encoded value, located at `like`."""
    return Op(OPS["const"], (), (Value(Unnamed(name), dtype),), {"value": value}, (), like.loc)


def constant_name(value: Any, dtype: DataType) -> Unnamed:
    """Name of a constant that no author named, where the text needs one."""
    return Unnamed(f"c{value}" if dtype.is_int and value >= 0 else "c")


def constant_value(value: Value) -> Any:
    """The encoded constant (an int, or a tuple of lanes) if a `const` defines `value`, else None."""
    owner = value.owner
    return owner.attrs["value"] if isinstance(owner, Op) and owner.definition.format == "const" else None


def fresh_name(name: str, used: Container[str]) -> str:
    """`name`, or `name_1`, `name_2`, ..., the first that is not used."""
    number, fresh = 0, name
    while fresh in used:
        number += 1
        fresh = f"{name}_{number}"
    return fresh


def become(op: Op, name: str, operands: tuple[Value, ...], attrs: dict[str, Any] = NO_ATTRS) -> bool:
    """Turn `op` into another op without regions, in place; it keeps its results and its location.

    A constant is one without a name: what the author named was the computation.  Returns True, so that a rewrite rule
    can end with it.
    """
    op.definition, op.operands, op.attrs = OPS[name], operands, attrs
    if name == "const":
        op.result.name = Unnamed(op.result.name)
    return True


def clone(ops: Iterable[Op], mapping: dict[Value, Value]) -> list[Op]:
    """Copies of `ops` with new values.

    `mapping` replaces operands; the old results and block arguments are added to it.
    """
    return [_clone_op(op, mapping) for op in ops]


def _clone_op(op: Op, mapping: dict[Value, Value]) -> Op:
    operands = tuple([mapping.get(v, v) for v in op.operands])
    results = tuple([Value(r.name, r.type) for r in op.results])
    regions: list[Block] = []
    for block in op.regions:
        args = tuple([Value(a.name, a.type) for a in block.args])
        mapping.update(zip(block.args, args, strict=True))
        regions.append(Block(args, [_clone_op(inner, mapping) for inner in block.ops]))
    mapping.update(zip(op.results, results, strict=True))
    return Op(op.definition, operands, results, op.attrs, tuple(regions), op.loc)


def operands_within(op: Op) -> Iterator[Value]:
    """The operands of an op, and of those in its regions."""
    return (value for inner in op.walk() for value in inner.operands)


def needed_ops(ops: Sequence[Op], values: Iterable[Value], known: Container[Value] = ()) -> list[Op]:
    """Ops of `ops` that compute the values, in their order.  `known`: values that need no computing."""
    needed = {value for value in values if value not in known}
    chosen: list[Op] = []
    for op in reversed(ops):
        if not needed.isdisjoint(op.results):
            chosen.append(op)
            needed.update(value for value in operands_within(op) if value not in known)
    return chosen[::-1]


def conditional(
    condition: Value,
    block: Block,
    values: Sequence[Value],
    other: Block,
    others: Sequence[Value],
    like: Op,
) -> Op:
    """An `if` located at `like`, with the values of a block where the condition holds, those of the other one elsewhere.

    Both blocks get their ends here; the results have the names and types of `values`.
    """
    if values:
        block.ops.append(Op(OPS["yield"], tuple(values), loc=like.loc))
        other.ops.append(Op(OPS["yield"], tuple(others), loc=like.loc))
    results = tuple([Value(value.name, value.type) for value in values])
    return Op(OPS["if"], (condition,), results, regions=(block, other), loc=like.loc)


def splittable(block: Block) -> tuple[list[Op], tuple[Value, ...]]:
    """The ops of `block` without its terminator, and the values that this one yields."""
    end = block.terminator
    return (block.ops, ()) if end is None else (block.ops[:-1], end.operands)


def keep_results(op: Op, keep: Sequence[bool]) -> None:
    """Remove the results of a structured op for which `keep` is false.

    The iteration arguments, initial values and yielded values of these results go with them.
    """

    def select(values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple([v for v, is_kept in zip(values, keep, strict=True) if is_kept])

    if op.name in ("for", "while"):
        start = len(op.operands) - len(op.results)  # after the dynamic bounds of a for
        assert op.operands[start:] == inits(op)
        op.operands = (*op.operands[:start], *select(op.operands[start:]))
    for block in op.regions:
        if op.name in ("for", "while"):
            start = len(block.args) - len(op.results)  # after the counter of a for
            block.args = (*block.args[:start], *select(block.args[start:]))
        end = block.terminator
        if end is not None and end.name == "yield":  # a `condition` gives no results
            end.operands = select(end.operands)
            if not end.operands:  # the IR has no bare yield
                block.ops = block.ops[:-1]
    op.results = select(op.results)
