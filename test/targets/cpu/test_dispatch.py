"""The dispatcher: threads, what it keeps, what it refuses."""

from __future__ import annotations

import threading
from base64 import b64encode
from typing import Any

import numpy as np
import pytest

from vyre_opt import dispatcher, kernels
from vyre_opt.execution import BadInputs, ProgramError, Scratch
from vyre_opt.ir import parse
from vyre_opt.targets.cpu import jit
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher

COUNT = """vyre 1
program @count workgroup(64) {
  buffer @x    : u32[?]  read       binding(0)
  buffer @y    : u32[?]  write      binding(1) live_out
  buffer @hits : u32[16] read_write binding(2) live_in live_out
  buffer @tile : u32[64] workgroup
  %g = global_id x
  %l = local_id x
  %x = load @x[%g] : u32
  store %x, @tile[%l] : u32
  barrier workgroup
  %c = const 63 : u32
  %i = sub %c, %l : u32
  %v = load @tile[%i] : u32
  store %v, @y[%g] : u32
  %m = const 15 : u32
  %one = const 1 : u32
  %k = and %v, %m : u32
  %old = atomic_add @hits[%k], %one : u32
}
"""


def test_workgroups_over_threads() -> None:
    """However many threads, the same outputs; atomics of all workgroups arrive."""
    (program,) = parse(COUNT).programs.values()
    x = np.random.default_rng(0).integers(0, 1 << 30, 64 * 2000).astype(np.uint32)
    expected = x.reshape(-1, 64)[:, ::-1].reshape(-1)
    for workers in (1, 2, 3, 8):
        y, hits = CpuDispatcher(workers=workers).dispatch(
            program, [x, np.zeros_like(x), np.zeros(16, np.uint32)], 2000
        )
        assert np.array_equal(y, expected)
        assert np.array_equal(hits, np.bincount(x & 15, minlength=16))


def test_many_callers_at_once() -> None:
    """Each compiles or finds the program, and runs on memory of its own."""
    (program,) = parse(COUNT.replace("63", "62").replace("sub %c, %l", "min %c, %l")).programs.values()
    failures: list[BaseException] = []

    def call(seed: int) -> None:
        x = np.random.default_rng(seed).integers(0, 99, 64 * 300).astype(np.uint32)
        try:
            for _ in range(5):
                y, _ = CpuDispatcher().dispatch(program, [x, np.zeros_like(x), np.zeros(16, np.uint32)], 300)
                rows = x.reshape(-1, 64).copy()
                rows[:, 63] = rows[:, 62]
                assert np.array_equal(y, rows.reshape(-1))
        except BaseException as failure:
            failures.append(failure)

    callers = [threading.Thread(target=call, args=(seed,)) for seed in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not failures


@pytest.mark.usefixtures("own_cache")
def test_a_program_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each set of constants; an equal program, parsed again, is the same one."""
    objects: list[bytes] = []
    original = jit.compile_object

    def counted(text: str, host: Any) -> bytes:
        objects.append(original(text, host))
        return objects[-1]

    monkeypatch.setattr(jit, "compile_object", counted)
    text = """vyre 1
    program @once workgroup(32) {
      buffer @y : u32[32] write binding(0) live_out
      spec @k : u32 = 17
      %g = global_id x
      %k = spec @k : u32
      %v = mul %g, %k : u32
      store %v, @y[%g] : u32
    }"""
    inputs = [np.zeros(32, np.uint32)]
    for specs in (None, {"k": 17}, {"k": 18}, {"k": 18}, None):
        (program,) = parse(text).programs.values()
        (y,) = CpuDispatcher().dispatch(program, inputs, 1, specs=specs)
        assert y[3] == 3 * (specs or {"k": 17})["k"]
    assert len(objects) == 2


def test_a_search_is_compiled_once() -> None:
    """However its text is long, and though no plan of a call fits another."""
    target = CpuDispatcher()
    texts = [b64encode(bytes(count) + b"key" + bytes(count)) for count in (1000, 20_000, 1100)]
    launches = []
    for text in texts:
        assert len(kernels.decode_scan(text, [b"key"], dispatcher=target)) == 1
        launches.append(list(target._launches.values()))
    assert launches[0] == launches[1] == launches[2] != []


def test_a_program_that_is_changed_is_another() -> None:
    """What a dispatcher keeps is for the program as it was, down to an attribute, a buffer and a constant."""
    (program,) = parse("""vyre 1
    program @p workgroup(4) {
      buffer @y : u32[4] write binding(0) live_out
      spec @k : u32 = 5
      %g = global_id x
      %k = spec @k : u32
      %c = const 7 : u32
      %s = add %k, %c : u32
      %v = add %g, %s : u32
      store %v, @y[%g] : u32
    }""").programs.values()
    cpu = CpuDispatcher()

    def run(count: int = 4) -> list[int]:
        result: list[int] = cpu.dispatch(program, [np.zeros(count, np.uint32)], 1)[0].tolist()
        return result

    assert run() == [12, 13, 14, 15]
    next(op for op in program.walk() if op.name == "const").attrs["value"] = 8
    assert run() == [13, 14, 15, 16]
    program.specs["k"].default = 0
    assert run() == [8, 9, 10, 11]
    program.buffers["y"].count = 5
    with pytest.raises(BadInputs, match="4 elements given, the program declares 5"):
        run()
    assert run(5)[:4] == [8, 9, 10, 11]


def test_what_is_kept_of_a_call_fits_no_other() -> None:
    """A grid that equals one seen before but is no count, arrays of another type, a list that is too short."""
    (program,) = parse(COUNT).programs.values()
    cpu = CpuDispatcher()
    x = np.arange(64, dtype=np.uint32)
    good: list[Any] = [x, np.zeros_like(x), np.zeros(16, np.uint32)]
    for grid in (1, np.int64(1), (1, 1, 1)):
        assert np.array_equal(cpu.dispatch(program, good, grid)[0], x[::-1])
    for grid in (True, 1.0, (True, 1, 1)):
        with pytest.raises(BadInputs, match="counted in whole workgroups"):
            cpu.dispatch(program, good, grid)
    with pytest.raises(BadInputs, match="uint32, the array is int32"):
        cpu.dispatch(program, [x.view(np.int32), *good[1:]], 1)
    with pytest.raises(BadInputs, match="binds 3 buffers"):
        cpu.dispatch(program, good[:2], 1)
    strided = np.repeat(x, 2)[::2]
    for array in (strided, x.astype(">u4"), x.tobytes(), memoryview(x)):
        assert np.array_equal(cpu.dispatch(program, [array, *good[1:]], 1)[0], x[::-1])


def test_transient_storage_is_kept_in_scratch_and_starts_as_zeros() -> None:
    (program,) = parse("""vyre 1
    program @t workgroup(32) {
      buffer @t : u32[32] read_write
      buffer @y : u32[32] write binding(0) live_out
      %g = global_id x
      %v = load @t[%g] : u32
      %one = const 1 : u32
      %w = add %v, %one : u32
      store %w, @t[%g] : u32
      store %w, @y[%g] : u32
    }""").programs.values()
    scratch = Scratch()
    for _ in range(2):
        (y,) = CpuDispatcher().dispatch(program, [np.zeros(32, np.uint32)], 1, scratch=scratch)
        assert (y == 1).all()
    assert list(scratch.storage) == ["t"]


def test_a_named_kernel_is_refused_with_advice() -> None:
    (program,) = parse("""vyre 1
    program @k workgroup(1) {
      buffer @x : f32[64] read binding(0)
      buffer @y : f32[64] write binding(1) live_out
      math.softmax(@x, @y) {columns = 64}
    }""").programs.values()
    with pytest.raises(
        ProgramError, match=r"5:7: error: program @k: the named kernel math\.softmax(.|\n)*expand_kernels"
    ):
        CpuDispatcher().dispatch(program, [np.zeros(64, np.float32)] * 2, 1)


@pytest.mark.parametrize(("options", "message"), [({"workers": 0}, "0 workers"), ({"opt": 4}, "0 to 3")])
def test_options_are_checked(options: dict[str, int], message: str) -> None:
    with pytest.raises(BadInputs, match=message):
        dispatcher("cpu", **options)


def test_an_empty_program() -> None:
    (program,) = parse("vyre 1\nprogram @nothing workgroup(7) { }").programs.values()
    assert CpuDispatcher().dispatch(program, [], (3, 2, 1)) == []
