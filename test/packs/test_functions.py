"""What a pack runs gives the same bits as what is compiled here, and raises the same errors in the same words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.code_choices import forget_calls
from support.packed_kernels import CALLS, FUNCTIONS, LEVEL, SHAPES, WRONG_CALLS, random
from support.tools_inside import call_opt

import vyre_opt as vyre
from vyre_opt import f32, kernels
from vyre_opt.execution import BackendError, BadInputs
from vyre_opt.pack_files.compare import merged
from vyre_opt.pack_files.format import read_pack
from vyre_opt.packs import PackError, load
from vyre_opt.packs.processors import levels_of_this_machine

Function = Callable[[str], Any]

TEXT = """vyre 1
program @twice workgroup(64) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1) live_out
  spec @by : f32 = 2.0
  %i = global_id x
  %n = len @x
  %b = spec @by : f32
  %in = lt %i, %n : u32
  if %in {
    %v = load @x[%i] : f32
    %w = mul %v, %b : f32
    store %w, @y[%i] : f32
  }
}
pipeline @main {
  buffer @x : f32[?] read
  buffer @t : f32[len(@x)]
  buffer @y : f32[len(@x)] write live_out
  fill(@t, 1.0)
  launch @twice grid(ceil_div(len(@x), 64)) (@x, @t)
  host_read @t
  launch @twice grid(ceil_div(len(@x), 64)) (@t, @y)
}
"""


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Function:
    path = tmp_path_factory.mktemp("packs") / "kernels.vyrepack"
    digest = vyre.pack(path, FUNCTIONS, LEVEL, SHAPES, opt=1)
    pack = load(path, trusted=digest)
    assert list(pack) == sorted(function.function.__name__ for function in FUNCTIONS)
    return pack.__getitem__


@pytest.fixture(scope="module")
def packed_for_aarch64(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("packs") / "kernels.vyrepack"
    vyre.pack(path, FUNCTIONS, "aarch64", SHAPES)
    return path


def compiled(name: str) -> Any:
    return next(function for function in FUNCTIONS if function.function.__name__ == name)


@pytest.mark.parametrize("call", CALLS)
def test_results_have_the_bits_of_the_compiler(packed: Function, call: str) -> None:
    for _ in range(2):  # a first call, and one that is planned
        assert CALLS[call](packed).tobytes() == CALLS[call](compiled).tobytes()


@pytest.mark.parametrize("call", CALLS)
def test_results_of_aarch64_have_the_same_bits(aarch64: str, packed_for_aarch64: Path, call: str) -> None:
    assert CALLS[call](load(packed_for_aarch64).__getitem__).tobytes() == CALLS[call](compiled).tobytes()


@pytest.mark.parametrize("call", WRONG_CALLS)
def test_errors_of_aarch64_are_the_same(aarch64: str, packed_for_aarch64: Path, call: str) -> None:
    _compare_errors(load(packed_for_aarch64).__getitem__, call)


@pytest.mark.parametrize("call", WRONG_CALLS)
def test_errors_are_those_of_the_compiler(packed: Function, call: str) -> None:
    _compare_errors(packed, call)


def _compare_errors(packed: Function, call: str) -> None:
    with pytest.raises(Exception) as own:  # noqa: PT011  which one the compiler says
        WRONG_CALLS[call](compiled)
    with pytest.raises(type(own.value)) as of_pack:
        WRONG_CALLS[call](packed)
    assert type(of_pack.value) is type(own.value)
    assert str(of_pack.value) == str(own.value)


def test_texts_are_called_by_name(tmp_path: Path) -> None:
    vyre.pack(tmp_path / "text.vyrepack", [TEXT], LEVEL, opt=1)
    pack = load(tmp_path / "text.vyrepack")
    x = random(100)
    own = vyre.compile(TEXT)
    expected, given = own({"x": x}), pack["main"]({"x": x})
    assert given.keys() == expected.keys()
    assert all(given[name].tobytes() == expected[name].tobytes() for name in given)
    reads: list[float] = []
    pack["main"]([x], on_host_read=lambda name, array: reads.append(float(array[0])))
    assert reads == [2 * x[0]]
    assert (pack["twice"]({"x": x}, 2, lengths={"y": 100})["y"] == 2 * x).all()
    for wrong in ({}, {"z": x}):
        with pytest.raises(BadInputs) as ours:
            own(wrong)
        with pytest.raises(BadInputs) as theirs:
            pack["main"](wrong)
        assert str(ours.value) == str(theirs.value)
    with pytest.raises(BackendError, match="needs the compiler"):
        pack["main"].report({"x": x})


def test_a_pipeline_is_packed_for_many_lengths_of_rows(tmp_path: Path) -> None:
    shapes = [(np.zeros((2, columns), np.float32),) * 2 for columns in range(9, 29)]
    vyre.pack(
        tmp_path / "many.vyrepack", [compiled("centred_twice")], LEVEL, {"centred_twice": shapes}, opt=1
    )
    row = read_pack(tmp_path / "many.vyrepack").read_json("plans/centred_twice/cpu")
    lengths = [variant["lengths"].get("x,1") for variant in row["variants"]]
    assert lengths == [*range(9, 29), [9, 16], [17, 32], None]
    pack = load(tmp_path / "many.vyrepack")
    for columns in (3, 28, 30, 70):
        x, y = random(2, columns), np.zeros((2, columns), np.float32)
        pack["centred_twice"](x, y)
        assert (y == x - x.max(1, keepdims=True)).all()


ROWS, NUMBERS = random(12, 50), np.arange(3000, dtype=np.uint32)
ARRAY_CALLS: dict[str, list[tuple[Any, ...]]] = {
    "softmax": [(ROWS,)],
    "softmax_step": [(NUMBERS,)],
    "prefix_scan": [(NUMBERS,), (ROWS,)],
    "matvec_fixed": [(np.ones((5, 9), np.int32), np.arange(9, dtype=np.int32))],
    "matmul": [(ROWS, random(50, 7)), (ROWS, random(50, 7), random(7), {"activation": "relu"})],
    "tt_contract_step": [(random(8), random(8, 6))],
    "tt_chain": [(random(4), [random(4, 8), random(8, 3)])],
    "layer_norm": [
        (ROWS, ROWS[0], ROWS[1]),
        (random(7, 3), random(3), random(3)),
        (random(2, 3, 8), random(8), random(8), {"eps": 1e-3}),
    ],
    "rms_norm": [(ROWS[:0], ROWS[0])],
    "log_sum_exp": [(ROWS.astype(np.float16),)],
    "cross_entropy": [(ROWS, np.arange(12, dtype=np.int32))],
    "attention": [(random(2, 9, 4), random(2, 5, 4), random(2, 5, 4), {"causal": True})],
}


def test_functions_on_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forget_calls(monkeypatch)
    pack = _compare_functions_on_arrays(tmp_path, LEVEL)
    with pytest.raises(
        BadInputs, match=r"packed for float32\[12, 50\], and this call has float32\[3, 50\]"
    ) as error:
        pack["softmax"](ROWS[:3])
    assert error.traceback[-1].path == Path(__file__), "no frame of the package"
    shapes = eval(str(error.value).partition("shapes=")[2], {"np": np})
    vyre.pack(tmp_path / "both.vyrepack", [kernels.softmax], LEVEL, shapes)
    both = load(tmp_path / "both.vyrepack")["softmax"]
    assert all((both(rows) == kernels.softmax(rows)).all() for rows in (ROWS, ROWS[:3]))
    with pytest.raises(BadInputs, match=r"\{'activation': 'relu'\}\), \(np.zeros\(\(12, 50\)"):
        pack["matmul"](ROWS, random(50, 8))
    with pytest.raises(TypeError, match="takes 2 or 3 arrays"):
        pack["matmul"](ROWS)


def test_functions_on_arrays_by_aarch64(tmp_path: Path, aarch64: str) -> None:
    _compare_functions_on_arrays(tmp_path, aarch64)


def _compare_functions_on_arrays(tmp_path: Path, level: str) -> Any:
    functions = [getattr(kernels, name) for name in ARRAY_CALLS]
    vyre.pack(tmp_path / "arrays.vyrepack", functions, level, ARRAY_CALLS, opt=1)
    pack = load(tmp_path / "arrays.vyrepack")
    for name, calls in ARRAY_CALLS.items():
        for call in calls:
            options = call[-1] if isinstance(call[-1], dict) else {}
            arrays = call[: len(call) - bool(options)]
            expected = getattr(kernels, name)(*arrays, **options)
            out = np.empty_like(expected)
            for given in (pack[name](*arrays, **options), pack[name](*arrays, **options, out=out)):
                assert (given.dtype, given.shape) == (expected.dtype, expected.shape)
                assert given.tobytes() == expected.tobytes()
            assert given is out
    return pack


@vyre.program
def printing(x: vyre.Read[f32]):
    print("x is", x[0])


WRONG_PACKS: dict[str, tuple[Callable[[Path], object], str]] = {
    "nothing": (lambda path: vyre.pack(path, []), "nothing to pack"),
    "no target": (lambda path: vyre.pack(path, FUNCTIONS, "cpu,sparc"), "sparc is no target of a pack"),
    "twice": (
        lambda path: vyre.pack(path, [*FUNCTIONS[:1], *FUNCTIONS[:1]], LEVEL, opt=0),
        "two functions are named",
    ),
    "unknown shapes": (lambda path: vyre.pack(path, FUNCTIONS[:1], LEVEL, {"skale": []}, opt=0), "'skale'"),
    "prints": (
        lambda path: vyre.pack(path, [printing], LEVEL),
        "printing cannot be packed: @printing prints",
    ),
    "no shapes": (lambda path: vyre.pack(path, [kernels.softmax], LEVEL), "say them"),
    "wrong shapes": (
        lambda path: vyre.pack(path, FUNCTIONS[:1], LEVEL, {"scale": [(NUMBERS,)]}, opt=0),
        "a call has 2 arrays, x, y",
    ),
}


@pytest.mark.parametrize("what", WRONG_PACKS)
def test_what_cannot_be_packed_is_told(tmp_path: Path, what: str) -> None:
    write, message = WRONG_PACKS[what]
    with pytest.raises(BadInputs, match=message):
        write(tmp_path / "none.vyrepack")
    assert not list(tmp_path.iterdir())


ROWS_TEXT = """vyre 2
program @centre workgroup(1) {
  buffer @x : f32[?, ?] read binding(0)
  buffer @y : f32[?, ?] write binding(1) live_out
  %r = workgroup_id x
  %row = slice_load @x[%r, 0] : slice<?xf32>
  %most = slice_reduce<max> %row[0] : f32
  %each = slice_broadcast %most, %row : slice<?xf32>
  %centred = sub %row, %each : slice<?xf32>
  slice_store %centred, @y[%r, 0] : slice<?xf32>
}
"""


def test_the_tool_packs_for_shapes(tmp_path: Path) -> None:
    (tmp_path / "rows.vyre").write_text(ROWS_TEXT)
    made = tmp_path / "rows.vyrepack"
    command = [tmp_path / "rows.vyre", "-O", "--emit=pack", f"--target={LEVEL}", "-o", made]
    shapes = ["--shapes=centre:x=4x50,y=4x50", "--shapes", "@centre:@x=4x77,y=4x77"]
    assert call_opt(*command, *shapes).returncode == 0
    row = read_pack(made).read_json("plans/centre/cpu")
    assert [variant["lengths"] for variant in row["variants"]] == [
        {"x,1": 50, "y,1": 50},
        {"x,1": 77, "y,1": 77},
        {"x,1": [33, 64], "y,1": [33, 64]},
        {"x,1": [65, 128], "y,1": [65, 128]},
        {},
    ]
    for columns in (50, 33, 64, 128, 300):
        x = random(3, columns)
        y = load(made)["centre"]([x], 3, lengths={"y": x.shape})["y"]
        assert (y == x - x.max(1, keepdims=True)).all()
    for wrong, code, message in (
        ("centre", 2, "is not FUNCTION:NAME=NxM,..."),
        ("centre:x=4x50,x=4x50", 2, "has two shapes for x"),
        ("centre:x=4,y=4x50", 1, "x"),
        ("centre:z=4x50", 1, "z is no array of a call, which has x, y"),
        ("centred:x=4x50", 1, "is of no function here; there are centre"),
    ):
        failed = call_opt(*command, f"--shapes={wrong}")
        assert (failed.returncode, message in failed.stderr) == (code, True), failed.stderr
    assert "--shapes is of --emit=pack" in call_opt(tmp_path / "rows.vyre", shapes[0]).stderr


def test_ptx_is_in_the_pack(tmp_path: Path) -> None:
    vyre.pack(tmp_path / "gpu.vyrepack", FUNCTIONS[:1], [LEVEL, "sm_80", "sm_90"], opt=1)
    executable = load(tmp_path / "gpu.vyrepack")["scale"].executable
    assert ".target sm_90" in executable.ptx("sm_90")
    with pytest.raises(PackError, match="has PTX of scale for sm_80, sm_90"):
        executable.ptx("sm_100")


def test_other_machines_are_told_what_there_is(tmp_path: Path) -> None:
    other = "aarch64" if LEVEL.startswith("x86") else "x86-64-v2"
    vyre.pack(tmp_path / "other.vyrepack", FUNCTIONS[:1], other, opt=1)
    with pytest.raises(PackError, match=f"has code for {other}, and this machine is {LEVEL}"):
        load(tmp_path / "other.vyrepack")["scale"]
    with pytest.raises(KeyError, match="has no function skale; it has scale"):
        load(tmp_path / "other.vyrepack")["skale"]


def test_every_level_of_this_machine_gives_the_same(tmp_path: Path) -> None:
    """Older processors have other instructions, and the same arithmetic."""
    results, packs = set(), []
    for level in levels_of_this_machine():
        vyre.pack(tmp_path / level, FUNCTIONS[:1], level, opt=1)
        x, y = random(999), np.zeros(999, np.float32)
        load(tmp_path / level)["scale"][4](x, y, 0.1)
        results.add(y.tobytes())
        packs.append(read_pack(tmp_path / level))
    assert len(results) == 1
    # of a pack of several, a function that was packed for an older processor alone
    vyre.pack(tmp_path / "older", FUNCTIONS[1:2], levels_of_this_machine()[-1], opt=1)
    (tmp_path / "merged").write_bytes(merged([*packs[:1], read_pack(tmp_path / "older")]))
    x, y = random(4, 5), np.zeros((5, 4), np.float32)
    load(tmp_path / "merged")["transpose"][1, 1](x, y)
    assert (y == x.T).all()
