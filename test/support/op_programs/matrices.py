"""Matrices of every type, exact on every target: their elements are small integers, and so are the sums."""

from __future__ import annotations

from collections.abc import Iterator

from vyre_opt.ir import DataType, Value

from .maker import Maker, OpProgram

__all__ = ["matrices"]

F32, I8, I32 = DataType.F32, DataType.I8, DataType.I32
SHAPES = ((16, 32, 8), (32, 32, 16), (16, 64, 32))  # rows of a, depth, columns of b
LAYOUTS = ("row_major", "column_major")


def matrices() -> Iterator[OpProgram]:
    for number, (rows, depth, columns) in enumerate(SHAPES):
        for element in (DataType.F16, DataType.BF16, DataType.TF32, I8):
            yield _product(rows, depth, columns, element, LAYOUTS[number % 2], LAYOUTS[number // 2])
    yield _sums()
    for shape in ((16, 8), (32, 16), (16, 64)):
        yield from (_unpacked(shape, element) for element in (F32, I32, DataType.BF16))


def _unpacked(shape: tuple[int, int], element: DataType) -> OpProgram:
    """A matrix by lanes: what each has, doubled and packed again, and the same as numbers in the order of lanes."""
    make = Maker(f"matrix_unpack {shape[0]}x{shape[1]} {element}", 32)
    b, matrix = make.b, DataType.matrix(*shape, element, "acc")
    held = shape[0] * shape[1] // 32
    b.buffer("x", I8, shape, "read", 0)
    b.buffer("twice", element, shape, "write", 1)
    b.buffer("lanes", element, (32, held), "write", 2)
    x = b.matrix_load("x", (0, 0), DataType.matrix(*shape, I8, "acc"))
    x = b.cast(x, DataType.matrix(*shape, I32 if element is I32 else F32, "acc"))
    lanes = b.matrix_unpack(x if x.type is matrix else b.cast(x, matrix))
    elements = [b.extract(lanes, k) for k in range(held)]
    for k, each in enumerate(elements):
        b.store(each, "lanes", (b.lane_id(), k))
    b.matrix_store(
        b.matrix_pack(b.vector(*(b.add(each, each) for each in elements)), matrix), "twice", (0, 0)
    )
    return make.finish()


def _product(rows: int, depth: int, columns: int, element: DataType, left: str, right: str) -> OpProgram:
    """a * b + c, by way of workgroup memory in the types of the factors."""
    make = Maker(f"matrix_mul_add {rows}x{depth}x{columns} {element} {left} {right}", 32)
    b, total = make.b, I32 if element is I8 else F32
    stored = F32 if element is DataType.TF32 else element
    sums = DataType.matrix(rows, columns, total, "acc")
    for binding, (name, shape) in enumerate(
        (("a", (rows, depth)), ("b", (depth, columns)), ("c", (rows, columns)))
    ):
        b.buffer(name, I8, shape, "read", binding)
    b.buffer("out", total, (rows, columns), "write", 3)
    factors: list[Value] = []
    for name, (height, width), use, layout in (
        ("a", (rows, depth), "a", left),
        ("b", (depth, columns), "b", right),
    ):
        tile = (height, width) if layout == "row_major" else (width, height)
        b.buffer(f"tile_{name}", stored, tile, "workgroup")
        for top in range(0, height, 16):  # as sums, of which every target has the same elements in a lane
            for side in range(0, width, 8):
                part = b.matrix_load(name, (top, side), DataType.matrix(16, 8, I8, "acc"))
                if stored is not I8:
                    part = b.cast(
                        b.cast(part, DataType.matrix(16, 8, F32, "acc")),
                        DataType.matrix(16, 8, stored, "acc"),
                    )
                place = (top, side) if layout == "row_major" else (side, top)
                b.matrix_store(part, f"tile_{name}", place, layout)
        b.barrier("workgroup")
        factors.append(
            b.matrix_load(f"tile_{name}", (0, 0), DataType.matrix(height, width, element, use), layout)
        )
    start = b.cast(b.matrix_load("c", (0, 0), DataType.matrix(rows, columns, I8, "acc")), sums)
    left_factor, right_factor = factors
    result = b.matrix_mul_add(left_factor, right_factor, start)
    b.matrix_store(b.max(result, b.const(-20, sums)), "out", (0, 0))
    return make.finish()


def _sums() -> OpProgram:
    """Elementwise ops, a sum that becomes a factor, and rows and columns of one-dimensional buffers."""
    make = Maker("matrix elementwise", 64)
    b, total = make.b, DataType.matrix(16, 16, F32, "acc")
    factor = DataType.matrix(16, 16, DataType.BF16, "a")
    b.buffer("a", I8, (32, 16), "read", 0)
    b.buffer("row", F32, 16, "read", 1)
    b.buffer("column", F32, 32, "read", 2)
    b.buffer("half", DataType.BF16, (32, 16), "write", 3)
    b.buffer("out", F32, (32, 16), "write", 4)
    top = b.mul(b.subgroup_id(), 16)
    x = b.cast(b.matrix_load("a", (top, 0), DataType.matrix(16, 16, I8, "acc")), total)
    y = b.cast(x, factor)
    y = b.select(b.eq(b.subgroup_id(), 1), b.mul(y, b.splat(b.const(2.0, DataType.BF16), factor)), y)
    b.matrix_store(b.neg(y), "half", (top, 0))
    eye = b.const(1.0, DataType.matrix(16, 16, DataType.BF16, "b"))
    sums = b.matrix_mul_add(y, eye, b.const(0.0, total))
    sums = b.add(sums, b.matrix_load("row", 0, total))
    sums = b.mul(sums, b.matrix_load("column", top, total, "column_major"))
    b.matrix_store(sums, "out", (top, 0))
    return make.finish()
