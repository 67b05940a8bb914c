"""Random numbers as functions of a key and a counter: Philox 4x32-10, written in kernels' own language.

    u = vyre.rand(seed, r * n + vyre.arange(n))

Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011.  The key is (key, 0), the counter (counter, 0, 0, 0), and of the
four words of the result there is the first.  So the same key and counter have the same number on every target, in any order.
"""

from __future__ import annotations

from typing import Any

from .functions import Func
from .intrinsics import static
from .scalars import f32, u32, u64

__all__ = ["rand", "randint"]

ROUNDS = 10
FACTORS = 0xD2511F53, 0xCD9E8D57
STEPS = 0x9E3779B9, 0xBB67AE85
"""Steps by which the words of the key grow, round by round, modulo 2^32."""


@Func
def randint(key: Any, counter: Any) -> Any:
    """A number of 32 bits, as u32.  `key`: a u32; `counter`: a u32, or a slice of them, which gives a slice."""
    zero = u32(0)
    a, b, c, d = counter ^ zero, zero, zero, zero  # of another type it is refused
    first, second = key ^ zero, zero
    for _ in static(range(ROUNDS)):
        product, other = u64(a) * u64(FACTORS[0]), u64(c) * u64(FACTORS[1])
        a, b, c, d = (
            u32(other >> u64(32)) ^ b ^ first,
            u32(other),
            u32(product >> u64(32)) ^ d ^ second,
            u32(product),
        )
        first, second = first + u32(STEPS[0]), second + u32(STEPS[1])
    return a


@Func
def rand(key: Any, counter: Any) -> Any:
    """An f32 from 0 up to 1, without it, a multiple of 2^-24: the upper 24 bits of `randint`."""
    return f32(randint(key, counter) >> u32(8)) * f32(2.0**-24)
