"""Calls on so many arrays as Python code without a loop, which takes half the time of one with loops.

    def run(arrays, words=(), out=None):
        a0, a1, = arrays
        r0 = m0() if out is None else out
        q0 = p0(a0); q1 = p1(a1); q2 = p2(r0)
        if not (observers or (loaded.run(stream(), q0, q1, q2, *words) if words else loaded.run(stream(), q0, q1, q2))):
            return [r0]
        return otherwise(arrays, words, [r0])

Its text depends on the numbers of arrays, so calls share it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .plans.call_plan import Loaded

__all__ = ["straight_line"]

Run = Callable[..., list[Any]]
Pairs = tuple[tuple[int, int], ...]


def straight_line(
    loaded: Loaded,
    observers: Sequence[object],
    stream: Callable[[], int],
    otherwise: Run,
    makers: Sequence[Callable[[], Any]],
    addresses: Sequence[Callable[[Any], int]],
    results: int,
    sizes: Sequence[int],
    written: Sequence[int],
    pieces: Sequence[int],
    alignment: int,
) -> Run:
    """`run(arrays, words, out)`: the results, the first of them in `out`.

    It does straight what it can: nobody observes, no array that is written, and no `out`, shares memory with another, and the plan
    runs.  Else `otherwise` gets new results.  `makers`: of the results, and of the pieces if there are any; `addresses`: of operands and what is made; `sizes`: of operands and the first result, in bytes; `written`: indices of operands.
    """
    inputs = len(addresses) - len(makers)
    pairs = tuple(
        (index, other)
        for index in written
        for other in range(inputs)
        if other != index and not (other in written and other < index)
    )
    make = _factory(inputs, len(makers), results, len(pieces), pairs)
    run: Run = make(loaded, observers, stream, otherwise, makers, addresses, sizes, pieces, alignment)
    return run


@lru_cache(maxsize=256)
def _factory(inputs: int, made: int, results: int, pieces: int, pairs: Pairs) -> Callable[..., Run]:
    def names(letter: str, count: int) -> str:
        return "".join(f"{letter}{number}, " for number in range(count))

    def unpacked(letter: str, count: int, source: str) -> str:
        return f"{names(letter, count)} = {source}" if count else "pass"

    shared = [f"q{o} < q{p} + s{p} and q{p} < q{o} + s{o}" for p, o in pairs]
    if results:
        out = " or ".join(
            [
                f"q{inputs} % alignment",
                *(f"q{k} < q{inputs} + s{inputs} and q{inputs} < q{k} + s{k}" for k in range(inputs)),
            ]
        )
        shared.append(f"out is not None and ({out})")
    owners = [*(f"a{number}" for number in range(inputs)), *(f"r{number}" for number in range(made))]
    parts = "".join(f"q{len(owners) - 1} + o{number}, " for number in range(pieces))
    pointers = f"stream(), {names('q', len(owners))}{parts}"
    # a star takes time, and so does a method that is kept in a name
    call = f"(loaded.run({pointers}*words) if words else loaded.run({pointers}))"
    lines = [
        "def factory(loaded, observers, stream, otherwise, makers, addresses, sizes, pieces, alignment):",
        f"    {unpacked('m', made, 'makers')}",
        f"    {unpacked('p', len(owners), 'addresses')}",
        f"    {unpacked('s', inputs + bool(results), 'sizes')}",
        f"    {unpacked('o', pieces, 'pieces')}",
        "    def run(arrays, words=(), out=None):",
        f"        {unpacked('a', inputs, 'arrays')}",
        *(f"        r{number} = m{number}()" for number in range(bool(results), made)),
        "        r0 = m0() if out is None else out" if results else "",
        *(f"        q{number} = p{number}({owner})" for number, owner in enumerate(owners)),
        f"        if not ({' or '.join(['observers', *shared, call])}):",
        f"            return [{names('r', results)}]",
        f"        return otherwise(arrays, words, [{names('r', results)}])",
        "    return run",
    ]
    scope: dict[str, Any] = {}
    exec(compile("\n".join(lines), __file__, "exec"), scope)
    factory: Callable[..., Run] = scope["factory"]
    return factory
