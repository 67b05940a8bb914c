"""The pass fusion_pressure: exact decisions, whoever computes; linear; notes that are never stale."""

from __future__ import annotations

import random
import subprocess
import sys
from fractions import Fraction
from math import prod

import numpy as np
import pytest
from support.calls import count_calls

from vyre_opt import PassManager, parse, print_program
from vyre_opt.ir import DiagnosticError, Launch, Module, Program
from vyre_opt.passes.context import PassContext

COPY = """vyre 1
program @copy workgroup(64) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1) live_out
  %g = global_id x
  %v = load @x[%g] : u32
  store %v, @y[%g] : u32
}
"""


def chain(ranks: list[int]) -> Module:
    """Launches that hand over buffers of `ranks` elements, one to the next; and one that takes none of them."""
    buffers = [f"buffer @b{i} : u32[{rank}]" for i, rank in enumerate([1, *ranks, 1])]
    launches = [f"launch @copy grid(1) (@b{i}, @b{i + 1})" for i in range(len(ranks) + 1)]
    own = ["buffer @in : u32[1] read", "buffer @out : u32[1] write live_out"]
    lines = [*own, *buffers, *launches, "launch @copy grid(1) (@in, @out)"]
    return parse(f"{COPY}pipeline @main {{\n" + "\n".join(lines) + "\n}\n")


def notes(module: Module) -> list[dict[str, object]]:
    stages = module.pipelines["main"].walk()
    return [stage.notes for stage in stages if isinstance(stage, Launch) and "rank" in stage.notes]


def run(module: Module, **options: object) -> list[dict[str, object]]:
    fields = " ".join(f"{key}={value}" for key, value in options.items())
    PassManager(f"fusion_pressure{{{fields}}}").run(module)
    return notes(module)


def test_dispatched_and_closed_form_agree() -> None:
    """Whatever fits a contraction has the product of its ranks from each of the dispatchers."""
    rng = random.Random(1)
    for _ in range(8):
        ranks = [rng.randint(1, 40) for _ in range(rng.randint(1, 4))]
        expected = [
            {"rank": rank, "pressure": prod(ranks), "bytes": 8 * rank, "fuse": True} for rank in ranks
        ]
        for dispatcher in ("cpu", "ref", "closed"):
            assert run(chain(ranks), dispatcher=dispatcher) == expected


@pytest.mark.parametrize("ranks", [[64, 64, 64], [2, 32], [4096, 1], [1 << 22, 1 << 24]])
def test_decision_is_exact_at_the_threshold(ranks: list[int]) -> None:
    """At threshold^links the chain fuses, and at the next float below it does not."""
    from math import nextafter

    root = round(prod(ranks) ** (1 / len(ranks)))
    assert Fraction(root) ** len(ranks) == prod(ranks)
    for threshold, fuse in ((float(root), True), (nextafter(root, 0), False)):
        assert {note["fuse"] for note in run(chain(ranks), threshold=repr(threshold))} == {fuse}


ADD = """program @add workgroup(64) {
  buffer @h : u32[?] read_write binding(0) live_in live_out
  %g = global_id x
  %v = load @h[%g] : u32
  %s = add %v, %g : u32
  store %s, @h[%g] : u32
}
"""
HAND_OFF = "launch @add grid(1) (@h)\nlaunch @copy grid(1) (@h, @y)\n"


@pytest.mark.parametrize(
    ("stages", "moved"),
    [
        (HAND_OFF, 2 * 256),
        (HAND_OFF + "host_read @y\nlaunch @copy grid(1) (@h, @y)\n", 256),
        (f"repeat 2 {{ {HAND_OFF} }}", 256),
    ],
    ids=["nobody else", "a later stage", "the next round of a repeat"],
)
def test_a_hand_off_that_others_read_too_is_written_all_the_same(stages: str, moved: int) -> None:
    """Then joining saves only the read of its 64 elements."""
    buffers = "buffer @h : u32[64]\nbuffer @y : u32[64] write live_out\n"
    notes_of = run(parse(f"{COPY}{ADD}pipeline @main {{\n{buffers}{stages}}}\n"))
    assert notes_of[0]["bytes"] == moved


def test_pressure_beyond_a_note_is_a_power_of_two_below_it() -> None:
    """The digits of n ranks in n notes would be a text of n^2."""
    assert {note["pressure"] for note in run(chain([1 << 16] * 5), dispatcher="closed")} == {"at least 2^80"}
    (note,) = run(chain([1 << 31]), dispatcher="closed")
    assert note["pressure"] == 1 << 31


def test_second_run_changes_nothing_and_text_keeps_the_notes() -> None:
    module = chain([64, 4096])
    assert PassManager("fusion_pressure").run(module).changed
    text = print_program(module)
    assert not PassManager("fusion_pressure").run(module).changed
    again = parse(text)
    assert not PassManager("fusion_pressure").run(again).changed
    assert print_program(again) == text


def test_old_notes_go_where_the_edge_is_gone() -> None:
    module = chain([64])
    run(module)
    stages = module.pipelines["main"].stages
    stages.insert(1, stages.pop())  # a launch between that takes nothing
    result = PassManager("fusion_pressure").run(module)
    assert result.changed
    assert notes(module) == []


def test_buffers_that_are_passed_but_not_read_are_no_hand_off() -> None:
    """What counts is what the ops do, not what is declared."""
    text = """vyre 1
    program @make workgroup(64) {
      buffer @x : u32[64] read_write binding(0) live_in live_out
      buffer @y : u32[32] read_write binding(1) live_in live_out
      %g = global_id x
      store %g, @x[%g] : u32
      store %g, @y[%g] : u32
    }
    program @take workgroup(64) {
      buffer @x : u32[64] read_write binding(0) live_in live_out
      buffer @y : u32[32] read binding(1)
      %g = global_id x
      %n = len @x
      %v = load @y[%g] : u32
      %w = add %v, %n : u32
      store %w, @x[%g] : u32
    }
    pipeline @main {
      buffer @x : u32[64] read_write live_in live_out
      buffer @y : u32[32]
      launch @make grid(1) (@x, @y)
      launch @take grid(1) (@x, @y)
    }"""
    (note,) = run(parse(text))
    assert note["rank"] == 32  # of @y alone


def test_two_buffers_add_up_and_an_open_one_that_both_read_makes_bytes_a_bound() -> None:
    text = """vyre 1
    program @make workgroup(64) {
      buffer @table : u32[?] read binding(0)
      buffer @x : u32[64] write binding(1) live_out
      buffer @y : u8[32] write binding(2) live_out
      %g = global_id x
      %v = load @table[%g] : u32
      store %v, @x[%g] : u32
      %b = cast %v : u32 -> u8
      store %b, @y[%g] : u8
    }
    program @take workgroup(64) {
      buffer @table : u32[?] read binding(0)
      buffer @x : u32[64] read binding(1)
      buffer @y : u8[32] read binding(2)
      buffer @z : u32[64] write binding(3) live_out
      %g = global_id x
      %t = load @table[%g] : u32
      %v = load @x[%g] : u32
      %b = load @y[%g] : u8
      %w = cast %b : u8 -> u32
      %s = add %v, %w : u32
      %r = add %s, %t : u32
      store %r, @z[%g] : u32
    }
    pipeline @main {
      buffer @table : u32[?] read
      buffer @x : u32[64]
      buffer @y : u8[?]
      buffer @z : u32[64] write live_out
      launch @make grid(1) (@table, @x, @y)
      launch @take grid(1) (@table, @x, @y, @z)
    }"""
    (note,) = run(parse(text))  # the programs say how long @y is
    assert note == {"rank": 96, "pressure": 96, "least_bytes": 2 * (256 + 32), "fuse": True}


def test_rank_beyond_u32_ends_the_chain_with_a_remark() -> None:
    module = chain([1 << 32, 64])
    result = PassManager("fusion_pressure{dispatcher=closed}").run(module)
    assert [note["rank"] for note in notes(module)] == [64]
    (refused,) = [remark for remark in result.remarks if remark.kind == "refused"]
    assert "@b1 has more elements than a u32 counts" in refused.message
    assert refused.loc is not None


def test_kernel_that_is_not_expanded_ends_the_chain() -> None:
    """No launch is known for it, so nothing is noted on either side."""
    text = COPY.replace("u32", "f32") + (
        """pipeline @main {
      buffer @x : f32[64]
      buffer @open : f32[?] write live_out
      buffer @y : f32[64] write live_out
      launch @copy grid(1) (@y, @x)
      math.softmax(@x, @open) {columns = 64}
      launch @copy grid(1) (@x, @y)
    }"""
    )
    assert run(parse(text)) == []


def test_missing_dispatcher_is_a_located_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from vyre_opt.execution import BackendError
    from vyre_opt.fusion import pressure

    def refuse(*args: object, **rest: object) -> float:
        raise BackendError("there is no GPU")

    monkeypatch.setattr(pressure, "fusion_pressure", refuse)
    with pytest.raises(DiagnosticError) as raised:
        run(chain([64]), dispatcher="cuda")
    (error,) = raised.value.diagnostics
    assert "cannot dispatch on cuda: there is no GPU" in error.message
    assert error.loc is not None
    assert error.help is not None


def test_dispatcher_with_another_product_is_a_located_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is decided by a pressure that is not that of the ranks, nor by the closed form in its place."""

    class Liar:
        def dispatch(self, program: Program, inputs: list[np.ndarray], grid: object) -> list[np.ndarray]:
            return [np.full(len(inputs[-1]), 5, np.uint32)]

    monkeypatch.setattr(PassContext, "dispatcher", lambda *_: Liar())
    module = chain([64])
    with pytest.raises(DiagnosticError) as raised:
        run(module, dispatcher="cpu")
    (error,) = raised.value.diagnostics
    assert error.message == "cpu contracts ranks of @main to 5; their product is 64"
    assert error.loc is not None
    assert error.help is not None
    assert notes(module) == []


def test_the_dispatched_value_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    from vyre_opt.fusion import pressure

    def refuse(*args: object) -> bool:
        raise AssertionError("the closed form decides")

    monkeypatch.setattr(pressure, "should_fuse_chain", refuse)
    for threshold, fuse in ((64, True), (63, False)):
        (note,) = run(chain([64]), dispatcher="ref", threshold=threshold)
        assert (note["pressure"], note["fuse"]) == (64, fuse)


JOINED = f"""{COPY}program @mirror workgroup(64) {{
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1) live_out
  %g = global_id x
  %n = len @x
  %one = const 1 : u32
  %last = sub %n, %one : u32
  %i = sub %last, %g : u32
  %v = load @x[%i] : u32
  store %v, @y[%g] : u32
}}
pipeline @main {{
  buffer @a : u32[4096] read
  buffer @b : u32[4096]
  buffer @c : u32[4096]
  buffer @d : u32[4096]
  buffer @e : u32[4096] write live_out
  launch @copy grid(64) (@a, @b) {{rank = 5}}
  launch @copy grid(64) (@b, @c)
  launch @mirror grid(64) (@c, @d)
  launch @copy grid(64) (@d, @e) {{fuse = false}}
}}
"""


def left_by(passes: str, text: str = JOINED) -> str:
    module = parse(text)
    PassManager(passes).run(module)
    return print_program(module)


def test_notes_that_are_left_were_carried_out() -> None:
    """One link is joined; the next may not be, and only the user keeps the last apart.  A pipe between makes no difference."""
    together = left_by("fusion_pressure,launch_fusion")
    stages = [s for s in parse(together).pipelines["main"].walk() if isinstance(s, Launch)]
    assert [(stage.program, stage.notes) for stage in stages] == [
        ("copy_then_copy", {}),
        ("mirror", {}),
        ("copy", {"fuse": False}),
    ]
    assert left_by("launch_fusion", left_by("fusion_pressure")) == together
    assert left_by("launch_fusion") == together
    assert left_by("launch_fusion", together) == together


@pytest.mark.parametrize(("threshold", "count"), [(4096, 3), (4095, 4)])
def test_threshold_that_a_user_names_decides(threshold: int, count: int) -> None:
    passes = f"fusion_pressure{{threshold={threshold}}},launch_fusion"
    text = left_by(passes)
    stages = [s for s in parse(text).pipelines["main"].walk() if isinstance(s, Launch)]
    assert len(stages) == count
    assert all(stage.notes.get("fuse", False) is False for stage in stages)
    assert left_by(passes, text) == text


def test_nothing_heavy_is_loaded_where_there_is_no_edge() -> None:
    """Nor where the closed form is asked for, or is all there is."""
    script = (
        "import sys; from vyre_opt import PassManager, parse; "
        "PassManager('fusion_pressure').run(parse(sys.argv[1])); "
        "raise SystemExit('llvmlite' in sys.modules or 'numpy' in sys.modules)"
    )
    no_edge, large = print_program(chain([])), print_program(chain([1 << 30, 1 << 30]))
    for text in (COPY, no_edge, large):
        assert subprocess.run([sys.executable, "-c", script, text], check=False, timeout=60).returncode == 0


@pytest.mark.campaign
def test_work_is_linear_in_the_launches() -> None:
    """Of chains of equal ranks and of different ones; a table or a product that grows would show."""

    def calls(count: int) -> int:
        module = chain([64 + i % 7 for i in range(count)])
        manager = PassManager("fusion_pressure", verify_each=False)
        return count_calls(lambda: manager.run(module))

    calls(10)  # what is imported and compiled at the first run
    assert calls(4000) < 9 * calls(500)


def test_facts_are_in_the_remark() -> None:
    """What --emit=json carries: the table's rows as values."""
    result = PassManager("fusion_pressure{threshold=inf}").run(chain([64, 16]))
    (remark,) = [r for r in result.remarks if r.pass_name == "fusion_pressure"]
    first = remark.certificate["edges"][0]
    assert first == {
        "first": "copy",
        "second": "copy",
        "buffers": ["b1"],
        "bytes": 512,
        "rank": 64,
        "pressure": 1024,
        "fuse": True,
        "computed": "closed",
    }
    assert remark.certificate["threshold"] == "inf"
