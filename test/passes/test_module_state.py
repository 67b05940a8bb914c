"""What the pass manager takes for a change: an op that is another, unless it is equal."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.each import each

from vyre_opt.ir import Block, DataType, Launch, Module, Op, Value, parse
from vyre_opt.ir.rewrite import clone
from vyre_opt.passes.module_state import ModuleState

TEXT = """vyre 2
func @twice(%a : u32) -> u32 { %b = add %a, %a : u32 yield %b }
program @p workgroup(4) {
  buffer @x : u32[16] read binding(0)
  buffer @y : u32[16] write binding(1) live_out
  param @n : u32
  %l = local_id x
  %n = param @n
  %v = load @x[%l]
  %s = for %k = 0 to 4 step 1 iter(%a = %v : u32) {
    %b = sub %a, %n : u32
    yield %b
  }
  store %s, @y[%l] : u32
}
pipeline @main {
  buffer @x : u32[16] read
  buffer @y : u32[16] write live_out
  launch @p grid(1) (@x, @y) params(@n = 3)
}
"""


def sub(module: Module) -> Op:
    return next(op for op in module.programs["p"].walk() if op.name == "sub")


def rebuild(module: Module) -> None:
    """Ops, blocks and values that are others, and equal."""
    for body in (module.programs["p"], module.funcs["twice"]):
        args = tuple(Value("other", arg.type) for arg in body.body.args)
        body.body = Block(args, clone(body.body.ops, dict(zip(body.body.args, args, strict=True))))


def swap(module: Module) -> None:
    rebuild(module)
    op = sub(module)
    op.operands = op.operands[::-1]


def retype(module: Module) -> None:
    sub(module).result.type = DataType.I32


def set_param(module: Module) -> None:
    (launch,) = module.pipelines["main"].stages
    assert isinstance(launch, Launch)
    launch.params["n"] = ("int", "4")


CHANGES: dict[str, tuple[Callable[[Module], object], bool, bool]] = {
    "nothing": (lambda module: None, True, True),
    "equal ops": (rebuild, False, True),
    "another order of items": (lambda module: module.order.reverse(), False, True),
    "swapped operands": (swap, False, False),
    "a type": (retype, False, False),
    "an op less": (lambda module: module.programs["p"].body.ops.pop(), False, False),
    "a flag of a buffer": (
        lambda module: setattr(module.programs["p"].buffers["x"], "live_in", True),
        False,
        False,
    ),
    "a grid": (lambda module: setattr(module.programs["p"], "grid", (1, 1, 1)), False, False),
    "a value of a launch": (set_param, False, False),
    "an item less": (lambda module: module.remove(module.pipelines["main"]), False, False),
}


def test_what_is_a_change() -> None:
    def check(what: str) -> None:
        change, is_same, is_equal = CHANGES[what]
        module, state = parse(TEXT), ModuleState()
        state.refresh(module)
        change(module)
        assert state.is_same(module) is is_same
        if not is_same:
            assert state.is_equal(module) is is_equal
        state.refresh(module)
        assert state.is_same(module)

    each(CHANGES, check)


def test_an_operand_of_nowhere() -> None:
    module = parse(TEXT)
    op = sub(module)
    op.operands = (op.operands[0], Value("stray", DataType.U32))
    with pytest.raises(LookupError, match="@p has an operand that nothing defines"):
        ModuleState().refresh(module)
