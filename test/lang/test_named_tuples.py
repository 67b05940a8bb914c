"""Values with names, which a `NamedTuple` holds together, through branches, loops and functions, compared with Python's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from support.each import each
from support.modules import written_module

import vyre_opt
import vyre_opt as vyre
from vyre_opt.lang import Float, Read, Write, f32, i32, u32


class Particle(NamedTuple):
    x: f32
    v: f32 = 2.0


class Numbered(NamedTuple):
    particle: Particle
    number: i32
    anything: Any = 0


class OfAnyType(NamedTuple):
    low: Float
    high: Float


START = Particle(0.0, 1.0)


def moved(p: Particle, dt: float) -> Particle:
    return Particle(p.x + p.v * dt, p.v * 0.5)


step = vyre.func(moved)


@vyre.func
def first_above(x: Any, limit: f32) -> Particle:
    for k in range(len(x)):
        if x[k] > limit:
            return Particle(x[k], f32(k))
    return Particle(-1, v=-1)


@vyre.func
def numbered(p: Particle, number: i32) -> Numbered:
    return Numbered(p._replace(x=p.x + 100.0), number)


@vyre.program(workgroup=32)
def simulate(x: Read[f32], y: Write[f32], n: u32 = 3) -> None:
    i = vyre.global_id(0)
    if i >= len(x):
        return
    p = Particle(x[i])
    for _ in range(n):
        p = step(p, 0.5)
        if p.x > 3.0:
            p = p._replace(v=-p.v)
    q = START._replace(x=p.x) if p.v < 0.0 else p
    whole = numbered(q, 7)
    place, speed = whole[0]
    y[i] = place + 1000.0 * f32(whole.number) + START.v + speed + first_above(x, 1.5).v


def expected(x: list[float]) -> list[float]:
    result = []
    for value in x:
        p = Particle(value)
        for _ in range(3):
            p = moved(p, 0.5)
            if p.x > 3.0:
                p = p._replace(v=-p.v)
        q = START._replace(x=p.x) if p.v < 0.0 else p
        result.append(q.x + 100.0 + 7000.0 + START.v + q.v + 2.0)
    return result


@pytest.mark.parametrize("target", ["cpu", "ref"])
def test_fields_are_what_python_computes(target: str) -> None:
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    simulate.options(target=target)[1](x, y)
    assert y.tolist() == expected(x.tolist())


@vyre.program(workgroup=32)
def bounds(x: Read[Float], y: Write[Float]) -> None:
    both = OfAnyType(x[0], 1)
    for k in range(len(x)):
        both = OfAnyType(min(both.low, x[k]), high=max(both.high, x[k]))
    y[0] = both.high - both.low


def test_fields_have_types_that_arrays_decide() -> None:
    for dtype in (np.float32, np.float64):
        x, y = np.array([3, -2, 5], dtype), np.zeros(1, dtype)
        bounds[1](x, y)
        assert y.tolist() == [7]


def test_there_is_nothing_of_them_in_the_program() -> None:
    """Fields are values in registers, as parts of tuples are."""
    assert "buffer @x" in simulate.text()
    assert simulate.text().count("buffer") == 2


WRONG = {
    "p = P(x[i])\ny[i] = p.w": ("P has no field w", "it has x, v"),
    "p = P(x[i])\ny[i] = p.vv": ("P has no field vv", "did you mean v?"),
    "p = P()\ny[i] = p.x": ("P(): missing a required argument: 'x'", "it is P(x, v)"),
    "p = P(x[i], z=1)\ny[i] = p.x": ("P(): got an unexpected keyword argument 'z'", "it is P(x, v)"),
    "p = P(n)\ny[i] = p.x": ("n is i32, where f32 is wanted", "write f32(n)"),
    "p = P(*x)\ny[i] = p.x": ("a kernel does not unpack with * or **", "write the fields"),
    "p = P(x[i])\np.x = 1.0\ny[i] = p.x": (
        "a field of a NamedTuple is not assigned",
        "write p = p._replace(x=...)",
    ),
    "p = P(x[i])\np.x += 1.0\ny[i] = p.x": (
        "a field of a NamedTuple is not assigned",
        "write p = p._replace(x=...)",
    ),
    "p = P(x[i])._replace(1.0)\ny[i] = p.x": ("_replace takes fields by their names", "it has x, v"),
    "p = P(x[i])._replace(w=1)\ny[i] = p.x": ("P._replace(): got an unexpected keyword argument 'w'", ""),
    "y[i] = P(x[i])": ("a P is no value", "use its parts"),
    "p = P(x[i])\nif n > 0:\n    p = Q(x[i], 0.0)\ny[i] = p.x": (
        "p has another type in each branch of this if: a Q and a P",
        "",
    ),
    "p = P(x[i]) if n > 0 else Q(x[i], 0.0)\ny[i] = p.x": ("one value is a P and the other a Q", ""),
    "p = P(x[i])\nfor k in range(n):\n    p = (p.v, p.x)\ny[i] = p[0]": (
        "p is a P when the loop begins, and a tuple at the end of a round",
        "",
    ),
    "y[i] = of_q(x[i]).x": ("P(a, a) is a P, and of_q returns a Q", ""),
    "both = Both(x[i])\ny[i] = both.p.x": ("x[i] is no P", "write P(...)"),
}
"""Bodies, and what is said of each: the message of the only error, and a part of its help."""

HEAD = """\
from typing import NamedTuple
import vyre_opt as vyre
from vyre_opt.lang import *

class P(NamedTuple):
    x: f32
    v: f32 = 0.0

class Q(NamedTuple):
    x: f32
    v: f32

class Both(NamedTuple):
    p: P

@vyre.func
def of_q(a) -> Q:
    return P(a, a)
"""


def test_what_is_wrong_is_told_with_a_remedy(tmp_path: Path) -> None:
    text = HEAD
    for number, body in enumerate(WRONG):
        lines = "".join(f"    {line}\n" for line in ["i = vyre.global_id(0)", *body.split("\n")])
        text += f"\n@vyre.program\ndef wrong_{number}(x: Read[f32], y: Write[f32], n: i32):\n{lines}"
    module = written_module(tmp_path, text, "wrong")

    def check(body: str) -> None:
        message, help = WRONG[body]
        with pytest.raises(vyre_opt.DiagnosticError) as caught:
            getattr(module, f"wrong_{[*WRONG].index(body)}").text()
        (diagnostic,) = caught.value.diagnostics
        assert diagnostic.message == message
        assert help in (diagnostic.help or "")

    each(WRONG, check)
