"""Pipelines drawn at random from what such pipelines are written for, with arrays of 2^10 to 2^26 bytes.

    elementwise   stages of one element each, of types from u8 to f64, each of up to 16 operations
    stencils      neighbours at up to 16 elements, and single elements between
    rows          a sum of each row, taken from the row; for f32 often a softmax of it
    scans         a prefix sum between stages of single elements
    search        base64 or hex decoded, searched for the patterns of examples/ or for one byte, and matches counted

All sizes are numbers, so that a rank is known of each hand-off.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from math import exp, log

__all__ = ["draw_pipeline"]

SIZES = {"u8": 1, "u16": 2, "u32": 4, "f32": 4, "u64": 8, "f64": 8}
LEAST_BYTES = 1 << 10
LANES = (64, 128, 256)
WARMUP = 64

_STAGE = """program @{name} workgroup({lanes}) {{
  buffer @x : {source}[?] read  binding(0)
  buffer @y : {target}[?] write binding(1)
  %g = global_id x
  %n = len @y
  %inside = lt %g, %n : u32
  if %inside {{
{body}    store %r, @y[%g] : {target}
  }}
}}

"""
_STENCIL = """    %before = sub_sat %g, {radius} : u32
    %beyond = add %g, {radius} : u32
    %last = sub %n, 1 : u32
    %after = min %beyond, %last : u32
    %a = load @x[%before] : {type}
    %b = load @x[%g] : {type}
    %c = load @x[%after] : {type}
    %ab = add %a, %b : {type}
    %r = add %ab, %c : {type}
"""
_SUM = """program @{name} workgroup({lanes}) {{
  buffer @x     : {type}[?] read  binding(0)
  buffer @sums  : {type}[?] write binding(1)
  buffer @parts : {type}[{parts}] workgroup
  %g = global_id x
  %w = workgroup_id x
  %l = local_id x
  %s = subgroup_id
  %lane = lane_id
  %v = load @x[%g] : {type}
  %part = subgroup_reduce<add> %v : {type}
  %leads = eq %lane, 0 : u32
  if %leads {{
    store %part, @parts[%s] : {type}
  }}
  barrier workgroup
  %first = eq %l, 0 : u32
  if %first {{
    %zero = const {zero} : {type}
    %sum = for %k = 0 to {parts} step 1 iter(%acc = %zero : {type}) {{
      %p = load @parts[%k] : {type}
      %next = add %acc, %p : {type}
      yield %next
    }}
    store %sum, @sums[%w] : {type}
  }}
}}

"""
_TAKE = """program @{name} workgroup({lanes}) {{
  buffer @x    : {type}[?] read  binding(0)
  buffer @sums : {type}[?] read  binding(1)
  buffer @y    : {type}[?] write binding(2)
  %g = global_id x
  %w = workgroup_id x
  %v = load @x[%g] : {type}
  %s = load @sums[%w] : {type}
  %r = sub %v, %s : {type}
  store %r, @y[%g] : {type}
}}

"""
_COUNT = """program @{name} workgroup(256) {{
  buffer @x     : {type}[?] read       binding(0)
  buffer @total : u32[1] read_write binding(1) live_in live_out
  %i = global_id x
  %n = len @x
  %inside = lt %i, %n : u32
  %hit = if %inside -> u32 {{
    %v = load @x[%i] : {type}
    %is_one = {test} : {type}
    %one = const 1 : u32
    %none = const 0 : u32
    %counts = select %is_one, %one, %none : u32
    yield %counts
  }} else {{
    %none = const 0 : u32
    yield %none
  }}
  %sum = subgroup_reduce<add> %hit : u32
  %lane = lane_id
  %first = eq %lane, 0 : u32
  if %first {{
    %zero = const 0 : u32
    %old = atomic_add<relaxed> @total[%zero], %sum : u32
  }}
}}

"""


@dataclass
class _Writer:
    """`count`: elements of the last buffer, @b<stages>, whose type is `type`."""

    rng: random.Random
    bytes: int
    lanes: int
    type: str = ""
    count: int = 0
    stages: int = 0
    programs: list[str] = field(default_factory=list)
    buffers: dict[str, str] = field(default_factory=dict)
    launches: list[str] = field(default_factory=list)

    def begin(self, dtype: str, multiple: int = 1) -> None:
        self.type = dtype
        self.count = -(-max(1, self.bytes // SIZES[dtype]) // multiple) * multiple
        self.buffers["b0"] = f"{dtype}[{self.count}]"

    def next_buffer(self, dtype: str) -> tuple[str, str]:
        """The last buffer, and a new one after it."""
        source, self.stages, self.type = f"b{self.stages}", self.stages + 1, dtype
        self.buffers[f"b{self.stages}"] = f"{dtype}[{self.count}]"
        return source, f"b{self.stages}"

    def launch(self, text: str, arguments: str, grid: int, **values: object) -> None:
        name = f"s{len(self.programs)}"
        self.programs.append(text.format(name=name, **values))
        self.launches.append(f"  launch @{name} grid({grid}) ({arguments})\n")

    # --- stages

    def elements(self, target: str = "") -> None:
        """A stage of one element each; its result is cast to `target`."""
        source_type, target = self.type, target or self.type
        factor = "1.5" if source_type[0] == "f" else "3"
        body = f"    %v0 = load @x[%g] : {source_type}\n"
        operations = self.rng.choice((1, 2, 4, 16))
        for k in range(operations):
            op = ("mul", "add")[k % 2]
            body += f"    %v{k + 1} = {op} %v{k}, {factor} : {source_type}\n"
        last = f"%v{operations}"
        if target == source_type:
            body = body.replace(last, "%r")
        else:
            body += f"    %r = cast {last} : {source_type} -> {target}\n"
        self.guarded(body, target)

    def stencil(self) -> None:
        self.guarded(_STENCIL.format(radius=self.rng.choice((1, 2, 4, 16)), type=self.type), self.type)

    def guarded(self, body: str, target: str) -> None:
        source_type = self.type
        source, made = self.next_buffer(target)
        grid = -(-self.count // self.lanes)
        types = {"source": source_type, "target": target}
        self.launch(_STAGE, f"@{source}, @{made}", grid, lanes=self.lanes, body=body, **types)

    # --- kinds of pipelines

    def elementwise(self) -> None:
        self.begin(self.rng.choice(list(SIZES)))
        for _ in range(self.rng.randint(2, 8)):
            self.elements(self.rng.choice((self.type, self.rng.choice(list(SIZES)))))

    def stencils(self) -> None:
        self.begin(self.rng.choice(list(SIZES)))
        for _ in range(self.rng.randint(2, 5)):
            self.rng.choice((self.stencil, self.stencil, self.elements))()

    def rows(self) -> None:
        self.begin(self.rng.choice(("f32", "f32", "u32")), self.lanes)
        rows, dtype = self.count // self.lanes, self.type
        self.elements()
        self.buffers["sums"] = f"{dtype}[{rows}]"
        zero = "0.0" if dtype == "f32" else "0"
        values = {"lanes": self.lanes, "type": dtype, "parts": self.lanes // 32, "zero": zero}
        self.launch(_SUM, f"@b{self.stages}, @sums", rows, **values)
        source, made = self.next_buffer(dtype)
        self.launch(_TAKE, f"@{source}, @sums, @{made}", rows, **values)
        if dtype == "f32" and self.rng.random() < 0.5:
            source, made = self.next_buffer(dtype)
            self.launches.append(f"  math.softmax(@{source}, @{made}) {{columns = {self.lanes}}}\n")
        self.elements()

    def scans(self) -> None:
        self.begin("u32")
        for _ in range(self.rng.randint(0, 2)):
            self.elements()
        source, made = self.next_buffer("u32")
        self.launches.append(f"  scan.prefix(@{source}, @{made})\n")
        for _ in range(self.rng.randint(1, 2)):
            self.elements()

    def search(self) -> None:
        encoding, characters, size = self.rng.choice((("base64", 4, 3), ("hex", 2, 1)))
        units = max(1, self.bytes // characters)
        self.count = units * size
        self.buffers = {"text": f"u8[{units * characters}] read", "b0": f"u8[{self.count}]"}
        self.launches.append(f"  decode.{encoding}(@text, @b0)\n")
        self.type = "u8"
        test = "eq %v, 10"
        if self.rng.random() < 0.5:
            self.elements()
        else:
            self.buffers |= {"table": "u16[?] read", "accept": "u32[?] read"}
            source, made = self.next_buffer("u32")
            self.launches.append(f"  scan.dfa(@{source}, @table, @accept, @{made}) {{warmup = {WARMUP}}}\n")
            test = "ne %v, 0"
        self.buffers["total"] = "u32[1] live_in live_out"
        arguments = f"@b{self.stages}, @total"
        self.launch(_COUNT, arguments, -(-self.count // 256), type=self.type, test=test)

    def text(self) -> str:
        if "text" not in self.buffers:
            self.buffers["b0"] += " read"
            self.buffers[f"b{self.stages}"] += " write live_out"
        buffers = "".join(f"  buffer @{name} : {what}\n" for name, what in self.buffers.items())
        return f"vyre 2\n\n{''.join(self.programs)}pipeline @main {{\n{buffers}{''.join(self.launches)}}}\n"


KINDS: tuple[Callable[[_Writer], None], ...] = (
    _Writer.elementwise,
    _Writer.stencils,
    _Writer.search,
    _Writer.rows,
    _Writer.scans,
)


def draw_pipeline(seed: int, most_bytes: int) -> tuple[str, str]:
    """The name and the text of a pipeline; seeds take the kinds in turn."""
    rng = random.Random(seed)
    size = round(exp(rng.uniform(log(LEAST_BYTES), log(most_bytes))))
    kind = KINDS[seed % len(KINDS)]
    writer = _Writer(rng, size, rng.choice(LANES))
    kind(writer)
    return f"{kind.__name__} {seed}, {size >> 10} KiB", writer.text()
