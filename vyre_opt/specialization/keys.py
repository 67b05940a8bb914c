"""Keys of what is made of a program and its specialization values.

The keys of 64 and 128 bits are for tables in which an equal key is compared again; the compile
cache, where it is not, goes by the digests of digest.py.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..ir.fingerprint import fingerprint
from ..ir.program import Program
from .spec_map import SpecMap

__all__ = [
    "SpecCacheKey",
    "versioned_specialization_artifact_key",
    "vsa_specialization_key",
]


@dataclass(frozen=True, slots=True)
class SpecCacheKey:
    """What tells one compiled pipeline from another.

    `shader_hash`, `binding_signature`, `spec_hash`: u64; `workgroup_size`: three u32.  Raises
    TypeError and ValueError for others.
    """

    shader_hash: int
    binding_signature: int
    workgroup_size: tuple[int, int, int]
    spec_hash: int

    def __post_init__(self) -> None:
        for name in ("shader_hash", "binding_signature", "spec_hash"):
            object.__setattr__(self, name, _unsigned(getattr(self, name), 64, name))
        sizes = tuple(_unsigned(size, 32, "workgroup_size") for size in self.workgroup_size)
        if len(sizes) != 3:
            raise ValueError(f"workgroup_size is three sizes, not {len(sizes)}")
        object.__setattr__(self, "workgroup_size", sizes)

    @staticmethod
    def of(
        shader_hash: int, binding_signature: int, workgroup_size: Sequence[int], specs: SpecMap
    ) -> SpecCacheKey:
        """The key with the hash of a map."""
        x, y, z = workgroup_size
        return SpecCacheKey(shader_hash, binding_signature, (x, y, z), specs.cache_hash())


def vsa_specialization_key(program: Program, spec_hash: int) -> int:
    """128 bits: the first 8 bytes of the program's fingerprint, little-endian, above `spec_hash`."""
    first = int.from_bytes(fingerprint(program)[:8], "little")
    return first << 64 | _unsigned(spec_hash, 64, "spec_hash")


def versioned_specialization_artifact_key(version: int, spec: str | bytes, backend: str | bytes) -> str:
    """64 hex digits of BLAKE3 over `version` (u32) and both names, each after its length.

    Raises TypeError and ValueError for a version that is no u32, or a str that UTF-8 cannot hold.
    """
    from blake3 import blake3

    digest = blake3(b"vyre-specialization-artifact-key-v1\0version\0")
    digest.update(_unsigned(version, 32, "version").to_bytes(4, "little"))
    for label, given in ((b"\0spec\0", spec), (b"\0backend\0", backend)):
        content = _bytes(given)
        digest.update(label + len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()


def _unsigned(value: Any, bits: int, what: str) -> int:
    if isinstance(value, bool):
        raise TypeError(f"{what} is an integer, not {value!r}")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} is an integer, not {value!r}") from None
    if not 0 <= number < 1 << bits:
        raise ValueError(f"{what} is an unsigned integer of {bits} bits, not {number}")
    return number


def _bytes(given: Any) -> bytes:
    if isinstance(given, str):
        try:
            return given.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{given!r} has a surrogate, which UTF-8 cannot hold") from None
    if isinstance(given, (bytes, bytearray, memoryview)):
        return bytes(given)
    raise TypeError(f"a name is a str or bytes, not {given!r}")
