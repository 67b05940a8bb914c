"""A call that faults is recorded, and its record opens in the debugger at the op, in the invocation."""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pytest
from support.faulty_programs import KINDS, FaultyProgram, faulty_program
from support.quick import quick

import vyre_opt as vyre
from vyre_opt.cli.run import main
from vyre_opt.driver import recording
from vyre_opt.lang import Read, ReadWrite, f32, i32

Replay = Callable[..., list[str]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where calls that fault are recorded."""
    monkeypatch.setenv("VYRE_RECORD", str(tmp_path / "records"))
    return tmp_path / "records"


@pytest.fixture
def replay(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Replay:
    """`replay(folder, "p i; back")`: the lines that vyre-run prints, on stdout."""

    def run(folder: Path, commands: str, *options: str, code: int = 0) -> list[str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(commands.replace("; ", "\n") + "\n"))
        capsys.readouterr()
        assert main(["--replay", str(folder), *options]) == code
        captured = capsys.readouterr()
        return (captured.out if code == 0 else captured.err).splitlines()

    return run


@vyre.func
def second(x, i):
    return x[i + 1]


@vyre.program(workgroup=64)
def shifted(a: f32, n: i32, x: Read[f32], y: ReadWrite[f32]):
    i = vyre.global_id(0)
    k = 3
    if i < len(y):
        for _ in range(n):
            y[i] += second(x, i) * a
        y[i] += k


@vyre.pipeline
def shifted_twice(x: Read[f32], y: ReadWrite[f32]):
    middle = vyre.zeros(len(x), f32)
    shifted[len(x) // 64](1.0, 1, y, middle)
    shifted[len(x) // 64](1.0, 1, x, y)


def check_found_again(
    program: FaultyProgram, options: Sequence[str], replay: Replay, folder: Path, tmp_path: Path
) -> None:
    """A call is recorded, and its fault found at its line, in its invocation, within 5 s."""
    file, x = tmp_path / "faulty.vyre", tmp_path / "x.npy"
    file.write_text(program.text)
    np.save(x, np.random.default_rng(1).random(program.count, np.float32))
    inputs = [word for name in "xy" for word in ("--in", f"{name}={x}")]
    sizes = ["--grid", str(program.grid), "--param", f"far={program.count + 5}"]
    assert main([str(file), *inputs, *sizes, *options]) == 1, program.text
    start = perf_counter()
    lines = replay(folder, "p i; back")
    assert perf_counter() - start < 5
    row, local = divmod(program.invocation, program.lanes)
    stops = [line for line in lines if line.startswith("> ")]
    assert f"faulty.vyre({program.line})@faulty  workgroup ({row},0,0) local id ({local},0,0)" in stops[0], (
        program.text
    )
    assert lines[lines.index("(vyre) p i") + 1] == str(program.invocation)
    assert len(stops) == 2, "a step back"


@pytest.mark.parametrize(
    ("seed", "kind"),
    quick([(seed, kind) for seed in range(25) for kind in KINDS], lambda case: case[1], keep=2),
)
def test_planted_faults_are_found_again(
    folder: Path, replay: Replay, tmp_path: Path, seed: int, kind: str
) -> None:
    """Those of the cpu, and races that --check finds."""
    options = ["--check"] * (kind == "race")
    check_found_again(faulty_program(seed, kind), options, replay, folder, tmp_path)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "race"])
def test_planted_faults_of_a_gpu_are_found_again(
    folder: Path, replay: Replay, tmp_path: Path, kind: str
) -> None:
    for seed in range(8):
        check_found_again(faulty_program(seed, kind), ["--target=cuda"], replay, folder, tmp_path)


def test_a_kernel_in_python_keeps_its_names_and_inputs(folder: Path, replay: Replay) -> None:
    """The inputs are those before the call, which has changed some by the time of the fault."""
    x, y = np.arange(128, dtype=np.float32), np.ones(128, np.float32)
    with pytest.raises(vyre.ProgramError):
        shifted[2](0.1, 2, x, y)
    lines = replay(folder, "p i; back; back; p a; p k; p n; p y[3]; p x[i]; args")
    assert "test_recording.py" in next(line for line in lines if line.startswith("> "))
    shown = {c: lines[n + 1] for n, line in enumerate(lines) if (c := line.removeprefix("(vyre) p ")) != line}
    assert shown == {"i": "127", "a": "0.1", "k": "3", "n": "2", "y[3]": "1.0", "x[i]": "127.0"}
    kept = np.load(folder / "shifted-1/inputs/1.npy")
    assert kept.tolist() == [1.0] * 128


@pytest.mark.filterwarnings("ignore:nothing reads middle")
def test_a_pipeline_is_recorded_as_it_is_written(folder: Path, replay: Replay) -> None:
    """Though its launches were joined."""
    x, y = np.arange(128, dtype=np.float32), np.ones(128, np.float32)
    with pytest.raises(vyre.ProgramError) as raised:
        shifted_twice(x, y)
    assert "vyre-run --replay" in str(raised.value)
    lines = replay(folder, "p i; w")
    assert any(
        re.match(r"> .*second\(\)  workgroup \(1,0,0\) local id \(63,0,0\)  launch 2", line) for line in lines
    )


def test_other_targets_and_forms_of_arrays(folder: Path, replay: Replay) -> None:
    """Of the interpreter too; vectors, bf16, bools, two dimensions and specs come back as they were."""
    text = """vyre 2
    program @forms workgroup(4) {
      buffer @v : vec<2 x f32>[?] read binding(0)
      buffer @b : bf16[?] read binding(1)
      buffer @m : i32[?, 3] read binding(2)
      buffer @y : f32[?] write binding(3) live_out
      spec @k : u32
      param @f : f32
      param @on : bool
      %i = global_id x
      %v = load @v[%i] : vec<2 x f32>
      %b = load @b[%i] : bf16
      %m = load @m[%i, 2] : i32
      %k = spec @k : u32
      %f = param @f : f32
      %on = param @on : bool
      store %f, @y[%i] : f32
      %never = ne %i, %k : u32
      assert %never, "here"
    }"""
    arrays = {
        "v": np.arange(16, dtype=np.float32).reshape(8, 2),
        "b": np.arange(8, dtype=np.uint16) + 0x3F80,
        "m": np.arange(24, dtype=np.int32).reshape(8, 3),
    }
    for target in ("cpu", "ref"):
        shutil.rmtree(folder, ignore_errors=True)
        with pytest.raises(vyre.ProgramError, match="here"):
            vyre.run(
                text,
                arrays,
                grid=2,
                target=target,
                specs={"k": 5},
                lengths={"y": 8},
                params={"f": 0.3, "on": True},
            )
        lines = replay(folder, "p i; p v; p b; p m; p k; p f; p on; p @m[1]")
        shown = {
            c: lines[n + 1] for n, line in enumerate(lines) if (c := line.removeprefix("(vyre) p ")) != line
        }
        assert shown == {
            "i": "5", "v": "[10. 11.]", "b": "1.0390625", "m": "17", "k": "5", "f": "0.3", "on": "True", "@m[1]": "[3 4 5]",
        }, target  # fmt: skip


def test_what_is_not_recorded_is_told(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = faulty_program(1, "assert")
    x = np.zeros(program.count, np.float32)

    def fault() -> str:
        with pytest.raises(vyre.ProgramError) as raised:
            vyre.run(program.text, {"x": x, "y": x}, grid=program.grid, params={"far": 1})
        return str(raised.value)

    monkeypatch.setattr(recording, "MAX_RECORDS", 1)
    assert "the call is recorded" in fault()
    assert re.search(r"not recorded in .*: .* has 1 records; remove some", fault())
    shutil.rmtree(folder)
    monkeypatch.setattr(recording, "MAX_BYTES", 7)
    assert f"its inputs have {2 * x.nbytes} bytes, and 7 is the most" in fault()
    monkeypatch.setattr(recording, "MAX_BYTES", 1 << 30)
    folder.write_text("a file")
    assert "the call is not recorded in" in fault()
    assert {path.name for path in tmp_path.iterdir()} == {"records"}


def _fault(seed: int) -> None:
    program = faulty_program(seed, "trap")
    x = np.zeros(program.count, np.float32)
    try:
        vyre.run(program.text, {"x": x, "y": x}, grid=program.grid, params={"far": 1})
    except vyre.ProgramError:
        return
    raise SystemExit(1)


def test_calls_at_once_record_into_one_folder(folder: Path) -> None:
    """Each a folder of its own, complete."""
    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(_fault, range(8))] == [None] * 8
    assert sorted(path.name for path in folder.iterdir()) == [f"faulty-{n}" for n in range(1, 9)]
    for path in folder.iterdir():
        _, record = recording.read_record(path)
        assert record.inputs == ["x", "y"]
        assert np.load(path / "inputs/0.npy").shape == np.load(path / "inputs/1.npy").shape


DAMAGES: dict[str, Callable[[Path], object]] = {
    "no record.json": lambda path: (path / "record.json").unlink(),
    "not JSON": lambda path: (path / "record.json").write_text("{"),
    "another version": lambda path: _change(path, version=2),
    "a field is missing": lambda path: (path / "record.json").write_text('{"version": 1}'),
    "a grid of text": lambda path: _change(path, grid="3"),
    "places that do not fit": lambda path: _change(path, places=[]),
    "places of text": lambda path: _change(path, places=[["a", "b", "c", None]] * 1000),
    "files elsewhere": lambda path: _change(path, sources=[["f", "VYRE", "/etc/hostname"]]),
    "places outside of the files": lambda path: _change_places(path, 1 << 40),
    "places before the files": lambda path: _change_places(path, -3),
    "a scope without a function": lambda path: _change(path, scopes=[[[], {}]]),
    "JSON that is too deep": lambda path: (path / "record.json").write_text("[" * 100000),
    "sources that are not there": lambda path: shutil.rmtree(path / "sources"),
    "a module that is not there": lambda path: (path / "module.vyre").unlink(),
    "a module that is none": lambda path: (path / "module.vyre").write_text("vyre 2 program"),
    "inputs that are not there": lambda path: shutil.rmtree(path / "inputs"),
    "inputs that are cut off": lambda path: (path / "inputs/0.npy").write_bytes(b"\x93NUMPY"),
    "an entry that there is not": lambda path: _change(path, entry="none"),
    "lengths of others": lambda path: _change(path, lengths={"z": [3]}),
}


def _change_places(path: Path, start: int) -> None:
    places = json.loads((path / "record.json").read_text())["places"]
    _change(path, places=[place and [place[0], start, *place[2:]] for place in places])


def _change(path: Path, **fields: Any) -> None:
    record = json.loads((path / "record.json").read_text())
    (path / "record.json").write_text(json.dumps(record | fields))


def test_damaged_records_are_told(folder: Path, replay: Replay) -> None:
    _fault(3)
    for name, damage in DAMAGES.items():
        copy = folder.parent / "copy"
        shutil.copytree(folder / "faulty-1", copy)
        damage(copy)
        lines = replay(copy, "p i", code=1)
        assert any("error: " in line for line in lines), name
        assert not any("Traceback" in line for line in lines), name
        shutil.rmtree(copy)


def test_a_fault_that_comes_no_more_is_told(folder: Path, replay: Replay) -> None:
    _fault(3)
    path = folder / "faulty-1"
    (path / "module.vyre").write_text(
        (path / "module.vyre").read_text().replace('trap "planted"', 'debug_print "no"')
    )
    lines = replay(folder, "c")
    assert any("the recorded fault does not come again" in line for line in lines)


def test_runs_without_the_variable_are_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VYRE_RECORD", raising=False)
    executable = vyre.compile(
        "vyre 2 program @p workgroup(1) { buffer @y : f32[1] write binding(0) live_out store 1.0, @y[0] : f32 }"
    )
    assert executable.recorder is None


class Pair(NamedTuple):
    a: f32
    b: f32


@vyre.program(workgroup=8)
def paired(x: Read[f32], y: ReadWrite[f32]):
    i = vyre.global_id(0)
    pair = Pair(x[i], 2.0)
    own = vyre.local(f32, (2, 2))
    for k in range(4):
        own[k // 2, k % 2] = x[k]
    y[i + 1] = pair.a + own[1, 1]


def test_tuples_with_names_and_local_arrays_come_back(folder: Path, replay: Replay) -> None:
    x = np.arange(8, dtype=np.float32)
    with pytest.raises(vyre.ProgramError):
        paired[1](x, x.copy())
    lines = replay(folder, "p pair; p pair.a; p own[1, 0]")
    shown = {c: lines[n + 1] for n, line in enumerate(lines) if (c := line.removeprefix("(vyre) p ")) != line}
    assert shown == {"pair": "Pair(a=7.0, b=2.0)", "pair.a": "7.0", "own[1, 0]": "2.0"}


@vyre.program(workgroup=8)
def logarithms(x: Read[f32], y: ReadWrite[f32]):
    i = vyre.global_id(0)
    v = x[i]
    y[i] = vyre.log(v)


def test_the_first_nan_is_a_fault_where_it_is_asked_for(
    folder: Path, replay: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the debugger too, and of a record always."""
    monkeypatch.setenv("VYRE_CHECK", "nan")
    x = np.arange(8, dtype=np.float32) - 0.5
    out = io.StringIO()
    vyre.debug(logarithms, stdin=io.StringIO("c\np v\n"), stdout=out)[1](x, x.copy())
    assert "-0.5" in out.getvalue().splitlines()
    with pytest.raises(vyre.ProgramError):
        logarithms[1](x, x.copy())
    monkeypatch.delenv("VYRE_CHECK")
    lines = replay(folder, "p v")
    assert lines[lines.index("(vyre) p v") + 1] == "-0.5"
