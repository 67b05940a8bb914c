"""`Limits` as values: what they take, how they are written, and what is said of mistakes."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from support.each import each

from vyre_opt import BackendError, BadInputs, LimitError, Limits, parse
from vyre_opt.execution import limits as limits_module
from vyre_opt.ir import DiagnosticError
from vyre_opt.lowering.common.compile_cost import HOST, check_compile_cost
from vyre_opt.lowering.common.cost_ceiling import DEFAULT_CEILING, set_ceiling


def test_a_text_has_each_limit() -> None:
    text = "time=2.5, memory=2G,output=64M,grid=65536,compile=1,plugins=true,cache=TRUE"
    assert Limits.parse(text) == Limits(
        time=2.5, memory=2 << 30, output=64 << 20, grid=65536, compile=1.0, plugins=True, cache=True
    )
    assert Limits.parse("output=1000") == Limits(output=1000)


def test_nothing_is_limited_but_costs_plugins_and_the_cache() -> None:
    limits = Limits()
    assert (limits.time, limits.memory, limits.output, limits.grid, limits.compile) == (None,) * 5
    assert limits.cost == DEFAULT_CEILING
    assert not limits.plugins
    assert not limits.cache


def test_a_process_is_held_to_the_cost_of_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """And another to the default; what may cost more than that says so."""
    sums = "".join(f"%v{n + 1} = add %v{n}, %v0 : u32\n" for n in range(20))
    program = parse(f"vyre 1\nprogram @p workgroup(1) {{ %v0 = global_id x\n{sums} }}").programs["p"]
    monkeypatch.setattr(limits_module, "_imposed", None)
    check_compile_cost(program, {}, HOST)
    try:
        limits_module.impose(Limits(cost=1))
        with pytest.raises(DiagnosticError, match="the limit cost=1 here"):
            check_compile_cost(program, {}, HOST)
        limits_module.impose(Limits(cost=None))
        check_compile_cost(program, {}, HOST)
    finally:
        set_ceiling(DEFAULT_CEILING)


def test_limits_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Limits().time = 1.0  # type: ignore[misc]


WRONG_TEXTS = [
    ("memry=1M", "unknown limit 'memry'; did you mean memory?"),
    (
        "x=1",
        "unknown limit 'x'; the limits are time, memory, input, output, grid, compile, cost, plugins, cache",
    ),
    ("", "unknown limit ''"),
    ("time", "limit time has no value; write time=10"),
    ("time=", "limit time has no value"),
    ("time=soon", "limit time: 'soon' is no value of it; write time=10"),
    ("time=0", "limit time: 0.0 is no number of seconds above 0"),
    ("time=nan", "limit time: nan is no number of seconds"),
    ("compile=inf", "limit compile: inf is no number of seconds"),
    ("memory=1T", "limit memory: '1T' is no value of it; write memory=2G"),
    ("memory=-1", "limit memory: '-1' is no value of it"),
    ("output=0", "limit output: 0 is no whole number from 1 to 2"),
    ("grid=1e3", "limit grid: '1e3' is no value of it; write grid=65536"),
    ("grid=-4", "limit grid: -4 is no whole number"),
    ("cost=5s", "limit cost: '5s' is no value of it; write cost=60000"),
    ("plugins=1", "limit plugins: '1' is no value of it; write plugins=true"),
    ("time=1,time=2", "limit time is there twice"),
]


def test_a_wrong_text_says_what_to_write() -> None:
    def check(case: tuple[str, str]) -> None:
        text, message = case
        with pytest.raises(BadInputs) as caught:
            Limits.parse(text)
        assert str(caught.value).startswith(message)

    each(WRONG_TEXTS, check)


WRONG_VALUES: list[dict[str, Any]] = [
    {"time": "10"},
    {"time": True},
    {"memory": 1.5},
    {"memory": "2G"},
    {"memory": 1 << 61},
    {"grid": False},
    {"plugins": None},
    {"cache": 1},
]


def test_a_value_of_another_type_is_refused() -> None:
    def check(values: dict[str, Any]) -> None:
        with pytest.raises(BadInputs, match=f"^limit {next(iter(values))}: "):
            Limits(**values)

    each(WRONG_VALUES, check)


def test_an_error_names_its_limit() -> None:
    limits = Limits(time=10, memory=2 << 30, output=1000, compile=0.5)
    errors = {name: limits.error(name, "why") for name in ("time", "memory", "output", "compile", "plugins")}
    assert [*map(str, errors.values())] == [
        "time=10: why",
        "memory=2G: why",
        "output=1000: why",
        "compile=0.5: why",
        "plugins=false: why",
    ]
    assert isinstance(errors["memory"], BackendError)
    assert (errors["memory"].limit, errors["memory"].value) == ("memory", 2 << 30)
    again = pickle.loads(pickle.dumps(errors["memory"]))
    assert (type(again), str(again)) == (LimitError, "memory=2G: why")
