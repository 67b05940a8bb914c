"""Programs that a plausible mistake in the proofs would get wrong.

`make mutants` plants such mistakes in a copy of the code (see test/mutants), and the tests here are among those that
must fail then.  Every program runs clean on the interpreter as it is written, and must do so after the
passes, with the same outputs: its checks report a race where a miscompile would be lucky.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from vyre_opt import PassManager, parse, run
from vyre_opt.execution import ProgramError

JOIN = "launch_fusion,decode_scan_fuse"

IDS = """
  %g = global_id x
  %l = local_id x
  %w = workgroup_id x
  %c0 = const 0 : u32
  %c1 = const 1 : u32
  %c2 = const 2 : u32
  %c3 = const 3 : u32
  %c4 = const 4 : u32
  %other = sub %c1, %w : u32
  %their_base = mul %other, %c4 : u32
  %theirs = add %their_base, %l : u32
"""


def program(name: str, lanes: int, buffers: str, body: str) -> str:
    """`buffers`: `name:read`, `name:write` (an output) or `name:both`, u32 of open size, in binding order."""
    access = {"read": "read", "write": "write live_out", "both": "read_write live_in live_out"}
    declared = ""
    for place, word in enumerate(buffers.split()):
        buffer, kind = word.split(":")
        declared += f"  buffer @{buffer} : u32[?] {access[kind]} binding({place})\n"
    return f"program @{name} workgroup({lanes}) {{\n{declared}{IDS}{body}\n}}\n"


def pipeline(grid: int, buffers: Mapping[str, int], *launches: str) -> str:
    """Launches as `name m y`; each buffer is given to the pipeline and given back."""
    lines = [f"  buffer @{name} : u32[{count}] live_in live_out" for name, count in buffers.items()]
    for launch in launches:
        name, *passed = launch.split()
        lines.append(f"  launch @{name} grid({grid}) ({', '.join(f'@{b}' for b in passed)})")
    return "pipeline @main {\n" + "\n".join(lines) + "\n}\n"


def is_same(text: str, passes: str = JOIN, **inputs: Any) -> None:
    """The outputs on the interpreter are those of the text as it is written."""
    text = "vyre 1\n" + text
    arrays = {name: np.asarray(array, np.uint32) for name, array in inputs.items()}
    expected = run(text, arrays, target="ref")
    after = run(text, arrays, target="ref", passes=passes)
    for name, array in expected.items():
        np.testing.assert_array_equal(after[name], array, err_msg=f"@{name}")


def saved(text: str) -> int:
    """The launches that are joined away."""
    result = PassManager("launch_fusion").run(parse("vyre 1\n" + text))
    return result.statistics.get(("launch_fusion", "launches saved"), 0)


def numbers(count: int) -> np.ndarray[Any, Any]:
    return np.arange(count, dtype=np.uint32) + 1000


def stays_two(writer: str, reader: str, m: int, y: int) -> None:
    """Two launches of two workgroups, over so many elements of @m and @y, are not joined, and give the same."""
    text = writer + reader + pipeline(2, {"m": m, "y": y}, "writer m", "reader m y")
    is_same(text, m=numbers(m), y=numbers(y))
    assert saved(text) == 0


# --- hazards


def test_what_a_round_of_a_repeat_hands_to_the_next_outlives_it() -> None:
    """@last is read from the second round on; one program of both launches must not begin with another @last."""
    use = program(
        "use",
        4,
        "round:read last:read y:both",
        """
  %n = load @round[%g] : u32
  %is_later = gt %n, %c0 : u32
  if %is_later {
    %v = load @last[%g] : u32
    %o = load @y[%g] : u32
    %s = add %o, %v : u32
    store %s, @y[%g] : u32
  }""",
    )
    make = program(
        "make",
        4,
        "round:both last:write",
        """
  %n = load @round[%g] : u32
  %next = add %n, %c1 : u32
  store %next, @round[%g] : u32
  %v = mul %next, %c3 : u32
  store %v, @last[%g] : u32""",
    )
    text = (
        use
        + make
        + """pipeline @main {
  buffer @round : u32[8] live_in
  buffer @last : u32[8]
  buffer @y : u32[8] live_in live_out
  repeat 3 {
    launch @use grid(2) (@round, @last, @y)
    launch @make grid(2) (@round, @last)
  }
}
"""
    )
    is_same(text, round=np.zeros(8), y=numbers(8))
    assert saved(text) == 1


COPY = program(
    "copy",
    64,
    "m:read y:write",
    """
  %stride = const 128 : u8
  %w8 = cast %w : u32 -> u8
  %l8 = cast %l : u32 -> u8
  %base = mul %w8, %stride : u8
  %i = add %base, %l8 : u8
  %v = load @m[%i] : u32
  store %v, @y[%g] : u32""",
)

OVERWRITE = program(
    "overwrite",
    64,
    "m:both",
    """
  %stride = const 128 : u8
  %w8 = cast %w : u32 -> u8
  %l8 = cast %l : u32 -> u8
  %base = mul %w8, %stride : u8
  %i = add %base, %l8 : u8
  %low = lt %w, %c2 : u32
  if %low { store %g, @m[%i] : u32 }""",
)


def test_workgroup_memory_of_one_name_and_two_sizes_is_two() -> None:
    """Each launch has a @t of its own: four elements in the first, two in the second."""
    mirror = """
  %mirrored = sub %c3, %l : u32
  store %g, @t[%l] : u32
  barrier workgroup
  %v = load @t[%mirrored] : u32
  store %v, @m[%g] : u32"""
    half = """
  %v = load @m[%g] : u32
  %place = rem %l, %c2 : u32
  %is_low = lt %l, %c2 : u32
  if %is_low { store %v, @t[%place] : u32 }
  barrier workgroup
  %low = load @t[%place] : u32
  store %low, @y[%g] : u32"""
    own = "  buffer @t : u32[{}] workgroup\n  %g ="
    first = program("writer", 4, "m:both", mirror).replace("  %g =", own.format(4), 1)
    second = program("reader", 4, "m:read y:both", half).replace("  %g =", own.format(2), 1)
    text = first + second + pipeline(2, {"m": 8, "y": 8}, "writer m", "reader m y")
    is_same(text, m=numbers(8), y=numbers(8))
    assert saved(text) == 1


def test_the_later_of_two_writes_stays() -> None:
    """Both launches write all of @m, each workgroup of the second what the other one of the first did."""
    first = program("writer", 4, "m:both", "  store %g, @m[%g] : u32")
    second = program("reader", 4, "m:both y:write", "  store %l, @m[%theirs] : u32 store %g, @y[%g] : u32")
    stays_two(first, second, m=8, y=8)


def test_grids_of_other_depths_are_two() -> None:
    """The second launch has twice as many workgroups, along y."""
    first = program("writer", 4, "m:both", "  store %g, @m[%g] : u32")
    body = """
  %row = workgroup_id y
  %eight = const 8 : u32
  %start = mul %row, %eight : u32
  %i = add %start, %g : u32
  %v = load @m[%g] : u32
  store %v, @y[%i] : u32"""
    second = program("reader", 4, "m:read y:both", body)
    text = first + second + pipeline(2, {"m": 8, "y": 16}, "writer m", "reader m y")
    text = text.replace("@reader grid(2)", "@reader grid(2, 2)")
    is_same(text, m=numbers(8), y=numbers(16))
    assert saved(text) == 0


def test_a_store_behind_a_barrier_of_its_own_launch_is_one_of_that_launch() -> None:
    """The first launch has a barrier before it writes what the second reads in the other workgroup."""
    writer = program("writer", 4, "m:both", "  barrier workgroup\n  store %g, @m[%g] : u32")
    body = "  %v = load @m[%theirs] : u32 store %v, @y[%g] : u32"
    reader = program("reader", 4, "m:read y:write", body)
    stays_two(writer, reader, m=8, y=8)


def test_what_a_pipeline_declares_write_is_given_back() -> None:
    """@m passes from one launch to the next within workgroups, and is an output all the same."""
    writer = program("writer", 4, "m:write", "  store %g, @m[%g] : u32")
    reader = program("reader", 4, "m:read y:write", "  %v = load @m[%g] : u32 store %v, @y[%g] : u32")
    stages = "  launch @writer grid(2) (@m)\n  launch @reader grid(2) (@m, @y)\n"
    text = (
        writer
        + reader
        + f"pipeline @main {{\n  buffer @m : u32[8] write\n  buffer @y : u32[8] write\n{stages}}}\n"
    )
    assert set(run("vyre 1\n" + text, {}, target="ref")) == {"m", "y"}
    is_same(text)
    assert saved(text) == 1


def test_workgroups_whose_indices_wrap_meet() -> None:
    """At 128 elements a workgroup, the u8 index of workgroup 2 is that of workgroup 0."""
    text = COPY + OVERWRITE + pipeline(4, {"m": 256, "y": 256}, "copy m y", "overwrite m")
    is_same(text, m=numbers(256), y=numbers(256))
    assert saved(text) == 0


def test_a_divisor_must_divide_the_modulus_too() -> None:
    """3*i and 3*j + 1 meet modulo 256, though no integers of these forms do."""
    body = """
  %three = const 3 : u8
  %one = const 1 : u8
  %g8 = cast %g : u32 -> u8
  %triple = mul %g8, %three : u8
  %i = add %triple, %one : u8"""
    writer = program("writer", 64, "m:both", body + "  store %g, @m[%triple] : u32")
    reader = program("reader", 64, "m:read y:write", body + "  %v = load @m[%i] : u32 store %v, @y[%g] : u32")
    stays_two(writer, reader, m=256, y=128)


READS_319_LESS_G = program(
    "reader",
    32,
    "m:read y:write",
    """
  %far = const 200 : u8
  %more = const 119 : u8
  %g8 = cast %g : u32 -> u8
  %sum = add %far, %more : u8
  %i = sub %sum, %g8 : u8
  %v = load @m[%i] : u32
  store %v, @y[%g] : u32""",
)


def test_ranges_that_do_not_meet_as_integers_may_wrap() -> None:
    """319 - g lies above every g below 64, and as a u8 is 63 - g."""
    writer = program("writer", 32, "m:both", "  store %g, @m[%g] : u32")
    stays_two(writer, READS_319_LESS_G, m=64, y=64)


def test_the_narrower_of_two_types_that_wrap_decides() -> None:
    """319 - g as a u8 is 63 - g, and so meets g - 2, which as a u32 may wrap as well."""
    body = "  %in = ge %g, %c2 : u32 if %in { %i = sub %g, %c2 : u32 store %g, @m[%i] : u32 }"
    writer = program("writer", 32, "m:both", body)
    stays_two(writer, READS_319_LESS_G, m=64, y=64)


def test_what_each_workgroup_agrees_on_differs_between_them() -> None:
    """Workgroup w writes the 4 elements from @s[w] on and reads the 4 behind them: workgroup 1's, for workgroup 0."""
    start = "  %start = load @s[%w] : u32 %i = add %start, %l : u32"
    writer = program("writer", 4, "s:read m:both", start + " store %g, @m[%i] : u32")
    reader = program(
        "reader",
        4,
        "s:read m:read y:write",
        start + " %behind = add %i, %c4 : u32 %v = load @m[%behind] : u32 store %v, @y[%g] : u32",
    )
    text = writer + reader + pipeline(2, {"s": 2, "m": 12, "y": 8}, "writer s m", "reader s m y")
    is_same(text, s=[0, 4], m=numbers(12), y=numbers(8))
    assert saved(text) == 0


def test_a_fixed_digit_of_the_local_id_leaves_several_lanes() -> None:
    """Every fourth lane writes an element, and every fourth reads another one's: a barrier lies between."""
    head = """
  %row = div %l, %c4 : u32
  %column = rem %l, %c4 : u32
  %base = mul %w, %c4 : u32
  %takes_part = eq %column, %c0 : u32"""
    body = "  if %takes_part { %i = add %base, %row : u32 store %g, @m[%i] : u32 }"
    writer = program("writer", 16, "m:both", head + body)
    body = """
  %mirrored = sub %c3, %row : u32
  if %takes_part {
    %i = add %base, %mirrored : u32
    %v = load @m[%i] : u32
    %j = add %base, %row : u32
    store %v, @y[%j] : u32
  }"""
    reader = program("reader", 16, "m:read y:both", head + body)
    text = writer + reader + pipeline(2, {"m": 8, "y": 8}, "writer m", "reader m y")
    is_same(text, m=numbers(8), y=numbers(8))
    assert saved(text) == 1


def test_a_vector_meets_what_lies_behind_its_index() -> None:
    """Odd elements are written; pairs are read from even ones."""
    writer = program(
        "writer",
        4,
        "m:both",
        """
  %even = mul %g, %c2 : u32
  %i = add %even, %c1 : u32
  store %g, @m[%i] : u32""",
    )
    reader = program(
        "reader",
        4,
        "m:read y:write",
        """
  %even = mul %theirs, %c2 : u32
  %pair = load @m[%even] : vec<2 x u32>
  %v = extract %pair[1] : vec<2 x u32>
  store %v, @y[%g] : u32""",
    )
    stays_two(writer, reader, m=16, y=8)


def test_a_vector_reaches_beyond_its_range() -> None:
    """Elements from 8 on are written, by workgroup; every workgroup reads elements 7 and 8."""
    writer = program(
        "writer",
        4,
        "m:both",
        """
  %eight = const 8 : u32
  %i = add %g, %eight : u32
  store %g, @m[%i] : u32""",
    )
    reader = program(
        "reader",
        4,
        "m:read y:write",
        """
  %seven = const 7 : u32
  %pair = load @m[%seven] : vec<2 x u32>
  %v = extract %pair[1] : vec<2 x u32>
  store %v, @y[%g] : u32""",
    )
    stays_two(writer, reader, m=16, y=8)


def test_a_written_vector_reaches_beyond_its_range() -> None:
    """Workgroup 1 writes elements 7 and 8; elements from 8 on are read, by workgroup."""
    writer = program(
        "writer",
        4,
        "m:both",
        """
  %seven = const 7 : u32
  %pair = splat %g : vec<2 x u32>
  %id = eq %g, %seven : u32
  if %id { store %pair, @m[%seven] : vec<2 x u32> }""",
    )
    reader = program(
        "reader",
        4,
        "m:read y:write",
        """
  %eight = const 8 : u32
  %i = add %g, %eight : u32
  %v = load @m[%i] : u32
  store %v, @y[%g] : u32""",
    )
    stays_two(writer, reader, m=16, y=8)


# --- halos: what neighbours make is computed again


def with_halo(lanes: int, m: int, producer: str, consumer: str) -> str:
    """Two launches of two workgroups, the first of which makes the @m that the second reads, and nobody else sees."""
    return (
        program("producer", lanes, "x:read m:write", producer)
        + program("consumer", lanes, "m:read y:write", consumer)
        + f"""pipeline @main {{
  buffer @x : u32[{2 * lanes}] live_in
  buffer @m : u32[{m}]
  buffer @y : u32[{2 * lanes}] live_out
  launch @producer grid(2) (@x, @m)
  launch @consumer grid(2) (@m, @y)
}}
"""
    )


def test_a_halo_has_all_elements_of_a_vector() -> None:
    text = with_halo(
        64,
        128,
        "  %v = load @x[%g] : u32 store %v, @m[%g] : u32",
        """
  %last = const 127 : u32
  %in = lt %g, %last : u32
  %v = if %in -> u32 {
    %pair = load @m[%g] : vec<2 x u32>
    %next = extract %pair[1] : vec<2 x u32>
    yield %next
  } else { yield %c0 }
  store %v, @y[%g] : u32""",
    )
    is_same(text, x=numbers(128))
    assert saved(text) == 1


def test_the_length_of_a_tile_is_not_that_of_its_buffer() -> None:
    """@m, @x and @y are as long, and the first of them becomes a tile of 65 elements."""
    text = with_halo(
        64,
        128,
        "  %v = load @x[%g] : u32 store %v, @m[%g] : u32",
        """
  %n = len @y
  %last = sub %n, %c1 : u32
  %behind = add %g, %c1 : u32
  %i = min %behind, %last : u32
  %limit = const 127 : u32
  %at = min %i, %limit : u32
  %v = load @m[%at] : u32
  %w2 = add %v, %n : u32
  store %w2, @y[%g] : u32""",
    )
    text = text.replace("launch @producer grid(2) (@x, @m)", "launch @producer grid(2) (@m, @x)")
    text = text.replace("@x : u32[?] read binding(0)", "@x : u32[?] read binding(1)")
    text = text.replace("@m : u32[?] write live_out binding(1)", "@m : u32[?] write live_out binding(0)")
    is_same(text, x=numbers(128))
    assert saved(text) == 1


def test_what_the_host_sees_is_made_once_and_written() -> None:
    """Without the host, workgroups would make their neighbours' elements again, each in a tile of its own."""
    text = with_halo(
        64,
        128,
        "  %v = load @x[%g] : u32 store %v, @m[%g] : u32",
        """
  %last = const 127 : u32
  %behind = add %g, %c1 : u32
  %i = min %behind, %last : u32
  %v = load @m[%i] : u32
  store %v, @y[%g] : u32""",
    )
    assert saved(text) == 1
    seen = text.replace("buffer @m : u32[128]", "buffer @m : u32[128] live_out")
    is_same(seen, x=numbers(128))
    assert saved(seen) == 0


def test_a_halo_is_of_invocations_and_not_of_rows_far_apart() -> None:
    """Workgroup w makes the elements from 128*w on; the second one reads them as those behind its own 64."""
    text = with_halo(
        64,
        256,
        """
  %stride = const 128 : u32
  %base = mul %w, %stride : u32
  %i = add %base, %l : u32
  %v = load @x[%g] : u32
  store %v, @m[%i] : u32""",
        """
  %half = const 64 : u32
  %i = add %g, %half : u32
  %is_second = eq %w, %c1 : u32
  %v = if %is_second -> u32 {
    %made = load @m[%i] : u32
    yield %made
  } else { yield %c0 }
  store %v, @y[%g] : u32""",
    )
    is_same(text, x=numbers(128))
    assert saved(text) == 0


@pytest.mark.parametrize("around", ["{}", "%some = gt %lanes, %c0 : u32 if %some {{ {} }}"])
def test_an_invocation_of_a_halo_has_its_own_ids(around: str) -> None:
    ids = """
  %lane = lane_id
  %subgroup = subgroup_id
  %id = global_id x
  %hundred = const 100 : u32
  %scaled = mul %subgroup, %hundred : u32
  %in_group = add %scaled, %lane : u32
  %far = mul %id, %hundred : u32
  %ids = add %far, %in_group : u32
  store %ids, @m[%g] : u32"""
    text = with_halo(
        64,
        128,
        "  %lanes = len @x " + around.format(ids),
        """
  %last = const 127 : u32
  %behind = add %g, %c1 : u32
  %i = min %behind, %last : u32
  %v = load @m[%i] : u32
  store %v, @y[%g] : u32""",
    )
    is_same(text, x=numbers(128))
    assert saved(text) == 1


def test_the_tiles_of_all_halos_are_within_the_budget() -> None:
    """Either tile of 65 elements fits 400 bytes; both do not."""
    text = "".join(
        program(f"make{k}", 64, "x:read m:write", "  %v = load @x[%g] : u32 store %v, @m[%g] : u32")
        + program(
            f"use{k}",
            64,
            "m:read y:write",
            """
  %last = const 127 : u32
  %behind = add %g, %c1 : u32
  %i = min %behind, %last : u32
  %v = load @m[%i] : u32
  store %v, @y[%g] : u32""",
        )
        for k in "ab"
    )
    text += """pipeline @main {
  buffer @x : u32[128] live_in
  buffer @ma : u32[128]
  buffer @mb : u32[128]
  buffer @ya : u32[128] live_out
  buffer @yb : u32[128] live_out
  launch @makea grid(2) (@x, @ma)
  launch @makeb grid(2) (@x, @mb)
  launch @usea grid(2) (@ma, @ya)
  launch @useb grid(2) (@mb, @yb)
}
"""
    for budget, joined in ((400, 2), (600, 3)):
        passes = f"launch_fusion{{budget={budget}}}"
        is_same(text, passes, x=numbers(128))
        result = PassManager(passes).run(parse("vyre 1\n" + text))
        assert result.statistics["launch_fusion", "launches saved"] == joined


# --- coverage: rows of 16 elements, those that their own workgroup does not write are the other's


def test_only_the_rounds_that_surely_ran_are_written() -> None:
    """Workgroup w writes the first w + 1 rows of 4 of its share; the last of workgroup 0's is the other's."""
    writer = program(
        "writer",
        4,
        "m:both",
        """
  %rows = add %w, %c1 : u32
  %share = mul %w, %c4 : u32
  %base = mul %share, %c2 : u32
  for %k = 0 to %rows step 1 {
    %row = mul %k, %c4 : u32
    %at = add %base, %row : u32
    %i = add %at, %l : u32
    store %g, @m[%i] : u32
  }
  %last = eq %w, %c1 : u32
  if %last {
    %i = add %c4, %l : u32
    store %theirs, @m[%i] : u32
  }""",
    )
    reader = program(
        "reader",
        4,
        "m:read y:write",
        """
  %share = mul %w, %c4 : u32
  %base = mul %share, %c2 : u32
  %sum = for %k = 0 to 2 step 1 iter(%a = %c0 : u32) {
    %row = mul %k, %c4 : u32
    %at = add %base, %row : u32
    %i = add %at, %l : u32
    %v = load @m[%i] : u32
    %three = mul %a, %c3 : u32
    %next = add %three, %v : u32
    yield %next
  }
  store %sum, @y[%g] : u32""",
    )
    stays_two(writer, reader, m=16, y=8)


def test_all_rounds_that_may_run_are_read() -> None:
    """Workgroup w reads the first w + 1 rows of its share, of which its own workgroup wrote only one."""
    writer = program(
        "writer",
        4,
        "m:both",
        """
  %share = mul %w, %c4 : u32
  %base = mul %share, %c2 : u32
  %i = add %base, %l : u32
  store %g, @m[%i] : u32
  %their_share = mul %their_base, %c2 : u32
  %second = add %their_share, %c4 : u32
  %j = add %second, %l : u32
  store %g, @m[%j] : u32""",
    )
    reader = program(
        "reader",
        4,
        "m:read y:write",
        """
  %rows = add %w, %c1 : u32
  %share = mul %w, %c4 : u32
  %base = mul %share, %c2 : u32
  %sum = for %k = 0 to %rows step 1 iter(%a = %c0 : u32) {
    %row = mul %k, %c4 : u32
    %at = add %base, %row : u32
    %i = add %at, %l : u32
    %v = load @m[%i] : u32
    %three = mul %a, %c3 : u32
    %next = add %three, %v : u32
    yield %next
  }
  store %sum, @y[%g] : u32""",
    )
    stays_two(writer, reader, m=16, y=8)


FLAGGED = program(
    "flagged",
    4,
    "f:read m:both",
    """
  %flag = load @f[%g] : u32
  %own = eq %flag, %c1 : u32
  if %own { store %g, @m[%g] : u32 } else { store %g, @m[%theirs] : u32 }""",
)


def test_a_condition_of_one_lane_says_nothing_of_another() -> None:
    """Lane 0 has its flag and reads lane 3's element, which without a flag is the other workgroup's."""
    reader = program(
        "reader",
        4,
        "f:read m:read y:write",
        """
  %flag = load @f[%g] : u32
  %own = eq %flag, %c1 : u32
  if %own {
    %base = mul %w, %c4 : u32
    %last = sub %c3, %l : u32
    %i = add %base, %last : u32
    %v = load @m[%i] : u32
    store %v, @y[%g] : u32
  }""",
    )
    text = FLAGGED + reader + pipeline(2, {"f": 8, "m": 8, "y": 8}, "flagged f m", "reader f m y")
    is_same(text, f=[1, 1, 1, 0, 1, 1, 1, 0], m=numbers(8), y=numbers(8))
    assert saved(text) == 0


def test_a_comparison_is_narrowed_to_what_it_says() -> None:
    """`l < 2` leaves lane 2 out: its element is the other workgroup's."""
    writer = program(
        "writer",
        4,
        "m:both",
        """
  %low = lt %l, %c2 : u32
  if %low { store %g, @m[%g] : u32 } else { store %g, @m[%theirs] : u32 }""",
    )
    reader = program(
        "reader",
        4,
        "m:read y:write",
        """
  %low = le %l, %c2 : u32
  if %low { %v = load @m[%g] : u32 store %v, @y[%g] : u32 }""",
    )
    stays_two(writer, reader, m=8, y=8)


def test_a_condition_on_the_element_is_one_of_its_type() -> None:
    """i + 122 is below 0 for an i8 from 6 on, and never for an i32."""

    def guarded(dtype: str, then: str) -> str:
        return f"""
  %far = const 122 : {dtype}
  %zero = const 0 : {dtype}
  %i = cast %g : u32 -> {dtype}
  %moved = add %i, %far : {dtype}
  %low = lt %moved, %zero : {dtype}
  {then}"""

    write = "if %low { store %g, @m[%i] : u32 } else { store %g, @m[%theirs] : u32 }"
    read = "if %low { %v = load @m[%i] : u32 store %v, @y[%g] : u32 }"
    writer, reader = (
        program("writer", 4, "m:both", guarded("i32", write)),
        program("reader", 4, "m:read y:write", guarded("i8", read)),
    )
    stays_two(writer, reader, m=8, y=8)


def test_an_index_that_wraps_covers_nothing_beyond_its_type() -> None:
    """128*(w + 1) + l as a u8 is 128 + l or l; element 256 + l of a u32 is the other workgroup's."""
    writer = program(
        "writer",
        4,
        "m:both",
        """
  %half = const 128 : u8
  %one = add %w, %c1 : u32
  %w8 = cast %one : u32 -> u8
  %l8 = cast %l : u32 -> u8
  %base = mul %w8, %half : u8
  %i = add %base, %l8 : u8
  store %g, @m[%i] : u32
  %first = eq %w, %c0 : u32
  %far = const 256 : u32
  %j = add %far, %l : u32
  if %first { store %g, @m[%j] : u32 }""",
    )
    reader = program(
        "reader",
        4,
        "m:read y:write",
        """
  %half = const 128 : u32
  %one = add %w, %c1 : u32
  %base = mul %one, %half : u32
  %i = add %base, %l : u32
  %v = load @m[%i] : u32
  store %v, @y[%g] : u32""",
    )
    stays_two(writer, reader, m=260, y=8)


# --- launches


OFFSET = """
  %o = load @z[%w] : u32
  %i = add %o, %l : u32"""
SWAP = program(
    "swap",
    4,
    "z:both",
    """
  %first = eq %l, %c0 : u32
  if %first {
    %o = load @z[%w] : u32
    %n = sub %c4, %o : u32
    store %n, @z[%w] : u32
  }""",
)


def test_a_launch_between_makes_a_new_version() -> None:
    """The offset that producer and consumer load is another one after @swap."""
    writer = program("writer", 4, "z:read m:both", OFFSET + "  store %g, @m[%i] : u32")
    reader = program(
        "reader", 4, "z:read m:read y:write", OFFSET + "  %v = load @m[%i] : u32 store %v, @y[%g] : u32"
    )
    buffers = {"z": 2, "m": 8, "y": 8}
    text = writer + SWAP + reader + pipeline(2, buffers, "writer z m", "swap z", "reader z m y")
    is_same(text, z=[0, 4], m=numbers(8), y=numbers(8))
    assert saved(text) == 1
    without = writer + reader + pipeline(2, buffers, "writer z m", "reader z m y")
    is_same(without, z=[0, 4], m=numbers(8), y=numbers(8))
    assert saved(without) == 1


def test_the_contents_of_a_transient_buffer_are_nobodys() -> None:
    """A launch that takes a buffer as its own leaves nothing in it for the next one."""
    text = f"""vyre 1
program @keeps workgroup(4) {{
  buffer @t : u32[?] read_write binding(0)
  buffer @y : u32[?] write binding(1) live_out
{IDS}  store %g, @t[%g] : u32
  %v = load @t[%g] : u32
  store %v, @y[%g] : u32
}}
{program("reader", 4, "m:read u:write", "  %v = load @m[%g] : u32 store %v, @u[%g] : u32")}
pipeline @main {{
  buffer @m : u32[8]
  buffer @y : u32[8] write live_out
  buffer @u : u32[8] write live_out
  launch @keeps grid(2) (@m, @y)
  launch @reader grid(2) (@m, @u)
}}
"""
    result = PassManager("launch_fusion").run(parse(text))
    assert [r.certificate["reason"] for r in result.remarks if r.kind == "refused"] == ["transient"]


# --- what comes after


def handed_over(limit: int) -> str:
    """Values of 0 to `limit` are handed over."""
    return f"""
program @p workgroup(4) {{
  buffer @x : u32[8] read binding(0)
  buffer @y : u32[8] write binding(1)
  buffer @h : u32[8] read_write
{IDS}
  %limit = const {limit} : u32
  %v = load @x[%g] : u32
  %s = min %v, %limit : u32
  store %s, @h[%g] : u32
  %r = load @h[%g] : u32
  store %r, @y[%g] : u32
}}
"""


def test_an_element_is_narrowed_only_to_a_type_that_holds_it() -> None:
    for limit, dtype in ((255, "u8"), (256, "u16"), (65535, "u16"), (65536, "u32")):
        text = handed_over(limit)
        values = np.array([0, 1, limit - 1, limit, limit, 1 << 20, 2, 3], np.uint32)
        arrays = {"x": values}
        (expected,) = run("vyre 1\n" + text, arrays, 2, target="ref").values()
        (after,) = run("vyre 1\n" + text, arrays, 2, target="ref", passes="decode_scan_fuse").values()
        np.testing.assert_array_equal(after, expected)
        module = parse("vyre 1\n" + text)
        PassManager("decode_scan_fuse").run(module)
        assert module.programs["p"].buffers["h"].dtype.name == dtype


def one_program(buffers: str, body: str) -> str:
    return f"vyre 1\nprogram @p workgroup(4) {{\n{buffers}{IDS}{body}\n}}\n"


def same_program(text: str, passes: str, grid: int = 1, **inputs: Any) -> None:
    arrays = {name: np.asarray(array, np.uint32) for name, array in inputs.items()}
    expected = run(text, arrays, grid, target="ref")
    after = run(text, arrays, grid, target="ref", passes=passes)
    for name, array in expected.items():
        np.testing.assert_array_equal(after[name], array)


def test_what_a_removed_barrier_parted_is_one_segment() -> None:
    """The first barrier orders nothing and goes; the second orders @a's lanes."""
    buffers = """  buffer @a : u32[4] workgroup
  buffer @b : u32[4] write binding(0)
  buffer @y : u32[4] write binding(1)
"""
    body = """
  store %g, @b[%l] : u32
  barrier workgroup
  store %g, @a[%l] : u32
  barrier workgroup
  %last = sub %c3, %l : u32
  %v = load @a[%last] : u32
  store %v, @y[%l] : u32"""
    text = one_program(buffers, body)
    same_program(text, "barrier_elim")
    assert text.count("barrier") - 1 == _barriers(text)


def _barriers(text: str) -> int:
    module = parse(text)
    PassManager("barrier_elim").run(module)
    return sum(op.name == "barrier" for op in module.programs["p"].walk())


def test_a_load_that_a_loop_may_not_reach_stays_in_it() -> None:
    """Without a round, element 9 of 4 is never loaded."""
    buffers = """  buffer @x : u32[4] read binding(0)
  buffer @n : u32[1] read binding(1)
  buffer @y : u32[4] write binding(2)
"""
    body = """
  %rounds = load @n[%c0] : u32
  %far = const 9 : u32
  %sum = for %k = 0 to %rounds step 1 iter(%a = %c0 : u32) {
    %v = load @x[%far] : u32
    %next = add %a, %v : u32
    yield %next
  }
  store %sum, @y[%l] : u32"""
    same_program(one_program(buffers, body), "licm", x=numbers(4), n=[0])


def test_a_load_behind_a_loop_that_may_stop_the_program_stays_there() -> None:
    """The inner loop traps, so that element 9 of 4 behind it is never loaded."""
    buffers = """  buffer @x : u32[4] read binding(0)
  buffer @y : u32[4] write binding(1)
"""
    body = """
  %far = const 9 : u32
  %sum = for %k = 0 to 2 step 1 iter(%a = %c0 : u32) {
    for %n = 0 to 2 step 1 {
      %stops = eq %n, %c1 : u32
      if %stops { trap "stopped" }
    }
    %v = load @x[%far] : u32
    %next = add %a, %v : u32
    yield %next
  }
  store %sum, @y[%l] : u32"""
    text = one_program(buffers, body)
    for passes in ("", "licm"):
        with pytest.raises(ProgramError) as stopped:
            run(text, {"x": numbers(4)}, 1, target="ref", passes=passes or None)
        assert stopped.value.kind == "trap"


def test_a_xor_is_aligned_as_the_less_aligned_of_its_operands() -> None:
    """4*l ^ 2 is no multiple of 4: setting its low bits does not add to it."""
    buffers = """  buffer @x : u32[32] read binding(0)
  buffer @y : u32[16] write binding(1)
"""
    loads = "".join(
        f"""
  %m{k} = const {k} : u32
  %i{k} = or %at, %m{k} : u32
  %v{k} = load @x[%i{k}] : u32
  %o{k} = add %four, %m{k} : u32
  store %v{k}, @y[%o{k}] : u32"""
        for k in range(4)
    )
    body = f"\n  %four = mul %l, %c4 : u32\n  %at = xor %four, %c2 : u32{loads}"
    same_program(one_program(buffers, body), "vectorize_access", x=numbers(32))
