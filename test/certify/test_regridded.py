"""Launches over another grid: what is right is proved, and each planted mistake is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from support.quick import quick

from vyre_opt import parse, print_program
from vyre_opt.certify.certifier import Certifier, Decision
from vyre_opt.ir import Module
from vyre_opt.passes import Pass, PassManager
from vyre_opt.passes.manager import Remark

STAGE = """vyre 1
program @swap workgroup(256) {
  buffer @x : u8[?] read binding(0)
  buffer @y : u8[?] write binding(1) live_out
  %g = global_id x
  %n = len @x
  %s = global_size x
  for %i = %g to %n step %s {
    %v = load @x[%i] : u8
    %w = not %v : u8
    store %w, @y[%i] : u8
  }
}
program @count workgroup(256) {
  buffer @x : u8[?] read binding(0)
  buffer @y : u32[?] read_write binding(1) live_in live_out
  %g = global_id x
  %n = len @x
  %inside = lt %g, %n : u32
  if %inside {
    %v = load @x[%g] : u8
    %bin = cast %v : u8 -> u32
    %one = const 1 : u32
    %old = atomic_add @y[%bin], %one : u32
  }
}
pipeline @main {
  buffer @text : u8[?] read
  buffer @decoded : u8[?] read_write live_out
  buffer @swapped : u8[?] read_write live_out
  buffer @counts : u32[256] read_write live_in live_out
"""
COUNTED = (
    STAGE
    + """  decode.hex(@text, @decoded)
  launch @count grid(ceil_div(len(@decoded), 256)) (@decoded, @counts)
}
"""
)
SWAPPED = (
    STAGE
    + """  launch @swap grid(3) (@text, @swapped)
  decode.hex(@swapped, @decoded)
}
"""
)


@dataclass
class _Changed:
    """A certifier that sees another text than launch_fusion has read (`earlier`) or written (`edits`)."""

    edits: Sequence[tuple[str, str]]
    earlier: Sequence[tuple[str, str]]
    certifier: Certifier = field(default_factory=Certifier)

    def before(self, running: Pass, module: Module) -> None:
        if running.name == "launch_fusion":
            self.certifier.before(running, _edited(module, self.earlier))

    def after(self, running: Pass, module: Module, changed: bool, remarks: Sequence[Remark]) -> None:
        if running.name == "launch_fusion":
            self.certifier.after(running, _edited(module, self.edits), changed, remarks)


def _edited(module: Module, edits: Sequence[tuple[str, str]]) -> Module:
    text = print_program(module)
    for old, new in edits:
        head, found, tail = text.rpartition(old)  # the joined program is the last one
        assert found, (old, text)
        text = head + new + tail
    return parse(text)


def decision(
    text: str, edits: Sequence[tuple[str, str]] = (), earlier: Sequence[tuple[str, str]] = ()
) -> Decision:
    observer = _Changed(edits, earlier)
    passes = "expand_kernels,canonicalize,simplify_cf,cse,launch_fusion{keep=true}"
    PassManager(passes, verify_each=False, observers=[observer]).run(parse(text))
    joined = observer.certifier.decisions[0]
    joined.certify(10)
    return joined


GRIDS = ["ceil_div(len(@text), 64)", "max(1, div(len(@text), 9000))", "add(len(@counts), len(@decoded))"]
"""Each has a workgroup wherever @text has an element."""


RIGHT = [COUNTED, SWAPPED, *(SWAPPED.replace("grid(3)", f"grid({g})") for g in GRIDS)]


@pytest.mark.parametrize("text", quick(RIGHT, keep=2))
def test_right_ones_are_proved(text: str) -> None:
    assert decision(text).status == "proved"


MADE = quick(
    [
        (COUNTED, "for %turn = 0 to 8", "for %turn = 0 to 7"),
        (COUNTED, "  barrier workgroup\n", ""),
        (COUNTED, "ceil_div(len(@decoded), 2048)", "ceil_div(len(@decoded), 4096)"),
        (COUNTED, "for %turn = 0 to 8", "for %turn = 1 to 8"),
        (COUNTED, "mul %workgroup, %c8", "mul %workgroup, %c256"),
        (COUNTED, "max(max(1, ceil_div(len(@text), 4096)), ceil_div(len(@decoded), 2048))", "ceil_div(len(@decoded), 2048)"),
        (SWAPPED, "for %turn = 0 to 16", "for %turn = 0 to 15"),
        (SWAPPED, "  barrier workgroup\n", ""),
        (SWAPPED, "len(@text), 4096", "len(@text), 8192"),
    ],
    keep=3,
)  # fmt: skip


@pytest.mark.parametrize(("text", "old", "new"), MADE)
def test_mistakes_in_what_was_made_are_not_proved(text: str, old: str, new: str) -> None:
    assert decision(text, edits=[(old, new)]).status != "proved"


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        # the rounds of two elements meet, or depend on the grid
        (SWAPPED, "store %w, @y[%i]", "store %w, @y[%n]"),
        (SWAPPED, "%w = not %v : u8", "%t = cast %g : u32 -> u8 %w = xor %v, %t : u8"),
        (SWAPPED, "%w = not %v : u8", "%t = cast %s : u32 -> u8 %w = xor %v, %t : u8"),
        (SWAPPED, "for %i = %g to %n step %s", "for %i = %g to %n step %n"),
        # no workgroup runs, so nothing is swapped
        (SWAPPED, "grid(3)", "grid(div(len(@text), 4096))"),
        pytest.param(SWAPPED, "grid(3)", "grid(ceil_div(len(@decoded), 64))", marks=pytest.mark.campaign),
        # more workgroups than there is room for
        (COUNTED, "grid(ceil_div(len(@decoded), 256))", "grid(ceil_div(len(@decoded), 128))"),
        # workgroups that may wait for each other
        (COUNTED, "atomic_add<relaxed>", "atomic_add<acquire>"),
    ],
)
def test_what_another_grid_would_change_is_not_proved(text: str, old: str, new: str) -> None:
    assert decision(text, earlier=[(old, new)]).status != "proved"
