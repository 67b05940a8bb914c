"""Keys of translations: equal where a translation would be, another one for each object that a function reads."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
import pytest

import vyre_opt as vyre
from vyre_opt import Read, Write, f32, u32
from vyre_opt.lang.scalars import Float
from vyre_opt.lang.translation_key import translation_key

config = ModuleType("config")
config.sizes = ModuleType("config.sizes")  # type: ignore[attr-defined]


def key_with(value: Any) -> Any:
    """The key of a program that reads `value`, the name of a closure."""

    @vyre.program
    def scaled(x: Read[f32], y: Write[f32]) -> None:
        y[0] = x[0] * f32(value)

    return translation_key(scaled)


@vyre.func
def doubled(x):  # type: ignore[no-untyped-def]
    return x + x


@vyre.func
def trebled(x):  # type: ignore[no-untyped-def]
    return x + x + x


@vyre.program
def one(y: Write[f32]) -> None:
    y[0] = 1.0


@vyre.program(workgroup=32)
def narrow(y: Write[f32]) -> None:
    y[0] = 1.0


DIFFERENT = [
    *(0, 1, True, -1, 1 << 40, 0.0, -0.0, 1.0, math.nan, "1", b"1", None, ..., (), (1,), (1, 1), ((1,), 1)),
    *(
        f32,
        u32,
        bool,
        int,
        Read,
        Read[f32],
        Read[f32[:, :]],
        Read[f32[:, 4]],
        Write[f32],
        TypeVar("T"),
        slice(1),
        slice(2),
    ),
    *(
        abs,
        max,
        math.sin,
        math.cos,
        np.exp,
        np.log,
        np.float32,
        vyre.exp,
        vyre.log,
        vyre.ceil_div,
        vyre.static,
        vyre.dot,
    ),
    *(doubled, trebled, one, narrow),
]


def test_each_object_has_a_key_of_its_own() -> None:
    keys = [repr(key_with(value)) for value in DIFFERENT]
    assert "None" not in keys
    assert len({*keys}) == len(DIFFERENT)
    assert keys == [repr(key_with(value)) for value in DIFFERENT]
    assert repr(key_with(np.float32(1.0))) == repr(key_with(1.0))


@pytest.mark.parametrize(
    "value",
    [
        *([], {}, object(), np.zeros(3), np.random.default_rng(0), lambda: 1, math, np, config),
        *(getattr, vars, globals, hash, id, open, eval, np.random.rand, np.load, print.__self__),
        *(type("Own", (), {}), vyre.Tunable, (1, [2])),
    ],
)
def test_a_function_that_reads_another_object_has_none(value: Any) -> None:
    if value is vyre.Tunable:  # a class of this package is known
        assert key_with(value) is not None
        return
    assert key_with(value) is None


@vyre.program
def of_module(x: Read[f32], y: Write[f32]) -> None:
    y[0] = x[0] * f32(config.sizes.N)  # type: ignore[attr-defined]


def test_an_attribute_of_a_module_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = []
    for value in (1, 2, 1):
        monkeypatch.setattr(config.sizes, "N", value, raising=False)
        monkeypatch.setattr(config, "other", value * len(keys), raising=False)  # which it does not read
        keys.append(repr(translation_key(of_module)))
    assert keys[0] == keys[2] != keys[1]
    monkeypatch.setattr(config.sizes, "N", [1])
    assert translation_key(of_module) is None
    monkeypatch.delattr(config.sizes, "N")
    assert translation_key(of_module) is None


SIZE = 4


@vyre.func
def sized(x):  # type: ignore[no-untyped-def]
    return x * f32(SIZE)


@vyre.program
def calls_sized(x: Read[f32], y: Write[f32]) -> None:
    y[0] = sized(x[0])


@vyre.pipeline
def launches(x: Read[f32], y: Write[f32]) -> None:
    calls_sized[1](x, y)


@vyre.program
def quoted(x: "Read[f32[SIZE]]", y: Write[f32], by: "f32" = 2.0) -> None:  # type: ignore[valid-type]  # noqa: UP037
    y[0] = x[0] * by


@pytest.mark.parametrize("function", [calls_sized, launches, quoted])
def test_what_a_called_function_and_a_quoted_type_read_is_in_the_key(
    function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = repr(translation_key(function))
    monkeypatch.setitem(globals(), "SIZE", 5)
    assert "None" != repr(translation_key(function)) != before


def test_types_and_options_are_in_the_key() -> None:
    @vyre.program
    def general(x: Read[Float], y: Write[Float]) -> None:
        y[0] = x[0]

    function = general.function
    kernels = [
        general.at(vyre.f32),
        general.at(vyre.f64),
        vyre.program(workgroup=64)(function),
        vyre.program(grid=2)(function),
        vyre.program(fastmath="afn")(function),
        vyre.program(cluster=2)(function),
    ]
    keys = [repr(translation_key(kernel)) for kernel in kernels]
    assert len({*keys}) == len(keys)
    assert "None" not in keys


SCRIPT = """
import sys
import numpy as np
import vyre_opt as vyre
from vyre_opt import Read, Write, f32
N = int(sys.argv[1])

@vyre.program
def scale(x: Read[f32], y: Write[f32]):
    i = vyre.global_id(0)
    if i < len(x):
        y[i] = x[i] * N
    if i - 1 >= 0:
        y[0] = x[0] * N

@vyre.pipeline
def both(x: Read[f32], y: Write[f32]):
    scale[1](x, y)

x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
both(x, y)
print(y[1], "vyre_opt.lang.statements" in sys.modules)
"""


def test_a_translation_of_the_cache_has_its_constants_and_its_warnings(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    ran = [
        subprocess.run(
            [sys.executable, script, number],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "VYRE_CACHE_DIR": str(tmp_path / "cache")},
        )
        for number in ("3", "3", "5")
    ]
    assert [each.stdout for each in ran] == ["3.0 True\n", "3.0 False\n", "5.0 True\n"]
    assert "i - 1 >= 0" in ran[0].stderr
    assert ran[0].stderr == ran[1].stderr
