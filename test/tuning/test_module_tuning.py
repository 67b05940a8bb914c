"""Schedules in texts: written by the pass, kept by the printer, obeyed by expand_kernels."""

from __future__ import annotations

import numpy as np
import pytest

from vyre_opt import DiagnosticError, PassManager, dispatcher, parse, print_program, run
from vyre_opt.ir.ops import SCHEDULE
from vyre_opt.passes.registry import PassError, make_pass

BODY = """vyre 1

program @s workgroup(256) {{
  buffer @x : f32[1024] read binding(0)
  buffer @y : f32[1024] write binding(1) live_out

  math.softmax(@x, @y) {{columns = 64{}}}
}}
"""

STAGES = """vyre 1

pipeline @p {
  buffer @a : u32[4096] read
  buffer @b : u32[4096]
  buffer @c : u32[4096] write live_out
  buffer @d : u32[?]

  scan.prefix(@a, @b)
  math.softmax_step(@b, @c)
  math.softmax_step(@a, @c) {schedule_lanes = 64}
  math.softmax_step(@d, @c)
}
"""


def tuned(text: str, **options: str):
    module = parse(text)
    done = PassManager([make_pass("tune", {"budget": "4", "rounds": "1", **options})]).run(module)
    return module, done


def test_a_given_schedule_is_obeyed() -> None:
    """The program has the lanes that the text asks for, and computes the same."""
    text = BODY.format(
        ", schedule_lanes = 16, schedule_rows = 4, schedule_in_registers = 1, schedule_in_shared = 0"
    )
    module = parse(text)
    assert print_program(module) == text
    PassManager("expand_kernels").run(module)
    assert module.programs["s"].workgroup == (64, 1, 1)
    x = np.random.default_rng(0).standard_normal(1024).astype(np.float32)
    wide = np.exp(x.reshape(-1, 64).astype(np.float64))
    for target in ("ref", "cpu"):
        result = run(parse(text), {"x": x}, 4, target=target)["y"]
        assert result == pytest.approx((wide / wide.sum(axis=1, keepdims=True)).reshape(-1), rel=1e-5)


@pytest.mark.parametrize(
    ("extra", "message", "help"),
    [
        (", schedule_lane = 64", "the schedule of math.softmax has no lane", "did you mean schedule_lanes?"),
        (", schedule_zzz = 64", "the schedule of math.softmax has no zzz", "it has schedule_lanes, "),
        (
            ", schedule_kept = 1",
            "the schedule of math.softmax has no kept",
            "schedule_kept is called schedule_in_registers now",
        ),
        (", colums = 64", "math.softmax has no parameter colums", "did you mean columns?"),
    ],
)
def test_a_misspelt_field_is_located(extra: str, message: str, help: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        parse(BODY.format(extra))
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.message == message
    assert help in diagnostic.help
    assert diagnostic.loc is not None


@pytest.mark.parametrize(
    ("extra", "why"),
    [
        (", schedule_lanes = 33", "more than 32 lanes are a multiple of 32"),
        (", schedule_in_registers = 2", "in_registers is a flag, 0 or 1, not 2"),
    ],
)
def test_a_schedule_that_is_not_legal_is_refused(extra: str, why: str) -> None:
    done = PassManager("expand_kernels").run(parse(BODY.format(extra)))
    assert not done.changed
    assert any(why in remark.message for remark in done.remarks)


def test_tune_writes_the_choice_into_the_text() -> None:
    """Parameters of the schedule alone, which parse back; a second run finds a schedule and leaves it."""
    module, done = tuned(BODY.format(""))
    (op,) = module.programs["s"].body.ops
    params = op.attrs["params"]
    assert params["columns"] == 64
    assert {name for name in params if name.startswith(SCHEDULE)} >= {"schedule_lanes", "schedule_rows"}
    text = print_program(module)
    assert print_program(parse(text)) == text
    assert [remark.kind for remark in done.remarks] == ["applied"]
    _, again = tuned(text)
    assert not again.changed
    assert "it has a schedule" in again.remarks[0].message
    _, retuned = tuned(text, retune="true")
    assert retuned.remarks[0].kind == "applied"


@pytest.mark.campaign
def test_tune_of_stages() -> None:
    """Each stage on its own; one with a schedule, and one of open size, stay; and the result runs."""
    module, done = tuned(STAGES)
    assert [remark.kind for remark in done.remarks] == ["applied", "applied", "refused", "refused"]
    assert "it has a schedule" in done.remarks[2].message
    assert "@d is of open size" in done.remarks[3].message
    stages = module.pipelines["p"].stages
    assert [any(name.startswith(SCHEDULE) for name in stage.attrs) for stage in stages] == [
        True,
        True,
        True,
        False,
    ]
    stages.pop()
    expanded = PassManager("expand_kernels", target="cpu").run(module)
    assert all(remark.kind == "applied" for remark in expanded.remarks)
    program = module.programs["math_softmax_step"]
    x = np.arange(4096, dtype=np.uint32)
    (result,) = dispatcher("cpu").dispatch(program, [x, np.zeros(4096, np.uint32)], 4)
    assert result.tolist() == [(int(v) << 16) // int(x.sum()) for v in x]


def test_one_kernel_only() -> None:
    _, done = tuned(STAGES, kernel="scan.prefix")
    assert [remark.certificate["kernel"] for remark in done.remarks] == ["scan.prefix"]
    with pytest.raises(PassError, match=r"did you mean scan\.prefix"):
        make_pass("tune", {"kernel": "scan.prefx"})
    with pytest.raises(PassError, match="budget"):
        make_pass("tune", {"budget": "-1"})


def test_a_target_that_is_not_here_is_refused() -> None:
    """Nothing is written for a GPU that nobody could measure on."""
    _, done = tuned(BODY.format(""), target="sm_53")
    assert not done.changed
    assert "nothing is tuned" in done.remarks[0].message


@pytest.mark.campaign
def test_vyre_run_tunes_at_the_sizes_of_the_run(run_run, tmp_path) -> None:
    """Open sizes come from the inputs; the table goes to stderr, the picture to a file, results stay."""
    x = np.random.default_rng(0).standard_normal(2048).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    text = BODY.format("").replace("1024]", "?]")
    args = ["-", "--in", f"x={tmp_path / 'x.npy'}", "--len=y=2048", "--grid=4"]
    plain = run_run(*args, text=text)
    ran = run_run(
        *args,
        "--autotune",
        f"--plot={tmp_path / 'p.svg'}",
        "--check-against=ref",
        "--tolerance=1e-5",
        text=text,
        env={"VYRE_CACHE_DIR": str(tmp_path / "cache"), "PATH": ""},
    )
    assert (plain.returncode, ran.returncode) == (0, 0), ran.stderr
    assert ran.stdout.startswith("@y : f32[2048] = ")
    assert "math.softmax(f32[2048], f32[2048]) columns=64 over any grid" in ran.stderr
    assert "configuration" in ran.stderr
    assert "<svg" in (tmp_path / "p.svg").read_text()
    wrong = run_run(*args, "--plot=x.svg", text=text)
    assert (wrong.returncode, "--plot is of --autotune" in wrong.stderr) == (2, True)
