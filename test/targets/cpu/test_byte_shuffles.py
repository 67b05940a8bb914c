"""permute and movemask on the CPU: in whole registers, on machines of each kind, at any address, in any lanes."""

from __future__ import annotations

import platform
import re
from typing import Any

import numpy as np
import pytest
from support.op_programs.values import byte_shuffles
from support.pairs import pairs
from support.quick import quick

from vyre_opt import dispatcher, parse
from vyre_opt.lowering.common.llvm_passes import run_passes
from vyre_opt.lowering.host import outline
from vyre_opt.lowering.host.abi import ENTRY
from vyre_opt.lowering.host.function_builder import SimdFeatures
from vyre_opt.lowering.host.legalization import legal_program
from vyre_opt.lowering.host.program import lower
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher
from vyre_opt.targets.cpu.host import Host
from vyre_opt.targets.cpu.host_code import host_code

SSSE3 = ("ssse3", "sse3")
AVX2 = (*SSSE3, "sse4.1", "sse4.2", "popcnt", "avx", "avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt")
AVX512 = (*AVX2, "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd")
HOSTS = {"plain": (), "ssse3": SSSE3, "avx2": AVX2, "avx512": AVX512, "vbmi": (*AVX512, "avx512vbmi")}
CASES = list(byte_shuffles())

ON_X86 = pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64"), reason="makes code for kinds of x86-64"
)


def cpu_with(words: tuple[str, ...], opt: int | None = None) -> CpuDispatcher:
    """A dispatcher that knows of these features alone."""
    cpu = CpuDispatcher(opt=opt)
    has = cpu.host.attributes.split(",")
    if not all(f"+{word}" in has for word in words):
        pytest.skip("this machine has less")
    cpu.host = Host("x86-64", ",".join(f"+{word}" for word in words), cpu.level)
    return cpu


def check(cpu: CpuDispatcher, cases: list[Any]) -> None:
    for case in cases:
        inputs = case.inputs(3)
        expected = dispatcher("ref").dispatch(case.program, inputs, case.grid, module=case.module)
        actual = cpu.dispatch(case.program, inputs, case.grid, module=case.module)
        assert not case.mismatch(expected, actual), case.name


@ON_X86
@pytest.mark.parametrize("host", HOSTS)
def test_some_shapes_on_each_kind_of_machine(host: str) -> None:
    """16 of 16 has no reach beyond a section, 12 of 64 has four; 3 and 5 fill no register."""
    wanted = ("of 64 by 12", "one table of 3 by 5", "one table of 16 by 64", "movemask of 16")
    check(cpu_with(HOSTS[host]), [case for case in CASES if any(word in case.name for word in wanted)])


@ON_X86
@pytest.mark.campaign
@pytest.mark.parametrize("opt", [0, 3])
@pytest.mark.parametrize("host", HOSTS)
def test_every_shape_on_each_kind_of_machine(host: str, opt: int) -> None:
    check(cpu_with(HOSTS[host], opt), CASES)


@pytest.mark.parametrize("case", quick(CASES[-1:] + CASES[::4]), ids=lambda case: case.name)
def test_in_functions_of_their_own(monkeypatch: pytest.MonkeyPatch, case: Any) -> None:
    """Long blocks are cut: a register's worth of some lanes goes in and comes out."""
    monkeypatch.setattr(outline, "PART", 16)
    check(CpuDispatcher(cache=False, opt=1), [case])


FLOATS_COMPARED = """program @p workgroup(32) {
  buffer @x : f32[?] read binding(0)
  buffer @y : u8[?] write binding(1) live_out
  %i = global_id x
  %c8 = const 8 : u32
  %base = mul %i, %c8 : u32
  %v = load @x[%base] : vec<8 x f32>
  %limit = const 0.5 : f32
  %limits = splat %limit : vec<8 x f32>
  %big = gt %v, %limits : vec<8 x f32>
  %mask = movemask %big : vec<8 x bool>
  store %mask, @y[%i] : u8
}
"""


def test_a_mask_of_compared_floats(agree: Any) -> None:
    """Vectors of floats are held by elements; their flags are put together for the mask."""
    x = np.random.default_rng(4).random(8 * 64, np.float32)
    agree(FLOATS_COMPARED, [x, np.zeros(64, np.uint8)], 2)


# --- memory

LOOKUP = """program @p workgroup({workgroup}) {{
  buffer @x : u8[?] read binding(0)
  buffer @y : u8[?] write binding(1) live_out
  buffer @m : u16[?] write binding(2) live_out
  {index}
  %x = load @x[%from] : vec<16 x u8>
  %c16 = const 16 : u32
  %t = const [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3] : vec<16 x u8>
  %y = permute %t, %x : vec<16 x u8>
  %id = global_id x
  %to = mul %id, %c16 : u32
  store %y, @y[%to] : vec<16 x u8>
  %p = lt %y, %x : vec<16 x u8>
  %m = movemask %p : vec<16 x bool>
  store %m, @m[%id] : u16
}}"""

INDICES = {
    "one vector behind the other": "%g = global_id x %k = const 16 : u32 %from = mul %g, %k : u32",
    "from an odd address on": """%g = global_id x %k = const 16 : u32 %s = mul %g, %k : u32
      %three = const 3 : u32 %from = add %s, %three : u32""",
    "vectors that overlap": "%from = global_id x",
    "in opposite order": """%g = global_id x %k = const 16 : u32 %s = mul %g, %k : u32 %n = len @x
      %last = sub %n, %k : u32 %from = sub %last, %s : u32""",
    "at places that are loaded": """%g = global_id x %b = load @x[%g] : u8 %from = cast %b : u8 -> u32""",
    "one for all": "%from = const 5 : u32",
}


@pytest.mark.parametrize(("name", "workgroup"), pairs(INDICES, (64, 40, 16)))
def test_vectors_at_any_place(agree: Any, name: str, workgroup: int) -> None:
    """Whole subgroups, a short last one, and less than one."""
    count = 3 * workgroup
    x = np.random.default_rng(2).integers(0, 20, 16 * count + 7).astype(np.uint8)
    outputs = [np.zeros(16 * count, np.uint8), np.zeros(count, np.uint16)]
    agree(LOOKUP.format(index=INDICES[name], workgroup=workgroup), [x, *outputs], 3)


GUARDED = """program @p workgroup(64) {{
  buffer @x : u8[?] read binding(0)
  buffer @y : u8[?] write binding(1) live_out
  %g = global_id x
  %c16 = const 16 : u32
  %i = mul %g, %c16 : u32
  {condition}
  if %in {{
    %x = load @x[%i] : vec<16 x u8>
    %y = permute %x, %x : vec<16 x u8>
    store %y, @y[%i] : vec<16 x u8>
  }}
}}"""
CONDITIONS = {
    "the last lanes": "%n = len @x %blocks = div %n, %c16 : u32 %in = lt %g, %blocks : u32",
    "every third lane": """%n = len @x %blocks = div %n, %c16 : u32 %inside = lt %g, %blocks : u32
      %three = const 3 : u32 %rest = rem %g, %three : u32 %zero = const 0 : u32 %third = eq %rest, %zero : u32
      %in = and %inside, %third : bool""",
}


@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=CONDITIONS)
@pytest.mark.parametrize("size", [0, 15, 16, 16 * 64 - 1, 16 * 64, 16 * 83 + 5])
def test_lanes_beyond_the_end_move_nothing(agree: Any, condition: str, size: int) -> None:
    x = np.random.default_rng(3).integers(0, 18, size).astype(np.uint8)
    (y,) = agree(GUARDED.format(condition=condition), [x, np.full(size, 77, np.uint8)], 2)
    assert (y[size // 16 * 16 :] == 77).all()


def test_an_access_out_of_bounds_is_found(faults: Any) -> None:
    text = GUARDED.format(condition="%in = const true : bool")
    full, short = np.zeros(16 * 128, np.uint8), np.zeros(16 * 128 - 1, np.uint8)
    assert "@x" in str(faults(text, [short, full], 2))
    assert "@y" in str(faults(text, [full, short], 2))


# --- the code

LOOP_FREE = """vyre 2
program @p workgroup(32) {
  buffer @x : u8[512] read binding(0)
  buffer @t : u8[512] read binding(1)
  buffer @y : u8[512] write binding(2) live_out
  buffer @m : u16[32] write binding(3) live_out
  %g = global_id x
  %c16 = const 16 : u32
  %i = mul %g, %c16 : u32
  %x = load @x[%i] : vec<16 x u8>
  %t = load @t[%i] : vec<16 x u8>
  %four = const 4 : vec<16 x u8>
  %high = shr %x, %four : vec<16 x u8>
  %y = permute %t, %high : vec<16 x u8>
  store %y, @y[%i] : vec<16 x u8>
  %p = eq %y, %x : vec<16 x u8>
  %m = movemask %p : vec<16 x bool>
  store %m, @m[%g] : u16
}"""


def assembly(text: str, host: str) -> str:
    import llvmlite.binding as llvm

    words = ",".join(f"+{word}" for word in HOSTS[host])
    target = llvm.Target.from_triple(llvm.get_process_triple())
    machine = target.create_target_machine(
        cpu="x86-64", features=words, opt=3, reloc="pic", codemodel="small"
    )
    module = llvm.parse_assembly(text)
    run_passes(module, machine, llvm.create_pipeline_tuning_options(speed_level=3))
    return str(machine.emit_assembly(module))


@ON_X86
@pytest.mark.parametrize(("host", "registers"), [("ssse3", 32), ("avx2", 16), ("avx512", 8)])
def test_a_register_at_a_time(host: str, registers: int) -> None:
    """512 bytes: so many table lookups as registers hold them, no saturation where an index is small, and no code for
    single bytes."""
    module = parse(LOOP_FREE)
    legal = legal_program(module.programs["p"], module)
    body = assembly(host_code(legal, {}, cpu_with(HOSTS[host], 3).host).text, host)
    body = body[body.index(f"\n{ENTRY}:") :]  # behind the functions for lanes at the end of a buffer
    assert len(re.findall(r"pshufb", body)) == registers
    assert not re.findall(r"p(?:extr|insr)b|mov[sz]b|\bmovb|paddusb", body)


@pytest.mark.parametrize(("entries", "tables"), [(16, 1), (40, 3), (64, 4)])
def test_tbl_on_aarch64(entries: int, tables: int) -> None:
    """Assembled, as this machine may not run it: an instruction for each 16 bytes, whatever the index."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        target = llvm.Target.from_triple("aarch64-unknown-linux-gnu")
    except RuntimeError:
        pytest.skip("this LLVM makes no code for AArch64")
    machine = target.create_target_machine(opt=3)
    text = f"""vyre 2
    program @p workgroup(32) {{
      buffer @x : vec<16 x u8>[32] read binding(0)
      buffer @t : vec<{entries} x u8>[32] read binding(1)
      buffer @y : vec<16 x u8>[32] write binding(2) live_out
      %l = local_id x
      %x = load @x[%l] : vec<16 x u8>
      %t = load @t[%l] : vec<{entries} x u8>
      %y = permute %t, %x : vec<16 x u8>
      store %y, @y[%l] : vec<16 x u8>
    }}"""
    flat = legal_program(parse(text).programs["p"], None)
    code = lower(flat, {}, "aarch64-unknown-linux-gnu", str(machine.target_data), SimdFeatures(has_tbl=True))
    lines = re.findall(r"^\ttbl\t.*", machine.emit_assembly(llvm.parse_assembly(code.text)), re.MULTILINE)
    assert sum(line.count(".16b") == tables + 2 for line in lines) == 32
