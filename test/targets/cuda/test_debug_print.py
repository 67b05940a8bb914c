"""What programs print on a GPU: the lines of the interpreter, whatever way a program is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vyre_opt as vyre
from vyre_opt import BackendError, ProgramError, dispatcher, parse
from vyre_opt.lang import Read, Write, f32

pytestmark = pytest.mark.gpu

TEXT = """vyre 2
program @scale workgroup(64) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1)
  param @k : f32
  %i = global_id x
  %k = param @k : f32
  %v = load @x[%i] : f32
  %w = mul %k, %v : f32
  %seven = const 7 : u32
  %rest = rem %i, %seven : u32
  %zero = const 0 : u32
  %p = eq %rest, %zero : u32
  if %p {
    debug_print "%u: %v %8.3f" %i, %v, %w
    for %n = 0 to 3 { debug_print "  %u" %n }
  }
  store %w, @y[%i] : f32
}
pipeline @main {
  buffer @x : f32[256] read
  buffer @t : f32[256]
  buffer @y : f32[256] write live_out
  repeat 2 {
    launch @scale grid(4) (@x, @t) params(@k = 2.0)
    launch @scale grid(4) (@t, @y) params(@k = 0.5)
  }
}
"""
X = np.linspace(-3, 3, 256, dtype=np.float32)


def printed(run: Callable[[], object]) -> list[str]:
    lines: list[str] = []
    with vyre.on_debug_print(lines.append):
        run()
    return lines


def test_calls_on_the_host_print_what_the_interpreter_does():
    calls = {target: vyre.compile(TEXT, entry="scale", target=target) for target in ("ref", "cuda")}
    for k in (1, 2, 3):
        lines = {
            target: printed(lambda call=call, k=k: call({"x": X}, 4, lengths={"y": 256}, params={"k": k}))
            for target, call in calls.items()
        }
        assert lines["cuda"] == lines["ref"]
        assert len(lines["ref"]) == 4 * 37


def test_a_pipeline_prints_launch_by_launch():
    ref, cuda = (vyre.compile(TEXT, entry="main", target=target) for target in ("ref", "cuda"))
    expected = printed(lambda: ref({"x": X}))
    for _ in range(3):
        assert printed(lambda: cuda({"x": X})) == expected


def test_calls_on_gpu_arrays_print(cuda):
    """Each of them: none is planned."""
    torch = pytest.importorskip("torch")
    scale = vyre.compile(TEXT, entry="scale", target="cuda")
    main = vyre.compile(TEXT, entry="main", target="cuda")
    ref = vyre.compile(TEXT, entry="scale", target="ref")
    x = torch.from_numpy(X).cuda()
    expected = printed(lambda: ref({"x": X}, 4, lengths={"y": 256}, params={"k": 2}))
    twice = printed(lambda: vyre.compile(TEXT, entry="main", target="ref")({"x": X}))
    for _ in range(3):
        assert printed(lambda: scale({"x": x}, 4, lengths={"y": 256}, params={"k": 2})) == expected
        assert printed(lambda: main({"x": x})) == twice


def test_a_launch_keeps_so_many_lines_and_counts_the_rest(cuda):
    program = parse('vyre 2 program @p workgroup(256) { %g = global_id x debug_print "%u" %g }').programs["p"]
    gpu = cuda()
    lines = printed(lambda: gpu.dispatch(program, [], 1 << 16))
    assert len(lines) == 4097
    assert lines[-1] == f"... and {(1 << 24) - 4096:,} more lines of @p: a launch keeps 4,096"
    assert len(printed(lambda: gpu.dispatch(program, [], 1))) == 256, "the count begins anew"


def test_what_was_printed_before_a_fault_is_shown(cuda):
    program = parse("""vyre 2
program @p workgroup(4) {
  %l = local_id x
  debug_print "before %u" %l
  %two = const 2 : u32
  %fine = ne %l, %two : u32
  assert %fine, "two"
}
""").programs["p"]
    lines: list[str] = []
    with vyre.on_debug_print(lines.append), pytest.raises(ProgramError, match="assert: two"):
        cuda().dispatch(program, [], 1)
    assert lines == [f"before {lane}" for lane in range(4)]


def test_a_graph_refuses_what_prints(cuda):
    """It would be recorded without the look at its records."""
    from vyre_opt.targets.cuda.graph import LaunchGraph
    from vyre_opt.targets.cuda.queues import queue_of

    gpu = cuda()
    program = parse('vyre 2 program @p workgroup(4) { debug_print "here" }').programs["p"]
    assert printed(lambda: gpu.dispatch(program, [], 1)) == ["here"] * 4
    kernel, graph = gpu.prepare(program), LaunchGraph(gpu)

    def record() -> None:
        with graph.record() as stream:
            kernel.launch(queue_of(gpu.device, stream), (1, 1, 1), {}, {}, {})

    with pytest.raises(BackendError, match="has a debug_print"):
        record()
    assert printed(lambda: gpu.dispatch(program, [], 1)) == ["here"] * 4


def test_every_type_prints_as_on_the_interpreter(cuda):
    from support.op_programs import op_programs

    (case,) = (case for case in op_programs() if case.name == "debug_print")
    inputs = case.inputs(1)
    lines = [
        printed(lambda target=target: target.dispatch(case.program, inputs, case.grid))
        for target in (dispatcher("ref"), cuda(), cuda(bounds="none", opt_level=3))
    ]
    assert lines[1] == lines[0]
    assert lines[2] == lines[0]


@vyre.program(workgroup=32)
def halves(x: Read[f32], y: Write[f32]):
    i = vyre.global_id(0)
    assert x[i] >= 0.0, "a negative number"
    if i % 8 == 0:
        print(f"{i}: {x[i]:.2f}", i)
    y[i] = x[i] / 2


def run_and_wait(x: Any, y: Any) -> None:
    with vyre.on_debug_print(lambda line: None):
        halves[2](x, y)
        vyre.synchronize()


def test_a_kernel_in_python_prints_and_asserts():
    torch = pytest.importorskip("torch")
    x, y = torch.arange(64, dtype=torch.float32, device="cuda"), torch.zeros(64, device="cuda")
    for _ in range(2):
        assert printed(lambda: halves[2](x, y)) == [f"{i}: {i:.2f} {i}" for i in range(0, 64, 8)]
    assert torch.equal(y, x / 2)
    x[5] = -1
    with pytest.raises(
        ProgramError, match=r"assert: a negative number; false in workgroup \(0,0,0\) local id \(5,0,0\)"
    ):
        run_and_wait(x, y)
