"""Trust: a loader accepts packs of a digest, or packs that an Ed25519 key has signed.

Object code is code: who loads a pack runs it.  So a digest or a key that came another way than the pack is what trust rests on.
Signatures are made and checked by the package `cryptography`, an extra.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .format import KEY_BYTES, Pack, PackError, Signature, pack_bytes

__all__ = ["KEY_PREFIX", "check_trust", "public_key", "signed"]

KEY_PREFIX = "ed25519:"
"""Prefix of a key as text, before 64 hexadecimal digits; a digest has none."""

Trusted = str | Iterable[str]


def check_trust(pack: Pack, trusted: Trusted) -> None:
    """Raises PackError unless the pack has one of the digests, or a valid signature by one of the keys `ed25519:...`."""
    accepted = [trusted] if isinstance(trusted, str) else list(trusted)
    for each in accepted:
        if not isinstance(each, str) or not _is_hex(each.removeprefix(KEY_PREFIX)):
            raise PackError(
                f"trusted= has digests of 64 hexadecimal digits, and keys {KEY_PREFIX}..., not {each!r}"
            )
    digests = [each.lower() for each in accepted if not each.startswith(KEY_PREFIX)]
    if pack.digest in digests:
        return
    keys = [bytes.fromhex(each.removeprefix(KEY_PREFIX)) for each in accepted if each.startswith(KEY_PREFIX)]
    signature = pack.signature
    if signature is not None and signature.key in keys:
        if _is_valid(signature, pack.digest):
            return
        raise PackError(f"{pack.name}: its signature is not of this pack; nothing of it is run")
    by = "unsigned" if signature is None else f"signed by {KEY_PREFIX}{signature.key.hex()}"
    raise PackError(
        f"{pack.name} is not trusted, and nothing of it is run: its digest is {pack.digest}, and it is {by}"
    )


def signed(pack: Pack, private_key: bytes) -> bytes:
    """The file of a pack with a signature.  `private_key`: 32 bytes of Ed25519.  Raises PackError."""
    ed25519 = _ed25519()
    if len(private_key) != KEY_BYTES:
        raise PackError(f"a private key has {KEY_BYTES} bytes, not {len(private_key)}")
    key = ed25519.Ed25519PrivateKey.from_private_bytes(private_key)
    signature = Signature(key.public_key().public_bytes_raw(), key.sign(bytes.fromhex(pack.digest)))
    return pack_bytes(pack.parts(), pack.about, signature)


def public_key(private_key: bytes) -> str:
    """The key that `trusted=` takes, of a private key."""
    key = _ed25519().Ed25519PrivateKey.from_private_bytes(private_key)
    text: str = key.public_key().public_bytes_raw().hex()
    return KEY_PREFIX + text


def _is_valid(signature: Signature, digest: str) -> bool:
    from cryptography.exceptions import InvalidSignature

    key = _ed25519().Ed25519PublicKey.from_public_bytes(signature.key)
    try:
        key.verify(signature.signature, bytes.fromhex(digest))
    except InvalidSignature:
        return False
    return True


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise PackError("signatures need the package cryptography: pip install cryptography") from None
    return ed25519


def _is_hex(text: str) -> bool:
    return len(text) == 2 * KEY_BYTES and all(digit in "0123456789abcdefABCDEF" for digit in text)
