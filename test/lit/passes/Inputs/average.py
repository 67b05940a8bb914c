"""Ops of another package: one on integers, one that expands to another, one on floats, and one that never ends."""

from __future__ import annotations

from vyre_opt import Builder, register_op
from vyre_opt.ir import Value


@register_op("signal.average", "binary", "(a + b) / 2 without overflow.", types="int")
def average(b: Builder, x: Value, y: Value) -> Value:
    return b.add(b.and_(x, y), b.shr(b.xor(x, y), 1))


@register_op("signal.centre", "ternary", "The average of averages.", types="int")
def centre(b: Builder, x: Value, y: Value, z: Value) -> Value:
    return b.op("signal.average", b.op("signal.average", x, y), z)


@register_op("signal.lerp", "ternary", "x + (y - x) * t.", types="float")
def lerp(b: Builder, x: Value, y: Value, t: Value) -> Value:
    return b.fma(b.sub(y, x), t, x)


@register_op("signal.above", "compare", "a > b + 1.", types="int")
def above(b: Builder, x: Value, y: Value) -> Value:
    return b.gt(x, b.add(y, 1))


@register_op("signal.endless", "unary", "Itself.")
def endless(b: Builder, x: Value) -> Value:
    return b.op("signal.endless", x)
