"""Random pipelines that aim at the proofs of fusion; only running one tells whether it is valid.

A pipeline is a chain of launches, each of which reads buffers that launches before it wrote.  Each access
follows a random *recipe*: how the index is computed, under which condition and in which loop.  A reader
mostly uses the recipe of the buffer's writer, or that recipe with one part changed, so that what fusion
must prove of the two is nearly true and sometimes false:

    row, column    which elements: the own workgroup's or another's, in which order of lanes
    offset         moved by a constant, or by a value loaded from a control buffer @z
    type           the index computed in u8, i8, u16, i16, where it wraps, or in i32 and u64
    clamp          by min, max, rem, select or sub_sat, mostly against the length
    condition      on lane, workgroup, parity or a loaded flag; negated, or two at once
    loop           trip counts that are constant, differ by lane or workgroup, or are loaded

Between them come launches that change the control buffers, so that producer and consumer load different
offsets, flags or lengths.  Launches are repeated, grids are smaller and larger than the buffers, workgroups
and grids have two dimensions, the host reads in between, one array is passed twice.

Nothing here decides which launches and pipelines are valid: candidates are generated until one runs without
a fault on the interpreter, which checks races, bounds and reads of unwritten elements.  So the generator
shares no reasoning with the proofs that it tests.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from vyre_opt.driver.compile import compile_module
from vyre_opt.execution import DispatchError
from vyre_opt.ir import Module, parse
from vyre_opt.targets.ref import RefDispatcher

__all__ = ["AdversarialPipeline", "adversarial_pipeline", "candidate"]

MAX_CANDIDATES = 60
MAX_LAUNCHES = 12
_REF = RefDispatcher(max_steps=20_000)  # a loaded trip count may be anything
Choices = Mapping[str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class LaunchShape:
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
    """How the index of an access is computed, and the control flow around it; CHOICES has all values."""

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

# What makes an access plain; `_Recipes.any` mostly takes these.
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
"""Aim of a pipeline -> the sets of values for parts; each recipe draws from one of its aim's sets."""


@dataclass(frozen=True, slots=True)
class _Recipes:
    """Random recipes for a pipeline whose aim is a key of AIMS."""

    rng: random.Random
    aim: str

    def any(self) -> Recipe:
        """Any recipe; most parts are plain, so that many pipelines run without a fault."""
        rng = self.rng
        parts = {name: rng.choice(values) for name, values in CHOICES.items()}
        plain = {name: value for name, value in SIMPLE.items() if rng.random() < 0.6}
        aimed = rng.choice(AIMS[self.aim])
        return Recipe(**{**parts, **plain, **{name: rng.choice(values) for name, values in aimed.items()}})

    def near(self, recipe: Recipe | None) -> Recipe:
        """The same recipe, or with one part changed, or any."""
        rng, chance = self.rng, self.rng.random()
        if recipe is None or chance > 0.85:
            return self.any()
        if chance < 0.5:
            return recipe
        part = rng.choice(fields(recipe)).name
        return replace(recipe, **{part: rng.choice(CHOICES[part])})


Leaf = Callable[[str, str | None, str], str]
"""Writes the access itself: takes the index, the loop's counter and the value carried so far; gives a u32."""


class _Body:
    """The text of a program's body, one op a line."""

    def __init__(self, shape: LaunchShape, rng: random.Random, controls: tuple[str, ...]) -> None:
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

    def binary(self, kind: str, a: str, b: str | int, dtype: str = "u32") -> str:
        """An op of two operands, the second a value or a constant of `dtype`."""
        return self.op(f"{kind} {a}, {self.const(b, dtype) if isinstance(b, int) else b} : {dtype}")

    def add(self, a: str, b: str | int) -> str:
        return self.binary("add", a, b)

    def mul(self, a: str, b: str | int) -> str:
        return self.binary("mul", a, b)

    def control(self, index: str) -> str:
        """A value of a control buffer, as u32."""
        name = self.rng.choice(self.controls)
        self.used.add(name)
        return self.op(f"load @{name}[{index}] : u32")

    # --- the parts of a recipe

    def row(self, kind: str) -> str:
        groups, group = self.shape.count, self.group
        if kind == "reversed":
            return self.binary("sub", self.const(groups - 1), group)
        if kind == "next":
            return self.binary("rem", self.add(group, 1), groups)
        if kind == "flipped":
            return self.binary("xor", group, 1)
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
            return self.binary("sub", self.const(size - 1), lane)
        if kind == "xor":
            return self.binary("xor", lane, self.rng.choice((1, size - 1)))
        if kind == "rotated":
            return self.binary("rem", self.add(lane, 1), size)
        if kind == "digits":  # a transposition of 2 columns
            return self.add(self.mul(self.binary("rem", lane, 2), size // 2), self.binary("div", lane, 2))
        if kind == "twice":
            return self.mul(lane, 2)
        if kind == "half":
            return self.binary("shr", lane, 1)
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
            index = self.add(self.mul(row, stride), column)
            offset = self.offset(recipe.offset)
            index = index if offset is None else self.add(index, offset)
            index = index if recipe.scale == 1 else self.mul(index, recipe.scale)
        else:
            parts = [self.op(f"cast {value} : u32 -> {dtype}") for value in (row, column)]
            limit = 1 << (int(dtype[1:]) - (dtype[0] == "i"))
            rows = self.binary("mul", parts[0], stride % limit, dtype)
            index = self.binary("add", rows, parts[1], dtype)
            offset = self.offset(recipe.offset)
            if offset is not None:
                index = self.binary("add", index, self.op(f"cast {offset} : u32 -> {dtype}"), dtype)
            index = index if recipe.scale == 1 else self.binary("mul", index, recipe.scale, dtype)
            if recipe.dtype.endswith("_wide"):
                index, dtype = self.op(f"cast {index} : {dtype} -> u32"), "u32"
        if recipe.width > 1:
            index = self.binary("mul", index, recipe.width, dtype)
        return (self.clamp(recipe.clamp, index, buffer), "u32") if dtype == "u32" else (index, dtype)

    def clamp(self, kind: str, index: str, buffer: str) -> str:
        if not kind:
            return index
        length = self.op(f"len @{buffer}")
        last = self.binary("sub", length, 1)
        if kind == "min":
            return self.binary("min", index, last)
        if kind == "max":
            return self.binary("sub", self.binary("max", index, 1), 1)
        if kind == "rem":
            return self.binary("rem", index, length)
        if kind == "and":
            return self.binary("and", index, 7)
        if kind == "sub_sat":
            return self.binary("sub_sat", index, 1)
        fits = self.binary("lt", index, length)
        return self.op(f"select {fits}, {index}, {self.id} : u32")

    def condition(self, kind: str, buffer: str, counter: str | None) -> str | None:
        size, groups = self.shape.size, self.shape.count
        if kind == "low_lane":
            return self.binary("lt", self.lane, self.rng.choice((1, size // 2, size - 1)))
        if kind == "one_lane":
            return self.binary("eq", self.lane, self.rng.choice((0, size - 1)))
        if kind == "one_group":
            return self.binary("eq", self.group, self.rng.randrange(groups))
        if kind == "low_groups":
            return self.binary("lt", self.group, max(1, groups - 1))
        if kind == "low_ids":
            return self.binary("lt", self.id, size * groups - self.rng.choice((1, 2, size)))
        if kind == "odd_lane":
            return self.binary("eq", self.binary("and", self.lane, 1), 0)
        if kind == "counter":
            return self.binary("lt", counter, 2) if counter else None
        if kind == "length":
            return self.binary("lt", self.id, self.op(f"len @{buffer}"))
        places = {"z_group": self.group, "z_lane": self.lane}
        if kind == "z_first":
            return self.binary("eq", self.control(self.const(0)), 0)
        return self.binary("eq", self.control(places[kind]), 0) if kind in places else None

    def conditions(self, recipe: Recipe, buffer: str, counter: str | None) -> list[str]:
        conditions = []
        for kind, negated in ((recipe.condition, recipe.negated), (recipe.other, False)):
            condition = self.condition(kind, buffer, counter) if kind else None
            if condition is not None:
                conditions.append(self.op(f"not {condition} : bool") if negated else condition)
        return conditions

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

    def nested(self, recipe: Recipe, buffer: str, leaf: Leaf, start: str) -> str:
        """The access that `leaf` writes, in the loop and under the conditions of a recipe; its u32 result.

        The result is `start` where a condition does not hold; a loop carries it from round to round.
        """
        head = self.loop(recipe.loop)
        if recipe.loop == "while_lane":
            return self.while_lane(recipe, buffer, leaf, start)
        if head is None:
            return self.under_conditions(recipe, buffer, leaf, None, start)
        self.names += 1
        name, counter, carried = f"%v{self.names}", f"%k{self.names}", f"%a{self.names}"
        self.lines.append(f"{name} = for {counter} = {head} iter({carried} = {start} : u32) {{")
        result = self.under_conditions(recipe, buffer, leaf, counter, carried)
        self.lines += [f"yield {result}", "}"]
        return name

    def while_lane(self, recipe: Recipe, buffer: str, leaf: Leaf, start: str) -> str:
        """A while of as many rounds as the lane's number, so that lanes leave it one by one."""
        zero = self.const(0)
        self.names += 1
        n = self.names
        self.lines.append(f"%w{n}, %v{n} = while iter(%j{n} = {zero} : u32, %a{n} = {start} : u32) {{")
        more = self.binary("lt", f"%j{n}", self.lane)
        self.lines += [f"condition {more}", "} do {"]
        result = self.under_conditions(recipe, buffer, leaf, f"%j{n}", f"%a{n}")
        following = self.add(f"%j{n}", 1)
        self.lines += [f"yield {following}, {result}", "}"]
        return f"%v{n}"

    def under_conditions(
        self, recipe: Recipe, buffer: str, leaf: Leaf, counter: str | None, carried: str
    ) -> str:
        conditions = self.conditions(recipe, buffer, counter)
        index, dtype = self.index(recipe, buffer, counter, carried)
        if recipe.guarded:
            place = index if dtype == "u32" else self.op(f"cast {index} : {dtype} -> u32")
            last = self.add(place, recipe.width - 1) if recipe.width > 1 else place
            conditions.append(self.binary("lt", last, self.op(f"len @{buffer}")))
        results = []
        for condition in conditions:
            self.names += 1
            results.append(f"%v{self.names}")
            self.lines.append(f"{results[-1]} = if {condition} -> u32 {{")
        inner = leaf(index, counter, carried)
        for result in reversed(results):
            self.lines += [f"yield {inner}", "} else {", f"yield {carried}", "}"]
            inner = result
        return inner

    def load(self, recipe: Recipe, buffer: str, dtype: str, start: str) -> str:
        def leaf(index: str, counter: str | None, carried: str) -> str:
            if recipe.width > 1:
                pair = self.op(f"load @{buffer}[{index}] : vec<{recipe.width} x {dtype}>")
                lanes = [self.op(f"extract {pair}[{i}] : vec<{recipe.width} x {dtype}>") for i in (0, 1)]
                loaded = self.binary("xor", lanes[0], lanes[1], dtype)
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
    shape: LaunchShape

    def __str__(self) -> str:
        x, y = self.shape.groups
        grid = f"{x}" if y == 1 else f"{x}, {y}"
        return f"launch @{self.name} grid({grid}) ({', '.join(f'@{b}' for b in self.buffers)})"


@dataclass(slots=True)
class _Draft:
    """A pipeline while its launches are added one by one.

    `counts`, `dtypes`: elements and element type of each buffer.  `last`: the recipe of each buffer's last
    store.  `written`: @x and the buffers that launches write, the last written at the end.
    """

    rng: random.Random
    recipes: _Recipes
    shape: LaunchShape
    counts: dict[str, int]
    dtypes: dict[str, str]
    inputs: dict[str, np.ndarray[Any, Any]]
    launches: list[_Launch] = field(default_factory=list)
    last: dict[str, Recipe] = field(default_factory=dict)
    written: list[str] = field(default_factory=lambda: ["x"])

    def launch(
        self, body: _Body, formals: list[tuple[str, str]], declarations: list[str], shape: LaunchShape
    ) -> _Launch:
        """`formals`: for each bound buffer, the pipeline's buffer and the program's declaration of it.
        `declarations`: of the program's unbound buffers."""
        name = f"p{len(self.launches)}"
        x, y = shape.lanes
        size = f"{x}" if y == 1 else f"{x}, {y}"
        bound = [f"buffer {text} binding({at})" for at, (_, text) in enumerate(formals)]
        lines = "\n  ".join([*bound, *declarations, *body.lines])
        text = f"program @{name} workgroup({size}) {{\n  {lines}\n}}\n"
        return _Launch(name, text, tuple(passed for passed, _ in formals), shape)

    def runs(self, launch: _Launch) -> bool:
        """Whether a launch alone runs without a fault, given contents for all that it reads."""
        module = parse("vyre 1\n" + launch.text)
        arrays = [self.inputs[name] for name in launch.buffers]
        try:
            _REF.dispatch(module.programs[launch.name], arrays, launch.shape.groups)
        except DispatchError:
            return False
        return True


CONTROLS = ("z0", "z1")
TEMPORARIES = ("m0", "m1", "m2")
NUMBERS = ([0, 1], [0, 4], [0, 0, 8], [1, 2, 3], [0, 4, 8, 12], [0], [0, 1, 2, 3, 4, 8])
"""What control buffers hold at first."""
SHAPES = (
    LaunchShape((4, 1), (2, 1)), LaunchShape((4, 1), (3, 1)), LaunchShape((8, 1), (2, 1)), LaunchShape((4, 1), (4, 1)),
    LaunchShape((4, 2), (2, 1)), LaunchShape((2, 2), (2, 2)), LaunchShape((4, 1), (2, 2)), LaunchShape((64, 1), (2, 1)),
)  # fmt: skip


def candidate(seed: int) -> tuple[str, dict[str, np.ndarray[Any, Any]]]:
    """The text of a random pipeline @main, which may fault when run, and an array for each input buffer."""
    rng = random.Random(seed)
    aim = rng.choice(tuple(AIMS))
    shape = rng.choice(SHAPES)
    total = shape.size * shape.count
    sizes = [*(total,) * 5, total - 1, total - shape.size, 2 * total, 3 * total, 512]
    if aim == "wrap":
        sizes += [512] * 10
    names = ("x", "y", *TEMPORARIES)
    counts = {name: rng.choice(sizes) for name in names} | dict.fromkeys(CONTROLS, total)
    dtypes = {name: rng.choice(("u32", "u32", "u32", "u8", "u16")) for name in names}
    dtypes |= dict.fromkeys(CONTROLS, "u32")
    draft = _Draft(rng, _Recipes(rng, aim), shape, counts, dtypes, _inputs(counts, dtypes, seed))
    live = {name for name in TEMPORARIES if rng.random() < (0.8 if aim == "wrap" else 0.35)}
    stages = _stages(draft, live)
    head = [f"buffer @x : {dtypes['x']}[{counts['x']}] read"]
    for name in (*CONTROLS, *TEMPORARIES, "y"):
        flags = "" if name in TEMPORARIES and name not in live else " live_in live_out"
        head.append(f"buffer @{name} : {dtypes[name]}[{counts[name]}]{flags}")
    programs = {launch.name: launch.text for launch in draft.launches}
    body = "\n  ".join([*head, *stages])
    inputs = {name: array for name, array in draft.inputs.items() if name not in TEMPORARIES or name in live}
    return "vyre 1\n" + "".join(programs.values()) + f"pipeline @main {{\n  {body}\n}}\n", inputs


def _inputs(
    counts: Mapping[str, int], dtypes: Mapping[str, str], seed: int
) -> dict[str, np.ndarray[Any, Any]]:
    """Small numbers in the control buffers, any bits in the others."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for name, count in counts.items():
        if name in CONTROLS:
            numbers = rng.choice(NUMBERS[int(rng.integers(len(NUMBERS)))], count)
        else:
            numbers = rng.integers(0, 1 << 32, count, np.uint64)
        arrays[name] = numbers.astype({"u32": np.uint32, "u16": np.uint16, "u8": np.uint8}[dtypes[name]])
    return arrays


def _stages(draft: _Draft, live: set[str]) -> list[str]:
    """The pipeline's stages, one a line.  `live`: temporaries that are inputs and outputs of the pipeline."""
    rng = draft.rng
    stages: list[str] = []
    for _ in range(rng.choice((2, 2, 3, 3, 4))):
        stages.append(str(_add_launch(draft, live)))
        chance = rng.random()
        if chance < (0.8 if draft.recipes.aim == "control" else 0.4):
            stages.append(str(_control_change(draft)))
        elif chance > 0.95 and draft.written[-1] != "x":
            stages.append(f"host_read @{draft.written[-1]}")
    if rng.random() < 0.15:
        stages.append(str(rng.choice(draft.launches)))
    if rng.random() < 0.12:
        at = rng.randrange(len(stages))
        stages[at:] = ["repeat 2 {", *stages[at:], "}"]
    return stages


def _add_launch(draft: _Draft, live: set[str]) -> _Launch:
    """Add a launch that reads buffers written before and writes another: the first of MAX_LAUNCHES random
    ones that runs alone without a fault, or else the last."""
    rng = draft.rng
    target = rng.choice((*TEMPORARIES, *TEMPORARIES, "y"))
    readable = [name for name in (*draft.written, *sorted(live)) if name != target]
    for _ in range(MAX_LAUNCHES):
        recipe, launch = _random_launch(draft, target, readable, live)
        if draft.runs(launch):
            break
    draft.last[target] = recipe
    draft.written = [*(name for name in draft.written if name != target), target]
    draft.launches.append(launch)
    return launch


def _random_launch(draft: _Draft, target: str, readable: list[str], live: set[str]) -> tuple[Recipe, _Launch]:
    """A launch that writes `target` from one or two of `readable`, and the recipe of its store."""
    rng, recipes, shape = draft.rng, draft.recipes, draft.shape
    if rng.random() < 0.07:
        (width, _), (x, y) = shape.lanes, shape.groups
        shape = rng.choice(
            (LaunchShape(shape.lanes, (max(1, x - 1), y)), LaunchShape((2 * width, 1), (x, y)))
        )
    sources = [readable[-1] if rng.random() < 0.75 else rng.choice(readable)]
    if rng.random() < 0.25:
        sources.append(rng.choice(readable))  # perhaps one array twice
    body = _Body(shape, rng, CONTROLS[: rng.choice((1, 1, 1, 2))])
    value = body.add(body.id, body.mul(body.lane, 7))
    formals: list[tuple[str, str]] = []
    for at, name in enumerate(sources):
        recipe = recipes.near(draft.last.get(name))
        if recipes.aim == "wrap" and rng.random() < 0.5:
            recipe = replace(recipe, dtype="u32")  # where the index would be if it did not wrap
        value = body.load(recipe, f"in{at}", draft.dtypes[name], value)
        formals.append((name, f"@in{at} : {draft.dtypes[name]}[?] read"))
    declarations: list[str] = []
    if rng.random() < 0.25:
        value, declarations = _own_handoff(recipes, body, value)
    recipe = recipes.near(draft.last.get(sources[0])) if rng.random() < 0.7 else recipes.any()
    body.store(recipe, "out", draft.dtypes[target], value)
    if rng.random() < (0.5 if recipes.aim == "wrap" else 0.1):
        row = rng.choice(("reversed", "next", recipe.row))
        other = replace(recipes.near(recipe), dtype="u32", row=row, other="one_group")
        body.store(other, "out", draft.dtypes[target], body.add(value, 1))
    access = rng.choice(("write live_out",) * 3 + ("read_write live_in live_out", "read_write live_out"))
    if target in TEMPORARIES and target not in live and rng.random() < 0.05:
        access = "read_write"  # transient: its contents are undefined after the launch
    formals.append((target, f"@out : {draft.dtypes[target]}[?] {access}"))
    formals += [(name, f"@{name} : u32[?] read") for name in sorted(body.used)]
    return recipe, draft.launch(body, formals, declarations, shape)


def _own_handoff(recipes: _Recipes, body: _Body, value: str) -> tuple[str, list[str]]:
    """Store and load again within the program, through storage or a workgroup buffer: the value that is
    loaded, and the buffer's declaration."""
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
    """Add a launch that changes a control buffer: one lane of each group, every lane, or one lane in all
    stores another small number."""
    rng, shape = draft.rng, draft.shape
    body = _Body(shape, rng, ())
    kind = rng.choice(("group", "group", "group", "lane", "first"))
    index = {"group": body.group, "lane": body.id, "first": body.const(0)}[kind]
    predicate, left, right = {
        "group": ("eq", body.lane, 0),
        "lane": ("lt", body.lane, shape.size),
        "first": ("eq", body.id, 0),
    }[kind]
    body.lines.append(f"if {body.binary(predicate, left, right)} {{")
    if rng.random() < 0.6:
        old = body.op(f"load @z[{index}] : u32")
        change = rng.randrange(4)
        if change == 0:
            new = body.binary("sub", body.const(shape.size), old)
        elif change == 1:
            new = body.binary("rem", body.add(old, 1), 3)
        else:
            new = body.binary("xor", old, (1, shape.size)[change - 2])
    else:
        new = body.const(rng.choice((0, 1, 2, shape.size)))
    body.lines += [f"store {new}, @z[{index}] : u32", "}"]
    formals = [(rng.choice((*CONTROLS[:1] * 3, *CONTROLS)), "@z : u32[?] read_write live_in live_out")]
    launch = draft.launch(body, formals, [], shape)
    draft.launches.append(launch)
    return launch


@dataclass(frozen=True, slots=True)
class AdversarialPipeline:
    """A pipeline that runs on ref without a fault, and its inputs."""

    text: str
    module: Module
    inputs: dict[str, np.ndarray[Any, Any]]


def adversarial_pipeline(seed: int) -> AdversarialPipeline:
    """The pipeline of a seed.  Raises RuntimeError if none of MAX_CANDIDATES texts runs without a fault."""
    for number in range(MAX_CANDIDATES):
        text, inputs = candidate(seed * MAX_CANDIDATES + number)
        module = parse(text)
        try:
            compile_module(module, "main", _REF, {})(inputs)
        except DispatchError:
            continue
        return AdversarialPipeline(text, module, inputs)
    raise RuntimeError(f"seed {seed}: none of {MAX_CANDIDATES} pipelines runs without a fault")
