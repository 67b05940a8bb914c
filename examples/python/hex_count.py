"""Hex text decoded by a named kernel, and the line ends in it counted by one of our own: a pipeline of the two."""

import numpy as np

import vyre_opt as vyre
from vyre_opt.lang import Read, ReadWrite, u8, u32


@vyre.program(workgroup=256)
def count_lines(text: Read[u8], lines: ReadWrite[u32]) -> None:
    i = vyre.global_id(0)
    ends = vyre.subgroup_reduce(u32(i < len(text) and text[i] == 10), "add")
    if vyre.lane_id() == 0:
        vyre.atomic_add(lines, 0, ends)


@vyre.pipeline
def hex_count(text: Read[u8], lines: ReadWrite[u32]) -> None:
    decoded = vyre.buffer(u8, len(text) // 2)
    vyre.decode.hex(text, decoded)
    count_lines[vyre.ceil_div(len(decoded), 256)](decoded, lines)


def main():
    data = np.random.default_rng(1).integers(0, 64, 500_000).astype(np.uint8)
    text = np.frombuffer(data.tobytes().hex().encode(), np.uint8)
    lines = np.zeros(1, np.uint32)
    hex_count(text, lines)
    assert lines[0] == np.count_nonzero(data == 10)
    print(f"hex_count: {lines[0]} lines in {len(text)} digits agree with NumPy")


if __name__ == "__main__":
    main()
