"""How often each byte occurs: counted in shared memory by each workgroup, then added up by atomics."""

import numpy as np

import vyre_opt as vyre
from vyre_opt.lang import Read, ReadWrite, u8, u32


@vyre.program(workgroup=256)
def histogram(data: Read[u8], counts: ReadWrite[u32]) -> None:
    bins = vyre.shared(u32, 256)
    lane = vyre.local_id(0)
    bins[lane] = 0
    vyre.barrier()
    for i in range(vyre.global_id(0), len(data), vyre.global_size(0)):
        vyre.atomic_add(bins, u32(data[i]), 1)
    vyre.barrier()
    vyre.atomic_add(counts, lane, bins[lane])


def run(data, counts):
    histogram[min(vyre.ceil_div(len(data), 4096), 1024)](data, counts)


def main():
    data = np.random.default_rng(1).normal(100, 30, 1_000_000).astype(np.uint8)
    counts = np.zeros(256, np.uint32)
    run(data, counts)
    assert np.array_equal(counts, np.bincount(data, minlength=256))
    print(f"byte_histogram: {len(data)} bytes agree with NumPy")


if __name__ == "__main__":
    main()
