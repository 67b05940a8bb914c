"""Make a failing program small: drop ops, as long as it still fails.

Uses of a removed op's result get a zero of its type; an op with a block may also be
replaced by the ops of the block.  Of a few hundred ops about ten are left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from vyre_opt.ir.ops import OPS
from vyre_opt.ir.parser import parse
from vyre_opt.ir.printer import print_program
from vyre_opt.ir.program import Block, Func, Module, Op, Program, Value
from vyre_opt.ir.rewrite import substitute
from vyre_opt.ir.verifier import verify

__all__ = ["reduce_text"]

Fails = Callable[[Module], bool]


def reduce_text(text: str, fails: Fails, rounds: int = 4) -> str:
    """A smaller text for which `fails` still holds.  `fails` may change the module it gets."""
    for _ in range(rounds):
        before = text
        text = _drop_declarations(_drop_ops(text, fails), fails)
        if text == before:
            break
    return text


def _drop_ops(text: str, fails: Fails) -> str:
    """Drop ranges of ops from the last to the first: long ranges, then shorter ones, then single ops."""
    size = max(1, sum(1 for _ in _places(parse(text))) // 2)
    while True:
        stop = sum(1 for _ in _places(parse(text)))
        while stop > 0:
            start = max(0, stop - size)
            for change in (_remove, _unwrap) if size == 1 else (_remove,):
                module = parse(text)
                smaller = _accepted(module, fails) if change(module, start, stop) else None
                if smaller is not None:
                    text = smaller
                    break
            stop = start
        if size == 1:
            return text
        size = max(1, size // 3)


def _drop_declarations(text: str, fails: Fails) -> str:
    """Drop functions, buffers and constants without which the text still verifies and fails."""
    original = parse(text)
    tables = [original.funcs, *(t for p in original.programs.values() for t in (p.buffers, p.specs))]
    for name in [name for table in tables for name in table]:
        module = parse(text)
        for func in [f for f in module.funcs.values() if f.name == name]:
            module.remove(func)
        for program in module.programs.values():
            program.buffers.pop(name, None)
            program.specs.pop(name, None)
        text = _accepted(module, fails) or text
    return text


def _accepted(module: Module, fails: Fails) -> str | None:
    """The module's text, if it verifies and still fails."""
    if any(d.severity == "error" for d in verify(module)):
        return None
    text = print_program(module)
    return text if fails(parse(text)) else None


def _places(module: Module) -> Iterator[tuple[Block, Op]]:
    """Every op with its block, in program order."""

    def walk(block: Block) -> Iterator[tuple[Block, Op]]:
        for op in block.ops:
            yield block, op
            for inner in op.regions:
                yield from walk(inner)

    for item in module.order:
        if isinstance(item, Program | Func):
            yield from walk(item.body)


def _remove(module: Module, start: int, stop: int) -> bool:
    """Take out the ops of a range with all that is in them; zeros stand in for results still needed."""
    places = list(_places(module))
    removed = [(block, op) for block, op in places[start:stop] if _removable(op)]
    removed_ops = {inner for _, op in removed for inner in op.walk()}
    needed = {operand for _, op in places if op not in removed_ops for operand in op.operands}
    zeros_for: dict[Value, Value] = {}
    changed = False
    for block, op in removed:
        results = [result for result in op.results if result in needed]
        if op.name == "const" and op.attrs["value"] == 0 and results:
            continue
        zeros = [Op(OPS["const"], (), (Value(r.name, r.type),), {"value": 0}) for r in results]
        at = block.ops.index(op)
        block.ops[at : at + 1] = zeros
        zeros_for.update(zip(results, [zero.result for zero in zeros], strict=True))
        changed = True
    _replace(module, zeros_for)
    return changed


def _removable(op: Op) -> bool:
    return not op.definition.is_terminator and all(r.type.has_arithmetic for r in op.results)


def _unwrap(module: Module, start: int, stop: int) -> bool:
    """Put the ops of a region, or of the first branch of an if, in the place of the op."""
    block, op = list(_places(module))[start]
    if op.name not in ("if", "region"):
        return False
    ops = list(op.regions[0].ops)
    yielded: tuple[Value, ...] = ()
    if ops and ops[-1].definition.is_terminator:
        yielded = ops.pop().operands
    at = block.ops.index(op)
    block.ops[at : at + 1] = ops
    _replace(module, dict(zip(op.results, yielded, strict=False)))
    return True


def _replace(module: Module, replaced: dict[Value, Value]) -> None:
    if replaced:
        for _, other in _places(module):
            substitute(other, replaced)
