"""The builder: what it makes, what it infers, and how it says that something does not fit."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_opt
from vyre_opt import Builder, DataType, DiagnosticError, ProgramError, parse, print_program
from vyre_opt.ir import Location, Source

U32, I8, F32, F16 = DataType.U32, DataType.I8, DataType.F32, DataType.F16


def test_a_program_reads_like_its_text() -> None:
    """The example of the builder's documentation."""
    b = Builder("scale", workgroup=256)
    x = b.buffer("x", F32, None, "read", binding=0)
    y = b.buffer("y", F32, None, "write", binding=1, live_out=True)
    i = b.global_id("x", name="i")
    with b.if_(b.lt(i, b.len(x))):
        b.store(b.mul(b.load(x, i), 2.0), y, i)
    text = print_program(b.finish())
    assert text == print_program(parse(text))
    assert "%4 = const 2.0 : f32" in text
    assert "store %5, @y[%i] : f32" in text


def test_numbers_take_the_type_of_the_other_operands() -> None:
    """Constants need no types where an operand tells them; an index is a u32."""
    b = Builder("p", 4)
    v = b.splat(b.const(1, I8), 4)
    assert b.add(v, -1).type is v.type
    assert b.select(True, 0.5, b.const(0, F16)).type is F16
    assert b.eq(b.const(3), 4).type is DataType.BOOL
    assert b.lt(v, 1).type is DataType.vec(DataType.BOOL, 4)
    assert b.vector(b.const(1), 2, 3).type is DataType.vec(U32, 3)


@pytest.mark.parametrize(
    ("value", "dtype", "encoded"),
    [(-1, I8, -1), (1.0, F16, 0x3C00), (2, F32, 0x40000000), (True, DataType.BOOL, 1),
     ([1, 1], DataType.vec(U32, 2), 1), ([1, 2], DataType.vec(U32, 2), (1, 2)), (np.uint8(7), U32, 7),
     (float("nan"), F32, 0x7FC00000), (np.float64(-0.0), F32, 0x80000000)],
)  # fmt: skip
def test_constants_from_python_values(value: object, dtype: DataType, encoded: object) -> None:
    """A Python or NumPy number is kept as the text form would be."""
    op = Builder("p", 4).const(value, dtype).owner  # type: ignore[arg-type]
    assert op.attrs["value"] == encoded  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(-1, U32), (256, DataType.U8), (1.5, U32), (True, U32), (1, DataType.BOOL), ([1, 2, 3], DataType.vec(U32, 2)),
     ([1, 2], U32), (1, DataType.TENSOR)],
)  # fmt: skip
def test_constants_that_do_not_fit_are_refused(value: object, dtype: DataType) -> None:
    """Wrapping in silence would hide a mistake of the kernel's author."""
    with pytest.raises(ValueError):  # noqa: PT011 (the sentence differs by case)
        Builder("p", 4).const(value, dtype)  # type: ignore[arg-type]


def test_python_keywords_take_an_underscore() -> None:
    """`and`, `or` and `not` are ops and Python words."""
    b = Builder("p", 4)
    result = b.or_(b.and_(b.const(1), 3), b.not_(b.const(5)))
    assert result.owner.name == "or"  # type: ignore[union-attr]


def test_mistakes_are_said_where_they_are_made() -> None:
    """Each with a name or a count in it, not as an assertion from inside."""
    b = Builder("p", 4)
    b.buffer("text", U32, 4, "read", 0)
    with pytest.raises(AttributeError, match="did you mean fma"):
        _ = b.fmaa
    with pytest.raises(TypeError, match="add takes 2 operands, 1 given"):
        b.add(b.const(1))
    with pytest.raises(TypeError, match="one operand at least as a value"):
        b.add(1, 2)
    with pytest.raises(ValueError, match="did you mean @text"):
        b.load("texts", 0)
    with pytest.raises(ValueError, match="already"):
        b.buffer("text", U32, 4, "read", 1)
    with pytest.raises(ValueError, match="no func @f"):
        b.call("f")
    with pytest.raises(ValueError, match="after the with block"), b.if_(True) as branch:
        _ = branch.results
    with pytest.raises(ValueError, match=r"loop\.condition"), b.while_():
        pass


def test_finish_verifies() -> None:
    """What the builder cannot see, the verifier reports with the op's location."""
    b = Builder("p", 4)
    b.loc = Location(Source("kernel text", "kernel.py"), 0, 6)
    b.add(b.const(1), b.const(1.0, F32))
    with pytest.raises(DiagnosticError, match=r"kernel\.py:1:1: error: add: 1\.0 is f32, not u32"):
        b.finish()


def test_nothing_is_left_of_a_block_that_failed() -> None:
    """An exception inside a with block leaves the builder where it stood before."""
    b = Builder("p", 4)
    with pytest.raises(TypeError), b.for_(0, 4):
        b.add(b.lane_id())
    b.lane_id()
    assert [op.name for op in b.finish().body.ops] == ["lane_id"]


def test_ops_go_where_they_are_told() -> None:
    """`at` inserts into a block of a finished program, in order."""
    module = parse("vyre 1 program @p workgroup(4) { %a = lane_id %z = add %a, %a : u32 }")
    b = Builder.on(module.programs["p"], module)
    with b.at(b.program.body, 1):
        b.add(b.const(1, name="one"), 2, name="three")
    assert [op.name for op in b.finish().body.ops] == ["lane_id", "const", "const", "add", "add"]


def test_while_condition_and_body_have_values_of_their_own() -> None:
    """loop.args changes with loop.condition; using the condition's in the body would not verify."""
    b = Builder("p", 4)
    with b.while_([b.const(0)]) as loop:
        first = loop.args[0]
        loop.condition(b.lt(first, 4))
        assert loop.args[0] is not first
        loop.yield_(b.add(loop.args[0], 1))
    assert loop.result.type is U32
    b.finish()


# --- operators, names of types, locations


def test_values_have_the_operators_of_python() -> None:
    b = Builder("p", workgroup=32)
    x = b.buffer("x", "f32", 32, "read", 0)
    b.buffer("y", "f32", 32, "write", 1)
    i = b.local_id()
    v = b.load(x, i)
    w = -(2 - v * 3.0 + 1 / (v + 1.5)) / 2
    j = ~((i << 1) ^ (i >> 1) & 7 | 1)
    inside = (i < 16) & (j >= 3) | (1 > i)
    b.store(b.select(inside, w, 0.0), "y", i)
    names = [op.name for op in b.finish().walk()]
    assert [n for n in names if n not in ("const", "local_id", "load", "store")] == [
        *("mul", "sub", "add", "div", "add", "neg", "div"),
        *("shl", "shr", "and", "xor", "or", "not", "lt", "ge", "and", "lt", "or", "select"),
    ]


def test_a_value_has_no_truth() -> None:
    b = Builder("p", workgroup=32)
    i = b.local_id()
    with pytest.raises(TypeError, match="has its value when the program runs"):
        bool(i < 4)
    with pytest.raises(TypeError, match=r"b\.div"):
        i // 2
    with pytest.raises(TypeError, match=r"b\.rem"):
        i % 2
    with pytest.raises(TypeError, match="/ is for floats"):
        i / 2


def test_types_may_be_given_by_name() -> None:
    b = Builder("p", workgroup=32)
    b.buffer("y", "bf16", 32, "write", 0)
    b.store(b.cast(b.const(3, "i16"), "bf16"), "y", b.local_id())
    assert b.finish().buffers["y"].dtype is DataType.BF16
    for wrong, error in (("f23", ValueError), (32, TypeError)):
        with pytest.raises(error):
            b.const(1, wrong)  # type: ignore[arg-type]


def test_ops_are_located_at_the_lines_that_build_them() -> None:
    b = Builder("p", workgroup=32)
    b.buffer("y", "u32", 4, "write", 0)
    b.store(7, "y", b.local_id())
    program = b.finish()
    with pytest.raises(ProgramError) as caught:
        vyre_opt.run(program, grid=1, lengths={"y": 4})
    assert str(caught.value).startswith(f"{__file__}:")
    assert 'b.store(7, "y", b.local_id())' in str(caught.value)


def test_a_builder_takes_a_preference() -> None:
    program = Builder("p", workgroup=4, prefer_shared=30).finish()
    assert "program @p workgroup(4) prefer(shared = 30) {" in print_program(program)
    with pytest.raises(DiagnosticError, match="0 to 100, not 130"):
        Builder("p", workgroup=4, prefer_shared=130).finish()
