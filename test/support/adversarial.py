"""Random pipelines that aim at the proofs of fusion: what they compute is known by running them only.

A pipeline is a chain of launches that hand buffers on.  Each access of a buffer is drawn as a
*recipe*: where the index lies, under which condition and in which loop.  A reader mostly takes the
recipe of the writer before it, or that recipe with one part changed, so that what is proven of the
two is nearly true and sometimes false:

    row, column    whose elements: the workgroup's own, another one's, in what order of lanes
    offset         moved by a constant, or by a value loaded from a control buffer @z
    type           counted in u8, i8, u16, i16, where it wraps, or in i32 and u64
    clamp          min, max, rem, select, sub_sat against the length
    condition      by lane, by workgroup, by parity, by a loaded flag; negated, or two at once
    loop           trips that are constant, differ by lane or workgroup, or are loaded

Between them come launches that change the control buffers: the offset, the flag or the length that
producer and consumer load is not the same any more.  Launches are repeated and done again with other
buffers, grids are smaller and larger than what they write, workgroups and grids have two dimensions,
the host reads in between, one array is passed twice.

Nothing here says which launches and pipelines are valid.  Each is drawn until one runs without a
fault on the interpreter, which checks races, bounds and reads of what nobody wrote; so the generator
knows nothing that the proofs know.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from vyre_opt.driver.compile import compile_module
from vyre_opt.ir.parser import parse
from vyre_opt.ir.program import Module
from vyre_opt.runtime.dispatcher import DispatchError
from vyre_opt.runtime.ref import RefDispatcher

__all__ = ["Drawn", "adversarial_pipeline", "draw"]

MAX_DRAWS = 60
MAX_LAUNCHES = 12
_REF = RefDispatcher(max_steps=20_000)  # a loaded trip count may be anything
Choices = Mapping[str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class LaneShape:
    """Lanes of a workgroup and workgroups of a grid, along x and y."""

    lanes: tuple[int, int]
    groups: tuple[int, int]

    @property
    def size(self) -> int:
        return self.lanes[0] * self.lanes[1]

    @property
    def count(self) -> int:
        return self.groups[0] * self.groups[1]


@dataclass(frozen=True, slots=True)
class Recipe:
    """An access of a buffer: see CHOICES for what each part may be."""

    row: str = "own"
    stride: str = "lanes"
    column: str = "lane"
    offset: str = ""
    dtype: str = "u32"
    scale: int = 1
    clamp: str = ""
    condition: str = ""
    negated: bool = False
    other: str = ""
    loop: str = ""
    guarded: bool = True
    width: int = 1


CHOICES: Choices = {
    "row": ("own",) * 6 + ("reversed", "next", "flipped", "first", "loaded", "loaded_lane"),
    "stride": ("lanes",) * 6 + ("twice", "wider", "one", "hundred"),
    "column": ("lane",) * 4 + ("mirror", "xor", "rotated", "digits", "twice", "half", "zero", "counter",
                               "counter_and_lane", "carried"),
    "offset": ("",) * 5 + ("one", "three", "z_group", "z_first", "z_lane", "z_row"),
    "dtype": ("u32",) * 6 + ("u8", "u8_wide", "i8", "u16", "i16", "i32", "u64"),
    "scale": (1,) * 6 + (3, 37, 64, 100),
    "clamp": ("",) * 5 + ("min", "max", "rem", "select", "sub_sat", "and"),
    "condition": ("",) * 5 + ("low_lane", "one_lane", "one_group", "low_groups", "low_ids", "odd_lane",
                              "z_group", "z_first", "z_lane", "counter", "length"),
    "negated": (False, False, True),
    "other": ("",) * 8 + ("low_lane", "one_group", "z_group", "odd_lane"),
    "loop": ("",) * 5 + ("two", "lanes", "by_lane", "by_group", "from_lane", "z_group", "z_lane",
                         "strided", "while_lane"),
    "guarded": (True, True, False),
    "width": (1,) * 9 + (2,),
}  # fmt: skip

SIMPLE = {"offset": "", "clamp": "", "condition": "", "other": "", "loop": "", "dtype": "u32", "scale": 1}


AIMS: Mapping[str, tuple[dict[str, tuple[Any, ...]], ...]] = {
    "anything": ({},),
    # what is loaded says where, whether or how often
    "control": (
        {"offset": ("z_group", "z_row", "z_first", "z_lane")},
        {"row": ("loaded",)},
        {"condition": ("z_group", "z_group", "z_first", "z_lane")},
        {"loop": ("z_group", "z_lane"), "column": ("counter", "counter_and_lane", "carried")},
    ),
    # an index that passes the end of its type; a guard would compare it after it has
    "wrap": (
        {
            "dtype": ("u8", "u8", "i8", "u16"),
            "scale": (3, 37, 64, 100),
            "stride": ("lanes", "hundred"),
            "guarded": (False,),
            **dict.fromkeys(("clamp", "loop", "condition", "other", "offset"), ("",)),
        },
        {
            "dtype": ("u8", "u8_wide", "i8"),
            "stride": ("hundred",),
            "scale": (1, 3),
            "row": ("own", "reversed"),
        },
    ),
}
"""What a pipeline aims at: parts that its recipes have, one of these sets of them."""


@dataclass(frozen=True, slots=True)
class _Recipes:
    """Draws recipes for a pipeline that aims at something."""

    rng: random.Random
    aim: str

    def any(self) -> Recipe:
        """Most parts plain, so that many pipelines run without a fault."""
        rng = self.rng
        drawn = {name: rng.choice(some) for name, some in CHOICES.items()}
        plain = {name: value for name, value in SIMPLE.items() if rng.random() < 0.6}
        aimed = rng.choice(AIMS[self.aim])
        return Recipe(**{**drawn, **plain, **{name: rng.choice(some) for name, some in aimed.items()}})

    def near(self, recipe: Recipe | None) -> Recipe:
        """The same recipe, or with one part changed, or any."""
        rng, chance = self.rng, self.rng.random()
        if recipe is None or chance > 0.85:
            return self.any()
        if chance < 0.5:
            return recipe
        part = rng.choice(fields(recipe)).name
        return replace(recipe, **{part: rng.choice(CHOICES[part])})


class _Body:
    """The text of a program's body, one op a line."""

    def __init__(self, shape: LaneShape, rng: random.Random, controls: tuple[str, ...]) -> None:
        self.shape, self.rng, self.controls = shape, rng, controls
        self.lines: list[str] = []
        self.names = 0
        self.used: set[str] = set()
        """Control buffers that are loaded."""
        width = shape.lanes[0]
        if shape.lanes[1] == 1 and shape.groups[1] == 1:
            self.lane, self.group = self.op("local_id x"), self.op("workgroup_id x")
            self.id = self.op("global_id x")
        else:
            x, y = self.op("local_id x"), self.op("local_id y")
            self.lane = self.add(self.mul(y, width), x)
            x, y = self.op("workgroup_id x"), self.op("workgroup_id y")
            self.group = self.add(self.mul(y, shape.groups[0]), x)
            self.id = self.add(self.mul(self.group, shape.size), self.lane)

    # --- ops

    def op(self, text: str) -> str:
        self.names += 1
        name = f"%v{self.names}"
        self.lines.append(f"{name} = {text}")
        return name

    def const(self, number: int, dtype: str = "u32") -> str:
        return self.op(f"const {number} : {dtype}")

    def two(self, kind: str, a: str, b: str | int, dtype: str = "u32") -> str:
        """An op of two operands."""
        return self.op(f"{kind} {a}, {self.const(b, dtype) if isinstance(b, int) else b} : {dtype}")

    def add(self, a: str, b: str | int) -> str:
        return self.two("add", a, b)

    def mul(self, a: str, b: str | int) -> str:
        return self.two("mul", a, b)

    def control(self, index: str) -> str:
        """A value of a control buffer, as u32."""
        name = self.rng.choice(self.controls)
        self.used.add(name)
        return self.op(f"load @{name}[{index}] : u32")

    # --- the parts of a recipe

    def row(self, kind: str) -> str:
        groups, group = self.shape.count, self.group
        if kind == "reversed":
            return self.two("sub", self.const(groups - 1), group)
        if kind == "next":
            return self.two("rem", self.add(group, 1), groups)
        if kind == "flipped":
            return self.two("xor", group, 1)
        if kind == "first":
            return self.const(0)
        if kind == "loaded":
            return self.control(group)
        return self.control(self.lane) if kind == "loaded_lane" else group

    def stride(self, kind: str) -> int:
        size = self.shape.size
        return {"lanes": size, "twice": 2 * size, "wider": size + 1, "one": 1, "hundred": 100}[kind]

    def column(self, kind: str, counter: str | None, carried: str | None) -> str:
        size, lane = self.shape.size, self.lane
        if kind == "mirror":
            return self.two("sub", self.const(size - 1), lane)
        if kind == "xor":
            return self.two("xor", lane, self.rng.choice((1, size - 1)))
        if kind == "rotated":
            return self.two("rem", self.add(lane, 1), size)
        if kind == "digits":  # a transposition of 2 columns
            return self.add(self.mul(self.two("rem", lane, 2), size // 2), self.two("div", lane, 2))
        if kind == "twice":
            return self.mul(lane, 2)
        if kind == "half":
            return self.two("shr", lane, 1)
        if kind == "zero":
            return self.const(0)
        if kind == "counter" and counter:
            return counter
        if kind == "counter_and_lane" and counter:
            return self.add(self.mul(counter, self.rng.choice((1, size))), lane)
        return carried if kind == "carried" and carried else lane

    def offset(self, kind: str) -> str | None:
        if kind in ("one", "three"):
            return self.const({"one": 1, "three": 3}[kind])
        if kind == "z_row":
            return self.mul(self.control(self.group), self.shape.size)
        places = {"z_group": self.group, "z_lane": self.lane}
        if kind == "z_first":
            return self.control(self.const(0))
        return self.control(places[kind]) if kind in places else None

    def index(self, recipe: Recipe, buffer: str, counter: str | None, carried: str | None) -> tuple[str, str]:
        """The index and its type."""
        row, column = self.row(recipe.row), self.column(recipe.column, counter, carried)
        dtype = recipe.dtype.removesuffix("_wide")
        stride = self.stride(recipe.stride)
        if dtype == "u32":
            found = self.add(self.mul(row, stride), column)
            offset = self.offset(recipe.offset)
            found = found if offset is None else self.add(found, offset)
            found = found if recipe.scale == 1 else self.mul(found, recipe.scale)
        else:
            parts = [self.op(f"cast {value} : u32 -> {dtype}") for value in (row, column)]
            limit = 1 << (int(dtype[1:]) - (dtype[0] == "i"))
            rows = self.two("mul", parts[0], stride % limit, dtype)
            found = self.two("add", rows, parts[1], dtype)
            offset = self.offset(recipe.offset)
            if offset is not None:
                found = self.two("add", found, self.op(f"cast {offset} : u32 -> {dtype}"), dtype)
            found = found if recipe.scale == 1 else self.two("mul", found, recipe.scale, dtype)
            if recipe.dtype.endswith("_wide"):
                found, dtype = self.op(f"cast {found} : {dtype} -> u32"), "u32"
        if recipe.width > 1:
            found = self.two("mul", found, recipe.width, dtype)
        return (self.clamp(recipe.clamp, found, buffer), "u32") if dtype == "u32" else (found, dtype)

    def clamp(self, kind: str, index: str, buffer: str) -> str:
        if not kind:
            return index
        length = self.op(f"len @{buffer}")
        last = self.two("sub", length, 1)
        if kind == "min":
            return self.two("min", index, last)
        if kind == "max":
            return self.two("sub", self.two("max", index, 1), 1)
        if kind == "rem":
            return self.two("rem", index, length)
        if kind == "and":
            return self.two("and", index, 7)
        if kind == "sub_sat":
            return self.two("sub_sat", index, 1)
        fits = self.two("lt", index, length)
        return self.op(f"select {fits}, {index}, {self.id} : u32")

    def condition(self, kind: str, buffer: str, counter: str | None) -> str | None:
        size, groups = self.shape.size, self.shape.count
        if kind == "low_lane":
            return self.two("lt", self.lane, self.rng.choice((1, size // 2, size - 1)))
        if kind == "one_lane":
            return self.two("eq", self.lane, self.rng.choice((0, size - 1)))
        if kind == "one_group":
            return self.two("eq", self.group, self.rng.randrange(groups))
        if kind == "low_groups":
            return self.two("lt", self.group, max(1, groups - 1))
        if kind == "low_ids":
            return self.two("lt", self.id, size * groups - self.rng.choice((1, 2, size)))
        if kind == "odd_lane":
            return self.two("eq", self.two("and", self.lane, 1), 0)
        if kind == "counter":
            return self.two("lt", counter, 2) if counter else None
        if kind == "length":
            return self.two("lt", self.id, self.op(f"len @{buffer}"))
        places = {"z_group": self.group, "z_lane": self.lane}
        if kind == "z_first":
            return self.two("eq", self.control(self.const(0)), 0)
        return self.two("eq", self.control(places[kind]), 0) if kind in places else None

    def conditions(self, recipe: Recipe, buffer: str, counter: str | None) -> list[str]:
        found = []
        for kind, negated in ((recipe.condition, recipe.negated), (recipe.other, False)):
            condition = self.condition(kind, buffer, counter) if kind else None
            if condition is not None:
                found.append(self.op(f"not {condition} : bool") if negated else condition)
        return found

    def loop(self, kind: str) -> str | None:
        """The head of a `for`, less the values that it carries."""
        size = self.shape.size
        upper = {
            "two": "2",
            "lanes": str(size),
            "by_lane": self.add(self.lane, 1) if kind == "by_lane" else "",
            "by_group": self.add(self.group, 1) if kind == "by_group" else "",
            "from_lane": str(size),
            "z_group": self.control(self.group) if kind == "z_group" else "",
            "z_lane": self.control(self.lane) if kind == "z_lane" else "",
            "strided": str(2 * size),
        }.get(kind)
        if upper is None:
            return None
        lower = self.lane if kind in ("from_lane", "strided") else "0"
        return f"{lower} to {upper} step {size if kind == 'strided' else self.rng.choice((1, 1, 2))}"

    # --- accesses

    def nested(self, recipe: Recipe, buffer: str, leaf: Any, start: str) -> str:
        """`leaf(counter, carried)` in the loop and under the conditions of a recipe; the u32 it gives.

        A condition that does not hold gives `start`; a loop hands on what `leaf` gave.
        """
        head = self.loop(recipe.loop)
        if recipe.loop == "while_lane":
            return self.while_lane(recipe, buffer, leaf, start)
        if head is None:
            return self.under(recipe, buffer, leaf, None, start)
        self.names += 1
        name, counter, carried = f"%v{self.names}", f"%k{self.names}", f"%a{self.names}"
        self.lines.append(f"{name} = for {counter} = {head} iter({carried} = {start} : u32) {{")
        result = self.under(recipe, buffer, leaf, counter, carried)
        self.lines += [f"yield {result}", "}"]
        return name

    def while_lane(self, recipe: Recipe, buffer: str, leaf: Any, start: str) -> str:
        """As many rounds as the lane's number."""
        zero = self.const(0)
        self.names += 1
        n = self.names
        self.lines.append(f"%w{n}, %v{n} = while iter(%j{n} = {zero} : u32, %a{n} = {start} : u32) {{")
        more = self.two("lt", f"%j{n}", self.lane)
        self.lines += [f"condition {more}", "} do {"]
        result = self.under(recipe, buffer, leaf, f"%j{n}", f"%a{n}")
        following = self.add(f"%j{n}", 1)
        self.lines += [f"yield {following}, {result}", "}"]
        return f"%v{n}"

    def under(self, recipe: Recipe, buffer: str, leaf: Any, counter: str | None, carried: str) -> str:
        conditions = self.conditions(recipe, buffer, counter)
        index, dtype = self.index(recipe, buffer, counter, carried)
        if recipe.guarded:
            place = index if dtype == "u32" else self.op(f"cast {index} : {dtype} -> u32")
            last = self.add(place, recipe.width - 1) if recipe.width > 1 else place
            conditions.append(self.two("lt", last, self.op(f"len @{buffer}")))
        results = []
        for condition in conditions:
            self.names += 1
            results.append(f"%v{self.names}")
            self.lines.append(f"{results[-1]} = if {condition} -> u32 {{")
        inner: str = leaf(index, counter, carried)
        for result in reversed(results):
            self.lines += [f"yield {inner}", "} else {", f"yield {carried}", "}"]
            inner = result
        return inner

    def load(self, recipe: Recipe, buffer: str, dtype: str, start: str) -> str:
        def leaf(index: str, counter: str | None, carried: str) -> str:
            if recipe.width > 1:
                pair = self.op(f"load @{buffer}[{index}] : vec<{recipe.width} x {dtype}>")
                lanes = [self.op(f"extract {pair}[{i}] : vec<{recipe.width} x {dtype}>") for i in (0, 1)]
                loaded = self.two("xor", lanes[0], lanes[1], dtype)
            else:
                loaded = self.op(f"load @{buffer}[{index}] : {dtype}")
            wide = loaded if dtype == "u32" else self.op(f"cast {loaded} : {dtype} -> u32")
            return self.add(self.mul(carried, 3), wide)

        return self.nested(recipe, buffer, leaf, start)

    def store(self, recipe: Recipe, buffer: str, dtype: str, value: str) -> None:
        def leaf(index: str, counter: str | None, carried: str) -> str:
            stored = self.add(carried, counter) if counter else carried
            narrow = stored if dtype == "u32" else self.op(f"cast {stored} : u32 -> {dtype}")
            if recipe.width > 1:
                pair = self.op(f"splat {narrow} : vec<{recipe.width} x {dtype}>")
                self.lines.append(f"store {pair}, @{buffer}[{index}] : vec<{recipe.width} x {dtype}>")
            else:
                self.lines.append(f"store {narrow}, @{buffer}[{index}] : {dtype}")
            return stored

        self.nested(recipe, buffer, leaf, value)


@dataclass(frozen=True, slots=True)
class _Launch:
    """A launch of the program `name` with the pipeline's `buffers`."""

    name: str
    text: str
    buffers: tuple[str, ...]
    shape: LaneShape

    def __str__(self) -> str:
        x, y = self.shape.groups
        grid = f"{x}" if y == 1 else f"{x}, {y}"
        return f"launch @{self.name} grid({grid}) ({', '.join(f'@{b}' for b in self.buffers)})"


@dataclass(slots=True)
class _Draft:
    """A pipeline in the making.

    `counts`, `dtypes`: of its buffers.  `last`: by buffer, the recipe by which it was written last.
    """

    rng: random.Random
    recipes: _Recipes
    shape: LaneShape
    counts: dict[str, int]
    dtypes: dict[str, str]
    inputs: dict[str, np.ndarray[Any, Any]]
    launches: list[_Launch] = field(default_factory=list)
    last: dict[str, Recipe] = field(default_factory=dict)
    made: list[str] = field(default_factory=lambda: ["x"])

    def launch(
        self, body: _Body, formals: list[tuple[str, str]], own: list[str], shape: LaneShape
    ) -> _Launch:
        """`formals`: the buffer that is passed and the declaration, for each that is bound."""
        name = f"p{len(self.launches)}"
        x, y = shape.lanes
        size = f"{x}" if y == 1 else f"{x}, {y}"
        declared = [f"buffer {text} binding({at})" for at, (_, text) in enumerate(formals)]
        lines = "\n  ".join([*declared, *own, *body.lines])
        text = f"program @{name} workgroup({size}) {{\n  {lines}\n}}\n"
        return _Launch(name, text, tuple(passed for passed, _ in formals), shape)

    def runs(self, launch: _Launch) -> bool:
        """Whether a launch alone runs without a fault, where all that it reads has been written."""
        module = parse("vyre 1\n" + launch.text)
        given = [self.inputs[name] for name in launch.buffers]
        try:
            _REF.dispatch(module.programs[launch.name], given, launch.shape.groups)
        except DispatchError:
            return False
        return True


CONTROLS = ("z0", "z1")
TEMPORARIES = ("m0", "m1", "m2")
NUMBERS = ([0, 1], [0, 4], [0, 0, 8], [1, 2, 3], [0, 4, 8, 12], [0], [0, 1, 2, 3, 4, 8])
"""What control buffers hold at first."""
SHAPES = (
    LaneShape((4, 1), (2, 1)), LaneShape((4, 1), (3, 1)), LaneShape((8, 1), (2, 1)), LaneShape((4, 1), (4, 1)),
    LaneShape((4, 2), (2, 1)), LaneShape((2, 2), (2, 2)), LaneShape((4, 1), (2, 2)), LaneShape((64, 1), (2, 1)),
)  # fmt: skip


def draw(seed: int) -> tuple[str, dict[str, np.ndarray[Any, Any]]]:
    """The text of a pipeline @main that may be at fault, and an array for each buffer that takes one."""
    rng = random.Random(seed)
    aim = rng.choice(tuple(AIMS))
    shape = rng.choice(SHAPES)
    whole = shape.size * shape.count
    sizes = [*(whole,) * 5, whole - 1, whole - shape.size, 2 * whole, 3 * whole, 512]
    if aim == "wrap":
        sizes += [512] * 10
    names = ("x", "y", *TEMPORARIES)
    counts = {name: rng.choice(sizes) for name in names} | dict.fromkeys(CONTROLS, whole)
    dtypes = {name: rng.choice(("u32", "u32", "u32", "u8", "u16")) for name in names}
    dtypes |= dict.fromkeys(CONTROLS, "u32")
    draft = _Draft(rng, _Recipes(rng, aim), shape, counts, dtypes, _inputs(counts, dtypes, seed))
    held = {name for name in TEMPORARIES if rng.random() < (0.8 if aim == "wrap" else 0.35)}
    stages = _stages(draft, held)
    head = [f"buffer @x : {dtypes['x']}[{counts['x']}] read"]
    for name in (*CONTROLS, *TEMPORARIES, "y"):
        flags = "" if name in TEMPORARIES and name not in held else " live_in live_out"
        head.append(f"buffer @{name} : {dtypes[name]}[{counts[name]}]{flags}")
    programs = {launch.name: launch.text for launch in draft.launches}
    body = "\n  ".join([*head, *stages])
    given = {name: array for name, array in draft.inputs.items() if name not in TEMPORARIES or name in held}
    return "vyre 1\n" + "".join(programs.values()) + f"pipeline @main {{\n  {body}\n}}\n", given


def _inputs(
    counts: Mapping[str, int], dtypes: Mapping[str, str], seed: int
) -> dict[str, np.ndarray[Any, Any]]:
    """Control buffers of small numbers, others of any."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for name, count in counts.items():
        if name in CONTROLS:
            numbers = rng.choice(NUMBERS[int(rng.integers(len(NUMBERS)))], count)
        else:
            numbers = rng.integers(0, 1 << 32, count, np.uint64)
        arrays[name] = numbers.astype({"u32": np.uint32, "u16": np.uint16, "u8": np.uint8}[dtypes[name]])
    return arrays


def _stages(draft: _Draft, held: set[str]) -> list[str]:
    rng = draft.rng
    stages: list[str] = []
    for _ in range(rng.choice((2, 2, 3, 3, 4))):
        stages.append(str(_stage(draft, held)))
        chance = rng.random()
        if chance < (0.8 if draft.recipes.aim == "control" else 0.4):
            stages.append(str(_control_change(draft)))
        elif chance > 0.95 and draft.made[-1] != "x":
            stages.append(f"host_read @{draft.made[-1]}")
    if rng.random() < 0.15:
        stages.append(str(rng.choice(draft.launches)))
    if rng.random() < 0.12:
        at = rng.randrange(len(stages))
        stages[at:] = ["repeat 2 {", *stages[at:], "}"]
    return stages


def _stage(draft: _Draft, held: set[str]) -> _Launch:
    """A launch that reads what was written, and writes the next buffer; the first drawn that runs alone."""
    rng = draft.rng
    target = rng.choice((*TEMPORARIES, *TEMPORARIES, "y"))
    known = [name for name in (*draft.made, *sorted(held)) if name != target]
    for _ in range(MAX_LAUNCHES):
        recipe, launch = _drawn(draft, target, known, held)
        if draft.runs(launch):
            break
    draft.last[target] = recipe
    draft.made = [*(name for name in draft.made if name != target), target]
    draft.launches.append(launch)
    return launch


def _drawn(draft: _Draft, target: str, known: list[str], held: set[str]) -> tuple[Recipe, _Launch]:
    """A launch that writes `target`, and the recipe by which it does."""
    rng, recipes, shape = draft.rng, draft.recipes, draft.shape
    if rng.random() < 0.07:
        (width, _), (x, y) = shape.lanes, shape.groups
        shape = rng.choice((LaneShape(shape.lanes, (max(1, x - 1), y)), LaneShape((2 * width, 1), (x, y))))
    sources = [known[-1] if rng.random() < 0.75 else rng.choice(known)]
    if rng.random() < 0.25:
        sources.append(rng.choice(known))  # perhaps one array twice
    body = _Body(shape, rng, CONTROLS[: rng.choice((1, 1, 1, 2))])
    value = body.add(body.id, body.mul(body.lane, 7))
    formals: list[tuple[str, str]] = []
    for at, name in enumerate(sources):
        recipe = recipes.near(draft.last.get(name))
        if recipes.aim == "wrap" and rng.random() < 0.5:
            recipe = replace(recipe, dtype="u32")  # where the index would be if it did not wrap
        value = body.load(recipe, f"in{at}", draft.dtypes[name], value)
        formals.append((name, f"@in{at} : {draft.dtypes[name]}[?] read"))
    own: list[str] = []
    if rng.random() < 0.25:
        value, own = _own_handoff(recipes, body, value)
    recipe = recipes.near(draft.last.get(sources[0])) if rng.random() < 0.7 else recipes.any()
    body.store(recipe, "out", draft.dtypes[target], value)
    if rng.random() < (0.5 if recipes.aim == "wrap" else 0.1):
        row = rng.choice(("reversed", "next", recipe.row))
        other = replace(recipes.near(recipe), dtype="u32", row=row, other="one_group")
        body.store(other, "out", draft.dtypes[target], body.add(value, 1))
    access = rng.choice(("write live_out",) * 3 + ("read_write live_in live_out", "read_write live_out"))
    if target in TEMPORARIES and target not in held and rng.random() < 0.05:
        access = "read_write"  # what it leaves there is nobody's
    formals.append((target, f"@out : {draft.dtypes[target]}[?] {access}"))
    formals += [(name, f"@{name} : u32[?] read") for name in sorted(body.used)]
    return recipe, draft.launch(body, formals, own, shape)


def _own_handoff(recipes: _Recipes, body: _Body, value: str) -> tuple[str, list[str]]:
    """Values handed over within the program, through storage or a workgroup buffer."""
    rng = recipes.rng
    name, dtype, recipe = "own", rng.choice(("u32", "u32", "u16")), recipes.any()
    body.store(recipe, name, dtype, value)
    if rng.random() < 0.8:
        body.lines.append("barrier workgroup")
    value = body.load(recipes.near(recipe), name, dtype, value)
    if rng.random() < 0.15:
        body.lines.append("barrier workgroup")
        body.store(recipes.near(recipe), name, dtype, value)
    kind, count = rng.choice((("read_write", 512), ("read_write", 4096), ("workgroup", 64)))
    return value, [f"buffer @{name} : {dtype}[{count}] {kind}"]


def _control_change(draft: _Draft) -> _Launch:
    """A launch that changes a control buffer: by one lane or all, to other small numbers."""
    rng, shape = draft.rng, draft.shape
    body = _Body(shape, rng, ())
    kind = rng.choice(("group", "group", "group", "lane", "first"))
    index = {"group": body.group, "lane": body.id, "first": body.const(0)}[kind]
    test, who, number = {
        "group": ("eq", body.lane, 0),
        "lane": ("lt", body.lane, shape.size),
        "first": ("eq", body.id, 0),
    }[kind]
    body.lines.append(f"if {body.two(test, who, number)} {{")
    if rng.random() < 0.6:
        old = body.op(f"load @z[{index}] : u32")
        change = rng.randrange(4)
        if change == 0:
            new = body.two("sub", body.const(shape.size), old)
        elif change == 1:
            new = body.two("rem", body.add(old, 1), 3)
        else:
            new = body.two("xor", old, (1, shape.size)[change - 2])
    else:
        new = body.const(rng.choice((0, 1, 2, shape.size)))
    body.lines += [f"store {new}, @z[{index}] : u32", "}"]
    formals = [(rng.choice((*CONTROLS[:1] * 3, *CONTROLS)), "@z : u32[?] read_write live_in live_out")]
    launch = draft.launch(body, formals, [], shape)
    draft.launches.append(launch)
    return launch


@dataclass(frozen=True, slots=True)
class Drawn:
    """A pipeline that runs on ref without a fault, and its inputs."""

    text: str
    module: Module
    inputs: dict[str, np.ndarray[Any, Any]]


def adversarial_pipeline(seed: int) -> Drawn:
    """The pipeline of a seed.  Raises RuntimeError if none of MAX_DRAWS texts runs without a fault."""
    for number in range(MAX_DRAWS):
        text, inputs = draw(seed * MAX_DRAWS + number)
        module = parse(text)
        try:
            compile_module(module, "main", _REF, {})(inputs)
        except DispatchError:
            continue
        return Drawn(text, module, inputs)
    raise RuntimeError(f"seed {seed}: none of {MAX_DRAWS} pipelines runs without a fault")
