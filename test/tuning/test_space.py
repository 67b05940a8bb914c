"""Spaces: what is legal is in them, once, in order; what is no space says why."""

from __future__ import annotations

from dataclasses import fields

import pytest

from vyre_opt import BadInputs, Space
from vyre_opt.ir.ops import OPS
from vyre_opt.kernels.chain import ChainSchedule
from vyre_opt.kernels.decode import DecodeSchedule
from vyre_opt.kernels.dfa import DfaSchedule
from vyre_opt.kernels.embedding import EmbeddingSchedule
from vyre_opt.kernels.embedding_grouped import GroupedSchedule
from vyre_opt.kernels.embedding_pairs import PairSchedule
from vyre_opt.kernels.matvec import MatvecSchedule
from vyre_opt.kernels.scan import ScanSchedule
from vyre_opt.kernels.softmax_fixed import SoftmaxStepSchedule
from vyre_opt.kernels.softmax_schedules import SoftmaxSchedule
from vyre_opt.kernels.tensor_train import StepSchedule
from vyre_opt.tuning.space import MAX_CONFIGS
from vyre_opt.tuning.spaces import CPU, GPU

SCHEDULES = {
    "decode.base64": (DecodeSchedule,),
    "decode.hex": (DecodeSchedule,),
    "scan.dfa": (DfaSchedule,),
    "scan.prefix": (ScanSchedule,),
    "math.softmax": (SoftmaxSchedule,),
    "math.softmax_step": (SoftmaxStepSchedule,),
    "math.matvec_fixed": (MatvecSchedule,),
    "tt.contract_step": (StepSchedule,),
    "tt.chain": (ChainSchedule,),
    "tt.embedding": (EmbeddingSchedule, GroupedSchedule, PairSchedule),
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


def test_a_large_space_is_thinned_evenly() -> None:
    space = Space({"a": tuple(range(100)), "b": tuple(range(100))})
    assert len(space) == MAX_CONFIGS
    assert space.left_out == 10000 - MAX_CONFIGS
    assert {config["a"] for config in space.configs} == set(range(100))


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
    with pytest.raises(BadInputs, match="split it"):
        Space({name: tuple(range(100)) for name in "abc"})


def test_the_op_table_names_every_field_of_every_schedule() -> None:
    """A text can give each choice that a builder has, but for `strided`, which the grid decides."""
    assert set(SCHEDULES) == {name for name, row in OPS.items() if row.kernel is not None}
    for name, classes in SCHEDULES.items():
        names = [f.name for each in classes for f in fields(each) if f.name != "strided"]
        assert OPS[name].kernel.schedule == tuple(dict.fromkeys(names)), name


def test_every_kernel_has_a_space_of_its_own_fields() -> None:
    for table in (GPU, CPU):
        assert set(table) == {*SCHEDULES, "decode_scan"}
        for name, classes in SCHEDULES.items():
            for product in table[name]:
                assert any(set(product) <= {f.name for f in fields(each)} for each in classes), name
