"""Values by the names of the constants that they are bound to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from .digest import digest_of, entry
from .values import SpecValue

__all__ = ["SpecMap", "fnv1a64"]

FNV_OFFSET = 0xCBF29CE484222325
FNV_PRIME = 0x100000001B3
_U64 = (1 << 64) - 1


def fnv1a64(content: bytes) -> int:
    """FNV-1a, 64 bits (Fowler, Noll, Vo)."""
    found = FNV_OFFSET
    for byte in content:
        found = (found ^ byte) * FNV_PRIME & _U64
    return found


class SpecMap(Mapping[str, SpecValue]):
    """Which value each constant has: `SpecMap({"tile": SpecValue.u32(64)})`.  It never changes.

    Iteration is in the order of the names' UTF-8 bytes, however they were given.  Equal maps have
    the same names and values of the same bits.

    Raises TypeError for a name that is no str or a value that is no SpecValue, and ValueError for
    a name that is given twice (in pairs) or that has no UTF-8 form.
    """

    __slots__ = ("_encoded", "_values")

    def __init__(self, entries: Mapping[str, SpecValue] | Iterable[tuple[str, SpecValue]] = ()) -> None:
        pairs = entries.items() if isinstance(entries, Mapping) else entries
        found: dict[bytes, tuple[str, SpecValue]] = {}
        for name, value in pairs:
            encoded = _encoded(name)
            if not isinstance(value, SpecValue):
                raise TypeError(
                    f"the value of {name!r} is a SpecValue, such as SpecValue.u32(1), not {value!r}"
                )
            if encoded in found:
                raise ValueError(f"{name!r} is given twice")
            found[encoded] = (name, value)
        self._encoded = sorted(found)
        self._values = {found[key][0]: found[key][1] for key in self._encoded}

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

    def cache_hash(self) -> int:
        """FNV-1a 64 over the entries in order: the name's UTF-8 bytes, the value's hash in 8 LE bytes.

        Nothing separates an entry from the next, so different maps may hash alike; what must not
        be mistaken for another goes by `digest`.
        """
        return fnv1a64(
            b"".join(
                name + value.cache_hash().to_bytes(8, "little")
                for name, value in zip(self._encoded, self._values.values(), strict=True)
            )
        )

    def digest(self) -> bytes:
        """32 bytes of BLAKE3 that no two different maps share; see `digest.digest_of`."""
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
