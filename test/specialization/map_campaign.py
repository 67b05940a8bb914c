"""Random SpecMaps that resemble each other: different maps never share a digest.

    python test/specialization/map_campaign.py --maps 1000000

Names and values come from small sets chosen to collide: prefixes of each other, names that hold
the bytes of a value's hash, types that differ in their parameters only, floats of equal value and
different bits.  It counts how often the 64-bit hash of different maps is the same, too.
"""

from __future__ import annotations

import argparse
import random

from vyre_opt import DataType, SpecMap, SpecValue

__all__ = ["campaign"]

VALUES = [
    *(SpecValue.u32(n) for n in (0, 1, 0x41, 0x61, 0x4141, 0xFFFFFFFF)),
    *(SpecValue.i32(n) for n in (0, 1, -1, 0x41)),
    *(SpecValue.f32(x) for x in (0.0, -0.0, 1.0, float("inf"), float("nan"))),
    *(SpecValue.f32_bits(bits) for bits in (0x7FC00001, 0xFFC00000, 0x41)),
    SpecValue.bool(False),
    SpecValue.bool(True),
    *(SpecValue.dtype(t) for t in (DataType.U32, DataType.F32, DataType.BYTES)),
    *(SpecValue.dtype(DataType.vec(t, n)) for t in (DataType.U32, DataType.F16) for n in (2, 4)),
    *(SpecValue.dtype(DataType.of("array", n)) for n in (4, 9)),
    *(SpecValue.dtype(DataType.of("opaque", n)) for n in (1, 2, 1 << 63)),
    SpecValue.dtype(DataType.of("tensor_shaped", DataType.F32, 2, 3)),
    SpecValue.dtype(DataType.of("tensor_shaped", DataType.F32, 23)),
]
LETTERS = ("a", "b", "ab", "é", "\0", "\U0001f600")


def name(rng: random.Random) -> str:
    parts = [rng.choice(LETTERS) for _ in range(rng.randrange(4))]
    if rng.random() < 0.5:  # the bytes of a value's hash, where they are UTF-8, and another name
        value = rng.choice(VALUES).cache_hash().to_bytes(8, "little").decode("utf-8", "ignore")
        parts += [value, rng.choice(LETTERS)]
    return "".join(parts)


def drawn(rng: random.Random) -> SpecMap:
    return SpecMap({name(rng): rng.choice(VALUES) for _ in range(rng.randrange(6))})


def campaign(maps: int, seed: int = 1) -> dict[str, int]:
    """Different maps, digests that two of them share, and hashes that they do."""
    rng = random.Random(seed)
    by_digest: dict[bytes, SpecMap] = {}
    by_hash: dict[int, SpecMap] = {}
    shared_digests = shared_hashes = 0
    for _ in range(maps):
        specs = drawn(rng)
        shared_digests += by_digest.setdefault(specs.digest(), specs) != specs
        shared_hashes += by_hash.setdefault(specs.cache_hash(), specs) != specs
    return {
        "maps": maps,
        "different maps": len(by_digest) + shared_digests,
        "equal digests of different maps": shared_digests,
        "equal 64-bit hashes of different maps": shared_hashes,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--maps", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    for what, count in campaign(args.maps, args.seed).items():
        print(f"{count:10}  {what}")


if __name__ == "__main__":
    main()
