"""Which buffers of a pipeline share memory."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.quick import quick

import vyre_opt
from vyre_opt.driver.pipeline_plan import make_plan
from vyre_opt.execution.plans.steps import PipelinePlan
from vyre_opt.execution.plans.storage_layout import ALIGNMENT, storage_layout
from vyre_opt.ir import parse

SUM = """
program @sum workgroup(32) {
  buffer @a : u32[?] read binding(0)
  buffer @b : u32[?] read binding(1)
  buffer @y : u32[?] write binding(2)
  %i = global_id x
  %n = len @y
  %in = lt %i, %n : u32
  if %in {
    %v = load @a[%i] : u32
    %w = load @b[%i] : u32
    %s = add %v, %w : u32
    store %s, @y[%i] : u32
  }
}
"""
COUNT = 100
BYTES = -(-4 * COUNT // ALIGNMENT) * ALIGNMENT


def text(launches: list[str], own: list[str]) -> str:
    buffers = "\n".join(f"  buffer @{name} : u32[{COUNT}]" for name in own)
    return f"""vyre 1
{SUM}
pipeline @main {{
  buffer @x : u32[{COUNT}] read
  buffer @y : u32[{COUNT}] write
{buffers}
  {chr(10).join(launches)}
}}
"""


def launch(a: str, b: str, y: str) -> str:
    return f"launch @sum grid(4) (@{a}, @{b}, @{y})"


def plan(launches: list[str], own: list[str]) -> PipelinePlan:
    module = parse(text(launches, own))
    return make_plan(module, module.pipelines["main"], {}, "cpu", True)


CHAIN = [launch("x", "x", "a"), launch("a", "a", "b"), launch("b", "b", "c"), launch("c", "c", "y")]


def test_a_chain_takes_two_buffers() -> None:
    layout = storage_layout(plan(CHAIN, ["a", "b", "c"]), ["a", "b", "c"], ())
    assert layout.offsets == {"a": 0, "b": BYTES, "c": 0}
    assert layout.bytes == 2 * BYTES


@pytest.mark.parametrize(
    "launches",
    [
        [*CHAIN[:3], launch("a", "c", "y")],  # a is read at the end
        ["repeat 2 {", *CHAIN, "}"],  # the next round may find what one leaves
    ],
)
def test_what_is_needed_later_is_not_overwritten(launches: list[str]) -> None:
    layout = storage_layout(plan(launches, ["a", "b", "c"]), ["a", "b", "c"], ())
    assert sorted(layout.offsets.values()) == [0, BYTES, 2 * BYTES]


@pytest.mark.parametrize("filled", ["a", "b", "c"])
def test_what_is_filled_before_shares_nothing(filled: str) -> None:
    layout = storage_layout(plan(CHAIN, ["a", "b", "c"]), ["a", "b", "c"], {filled})
    offsets = layout.offsets.copy()
    assert offsets.pop(filled) not in offsets.values()


@pytest.mark.parametrize("large", ["a", "c"])
def test_shared_memory_is_as_large_as_the_largest_buffer_in_it(large: str) -> None:
    chain = plan(CHAIN, ["a", "b", "c", "unused"])
    chain.buffers[large].count = 3 * COUNT
    layout = storage_layout(chain, ["a", "b", "c", "unused"], ())
    ends = {name: start + chain.size(name) for name, start in layout.offsets.items()}
    for one, other in (("a", "b"), ("b", "c")):
        assert ends[one] <= layout.offsets[other] or ends[other] <= layout.offsets[one]
    assert max(ends.values()) <= layout.bytes


@pytest.mark.parametrize("seed", quick(range(200), keep=5))
def test_pipelines_of_random_launches(seed: int) -> None:
    """Planned calls beside the interpreter, which gives each buffer memory of its own."""
    rng = random.Random(seed)
    own = [f"t{k}" for k in range(rng.randint(1, 9))]
    written: list[str] = ["x"]
    launches: list[str] = []
    for _ in range(rng.randint(3, 20)):
        target = rng.choice(own)
        sources = [name for name in written if name != target]
        launches.append(launch(rng.choice(sources), rng.choice(sources), target))
        if target not in written:
            written.append(target)
    split = rng.randint(0, len(launches))
    launches[split:] = ["repeat 3 {", *launches[split:], "}"] if split < len(launches) else []
    launches.append(launch(rng.choice(written), rng.choice(written), "y"))
    source = text(launches, own)
    compiled, reference = vyre_opt.compile(source), vyre_opt.compile(source, target="ref")
    for call in range(4):
        x = np.random.default_rng(call).integers(0, 1 << 32, COUNT, np.uint32)
        assert np.array_equal(compiled([x])["y"], reference([x])["y"])
