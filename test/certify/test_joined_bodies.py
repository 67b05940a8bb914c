"""What launch_fusion made is changed by hand; the second prover must not take it for the launches that it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support.quick import quick

from vyre_opt import parse, print_program
from vyre_opt.certify.certifier import Certifier, Decision
from vyre_opt.ir import Module
from vyre_opt.passes import Pass, PassManager
from vyre_opt.passes.manager import Remark

PIPELINES = Path(__file__).parents[2] / "examples" / "pipelines"


@dataclass
class _Changed:
    """A certifier that sees other text than the pass has read and written.  `edits`: of the text after it."""

    edits: Sequence[tuple[str, str]]
    earlier: Sequence[tuple[str, str]] = ()
    certifier: Certifier = field(default_factory=Certifier)

    def before(self, running: Pass, module: Module) -> None:
        if running.name == "launch_fusion":
            self.certifier.before(running, _edited(module, self.earlier))

    def after(self, running: Pass, module: Module, changed: bool, remarks: Sequence[Remark]) -> None:
        if running.name == "launch_fusion":
            self.certifier.after(running, _edited(module, self.edits), changed, remarks)


def _edited(module: Module, edits: Sequence[tuple[str, str]]) -> Module:
    text = print_program(module, version=1)  # in which constants have lines of their own
    for old, new in edits:
        head, found, tail = text.rpartition(old)  # the joined program is the last one
        assert found, (old, text)
        text = head + new + tail
    return parse(text)


def decisions(
    text: str, edits: Sequence[tuple[str, str]] = (), earlier: Sequence[tuple[str, str]] = ()
) -> list[Decision]:
    """The decisions that launches become one, certified, and what else is not as it was."""
    observer = _Changed(edits, earlier)
    PassManager("launch_fusion{keep=true}", verify_each=False, observers=[observer]).run(parse(text))
    for decision in observer.certifier.decisions:
        decision.certify(5)
    return observer.certifier.decisions


def joins(
    text: str, edits: Sequence[tuple[str, str]] = (), earlier: Sequence[tuple[str, str]] = ()
) -> Decision:
    return decisions(text, edits, earlier)[0]


def why(decision: Decision) -> str:
    return " ".join(
        f"{a.obligation.what}: {a.reason} {a.witness}" for a in decision.answers if a.status != "proved"
    )


EXAMPLES = {
    "halo_of_1": {
        "the last neighbour is not computed": ("to 66 step", "to 65 step", "refuted", "its workgroup has written"),
        "the tile begins one too late": ("4294967295 = const 4294967295", "4294967295 = const 0", "refuted", "- -1"),
        "another element": ("_tile = sub %before, %start", "_tile = sub %i, %start", "refuted", "element - 64"),
        "another place": ("sub %id, %start", "sub %id, %own", "refuted", "lies in the tile"),
        "a tile too small": ("f32[66] workgroup", "f32[65] workgroup", "refuted", "lies in the tile"),
        "one invocation in several lanes": ("to 66 step 64", "to 66 step 1", "refuted", "one lane of a workgroup runs"),
        "a tile for all": ("f32[66] workgroup", "f32[66] read_write", "unknown", "all workgroups write"),
        "fewer invocations": ("lt %id, %c1024", "lt %id, %own", "refuted", "its workgroup has written"),
        "invocations that nobody ran": ("lt %id, %c1024", "le %id, %c1024", "unknown", "branch on the invocation"),
        "another value": ("_tile = sub %id", "_tile = add %id", "refuted", "lies in the tile"),
        "no barrier": ("  barrier workgroup\n", "", "unknown", "should be a barrier"),
        "a narrow barrier": ("barrier workgroup", "barrier subgroup", "unknown", "should be a barrier"),
        "a smaller grid": ("launch @linear_then_smooth grid(16)", "launch @linear grid(16)", "unknown", "in their place"),
        "more than the launches": ("%ends = add %a", 'trap "no" %ends = add %a', "unknown", "does not compute"),
        "a print too much": ("%ends = add %a", 'debug_print "no" %ends = add %a', "unknown", "does not compute"),
    },
    "elementwise_chain": {
        "fewer elements": ("@lit : f32[2048] read_write", "@lit : f32[1024] read_write", "unknown", "declared otherwise"),
        "a buffer that stays": ("pipeline @main {\n", "pipeline @main {\n  buffer @lit : f32[2048]\n", "unknown", "stays in the pipeline"),
        "another operand": ("add %v_1, %c_1", "add %v_1, %c", "unknown", "does not compute"),
        "another constant": ("const 1.5", "const 2.5", "unknown", "does not compute"),
        "another buffer": ("%v_2 = load @even", "%v_2 = load @lit", "unknown", "not"),
        "a store that went": ("  store %s, @lit[%i] : f32\n", "", "unknown", "not a store"),
        "a store too much": ("  %c_2 =", "  store %v, @even[%i] : f32 %c_2 =", "unknown", "does not compute"),
        "a store behind": ("store %s_2, @pixels[%i] : f32", "store %s_2, @pixels[%i] : f32 store %v, @lit[%i] : f32", "unknown", "no launch has"),
    },
}  # fmt: skip


MISTAKES = [(example, mistake) for example, rows in EXAMPLES.items() for mistake in rows]


# of each answer the first
@pytest.mark.parametrize(
    ("example", "mistake"), quick(MISTAKES, group=lambda case: (case[0], EXAMPLES[case[0]][case[1]][3]))
)
def test_mistakes_are_not_proved(example: str, mistake: str) -> None:
    old, new, status, reason = EXAMPLES[example][mistake]
    decision = joins((PIPELINES / f"{example}.vyre").read_text(), [(old, new)])
    assert (decision.status, reason in why(decision)) == (status, True), why(decision)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("buffer @lit : f32[2048]", "buffer @lit : f32[2048] live_out", "@lit is the host's"),
        ("  launch @bias", "  host_read @raw launch @bias", "do not follow each other"),
        ("(@even, @pixels)\n}", "(@even, @pixels)\nhost_read @lit\n}", "@lit is used by another stage"),
    ],
)
def test_a_buffer_that_others_need_may_not_leave(old: str, new: str, reason: str) -> None:
    decision = joins((PIPELINES / "elementwise_chain.vyre").read_text(), earlier=[(old, new)])
    assert (decision.status, reason in why(decision)) == ("unknown", True), why(decision)


def test_equal_groups_share_a_program() -> None:
    """The second group's buffers have the names of the first one's in the program."""
    head, _ = (PIPELINES / "elementwise_chain.vyre").read_text().split("pipeline @main")
    text = (
        head
        + """pipeline @main {
      buffer @a : f32[2048] read
      buffer @b : f32[2048]
      buffer @c : f32[2048] read_write live_out
      buffer @d : f32[2048]
      buffer @e : f32[2048] write
      launch @gain grid(8) (@a, @b)
      launch @bias grid(8) (@b, @c)
      host_read @c
      launch @gain grid(8) (@c, @d)
      launch @bias grid(8) (@d, @e)
    }
    """
    )
    assert [decision.status for decision in decisions(text)] == ["proved", "proved"]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("(@raw, @pixels)\n}", "(@raw, @pixels)\n host_read @pixels\n}", "2 stages in place of 1"),
        (
            "@pixels : f32[2048] write\n\n",
            "@pixels : f32[2048] write live_in\n\n",
            "@pixels is declared otherwise",
        ),
    ],
)
def test_the_rest_of_a_pipeline(old: str, new: str, reason: str) -> None:
    text = (PIPELINES / "elementwise_chain.vyre").read_text()
    joined, rest = decisions(text, [(old, new)])
    assert joined.status == "proved"
    assert rest.what == "pipeline @main changes without a certificate"
    assert (rest.status, reason in why(rest)) == ("unknown", True), why(rest)


def test_launches_that_are_not_joined_stay_as_they_were() -> None:
    head = (PIPELINES / "elementwise_chain.vyre").read_text().split("pipeline @main")[0]
    text = (
        head
        + """pipeline @main {
      buffer @a : f32[2048] read
      buffer @b : f32[2048]
      buffer @c : f32[2048] read_write live_out
      buffer @d : f32[2048] write
      launch @gain grid(8) (@a, @b)
      launch @bias grid(8) (@b, @c)
      host_read @c
      repeat 3 {
        launch @gain grid(8) (@c, @d)
        host_read @d
      }
    }
    """
    )
    assert [decision.status for decision in decisions(text)] == ["proved"]
    for old, new in (
        ("repeat 3", "repeat 4"),
        ("@gain grid(8) (@c", "@gain grid(4) (@c"),
        ("host_read @c", ""),
    ):
        assert [decision.status for decision in decisions(text, [(old, new)])] == ["proved", "unknown"]
