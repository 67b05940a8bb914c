"""What a dispatcher keeps on disk: never another program's code, and no compile the second time."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import Settings, random_program
from support.properties import named_inputs
from support.quick import quick

from vyre_opt import BadInputs, dispatcher, parse, print_program
from vyre_opt.execution.cache import keys
from vyre_opt.execution.cache.compilations import new_log, pack_parts, unpack_parts
from vyre_opt.execution.cache.inventory import survey
from vyre_opt.execution.cache.keys import compile_key
from vyre_opt.execution.cache.store import Store
from vyre_opt.ir import Module
from vyre_opt.lowering.common.row_major import row_major
from vyre_opt.lowering.nvptx.abi import Unit
from vyre_opt.lowering.nvptx.kernel import lower
from vyre_opt.lowering.nvptx.targets import gpu
from vyre_opt.targets.cpu import compiler, object_cache
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher
from vyre_opt.targets.cpu.host import Host
from vyre_opt.targets.cpu.jit import compile_object
from vyre_opt.targets.cuda import kernels, ptx_cache
from vyre_opt.targets.cuda.kernels import _compile as compiled
from vyre_opt.targets.cuda.ptx_options import PtxOptions

TEXT = """vyre 1

func @twice(%x : u32) -> u32 {
  %r = add %x, %x : u32
  yield %r
}

program @p workgroup(64) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1)
  spec @k : u32 = 3

  %i = global_id x
  %k = spec @k : u32
  %v = load @x[%i] : u32
  %m = mul %v, %k : u32
  %t = call @twice(%m) : (u32) -> u32
  store %t, @y[%i] : u32
}
"""


@pytest.fixture
def cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`cpu()`: a dispatcher as a new process would have it, on a store of this test."""
    monkeypatch.setenv("VYRE_CACHE_DIR", str(tmp_path))

    def make(**options: Any) -> CpuDispatcher:
        compiler._LOADED.clear()
        return CpuDispatcher(**options)

    return make


def call(target: CpuDispatcher, text: str = TEXT, **more: Any) -> tuple[list[int], bool]:
    """The output for 64 numbers, and whether the code came from the store."""
    module = parse(text)
    x = np.arange(64, dtype=np.uint32)
    (y,) = target.dispatch(module.programs["p"], [x, np.zeros_like(x)], 1, module=module, **more)
    return y.tolist(), target.compilations[-1].cached


def test_second_process_compiles_nothing(cpu: Any) -> None:
    """The first one compiles, the next reads; both compute the same."""
    expected = [6 * n for n in range(64)]
    assert call(cpu()) == (expected, False)
    assert call(cpu()) == (expected, True)
    assert call(cpu(cache=False)) == (expected, False)


def test_what_is_different_is_compiled(cpu: Any) -> None:
    """Specs, the functions that it calls and the optimisation level belong to the key; names do not."""
    call(cpu())
    assert call(cpu(), specs={"k": 5}) == ([10 * n for n in range(64)], False)
    thrice = TEXT.replace("%r = add %x, %x", "%t = add %x, %x : u32\n  %r = add %t, %x")
    assert call(cpu(), thrice) == ([9 * n for n in range(64)], False)
    assert call(cpu(opt=0)) == ([6 * n for n in range(64)], False)
    assert call(cpu(), TEXT.replace("%m", "%renamed")) == ([6 * n for n in range(64)], True)


@pytest.mark.campaign
def test_damage_costs_a_compile(cpu: Any, tmp_path: Path) -> None:
    """A damaged entry is made again; the one after reads it."""
    call(cpu())
    store = cpu().store
    rng = random.Random(3)
    for _ in range(20):
        (entry,) = store.entries()
        content = bytearray(Path(entry.path).read_bytes())
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        Path(entry.path).write_bytes(content)
        assert call(cpu()) == ([6 * n for n in range(64)], False)
    assert call(cpu()) == ([6 * n for n in range(64)], True)


WRONG = (None, True, -1, 1.5, 1 << 70, "x", [], [1], [["x"]], {}, {"x": 1})
"""Values that a fact of an entry may have in the place of its own; some are of its type."""


def key_of(target: CpuDispatcher) -> bytes:
    module = parse(TEXT)
    return object_cache.key_of(module.programs["p"], module, {"k": 3}, target.host)


def test_entry_of_another_form_is_dropped(cpu: Any) -> None:
    """A whole entry whose payload this version cannot read is as good as none: facts cut off, too deep, of other types."""
    call(cpu())
    store = cpu().store
    facts, object_file = unpack_parts(store.get(key_of(cpu()), "cpu"))
    payloads = [b"", b"\xff" * 10, b"\2\0\0\0{}", b"\2\0\0\0[]", b'\x0d\0\0\0{"buffers":1}', bytes(4)]
    payloads += [pack_parts(facts, object_file)[:n] for n in (1, 4, 20)]
    payloads += [(len(deep) + 1).to_bytes(4, "little") + b"[" + deep for deep in [b"[" * 100_000]]
    payloads += [
        pack_parts({name: facts[name] for name in facts if name != gone}, object_file) for gone in facts
    ]
    payloads += [
        pack_parts(facts | {"buffers": names}, object_file) for names in (["x"], ["x", "x"], ["x", "z"])
    ]
    for payload in payloads:
        assert store.put(key_of(cpu()), "cpu", payload)
        assert call(cpu()) == ([6 * n for n in range(64)], False)
    program = parse(TEXT).programs["p"]
    for name in facts:
        for wrong in WRONG:
            try:
                object_cache.decode(pack_parts(facts | {name: wrong}, object_file), program)
            except (ValueError, KeyError, TypeError):
                continue
            assert type(wrong) is type(facts[name])


def test_object_code_of_another_kind_is_dropped(cpu: Any) -> None:
    """What is no object code, is cut, has another function or is for another machine is compiled again."""
    call(cpu())
    store = cpu().store
    facts, object_file = unpack_parts(store.get(key_of(cpu()), "cpu"))
    text = 'target triple = "{}"\ndefine i32 @other() {{\n  ret i32 1\n}}\n'
    other = compile_object(text.format(Host.this().triple), Host.this())
    foreign = bytearray(object_file)
    foreign[18] ^= 0xFF  # the machine in the header of an ELF file
    for content in (b"", b"no object code", object_file[:-40], object_file[:100], other, bytes(foreign)):
        store.put(key_of(cpu()), "cpu", pack_parts(facts, content))
        assert call(cpu()) == ([6 * n for n in range(64)], False)
        assert call(cpu()) == ([6 * n for n in range(64)], True)


def test_threads_of_another_kind_are_dropped(tmp_path: Path) -> None:
    """The code of the thread pool, too, is compiled again where what is found cannot be linked."""
    host, store = Host.this(1), Store(tmp_path)
    text = f'target triple = "{host.triple}"\ndefine i32 @other() {{\n  ret i32 1\n}}\n'
    assert object_cache.link_text(text, host, store, ["other"])["other"]
    (entry,) = store.entries()
    store.put(entry.key, "cpu", b"no object code")
    assert object_cache.link_text(text, host, store, ["other"])["other"]
    assert store.get(entry.key, "cpu") not in (None, b"no object code")


def test_two_versions_side_by_side(cpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each finds its own entries and not the other's."""
    assert call(cpu())[1] is False
    with monkeypatch.context() as other:
        other.setattr(keys, "compiler_version", lambda: "9.9.9 of another day")
        assert call(cpu())[1] is False
        assert call(cpu())[1] is True
    with monkeypatch.context() as other:
        other.setattr(keys, "llvm_version", lambda: "99.0.0")
        assert call(cpu())[1] is False
    assert call(cpu())[1] is True
    kinds = survey(cpu().store).kinds
    assert kinds["cpu"][0] == 3


def test_the_version_changes_with_all_that_lowering_imports() -> None:
    """Guards against old code that is found after a change to a package from which code is made."""
    package = Path(keys.__file__).parents[2]
    lines = [line for path in (package / "lowering").rglob("*.py") for line in path.read_text().splitlines()]
    imported = {match[1] for line in lines if (match := re.match(r"\s*from \.\.\.(\w+)", line))}
    only_run = {"records", "worker"}  # of which no code depends
    assert {"ir", "analysis"} <= imported - only_run <= set(keys._SOURCES)


def test_another_build_of_llvm_is_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against code of another LLVM under llvmlite's one version, and against what else lies there."""
    monkeypatch.setattr(keys, "_folder_of_llvmlite", lambda: str(tmp_path))
    (tmp_path / "binding").mkdir()
    (tmp_path / "_version.py").write_text("version = '1'")
    seen = set()
    for name in ("none", "libllvmlite.so", "libllvmlite.so", "libllvmlite.so.old", "llvmlite.dll"):
        seen.add(keys.llvm_version.__wrapped__())
        with (tmp_path / "binding" / name).open("ab") as file:
            file.write(b"\0")
    assert len(seen) == 4  # a file that is no library makes no difference
    assert keys.llvm_version.__wrapped__() not in seen


@pytest.mark.parametrize("folder", [os.devnull, "a file"])
def test_without_a_place_to_keep(
    cpu: Any, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that cannot be: everything is compiled, nothing is said."""
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("VYRE_CACHE_DIR", folder if folder == os.devnull else str(tmp_path / folder))
    for _ in range(2):
        assert call(cpu()) == ([6 * n for n in range(64)], False)


@pytest.mark.parametrize("seed", quick(range(500, 512), keep=2))
def test_random_programs_from_the_store(seed: int, cpu: Any) -> None:
    """What is read computes what was compiled, bit by bit."""
    sample = random_program(seed, Settings(statements=5, depth=2))
    seen = []
    inputs = named_inputs(sample, seed)
    for cached in (False, True):
        target = cpu()
        module = parse(print_program(sample.module))
        program = module.programs["main"]
        arrays = [inputs[b.name] for b in program.bound_buffers]
        outputs = target.dispatch(program, arrays, sample.grid, module=module)
        seen.append([array.tobytes() for array in outputs])
        assert [c.cached for c in target.compilations] == [cached]
    assert seen[0] == seen[1]


def test_keys_are_apart() -> None:
    """Type and name of a constant count, whatever its bits; so does each word of the target."""
    module = parse(TEXT)
    p = module.programs["p"]
    texts = [
        TEXT,
        TEXT.replace("spec @k : u32 = 3", "spec @k : u32 = 4"),
        TEXT.replace("workgroup(64)", "workgroup(32)"),
    ]
    keys = [compile_key(parse(t).programs["p"], parse(t), {"k": 3}, ("a", 1)) for t in texts]
    keys += [compile_key(p, module, {"k": k}, ("a", 1)) for k in (0, 1, 0xFFFFFFFF)]
    keys += [compile_key(p, module, {"k": 3}, t) for t in (("a", 2), ("b", 1), ("a", 1, ""), ("a", "1"), ())]
    assert len(set(keys)) == len(keys)


FAULTY = """vyre 1

func @check(%x : u32) -> u32 {
  %one = const 1 : u32
  %r = add %x, %one : u32
  yield %r
}

program @p workgroup(64) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[8] write binding(1)
  %i = global_id x
  %v = load @x[%i] : u32
  %t = call @check(%v) : (u32) -> u32
  %big = lt %i, %t : u32
  if %big {
    trap "too big"
  }
  store %t, @y[%i] : u32
}
"""


def test_gpu_kernels_survive_the_store() -> None:
    """What a launch needs is read back as it was: parameters, memory, and which op a fault is at."""
    first, again = (parse(text) for text in (FAULTY, FAULTY.replace("%t", "%other")))
    units = [Unit(first.programs["p"], first, {})]
    lowered = lower(units, gpu("sm_90"), "trap")
    assert {site.kind for site in lowered.kernels[0].sites} == {"bounds", "trap"}
    text = f".visible .entry {lowered.kernels[0].symbol}()\0".encode()
    payload = ptx_cache.encode(lowered.kernels, units, text)
    others = [Unit(again.programs["p"], again, {})]
    (kernel,), ptx = ptx_cache.decode(payload, others)
    (was,) = lowered.kernels
    assert ptx == text
    assert kernel.program is again.programs["p"]
    assert (kernel.symbol, kernel.params) == (was.symbol, was.params)
    assert (kernel.dynamic_shared, kernel.is_cooperative) == (was.dynamic_shared, was.is_cooperative)
    assert [(s.op.name, s.op.loc.line, s.kind, s.width) for s in kernel.sites] == [
        (s.op.name, s.op.loc.line, s.kind, s.width) for s in was.sites
    ]
    facts, _ = unpack_parts(payload)
    (kernel_facts,) = facts["kernels"]
    decoded = 0
    for name in kernel_facts:
        for wrong in (
            *WRONG,
            [["buffer", "z"]],
            [["heap", ""]],
            [["length", 1]],
            [[-1, "trap", 1]],
            [[0, "no", 1]],
        ):
            changed = pack_parts({"kernels": [kernel_facts | {name: wrong}]}, ptx)
            try:
                ptx_cache.decode(changed, others)
            except (ValueError, KeyError, TypeError, IndexError):
                continue
            decoded += 1
            assert type(wrong) is type(kernel_facts[name]) or wrong == {}
    assert decoded < 10
    for wrong_ptx in (b"", text[:-1], b".visible .entry other()\0", b"\0"):
        with pytest.raises(ValueError, match="PTX that has its kernels"):
            ptx_cache.decode(pack_parts(facts, wrong_ptx), others)
    version = (8, 0)
    key = ptx_cache.key_of(units, gpu("sm_90"), version, PtxOptions())
    assert key == ptx_cache.key_of(others, gpu("sm_90"), version, PtxOptions())
    different = [
        ptx_cache.key_of(units, gpu("sm_80"), version, PtxOptions()),
        ptx_cache.key_of(units, gpu("sm_90"), (8, 6), PtxOptions()),
        ptx_cache.key_of(units, gpu("sm_90"), version, PtxOptions("none")),
        ptx_cache.key_of(units, gpu("sm_90"), version, PtxOptions("trap", 3)),
        ptx_cache.key_of(units * 2, gpu("sm_90"), version, PtxOptions()),
    ]
    assert len({key, *different}) == 6


def test_ptx_is_written_once(tmp_path: Path) -> None:
    """The second time PTX comes from the store, to the byte, and a damaged entry is written again."""
    store = Store(tmp_path)
    texts = []
    for cached in (False, True, False):
        log = new_log()
        module = parse(FAULTY)
        unit = Unit(module.programs["p"], module, {})
        texts.append(compiled([unit], gpu("sm_90"), (8, 1), PtxOptions(), store, log)[1])
        assert [c.cached for c in log] == [cached]
        if cached:
            (entry,) = store.entries()
            Path(entry.path).write_bytes(Path(entry.path).read_bytes()[:-1])
    assert texts[0] == texts[1] == texts[2]
    assert b".version 8.1" in texts[0]


ROWS_AND_MATRICES = """vyre 2
program @p workgroup(32) {
  buffer @x : f32[?, ?] read binding(0)
  buffer @y : f32[?, ?] write binding(1)
  %w = workgroup_id x
  %m = matrix_load @x[%w, %w] : matrix<16x16xf32, acc>
  matrix_store %m, @y[%w, %w] : matrix<16x16xf32, acc>
}"""


def test_another_process_finds_the_ptx_that_a_dispatch_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry is of the program as it is lowered, over buffers of one dimension."""
    store = Store(tmp_path)
    monkeypatch.setattr(kernels, "default_store", lambda: store)
    module = parse(ROWS_AND_MATRICES)
    kernels.compile_into_cache(gpu("sm_90"), PtxOptions(), module)
    (entry,) = store.entries()
    module = parse(ROWS_AND_MATRICES)
    flat = row_major(module.programs["p"])
    made = Module()
    made.add(flat)
    kernels.compile_into_cache(gpu("sm_90"), PtxOptions(), made)
    assert [each.path for each in store.entries()] == [entry.path]


def test_options() -> None:
    """The store can be turned off by name; ref compiles nothing, so it has no such option."""
    assert dispatcher("cpu", cache=False).store is None
    assert dispatcher("cpu").store is not None
    assert dispatcher("cuda", cache=False).store is None
    with pytest.raises(BadInputs):
        dispatcher("cpu", workers=0, cache=False)
