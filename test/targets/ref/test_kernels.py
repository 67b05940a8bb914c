"""The named kernels as programs' ops, against the definitions in plain Python."""

from __future__ import annotations

import base64
import math
import random
from typing import Any

import numpy as np
import pytest


def run(
    ref: Any, op: str, buffers: list[tuple[str, np.ndarray]], out_type: str, space: np.ndarray
) -> np.ndarray:
    """A program whose body is one kernel op; `buffers` are (element type, array) of what it reads."""
    lines = [f"buffer @b{i} : {t}[?] read binding({i})" for i, (t, _) in enumerate(buffers)]
    names = ", ".join(f"@b{i}" for i in range(len(buffers)))
    nl = "\n"
    text = f"""program @p workgroup(64) {{
      {nl.join(lines)}
      buffer @o : {out_type}[?] write binding({len(buffers)}) live_out
      {op.replace("(...)", f"({names}, @o)")}
    }}"""
    (out,) = ref(text, [*(a for _, a in buffers), space], 3)
    return out


def octets(text: bytes) -> np.ndarray:
    return np.frombuffer(text, np.uint8)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 100])
@pytest.mark.parametrize("padded", [True, False])
def test_base64(ref: Any, size: int, padded: bool) -> None:
    """As the standard library decodes; room beyond the text keeps what the caller passed."""
    data = random.Random(size).randbytes(size)
    text = base64.b64encode(data)
    out = run(
        ref,
        "decode.base64(...)",
        [("u8", octets(text if padded else text.rstrip(b"=")))],
        "u8",
        np.full(110, 7, np.uint8),
    )
    assert out.tobytes() == data + b"\x07" * (110 - size)


def test_base64_of_other_characters(ref: Any) -> None:
    """They count as 0 bits, like A, and so does a '=' that is no padding at the end."""
    out = run(ref, "decode.base64(...)", [("u8", octets(b"Q*Q-QUJD=QUJDQ=="))], "u8", np.zeros(10, np.uint8))
    assert out.tobytes() == base64.b64decode(b"QAQAQUJDAQUJDQ==")


def test_hex(ref: Any) -> None:
    out = run(ref, "decode.hex(...)", [("u8", octets(b"00ffA5a5g1f"))], "u8", np.zeros(5, np.uint8))
    assert out.tobytes() == bytes([0, 255, 0xA5, 0xA5, 0x01])


@pytest.mark.parametrize("warmup", [0, 1, 3, 200])
def test_dfa(ref: Any, warmup: int) -> None:
    """Each place by a run of its own, from state 0 on the bytes from `warmup` before it."""
    rng = random.Random(warmup)
    table = np.array([rng.randrange(5) for _ in range(5 * 256)], np.uint16)
    accept = np.array([0, 0, 3, 4, 0], np.uint32)
    text = octets(bytes(rng.choice(b"abc") for _ in range(50)))
    out = run(
        ref,
        f"scan.dfa(...) {{warmup = {warmup}}}",
        [("u8", text), ("u16", table), ("u32", accept)],
        "u32",
        np.zeros(50, np.uint32),
    )
    for place in range(50):
        state = 0
        for byte in text[max(0, place - warmup) : place + 1].tolist():
            state = int(table[state * 256 + byte])
        assert out[place] == accept[state]


def test_prefix(ref: Any) -> None:
    """u32 wraps; f32 is the rounded sum of the exact values."""
    x = np.array([2**31, 2**31, 5, 2**32 - 1], np.uint32)
    assert list(run(ref, "scan.prefix(...)", [("u32", x)], "u32", np.zeros(4, np.uint32))) == [2**31, 0, 5, 4]
    f = np.array([1.0, 2.0**-24, 2.0**-24, 3.5], np.float32)
    expected = [np.float32(math.fsum(f[: i + 1])) for i in range(4)]
    assert list(run(ref, "scan.prefix(...)", [("f32", f)], "f32", np.zeros(4, np.float32))) == expected


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_softmax(ref: Any, dtype: str) -> None:
    """Rows sum to one; large elements do not overflow; the result is rounded once."""
    rows = np.array([[1.0, 2.0, 3.0], [200.0, 200.0, -200.0], [-3.0, 0.0, -50.0]], np.float32)
    inputs = rows.astype(np.float16) if dtype == "f16" else rows
    if dtype == "bf16":
        inputs = (rows.view(np.uint32) >> 16).astype(np.uint16)
    out = run(
        ref,
        "math.softmax(...) {columns = 3}",
        [(dtype, inputs.reshape(-1))],
        dtype,
        np.zeros_like(inputs).reshape(-1),
    )
    if dtype == "bf16":
        out = (out.astype(np.uint32) << 16).view(np.float32)
    exact = np.exp(rows.astype(np.float64) - rows.max(axis=1, keepdims=True))
    exact /= exact.sum(axis=1, keepdims=True)
    bound = {"f32": 2.0**-23, "f16": 2.0**-11, "bf16": 2.0**-8}[dtype]
    assert np.all(np.abs(out.reshape(3, 3) - exact) <= exact * bound + 2.0**-24)


def test_softmax_step_is_wide(ref: Any) -> None:
    """Numerators and sums beyond 32 bits; a sum of 0 counts as 1."""

    def step(x: list[int]) -> list[int]:
        array = np.array(x, np.uint32)
        return [
            int(v) for v in run(ref, "math.softmax_step(...)", [("u32", array)], "u32", np.zeros_like(array))
        ]

    assert step([65536, 131072, 65536]) == [16384, 32768, 16384]
    assert step([2**32 - 1] * 3) == [21845] * 3
    assert step([0, 0]) == [0, 0]


def test_matvec_fixed(ref: Any) -> None:
    """Signed 16.16: products are shifted arithmetically one by one, sums wrap."""
    rng = random.Random(1)
    m = [rng.randrange(-(2**31), 2**31) for _ in range(12)]
    x = [rng.randrange(-(2**31), 2**31) for _ in range(4)]
    arrays = [("i32", np.array(a, np.int32)) for a in (m, x)]
    out = run(ref, "math.matvec_fixed(...)", arrays, "u32", np.zeros(3, np.uint32))
    assert list(out) == [sum((m[4 * i + j] * x[j]) >> 16 for j in range(4)) % 2**32 for i in range(3)]


def test_contract_step(ref: Any) -> None:
    """out_j = sum_i acc_i * core_ij in f32 and in 16.16, where a core of ones sums the accumulator."""
    rng = np.random.default_rng(1)
    acc, core = rng.normal(size=3).astype(np.float32), rng.normal(size=(3, 5)).astype(np.float32)
    out = run(
        ref,
        "tt.contract_step(...)",
        [("f32", acc), ("f32", core.reshape(-1))],
        "f32",
        np.zeros(5, np.float32),
    )
    assert np.allclose(out, acc.astype(np.float64) @ core.astype(np.float64), rtol=1e-6)
    ones = [("u32", np.array([2, 3], np.uint32)), ("u32", np.full(8, 65536, np.uint32))]
    assert list(run(ref, "tt.contract_step(...)", ones, "u32", np.zeros(4, np.uint32))) == [5] * 4


def test_a_kernel_waits_for_and_orders_all_workgroups(ref: Any, faulty: Any) -> None:
    """Stores before it are visible to it, and what it wrote to everyone after; nothing unwritten is read."""

    def text(count: int) -> str:
        return f"""program @p workgroup(4) {{
      buffer @x : u32[{count}] read_write
      buffer @s : u32[{count}] read_write
      buffer @y : u32[8] write binding(0) live_out
      %g = global_id x
      store %g, @x[%g] : u32
      scan.prefix(@x, @s)
      %seven = const 7 : u32
      %m = sub %seven, %g : u32
      %v = load @s[%m] : u32
      store %v, @y[%g] : u32
    }}"""

    (y,) = ref(text(8), [np.zeros(8, np.uint32)], 2)
    assert list(y) == [sum(range(8 - g)) for g in range(8)]
    assert "index 8" in faulty("uninitialised", 8, text(9), [np.zeros(8, np.uint32)], 2).diagnostic.message


@pytest.mark.parametrize(
    ("op", "kind", "sizes", "said"),
    [
        ("math.softmax(@x, @y) {columns = 3}", "kernel", (8, 8), "8 elements are not rows of 3"),
        ("scan.prefix(@x, @y)", "bounds", (8, 4), "8 elements to write, length 4"),
    ],
)
def test_sizes_that_do_not_fit(faulty: Any, op: str, kind: str, sizes: tuple[int, int], said: str) -> None:
    text = f"""program @p workgroup(1) {{
      buffer @x : f32[?] read binding(0)
      buffer @y : f32[?] write binding(1) live_out
      {op}
    }}"""
    inputs = [np.zeros(size, np.float32) for size in sizes]
    assert said in faulty(kind, 5, text, inputs, 1).diagnostic.message
