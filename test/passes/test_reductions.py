"""What the pass `reductions` replaces has the same bits in every lane; what is written otherwise, it leaves."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
from support.op_programs.maker import differs

from vyre_opt import PassManager, dispatcher, parse
from vyre_opt.ir import Program

STORED = {
    "f16": "f2",
    "f32": "f4",
    "f64": "f8",
    "u8": "u1",
    "i16": "i2",
    "u32": "u4",
    "i32": "i4",
    "i64": "i8",
}
LANES = (32, 64, 96, 100, 256, 288, 1024)


class Written:
    """A program with a reduction that is written out, at random; `is_wrong` if something in it was made so."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.dtype = self.rng.choice([*STORED])
        combiners = (
            ("add", "mul", "min", "max")
            if self.is_float
            else ("add", "mul", "min", "max", "and", "or", "xor")
        )
        self.combine = self.rng.choice(combiners)
        self.lanes = self.rng.choice(LANES)
        self.is_wrong = False
        self.lines: list[str] = []
        self.number = 0

    @property
    def is_float(self) -> bool:
        return self.dtype[0] == "f"

    @property
    def is_ordered(self) -> bool:
        return self.is_float and self.combine in ("add", "mul")

    def slip(self, chance: float = 0.08) -> bool:
        """Whether to make a mistake here."""
        slips = self.rng.random() < chance
        self.is_wrong |= slips
        return slips

    def emit(self, text: str) -> str:
        self.number += 1
        self.lines.append(f"%v{self.number} = {text} : {self.dtype}")
        return f"%v{self.number}"

    def both(self, a: str, b: str) -> str:
        pair = [a, b]
        self.rng.shuffle(pair)
        combine = self.combine if not self.slip(0.02) else "min" if self.combine != "min" else "max"
        return self.emit(f"{combine} {', '.join(pair)}")

    # --- a subgroup

    def of_subgroup(self, x: str) -> str:
        form = self.rng.choice(("op", "butterfly", "butterfly", "fold"))
        if form == "op":
            return self.emit(f"subgroup_reduce<{self.combine}> {x}")
        distances = [16, 8, 4, 2, 1]
        if not self.is_ordered:
            self.rng.shuffle(distances)
        elif self.slip():
            distances.reverse()
        if self.slip():
            distances[self.rng.randrange(5)] = self.rng.choice((0, 1, 3, 16))
        if form == "fold":  # only lane 0 has it then, and if the distances fall
            distances.sort(reverse=True)
        value = x
        for distance in distances:
            mode = "down" if form == "fold" else "xor"
            value = self.both(value, self.emit(f"subgroup_shuffle<{mode}> {value}, {distance}"))
            if self.slip(0.02):
                self.lines.append(f"store {value}, @other[%i] : {self.dtype}")
        self.is_wrong |= self.lanes % 32 > 0
        return value

    def scan(self, x: str) -> str:
        value = x
        distances = [1, 2, 4, 8, 16]
        if not self.is_ordered:
            self.rng.shuffle(distances)
        for distance in distances:
            other = self.emit(f"subgroup_shuffle<up> {value}, {distance}")
            guard = distance + self.slip(0.05)
            self.number += 1
            flag = f"%p{self.number}"
            if self.rng.random() < 0.5:
                self.lines.append(f"{flag} = ge %lane, {guard} : u32")
                value = self.emit(f"select {flag}, {self.both(other, value)}, {value}")
            else:
                self.lines.append(f"{flag} = gt {guard}, %lane : u32")
                value = self.emit(f"select {flag}, {value}, {self.both(value, other)}")
        return value

    # --- a workgroup

    def of_workgroup(self, total: str) -> str:
        count = -(-self.lanes // 32)
        self.lines += [f"if %first {{ store {total}, @t[%s] : {self.dtype} }}", "barrier workgroup"]
        form = self.rng.choice(("loads", "loop", "every", "first"))
        if form == "loads":
            values = [self.emit(f"load @t[{k}]") for k in range(max(1, count - self.slip()))]
            return self.tree(values)
        if form == "loop":
            self.is_wrong |= self.is_ordered and count > 2
            self.number += 1
            result = f"%v{self.number}"
            self.lines += [
                f"{result} = for %k = 1 to {count - self.slip()} step 1 iter(%acc = %t0 : {self.dtype}) {{",
                f"  %each = load @t[%k] : {self.dtype}",
                f"  %next = {self.combine} %acc, %each : {self.dtype}",
                "  yield %next",
                "}",
            ]
            self.lines.insert(-5, f"%t0 = load @t[0] : {self.dtype}")
            return result
        # in the last subgroup, if that is short, not all totals have a lane
        self.is_wrong |= form == "every" and 0 < self.lanes % 32
        if form == "first":
            self.lines.append("if %lowest {")
        self.lines += [f"%has = lt %lane, {count} : u32", f"%at = min %lane, {count - 1} : u32"]
        loaded = self.emit("load @t[%at]")
        value = self.emit(
            f"subgroup_reduce<{self.combine}> " + self.emit(f"select %has, {loaded}, {self.neutral()}")
        )
        if form == "first":
            self.lines += [f"if %first {{ store {value}, @all[0] : {self.dtype} }}", "}", "barrier workgroup"]
            value = self.emit("load @all[0]")
        return value

    def tree(self, values: list[str]) -> str:
        half = 16
        while half:
            upper = values[half:]
            values = [self.both(v, upper[k]) if k < len(upper) else v for k, v in enumerate(values[:half])]
            half //= 2
        return values[0]

    def neutral(self) -> str:
        if self.slip():
            return (
                "1" if self.combine not in ("mul",) and not self.is_float else "0.0" if self.is_float else "0"
            )
        if self.is_float:
            return {"add": "-0.0", "mul": "1.0", "min": "nan", "max": "nan"}[self.combine]
        info = np.iinfo(STORED[self.dtype])
        ones = -1 if self.dtype[0] == "i" else info.max
        return str(
            {"add": 0, "mul": 1, "min": info.max, "max": info.min, "and": ones, "or": 0, "xor": 0}[
                self.combine
            ]
        )

    def text(self) -> str:
        way = self.rng.choice(("subgroup", "scan", "workgroup", "workgroup"))
        result = self.scan("%x") if way == "scan" else self.of_subgroup("%x")
        folds = "<down>" in "".join(self.lines)
        if way == "workgroup":
            result = self.of_workgroup(result)
        if way != "workgroup" and folds:  # what the other lanes have is no reduction
            end = f"if %first {{ store {result}, @y[%i] : {self.dtype} }}"
        else:
            end = f"store {result}, @y[%i] : {self.dtype}"
        nl = "\n  "
        count = -(-self.lanes // 32)
        return f"""vyre 2
program @p workgroup({self.lanes}) {{
  buffer @x : {self.dtype}[{self.lanes}] read binding(0)
  buffer @y : {self.dtype}[{self.lanes}] read_write binding(1) live_in live_out
  buffer @other : {self.dtype}[{self.lanes}] read_write binding(2) live_in live_out
  buffer @t : {self.dtype}[{count}] workgroup
  buffer @all : {self.dtype}[1] workgroup
  %i = local_id x
  %lane = lane_id
  %s = subgroup_id
  %first = eq %lane, 0 : u32
  %lowest = lt %s, 1 : u32
  %x = load @x[%i] : {self.dtype}
  {nl.join(self.lines)}
  {end}
}}
"""


def inputs(dtype: str, lanes: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """All of one kind, so that the edges show: negative zeros, NaN, and numbers of any size."""
    kind = np.dtype(STORED[dtype])
    if dtype[0] != "f":
        info = np.iinfo(kind)
        yield rng.integers(info.min, info.max, lanes, kind, endpoint=True)
        return
    yield np.full(lanes, -0.0, kind)
    yield np.full(lanes, np.nan, kind)
    values = (rng.normal(size=lanes) * 10.0 ** rng.integers(-3, 3, lanes)).astype(kind)
    values[rng.random(lanes) < 0.03] = np.nan
    yield values
    yield np.where(np.isnan(values), 1, values).astype(kind)


def outputs(program: Program, x: np.ndarray) -> list[np.ndarray]:
    return dispatcher("ref").dispatch(program, [x, np.zeros_like(x), np.zeros_like(x)], 1)


@pytest.mark.parametrize("start", [0, 60, 120])
def test_the_bits_stay(start: int) -> None:
    """Of random programs, half of them with a mistake; those without one that are whole are recognised."""
    recognised = mistaken = 0
    for seed in range(start, start + 60):
        written = Written(seed)
        text = written.text()
        module = parse(text)
        before = parse(text).programs["p"]
        result = PassManager("reductions,dce,barrier_elim").run(module)
        after = module.programs["p"]
        applied = [
            each for each in result.remarks if (each.pass_name, each.kind) == ("reductions", "applied")
        ]
        recognised += bool(applied)
        mistaken += written.is_wrong
        names = {op.name for op in after.walk()}
        if not written.is_wrong:
            assert "subgroup_shuffle" not in names, text
            assert "barrier" not in names or written.lanes == 32, text
        rng = np.random.default_rng(seed)
        for x in inputs(written.dtype, written.lanes, rng):
            for got, wanted in zip(outputs(after, x), outputs(before, x), strict=True):
                wrong = differs(got, wanted, before.buffers["x"].dtype)
                assert not wrong.any(), f"seed {seed}\n{text}\n{np.flatnonzero(wrong)}"
    assert recognised > 20
    assert 10 < mistaken < 50
