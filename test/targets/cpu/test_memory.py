"""Loads and stores of every pattern, atomics, and accesses out of bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.pairs import pairs
from support.quick import quick

from vyre_opt.execution import ProgramError, Scratch
from vyre_opt.execution.arrays import storage_type
from vyre_opt.ir import DataType, parse
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher

TYPES = ("bool", "u8", "i16", "f16", "bf16", "f32", "u64", "f64")
INDICES = {
    "consecutive": "%i = add %g, %zero : u32",
    "offset": "%i = add %g, %one : u32",
    "backwards": "%i = sub %last, %g : u32",
    "every second": "%i = mul %g, %two : u32",
    "odd ones": "%e = mul %g, %two : u32  %i = add %e, %one : u32",
    "every third": "%i = mul %g, %three : u32",
    "scattered": "%a = mul %g, %seven : u32  %i = rem %a, %n : u32",
    "the same": "%i = rem %seven, %n : u32",
    "signed": "%s = cast %g : u32 -> i64  %i = abs %s : i64",
}


@pytest.mark.parametrize("dtype", quick(TYPES, keep=3))
def test_every_pattern(agree: Any, dtype: str) -> None:
    """Guarded by the length, so that the last chunks are served in part."""
    element = DataType.of(dtype)
    stored = storage_type(element)
    assert stored is not None
    x = np.random.default_rng(3).integers(0, 2 if dtype == "bool" else 90, 171).astype(stored)
    outputs, body = [], []
    for place, index in enumerate(INDICES.values(), 1):
        kind = "i64" if "i64" in index else "u32"
        outputs.append(f"buffer @y{place} : {dtype}[?] write binding({place}) live_out")
        body.append(
            f"""region @part{place} {{
              {index}
              %j = cast %i : {kind} -> u32
              %in = lt %j, %n : u32
              if %in {{
                %v = load @x[%i] : {dtype}
                %ok = lt %g, %n : u32
                if %ok {{ store %v, @y{place}[%g] : {dtype} }}
              }}
            }}"""
        )
    nl = "\n"
    text = f"""program @p workgroup(48) {{
      buffer @x : {dtype}[?] read binding(0)
      {nl.join(outputs)}
      %g = global_id x
      %n = len @x
      %zero = const 0 : u32
      %one = const 1 : u32
      %two = const 2 : u32
      %three = const 3 : u32
      %seven = const 7 : u32
      %last = sub %n, %one : u32
      {nl.join(body)}
    }}"""
    agree(text, [x, *(np.zeros_like(x) for _ in INDICES)], 4)


@pytest.mark.parametrize("dtype", quick(TYPES[::2] + TYPES[1::2], keep=4))
@pytest.mark.parametrize("width", quick([3, 2, 4, 16]))
def test_vectors_of_any_width(agree: Any, dtype: str, width: int) -> None:
    """Elements one after the other, in vector buffers and as wide accesses to scalar ones."""
    stored = storage_type(DataType.of(dtype))
    assert stored is not None
    total = 70 * width
    x = np.random.default_rng(width).integers(0, 2 if dtype == "bool" else 90, total).astype(stored)
    text = f"""program @p workgroup(35) {{
      buffer @x : {dtype}[{total}] read binding(0)
      buffer @y : vec<{width} x {dtype}>[70] write binding(1) live_out
      buffer @z : {dtype}[{total + 1}] write binding(2) live_out
      %g = global_id x
      %w = const {width} : u32
      %i = mul %g, %w : u32
      %v = load @x[%i] : vec<{width} x {dtype}>
      store %v, @y[%g] : vec<{width} x {dtype}>
      %one = const 1 : u32
      %j = add %i, %one : u32
      store %v, @z[%j] : vec<{width} x {dtype}>
    }}"""
    agree(text, [x, np.zeros((70, width), stored), np.zeros(total + 1, stored)], 2)


@pytest.mark.parametrize("lanes", [1, 32, 45])
def test_scattered_stores(agree: Any, lanes: int) -> None:
    """Each lane at its own place, some lanes not at all."""
    for dtype in ("u8", "i16", "f32", "u64", "bool"):
        stored = storage_type(DataType.of(dtype))
        text = f"""program @p workgroup({lanes}) {{
          buffer @y : {dtype}[331] write binding(0) live_out
          %g = global_id x
          %k = const 37 : u32
          %n = const 331 : u32
          %a = mul %g, %k : u32
          %i = rem %a, %n : u32
          %one = const 1 : u32
          %p = and %g, %one : u32
          %odd = eq %p, %one : u32
          if %odd {{
            %v = cast %g : u32 -> {dtype}
            store %v, @y[%i] : {dtype}
          }}
        }}"""
        agree(text, [np.zeros(331, stored)], 7)


@pytest.mark.parametrize("dtype", quick(["u32", "i64", "f32", "i32", "u64", "f64"], keep=3))
def test_atomics(agree: Any, dtype: str) -> None:
    """Every op, on elements that lanes share in storage and in workgroup memory, in lane order."""
    names = ["add", "exchange"] if dtype[0] == "f" else ["add", "min", "max", "and", "or", "xor", "exchange"]
    orders = ("relaxed", "acquire", "release", "acq_rel", "seq_cst")
    stored = storage_type(DataType.of(dtype))
    body = []
    for number, name in enumerate(names):
        body.append(f"%old{number} = atomic_{name}<{orders[number % 5]}> @y[%k{number}], %v : {dtype}")
        body.append(f"%mine{number} = atomic_{name} @tile[%t{number}], %v : {dtype}")
        body.append(f"store %mine{number}, @old[%o{number}] : {dtype}")
    if dtype[0] != "f":
        body.append(f"%cas = atomic_compare_exchange<acq_rel> @y[%ks], %v, %w : {dtype}")
        body.append("barrier workgroup")
        body.append(f"%own = atomic_compare_exchange @tile[%t0], %w, %v : {dtype}")
        body.append(f"%last = const 280 : u32\n%at = add %l, %last : u32\nstore %own, @old[%at] : {dtype}")
    places = []
    for number in range(len(names)):
        places.append(f"%n{number} = const {4 * number} : u32\n%k{number} = add %part, %n{number} : u32")
        places.append(f"%m{number} = const {number} : u32\n%t{number} = add %zero, %m{number} : u32")
        places.append(f"%q{number} = const {40 * number} : u32\n%o{number} = add %l, %q{number} : u32")
    nl = "\n"
    text = f"""program @p workgroup(40) {{
      buffer @y : {dtype}[40] read_write binding(0) live_in live_out
      buffer @old : {dtype}[320] write binding(1) live_out
      buffer @tile : {dtype}[8] workgroup
      %l = local_id x
      %zero = const 0 : u32
      %three = const 3 : u32
      %part = and %l, %three : u32
      %eight = const 8 : u32
      %fill = lt %l, %eight : u32
      %v = cast %l : u32 -> {dtype}
      %w = add %v, %v : {dtype}
      if %fill {{ store %w, @tile[%l] : {dtype} }}
      %thirty = const 30 : u32
      %ks = add %part, %thirty : u32
      {nl.join(places)}
      barrier workgroup
      {nl.join(body)}
    }}"""
    start = np.random.default_rng(2).integers(0, 50, 40).astype(stored)
    agree(text, [start, np.zeros(320, stored)], 1)


def test_arrays_off_their_alignment(agree: Any) -> None:
    raw = np.zeros(4 * 64 + 1, np.uint8)
    raw[1:] = np.random.default_rng(0).integers(0, 255, 256)
    x = raw[1:].view(np.uint32)
    assert not x.flags.aligned
    text = """program @p workgroup(32) {
      buffer @x : u32[?] read binding(0)
      buffer @y : u32[?] write binding(1) live_out
      %g = global_id x
      %v = load @x[%g] : u32
      store %v, @y[%g] : u32
    }"""
    agree(text, [x, np.zeros(64, np.uint32)], 2)


def test_inputs_are_left_alone(agree: Any) -> None:
    x = np.arange(64, dtype=np.int32)
    before = x.copy()
    text = """program @p workgroup(32) {
      buffer @x : i32[?] read_write binding(0) live_in live_out
      %g = global_id x
      %v = load @x[%g] : i32
      %w = neg %v : i32
      store %w, @x[%g] : i32
    }"""
    (y,) = agree(text, [x], 2)
    assert np.array_equal(x, before)
    assert np.array_equal(y, -before)


# --- out of bounds: reported in the interpreter's words, and nothing outside is touched

WRONG = {
    "consecutive": ("%i = add %g, %c : u32", "u32"),
    "far": ("%h = const 4294967290 : u32  %i = add %g, %h : u32", "u32"),
    "one lane": ("%k = const 7 : u32  %m = mul %g, %k : u32  %i = and %m, %mask : u32", "u32"),
    "agreed": ("%i = add %c, %c : u32", "u32"),
    "negative": ("%s = cast %g : u32 -> i32  %t = const 3 : i32  %i = sub %s, %t : i32", "i32"),
    "wide": ("%s = cast %g : u32 -> u64  %t = const 0x8000000000000000 : u64  %i = add %s, %t : u64", "u64"),
}
ACCESS = {
    "load": "%v = load @x[%i] : f32",
    "store": "store %f, @x[%i] : f32",
    "vector load": "%v = load @x[%i] : vec<4 x f32>",
    "atomic": "%v = atomic_add @x[%i], %f : f32",
}


@pytest.mark.parametrize("access", ACCESS)
@pytest.mark.parametrize("index", WRONG)
def test_out_of_bounds_is_reported(faults: Any, index: str, access: str) -> None:
    place, _ = WRONG[index]
    if index == "agreed" and access == "store":
        return  # the lanes race, too, and the interpreter may say so first
    text = f"""program @p workgroup(64) {{
      buffer @x : f32[100] read_write binding(0) live_in live_out
      %g = global_id x
      %c = const 70 : u32
      %mask = const 127 : u32
      %f = const 1.0 : f32
      {place}
      {ACCESS[access]}
    }}"""
    if access == "store" and index == "one lane":
        text = text.replace("const 7 : u32", "const 3 : u32")  # each lane its own element
    error = faults(text, [np.zeros(100, np.float32)], 1)
    assert error.kind == "bounds"
    assert "length 100" in str(error)


def test_a_vector_that_begins_at_the_last_element_is_reported(faults: Any) -> None:
    """The buffer's length stands in the program, so that all but the last lane's access is proven."""
    text = """program @p workgroup(32) {
      buffer @x : u32[32] read binding(0)
      buffer @y : u32[32] write binding(1)
      %l = local_id x
      %v = load @x[%l] : vec<2 x u32>
      %a = extract %v[1] : vec<2 x u32>
      store %a, @y[%l] : u32
    }"""
    error = faults(text, [np.zeros(32, np.uint32), np.zeros(32, np.uint32)], 1)
    assert error.kind == "bounds"
    assert "elements 31 to 32, length 32" in str(error)


def test_lanes_that_do_not_take_part_may_be_out_of_bounds(agree: Any) -> None:
    text = """program @p workgroup(64) {
      buffer @x : u8[?] read_write binding(0) live_in live_out
      %g = global_id x
      %n = len @x
      %in = lt %g, %n : u32
      if %in {
        %v = load @x[%g] : u8
        %w = not %v : u8
        store %w, @x[%g] : u8
      }
    }"""
    for count in (0, 1, 31, 32, 33, 63, 64):
        agree(text, [np.arange(count, dtype=np.uint8)], 1)


@pytest.mark.parametrize(("dtype", "width"), pairs(["bool", "u8", "u32", "f16"], [1, 2, 3, 4]))
def test_lanes_that_do_not_take_part_store_nothing(agree: Any, dtype: str, width: int) -> None:
    """Every third lane stores at its own place, all within bounds; the places between stay as they were."""
    moved = dtype if width == 1 else f"vec<{width} x {dtype}>"
    text = f"""program @p workgroup(64) {{
      buffer @x : {dtype}[?] read binding(0)
      buffer @y : {dtype}[?] read_write binding(1) live_in live_out
      %g = global_id x
      %width = const {width} : u32
      %i = mul %g, %width : u32
      %three = const 3 : u32
      %zero = const 0 : u32
      %v = load @x[%i] : {moved}
      %r = rem %g, %three : u32
      %takes_part = eq %r, %zero : u32
      if %takes_part {{ store %v, @y[%i] : {moved} }}
    }}"""
    stored = np.float16 if dtype == "f16" else np.dtype(dtype.replace("u", "uint"))
    old, new = np.zeros(64 * width, stored), np.ones(64 * width, stored)
    (y,) = agree(text, [new, old], 1)
    assert y.sum() == 22 * width


@pytest.mark.parametrize(("dtype", "behind"), pairs(["u32", "i32", "u16", "u64"], [1, 5, 31]))
def test_a_run_whose_first_lane_takes_no_part(agree: Any, dtype: str, behind: int) -> None:
    """Its index has wrapped where those of the lanes that load and store are proven in bounds."""
    text = f"""program @p workgroup(64) grid(1) {{
      buffer @x : u32[64] read binding(0)
      buffer @y : u32[64] read_write binding(1) live_in live_out
      %l = local_id x
      %i = cast %l : u32 -> {dtype}
      %behind = const {behind} : {dtype}
      %in = ge %i, %behind : {dtype}
      if %in {{
        %from = sub %i, %behind : {dtype}
        %v = load @x[%from] : u32
        store %v, @y[%from] : u32
      }}
    }}"""
    agree(text, [np.arange(100, 164, dtype=np.uint32), np.zeros(64, np.uint32)], 1)


def test_nothing_outside_is_written() -> None:
    """The lanes in bounds beside one that is not write nothing either."""
    (program,) = parse("""vyre 1
    program @p workgroup(32) {
      buffer @t : u32[40] read_write
      %g = global_id x
      %k = const 9 : u32
      %i = add %g, %k : u32
      store %g, @t[%i] : u32
    }""").programs.values()
    scratch = Scratch()
    with pytest.raises(ProgramError, match="index 40"):
        CpuDispatcher().dispatch(program, [], 1, scratch=scratch)
    assert not scratch.storage["t"].any()


def test_trap_and_step(faults: Any) -> None:
    """With the first lane that comes there."""
    error = faults(
        """program @p workgroup(64) {
          buffer @x : u32[64] read binding(0)
          %g = global_id x
          %v = load @x[%g] : u32
          %k = const 5 : u32
          %p = eq %v, %k : u32
          if %p { trap "five" }
        }""",
        [np.arange(64, dtype=np.uint32) % 40],
        1,
    )
    assert "trap: five; reached by workgroup (0,0,0) local id (5,0,0)" in str(error)
    for dtype, step in (("u32", "%v"), ("i8", "%w"), ("u32", "%u")):
        error = faults(
            f"""program @p workgroup(64) {{
              buffer @x : u32[64] read binding(0)
              %g = global_id x
              %v = load @x[%g] : u32
              %w = cast %v : u32 -> i8
              %zero = const 3 : u32
              %u = load @x[%zero] : u32
              for %k = 0 to 10 step {step} : {dtype} {{ }}
            }}""",
            [(np.arange(64, dtype=np.uint32) + 1) % 4],
            1,
        )
        assert error.kind == "step"


@pytest.mark.parametrize(("condition", "lane"), [("%each", 5), ("%all", 0), ("%some", 8)])
def test_an_assert_is_checked_in_active_lanes(faults: Any, condition: str, lane: int) -> None:
    """A condition of each lane, one that is uniform, and one behind a branch, of which only some lanes ask it."""
    text = """program @p workgroup(40) {
      buffer @x : u32[40] read binding(0)
      %g = global_id x
      %v = load @x[%g] : u32
      %five = const 5 : u32
      %each = lt %v, %five : u32
      %first = load @x[%five] : u32
      %all = ne %first, %five : u32
      %seven = const 7 : u32
      %late = gt %g, %seven : u32
      if %late { %some = lt %v, %five : u32 SOME }
      REST
    }"""
    inside = f'assert {condition}, "small"'
    text = text.replace("SOME", inside if condition == "%some" else "").replace(
        "REST", "" if condition == "%some" else inside
    )
    error = faults(text, [np.arange(40, dtype=np.uint32)], 1)
    assert error.kind == "assert"
    assert f"assert: small; false in workgroup (0,0,0) local id ({lane},0,0)" in str(error)


def test_the_first_workgroup_at_fault_is_reported(faults: Any) -> None:
    """Many workgroups over many threads, all of the later ones at fault."""
    error = faults(
        """program @p workgroup(64) {
          buffer @x : u8[100000] read binding(0)
          %g = global_id x
          %v = load @x[%g] : u8
        }""",
        [np.zeros(100000, np.uint8)],
        4000,
    )
    assert "index 100000" in str(error)


@pytest.mark.parametrize(
    ("order", "kind"), pairs(["relaxed", "acquire", "release", "acq_rel", "seq_cst"], ["add", "or", "xor"])
)
def test_an_atomic_that_adds_nothing_reads(agree: Callable[..., Any], kind: str, order: str) -> None:
    """It may be a load; it sees what the same lane wrote before, and is checked for bounds as others are."""
    text = f"""program @p workgroup(40) {{
        buffer @a : u64[40] read_write binding(0) live_in live_out
        buffer @y : u64[40] write binding(1) live_out
        %l = local_id x
        %none = const 0 : u64
        %five = const 5 : u64
        %old = atomic_add<relaxed> @a[%l], %five : u64
        %now = atomic_{kind}<{order}> @a[%l], %none : u64
        store %now, @y[%l] : u64
    }}"""
    a = np.arange(40, dtype=np.uint64) << np.uint64(33)
    _, y = agree(text, [a, np.zeros(40, np.uint64)], 1)
    np.testing.assert_array_equal(y, a + np.uint64(5))


@pytest.mark.parametrize(("dtype", "step"), pairs(["u8", "i8", "u16"], [1, 3]))
def test_an_index_that_wraps_between_lanes(agree: Any, dtype: str, step: int) -> None:
    """Behind its largest value an index goes on at its least, also where the next element exists."""
    bits = int(dtype[1:])
    first = (1 << bits) - 40 if dtype[0] == "u" else 0
    text = f"""
program @p workgroup(64) {{
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1)
  buffer @z : u32[?] read_write binding(2) live_in live_out
  %g = global_id x
  %first = const {first} : u32
  %step = const {step} : u32
  %ahead = mul %g, %step : u32
  %far = add %first, %ahead : u32
  %i = cast %far : u32 -> {dtype}
  %zero = const 0 : {dtype}
  %fine = ge %i, %zero : {dtype}
  if %fine {{
    %v = load @x[%i] : u32
    store %v, @y[%g] : u32
    store %g, @z[%i] : u32
  }}
}}
"""
    x = np.arange((1 << bits) + 300, dtype=np.uint32)
    agree(text, [x, np.zeros(64, np.uint32), np.zeros_like(x)], 1)


@pytest.mark.parametrize("first", [200, 232, 255, 3])
@pytest.mark.parametrize("kind", ["u8", "i16"])
def test_a_narrow_index_that_wraps_within_a_subgroup(kind: str, first: int) -> None:
    """Each lane is in bounds, and the lanes' elements do not follow each other."""
    period = 256 if kind == "u8" else 1 << 16
    start = first if kind == "u8" else first - 300  # below zero there are no elements
    text = f"""vyre 2
    program @p workgroup(128) {{
      buffer @x : u32[257] read binding(0)
      buffer @y : u32[257] write binding(1)
      buffer @z : u32[257] write binding(2)
      %g = global_id x
      %p = lt %g, 256 : u32
      if %p {{
        %n = cast %g : u32 -> {kind}
        %i = add %n, {start} : {kind}
        %w = cast %i : {kind} -> u32
        %inside = lt %w, 257 : u32
        if %inside {{
          %v = load @x[%i]
          store %v, @y[%g]
          store %g, @z[%i]
        }}
      }}
    }}"""
    x = np.arange(1, 258, dtype=np.uint32)
    y, z = np.zeros((2, 257), np.uint32)
    for g in range(256):
        i = (g + start + period // 2) % period - period // 2 if kind == "i16" else (g + start) % period
        if 0 <= i < 257:
            y[g], z[i] = x[i], g
    outputs = CpuDispatcher().dispatch(
        parse(text).programs["p"], [x, np.zeros_like(y), np.zeros_like(z)], (2, 1, 1)
    )
    np.testing.assert_array_equal(outputs, [y, z])
