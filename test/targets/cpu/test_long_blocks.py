"""Blocks that are cut into functions: what crosses a cut, where faults end, and how long compiling takes."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.quick import quick

from vyre_opt import parse
from vyre_opt.execution import ProgramError
from vyre_opt.lowering.host import outline as host_outline
from vyre_opt.lowering.host.legalization import legal_program
from vyre_opt.targets.cpu import compiler
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher
from vyre_opt.targets.cpu.host import Host
from vyre_opt.targets.cpu.host_code import host_code


@pytest.fixture
def short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly every block is cut, as only those of hundreds of ops are."""
    monkeypatch.setattr(host_outline, "PART", 6)
    monkeypatch.setattr(host_outline, "CHECKED", 3)
    monkeypatch.setattr(compiler, "_LOADED", OrderedDict())


def parts(text: str) -> list[str]:
    """The functions that the blocks of a program become."""
    module = parse(text)
    (program,) = module.programs.values()
    written = host_code(legal_program(program, module), {}, Host.this()).text
    return re.findall(r"^define internal i1 @vyre\.part.*?^}", written, re.MULTILINE | re.DOTALL)


@pytest.mark.campaign
@pytest.mark.usefixtures("short_parts")
@pytest.mark.parametrize("first", quick(range(9000, 9030, 5)))
def test_random_programs(agree_at_random: Callable[[CpuDispatcher, int], None], first: int) -> None:
    """Values of every shape and type cross cuts, in masked blocks, loops and between barriers."""
    cpu = CpuDispatcher(workers=1, opt=1)
    for seed in range(first, first + 5):
        agree_at_random(cpu, seed)


SHAPES = """
    program @p workgroup(40) {
      buffer @x : f32[160] read binding(0)
      buffer @t : f32[40] workgroup
      buffer @y : f32[40] write binding(1) live_out
      %l = local_id x
      %c2 = const 2 : u32
      %c7 = const 7 : u32
      %even = rem %l, %c2 : u32
      %is_odd = eq %even, %c2 : u32
      %half = div %l, %c2 : u32
      %flag = lt %half, %c7 : u32
      %four = shl %l, %c2 : u32
      %v = load @x[%four] : vec<4 x f32>
      %a = extract %v[1] : vec<4 x f32>
      %h = cast %a : f32 -> f16
      %small = cast %l : u32 -> u8
      %sum = for %k = 0 to 5 iter(%s = %a : f32) {
        %i = add %four, %k : u32
        %c3 = const 3 : u32
        %j = min %i, %c3 : u32
        %b = load @x[%j] : f32
        %c = if %flag -> f32 {
          %d = load @x[%l] : f32
          %e = add %d, %b : f32
          %f = mul %e, %d : f32
          yield %f
        } else {
          %m = cast %small : u8 -> u32
          %n = load @x[%m] : f32
          yield %n
        }
        %o = add %c, %s : f32
        yield %o
      }
      store %sum, @t[%l] : f32
      barrier workgroup
      %c39 = const 39 : u32
      %mirror = sub %c39, %l : u32
      %p = load @t[%mirror] : f32
      %q = cast %h : f16 -> f32
      %r = extract %v[3] : vec<4 x f32>
      %w = add %q, %r : f32
      %z = select %is_odd, %p, %w : f32
      %u = add %z, %p : f32
      store %u, @y[%l] : f32
    }"""


@pytest.mark.usefixtures("short_parts")
def test_shapes(agree: Callable[..., Any]) -> None:
    """Flags, vectors, halves, progressions and carried values, with lanes that are not there."""
    assert len(parts(f"vyre 1\n{SHAPES}")) > 3
    x = np.random.default_rng(0).standard_normal(160, dtype=np.float32)
    agree(SHAPES, [x, np.zeros(40, np.float32)], 1, opt=2)


def unrolled(loads: int, stride: int = 7) -> str:
    """A sum of `loads` elements, none of which is known to be in bounds."""
    body = "\n".join(
        f"%k{i} = const {i * stride} : u32\n%i{i} = add %g, %k{i} : u32\n"
        f"%v{i} = load @x[%i{i}] : f32\n%a{i + 1} = add %a{i}, %v{i} : f32"
        for i in range(loads)
    )
    return f"""program @p workgroup(32) {{
      buffer @x : f32[?] read binding(0)
      buffer @y : f32[32] write binding(1) live_out
      %g = global_id x
      %a0 = const 0.0 : f32
      {body}
      store %a{loads}, @y[%g] : f32
    }}"""


def test_a_long_block(agree: Callable[..., Any], faults: Callable[..., ProgramError]) -> None:
    """The sum is the interpreter's, and the fault is that of the first load behind the end, in its own part."""
    text, y = unrolled(150), np.zeros(32, np.float32)
    x = np.random.default_rng(0).standard_normal(32 + 7 * 149, dtype=np.float32)
    agree(text, [x, y], 1)
    assert "index 1000, length 1000" in str(faults(text, [x[:1000], y], 1))


def test_functions_stay_short() -> None:
    """However long a block is: LLVM takes quadratic time in the length of a function."""
    lengths = [[part.count("\n") for part in parts(f"vyre 1\n{unrolled(n)}")] for n in (100, 400)]
    assert len(lengths[1]) > 3 * len(lengths[0]) > 6
    assert max(lengths[1]) <= 1.2 * max(lengths[0]) < 1500


def test_short_blocks_stay_whole() -> None:
    assert parts(f"vyre 1\n{unrolled(20)}") == []
