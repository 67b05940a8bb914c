"""Spaces: what is legal is in them, once, in order; what is no space says why."""

from __future__ import annotations

from dataclasses import fields

import pytest

from vyre_opt import BadInputs, Space
from vyre_opt.ir import OPS
from vyre_opt.kernels.chain import ChainSchedule
from vyre_opt.kernels.decode import DecodeSchedule
from vyre_opt.kernels.dfa import DfaSchedule
from vyre_opt.kernels.embedding import EmbeddingSchedule
from vyre_opt.kernels.embedding_grouped import GroupedSchedule
from vyre_opt.kernels.embedding_pairs import PairSchedule
from vyre_opt.kernels.embedding_units import EmbeddingUnitSchedule
from vyre_opt.kernels.matmul_program import MatmulSchedule, UnitSchedule
from vyre_opt.kernels.matvec import MatvecSchedule
from vyre_opt.kernels.named import named_kernel
from vyre_opt.kernels.scan import ScanSchedule
from vyre_opt.kernels.softmax_fixed import SoftmaxStepSchedule
from vyre_opt.kernels.softmax_schedules import SoftmaxSchedule
from vyre_opt.kernels.tensor_train import StepSchedule
from vyre_opt.tuning.space import MAX_CONFIGS

SCHEDULES = {
    "decode.base64": (DecodeSchedule,),
    "decode.hex": (DecodeSchedule,),
    "scan.dfa": (DfaSchedule,),
    "scan.prefix": (ScanSchedule,),
    "math.softmax": (SoftmaxSchedule,),
    "math.softmax_step": (SoftmaxStepSchedule,),
    "math.matvec_fixed": (MatvecSchedule,),
    "math.matmul": (MatmulSchedule, UnitSchedule),
    "tt.contract_step": (StepSchedule,),
    "tt.chain": (ChainSchedule,),
    "tt.embedding": (EmbeddingSchedule, EmbeddingUnitSchedule, GroupedSchedule, PairSchedule),
}


def test_products_and_unions() -> None:
    space = Space(
        [{"a": (1, 2), "b": ("x",)}, {"a": (2,), "b": ("x",)}, {"c": (5,)}],
        lambda config: "one" if config.get("a") == 1 else None,
    )
    assert space.configs == [{"a": 2, "b": "x"}, {"c": 5}]
    assert space.factors == {"a": (2,), "b": ("x",), "c": (5,)}
    assert space.find({"b": "x", "a": 2}) == 0
    assert space.find({"a": 1, "b": "x"}) is None


def test_constraints_and_reasons_rule_out_the_same() -> None:
    """Of arrays and of one configuration at a time; in each product of a union, and over chunks of combinations."""
    products = [
        {"a": tuple(range(300)), "b": tuple(range(1, 301))},
        {"b": (2, 400), "a": (7,), "c": ("x", 5)},
    ]
    few = [{name: values[:40] for name, values in each.items()} for each in products]
    by_arrays = Space(few, constraints=[lambda at: at["a"] % 7 == 0, lambda at: at["a"] * at["b"] < 100])
    by_reasons = Space(few, lambda at: None if at["a"] % 7 == 0 and at["a"] * at["b"] < 100 else "no")
    assert by_arrays.configs == by_reasons.configs
    assert by_arrays.factors == by_reasons.factors
    assert {"a": 7, "b": 2, "c": "x"} in by_arrays.configs
    large = Space(products, constraints=[lambda at: (at["a"] + at["b"]) % 3 == 0])
    expected = [(a, b) for a in range(300) for b in range(1, 301) if (a + b) % 3 == 0]
    assert [(at["a"], at["b"]) for at in large.configs if "c" not in at] == expected
    for number in (0, 1000, len(large) - 1):
        assert large.find(large.config(number)) == number


def test_a_hundred_thousand_configurations() -> None:
    """Of ten million combinations; none is a dict before it is asked for."""
    space = Space(
        {name: tuple(range(16)) for name in "abcde"} | {"f": tuple(range(8))},
        constraints=[lambda at: (at["a"] * at["b"] + at["c"] + at["e"] * at["f"]) % 64 == at["d"]],
    )
    assert 100_000 < len(space) < 300_000
    assert space.rows.nbytes < 8 << 20
    at = space.config(99_999)
    assert (at["a"] * at["b"] + at["c"] + at["e"] * at["f"]) % 64 == at["d"]
    assert space.find(at) == 99_999
    assert space.find({**at, "a": 99}) is None


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        (lambda at: at["x"] > 1, "factor 'x', which a product of the space lacks"),
        (lambda at: at["a"] + 1, "gives a bool for each configuration; this one gave int64"),
        (lambda at: at["a"][:1] > 0, r"of shape \(1,\)"),
        (lambda at: at["a"].no > 0, "a constraint failed: AttributeError"),
        (lambda at: at["a"] > 9, "no legal configuration"),
    ],
)
def test_wrong_constraints(constraint, message: str) -> None:
    with pytest.raises(BadInputs, match=message):
        Space({"a": (1, 2, 3)}, constraints=[constraint])


@pytest.mark.parametrize(
    "factors",
    [
        {"a": ()},
        {"a": "text"},
        {"a": 3},
        {"": (1,)},
        {"a": (None,)},
        {"a": (float("nan"),)},
        [3],
        {"a": (1,)},
    ],
    ids=repr,
)
def test_what_is_no_space(factors) -> None:
    with pytest.raises(BadInputs):
        Space(factors, lambda config: "nothing is legal")


def test_too_many() -> None:
    with pytest.raises(BadInputs, match="split it"):
        Space({name: tuple(range(300)) for name in "abc"})
    with pytest.raises(BadInputs, match=f"1560000 configurations is more than {MAX_CONFIGS}: split it"):
        Space({"a": tuple(range(1250)), "b": tuple(range(1250))}, constraints=[lambda at: at["a"] > 1])
    with pytest.raises(BadInputs, match="split it"):
        Space({name: tuple(range(100)) for name in "abc"}, lambda config: None)


def test_the_op_table_names_every_field_of_every_schedule() -> None:
    """A text can give each choice that a builder has, but for `strided`, which the grid decides."""
    assert set(SCHEDULES) == {name for name, row in OPS.items() if row.kernel is not None}
    for name, classes in SCHEDULES.items():
        names = [f.name for each in classes for f in fields(each) if f.name != "strided"]
        assert OPS[name].kernel.schedule == tuple(dict.fromkeys(names)), name


def test_every_kernel_has_a_space_of_its_own_fields() -> None:
    for target in ("cuda", "cpu"):
        for name, classes in SCHEDULES.items():
            products = named_kernel(name).space(target)
            assert products, name
            for product in products:
                assert any(set(product) <= {f.name for f in fields(each)} for each in classes), name
