"""expand_kernels: each named kernel in a text gives after the pass what the interpreter says it means."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.dense_automaton import build_automaton
from support.each import each
from support.quick import quick

import vyre_opt
from vyre_opt import PassManager, dispatcher, parse
from vyre_opt.execution import BadInputs
from vyre_opt.execution.dispatcher import Dispatcher
from vyre_opt.ir import (
    OPS,
    AccessMode,
    DataType,
    DiagnosticError,
    ExpansionRequest,
    HostRead,
    Launch,
    Module,
    Pipeline,
    Repeat,
)
from vyre_opt.ir.grids import MAX_LENGTH
from vyre_opt.ir.ops import NAMED_KERNELS
from vyre_opt.ir.program import MAX_GRID, MAX_INVOCATIONS
from vyre_opt.kernels.named import expand, named_kernel

RNG = np.random.default_rng(7)
AUTOMATON = build_automaton([b"abc", b"ca"])
TEXT = np.frombuffer(bytes(RNG.choice(list(b"abc"), 500).astype(np.uint8)), np.uint8)


def floats(count: int) -> np.ndarray:
    return RNG.standard_normal(count).astype(np.float32)


def words(count: int) -> np.ndarray:
    return RNG.integers(0, 2**32, count, dtype=np.uint32)


# op, buffers by role: (type, array), the output's type and count
CASES: dict[str, tuple[str, list[tuple[str, Any]], str, int]] = {
    "decode.base64": ("", [("u8", np.frombuffer(base64.b64encode(TEXT.tobytes()), np.uint8))], "u8", 500),
    "decode.hex": ("", [("u8", np.frombuffer(TEXT.tobytes().hex().encode(), np.uint8))], "u8", 500),
    "scan.dfa": (
        "{warmup = 2}",
        [("u8", TEXT), ("u16", AUTOMATON.table), ("u32", AUTOMATON.accept)],
        "u32",
        500,
    ),
    "scan.prefix": ("", [("u32", words(5000))], "u32", 5000),
    "math.softmax": ("{columns = 100}", [("f32", floats(1300))], "f32", 1300),
    "math.softmax_step": ("", [("u32", words(700))], "u32", 700),
    "math.matvec_fixed": ("", [("u32", words(330)), ("i32", words(33).view(np.int32))], "u32", 10),
    "math.matmul": (
        "{depth = 20, columns = 30}",
        [("f32", floats(500)), ("f32", floats(600))],
        "f32",
        750,
    ),
    "tt.contract_step": ("", [("f32", floats(20)), ("f32", floats(600))], "f32", 30),
    "tt.chain": (
        "{steps = 3, rank = 8, last = 5}",
        [("i32", words(8).view(np.int32)), ("i32", words(168).view(np.int32))],
        "i32",
        5,
    ),
    "tt.embedding": (
        "{p0 = 3, q0 = 2, r1 = 4, p1 = 5, q1 = 3}",
        [("f32", floats(84)), ("u32", np.array([0, 14, 7], np.uint32))],
        "f32",
        18,
    ),
}


def test_every_kernel_has_an_expansion_and_a_case() -> None:
    named = {name for name, row in OPS.items() if row.kernel is not None}
    assert named == set(CASES) == {named_kernel(name).name for name in named}


def test_fields_that_were_renamed_are_fields() -> None:
    for name, kernel in NAMED_KERNELS.items():
        assert set(kernel.renamed.values()) <= set(kernel.schedule), name
        assert kernel.renamed.keys().isdisjoint(kernel.schedule), name


def text_of(name: str, is_open: bool) -> str:
    params, arrays, out_type, count = CASES[name]
    types = [*((t, len(a)) for t, a in arrays), (out_type, count)]
    lines = [
        f"buffer @b{i} : {t}[{'?' if is_open else n}] {'write' if i == len(arrays) else 'read'} binding({i})"
        for i, (t, n) in enumerate(types)
    ]
    names = ", ".join(f"@b{i}" for i in range(len(types)))
    return "\n".join(["vyre 2", "program @p workgroup(64) {", *lines, f"{name}({names}) {params}", "}"])


FORMS = ((True, 3), (False, 1), (True, 1), (False, 3))
"""Whether buffers have open sizes, and the grid."""
IN_TURN = [*CASES][::2] + [*CASES][1::2]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("is_open", "grid"), quick(FORMS))
@pytest.mark.parametrize("target", ["ref", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_programs(on: Callable[[str], Dispatcher], target: str, name: str, is_open: bool, grid: int) -> None:
    expand_and_compare(on(target), name, is_open, grid)


@pytest.mark.parametrize(
    ("name", "is_open", "grid"),
    quick(
        ((name, *FORMS[(k + shift) % 4]) for shift in range(4) for k, name in enumerate(IN_TURN)),
        keep=6,
    ),
)
def test_programs_on_the_cpu(on: Callable[[str], Dispatcher], name: str, is_open: bool, grid: int) -> None:
    """Half of them in the plain run: test_cases.py has each kernel on the CPU."""
    expand_and_compare(on("cpu"), name, is_open, grid)


def expand_and_compare(on_target: Dispatcher, name: str, is_open: bool, grid: int) -> None:
    """In place, with the program's own buffers, over any grid."""
    _, arrays, _, count = CASES[name]
    kinds = {"u8": np.uint8, "u32": np.uint32, "i32": np.int32, "f32": np.float32}
    inputs = [*(a for _, a in arrays), np.zeros(count, kinds[CASES[name][2]])]
    before = parse(text_of(name, is_open))
    after = parse(text_of(name, is_open))
    assert PassManager("expand_kernels").run(after)
    program = after.programs["p"]
    assert not any(op.definition.kernel for op in program.walk())
    assert all(op.loc is not None for op in program.walk())
    assert {b.name: b for b in program.bound_buffers} == {
        b.name: b for b in before.programs["p"].bound_buffers
    }
    (expected,) = dispatcher("ref").dispatch(before.programs["p"], inputs, grid)
    (got,) = on_target.dispatch(program, inputs, grid)
    if got.dtype == np.float32:
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    else:
        np.testing.assert_array_equal(got, expected)
    assert not PassManager("expand_kernels").run(after)


PIPELINE = """vyre 1
pipeline @main {
  buffer @x : u32[20000] read
  buffer @sums : u32[20000]
  buffer @shares : u32[20000] write live_out
  buffer @again : u32[20000] write live_out
  scan.prefix(@x, @sums)
  math.softmax_step(@sums, @shares)
  scan.prefix(@sums, @again)
  host_read @again
}
"""


def carry_out(
    dispatcher: Dispatcher, module: Module, pipeline: Pipeline, held: dict[str, np.ndarray]
) -> None:
    """Its launches one after the other, the buffers nobody filled holding rubbish."""
    for name, buffer in pipeline.buffers.items():
        kind = {"u32": np.uint32, "u64": np.uint64}[buffer.dtype.name]
        held.setdefault(name, np.full(buffer.count or 0, 77, kind))
    for stage in pipeline.stages:
        if isinstance(stage, HostRead):
            continue
        assert isinstance(stage, Launch)
        program = module.programs[stage.program]
        outputs = dispatcher.dispatch(program, [held[b] for b in stage.buffers], stage.grid)
        written = [
            b for b, formal in zip(stage.buffers, program.bound_buffers, strict=True) if formal.is_output
        ]
        held.update(zip(written, outputs, strict=True))


def test_pipelines(on: Callable[[str], Dispatcher], target: str) -> None:
    """Stages become launches, scratch is cleared before, equal stages share a program."""
    module = parse(PIPELINE)
    result = PassManager("expand_kernels").run(module)
    assert [r.kind for r in result.remarks] == ["applied"] * 3
    assert set(module.programs) == {"scan_prefix", "math_softmax_step", "fill_u64", "fill_u32"}
    pipeline = module.pipelines["main"]
    scratch = {name: buffer.dtype.name for name, buffer in pipeline.buffers.items() if name not in PIPELINE}
    assert scratch == {"scan_prefix_state": "u64", "scan_prefix_ticket": "u32"}, "equal stages share scratch"
    x = words(20000)
    held = {"x": x}
    # @state and @ticket are read_write live_in: their launches leave them as they are for the test
    carry_out(on(target), module, pipeline, held)
    sums = np.cumsum(x, dtype=np.uint32)
    np.testing.assert_array_equal(held["sums"], sums)
    np.testing.assert_array_equal(held["again"], np.cumsum(sums, dtype=np.uint32))
    np.testing.assert_array_equal(held["shares"], (sums.astype(np.uint64) << 16) // sums.sum(dtype=np.uint64))


def test_rows_that_workgroups_share(on: Callable[[str], Dispatcher], target: str) -> None:
    """In a pipeline the words that count a row's parts are cleared before each launch; in a program there are none."""
    m, x = words(2 * 70_000), words(70_000)
    lines = "buffer @m : u32[140000] read {0}\nbuffer @x : u32[70000] read {1}\nbuffer @y : u32[2] write {2}"
    stage = "math.matvec_fixed(@m, @x, @y)"
    module = parse(
        f"vyre 1 pipeline @main {{ {lines.format('', '', 'live_out')} repeat 2 {{ {stage} }} }}"
        f"program @alone workgroup(64) {{ {lines.format(*(f'binding({k})' for k in range(3)))} {stage} }}"
    )
    PassManager("expand_kernels{target=sm_90}").run(module)
    pipeline, alone = module.pipelines["main"], module.programs["alone"]
    (loop,) = pipeline.stages
    assert isinstance(loop, Repeat)
    assert [stage.program for stage in loop.stages if isinstance(stage, Launch)] == [
        "fill_u64",
        "math_matvec_fixed",
    ]
    assert pipeline.buffers["math_matvec_fixed_sums"].count == 2
    assert [b.name for b in alone.bound_buffers] == ["m", "x", "y"]
    products = x.view(np.int32).astype(np.int64) * m.view(np.int32).reshape(2, -1)
    expected = ((products >> 16).sum(1) % 2**32).astype(np.uint32)
    held = {"m": m, "x": x}
    pipeline.stages = loop.stages * loop.times
    carry_out(on(target), module, pipeline, held)
    np.testing.assert_array_equal(held["y"], expected)
    (out,) = on(target).dispatch(alone, [m, x, np.zeros(2, np.uint32)], 3)
    np.testing.assert_array_equal(out, expected)


WRONG_SIZES = {  # by kernel, for each operand a count that does not fit the others
    "decode.base64": (None, 498),
    "decode.hex": (None, 499),
    "scan.dfa": (501, 7 * 256, 2, 499),
    "scan.prefix": (5001, 4999),
    "math.softmax": (1301, 1299),
    "math.softmax_step": (701, 699),
    "math.matvec_fixed": (331, 32, 9),
    "math.matmul": (501, 601, 751),
    "tt.contract_step": (0, 601, 29),
    "tt.chain": (7, 169, 4),
    "tt.embedding": (85, 4, 17),
}


@pytest.mark.parametrize("name", CASES)
def test_operands_that_do_not_fit(name: str) -> None:
    """Wrong access, type or size of any operand, or a size beyond 32 bits: an error, which says what to do."""
    good, operands = text_of(name, is_open=False), NAMED_KERNELS[name].roles[: len(CASES[name][1]) + 1]
    parse(good)
    head = re.compile(r"buffer (@b\d) : (\w+)\[(\d+)\] (\w+)")
    declared = [m.groups() for m in head.finditer(good)]
    wrong: list[str] = []
    for (buffer, dtype, count, access), role, size in zip(declared, operands, WRONG_SIZES[name], strict=True):
        line = f"buffer {buffer} : {dtype}[{count}] {access}"
        others = ["write", "workgroup"] if role.access is AccessMode.READ else ["read", "workgroup"]
        types = [DataType.U8, DataType.BOOL] if DataType.U8 not in role.types else [DataType.U16]
        sizes = [2**32] if size is None else [size, 2**32]
        wrong += [good.replace(line, f"buffer {buffer} : {dtype}[{count}] {other}") for other in others]
        wrong += [good.replace(line, f"buffer {buffer} : {t}[{count}] {access}") for t in types]
        wrong += [good.replace(line, f"buffer {buffer} : {dtype}[{n}] {access}") for n in sizes]

    def check(text: str) -> None:
        assert text != good
        with pytest.raises(DiagnosticError) as raised:
            parse(text)
        kernel = [d for d in raised.value.diagnostics if name in d.message]
        assert kernel, raised.value
        assert all(d.loc is not None and d.help for d in kernel), raised.value

    each(wrong, check)


def test_sizes_of_a_call_that_do_not_fit() -> None:
    text = """vyre 1
pipeline @main {
  buffer @x : f32[?] read
  buffer @core : f32[?] read
  buffer @y : f32[?] write
  tt.contract_step(@x, @core, @y)
}"""
    step = vyre_opt.compile(text)
    x, core = np.zeros(4096, np.float32), np.zeros(128, np.float32)
    with pytest.raises(BadInputs, match="core has rows x columns elements, 4096 x columns; @core has 128"):
        step([x, core], lengths={"y": 4})


MOST = MAX_LENGTH
LARGEST: dict[str, tuple[dict[str, int], list[int]]] = {
    "decode.base64": ({}, [MOST, MOST]),
    "decode.hex": ({}, [MOST, MOST]),
    "scan.dfa": ({"warmup": 49024}, [MOST, 256, 1, MOST]),
    "scan.prefix": ({}, [MOST, MOST]),
    "math.softmax": ({"columns": 1}, [MOST, MOST]),
    "math.softmax_step": ({}, [MOST, MOST]),
    "math.matvec_fixed": ({}, [MOST, 1, MOST]),
    "math.matmul": ({"depth": 1, "columns": 1, "activation": 0}, [MOST, 1, MOST]),
    "tt.contract_step": ({}, [1, MOST, MOST]),
    "tt.chain": ({"steps": 2**20, "rank": 1, "first": 0, "last": 0}, [1, 2**20, 1]),
    "tt.embedding": (dict.fromkeys(("p0", "q0", "r1", "p1", "q1"), 1), [2, MOST, MOST]),
}
"""By kernel, parameters and the most elements of its operands."""


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", ["cpu", "sm_90"])
def test_the_largest_operands_have_a_grid(name: str, target: str) -> None:
    """What the verifier accepts, is expanded over a grid that there can be."""
    params, counts = LARGEST[name]
    kernel = named_kernel(name)
    buffers = kernel.buffers([role.types[0] for role in kernel.row.roles[: len(counts)]], counts)
    expansion = expand(ExpansionRequest(name, buffers, params, target, owns_grid=True))
    assert isinstance(expansion.grid, int)
    assert 1 <= expansion.grid <= MAX_GRID[0]
    assert expansion.grid * expansion.program.lanes <= MAX_INVOCATIONS


REFUSALS = [
    ("math.softmax(@x, @open) {columns = 4}", "its grid depends on @open, of open size"),
    ("math.softmax(@x, @y) {columns = 64, schedule_lanes = 64, schedule_splits = 2}", "a GPU: only for"),
    ("math.softmax(@x, @y) {columns = 1, schedule_peeled = 1}", "peeled rows are in registers of 32 lanes"),
    (
        "math.softmax(@x, @y) {columns = 64, schedule_lanes = 32, schedule_vector = 4, schedule_peeled = 1, "
        "schedule_rows_per_thread = 2}",
        "peeled rows are done one at a time",
    ),
    (
        "math.matvec_fixed(@nine, @triple, @word) {schedule_predicated = 1, schedule_vector = 2}",
        "vectors of 2 do not divide 3 columns",
    ),
    ("math.matvec_fixed(@nine, @triple, @word) {schedule_splits = 2}", "unless loads are predicated"),
    ("tt.contract_step(@two, @six, @y) {schedule_vector = 2}", "vectors of 2 do not divide 3 columns"),
    ("tt.contract_step(@two, @six, @y) {schedule_stream_columns = 33}", "over a multiple of 32 columns"),
]


def test_refusals() -> None:
    """What cannot be expanded stays as it is, and a remark says why."""

    def check(case: tuple[str, str]) -> None:
        stage, why = case
        module = parse(
            f"""vyre 1
            pipeline @main {{
              buffer @x : f32[64] read
              buffer @y : f32[64] write live_out
              buffer @word : u32[64]
              buffer @nine : u32[9] read
              buffer @triple : u32[3] read
              buffer @two : f32[2] read
              buffer @six : f32[6] read
              buffer @open : f32[?] write live_out
              {stage}
            }}"""
        )
        result = PassManager("expand_kernels").run(module)
        assert not result
        assert [r.kind for r in result.remarks] == ["refused"]
        assert why in result.remarks[0].message

    each(REFUSALS, check)


@pytest.mark.parametrize(
    ("table", "schedule", "in_shared"),
    [
        ("u16", "", True),
        ("u16", ", schedule_lanes = 256, schedule_chunk = 108", False),
        ("u32", ", schedule_chunk = 60", True),
    ],
)
def test_states_are_in_shared_memory_where_there_is_room_for_a_given_tile(
    table: str, schedule: str, in_shared: bool
) -> None:
    """A text that fixes lanes and a chunk is expanded with or without; one that asks for it is told what does not fit."""
    text = f"""vyre 1
        pipeline @main {{
          buffer @text : u8[?] read
          buffer @table : {table}[?] read
          buffer @accept : u32[?] read
          buffer @numbers : u32[?] write
          scan.dfa(@text, @table, @accept, @numbers) {{warmup = 64{schedule}}}
        }}"""
    result = PassManager("expand_kernels", target="sm_90").run(parse(text))
    assert [r.kind for r in result.remarks] == ["applied"]
    assert f"in_shared={in_shared}" in result.remarks[0].message
    asked = parse(text.replace("warmup = 64", "warmup = 64, schedule_in_shared = 1"))
    (remark,) = PassManager("expand_kernels", target="sm_90").run(asked).remarks
    assert remark.kind == ("applied" if in_shared else "refused")
    assert (
        in_shared
        or "28672 of text and 56320 of states; with in_shared = 0 states take none" in remark.message
    )
