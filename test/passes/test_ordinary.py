"""The ordinary passes against the interpreter: what a program computes is the same after each of them.

The interpreter also finds races, reads of undefined elements and accesses out of
bounds, so a barrier or a store that was removed wrongly shows as a fault.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.calls import count_calls
from support.each import each
from support.quick import quick

from vyre_opt import PassManager, dispatcher, parse, print_program
from vyre_opt.ir import OPS, DataType
from vyre_opt.ir.arith import encode_float, int_range
from vyre_opt.ir.literals import show

PIPELINES = (
    "barrier_elim",
    "canonicalize",
    "cse",
    "dce",
    "fold",
    "inline",
    "licm",
    "simplify_cf",
    "simplify_cf{flatten_regions=true speculate=0}",
    "store_forward",
    "unroll",
    "unroll{factor=3}",
    "unroll{full=true}",
    "vectorize_access",
    "verify",
    "unroll{full=true},canonicalize,cse,vectorize_access{width=64},dce",
    "inline,canonicalize,cse,store_forward,barrier_elim,licm,simplify_cf,unroll,fold,dce",
    "unroll,canonicalize,unroll{factor=2},simplify_cf,store_forward,dce,licm,cse,canonicalize",
)


def run(module: Any, inputs: list[Any], grid: int | None) -> list[np.ndarray]:
    """The outputs; bf16, which NumPy lacks, as the f32 of equal value."""
    (program,) = module.programs.values()
    outputs = dispatcher("ref").dispatch(program, inputs, grid, module=module)
    types = [buffer.dtype for buffer in program.bound_buffers if buffer.is_output]
    return [
        (array.astype(np.uint32) << 16).view(np.float32) if dtype is DataType.BF16 else array
        for array, dtype in zip(outputs, types, strict=True)
    ]


def assert_same(before: list[np.ndarray], after: list[np.ndarray]) -> None:
    """Equal bit by bit, but for the bits of a NaN."""
    for a, b in zip(before, after, strict=True):
        if a.dtype.kind == "f":
            assert np.array_equal(np.isnan(a), np.isnan(b))
            a, b = np.where(np.isnan(a), 0, a), np.where(np.isnan(b), 0, b)
            assert np.array_equal(np.signbit(a), np.signbit(b))
        assert np.array_equal(a, b)


def check(text: str, inputs: list[Any], grid: int | None, pipeline: str, before: Any = None) -> bool:
    """Whether the pipeline changed the program; it must not change what it computes: `before`, if that is known."""
    module = parse(text)
    if before is None:
        before = run(module, inputs, grid)
    changed = bool(PassManager(pipeline).run(module))
    assert_same(before, run(module, inputs, grid))
    printed = print_program(module)
    assert print_program(parse(printed)) == printed
    return changed


# --- hand-written programs: control flow, memory, calls --------------------------------

PROGRAMS = {
    "loops": """
        program @p workgroup(16) {
          buffer @x : u32[32] read binding(0)
          buffer @n : u32[4] read binding(1)
          buffer @y : u32[128] write binding(2) live_out
          %g = global_id x
          %zero = const 0 : u32
          %one = const 1 : u32
          %two = const 2 : u32
          %three = const 3 : u32
          %five = const 5 : u32
          %i1 = rem %g, %two : u32
          %n0 = load @n[%i1] : u32
          %n1 = load @n[%two] : u32
          // bounds that differ by lane, a step that does not divide the distance
          %a, %b = for %k = %n0 to %n1 step 3 iter(%a = %g : u32, %b = %one : u32) {
            %inv = mul %n1, %five : u32
            %t = add %a, %inv : u32
            %u = xor %b, %k : u32
            yield %t, %u
          }
          // carried values that swap, and one that never changes
          %c, %d, %e = for %k = 1 to 12 step 4 iter(%c = %a : u32, %d = %b : u32, %e = %five : u32) {
            %s = add %d, %e : u32
            yield %s, %c, %e
          }
          // a dead cycle, and a loop in a loop around an invariant
          %f, %dead = for %k = 0 to 5 iter(%f = %c : u32, %dead = %one : u32) {
            %more = mul %dead, %three : u32
            %q = for %j = %k to 5 iter(%q = %f : u32) {
              %i = add %g, %zero : u32
              %v = load @x[%i] : u32
              %w = mul %v, %k : u32
              %z = add %q, %w : u32
              yield %z
            }
            yield %q, %more
          }
          %never = for %k = 7 to 7 iter(%z = %f : u32) {
            yield %k
          }
          %once = for %k = 250 to 255 step 200 iter(%z = %never : u32) : u8 {
            %wide = cast %k : u8 -> u32
            %z2 = add %z, %wide : u32
            yield %z2
          }
          %h, %h5 = while iter(%h = %n0 : u32, %fixed = %five : u32) {
            %in = lt %h, %fixed : u32
            condition %in
          } do {
            %up = add %h, %one : u32
            yield %up, %fixed
          }
          %four = const 4 : u32
          %at = mul %g, %four : u32
          %at1 = add %at, %one : u32
          %at2 = add %at, %two : u32
          %at3 = add %at, %three : u32
          store %once, @y[%at] : u32
          store %d, @y[%at1] : u32
          store %h, @y[%at2] : u32
          store %e, @y[%at3] : u32
        }""",
    "memory": """
        program @p workgroup(32) grid(2) {
          buffer @x : u32[128] read binding(0)
          buffer @n : u32[4] read binding(1)
          buffer @y : u32[128] write binding(2) live_out
          buffer @t : u32[64] workgroup
          buffer @unread : u32[32] workgroup
          buffer @hits : u32[1] workgroup
          %l = local_id x
          %g = global_id x
          %c0 = const 0 : u32
          %c1 = const 1 : u32
          %c31 = const 31 : u32
          %c32 = const 32 : u32
          %first = eq %l, %c0 : u32
          if %first {
            store %c1, @hits[%c0] : u32
          }
          barrier workgroup
          barrier subgroup
          barrier workgroup
          %v = load @x[%g] : u32
          store %c1, @t[%l] : u32
          store %v, @t[%l] : u32
          %l32 = add %l, %c32 : u32
          store %g, @t[%l32] : u32
          %again = load @t[%l] : u32
          store %again, @unread[%l] : u32
          barrier workgroup
          %r = sub %c31, %l : u32
          %other = load @t[%r] : u32
          %mine = load @t[%l32] : u32
          barrier workgroup
          store %other, @t[%l] : u32
          %old = atomic_add<relaxed> @hits[%c0], %c1 : u32
          barrier workgroup
          %sum = for %k = 0 to 4 iter(%s = %mine : u32) {
            barrier workgroup
            %e = load @t[%r] : u32
            barrier workgroup
            %e1 = add %e, %k : u32
            store %e1, @t[%r] : u32
            %back = load @t[%r] : u32
            %s1 = add %s, %back : u32
            barrier workgroup
            yield %s1
          }
          barrier workgroup
          %count = load @hits[%c0] : u32
          %c2 = const 2 : u32
          %at = mul %g, %c2 : u32
          %at1 = add %at, %c1 : u32
          %all = add %sum, %count : u32
          store %all, @y[%at] : u32
          store %other, @y[%at1] : u32
          %fin = load @t[%l] : u32
          store %fin, @y[%at1] : u32
          barrier workgroup
        }""",
    "vectors": """
        program @p workgroup(8) {
          buffer @x : f32[64] read binding(0)
          buffer @n : f32[8] read binding(1)
          buffer @y : f32[64] read_write binding(2) live_in live_out
          %g = global_id x
          %c4 = const 4 : u32
          %c1 = const 1 : u32
          %i = mul %g, %c4 : u32
          %v = load @x[%i] : vec<4 x f32>
          store %v, @y[%i] : vec<4 x f32>
          %i1 = add %i, %c1 : u32
          %one = const 1.0 : f32
          store %one, @y[%i1] : f32
          %w = load @y[%i] : vec<4 x f32>
          %i2 = add %i1, %c1 : u32
          %pair = load @y[%i2] : vec<2 x f32>
          %e = extract %w[1] : vec<4 x f32>
          %f = extract %pair[1] : vec<2 x f32>
          %s = splat %f : vec<4 x f32>
          %m = insert %e, %s[2] : vec<4 x f32>
          %p = lt %m, %w : vec<4 x f32>
          %z = select %p, %m, %w : vec<4 x f32>
          store %z, @y[%i] : vec<4 x f32>
        }""",
    "branches": """
        func @pick(%a : u32, %b : u32) -> (u32, u32) {
          %less = lt %a, %b : u32
          %m = if %less -> u32 {
            yield %a
          } else {
            yield %b
          }
          yield %m, %b
        }
        func @twice(%a : u32) -> u32 {
          %c3 = const 3 : u32
          %m, %n = call @pick(%a, %c3) : (u32, u32) -> (u32, u32)
          %o, %q = call @pick(%m, %n) : (u32, u32) -> (u32, u32)
          %s = mul %o, %q : u32
          yield %s
        }
        program @p workgroup(16) {
          buffer @x : u32[32] read binding(0)
          buffer @n : u32[4] read binding(1)
          buffer @y : u32[64] write binding(2) live_out
          %g = global_id x
          %c7 = const 7 : u32
          %c2 = const 2 : u32
          %c0 = const 0 : u32
          %yes = const true : bool
          %v = load @x[%g] : u32
          %low = rem %v, %c7 : u32
          %p = lt %low, %c2 : u32
          %q = not %p : bool
          %r = if %q -> u32 {
            %deep = if %yes -> u32 {
              %t = call @twice(%low) : (u32) -> u32
              yield %t
            } else {
              yield %c0
            }
            yield %deep
          } else {
            yield %v
          }
          %same, %pick = if %p -> (u32, u32) {
            yield %r, %c2
          } else {
            yield %r, %v
          }
          %at = mul %g, %c2 : u32
          if %p {
          } else {
            region @write {
              store %pick, @y[%at] : u32
            }
          }
          if %p {
            store %same, @y[%at] : u32
          } else {
          }
          if %q {
            %nothing = add %same, %c7 : u32
          }
          %no = const false : bool
          %w = while iter(%w = %pick : u32) {
            condition %no
          } do {
            %up = add %w, %c2 : u32
            yield %up
          }
          %c1 = const 1 : u32
          %at1 = add %at, %c1 : u32
          %in = region @sum -> u32 {
            %z = add %w, %same : u32
            yield %z
          }
          store %in, @y[%at1] : u32
        }""",
}


MOST = (12, 300, 1 << 32)


@pytest.mark.parametrize(
    ("name", "most"),
    quick([(name, MOST[(k + shift) % 3]) for shift in range(3) for k, name in enumerate(PROGRAMS)], keep=4),
)
def test_programs_compute_the_same(name: str, most: int) -> None:
    """After each of the pipelines, of random numbers below `most`."""
    text = f"vyre 1\n{PROGRAMS[name]}"
    rng = np.random.default_rng(7 + most % 5)
    inputs: list[Any] = []
    for buffer in parse(text).programs["p"].bound_buffers:
        count = buffer.count or 0
        if buffer.dtype is DataType.F32:
            inputs.append(rng.normal(size=count).astype(np.float32))
        else:
            inputs.append(rng.integers(0, most, count, dtype=np.uint64).astype(np.uint32))
    if name == "loops":
        inputs[1] %= 40
    grid = 2 if name != "vectors" else 1
    before = run(parse(text), inputs, grid)
    each(PIPELINES, lambda pipeline: check(text, inputs, grid, pipeline, before))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_second_run_changes_nothing(name: str) -> None:
    """Each of these reaches its fixed point at once."""
    for pipeline in ("canonicalize", "fold", "cse", "dce", "licm", "simplify_cf", "barrier_elim", "inline"):
        module = parse(f"vyre 1\n{PROGRAMS[name]}")
        PassManager(pipeline).run(module)
        assert not PassManager(pipeline).run(module), pipeline


# --- every op of the table, on the constants where its algebra is special ---------------

INTS = (DataType.U8, DataType.I8, DataType.U32, DataType.I64)
FLOATS = (DataType.F16, DataType.BF16, DataType.F32, DataType.F64)


def special(t: DataType) -> list[str]:
    """Literals at the edges of a type."""
    if t.is_bool:
        return ["false", "true"]
    if t.is_int:
        low, high = int_range(t)
        values = sorted({low, low + 1, -1, 0, 1, 2, 3, 8, 31, 64, high - 1, high})
        return [str(v) for v in values if low <= v <= high]
    numbers = [0.0, -0.0, 1.0, -1.0, 2.0, -0.25, 3.0, 1e-7, 6e4, 2.0**-14, float("inf"), float("-inf")]
    return [*(show(encode_float(x, t), t) for x in numbers), "nan"]


def binary_ops(t: DataType) -> list[str]:
    return [n for n, row in OPS.items() if row.format in ("binary", "compare") and row.accepts(t)]


def unary_ops(t: DataType) -> list[str]:
    return [n for n, row in OPS.items() if row.format == "unary" and row.accepts(t) and not row.ulp]


def constants(t: DataType) -> str:
    """Ops that define %c0, %c1 and so on."""
    return "".join(f"%c{place} = const {value} : {t}\n" for place, value in enumerate(special(t)))


def program(t: DataType, lines: Iterator[tuple[str, DataType]]) -> tuple[str, list[Any]]:
    """A program of one lane a special value `%x`; it stores every result of `lines`, as %r, in a buffer of its type."""
    values = special(t)
    head, body, counts = [], [], {}
    for line, result in lines:
        at = counts[result.name] = counts.get(result.name, -1) + 1
        tag = f"{result.name}_{at}"
        body.append(line.replace("%r", f"%{tag}"))
        body.append(
            f"%i_{tag} = const {at} : u32\n%a_{tag} = mul %i_{tag}, %n : u32\n%p_{tag} = add %a_{tag}, %g : u32"
        )
        body.append(f"store %{tag}, @{result.name}[%p_{tag}] : {result.name}")
    for binding, (name, last) in enumerate(counts.items()):
        head.append(f"buffer @{name} : {name}[{(last + 1) * len(values)}] write binding({binding}) live_out")
    # the special values reach the ops as data: lane k takes the k-th
    head.append("%g = global_id x")
    head.append(f"%n = const {len(values)} : u32")
    picked = f"%x0 = const {values[0]} : {t.name}\n"
    for place, value in enumerate(values[1:], 1):
        picked += f"%k{place} = const {place} : u32\n%h{place} = eq %g, %k{place} : u32\n"
        picked += f"%v{place} = const {value} : {t.name}\n"
        picked += f"%x{place} = select %h{place}, %v{place}, %x{place - 1} : {t.name}\n"
    text = "\n".join([*head, picked.replace(f"%x{len(values) - 1} =", "%x ="), *body])
    inputs = [
        bytes((last + 1) * len(values) * (DataType.of(name).size_bytes or 0)) for name, last in counts.items()
    ]
    return f"vyre 1\nprogram @p workgroup({len(values)}) {{\n{text}\n}}\n", inputs


@pytest.mark.parametrize(
    "t", quick([*INTS, *FLOATS, DataType.BOOL], lambda t: (t.is_float, t is DataType.BOOL)), ids=str
)
def test_identities(t: DataType) -> None:
    """x op c, c op x, x op x and the chains that canonicalize rewrites, at every special x and c."""

    def lines() -> Iterator[tuple[str, DataType]]:
        yield f"{constants(t)}%r = eq %x, %x : {t}", DataType.BOOL
        places = range(len(special(t)))
        for name in binary_ops(t):
            result = DataType.BOOL if OPS[name].format == "compare" else t
            yield f"%r = {name} %x, %x : {t}", result
            for c in places:
                yield f"%r = {name} %x, %c{c} : {t}", result
                yield f"%r = {name} %c{c}, %x : {t}", result
                if result is t:
                    first = f"%f_{name}_{c} = {name} %x, %c{c} : {t}\n"
                    yield f"{first}%r = {name} %f_{name}_{c}, %c{(c + 1) % len(places)} : {t}", t
                else:
                    yield f"%f_{name}_{c} = {name} %x, %c{c} : {t}\n%r = not %f_{name}_{c} : bool", result
        for name in unary_ops(t):
            yield f"%u_{name} = {name} %x : {t}\n%r = {name} %u_{name} : {t}", t
        if t.is_float:
            for c in places:
                yield f"%r = fma %x, %c{c}, %x : {t}", t
                yield f"%r = fma %x, %x, %c{c} : {t}", t

    text, inputs = program(t, lines())
    before = run(parse(text), inputs, 1)
    for pipeline in ("canonicalize", "canonicalize,dce,cse"):
        assert check(text, inputs, 1, pipeline, before)


TYPES = (*INTS, *FLOATS, DataType.BOOL)


@pytest.mark.parametrize(
    ("t", "step"),
    quick(((t, step) for step in (3, 1) for t in TYPES), lambda case: (case[0].is_float, case[0].is_bool)),
)
def test_folding(t: DataType, step: int) -> None:
    """Every op on every pair of special constants folds to what the interpreter computes."""

    def lines() -> Iterator[tuple[str, DataType]]:
        values = special(t)
        yield f"{constants(t)}%r = eq %x, %x : {t}", DataType.BOOL
        for a in range(len(values)):
            for name in unary_ops(t):
                yield f"%r = {name} %c{a} : {t}", t
            for b in range(a % step, len(values), step):
                for name in binary_ops(t):
                    yield (
                        f"%r = {name} %c{a}, %c{b} : {t}",
                        DataType.BOOL if OPS[name].format == "compare" else t,
                    )
                if t.is_float:
                    yield f"%r = fma %c{a}, %c{b}, %c{(a + b) % len(values)} : {t}", t

    text, inputs = program(t, lines())
    assert check(text, inputs, 1, "fold")


SCALARS = [DataType.of(n) for n in "bool u8 i8 u16 i16 u32 i32 u64 i64 f16 bf16 f32 f64".split()]


@pytest.mark.parametrize("t", quick(SCALARS, lambda t: t.is_float, 2), ids=str)
def test_casts(t: DataType) -> None:
    """Chains of two casts, and casts of constants."""

    def lines() -> Iterator[tuple[str, DataType]]:
        for middle in SCALARS:
            for last in SCALARS:
                name = f"%m_{middle}_{last}"
                yield f"{name} = cast %x : {t} -> {middle}\n%r = cast {name} : {middle} -> {last}", last
        for number, value in enumerate(special(t)):
            for last in SCALARS:
                name = f"%k_{number}_{last}"
                yield f"{name} = const {value} : {t}\n%r = cast {name} : {t} -> {last}", last

    text, inputs = program(t, lines())
    assert check(text, inputs, 1, "canonicalize,dce")


# --- size: work is counted in function calls, not in seconds -------------------------------


def calls(pipeline: str, text: str) -> int:
    """Python and C function calls that the passes make."""
    module = parse(text)
    manager = PassManager(pipeline, verify_each=False)
    return count_calls(lambda: manager.run(module))


def wide(size: int) -> str:
    """Many ops of each kind side by side: sums, stores, barriers, small loops and ifs, calls."""
    parts = [
        f"""
            %c{n} = const {n} : u32
            %i{n} = add %g, %c{n} : u32
            %v{n} = load @x[%i{n}] : u32
            %w{n} = mul %v{n}, %c{n} : u32
            store %w{n}, @t[%i{n}] : u32
            store %v{n}, @t[%i{n}] : u32
            %o{n} = load @t[%i{n}] : u32
            %f{n}, %d{n} = for %k = 0 to 2 iter(%f = %o{n} : u32, %d = %o{n} : u32) {{
              %h = add %c{n}, %c{n} : u32
              %e = add %f, %h : u32
              yield %e, %d
            }}
            %p{n} = lt %v{n}, %c{n} : u32
            %s{n} = if %p{n} -> u32 {{
              yield %f{n}
            }} else {{
              yield %d{n}
            }}
            %q{n} = call @f(%s{n}) : (u32) -> u32
            barrier workgroup
            store %q{n}, @y[%i{n}] : u32
            """
        for n in range(size)
    ]
    return f"""vyre 1
        func @f(%a : u32) -> u32 {{
          %b = add %a, %a : u32
          yield %b
        }}
        program @p workgroup(32) {{
          buffer @x : u32[?] read binding(0)
          buffer @y : u32[?] write binding(1) live_out
          buffer @t : u32[9000] workgroup
          %g = global_id x
          {"".join(parts)}
        }}"""


def chained(size: int) -> str:
    """One long chain: each loop carries the last one's result, each op hangs on the one before."""
    parts = [
        f"""
            %a{n + 1}, %dead{n} = for %k = 0 to 1 iter(%b = %a{n} : u32, %z = %a{n} : u32) {{
              %c = const 5 : u32
              %d = add %b, %c : u32
              %y = mul %z, %c : u32
              yield %d, %y
            }}
            """
        for n in range(size)
    ]
    return f"""vyre 1
        program @p workgroup(32) {{
          buffer @y : u32[?] write binding(0) live_out
          %a0 = global_id x
          {"".join(parts)}
          store %a{size}, @y[%a0] : u32
        }}"""


def nested(depth: int) -> str:
    """Loops in loops, with an invariant sum at the bottom that may leave them all."""
    head = "".join(f"for %k{n} = 0 to 3 {{\n" for n in range(depth))
    return f"""vyre 1
        program @p workgroup(32) {{
          buffer @y : u32[?] write binding(0) live_out
          %g = global_id x
          {head}
          %s = add %g, %g : u32
          store %s, @y[%g] : u32
          {"}" * depth}
        }}"""


LINEAR = [p for p in PIPELINES if p.count(",") == 0]


@pytest.mark.parametrize("pipeline", LINEAR)
@pytest.mark.parametrize("shape", quick([nested, wide, chained]))
def test_work_is_linear(shape: Any, pipeline: str) -> None:
    """Twice the ops take at most about twice the calls."""
    small, large = (40, 80) if shape is nested else (100, 200)
    if shape is nested and "full" in pipeline:
        return  # refused for its size at every level above the innermost few
    first, second = calls(pipeline, shape(small)), calls(pipeline, shape(large))
    assert second <= 2.3 * first + 500


def test_deep_nesting() -> None:
    """The deepest nesting that the parser reads goes through every pass."""

    def check_pipeline(pipeline: str) -> None:
        module = parse(nested(199))
        PassManager(pipeline).run(module)
        assert parse(print_program(module))

    each(PIPELINES, check_pipeline)
