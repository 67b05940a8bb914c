"""Stages and errors as values: what a stage takes, what an error says and carries."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest
from support.each import each

import vyre_opt
from vyre_opt import LaunchFusionError, LaunchFusionGroup, LaunchFusionPlan, LaunchFusionStage
from vyre_opt import plan_launch_fusion as plan

FIELDS = {
    LaunchFusionStage: "id layout_hash input_bytes output_bytes scratch_bytes requires_host_materialization",
    LaunchFusionGroup: "stage_ids layout_hash required_bytes avoided_intermediate_bytes",
    LaunchFusionPlan: "groups launch_count avoided_launches avoided_intermediate_bytes",
}


@pytest.mark.parametrize("cls", FIELDS, ids=lambda cls: cls.__name__)
def test_fields_are_those_of_the_contract(cls: Any) -> None:
    assert [field.name for field in dataclasses.fields(cls)] == FIELDS[cls].split()


def test_a_stage_does_not_change() -> None:
    stage = LaunchFusionStage(1, 2, 3, 4, 5, False)
    with pytest.raises(dataclasses.FrozenInstanceError):
        stage.id = 2  # type: ignore[misc]


def test_numpy_numbers_become_ints() -> None:
    """u32 numbers would wrap in the sums of a plan."""
    stages = [LaunchFusionStage(*np.array([k, 7, 2**31, 2**31, 2**31], np.uint32), np.False_) for k in (1, 2)]
    assert plan(stages, 2**40).groups[0].required_bytes == 5 << 31
    assert plan(stages, np.uint32(2**32 - 1 - 2**30) * np.uint64(4)).launch_count == 1
    assert stages[0] == LaunchFusionStage(1, 7, 2**31, 2**31, 2**31, False)


NO_STAGES = [
    ({"input_bytes": -1}, "stage 1: input_bytes is -1; bytes are counted from 0"),
    ({"output_bytes": 1 << 64}, "stage 1: output_bytes is 18446744073709551616"),
    ({"scratch_bytes": 1.5}, "stage 1: scratch_bytes is 1.5, which is not an integer"),
    ({"scratch_bytes": True}, "scratch_bytes is True, which is not an integer"),
    ({"id": "a"}, "a stage's id is 'a', which is not an integer"),
    ({"layout_hash": None}, "a stage's layout_hash is None"),
    (
        {"requires_host_materialization": "no"},
        "requires_host_materialization is 'no'; it is True or False",
    ),
    ({"requires_host_materialization": None}, "requires_host_materialization is None"),
]


def test_what_is_no_stage() -> None:
    def check(case: tuple[dict[str, Any], str]) -> None:
        change, said = case
        good = dict.fromkeys(FIELDS[LaunchFusionStage].split(), 1)
        with pytest.raises(LaunchFusionError) as caught:
            LaunchFusionStage(**{**good, **change})
        assert said in str(caught.value)

    each(NO_STAGES, check)


NO_PLANS = [
    ([], -1, "max_group_bytes is -1"),
    ([], 1.0, "max_group_bytes is 1.0, which is not an integer"),
    ([], True, "max_group_bytes is True"),
    (None, 1, "stages are a sequence of LaunchFusionStage, not a NoneType"),
    ([{"id": 1}], 1, "stage 0 of the line is a dict, no LaunchFusionStage"),
]


@pytest.mark.parametrize("strategy", ["greedy", "optimal"])
def test_what_is_no_plan(strategy: str) -> None:
    def check(case: tuple[Any, Any, str]) -> None:
        stages, budget, said = case
        with pytest.raises(LaunchFusionError) as caught:
            plan(stages, budget, strategy)
        assert said in str(caught.value)

    each(NO_PLANS, check)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("ZeroBudget", {}),
        ("DuplicateStage", {"id": 3}),
        ("ByteCountOverflow", {"field": "required_bytes"}),
        ("StageOverBudget", {"id": 3, "required_bytes": 9, "budget_bytes": 8}),
    ],
)
def test_kinds_of_error(kind: str, fields: dict[str, Any]) -> None:
    """By name from the package and from the base; fields as attributes; a remedy; across processes."""
    cls = getattr(vyre_opt, kind)
    assert cls is getattr(LaunchFusionError, kind)
    assert issubclass(cls, LaunchFusionError)
    assert issubclass(cls, ValueError)
    error = cls(**fields)
    again = pickle.loads(pickle.dumps(error))
    for one in (error, again):
        assert {name: getattr(one, name) for name in fields} == fields
        assert all(str(value) in str(one) for value in fields.values())
        assert len(str(one)) > 40, "what is wrong, and what to do"


def test_errors_are_equal_by_kind_and_fields() -> None:
    with pytest.raises(LaunchFusionError) as first:
        plan([LaunchFusionStage(7, 0, 8, 8, 8, False)], 16)
    over = LaunchFusionError.StageOverBudget(7, 24, 16)
    assert first.value == over == pickle.loads(pickle.dumps(over))
    assert len({first.value, over}) == 1
    assert over != LaunchFusionError.StageOverBudget(7, 24, 17)
    assert LaunchFusionError.DuplicateStage(7) != LaunchFusionError("7")
    assert LaunchFusionError.ZeroBudget() == LaunchFusionError.ZeroBudget()
