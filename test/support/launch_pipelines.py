"""Random pipelines of small launches that read each other's outputs: for passes that join launches.

Each program is sound by construction: in bounds, without races, of buffers that were wholly
written before.  How a launch indexes its inputs is chosen so that about half of the adjacent launches may
be joined: own elements, mirrored ones, whole rows, neighbours at some distance, the far end, or
elements from all over the buffer.
"""

from __future__ import annotations

import random

__all__ = ["launch_pipeline"]

LANES = 32
GROUPS = 4
COUNT = LANES * GROUPS

_HEAD = """
  %g = global_id x
  %l = local_id x
  %w = workgroup_id x
  %c0 = const 0 : u32
  %c1 = const 1 : u32
  %c3 = const 3 : u32
  %lanes = const {lanes} : u32
  %mask = const {mask} : u32
  %count = const {count} : u32
  %last = const {last} : u32
  %base = mul %w, %lanes : u32
"""


def _read(kind: str, buffer: str, into: str, rng: random.Random) -> str:
    """Ops that define %into from elements of a buffer."""
    load = f"%v_{into} = load @{buffer}[%i_{into}] : u32"
    if kind == "own":
        return f"  %{into} = load @{buffer}[%g] : u32\n"
    if kind == "mirror":
        return f"  %i_{into} = xor %g, %mask : u32\n  %{into} = load @{buffer}[%i_{into}] : u32\n"
    if kind == "far":
        return f"  %i_{into} = sub %last, %g : u32\n  %{into} = load @{buffer}[%i_{into}] : u32\n"
    if kind == "first row":
        return f"  %{into} = load @{buffer}[%l] : u32\n"
    if kind == "anywhere":
        return (
            f"  %m_{into} = mul %g, %c3 : u32\n  %i_{into} = rem %m_{into}, %count : u32\n"
            f"  %{into} = load @{buffer}[%i_{into}] : u32\n"
        )
    if kind == "row":
        return (
            f"  %{into} = for %k = 0 to {LANES} step {rng.choice((1, 1, 2))} iter(%a = %c0 : u32) {{\n"
            f"    %i_{into} = add %base, %k : u32\n    {load}\n"
            f"    %b = mul %a, %c3 : u32\n    %n = add %b, %v_{into} : u32\n    yield %n\n  }}\n"
        )
    reach = rng.choice((1, 1, 2, 5, 17, LANES + 3))
    step, test = ("add", "lt %i_{0}, %count") if kind == "right" else ("sub", "ge %g, %r_{0}")
    return (
        f"  %r_{into} = const {reach} : u32\n  %i_{into} = {step} %g, %r_{into} : u32\n"
        f"  %p_{into} = {test.format(into)} : u32\n"
        f"  %{into} = if %p_{into} -> u32 {{ {load} yield %v_{into} }} else {{ yield %c1 }}\n"
    )


READS = ("own", "own", "own", "mirror", "mirror", "row", "left", "right", "far", "anywhere", "first row")
WRITES = ("own", "own", "own", "own", "mirror", "far", "low half", "by one lane", "even lanes")


def _write(kind: str, buffer: str) -> str:
    """Ops that store %s; every element of the buffer at most once."""
    store = f"store %s, @{buffer}"
    if kind == "mirror":
        return f"  %o = xor %g, %mask : u32\n  {store}[%o] : u32\n"
    if kind == "far":
        return f"  %o = sub %last, %g : u32\n  {store}[%o] : u32\n"
    if kind == "low half":
        return f"  %h = const {COUNT // 2 + 5} : u32\n  %low = lt %g, %h : u32\n  if %low {{ {store}[%g] : u32 }}\n"
    if kind == "even lanes":
        return (
            f"  %bit = and %l, %c1 : u32\n  %even = eq %bit, %c0 : u32\n  if %even {{ {store}[%g] : u32 }}\n"
        )
    if kind == "by one lane":
        return (
            "  %one = eq %l, %c3 : u32\n  if %one {\n"
            f"    for %k = 0 to {LANES} step 1 {{ %o = add %base, %k : u32 %t = add %s, %k : u32"
            f" store %t, @{buffer}[%o] : u32 }}\n  }}\n"
        )
    return f"  {store}[%g] : u32\n"


_PARTIAL = ("low half", "even lanes")


class _Pipeline:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.programs: list[str] = []
        self.names: dict[str, str] = {}
        self.full = {"x", "z"}  # buffers of which every element is defined
        self.temporaries = [f"t{k}" for k in range(self.rng.randrange(2, 5))]

    def program(self, body: str, buffers: str) -> str:
        """The name of the program of this text, which is added if it is new."""
        key = buffers + body
        if key not in self.names:
            name = self.names[key] = f"p{len(self.names)}"
            numbers = {"lanes": LANES, "mask": LANES - 1, "count": COUNT, "last": COUNT - 1}
            head = f"program @{name} workgroup({LANES}) {{\n{buffers}{_HEAD.format(**numbers)}"
            self.programs.append(f"{head}{body}}}\n")
        return self.names[key]

    def launch(self) -> str:
        rng = self.rng
        if rng.random() < 0.15:
            return self.in_place()
        sources = [self.source() for _ in range(rng.choice((1, 1, 2)))]
        target = rng.choice([*self.temporaries, *self.temporaries, "y"])
        if target in sources:
            return self.in_place()
        kind = rng.choice(WRITES if target in self.full else WRITES[:6])
        body, buffers = "", ""
        for place, _ in enumerate(sources):
            body += _read(rng.choice(READS), f"in{place}", f"v{place}", rng)
            buffers += f"  buffer @in{place} : u32[?] read binding({place})\n"
        buffers += f"  buffer @out : u32[?] write binding({len(sources)}) live_out\n"
        body += "  %s0 = mul %v0, %c3 : u32\n"
        body += f"  %s = add %s0, %{'v1' if len(sources) > 1 else 'g'} : u32\n" + _write(kind, "out")
        if kind not in _PARTIAL:
            self.full.add(target)
        return self.text(self.program(body, buffers), [*sources, target])

    def in_place(self) -> str:
        """Each lane changes its own element."""
        target = self.rng.choice(sorted(self.full - {"x", "z"}) or ["z"])
        buffers = "  buffer @io : u32[?] read_write binding(0) live_in live_out\n"
        body = "  %v = load @io[%g] : u32\n  %t = mul %v, %c3 : u32\n  %s = add %t, %l : u32\n"
        return self.text(self.program(body + _write("own", "io"), buffers), [target])

    def source(self) -> str:
        """A buffer of which every element is defined; mostly one that a launch wrote."""
        complete = sorted(self.full - {"x", "z"})
        return (
            self.rng.choice(complete) if complete and self.rng.random() < 0.8 else self.rng.choice(["x", "z"])
        )

    def text(self, program: str, buffers: list[str]) -> str:
        groups = GROUPS if self.rng.random() < 0.97 else f"ceil_div(len(@{buffers[0]}), {LANES})"
        return f"  launch @{program} grid({groups}) ({', '.join(f'@{b}' for b in buffers)})\n"

    def build(self) -> str:
        rng = self.rng
        stages = ""
        for _ in range(rng.randrange(2, 7)):
            chance = rng.random()
            if chance < 0.06 and self.full - {"x", "z"}:
                stages += f"  host_read @{rng.choice(sorted(self.full - {'x', 'z'}))}\n"
            elif chance < 0.15:
                stages += (
                    "  repeat 2 {\n" + "".join(self.launch() for _ in range(rng.randrange(1, 4))) + "  }\n"
                )
            else:
                stages += self.launch()
        head = f"pipeline @main {{\n  buffer @x : u32[{COUNT}] read\n"
        head += f"  buffer @z : u32[{COUNT}] read_write live_in live_out\n"
        for name in self.temporaries:
            # without flags the caller does not see it, so fusion may drop it
            flags = " read_write live_out" if rng.random() < 0.15 else ""
            head += f"  buffer @{name} : u32[{COUNT}]{flags}\n"
        head += f"  buffer @y : u32[{COUNT}] write live_out\n"
        host_reads = "".join(
            f"  host_read @{name}\n"
            for name in sorted(self.full & {*self.temporaries})
            if rng.random() < 0.15
        )
        return "vyre 1\n" + "".join(self.programs) + head + stages + host_reads + "}\n"


def launch_pipeline(seed: int) -> str:
    """The text of a pipeline @main over buffers of 128 u32, all launches of 4 workgroups."""
    return _Pipeline(seed).build()
