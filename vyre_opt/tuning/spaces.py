"""The schedule spaces of the shipped kernels, as data; `decode_scan` has the fusion threshold besides.

A kernel's space is a union of products over the fields of its schedule.  There is a table for GPUs and
one for the CPU target, where the lanes of a workgroup are those of a vector unit.  Which configurations
are legal for a shape, the kernel's builder decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..kernels.targets import is_gpu
from .space import Factors

__all__ = ["CPU", "GPU", "products"]

Products = Sequence[Mapping[str, Sequence[int]]]

_WIDE = (64, 128, 256, 512, 1024)
_LANES = (32, *_WIDE)
_FINE = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
_CHUNKS = (12, 20, 28, 44, 60, 76, 92, 108, 124, 188, 252, 380, 508, 764, 1020)  # of an odd number of words

_TO_4, _TO_8, _TO_16 = (1, 2, 4), (1, 2, 4, 8), (1, 2, 4, 8, 16)
_PLAIN = {
    "unroll": (4,),
    "tile": (0,),
    "turns": (1,),
    "splits": (1,),
    "shifted": (0,),
    "staged": (0,),
    "clamped": (1,),
}
_ROWS = {
    **_PLAIN,
    "lanes": (8, 16, 32),
    "rows": _TO_8,
    "kept": (1,),
}  # of softmax: several rows in a workgroup
_ROW = {**_PLAIN, "rows": (1,), "kept": (1,)}
_BRANCHES = {"clamped": (0,)}
_PLAIN_ROWS = {
    "lanes": (32,),
    "vector": (1,),
    "turns": (1,),
    "splits": (1,),
    "clamped": (0,),
}  # of matvec_fixed
_CLAMPED = {"vector": (1, 2, 4), "turns": (1, 2, 4), "clamped": (1,)}
_COLUMNS = {"across": (0,), "vector": (1,), "splits": (1,), "streamed": (0,)}  # of contract_step: a lane each
_TABLE = {"workgroups": (1,), "streamed": (0,)}  # of chain: lanes over rows and columns
_SUBGROUP = {"lanes": (32,), "across": (32,)}  # of matmul: the vector registers of a CPU
_BLOCKS = (16, 48, 96, 192)
_DECODE = {"lanes": _FINE, "characters": (4, 8, 16, 32)}
_DECODE_SCAN = {"chunk": (12, 36, 60, 84), "lookup": (0, 1), "near": (0, 32), "threshold": (0, 49152)}

GPU: dict[str, Products] = {
    "math.softmax": (
        {**_ROWS, "vector": _TO_8, "turns": (1, 2)},
        {**_ROW, "lanes": _WIDE, "vector": _TO_8},
        {**_ROW, **_BRANCHES, "lanes": _WIDE, "vector": (2, 4, 8), "kept": (0,), "unroll": (2, 4, 8)},
        {**_ROW, "lanes": _WIDE[2:], "vector": (4, 8), "splits": (2, 4, 8)},
    ),
    "math.softmax_step": ({"lanes": _FINE, "share": (256, 1024, 4096, 16384, 65536)},),
    "math.matvec_fixed": (
        {**_PLAIN_ROWS, "rows": (4,), "unroll": _TO_8},
        {**_CLAMPED, "rows": (16,), "lanes": (16,), "unroll": (1, 2, 4), "splits": (1,)},
        {**_CLAMPED, "rows": (8,), "lanes": (32,), "unroll": _TO_8, "splits": (1,)},
        {**_CLAMPED, "rows": (1,), "lanes": (256, 1024), "unroll": (1, 4, 8), "splits": (1,)},
        {**_CLAMPED, "rows": (1,), "lanes": (256,), "unroll": (1, 2, 4), "splits": (8, 32, 128, 512)},
    ),
    "math.matmul": (
        {
            "lanes": (256,),
            "across": (16,),
            "rows": (4,),
            "vectors": (4, 8),
            "block": (64,),
            "step": (8, 16, 32),
        },
        {
            "lanes": (256,),
            "across": (16,),
            "rows": (8,),
            "vectors": (4, 8),
            "block": (128,),
            "step": (8, 16, 32),
        },
        {
            "lanes": (64,),
            "across": (8, 16),
            "rows": (4, 8),
            "vectors": (4,),
            "block": (32, 64),
            "step": (8, 16),
        },
    ),
    "scan.prefix": (
        {"lanes": _WIDE[:4], "rounds": _TO_16, "vector": _TO_8, "look_back": (1,), "twice": (0,)},
        {"lanes": (256, 1024), "rounds": (2, 8), "vector": (4,), "look_back": (0,), "twice": (0,)},
    ),
    "scan.dfa": ({"lanes": _LANES[:5], "chunk": (4, *_CHUNKS), "staged": (0, 1)},),
    "tt.contract_step": (
        {**_COLUMNS, "lanes": _FINE, "unroll": (*_TO_16, 32)},
        {
            **_COLUMNS,
            "lanes": _WIDE[1:4],
            "unroll": _TO_16,
            "across": (32,),
            "vector": _TO_4,
            "splits": _TO_8,
        },
    ),
    "tt.chain": (
        {**_TABLE, "lanes": _WIDE, "vector": _TO_4, "ahead": (0, 16, 32, 64)},
        {
            **_TABLE,
            "lanes": (*_LANES, 320, 384),
            "vector": (4,),
            "ahead": (32,),
            "workgroups": (2, 4, 8, 10, 12, 16, 32, 64),
        },
    ),
    "tt.embedding": (
        {
            "chunk": (2048, 4096, 8192, 16384),
            "lookups": (4, 8, 16, 32),
            "rows": (4, 7, 8, 16),
            "columns": (4, 8, 16),
            "unroll": (4, 8),
        },
        {"lanes": _WIDE[:3], "lookups": _TO_4, "rows": (4, 8), "unroll": (4,)},
        {"lanes": _WIDE[:3], "lookups": _TO_8, "terms": _TO_4},
        {"chunk": (2048, 4096, 8192, 16384, 32768), "subgroups": (4, 8, 16)},
    ),
    "decode.base64": (_DECODE,),
    "decode.hex": (_DECODE,),
    "decode_scan": ({"lanes": (128, 256, 512), **_DECODE_SCAN},),
}

CPU: dict[str, Products] = {
    **GPU,
    "math.softmax": (
        {**_ROWS, **_BRANCHES, "vector": _TO_4},
        {**_ROW, **_BRANCHES, "lanes": _LANES[:3], "vector": _TO_4, "kept": (0, 1), "unroll": (2, 4, 8)},
        {**_ROW, **_BRANCHES, "lanes": (32,), "vector": _TO_4, "kept": (0,), "unroll": _TO_16, "tile": (1,)},
    ),
    "math.matvec_fixed": ({**_PLAIN_ROWS, "rows": _TO_16, "unroll": _TO_16},),
    "math.matmul": (
        {**_SUBGROUP, "rows": (2, 3, 4, 6), "vectors": (2,), "block": _BLOCKS, "step": (0, 128, 256, 512)},
        {**_SUBGROUP, "rows": (2, 3, 4), "vectors": (3,), "block": _BLOCKS, "step": (0, 128, 256)},
        {**_SUBGROUP, "rows": (3, 6, 12), "vectors": (1,), "block": _BLOCKS, "step": (0, 128, 256)},
        {
            "lanes": (32,),
            "across": (1,),
            "rows": (1, 4, 6, 8),
            "vectors": (1,),
            "block": _BLOCKS,
            "step": (0,),
        },
    ),
    "scan.prefix": (
        {
            "lanes": (32,),
            "rounds": (64, 256, 1024, 4096, 16384),
            "vector": (1,),
            "look_back": (0, 1),
            "twice": (1,),
        },
        {"lanes": _LANES[:4], "rounds": _TO_8, "vector": (1, 4), "look_back": (0, 1), "twice": (0,)},
    ),
    "scan.dfa": ({"lanes": _LANES[:4], "chunk": _CHUNKS, "staged": (0,)},),
    "tt.contract_step": (
        {**_COLUMNS, "lanes": _FINE[:8], "unroll": _TO_16},
        {**_COLUMNS, "lanes": (32,), "unroll": _TO_16, "streamed": (256, 1024, 2048, 4096)},
    ),
    "tt.chain": (
        {**_TABLE, "lanes": _LANES[:5], "vector": _TO_4, "ahead": (0, 16, 32)},
        {**_TABLE, "lanes": (32,), "vector": (1,), "ahead": (0,), "streamed": _TO_16},
    ),
    "tt.embedding": ({"lanes": _LANES[:4], "lookups": _TO_8, "rows": (2, 4, 8, 16), "unroll": (1, 4, 8)},),
    "decode_scan": ({"lanes": _LANES[:4], **_DECODE_SCAN},),
}


def products(kernel: str, target: str) -> Sequence[Factors]:
    """The products of a kernel's space, for cpu, ref, cuda or a GPU's architecture.  Raises KeyError."""
    return (GPU if is_gpu(target) else CPU)[kernel]
