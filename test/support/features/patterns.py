"""Which element of a buffer makes which: the source of each pattern beside its meaning on whole arrays.

    target[i] = pattern(x)[i]       `emit` writes it for one element, at the indices `at`
                                    `evaluate` gives all, in the order of the target's elements

A pattern is drawn for one buffer, so its numbers are attributes of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

from .arithmetic import TYPES, Array, cast, compute, constant, literal
from .extents import Extent
from .scene import Buf, Formal, Param, Scene
from .sources import Source

__all__ = ["Draft", "Pattern", "loaded_number", "pattern_for"]

U32 = TYPES["u32"]


@dataclass(slots=True)
class Draft:
    """What a map stage has so far.  `bound`: buffers in the order of bindings."""

    scene: Scene
    lanes: int
    bound: list[tuple[Formal, Buf]]
    params: list[Param]


@dataclass(slots=True)
class Pattern:
    """`shape`, `extents`: of the target.  `emit(source, at)`: `at` are the target's indices, each a u32."""

    shape: tuple[int, ...]
    extents: tuple[Extent, ...]
    emit: Callable[[Source, list[str]], str]
    evaluate: Callable[[dict[str, Array], dict[str, object]], Array]


def pattern_for(draft: Draft, x: Buf, name: str) -> Pattern:
    """A pattern for a buffer, whose formal is `name`: of a feature that is wanted, or any."""
    scene, dimensions, size = draft.scene, len(x.shape), prod(x.shape)
    possible = {
        feature: make
        for feature, (make, most, is_nonempty) in _PATTERNS.items()
        if dimensions <= most and (size or not is_nonempty)
    }
    wanted = [feature for feature in possible if feature.partition(":")[0] in scene.want]
    weights = [_WEIGHTS.get(feature, 0.2 if scene.is_calm else 1) for feature in possible]
    feature = scene.rng.choice(wanted) if wanted else scene.rng.choices(list(possible), weights)[0]
    pattern = possible[feature](draft, x, name)
    if feature.partition(":")[0] not in _RECORDED_ELSEWHERE:
        scene.used.add(feature.partition(":")[0])
    return pattern


def _same(draft: Draft, x: Buf, name: str) -> Pattern:
    """The own element, at indices of any type that holds them."""
    index = draft.scene.rng.choice(
        ("u32",) * 12 + ("i32", "u64", "i64", *(["u16"] if prod(x.shape) < 1 << 16 else []))
    )
    return Pattern(
        x.shape,
        draft.scene.like(x),
        lambda s, at: s.load(name, [s.cast(place, "u32", index) for place in at], x.ty.name),
        lambda arrays, _: arrays[name].ravel(),
    )


def _moved(indices: Array, length: int, distance: int) -> Array:
    return np.clip(indices.astype(np.int64) + distance, 0, length - 1)


def _neighbours(draft: Draft, x: Buf, name: str) -> Pattern:
    """An element at a small distance along one axis, clamped or guarded; and the own one, combined."""
    rng, ty = draft.scene.rng, x.ty
    axis, distance = rng.randrange(len(x.shape)), rng.choice((-3, -2, -1, -1, 1, 1, 2, 3))
    is_clamped, is_combined, is_signed = rng.random() < 0.5, rng.random() < 0.6, rng.random() < 0.35
    op = rng.choice(
        ("add", "sub") if ty.is_float else ("xor",) if ty.name == "bool" else ("add", "xor", "max")
    )
    default = constant(ty, rng)

    def signed(s: Source, at: list[str], places: list[str], length: str) -> str:
        """The same by signed numbers."""
        end = s.cast(length, "u32", "i32")
        j = s.op("add", s.cast(at[axis], "u32", "i32"), s.lit(str(distance), "i32"), ty="i32")
        zero = s.lit("0", "i32")
        if is_clamped:
            last = s.op("sub", end, s.lit("1", "i32"), ty="i32")
            places[axis] = s.cast(s.op("min", s.op("max", j, zero, ty="i32"), last, ty="i32"), "i32", "u32")
            return s.load(name, places, ty.name)
        inside = s.op("and", s.op("ge", j, zero, ty="i32"), s.op("lt", j, end, ty="i32"), ty="bool")
        places[axis] = j if not s.is_python else s.cast(j, "i32", "u32")
        return s.choose(
            inside, lambda: s.load(name, places, ty.name), s.lit(literal(default, ty), ty.name), ty.name
        )

    def emit(s: Source, at: list[str]) -> str:
        places = list(at)
        length = s.length(name, axis, len(x.shape))
        step = s.lit(str(abs(distance)), "u32")
        if is_signed:
            value = signed(s, at, places, length)
        elif is_clamped:
            if distance < 0:
                places[axis] = s.op("sub_sat", at[axis], step, ty="u32")
            else:
                after = s.op("add", at[axis], step, ty="u32")
                last = s.op("sub", length, s.lit("1", "u32"), ty="u32")
                places[axis] = s.op("min", after, last, ty="u32")
            value = s.load(name, places, ty.name)
        else:
            places[axis] = s.op("add" if distance > 0 else "sub", at[axis], step, ty="u32")
            inside = s.op("lt", places[axis], length, ty="u32")
            value = s.choose(
                inside, lambda: s.load(name, places, ty.name), s.lit(literal(default, ty), ty.name), ty.name
            )
        return s.op(op, value, s.load(name, at, ty.name), ty=ty.name) if is_combined else value

    def evaluate(arrays: dict[str, Array], _: dict[str, object]) -> Array:
        array = arrays[name]
        length = array.shape[axis]
        if array.size == 0:
            return array.ravel()
        own = np.arange(length)
        value = np.take(array, _moved(own, length, distance), axis=axis)
        if not is_clamped:
            shape = [1] * array.ndim
            shape[axis] = length
            outside = ((own + distance < 0) | (own + distance >= length)).reshape(shape)
            value = np.where(outside, ty.dtype(default), value)
        return (compute(op, ty, value, array) if is_combined else value).ravel()

    return Pattern(x.shape, draft.scene.like(x), emit, evaluate)


def _within(draft: Draft, x: Buf, name: str) -> Pattern:
    """An element of the same block of `lanes`: reversed, rotated, by an exclusive or, or by a factor."""
    rng, ty, lanes = draft.scene.rng, x.ty, draft.lanes
    how = rng.choice(("reversed", "rotated", "xor", "scaled"))
    factor = rng.choice((3, 5, 7))
    by = rng.randrange(1, lanes)
    default = constant(ty, rng)

    def emit(s: Source, at: list[str]) -> str:
        i = at[0]
        if how == "xor":
            j = s.op("xor", i, s.lit(str(by), "u32"), ty="u32")
        else:
            lane = s.op("and", i, s.lit(str(lanes - 1), "u32"), ty="u32")
            base = s.op("sub", i, lane, ty="u32")
            if how == "scaled":
                far = s.op("mul", lane, s.lit(str(factor), "u32"), ty="u32")
                other = s.op("and", far, s.lit(str(lanes - 1), "u32"), ty="u32")
            elif how == "reversed":
                other = s.op("sub", s.lit(str(lanes - 1), "u32"), lane, ty="u32")
            else:
                moved = s.op("add", lane, s.lit(str(by), "u32"), ty="u32")
                other = s.op("and", moved, s.lit(str(lanes - 1), "u32"), ty="u32")
            j = s.op("add", base, other, ty="u32")
        inside = s.op("lt", j, s.length(name, 0, 1), ty="u32")
        return s.choose(
            inside, lambda: s.load(name, [j], ty.name), s.lit(literal(default, ty), ty.name), ty.name
        )

    def evaluate(arrays: dict[str, Array], _: dict[str, object]) -> Array:
        array = arrays[name]
        blocks = -(-len(array) // lanes)
        padded = np.full(blocks * lanes, ty.dtype(default), array.dtype)
        padded[: len(array)] = array
        order = np.arange(lanes)
        order = {
            "scaled": order * factor % lanes,
            "reversed": order[::-1],
            "rotated": np.roll(order, -by),
            "xor": order ^ by,
        }[how]
        return padded.reshape(blocks, lanes)[:, order].ravel()[: len(array)]

    return Pattern(x.shape, draft.scene.like(x), emit, evaluate)


def _across(draft: Draft, x: Buf, name: str) -> Pattern:
    """The elements in opposite order along one axis, or the first one everywhere."""
    rng, ty = draft.scene.rng, x.ty
    axis, is_first = rng.randrange(len(x.shape)), rng.random() < 0.25

    def emit(s: Source, at: list[str]) -> str:
        if is_first:
            return s.load(name, [s.lit("0", "u32")] * len(at), ty.name)
        places = list(at)
        last = s.op("sub", s.length(name, axis, len(x.shape)), s.lit("1", "u32"), ty="u32")
        places[axis] = s.op("sub", last, at[axis], ty="u32")
        return s.load(name, places, ty.name)

    def evaluate(arrays: dict[str, Array], _: dict[str, object]) -> Array:
        array = arrays[name]
        return np.full(array.size, array.flat[0]) if is_first else np.flip(array, axis).ravel()

    return Pattern(x.shape, draft.scene.like(x), emit, evaluate)


def _transposed(draft: Draft, x: Buf, name: str) -> Pattern:
    if len(x.shape) != 2:
        return _across(draft, x, name)
    rows, columns = draft.scene.like(x)
    return Pattern(
        x.shape[::-1],
        (columns, rows),
        lambda s, at: s.load(name, at[::-1], x.ty.name),
        lambda arrays, _: arrays[name].T.ravel(),
    )


def _by_param(draft: Draft, x: Buf, name: str) -> Pattern:
    """The element at `i ^ k` or `i + k` for a param k: inside of workgroups or far away, as the launch has it."""
    scene, ty = draft.scene, x.ty
    is_xor = scene.rng.random() < 0.5
    values = [1, 2, 4, 16, 32, 64, 128] if is_xor else [0, 0, 1, 2, 16, 64, 65]
    if not is_xor and scene.rng.random() < 0.3:
        values = [0, 1, (1 << 32) - 1, (1 << 32) - 2, (1 << 32) - 64]
        scene.used.add("wrapping index")
    param = scene.param(draft.params, U32, values)
    default = constant(ty, scene.rng)

    def emit(s: Source, at: list[str]) -> str:
        k = s.param(param.name, "u32")
        j = s.op("xor" if is_xor else "add", at[0], k, ty="u32")
        inside = s.op("lt", j, s.length(name, 0, 1), ty="u32")
        return s.choose(
            inside, lambda: s.load(name, [j], ty.name), s.lit(literal(default, ty), ty.name), ty.name
        )

    def evaluate(arrays: dict[str, Array], params: dict[str, object]) -> Array:
        array, k = arrays[name], int(params[param.name])  # type: ignore[call-overload]
        i = np.arange(len(array))
        j = i ^ k if is_xor else (i + k) % (1 << 32)
        inside = j < len(array)
        return np.where(inside, array[np.where(inside, j, 0)], ty.dtype(default)) if len(array) else array

    return Pattern(x.shape, scene.like(x), emit, evaluate)


def _wrapping(draft: Draft, x: Buf, name: str) -> Pattern:
    """`i + (2^32 - d)`, which is `i - d` where there is such an element."""
    rng, ty = draft.scene.rng, x.ty
    distance = rng.choice((1, 2, 3, draft.lanes, draft.lanes - 1))
    default = constant(ty, rng)

    def emit(s: Source, at: list[str]) -> str:
        j = s.op("add", at[0], s.lit(str((1 << 32) - distance), "u32"), ty="u32")
        inside = s.op("lt", j, s.length(name, 0, 1), ty="u32")
        return s.choose(
            inside, lambda: s.load(name, [j], ty.name), s.lit(literal(default, ty), ty.name), ty.name
        )

    def evaluate(arrays: dict[str, Array], _: dict[str, object]) -> Array:
        array = arrays[name]
        value = np.full(len(array), ty.dtype(default), array.dtype)
        value[distance:] = array[: max(0, len(array) - distance)]
        return value

    return Pattern(x.shape, draft.scene.like(x), emit, evaluate)


def _gather(draft: Draft, x: Buf, name: str) -> Pattern:
    """The element at `index[i] % length`, of an index of any unsigned type."""
    scene, ty = draft.scene, x.ty
    unsigned = [t for t in ("u32", "u32", "u8", "u16", "u64") if not scene.is_python or t != "u64"]
    index_ty = TYPES[scene.rng.choice(unsigned)]
    known = [
        b
        for b in scene.buffers.values()
        if b.ty is index_ty and b.shape == x.shape and b.is_defined and not b.is_private
    ]
    index = scene.rng.choice(known) if known and scene.rng.random() < 0.5 else scene.input(index_ty, x.shape)
    if index_ty.feature:
        scene.used.add(index_ty.feature)
    draft.bound.append((scene.formal("index", index, "read"), index))

    def emit(s: Source, at: list[str]) -> str:
        place = s.cast(s.load("index", at, index_ty.name), index_ty.name, "u32")
        j = s.op("rem", place, s.length(name, 0, 1), ty="u32")
        return s.load(name, [j], ty.name)

    def evaluate(arrays: dict[str, Array], _: dict[str, object]) -> Array:
        array = arrays[name]
        places = arrays["index"].astype(np.uint32) % np.uint32(max(1, len(array)))
        return np.asarray(array[places])

    return Pattern(x.shape, scene.like(x), emit, evaluate)


def loaded_number(
    draft: Draft, name: str
) -> tuple[Callable[[Source, str], str], Callable[[dict[str, Array], Array], Array]]:
    """An element of a buffer of numbers that other launches may change: the first, or that of the workgroup."""
    scene, lanes = draft.scene, draft.lanes
    known = [
        b
        for b in scene.buffers.values()
        if b.ty is U32
        and len(b.shape) == 1
        and b.shape[0]
        and b.is_defined
        and not b.is_private
        and not any(other is b and formal.access != "read" for formal, other in draft.bound)
    ]
    if known and scene.rng.random() < 0.7:
        z = scene.rng.choice(known)
    else:
        z = scene.input(U32, (scene.rng.choice((1, 2, 4, scene.base or 1)),), kind="both")
    draft.bound.append((scene.formal(name, z, "read"), z))
    is_first = scene.rng.random() < 0.4

    def emit(s: Source, i: str) -> str:
        if is_first:
            return s.load(name, [s.lit("0", "u32")], "u32")
        block = s.op("div", i, s.lit(str(lanes), "u32"), ty="u32")
        return s.load(name, [s.op("rem", block, s.length(name, 0, 1), ty="u32")], "u32")

    def evaluate(arrays: dict[str, Array], i: Array) -> Array:
        z = arrays[name]
        return np.asarray(z[np.zeros(len(i), np.int64) if is_first else i // lanes % len(z)])

    return emit, evaluate


def _loaded_offset(draft: Draft, x: Buf, name: str) -> Pattern:
    """The element at `i + (z & mask) * scale`, where there is such an element."""
    scene, ty = draft.scene, x.ty
    mask, scale = scene.rng.choice((1, 1, 3)), scene.rng.choice((1, draft.lanes, draft.lanes))
    default = constant(ty, scene.rng)
    number, numbers = loaded_number(draft, "z")

    def emit(s: Source, at: list[str]) -> str:
        few = s.op("and", number(s, at[0]), s.lit(str(mask), "u32"), ty="u32")
        j = s.op("add", at[0], s.op("mul", few, s.lit(str(scale), "u32"), ty="u32"), ty="u32")
        inside = s.op("lt", j, s.length(name, 0, 1), ty="u32")
        return s.choose(
            inside, lambda: s.load(name, [j], ty.name), s.lit(literal(default, ty), ty.name), ty.name
        )

    def evaluate(arrays: dict[str, Array], _: dict[str, object]) -> Array:
        array = arrays[name]
        i = np.arange(len(array))
        j = i + (numbers(arrays, i) & np.uint32(mask)).astype(np.int64) * scale
        inside = j < len(array)
        return np.where(inside, array[np.where(inside, j, 0)], ty.dtype(default)) if len(array) else array

    return Pattern(x.shape, scene.like(x), emit, evaluate)


def _shorter(draft: Draft, x: Buf, name: str) -> Pattern:
    """An element and one a little behind it, combined: the target lacks as many elements at its end."""
    rng, ty = draft.scene.rng, x.ty
    distance = min(rng.choice((1, 1, 2)), x.shape[0])
    op = "xor" if ty.name == "bool" else rng.choice(("add", "sub"))

    def emit(s: Source, at: list[str]) -> str:
        after = s.load(name, [s.op("add", at[0], s.lit(str(distance), "u32"), ty="u32")], ty.name)
        return s.op(op, after, s.load(name, at, ty.name), ty=ty.name)

    def evaluate(arrays: dict[str, Array], _: dict[str, object]) -> Array:
        array = arrays[name]
        return compute(op, ty, array[distance:], array[: len(array) - distance])

    return Pattern((x.shape[0] - distance,), (("sub", draft.scene.like(x)[0], distance),), emit, evaluate)


def _narrow_index(draft: Draft, x: Buf, name: str) -> Pattern:
    """The element at `i * a + b` in 8 or 16 bits, where there is such an element."""
    scene, ty = draft.scene, x.ty
    rng = scene.rng
    word = TYPES[rng.choice(("u8", "u8", "u16"))]
    factor, offset = rng.choice((1, 1, 1, 3, 5)), rng.choice((0, 1, 7, 200, 255))
    default = constant(ty, rng)

    def emit(s: Source, at: list[str]) -> str:
        j = s.cast(at[0], "u32", word.name)
        if factor != 1:
            j = s.op("mul", j, s.lit(str(factor), word.name), ty=word.name)
        j = s.op("add", j, s.lit(str(offset), word.name), ty=word.name)
        inside = s.op("lt", s.cast(j, word.name, "u32"), s.length(name, 0, 1), ty="u32")
        return s.choose(
            inside, lambda: s.load(name, [j], ty.name), s.lit(literal(default, ty), ty.name), ty.name
        )

    def evaluate(arrays: dict[str, Array], _: dict[str, object]) -> Array:
        array = arrays[name]
        j = (np.arange(len(array)) * factor + offset) % (1 << (8 * word.bytes))
        inside = j < len(array)
        return np.where(inside, array[np.where(inside, j, 0)], ty.dtype(default)) if len(array) else array

    return Pattern(x.shape, scene.like(x), emit, evaluate)


def _fewer(draft: Draft, x: Buf, name: str) -> Pattern:
    """Of each k elements one, or their sum in order: the target is shorter."""
    scene, ty = draft.scene, x.ty
    rng = scene.rng
    k, which = rng.choice((2, 2, 4, 8)), rng.random()
    offset = rng.randrange(k)
    sums = which < 0.5 and ty.name != "bool"

    def emit(s: Source, at: list[str]) -> str:
        first = s.op("mul", at[0], s.lit(str(k), "u32"), ty="u32")
        if not sums:
            return s.load(name, [s.op("add", first, s.lit(str(offset), "u32"), ty="u32")], ty.name)

        def body(t: str, total: str) -> str:
            j = s.op("add", first, t, ty="u32")
            return s.op("add", total, s.load(name, [j], ty.name), ty=ty.name)

        start = s.lit(literal(ty.dtype(0), ty), ty.name)
        return s.loop(s.lit("0", "u32"), s.lit(str(k), "u32"), "1", start, ty.name, body)

    def evaluate(arrays: dict[str, Array], _: dict[str, object]) -> Array:
        array = arrays[name]
        parts = array[: len(array) // k * k].reshape(-1, k)
        if not sums:
            return parts[:, offset]
        total = np.zeros(len(parts), ty.dtype)
        for at in range(k):
            total = compute("add", ty, total, parts[:, at])
        return total

    return Pattern((x.shape[0] // k,), (("div", scene.like(x)[0], k),), emit, evaluate)


def _more(draft: Draft, x: Buf, name: str) -> Pattern:
    """Each element k times: the target is longer."""
    scene, k = draft.scene, draft.scene.rng.choice((2, 2, 3, 4))

    def emit(s: Source, at: list[str]) -> str:
        return s.load(name, [s.op("div", at[0], s.lit(str(k), "u32"), ty="u32")], x.ty.name)

    return Pattern(
        (x.shape[0] * k,),
        (("mul", scene.like(x)[0], k),),
        emit,
        lambda arrays, _: np.repeat(arrays[name], k),
    )


def _loop_by_lane(draft: Draft, x: Buf, name: str) -> Pattern:
    """The sum, in order, of `i % m` elements from i on, around the end."""
    scene, ty = draft.scene, x.ty
    rng = scene.rng
    most = rng.choice((3, 4, 7))
    op = "xor" if ty.name == "bool" else "add"

    def emit(s: Source, at: list[str]) -> str:
        i, length = at[0], s.length(name, 0, 1)
        rounds = s.op("rem", i, s.lit(str(most), "u32"), ty="u32")

        def body(t: str, total: str) -> str:
            j = s.op("rem", s.op("add", i, t, ty="u32"), length, ty="u32")
            return s.op(op, total, s.load(name, [j], ty.name), ty=ty.name)

        start = s.lit(literal(ty.dtype(0), ty), ty.name)
        return s.loop(s.lit("0", "u32"), rounds, "1", start, ty.name, body)

    def evaluate(arrays: dict[str, Array], _: dict[str, object]) -> Array:
        array = arrays[name]
        i = np.arange(len(array))
        total = np.zeros(len(array), ty.dtype)
        for t in range(most - 1):
            if len(array):
                total = np.where(t < i % most, compute(op, ty, total, array[(i + t) % len(array)]), total)
        return total

    return Pattern(x.shape, scene.like(x), emit, evaluate)


def _while(draft: Draft, x: Buf, name: str) -> Pattern:
    """The binary digits of an element that follow its first one, counted; of a float, of a bool, those of a number of it."""
    ty = x.ty

    def emit(s: Source, at: list[str]) -> str:
        value = s.load(name, at, ty.name)
        number = s.op("and", s.cast(value, ty.name, "u32"), s.lit("1023", "u32"), ty="u32")

        def body(names: list[str]) -> list[str]:
            half = s.op("shr", names[0], s.lit("1", "u32"), ty="u32")
            return [half, s.op("add", names[1], s.lit("1", "u32"), ty="u32")]

        results = s.while_(
            [number, s.lit("0", "u32")],
            ["u32", "u32"],
            lambda names: s.op("gt", names[0], s.lit("1", "u32"), ty="u32"),
            body,
        )
        rounds = s.cast(results[1], "u32", ty.name)
        if ty.name == "bool":
            return s.op("xor", rounds, value, ty="bool")
        return s.op("add", rounds, value, ty=ty.name)

    def evaluate(arrays: dict[str, Array], _: dict[str, object]) -> Array:
        array = arrays[name].ravel()
        number = cast(array, ty, U32) & np.uint32(1023)
        rounds = np.zeros(len(array), np.uint32)
        for power in range(1, 10):
            rounds += number >= (1 << power)
        return compute("xor" if ty.name == "bool" else "add", ty, cast(rounds, U32, ty), array)

    return Pattern(x.shape, draft.scene.like(x), emit, evaluate)


Make = Callable[[Draft, Buf, str], Pattern]

_PATTERNS: dict[str, tuple[Make, int, bool]] = {
    "same lane": (_same, 3, False),
    "neighbours": (_neighbours, 3, True),
    "within workgroup": (_within, 1, False),
    "across workgroups": (_across, 3, True),
    "across workgroups:transposed": (_transposed, 3, True),
    "literal param": (_by_param, 1, False),
    "scalar param": (_by_param, 1, False),
    "default param": (_by_param, 1, False),
    "loaded offset": (_loaded_offset, 1, False),
    "neighbours:shorter": (_shorter, 1, True),
    "wrapping index": (_wrapping, 1, False),
    "gather": (_gather, 1, True),
    "narrow index": (_narrow_index, 1, False),
    "computed size": (_fewer, 1, False),
    "computed size:more": (_more, 1, False),
    "loop by lane": (_loop_by_lane, 1, True),
    "while": (_while, 3, False),
}
"""By feature, with what may follow a colon: the pattern, the most dimensions, and whether it needs elements."""

_RECORDED_ELSEWHERE = {"literal param", "scalar param", "default param", "computed size"}
"""Features that the launch or its buffers have, not the pattern."""

_WEIGHTS = {
    "same lane": 6,
    "neighbours": 8,
    "neighbours:shorter": 2,
    "within workgroup": 4,
    "loaded offset": 1.5,
    "computed size": 1,
    "default param": 0,
    "scalar param": 1,
    "while": 0.5,
}
