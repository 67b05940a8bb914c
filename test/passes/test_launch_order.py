"""launch_fusion with launches that it brings forward: what a call gives, prints and faults at stays, and each move is certified."""

from __future__ import annotations

import random
from contextlib import nullcontext

import numpy as np
import pytest
from support.quick import quick

import vyre_opt
from vyre_opt import PassManager, parse
from vyre_opt.certify.certifier import Certifier
from vyre_opt.execution import ProgramError
from vyre_opt.fusion import launch_order
from vyre_opt.fusion.launch_order import cannot_fault
from vyre_opt.ir import Launch

SIZE = 64
BODIES = {
    "double": "%w = add %v, %v : u32\n  store %w, @o[%i] : u32",
    "next": "%w = add %v, 1 : u32\n  store %w, @o[%i] : u32",
    "counted": "%w = rem %v, 4 : u32\n  %old = atomic_add<relaxed> @o[%w], 1 : u32",
    "said": 'if %first { debug_print "NAME %u" %v }\n  store %v, @o[%i] : u32',
    "trapped": '%bad = gt %v, 900 : u32\n  if %bad { trap "NAME" }\n  store %v, @o[%i] : u32',
    "beyond": "%far = add %i, 1 : u32\n  store %v, @o[%far] : u32",
}
OFTEN = ("double", "next", "double", "next", "counted", "said")
"""What most launches do."""


def program(name: str, kind: str, lanes: int) -> str:
    access = "read_write live_in live_out" if kind == "counted" else "write"
    return f"""program @{name} workgroup({lanes}) {{
  buffer @a : u32[{SIZE}] read binding(0)
  buffer @o : u32[{SIZE}] {access} binding(1)
  %i = global_id x
  %first = eq %i, 0 : u32
  %v = load @a[%i] : u32
  {BODIES[kind].replace("NAME", name)}
}}
"""


def random_pipeline(seed: int) -> str:
    """Some launches of two widths over a few buffers, in which chains stand among each other."""
    rng = random.Random(seed)
    names, programs, stages = "abcdef", [], []
    for number in range(rng.randint(3, 6)):
        kind = rng.choice(OFTEN if rng.random() < 0.85 else tuple(BODIES))
        lanes = rng.choice((8, 8, 16))
        programs.append(program(f"p{number}", kind, lanes))
        source, to = rng.sample(names, 2)
        stages.append(f"launch @p{number} grid({SIZE // lanes}) (@{source}, @{to})")
        if rng.random() < 0.1:
            stages.append(f"host_read @{rng.choice(names)}")
    if rng.random() < 0.2:
        stages = ["repeat 2 {", *stages, "}"]
    own = rng.sample(names, 2)
    buffers = [f"buffer @{n} : u32[{SIZE}]" + ("" if n in own else " live_in live_out") for n in names]
    filled = [f"fill(@{n}, {k})" for k, n in enumerate(own)]
    lines = "\n  ".join([*buffers, *filled, *stages])
    return "vyre 2\n" + "".join(programs) + f"pipeline @main {{\n  {lines}\n}}\n"


def outcome(text: str, passes: str | None, seed: int) -> object:
    """What a call gives, prints and hands to the host; or at which line it is at fault."""
    rng = np.random.default_rng(seed)
    executable = vyre_opt.compile(text, target="ref", passes=passes)
    inputs = {b.name: rng.integers(0, 1000, SIZE, np.uint32) for b in executable.signature.read}
    lines: list[str] = []
    reads: list[tuple[str, bytes]] = []
    try:
        with vyre_opt.on_debug_print(lines.append):
            outputs = executable(
                inputs, on_host_read=lambda name, array: reads.append((name, array.tobytes()))
            )
    except ProgramError as fault:
        loc = fault.diagnostic.loc
        return fault.kind, loc.line if loc else None
    return lines, reads, {name: array.tobytes() for name, array in outputs.items()}


def moves(text: str) -> int:
    """How many launches come earlier than they stood; each such decision is proved."""
    certifier = Certifier()
    result = PassManager("launch_fusion", observers=[certifier]).run(parse(text))
    orders = [r.certificate.get("order", ()) for r in result.remarks if r.kind == "applied"]
    for decision in certifier.decisions if any(orders) else ():
        decision.certify(3)
        assert decision.status == "proved", (decision.what, decision.answers, text)
    return sum(map(len, orders))


@pytest.mark.parametrize(
    ("first", "count"), quick([(40, 30), *((first, 100) for first in range(100, 1500, 100))])
)
def test_random_pipelines_stay_what_they_were(first: int, count: int) -> None:
    moved = 0
    for seed in range(first, first + count):
        text = random_pipeline(seed)
        assert outcome(text, "expand_kernels,launch_fusion", seed) == outcome(text, None, seed), (
            f"{seed}:\n{text}"
        )
        moved += moves(text)
    assert moved > count / 50


@pytest.mark.parametrize("check", ["fault_free_node", "_may_print", "refusal"])
def test_each_condition_is_needed(check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one of them, some pipeline gives, prints or faults at something else."""
    always = {
        "fault_free_node": lambda self, one, other: one,
        "_may_print": lambda self, program: False,
        "refusal": lambda self, one, other: None,
    }
    monkeypatch.setattr(launch_order.LaunchOrder, check, always[check])
    texts = [BOTH[check]] if check in BOTH else [random_pipeline(seed) for seed in range(60)]
    assert any(
        outcome(text, "expand_kernels,launch_fusion", seed) != outcome(text, None, seed)
        for seed, text in enumerate(texts)
    )


def between(kind: str, last: str) -> str:
    """A launch of another width, between two that could be one."""
    return f"""vyre 2
{program("one", "next", 8)}{program("mid", kind, 16)}{program("two", last, 8)}pipeline @main {{
  buffer @a : u32[{SIZE}] live_in live_out
  buffer @b : u32[{SIZE}] live_in live_out
  buffer @c : u32[{SIZE}] live_in live_out
  buffer @d : u32[{SIZE}] live_in live_out
  launch @one grid({SIZE // 8}) (@a, @b)
  launch @mid grid({SIZE // 16}) (@c, @d)
  launch @two grid({SIZE // 8}) (@b, @{"d" if last == kind == "next" else "a"})
}}
"""


BOTH = {"fault_free_node": between("beyond", "trapped"), "_may_print": between("said", "said")}


@pytest.mark.parametrize(
    ("kind", "last", "reason"),
    [
        ("beyond", "trapped", "order"),
        ("said", "said", ""),
        ("next", "next", ""),
        ("trapped", "next", "moved"),
        ("double", "trapped", "moved"),
    ],
)
def test_what_may_come_earlier(kind: str, last: str, reason: str) -> None:
    """One that cannot be at fault, or past one that cannot; the remark says where only faults forbid it."""
    text = between(kind, last)
    result = PassManager("launch_fusion").run(parse(text))
    moved = [r for r in result.remarks if "order" in r.certificate]
    told = [r for r in result.remarks if r.certificate.get("reason") == "order"]
    assert (len(moved), len(told)) == {"moved": (1, 0), "order": (0, 1), "": (0, 0)}[reason]


def test_the_certifier_does_not_believe_that_launches_are_sound() -> None:
    """A certificate that names the wrong launch as without faults, or none, proves nothing."""
    text = between("trapped", "next")
    for change in (lambda order: [[m, p, p] for m, p, _ in order], lambda order: []):
        certifier = Certifier()
        before = parse(text)
        after = parse(text)
        result = PassManager("launch_fusion").run(after)
        for remark in result.remarks:
            if "order" in remark.certificate:
                remark.certificate["order"] = change(remark.certificate["order"])
        certifier.before(PassManager("launch_fusion").passes[-1], before)
        certifier.after(PassManager("launch_fusion").passes[-1], after, True, result.remarks)
        for decision in certifier.decisions:
            decision.certify(2)
        assert "unknown" in {decision.status for decision in certifier.decisions}


@pytest.mark.parametrize(
    ("kind", "sound"),
    [("double", True), ("counted", True), ("said", True), ("trapped", False), ("beyond", False)],
)
def test_what_cannot_be_at_fault(kind: str, sound: bool) -> None:
    module = parse("vyre 2\n" + program("p", kind, 8).replace("workgroup(8)", "workgroup(8) grid(8)"))
    assert cannot_fault(module.programs["p"]) is sound


def test_a_pipeline_of_python_is_joined_past_an_independent_launch() -> None:
    text = between("next", "double")
    module = parse(text)
    PassManager("default").run(module)
    assert [s.program for s in module.pipelines["main"].stages if isinstance(s, Launch)] == [
        "one_then_two",
        "mid",
    ]


PRINTED = """vyre 2
program @a workgroup(64) {
  buffer @x : u32[64] read binding(0)
  buffer @y : u32[64] write binding(1) live_out
  %i = global_id x
  %v = load @x[%i]
  store %v, @y[%i]
}
program @b workgroup(32) {
  buffer @x : u32[64] read binding(0)
  buffer @y : u32[64] write binding(1) live_out
  %i = global_id x
  %v = load @x[%i]
  FAULT
  store %v, @y[%i]
}
program @c workgroup(64) {
  buffer @x : u32[64] read binding(0)
  buffer @y : u32[64] write binding(1) live_out
  %i = global_id x
  %v = load @x[%i]
  %first = eq %i, 0 : u32
  if %first {
    debug_print "c %u" %v
  }
  store %v, @y[%i]
}
pipeline @main {
  buffer @p : u32[64] read
  buffer @q : u32[64] read
  buffer @t : u32[64]
  buffer @r : u32[64] write
  buffer @s : u32[64] write
  launch @a grid(1) (@p, @t)
  launch @b grid(2) (@q, @r)
  launch @c grid(1) (@t, @s)
}
"""


@pytest.mark.parametrize("faults", [False, True])
def test_what_prints_passes_nothing_that_may_be_at_fault(faults: bool) -> None:
    """The fault ends a call before the print is reached, in both orders."""
    text = PRINTED.replace("FAULT", '%low = lt %v, 60 : u32\n  assert %low, "low"' if faults else "")
    assert moves(text) == (0 if faults else 1)
    x = np.arange(64, dtype=np.uint32)
    said: list[list[str]] = []
    for passes in (None, "launch_fusion"):
        said.append([])
        executable = vyre_opt.compile(text, target="ref", passes=passes)
        ends = pytest.raises(ProgramError, match="low") if faults else nullcontext()
        with ends, vyre_opt.on_debug_print(said[-1].append):
            executable({"p": x, "q": x})
    assert said[0] == said[1] == ([] if faults else ["c 0"])
