"""Code for machines with less than this one: the plainest x86-64, and one with AVX2."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import pytest
from support.quick import quick
from support.sample import edge_values

from vyre_opt.execution.arrays import constant
from vyre_opt.ir import DataType, parse
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher
from vyre_opt.targets.cpu.host import Host

pytestmark = pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64"), reason="makes code for kinds of x86-64"
)

AVX2 = ("avx2", "fma", "f16c", "bmi", "bmi2", "popcnt", "lzcnt")
HOSTS = {"plain": ("x86-64", ""), "avx2": ("haswell", ",".join(f"+{word}" for word in AVX2))}


def cpu_as(name: str) -> CpuDispatcher:
    cpu = CpuDispatcher()
    has = cpu.host.attributes.split(",")
    if name == "avx2" and not all(f"+{word}" in has for word in AVX2):
        pytest.skip("this machine has no AVX2")
    cpu.host = Host(*HOSTS[name], cpu.level)
    return cpu


@pytest.mark.parametrize("name", quick(HOSTS))
@pytest.mark.parametrize("seed", quick(range(1000, 1020), keep=3))
def test_random_programs(agree_at_random: Any, seed: int, name: str) -> None:
    agree_at_random(cpu_as(name), seed)


@pytest.mark.parametrize("name", HOSTS)
def test_f16_without_instructions_for_it(name: str) -> None:
    """Every f16 widened, and narrowed again; every kind of float rounded to f16."""
    singles = np.concatenate([constant(v, DataType.F32) for v in edge_values(DataType.F32)])
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        ties = halves.astype(np.float32) * np.float32(1 + 2.0**-11)
        below = np.nextafter(ties, np.float32(0))
        x = np.concatenate(
            [singles, ties, below, -ties, np.float32(2.0) ** np.arange(-30, 20, 0.125, np.float32)]
        )
    x = x[: len(x) // 32 * 32]
    (program,) = parse("""vyre 1
    program @halves workgroup(32) {
      buffer @x : f32[?] read binding(0)
      buffer @y : f16[?] write binding(1) live_out
      buffer @h : f16[65536] read binding(2)
      buffer @z : f32[65536] write binding(3) live_out
      %g = global_id x
      %n = len @x
      %in = lt %g, %n : u32
      if %in {
        %x = load @x[%g] : f32
        %y = cast %x : f32 -> f16
        store %y, @y[%g] : f16
      }
      %m = const 65536 : u32
      %also = lt %g, %m : u32
      if %also {
        %h = load @h[%g] : f16
        %z = cast %h : f16 -> f32
        store %z, @z[%g] : f32
      }
    }""").programs.values()
    y, z = cpu_as(name).dispatch(
        program, [x, np.zeros(len(x), np.float16), halves, np.zeros(1 << 16, np.float32)], len(x) // 32
    )
    with np.errstate(all="ignore"):
        assert np.array_equal(y, x.astype(np.float16), equal_nan=True)
    assert np.array_equal(z, halves.astype(np.float32), equal_nan=True)


SMALL_VECTORS = {
    "u8": (np.uint8, 4),
    "i16": (np.int16, 2),
    "bool": (np.bool_, 8),
    "f16": (np.float16, 4),
    "f32": (np.float32, 2),
}
"""Elements of a load by type: together they are one word of 32 or 64 bits."""


@pytest.mark.parametrize("dtype", SMALL_VECTORS)
@pytest.mark.parametrize("name", [*HOSTS, "own"])
def test_words_at_any_place(name: str, dtype: str) -> None:
    """Each lane loads some elements from every third on, all lanes of one subgroup and a few of another."""
    stored, count = SMALL_VECTORS[dtype]
    (program,) = parse(f"""vyre 2
    program @p workgroup(64) {{
      buffer @x : {dtype}[?] read binding(0)
      buffer @y : vec<{count} x {dtype}>[40] write binding(1) live_out
      %l = local_id x
      %in = lt %l, 40
      if %in {{
        %i = mul %l, 3
        %v = load @x[%i] : vec<{count} x {dtype}>
        store %v, @y[%l] : vec<{count} x {dtype}>
      }}
    }}""").programs.values()
    x = np.random.default_rng(1).integers(0, 2 if dtype == "bool" else 90, 39 * 3 + count).astype(stored)
    cpu = CpuDispatcher() if name == "own" else cpu_as(name)
    (y,) = cpu.dispatch(program, [x, np.zeros((40, count), stored)], 1)
    assert np.array_equal(y.reshape(40, count), [x[3 * lane : 3 * lane + count] for lane in range(40)])
