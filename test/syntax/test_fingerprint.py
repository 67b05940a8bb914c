"""The fingerprint's promise: blind to names, places, comments and orders, and to nothing else."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from support import Settings, random_program
from support.quick import quick

from vyre_opt import fingerprint, parse, print_program
from vyre_opt.ir import OPS, Module, Op, Program

SETTINGS = Settings(statements=5, depth=2, fastmath=True)
SEEDS = range(300, 330)


def shuffled(table: dict, rng: random.Random) -> dict:
    return dict(rng.sample(list(table.items()), len(table)))


@pytest.mark.parametrize("seed", quick(SEEDS, keep=10))
def test_blind_to_names_places_and_orders(seed: int) -> None:
    """Other value names, no locations, comments, and declarations in another order."""
    module = random_program(seed, SETTINGS).module
    text, first = print_program(module), fingerprint(module)
    again = parse(text.replace("\n", " // a comment\n"))
    rng = random.Random(seed)
    for item in again.order:
        item.loc = None
        for op in item.walk():
            op.loc = None
            for value in (*op.results, *(arg for block in op.regions for arg in block.args)):
                value.name = f"v{rng.randrange(4)}"
            if "fastmath" in op.attrs:
                op.attrs = {**op.attrs, "fastmath": tuple(reversed(op.attrs["fastmath"]))}
        if isinstance(item, Program):
            item.buffers, item.specs = shuffled(item.buffers, rng), shuffled(item.specs, rng)
    rng.shuffle(again.order)
    assert fingerprint(again) == first
    assert fingerprint(again.programs["main"]) == fingerprint(module.programs["main"])


def changes(module: Module) -> Iterator[tuple[str, Callable[[], None]]]:
    """What may be changed of a module, each undone by the caller (who parses it anew)."""
    program = module.programs["main"]
    for number, op in enumerate(program.walk()):
        value = op.attrs.get("value")
        if isinstance(value, int):
            yield f"constant {number}", lambda op=op, v=value: op.attrs.__setitem__("value", v ^ 1)
        other = {"add": "sub", "and": "or", "lt": "le", "min": "max", "load": None}.get(op.name)
        if other:
            yield f"op {number}", lambda op=op, name=other: setattr(op, "definition", OPS[name])
        if len(op.operands) > 1 and op.operands[0].type is op.operands[1].type:
            a, b, *rest = op.operands
            if a is not b:
                yield f"operands {number}", lambda op=op, s=(b, a, *rest): setattr(op, "operands", s)
        if op.name == "barrier":
            yield f"scope {number}", lambda op=op: setattr(op, "attrs", {"scope": "grid"})
    for buffer in program.buffers.values():
        if buffer.count is not None:
            yield f"count @{buffer.name}", lambda b=buffer: setattr(b, "count", b.count + 1)
        yield f"live_out @{buffer.name}", lambda b=buffer: setattr(b, "live_out", not b.live_out)
        yield f"binding @{buffer.name}", lambda b=buffer: setattr(b, "binding", 77)
    for spec in program.specs.values():
        yield f"spec @{spec.name}", lambda s=spec: setattr(s, "default", s.default ^ 1)
    yield "workgroup", lambda: setattr(program, "workgroup", (7, 1, 1))
    yield "grid", lambda: setattr(program, "grid", (9, 9, 9))
    yield "prefer_shared", lambda: setattr(program, "prefer_shared", 9)


@pytest.mark.parametrize(("seed", "step"), quick([(326, 3), *((seed, 1) for seed in SEEDS[::-3])]))
def test_different_for_any_change(seed: int, step: int) -> None:
    """Every change, or some, gives a fingerprint of its own: not the first one, nor that of another change."""
    text = print_program(random_program(seed, SETTINGS).module)
    seen = {fingerprint(parse(text).programs["main"]): "no change"}
    for place, (what, _) in [*enumerate(changes(parse(text)))][::step]:
        module = parse(text)
        _copy_attributes(module)
        list(changes(module))[place][1]()
        digest = fingerprint(module.programs["main"])
        assert digest not in seen, f"{what} looks like {seen[digest]}"
        seen[digest] = what


def _copy_attributes(module: Module) -> None:
    """Attributes may be shared; a test that writes them needs its own."""
    op: Op
    for op in module.programs["main"].walk():
        op.attrs = dict(op.attrs)


KERNEL = """vyre 1

program @p workgroup(64) {
  buffer @a : f32[64] read binding(0)
  buffer @b : f32[64] write binding(1)
  math.softmax(@a, @b) {%s}
}
"""


def test_parameters_of_a_kernel_have_no_order() -> None:
    one, other = (
        KERNEL % p for p in ("columns = 8, schedule_lanes = 32", "schedule_lanes = 32, columns = 8")
    )
    assert fingerprint(parse(one)) == fingerprint(parse(other))
    assert fingerprint(parse(one)) != fingerprint(parse(KERNEL % "columns = 16, schedule_lanes = 32"))


def test_the_same_in_every_process() -> None:
    """Whatever the seed of Python's own hashes: the cache lives longer than a process."""
    script = (
        "from vyre_opt import fingerprint; from support import Settings, random_program;"
        "print(fingerprint(random_program(301, Settings(statements=5, depth=2, fastmath=True)).module).hex())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    }
    assert digests == {fingerprint(random_program(301, SETTINGS).module).hex() + "\n"}
