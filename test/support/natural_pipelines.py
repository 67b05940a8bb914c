"""Random pipelines as people write them: named kernels beside stages of their own, each over a grid of its own.

A line of u8 buffers, each made from the one before by a kernel or a stage; other stages read one of them and count.

    @text -> decode.hex -> @b1 -> map -> @b2          map      each lane its own element, under a bound
                             |                        strided  the same by a grid-stride loop, over any grid
                             +-> histogram -> @h1     stencil  a neighbour's element too
                                                      mirror   an element of another workgroup
                                                      counts   what a workgroup's elements have in common
                                                      histogram, total     by atomics, guarded or grid-stride

Sizes are open or numbers, workgroups mostly of 256 lanes, grids those that the stage needs, or for grid-stride loops
any.  All are sound: what is read has been written, by an earlier stage.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["NaturalPipeline", "natural_pipeline"]

MOST = 9000
"""Characters of a text: some workgroups of a decoder's."""

_BOUND = "  %g = global_id x\n  %n = len @{bound}\n  %inside = lt %g, %n : u32\n  if %inside {{\n{body}  }}\n"
_STRIDE = (
    "  %g = global_id x\n  %n = len @{bound}\n  %s = global_size x\n"
    "  for %i = %g to %n step %s {{\n{body}  }}\n"
)
_OWN = "    %v = load @x[%{i}] : u8\n"
_BODIES = {
    "map": _OWN + "    %c = const {c} : u8\n    %r = mul %v, %c : u8\n    store %r, @y[%{i}] : u8\n",
    "stencil": (
        "    %one = const 1 : u32\n    %j = sub_sat %{i}, %one : u32\n    %u = load @x[%j] : u8\n"
        + _OWN
        + "    %r = add %u, %v : u8\n    store %r, @y[%{i}] : u8\n"
    ),
    "mirror": (
        "    %one = const 1 : u32\n    %last = sub %n, %one : u32\n    %j = sub %last, %{i} : u32\n"
        "    %r = load @x[%j] : u8\n    store %r, @y[%{i}] : u8\n"
    ),
    "histogram": (
        _OWN + "    %bin = cast %v : u8 -> u32\n    %one = const 1 : u32\n"
        "    %old = atomic_add @y[%bin], %one : u32\n"
    ),
    "total": (
        _OWN + "    %wide = cast %v : u8 -> u32\n    %zero = const 0 : u32\n"
        "    %old = atomic_{atomic} @y[%zero], %wide : u32\n"
    ),
}
_COUNTS = """  %w = workgroup_id x
  %l = local_id x
  %lanes = const {lanes} : u32
  %n = len @x
  %zero = const 0 : u32
  %first = eq %l, %zero : u32
  %base = mul %w, %lanes : u32
  if %first {{
    %sum = for %k = 0 to {lanes} step 1 iter(%acc = %zero : u32) {{
      %i = add %base, %k : u32
      %inside = lt %i, %n : u32
      %v = if %inside -> u32 {{
        %b = load @x[%i] : u8
        %wide = cast %b : u8 -> u32
        yield %wide
      }} else {{
        yield %zero
      }}
      %next = add %acc, %v : u32
      yield %next
    }}
    store %sum, @y[%w] : u32
  }}
"""


@dataclass(frozen=True, slots=True)
class NaturalPipeline:
    """`inputs`: the arrays of @main, outputs among them.  `lengths`: of buffers of open size inside of it."""

    text: str
    inputs: dict[str, NDArray[np.generic]]
    lengths: dict[str, int]


@dataclass(slots=True)
class _Writer:
    rng: random.Random
    is_open: bool
    lanes: int
    buffers: list[str] = field(default_factory=list)
    programs: list[str] = field(default_factory=list)
    stages: list[str] = field(default_factory=list)
    inputs: dict[str, NDArray[np.generic]] = field(default_factory=dict)
    lengths: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    def buffer(self, name: str, dtype: str, size: int, flags: str = "") -> str:
        count = "?" if self.is_open and dtype == "u8" else str(size)
        self.buffers.append(f"  buffer @{name} : {dtype}[{count}]{flags}\n")
        self.sizes[name] = size
        if not flags and count == "?":
            self.lengths[name] = size
        return name

    def output(self, name: str, dtype: str, size: int, flags: str) -> str:
        self.inputs[name] = np.zeros(size, dtype={"u8": np.uint8, "u32": np.uint32}[dtype])
        return self.buffer(name, dtype, size, flags)

    def program(self, kind: str, body: str, formals: tuple[str, str], lanes: int) -> str:
        name = f"{kind}{len(self.programs)}"
        x, y = formals
        self.programs.append(
            f"program @{name} workgroup({lanes}) {{\n  buffer @x : u8[?] read binding(0)\n"
            f"  buffer @y : {x}[?] {y} binding(1)\n{body}}}\n"
        )
        return name

    def own_stage(self, kind: str, source: str, target: str) -> None:
        """Append a stage of the text's own that makes `target` of `source`."""
        rng = self.rng
        lanes = self.lanes if rng.random() < 0.85 else rng.choice((64, 128, 256))
        writes_all = kind in ("map", "stencil", "mirror")
        is_strided = rng.random() < 0.4
        body = _BODIES.get(kind, "").format(
            i="i" if is_strided else "g", c=rng.choice((3, 5, 7)), atomic=rng.choice(("add", "max", "xor"))
        )
        if kind == "counts":
            body, is_strided = _COUNTS.format(lanes=lanes), False
        else:
            bound = rng.choice("xy") if writes_all else "x"
            body = (_STRIDE if is_strided else _BOUND).format(body=body, bound=bound)
        by = rng.choice((source, target)) if writes_all else source
        grid = f"max(1, ceil_div(len(@{by}), {lanes}))"
        if is_strided and rng.random() < 0.7:
            grid = str(rng.choice((1, 3, 8)))
        dtype = "u8" if writes_all else "u32"
        access = (
            "write live_out"
            if kind in ("counts", "map", "stencil", "mirror")
            else "read_write live_in live_out"
        )
        name = self.program(kind, body, (dtype, access), lanes)
        self.stages.append(f"  launch @{name} grid({grid}) (@{source}, @{target})\n")

    def kernel(self, kernel: str, source: str, target: str) -> None:
        self.stages.append(f"  {kernel}(@{source}, @{target})\n")

    def text(self) -> str:
        return (
            "vyre 1\n"
            + "".join(self.programs)
            + "pipeline @main {\n"
            + "".join(self.buffers)
            + "".join(self.stages)
            + "}\n"
        )


def _line(writer: _Writer) -> list[str]:
    """The buffers of the line, the text first."""
    rng = writer.rng
    size = rng.choice((rng.randrange(1, 40), rng.randrange(40, MOST), 512 * rng.randrange(1, 16)))
    alphabet = np.frombuffer(b"0123456789abcdefABCDEFxyz+/", np.uint8)
    writer.buffer("text", "u8", size, " read")
    writer.inputs["text"] = np.random.default_rng(rng.randrange(1 << 30)).choice(alphabet, size)
    line = ["text"]
    steps = rng.choice((1, 2, 2, 3, 3, 4))
    kernel_at = rng.randrange(steps)
    for step in range(steps):
        source, before = line[-1], writer.sizes[line[-1]]
        kernel = None
        if step == kernel_at and before > 3:
            kernel = rng.choice(("decode.hex", "decode.hex", "decode.base64"))
        after = before
        if kernel is not None:
            after = before // 2 if kernel == "decode.hex" else before // 4 * 3 + before % 4 * 3 // 4
        is_output = step == steps - 1 and rng.random() < 0.6
        name = f"b{step + 1}"
        target = (
            writer.output(name, "u8", after, " write live_out")
            if is_output
            else writer.buffer(name, "u8", after)
        )
        if kernel is not None:
            writer.kernel(kernel, source, target)
        else:
            writer.own_stage(rng.choice(("map", "map", "map", "stencil", "mirror")), source, target)
        line.append(target)
    return line


def natural_pipeline(seed: int) -> NaturalPipeline:
    """The pipeline @main of a seed, its inputs and lengths."""
    rng = random.Random(seed)
    writer = _Writer(rng, rng.random() < 0.6, 256 if rng.random() < 0.8 else rng.choice((64, 128)))
    line = _line(writer)
    for number in range(rng.choice((0, 1, 1, 2)) if writer.stages else 1):
        source = line[-1] if rng.random() < 0.8 else rng.choice(line)
        kind = rng.choice(("histogram", "total", "counts"))
        size = {"histogram": 256, "total": 1}.get(kind, max(1, -(-writer.sizes[source] // 64)))
        flags = " write live_out" if kind == "counts" else " read_write live_in live_out"
        target = writer.output(f"h{number}", "u32", size, flags)
        writer.own_stage(kind, source, target)
    if not any(name != "text" for name in writer.inputs):
        target = writer.output("h", "u32", 1, " read_write live_in live_out")
        writer.own_stage("total", line[-1], target)
    return NaturalPipeline(writer.text(), writer.inputs, writer.lengths)
