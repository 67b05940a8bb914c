"""Patterns as terms and as functions, and the driver that applies them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from vyre_opt import (
    DataType,
    Pattern,
    Rewriter,
    apply_patterns,
    const,
    one_use,
    op,
    parse,
    pattern,
    pattern_on,
)
from vyre_opt.ir import DiagnosticError, Op, errors_of
from vyre_opt.rewriting.driver import MAX_DEPTH
from vyre_opt.rewriting.pattern import Replacement

TEXT = """vyre 1

program @p workgroup(64) {{
  buffer @x : {0}[64] read binding(0)
  buffer @y : {0}[64] read binding(1)
  buffer @r : {1}[64] write binding(2) live_out
  %i = local_id x
  %x = load @x[%i] : {0}
  %y = load @y[%i] : {0}
{2}
  store %r, @r[%i] : {1}
}}
"""


def rewritten(body: str, *patterns: Pattern, t: str = "u32", result: str = "", **options: Any) -> list[str]:
    """The ops of a body after the patterns, without those that load and store."""
    module = parse(TEXT.format(t, result or t, body))
    apply_patterns(module, patterns, **options)
    assert not errors_of(module)
    lines = [line.strip() for line in str(module).splitlines()]
    begin = next(n for n, line in enumerate(lines) if line.startswith("%y = load"))
    return lines[begin + 1 : next(n for n, line in enumerate(lines) if line.startswith("store"))]


SHIFT = pattern(op.mul("x", 2), op.shl("x", 1), types="int")


def test_the_shortest() -> None:
    body = "%c = const 2 : {0}\n%r = mul %x, %c : {0}"
    assert rewritten(body.format("u32"), SHIFT)[1:] == ["%c1 = const 1 : u32", "%r = shl %x, %c1 : u32"]
    vector = rewritten(body.format("vec<2 x i8>"), SHIFT, t="vec<2 x i8>")
    assert vector[-1] == "%r = shl %x, %c_1 : vec<2 x i8>"
    unchanged = rewritten("%c = const 2.0 : f32\n%r = mul %x, %c : f32", SHIFT, t="f32")
    assert unchanged[-1] == "%r = mul %x, %c : f32", "floats only where the pattern says why"


def test_commutative_operands_match_in_both_orders() -> None:
    body = "%c = const 2 : u32\n%a = mul %x, %y : u32\n%r = {} : u32"
    fuse = pattern(op.sub("z", op.mul("x", "y")), op.add("z", op.mul(op.neg("x"), "y")), types="signed")
    assert rewritten(body.format("mul %c, %x"), SHIFT)[-1] == "%r = shl %x, %c1 : u32"
    both = pattern(op.or_(op.and_("x", "y"), op.not_("x")), "y", types="int")
    for inner in ("and %x, %y", "and %y, %x"):
        for outer in ("or %a, %n", "or %n, %a"):
            lines = rewritten(
                f"%a = {inner} : u32\n%n = not %x : u32\n%r = {outer} : u32\n%s = add %r, %r : u32", both
            )
            assert lines[-1] == "%s = add %y, %y : u32"
    assert rewritten(body.format("sub %a, %c"), fuse)[-1] == "%r = sub %a, %c : u32", "sub is not commutative"


@pytest.mark.parametrize(
    ("value", "shift"), [(1, None), (8, 3), (12, None), (1 << 31, 31)], ids=["one", "8", "12", "highest"]
)
def test_a_guard_and_a_build_compute_with_constants(value: int, shift: int | None) -> None:
    power = pattern(
        op.div("x", const("c")),
        lambda x, c: op.shr(x, c.bit_length() - 1),
        where=lambda c: c > 1 and c & (c - 1) == 0,
        types="unsigned",
    )
    lines = rewritten(f"%c = const {value} : u32\n%r = div %x, %c : u32", power)
    expected = f"%r = shr %x, %c{shift}_1 : u32" if shift == value else f"%r = shr %x, %c{shift} : u32"
    assert lines[-1] == (expected if shift else "%r = div %x, %c : u32")


@pytest.mark.parametrize(
    ("flags", "applies"),
    [(("", ""), False), (("contract", ""), False), (("contract", "contract, nnan"), True)],
)
def test_floats_are_rewritten_as_their_flags_allow(flags: Sequence[str], applies: bool) -> None:
    """Every matched op has to have the flag, and new ops have what allows to compute otherwise, of all of them."""
    fuse = pattern(op.add(op.mul("x", "y"), "z"), op.fma("x", "y", "z"), types="float", floats="contract")
    shown = [f" fastmath<{flag}>" if flag else "" for flag in flags]
    body = f"%a = mul %x, %y{shown[0]} : f32\n%r = add %a, %x{shown[1]} : f32"
    last = rewritten(body, fuse, t="f32")[-1]
    assert last == ("%r = fma %x, %y, %x fastmath<contract> : f32" if applies else body.splitlines()[-1])


def test_float_constants_are_compared_by_their_bits() -> None:
    neutral = pattern(op.add("x", -0.0), "x", floats="exact")
    for value, stays in (("0.0", True), ("-0.0", False)):
        body = f"%c = const {value} : f32\n%a = add %x, %c : f32\n%r = neg %a : f32"
        assert rewritten(body, neutral, t="f32")[-1] == f"%r = neg {'%a' if stays else '%x'} : f32"


def test_one_use() -> None:
    """A value with another use is left alone, until that use is rewritten away, in whatever order they stand."""
    once = pattern(op.add(one_use(op.mul("x", "y")), "z"), op.sub("z", "x"), types="int", name="once")
    drop = pattern(op.xor("x", "y"), "y", types="int", name="drop")
    body = "%a = mul %x, %y : u32\n%b = add %a, %x : u32\n%c = xor %a, %b : u32\n%r = or %b, %c : u32"
    assert "%b = add %a, %x : u32" in rewritten(body, once)
    assert "%b = sub %x, %x : u32" in rewritten(body, once, drop)
    dead = body.replace("or %b, %c", "or %b, %b")
    assert "%b = sub %x, %x : u32" in rewritten(dead, once), "an op that nobody uses counts for nothing"


def test_ops_of_a_build_are_matched_in_turn() -> None:
    chain = [
        pattern(op.popcount("x"), op.clz(op.ctz("x")), types="u32"),
        pattern(op.ctz("x"), op.not_("x"), types="u32"),
        pattern(op.clz(op.not_("x")), op.add("x", 7), types="u32"),
    ]
    assert rewritten("%r = popcount %x : u32", *chain)[-2:] == [
        "%c7 = const 7 : u32",
        "%r = add %x, %c7 : u32",
    ]


def test_types_of_what_is_built_follow_from_the_match() -> None:
    twice = pattern(op.cast(op.cast("x")), op.cast("x"), where=lambda x, root: x.type is DataType.U8)
    body = "%a = cast %x : u8 -> u16\n%r = cast %a : u16 -> u32"
    assert rewritten(body, twice, t="u8", result="u32")[-1] == "%r = cast %x : u8 -> u32"
    zero = pattern(op.xor("x", "x"), 0, types="bits")
    assert rewritten("%r = xor %x, %x : u32", zero)[-1] == "%r = const 0 : u32"
    lane = pattern(op.extract(op.splat("x"), index=1), "x")
    for index, last in ((0, "extract %v[0] : vec<2 x u32>"), (1, None)):
        lines = rewritten(f"%v = splat %x : vec<2 x u32>\n%r = extract %v[{index}] : vec<2 x u32>", lane)
        assert lines[-1] == (f"%r = {last}" if last else "%v = splat %x : vec<2 x u32>")


def test_a_function_may_rewrite_in_place_build_control_flow_and_erase() -> None:
    @pattern_on("barrier")
    def no_barrier(op: Op, rewriter: Rewriter) -> Replacement:
        return () if op.attrs["scope"] == "subgroup" else None

    @pattern_on("max")
    def branch(op: Op, rewriter: Rewriter) -> Replacement:
        with rewriter.if_(rewriter.gt(*op.operands)) as choice:
            choice.yield_(op.operands[0])
        with choice.else_():
            choice.yield_(op.operands[1])
        return choice.results[0]

    lines = rewritten("barrier subgroup\nbarrier workgroup\n%r = max %x, %y : u32", no_barrier, branch)
    assert lines[:2] == ["barrier workgroup", "%gt = gt %x, %y : u32"]
    assert lines[2].startswith("%r = if %gt -> u32 {")


def test_folding_is_asked_for() -> None:
    body = "%a = const 2 : u32\n%b = const 3 : u32\n%r = add %a, %b : u32"
    assert rewritten(body, SHIFT)[-1] == "%r = add %a, %b : u32"
    assert rewritten(body, SHIFT, fold=True)[-1] == "%r = const 5 : u32"


# --- the driver


def chain(length: int) -> str:
    ops = ["%c2 = const 2 : u32", "%v0 = mul %x, %c2 : u32"]
    ops += [f"%v{n} = mul %v{n - 1}, %c2 : u32" for n in range(1, length)]
    return "\n".join([*ops, f"%r = add %v{length - 1}, %y : u32"])


def test_the_work_is_linear() -> None:
    """Each op is tried once, and once more for each rewrite of it: nothing settled is visited again."""
    tried: list[str] = []

    @pattern_on("mul", "shl", "add", "const")
    def count(op: Op, rewriter: Rewriter) -> Replacement:
        tried.append(op.name)
        return None

    for length in (100, 1000):
        tried.clear()
        rewritten(chain(length), count, SHIFT)
        # the constants that are built are tried too
        assert len(tried) == 1 + 3 * length + 1


def test_a_long_chain_of_one_use_is_no_deep_recursion() -> None:
    drop = pattern(one_use(op.mul("x", 2)), "x", types="int")
    assert len(rewritten(chain(3000), drop, SHIFT)) == 2


SWAP = pattern(op.sub("x", "y"), op.neg(op.sub("y", "x")), types="int", name="swap")
IN_PLACE = [pattern(op.shl("x", 1), op.mul("x", 2), types="int", name="to mul"), SHIFT]


@pytest.mark.parametrize(
    ("patterns", "names"),
    [([SWAP], "swap"), (IN_PLACE, "to mul")],
    ids=["grows", "ping-pong"],
)
@pytest.mark.parametrize("fold", [False, True])
def test_patterns_that_never_end_are_named(patterns: list[Pattern], names: str, fold: bool) -> None:
    body = "%c = const 1 : u32\n%s = shl %x, %c : u32\n%r = sub %s, %y : u32"
    with pytest.raises(
        DiagnosticError, match=f"still apply after {MAX_DEPTH} rewrites of one op.*{names}"
    ) as caught:
        rewritten(body, *patterns, fold=fold)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.loc is not None
    assert diagnostic.loc.line in (11, 12)


@pattern_on("not")
def changes_nothing(op: Op, rewriter: Rewriter) -> Replacement:
    return True


@pattern_on("not")
def another_type(op: Op, rewriter: Rewriter) -> Replacement:
    return rewriter.const(1, DataType.U8)


@pattern_on("not")
def no_value(op: Op, rewriter: Rewriter) -> Replacement:
    return ()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (changes_nothing, "the last were: changes_nothing"),
        (another_type, "pattern another_type replaces (u32), the results of not, by (u8)"),
        (no_value, "pattern no_value replaces (u32), the results of not, by ()"),
        (
            pattern(op.not_("x"), op.add("x", 1 << 40), types="int", name="large"),
            "pattern large: 1099511627776",
        ),
        (pattern(op.not_("x"), op.sqrt("x"), types="int", name="odd"), None),
    ],
    ids=lambda value: value.name if isinstance(value, Pattern) else "",
)
def test_wrong_patterns_are_errors_at_the_op(wrong: Pattern, message: str | None) -> None:
    if message is None:  # the verifier's business
        with pytest.raises(AssertionError):
            rewritten("%r = not %x : u32", wrong)
        return
    with pytest.raises(DiagnosticError, match=re.escape(message)) as caught:
        rewritten("%r = not %x : u32", wrong)
    assert caught.value.diagnostics[0].loc is not None


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda: op.mull("x", 2), "no op mull; did you mean mul?"),
        (lambda: pattern_on("for"), "a pattern rewrites no for: only ops without blocks"),
        (lambda: pattern(op.mul("x"), "x"), "mul %x: mul takes 2 operands"),
        (lambda: pattern(op.mul("x", None), "x"), "None is no name, number, const(...) or op"),
        (lambda: pattern(op.mul("x", "y"), "z"), "'z' is no name of mul %x, %y"),
        (lambda: pattern(op.mul("x", "y"), lambda z: z), "'z' is no name of mul %x, %y"),
        (lambda: pattern(op.mul("x", "y"), "x", where=lambda q: True), "'q' is no name of mul %x, %y"),
        (lambda: pattern(op.load("x"), "x"), "load does more than compute one result; use pattern_on"),
        (lambda: pattern(op.extract("x", lane=1), "x"), "extract has no attribute lane"),
        (lambda: pattern(op.add("x", 0), "x", types="float"), 'say why it holds for floats: floats="exact"'),
        (lambda: pattern(op.add("x", 0), "x", types="f32 u8"), 'say why it holds for floats: floats="exact"'),
        (lambda: pattern(op.add("x", 0), "x", floats="fast"), "floats: exact, or flags of contract"),
        (lambda: pattern(op.add("x", 0), "x", types="integer"), "integer"),
        (lambda: apply_patterns(parse("vyre 1"), [max]), "patterns are made by pattern and pattern_on"),  # type: ignore[list-item]
    ],
)
def test_what_is_written_wrongly_is_an_error_at_once(write: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        write()


def test_asking_for_uses_is_declared() -> None:
    @pattern_on("not")
    def asks(op: Op, rewriter: Rewriter) -> Replacement:
        rewriter.has_one_use(op.operands[0])
        return None

    with pytest.raises(TypeError, match="counts_uses=True"):
        rewritten("%r = not %x : u32", asks)


def test_a_pattern_is_named_by_what_it_says() -> None:
    assert SHIFT.name == "mul %x, 2 -> shl %x, 1"
    nested = pattern(op.add(op.mul("x", const("c")), "y"), op.fma("x", "c", "y"), floats="contract")
    assert nested.name == "add (mul %x, const %c), %y -> fma %x, %c, %y"
