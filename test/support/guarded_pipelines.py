"""Random pipelines that launch a few kernels again and again, each lane on an element under a bound, as users write them.

    scale   y = c * x, c a param that a launch gives as a literal, as one of the pipeline, or leaves to its default
    sum     y = x + z + k, k a specialization constant
    update  y = y * y, in place

Some launches stand in a `repeat`, some buffers are read by the host on the way; sizes are open or numbers.
"""

from __future__ import annotations

import random

__all__ = ["guarded_pipeline"]

_PROGRAM = """program @{name} workgroup({lanes}) {{
{buffers}{scalars}  %g = global_id x
  %n = len @y
  %inside = lt %g, %n : u32
  if %inside {{
{body}    store %r, @y[%g] : f32
  }}
}}
"""
_X, _Y = "  buffer @x : f32[?] read binding(0)\n", "  buffer @y : f32[?] write binding({at}) live_out\n"
_V = "    %v = load @{of}[%g] : f32\n"
_KERNELS = {
    "scale": (
        _X + _Y.format(at=1),
        "  param @c : f32 = 2.0\n",
        "    %c = param @c : f32\n" + _V.format(of="x") + "    %r = mul %v, %c : f32\n",
    ),
    "sum": (
        _X + "  buffer @z : f32[?] read binding(1)\n" + _Y.format(at=2),
        "  spec @k : f32 = 1.0\n",
        "    %k = spec @k : f32\n"
        + _V.format(of="x")
        + "    %u = load @z[%g] : f32\n    %s = add %v, %u : f32\n    %r = add %s, %k : f32\n",
    ),
    "update": (
        "  buffer @y : f32[?] read_write binding(0) live_in live_out\n",
        "",
        _V.format(of="y") + "    %r = mul %v, %v : f32\n",
    ),
}


def guarded_pipeline(seed: int) -> str:
    """The text of a pipeline @main, from @x to @out."""
    rng = random.Random(f"guarded pipeline {seed}")
    lanes, size = rng.choice((32, 64)), rng.choice(("?", "64", "1000"))
    extent = "len(@x)" if size == "?" else size
    blocks = rng.choice((f"ceil_div(len(@x), {lanes})", f"max(1, ceil_div(len(@x), {lanes}))"))
    buffers, stages, written = [f"  buffer @x : f32[{size}] read"], list[str](), ["x"]

    def launch(kernel: str, *passed: str) -> str:
        given = rng.choice(("", " params(@c = 3.0)", " params(@c = @a)")) if kernel == "scale" else ""
        return f"  launch @{kernel} grid({blocks}) ({', '.join(f'@{name}' for name in passed)}){given}"

    def reads(kernel: str) -> list[str]:
        return [rng.choice(written[-2:]) for _ in range(2 if kernel == "sum" else 1)]

    for number in range(rng.randrange(2, 6)):
        kernel, name = rng.choice(("scale", "scale", "sum")), f"t{number}"
        buffers.append(f"  buffer @{name} : f32[{extent}]")
        stages.append(launch(kernel, *reads(kernel), name))
        written.append(name)
        if rng.random() < 0.3:
            stages.append(launch("update", name))
        if rng.random() < 0.2:
            stages.append(f"  host_read @{name}")
        if number and rng.random() < 0.3:
            before = f"t{number - 1}"
            inner = [launch("scale", name, before), launch("scale", before, name)]
            stages += ["  repeat 3 {", *(f"  {line}" for line in inner), "  }"]
    buffers.append(f"  buffer @out : f32[{extent}] write live_out")
    stages.append(launch("scale", written[-1], "out"))
    programs = (
        _PROGRAM.format(name=name, lanes=lanes, buffers=parts[0], scalars=parts[1], body=parts[2])
        for name, parts in _KERNELS.items()
    )
    head = "\n".join([*buffers, "  param @a : f32 = 0.5"])
    return f"vyre 2\n\n{''.join(programs)}\npipeline @main {{\n{head}\n" + "\n".join(stages) + "\n}\n"
