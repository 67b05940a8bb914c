"""A picture whose grey levels are spread out evenly, by how often each occurs: a pipeline with a buffer that begins as zeros."""

import numpy as np

import vyre_opt as vyre
from vyre_opt.lang import Read, ReadWrite, Write, u8, u32, u64

LEVELS = 256


@vyre.program(workgroup=LEVELS)
def count(picture: Read[u8], bins: ReadWrite[u32]) -> None:
    i = vyre.global_id(0)
    if i < len(picture):
        vyre.atomic_add(bins, u32(picture[i]), 1)


@vyre.program(workgroup=LEVELS, grid=1)
def add_up(bins: Read[u32], up_to: Write[u32]) -> None:
    level = vyre.local_id(0)
    total = u32(0)
    for k in range(level + 1):
        total += bins[k]
    up_to[level] = total


@vyre.program(workgroup=LEVELS)
def spread(picture: Read[u8], up_to: Read[u32], even: Write[u8]) -> None:
    i = vyre.global_id(0)
    if i < len(picture):
        even[i] = u8(u64(up_to[u32(picture[i])]) * (LEVELS - 1) // u64(len(picture)))


@vyre.pipeline
def equalize(picture: Read[u8], even: Write[u8]) -> None:
    bins = vyre.zeros(LEVELS, u32)
    up_to = vyre.buffer(u32, LEVELS)
    count[vyre.ceil_div(len(picture), LEVELS)](picture, bins)
    add_up(bins, up_to)
    spread[vyre.ceil_div(len(picture), LEVELS)](picture, up_to, even)


def reference(picture):
    up_to = np.cumsum(np.bincount(picture, minlength=LEVELS))
    return (up_to[picture] * (LEVELS - 1) // max(len(picture), 1)).astype(np.uint8)


def main():
    picture = np.random.default_rng(1).normal(100, 20, 1_000_000).astype(np.uint8)
    even = np.zeros_like(picture)
    equalize(picture, even)
    assert np.array_equal(even, reference(picture))
    print(f"equalize: {len(picture)} grey levels agree with NumPy")


if __name__ == "__main__":
    main()
