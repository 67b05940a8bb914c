"""Loops that load for several iterations at once compute the same, in the same order, at all lengths."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.aliasing_loops import aliasing_loop
from support.loading_loops import MEETING, OWN_ROW_BODIES, OWN_ROWS, SUM, SUM_BODIES
from support.quick import quick

from vyre_opt import dispatcher, parse
from vyre_opt.ir import Program
from vyre_opt.passes import PassManager

LANES = 8


def program_of(text: str) -> Program:
    (program,) = parse(text).programs.values()
    return program


def batched(text: str) -> tuple[Program, list[str]]:
    module = parse(text)
    result = PassManager("batch_loads{always=true}").run(module)
    (program,) = module.programs.values()
    return program, [f"{remark.kind}: {remark.message}" for remark in result.remarks]


def run(program: Program, inputs: list[np.ndarray], target: str) -> list[np.ndarray]:
    return dispatcher(target).dispatch(program, [each.copy() for each in inputs], (1, 1, 1))


def expected(body: str, inputs: list[np.ndarray], indices: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """The sums and @y, computed one iteration after the other."""
    x, y, _, k = (each.copy() for each in inputs)
    sums = np.zeros(LANES, np.float32)
    for lane, walked in enumerate(indices):
        acc = np.float32(0)
        for c in walked:
            if body == "sum":
                acc = acc + x[c]
            elif body == "gather":
                acc = x[k[c]] * acc + x[k[c]]
            elif body == "in place":
                y[c] = y[c] + x[c]
                acc = max(acc, y[c])
            elif body == "guard":
                acc = acc - (x[c] * np.float32(k[c]) if c < 40 else np.float32(0.5))
            else:
                acc = acc * x[c] if x[c] > 0.5 else acc - x[c]
        sums[lane] = acc
    return sums, y


@pytest.mark.parametrize("seeds", quick([range(k, k + 20) for k in range(0, 1000, 20)], keep=2), ids=str)
def test_random_loops(seeds: range) -> None:
    """Any length, also below the first lane, and any step: what is left at the end is 0 to 7 iterations."""
    for seed in seeds:
        rng = random.Random(seed)
        body = rng.choice([*SUM_BODIES])
        count = rng.choice((1, 5, 8, 9, 63, 64, 65, 100, rng.randrange(1, 300)))
        is_by_turns = body == "in place" or rng.random() < 0.6
        lower, step = ("%l", 8) if is_by_turns else (str(rng.randrange(4)), rng.choice((1, 1, 2, 3, 7)))
        upper = rng.choice(("%n", str(count)))
        text = SUM.format(lower=lower, upper=upper, step=step, body=SUM_BODIES[body])
        numbers = np.random.default_rng(seed)
        x, y = (numbers.random(count, np.float32) for _ in range(2))
        inputs = [x, y, np.zeros(LANES, np.float32), numbers.integers(0, count, count, np.uint32)]
        starts = [lane if is_by_turns else int(lower) for lane in range(LANES)]
        sums, in_place = expected(body, inputs, [list(range(start, count, step)) for start in starts])
        program, remarks = batched(text)
        first = 0 if is_by_turns else int(lower)
        trips = None if upper == "%n" else len(range(first, count, step))
        if trips is None or trips >= 2:
            assert any("applied" in remark for remark in remarks), (text, remarks)
        for target in ("ref", "cpu"):
            found = run(program, inputs, target)
            np.testing.assert_array_equal(found[0], in_place, f"seed {seed} on {target}\n{text}")
            np.testing.assert_array_equal(found[1], sums, f"seed {seed} on {target}\n{text}")


@pytest.mark.parametrize("seeds", quick([range(k, k + 40) for k in range(0, 8_000, 40)], keep=2), ids=str)
def test_iterations_that_share_elements(seeds: range) -> None:
    """Alone and beside vectors of accesses: as it is in Python."""
    for seed in seeds:
        sample = aliasing_loop(seed)
        for passes in ("", "batch_loads{always=true}", "batch_loads{always=true},vectorize_access"):
            module = parse(sample.text)
            if passes:
                PassManager(passes).run(module)
            for target in ("ref", "cpu")[: 1 + (seed % 20 == 0)]:
                found = run(module.programs["p"], sample.arrays, target)
                for mine, theirs in zip(found, sample.expected, strict=True):
                    np.testing.assert_array_equal(mine, theirs, f"seed {seed} {passes}\n{sample.text}")


def test_some_iterations_that_share_elements_are_batched() -> None:
    """Otherwise the loops above would say nothing."""
    texts = (aliasing_loop(seed).text for seed in range(120))
    assert (
        sum("loads for" in remark for text in texts for remark in batched(text)[1] if "applied" in remark) > 3
    )


@pytest.mark.parametrize("count", [1, 7, 8, 24, 31, 32, 33, 100])
def test_invocations_that_meet(count: int) -> None:
    """All have the same iterations, and the loads of the next ones, in a branch, stand before the reduction of this one."""
    program, remarks = batched(SUM.format(lower="0", upper="%n", step=8, body=MEETING))
    assert remarks == ["applied: this loop loads for 8 iterations at a time"]
    x = np.random.default_rng(count).random(count, np.float32)
    padded = np.concatenate([x, np.full(-count % 8, 0.25, np.float32)])
    total = np.float32(0)
    for row in padded.reshape(-1, 8):
        total = row.max() - total
    inputs = [x, x.copy(), np.zeros(8, np.float32), np.zeros(1, np.uint32)]
    for target in ("ref", "cpu"):
        np.testing.assert_array_equal(run(program, inputs, target)[1], [total] * 8)


@pytest.mark.parametrize("seeds", quick([range(k, k + 8) for k in range(0, 800, 8)], keep=2), ids=str)
def test_rows_of_lanes(seeds: range) -> None:
    """A vector of a row for many iterations, and what is left over: of more lanes than rows, and of any length."""
    for seed in seeds:
        rng = random.Random(seed)
        body, dtype = rng.choice([*OWN_ROW_BODIES]), rng.choice(["f32", "f64", "u8", "i32"])
        lower, step = rng.randrange(3), rng.choice((1, 1, 1, 2))
        rows, columns = rng.choice((1, 31, 32)), rng.choice((8, 31, 32, 33, 64, 66, rng.randrange(3, 200)))
        upper = rng.choice(("%n", str(rng.randrange(3, columns + 1))))
        last, has_columns = columns if upper == "%n" else int(upper), rng.random() < 0.7
        text = OWN_ROWS.format(
            dtype=dtype,
            row="local_id",
            columns=columns if has_columns else "?",
            lower=lower,
            upper=upper,
            step=step,
            body=OWN_ROW_BODIES[body],
        )
        numbers, kind = (
            np.random.default_rng(seed),
            np.dtype({"f32": "f4", "f64": "f8", "u8": "u1", "i32": "i4"}[dtype]),
        )
        x, w = (
            numbers.integers(0, 9, (rows, columns)).astype(kind),
            numbers.integers(0, 9, columns).astype(kind),
        )
        in_place, sums = x.copy(), np.zeros(rows, kind)
        for c in range(lower, last, step):
            v, u = in_place[:, c].copy(), w[c] if body == "product" else in_place[0, c]
            if body == "sum":
                sums = sums + v
            elif body == "in place":
                in_place[:, c] = v + sums
                sums = np.maximum(v + sums, v)
            else:
                sums = (v * u if body == "product" else v - u) - sums
        program, remarks = batched(text)
        is_row = step == 1 and (last - lower >= 8 if has_columns else upper == "%n")
        assert is_row == any("along rows" in remark for remark in remarks), (text, remarks)
        assert is_row == any(op.name == "load" and op.result.type.is_vec for op in program.walk())
        for target in ("ref", "cpu"):
            found = run(program, [x, w, np.zeros(rows, kind)], target)
            np.testing.assert_array_equal(found[0], in_place, f"seed {seed} on {target}\n{text}")
            np.testing.assert_array_equal(found[1], sums, f"seed {seed} on {target}\n{text}")


def test_counters_that_wrap() -> None:
    """The last iterations stand right below the largest number of the counter's type."""
    text = """vyre 2
program @p workgroup(1) {
  buffer @x : u8[256] read binding(0)
  buffer @z : u32[1] write binding(1)
  %one = const 241 : u8
  %end = const 255 : u8
  %zero = const 0 : u32
  %sum = for %c = %one to %end step 9 iter(%acc = %zero : u32) : u8 {
    %v = load @x[%c]
    %w = cast %v : u8 -> u32
    %next = add %acc, %w
    yield %next
  }
  store %sum, @z[0]
}
"""
    program, remarks = batched(text)
    assert remarks == ["applied: this loop loads for 8 iterations at a time"]
    x = np.arange(256, dtype=np.uint8)
    for target in ("ref", "cpu"):
        (z,) = run(program, [x, np.zeros(1, np.uint32)], target)
        assert list(z) == [241 + 250]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (
            "    %v = load @y[%c]\n    %b = add %c, 8\n    store %v, @y[%b]\n    %next = add %acc, %v",
            "may write",
        ),
        (
            "    %v = load @y[%c]\n    %b = load @k[%c]\n    store %v, @y[%b]\n    %next = add %acc, %v",
            "may write",
        ),
        ("    %v = load @y[%c]\n    barrier workgroup\n    %next = add %acc, %v", "meet"),
        ("    %b = cast %acc : f32 -> u32\n    %v = load @x[%b]\n    %next = add %acc, %v", None),
    ],
)
def test_what_stays(body: str, why: str | None) -> None:
    """Loads whose elements an earlier iteration may write, loops in which invocations meet, and those that load by what
    they carry."""
    lower = "0" if "barrier" in body else "%l"
    text = SUM.format(lower=lower, upper="%n", step=8, body=body)
    if "barrier" in body:
        text = text.replace("  store %sum, @z", "  store %sum, @y[%i]\n  store %sum, @z")
    program, remarks = batched(text)
    loads = [remark for remark in remarks if remark.startswith("applied")]
    if "load @k" in body:
        assert loads  # of @k
        assert sum(op.name == "load" and op.attrs["buffer"] == "y" for op in program.walk()) == 16
    else:
        assert not loads
        assert why is None or any(why in remark for remark in remarks), remarks


STORES = {
    "store": ("    store 5.0, @y[%c]", lambda y, x, c: y.__setitem__(c, 5)),
    "some store": (
        "    %v = load @x[%c]\n    %big = gt %v, 0.5\n    if %big {\n      store %v, @y[%c]\n    }",
        lambda y, x, c: y.__setitem__(c, x[c] if x[c] > 0.5 else y[c]),
    ),
    "neighbours": (
        "    %two = splat %acc : vec<2 x f32>\n    store %two, @y[%c]",
        None,
    ),
}


@pytest.mark.parametrize("name", STORES)
def test_a_load_follows_the_stores_before_it(name: str) -> None:
    """In its own iteration, and by a vector in the one before."""
    store, update = STORES[name]
    load = "    %u = load @y[%c]\n    %next = add %acc, %u"
    body = f"{load}\n{store.replace('%acc', '%next')}" if update is None else f"{store}\n{load}"
    text = SUM.format(lower="0", upper="16", step=1, body=body).replace("workgroup(8)", "workgroup(1)")
    rng = np.random.default_rng(1)
    x, y = rng.random(17, np.float32), rng.random(17, np.float32)
    in_place, total = y.copy(), np.float32(0)
    for c in range(16):
        if update is not None:
            update(in_place, x, c)
        total = total + in_place[c]
        if update is None:
            in_place[c : c + 2] = total
    program, _ = batched(text)
    for target in ("ref", "cpu"):
        found = run(program, [x, y, np.zeros(1, np.float32), np.zeros(1, np.uint32)], target)
        np.testing.assert_array_equal(found[0], in_place)
        np.testing.assert_array_equal(found[1], [total])


@pytest.mark.parametrize("step", [64, 128, 256])
def test_an_index_narrower_than_its_counter(step: int) -> None:
    """It is the same in several iterations."""
    body = """    %b = cast %c : u32 -> u8
    %u = load @y[%b]
    %next = add %u, 1.0
    store %next, @y[%b]"""
    text = SUM.format(lower="0", upper="2048", step=step, body=body).replace("workgroup(8)", "workgroup(1)")
    y = np.zeros(256, np.float32)
    for c in range(0, 2048, step):
        y[c % 256] += 1
    program, _ = batched(text)
    for target in ("ref", "cpu"):
        found = run(
            program, [y, np.zeros(256, np.float32), np.zeros(1, np.float32), np.zeros(1, np.uint32)], target
        )
        np.testing.assert_array_equal(found[0], y)


ROWS = """vyre 2
program @p workgroup(1) {
  buffer @y : f32[?, ?] read_write binding(0) live_in live_out
  %row = workgroup_id x
  %columns = len @y, 1
  for %c = 1 to %columns step 1 {
    %b = sub %c, 1 : u32
    %u = load @y[%row, INDEX]
    %v = mul %u, 3.0
    store %v, @y[%row, %c]
  }
}
"""


@pytest.mark.parametrize(("index", "kind"), [("%c", "applied"), ("%b", "refused")])
def test_rows_in_place(index: str, kind: str) -> None:
    program, remarks = batched(ROWS.replace("INDEX", index))
    assert [remark.split(":")[0] for remark in remarks] == [kind]
    y = np.random.default_rng(1).random((3, 11), np.float32)
    expected = y.copy()
    for c in range(1, 11):
        expected[:, c] = expected[:, c if index == "%c" else c - 1] * np.float32(3)
    for target in ("ref", "cpu"):
        (found,) = dispatcher(target).dispatch(program, [y.copy()], 3)
        np.testing.assert_array_equal(found, expected)


def test_short_and_long_loops() -> None:
    """A loop of constant length is batched by what divides into it; one of one iteration stays."""
    for upper, shown in ((8, "4 iterations"), (2, None), (32, "8 iterations")):
        text = SUM.format(lower="0", upper=str(upper), step=2, body=SUM_BODIES["sum"])
        _, remarks = batched(text)
        assert (shown is None and not remarks) or (shown is not None and shown in remarks[0]), (
            upper,
            remarks,
        )


PRODUCT = """vyre 2
program @p workgroup(8, 8) {
  buffer @a : f32[?, ?] read binding(0)
  buffer @b : f32[?, ?] read binding(1)
  buffer @c : f32[?, ?] write binding(2)
  %j = global_id x
  %i = global_id y
  %n = len @a, 1
  %zero = const 0.0 : f32
  %sum = for %k = 0 to %n step 1 iter(%acc = %zero : f32) {
    %x = load @a[%i, %k]
    %y = load @b[%k, %j]
    %xy = mul %x, %y
    %next = add %acc, %xy
    yield %next
  }
  store %sum, @c[%i, %j]
}
"""


@pytest.mark.parametrize(
    ("old", "new", "is_product"),
    [
        ("", "", True),
        ("%xy = mul %x, %y\n    %next = add %acc, %xy", "%next = fma %y, %x, %acc", True),
        ("add %acc, %xy", "add %xy, %acc", True),
        ("add %acc, %xy", "add %acc, %acc", False),
        ("add %acc, %xy", "max %acc, %xy", False),
        ("@b[%k, %j]", "@b[%j, %k]", False),
        ("mul %x, %y", "mul %x, %x", False),
    ],
)
def test_a_product_of_matrices_is_told_of_the_kernel(old: str, new: str, is_product: bool) -> None:
    _, remarks = batched(PRODUCT.replace(old, new))
    assert (
        any("the product of @a and @b; blocks do it by tiles" in remark for remark in remarks) == is_product
    )
