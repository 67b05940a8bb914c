"""The stages: each template writes the source of a program and its meaning on whole arrays, one beside the other.

A template draws what its program has from the scene: `offers` are features that it can have if they are wanted, beside
those that every template has of its buffers, types and params (`COMMON`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

from .arithmetic import BITS, TYPES, Array, Type, cast, compute, constant, literal, random_values
from .extents import Extent
from .patterns import Draft, loaded_number, pattern_for
from .scene import Buf, Fill, Formal, Kernel, Param, Scene
from .sources import Source, TextSource

__all__ = ["COMMON", "TEMPLATES", "Template"]

U32 = TYPES["u32"]
COMMON = {"live_in", "live_out", "open size", "fixed size", "other grid"}
PARAMS = {"literal param", "scalar param", "default param"}
SIZES = {"length 0", "length 1", "odd length", "two dimensions", "three dimensions", "computed size"}
ELEMENT_TYPES = {"narrow type", "64 bits", "f16", "bf16", "f64", "bool"}


@dataclass(frozen=True, slots=True)
class Template:
    name: str
    offers: frozenset[str]
    weight: float
    make: Callable[[Scene], bool]
    """Appends a stage; whether it did."""


TEMPLATES: dict[str, Template] = {}


def template(
    *offers: str, weight: float = 1.0, common: bool = True
) -> Callable[[Callable[[Scene], bool]], Callable[[Scene], bool]]:
    def register(make: Callable[[Scene], bool]) -> Callable[[Scene], bool]:
        name = make.__name__.strip("_")
        TEMPLATES[name] = Template(name, frozenset({*offers, *(COMMON if common else ())}), weight, make)
        return make

    return register


# --- values computed with


class Chain:
    """One to three ops on a value: with constants, a param, a spec, or a length."""

    def __init__(self, scene: Scene, ty: Type, params: list[Param], buffer: Buf, name: str) -> None:
        rng = scene.rng
        self.ty, self.name, self.dimensions = ty, name, len(buffer.shape)
        self.axis = rng.randrange(self.dimensions)
        kind = "float" if ty.is_float else "bool" if ty.name == "bool" else "integer"
        self.param: Param | None = None
        operands: list[tuple[str, Any]] = []
        if scene.wants_param(0.3):
            self.param = scene.param(params, ty, None)
            operands.append(("param", self.param.name))
        if not scene.is_python and scene.flag("spec", 0.08):
            operands.append(("spec", (constant(ty, rng), constant(ty, rng) if rng.random() < 0.5 else None)))
        if (ty.name != "bool" and scene.flag("length as value", 0.1)) or (
            "length as value" in scene.want and scene.flag("length as value")
        ):
            operands.append(("length", None))
        while len(operands) < rng.choice((1, 2, 3)):
            operands.append(("constant", constant(ty, rng)))
        rng.shuffle(operands)
        self.steps: list[tuple[str, str, Any]] = [(rng.choice(BITS[kind]), *operand) for operand in operands]
        if ty.is_integer and rng.random() < 0.2:
            self.steps.append(("and", "constant", ty.dtype(rng.choice((1, 15, 100, 127)))))

    def emit(self, s: Source, value: str, spec: str, e: str) -> str:
        """`e`: the type as it is written.  `spec`: the name of the specialization constant."""
        for op, kind, what in self.steps:
            if kind == "param":
                operand = s.param(what, e)
            elif kind == "spec":
                assert isinstance(s, TextSource)
                operand = s.spec(spec, e)
            elif kind == "length":
                length = s.length(self.name, self.axis, self.dimensions)
                if not s.is_python:
                    operand = s.cast(s.op("and", length, "255", ty="u32"), "u32", e)
                else:
                    operand = s.cast(
                        s.op("and", s.cast(length, "", "u32"), s.lit("255", "u32"), ty="u32"), "u32", e
                    )
            else:
                operand = s.lit(literal(what, self.ty), e)
            value = s.op(op, value, operand, ty=e)
        return value

    def evaluate(self, value: Array, params: dict[str, Any], length: int) -> Array:
        for op, kind, what in self.steps:
            if kind == "param":
                operand = params[what]
            elif kind == "spec":
                operand = what[0] if what[1] is None else what[1]
            elif kind == "length":
                operand = cast(np.asarray([length & 255], np.uint32), U32, self.ty)[0]
            else:
                operand = what
            value = compute(op, self.ty, value, operand)
        return value

    def specs(self, spec: str, e: str) -> tuple[list[str], dict[str, str]]:
        """The declarations of specs, and the values that a run gives them."""
        lines, values = [], {}
        for _, kind, what in self.steps:
            if kind == "spec":
                lines.append(f"spec @{spec} : {e} = {literal(what[0], self.ty)}")
                if what[1] is not None:
                    values[spec] = literal(what[1], self.ty)
        return lines, values


Holds = Callable[[Source, str, list[str], str], str]
"""Writes a condition for a value and its place, of a type as it is written."""


def _on_data(scene: Scene, ty: Type) -> tuple[Callable[[Source, str, str], str], Callable[[Array], Array]]:
    """A condition on a value, as source and on arrays."""
    if ty.name == "bool":
        return (lambda s, value, e: value), (lambda values: values)
    limit, op = constant(ty, scene.rng), scene.rng.choice(("lt", "ge", "ne", "gt"))
    compare = {"lt": np.less, "ge": np.greater_equal, "ne": np.not_equal, "gt": np.greater}[op]

    def evaluate(values: Array) -> Array:
        f32 = TYPES["f32"]
        a, b = values, np.asarray([limit], ty.dtype)
        if ty.name == "bf16":
            a, b = cast(a, ty, f32), cast(b, ty, f32)
        return np.asarray(compare(a, b))

    return (lambda s, value, e: s.op(op, value, s.lit(literal(limit, ty), e), ty=e)), evaluate


def _condition(draft: Draft, ty: Type, dimensions: int) -> tuple[Holds, Callable[..., Array]]:
    """The condition of a store: on data, on the place beside a number or a param, or on a number that is loaded."""
    scene, rng = draft.scene, draft.scene.rng
    kinds = ["data"] if dimensions > 1 else ["data", "data", "limit", "lane", "number"]
    kind = rng.choice(kinds)
    if dimensions == 1 and scene.flag("loaded offset", 0.0):
        kind = "number"
    if kind == "data":
        holds, values = _on_data(scene, ty)
        return (lambda s, value, at, e: holds(s, value, e)), (lambda arrays, numbers, value: values(value))
    if kind == "limit":
        param = scene.param(draft.params, U32, [0, 1, 5, scene.lanes, scene.lanes + 3, 1 << 31])
        return (
            lambda s, value, at, e: s.op("lt", at[0], s.param(param.name, "u32"), ty="u32"),
            lambda arrays, numbers, value: np.arange(len(value)) < int(numbers[param.name]),
        )
    if kind == "lane":
        power = rng.choice((1, 2, 32, scene.lanes))

        def on_lane(s: Source, value: str, at: list[str], e: str) -> str:
            return s.op(
                "eq", s.op("and", at[0], s.lit(str(power), "u32"), ty="u32"), s.lit("0", "u32"), ty="u32"
            )

        return on_lane, lambda arrays, numbers, value: np.arange(len(value)) & power == 0
    scene.used.add("loaded offset")
    number, loaded = loaded_number(draft, "flags")

    def on_number(s: Source, value: str, at: list[str], e: str) -> str:
        odd = s.op("and", number(s, at[0]), s.lit("1", "u32"), ty="u32")
        return s.op("eq", odd, s.lit("0", "u32"), ty="u32")

    return on_number, lambda arrays, numbers, value: loaded(arrays, np.arange(len(value))) & 1 == 0


def _place(draft: Draft, y: Buf) -> tuple[Callable[[Source, str], str], Callable[[dict[str, Any]], Array]]:
    """A place for each element of a buffer of one dimension, another one for each."""
    scene, rng, n = draft.scene, draft.scene.rng, y.shape[0]
    powers = [1 << k for k in range(12) if n % (2 << k) == 0]
    kind = rng.choice(("mirror", "rotate", *(["xor"] * 3 if powers else [])))
    if kind == "mirror":

        def mirrored(s: Source, i: str) -> str:
            length = s.length("y", 0, 1)
            return s.op(
                "sub",
                s.op(
                    "sub", s.cast(length, "", "u32") if s.is_python else length, s.lit("1", "u32"), ty="u32"
                ),
                i,
                ty="u32",
            )

        return mirrored, lambda numbers: np.arange(n)[::-1]
    values = powers if kind == "xor" else [0, 1, 2, scene.lanes, 3 * scene.lanes]
    param = scene.param(draft.params, U32, values) if scene.wants_param(0.4) else None
    fixed = rng.choice(values)

    def moved(s: Source, i: str) -> str:
        k = s.lit(str(fixed), "u32") if param is None else s.param(param.name, "u32")
        if kind == "xor":
            return s.op("xor", i, k, ty="u32")
        return s.op("rem", s.op("add", i, k, ty="u32"), s.length("y", 0, 1), ty="u32")

    def places(numbers: dict[str, Any]) -> Array:
        k = fixed if param is None else int(numbers[param.name])
        return np.arange(n) ^ k if kind == "xor" else (np.arange(n) + k) % max(1, n)

    return moved, places


# --- who does which element


@dataclass(slots=True)
class Walk:
    """How the lanes of a launch share the elements of a buffer: each is done by one lane."""

    workgroup: tuple[int, ...]
    grid: tuple[Extent, ...]
    elements: int
    run: Callable[[Source, Callable[[list[str]], None]], None]
    """Writes `body` for each element's indices."""


def _at_least_1(extent: Extent) -> Extent:
    return extent if isinstance(extent, int) and extent > 0 else ("max", 1, extent)


def walk(scene: Scene, y: str, buf: Buf, lanes: int) -> Walk:
    """A walk over the elements of `buf`, as many as `@y` has."""
    rng, dimensions = scene.rng, len(buf.shape)
    lengths: list[Extent] = [("len", y, axis, dimensions) for axis in range(dimensions)]
    if rng.random() < 0.2 or (scene.is_python and not all(extent is None for extent in buf.extents)):
        lengths = [*buf.shape] if buf.is_fixed else lengths
    if dimensions > 1 and rng.random() < 0.6 and "grid stride" not in scene.want:
        return _walk_of_dimensions(scene, y, dimensions, lengths)
    total: Extent = lengths[0]
    for extent in lengths[1:]:
        total = (
            extent * total if isinstance(extent, int) and isinstance(total, int) else ("mul", total, extent)
        )
    kind = rng.choices(
        ("guarded", "strided", "blocked"), (0.95, 0.02, 0.03) if scene.is_calm else (0.7, 0.12, 0.18)
    )[0]
    if scene.flag("grid stride", 1.0 if kind == "strided" else 0.0):
        kind = "strided"
    elif "other grid" in scene.want:
        kind = "blocked"
    elif dimensions == 1 and buf.shape[0] and buf.shape[0] % lanes == 0 and rng.random() < 0.35:
        kind = "exact"
    rounds = rng.choice((2, 2, 4, 8)) if kind == "blocked" else 1
    is_consecutive = rng.random() < 0.4

    def count(s: Source) -> str:
        result = s.length(y, 0, dimensions)
        for axis in range(1, dimensions):
            result = s.op(
                "mul",
                s.cast(result, "", "u32") if s.is_python else result,
                s.length(y, axis, dimensions),
                ty="u32",
            )
        return result

    def places(s: Source, flat: str) -> list[str]:
        at = [flat]
        for axis in range(dimensions - 1, 0, -1):
            length = s.length(y, axis, dimensions)
            first = at.pop(0)
            at = [s.op("div", first, length, ty="u32"), s.op("rem", first, length, ty="u32"), *at]
        return at

    def run(s: Source, body: Callable[[list[str]], None]) -> None:
        if kind == "strided":
            s.loop(
                s.id("global_id"), count(s), s.id("global_size"), None, "u32", lambda k, _: body(places(s, k))
            )
        elif kind == "exact":
            body([s.id("global_id")])
        elif kind == "guarded":
            i = s.id("global_id")
            with s.when(s.op("lt", i, count(s), ty="u32")):
                body(places(s, i))
        else:
            first = s.op("mul", s.id("workgroup_id"), s.lit(str(lanes * rounds), "u32"), ty="u32")
            lane = s.id("local_id")
            if is_consecutive:
                lane = s.op("mul", lane, s.lit(str(rounds), "u32"), ty="u32")
            lane = s.op("add", first, lane, ty="u32")

            def turn(k: str, _: str) -> None:
                behind = k if is_consecutive else s.op("mul", k, s.lit(str(lanes), "u32"), ty="u32")
                i = s.op("add", lane, behind, ty="u32")
                with s.when(s.op("lt", i, count(s), ty="u32")):
                    body(places(s, i))

            s.loop(s.lit("0", "u32"), s.lit(str(rounds), "u32"), "1", None, "u32", turn)

    if kind == "strided":
        grid: Extent = (
            rng.choice((1, 2, 3)) if rng.random() < 0.5 else _at_least_1(("ceil_div", total, lanes))
        )
    else:
        grid = _at_least_1(("ceil_div", total, lanes * rounds))
    if isinstance(total, int) and not isinstance(grid, int):
        grid = max(1, -(-total // (lanes * rounds)))
    return Walk((lanes,), (grid,), 0 if kind == "strided" else lanes * rounds, run)


def _walk_of_dimensions(scene: Scene, y: str, dimensions: int, lengths: list[Extent]) -> Walk:
    """A grid of as many dimensions as the buffer, its last one along x."""
    sizes = scene.workgroups[dimensions]

    def run(s: Source, body: Callable[[list[str]], None]) -> None:
        at = [s.id("global_id", dimensions - 1 - axis) for axis in range(dimensions)]
        with ExitStack() as stack:
            for axis in range(dimensions):
                stack.enter_context(s.when(s.op("lt", at[axis], s.length(y, axis, dimensions), ty="u32")))
            body(at)

    grid = []
    for axis, size in zip(reversed(range(dimensions)), sizes, strict=True):
        length = lengths[axis]
        grid.append(
            max(1, -(-length // size)) if isinstance(length, int) else ("max", 1, ("ceil_div", length, size))
        )
    return Walk(sizes, tuple(grid), prod(sizes), run)


# --- each element by itself

MAP = {
    *("array twice", "read and written", "same lane", "neighbours", "within workgroup", "across workgroups"),
    *(
        "gather",
        "narrow index",
        "wrapping index",
        "grid stride",
        "spec",
        "type parameter",
        "loop by lane",
        "while",
    ),
    *("conditional store", "length as value", "function", "region", "assert", "print"),
    *("moved store", "loaded offset"),
}


@template(*MAP, *PARAMS, *SIZES, *ELEMENT_TYPES, weight=12)
def _map(scene: Scene) -> bool:
    """`y[i] = f(pattern(x)[i])`, or only where a condition holds."""
    rng, s = scene.rng, scene.source()
    lanes = scene.lanes if scene.is_calm or rng.random() < 0.9 else rng.choice((32, 64, 128))
    x = scene.reading(fits=_fits_patterns(scene))
    if (
        "array twice" in scene.want
        and "same lane" not in scene.want
        and len(x.shape) == 1
        and not prod(x.shape)
    ):
        x = scene.input(x.ty, (scene.base,))
    params: list[Param] = []
    draft = Draft(scene, lanes, [(scene.formal("x", x, "read"), x)], params)
    twice = scene.flag("array twice", 0.12)
    if twice:
        draft.bound.append((scene.formal("u", x, "read"), x))
    pattern = pattern_for(draft, x, "x")
    ty = scene.type(scene.convertible(x.ty)) if rng.random() < 0.4 or scene.want & ELEMENT_TYPES else x.ty
    same_size = pattern.shape == x.shape
    second = "u" if twice and same_size else ""
    if twice and not second:
        draft.bound.pop(1)
        scene.used.discard("array twice")
    is_conditional = scene.flag("conditional store", 0.15)
    otherwise = constant(ty, rng) if is_conditional and rng.random() < 0.35 else None
    in_place = same_size and scene.flag("read and written", 0.08)
    y = scene.writing(
        ty,
        pattern.shape,
        pattern.extents,
        avoid=[b for _, b in draft.bound],
        is_whole=not (in_place or (is_conditional and otherwise is None)),
    )
    is_repeated = in_place and rng.random() < 0.4
    access = "read_write" if in_place or (is_conditional and rng.random() < 0.4) else "write"
    y_formal = scene.formal("y", y, access)
    draft.bound.append((y_formal, y))
    chain = Chain(scene, ty, params, x, "x")
    condition = _condition(draft, ty, len(y.shape)) if is_conditional else None
    is_moved = len(y.shape) == 1 and y.shape[0] > 0 and not in_place and scene.flag("moved store", 0.12)
    place = _place(draft, y) if is_moved else None
    number = len(scene.programs)
    spec, alias = f"s{number}", ""
    if not scene.is_python and ty.name != "bool" and scene.flag("type parameter", 0.05):
        alias = f"@T{number}"
    e = alias or ty.name
    calls = scene.flag("function", 0.08)
    prints = scene.flag("print", 0.04) and len(pattern.shape) == 1
    asserts = scene.flag("assert", 0.06)
    in_region = not scene.is_python and scene.flag("region", 0.06)
    joins = rng.choice(
        ("xor",) if ty.name == "bool" else ("add", "sub") if ty.is_float else ("add", "xor", "sub")
    )
    function = f"f{number}"
    f_op, f_constant = (
        rng.choice(BITS["bool" if ty.name == "bool" else "float" if ty.is_float else "integer"]),
        constant(ty, rng),
    )
    if calls:
        s.functions.append(_function(s, function, f_op, literal(f_constant, ty), ty.name))
    bounds = [formal.name for formal, b in draft.bound if b.shape == y.shape]
    way = walk(scene, rng.choice(["y", *bounds]), y, lanes)
    if prints and (way.elements != lanes or "grid stride" in scene.used):
        prints = False
    if not prints:
        scene.used.discard("print")

    def element(at: list[str]) -> None:
        value = pattern.emit(s, at)
        value = s.cast(value, x.ty.name, e) if e != x.ty.name else value
        if second:
            other = s.load("u", at, x.ty.name)
            other = s.cast(other, x.ty.name, e) if e != x.ty.name else other
            value = s.op(joins, value, other, ty=e)
        if in_place:
            value = s.op(joins, value, s.load("y", at, e), ty=e)
        value = chain.emit(s, value, spec, e)
        if calls and not alias:
            value = s.call(function, value, ty.name)
        if asserts:
            s.check(s.op("lt", at[0], s.length("y", 0, len(y.shape)), ty="u32"), "inside")
        if prints:
            with s.when(s.op("lt", at[0], s.lit("3", "u32"), ty="u32")):
                s.print(f"p{number} %u", [at[0]])
        target = at if place is None else [place[0](s, at[0])]
        if condition is None:
            store(value, target)
            return
        holds = condition[0](s, value, at, e)
        with s.when(holds):
            store(value, target)
        if otherwise is not None:
            with s.when(s.op("not", holds, ty="bool")):
                store(s.lit(literal(otherwise, ty), e), target)

    def store(value: str, target: list[str]) -> None:
        """Store a value; or, where that is to be repeated, load it again and store what is computed of it."""
        s.store(value, "y", target, e)
        if is_repeated:
            again = s.op(joins, s.load("y", target, e), s.lit(literal(f_constant, ty), e), ty=e)
            s.store(again, "y", target, e)

    def body(at: list[str]) -> None:
        if in_region:
            assert isinstance(s, TextSource)
            with s.region(f"r{number}"):
                element(at)
        else:
            element(at)

    way.run(s, body)
    if calls and alias:
        scene.used.discard("function")
        s.functions.clear()

    def meaning(arrays: dict[str, Array], numbers: dict[str, Any]) -> list[str]:
        value = cast(np.asarray(pattern.evaluate(arrays, numbers)), x.ty, ty)
        if second:
            value = compute(joins, ty, value, cast(arrays["u"].ravel(), x.ty, ty))
        if in_place:
            value = compute(joins, ty, value, arrays["y"].ravel())
        value = chain.evaluate(value, numbers, arrays["x"].shape[chain.axis])
        if calls and not alias:
            value = compute(f_op, ty, value, f_constant)
        stored = np.ones(value.shape, bool) if condition is None else condition[1](arrays, numbers, value)
        places = np.arange(value.size) if place is None else place[1](numbers)
        if is_repeated:
            value = compute(joins, ty, value, f_constant)
        flat = arrays["y"].reshape(-1)
        flat[places[stored]] = value[stored]
        if otherwise is not None:
            other = compute(joins, ty, otherwise, f_constant) if is_repeated else ty.dtype(otherwise)
            flat[places[~stored]] = other
        arrays["y"][...] = flat.reshape(arrays["y"].shape)
        return [f"p{number} {at}" for at in range(min(3, len(value)))] if prints else []

    lines, values = chain.specs(spec, e)
    more: dict[str, Any] = {}
    if alias:
        if chain.param is not None:
            chain.param.alias = alias
        lines.insert(0, f"spec @T{number} : dtype = {ty}")
        values[f"T{number}"] = ty.name
        more = {"alias": alias}
    s.header += lines
    scene.launch(
        s,
        draft.bound,
        params,
        way.workgroup,
        way.grid,
        meaning,
        writes=y,
        elements=way.elements,
        is_whole=not in_place and (condition is None or otherwise is not None),
        specs=values,
        **more,
    )
    return True


def _fits_patterns(scene: Scene) -> Callable[[tuple[int, ...]], bool] | None:
    """What the shape of a buffer must be for the patterns that are wanted."""
    flat = {
        "moved store",
        "loaded offset",
        "within workgroup",
        "gather",
        "narrow index",
        "wrapping index",
        "loop by lane",
        "default param",
        "vector",
    }
    if scene.want & {"two dimensions", "three dimensions"}:
        return None
    if scene.want & (flat | {"computed size", "literal param", "scalar param", "print"}):
        return lambda shape: len(shape) == 1 and (shape[0] > 0 or "length 0" in scene.want)
    if scene.want & {"neighbours", "across workgroups"}:
        return lambda shape: prod(shape) > 0
    return None


def _function(s: Source, name: str, op: str, constant: str, ty: str) -> str:
    if s.is_python:
        number = {"true": "True", "false": "False"}.get(constant, f"{ty}({constant})")
        words = {"and": "and_", "or": "or_"}
        return f"@vyre.func\ndef {name}(a):\n    return vyre.{words.get(op, op)}(a, {number})\n\n\n"
    return f"func @{name}(%a : {ty}) -> {ty} {{\n  %r = {op} %a, {constant} : {ty}\n  yield %r\n}}\n"


# --- vectors


@template("vector", "array twice", *PARAMS, *ELEMENT_TYPES, "length 0", "conditional store", weight=0.8)
def _vectors(scene: Scene) -> bool:
    """Elementwise by vectors of two or four."""
    rng, s = scene.rng, scene.source()
    count = rng.choice((2, 4))
    x = scene.reading(
        lambda t: t.name not in ("bool", "bf16", "f16"), lambda shape: len(shape) == 1 and shape[0] % 4 == 0
    )
    if len(x.shape) != 1 or x.shape[0] % 4:
        return False
    scene.used.add("vector")
    params: list[Param] = []
    ty, lanes = x.ty, scene.lanes
    twice = scene.flag("array twice", 0.2)
    bound = [(scene.formal("x", x, "read"), x)]
    if twice:
        bound.append((scene.formal("u", x, "read"), x))
    is_conditional = scene.flag("conditional store", 0.1)
    y = scene.writing(ty, x.shape, scene.like(x), avoid=[x], is_whole=not is_conditional)
    bound.append((scene.formal("y", y, "write"), y))
    op = rng.choice(("add", "mul", "sub") if ty.is_float else ("add", "mul", "xor", "max"))
    by = constant(ty, rng)
    limit = rng.randrange(1, 40)

    i = s.id("global_id")
    groups = s.op("div", s.length("y", 0, 1), s.lit(str(count), "u32"), ty="u32")
    with ExitStack() as stack:
        stack.enter_context(s.when(s.op("lt", i, groups, ty="u32")))
        value = s.load("x", [i], ty.name, count)
        vector = f"vec<{count} x {ty}>"
        operand = s.load("u", [i], ty.name, count) if twice else s.lit(literal(by, ty), ty.name)
        value = s.op(op, value, operand, ty=vector)
        if is_conditional:
            stack.enter_context(s.when(s.op("lt", i, s.lit(str(limit), "u32"), ty="u32")))
        s.store(value, "y", [i], ty.name, count)

    def meaning(arrays: dict[str, Array], _: dict[str, Any]) -> list[str]:
        value = compute(op, ty, arrays["x"], arrays["u"] if twice else by)
        most = limit * count if is_conditional else len(value)
        arrays["y"][:most] = value[:most]
        return []

    grid = _at_least_1(("ceil_div", ("len", "y", 0, 1), lanes * count))
    scene.launch(
        s,
        bound,
        params,
        (lanes,),
        (grid,),
        meaning,
        writes=y,
        elements=lanes * count,
        is_whole=not is_conditional,
    )
    return True


# --- lanes together


def _blocks(values: Array, block: int, fill: Any) -> Array:
    """Rows of `block` values; what is missing of the last one is `fill`."""
    count = -(-len(values) // block)
    padded = np.full(count * block, fill, values.dtype)
    padded[: len(values)] = values
    return padded.reshape(count, block)


def _flat(scene: Scene, allowed: Callable[[Type], bool] = lambda t: True) -> Buf | None:
    """A buffer of one dimension to read."""
    x = scene.reading(allowed, lambda shape: len(shape) == 1)
    return x if len(x.shape) == 1 and allowed(x.ty) else None


LANES_TOGETHER = (*ELEMENT_TYPES, "length 0", "length 1", "odd length")


def _guarded_load(s: Source, name: str, i: str, ty: str, zero: str) -> str:
    inside = s.op("lt", i, s.length(name, 0, 1), ty="u32")
    return s.choose(inside, lambda: s.load(name, [i], ty), s.lit(zero, ty), ty)


def _guarded_store(s: Source, value: str, name: str, i: str, ty: str) -> None:
    with s.when(s.op("lt", i, s.length(name, 0, 1), ty="u32")):
        s.store(value, name, [i], ty)


@template("barrier", "within workgroup", *PARAMS, *LANES_TOGETHER, weight=1.5)
def _staged(scene: Scene) -> bool:
    """Each workgroup's elements in opposite order, through its memory."""
    s, lanes, x = scene.source(), scene.lanes, _flat(scene)
    if x is None:
        return False
    ty = x.ty
    scene.used |= {"barrier", "within workgroup"}
    y = scene.writing(ty, x.shape, scene.like(x), avoid=[x])
    bound = [(scene.formal("x", x, "read"), x), (scene.formal("y", y, "write"), y)]
    params: list[Param] = []
    chain = Chain(scene, ty, params, x, "x")
    zero = literal(ty.dtype(0), ty)
    t = s.shared(ty.name, lanes)
    i, lane = s.id("global_id"), s.id("local_id")
    s.store(_guarded_load(s, "x", i, ty.name, zero), t, [lane], ty.name)
    s.barrier()
    rounds = scene.param(params, U32, [0, 1, 2, 3]) if scene.wants_param(0.2) else None

    def turn(_: str, __: str) -> None:
        after = s.op(
            "and", s.op("add", lane, s.lit("1", "u32"), ty="u32"), s.lit(str(lanes - 1), "u32"), ty="u32"
        )
        moved = s.load(t, [after], ty.name)
        s.barrier()
        s.store(moved, t, [lane], ty.name)
        s.barrier()

    if rounds is not None:
        s.loop(s.lit("0", "u32"), s.param(rounds.name, "u32"), "1", None, "u32", turn)
    other = s.op("sub", s.lit(str(lanes - 1), "u32"), lane, ty="u32")
    value = s.load(t, [other], ty.name)
    spec = f"s{len(scene.programs)}"
    _guarded_store(s, chain.emit(s, value, spec, ty.name), "y", i, ty.name)
    lines, values = chain.specs(spec, ty.name)
    s.header += lines

    def meaning(arrays: dict[str, Array], numbers: dict[str, Any]) -> list[str]:
        rows = _blocks(arrays["x"], lanes, ty.dtype(0))
        rows = np.roll(rows, -int(numbers[rounds.name]) if rounds is not None else 0, axis=1)
        value = rows[:, ::-1].ravel()[: len(arrays["x"])]
        arrays["y"][...] = chain.evaluate(value, numbers, len(arrays["x"]))
        return []

    grid = _at_least_1(("ceil_div", ("len", "y", 0, 1), lanes))
    scene.launch(s, bound, params, (lanes,), (grid,), meaning, writes=y, elements=lanes, specs=values)
    return True


@template(
    "workgroup scan", "barrier", "narrow type", "64 bits", "length 0", "length 1", "odd length", weight=0.8
)
def _workgroup_scan(scene: Scene) -> bool:
    """Inclusive sums of each workgroup's elements, in log2 steps."""
    s, lanes, x = scene.source(), scene.lanes, _flat(scene, lambda t: t.is_integer)
    if x is None:
        return False
    ty = x.ty
    scene.used |= {"workgroup scan", "barrier"}
    y = scene.writing(ty, x.shape, scene.like(x), avoid=[x])
    bound = [(scene.formal("x", x, "read"), x), (scene.formal("y", y, "write"), y)]
    t = s.shared(ty.name, lanes)
    i, lane = s.id("global_id"), s.id("local_id")
    s.store(_guarded_load(s, "x", i, ty.name, "0"), t, [lane], ty.name)
    step = 1
    while step < lanes:
        s.barrier()
        has = s.op("ge", lane, s.lit(str(step), "u32"), ty="u32")
        before = s.op("sub", lane, s.lit(str(step), "u32"), ty="u32")
        added = s.choose(has, partial(s.load, t, [before], ty.name), s.lit("0", ty.name), ty.name)
        s.barrier()
        s.store(s.op("add", s.load(t, [lane], ty.name), added, ty=ty.name), t, [lane], ty.name)
        step *= 2
    _guarded_store(s, s.load(t, [lane], ty.name), "y", i, ty.name)

    def meaning(arrays: dict[str, Array], _: dict[str, Any]) -> list[str]:
        sums = np.cumsum(_blocks(arrays["x"], lanes, 0), axis=1, dtype=ty.dtype)
        arrays["y"][...] = sums.ravel()[: len(arrays["x"])]
        return []

    grid = _at_least_1(("ceil_div", ("len", "y", 0, 1), lanes))
    scene.launch(s, bound, [], (lanes,), (grid,), meaning, writes=y, elements=lanes)
    return True


@template("subgroup op", "narrow type", "64 bits", "length 0", "length 1", "odd length", weight=0.9)
def _subgroup(scene: Scene) -> bool:
    """A reduction, a scan, or a shuffle of each 32 elements."""
    s, x, rng = scene.source(), _flat(scene, lambda t: t.is_integer), scene.rng
    if x is None:
        return False
    lanes, ty = scene.lanes, x.ty
    scene.used.add("subgroup op")
    y = scene.writing(ty, x.shape, scene.like(x), avoid=[x])
    bound = [(scene.formal("x", x, "read"), x), (scene.formal("y", y, "write"), y)]
    op = rng.choice(
        ("reduce<add>", "reduce<max>", "scan<inclusive, add>", "scan<exclusive, add>", "shuffle<xor>")
    )
    by = rng.choice((1, 2, 8, 16, 5))
    i = s.id("global_id")
    value = _guarded_load(s, "x", i, ty.name, "0")
    value = s.subgroup(op, value, ty.name, by=s.lit(str(by), "u32") if op.startswith("shuffle") else "")
    _guarded_store(s, value, "y", i, ty.name)

    def meaning(arrays: dict[str, Array], _: dict[str, Any]) -> list[str]:
        rows = _blocks(arrays["x"], 32, 0)
        sums = np.cumsum(rows, axis=1, dtype=ty.dtype)
        if op == "reduce<add>":
            result = np.repeat(sums[:, -1:], 32, axis=1)
        elif op == "reduce<max>":
            result = np.repeat(rows.max(axis=1, keepdims=True), 32, axis=1) if rows.size else rows
        elif op.startswith("scan<inclusive"):
            result = sums
        elif op.startswith("scan"):
            result = sums - rows
        else:
            result = rows[:, np.arange(32) ^ by]
        arrays["y"][...] = result.ravel()[: len(arrays["x"])]
        return []

    grid = _at_least_1(("ceil_div", ("len", "y", 0, 1), lanes))
    scene.launch(s, bound, [], (lanes,), (grid,), meaning, writes=y, elements=lanes)
    return True


@template("async copy", "barrier", *ELEMENT_TYPES, "length 0", "odd length", weight=0.6)
def _copied(scene: Scene) -> bool:
    """Each workgroup's elements rotated by one, through copies to its memory."""
    s, lanes, x = scene.source(), scene.lanes, _flat(scene, lambda t: t.name != "bool")
    if x is None:
        return False
    ty = x.ty
    scene.used |= {"async copy", "barrier", "within workgroup"}
    y = scene.writing(ty, x.shape, scene.like(x), avoid=[x])
    bound = [(scene.formal("x", x, "read"), x), (scene.formal("y", y, "write"), y)]
    zero = literal(ty.dtype(0), ty)
    t = s.shared(ty.name, lanes)
    i, lane = s.id("global_id"), s.id("local_id")
    inside = s.op("lt", i, s.length("x", 0, 1), ty="u32")
    with s.when(inside):
        s.copy("x", i, t, lane, ty.name)
    with s.when(s.op("ge", i, s.length("x", 0, 1), ty="u32")):
        s.store(s.lit(zero, ty.name), t, [lane], ty.name)
    s.wait()
    s.barrier()
    after = s.op("add", lane, s.lit("1", "u32"), ty="u32")
    other = s.op("and", after, s.lit(str(lanes - 1), "u32"), ty="u32")
    _guarded_store(s, s.load(t, [other], ty.name), "y", i, ty.name)

    def meaning(arrays: dict[str, Array], _: dict[str, Any]) -> list[str]:
        rows = _blocks(arrays["x"], lanes, ty.dtype(0))
        arrays["y"][...] = np.roll(rows, -1, axis=1).ravel()[: len(arrays["x"])]
        return []

    grid = _at_least_1(("ceil_div", ("len", "y", 0, 1), lanes))
    scene.launch(s, bound, [], (lanes,), (grid,), meaning, writes=y, elements=lanes)
    return True


@template("cluster", "64 bits", "f64", "length 0", "odd length", weight=0.4)
def _cluster(scene: Scene) -> bool:
    """The elements of each cluster in opposite order, through its memory."""
    s, x = scene.source(), _flat(scene, lambda t: t.bytes >= 4)
    if x is None:
        return False
    lanes, ty, together = scene.lanes, x.ty, scene.rng.choice((2, 4))
    scene.used |= {"cluster", "within workgroup"}
    y = scene.writing(ty, x.shape, scene.like(x), avoid=[x])
    bound = [(scene.formal("x", x, "read"), x), (scene.formal("y", y, "write"), y)]
    block = lanes * together
    t = s.shared(ty.name, block, "cluster")
    i, lane = s.id("global_id"), s.id("local_id")
    number = s.op("rem", s.id("workgroup_id"), s.lit(str(together), "u32"), ty="u32")
    first = s.op("mul", number, s.lit(str(lanes), "u32"), ty="u32")
    own = s.op("add", first, lane, ty="u32")
    s.store(_guarded_load(s, "x", i, ty.name, literal(ty.dtype(0), ty)), t, [own], ty.name)
    s.barrier("cluster")
    other = s.op("sub", s.lit(str(block - 1), "u32"), own, ty="u32")
    _guarded_store(s, s.load(t, [other], ty.name), "y", i, ty.name)

    def meaning(arrays: dict[str, Array], _: dict[str, Any]) -> list[str]:
        rows = _blocks(arrays["x"], block, ty.dtype(0))[:, ::-1]
        arrays["y"][...] = rows.ravel()[: len(arrays["x"])]
        return []

    grid = ("mul", together, _at_least_1(("ceil_div", ("len", "y", 0, 1), block)))
    scene.launch(s, bound, [], (lanes,), (grid,), meaning, writes=y, elements=lanes, cluster=together)
    return True


def _fixed(scene: Scene, allowed: Callable[[Type], bool]) -> Buf:
    """A buffer of a fixed size of whole workgroups."""
    known = [
        b
        for b in scene.buffers.values()
        if b.is_defined
        and b.is_fixed
        and not b.is_private
        and len(b.shape) == 1
        and allowed(b.ty)
        and b.shape[0]
        and b.shape[0] % scene.lanes == 0
    ]
    if scene.last in known and scene.rng.random() < 0.8:
        return scene.last
    if known and scene.rng.random() < 0.6:
        return scene.rng.choice(known)
    x = scene.input(scene.type(allowed), (scene.lanes * scene.rng.choice((1, 2, 4)),))
    x.extents = x.shape
    return x


@template("scratch", "grid barrier", "across workgroups", "fixed size", *ELEMENT_TYPES, weight=0.8)
def _scratch(scene: Scene) -> bool:
    """Through storage for the launch itself: after a barrier of the workgroup, or of the grid."""
    s, lanes = scene.source(), scene.lanes
    x = _fixed(scene, lambda t: True)
    n, ty = x.shape[0], x.ty
    is_grid = "grid barrier" in scene.want or (scene.is_python or scene.rng.random() < 0.3)
    if scene.is_python:
        return False
    scene.used |= (
        {"scratch", "grid barrier", "across workgroups"} if is_grid else {"scratch", "within workgroup"}
    )
    y = scene.writing(ty, x.shape, x.shape, avoid=[x])
    bound = [(scene.formal("x", x, "read"), x), (scene.formal("y", y, "write"), y)]
    bound[1][0].extents = (n,) if y.is_fixed else (None,)
    if scene.rng.random() < 0.5:
        t = "t"
        bound.append(_transient(scene, ty, n))
    else:
        t = s.fresh("t")
        s.header.append(f"buffer @{t} : {ty}[{n}] read_write")
    i = s.id("global_id")
    s.store(s.load("x", [i], ty.name), t, [i], ty.name)
    s.barrier("grid" if is_grid else "workgroup")
    if is_grid:
        j = s.op("sub", s.lit(str(n - 1), "u32"), i, ty="u32")
    else:
        j = s.op("xor", i, s.lit(str(lanes - 1), "u32"), ty="u32")
    s.store(s.load(t, [j], ty.name), "y", [i], ty.name)

    def meaning(arrays: dict[str, Array], _: dict[str, Any]) -> list[str]:
        x = arrays["x"]
        arrays["y"][...] = x[::-1] if is_grid else x.reshape(-1, lanes)[:, ::-1].ravel()
        return []

    scene.launch(s, bound, [], (lanes,), (n // lanes,), meaning, writes=y, elements=lanes)
    return True


def _transient(scene: Scene, ty: Type, n: int) -> tuple[Formal, Buf]:
    """A buffer of the pipeline that a launch takes for itself, perhaps after others did."""
    known = [
        b
        for b in scene.buffers.values()
        if b.ty is ty and b.shape == (n,) and b.is_private and not b.is_defined
    ]
    if known and scene.rng.random() < 0.6:
        buf = scene.rng.choice(known)
    else:
        name = scene.new_name("t")
        buf = scene.buffers[name] = Buf(name, ty, (n,), (n,), "own", None, False, is_private=True)
    extents = (n,) if scene.rng.random() < 0.5 else (None,)
    return Formal("t", ty, extents, "transient", is_pinned=True), buf


@template("grid barrier", "across workgroups", "read and written", *ELEMENT_TYPES, weight=0.3)
def _grid_barrier(scene: Scene) -> bool:
    """A buffer turned around in place, over a barrier of the grid."""
    s, lanes = scene.source(), scene.lanes
    x = _flat(scene)
    if x is None or x.shape[0] == 0:
        return False
    ty = x.ty
    y = scene.writing(ty, x.shape, avoid=[x], is_whole=False)
    scene.used |= {"grid barrier", "across workgroups", "read and written"}
    bound = [(scene.formal("y", y, "read_write"), y)]
    i, n = s.id("global_id"), s.length("y", 0, 1)
    n = s.cast(n, "", "u32") if s.is_python else n
    last = s.op("sub", n, s.lit("1", "u32"), ty="u32")
    j = s.op("sub", last, i, ty="u32")
    inside = s.op("lt", i, n, ty="u32")
    zero = s.lit(literal(ty.dtype(0), ty), ty.name)
    value = s.choose(inside, lambda: s.load("y", [j], ty.name), zero, ty.name)
    s.barrier("grid")
    with s.when(inside):
        s.store(value, "y", [i], ty.name)

    def meaning(arrays: dict[str, Array], _: dict[str, Any]) -> list[str]:
        arrays["y"][...] = arrays["y"][::-1].copy()
        return []

    grid = _at_least_1(("ceil_div", ("len", "y", 0, 1), lanes))
    scene.launch(s, bound, [], (lanes,), (grid,), meaning, writes=y, elements=lanes, is_whole=False)
    return True


# --- stores at places that are loaded, atomics


@template("scatter", *ELEMENT_TYPES, "odd length", "length 1", *PARAMS, weight=0.8)
def _scatter(scene: Scene) -> bool:
    """`y[order[i]] = f(x[i])` for a permutation."""
    s, lanes, x = scene.source(), scene.lanes, _flat(scene)
    if x is None or x.shape[0] == 0:
        return False
    ty = x.ty
    scene.used.add("scatter")
    contents = scene.random().permutation(x.shape[0]).astype(np.uint32)
    order = scene.input(U32, x.shape, contents, is_private=True)
    y = scene.writing(ty, x.shape, scene.like(x), avoid=[x])
    bound = [
        (scene.formal("x", x, "read"), x),
        (scene.formal("order", order, "read", is_pinned=True), order),
        (scene.formal("y", y, "write"), y),
    ]
    params: list[Param] = []
    chain = Chain(scene, ty, params, x, "x")
    spec = f"s{len(scene.programs)}"
    i = s.id("global_id")
    with s.when(s.op("lt", i, s.length("x", 0, 1), ty="u32")):
        value = chain.emit(s, s.load("x", [i], ty.name), spec, ty.name)
        s.store(value, "y", [s.load("order", [i], "u32")], ty.name)
    lines, values = chain.specs(spec, ty.name)
    s.header += lines

    def meaning(arrays: dict[str, Array], numbers: dict[str, Any]) -> list[str]:
        arrays["y"][arrays["order"]] = chain.evaluate(arrays["x"], numbers, len(arrays["x"]))
        return []

    grid = _at_least_1(("ceil_div", ("len", "x", 0, 1), lanes))
    scene.launch(s, bound, params, (lanes,), (grid,), meaning, writes=y, specs=values)
    return True


ATOMIC_TYPES = ("u32", "i32", "u64", "i64")


@template(
    "atomic",
    "grid stride",
    "64 bits",
    "narrow type",
    "length 0",
    "length 1",
    "odd length",
    "conditional store",
    weight=1.2,
)
def _atomic(scene: Scene) -> bool:
    """A histogram, or the sum, the largest, or the bits of all, by atomics."""
    s, lanes, rng = scene.source(), scene.lanes, scene.rng
    x = _flat(scene, lambda t: t.is_integer)
    if x is None:
        return False
    scene.used |= {"atomic", "read and written"}
    ty = TYPES[rng.choice(ATOMIC_TYPES if "64 bits" not in scene.want else ATOMIC_TYPES[2:])]
    bins = rng.choice((1, 7, 16, scene.base or 1))
    h = scene.writing(ty, (bins,), avoid=[x], is_whole=False)
    op = rng.choice(("add", "add", "max", "xor", "or", "min"))
    is_conditional = scene.flag("conditional store", 0.2)
    condition = _on_data(scene, x.ty)
    bound = [(scene.formal("x", x, "read"), x), (scene.formal("h", h, "read_write"), h)]

    def body(at: list[str]) -> None:
        value = s.load("x", at, x.ty.name)
        number = s.cast(value, x.ty.name, "u32")
        place = s.op("rem", number, s.lit(str(bins), "u32"), ty="u32")
        with ExitStack() as stack:
            if is_conditional:
                stack.enter_context(s.when(condition[0](s, value, x.ty.name)))
            s.atomic(op, "h", place, s.cast(value, x.ty.name, ty.name), ty.name)

    way = walk(scene, "x", x, lanes)
    way.run(s, body)
    functions = {
        "add": np.add,
        "max": np.maximum,
        "min": np.minimum,
        "xor": np.bitwise_xor,
        "or": np.bitwise_or,
    }

    def meaning(arrays: dict[str, Array], _: dict[str, Any]) -> list[str]:
        values = arrays["x"]
        if is_conditional:
            values = values[condition[1](values)]
        places = values.astype(np.uint32) % np.uint32(bins)
        functions[op].at(arrays["h"], places, values.astype(ty.dtype))
        return []

    scene.launch(
        s, bound, [], way.workgroup, way.grid, meaning, writes=h, elements=way.elements, is_whole=False
    )
    return True


@template("while with atomics", "atomic", "while", *PARAMS, "odd length", "length 1", weight=0.6)
def _work_list(scene: Scene) -> bool:
    """Lanes take numbers of elements from a counter, one after the other, until there are no more."""
    s, lanes, rng = scene.source(), scene.lanes, scene.rng
    x = _flat(scene, lambda t: t.name not in ("bool",))
    if x is None:
        return False
    ty = x.ty
    scene.used |= {"while with atomics", "atomic", "while"}
    y = scene.writing(ty, x.shape, avoid=[x], is_whole=False)
    start = rng.choice((0, 0, 1, 5))
    counter = scene.input(U32, (1,), np.asarray([start], np.uint32), "both", is_private=True)
    workgroups = rng.choice((1, 2))
    bound = [
        (scene.formal("x", x, "read"), x),
        (scene.formal("y", y, "write"), y),
        (scene.formal("counter", counter, "read_write", is_pinned=True), counter),
    ]
    params: list[Param] = []
    chain = Chain(scene, ty, params, x, "x")
    spec = f"s{len(scene.programs)}"
    zero, one = s.lit("0", "u32"), s.lit("1", "u32")
    n = s.length("x", 0, 1)
    first = s.atomic("add", "counter", zero, one, "u32")

    def body(names: list[str]) -> list[str]:
        value = chain.emit(s, s.load("x", [names[0]], ty.name), spec, ty.name)
        s.store(value, "y", [names[0]], ty.name)
        return [s.atomic("add", "counter", zero, one, "u32")]

    s.while_([first], ["u32"], lambda names: s.op("lt", names[0], n, ty="u32"), body)
    lines, values = chain.specs(spec, ty.name)
    s.header += lines

    def meaning(arrays: dict[str, Array], numbers: dict[str, Any]) -> list[str]:
        begin, length = int(arrays["counter"][0]), len(arrays["x"])
        arrays["y"][begin:] = chain.evaluate(arrays["x"][begin:], numbers, length)
        arrays["counter"][0] = begin + max(0, length - begin) + lanes * workgroups
        return []

    scene.launch(s, bound, params, (lanes,), (workgroups,), meaning, writes=y, is_whole=False, specs=values)
    return True


# --- matrices


@template("matrix", "two dimensions", "narrow type", common=False, weight=0.3)
def _matrices(scene: Scene) -> bool:
    """C = A B of bytes, summed in i32, a tile of 16 by 16 a workgroup."""
    s, i8, i32 = scene.source(), TYPES["i8"], TYPES["i32"]
    known = [
        b
        for b in scene.buffers.values()
        if b.ty is i8
        and b.is_defined
        and len(b.shape) == 2
        and b.shape[1] == 32
        and b.shape[0]
        and b.shape[0] % 16 == 0
    ]
    a = scene.rng.choice(known) if known else scene.input(i8, (16 * scene.rng.choice((1, 2, 3)), 32))
    b = scene.input(i8, (32, 16))
    scene.used.add("matrix")
    rows = a.shape[0]
    c = scene.writing(i32, (rows, 16), avoid=[a, b])
    bound = [
        (scene.formal("a", a, "read"), a),
        (scene.formal("b", b, "read"), b),
        (scene.formal("c", c, "write"), c),
    ]
    zero = s.lit("0", "u32")
    row = s.op("mul", s.id("workgroup_id"), s.lit("16", "u32"), ty="u32")
    if isinstance(s, TextSource):
        for line in (
            f"%ma = matrix_load @a[{row}, 0] : matrix<16x32xi8, a>",
            "%mb = matrix_load @b[0, 0] : matrix<32x16xi8, b>",
            "%mz = const 0 : matrix<16x16xi32, acc>",
            "%mc = matrix_mul_add %ma, %mb, %mz : matrix<16x16xi32, acc>",
            f"matrix_store %mc, @c[{row}, 0] : matrix<16x16xi32, acc>",
        ):
            s.line(line)
    else:
        for line in (
            f'ma = vyre.matrix_load(a, ({row}, {zero}), 16, 32, "a")',
            f'mb = vyre.matrix_load(b, ({zero}, {zero}), 32, 16, "b")',
            "mc = vyre.matrix_mul_add(ma, mb, vyre.matrix(16, 16, i32))",
            f"vyre.matrix_store(c, ({row}, {zero}), mc)",
        ):
            s.line(line)

    def meaning(arrays: dict[str, Array], _: dict[str, Any]) -> list[str]:
        arrays["c"][...] = arrays["a"].astype(np.int32) @ arrays["b"].astype(np.int32)
        return []

    grid = max(1, rows // 16)
    scene.launch(s, bound, [], (32,), (grid,), meaning, writes=c, elements=256)
    return True


# --- named kernels


@template("named kernel", "64 bits", "odd length", "length 1", common=False, weight=0.7)
def _kernel(scene: Scene) -> bool:
    """scan.prefix, decode.hex, math.softmax_step or math.matvec_fixed."""
    rng = scene.rng
    names = ("scan.prefix", "scan.prefix", "math.softmax_step", "math.matvec_fixed", "decode.hex")
    name = "scan.prefix" if "64 bits" in scene.want else rng.choice(names)
    if name == "decode.hex":
        digits = np.frombuffer(b"0123456789abcdefABCDEF", np.uint8)
        half = rng.choice((1, 33, 64, 128, 300))
        text = scene.random().choice(digits, 2 * half)
        source = scene.input(TYPES["u8"], (2 * half,), text, is_private=True)
        half_extent: Extent = ("div", ("len", source.name, 0, 1), 2)
        target = scene.writing(TYPES["u8"], (half,), (half_extent,), avoid=[source])
        inputs = [source]

        def meaning(*arrays: Array) -> None:
            arrays[1][...] = np.frombuffer(bytes.fromhex(bytes(arrays[0]).decode()), np.uint8)
    else:
        allowed: tuple[str, ...] = ("u32", "i32", "u64", "i64") if name == "scan.prefix" else ("u32",)
        if name == "math.matvec_fixed":
            allowed = ("u32", "i32")
        x = _flat(scene, lambda t: t.name in allowed)
        if x is None or x.shape[0] == 0:
            return False
        inputs = [x]
        if name == "math.matvec_fixed":
            rows = rng.choice((1, 8, 33))
            matrix = scene.input(
                x.ty, (rows * x.shape[0],), random_values(x.ty, (rows * x.shape[0],), scene.random())
            )
            matrix.is_private = True
            inputs = [matrix, x]
            target = scene.writing(x.ty, (rows,), avoid=inputs)
        else:
            target = scene.writing(x.ty, x.shape, scene.like(x), avoid=inputs)
        meaning = _KERNELS[name]
    scene.used.add("named kernel")
    scene.note(*inputs, target)
    stage = Kernel(name, tuple(b.name for b in (*inputs, target)), meaning)
    scene.stages.append(stage)
    scene.features.setdefault(stage.key, set()).update(scene.used)
    target.is_defined = True
    scene.last = target
    return True


@template("fill", *ELEMENT_TYPES, *SIZES, weight=0.7)
def _fill(scene: Scene) -> bool:
    """All elements of a buffer are one number; an atomic or a store of some of them may follow."""
    ty = scene.type()
    shape = scene.shape(scene.dimensions())
    y = scene.writing(ty, shape)
    scene.used.add("fill")
    scene.note(y)
    stage = Fill(y.name, ty, constant(ty, scene.rng), len(scene.stages))
    scene.stages.append(stage)
    scene.features.setdefault(stage.key, set()).update(scene.used)
    y.is_defined = True
    if scene.rng.random() < 0.7:
        scene.last = y
    return True


def _prefix(x: Array, y: Array) -> None:
    y[...] = np.cumsum(x, dtype=x.dtype)


def _softmax_step(x: Array, y: Array) -> None:
    total = max(1, sum(map(int, x)))
    y[...] = np.asarray([(int(v) << 16) // total for v in x], np.uint32)


def _matvec(m: Array, x: Array, y: Array) -> None:
    rows = m.reshape(len(y), len(x))
    numbers = [_signed(v) for v in x]
    sums = [sum((_signed(a) * b) >> 16 for a, b in zip(row, numbers, strict=True)) for row in rows]
    y[...] = np.asarray([total % (1 << 32) for total in sums], np.uint32).view(y.dtype)


def _signed(value: Any) -> int:
    number = int(value)
    return number - (1 << 32) if number >= 1 << 31 else number


_KERNELS: dict[str, Callable[..., None]] = {
    "scan.prefix": _prefix,
    "math.softmax_step": _softmax_step,
    "math.matvec_fixed": _matvec,
}
