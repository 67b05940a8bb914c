"""The properties notice a wrong pass, and the reducer makes the program that shows it small."""

from __future__ import annotations

import pytest
from support import Settings, random_program
from support.campaign import reduced
from support.properties import Broken, baseline, check_pipeline

from vyre_opt.ir import OPS, AccessMode, Module, Program
from vyre_opt.passes import Pass, PassContext, registry


class Mirror(Pass):
    """Wrong: a - b is not b - a."""

    name = "test_mirror"
    summary = "Swaps the operands of every sub."

    def run(self, module: Module, ctx: PassContext) -> bool:
        subs = [op for program in module.programs.values() for op in program.walk() if op.name == "sub"]
        for op in subs:
            op.operands = (op.operands[1], op.operands[0])
        return any(a is not b for a, b in (op.operands for op in subs))


class Promote(Pass):
    """Wrong: the tile lacks the last element."""

    name = "test_promote"
    summary = "Makes every transient buffer a workgroup buffer that is too small."

    def run(self, module: Module, ctx: PassContext) -> bool:
        changed = False
        for program in module.programs.values():
            for buffer in program.buffers.values():
                if buffer.is_transient and buffer.count is not None:
                    buffer.access, buffer.binding = AccessMode.WORKGROUP, None
                    buffer.count, changed = max(1, buffer.count - 1), True
        return changed


class Silent(Pass):
    """Wrong: it changes the module and says that it did not."""

    name = "test_silent"
    summary = "Renames nothing, appends a const."

    def run(self, module: Module, ctx: PassContext) -> bool:
        for item in module.order:
            if isinstance(item, Program):
                for op in item.walk():
                    if op.name == "add":
                        op.definition = OPS["sub"]
        return False


@pytest.fixture(autouse=True)
def _wrong_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    for cls in (Mirror, Promote, Silent):
        monkeypatch.setitem(registry._registered, cls.name, cls)


SMALL = Settings(statements=5, depth=2, expression_depth=2)


def broken_by(pipeline: str, programs: int = 40, kind: str = "") -> tuple[int, Broken]:
    """The first seed whose program shows that a pipeline is wrong, in a way of a `kind` if that is given."""
    for seed in range(programs):
        sample = random_program(seed, SMALL)
        try:
            check_pipeline(sample, pipeline, baseline(sample, seed))
        except Broken as failure:
            if failure.kind == kind or not kind:
                return seed, failure
    pytest.fail(f"{programs} programs did not show that {pipeline} is wrong")


def test_a_wrong_rewrite_is_found_and_reduced() -> None:
    """Swapped operands change outputs, and what is left of the program is little more than the sub."""
    seed, failure = broken_by("test_mirror", kind="result")
    text = reduced(seed, failure, settings=SMALL)
    assert " sub " in text
    assert text.count("\n") < 60
    assert text.count("\n") < failure.text.count("\n") / 3


def test_a_tile_too_small_is_found() -> None:
    """A pass that makes a sound program leave its buffers shows as a fault, not as a crash."""
    _, failure = broken_by("test_promote", 60)
    assert failure.kind == "fault"


def test_a_pass_that_hides_its_change_is_found() -> None:
    """`changed` is held against the fingerprint."""
    _, failure = broken_by("test_silent")
    assert failure.kind == "contract"
    assert "something changed" in failure.what
