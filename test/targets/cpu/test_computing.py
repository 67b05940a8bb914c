"""Ops that only compute, on every type and their edge values, as lanes, as scalars and in vectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.op_programs.maker import differs
from support.quick import quick
from support.sample import edge_values

from vyre_opt import dispatcher
from vyre_opt.execution.arrays import constant
from vyre_opt.ir import OPS, Builder, DataType, OpDef, Program, Value
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher

INTEGERS = [DataType.of(f"{sign}{bits}") for sign in "ui" for bits in (8, 16, 32, 64)]
FLOATS = [DataType.F16, DataType.BF16, DataType.F32, DataType.F64]
TYPES = [*INTEGERS, *FLOATS, DataType.BOOL]
ARITY = {"unary": 1, "binary": 2, "ternary": 3, "compare": 2}


def test_2_to_the_32_invocations_are_a_size_of_zero() -> None:
    """Which division by it sees: x / 0 is x."""
    b = Builder("p", 1024)
    y = b.buffer("y", DataType.U32, 64, "write", 0, live_out=True)
    i, size = b.global_id("x"), b.global_size("x")
    with b.if_(b.lt(i, 64)):
        b.store(b.div(b.add(i, 100), size), y, i)
    (found,) = CpuDispatcher().dispatch(b.finish(), [np.zeros(64, np.uint32)], 1 << 22)
    np.testing.assert_array_equal(found, np.arange(100, 164))


def way_of(dtype: DataType) -> str:
    """Types of one way are lowered by the same lines."""
    if dtype.is_float:
        return dtype.name if dtype.bits == 16 else "wide float"
    return "bool" if dtype.is_bool else "signed" if dtype.is_signed else "unsigned"


def rows(dtype: DataType) -> list[OpDef]:
    return [row for row in OPS.values() if row.format in ARITY and row.accepts(dtype)]


def triples(dtype: DataType) -> list[np.ndarray]:
    """All pairs of edge values, and a third beside them: the values of three buffers."""
    edges = edge_values(dtype)
    n = len(edges)
    pairs = [(edges[i], edges[j], edges[(i * j + i) % n]) for i in range(n) for j in range(n)]
    return [np.concatenate([constant(v, dtype) for v in column]) for column in zip(*pairs, strict=True)]


def program_of(
    dtype: DataType, workgroup: int, lanes: int = 1
) -> tuple[Program, list[tuple[OpDef, DataType]]]:
    """Applies every op of a type to what an invocation loads; an output for each op."""
    b = Builder("ops", workgroup)
    held = DataType.vec(dtype, lanes) if lanes > 1 else dtype
    sources = [b.buffer(name, dtype, None, "read", place) for place, name in enumerate("abc")]
    outputs: list[tuple[OpDef, DataType]] = []
    start = b.mul(b.global_id("x"), lanes)
    with b.if_(b.le(b.add(start, lanes), b.len(sources[0]))):
        loaded = [
            b.load(source, start, lanes=lanes) if lanes > 1 else b.load(source, start) for source in sources
        ]
        for row in rows(dtype):
            method = getattr(b, row.name + ("_" if row.name in ("and", "or", "not") else ""))
            result: Value = method(*loaded[: ARITY[row.format]])
            target = b.buffer(
                f"o_{row.name}", result.type.element, None, "write", 3 + len(outputs), live_out=True
            )
            b.store(result, target, start)
            outputs.append((row, result.type.element))
    assert held.element is dtype
    return b.finish(), outputs


def outcomes(
    dtype: DataType, workgroup: int, lanes: int
) -> Iterator[tuple[OpDef, DataType, np.ndarray, np.ndarray]]:
    program, ops = program_of(dtype, workgroup, lanes)
    sources = triples(dtype)
    space = [np.zeros(len(sources[0]), constant(0, result).dtype) for _, result in ops]
    groups = -(-len(sources[0]) // (workgroup * lanes))
    run: list[list[np.ndarray]] = [
        target.dispatch(program, [*sources, *space], groups)
        for target in (CpuDispatcher(), dispatcher("ref"))
    ]
    for (row, result), got, expected in zip(ops, *run, strict=True):
        yield row, result, got, expected


@pytest.mark.parametrize(
    ("workgroup", "lanes"), quick([(32, 1), (1, 1), (32, 3)], ids=["lanes", "scalar", "vector"])
)
@pytest.mark.parametrize("dtype", quick(TYPES, way_of), ids=str)
def test_every_op_on_edge_values(dtype: DataType, workgroup: int, lanes: int) -> None:
    """Guards against a bit that differs, which NaN it is aside."""
    for row, result, got, expected in outcomes(dtype, workgroup, lanes):
        wrong = differs(got, expected, result)
        assert not wrong.any(), (row.name, got[wrong][0], expected[wrong][0])


@pytest.mark.parametrize("source", quick(TYPES, lambda t: t.is_float), ids=str)
def test_cast_to_every_type(agree: Any, source: DataType) -> None:
    values = np.concatenate([constant(v, source) for v in edge_values(source)])
    outputs, body, space = [], [], []
    for place, target in enumerate(TYPES, 1):
        outputs.append(f"buffer @o{place} : {target}[?] write binding({place}) live_out")
        body.append(f"%c{place} = cast %x : {source} -> {target}\nstore %c{place}, @o{place}[%g] : {target}")
        space.append(np.zeros(len(values), constant(0, target).dtype))
    nl = "\n"
    text = f"""program @casts workgroup({len(values)}) {{
      buffer @x : {source}[?] read binding(0)
      {nl.join(outputs)}
      %g = global_id x
      %x = load @x[%g] : {source}
      {nl.join(body)}
    }}"""
    agree(text, [values, *space], 1)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("f32", "u32"), ("i64", "f64"), ("f16", "bf16"), ("vec<4 x u8>", "u32"), ("u64", "vec<4 x i16>"),
        ("vec<2 x f32>", "vec<8 x u8>"), ("vec<6 x u16>", "vec<3 x f32>"), ("vec<4 x bf16>", "f64"),
    ],
)  # fmt: skip
def test_bitcast(agree: Any, source: str, target: str) -> None:
    values = np.random.default_rng(1).integers(0, 120, 40 * 16, dtype=np.uint8)
    text = f"""program @bits workgroup(40) {{
      buffer @x : {source}[40] read binding(0)
      buffer @y : {target}[40] write binding(1) live_out
      buffer @z : {target}[1] write binding(2) live_out
      %g = global_id x
      %x = load @x[%g] : {source}
      %y = bitcast %x : {source} -> {target}
      store %y, @y[%g] : {target}
      %zero = const 0 : u32
      %first = eq %g, %zero : u32
      if %first {{
        %u = load @x[%zero] : {source}
        %v = bitcast %u : {source} -> {target}
        store %v, @z[%zero] : {target}
      }}
    }}"""
    size = {"f32": 4, "i64": 8, "f16": 2, "vec<4 x u8>": 4, "u64": 8, "vec<2 x f32>": 8}.get(source, 0)
    size = size or {"vec<6 x u16>": 12, "vec<4 x bf16>": 8}[source]
    raw = [values[: 40 * size].tobytes(), bytes(40 * size), bytes(size)]
    agree(text, raw, 1)


def test_vectors(agree: Any) -> None:
    """splat, vector, extract, insert and select, by one condition and by one for each lane of the vector."""
    x = np.arange(64, dtype=np.uint32)
    agree(
        """program @v workgroup(32) {
          buffer @x : u32[64] read binding(0)
          buffer @y : vec<3 x u32>[64] write binding(1) live_out
          %g = global_id x
          %a = load @x[%g] : u32
          %s = splat %a : vec<3 x u32>
          %two = const 2 : u32
          %w = vector %g, %two, %a : vec<3 x u32>
          %t = insert %two, %s[1] : vec<3 x u32>
          %e = extract %w[0] : vec<3 x u32>
          %odd = rem %e, %two : u32
          %is = eq %odd, %two : u32
          %c = le %w, %t : vec<3 x u32>
          %p = select %c, %w, %t : vec<3 x u32>
          %big = gt %a, %two : u32
          %q = select %big, %p, %s : vec<3 x u32>
          %r = select %is, %s, %q : vec<3 x u32>
          store %r, @y[%g] : vec<3 x u32>
        }""",
        [x, np.zeros((64, 3), np.uint32)],
        2,
    )


def test_ids_and_sizes(agree: Any) -> None:
    """In one, two and three dimensions; a row of lanes may be a chunk, part of one, or cross two."""
    names = [
        f"{name} {axis}"
        for name in (
            "global_id",
            "local_id",
            "workgroup_id",
            "num_workgroups",
            "workgroup_size",
            "global_size",
        )
        for axis in "xyz"
    ]
    names += ["lane_id", "subgroup_id", "subgroup_size", "num_subgroups"]
    for extents in ((70,), (32, 3), (64, 2), (5, 7, 3), (1, 40), (4, 4), (1, 1, 33), (1,)):
        x, y, z = [*extents, 1, 1][:3]
        grid = (2, 3, 2)
        total = x * y * z * 12
        body = "\n".join(f"%v{n} = {name}\nstore %v{n}, @o{n}[%i] : u32" for n, name in enumerate(names))
        outputs = "\n".join(
            f"buffer @o{n} : u32[{total}] write binding({n}) live_out" for n in range(len(names))
        )
        shown = ", ".join(map(str, extents))
        text = f"""program @ids workgroup({shown}) {{
          {outputs}
          %gx = global_id x
          %gy = global_id y
          %gz = global_id z
          %sx = global_size x
          %sy = global_size y
          %a = mul %gz, %sy : u32
          %b = add %a, %gy : u32
          %c = mul %b, %sx : u32
          %i = add %c, %gx : u32
          {body}
        }}"""
        agree(text, [np.zeros(total, np.uint32) for _ in names], grid)


def test_constants_specs_and_lengths(agree: Any) -> None:
    """Values of constants are built in; another value is another compilation."""
    text = """program @c workgroup(32) {
      buffer @x : f16[?] read binding(0)
      buffer @y : f64[32] write binding(1) live_out
      spec @k : f32 = 0.1
      spec @on : bool = true
      %g = global_id x
      %n = len @x : u64
      %f = cast %n : u64 -> f64
      %k = spec @k : f32
      %on = spec @on : bool
      %w = cast %k : f32 -> f64
      %c = const 0x3e00 : bf16
      %d = cast %c : bf16 -> f64
      %s = select %on, %w, %d : f64
      %t = mul %s, %f : f64
      store %t, @y[%g] : f64
    }"""
    inputs = [np.zeros(7, np.float16), np.zeros(32)]
    first = agree(text, inputs, 1)
    second = agree(text, inputs, 1, specs={"k": 3.0})
    third = agree(text, inputs, 1, specs={"on": False})
    assert len({float(y[0]) for (y,) in (first, second, third)}) == 3
