"""x = n pi/2 + r with |r| <= pi/4 (and a little), for any finite x: the quadrant n modulo 4, and r in two words.

Up to a limit, pi/2 in three words times n is subtracted (Cody and Waite).  Beyond, r comes of the bits of 2/pi that
decide it (Payne and Hanek, "Radian reduction for trigonometric functions", 1983):

    x = M 2^E, M an integer.  Of 2/pi, the bits above 2^(2 - E) change x * 2/pi by multiples of 4, so they are left out:

    2/pi          | dropped | A: three words from the bit of 2^(1 - E) on | negligible
    M * A mod 1   = x / (2 pi) mod 1:   | n | fraction of a quadrant, from -1/2 to 1/2 as two's complement ...
"""

from __future__ import annotations

from . import constants
from .constants import PI, words
from .double_word import Words, fast_two_sum, product, two_product, two_sum
from .expression import Bits, Format, Real, fma, rounded_product, select_bits

__all__ = ["limit", "reduced", "reduced_large"]

Reduced = tuple[Bits, Words]
"""The quadrant, of which the two lowest bits count, and r."""


def limit(format: Format) -> float:
    """|x| up to which `reduced` is good to far below an ulp of the smallest r: n takes half as many bits as a float."""
    return 2.0 ** (format.precision // 2 + 2)


def reduced(x: Real) -> Reduced:
    """Remainder for |x| <= limit.  The second word may be as large as 2^(2 - precision / 2) times the first."""
    first, second, third = words(PI / 2, 3, x.format)
    n = rounded_product(x, float(2 / PI))
    # exact: the difference is a multiple of first's last place and below 1
    rough = fma(-n, first, x)
    high, low = two_product(n, x.constant(second))
    # exact, too, where |rough| < |high|: it is a multiple of high's last place then
    total, error = fast_two_sum(rough, -high)
    return n.on_integral().bits(), (total, fma(-n, third, error - low))


def reduced_large(x: Real) -> Reduced:
    """Remainder for limit < |x| < infinity, with the sign of x."""
    format, magnitude = x.format, abs(x).bits()
    fraction_bits = format.fraction_bits
    significand = (magnitude & ((1 << fraction_bits) - 1)) | (1 << fraction_bits)
    # x = significand * 2^E; one word of zeros stands before 2/pi, so that E - 2 + width is not negative
    bit = (magnitude >> fraction_bits) - (format.bias + fraction_bits + 2 - format.bits)
    turns = _product_modulo_1(significand, _window(bit))
    quadrant, r = _quadrant_and_rest(*turns)
    zero = x.graph.integer(0)
    sign = x.bits() & (1 << format.bits - 1)
    return select_bits(sign.is_zero(), quadrant, zero - quadrant), _signed(r, sign)


def _signed(value: Words, sign: Bits) -> Words:
    """`value`, negated where `sign` has the highest bit."""
    return (value[0].bits() ^ sign).real(), (value[1].bits() ^ sign).real()


def _window(bit: Bits) -> tuple[Bits, Bits, Bits]:
    """Three words of 2/pi, from the bit number `bit` on, counted from the word of zeros."""
    graph, width = bit.graph, bit.graph.format.bits
    shift, index = bit & (width - 1), bit >> (width.bit_length() - 1)
    largest = graph.format.bias + 1 - graph.format.fraction_bits - 2 + width
    count = largest // width + 4
    candidates = [graph.integer(word) for word in (0, *constants.two_over_pi(width, count - 1))]
    for stage in reversed(range((count - 4).bit_length())):
        skip = 1 << stage
        is_low = (index & skip).is_zero()
        needed = min(len(candidates), 3 + skip)
        candidates = [
            select_bits(is_low, word, candidates[k + skip]) if k + skip < len(candidates) else word
            for k, word in enumerate(candidates[:needed])
        ]
    first, second, third, fourth = candidates[:4]
    return _joined(first, second, shift), _joined(second, third, shift), _joined(third, fourth, shift)


def _joined(high: Bits, low: Bits, shift: Bits) -> Bits:
    """The first word of high and low shifted left together, by less than their width."""
    width = high.graph.format.bits
    # shifting by the whole width is not defined, so a right shift by width - shift is two
    rest = (low >> 1) >> (high.graph.integer(width - 1) - shift)
    return (high << shift) | rest


def _product_modulo_1(m: Bits, a: tuple[Bits, Bits, Bits]) -> tuple[Bits, Bits, Bits]:
    """m * a of an integer and a fraction in three words, without its integer part."""
    low = m * a[2]
    middle, carry = _sum(m * a[1], m.multiply_high(a[2]))
    return m * a[0] + m.multiply_high(a[1]) + carry, middle, low


def _sum(a: Bits, b: Bits) -> tuple[Bits, Bits]:
    """(a + b modulo 2^width, the carry)."""
    total = a + b
    return total, select_bits(total < b, a.graph.integer(1), a.graph.integer(0))


def _quadrant_and_rest(a: Bits, b: Bits, c: Bits) -> Reduced:
    """The nearest quadrant of a fraction of a turn in three words, and what is left, in radians."""
    width = a.graph.format.bits
    top = width - 2
    quadrant = (a >> top) + ((a >> top - 1) & 1)
    high, low = (a << 2) | (b >> top), (b << 2) | (c >> top)
    # two's complement: the rest is negative if its highest bit is set
    sign = high.arithmetic_shift(width - 1)
    total, error = _fraction(high ^ sign, low ^ sign)
    format = a.graph.format
    first, second = words(PI / 2, 2, format)
    r = product(fast_two_sum(total, error), (first, second))
    return quadrant, _signed(r, sign & (1 << width - 1))


def _fraction(high: Bits, low: Bits) -> Words:
    """A fraction in two words of bits as two floats.  Half a word at a time is exact."""
    half = high.graph.format.bits // 2
    mask = (1 << half) - 1
    pieces = [high >> half, high & mask, low >> half, low & mask]
    total, error = pieces[0].to_real() * 2.0**-half, high.graph.constant(0.0)
    for number, piece in enumerate(pieces[1:], 2):
        total, lost = two_sum(total, piece.to_real() * 2.0 ** (-half * number))
        error = error + lost
    return total, error
