"""Make a failing program small: drop ops one by one, as long as it still fails.

An op goes with all its uses, which get a zero of its type; a block's op may also be
replaced by its contents.  What is left of a few hundred ops is most often under ten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..ir.ops import OPS
from ..ir.parser import parse
from ..ir.printer import print_program
from ..ir.program import Block, Func, Module, Op, Program, Value
from ..ir.verifier import verify
from ..passes.rewrite import substitute

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
    """One pass over all ops from the last to the first."""
    number = _count(parse(text))
    while (number := number - 1) >= 0:
        for change in (_remove, _unwrap):
            module = parse(text)
            found = _nth(module, number)
            if found is None or not change(*found):
                continue
            smaller = _accepted(module, fails)
            if smaller is not None:
                text = smaller
                break
    return text


def _drop_declarations(text: str, fails: Fails) -> str:
    """Functions, buffers and constants that nothing needs."""
    known = parse(text)
    tables = [known.funcs, *(t for p in known.programs.values() for t in (p.buffers, p.specs))]
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


def _count(module: Module) -> int:
    return sum(1 for _ in _places(module))


def _nth(module: Module, number: int) -> tuple[Module, Block, Op] | None:
    for place, (block, op) in enumerate(_places(module)):
        if place == number:
            return module, block, op
    return None


def _remove(module: Module, block: Block, op: Op) -> bool:
    """Take an op out; zeros stand in for its results."""
    if op.definition.is_terminator or (op.name == "const" and op.attrs["value"] == 0):
        return False
    if any(not r.type.has_arithmetic for r in op.results):
        return False
    used = {operand for _, other in _places(module) for operand in other.operands}
    zeros = [
        Op(OPS["const"], (), (Value(r.name, r.type),), {"value": 0}) if r in used else None
        for r in op.results
    ]
    at = block.ops.index(op)
    block.ops[at : at + 1] = [zero for zero in zeros if zero is not None]
    _replace(module, {r: z.result for r, z in zip(op.results, zeros, strict=True) if z is not None})
    return True


def _unwrap(module: Module, block: Block, op: Op) -> bool:
    """Put the ops of a region, or of a branch of an if, in the place of the op."""
    if op.name not in ("if", "region"):
        return False
    inner = list(op.regions[0].ops)
    gives: tuple[Value, ...] = ()
    if inner and inner[-1].definition.is_terminator:
        gives = inner.pop().operands
    at = block.ops.index(op)
    block.ops[at : at + 1] = inner
    _replace(module, dict(zip(op.results, gives, strict=False)))
    return True


def _replace(module: Module, replaced: dict[Value, Value]) -> None:
    if replaced:
        for _, other in _places(module):
            substitute(other, replaced)
