"""Products of warpgroups: which there are, where their factors lie, when they are waited for."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from support.kernel_cases.matmul import bf16_bits, widened
from support.pairs import pairs
from support.quick import quick
from support.warpgroup_programs import SharedFactor

from vyre_opt import parse, run
from vyre_opt.ir import DataType, Module, Op, Program, Value
from vyre_opt.ir.lowered_ops import PROXY_FENCE, WARPGROUP_MUL_ADD, WARPGROUP_WAIT
from vyre_opt.lowering.nvptx.abi import Unit
from vyre_opt.lowering.nvptx.kernel import lower
from vyre_opt.lowering.nvptx.ptx import emit_ptx
from vyre_opt.lowering.nvptx.targets import gpu, gpu_of_device
from vyre_opt.lowering.nvptx.warpgroups import with_warpgroups

H200 = gpu("sm_90a")

TEXT = """vyre 2
program @p workgroup(LANES) {
  buffer @a : f16[64, 64] read binding(0)
  buffer @b : f16[64, 64] read binding(1)
  buffer @c : f32[64, 64] write binding(2)
  buffer @t : f16[SHAPE] workgroup
  %zero = const 0 : u32
  %one = const 1 : u32
  %three = const 3 : u32
  %eight = const 8 : u32
  %sixteen = const 16 : u32
  %wide = const 64 : u32
  %l = local_id x
  %s = subgroup_id
  %w = workgroup_id x
  %own = mul %s, %sixteen : u32
  %r = div %l, %eight : u32
  %rest = rem %l, %eight : u32
  %k = mul %rest, %eight : u32
  %sum = const 0.0 : matrix<16x64xf32, acc>
  %v = load @b[%r, %k] : vec<8 x f16>
  STORE
  barrier workgroup
  BODY
}"""
USUAL = {"LANES": "128", "SHAPE": "3, 16, 64", "STORE": "store %v, @t[%zero, %r, %k] : vec<8 x f16>"}
PRODUCT = """%x = matrix_load @a[%own, %zero] : matrix<16x16xf16, a>
  %y = matrix_load @t[%zero, %zero, %zero] : matrix<16x64xf16, b>
  %z = matrix_mul_add %x, %y, %sum : matrix<16x64xf32, acc>"""
RESULT = "matrix_store %z, @c[%own, %zero] : matrix<16x64xf32, acc>"


def made(body: str = f"{PRODUCT}\n  {RESULT}", bounds: str = "none", **changes: str) -> Program:
    text = TEXT.replace("BODY", body)
    for name, value in {**USUAL, **changes}.items():
        text = text.replace(name, value)
    return with_warpgroups(parse(text).programs["p"], bounds)


def is_of_warpgroups(program: Program) -> bool:
    return any(op.definition is WARPGROUP_MUL_ADD for op in program.walk())


# --- which


def test_a_device_of_9_0_has_them_and_others_not() -> None:
    assert gpu_of_device(9, 0).has_warpgroups
    assert not any(gpu_of_device(*number).has_warpgroups for number in ((8, 0), (8, 9), (10, 0), (12, 0)))


def test_a_product_by_a_shared_matrix_is_of_a_warpgroup_on_sm_90a_alone() -> None:
    assert is_of_warpgroups(made())
    module = parse(
        TEXT.replace("BODY", f"{PRODUCT}\n  {RESULT}")
        .replace("LANES", "128")
        .replace("SHAPE", "3, 16, 64")
        .replace("STORE", USUAL["STORE"])
    )
    units = [Unit(module.programs["p"], module, {})]
    for name, word in (("sm_90a", "wgmma.mma_async"), ("sm_90", "mma.sync"), ("sm_100a", "mma.sync")):
        assert word in emit_ptx(lower(units, gpu(name)), gpu(name))


REFUSED: dict[str, dict[str, Any]] = {
    "other columns for each subgroup": {"body": PRODUCT.replace("@t[%zero, %zero, %zero]", "@t[%zero, %zero, %own]") + f"\n  {RESULT}", "SHAPE": "3, 16, 128"},
    "another stage for each subgroup": {"body": PRODUCT.replace("@t[%zero,", "@t[%s,") + f"\n  {RESULT}", "SHAPE": "4, 16, 64"},
    "half of a workgroup": {"body": f"%h = lt %s, %one : u32\n  if %h {{\n  {PRODUCT}\n  {RESULT}\n  }}"},
    "three subgroups": {"LANES": "96"},
    "rows with padding": {"SHAPE": "3, 16, 72"},
    "rows that are no whole atoms": {"SHAPE": "3, 20, 64"},
    "columns that begin within a panel": {"body": PRODUCT.replace("@t[%zero, %zero, %zero]", "@t[%zero, %zero, %eight]") + f"\n  {RESULT}", "SHAPE": "3, 16, 128"},
    "rows that begin within an atom": {"body": PRODUCT.replace("@t[%zero, %zero, %zero]", "@t[%zero, %three, %zero]") + f"\n  {RESULT}", "SHAPE": "3, 24, 64"},
    "a matrix that something else takes": {"body": f"{PRODUCT}\n  %n = neg %y : matrix<16x64xf16, b>\n  {RESULT}"},
    "a product behind a barrier": {"body": PRODUCT.replace("%z =", "barrier workgroup\n  %z =") + f"\n  {RESULT}"},
    "a product behind a write": {"body": PRODUCT.replace("%z =", "store %v, @t[%one, %r, %k] : vec<8 x f16>\n  %z =") + f"\n  {RESULT}"},
    "another load of a matrix": {"body": f"{PRODUCT}\n  {RESULT}\n  %q = matrix_load @t[%zero, %zero, %zero] : matrix<16x16xf16, a>\n  matrix_store %q, @t[%one, %zero, %zero] : matrix<16x16xf16, a>"},
    "a move across pieces": {"STORE": "%odd = add %k, %one : u32\n  store %v, @t[%zero, %r, %odd] : vec<8 x f16>"},
    "an access that may be out of bounds": {"bounds": "trap", "STORE": "store %v, @t[%zero, %l, %k] : vec<8 x f16>"},
}  # fmt: skip


@pytest.mark.parametrize("why", REFUSED)
def test_what_is_refused(why: str) -> None:
    assert is_of_warpgroups(made(bounds="trap"))
    assert not is_of_warpgroups(made(**REFUSED[why]))


# --- when

RING = """%n = for %i = 0 to 6 step 1 iter(%acc = %sum : matrix<16x64xf32, acc>) {
    %stage = rem %i, %three : u32
    %next = add %i, STEP : u32
    %other = rem %next, %three : u32
    %x = matrix_load @a[%own, %zero] : matrix<16x16xf16, a>
    %y = matrix_load @t[%stage, %zero, %zero] : matrix<16x64xf16, b>
    %z = matrix_mul_add %x, %y, %acc : matrix<16x64xf32, acc>
    copy_async %v, @t[%other, %r, %k] : vec<8 x f16>
    %u = add %next, %one : u32
    copy_wait 0
    barrier workgroup
    yield %z
  }"""


def behind(step: str) -> str:
    """The ring with its copy behind the barrier."""
    copy = "    copy_async %v, @t[%other, %r, %k] : vec<8 x f16>\n"
    return RING.replace("STEP", step).replace(copy, "").replace("    yield", f"{copy}    yield")


THIRD = re.sub(r"%([xyz])\b", r"%\g<1>3", PRODUCT)
AGAIN = re.sub(r"%([xyz])\b", r"%\g<1>2", PRODUCT)


def order(program: Program) -> list[str]:
    """The ops of interest, in order."""
    names = {
        WARPGROUP_MUL_ADD.name,
        WARPGROUP_WAIT.name,
        PROXY_FENCE.name,
        "copy_async",
        "store",
        "barrier",
        "matrix_store",
        "mul",
        "yield",
    }
    ops = [op for op in program.walk() if op.name in names]
    first = next(number for number, op in enumerate(ops) if op.definition is WARPGROUP_MUL_ADD)
    return [
        op.name.removeprefix("warpgroup_")
        for op in ops[first:]
        if op.name != "mul" or op.result.type.is_matrix
    ]


ORDERS: dict[str, tuple[str, list[str]]] = {
    "a copy to another stage runs meanwhile": (
        RING.replace("STEP", "%eight"),
        ["mul_add", "copy_async", "wait", "proxy_fence", "barrier", "yield"],
    ),
    "a copy to the same stage waits": (
        RING.replace("STEP", "%three"),
        ["mul_add", "wait", "copy_async", "proxy_fence", "barrier", "yield"],
    ),
    "the next product does not wait": (
        f"{PRODUCT}\n  {AGAIN.replace('%sum', '%z')}\n  {RESULT.replace('%z,', '%z2,')}",
        ["mul_add", "mul_add", "wait", "matrix_store"],
    ),
    "a product of other sums does not wait": (
        f"{PRODUCT}\n  {AGAIN}\n  {RESULT}",
        ["mul_add", "mul_add", "wait", "matrix_store"],
    ),
    "two products that add to the same sums wait": (
        f"{PRODUCT}\n  {AGAIN.replace('%sum', '%z')}\n  {THIRD.replace('%sum', '%z')}\n  {RESULT.replace('%z,', '%z2,')}",
        ["mul_add", "wait", "mul_add", "mul_add", "wait", "matrix_store"],
    ),
    "other uses of sums wait": (
        f"{PRODUCT}\n  %twice = mul %z, %z : matrix<16x64xf32, acc>\n  {RESULT}",
        ["mul_add", "wait", "mul", "matrix_store"],
    ),
    "a use within a branch waits before it": (
        f"{PRODUCT}\n  %some = lt %w, %three : u32\n  if %some {{\n  {RESULT}\n  }}",
        ["mul_add", "wait", "matrix_store"],
    ),
    "what nobody uses is waited for, too": (PRODUCT, ["mul_add", "wait"]),
    "a copy behind the barrier lets products pass it": (
        behind("%eight"),
        ["mul_add", "wait", "proxy_fence", "barrier", "copy_async", "wait", "yield"],
    ),
    "a copy behind the barrier to the same stage does not": (
        behind("%three"),
        ["mul_add", "wait", "proxy_fence", "barrier", "copy_async", "yield"],
    ),
    "a copy in the next round, before its barrier, does not": (
        behind("%eight").replace("%x = matrix_load @a", "copy_async %v, @t[%other, %r, %k] : vec<8 x f16>\n    %x = matrix_load @a"),
        ["mul_add", "wait", "proxy_fence", "barrier", "copy_async", "yield"],
    ),
    "a store behind the loop does not": (
        f"{behind('%eight')}\n  store %v, @t[%one, %r, %k] : vec<8 x f16>",
        ["mul_add", "wait", "proxy_fence", "barrier", "copy_async", "yield", "store"],
    ),
    "a product behind a barrier adds to what has passed it": (
        f"{PRODUCT}\n  barrier workgroup\n  {AGAIN.replace('%sum', '%z')}\n  {RESULT.replace('%z,', '%z2,')}",
        ["mul_add", "wait", "proxy_fence", "barrier", "mul_add", "wait", "matrix_store"],
    ),
    "the next columns that add to the same sum are not": (
        f"{PRODUCT}\n  %y2 = matrix_load @t[%zero, %zero, %wide] : matrix<16x64xf16, b>\n"
        f"  %z2 = matrix_mul_add %x, %y2, %z : matrix<16x64xf32, acc>\n  {RESULT.replace('%z,', '%z2,')}",
        ["mul_add", "mul_add", "wait", "matrix_store"],
    ),
    "the next columns are of the same instruction": (
        f"{PRODUCT}\n  {AGAIN.replace('%x2', '%x').replace('%x = matrix_load @a[%own, %zero] : matrix<16x16xf16, a>', '').replace('%zero, %zero, %zero', '%zero, %zero, %wide')}\n  {RESULT}\n"
        "  matrix_store %z2, @c[%own, %zero] : matrix<16x64xf32, acc>",
        ["mul_add", "wait", "matrix_store", "matrix_store"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", ORDERS)
def test_products_are_waited_for(what: str) -> None:
    body, expected = ORDERS[what]
    shape = {"SHAPE": "3, 16, 128"} if "%wide]" in body else {}
    assert order(made(body, **shape)) == expected


BOTH_IN_TILES = """vyre 2
program @p workgroup(128) {
  buffer @b : f16[64, 64] read binding(0)
  buffer @c : f32[64, 64] write binding(1)
  buffer @x : f16[4, ROWS, 64] workgroup
  buffer @t : f16[4, 16, 64] workgroup
  %zero = const 0 : u32
  %l = local_id x
  %s = subgroup_id
  %own = mul %s, 16 : u32
  %r = div %l, 8 : u32
  %k = mul %r, 0 : u32
  %sum = const 0.0 : matrix<16x64xf32, acc>
  %v = load @b[%r, %k] : vec<8 x f16>
  store %v, @x[0, %r, %k] : vec<8 x f16>
  store %v, @t[0, %r, %k] : vec<8 x f16>
  barrier workgroup
  %n = for %i = 0 to 6 step 1 iter(%acc = %sum : matrix<16x64xf32, acc>) {
    %stage = and %i, 3 : u32
    %next = add %i, 3 : u32
    %other = and %next, 3 : u32
    %a = matrix_load @x[%stage, OWN, 0] : matrix<16x16xf16, a>
    %y = matrix_load @t[%stage, 0, 0] : matrix<16x64xf16, b>
    %z = matrix_mul_add %a, %y, %acc : matrix<16x64xf32, acc>
    copy_wait 0
    barrier workgroup
    copy_async %v, @x[%other, %r, %k] : vec<8 x f16>
    copy_async %v, @t[%other, %r, %k] : vec<8 x f16>
    yield HANDED
  }
  matrix_store %n, @c[%own, 0] : matrix<16x64xf32, acc>
}"""


BEHIND = """%a2 = matrix_load @x[%stage, OWN, 16] : matrix<16x16xf16, a>
    %y2 = matrix_load @t[%stage, 0, 0] : matrix<16x64xf16, b>
    %z2 = matrix_mul_add %a2, %y2, %z : matrix<16x64xf32, acc>
    """


@pytest.mark.parametrize(
    ("changes", "is_in_place", "waits"),
    [
        ({}, True, [1, 0]),  # in the next round, and behind the loop
        ({"OWN": "%zero"}, False, [1, 0]),
        ({"ROWS": "60"}, False, [1, 0]),
        ({"HANDED": "%sum"}, True, [1, 0]),  # at the end of each round
        # of products behind the barrier the next round's wait would know nothing
        ({"HANDED": "%z2", "yield": f"{BEHIND}yield"}, True, [1, 0]),
    ],
)
def test_left_factors_are_read_where_they_are(
    changes: dict[str, str], is_in_place: bool, waits: list[int]
) -> None:
    text = BOTH_IN_TILES
    for name, value in {
        **changes,
        "OWN": changes.get("OWN", "%own"),
        "ROWS": changes.get("ROWS", "64"),
    }.items():
        text = text.replace(name, value)
    text = text.replace("HANDED", "%z")
    program = with_warpgroups(parse(text).programs["p"], "none")
    ops = [op for op in program.walk() if op.definition in (WARPGROUP_MUL_ADD, WARPGROUP_WAIT)]
    assert [op.attrs["pending"] for op in ops if op.definition is WARPGROUP_WAIT] == waits
    assert ops[0].attrs.get("left_tile") == ("x" if is_in_place else None)
    loop = next(op for op in program.body.ops if op.name == "for")
    goes_on = ops[-1] in program.body.ops
    assert goes_on == (is_in_place and "HANDED" not in changes)
    if goes_on:
        store = next(op for op in program.walk() if op.name == "matrix_store")
        assert ops[-1].operands == loop.results
        assert store.operands[0] is ops[-1].results[0]


def test_sums_after_the_wait_are_its_results() -> None:
    """Else LLVM might compute with registers that a product is still writing."""
    program = made()
    wait = next(op for op in program.walk() if op.definition is WARPGROUP_WAIT)
    store = next(op for op in program.walk() if op.name == "matrix_store")
    assert store.operands[0] is wait.results[0]


# --- where


def evaluated(value: Value, known: dict[str, int]) -> int:
    op = value.owner
    assert isinstance(op, Op)
    if op.name == "const":
        return int(op.attrs["value"])
    if op.name == "param":
        return known[op.attrs["param"]]
    operands = [evaluated(each, known) for each in op.operands]
    rules: dict[str, Any] = {
        "add": lambda x, y: x + y, "mul": lambda x, y: x * y, "shr": lambda x, y: x >> y,
        "and": lambda x, y: x & y, "xor": lambda x, y: x ^ y, "cast": lambda x: x,
    }  # fmt: skip
    return int(rules[op.name](*operands))


@pytest.mark.parametrize(("width", "rows"), pairs([1, 2, 4, 8], [16, 24, 64]))
def test_elements_lie_as_the_instruction_takes_them(rows: int, width: int) -> None:
    """In panels of 128 bytes a row, where bits 4 to 6 of the address are exchanged by bits 7 to 9 (PTX ISA, "Swizzling
    Modes", 128B), and no two elements at one place."""
    text = f"""vyre 2
program @p workgroup(128) {{
  param @stage : u32
  param @row : u32
  param @column : u32
  buffer @a : f16[64, 64] read binding(0)
  buffer @c : f32[64, 64] write binding(1)
  buffer @t : f16[2, {rows}, 192] workgroup
  %z = const 0 : u32
  %stage = param @stage : u32
  %row = param @row : u32
  %c = param @column : u32
  %width = const {width} : u32
  %column = mul %c, %width : u32
  %v = load @a[%z, %z] : {"f16" if width == 1 else f"vec<{width} x f16>"}
  store %v, @t[%stage, %row, %column] : {"f16" if width == 1 else f"vec<{width} x f16>"}
  barrier workgroup
  %x = matrix_load @a[%z, %z] : matrix<16x16xf16, a>
  %y = matrix_load @t[%z, %z, %z] : matrix<16x64xf16, b>
  %sum = const 0.0 : matrix<16x64xf32, acc>
  %p = matrix_mul_add %x, %y, %sum : matrix<16x64xf32, acc>
  matrix_store %p, @c[%z, %z] : matrix<16x64xf32, acc>
}}"""
    program = with_warpgroups(parse(text).programs["p"], "none")
    store = next(op for op in program.walk() if op.name == "store")
    places = set()
    for stage in range(2):
        for row in range(rows):
            for number in range(192 // width):
                known = {"stage": stage, "row": row, "column": number}
                place = evaluated(store.operands[1], known)
                panel, byte = divmod(number * width * 2, 128)
                plain = (stage * 3 + panel) * rows * 128 + row * 128 + byte
                assert 2 * place == plain ^ (plain >> 7 & 7) << 4
                places.add(place)
    assert len(places) == 2 * rows * 192 // width


@pytest.mark.parametrize("by_rows", [True, False])
def test_descriptors(by_rows: bool) -> None:
    """Bytes to the next panel and to the next eight rows, both by 16, and the kind of swizzling."""
    layout, shape = ("", "3, 16, 64") if by_rows else ("<column_major>", "3, 64, 64")
    body = PRODUCT.replace("matrix_load @t", f"matrix_load{layout} @t") + f"\n  {RESULT}"
    program = made(body, SHAPE=shape)
    ptx = emit_ptx(lower([Unit(program, None, {})], H200), H200)
    fixed = int(re.findall(r"or\.b64 \t%rd\d+, %rd\d+, (\d+);", ptx)[0])
    assert fixed >> 62 == 1
    assert fixed >> 32 & 0x3FFF == 1024 // 16
    assert fixed >> 16 & 0x3FFF == (16 * 128 // 16 if by_rows else 1)
    assert fixed & 0xFFFF == 0
    assert f"adds, 1, 1, {int(by_rows)};" in ptx
    assert re.search(r"\.shared \.align 1024 ", ptx)


# --- what they compute


def stored(x: Any, dtype: DataType) -> Any:
    return bf16_bits(x) if dtype is DataType.BF16 else x.astype(np.float16)


def check(case: SharedFactor, seed: int, target: str) -> None:
    module = Module()
    module.add(case.program())
    a, b = (stored(x, case.element) for x in case.arrays(seed))
    c = np.full((case.groups * case.rows, case.columns), np.nan, np.float32)
    result = run(module, [a, b, c], grid=case.groups, target=target)["c"]
    exact, bound = case.expected(*(widened(x) if x.dtype == np.uint16 else x for x in (a, b)))
    assert (np.abs(result - exact) <= bound).all()


SMALL = (2, 7, 8, 13)
"""Seeds of both element types and layouts, one strip and two, copies of both kinds, with and without a scale."""


@pytest.mark.parametrize("seed", quick(sorted(range(60), key=lambda seed: seed not in SMALL), keep=4))
def test_random_programs_run_and_are_of_warpgroups(seed: int) -> None:
    case = SharedFactor(seed)
    for target in ("ref", "cpu"):
        check(case, seed, target)
    assert is_of_warpgroups(with_warpgroups(case.program(), "none"))
    assert "wgmma.mma_async" in emit_ptx(lower([Unit(case.program(), None, {})], H200, "none"), H200)


@pytest.mark.gpu
@pytest.mark.parametrize("seed", quick(range(200), keep=10))
def test_random_programs_on_a_gpu(seed: int) -> None:
    check(SharedFactor(seed), seed, "cuda")


# --- as one piece of PTX


def test_products_that_add_to_each_other_are_written_together() -> None:
    """Copies of sums between them would make them wait for one another, which ptxas says of the attention kernel."""
    body = f"{PRODUCT}\n  %y2 = matrix_load @t[%zero, %zero, %zero] : matrix<16x64xf16, b>\n"
    body += "  %z2 = matrix_mul_add %x, %y2, %z : matrix<16x64xf32, acc>"
    program = made(f"{body}\n  {RESULT.replace('%z,', '%z2,')}")
    products = [op for op in program.walk() if op.definition is WARPGROUP_MUL_ADD]
    assert [bool(op.attrs.get("is_followed")) for op in products] == [True, True]
    assert [bool(op.attrs.get("is_first")) for op in products] == [True, False]


def test_products_with_something_between_are_apart() -> None:
    body = f"{PRODUCT}\n  store %v, @t[%eight, %r, %k] : vec<8 x f16>\n"
    program = made(body.replace("%eight", "2") + f"  {RESULT}")
    (product,) = [op for op in program.walk() if op.definition is WARPGROUP_MUL_ADD]
    assert not product.attrs.get("is_followed")


def test_much_arithmetic_beside_a_product_leaves_no_copies_of_its_sums() -> None:
    """A copy of a sum to which a product is adding makes all products wait for one another, as ptxas says."""
    sums = "".join(f"  %i{k + 1} = add %i{k}, %i{k} : vec<64 x u32>\n" for k in range(40))
    body = f"""%z = for %n = 0 to 8 iter(%running = %sum : matrix<16x64xf32, acc>) {{
    {PRODUCT.replace("%sum", "%running").replace("%z =", "%more =")}
    yield %more
  }}
  {RESULT}
  %i0 = splat %l : vec<64 x u32>
"""
    ptx = emit_ptx(lower([Unit(made(body + sums), None, {})], H200), H200)
    assert ptx.count("mov.b32") < 2 * 32  # of a lane's 32 sums: one each, where they begin at 0
