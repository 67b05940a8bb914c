"""decode_scan_fuse against programs made to mislead its proof.

Each program runs clean in the interpreter.  Where it is promoted it must go on to run
clean, with the same outputs; where promoting would change it, the refusal is the test.
"""

from __future__ import annotations

import numpy as np
import pytest
from support.each import each

from vyre_opt import PassManager, dispatcher, parse, print_program
from vyre_opt.ir import DiagnosticError, Module

PRELUDE = """
  %g = global_id x
  %l = local_id x
  %w = workgroup_id x
  %c0 = const 0 : u32
  %c1 = const 1 : u32
  %c2 = const 2 : u32
  %last = const {last} : u32
  %lanes = const {lanes} : u32
  %mirror = sub %last, %l : u32
  %base = mul %w, %lanes : u32
  %rev = add %base, %mirror : u32
"""
GROUPS = 3


def handoff(body: str, lanes: int = 64, dtype: str = "u32", count: int = 4096, top: str = "") -> str:
    """A program with a hand-off @h, that keeps a number per lane in @out."""
    return (
        f"vyre 1\n{top}\nprogram @p workgroup({lanes}) {{\n"
        f"  buffer @in : u32[{lanes * GROUPS}] read binding(0)\n"
        f"  buffer @out : u32[{lanes * GROUPS}] read_write binding(1) live_in live_out\n"
        f"  buffer @h : {dtype}[{count}] read_write\n"
        + PRELUDE.format(last=lanes - 1, lanes=lanes)
        + body
        + "\n}\n"
    )


def keep(value: str) -> str:
    """Mix a value into the lane's output."""
    n = value.strip("%")
    return f"""
      %o_{n} = load @out[%g] : u32
      %m_{n} = mul %o_{n}, %lanes : u32
      %s_{n} = add %m_{n}, {value} : u32
      store %s_{n}, @out[%g] : u32"""


def run(module: Module) -> np.ndarray:
    program = module.programs["p"]
    lanes = program.lanes * GROUPS
    inputs = [np.arange(lanes, dtype=np.uint32), np.zeros(lanes, np.uint32)]
    (out,) = dispatcher("ref").dispatch(program, inputs, GROUPS, module=module)
    return out


def verdict(text: str) -> str:
    """`applied` or the reason of the refusal, once the outputs are the same."""
    module = parse(text)
    result = PassManager("decode_scan_fuse").run(module)
    (remark,) = [r for r in result.remarks if r.certificate["buffer"] == "h"]
    fused = parse(print_program(module))
    np.testing.assert_array_equal(run(fused), run(parse(text)))
    return "applied" if remark.kind == "applied" else str(remark.certificate["reason"])


# --- one symbol for two values -----------------------------------------------------------


def test_equal_forms_of_different_types_are_different_values() -> None:
    """300*w as a u8 and as a u16 widen to different numbers: two bases, not one."""
    body = f"""
      %c300 = const 300 : u32
      %far = mul %w, %c300 : u32
      %a8 = cast %far : u32 -> u8
      %a = cast %a8 : u8 -> u32
      %b16 = cast %far : u32 -> u16
      %b = cast %b16 : u16 -> u32
      %i = add %a, %l : u32
      %j = add %b, %l : u32
      %p = eq %w, %c1 : u32
      if %p {{
        store %l, @h[%i] : u32
        store %mirror, @h[%j] : u32
        %x = load @h[%i] : u32 {keep("%x")}
      }}"""
    assert verdict(handoff(body)) == "different-bases"


def test_the_results_of_a_call_are_different_values() -> None:
    top = """func @f(%x : u32) -> (u32, u32) {
      %far = const 256 : u32
      %y = add %x, %far : u32
      yield %x, %y
    }"""
    body = f"""
      %a, %b = call @f(%base) : (u32) -> (u32, u32)
      %i = add %a, %l : u32
      %j = add %b, %l : u32
      store %l, @h[%i] : u32
      store %mirror, @h[%j] : u32
      %x = load @h[%i] : u32 {keep("%x")}"""
    assert verdict(handoff(body, top=top)) == "different-bases"


def test_subgroups_of_different_sizes_do_not_agree() -> None:
    """A sum over 32 lanes and one over 16 differ, though all lanes add the same."""
    body = f"""
      %s = subgroup_reduce<add> %c1 : u32
      %t = mul %s, %lanes : u32
      %b = mul %base, %lanes : u32
      %tile = add %t, %b : u32
      %i = add %tile, %l : u32
      store %l, @h[%i] : u32
      %x = load @h[%i] : u32 {keep("%x")}"""
    assert verdict(handoff(body, lanes=48, count=8192)) == "not-affine"
    assert verdict(handoff(body, lanes=64, count=16384)) == "applied"
    with pytest.raises(DiagnosticError, match="may differ within a workgroup"):
        parse(
            handoff(
                "%s = subgroup_reduce<add> %c1 : u32 %p = eq %s, %c1 : u32 if %p { barrier workgroup }",
                lanes=48,
            )
        )


# --- a tile used again --------------------------------------------------------------------

MOVING = """
  for %k = 0 to 3 step 1 {{
    %t0 = load @in[%k] : u32
    %t1 = mul %t0, %lanes : u32
    %t2 = mul %t1, %c2 : u32
    %t3 = add %t2, %t1 : u32
    %t = add %t3, %base : u32
    %i = add %t, %l : u32
    %j = add %t, %mirror : u32
    %v = add %k, %l : u32
    {before}
    store %v, @h[%i] : u32
    barrier workgroup
    %x = load @h[%j] : u32 {keep}
    {after}
  }}"""


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("", "", "moving-base"),
        ("barrier workgroup", "", "applied"),
        ("", "barrier workgroup", "applied"),
        ("%p = gt %k, %c0 : u32 if %p { barrier workgroup }", "", "moving-base"),
    ],
)
def test_a_tile_that_moves_needs_a_barrier_between_iterations(before: str, after: str, expected: str) -> None:
    """In storage each iteration has elements of its own; in the tile they share a place."""
    body = MOVING.format(before=before, after=after, keep=keep("%x"))
    assert verdict(handoff(body, lanes=16)) == expected


def test_a_tile_that_moves_in_a_while_needs_one_too() -> None:
    body = f"""
      %end = while iter(%k = %w : u32) {{
        %p = lt %k, %lanes : u32
        condition %p
      }} do {{
        %t = mul %k, %lanes : u32
        %i = add %t, %l : u32
        %j = add %t, %mirror : u32
        store %k, @h[%i] : u32
        barrier workgroup
        %x = load @h[%j] : u32 {keep("%x")}
        %groups = const {GROUPS} : u32
        %next = add %k, %groups : u32
        yield %next
      }}"""
    assert verdict(handoff(body, lanes=16)) == "moving-base"
    parted = body.replace("%groups = const", "barrier workgroup\n%groups = const")
    assert verdict(handoff(parted, lanes=16)) == "applied"


# --- arithmetic that wraps ------------------------------------------------------------------


def test_a_vector_does_not_wrap_with_its_index() -> None:
    """Elements 254 to 257 and element 256 mod 256 = 0 share no element."""
    body = f"""
      %i = const 254 : u8
      %d = const 2 : u8
      %j = add %i, %d : u8
      %four = splat %c1 : vec<4 x u32>
      %p = eq %w, %c0 : u32
      if %p {{
        store %c2, @h[%j] : u32
        store %four, @h[%i] : vec<4 x u32>
        %x = load @h[%j] : u32 {keep("%x")}
      }}"""
    for first in (250, 254):
        assert verdict(handoff(body.replace("254", str(first)), lanes=1)) == "applied"


@pytest.mark.parametrize("dtype", ["u64", "i64"])
def test_a_step_past_32_bits_is_divided_as_it_is(dtype: str) -> None:
    """The iterations done are (counter - lower) / step, in the counter's own width."""
    body = f"""
      %shift = const 39 : {dtype}
      for %k = 0 to 2199023255552 step 549755813888 : {dtype} {{
        %q = shr %k, %shift : {dtype}
        %n = cast %q : {dtype} -> u32
        %far = mul %n, %lanes : u32
        %o = add %far, %mirror : u32
        %v = add %o, %g : u32
        %b4 = shl %base, %c2 : u32
        %i = add %b4, %o : u32
        store %v, @h[%i] : u32
      }}
      barrier workgroup
      %b = shl %base, %c2 : u32
      %all = const {4 * 64} : u32
      for %e = %c0 to %all step 1 {{
        %i2 = add %b, %e : u32
        %x = load @h[%i2] : u32 {keep("%x")}
      }}"""
    assert verdict(handoff(body)) == "applied"


def test_a_signed_counter_from_below_zero() -> None:
    body = f"""
      %five = const 5 : i32
      for %k = -5 to 11 step 4 : i32 {{
        %up = add %k, %five : i32
        %u = cast %up : i32 -> u32
        %q = div %u, %c2 : u32
        %i = add %rev, %q : u32
        %far = mul %w, %lanes : u32
        %j = add %i, %far : u32
        store %u, @h[%j] : u32
        %x = load @h[%j] : u32 {keep("%x")}
        barrier workgroup
      }}"""
    assert verdict(handoff(body)) == "applied"


# --- digits of a local id --------------------------------------------------------------------

DIGITS = {
    "quotient and remainder": "%q = div %l, %d : u32 %r = rem %l, %d : u32 %m = mul %r, %n : u32 %o = add %m, %q : u32",
    "shift and mask": "%q = shr %l, %s : u32 %r = and %l, %k : u32 %m = shl %r, %s : u32 %o = or %q, %m : u32",
    "remainder reversed": "%q = div %l, %d : u32 %r0 = rem %l, %d : u32 %r = sub %k, %r0 : u32 %m = mul %q, %d : u32 %o = add %m, %r : u32",
    "butterfly": "%five = const 5 : u32 %o = xor %l, %five : u32",
    "of the global id": "%r0 = rem %g, %d : u32 %q = div %l, %d : u32 %m = mul %r0, %n : u32 %o = add %m, %q : u32",
}


@pytest.mark.parametrize("side", ["write", "read"])
def test_digits_of_a_local_id_are_followed(side: str) -> None:
    """A tile seen as a matrix of 8 by 8: its transpose is the same 64 elements in another order."""
    names = "%d = const 8 : u32 %n = const 8 : u32 %s = const 3 : u32 %k = const 7 : u32 "
    store, load = ("%i", "%g") if side == "write" else ("%g", "%i")

    def check(digits: str) -> None:
        index = names + DIGITS[digits] + " %i = add %base, %o : u32"
        body = (
            f"{index} store %l, @h[{store}] : u32 barrier workgroup %x = load @h[{load}] : u32 {keep('%x')}"
        )
        assert verdict(handoff(body)) == "applied"

    each(DIGITS, check)


def test_a_condition_on_digits_is_a_box_of_lanes() -> None:
    """l < 16 is l/8 < 2 for the lanes in rows of 8; l < 12 is no box, and stays a condition."""
    body = f"""
      %c8 = const 8 : u32
      %limit = const 16 : u32
      %q = div %l, %c8 : u32
      %r = rem %l, %c8 : u32
      %m = mul %q, %c8 : u32
      %o = add %m, %r : u32
      %i = add %base, %o : u32
      %p = lt %l, %limit : u32
      if %p {{ store %l, @h[%i] : u32 }}
      %others = ge %l, %limit : u32
      if %others {{ store %mirror, @h[%i] : u32 }}
      barrier workgroup
      %x = load @h[%rev] : u32 {keep("%x")}"""
    assert verdict(handoff(body)) == "applied"
    assert verdict(handoff(body.replace("const 16", "const 12"))) == "partial-write"


# --- values of which only the range is known ------------------------------------------------

BOUNDED = {
    "clamped": "%n = add %l, %c2 : u32 %o = min %n, %last : u32",
    "around the end": "%n = add %l, %c2 : u32 %o = rem %n, %lanes : u32",
    "by data": "%d = load @in[%g] : u32 %n = mul %d, %d : u32 %o = and %n, %last : u32",
    "in a region": "%o = region @r -> u32 { %n = add %l, %c2 : u32 %m = min %n, %last : u32 yield %m }",
}


@pytest.mark.parametrize("offset", BOUNDED.values(), ids=BOUNDED)
def test_a_read_anywhere_in_the_tile(offset: str) -> None:
    """Its range tells what may be read; a value of a region is out of reach behind it.

    An index that depends on data is refused whatever its range: what it reads is the data's choice.
    """
    body = f"""{offset} %i = add %base, %o : u32
      store %l, @h[%g] : u32
      barrier workgroup
      %x = load @h[%i] : u32 {keep("%x")}"""
    expected = "not-affine" if "region" in offset else "data-dependent" if "load" in offset else "applied"
    assert verdict(handoff(body)) == expected


def scattered(place: str) -> tuple[str, str]:
    """2*place mod 67, a different element for each lane: each reads its own, or after a barrier all read the first."""
    body = f"""
      %c67 = const 67 : u32
      %pitch = mul %w, %c67 : u32
      %n = mul {place}, %c2 : u32
      %o = rem %n, %c67 : u32
      %i = add %pitch, %o : u32
      store %l, @h[%i] : u32
      %own = load @h[%i] : u32 {keep("%own")}"""
    return handoff(body), handoff(f"{body} barrier workgroup %x = load @h[%pitch] : u32 {keep('%x')}")


def test_a_write_somewhere_in_the_tile_covers_nothing_but_itself() -> None:
    """Where the lanes' elements are depends on the workgroup."""
    own, first = scattered("%g")
    assert verdict(own) == "applied"
    assert verdict(first) == "not-affine"


def test_where_lanes_write_is_known_lane_by_lane() -> None:
    own, first = scattered("%l")
    assert verdict(own) == verdict(first) == "applied"


# --- analysis that must end --------------------------------------------------------------------

CHAINS = {
    "a product of itself": "%v0 = add %w, %c1 : u32 {steps} %i = add %v40, %l : u32 store %l, @h[%g] : u32",
    "a sum of itself, stored": "%v0 = and %l, %c1 : u32 {steps} store %v40, @h[%g] : u32",
}


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
def test_a_value_used_twice_is_followed_once(chain: str) -> None:
    """40 doublings are 2^40 paths."""
    steps = " ".join(f"%v{n + 1} = mul %v{n}, %v{n} : u32" for n in range(40))
    body = chain.format(steps=steps) + " %x = load @h[%g] : u32" + keep("%x")
    assert verdict(handoff(body)) == "applied"


def test_a_condition_used_twice_is_followed_once() -> None:
    steps = " ".join(f"%p{n + 1} = and %p{n}, %p{n} : bool" for n in range(40))
    body = f"""%p0 = lt %g, %lanes : u32 {steps}
      if %p40 {{ store %l, @h[%g] : u32 %x = load @h[%g] : u32 {keep("%x")} }}"""
    assert verdict(handoff(body)) == "applied"


def test_elements_far_apart_are_compared_without_a_set_between_them() -> None:
    body = f"""
      %far = const 1099511627776 : u64
      %p = lt %w, %c0 : u32
      %g64 = cast %g : u32 -> u64
      %i = add %g64, %far : u64
      store %l, @h[%g64] : u32
      if %p {{ store %l, @h[%i] : u32 }}
      barrier workgroup
      %x = load @h[%g64] : u32 {keep("%x")}"""
    assert verdict(handoff(body)) == "too-large"


def test_a_write_that_no_lane_makes() -> None:
    """It covers nothing, and there is nothing to compare the read with."""
    body = f"""
      %p = lt %l, %c0 : u32
      if %p {{ store %l, @h[%g] : u32 }}
      %q = ne %l, %l : u32
      if %q {{ %x = load @h[%rev] : u32 {keep("%x")} }}"""
    assert verdict(handoff(body)) in ("uncovered", "partial-write")


# --- pipelines ------------------------------------------------------------------------------------


def test_what_a_pipeline_gives_back_stays() -> None:
    text = handoff(f"store %l, @h[%g] : u32 %x = load @h[%g] : u32 {keep('%x')}")
    text = text.replace("@h : u32[4096] read_write", "@h : u32[4096] read_write binding(2)")
    pipeline = f"""pipeline @main {{
      buffer @a : u32[{64 * GROUPS}] read
      buffer @b : u32[{64 * GROUPS}] read_write live_in live_out
      buffer @c : u32[4096] write
      launch @p grid({GROUPS}) (@a, @b, @c)
    }}"""
    module = parse(text + pipeline)
    PassManager("decode_scan_fuse").run(module)
    assert "c" in module.pipelines["main"].buffers
    assert module.programs["p"].buffers["h"].access == "read_write"
