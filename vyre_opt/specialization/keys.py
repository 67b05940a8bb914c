"""Cache keys made of a program and its specialization values.

Keys of 64 and 128 bits may collide, so they are for tables that compare the entry as well; the compile
cache, which does not, uses the digests of digest.py.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from ..ir.program import Program
from ..records import dataclass
from ..syntax.fingerprint import fingerprint
from .spec_map import SpecMap

__all__ = ["SpecCacheKey", "versioned_specialization_artifact_key", "vsa_specialization_key"]


@dataclass(frozen=True, slots=True)
class SpecCacheKey:
    """The key of a compiled pipeline.

    `shader_hash`, `binding_signature` and `spec_hash` are u64, `workgroup_size` is three u32; raises
    TypeError or ValueError for other values.
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
        """The key for the values of a SpecMap."""
        x, y, z = workgroup_size
        return SpecCacheKey(shader_hash, binding_signature, (x, y, z), specs.cache_hash())


def vsa_specialization_key(program: Program, spec_hash: int) -> int:
    """128 bits: the first 8 bytes of the program's fingerprint, little-endian, above `spec_hash`."""
    first = int.from_bytes(fingerprint(program)[:8], "little")
    return first << 64 | _unsigned(spec_hash, 64, "spec_hash")


def versioned_specialization_artifact_key(version: int, spec: str | bytes, backend: str | bytes) -> str:
    """64 hex digits of BLAKE3 over `version` (u32) and both names, each after its length.

    Raises TypeError or ValueError for a version that is no u32, and for a str that UTF-8 cannot encode.
    """
    from blake3 import blake3

    digest = blake3(b"vyre-specialization-artifact-key-v1\0version\0")
    digest.update(_unsigned(version, 32, "version").to_bytes(4, "little"))
    for label, name in ((b"\0spec\0", spec), (b"\0backend\0", backend)):
        content = _bytes(name)
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


def _bytes(name: Any) -> bytes:
    if isinstance(name, str):
        try:
            return name.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{name!r} has a surrogate, which UTF-8 cannot hold") from None
    if isinstance(name, (bytes, bytearray, memoryview)):
        return bytes(name)
    raise TypeError(f"a name is a str or bytes, not {name!r}")
