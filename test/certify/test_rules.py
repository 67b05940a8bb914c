"""Rewrite rules, folds, and what the lowerings write for each op: proved for all bytes here, for more in slow tests.

`make rules` does it all and writes docs/results/rules.json.  Each kind of proof is also given something wrong.
"""

from __future__ import annotations

import numpy as np
import pytest
import z3
from support.each import each
from support.quick import quick
from support.rules.compiled_ops import compare_with_interpreter
from support.rules.evaluate import evaluate
from support.rules.folds import check_bytes, check_patterns, check_samples, foldable, unary_on_halves
from support.rules.identities import RuleProof, firings, prove_firings, prove_rules, rule_names
from support.rules.llvm_terms import LlvmResult, Unreadable, read
from support.rules.lowered_ops import LOWERINGS
from support.rules.lowerings import LoweredOp, lowered_ops, prove_lowering, prove_program
from support.rules.proving import PROVED, REFUTED, UNKNOWN, prove
from support.rules.ranges import RANGED, bounded_programs, wrong_ranges
from support.rules.report import Line, Results, measure, merged
from support.rules.values import INTS, SCALARS

from vyre_opt.certify import op_terms
from vyre_opt.ir import DataType, Op
from vyre_opt.ir.rewrite import become
from vyre_opt.passes import Pattern, Rewriter, pattern_on
from vyre_opt.rewriting.identities import RULES
from vyre_opt.rewriting.identities.rules import scalar
from vyre_opt.rewriting.pattern import Replacement

BOOL, U8, I8, F16 = DataType.BOOL, DataType.U8, DataType.I8, DataType.F16
FLOAT_RULES = {"_float_neutral", "_float_reciprocal", "_fma"}


# --- rewrite rules


def test_every_rule_fires_on_some_pattern() -> None:
    """Guards against a rule that the patterns do not reach, whose proof would say nothing."""
    fired = {"_global_id"}  # no function of operands; its proof is below
    for rule in RULES:
        for name in rule.roots:
            cases = (case for t in (U8, I8, BOOL, F16) for case in firings(name, rule, t))
            if rule.name not in fired and next(cases, None) is not None:
                fired.add(rule.name)
    assert fired == {*rule_names()}


def test_rules_on_bytes() -> None:
    many, unsigned = "_cast_twice", ["_power_of_two", "_abs"]  # casts: from and through every type
    proofs = prove_rules([BOOL, I8], rules=[name for name in rule_names() if name not in (many, *unsigned)])
    for proof in [*proofs, *prove_rules([U8], rules=[many, *unsigned])]:
        assert not proof.counterexamples
        assert {*proof.types.values()} <= {PROVED}, (proof.rule, proof.types)
        assert proof.types or proof.rule in FLOAT_RULES, proof.rule


@pytest.mark.campaign
@pytest.mark.parametrize("dtype", [t for t in SCALARS if not t.is_float], ids=str)
def test_rules_on_integers(dtype: DataType) -> None:
    """Casts of doubles, and divisions of 64 bits, may take z3 more than its time."""
    for proof in prove_rules([dtype]):
        assert not proof.counterexamples
        open_ = {types for types, verdict in proof.types.items() if verdict != PROVED}
        assert not open_ or "f64" in " ".join(open_) or dtype.bits == 64, (proof.rule, open_)


@pytest.mark.campaign
def test_rules_on_floats() -> None:
    """Zeros of both signs, subnormals, infinities and NaNs of f16.  For fma, which takes minutes, see `make rules`."""
    for proof in prove_rules([F16], seconds=20):
        assert not proof.counterexamples
        assert {*proof.types.values()} <= {PROVED} or proof.rule == "_fma", (proof.rule, proof.types)


@pattern_on("div")
def _shift_of_a_signed_quotient(op: Op, rewriter: Rewriter) -> Replacement:
    known = scalar(op.operands[1])
    if known != 4:
        return None
    return become(op, "shr", (op.operands[0], rewriter.encoded_const(2, op.result.type)))


@pattern_on("add")
def _positive_zero_is_neutral(op: Op, rewriter: Rewriter) -> Replacement:
    return op.operands[0] if scalar(op.operands[1]) == 0 else None


@pattern_on("xor")
def _constant_forgotten(op: Op, rewriter: Rewriter) -> Replacement:
    return op.operands[0] if scalar(op.operands[1]) is not None else None


@pattern_on("eq")
def _always_equal(op: Op, rewriter: Rewriter) -> Replacement:
    return become(op, "const", (), {"value": 1}) if op.operands[0] is op.operands[1] else None


@pytest.mark.parametrize(
    ("wrong", "dtype"),
    [
        (_shift_of_a_signed_quotient, I8),
        (_positive_zero_is_neutral, F16),
        (_constant_forgotten, U8),
        (_always_equal, F16),
    ],
)
def test_a_wrong_rule_is_refuted(wrong: Pattern, dtype: DataType) -> None:
    """Guards against proofs that prove anything: -1 / 4 is no shift, -0.0 + 0.0 is 0.0, NaN == NaN is false."""
    proof = RuleProof(wrong.name)
    prove_firings(proof, firings(wrong.roots[0], wrong, dtype), 10)
    assert proof.types == {dtype.name: REFUTED}
    assert proof.counterexamples


def test_cases_must_be_all_cases() -> None:
    x = z3.BitVec("x", 8)
    even = x & 1 == 0
    assert prove([(x * 2) & 1 == 0], 5, [[even], [z3.Not(even)]]).verdict == PROVED
    assert prove([x * x >= x], 5, [[x == 0], [x == 1]]).verdict == REFUTED
    left_out = prove([x != 7], 5, [[z3.ULT(x, 7)], [z3.UGT(x, 7)]])
    assert left_out.verdict == REFUTED
    assert "7" in left_out.counterexample


# --- folds


def test_folds_of_bytes() -> None:
    def check_some(op: LoweredOp) -> None:
        check = check_bytes(op, step=5)
        assert not check.wrong
        assert check.checked >= 52

    each(foldable(8), check_some)


@pytest.mark.campaign
@pytest.mark.parametrize("op", [*foldable(8)], ids=str)
def test_folds_of_all_bytes(op: LoweredOp) -> None:
    check = check_bytes(op)
    assert not check.wrong
    assert check.checked in (1 << 8, 1 << 16)


@pytest.mark.campaign
@pytest.mark.parametrize(
    "op", [op for op in foldable() if not (op.name == "rem" and op.type.is_float)], ids=str
)
def test_folds_of_samples(op: LoweredOp) -> None:
    check = check_samples(op, 100)
    assert not check.wrong
    assert check.open < check.checked


@pytest.mark.campaign
@pytest.mark.parametrize("op", [*unary_on_halves()], ids=str)
def test_folds_of_all_halves(op: LoweredOp) -> None:
    """Every f16, where an op takes one operand."""
    check = check_patterns(op)
    assert not check.wrong
    # no more than the roots of negative numbers are left open
    assert check.open <= (1 << 11) + (1 << 15) * (op.name == "sqrt")


def test_a_wrong_fold_would_differ() -> None:
    """Guards against a comparison that cannot fail: the same term of the other signedness differs."""
    a, b = (z3.BitVec(name, 8) for name in "ab")
    grid = np.meshgrid(np.arange(256), np.arange(256))
    columns = {"a": grid[0].ravel(), "b": grid[1].ravel()}
    signed, unsigned = (evaluate(op_terms.term("div", t, [a, b]), columns) for t in (I8, U8))
    assert np.count_nonzero(signed != unsigned) > 1 << 14


# --- lowered ops


@pytest.mark.parametrize("lowering", ["nvptx", "cpu lanes"])
def test_lowered_ops_on_bytes(lowering: str) -> None:
    ops = [op for op in lowered_ops() if op.widest <= 8]
    assert len({op.name for op in ops}) > 30
    for op in ops:
        assert prove_lowering(op, lowering, 10).verdict == PROVED, op


UNDECIDED = {"add", "sub", "mul", "div", "abs_diff", "fma", "sqrt"}
"""Arithmetic of f16 and bf16, which is that of f32 and a rounding: too much for z3 in its time."""


@pytest.mark.campaign
@pytest.mark.parametrize("lowering", LOWERINGS)
@pytest.mark.parametrize("dtype", SCALARS, ids=str)
def test_lowered_ops(lowering: str, dtype: DataType) -> None:
    """Every op on every type.  What z3 does not read or decide is run beside the interpreter."""
    for op in lowered_ops():
        if op.type is not dtype:
            continue
        is_half = dtype.name in ("f16", "bf16")
        try:
            verdict = (
                UNKNOWN if is_half and op.name in UNDECIDED else prove_lowering(op, lowering, 10).verdict
            )
        except Unreadable:
            assert op.name == "rem"
            assert dtype.is_float
            verdict = UNKNOWN
        if verdict == UNKNOWN:
            assert op.name in ("cast", "rem") or dtype.is_float, op  # a slow machine decides less
            tried, differing = compare_with_interpreter(op)
            assert tried >= 1 << 16
            assert not differing, op
        else:
            assert verdict == PROVED, op


def test_a_bitcast_of_f16_keeps_signalling_nans_as_compiled() -> None:
    """What LLVM's rules leave open (see `_same_or_nan`), its optimiser must not use: all bits are kept."""
    for target in (DataType.U16, DataType.I16, DataType.BF16):
        assert compare_with_interpreter(LoweredOp("bitcast", target, F16), any_nan=False) == (1 << 16, 0)


def _llvm(body: str) -> LlvmResult:
    arguments = [z3.BitVec(name, 8) for name in "ab"]
    return read(f"define i8 @f(i8 %a, i8 %b) {{\n{body}\n  ret i8 %r\n}}", arguments)


@pytest.mark.parametrize(
    ("body", "undefined", "poison"),
    [
        ("  %r = udiv i8 %a, %b", True, False),
        ("  %b1 = or i8 %b, 1\n  %r = udiv i8 %a, %b1", False, False),
        ("  %b1 = or i8 %b, 1\n  %r = sdiv i8 %a, %b1", True, False),  # by -1
        ("  %b1 = and i8 %b, 6\n  %b2 = or i8 %b1, 1\n  %r = srem i8 %a, %b2", False, False),
        ("  %r = shl i8 %a, %b", False, True),
        ("  %b1 = and i8 %b, 7\n  %r = lshr i8 %a, %b1", False, False),
        ("  %b1 = and i8 %b, 8\n  %r = ashr i8 %a, %b1", False, True),
        ("  %s = shl i8 %a, %b\n  %c = icmp ult i8 %b, 8\n  %r = select i1 %c, i8 %s, i8 0", False, False),
        ("  %s = shl i8 %a, 9\n  %t = or i8 %s, 1\n  %r = udiv i8 %a, %t", True, False),  # by poison
    ],
)
def test_what_llvm_leaves_undefined_is_noticed(body: str, undefined: bool, poison: bool) -> None:
    """Guards against a reader that takes an unguarded division or shift for a defined one."""
    result = _llvm(body)
    assert (prove([z3.Not(result.undefined)], 10).verdict == REFUTED) is undefined
    assert (prove([z3.Not(result.poison)], 10).verdict == REFUTED) is poison


@pytest.mark.parametrize(
    "body",
    [
        "  %r = add nsw i8 %a, %b",
        "  %f = uitofp i8 %a to float\n  %r = fptoui float %f to i8",
        "  %r = call i8 @llvm.ctlz.i8(i8 %a, i1 true)",
        "  br label %next\nnext:\n  %r = add i8 %a, %b",
    ],
)
def test_what_has_no_term_is_not_guessed(body: str) -> None:
    """Flags that make poison, conversions out of range, loops: refused, not taken for something else."""
    text = f"declare i8 @llvm.ctlz.i8(i8, i1)\ndefine i8 @f(i8 %a, i8 %b) {{\n{body}\n  ret i8 %r\n}}"
    with pytest.raises(Unreadable):
        read(text, [z3.BitVec(name, 8) for name in "ab"])


# --- guards that are left out


@pytest.mark.parametrize("name", RANGED)
@pytest.mark.parametrize("dtype", [U8, I8], ids=str)
@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.campaign)])
def test_results_lie_in_their_ranges(name: str, dtype: DataType, step: int) -> None:
    tried, wrong = wrong_ranges(name, dtype, step)
    assert not wrong
    assert tried > 400


@pytest.mark.parametrize("step", quick([39, 13]))
@pytest.mark.parametrize("lowering", ["nvptx", "cpu lanes"])
def test_guards_are_left_out_where_nothing_is_undefined(lowering: str, step: int) -> None:
    for program in [*bounded_programs([U8, I8])][::step]:
        outcome = prove_program([program.type] * 2, program.lines, program.type, lowering, 10)
        assert outcome.verdict == PROVED, (program, outcome)


@pytest.mark.campaign
@pytest.mark.parametrize("lowering", LOWERINGS)
@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_guards_are_left_out_where_nothing_is_undefined_of_any_width(lowering: str, dtype: DataType) -> None:
    """A quotient of quotients may take z3 more than its time; of bytes all are proved."""
    programs = [*bounded_programs([dtype])][:: 1 if dtype.bits == 8 else 7]
    verdicts = [prove_program([dtype] * 2, p.lines, dtype, lowering, 10).verdict for p in programs]
    assert REFUTED not in verdicts
    assert verdicts.count(PROVED) >= len(programs) * (1 if dtype.bits == 8 else 0.9)


def test_a_run_of_one_op_replaces_its_rows_alone() -> None:
    rows = [("identity", "_abs"), ("fold", "fold"), ("lowering", "add, nvptx"), ("lowering", "mul, nvptx")]
    before = {"date": "then", "lines": [{"section": section, "rule": rule} for section, rule in rows]}
    lines = [Line(section, rule, "new", []) for section, rule in (("lowering", "sub, nvptx"), *rows[1:3])]
    found = merged(before, Results("now", "a machine", "a solver", lines))
    assert found["date"] == "then"
    assert [(row["section"], row["rule"]) for row in found["lines"]] == [
        *rows[:3],
        ("lowering", "sub, nvptx"),
        rows[3],
    ]
    assert [row["rule"] for row in found["lines"] if row.get("about") == "new"] == [
        "add, nvptx",
        "sub, nvptx",
    ]
    assert {line.rule for line in measure(True, only="select").lines} >= {"_select", "select, nvptx"}
    with pytest.raises(ValueError, match="no op that has a term is called ad, and no rule"):
        measure(True, only="ad")
