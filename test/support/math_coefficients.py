"""Derives the polynomials of vyre_opt/math_functions, and writes coefficients.py:

    PYTHONPATH=test python -m support.math_coefficients > vyre_opt/math_functions/coefficients.py

A polynomial interpolates its function at the Chebyshev nodes of the interval, in 80 digits, which is within a small
factor of the best (minimax) one.  It has the fewest terms with which the error that it causes in the result, by the
row's weight, stays below 2^-(precision + margin) with coefficients rounded to the format.  mpmath is all it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import mpmath as mp

from vyre_opt.math_functions.expression import F32, F64, Format

DIGITS = 80
MARGIN = 4


@dataclass(frozen=True)
class Row:
    """A polynomial in x for `function` on [low, high].

    `weight(x)`: the relative error of the result for an absolute error of 1 of the polynomial.  `margin`: bits by
    which that error is below 2^-precision, for each format that has the polynomial.  `highs`: the end of the interval
    for a format that has one of its own.
    """

    name: str
    what: str
    function: Callable[[Any], Any]
    low: float
    high: float
    weight: Callable[[Any], Any]
    margin: dict[str, float]
    highs: dict[str, float] = field(default_factory=dict)

    def end(self, format: Format) -> float:
        return self.highs.get(format.name, self.high)


def _row(name: str, what: str, function: Any, low: float, high: float, weight: Any, **margin: float) -> Row:
    return Row(name, what, function, low, high, weight, {"f32": MARGIN, "f64": MARGIN, **margin})


def _short(name: str, what: str, function: Any, low: float, high: float, weight: Any, margin: float) -> Row:
    """A polynomial of an approximation, which is for f32 only."""
    return Row(name, what, function, low, high, weight, {"f32": margin})


def _odd(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """(f(x) / x - 1) / x^2 as a function of z = x^2, for an odd f with f'(0) = 1."""
    return lambda z: (function(mp.sqrt(z)) / mp.sqrt(z) - 1) / z


def _artanh(z: Any) -> Any:
    """(2 artanh(s) / s - 2) / s^2 as a function of z = s^2."""
    return (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2) / z


HALF_LN2 = 0.3466 * 1.004
S2 = 0.02944  # ((sqrt 2 - 1) / (sqrt 2 + 1))^2
QUARTER_PI2 = 0.6169
TAN2 = 0.17158  # tan(pi/8)^2


def erfc_scaled(t: Any) -> Any:
    """(1 + 2a) e^(a^2) erfc(a) for t = (a - 4) / (a + 4)."""
    a = 4 * (1 + t) / (1 - t)
    return (1 + 2 * a) * mp.exp(a * a) * mp.erfc(a)


ROWS = (
    _row("EXP", "(e^r - 1 - r) / r^2, |r| <= ln 2 / 2", lambda r: (mp.expm1(r) - r) / r**2 if r else mp.mpf(1) / 2,
         -HALF_LN2, HALF_LN2, lambda r: abs(r)),
    _row("EXP2", "(2^f - 1) / f, |f| <= 1/2", lambda f: (2**f - 1) / f if f else mp.log(2), -0.5, 0.5, lambda f: abs(f)),
    _row("SINH", "(sinh(x) / x - 1) / z, z = x^2 <= 1", _odd(mp.sinh), 0, 1, lambda z: z),
    _row("LOG", "2 (log(1 + f) - f + f^2 / 2) / f^3, sqrt(1/2) <= 1 + f <= sqrt 2",
         lambda f: 2 * (mp.log1p(f) - f + f * f / 2) / f**3, -0.29290, 0.41422, lambda f: abs(f**3 / mp.log1p(f) / 2)),
    _row("LOG2_TAIL", "(((2 artanh(s) / s - 2) / z - 2/3) / z - 2/5) / z / ln 2, z = s^2, |s| <= (sqrt 2 - 1) / (sqrt 2 + 1)",
         lambda z: ((_artanh(z) - mp.mpf(2) / 3) / z - mp.mpf(2) / 5) / z / mp.log(2), 0, S2,
         lambda z: mp.log(2) * z**3 / 2, f32=14, f64=18),
    _row("SIN", "(sin(x) / x - 1) / z, z = x^2, |x| <= pi/4", _odd(mp.sin), 0, QUARTER_PI2, lambda z: z),
    _row("COS", "(cos(x) - 1 + z/2) / z^2, z = x^2, |x| <= pi/4",
         lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, 0, QUARTER_PI2, lambda z: z * z / mp.cos(mp.sqrt(z))),
    _row("ATAN", "(arctan(t) / t - 1) / z, z = t^2, |t| <= tan(pi/8)", _odd(mp.atan), 0, TAN2, lambda z: z),
    _row("ASIN", "(arcsin(x) / x - 1) / z, z = x^2 <= 1/4", _odd(mp.asin), 0, 0.25, lambda z: z),
    _row("ERF", "erf(x) / x - 1 as a polynomial in z = x^2 <= 1",
         lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1 if z else 2 / mp.sqrt(mp.pi) - 1, 0, 1, lambda z: 1),
    Row("LOG_ERFC", "-log(erfc(t)) / t - 1, 0 <= t <= 4, and 6 for f64", lambda t: -mp.log(mp.erfc(t)) / t - 1, 0, 4,
        lambda t: t * mp.erfc(t) / mp.erf(t), {"f32": 2.5, "f64": 2.5}, {"f64": 6}),
    _row("RECIPROCAL", "1/d, 1 <= d <= 2.5, as a first approximation", lambda d: 1 / d, 1, 2.5, lambda d: d,
         f32=-24 + 9, f64=-53 + 9),
    _row("ERFC", "(1 + 2a) e^(a^2) erfc(a) as a polynomial in t = (a - 4) / (a + 4), 0 <= a <= 28",
         erfc_scaled, -1, 0.75, lambda t: 1 / erfc_scaled(t), f32=3, f64=3),
    _row("INVERSE_CBRT", "m^(-1/3), 1 <= m <= 2, as a first approximation",
         lambda m: m ** (-mp.mpf(1) / 3), 1, 2, lambda m: 1, f32=-24 + 9.5, f64=-53 + 9.5),
    _short("SHORT_EXP2", "2^u, 0 <= u <= 1", lambda u: 2**u, 0, 1, lambda u: 2**-u, 2),
    _short("SHORT_LOG", "(log(1 + f) - f) / f^2, sqrt(1/2) <= 1 + f <= sqrt 2", lambda f: (mp.log1p(f) - f) / f**2,
           -0.29290, 0.41422, lambda f: abs(f * f / mp.log1p(f)), 1),
    _short("SHORT_TANH", "(tanh(x) / x - 1) / z, z = x^2 <= 0.55^2", _odd(mp.tanh), 0, 0.3026, lambda z: z, 1),
    _short("SHORT_ERF", "erf(x) / x - 1 as a polynomial in z = x^2 <= 0.93^2",
           lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, 0, 0.8649, lambda z: 1, 1),
    _short("SHORT_ERFC", "-log2(erfc(x)) / x, 0.93 <= x <= 4", lambda x: -mp.log(mp.erfc(x), 2) / x, 0.93, 4,
           lambda x: mp.log(2) * x * mp.erfc(x) / mp.erf(x), 1),
    _short("SHORT_LOG2_TAIL", "(2 artanh(q/2) - q) / (q^3 ln 2), z = q^2, sqrt(1/2) <= (2 + q) / (2 - q) <= sqrt 2",
           lambda z: (2 * mp.atanh(mp.sqrt(z) / 2) / mp.sqrt(z) - 1) / z / mp.log(2), 0, 4 * S2, lambda z: z, 7),
)  # fmt: skip


def _rounded(value: Any, format: Format) -> float:
    """An mpf rounded to the format."""
    with mp.workprec(format.precision):
        return float(+value)


def interpolated(row: Row, terms: int, format: Format) -> tuple[float, ...]:
    """The coefficients, lowest first, of the polynomial with so many terms."""
    high = row.end(format)
    middle, half = mp.mpf(high + row.low) / 2, mp.mpf(high - row.low) / 2
    nodes = [middle + half * mp.cos((2 * k + 1) * mp.pi / (2 * terms)) for k in range(terms)]
    powers = mp.matrix([[x**k for k in range(terms)] for x in nodes])
    solution = mp.lu_solve(powers, mp.matrix([row.function(x) for x in nodes]))
    return tuple(_rounded(c, format) for c in solution)


def error(row: Row, coefficients: tuple[float, ...], format: Format) -> Any:
    """The largest weighted error on a grid."""
    grid = (row.low + (row.end(format) - row.low) * (mp.mpf(2 * k + 1) / 802) for k in range(401))
    return max(abs(row.weight(x) * (_value(coefficients, x) - row.function(x))) for x in grid)


def _value(coefficients: tuple[float, ...], x: Any) -> Any:
    return mp.fsum(c * x**k for k, c in enumerate(coefficients))


def fitted(row: Row, format: Format) -> tuple[tuple[float, ...], float]:
    """The shortest polynomial whose error is small enough, and the base-2 logarithm of that error.

    Where the coefficients' own rounding decides, the last that three more terms improve.
    """
    bound = mp.mpf(2) ** -(format.precision + row.margin[format.name])
    best: tuple[Any, tuple[float, ...]] | None = None
    for terms in range(2, 40):
        coefficients = interpolated(row, terms, format)
        size = error(row, coefficients, format)
        if best is None or size < best[0] * 0.7:
            best = size, coefficients
        if best[0] <= bound or terms >= len(best[1]) + 3:
            break
    assert best is not None
    return best[1], float(mp.log(best[0], 2))


def lines() -> Iterator[str]:
    """The text of coefficients.py."""
    yield '"""Coefficients of polynomials, lowest first, by the format of their results.'
    yield ""
    yield "Generated by test/support/math_coefficients.py, which says how they are derived.  The error is that of the"
    yield "polynomial with these coefficients, relative to the result of the function for which it is made."
    yield '"""'
    yield ""
    yield "from __future__ import annotations"
    yield ""
    yield from ("__all__ = [", *(f'    "{row.name}",' for row in ROWS), "]")
    yield ""
    yield "# fmt: off"
    for row in ROWS:
        fits = {format.name: fitted(row, format) for format in (F32, F64) if format.name in row.margin}
        yield f"{row.name}: dict[str, tuple[float, ...]] = {{"
        for name, (coefficients, _) in fits.items():
            yield f'    "{name}": ('
            yield from (f"        {c!r}," for c in coefficients)
            yield "    ),"
        yield "}"
        errors = ", ".join(f"2^{size:.1f} for {name}" for name, (_, size) in fits.items())
        yield f'"""{row.what}; error {errors}."""'
        yield ""


def main() -> None:
    with mp.workdps(DIGITS):
        print("\n".join(lines()).rstrip())


if __name__ == "__main__":
    main()
