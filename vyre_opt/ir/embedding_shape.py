"""The shape of a table stored as a tensor train: rows, columns and ranks of its cores."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ..records import dataclass

__all__ = ["MAX_TABLE_BYTES", "EmbeddingShape"]

MAX_CORES = 4
MAX_TABLE_BYTES = 40 * 1024
"""Largest size of the partial products of a workgroup's lookups, which are in workgroup memory."""


@dataclass(frozen=True)
class EmbeddingShape:
    """`p`, `q`: rows and columns of each core.  `r`: the ranks between cores, one fewer.

    Raises ValueError for numbers that do not fit together or are out of range.
    """

    p: tuple[int, ...]
    q: tuple[int, ...]
    r: tuple[int, ...]

    def __post_init__(self) -> None:
        d = len(self.p)
        if not 2 <= d <= MAX_CORES or len(self.q) != d or len(self.r) != d - 1:
            raise ValueError(f"2 to {MAX_CORES} cores have as many p and q, and a rank fewer: {self.numbers}")
        if min((*self.p, *self.q, *self.r)) < 1:
            raise ValueError(f"every p, q and rank is at least 1: {self.numbers}")
        if prod(self.p) >= 1 << 32 or self.elements >= 1 << 32:
            raise ValueError(f"rows and elements of cores are counted in 32 bits: {self.numbers}")

    @property
    def numbers(self) -> str:
        """Name in messages."""
        return f"p {list(self.p)}, q {list(self.q)}, ranks {list(self.r)}"

    @classmethod
    def of(cls, params: Mapping[str, int]) -> EmbeddingShape:
        """Make a shape from the parameters of the op: p0 to p3, q0 to q3, r1 to r3, 0 for a core that is not there."""
        d = max((k + 1 for k in range(MAX_CORES) if params.get(f"p{k}")), default=0)
        extra = [f"{n}{k}" for k in range(d, MAX_CORES) for n in "qr" if params.get(f"{n}{k}")]
        if extra:
            raise ValueError(f"{', '.join(extra)} belongs to a core beyond the {d} that have a p")
        p, q = (tuple(params.get(f"{n}{k}", 0) for k in range(d)) for n in "pq")
        return cls(p, q, tuple(params.get(f"r{k}", 0) for k in range(1, d)))

    @property
    def ranks(self) -> tuple[int, ...]:
        return (1, *self.r, 1)

    @property
    def columns(self) -> int:
        """Values of a row of the table."""
        return prod(self.q)

    def slice_size(self, k: int) -> int:
        """Elements of a slice of core k."""
        return self.ranks[k] * self.q[k] * self.ranks[k + 1]

    def start(self, k: int) -> int:
        """Offset of core k in @cores."""
        return sum(self.p[i] * self.slice_size(i) for i in range(k))

    @property
    def elements(self) -> int:
        """Elements of all cores."""
        return self.start(len(self.p))

    def table(self, k: int) -> int:
        """Values of a lookup's partial product after core k."""
        return prod(self.q[: k + 1]) * self.ranks[k + 1]

    @property
    def tables(self) -> tuple[int, int]:
        """Values of a lookup's partial products after even and odd cores: a step reads one of them and writes the other."""
        inner = [self.table(k) for k in range(len(self.p) - 1)]
        return max(inner[0::2]), max(inner[1::2], default=0)

    def table_bytes(self, lookups: int) -> int:
        return sum(self.tables) * lookups * 4

    @classmethod
    def of_kernel(cls, params: Mapping[str, int]) -> EmbeddingShape:
        """Make a shape from the parameters of the op.  Raises ValueError where a lookup does not fit into workgroup memory, too."""
        shape = cls.of(params)
        if shape.table_bytes(1) > MAX_TABLE_BYTES:
            raise ValueError(
                f"a lookup needs {shape.table_bytes(1)} bytes of workgroup memory, more than {MAX_TABLE_BYTES}; lower the ranks"
            )
        return shape
