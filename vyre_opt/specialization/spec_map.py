"""An immutable map from the names of specialization constants to their values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from .digest import digest_of, entry
from .values import SpecValue

__all__ = ["SpecMap", "fnv1a64"]

FNV_OFFSET = 0xCBF29CE484222325
FNV_PRIME = 0x100000001B3
_U64 = (1 << 64) - 1


def fnv1a64(content: bytes) -> int:
    """The 64-bit FNV-1a hash (Fowler, Noll, Vo)."""
    digest = FNV_OFFSET
    for byte in content:
        digest = (digest ^ byte) * FNV_PRIME & _U64
    return digest


class SpecMap(Mapping[str, SpecValue]):
    """The values of constants: `SpecMap({"tile": SpecValue.u32(64)})`.  Immutable and hashable.

    Iteration is in the order of the names' UTF-8 bytes.  Maps are equal if they have the same names
    with values of the same bits.

    Raises TypeError for a name that is no str or a value that is no SpecValue, and ValueError for
    a repeated name (in pairs) or one that UTF-8 cannot encode.
    """

    __slots__ = ("_encoded", "_values")

    def __init__(self, entries: Mapping[str, SpecValue] | Iterable[tuple[str, SpecValue]] = ()) -> None:
        pairs = entries.items() if isinstance(entries, Mapping) else entries
        by_bytes: dict[bytes, tuple[str, SpecValue]] = {}
        for name, value in pairs:
            encoded = _encoded(name)
            if not isinstance(value, SpecValue):
                message = f"the value of {name!r} is a SpecValue, such as SpecValue.u32(1)"
                raise TypeError(f"{message}, not {value!r}")
            if encoded in by_bytes:
                raise ValueError(f"{name!r} is given twice")
            by_bytes[encoded] = (name, value)
        self._encoded = sorted(by_bytes)
        self._values = dict(by_bytes[key] for key in self._encoded)

    def __getitem__(self, name: str) -> SpecValue:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return self._values == other._values if isinstance(other, SpecMap) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self._values.items()))

    def __repr__(self) -> str:
        return f"SpecMap({self._values!r})"

    def insert(self, name: str, value: SpecValue) -> SpecMap:
        """A new map with `value` for `name`, which may have had another.  Raises as the constructor does."""
        return SpecMap({**self._values, name: value})

    def cache_hash(self) -> int:
        """FNV-1a 64 over the entries in order: the name's UTF-8 bytes, the value's hash in 8 LE bytes.

        Nothing separates an entry from the next, so different maps can have the same hash; use
        `digest` where that would be wrong.
        """
        pairs = zip(self._encoded, self._values.values(), strict=True)
        return fnv1a64(b"".join(name + value.cache_hash().to_bytes(8, "little") for name, value in pairs))

    def digest(self) -> bytes:
        """32 bytes of BLAKE3, free of the collisions of `cache_hash`; see `digest.digest_of`."""
        return digest_of([entry(name, value) for name, value in self.items()])

    def to_numeric_constants(self) -> dict[str, float]:
        """Each value as a float, in the order of the map; see `SpecValue.as_pipeline_f64`."""
        return {name: value.as_pipeline_f64() for name, value in self.items()}


def _encoded(name: object) -> bytes:
    if not isinstance(name, str):
        raise TypeError(f"the name of a constant is a str, not {name!r}")
    try:
        return name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"the name {name!r} has a surrogate, which UTF-8 cannot hold") from None
